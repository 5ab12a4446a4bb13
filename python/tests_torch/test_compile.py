"""torch.compile(backend="weir") compared with torch: results, derivatives, and memory."""

from __future__ import annotations

import copy
import gc
import os
import subprocess
import sys
import threading

import pytest
import torch
import weir

from models import CASES
from test_export import close, outputs


def compiled(model, **options):
    torch._dynamo.reset()
    return torch.compile(model, backend="weir", **options)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_training(name, dynamic):
    torch.manual_seed(2)
    model, args, _ = CASES[name]
    model = copy.deepcopy(model).train(name not in ("resnet", "mobilenet"))
    got = outputs(compiled(model, dynamic=dynamic)(*args))
    seeds = [torch.randn_like(y) for y in got]
    torch.autograd.backward(got, seeds)
    found = [p.grad for p in model.parameters()]
    model.zero_grad()
    want = outputs(model(*args))
    torch.autograd.backward(want, seeds)
    for a, b in zip(got, want):
        close(a.detach(), b)
    for a, p in zip(found, model.parameters()):
        if p.grad is not None:
            close(a, p.grad, 1e-4)


@pytest.mark.parametrize("momentum", [0.1, None])
@pytest.mark.parametrize("layer, shape", [("BatchNorm1d", (6, 5)), ("BatchNorm2d", (3, 5, 4, 7)), ("BatchNorm3d", (2, 5, 2, 3, 4))])
def test_batch_norm(layer, shape, momentum, caplog):
    """Statistics of batches, and running ones, over training steps and in evaluation after them."""
    model = getattr(torch.nn, layer)(shape[1], momentum=momentum)
    torch.nn.init.normal_(model.weight)
    other = copy.deepcopy(model)
    fast = compiled(model)
    for i in range(3):
        x = torch.randn(shape) * (i + 1) + i
        a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
        got, want = fast(a), other(b)
        close(got.detach(), want.detach())
        up = torch.randn_like(want)
        got.backward(up)
        want.backward(up)
        close(a.grad, b.grad, 1e-4)
    for p, q in zip(model.parameters(), other.parameters()):
        close(p.grad, q.grad, 1e-4)
    for p, q in zip(model.buffers(), other.buffers()):
        close(p.double(), q.double())
    model.eval(), other.eval()
    close(fast(x).detach(), other(x).detach())
    assert not [r for r in caplog.records if r.name == "weir"]


def test_dynamic_sizes():
    model = torch.nn.Sequential(torch.nn.Linear(6, 9), torch.nn.GELU(), torch.nn.Linear(9, 2))
    fast = compiled(model, dynamic=True)
    for n in (2, 7, 3, 64, 11):
        x = torch.randn(n, 6, requires_grad=True)
        y = fast(x)
        close(y.detach(), model(x))
        (y.square().sum()).backward()
        got, x.grad = x.grad, None
        model(x).square().sum().backward()
        close(got, x.grad, 1e-4)


def test_sizes_that_no_tensor_has(caplog):
    """Numbers among arguments, and extents that are sums: weir computes the operators that depend on them."""
    cases = [
        (lambda x, n: x * n + n, [(torch.ones(4), n) for n in (3, 5, 7)]),
        (lambda x, n: torch.arange(n) + x.sum().long(), [(torch.ones(4), n) for n in (3, 5, 7)]),
        (lambda x: (x[1:], x[1:] * x.shape[0], x.new_full((x.shape[0] - 1,), x.shape[0])), [(torch.ones(n),) for n in (3, 5, 9)]),
    ]
    for f, calls in cases:
        fast = compiled(f, dynamic=True)
        for args in calls:
            for a, b in zip(outputs(fast(*args)), outputs(f(*args))):
                assert torch.equal(a, b)
    assert not [r for r in caplog.records if r.name == "weir"]


def test_views_and_mutations():
    def f(x, state):
        state.add_(x.sum())
        y = x.transpose(0, 1)
        return y, y * 2, x.view(-1), x[1:], x

    x, state = torch.randn(3, 4), torch.zeros(())
    got = compiled(f)(x, state)
    other = torch.zeros(())
    for a, b in zip(got, f(x, other)):
        close(a, b)
        assert a.stride() == b.stride()
    close(state, other)
    assert got[0].data_ptr() == x.data_ptr() and got[4] is x


def test_modes():
    model = torch.nn.Linear(4, 3)
    fast = compiled(model)
    x = torch.randn(5, 4)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            close(fast(x), model(x))
    with torch.no_grad():
        model.weight.mul_(2)
        close(fast(x), model(x))
    with torch.autocast("cpu", torch.bfloat16):
        close(fast(x).float(), model(x).float(), 2e-2)


def test_what_torch_runs(caplog):
    def f(x):
        return torch.sinc(torch.special.i0(x).relu() + 1) @ x.t() + torch.rand(x.shape[0], x.shape[0]) * 0

    x = torch.rand(5, 4)
    close(compiled(f)(x), f(x), 1e-4)


def test_strided_arguments():
    f = lambda x, y: (x @ y).relu() + x.sum()  # noqa: E731
    fast = compiled(f)
    base = torch.randn(8, 8)
    for x in (base[:, ::2][:4], base.t()[:4, :4], base[::2, 4:], torch.randn(4, 4)):
        close(fast(x, base[:4, :4]), f(x, base[:4, :4]), 1e-4)


@pytest.mark.parametrize("mask", [None, "causal", "bool", "float"])
@pytest.mark.parametrize("heads, shared, width", [(6, 2, 16), (4, 4, 7), (3, 1, 8)])
def test_attention(mask, heads, shared, width, caplog):
    """Heads that share keys, and each kind of mask; with a bool mask, one row sees no key."""
    length, keys = (9, 9) if mask == "causal" else (9, 13)
    q = torch.randn(2, heads, length, width, requires_grad=True)
    k, v = (torch.randn(2, shared, keys, width, requires_grad=True) for _ in range(2))
    seen = torch.rand(length, keys) > 0.3
    seen[4] = False
    masks = {None: None, "causal": None, "bool": seen, "float": torch.randn(length, keys)}

    def attend(q, k, v):
        return torch.nn.functional.scaled_dot_product_attention(
            q, k, v, masks[mask], is_causal=mask == "causal", enable_gqa=True
        )

    got, want = compiled(attend)(q, k, v), attend(q, k, v)
    close(got.detach(), want.detach())
    up = torch.randn_like(want)
    for a, b in zip(torch.autograd.grad(got, (q, k, v), up), torch.autograd.grad(want, (q, k, v), up)):
        close(a, b, 1e-4)
    assert not [r for r in caplog.records if r.name == "weir"]


def test_threads():
    """Threads that call a module at once each have their own arguments."""
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 32))
    fast = compiled(model)
    inputs = [torch.randn(16, 32) for _ in range(8)]
    want = [model(x).detach() for x in inputs]
    with torch.no_grad():
        fast(inputs[0])
    wrong = []

    def work(x, y):
        with torch.no_grad():
            for _ in range(300):
                if not torch.allclose(fast(x), y, 1e-5, 1e-5):
                    wrong.append(1)

    threads = [threading.Thread(target=work, args=pair) for pair in zip(inputs, want)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_memory_is_flat():
    """In a process of its own, because the heaps of this one still grow by earlier compilations."""
    here = os.path.dirname(os.path.abspath(__file__))
    script = f"import sys; sys.path.insert(0, {here!r}); import test_compile; test_compile.stays_flat()"
    subprocess.run([sys.executable, "-P", "-c", script], check=True)


def stays_flat():
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 64))
    fast = compiled(model)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    x = torch.randn(128, 64)

    def step():
        fast(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    def resident() -> int:
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * 4096

    for _ in range(50):
        step()
    gc.collect()
    before, held = resident(), weir.usage()
    for _ in range(1000):
        step()
    gc.collect()
    now = weir.usage()
    assert resident() - before < 8 << 20
    for key in ("exported", "foreign_bytes", "current_bytes", "handles"):
        assert now[key] <= held[key], key


def test_the_story():
    """Fresh tensors, call after call: none of them stays."""
    program = compiled(torch.add)
    for i in range(200):
        x, y = torch.rand(64, 64, 64), torch.rand(64, 64, 64)
        z = program(x, y)
        assert i % 50 or torch.equal(z, x + y)
    del x, y, z
    gc.collect()
    assert weir.usage()["exported"] == 0 and weir.usage()["foreign_bytes"] == 0


def test_held_tensors():
    """Tensors that a function makes from numbers, with masks, bags and indexed positions."""

    def function(x, table):
        y = x.clone()
        y[y > 0] = 0
        y[:, torch.tensor([0, 2])] += 1
        bags = torch.nn.functional.embedding_bag(torch.tensor([0, 3, 3, 6]), table, torch.tensor([0, 2, 2]), mode="max")
        return y.sum() + bags.pow(2).sum()

    x, table = torch.randn(4, 5), torch.randn(7, 3, requires_grad=True)
    compiled = torch.compile(function, backend="weir")
    close(compiled(x, table).detach(), function(x, table))
    want, got = (torch.autograd.grad(f(x, table), table)[0] for f in (function, compiled))
    close(got, want)


def test_divided_sizes(caplog):
    """Parts of a divided graph get the sizes that their own arguments do not have, and sizes computed in floats."""

    class Divided(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bag = torch.nn.EmbeddingBag(50, 16, mode="mean")
            self.qkv, self.out = torch.nn.Linear(16, 48), torch.nn.Linear(16, 16)

        def forward(self, ids, offsets, x):
            heads = lambda z: z.reshape(*x.shape[:2], 2, 8).transpose(1, 2)  # noqa: E731
            q, k, v = map(heads, self.qkv(x + self.bag(ids, offsets)[:, None, :]).chunk(3, -1))
            y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape)
            y = self.out(y) * torch.linalg.svdvals(y).mean()  # an operator that weir does not support
            z = torch.nn.functional.interpolate(y.transpose(1, 2), scale_factor=1.7, mode="linear")
            return z.sum(1) * (x.shape[1] / 2) + torch.nn.functional.pad(z, (0, x.shape[1] // 2)).mean(), z.shape[-1] * y.mean()

    torch.manual_seed(0)
    model = Divided()
    fast = compiled(model, dynamic=True)
    caplog.clear()
    for batch, length, count in ((3, 5, 9), (4, 7, 12), (2, 11, 20)):
        args = torch.randint(0, 50, (count,)), torch.arange(batch) * (count // batch), torch.randn(batch, length, 16)
        gradients = []
        for f in (fast, model):
            model.zero_grad()
            y, z = f(*args)
            y.sum().backward()
            gradients.append([y.detach(), z.detach()] + [p.grad.clone() for p in model.parameters()])
        for got, want in zip(*gradients):
            assert torch.allclose(got, want, 1e-3, 1e-3)
    assert not [m for m in caplog.messages if "torch runs a graph" in m or "bag" in m or "attention" in m]


@pytest.mark.parametrize(
    "turn",
    [
        lambda x: x.to(memory_format=torch.channels_last), lambda x: x.transpose(2, 3), lambda x: x[:, :, ::2],
        lambda x: x[:1].expand(2, -1, -1, -1), lambda x: x.flip(2),
    ],
)  # fmt: skip
def test_strides_and_the_ledger(turn):
    """Permuted examples are read in place, and copies of others are freed."""
    f = lambda x: torch.nn.functional.conv2d(x, torch.ones(4, 3, 3, 3)) + x.mean()  # noqa: E731
    fast = compiled(f)
    x = turn(torch.randn(2, 3, 8, 8))
    close(fast(x), f(x), 1e-4)
    before = weir.usage()["tensors_bytes"]
    for _ in range(3):
        close(fast(x), f(x), 1e-4)
    assert weir.usage()["tensors_bytes"] == before


@pytest.mark.parametrize("order", [(0, 2, 3, 1), (3, 0, 2, 1), (0, 1, 2, 3)])
def test_layouts_of_examples(order):
    """The strides of a torch tensor give a layout, as a list of its axes does."""
    text = b"""weir 1
ir @double {
  main @main(%x: f32[2, 3, 4, 5]) {
    %y: f32[2, 3, 4, 5] = add(%x, %x)
    return %y
  }
}
"""
    sizes = [(2, 3, 4, 5)[axis] for axis in order]
    x = torch.arange(120, dtype=torch.float32).reshape(sizes).permute([order.index(k) for k in range(4)])
    for layout in (x, order):
        program = weir.compile(text, layouts={"x": layout})
        assert torch.equal(torch.from_dlpack(program(x)), 2 * x)
    with pytest.raises(weir.UnsupportedError):
        weir.compile(text, layouts={"x": torch.zeros(2, 3, 4, 10)[..., ::2]})


def test_windows_are_views():
    """Windows that overlap are views of weir's results, with torch's strides; windows with gaps are not."""
    for size, step in ((2, 1), (3, 3), (1, 3)):
        f = lambda x: (x * 2).unfold(0, size, step)  # noqa: B023, E731
        x = torch.randn(11, 4)
        for dynamic in (False, True):
            got, want = compiled(f, dynamic=dynamic)(x), f(x)
            close(got, want)
            if step <= size:
                assert got.stride() == want.stride()


def test_storage_that_moves():
    """Parameters whose memory is freed after a call, and allocated elsewhere before the next, as sharded ones are."""
    model = torch.nn.Sequential(torch.nn.Linear(64, 96), torch.nn.GELU(), torch.nn.Linear(96, 8))
    fast, x, junk, places = compiled(model), torch.randn(5, 64), [], set()
    for _ in range(6):
        want = model(x).detach()
        y = fast(x)
        close(y.detach(), want)
        kept = [p.detach().clone() for p in model.parameters()]
        for p in model.parameters():  # between the forward and the backward pass too
            p.untyped_storage().resize_(0)
        junk.append([torch.full((n,), float("nan")) for n in (64 * 96, 96, 96 * 8, 8)])  # takes the old places
        with torch.no_grad():
            for p, value in zip(model.parameters(), kept):
                p.untyped_storage().resize_(value.nbytes)
                p.detach().untyped_storage().copy_(value.untyped_storage())
        places.add(next(model.parameters()).data_ptr())
        model.zero_grad()
        y.square().sum().backward()
        got = [p.grad.clone() for p in model.parameters()]
        model.zero_grad()
        model(x).square().sum().backward()
        for a, p in zip(got, model.parameters()):
            close(a, p.grad, 1e-4)
    assert len(places) > 1
