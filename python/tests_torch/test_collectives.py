"""Graphs with collectives, and training over torch.distributed, in two and four processes over gloo."""

from __future__ import annotations

import gc
import os
import pathlib
import re
import time
import traceback

import pytest
import torch
import torch.distributed as dist
import weir
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn.parallel import DistributedDataParallel

from processes import spawn

STEPS = 200
DOCUMENT = pathlib.Path(__file__).resolve().parent.parent.parent / "docs" / "scale.md"


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = torch.nn.LayerNorm(16), torch.nn.Linear(16, 32), torch.nn.Linear(32, 16)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


def blocks() -> torch.nn.Sequential:
    torch.manual_seed(3)
    return torch.nn.Sequential(Block(), Block())


def made() -> list:
    """The graphs of this case."""
    return [graph for graph in weir.graphs() if graph not in EARLIER]


EARLIER: list = []


class Watch:
    """Samples the memory of weir, and of collectives' results in torch's memory, after each program and each collective."""

    def __init__(self) -> None:
        import weir._torch_collectives as collectives
        import weir._torch_program as program

        self.most, self.flying, self.taken = 0, [], []
        self.began = weir.usage()["current_bytes"]
        self.real = [(program._Call, "run"), (program._Lent, "taken"), (collectives.Staged, "_target")]
        self.real = [(owner, name, getattr(owner, name)) for owner, name in self.real]
        run, taken, target = (real for _, _, real in self.real)

        def runs(call, *args):
            results = run(call, *args)
            self.sample()
            return results

        def takes(lent, args):
            self.taken.append(taken(lent, args))
            return self.taken[-1]

        def targets(staged, node):
            begin = target(staged, node)

            def begun(*args, **named):
                result = begin(*args, **named)
                if isinstance(result, torch.Tensor) and "c10d" in str(node.target):
                    storage = result.untyped_storage()
                    known = {a.untyped_storage()._cdata for a in args if isinstance(a, torch.Tensor)}
                    if storage._cdata not in known:
                        self.flying.append((StorageWeakRef(storage), storage.nbytes()))
                    end = time.monotonic() + 1
                    while "wait_tensor" in str(node.target) and result._use_count() > 1 and time.monotonic() < end:
                        time.sleep(0)  # gloo's thread still holds what it has exchanged
                self.sample()
                return result

            return begun

        for (owner, name, _), patched in zip(self.real, (runs, takes, targets)):
            setattr(owner, name, patched)

    def sample(self) -> None:
        self.flying = [(ref, size) for ref, size in self.flying if not ref.expired()]
        held = weir.usage()["current_bytes"] - self.began + sum(size for _, size in self.flying)
        self.most = max(self.most, held)

    def end(self) -> None:
        for owner, name, real in self.real:
            setattr(owner, name, real)


def names(profile) -> list[str]:
    """The collectives and the programs of a profile, in the order in which they began."""
    events = [e for e in profile.events() if e.name == "program" or e.name.startswith("_c10d_functional::")]
    return [e.name.split("::")[-1] for e in sorted(events, key=lambda e: e.time_range.start)]


def traced(f, *args):
    """A call's results, and its steps."""
    import weir._torch_program as program

    real = program._Call.run

    def run(call, *args):
        with torch.profiler.record_function("program"):
            return real(call, *args)

    program._Call.run = run
    try:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            results = f(*args)
    finally:
        program._Call.run = real
    return results, names(profile)


def alike(got, want, tolerance=1e-5) -> None:
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def order() -> None:
    """Two collectives in flight are awaited in another order than begun, with programs in between."""
    ops, group, world = torch.ops._c10d_functional, dist.group.WORLD.group_name, dist.get_world_size()

    def f(x, y):
        a = ops.all_reduce(x * 2, "sum", group)
        b = ops.all_gather_into_tensor(y + 1, world, group)
        z = x.sin() + 1  # while both are in flight
        b = ops.wait_tensor(b)
        z = z * b.sum()
        return ops.wait_tensor(a) + z, b * 2

    x, y = torch.randn(6, 4), torch.randn(3)
    fast = torch.compile(f, backend="weir")
    fast(x, y)
    got, steps = traced(fast, x, y)
    alike(got, f(x, y))
    assert steps == [
        "program", "all_reduce_", "program", "all_gather_into_tensor", "program", "wait_tensor", "program", "wait_tensor", "program"
    ], steps  # fmt: skip
    (graph,) = made()
    assert graph.collectives == tuple(
        f"_c10d_functional.{name}.default" for name in ("all_reduce", "all_gather_into_tensor", "wait_tensor", "wait_tensor")
    )
    assert not graph.operators and graph.memory.flight() == 3 * 4 * world  # the all_reduce has a program's memory


def written_after() -> None:
    """Arguments of collectives that are written to after the start, small ones and such that programs may free: what is
    exchanged is their old value. (Eager PyTorch would exchange either.)
    """
    ops, group, world = torch.ops._c10d_functional, dist.group.WORLD.group_name, dist.get_world_size()

    def f(x, add, multiply):
        y = x * 2
        a, b = ops.all_gather_into_tensor(y, world, group), ops.all_reduce(y, "sum", group)
        c = ops.all_reduce(x, "sum", group)
        y = add(y, 1)
        x = multiply(x, 3)
        z = y.exp() * x
        return ops.wait_tensor(a) + 0, ops.wait_tensor(b) + y, ops.wait_tensor(c), z

    for size in (5, 1 << 16):
        x = torch.randn(size)
        want = f(x, torch.add, torch.mul)
        tripled = x * 3
        alike(torch.compile(lambda x: f(x, torch.Tensor.add_, torch.Tensor.mul_), backend="weir")(x), want)
        alike([x], [tripled])


def in_place() -> None:
    """torch.distributed's own functions: all_reduce writes into its argument, and no copy is made."""

    def f(x):
        y = x * 2
        dist.all_reduce(y)
        dist.all_reduce(x)
        return y + 1, x * 1

    x = torch.randn(4, 3)
    other = x.clone()
    fast = torch.compile(f, backend="weir")
    alike(fast(x), f(other))
    alike([x], [other])
    (graph,) = made()
    assert graph.memory.flight() == x.nbytes  # of x, which is the caller's


def same_sums() -> None:
    """Sums of equal tensors, and of views: none is added twice."""
    ops, group = torch.ops._c10d_functional, dist.group.WORLD.group_name

    def f(x):
        a, b, c = (ops.all_reduce(y, "sum", group) for y in (x + 1, x + 1, (x * 2).t()))
        d = ops.all_reduce(x.view(-1), "sum", group)
        e = ops.all_reduce(ops.wait_tensor(a), "sum", group)
        several = ops.all_reduce_coalesced([x + 2, x * 3], "sum", group)
        return [ops.wait_tensor(t) + 0 for t in (a, b, c, d, e, *several)]

    x = torch.randn(4, 3)
    alike(torch.compile(f, backend="weir")(x), f(x))


def free_on_the_way() -> None:
    """A large result of a collective is freed by the program that reads it last."""
    ops, group, world = torch.ops._c10d_functional, dist.group.WORLD.group_name, dist.get_world_size()

    def f(x):
        a = ops.wait_tensor(ops.all_gather_into_tensor(x + 1, world, group))
        return torch.relu(a).sum() + (a * a).mean()

    x = torch.randn(1 << 15)
    fast = torch.compile(f, backend="weir")
    watch = Watch()
    for _ in range(20):
        alike([fast(x)], [f(x)], 1e-4)
    watch.end()
    (graph,) = made()
    assert any(watch.taken)  # gloo's thread may still hold the result of some
    assert not [ref for ref, _ in watch.flying if not ref.expired()]
    assert graph.memory.flight() == world * x.nbytes and watch.most <= graph.memory.peak()


def dynamic() -> None:
    """One graph for all sizes, whose certificate is a formula of them."""
    ops, group, world = torch.ops._c10d_functional, dist.group.WORLD.group_name, dist.get_world_size()

    def f(x):
        a = ops.reduce_scatter_tensor(x * 2, "sum", world, group)
        z = x.sin() * x.shape[0]
        a = ops.wait_tensor(a)
        b = ops.all_gather_into_tensor(a + 1, world, group)
        return z + ops.wait_tensor(b)

    fast, most, watch = torch.compile(f, backend="weir"), [], Watch()
    for rows in (2, 3, 7):
        x = torch.randn(rows * world, 5)
        torch._dynamo.mark_dynamic(x, 0)
        watch.most = 0
        alike([fast(x)], [f(x)])
        most.append(watch.most)
    watch.end()
    (graph,) = made()
    (size,) = {d.name for p in graph.programs for d in p.dims}
    for rows, seen in zip((2, 3, 7), most):
        peak = graph.memory.peak(**{size: rows * world})
        names = {"max": max, "min": min, "ceildiv": lambda a, b: -(-a // b), size: rows * world}
        assert seen == peak == eval(graph.memory.formula, names), (seen, peak, graph.memory)
        assert graph.memory.flight(**{size: rows * world}) == 20 * rows * world  # the first is gone when the second starts
    with pytest.raises(weir.InputError, match=size):
        graph.memory.flight()


def decided() -> None:
    """Sizes computed in floats, on both sides of a collective, and sizes that data decide, which leave a graph to torch."""
    ops, group = torch.ops._c10d_functional, dist.group.WORLD.group_name

    def rounded(x):
        larger = lambda x, by: torch.nn.functional.interpolate(x[None, None], scale_factor=by, mode="nearest")  # noqa: E731
        a = ops.all_reduce(larger(x, 1.7) * 2, "sum", group)
        return larger(x * 2, 1.3) + x.shape[0], ops.wait_tensor(a) + 1

    def found(x):
        return ops.wait_tensor(ops.all_reduce(torch.nonzero(x).float() * 2, "sum", group)) + 1, x * 2

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        fast = [torch.compile(f, backend="weir", dynamic=True) for f in (rounded, found)]
        for size in (5, 8, 11):
            x = torch.arange(size) % 3 * 1.0
            for got, f in zip(fast, (rounded, found)):
                alike(got(x), f(x))
    memory = made()[0].memory
    (size,) = {d.name for g in made() for p in g.programs for d in p.dims if d.name.startswith("s")}
    assert memory.peak(**{size: 5}) < memory.peak(**{size: 11})


def unsupported() -> None:
    """Operators that weir does not support stay between the same collectives."""

    def f(x):
        y = torch.special.i0(x * 2) + torch.rand(x.shape) * 0
        dist.all_reduce(y)
        return torch.special.i0(y.relu() + 1).sum() + y * 2

    torch.manual_seed(1)
    x = torch.rand(4, 3)
    alike([torch.compile(f, backend="weir")(x)], [f(x)], 1e-4)
    (graph,) = made()
    assert {"i0", "rand"} <= {name.split(".")[1] for name in graph.operators} and graph.programs


def document() -> None:
    """The program of docs/scale.md runs."""
    (text,) = re.findall(r"^```python\n(.*?)^```", DOCUMENT.read_text().split("## Training over torch.distributed")[1], re.M | re.S)
    exec(compile(text, str(DOCUMENT), "exec"), {"__name__": "document"})
    assert [graph.kind for graph in made()] == ["forward", "backward"]


def data_parallel(model, compiled):
    model = DistributedDataParallel(model)
    return torch.compile(model, backend="weir") if compiled else model


def sharded(model, compiled):
    for block in model:
        fully_shard(block)
    fully_shard(model)
    return torch.compile(model, backend="weir") if compiled else model


def sharded_blocks(model, compiled):
    for i, block in enumerate(model):
        if compiled:
            model[i] = torch.compile(block, backend="weir")
        fully_shard(model[i])
    fully_shard(model)
    return model


def tensors(model, compiled):
    plan = {f"{i}.{name}": how for i in range(2) for name, how in (("up", ColwiseParallel()), ("down", RowwiseParallel()))}
    parallelize_module(model, init_device_mesh("cpu", (dist.get_world_size(),)), plan)
    return torch.compile(model, backend="weir") if compiled else model


def sequences(model, compiled):
    rows = {"up": ColwiseParallel(input_layouts=Shard(0)), "down": RowwiseParallel(output_layouts=Shard(0))}
    plan = {f"{i}.{name}": how for i in range(2) for name, how in rows.items()}
    parallelize_module(model, init_device_mesh("cpu", (dist.get_world_size(),)), plan)
    return torch.compile(model, backend="weir") if compiled else model


def losses(model, rank: int, each=lambda step: None, steps: int = STEPS, retained: bool = False) -> list[float]:
    """The losses of training steps. If the graph is retained, what the forward pass saved lives to the end of the step."""
    torch.manual_seed(40 + rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    told = []
    for step in range(steps):
        x, y = torch.randn(8, 16), torch.randn(8, 16)
        optimizer.zero_grad()
        got = model(x)
        loss = (got - y).square().mean()
        loss.backward(retain_graph=retained)
        optimizer.step()
        told.append(float(loss.detach()))
        del got, loss
        each(step)
    return told


KEYS = ("exported", "foreign_bytes", "current_bytes", "cached_bytes", "handles")


def train(way, graphs: int, collectives: set[str]) -> None:
    """The losses are eager's, memory is flat, and a rank takes no more than the certificates say."""
    rank = 0 if way is tensors else dist.get_rank()  # each process has data of its own, except for tensor parallelism
    want = losses(way(blocks(), False), rank)
    held = []

    def each(step: int) -> None:
        if step in (STEPS // 4, STEPS - 1):
            gc.collect()
            held.append({key: weir.usage()[key] for key in KEYS})

    watch = Watch()
    model = way(blocks(), True)
    got = losses(model, rank, each)
    watch.end()
    assert max(abs(a - b) for a, b in zip(got, want)) <= 1e-5, (got[-3:], want[-3:])
    assert want[-1] != want[0] and held[0] == held[1], held
    found = made()
    assert len(found) == graphs and not any(g.operators for g in found), found
    assert {c.split(".")[1] for g in found for c in g.collectives} == collectives
    kept, peaks = (sum(f(g.memory) for g in found) for f in (weir.GraphMemory.kept, weir.GraphMemory.peak))
    assert kept < watch.most <= peaks, (kept, watch.most, peaks)


def predict(way) -> None:
    """A rank takes what the certificates of its two graphs say, to the byte, if nothing is freed on the way."""
    with torch._functorch.config.patch(donated_buffer=False):
        watch = Watch()
        model = way(blocks(), True)
        losses(model, 0, steps=3, retained=True)
        watch.end()
    forward, backward = (g.memory for g in made())
    saved = forward.held() - forward.kept()
    predicted = max(backward.kept() + forward.peak(), forward.kept() + saved + backward.peak())
    assert watch.most == predicted, (watch.most, predicted, made(), forward, backward)


CASES = {
    "document": document,  # first: it shows all graphs
    "order": order,
    "written after": written_after,
    "in place": in_place,
    "same sums": same_sums,
    "free on the way": free_on_the_way,
    "dynamic": dynamic,
    "decided": decided,
    "unsupported": unsupported,
    "data parallel": lambda: train(data_parallel, 4, set()),
    "sharded": lambda: train(sharded, 4, set()),
    "sharded blocks": lambda: train(sharded_blocks, 4, set()),
    "tensors": lambda: train(tensors, 2, {"all_reduce", "wait_tensor"}),
    "sequences": lambda: train(sequences, 2, {"all_gather_into_tensor", "reduce_scatter_tensor", "wait_tensor"}),
    "predicted tensors": lambda: predict(tensors),
    "predicted sequences": lambda: predict(sequences),
}  # fmt: skip


def work(rank: int, folder: str, cases: list[str]) -> None:
    """Runs the cases in one process, and writes what went wrong. Cases after a failure are not run: processes may wait."""
    for case in cases:
        torch._dynamo.reset()
        gc.collect()
        EARLIER[:] = weir.graphs()
        torch.manual_seed(rank)
        try:
            CASES[case]()
        except BaseException:
            with open(os.path.join(folder, f"{case}.{rank}"), "w") as f:
                traceback.print_exc(file=f)
            raise
        with open(os.path.join(folder, f"{case}.{rank}"), "w"):
            pass


FOUR = ["order", "written after", "sharded blocks", "tensors", "sequences", "predicted sequences"]


@pytest.fixture(scope="module", params=[2, 4])
def told(request, tmp_path_factory):
    """What went wrong, by case and process: the processes run all cases, as starting them takes long."""
    folder = tmp_path_factory.mktemp("told")
    cases = list(CASES) if request.param == 2 else FOUR
    failed = ""
    try:
        spawn(request.param, folder / "store", work, str(folder), cases)
    except Exception as error:
        failed = str(error)
    return request.param, folder, cases, failed


@pytest.mark.parametrize("case", CASES)
def test_collectives(told, case):
    world, folder, cases, failed = told
    if case not in cases:
        pytest.skip(f"{case} is run in two processes")
    files = [folder / f"{case}.{rank}" for rank in range(world)]
    files.sort(key=lambda file: file.stat().st_mtime if file.exists() else float("inf"))  # the first failure is the cause
    for file in files:
        assert file.exists(), f"{file} is not there: {failed}"
        assert not file.read_text(), file.read_text()
