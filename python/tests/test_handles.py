"""Copies and pickles of weir's objects: a tensor's hold its elements, and each other object has one handle."""

from __future__ import annotations

import concurrent.futures
import copy
import gc
import io
import multiprocessing
import pickle
import warnings
from typing import Any

import numpy
import pytest
import weir
import weir.array_api as xp

ADD = b"""weir 1
ir @add {
  dim n in [0, 100000000]
  main @main(%x: f32[n], %y: f32[n]) {
    %sum: f32[n] = add(%x, %y)
    %product: f32[n] = mul(%x, %y)
    return %sum, %product
  }
}
"""

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)
COPIES = [copy.copy, copy.deepcopy, *[lambda x, p=p: pickle.loads(pickle.dumps(x, p)) for p in PROTOCOLS]]


class Named(weir.Tensor):
    """A class that is derived from Tensor, with a state of its own."""

    def __init__(self, values: list[float], name: str) -> None:
        raise AssertionError("a copy is not made by __init__")


def tensors() -> list[weir.Tensor]:
    rng = numpy.random.default_rng(1)
    made = [weir.strings([["a", "b"], ["", "ä\0"]]), weir.zeros((3, 0, 2), "i16"), xp.asarray(7.0)]
    for name in ("bool", "i8", "u16", "i32", "i64", "u64", "f16", "bf16", "f32", "f64", "f8e4m3fn", "i4", "u2", "f4e2m1", "c64", "c128"):
        made.append(t := weir.zeros((3, 5), name))
        view = (weir._library.ctypes.c_uint8 * t.nbytes).from_address(t.data_ptr)
        view[:] = (rng.integers(0, 2 if name == "bool" else 60, t.nbytes)).astype(numpy.uint8).tolist()
    return made


@pytest.mark.parametrize("how", COPIES, ids=["copy", "deepcopy", *[f"pickle{p}" for p in PROTOCOLS]])
def test_a_tensor_is_copied(how):
    for t in tensors():
        before = t.numpy().tolist()
        u = how(t)
        assert type(u) is weir.Tensor and (u.dtype, u.shape) == (t.dtype, t.shape) and u.numpy().tolist() == before
        assert u.dtype == "string" or not u.nbytes or u.data_ptr != t.data_ptr
        del u
        assert not t.closed and t.numpy().tolist() == before
        u = how(t)
        t.close()
        assert u.numpy().tolist() == before, "a copy outlives its original"
        with pytest.raises(weir.ClosedError):
            how(t)


def test_a_copy_is_its_own():
    """Writing a copy leaves the original, of memory of weir's and of others', and of read-only memory."""
    fixed = numpy.arange(3.0)
    fixed.flags.writeable = False
    for t in (xp.asarray([0.0, 1.0, 2.0]), weir.from_dlpack(numpy.arange(3.0)), weir.from_dlpack(fixed)):
        for how in COPIES:
            u = how(t)
            u[0] = 9
            assert t.tolist() == [0, 1, 2] and u.tolist() == [9, 1, 2]


@pytest.mark.parametrize("how", COPIES[:2] + COPIES[-2:])
def test_a_derived_tensor_is_copied(how):
    t = weir._tensor._made(Named, weir._tensor._zeros((2,), "f32"))
    t.name, t.list = "first", [1]
    u = how(t)
    assert type(u) is Named and u.name == "first" and u.tolist() == [0, 0] and u.list == [1]
    assert (u.list is t.list) == (how is copy.copy)


def test_within_other_objects():
    """A tensor that an object holds twice stays one tensor; a scope owns the copies that are made within it."""
    t = xp.asarray([1.0, 2.0])
    a, b = copy.deepcopy([t, t])
    assert a is b and a is not t
    a, b = pickle.loads(pickle.dumps((t, t)))
    assert a is b
    with weir.Scope() as s:
        inner, kept = copy.copy(t), s.keep(pickle.loads(pickle.dumps(t)))
    assert inner.closed and kept.tolist() == [1, 2] and not t.closed
    with pytest.raises(ValueError, match="4 bytes"):
        weir._tensor._restored(weir.Tensor, "f32", (2,), b"1234")


def test_results():
    with weir.compile(ADD) as p:
        r = p(numpy.ones(2, numpy.float32), numpy.ones(2, numpy.float32))
        assert repr(p.memory.copies(n=2)) == repr(copy.deepcopy(p.memory).copies(n=2))
    for how in COPIES:
        u = how(r)
        assert u["sum"].tolist() == [2, 2] and u.asdict().keys() == r.asdict().keys()
        del u
        gc.collect()
        assert r["product"].tolist() == [1, 1]


def handles() -> list[Any]:
    model = weir.load(ADD)
    return [model, weir.compile(model), weir.compile(model).memory, weir.Scope("s")]


@pytest.mark.parametrize("place", range(4), ids=["model", "program", "memory", "scope"])
def test_other_handles_have_no_pickle(place):
    """A copy is the object itself, so that its end does not close the handle; a pickle tells what to do instead."""
    x = handles()[place]
    for how in (copy.copy, copy.deepcopy):
        u = how(x)
        assert u is x or isinstance(x, weir.Memory)
        del u
        gc.collect()
        repr(x)
    for protocol in PROTOCOLS:
        for held in (x, [x], {"x": x}):
            with pytest.raises(TypeError, match="there$"):
                pickle.dumps(held, protocol)
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.Pickler(io.BytesIO()).dump(x)


def test_a_program_that_was_copied_runs():
    p = weir.compile(ADD)
    q = copy.deepcopy({"model": p})["model"]
    x = numpy.ones(2, numpy.float32)
    assert q is p and q(x, x)[0].tolist() == [2, 2]
    del q
    gc.collect()
    assert p(x, x)[0].tolist() == [2, 2]
    p.close()
    assert copy.copy(p) is p and p._handle == 0


def twice(t: weir.Tensor) -> weir.Tensor:
    own = [xp.asarray([float(i)]) for i in range(20)]
    result = t + t
    assert [o.item() for o in own] == list(range(20))
    return result


def test_other_processes():
    """Another process gets the elements, and returns others."""
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        for t in (xp.asarray([1.0, 2.0]), xp.asarray([3], dtype=xp.bfloat16)):
            assert pool.submit(twice, t).result().tolist() == (t + t).tolist()
        with pytest.raises(TypeError, match="program.save"):
            pool.submit(twice, weir.compile(ADD)).result()


def test_capsules():
    """from_dlpack takes a bare capsule, once."""
    for export in (lambda x: x.__dlpack__(), lambda x: x.__dlpack__(max_version=(1, 0))):
        x = numpy.arange(4, dtype=numpy.float32)
        capsule = export(x)
        t = weir.from_dlpack(capsule)
        assert t.data_ptr == x.ctypes.data and t.tolist() == [0, 1, 2, 3]
        with pytest.raises(BufferError):
            weir.from_dlpack(capsule)
        t = xp.from_dlpack(export(weir.zeros((2,))))
        assert t.tolist() == [0, 0]
    weir.from_dlpack(weir.zeros((2,)).__dlpack__(), copy=True)


def test_donated_by_its_holder():
    """An array that another library owns keeps its memory: who else holds it is unknown."""
    p = weir.compile(ADD)
    one = numpy.ones(4, numpy.float32)
    x = numpy.arange(4, dtype=numpy.float32)
    base = weir.zeros((4,)) + 3
    cases: list[tuple[Any, Any]] = [
        (x, x), (x[:], x), (weir.from_dlpack(x), x), (xp.asarray(x), x), (weir.from_dlpack(base), base.numpy()),
        (x.__dlpack__(), x),
    ]  # fmt: skip
    for given, held in cases:
        before = held.copy()
        if type(given).__name__ == "PyCapsule":
            given = weir.from_dlpack(given)
        total, product = p(weir.donate(given), one)
        assert held.tolist() == before.tolist()
        held[:] = -1
        assert total.tolist() == (before + 1).tolist() and product.tolist() == before.tolist()
        held[:] = before
    own = copy.copy(base)
    at = own.data_ptr
    total, product = p(weir.donate(own), one)
    assert own.closed and at in (total.data_ptr, product.data_ptr)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        p(weir.donate([1.0, 2.0, 3.0, 4.0]), one)
