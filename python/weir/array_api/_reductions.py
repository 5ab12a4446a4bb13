"""Functions along axes: statistics, searching, sorting, sets."""

from __future__ import annotations

from typing import Literal, NamedTuple

from .._dtypes import DType
from .._numbers import number
from .._operate import Scalar, copy_of, operand, operate, operate_several, pair, written
from .._tensor import Tensor, zeros
from ._manipulation import Axes, axes_of, concat, flat, place_of
from ._types import _known, astype, float32, int64


class UniqueAll(NamedTuple):
    """The results of unique_all."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """The results of unique_counts."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """The results of unique_inverse."""

    values: Tensor
    inverse_indices: Tensor


def _along(name: str, x: Tensor, axis: Axes | None, keepdims: bool) -> Tensor:
    """A reduction. Without axes it reduces an additional axis of extent 1."""
    if isinstance(axis, tuple) and not axis:
        return operate(name, operate("expand_dims", x, give=[-1]), give=[-1])
    axes = axes_of(axis)
    if len({place_of(a, x.ndim) for a in axes}) != len(axes):
        raise ValueError(f"axes {axis}: one is named twice")
    return operate(f"{name}_keep" if keepdims else name, x, give=axes)


def _extreme(name: str, x: Tensor, axis: Axes | None, keepdims: bool) -> Tensor:
    """A reduction that needs at least one element."""
    axes = range(x.ndim) if axis is None else axes_of(axis)
    if 0 in [x.shape[place_of(a, x.ndim)] for a in axes]:
        raise ValueError(f"the {name} of no elements, of {x!r} along {axis}")
    return _along(name, x, axis, keepdims)


def _total(name: str, x: Tensor, axis: Axes | None, dtype: DType | None, keepdims: bool) -> Tensor:
    """A sum or a product in a type: by default, integers in the widest type of their sign."""
    if dtype is None and x.dtype.kind == "bool":
        dtype = int64
    if dtype is not None and x.dtype != _known(dtype):
        x = astype(x, dtype)
    result = _along(name, x, axis, keepdims)
    return result if dtype is None else astype(result, dtype, copy=False)


def all(x: Tensor, /, *, axis: Axes | None = None, keepdims: bool = False) -> Tensor:
    """Whether all elements are true."""
    return _along("all", x, axis, keepdims)


def any(x: Tensor, /, *, axis: Axes | None = None, keepdims: bool = False) -> Tensor:
    """Whether an element is true."""
    return _along("any", x, axis, keepdims)


def max(x: Tensor, /, *, axis: Axes | None = None, keepdims: bool = False) -> Tensor:
    """The greatest elements; NaN if an element is NaN."""
    return _extreme("max", x, axis, keepdims)


def min(x: Tensor, /, *, axis: Axes | None = None, keepdims: bool = False) -> Tensor:
    """The least elements; NaN if an element is NaN."""
    return _extreme("min", x, axis, keepdims)


def mean(x: Tensor, /, *, axis: Axes | None = None, keepdims: bool = False) -> Tensor:
    """The means; NaN for no elements."""
    return _along("mean", x, axis, keepdims)


def prod(x: Tensor, /, *, axis: Axes | None = None, dtype: DType | None = None, keepdims: bool = False) -> Tensor:
    """The products; integers as i64 or u64."""
    return _total("prod", x, axis, dtype, keepdims)


def sum(x: Tensor, /, *, axis: Axes | None = None, dtype: DType | None = None, keepdims: bool = False) -> Tensor:
    """The sums; integers as i64 or u64."""
    return _total("sum", x, axis, dtype, keepdims)


def var(x: Tensor, /, *, axis: Axes | None = None, correction: int | float = 0.0, keepdims: bool = False) -> Tensor:
    """The variances: the sums of squared differences from the mean, divided by the number of elements minus correction.
    """
    if isinstance(axis, tuple) and not axis:
        return var(operate("expand_dims", x, give=[-1]), axis=-1, correction=correction)
    axes = list(range(x.ndim)) if axis is None else axes_of(axis)
    count = 1
    for a in axes:
        count *= x.shape[place_of(a, x.ndim)]
    centre = _along("mean", x, axis, True)
    squares = operate("square", operate("sub", astype(x, centre.dtype, copy=False), centre))
    left = count - number(correction)
    return operate("div", _along("sum", squares, axis, keepdims), written([left if left > 0 else 0], (), centre.dtype))


def std(x: Tensor, /, *, axis: Axes | None = None, correction: int | float = 0.0, keepdims: bool = False) -> Tensor:
    """The square roots of the variances."""
    return operate("sqrt", var(x, axis=axis, correction=correction, keepdims=keepdims))


def _cumulative(name: str, x: Tensor, axis: int | None, dtype: DType | None, first: int | None) -> Tensor:
    """Totals up to each element, after an initial one if it is asked for."""
    if axis is None:
        if x.ndim > 1:
            raise ValueError(f"{x!r} has {x.ndim} axes: say along which")
        axis = 0
    if x.ndim == 0:
        x = flat(x)
    axis = place_of(axis, x.ndim)
    if dtype is not None and x.dtype != _known(dtype):
        x = astype(x, dtype)
    result = operate(name, x, give=[axis])
    if dtype is not None:
        result = astype(result, dtype, copy=False)
    if first is None:
        return result
    shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    begin = operate("broadcast_to", written([first], (), result.dtype), give=list(shape))
    return concat([begin, result], axis=axis)


def cumulative_sum(
    x: Tensor, /, *, axis: int | None = None, dtype: DType | None = None, include_initial: bool = False
) -> Tensor:
    """The sums of each element and all before it along an axis, after a 0 if include_initial is True."""
    return _cumulative("cumsum", x, axis, dtype, 0 if include_initial else None)


def cumulative_prod(
    x: Tensor, /, *, axis: int | None = None, dtype: DType | None = None, include_initial: bool = False
) -> Tensor:
    """The products of each element and all before it along an axis, after a 1 if include_initial is True."""
    return _cumulative("cumprod", x, axis, dtype, 1 if include_initial else None)


def diff(x: Tensor, /, *, axis: int = -1, n: int = 1, prepend: Tensor | None = None, append: Tensor | None = None) -> Tensor:
    """The differences of neighbours along an axis, each element minus the one before it, n times over."""
    parts = [part for part in (prepend, x, append) if part is not None]
    if len(parts) > 1:
        x = concat(parts, axis=axis)
    axis = place_of(axis, x.ndim)
    if n == 0:
        return copy_of(x)
    for _ in range(n):
        x = operate("diff", x, give=[axis])
    return x


def _position(name: str, x: Tensor, axis: int | None, keepdims: bool) -> Tensor:
    """The indices of the greatest or least elements."""
    rank = x.ndim
    if axis is None:
        result = operate(name, flat(x), give=[0])
        return operate("reshape", result, give=[1] * rank) if keepdims else result
    axis = place_of(axis, rank)
    result = operate(name, x, give=[axis])
    return operate("expand_dims", result, give=[axis]) if keepdims else result


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The indices of the greatest elements, i64; of several, the first."""
    return _position("argmax", x, axis, keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The indices of the least elements, i64; of several, the first."""
    return _position("argmin", x, axis, keepdims)


def count_nonzero(x: Tensor, /, *, axis: Axes | None = None, keepdims: bool = False) -> Tensor:
    """The numbers of elements that are not 0, i64."""
    return sum(operate("cast", x, give=["bool"]), axis=axis, keepdims=keepdims)


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """The indices of the elements that are not 0, i64: a vector for each axis."""
    if x.ndim == 0:
        raise ValueError("a tensor without axes has no positions")
    return tuple(operate_several("nonzero", x))


def searchsorted(
    x1: Tensor, x2: Tensor | Scalar, /, *, side: Literal["left", "right"] = "left", sorter: Tensor | None = None
) -> Tensor:
    """The indices in x1, a vector in ascending order, at which the elements of x2 could be inserted, i64."""
    if side not in ("left", "right"):
        raise ValueError(f"side {side!r}; it is left or right")
    if sorter is not None:
        x1 = operate("take", x1, sorter, give=[0])
    return operate("searchsorted", x1, operand(x2, x1.dtype), give=[side == "right"])


def where(condition: Tensor, x1: Tensor | Scalar, x2: Tensor | Scalar, /) -> Tensor:
    """x1 where condition is true and x2 elsewhere, in their common type."""
    if not isinstance(x1, Tensor) and not isinstance(x2, Tensor):
        x1 = operand(x1)
        if isinstance(number(x2), float) and x1.dtype != float32:
            x1 = astype(x1, float32)
    return operate("where", condition, *pair(x1, x2))


def argsort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The indices along an axis, i64, that sort the elements; equal ones keep their order."""
    return operate("argsort_descending" if descending else "argsort", x, give=[axis])


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The elements sorted along an axis."""
    return operate("sort_descending" if descending else "sort", x, give=[axis])


def unique_all(x: Tensor, /) -> UniqueAll:
    """The distinct elements in order, their first indices, for each element its index among them, and their counts.

    Each NaN differs from the others.
    """
    missing = operate("isnan", x)
    if not operate("any", missing):
        return UniqueAll(*operate_several("unique_all", x))
    every, missing = flat(x), flat(missing)
    (there,), (nans,) = nonzero(operate("logical_not", missing)), nonzero(missing)
    found = UniqueAll(*operate_several("unique_all", every[there]))
    first, last = found.values.size, found.values.size + nans.size
    inverse = zeros([every.size], int64)
    inverse[there] = found.inverse_indices
    inverse[nans] = operate("arange", give=["i64", first, last, 1])
    return UniqueAll(
        concat([found.values, every[nans]]),
        concat([there[found.indices], nans]),
        operate("reshape", inverse, give=list(x.shape)),
        concat([found.counts, operate("full", give=[1, "i64", nans.size])]),
    )


def unique_counts(x: Tensor, /) -> UniqueCounts:
    """The distinct elements in ascending order, and the number of occurrences of each."""
    found = unique_all(x)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """The distinct elements in ascending order, and for each element its index among them."""
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_values(x: Tensor, /) -> Tensor:
    """The distinct elements in ascending order."""
    return unique_all(x).values
