"""Scopes: tensors made within a scope are closed at its end, and the ledger is as before."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading

import numpy
import pytest
import weir

TWO = b"""weir 1
ir @two {
  dim n in [0, 1000000]
  main @main(%x: f32[n]) {
    %sum: f32[n] = add(%x, %x)
    %product: f32[n] = mul(%x, %x)
    return %sum, %product
  }
}
"""


@pytest.fixture(scope="module")
def program():
    with weir.compile(TWO, calls=2) as program:
        yield program


def ledger():
    gc.collect()
    held = weir.usage()
    return {name: held[name] for name in ("handles", "exported", "foreign_bytes", "tensors_bytes", "outputs_bytes")}


@pytest.fixture(autouse=True)
def same_ledger(program, nothing_left):
    before = ledger()
    yield
    assert ledger() == before


def test_everything_is_closed(program):
    x = numpy.arange(4, dtype=numpy.float32)
    before = ledger()
    with weir.Scope("batch") as s:
        a = weir.from_dlpack(x)
        b = weir.zeros((3, 5))
        results = program(a)
        c, d = results
        assert repr(s) == "<weir.Scope 'batch', 4 tensors>"
        assert d.tolist() == [0, 1, 4, 9]
    assert a.closed and b.closed and c.closed and d.closed
    assert repr(s) == "<weir.Scope 'batch', closed>"
    with pytest.raises(weir.ClosedError):
        c.numpy()
    del a, b, c, d, results
    assert ledger() == before


def test_outside_nothing_changes():
    a = weir.zeros((3,))
    with weir.Scope():
        a.numpy()
    b = weir.zeros((3,))
    assert not a.closed and not b.closed
    a.close(), b.close()


def test_keep(program):
    x = numpy.ones(3, numpy.float32)

    def product(x):
        with weir.Scope("product") as s:
            return s.keep(program(x)["product"])

    y = product(x)
    assert y.tolist() == [1, 1, 1]
    y.close()
    with weir.Scope() as s:
        results = s.keep(program(x))
        named = s.keep({"a": [weir.zeros((2,)), None], "b": (weir.zeros((1,)), x)})
        assert repr(s) == "<weir.Scope '', 0 tensors>"
    assert not any(t.closed for t in (*results, named["a"][0], named["b"][0]))


def test_nesting(program):
    with weir.Scope("outer") as outer:
        a = weir.zeros((2,))
        with weir.Scope("inner") as inner:
            b, c = weir.zeros((2,)), weir.zeros((2,))
            with pytest.raises(weir.InputError, match="'inner'.*within.*'outer'"):
                outer.keep([a, b])
            assert inner.keep(b) is b
            assert inner.keep(a) is a  # it would outlive the scope anyway
            assert inner.keep(b) is b
        assert c.closed and not b.closed and not a.closed
        d = weir.zeros((1,))
        outer.keep(b)
    assert a.closed and d.closed and not b.closed
    with weir.Scope("next"):
        pass
    assert not b.closed


def test_error_in_a_block():
    held = []
    with pytest.raises(ZeroDivisionError):
        with weir.Scope(), weir.Scope():
            held.append(weir.zeros((4,)))
            1 / 0
    assert held[0].closed
    after = weir.zeros((1,))  # outside all scopes
    with pytest.raises(weir.InputError, match="no such type"):
        with weir.Scope() as s:
            held.append(s.keep(weir.zeros((1,))))
            weir.zeros((1,), "no such type")
    assert not held[1].closed and not after.closed


def test_a_run_that_fails(program):
    with weir.Scope() as s:
        x = weir.zeros((2, 2))
        with pytest.raises(weir.InputError):
            program(x)
        y = weir.zeros((2,))
        program(weir.consume(y))
        assert y.closed
        with pytest.raises(weir.ClosedError, match="given away"):
            s.keep(y)
    assert x.closed


def test_misuse():
    with weir.Scope("once") as s:
        with pytest.raises(weir.ClosedError, match="once"):
            s.__enter__()
        for wrong in (3, numpy.zeros(2), object()):
            with pytest.raises(weir.InputError, match="is no tensor"):
                s.keep(wrong)
        a, b = weir.zeros((1,)), weir.zeros((1,))
        b.close()
        with pytest.raises(weir.ClosedError):
            s.keep([a, b])  # all, or none
    assert a.closed
    for use in (s.__enter__, lambda: s.keep(a), lambda: weir.Scope("new").keep(a)):
        with pytest.raises(weir.ClosedError):
            use()


def test_views_live_on():
    x = numpy.arange(3, dtype=numpy.float32)
    with weir.Scope():
        view = weir.from_dlpack(x).numpy()
        own = weir.zeros((2,)).numpy()
    assert view.tolist() == [0, 1, 2] and numpy.shares_memory(view, x) and own.tolist() == [0, 0]


def test_weak():
    with weir.Scope() as s:
        before = ledger()
        for _ in range(1000):
            weir.zeros((100,))
        assert ledger() == before and "0 tensors" in repr(s)


def test_threads():
    made = {}

    def make(name):
        made[name] = weir.zeros((2,))

    def own(name):
        with weir.Scope(name):
            for _ in range(200):
                make(name)

    with weir.Scope():
        threads = [
            threading.Thread(target=contextvars.Context().run, args=(make, "none")),
            threading.Thread(target=contextvars.copy_context().run, args=(make, "copied")),
            *(threading.Thread(target=own, args=(f"own {i}",)) for i in range(4)),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not made["copied"].closed and all(made[f"own {i}"].closed for i in range(4))
    assert made["copied"].closed and not made["none"].closed


def test_many_threads_in_one_scope():
    """Threads make tensors in a scope while it is closed: each belongs to it, or to the scope around it."""
    made = []
    with weir.Scope("around"):
        with weir.Scope("shared"):
            go = threading.Event()

            def work():
                go.set()
                made.extend(weir.zeros((1,)) for _ in range(500))

            threads = [threading.Thread(target=contextvars.copy_context().run, args=(work,)) for _ in range(4)]
            for thread in threads:
                thread.start()
            go.wait(10)
        for thread in threads:
            thread.join()
        assert len(made) == 2000
    assert all(t.closed for t in made)


def test_tasks():
    async def task(name):
        with weir.Scope(name) as s:
            a = weir.zeros((1,))
            await asyncio.sleep(0)
            b = await asyncio.to_thread(weir.zeros, (1,))
            await asyncio.sleep(0)
            assert "2 tensors" in repr(s)
            c = s.keep(weir.zeros((1,)))
        assert a.closed and b.closed and not c.closed
        return c

    async def main():
        with weir.Scope("main"):
            kept = await asyncio.gather(*(task(f"task {i}") for i in range(5)))
        assert all(c.closed for c in kept)

    asyncio.run(main())


def test_out_of_order():
    """A generator's block may end after its caller's, which began later; a closed scope is not used."""

    def rows():
        with weir.Scope("rows"):
            yield weir.zeros((1,))

    generator = rows()
    with weir.Scope("caller"):
        a = next(generator)
        b = weir.zeros((1,))  # the generator's scope is the innermost
    assert not a.closed and not b.closed
    generator.close()
    assert a.closed and b.closed
    c = weir.zeros((1,))
    assert not c.closed and c._scope is None


def test_repeated(program):
    before = ledger()
    x = numpy.ones(8, numpy.float32)
    for _ in range(300):
        with weir.Scope():
            kept = [program(weir.from_dlpack(x)), weir.zeros((8,))]
    del kept
    assert ledger() == before
