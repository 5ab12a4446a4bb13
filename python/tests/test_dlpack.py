"""The rules of DLPack, with counts of deleter calls."""

from __future__ import annotations

import ctypes
import gc
import os
import random
import subprocess
import sys
import threading

import numpy
import pytest
import weir

from oracle import Consumer, OldProducer, Producer


def exported() -> int:
    return weir.usage()["exported"]


def foreign() -> int:
    return weir.usage()["foreign_bytes"]


def values(p: Producer) -> numpy.ndarray:
    strides = p.strides
    if strides is None:
        strides = tuple(numpy.cumprod((1, *p.shape[:0:-1]))[::-1]) if p.shape else ()
    whole = numpy.frombuffer(p.memory, numpy.float32, offset=p.offset)
    return numpy.lib.stride_tricks.as_strided(whole, p.shape, [4 * s for s in strides])


# Consumer.


@pytest.mark.parametrize("kind", [Producer, OldProducer])
def test_taken_and_closed(kind):
    p = kind()
    t = weir.from_dlpack(p)
    assert t.data_ptr == ctypes.addressof(p.memory)
    assert (p.given, p.deleted) == (1, 0)
    assert foreign() == 24
    numpy.testing.assert_array_equal(t.numpy(), values(p))
    gc.collect()
    t.close()
    t.close()
    assert p.deleted == 1 and not p.alive() and foreign() == 0


def test_collected():
    p = Producer()
    t = weir.from_dlpack(p)
    del t
    assert p.deleted == 1


@pytest.mark.parametrize("versioned", [True, False])
def test_a_capsule_is_taken_once(versioned):
    p = Producer()
    capsule = p.capsule(versioned)

    class Once:
        def __dlpack__(self, **rest):
            return capsule

        def __dlpack_device__(self):
            return (1, 0)

    t = weir.from_dlpack(Once())
    with pytest.raises(BufferError):
        weir.from_dlpack(Once())
    del capsule
    assert p.deleted == 0
    t.close()
    assert p.deleted == 1


def test_what_is_no_capsule():
    for wrong in (None, 3, object()):

        class Wrong:
            def __dlpack__(self, **rest):
                return wrong

            def __dlpack_device__(self):
                return (1, 0)

        with pytest.raises(BufferError):
            weir.from_dlpack(Wrong())


@pytest.mark.parametrize(
    "change, error",
    [
        ({"version": (2, 0), "ndim": 1 << 30}, BufferError),
        ({"version": (0, 8)}, BufferError),
        ({"device_type": 2}, BufferError),
        ({"device_type": 99}, BufferError),
        ({"lanes": 4}, BufferError),
        ({"code": 77}, BufferError),
        ({"bits": 24}, BufferError),
        ({"ndim": -1}, weir.InputError),
        ({"ndim": 65}, weir.InputError),
        ({"data": None}, weir.InputError),
        ({"byte_offset": 2**64 - 4}, weir.InputError),
        ({"no_shape": True}, weir.InputError),
    ],
)
def test_refused_and_given_back(change, error):
    p = Producer(**change)
    with pytest.raises(error):
        weir.from_dlpack(p)
    assert (p.given, p.deleted) == (1, 1)
    assert foreign() == 0


@pytest.mark.parametrize("shape, strides", [((-1, 3), None), ((2**62, 8), None), ((2, 3), (2**62, 1)), ((2, 3), (-(2**63), 1))])
def test_shapes_that_are_none(shape, strides):
    p = Producer()
    p.shape, p.strides = shape, strides
    with pytest.raises(weir.InputError):
        weir.from_dlpack(p)
    assert p.deleted == 1


@pytest.mark.parametrize("versioned", [True, False])
def test_no_deleter(versioned):
    p = Producer(no_deleter=True)

    class Own:
        def __dlpack__(self, **rest):
            return p.capsule(versioned)

        def __dlpack_device__(self):
            return (1, 0)

    weir.from_dlpack(Own()).close()
    p.change["code"] = 99
    with pytest.raises(BufferError):
        weir.from_dlpack(Own())
    assert p.given == 2 and p.deleted == 0


def test_strides_and_offsets():
    r = random.Random(3)
    for _ in range(200):
        rank = r.randrange(4)
        shape = tuple(r.randrange(4) for _ in range(rank))
        p = Producer((8, 8))
        p.shape, p.strides, p.offset = shape, tuple(r.randrange(0, 9) for _ in range(rank)), 4 * r.randrange(20)
        t = weir.from_dlpack(p)
        numpy.testing.assert_array_equal(t.numpy(), values(p))
        t.close()
        assert p.deleted == 1


def test_copies():
    p = Producer((2, 3), (1, 2))
    with pytest.raises(BufferError):
        weir.from_dlpack(p, copy=False)
    assert p.deleted == 1
    t = weir.from_dlpack(p)
    assert p.deleted == 2, "a copy needs the memory no more"
    numpy.testing.assert_array_equal(t.numpy(), [[0, 2, 4], [1, 3, 5]])
    p = Producer()
    t = weir.from_dlpack(p, copy=True)
    assert p.deleted == 1 and t.data_ptr != ctypes.addressof(p.memory)
    p = Producer(offset=2)
    t = weir.from_dlpack(p)
    assert p.deleted == 1, "memory at an odd address is copied"


def test_read_only():
    p = Producer(flags=1)
    t = weir.from_dlpack(p)
    assert t.read_only
    array = t.numpy()
    assert not array.flags.writeable
    with pytest.raises(BufferError):
        t.__dlpack__()
    assert weir.from_dlpack(t).read_only
    assert t.__dlpack__(copy=True)
    x = numpy.ones(3, numpy.float32)
    x.flags.writeable = False
    assert weir.from_dlpack(x).read_only


def test_the_structure_is_left_alone():
    p = Producer((4,), None)
    capsule = p.capsule()
    managed = p.alive()[0]
    before = bytes(managed)

    class Own:
        def __dlpack__(self, **rest):
            return capsule

        def __dlpack_device__(self):
            return (1, 0)

    t = weir.from_dlpack(Own())
    assert bytes(managed) == before
    t.close()


def test_errors_of_the_producer():
    class Bad:
        def __dlpack__(self, **rest):
            raise BufferError("not today")

        def __dlpack_device__(self):
            return (1, 0)

    with pytest.raises(BufferError, match="not today"):
        weir.from_dlpack(Bad())


# Producer.


def test_keywords_and_device():
    t = weir.zeros((2,))
    assert t.__dlpack_device__() == (1, 0)
    with pytest.raises(TypeError):
        t.__dlpack__(None)
    with pytest.raises(BufferError):
        t.__dlpack__(stream=1)
    with pytest.raises(BufferError):
        t.__dlpack__(dl_device=(2, 0))
    t.__dlpack__(dl_device=(1, 0))


@pytest.mark.parametrize("version, versioned", [(None, False), ((0, 8), False), ((1, 0), True), ((1, 99), True), ((2, 0), True)])
def test_versions(version, versioned):
    t = weir.zeros((2, 3))
    c = Consumer(t.__dlpack__(max_version=version))
    assert c.versioned == versioned
    if versioned:
        assert (c.managed.major, c.managed.minor) == (1, 0)
    assert exported() == 1
    c.delete()
    assert exported() == 0


def test_unconsumed():
    t = weir.zeros((2, 3))
    for version in (None, (1, 0)):
        capsule = t.__dlpack__(max_version=version)
        assert exported() == 1
        del capsule
        assert exported() == 0


def test_outlives_its_source():
    t = weir.from_dlpack(numpy.arange(6, dtype=numpy.float32).reshape(2, 3))
    c = Consumer(t.__dlpack__(max_version=(1, 0)))
    t.close()
    del t
    gc.collect()
    assert c.floats() == [0, 1, 2, 3, 4, 5]
    assert foreign() == 24
    c.delete()
    assert foreign() == 0 and exported() == 0


def test_deleted_by_another_thread():
    p = Producer()
    c = Consumer(weir.from_dlpack(p).__dlpack__(max_version=(1, 0)))
    thread = threading.Thread(target=c.delete)
    thread.start()
    thread.join()
    assert p.deleted == 1 and exported() == 0


def test_flags_and_copies():
    t = weir.zeros((2, 3))
    for copy, flags in ((True, 2), (None, 0), (False, 0)):
        c = Consumer(t.__dlpack__(max_version=(1, 0), copy=copy))
        assert c.managed.flags == flags
        assert (c.tensor.data == t.data_ptr) == (not copy)
        c.delete()
    assert exported() == 0


def test_layout():
    for shape, strides in (((), []), ((3,), [1]), ((2, 3, 4), [12, 4, 1]), ((2, 0, 4), [4, 4, 1])):
        t = weir.zeros(shape)
        c = Consumer(t.__dlpack__(max_version=(1, 0)))
        assert c.shape() == list(shape) and c.strides() == strides
        assert c.tensor.byte_offset == 0 and (c.tensor.data is None) == (0 in shape)
        c.delete()


DTYPES = {
    "bool": (6, 8), "u8": (1, 8), "u16": (1, 16), "u32": (1, 32), "u64": (1, 64), "i8": (0, 8), "i16": (0, 16), "i32": (0, 32),
    "i64": (0, 64), "f16": (2, 16), "f32": (2, 32), "f64": (2, 64), "bf16": (4, 16), "c64": (5, 64), "c128": (5, 128),
    "f8e4m3fn": (10, 8), "f8e4m3fnuz": (11, 8), "f8e5m2": (12, 8), "f8e5m2fnuz": (13, 8), "f8e8m0": (14, 8), "f4e2m1": (17, 4),
    "u4": (1, 4), "i4": (0, 4), "u2": (1, 2), "i2": (0, 2),
}  # fmt: skip


@pytest.mark.parametrize("name", DTYPES)
def test_dtypes(name):
    t = weir.zeros((3, 5), name)
    assert t.dtype == name
    c = Consumer(t.__dlpack__(max_version=(1, 0)))
    assert (c.tensor.code, c.tensor.bits, c.tensor.lanes) == (*DTYPES[name], 1)
    c.delete()
    back = weir.from_dlpack(t)
    assert (back.dtype, back.shape, back.data_ptr) == (name, (3, 5), t.data_ptr)


def test_strings_have_no_capsule():
    t = weir.strings([["a", "béc"], ["", "d"]])
    assert t.shape == (2, 2) and t.dtype == "string"
    assert t.tolist() == [["a", "béc"], ["", "d"]]
    with pytest.raises(BufferError):
        t.__dlpack__()


def test_a_closed_tensor():
    t = weir.zeros((2,))
    t.close()
    for use in (lambda: t.shape, lambda: t.dtype, lambda: t.numpy(), lambda: t.__dlpack__(), lambda: t.data_ptr):
        with pytest.raises(weir.ClosedError):
            use()
    assert repr(t) == "<weir.Tensor, closed>"


# NumPy.


@pytest.mark.parametrize("dtype", "bool u1 u2 u4 u8 i1 i2 i4 i8 f2 f4 f8 c8 c16".split())
@pytest.mark.parametrize("shape", [(), (1,), (3, 4), (0, 3), (2, 3, 4)])
def test_numpy(dtype, shape):
    x = numpy.arange(max(1, int(numpy.prod(shape)))).astype(dtype)[: int(numpy.prod(shape))].reshape(shape)
    t = weir.from_dlpack(x)
    assert t.shape == x.shape
    y = t.numpy()
    assert y.dtype == x.dtype
    numpy.testing.assert_array_equal(x, y)
    if x.size:
        assert numpy.shares_memory(x, y)
        x.flat[0] = 1
        assert y.flat[0] == x.flat[0]
    for view in (x.T, x[::-1] if shape else x, x[..., ::2] if shape else x):
        numpy.testing.assert_array_equal(weir.from_dlpack(view).numpy(), view)


def test_no_growth_and_no_leak():
    """Exchanges of each kind and direction leave nothing. The process is one of its own, so that its memory is theirs
    alone.
    """
    code = "import test_dlpack; test_dlpack.exchange(20_000)"
    subprocess.run([sys.executable, "-X", "dev", "-c", code], cwd=os.path.dirname(__file__), check=True, timeout=600)


def exchange(n: int) -> None:
    """Makes so many exchanges, and checks the memory after them."""
    x = numpy.ones(64, numpy.float32)
    t = weir.from_dlpack(x)
    p = Producer()

    def resident() -> int:
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * 4096

    kinds = {
        "taken": lambda: weir.from_dlpack(x),
        "taken by close": lambda: weir.from_dlpack(x).close(),
        "taken of a producer": lambda: weir.from_dlpack(p),
        "taken as a legacy capsule": lambda: weir.from_dlpack(OLD),
        "given": lambda: numpy.from_dlpack(t),
        "given and not taken": lambda: t.__dlpack__(),
        "given and not taken, versioned": lambda: t.__dlpack__(max_version=(1, 0)),
        "there and back": lambda: weir.from_dlpack(weir.from_dlpack(x)),
        "copied": lambda: weir.from_dlpack(x, copy=True),
    }
    for do in kinds.values():  # until the heaps have their final sizes
        for _ in range(n):
            do()
    for name, do in kinds.items():
        gc.collect()
        before, held = resident(), weir.usage()
        for _ in range(n):
            do()
        gc.collect()
        after, now = resident(), weir.usage()
        assert after - before < 4 << 20, f"{name}: {after - before} bytes more"
        for key in ("current_bytes", "foreign_bytes", "handles", "exported"):
            assert now[key] == held[key], (name, key)
    assert p.given == p.deleted and OLD.given == OLD.deleted


OLD = OldProducer()


TURNED = b"""weir 1
ir @turned {
  dim n in [0, 1000000]
  main @main(%x: f32[n, 8]) {
    %double: f32[n, 8] = add(%x, %x)
    return %double
  }
}
"""


@pytest.mark.parametrize("turn", [
    lambda a: a.T, lambda a: a.T[::-1], lambda a: a.T[:, ::-1], lambda a: a.T[::-1, ::-1], lambda a: a.T[::2], lambda a: a.T[1:, :],
    lambda a: numpy.broadcast_to(a.T[:, :1], a.T.shape), lambda a: a.T[:0],
])  # fmt: skip
def test_strides(turn):
    whole = numpy.arange(8 * 6, dtype=numpy.float32).reshape(8, 6)
    x = turn(whole)
    plain = weir.compile(TURNED)
    before = weir.usage()["tensors_bytes"]
    assert numpy.array_equal(plain(x).numpy(), 2 * x)
    assert weir.usage()["tensors_bytes"] == before
    try:
        declared = weir.compile(TURNED, layouts={"x": x})
    except NotImplementedError:
        return  # it has gaps
    assert numpy.array_equal(declared(x).numpy(), 2 * x)
    assert numpy.array_equal(plain(x).numpy(), declared(x).numpy())


def test_copies_are_counted():
    columns = numpy.zeros((8, 100000), numpy.float32).T
    plain, declared = weir.compile(TURNED), weir.compile(TURNED, layouts={"x": (1, 0)})
    assert declared.inputs[0].layout == "1,0" and plain.inputs[0].layout == ""
    peak, copies = plain.memory.peak(n=100000), plain.memory.copies(n=100000)
    assert copies == columns.nbytes
    for program, refused in ((plain, True), (declared, False)):
        program(columns).close()
        limit = weir.set_limit(1 << 40)
        try:
            held = weir.usage()["current_bytes"]
            weir.trim()
            weir.set_limit(held + peak + (1 << 20))
            if refused:
                with pytest.raises(MemoryError):
                    program(columns)
            else:
                program(columns).close()
        finally:
            weir.set_limit(limit)
    tight = weir.compile(TURNED, budget=peak, dims={"n": (0, 100000)})
    with pytest.raises(weir.BudgetError):
        tight(columns)
    tight(numpy.ascontiguousarray(columns)).close()
    with pytest.raises(weir.InputError, match="x"):
        weir.compile(TURNED, layouts={"x": (0,)})
    with pytest.raises(weir.InputError, match="its dimensions are n"):
        plain.memory.peak(nothing=3)
    with pytest.raises(weir.InputError, match="its dimensions are n"):
        plain.memory.peak(n=3, nothing=3)
