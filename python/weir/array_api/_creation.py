"""New tensors."""

from __future__ import annotations

import builtins
import math
import operator
from typing import TYPE_CHECKING, Any, Sequence

from .._dtypes import DType, promote
from .._numbers import number
from .._operate import Scalar, copy_of, operate, operate_several, scalar, type_of_scalar, written
from .._tensor import Exchangeable, Tensor
from .._tensor import from_dlpack as _from_dlpack
from .._tensor import zeros as _zeros
from ._manipulation import extents_of
from ._types import _known, astype, cpu, float32, int64, uint64

if TYPE_CHECKING:
    from typing_extensions import CapsuleType

Shape = int | tuple[int, ...]


def arange(
    start: int | float,
    /,
    stop: int | float | None = None,
    step: int | float = 1,
    *,
    dtype: DType | None = None,
    device: str | None = None,
) -> Tensor:
    """start, start + step, … up to but excluding stop; with one number, from 0 up to it."""
    cpu(device)
    start, stop, step = number(start), number(stop), number(step)
    if stop is None:
        start, stop = 0, start
    whole = all(isinstance(number, int) for number in (start, stop, step))
    if step == 0:
        raise ValueError("a step of 0")
    if not whole:
        count = max(math.ceil((stop - start) / step), 0)
    else:
        count = len(range(int(start), int(stop), int(step)))
    dtype = _known(dtype) if dtype is not None else int64 if whole else float32
    if dtype.kind == "float" or not whole:
        first, second = float(start), float(start) + float(step)
        places = operate("iota", give=["f64", count])
        values = operate(
            "add", operate("mul", places, written([second - first], (), DType("f64"))), written([first], (), DType("f64"))
        )
        return astype(values, dtype, copy=False)
    if count == 0:
        return _zeros([0], dtype)
    written([start, int(start) + (count - 1) * int(step)], (2,), dtype)  # numbers that the type cannot hold are refused
    values = operate("mul", operate("iota", give=["i64", count]), _wrapped(int(step)))
    return astype(operate("add", values, _wrapped(int(start))), dtype, copy=False)


def _wrapped(value: int) -> Tensor:
    """The low 64 bits of a number, as a signed integer: sums of them have the low bits of the sum."""
    return written([(value + (1 << 63)) % (1 << 64) - (1 << 63)], (), int64)


def asarray(obj: Any, /, *, dtype: DType | None = None, device: str | None = None, copy: bool | None = None) -> Tensor:
    """A tensor of a tensor, of a number, of lists of lists of numbers, of a buffer, or of an object with __dlpack__.

    Memory is shared if no copy is needed and copy is not True. ValueError: a copy is needed, and copy is False.
    """
    cpu(device)
    if dtype is not None:
        dtype = _known(dtype)
    if not isinstance(obj, Tensor) and hasattr(obj, "__dlpack__"):
        obj, copy = _from_dlpack(obj, copy=copy), copy and False if dtype is None else copy
    if isinstance(obj, Tensor):
        if dtype is not None and obj.dtype != dtype:
            if copy is False:
                raise ValueError(f"{obj!r} is {dtype} with a copy only")
            return astype(obj, dtype)
        return copy_of(obj) if copy else obj
    obj = number(obj)
    if copy is False:
        raise ValueError(f"{type(obj).__name__} becomes a tensor with a copy only")
    if not isinstance(obj, (builtins.bool, int, float, complex, list, tuple)):
        try:
            obj = memoryview(obj).tolist()
        except TypeError:
            raise TypeError(f"{type(obj).__name__} is no array, number or list of numbers") from None
    values, shape, within = _flat(obj)
    return written(values, shape, dtype or _type_of(values, within))


def _flat(obj: Any) -> tuple[list[Any], list[int], DType | None]:
    """The numbers in nested lists, their shape, and the common type of the tensors among them."""
    shape: list[int] = []
    level, within = [obj], None
    while True:
        for i, item in enumerate(level):
            if isinstance(item, Tensor):
                within = item.dtype if within is None else promote(within, item.dtype)
                level[i] = item.tolist()
            else:
                level[i] = number(item)
        if not any(isinstance(item, (list, tuple)) for item in level):
            break
        if not all(isinstance(item, (list, tuple)) and len(item) == len(level[0]) for item in level):
            raise ValueError("lists of unequal lengths")
        shape.append(len(level[0]))
        level = [item for items in level for item in items]
    for item in level:
        if not isinstance(item, (builtins.bool, int, float)):
            raise TypeError(f"{item!r} is no number that a tensor could have")
    return level, shape, within


def _type_of(values: Sequence[Any], within: DType | None) -> DType:
    """The default type of numbers: f32 for floats; i64 for integers, or u64 if one is too large."""
    if within is not None:
        for kind in {type(v) for v in values}:
            within = type_of_scalar(kind(0), within)
        return within
    if not values or any(isinstance(v, float) for v in values):
        return float32
    if all(isinstance(v, builtins.bool) for v in values):
        return DType("bool")
    return uint64 if max(values) >= 1 << 63 else int64


def empty(shape: Shape, *, dtype: DType | None = None, device: str | None = None) -> Tensor:
    """A tensor of zeros."""
    return zeros(shape, dtype=dtype, device=device)


def empty_like(x: Tensor, /, *, dtype: DType | None = None, device: str | None = None) -> Tensor:
    """A tensor of zeros with x's shape."""
    return zeros_like(x, dtype=dtype, device=device)


def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: DType | None = None, device: str | None = None
) -> Tensor:
    """A matrix with ones in column row + k, and zeros elsewhere."""
    cpu(device)
    rows, columns = operator.index(n_rows), operator.index(n_rows if n_cols is None else n_cols)
    return operate("eye", give=[_known(dtype or float32), rows, columns, _offset(k)])


def _offset(k: int) -> int:
    """An offset of a diagonal within the library's limits; a diagonal beyond them is empty as well."""
    return max(min(operator.index(k), 1 << 40), -(1 << 40))


def from_dlpack(x: Exchangeable | CapsuleType, /, *, device: str | None = None, copy: bool | None = None) -> Tensor:
    """A tensor of the memory of x, without a copy unless copy asks for one or the memory's strides need one."""
    cpu(device)
    return _from_dlpack(x, copy=copy)


def full(shape: Shape, fill_value: Scalar, *, dtype: DType | None = None, device: str | None = None) -> Tensor:
    """A tensor whose elements all equal a number."""
    cpu(device)
    value = written([scalar(fill_value)], (), _known(dtype or type_of_scalar(fill_value)))
    return operate("broadcast_to", value, give=extents_of(shape))


def full_like(x: Tensor, /, fill_value: Scalar, *, dtype: DType | None = None, device: str | None = None) -> Tensor:
    """A tensor with x's shape whose elements all equal a number."""
    return full(x.shape, fill_value, dtype=dtype or x.dtype, device=device)


def linspace(
    start: int | float,
    stop: int | float,
    /,
    num: int,
    *,
    dtype: DType | None = None,
    device: str | None = None,
    endpoint: bool = True,
) -> Tensor:
    """num equally spaced numbers from start to stop; stop is excluded if endpoint is False."""
    cpu(device)
    dtype, num = _known(dtype or float32), operator.index(num)
    if endpoint:
        return operate("linspace", give=[dtype, float(start), float(stop), num])
    return operate("index", operate("linspace", give=[dtype, float(start), float(stop), num + 1]), give=[[0, num, 1]])


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> list[Tensor]:
    """For each vector a tensor of all their extents that varies along its axis; "xy" exchanges the first two axes."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"indexing {indexing!r}; it is xy or ij")
    if not arrays:
        return []
    grids = operate_several("meshgrid", *[operate("reshape", x, give=[x.size]) for x in arrays])
    if indexing == "xy" and len(arrays) > 1:
        order = [1, 0, *range(2, len(arrays))]
        grids = [operate("permute", grid, give=order) for grid in grids]
    return grids


def ones(shape: Shape, *, dtype: DType | None = None, device: str | None = None) -> Tensor:
    """A tensor of ones."""
    return full(shape, 1, dtype=dtype or float32, device=device)


def ones_like(x: Tensor, /, *, dtype: DType | None = None, device: str | None = None) -> Tensor:
    """A tensor of ones with x's shape."""
    return ones(x.shape, dtype=dtype or x.dtype, device=device)


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The elements whose column is at most row + k, of each matrix in the last two axes; 0 elsewhere."""
    return operate("tril", x, give=[_offset(k)])


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The elements whose column is at least row + k, of each matrix in the last two axes; 0 elsewhere."""
    return operate("triu", x, give=[_offset(k)])


def zeros(shape: Shape, *, dtype: DType | None = None, device: str | None = None) -> Tensor:
    """A tensor of zeros."""
    cpu(device)
    return _zeros(extents_of(shape), _known(dtype or float32))


def zeros_like(x: Tensor, /, *, dtype: DType | None = None, device: str | None = None) -> Tensor:
    """A tensor of zeros with x's shape."""
    return zeros(x.shape, dtype=dtype or x.dtype, device=device)
