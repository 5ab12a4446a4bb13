"""Processes that share a process group over gloo."""

from __future__ import annotations

import datetime
import os
import time
from typing import Any, Callable

import pytest
import torch
import torch.distributed
import torch.multiprocessing

SECONDS = 900  # the limit of a test


def spawn(world: int, store: Any, work: Callable[..., None], *args: Any) -> None:
    """Calls work(rank, *args) in as many processes. A failed assertion in one of them reaches the caller."""
    if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
        pytest.skip("this PyTorch has no gloo")
    end = time.monotonic() + SECONDS
    context = torch.multiprocessing.spawn(_begin, (world, str(store), work, args), nprocs=world, join=False)
    try:
        while not context.join(timeout=max(0.0, end - time.monotonic())):
            assert time.monotonic() < end, f"the processes are not done after {SECONDS} seconds"
    finally:
        for process in context.processes:
            if process.is_alive():
                process.kill()
            process.join()


def _begin(rank: int, world: int, store: str, work: Callable[..., None], args: tuple[Any, ...]) -> None:
    """The main function of a process."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    timeout = datetime.timedelta(seconds=SECONDS / 2)
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world, timeout=timeout)
    try:
        work(rank, *args)
    finally:
        torch.distributed.destroy_process_group()
