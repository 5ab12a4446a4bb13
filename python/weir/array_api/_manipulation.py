"""Functions of shapes, and of the positions of elements."""

from __future__ import annotations

import math
import operator
from typing import Sequence

from .._operate import copy_of, operand, operate, operate_several
from .._tensor import Tensor
from ._types import astype, result_type

Axes = int | tuple[int, ...]


def extents_of(shape: int | Sequence[int]) -> list[int]:
    """The extents of a shape, which may be one number."""
    if isinstance(shape, (tuple, list)):
        return [operator.index(extent) for extent in shape]
    return [operator.index(shape)]  # type: ignore[arg-type]


def axes_of(axis: Axes | None) -> list[int]:
    """Axes, of which one may be given as a number."""
    if axis is None:
        return []
    return [operator.index(a) for a in axis] if isinstance(axis, tuple) else [operator.index(axis)]


def place_of(axis: int, rank: int) -> int:
    """An axis as a number from 0 on."""
    place = operator.index(axis)
    if not -rank <= place < rank:
        raise ValueError(f"axis {place} of {rank}")
    return place % rank


def flat(x: Tensor) -> Tensor:
    """x's elements along one axis, in row-major order."""
    return x if x.ndim == 1 else operate("reshape", x, give=[x.size])


def broadcast_arrays(*arrays: Tensor) -> list[Tensor]:
    """Tensors, broadcast to their common shape."""
    shape = broadcast_shapes(*[x.shape for x in arrays])
    return [broadcast_to(x, shape) for x in arrays]


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The common shape that shapes are broadcast to."""
    rank = max((len(shape) for shape in shapes), default=0)
    extents = [1] * rank
    for shape in shapes:
        for i, extent in enumerate(shape, rank - len(shape)):
            if extents[i] == 1:
                extents[i] = extent
            elif extent not in (1, extents[i]):
                raise ValueError(f"shapes {', '.join(map(str, shapes))} cannot be broadcast")
    return tuple(extents)


def broadcast_to(x: Tensor, /, shape: tuple[int, ...]) -> Tensor:
    """x, repeated along axes of extent 1 and along new axes in front."""
    return operate("broadcast_to", x, give=extents_of(shape))


def concat(arrays: tuple[Tensor, ...] | list[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """Tensors, in their common type, joined along an axis; if axis is None, their elements in row-major order."""
    if axis is None:
        arrays, axis = [flat(x) for x in arrays], 0
    if len(arrays) == 1:
        place_of(axis, arrays[0].ndim)
        return copy_of(arrays[0])
    return operate("concat", *arrays, give=[axis])


def expand_dims(x: Tensor, /, axis: Axes = 0) -> Tensor:
    """x with new axes of extent 1; axes are their indices in the result."""
    axes = axes_of(axis)
    for a in axes:
        if not -x.ndim - len(axes) <= a < x.ndim + len(axes):
            raise IndexError(f"axis {a} of {x.ndim + len(axes)}")
    return operate("expand_dims", x, give=axes)


def flip(x: Tensor, /, *, axis: Axes | None = None) -> Tensor:
    """x with the order of elements along axes reversed; along all axes if none is given."""
    if x.ndim == 0 or (isinstance(axis, tuple) and not axis):
        return copy_of(x)
    return operate("flip", x, give=axes_of(axis))


def moveaxis(x: Tensor, source: Axes, destination: Axes, /) -> Tensor:
    """x with axes moved to other indices; the others keep their order."""
    origin, target = ([place_of(a, x.ndim) for a in axes_of(axes)] for axes in (source, destination))
    if len(origin) != len(target) or len(set(origin)) != len(origin) or len(set(target)) != len(target):
        raise ValueError(f"axes {source} to the places {destination}")
    order = [a for a in range(x.ndim) if a not in origin]
    for to, from_ in sorted(zip(target, origin)):
        order.insert(to, from_)
    return permute_dims(x, tuple(order))


def permute_dims(x: Tensor, /, axes: tuple[int, ...]) -> Tensor:
    """x with its axes in another order."""
    if sorted(place_of(a, x.ndim) for a in axes) != list(range(x.ndim)):
        raise ValueError(f"axes {axes} of {x!r}")
    return operate("permute", x, give=list(axes)) if axes else copy_of(x)


def repeat(x: Tensor, repeats: int | Tensor, /, *, axis: int | None = None) -> Tensor:
    """Each element repeated, along an axis; if axis is None, in row-major order."""
    if axis is None:
        x, axis = flat(x), 0
    axis = place_of(axis, x.ndim)
    if isinstance(repeats, Tensor):
        if repeats.ndim > 1:
            raise ValueError(f"{repeats!r} is no vector of numbers of times")
        counts = broadcast_to(repeats, (x.shape[axis],))
        ends = astype(operate("cumsum", counts, give=[0]), operand(0).dtype, copy=False)
        total = int(ends[-1]) if x.shape[axis] else 0
        places = operate("searchsorted", ends, operate("iota", give=["i64", total]), give=[True])
        return operate("take", x, places, give=[axis])
    if repeats == 0:
        return operate("index", x, give=[*[[None, None, 1]] * axis, [0, 0, 1]])
    return operate("repeat", x, give=[operator.index(repeats), axis])


def reshape(x: Tensor, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Tensor:
    """A copy of x with its elements in another shape. One extent may be −1: it is computed from the others."""
    if copy is False:
        raise ValueError("another shape takes a copy")
    extents = extents_of(shape)
    if -1 in extents and x.size == 0:
        rest = math.prod(e for e in extents if e != -1)
        if rest:
            extents[extents.index(-1)] = 0
    return operate("reshape", x, give=extents)


def roll(x: Tensor, /, shift: int | tuple[int, ...], *, axis: Axes | None = None) -> Tensor:
    """The elements shifted along axes; elements shifted beyond the end reappear at the beginning."""
    shifts = extents_of(shift)
    if axis is None:
        return operate("roll", x, give=[sum(shifts)]) if x.ndim else copy_of(x)
    axes = axes_of(axis)
    if len(shifts) == 1:
        shifts *= len(axes)
    if len(shifts) != len(axes):
        raise ValueError(f"shifts {shift} for the axes {axis}")
    for number, a in zip(shifts, axes):
        x = operate("roll", x, give=[number, a])
    return x if axes else copy_of(x)


def squeeze(x: Tensor, /, axis: Axes) -> Tensor:
    """x without axes of extent 1."""
    axes = axes_of(axis)
    for a in axes:
        if x.shape[place_of(a, x.ndim)] != 1:
            raise ValueError(f"axis {a} of {x!r} is not of extent 1")
    return operate("squeeze", x, give=axes) if axes else copy_of(x)


def stack(arrays: tuple[Tensor, ...] | list[Tensor], /, *, axis: int = 0) -> Tensor:
    """Tensors of one shape, in their common type, joined along a new axis."""
    if len({x.shape for x in arrays}) > 1:
        raise ValueError("tensors of several shapes")
    return operate("stack", *arrays, give=[axis])


def tile(x: Tensor, repetitions: tuple[int, ...], /) -> Tensor:
    """x repeated along each axis; a shorter list applies to the last axes, a longer one adds axes."""
    return operate("tile", x, give=extents_of(repetitions)) if repetitions else copy_of(x)


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices of x along an axis."""
    place_of(axis, x.ndim)
    return tuple(operate_several("unstack", x, give=[axis]))


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """The slices of x along an axis at the indices."""
    if axis is None and x.ndim != 1:
        raise ValueError(f"{x!r} has {x.ndim} axes: say along which")
    return operate("take", x, indices, give=[axis or 0])


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """One element of x for each index: at the index's own position, with the coordinate along the axis replaced by it.
    """
    a = place_of(axis, x.ndim)
    if x.ndim != indices.ndim:
        raise ValueError(f"{x!r} and {indices!r} have different ranks")
    shape = broadcast_shapes((*x.shape[:a], 1, *x.shape[a + 1 :]), (*indices.shape[:a], 1, *indices.shape[a + 1 :]))
    x = broadcast_to(x, (*shape[:a], x.shape[a], *shape[a + 1 :]))
    indices = broadcast_to(indices, (*shape[:a], indices.shape[a], *shape[a + 1 :]))
    return operate("take_along", x, indices, give=[a])


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The product of matrices in the last two axes, broadcast over the others."""
    return operate("matmul", x1, x2)


def matrix_transpose(x: Tensor, /) -> Tensor:
    """x with the last two axes exchanged."""
    return x.mT


def tensordot(x1: Tensor, x2: Tensor, /, *, axes: int | tuple[tuple[int, ...], tuple[int, ...]] = 2) -> Tensor:
    """The sums of products along pairs of axes; a number n pairs the last n axes of x1 with the first n of x2."""
    if not isinstance(axes, (tuple, list)):
        axes = operator.index(axes)
        if not 0 <= axes <= min(x1.ndim, x2.ndim):
            raise ValueError(f"{axes} axes of {x1!r} and {x2!r}")
        left, right = list(range(x1.ndim - axes, x1.ndim)), list(range(axes))
    else:
        left, right = [extents_of(side) for side in axes]
    dtype = result_type(x1, x2)
    return operate("tensordot", astype(x1, dtype, copy=False), astype(x2, dtype, copy=False), give=[left, right])


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The sums of products along an axis, which is counted from the last; the others are broadcast."""
    return operate("vecdot", x1, x2, give=[axis])
