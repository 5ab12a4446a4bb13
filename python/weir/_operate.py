"""Operations on tensors, by the library's kernels."""

from __future__ import annotations

import ctypes
import json
import math
import struct
from typing import TYPE_CHECKING, Any, Sequence

from . import _tensor
from ._dtypes import DType, limits
from ._library import library
from ._numbers import number

if TYPE_CHECKING:
    from ._tensor import Tensor

Scalar = bool | int | float


def _attribute(value: Any) -> Any:
    """A value for JSON: element types, and floats that are infinite or NaN, become strings."""
    if isinstance(value, (list, tuple)):
        return [_attribute(v) for v in value]
    value = number(value)
    if isinstance(value, DType):
        return value.name
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _operate(name: str, operands: Sequence[Tensor | None], attributes: Sequence[Any]) -> int:
    """The handle that weir_operate returns."""
    handles = (ctypes.c_uint64 * len(operands))()
    for i, operand in enumerate(operands):
        if operand is None:
            continue
        if not isinstance(operand, _tensor.Tensor):
            raise TypeError(f"{name} takes tensors, not {type(operand).__name__}")
        handles[i] = operand._open()
    handle = ctypes.c_uint64()
    text = json.dumps([_attribute(a) for a in attributes]).encode() if attributes else None
    lib = library()
    lib.check(lib.c.weir_operate(name.encode(), text, handles, len(operands), ctypes.byref(handle)))
    return handle.value


def operate(name: str, *operands: Tensor | None, give: Sequence[Any] = ()) -> Tensor:
    """The result of an operation of weir.h on operands, with attributes."""
    return _tensor.Tensor(_operate(name, operands, give))


def operate_several(name: str, *operands: Tensor, give: Sequence[Any] = ()) -> list[Tensor]:
    """The results of an operation with several."""
    return _tensor.items(_operate(name, operands, give))


def written(values: Sequence[Any], shape: Sequence[int], dtype: DType) -> Tensor:
    """A tensor of numbers, in row-major order, rounded to a type."""
    if not dtype.letter:
        return operate("cast", written(values, shape, DType("f64")), give=[dtype])
    if dtype.kind == "bool":
        values = [bool(v) for v in values]
    elif dtype.kind != "float":
        values = [int(v) for v in values]
    else:
        values = [float(v) for v in values]
    tensor = _tensor.zeros(shape, dtype)
    if not values:
        return tensor
    try:
        data = struct.pack(f"={len(values)}{dtype.letter}", *values)
    except (struct.error, OverflowError):
        tensor.close()
        if dtype.kind == "float":  # numbers that are too large become infinite
            return operate("cast", written(values, shape, DType("f64")), give=[dtype])
        raise OverflowError(f"{dtype} has the numbers from {limits(dtype)[0]} to {limits(dtype)[1]}") from None
    with tensor._lent() as lies:
        ctypes.memmove(lies.data, data, len(data))
    return tensor


def scalar(value: Any) -> Scalar:
    """A number as Python's; TypeError if it is none, or complex."""
    value = number(value)
    if isinstance(value, complex):
        raise TypeError("complex numbers have no arithmetic")
    if not isinstance(value, (bool, int, float)):
        raise TypeError(f"a tensor or a number is wanted, not {type(value).__name__}")
    return value


def type_of_scalar(value: Scalar, beside: DType | None = None) -> DType:
    """The type that a number takes next to elements of type beside; if beside is None, the default of its kind."""
    value = scalar(value)
    if beside is None:
        return DType("bool" if isinstance(value, bool) else "f32" if isinstance(value, float) else "i64")
    if isinstance(value, float):
        return beside if beside.kind == "float" else DType("f32")
    if isinstance(value, bool) or beside.kind != "bool":
        return beside
    return DType("i64")


def operand(value: Tensor | Scalar, beside: DType | None = None) -> Tensor:
    """A tensor, or a number as a tensor of rank 0."""
    if isinstance(value, _tensor.Tensor):
        return value
    return written([scalar(value)], (), type_of_scalar(value, beside))


def pair(x: Tensor | Scalar, y: Tensor | Scalar) -> tuple[Tensor, Tensor]:
    """Two operands, one of which may be a number: it takes the other's type, if the type can hold it."""
    if isinstance(x, _tensor.Tensor):
        return x, operand(y, x.dtype)
    if isinstance(y, _tensor.Tensor):
        return operand(x, y.dtype), y
    raise TypeError("one of the operands must be a tensor")


def binary(name: str, x: Tensor | Scalar, y: Tensor | Scalar) -> Tensor:
    """The result of an operation of two operands."""
    return quotient(x, y) if name == "floor_divide" else operate(name, *pair(x, y))


def quotient(x: Tensor | Scalar, y: Tensor | Scalar) -> Tensor:
    """The greatest integers not above x / y. For floats that are infinite or 0, the standard requires the division's
    result.
    """
    x, y = pair(x, y)
    whole = operate("floor_divide", x, y)
    if whole.dtype.kind != "float":
        return whole
    plain = operate("logical_and", operate("isfinite", x), operate("isfinite", y))
    plain = operate("logical_and", plain, operate("cast", x, give=["bool"]))
    return operate("where", plain, whole, operate("floor", operate("div", x, y)))


def copy_of(x: Tensor) -> Tensor:
    """A tensor with memory of its own and the same elements."""
    return operate("broadcast_to", x, give=list(x.shape))


def elements(x: Tensor) -> list[Any]:
    """The elements as Python numbers, in row-major order."""
    if not x.dtype.letter:
        x = operate("cast", x, give=["f64"])
    with x._lent() as lies:
        count = math.prod(lies.shape)
        data = ctypes.string_at(lies.data, count * x.dtype.itemsize) if count else b""
    return list(struct.unpack(f"={count}{x.dtype.letter}", data))


def nested(values: Sequence[Any], shape: Sequence[int]) -> Any:
    """The elements in nested lists; for rank 0, the element."""
    if not shape:
        return values[0]
    step = math.prod(shape[1:])
    if len(shape) == 1:
        return list(values)
    return [nested(values[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0])]
