"""Makes the files of this folder: small models as torch.export saves them, with inputs and what torch computes.

    python make.py      with the PyTorch of bench/requirements.txt
"""

import json
import pathlib
import zipfile

import torch
import torch.nn.functional as F
from torch import nn

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


def main():
    torch.manual_seed(3)
    batch, sequence = torch.export.Dim("batch", min=2, max=9), torch.export.Dim("sequence", min=2, max=32)
    for name, model, args, sizes, spelled in [
        ("mlp", nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)), (torch.randn(3, 4),), ({0: batch},), False),
        ("attends", Attends(), (torch.randint(0, 11, (2, 5)),), ({0: batch, 1: sequence},), False),
        ("attends_spelled", Attends(), (torch.randint(0, 11, (2, 5)),), ({0: batch, 1: sequence},), True),
        ("picture", Picture(), (torch.randn(3, 2, 12, 12),), ({0: batch},), True),
        ("turned", Turned(), (torch.randn(4, 5), torch.tensor(0.5)), ({0: batch}, None), False),
        ("states", States(), (torch.randn(3, 4), torch.tensor([4, 0, 6])), None, True),
    ]:
        model = model.train() if name == "states" else model.eval()
        program = torch.export.export(model, args, dynamic_shapes=sizes)
        if spelled:
            program = program.run_decompositions()
        path = HERE / f"{name}.pt2"
        torch.export.save(program, path)
        trim(path)
        steps = []
        for _ in range(3 if name == "states" else 1):
            outputs = model(*args)
            outputs = outputs if isinstance(outputs, tuple) else (outputs,)
            changed = dict(model.named_buffers()) if name == "states" else {}
            steps.append({"outputs": [tell(t) for t in outputs], "states": {k: tell(t) for k, t in changed.items()}})
        told = {"inputs": [tell(t) for t in args], "outputs": steps[0]["outputs"]}
        (HERE / f"{name}.json").write_text(json.dumps({**told, "steps": steps} if len(steps) > 1 else told) + "\n")


def tell(tensor):
    """A tensor as JSON."""
    return {"shape": list(tensor.shape), "values": tensor.detach().flatten().tolist()}


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
