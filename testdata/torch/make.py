"""Makes the files of this folder: small models as torch.export saves them, with inputs and what torch computes.

    python make.py      with the PyTorch of bench/requirements.txt
"""

import json
import pathlib
import zipfile

import torch
import torch.nn.functional as F
from functorch.experimental.control_flow import map as map_over
from torch import nn
from torch._higher_order_ops import scan, while_loop

HERE = pathlib.Path(__file__).resolve().parent


class Attends(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.qkv, self.norm = nn.Embedding(11, 8), nn.Linear(8, 24), nn.LayerNorm(8)

    def forward(self, ids):
        x = self.table(ids)
        q, k, v = (z.view(*ids.shape, 2, 4).transpose(1, 2) for z in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape)
        return self.norm(x + y) @ self.table.weight.t()


class Picture(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.second = nn.Conv2d(2, 4, 3, 2, 1), nn.BatchNorm2d(4), nn.Conv2d(4, 4, 3, padding=1, groups=2)

    def forward(self, x):
        y = F.max_pool2d(F.silu(self.norm(self.first(x))), 2)
        return F.adaptive_avg_pool2d(self.second(y), 1).flatten(1), y.amax((2, 3))


class Turned(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 5).t())

    def forward(self, x, n):
        y = x @ self.weight
        return torch.where(y > n, y, torch.zeros_like(y)), y.shape[0] * y.sum(), (x * 2)[:, 1::2]


class States(nn.Module):
    """Updates buffers: a counter, a mean, a cache that is written at places that are given, and one by a slice."""

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.tensor(3))
        self.register_buffer("mean", torch.linspace(0, 1, 4))
        self.register_buffer("cache", torch.zeros(1, 8, 4))
        self.register_buffer("last", torch.ones(5, 4), persistent=False)
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x, at):
        self.count.add_(1)
        self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
        self.cache.index_copy_(1, at, x[None])
        self.last[:2].copy_(x[:2] * self.count)
        return x * self.mean + self.count + self.norm(x), self.cache.sum(1), self.last.sum(0)


class Branches(nn.Module):
    """Branches within a branch, which read a tensor and weights from around them, and results of two sizes."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x, choice):
        around = x.sin()

        def inner(x):
            return torch.cond(x.mean() > 0, lambda x: x + around, self.linear, (x,))

        y = torch.cond(choice, inner, lambda x: x * 2 - around, (x,))
        twice = torch.cond(choice, lambda x: torch.cat([x, x]), lambda x: x + 1, (x,))
        return y, torch.cond(x.shape[0] > 4, lambda x: x.cos(), lambda x: x.exp(), (x,)), twice.sum(0)


class Loops(nn.Module):
    """A loop over rows with a branch in its body, and a loop that data end."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4))

    def forward(self, x, most):
        def more(i, total):
            return i < x.shape[0]

        def row(i, total):
            row = x.index_select(0, i.reshape(1))
            return i + 1, torch.cond(row.sum() > 0, lambda t, r: t + r @ self.weight, lambda t, r: t - r, (total, row))

        def small(n, y):
            return y.abs().sum() < most

        def grow(n, y):
            return n + 1, y * 1.5

        rows, total = while_loop(more, row, (torch.tensor(0), torch.zeros(1, 4)))
        times, y = while_loop(small, grow, (torch.zeros(1, dtype=torch.int64), x))
        return total, rows, y, times


class Slices(nn.Module):
    """A map over rows and a scan, whose body has a branch."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x, h):
        def each(row, h):
            return row.sin() + h, row.sum()

        def step(h, row):
            h = torch.tanh(self.linear(h) + row)
            return h.clone(), torch.cond(h.sum() > 0, lambda h: h * 2, lambda h: -h, (h,))

        y, sums = map_over(each, x, h)
        last, all_ = scan(step, h, x)
        return y, sums, last, all_


class InPlace(nn.Module):
    """Operators in place: on views of views, on a buffer by a slice, on an input, and with a tensor for the result."""

    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.zeros(4, 4))
        self.register_buffer("count", torch.tensor(0))

    def forward(self, x, y):
        whole = x.clone()
        part, turned = whole[:, 1:3], whole.t()
        turned[0].mul_(2)
        part.copy_(y[:, :2])
        self.cache[1:3] = whole[:2]
        with torch.no_grad():
            self.count += 1
        left, right = whole.chunk(2, 1)
        left.relu_().add_(self.count)
        whole.diagonal()[1:].fill_(3)
        whole[whole > 2.5] = 0.5
        angle = torch.atan2(whole, x.exp(), out=torch.empty_like(x))
        return whole, part, turned * right.sum(), self.cache.sum(0), angle.unsqueeze_(0)


def main():
    torch.manual_seed(3)
    batch, sequence = torch.export.Dim("batch", min=2, max=9), torch.export.Dim("sequence", min=2, max=32)
    for name, model, args, sizes, spelled in [
        ("mlp", nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)), (torch.randn(3, 4),), ({0: batch},), False),
        ("attends", Attends(), (torch.randint(0, 11, (2, 5)),), ({0: batch, 1: sequence},), False),
        ("attends_spelled", Attends(), (torch.randint(0, 11, (2, 5)),), ({0: batch, 1: sequence},), True),
        ("picture", Picture(), (torch.randn(3, 2, 12, 12),), ({0: batch},), True),
        ("turned", Turned(), (torch.randn(4, 5), torch.tensor(0.5)), ({0: batch}, None), False),
        ("branches", Branches(), (torch.randn(3, 4), torch.tensor(True)), ({0: batch}, None), True),
        ("loops", Loops(), (torch.randn(3, 4), torch.tensor(90.0)), ({0: batch}, None), True),
        ("slices", Slices(), (torch.randn(3, 4), torch.randn(4)), ({0: batch}, None), True),
        ("states", States(), (torch.randn(3, 4), torch.tensor([4, 0, 6])), None, True),
        ("inplace", InPlace(), (torch.randn(4, 4), torch.randn(4, 2)), None, False),
    ]:
        model = model.train() if name == "states" else model.eval()
        program = torch.export.export(model, args, dynamic_shapes=sizes)
        if spelled:
            program = program.run_decompositions()
        path = HERE / f"{name}.pt2"
        torch.export.save(program, path)
        trim(path)
        steps = []
        for _ in range(3 if name in ("states", "inplace") else 1):
            outputs = model(*args)
            outputs = outputs if isinstance(outputs, tuple) else (outputs,)
            changed = dict(model.named_buffers()) if name in ("states", "inplace") else {}
            steps.append({"outputs": [tell(t) for t in outputs], "states": {k: tell(t) for k, t in changed.items()}})
        told = {"inputs": [tell(t) for t in args], "outputs": steps[0]["outputs"]}
        if name in OTHERS:
            told["others"] = [{"inputs": [tell(t) for t in a], "outputs": [tell(t) for t in model(*a)]} for a in OTHERS[name]()]
        (HERE / f"{name}.json").write_text(json.dumps({**told, "steps": steps} if len(steps) > 1 else told) + "\n")


# Other arguments, with which a model takes its other ways.
OTHERS = {
    "branches": lambda: [(torch.ones(2, 4), torch.tensor(True)), (-torch.ones(6, 4), torch.tensor(True)), (torch.randn(5, 4), torch.tensor(False))],
    "loops": lambda: [(torch.ones(2, 4), torch.tensor(3.0)), (torch.randn(9, 4), torch.tensor(1e4))],
    "slices": lambda: [(torch.randn(9, 4), torch.randn(4))],
}


def tell(tensor):
    """A tensor as JSON."""
    return {"shape": list(tensor.shape), "values": [float(v) if isinstance(v, bool) else v for v in tensor.detach().flatten().tolist()]}


def trim(path):
    """Takes what a reader leaves alone, and where this machine keeps its files, out of an archive."""
    with zipfile.ZipFile(path) as archive:
        records = [(i, archive.read(i)) for i in archive.infolist()]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for info, data in records:
            if "sample_inputs" in info.filename:
                continue
            if info.filename.endswith("models/model.json"):
                program = json.loads(data)
                for node in program["graph_module"]["graph"]["nodes"]:
                    node["metadata"] = {}
                data = json.dumps(program).encode()
            archive.writestr(zipfile.ZipInfo(info.filename), data)


if __name__ == "__main__":
    main()
