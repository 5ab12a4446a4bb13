"""Random functions of views and of operators in place, as files with and without decomposed operators."""

from __future__ import annotations

import random
import warnings
from typing import Any, Callable

import pytest
import torch
import weir

VIEWS: list[Callable[[torch.Tensor, int, int, random.Random], torch.Tensor]] = [
    lambda x, axis, n, r: x.narrow(axis, n // 3, n - n // 3),
    lambda x, axis, n, r: x[(slice(None),) * axis + (slice(r.randrange(2), None, 2),)],
    lambda x, axis, n, r: x.select(axis, r.randrange(-n, n)) if n else x,
    lambda x, axis, n, r: x.transpose(axis, r.randrange(x.dim())),
    lambda x, axis, n, r: x.permute(r.sample(range(x.dim()), x.dim())),
    lambda x, axis, n, r: x.unsqueeze(axis) if x.dim() < 4 else x.squeeze(),
    lambda x, axis, n, r: x.reshape(-1),
    lambda x, axis, n, r: x.flatten() if r.random() < 0.5 else x.contiguous(),
    lambda x, axis, n, r: r.choice(x.chunk(2, axis)),
    lambda x, axis, n, r: r.choice(x.split(2, axis)),
    lambda x, axis, n, r: r.choice(x.unbind(axis)) if n else x,
    lambda x, axis, n, r: x.diagonal(r.randrange(-1, 2), 0, 1) if x.dim() > 1 else x.detach(),
    lambda x, axis, n, r: x.expand(1, *x.shape) if x.dim() < 4 else x,
    lambda x, axis, n, r: x.unflatten(axis, (n // 2, 2)) if n and n % 2 == 0 and x.dim() < 4 else x,
    lambda x, axis, n, r: x.to(r.choice([torch.float32, torch.float64])),
]


def view(x: torch.Tensor, r: random.Random) -> torch.Tensor:
    if x.dim() == 0:
        return x.unsqueeze(0)
    axis = r.randrange(x.dim())
    return r.choice(VIEWS)(x, axis, x.shape[axis], r)


def numbers(*values: int) -> torch.Tensor:
    return torch.tensor(values)


WRITES: list[Callable[[torch.Tensor, torch.Tensor], Any]] = [
    lambda x, y: x.add_(y, alpha=2),
    lambda x, y: x.mul_(0.5),
    lambda x, y: x.relu_(),
    lambda x, y: x.zero_(),
    lambda x, y: x.fill_(1.5),
    lambda x, y: x.copy_(y),
    lambda x, y: x.clamp_(-0.5, 0.5),
    lambda x, y: x.masked_fill_(x < 0, 0.125),
    lambda x, y: x.unsqueeze_(0).squeeze_(0),
    lambda x, y: x.addcmul_(y.to(x.dtype), y.to(x.dtype), value=0.5),
    lambda x, y: x.lerp_(y.to(x.dtype), 0.3),
    lambda x, y: torch.atan2(y.to(x.dtype), y.to(x.dtype) + 1, out=x),
    lambda x, y: x.__setitem__(x > 0, -1.0),
]
ROWS: list[Callable[[torch.Tensor, torch.Tensor], Any]] = [
    lambda x, y: x.__setitem__(slice(len(x) // 2, None), 2.0),
    lambda x, y: x.__setitem__(0, y[0]),
    lambda x, y: x.__setitem__(numbers(0, len(x) - 1), 0.25),
    lambda x, y: x.index_add_(0, numbers(0, 0), torch.ones(2, *x.shape[1:], dtype=x.dtype)),
    lambda x, y: x.index_copy_(0, numbers(len(x) - 1), torch.ones(1, *x.shape[1:], dtype=x.dtype)),
    lambda x, y: x.index_fill_(0, numbers(0), 0.3),
    lambda x, y: x.scatter_(0, torch.zeros_like(x, dtype=torch.long), 0.7),
]


def write(x: torch.Tensor, y: torch.Tensor, r: random.Random) -> None:
    try:
        fits = torch.broadcast_shapes(x.shape, y.shape) == x.shape
    except RuntimeError:
        fits = False
    y = y.expand_as(x) if fits else torch.ones_like(x)
    r.choice(WRITES + ROWS if x.dim() and len(x) and x.numel() else WRITES)(x, y.clone())


class Writes(torch.nn.Module):
    """Views and writes, on copies, inputs and buffers, some of them without gradients."""

    def __init__(self, seed: int, shape: list[int]) -> None:
        super().__init__()
        self.seed = seed
        self.register_buffer("a", torch.linspace(-1, 1, torch.Size(shape).numel()).reshape(shape))
        self.register_buffer("b", self.a.cos())

    def forward(self, x, y):
        r = random.Random(self.seed)
        tensors = [x, y, self.a, self.b, x.clone(), x * 2] if self.seed % 2 else [x.clone(), y.clone(), self.a * 2]
        for _ in range(r.choice([4, 8, 14])):
            kind = r.random()
            if kind < 0.6:
                tensors.append(view(r.choice(tensors), r))
            elif kind < 0.7:
                with torch.no_grad():
                    write(r.choice(tensors), r.choice(tensors), r)
            else:
                write(r.choice(tensors), r.choice(tensors), r)
        return tuple(t * 1 for t in tensors[-6:]) + (self.a.sum(), self.b.sum())


@pytest.mark.parametrize("seed", range(60))
def test_writes(seed, tmp_path):
    r = random.Random(seed)
    shape = [r.choice([1, 2, 3, 4, 6]) for _ in range(r.choice([1, 2, 2, 3]))]
    torch.manual_seed(seed)
    model, beside, inputs = Writes(seed, shape), Writes(seed, shape), (torch.randn(shape), torch.randn(shape))
    try:
        with warnings.catch_warnings(action="ignore"):
            program = torch.export.export(model, tuple(t.clone() for t in inputs))
            torch.export.save(program.run_decompositions() if seed % 4 == 3 else program, tmp_path / "writes.pt2")
    except Exception:
        pytest.skip("torch does not export it")
    compiled = weir.compile(tmp_path / "writes.pt2")
    states = {i.name for i in compiled.inputs if i.state}
    for _ in range(2):  # buffers keep their values from run to run
        given, theirs = [t.clone() for t in inputs], [t.clone() for t in inputs]
        want = beside(*theirs)
        got = compiled(**{n: weir.update(t) if n in states else t for n, t in zip("xy", given)})
        for a, b in zip(list(got)[: len(want)], want):
            assert a.torch().dtype == b.dtype and torch.allclose(a.torch(), b, 1e-4, 1e-5, equal_nan=True)
        for a, b in zip(given, theirs):
            assert torch.allclose(a, b, 1e-4, 1e-5, equal_nan=True)


def test_training(tmp_path):
    """Batch norm in training writes to its running statistics."""
    model = torch.nn.Sequential(torch.nn.Conv1d(3, 4, 1), torch.nn.BatchNorm1d(4), torch.nn.ReLU(inplace=True)).train()
    x = torch.randn(5, 3, 7)
    with warnings.catch_warnings(action="ignore"):
        torch.export.save(torch.export.export(model, (x,)), tmp_path / "training.pt2")
    compiled = weir.compile(tmp_path / "training.pt2")
    for _ in range(2):
        assert torch.allclose(compiled(x).torch(), model(x), 1e-4, 1e-5)
    model.eval()
    state = {i.name for i in compiled.inputs if i.state}
    assert state == {"1.running_mean", "1.running_var", "1.num_batches_tracked"}


def test_shared_buffers(tmp_path):
    """Buffers that are parts of one tensor cannot be written one by one."""

    class Shares(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("a", torch.zeros(4))
            self.register_buffer("b", self.a[1:3])

        def forward(self, x):
            self.a.add_(x)
            return self.b * 1

    with warnings.catch_warnings(action="ignore"):
        torch.export.save(torch.export.export(Shares(), (torch.ones(4),)), tmp_path / "shares.pt2")
    with pytest.raises(weir.UnsupportedError, match="shares its memory"):
        weir.load(tmp_path / "shares.pt2")
