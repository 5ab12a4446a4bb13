"""Two processes that train a compiled module together, by DistributedDataParallel over gloo."""

from __future__ import annotations

import copy
import datetime

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import weir
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def model() -> nn.Module:
    torch.manual_seed(5)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 20), nn.GELU(), nn.Linear(20, 4)
    )


def train(module: nn.Module, rank: int) -> list[torch.Tensor]:
    """What three steps make of a module: the derivatives of the first, and the parameters and buffers after the last."""
    optimizer = torch.optim.SGD(module.parameters(), 0.05, momentum=0.9)
    found = []
    for step in range(3):
        torch.manual_seed(100 * step + rank)
        x, want = torch.randn(7 + rank, 3, 6, 6), torch.randn(7 + rank, 4)
        optimizer.zero_grad()
        (module(x) - want).square().mean().backward()
        if step == 0:
            found += [p.grad.clone() for p in module.parameters()]
        optimizer.step()
    return found + [v.detach() for v in (*module.parameters(), *module.buffers())]


def work(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    store = dist.FileStore(f"{folder}/store", 2)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2, timeout=datetime.timedelta(seconds=120))
    own = model()
    want = train(DistributedDataParallel(copy.deepcopy(own)), rank)
    got = train(torch.compile(DistributedDataParallel(copy.deepcopy(own)), backend="weir"), rank)
    inside = train(DistributedDataParallel(torch.compile(copy.deepcopy(own), backend="weir")), rank)
    for other in (got, inside):
        for a, b in zip(other, want):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    assert weir.usage()["current_bytes"] > 0, "weir computed nothing"
    dist.barrier()
    dist.destroy_process_group()


def test_two_processes(tmp_path):
    """Derivatives and parameters are those of the same training without a compiler, whichever wraps the other."""
    mp.spawn(work, (str(tmp_path),), nprocs=2)
