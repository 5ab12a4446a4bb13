"""Small modules of unusual kinds, compiled beside torch: results, which memory they share, writes, buffers and derivatives."""

from __future__ import annotations

import collections
import copy
from typing import Any, Callable

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils import _pytree as pytree

Pair = collections.namedtuple("Pair", "first second")


class Of(nn.Module):
    """A module of a function of its weight and its arguments."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.weight, self.function = nn.Parameter(torch.randn(4, 4)), function

    def forward(self, *args):
        return self.function(self.weight, *args)


class Average(nn.Module):
    """A running average and a counter, which is returned too."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("average", torch.zeros(4))
        self.register_buffer("count", torch.tensor(0))

    def forward(self, x):
        y = self.linear(x)
        self.count += 1
        with torch.no_grad():
            self.average.mul_(0.9).add_(y.mean(0), alpha=0.1)
        return y - self.average, self.count


class Ring(nn.Module):
    """A ring of the last rows."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(8, 4))
        self.register_buffer("next", torch.zeros(1, dtype=torch.long))

    def forward(self, x):
        self.rows[(self.next + torch.arange(len(x))) % 8] = x.detach()
        self.next[0] = (self.next[0] + len(x)) % 8
        return x @ self.rows.T


class Norms(nn.Module):
    """A norm that is applied twice, and one that is frozen in training."""

    def __init__(self) -> None:
        super().__init__()
        self.twice, self.frozen = nn.BatchNorm1d(4), nn.BatchNorm1d(4)

    def forward(self, x):
        self.frozen.eval()
        return self.frozen(self.twice(self.twice(x) * 2)), self.twice.running_mean


class Embeddings(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Embedding(9, 4, padding_idx=2, max_norm=1.0)
        self.bag = nn.EmbeddingBag(9, 4, mode="mean", padding_idx=1)
        self.largest = nn.EmbeddingBag(9, 4, mode="max")

    def forward(self, i):
        starts = torch.arange(0, len(i), 2)
        return self.rows(i), self.bag(i, starts), self.largest(i, starts)


class Hooked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.fixed = nn.Linear(4, 4), nn.Linear(4, 4).requires_grad_(False)
        self.linear.register_forward_hook(lambda module, args, y: y * 2)
        self.linear.register_full_backward_hook(lambda module, given, up: (given[0] * 3,))

    def forward(self, x):
        y = self.fixed(self.linear(x))
        y.register_hook(lambda g: g * 5)
        return y.sin()


class Square(torch.autograd.Function):
    """A function with two results, of which the second has no derivative."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x * x * factor, x > 0

    @staticmethod
    def backward(ctx, g, _):
        return g * ctx.saved_tensors[0] * ctx.factor * 7, None


def writes(w, x):
    y = x @ w
    y[1:3].add_(1)
    y[:, ::2] *= 3
    y[0] = y[1]
    y.t()[2].zero_()
    y.diagonal().mul_(2)
    return y


def updated(w, x):
    x.add_(1)
    x[0].mul_(2)
    column = x[:, 1]
    column.sub_(x.t()[0])
    return x, column


def put(w, x):
    i = torch.tensor([2, 0, 2, -1])[: len(x)]
    y = torch.zeros(6, 4).index_put((i,), x[:4], accumulate=True)
    z = x.clone()
    z[z > 0.5] = 0.25
    z[i % len(x), 1:3] = 7.0
    return y, z, x[i, :2], x[:, [0, 2]], x[None, ..., i[:2]]


def strided(w, x):
    """Reads of the memory between a view's elements."""
    y = x @ w
    return y[:, ::2].as_strided((3, 4), (4, 1)) + 1, (y * 2)[1:, 1:3].as_strided((2, 3), (4, 1)).sin(), y.exp().sum()


def drawn(w, x):
    """Random numbers of several operators, the first of which depends on the argument: torch's, in torch's order."""
    y, z = F.dropout(x @ w, 0.4), torch.rand_like(x)
    return y, z, F.dropout(x.sin().cos(), 0.5) * z, torch.bernoulli(torch.full_like(x, 0.3)), torch.randperm(7)


def constants(w, x):
    y = torch.tensor([1.0, 2.0])
    return y, x * 2, torch.full((2,), 3.0), torch.zeros(0, 4)


def rows(count: int) -> tuple[torch.Tensor, ...]:
    return (torch.randn(count, 4),)


DTYPES = (torch.float32, torch.int64, torch.float64, torch.bool)
# The modules' functions and arguments, for a number of rows.
KINDS: dict[str, tuple[Any, Callable[[int], tuple[Any, ...]]]] = {
    "reversed": (lambda w, x: (x.flip(-1) @ w, x.flip(0, 1)[::2], x.roll(1, 0)), rows),
    "repeated": (lambda w, x: (x @ w, x.sum(0), x.cumsum(1), x[:, :1].expand(-1, 7)), lambda n: (torch.randn(1, 4).expand(n, 4),)),
    "cut": (lambda w, x: (x @ w, x[1:], x.t()), lambda n: (torch.randn(n + 3, 8)[2:-1, 1::2],)),
    "turned": (lambda w, x: (x @ w, x.mT, x.reshape(-1)), lambda n: (torch.randn(4, n).T,)),
    "negated": (lambda w, x: (x @ w, x * 2 + torch.arange(4), x.sum(0)), lambda n: (torch.complex(*rows(n), *rows(n)).conj().imag,)),
    "scalars": (lambda w, x, y: (x * y + w[0, 0], x.expand(3), x.view(1, 1)), lambda n: (torch.tensor(0.5 * n), torch.tensor(2.0))),
    "nothing": (
        lambda w, x: (x @ w, x.sum(0), torch.cat([x, x]), x.prod(), x.reshape(-1, 2, 2)), lambda n: rows(0 if n == 3 else n),
    ),
    "without features": (lambda w, x, y: (x @ y, F.softmax(x, -1), x.sum(1)), lambda n: (torch.randn(n, 0), torch.randn(0, 3))),
    "integers": (lambda w, x: (x > 0, x.argmax(-1), x.long(), (x > 0).sum(), x.isfinite().all(), x.to(torch.int8)), rows),
    "the same twice": (lambda w, x: (lambda y: (y, y, x, x, y.view(-1), y[0]))(x @ w), rows),
    "inputs": (lambda w, x, y: (x, y, x.view(-1), x + y, y.detach()), lambda n: rows(n) + rows(n)),
    "nones": (lambda w, x, y: (None, x @ w, y, 3, "text", 2.5, True), lambda n: (*rows(n), None)),
    "structures": (
        lambda w, d: {"a": d["x"] @ w, "b": [d["y"][0] + 1, (d["y"][1],)], "c": Pair(d["x"].sum(), d["x"])},
        lambda n: ({"x": torch.randn(n, 4), "y": [torch.randn(n), torch.randn(2)]},),
    ),
    "strides": (lambda w, x: (x.as_strided((2, 2), (3, 1), 1) * 2, torch.as_strided(x @ w, (2, 3), (1, 2))), rows),
    "ranks": (lambda w, x: (x.sum(-1), x * w.sum(), x.flatten()), lambda n: (torch.randn((2,) * (n // 2)),)),
    "types": (lambda w, x: (x + 1, x.sum(), x.float() @ w), lambda n: (torch.ones(n, 4).to(DTYPES[n % 4]),)),
    "two sizes": (
        lambda w, x, y: (x @ w @ y.mT, torch.cat([x, y]), x[:, None] + y[None], torch.arange(len(x) * len(y)).view(len(y), -1)),
        lambda n: rows(n) + rows(2 * n + 1),
    ),
    "writes": (writes, rows), "updated": (updated, rows), "strided": (strided, rows), "put": (put, rows), "drawn": (drawn, rows), "constants": (constants, rows),
    "masks": (
        lambda w, x: (x.masked_scatter(x > 0, x.flip(0)), x.masked_fill(x > 0, -1e9), torch.where(x > 0, x @ w, 1.0)), rows,
    ),
    "scatters": (
        lambda w, x: tuple((x @ w).scatter_reduce(0, x.argsort(0) // 2, x, r) for r in ("sum", "mean", "amax", "amin")), rows,
    ),
    "signs": (lambda w, x: (x @ w) * torch.sign(torch.where(x > 0, x, torch.nan)), rows),
    "a function of its own": (lambda w, x: Square.apply(x @ w, 2.0), rows),
    "derivatives inside": (lambda w, x: torch.func.vmap(torch.func.grad(lambda v: ((v @ w) ** 2).sum()))(x), rows),
    "a checkpoint": (
        lambda w, x: torch.utils.checkpoint.checkpoint(lambda y: (y @ w).tanh(), x, use_reentrant=False) @ w, rows,
    ),
    "average": (Average, rows), "ring": (Ring, rows), "norms": (Norms, lambda n: (torch.randn(n, 4, 6),)), "hooked": (Hooked, rows),
    "embeddings": (Embeddings, lambda n: (torch.randint(0, 9, (2 * n,)),)),
}  # fmt: skip


def same(got: Any, want: Any, what: str) -> None:
    if not isinstance(want, torch.Tensor):
        assert type(got) is type(want) and got == want, what
        return
    assert got.dtype == want.dtype and got.shape == want.shape, (what, got.dtype, got.shape)
    assert got.requires_grad == want.requires_grad, what
    torch.testing.assert_close(got.detach(), want.detach(), rtol=1e-3, atol=1e-4, msg=lambda text: f"{what}: {text}")


def shared(tensors: list[Any]) -> list[tuple[int, int, bool, int]]:
    """The pairs of tensors that share memory, whether they are one object, and the distance of their first elements."""
    found = []
    for i, a in enumerate(tensors):
        for j, b in enumerate(tensors[:i]):
            if not (isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and a.numel() and b.numel()):
                continue
            if a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr():
                found.append((i, j, a is b, a.storage_offset() - b.storage_offset()))
    return found


def called(module: Any, args: Any) -> tuple[list[Any], list[Any]]:
    """The arguments as a call left them, and its results."""
    torch.manual_seed(1)
    args = [t * 1 if isinstance(t, torch.Tensor) and t.requires_grad and t.is_contiguous() else t for t in args]
    y = module(*args)
    return pytree.tree_leaves(args), pytree.tree_leaves(y)


@pytest.mark.parametrize("name", KINDS)
def test_kinds(name):
    torch.manual_seed(0)
    torch._dynamo.reset()
    make, arguments = KINDS[name]
    module = make() if isinstance(make, type) else Of(make)
    other = copy.deepcopy(module)
    fast = torch.compile(module, backend="weir")
    for count in (3, 5):
        ours, theirs = (torch.manual_seed(count) and arguments(count) for _ in range(2))
        for t in pytree.tree_leaves((ours, theirs)):
            if isinstance(t, torch.Tensor) and t.is_floating_point():
                t.requires_grad_()
        (left, got), (right, want) = called(fast, ours), called(other, theirs)
        assert len(got) == len(want)
        for i, (a, b) in enumerate(zip(left + got, right + want)):
            same(a, b, f"{i}, {count} rows")
        assert shared(left + got) == shared(right + want)
        ends = [(a, b) for a, b in zip(got, want) if isinstance(b, torch.Tensor) and b.requires_grad]
        seeds = [torch.randn_like(b) for _, b in ends]
        if ends:
            torch.autograd.backward([b for _, b in ends], seeds)
            torch.autograd.backward([a for a, _ in ends], seeds)
        for (n, p), q in zip(module.named_parameters(), other.parameters()):
            same(p, q, n)
            same(p.grad, q.grad, f"the derivative of {n}")
        for a, b in zip(pytree.tree_leaves(ours), pytree.tree_leaves(theirs)):
            if isinstance(b, torch.Tensor) and b.requires_grad:
                same(a.grad, b.grad, "the derivative of an argument")
        for (n, p), q in zip(module.named_buffers(), other.buffers()):
            same(p, q, n)
