"""DistributedDataParallel over gloo: two processes train a model that weir compiles, beside one that torch runs."""

from __future__ import annotations

import copy
import logging

import pytest
import torch
import torch.distributed
from torch.nn.parallel import DistributedDataParallel

from processes import spawn

WORLD = 2
STEPS = 3


class Model(torch.nn.Module):
    """A small model. One layer fills the first bucket, which has 1 MB."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(12, 520)
        self.norm = torch.nn.LayerNorm(520)
        self.second = torch.nn.Linear(520, 520)
        self.last = torch.nn.Linear(520, 5)

    def forward(self, x):
        x = torch.nn.functional.gelu(self.norm(self.first(x)))
        return self.last(x + torch.relu(self.second(x)))


class Records(logging.Handler):
    """Records keeps the messages of a logger."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record) -> None:
        self.messages.append(record.getMessage())


def step(model, optimizer, parts) -> None:
    """One step over parts of a batch: gradients are exchanged only after the last part."""
    optimizer.zero_grad()
    for x, y in parts[:-1]:
        with model.no_sync():
            torch.nn.functional.cross_entropy(model(x), y).backward()
    x, y = parts[-1]
    torch.nn.functional.cross_entropy(model(x), y).backward()


def same(got, want, what) -> None:
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-6, msg=lambda text: f"{what}: {text}")


def train(rank: int, where: str, divided: bool, parts: int, programs: int) -> None:
    """What one process does."""
    import weir._torch_program

    made = []
    compile = weir._torch_program.compile
    weir._torch_program.compile = lambda *args, **options: made.append(compile(*args, **options)) or made[-1]
    torch._dynamo.config.optimize_ddp = divided
    told = Records()
    logging.getLogger("weir").addHandler(told)
    torch.manual_seed(5)  # both processes begin with the same parameters
    plain = Model()
    other = copy.deepcopy(plain)
    eager = DistributedDataParallel(other)
    if where == "around":
        model = torch.compile(DistributedDataParallel(plain), backend="weir")
    else:
        model = DistributedDataParallel(torch.compile(plain, backend="weir"))
    ours = torch.optim.SGD(plain.parameters(), lr=0.1, momentum=0.9)
    theirs = torch.optim.SGD(other.parameters(), lr=0.1, momentum=0.9)
    torch.manual_seed(100 + rank)  # and get different data
    for _ in range(STEPS):
        data = [(torch.randn(8, 12), torch.randint(5, (8,))) for _ in range(parts)]
        step(model, ours, data)
        step(eager, theirs, data)
        for (name, p), q in zip(plain.named_parameters(), other.parameters()):
            same(p.grad, q.grad, f"the gradient of {name}")
            shared = [torch.empty_like(p.grad) for _ in range(WORLD)]
            torch.distributed.all_gather(shared, p.grad)
            assert all(torch.equal(g, shared[0]) for g in shared), f"the gradient of {name} differs between processes"
        ours.step()
        theirs.step()
    for (name, p), q in zip(plain.named_parameters(), other.parameters()):
        same(p.detach(), q.detach(), name)
    assert len(made) == programs, f"weir has compiled {len(made)} graphs"
    assert not told.messages, told.messages


CASES = [
    # where torch.compile stands, whether torch divides graphs by buckets, parts of a batch, and the graphs of the model
    ("around", False, 1, 2),
    ("around", True, 1, 4),  # so that exchanges begin early
    ("inside", False, 2, 2),
]


@pytest.mark.parametrize("where, divided, parts, programs", CASES)
def test_data_parallel(tmp_path, where, divided, parts, programs):
    spawn(WORLD, tmp_path / "store", train, where, divided, parts, programs)
