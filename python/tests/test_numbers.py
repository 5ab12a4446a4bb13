"""NumPy's scalars wherever a number is taken: they mean Python's number of their kind."""

from __future__ import annotations

import json
import operator
from typing import Any, Callable

import numpy as np
import pytest
import weir
import weir.array_api as xp

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None

ADD = b"""weir 1
ir @add {
  dim n in [0, 1000]
  main @main(%x: f32[n], %y: f32[]) {
    %sum: f32[n] = add(%x, %y)
    return %sum
  }
}
"""

BOOLS = [np.bool_]
WHOLE = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
FLOATS = [np.float16, np.float32, np.float64, np.longdouble]
NARROW = [] if ml_dtypes is None else [ml_dtypes.int4, ml_dtypes.uint4]  # which have no __index__
FLOATS += [] if ml_dtypes is None else [ml_dtypes.bfloat16, ml_dtypes.float8_e5m2]


def told(value: Any) -> Any:
    """A result, with its type."""
    if isinstance(value, weir.Tensor):
        return (value.dtype.name, value.shape, repr(value.tolist()))
    if isinstance(value, (tuple, list)):
        return [told(v) for v in value]
    return repr(value)


def written(x: weir.Tensor, v: Any) -> weir.Tensor:
    x = +x
    x[0] = v
    return x


def in_place(x: weir.Tensor, v: Any) -> weir.Tensor:
    x = +x
    x += v
    return x


# Functions of a tensor and a number.
OF_VALUES: list[Callable[[weir.Tensor, Any], Any]] = [
    lambda x, v: xp.full((2,), v), lambda x, v: xp.full_like(x, v), lambda x, v: xp.asarray(v),
    lambda x, v: xp.asarray([v, v]), lambda x, v: xp.asarray([[v], [1]]), lambda x, v: xp.asarray([x, x + v]),
    lambda x, v: xp.arange(v), lambda x, v: xp.arange(1, 7, v), lambda x, v: xp.linspace(0, v, 3),
    lambda x, v: xp.result_type(x, v), lambda x, v: xp.clip(x, v, None), lambda x, v: xp.clip(x, None, v),
    lambda x, v: xp.where(x > v, v, x), lambda x, v: xp.where(x > 2, v, 0), lambda x, v: xp.where(x > 2, 0, v),
    lambda x, v: xp.var(x, correction=v), lambda x, v: xp.std(x, axis=0, correction=v),
    lambda x, v: xp.searchsorted(xp.asarray([0, 1, 2, 3], dtype=x.dtype), v), lambda x, v: xp.full((2,), v, dtype=xp.bool),
    lambda x, v: xp.full((), v, dtype=xp.float64), written, in_place,
    *[lambda x, v, f=f: f(x, v) for f in (xp.add, xp.maximum, xp.atan2, xp.equal, xp.pow, xp.remainder, xp.logaddexp, xp.divide)],
    *[lambda x, v, f=f: f(v, x) for f in (xp.subtract, xp.minimum, xp.less, xp.floor_divide, xp.copysign)],
    *[lambda x, v, f=f: f(x, v) for f in (operator.add, operator.mul, operator.pow, operator.lt, operator.eq, operator.and_)],
    *[
        lambda x, v, f=f: f(v, x)
        for f in (
            operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow,
            operator.lt, operator.ge, operator.eq, operator.ne, operator.or_, operator.lshift, operator.matmul,
        )
    ],
]  # fmt: skip

# Functions of a tensor f32[2, 2], or i64[2, 2], and an integer.
OF_WHOLE: list[Callable[[weir.Tensor, Any], Any]] = [
    lambda x, k: xp.zeros(k), lambda x, k: xp.ones((k, 2)), lambda x, k: xp.empty([k]), lambda x, k: weir.zeros((k, k)),
    lambda x, k: xp.eye(k), lambda x, k: xp.eye(3, k, k=k), lambda x, k: xp.tril(x, k=k), lambda x, k: xp.triu(x, k=k),
    lambda x, k: xp.linspace(0, 1, k), lambda x, k: xp.linspace(0, 1, k, endpoint=False),
    lambda x, k: xp.reshape(x, (k, -1)), lambda x, k: xp.broadcast_to(x, (k, 2, 2)), lambda x, k: xp.roll(x, k),
    lambda x, k: xp.roll(x, (k, k), axis=(0, k)), lambda x, k: xp.repeat(x, k), lambda x, k: xp.repeat(x, k, axis=k),
    lambda x, k: xp.tile(x, (k, k)), lambda x, k: x[k], lambda x, k: x[k:, None, :k], lambda x, k: x[..., k],
    lambda x, k: x[::k], lambda x, k: xp.tensordot(x, x, axes=k), lambda x, k: xp.tensordot(x, x, axes=((k,), (0,))),
    lambda x, k: xp.diff(x, n=k, axis=k), lambda x, k: xp.vecdot(x, x, axis=-int(k)), lambda x, k: xp.expand_dims(x, axis=k),
    lambda x, k: xp.squeeze(xp.reshape(x, (4, 1)), axis=k), lambda x, k: xp.moveaxis(x, k, 0), lambda x, k: xp.permute_dims(x, (k, 0)),
    *[lambda x, k, f=f: f(x, axis=k) for f in (
        xp.sum, xp.prod, xp.mean, xp.max, xp.min, xp.all, xp.any, xp.var, xp.std, xp.argmax, xp.argmin, xp.argsort, xp.sort,
        xp.cumulative_sum, xp.cumulative_prod, xp.flip, xp.count_nonzero, xp.unstack,
    )],
    *[lambda x, k, f=f: f(x, axis=(k,)) for f in (xp.sum, xp.mean, xp.flip, xp.var)],
    lambda x, k: xp.concat([x, x], axis=k), lambda x, k: xp.stack([x, x], axis=k), lambda x, k: xp.take(x, xp.asarray([0]), axis=k),
    lambda x, k: xp.take_along_axis(x, xp.asarray([[0], [0]]), axis=k), lambda x, k: weir.zeros((2, 2)).shape[k],
]  # fmt: skip


def outcome(f: Callable[[], Any]) -> Any:
    try:
        return told(f())
    except (TypeError, ValueError, IndexError, OverflowError) as error:
        return type(error)


def test_values():
    """The result for a scalar of NumPy is that for Python's number."""
    for x in (xp.asarray([[1.0, 2.0], [3.0, 4.0]]), xp.asarray([[1, 2]], dtype=xp.uint8)):
        for i, f in enumerate(OF_VALUES):
            for kinds, values in ((BOOLS, [True, False]), (WHOLE + NARROW, [3]), (FLOATS, [1.5])):
                for value in values:
                    expected = outcome(lambda: f(x, value))
                    for kind in kinds:
                        assert outcome(lambda: f(x, kind(value))) == expected, (i, x, kind, value)


@pytest.mark.parametrize("kind", WHOLE)
def test_axes_and_extents(kind):
    for x in (xp.asarray([[1.0, 2.0], [3.0, 4.0]]), xp.asarray([[1, 2], [3, 4]])):
        for i, f in enumerate(OF_WHOLE):
            assert told(f(x, kind(1))) == told(f(x, 1)), (i, kind)
    x = xp.ones((130,))
    if kind is np.int8:  # numbers that would wrap in the scalar's type
        assert xp.reshape(x, (kind(65), kind(2))).shape == (65, 2)
        assert xp.roll(x, (kind(100), kind(100))).shape == (130,)
        assert xp.linspace(0, 1, kind(127), endpoint=False).shape == (127,)
        assert xp.full((2,), kind(127)).tolist() == [127, 127]


def test_the_others_are_refused():
    x = xp.asarray([[1.0, 2.0], [3.0, 4.0]])
    for value in (np.complex64(1), np.str_("1"), np.datetime64("2020-01-01"), np.timedelta64(1, "s"), np.void(b"1"), "1"):
        for f in (lambda: xp.full((2,), value), lambda: xp.add(x, value), lambda: xp.asarray([value])):
            with pytest.raises(TypeError):
                f()
    for place in (np.float32(1), np.bool_(True), np.str_("a")):
        for key in (place, (0, place)):
            with pytest.raises(IndexError):
                x[key]
    for f in (xp.sum, xp.sort, xp.concat):
        with pytest.raises((TypeError, weir.Error)):
            f(x, axis=np.float32(1))
    with pytest.raises(TypeError):
        xp.zeros(np.float64(2))


def test_arrays_of_numpy_stay_numpys():
    """Only scalars of NumPy leave an operator to the tensor."""
    x, y = xp.asarray([1.0, 2.0]), np.asarray([1.0, 2.0], np.float32)
    assert isinstance(y + x, np.ndarray) and isinstance(np.exp(x), np.ndarray) and isinstance(np.float32(1) + x, weir.Tensor)
    np.testing.assert_array_equal(x, y)


def test_element_types():
    for ours, theirs in ((xp.float32, np.float32), (xp.int8, np.dtype("int8")), (xp.bool, np.bool_), (xp.uint64, "uint64")):
        assert xp.zeros(2, dtype=theirs).dtype == ours and xp.astype(xp.ones(2), theirs).dtype == ours
        assert weir.zeros((2,), theirs).dtype == ours and xp.result_type(ours, xp.asarray([True])) == ours
    for wrong in (np.complex64, "float", np.str_, None.__class__):
        with pytest.raises(TypeError):
            xp.zeros(2, dtype=wrong)


@pytest.mark.parametrize("kind", [np.int8, np.int64, np.uint16])
def test_options(kind):
    with weir.compile(ADD, budget=kind(0), calls=kind(2), threads=kind(1), exact=np.bool_(False)) as p:
        assert p.calls == 2 and json.dumps(p.calls)
        assert p.memory.peak(n=kind(4)) == p.memory.peak(calls=kind(2), n=4) and p.memory.copies(n=kind(4)) >= 0
        assert "<html" in str(weir.plan_html(p, n=kind(4)))
        for value in (np.float32(0.5), np.float64(0.5), np.float16(0.5)):
            assert p([1.0, 2.0], value).tolist() == [1.5, 2.5]
        assert p(np.ones(2, np.float32), kind(3)).tolist() == [4, 4]
    with weir.compile(ADD, dims={"n": kind(4)}) as p:
        assert (p.dims[0].min, p.dims[0].max) == (4, 4)
    with weir.compile(ADD, dims={"n": (kind(1), kind(4))}, layouts={"x": (kind(0),)}) as p:
        assert p.dims[0].max == 4
    before = weir.set_limit(kind(0))
    assert weir.set_limit(np.int64(before)) == 0
    for wrong in (np.float64(4), 4.0, "4"):
        for options in ({"calls": wrong}, {"budget": wrong}, {"threads": wrong}, {"dims": {"n": wrong}}):
            with pytest.raises(TypeError):
                weir.compile(ADD, **options)
