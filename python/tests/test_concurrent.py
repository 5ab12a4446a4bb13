"""Threads that use one program, one tensor and its capsules at the same time, and close them meanwhile.

A Python without its lock (3.13t, 3.14t) runs these threads at once; any other switches between them as often as it can.
"""

from __future__ import annotations

import contextvars
import ctypes
import gc
import os
import queue
import subprocess
import sys
import sysconfig
import threading
import time
from typing import Any, Callable

import numpy
import pytest
import weir
import weir.array_api as xp

from oracle import Consumer, OldProducer, Producer

ADD = b"""weir 1
ir @add {
  dim n in [0, 1000000]
  main @main(%x: f32[n], %y: f32[n]) {
    %sum: f32[n] = add(%x, %y)
    return %sum
  }
}
"""
THREADS = 4
WITHOUT_LOCK = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


@pytest.fixture(autouse=True)
def often():
    """Threads switch every 10 µs instead of every 5 ms."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


def at_once(*work: Callable[[], object]) -> list[BaseException]:
    """Runs functions in threads that begin together, and returns their exceptions."""
    barrier = threading.Barrier(len(work))
    raised: list[BaseException] = []

    def run(do: Callable[[], object]) -> None:
        barrier.wait()
        try:
            do()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=(do,)) for do in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads), "threads wait for each other"
    return raised


def held() -> dict[str, int]:
    gc.collect()
    told = weir.usage()
    return {name: told[name] for name in ("handles", "exported", "foreign_bytes", "tensors_bytes", "outputs_bytes")}


def after(steps: list[None], count: int, do: Callable[[], object]) -> Callable[[], None]:
    """A function that acts after other threads have put so many marks into a list, or soon after they end."""

    def wait_and_do() -> None:
        begin = time.monotonic()
        while len(steps) < count and time.monotonic() < begin + 0.05:
            time.sleep(1e-5)
        do()

    return wait_and_do


class Same:
    """Exports one capsule again and again, which only the first consumer may take."""

    def __init__(self, capsule: object) -> None:
        self.capsule = capsule

    def __dlpack__(self, **_: Any) -> object:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


@pytest.mark.parametrize("kind", [Producer, OldProducer])
def test_closed_by_all(kind):
    before = held()
    for _ in range(20):
        p = kind()
        tensors = [weir.from_dlpack(p) for _ in range(500)]
        assert not at_once(*[lambda: [t.close() for t in tensors]] * THREADS)
        assert p.deleted == 500 and all(t.closed for t in tensors)
    assert held() == before


@pytest.mark.parametrize("versioned", [True, False])
def test_a_capsule_has_one_taker(versioned):
    before = held()
    for _ in range(20):
        p = Producer()
        capsules = [Same(p.capsule(versioned)) for _ in range(500)]
        taken: list[weir.Tensor] = []
        refused: list[None] = []

        def take() -> None:
            for same in capsules:
                try:
                    taken.append(weir.from_dlpack(same))
                except BufferError:
                    refused.append(None)

        assert not at_once(*[take] * THREADS)
        assert (len(taken), len(refused), p.deleted) == (500, 500 * (THREADS - 1), 0)
        taken.clear()
        assert p.deleted == 500
    assert held() == before


def test_a_tensor_closed_while_it_is_read():
    """A reader gets all elements, or a ClosedError."""
    before = held()
    want = [float(i) for i in range(6)]
    for turn in range(300):
        p = Producer((6,))
        t = weir.from_dlpack(p, copy=bool(turn % 2))
        steps: list[None] = []

        def read() -> None:
            try:
                for _ in range(5):
                    steps.append(None)
                    assert t.tolist() == want and t.shape == (6,) and t.nbytes == 24 and t.data_ptr
                    assert numpy.from_dlpack(t).tolist() == want
                    assert repr(t) in ("<weir.Tensor f32[6]>", "<weir.Tensor, closed>")
                    c = Consumer(t.__dlpack__(max_version=(1, 0), copy=True if turn % 3 else None))
                    assert c.floats() == want
                    c.delete()
                    assert weir.from_dlpack(t).tolist() == want
                    assert xp.sum(t).item() == 15
            except weir.ClosedError:
                pass

        assert not at_once(read, read, read, after(steps, turn % 15, t.close))
        del t
        gc.collect()
        assert p.deleted == 1
    assert held() == before


def test_one_program_and_one_tensor():
    before = held()
    for turn in range(40):
        p = Producer((1000,))
        program, t = weir.compile(ADD, calls=2), weir.from_dlpack(p)
        x = numpy.ones(1000, numpy.float32)
        steps: list[None] = []
        want = numpy.arange(1000, dtype=numpy.float32) + 1

        def run() -> None:
            try:
                for _ in range(20):
                    steps.append(None)
                    view = numpy.from_dlpack(program(t, x))
                    assert (view == want).all()
            except weir.ClosedError:
                pass

        def ask() -> None:
            try:
                for _ in range(20):
                    assert program.memory.peak(n=7) > 0 and program.memory.formula
                    assert "page" in repr(weir.plan_html(program)).lower()
            except weir.ClosedError:
                pass

        first, second = (t, program) if turn % 2 else (program, t)
        both = after(steps, turn + 3, lambda: (first.close(), second.close()))
        assert not at_once(run, run, run, ask, both, after(steps, 60 - turn, program.close))
        assert p.deleted == 1
    del first, second, t, program, run, ask, both
    assert held() == before


def test_given_away_by_several():
    """Of several threads that give one tensor to a run for good, one succeeds."""
    before = held()
    program = weir.compile(ADD, calls=4)
    x = numpy.ones(6, numpy.float32)
    for turn in range(100):
        p, results = Producer((6,)), []
        t = weir.from_dlpack(p)
        give = weir.consume if turn % 2 else weir.donate
        refused = (weir.ClosedError, weir.InputError)

        def run() -> None:
            try:
                results.append(program(give(t), x).tolist())
            except refused:
                pass

        if turn % 2:
            assert not at_once(run, run, run)
        else:
            assert not at_once(run, run, t.close)
        assert len(results) <= 1 and results in ([], [[1, 2, 3, 4, 5, 6]]), results
        t.close()
        assert p.deleted == 1
    del t, run
    program.close()
    assert held() == before


def test_models_and_files(tmp_path):
    """Threads compile a model and save a program while others close them."""
    before = held()
    for turn in range(20):
        model = weir.load(ADD)
        programs: list[weir.Program] = []

        def build() -> None:
            try:
                programs.append(weir.compile(model))
            except weir.ClosedError:
                pass

        assert not at_once(build, build, model.close, model.close)
        program = weir.compile(ADD)

        def save(name: str) -> None:
            try:
                program.save(tmp_path / name)
            except weir.ClosedError:
                pass

        assert not at_once(lambda: save("a"), lambda: save("b"), program.close)
        while programs:
            x = numpy.ones(1, numpy.float32)
            assert programs.pop()(x, x).tolist() == [2]
    del program, model, build, save
    assert held() == before


def test_a_scope_of_several_threads():
    """Threads make and drop tensors in one scope, keep them, and go on after its end."""
    before = held()
    for turn in range(30):
        kept: list[weir.Tensor] = []
        steps: list[None] = []
        with weir.Scope("outer") as outer:
            with weir.Scope("inner") as inner:
                contexts = [contextvars.copy_context() for _ in range(THREADS)]

                def make() -> None:
                    for i in range(60):
                        t = weir.zeros((3,))
                        cycle = [weir.zeros((1,))]
                        steps.append(None)
                        cycle.append(cycle)  # the garbage collector frees it, on any thread
                        try:
                            if i % 20 == 0:
                                kept.append(inner.keep(t))
                        except weir.ClosedError:  # the scope has ended
                            pass

                work = [lambda c=c: c.run(make) for c in contexts]
                end = after(steps, 50 + 5 * turn, lambda: inner.__exit__(None, None, None))
                assert not at_once(*work, end, gc.collect)
            assert not outer.__repr__().endswith("closed>")
        assert all(t.closed for t in kept)
    del kept, contexts, work, make, end
    assert held() == before


def test_deleters_of_other_threads():
    """One thread makes structures, and another deletes them."""
    before = held()
    made: queue.SimpleQueue[Any] = queue.SimpleQueue()
    producers = [Producer() for _ in range(2)]

    def make(p: Producer) -> None:
        for i in range(500):
            t = weir.from_dlpack(p)
            made.put((t, t.__dlpack__(), numpy.from_dlpack(t), Consumer(t.__dlpack__(max_version=(1, 0)))))
        made.put(None)

    def drop() -> None:
        while (given := made.get()) is not None:
            given[3].delete()

    assert not at_once(lambda: make(producers[0]), lambda: make(producers[1]), drop, drop)
    assert [p.given for p in producers] == [p.deleted for p in producers] == [500, 500]
    assert held() == before


def test_first_use():
    """The library is loaded once, whichever thread is first."""
    code = f"""
import threading, weir, weir._library
barrier, loaded = threading.Barrier(8), []
def first():
    barrier.wait()
    loaded.append(weir._library.library())
    weir.compile({ADD!r}).close()
threads = [threading.Thread(target=first) for _ in range(8)]
[t.start() for t in threads], [t.join() for t in threads]
assert len(loaded) == 8 and len(set(map(id, loaded))) == 1
"""
    subprocess.run([sys.executable, "-X", "dev", "-c", code], cwd=os.path.dirname(__file__), check=True, timeout=120)


def test_calls_leave_nothing():
    """10,000 calls whose results another thread drops, in an interpreter of its own, so that its memory is theirs
    alone.
    """
    code = "import test_concurrent; test_concurrent.call(10_000)"
    subprocess.run([sys.executable, "-X", "dev", "-c", code], cwd=os.path.dirname(__file__), check=True, timeout=600)


def call(n: int) -> None:
    """Calls a program so often, and checks what is left: bytes, handles, blocks, and in a debug build references.

    NumPy has no part in it: of a NumPy that is no debug build such a build counts references that are not there.
    """
    program = weir.compile(ADD)
    p = Producer((1000,))
    results: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def drop() -> None:
        while (result := results.get()) is not None:
            assert ctypes.c_float.from_address(result.tensor.data + 28).value == 14
            result.delete()

    def calls(n: int) -> tuple[dict[str, int], int, int, int]:
        thread = threading.Thread(target=drop)
        thread.start()
        for i in range(n):
            y = program(p, weir.from_dlpack(p))
            if i % 100 == 0:
                assert y.tolist() == [2.0 * k for k in range(1000)]
            while results.qsize() > 50:  # no faster than the thread that drops results
                time.sleep(1e-4)
            results.put(Consumer(y.__dlpack__(max_version=(1, 0))))
        del y
        results.put(None)
        thread.join()
        del thread
        assert p.given == p.deleted
        p.gifts.clear(), p.deletions.clear()
        gc.collect()
        with open("/proc/self/statm") as f:
            resident = int(f.read().split()[1]) * 4096
        return held(), resident, sys.getallocatedblocks(), getattr(sys, "gettotalrefcount", int)()

    calls(n // 4)
    before, *then = calls(n // 4)
    after, *now = calls(n)
    assert after == before
    for what, old, new, most in zip(("bytes", "blocks", "references"), then, now, (4 << 20, n // 20, n // 20)):
        assert new - old < most, f"{new - old} {what} more"


@pytest.mark.skipif(not WITHOUT_LOCK, reason="this Python has its lock: threads took turns in the tests above")
def test_the_lock_stayed_off():
    """An extension that is not made for it would have switched the lock on, and the tests above would test less."""
    assert not sys._is_gil_enabled()
