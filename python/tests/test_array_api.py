"""weir.array_api compared with NumPy, a namespace of the same standard: shapes, types and elements."""

from __future__ import annotations

import gc
import itertools
import operator
import os
import random
import struct
import subprocess
import sys
import threading
import warnings

import numpy
import pytest
import weir
import weir.array_api as xp

FLOATS = ["float32", "float64"]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
TYPES = ["bool", *INTEGERS, *FLOATS]
SHAPES = [(), (1,), (5,), (0,), (3, 4), (2, 0, 3), (2, 1, 3), (1, 17, 2)]
EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.5, 1e30, -1e-30, numpy.inf, -numpy.inf, numpy.nan]


def data(dtype: str, shape: tuple[int, ...], seed: int = 0, low: int = -9) -> numpy.ndarray:
    """Random elements: small numbers and, among floats, infinities and NaN."""
    draw = numpy.random.default_rng([seed, len(shape), *shape])
    count = int(numpy.prod(shape))
    if dtype in FLOATS:
        values = numpy.where(draw.random(count) < 0.3, draw.choice(EDGES, count), draw.normal(size=count) * 4)
    else:
        values = draw.integers(0 if dtype.startswith("u") or dtype == "bool" else low, 2 if dtype == "bool" else 10, count)
    return values.astype(dtype).reshape(shape)


def weirs(x: numpy.ndarray) -> weir.Tensor:
    return xp.asarray(numpy.ascontiguousarray(x).reshape(x.shape), copy=True)


def same(got: weir.Tensor, want: object, rtol: float = 0.0) -> None:
    """Compares types, shapes and elements, also NaN and the signs of zeros."""
    want = numpy.asarray(want)
    names = {"f32": "float32", "f64": "float64", "bool": "bool"}
    name = names.get(str(got.dtype)) or str(got.dtype).replace("i", "int").replace("u", "uint")
    assert (name, got.shape) == (want.dtype.name, want.shape)
    if rtol:
        numpy.testing.assert_allclose(got.numpy(), want, rtol=rtol, atol=rtol)
    else:
        numpy.testing.assert_array_equal(got.numpy(), want)
        if want.dtype.kind == "f":
            real = ~numpy.isnan(want)
            numpy.testing.assert_array_equal(numpy.signbit(got.numpy())[real], numpy.signbit(want)[real])


@pytest.fixture(autouse=True, scope="module")
def given_back():
    """Frees compiled operations at the end, so that tests which measure the process find it small."""
    yield
    weir.trim()


@pytest.fixture(autouse=True)
def quiet():
    with numpy.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "name",
    """abs acos acosh asin asinh atan atanh ceil cos cosh exp expm1 floor isfinite isinf isnan log log10 log1p log2 negative
    positive reciprocal round sign signbit sin sinh sqrt square tan tanh trunc""".split(),
)
def test_unary(name, dtype):
    exact = name in "abs ceil floor isfinite isinf isnan negative positive round sign signbit square trunc".split()
    for shape in SHAPES:
        x = data(dtype, shape)
        if name in ("sin", "cos", "tan", "exp", "expm1", "sinh", "cosh"):
            x = numpy.where(abs(x) > 1e9, numpy.inf, x).astype(dtype)  # larger angles would test accuracy
        same(getattr(xp, name)(weirs(x)), getattr(numpy, name)(x), 0 if exact else 2e-6 if dtype == "float32" else 1e-13)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    "name", "add subtract multiply maximum minimum less less_equal greater greater_equal equal not_equal".split()
)
def test_binary(name, dtype):
    if dtype == "bool" and name in ("add", "subtract", "multiply", "maximum", "minimum"):
        pytest.skip("the standard has no arithmetic of bools")
    for left, right in [
        ((3, 4), (3, 4)),
        ((3, 4), (4,)),
        ((3, 1), (1, 4)),
        ((), (5,)),
        ((0,), (1,)),
        ((2, 1, 3), (4, 1)),
        ((), ()),
    ]:
        x, y = data(dtype, left, 1), data(dtype, right, 2)
        same(getattr(xp, name)(weirs(x), weirs(y)), getattr(numpy, name)(x, y))


@pytest.mark.parametrize("dtype", [*INTEGERS, "bool"])
@pytest.mark.parametrize("name", "bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift".split())
def test_bits(name, dtype):
    if dtype == "bool" and "shift" in name:
        pytest.skip("bools have no bits to shift")
    x, y = data(dtype, (4, 5), 3), data(dtype, (5,), 4, 0) % 8 if dtype != "bool" else data(dtype, (5,), 4)
    same(getattr(xp, name)(weirs(x), weirs(y)), getattr(numpy, name)(x, y.astype(dtype)))


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
def test_division(dtype):
    x, y = data(dtype, (40,), 5), data(dtype, (40,), 6)
    if dtype in FLOATS:
        same(xp.divide(weirs(x), weirs(y)), x / y)
        finite = numpy.isfinite(x) & numpy.isfinite(y) & (x != 0)
        x, y = x[finite], y[finite]
        same(weirs(x) ** weirs(y), x**y, 1e-4)
    else:
        y = numpy.where(y == 0, 3, y).astype(dtype)
        same(weirs(x) ** weirs(abs(y) % 4), x ** (abs(y) % 4))
    same(weirs(x) // weirs(y), x // y)
    same(weirs(x) % weirs(y), x % y)


def test_floor_divide_follows_the_standard():
    x = xp.asarray([numpy.inf, -numpy.inf, 1.0, -1.0, -0.0, 0.0, 7.5])
    y = xp.asarray([2.0, 2.0, -numpy.inf, numpy.inf, -1.0, 0.0, -2.0])
    same(x // y, numpy.asarray([numpy.inf, -numpy.inf, -0.0, -0.0, 0.0, numpy.nan, -4.0], "float32"))


@pytest.mark.parametrize(("left", "right"), list(itertools.product(TYPES, TYPES)))
def test_promotion(left, right):
    kinds = {left[0], right[0]}
    x, y = data(left, (3,), 7), data(right, (3,), 8)
    if kinds == {"u", "i"} and "uint64" in (left, right):
        with pytest.raises(TypeError):
            xp.result_type(getattr(xp, left), getattr(xp, right))
        with pytest.raises(weir.InputError):
            xp.add(weirs(x), weirs(y))
        return
    result = xp.result_type(getattr(xp, left), weirs(y))
    where = xp.where(xp.asarray([True, False, True]), weirs(x), weirs(y))
    assert where.dtype == result
    if not ("f" in kinds and len(kinds - {"b"}) > 1):  # the standard leaves integers with floats open
        assert result == weirs(numpy.add(x, y)).dtype
        same(where, numpy.where([True, False, True], x, y))


def test_numbers_take_the_type_of_the_tensor():
    for name in INTEGERS + FLOATS:
        x = xp.asarray([1, 2], dtype=getattr(xp, name))
        for y in (x + 1, 1 + x, x * True, xp.add(x, 3), xp.where(x > 1, x, 0)):
            assert y.dtype == x.dtype
    assert (xp.asarray([1]) + 0.5).dtype == "f32"
    assert (xp.asarray([2**62]) + 1).tolist() == [2**62 + 1]
    with pytest.raises(OverflowError, match="u8 has the numbers from 0 to 255"):
        xp.asarray([1], dtype=xp.uint8) + 256
    with pytest.raises(TypeError):
        xp.asarray([1]) + "1"
    with pytest.raises(TypeError, match="complex"):
        xp.asarray([1]) + 1j


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", "sum prod max min mean any all".split())
def test_reductions(name, dtype):
    if name == "mean" and dtype not in FLOATS or name in ("max", "min") and dtype == "bool":
        pytest.skip("the standard has it of floats, or of numbers, only")
    for shape in SHAPES:
        x = data(dtype, shape, 9)
        if name == "prod":
            x = (x % 3).astype(dtype)
        for axis in (None, *range(len(shape)), tuple(range(len(shape)))[:2], ()):
            for keep in (False, True):
                if name in ("max", "min") and (x.size == 0):
                    if 0 in (shape if axis is None else [shape[a] for a in (axis if isinstance(axis, tuple) else (axis,))]):
                        with pytest.raises(ValueError, match="of no elements"):
                            getattr(xp, name)(weirs(x), axis=axis, keepdims=keep)
                        continue
                want = getattr(numpy, name)(x, axis=axis, keepdims=keep)
                same(getattr(xp, name)(weirs(x), axis=axis, keepdims=keep), want, 0 if dtype not in FLOATS else 1e-5)


@pytest.mark.parametrize("correction", [0, 1, 0.5, 30])
def test_variance(correction):
    x = numpy.random.default_rng(1).normal(size=(4, 5, 6)) * 3 + 100
    for axis, keep in itertools.product((None, 0, -1, (0, 2)), (False, True)):
        want = numpy.var(x, axis=axis, ddof=correction, keepdims=keep)
        if correction < 4 or axis in (None,):
            same(xp.var(weirs(x), axis=axis, correction=correction, keepdims=keep), want, 1e-12)
            same(xp.std(weirs(x), axis=axis, correction=correction, keepdims=keep), want**0.5, 1e-12)
    assert xp.isnan(xp.var(xp.zeros((0, 3))))


def test_totals_have_a_type():
    x = xp.asarray([200, 100], dtype=xp.uint8)
    assert xp.sum(x).tolist() == 300 and xp.sum(x).dtype == "u64"
    assert xp.sum(x, dtype=xp.uint8).tolist() == 44
    assert xp.cumulative_sum(x, dtype=xp.float32, include_initial=True).tolist() == [0.0, 200.0, 300.0]
    assert xp.cumulative_prod(x, include_initial=True).tolist() == [1, 200, 20000]


@pytest.mark.parametrize("dtype", TYPES)
def test_order(dtype):
    if dtype == "bool":
        pytest.skip("bools have no order")
    for shape in [(7,), (3, 5), (0,), (2, 3, 4)]:
        x = data(dtype, shape, 10)
        for axis in range(len(shape)):
            same(xp.sort(weirs(x), axis=axis), numpy.sort(x, axis=axis, stable=True))
            same(xp.argsort(weirs(x), axis=axis), numpy.argsort(x, axis=axis, stable=True))
            if 0 not in shape and dtype not in FLOATS:
                same(xp.sort(weirs(x), axis=axis, descending=True), numpy.flip(numpy.sort(x, axis=axis), axis))
                same(xp.argmax(weirs(x), axis=axis), numpy.argmax(x, axis=axis))
                same(xp.argmin(weirs(x), axis=axis, keepdims=True), numpy.argmin(x, axis=axis, keepdims=True))
    keys = numpy.sort(data(dtype, (40,), 11))
    keys = keys[~numpy.isnan(keys)] if dtype in FLOATS else keys
    probes = data(dtype, (3, 4), 12)
    probes = numpy.nan_to_num(probes) if dtype in FLOATS else probes
    for side in ("left", "right"):
        same(xp.searchsorted(weirs(keys), weirs(probes), side=side), numpy.searchsorted(keys, probes, side=side))


def test_sets():
    x = data("int32", (4, 6), 13)
    for got, want in zip(xp.unique_all(weirs(x)), numpy.unique_all(x)):
        same(got, want)
    nans = data("float32", (5, 7), 22)
    for got, want in zip(xp.unique_all(weirs(nans)), numpy.unique_all(nans)):
        if want.dtype.kind == "f":
            numpy.testing.assert_array_equal(got.numpy(), want)  # the standard leaves the sign of zero open
        else:
            same(got, want)
    assert xp.unique_values(xp.zeros((0, 2))).shape == (0,)


def test_positions():
    x = data("float32", (4, 6), 14)
    for got, want in zip(xp.nonzero(weirs(x)), numpy.nonzero(x)):
        same(got, want)
    same(xp.count_nonzero(weirs(x), axis=1), numpy.count_nonzero(x, axis=1))


def test_shapes():
    x = data("float64", (2, 3, 4), 15)
    w = weirs(x)
    same(xp.reshape(w, (4, -1)), x.reshape(4, -1))
    same(xp.permute_dims(w, (2, 0, 1)), x.transpose(2, 0, 1))
    same(xp.moveaxis(w, (0, 1), (-1, 0)), numpy.moveaxis(x, (0, 1), (-1, 0)))
    same(xp.flip(w, axis=(0, 2)), numpy.flip(x, (0, 2)))
    same(xp.roll(w, (1, -2), axis=(0, 2)), numpy.roll(x, (1, -2), (0, 2)))
    same(xp.roll(w, 5), numpy.roll(x, 5))
    same(xp.tile(w, (2, 1, 3, 1)), numpy.tile(x, (2, 1, 3, 1)))
    same(xp.repeat(w, 2, axis=1), numpy.repeat(x, 2, axis=1))
    same(xp.repeat(w, xp.asarray([2, 0, 1]), axis=1), numpy.repeat(x, [2, 0, 1], axis=1))
    same(xp.repeat(w, 0), numpy.repeat(x, 0))
    same(xp.squeeze(xp.expand_dims(w, axis=(0, -1)), (0, -1)), x)
    same(xp.stack([w, w], axis=1), numpy.stack([x, x], axis=1))
    same(xp.concat([w, w[:0], w], axis=0), numpy.concat([x, x[:0], x]))
    same(xp.concat([w, xp.asarray([1.0])], axis=None), numpy.append(x, 1.0))
    same(xp.diff(w, axis=2, n=2), numpy.diff(x, axis=2, n=2))
    same(xp.take(w, xp.asarray([2, 0]), axis=1), numpy.take(x, [2, 0], axis=1))
    same(
        xp.take_along_axis(w, xp.asarray([[[0], [2], [1]]]), axis=2),
        numpy.take_along_axis(x, numpy.asarray([[[0], [2], [1]]]), 2),
    )
    for got, want in zip(xp.unstack(w, axis=1), numpy.unstack(x, axis=1)):
        same(got, want)
    for got, want in zip(xp.broadcast_arrays(w, weirs(x[:1, :, :1])), numpy.broadcast_arrays(x, x[:1, :, :1])):
        same(got, want)
    for got, want in zip(xp.meshgrid(xp.asarray([1, 2]), xp.asarray([3, 4, 5])), numpy.meshgrid([1, 2], [3, 4, 5])):
        same(got, want)
    with pytest.raises(weir.InputError, match="has 24 elements, the shape"):
        xp.reshape(w, (5, 5))
    with pytest.raises(ValueError, match="cannot be broadcast"):
        xp.broadcast_arrays(w, xp.zeros((5,)))


@pytest.mark.parametrize("dtype", FLOATS + ["int32", "uint8"])
def test_matrices(dtype):
    draw = numpy.random.default_rng(16)
    x, y = draw.integers(0, 5, (2, 3, 4)).astype(dtype), draw.integers(0, 5, (4, 5)).astype(dtype)
    same(weirs(x) @ weirs(y), x @ y)
    same(weirs(x[0, 0]) @ weirs(y), x[0, 0] @ y)
    same(xp.matmul(weirs(x), weirs(y[:, 0])), x @ y[:, 0])
    same(xp.matmul(weirs(x[:, :, :0]), weirs(y[:0])), x[:, :, :0] @ y[:0])
    same(xp.tensordot(weirs(x), weirs(y), axes=1), numpy.tensordot(x, y, 1))
    same(xp.tensordot(weirs(x), weirs(x), axes=((0, 2), (0, 2))), numpy.tensordot(x, x, ((0, 2), (0, 2))))
    same(xp.vecdot(weirs(x), weirs(y[:, 1])), numpy.vecdot(x, y[:, 1]))
    same(weirs(x).mT, x.mT)
    same(weirs(y).T, y.T)
    same(xp.tril(weirs(x), k=-1), numpy.tril(x, -1))
    same(xp.triu(weirs(x), k=1), numpy.triu(x, 1))


INDICES = [
    (), 0, -1, (1, 2), slice(None), slice(1, None), slice(None, None, -1), slice(5, -9, -2), slice(7, 9), ..., None, (..., 0),
    (0, ..., None), (None, slice(None, 1), -2), (slice(None), slice(2, 0, -1), slice(None, None, 3)), (slice(0, 0),),
    numpy.asarray([1, 0, 1]), (numpy.asarray([[1], [0]]), 0, slice(1, 3)),
    (slice(None), numpy.asarray([2, -1]), numpy.asarray([0, 3])),
    numpy.asarray([True, False]), (0, numpy.asarray([0, 1], "int32")), numpy.asarray([], "int64"),
]  # fmt: skip


def tensors(key: object) -> object:
    if isinstance(key, tuple):
        return tuple(tensors(k) for k in key)
    return weirs(key) if isinstance(key, numpy.ndarray) else key


@pytest.mark.parametrize("place", range(len(INDICES)))
def test_indexing(place):
    key, x = INDICES[place], data("int16", (2, 3, 4), 17)
    w = weirs(x)
    same(w[tensors(key)], x[key])
    for value in (7, data("int16", x[key].shape, 18)):
        x[key] = value
        w[tensors(key)] = value if isinstance(value, int) else weirs(value)
        same(w, x)


def test_indexing_masks():
    x = data("float32", (3, 4), 19)
    w, mask = weirs(x), x > 0
    same(w[weirs(mask)], x[mask])
    w[weirs(mask)] = -1
    x[mask] = -1
    same(w, x)
    for one in (True, False):
        same(w[xp.asarray(one)], x[numpy.asarray(one)])
    w[xp.asarray(False)] = 9
    same(w, x)
    same(w[weirs(numpy.zeros((0, 4), bool))], x[numpy.zeros((3, 4), bool)])
    for wrong in ((0, 3), (2, 4), (4,), (3, 4, 1)):
        with pytest.raises(IndexError):
            w[weirs(numpy.ones(wrong, bool))]
    w[xp.asarray(True)] = 9
    assert xp.all(w == 9)


def test_wrong_indices():
    x = xp.zeros((2, 3))
    for key in (2, (0, 3), (0, 0, 0), "a", 1.5, [0], True):
        with pytest.raises((IndexError, TypeError)):
            x[key]
    with pytest.raises(ValueError):
        x[..., ...]
    with pytest.raises(ValueError):
        x[::0]
    with pytest.raises(weir.InputError):
        x[xp.asarray([5])]
    with pytest.raises(weir.InputError):
        x[0] = xp.zeros((2,))
    with pytest.raises(TypeError, match="a float cannot be written"):
        xp.zeros((2,), dtype=xp.int32)[0] = 0.5


@pytest.mark.parametrize("name", "add sub mul truediv floordiv mod pow and_ or_ xor lshift rshift matmul".split())
def test_operators(name):
    f, place = getattr(operator, name), getattr(operator, "i" + name.rstrip("_"))
    dtype = "float64" if name in ("truediv", "matmul") else "int64"
    x, y = data("int64", (3, 3), 20, 1).astype(dtype), data("int64", (3, 3), 21, 1).astype(dtype)
    x, y = abs(x) % 5 + 1, abs(y) % 5 + 1
    same(f(weirs(x), weirs(y)), f(x, y))
    if name != "matmul":
        same(f(weirs(x), 2), f(x, 2))
        same(f(2, weirs(x)), f(2, x))
    w = weirs(x)
    view, address = w.numpy(), w.data_ptr
    v = w
    w = place(w, weirs(y))
    assert w is v and w.data_ptr == address
    same(w, f(x, y))
    numpy.testing.assert_array_equal(view, f(x, y))


def test_in_place_keeps_type_and_shape():
    x = xp.asarray([1, 2])
    with pytest.raises(TypeError, match="another type"):
        x += xp.asarray([0.5, 0.5])
    with pytest.raises(ValueError, match="another shape"):
        x += xp.ones((3, 2), dtype=xp.int64)
    assert x.tolist() == [1, 2]


def test_read_only_memory_is_not_written():
    x = numpy.zeros(3, numpy.float32)
    x.flags.writeable = False
    w = xp.from_dlpack(x)
    with pytest.raises(weir.InputError, match="may only be read"):
        w[0] = 1
    with pytest.raises(weir.InputError, match="may only be read"):
        w += 1
    assert x.tolist() == [0, 0, 0]


def test_objects():
    x = xp.asarray([[1, 2], [3, 4]])
    assert x.__array_namespace__() is xp and x.__array_namespace__(api_version="2024.12") is xp
    with pytest.raises(ValueError):
        x.__array_namespace__(api_version="1999.12")
    assert (x.device, x.to_device("cpu") is x, x.ndim, x.size, x.shape) == ("cpu", True, 2, 4, (2, 2))
    with pytest.raises(ValueError):
        x.to_device("gpu")
    assert [row.tolist() for row in x] == [[1, 2], [3, 4]] and len({x, x}) == 1
    assert (x == None) is False and (x != None) is True  # noqa: E711
    assert range(5)[x[0, 1]] == 2 and float(x[1, 1]) == 4.0 and complex(x[0, 0]) == 1 and bool(x[0, 0])
    for wrong in (int, float, bool):
        with pytest.raises(ValueError):
            wrong(x)
    with pytest.raises(TypeError):
        operator.index(xp.asarray(1.0))


def test_types():
    assert xp.float32 == "f32" and str(xp.float32) == "f32" and xp.float32 != xp.float64 and len({xp.float32, "f32"}) == 1
    info = xp.__array_namespace_info__()
    assert set(info.dtypes()) == set(TYPES) and set(info.dtypes(kind="unsigned integer")) == {
        t for t in INTEGERS if t[0] == "u"
    }
    for name in INTEGERS:
        mine, theirs = xp.iinfo(getattr(xp, name)), numpy.iinfo(name)
        assert (mine.bits, mine.max, mine.min) == (theirs.bits, theirs.max, theirs.min)
    for name in [*FLOATS, "float16"]:
        mine, theirs = xp.finfo(getattr(xp, name)), numpy.finfo(name)
        assert (mine.bits, mine.max, mine.min, mine.eps) == (theirs.bits, theirs.max, theirs.min, theirs.eps)
        assert mine.smallest_normal == theirs.smallest_normal
    assert xp.isdtype(xp.int8, ("bool", "signed integer")) and not xp.isdtype(xp.float64, xp.float32)
    with pytest.raises(ValueError):
        xp.isdtype(xp.int8, "signed")
    assert xp.can_cast(xp.int8, xp.int16) and not xp.can_cast(xp.int16, xp.uint16)
    for left, right in itertools.product(TYPES, TYPES):
        x = numpy.asarray([0, 1, 1, 0], left)
        same(xp.astype(weirs(x), getattr(xp, right)), x.astype(right))


def test_creation():
    same(xp.arange(5), numpy.arange(5))
    same(xp.arange(10, 0, -3), numpy.arange(10, 0, -3))
    same(xp.arange(2**63, 2**64 - 1, 2**62, dtype=xp.uint64), numpy.arange(2**63, 2**64 - 1, 2**62, dtype="uint64"))
    same(xp.arange(0.0, 1.0, 0.1, dtype=xp.float64), numpy.arange(0.0, 1.0, 0.1))
    same(xp.linspace(0, 1, 7, dtype=xp.float64), numpy.linspace(0, 1, 7), 1e-15)
    same(xp.linspace(0, 1, 7, dtype=xp.float64, endpoint=False), numpy.linspace(0, 1, 7, endpoint=False), 1e-15)
    same(xp.eye(3, 4, k=-1, dtype=xp.int8), numpy.eye(3, 4, k=-1, dtype="int8"))
    same(xp.full((2, 3), 2**64 - 1, dtype=xp.uint64), numpy.full((2, 3), 2**64 - 1, "uint64"))
    same(xp.full_like(xp.ones((2,), dtype=xp.bool), False), numpy.zeros(2, bool))
    same(xp.ones_like(xp.zeros((0, 3), dtype=xp.int16)), numpy.ones((0, 3), "int16"))
    assert xp.asarray([1.5, 2**20 + 0.1], dtype=xp.bfloat16).tolist() == [1.5, 2.0**20]
    assert xp.asarray([70000.0, -1e300], dtype=xp.float16).tolist() == [float("inf"), -float("inf")]
    assert xp.asarray(1e300).tolist() == float("inf")
    assert xp.asarray([True, 2]).dtype == "i64" and xp.asarray([]).dtype == "f32" and xp.asarray([2**63]).dtype == "u64"
    assert xp.asarray([[xp.asarray(1), 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]
    assert xp.asarray(memoryview(struct.pack("3i", 1, 2, 3)).cast("i")).tolist() == [1, 2, 3]
    for wrong, kind in (
        ([[1], [1, 2]], ValueError),
        ([1, [2]], ValueError),
        ("abc", TypeError),
        ([1j], TypeError),
        (object(), TypeError),
    ):
        with pytest.raises(kind):
            xp.asarray(wrong)
    with pytest.raises(OverflowError):
        xp.asarray([-1], dtype=xp.uint8)
    with pytest.raises(ValueError):
        xp.zeros((1,), device="gpu")


def test_memory_is_shared_or_copied():
    x = numpy.arange(4.0)
    assert xp.asarray(x).data_ptr == x.ctypes.data and xp.asarray(x, copy=True).data_ptr != x.ctypes.data
    w = xp.asarray(x)
    assert xp.asarray(w) is w and xp.asarray(w, copy=True).data_ptr != w.data_ptr
    assert xp.astype(w, xp.float64, copy=False) is w and xp.astype(w, xp.float64) is not w
    with pytest.raises(ValueError):
        xp.asarray(w, dtype=xp.float32, copy=False)
    with pytest.raises(ValueError):
        xp.asarray([1], copy=False)
    for copied in (w[...], +w, xp.reshape(w, (2, 2))):
        copied[0] = 9
    assert x.tolist() == [0, 1, 2, 3]


def test_closed_tensors():
    x = xp.ones((3,))
    x.close()
    with pytest.raises(weir.ClosedError):
        x + 1
    with pytest.raises(TypeError, match="add takes tensors|a tensor or a number"):
        xp.add(xp.ones((3,)), [1, 2, 3])


def test_errors_name_the_operation():
    with pytest.raises(weir.InputError, match="f32\\[3\\].*f32\\[4\\]") as caught:
        xp.ones((3,)) + xp.ones((4,))
    assert caught.value.op == "add" and not caught.value.file


def test_unknown_operations():
    from weir._operate import operate

    x = xp.ones((3,))
    for name, operands, give in [
        ("nothing", [x], []),
        ("add", [x], []),
        ("add", [x, x, x], []),
        ("sum", [x], ["a"]),
        ("eye", [], ["f32", 1]),
    ]:
        with pytest.raises(weir.InputError):
            operate(name, *operands, give=give)


def work() -> None:
    """Operations of every kind, and failures."""
    x = xp.asarray([[1.0, 2.0], [3.0, 4.0]])
    y = xp.sum(x @ x + 1.5, axis=0)
    y += 1
    y[0] = xp.max(x)
    xp.unique_all(x), xp.nonzero(x), xp.unstack(x), x[x > 2], xp.repeat(x, xp.asarray([1, 2]), axis=0)
    for wrong in (lambda: x + xp.ones((3,)), lambda: xp.reshape(x, (3,)), lambda: x[:, xp.asarray([9])]):
        with pytest.raises(weir.InputError):
            wrong()


def test_nothing_leaks():
    work()
    gc.collect()
    before = weir.usage()
    for _ in range(200):
        work()
    gc.collect()
    after = weir.usage()
    for kind in (
        "tensors_bytes",
        "outputs_bytes",
        "code_bytes",
        "arenas_bytes",
        "scratch_bytes",
        "current_bytes",
        "handles",
        "exported",
    ):
        assert after[kind] == before[kind], kind


def test_trim_gives_compiled_operations_back():
    work()
    gc.collect()
    assert weir.usage()["code_bytes"] > 0
    assert weir.trim() > 0
    after = weir.usage()
    assert (after["code_bytes"], after["cached_bytes"]) == (0, 0)
    work()


def test_numpy_is_not_needed():
    program = """
import sys
sys.modules["numpy"] = None
import weir
xp = weir.array_api
x = xp.asarray([[1, 2], [3, 4]], dtype=xp.bfloat16)
x[0] = xp.exp(xp.asarray(0.0))
assert (x @ x).tolist() == [[4.0, 5.0], [15.0, 19.0]] and int(xp.argmax(x)) == 3 and x[1, 1].item() == 4
assert xp.asarray([1.5], dtype=xp.float16).item() == 1.5 and list(map(bool, xp.asarray([0, 2]) > 1)) == [False, True]
"""
    subprocess.run([sys.executable, "-X", "dev", "-c", program], cwd=os.path.dirname(__file__), check=True)


def test_threads():
    wrong = []

    def run(seed: int) -> None:
        draw = random.Random(seed)
        for _ in range(50):
            n = draw.randrange(1, 40)
            x = xp.arange(n, dtype=xp.float64)
            if float(xp.sum(x * 2)) != n * (n - 1):
                wrong.append(n)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
