"""Graphs whose tensors have other types than torch's own shapes of them say, graphs that weir leaves to torch, and weir's objects in torch.save."""

from __future__ import annotations

import copy
import io

import pytest
import torch
import weir
import weir.array_api as xp
from torch import nn
from weir import _torch


class Norms(nn.Module):
    """A norm between layers whose results are of 16 bits under autocast."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Conv1d(4, 8, 3), norm, nn.Conv1d(8, 2, 1)

    def forward(self, x):
        y = self.first(x)
        y = self.norm(y.transpose(1, 2)).transpose(1, 2) if isinstance(self.norm, (nn.LayerNorm, nn.RMSNorm)) else self.norm(y)
        return self.last(nn.functional.gelu(y))


NORMS = {
    "layer": lambda: nn.LayerNorm(8), "layer without bias": lambda: nn.LayerNorm(8, bias=False),
    "layer without weights": lambda: nn.LayerNorm(8, elementwise_affine=False), "group": lambda: nn.GroupNorm(2, 8),
    "batch": lambda: nn.BatchNorm1d(8), "batch without weights": lambda: nn.BatchNorm1d(8, affine=False),
    "batch without statistics": lambda: nn.BatchNorm1d(8, track_running_stats=False),
    "instance": lambda: nn.InstanceNorm1d(8, affine=True), "instance without weights": lambda: nn.InstanceNorm1d(8),
    "rms": lambda: nn.RMSNorm(8),
}  # fmt: skip


def near(a: torch.Tensor, b: torch.Tensor, what: str, tolerance: float) -> None:
    assert a.dtype == b.dtype and a.shape == b.shape, what
    a, b = a.detach().float(), b.detach().float()
    assert torch.allclose(a, b, tolerance, tolerance * float(b.abs().max())), (what, float((a - b).abs().max()))


@pytest.mark.parametrize("place, name", list(enumerate(NORMS)))
def test_norms_under_autocast(place, name, caplog):
    """Norms of 16-bit tensors with weights in f32 are computed by weir, with the types and results of torch."""
    torch.manual_seed(0)
    _torch._told.clear()
    torch._dynamo.reset()
    model = Norms(NORMS[name]())
    for p in model.norm.parameters():
        nn.init.normal_(p)
    other = copy.deepcopy(model)
    fast = torch.compile(model, backend="weir")
    dtype = (torch.bfloat16, torch.float16)[place % 2]
    tolerance = 3e-2 if dtype == torch.bfloat16 else 4e-3
    for training in (True, False):
        model.train(training)
        other.train(training)
        x = torch.randn(6, 4, 12)
        with torch.autocast("cpu", dtype=dtype):
            got, want = fast(x), other(x)
        near(got, want, "result", tolerance)
        up = torch.randn_like(want)
        got.backward(up)
        want.backward(up)
        for (n, p), q in zip(model.named_parameters(), other.parameters()):
            near(p.grad, q.grad, n, tolerance) if n != "first.bias" else None  # which a norm takes away
        for (n, p), q in zip(model.named_buffers(), other.buffers()):
            near(p, q, n, tolerance)
    assert not [m for m in caplog.messages if "torch runs" in m]


@torch.library.custom_op("weir_tests::wide", mutates_args=())
def wide(x: torch.Tensor) -> torch.Tensor:
    return x.float() * 2


@wide.register_fake
def _(x):
    return torch.empty_like(x)  # in the type of x, which is not that of the result


def test_types_that_torch_does_not_tell():
    """A kernel's result has another type than its description: it is converted, and never read as the described type."""
    x = torch.randn(64, dtype=torch.bfloat16)
    torch._dynamo.reset()
    got = torch.compile(lambda x: torch.sin(wide(torch.cos(x))) + 1, backend="weir")(x)
    near(got, torch.sin((torch.cos(x).float() * 2).bfloat16()) + 1, "result", 2e-2)


def test_any_error_leaves_the_graph_to_torch(caplog, monkeypatch):
    """A nested tensor's sizes, an exception of another library, and a bug of weir: torch runs the graph, and says so once."""
    _torch._told.clear()
    torch._dynamo.reset()
    t = torch.nested.nested_tensor([torch.randn(2, 3), torch.randn(4, 3)], layout=torch.jagged)
    f = lambda t: (t * 2).values().sum()  # noqa: E731
    assert torch.allclose(torch.compile(f, backend="weir")(t), f(t))
    for error in (AttributeError("first\nsecond"), weir.InternalError("a bug"), RecursionError("deep"), MemoryError("full")):

        def fail(*_, error=error):
            raise error

        monkeypatch.setattr(_torch, "Compiled", fail)
        for _ in range(2):
            torch._dynamo.reset()
            caplog.clear()
            x = torch.ones(3, requires_grad=True)
            y = torch.compile(lambda x: (x * x).sum(), backend="weir")(x)
            y.backward()
            assert y.item() == 3 and x.grad.tolist() == [2, 2, 2]
            told = [m for m in caplog.messages if "torch runs a graph" in m]
            assert len(told) == (1 if _ == 0 else 0) and (_ or str(error).split("\n")[0] in told[0]) and "second" not in str(told)

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(_torch, "Compiled", interrupt)
    torch._dynamo.reset()
    with pytest.raises(KeyboardInterrupt):
        torch.compile(lambda x: x + x, backend="weir")(torch.ones(3))


def test_save():
    """torch.save writes a tensor's elements, also within a module's state; a program's pickle says what to do."""
    t = xp.asarray([1.0, 2.0, 3.0])
    file = io.BytesIO()
    torch.save({"t": t, "list": [t]}, file)
    file.seek(0)
    found = torch.load(file, weights_only=False)
    assert found["t"].tolist() == [1, 2, 3] and found["list"][0] is found["t"] and found["t"].data_ptr != t.data_ptr

    class Holder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tensor, self.program = t, weir.compile(TEXT)

    holder = Holder()
    other = copy.deepcopy(holder)
    assert other.program is holder.program and other.tensor is not t and other.tensor.tolist() == [1, 2, 3]
    del other
    assert holder.program(torch.ones(3)).tolist() == [2, 2, 2] and not t.closed
    with pytest.raises(TypeError, match="program.save"):
        torch.save({"program": holder.program}, io.BytesIO())


TEXT = b"""weir 1
ir @double {
  main @main(%x: f32[3]) {
    %y: f32[3] = add(%x, %x)
    return %y
  }
}
"""


class Views(nn.Module):
    def __init__(self, function) -> None:
        super().__init__()
        self.linear, self.function = nn.Linear(6, 6), function

    def forward(self, x):
        return self.function(x, self.linear(x))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: (y.mT, y[:, 1:4]), lambda x, y: (y[:, 1:4], y.as_strided((2, 3), (6, 1), 7)),
        lambda x, y: (y[:, 2], y[1:], y[..., ::2], y), lambda x, y: (y.diagonal(dim1=1, dim2=2), y.mT, *y.split(2, 1)),
        lambda x, y: (x.unbind(1)[2], x.as_strided((2, 3), (6, 1), 4), x[1:, 2:4], x.mT, y.unfold(1, 2, 1), y),
    ],
)  # fmt: skip
def test_views_of_one_result(function, dynamic):
    """Several results that view one tensor: torch makes them anew from it, by their strides and offsets."""
    model = Views(function)
    torch._dynamo.reset()
    fast = torch.compile(model, backend="weir", dynamic=dynamic)
    for batch in (3, 5):
        x = torch.randn(batch, 6, 6)
        got, want = fast(x), model(x)
        for a, b in zip(got, want):
            assert torch.allclose(a, b, 1e-4, 1e-4)
        model.zero_grad()
        sum(a.sum() * (i + 1) for i, a in enumerate(got)).backward()
        found = model.linear.weight.grad.clone() if model.linear.weight.grad is not None else None
        model.zero_grad()
        sum(b.sum() * (i + 1) for i, b in enumerate(want)).backward()
        assert torch.allclose(found, model.linear.weight.grad, 1e-3, 1e-3)
