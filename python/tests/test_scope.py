"""Scopes own tensors, and close them."""

from __future__ import annotations

import asyncio
import gc
import threading

import numpy
import pytest
import weir
import weir.array_api as xp


def held() -> tuple[int, int]:
    gc.collect()
    now = weir.usage()
    return now["handles"], now["foreign_bytes"]


def test_everything_made_within_is_closed():
    before = held()
    x = numpy.ones((3, 5), numpy.float32)
    made = []
    with weir.Scope("batch") as scope:
        made += [weir.from_dlpack(x), weir.zeros((2, 2)), xp.ones(4)]
        made.append(xp.sin(made[0]) + made[0])
        made += xp.unstack(made[1])
        assert len(scope) >= len(made) and "batch" in repr(scope)
    assert all(t.closed for t in made) and len(scope) == 0
    assert held() == before


def test_results_of_a_program():
    text = b"weir 1\nir @m {\n  main @main(%x: f32[4]) {\n    %y: f32[4] = neg(%x)\n    %z: f32[4] = abs(%x)\n    return %y, %z\n  }\n}\n"
    program = weir.compile(text)
    with weir.Scope() as scope:
        results = program(numpy.arange(4, dtype=numpy.float32))
        y = scope.keep(results[0])
        z = results[1]
    assert z.closed and y.tolist() == [0, -1, -2, -3]
    y.close()
    program.close()


def test_kept_tensors_belong_to_the_scope_around():
    with weir.Scope("outer") as outer:
        with weir.Scope("inner") as inner:
            t = inner.keep(weir.zeros((3,)))
            with pytest.raises(ValueError):
                inner.keep(t)
        assert not t.closed and len(outer) == 1
    assert t.closed


def test_an_error_closes_too():
    with pytest.raises(RuntimeError):
        with weir.Scope():
            t = weir.zeros((3,))
            raise RuntimeError
    assert t.closed


def test_views_keep_the_memory():
    with weir.Scope():
        view = weir.zeros((3,)).numpy()
    assert view.tolist() == [0, 0, 0]
    del view


def test_what_is_collected_is_forgotten():
    with weir.Scope() as scope:
        for _ in range(1000):
            weir.zeros((3,))
        gc.collect()
        assert len(scope) == 0


def test_threads_and_tasks_have_their_own():
    found = []

    def other() -> None:
        found.append(weir.zeros((3,)))

    with weir.Scope():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert not found[0].closed
    found[0].close()

    async def task(n: int) -> bool:
        with weir.Scope() as scope:
            t = weir.zeros((n,))
            await asyncio.sleep(0.01)
            alone = len(scope) == 1 and not t.closed
        return alone and t.closed

    async def several() -> list[bool]:
        return await asyncio.gather(*(task(n) for n in range(1, 6)))

    assert all(asyncio.run(several()))


def test_misuse():
    scope = weir.Scope("s")
    with pytest.raises(weir.ClosedError):
        scope.__exit__(None, None, None)
    with scope:
        with pytest.raises(weir.ClosedError):
            scope.__enter__()
    with scope:  # again is fine
        t = weir.zeros((1,))
    assert t.closed
    with pytest.raises(ValueError):
        scope.keep(weir.zeros((1,)))
