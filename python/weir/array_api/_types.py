"""Element types, constants, and functions of types."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from .._dtypes import DType, limits, named, promote
from .._operate import copy_of, operate, type_of_scalar
from .._tensor import Tensor

bool_ = DType("bool")
int8, int16, int32, int64 = DType("i8"), DType("i16"), DType("i32"), DType("i64")
uint8, uint16, uint32, uint64 = DType("u8"), DType("u16"), DType("u32"), DType("u64")
float16, bfloat16, float32, float64 = DType("f16"), DType("bf16"), DType("f32"), DType("f64")

e, inf, nan, newaxis, pi = math.e, math.inf, math.nan, None, math.pi

# The kinds of isdtype, as kinds of DType.
_KINDS: dict[str, tuple[str, ...]] = {
    "bool": ("bool",), "signed integer": ("signed",), "unsigned integer": ("unsigned",), "integral": ("signed", "unsigned"),
    "real floating": ("float",), "complex floating": ("complex",), "numeric": ("signed", "unsigned", "float", "complex"),
}  # fmt: skip


@dataclass(frozen=True)
class FInfo:
    """The limits of a float type."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


@dataclass(frozen=True)
class IInfo:
    """The limits of an integer type."""

    bits: int
    max: int
    min: int
    dtype: DType


# The bits of floats' significands after the point, and their greatest exponents.
_FLOATS: dict[str, tuple[int, int]] = {"f16": (10, 15), "bf16": (7, 127), "f32": (23, 127), "f64": (52, 1023)}


def _type_of(x: Tensor | DType) -> DType:
    return x.dtype if isinstance(x, Tensor) else _known(x)


def _known(dtype: Any) -> DType:
    """A type that supports arithmetic: by weir's name or the standard's, or a type of NumPy."""
    known = named(dtype)
    if known.kind == "other":
        raise TypeError(f"{dtype!r} is no element type that has arithmetic")
    return known


def astype(x: Tensor, dtype: DType, /, *, copy: bool = True, device: str | None = None) -> Tensor:
    """x with its elements converted to another type; x itself if it has the type and copy is False."""
    cpu(device)
    if x.dtype == dtype:
        return copy_of(x) if copy else x
    return operate("cast", x, give=[_known(dtype)])


def can_cast(from_: DType | Tensor, to: DType, /) -> bool:
    """Whether elements of one type are converted to another when both are combined."""
    try:
        return promote(_type_of(from_), _known(to)) == to
    except TypeError:
        return False


def finfo(type: DType | Tensor, /) -> FInfo:
    """The limits of a float type."""
    dtype = _type_of(type)
    if dtype.kind != "float":
        raise TypeError(f"{dtype} is no type of floats")
    digits, exponent = _FLOATS[dtype.name]
    most = math.ldexp(2 - 2.0**-digits, exponent)
    return FInfo(8 * dtype.itemsize, 2.0**-digits, most, -most, 2.0 ** (1 - exponent), dtype)


def iinfo(type: DType | Tensor, /) -> IInfo:
    """The limits of an integer type."""
    dtype = _type_of(type)
    if dtype.kind not in ("signed", "unsigned"):
        raise TypeError(f"{dtype} is no type of integers")
    least, most = limits(dtype)
    return IInfo(8 * dtype.itemsize, most, least, dtype)


def isdtype(dtype: DType, kind: DType | str | tuple[DType | str, ...]) -> bool:
    """Whether a type equals another, is of a kind, or matches one of several."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, DType):
        return dtype == kind
    if kind in _KINDS:
        return dtype.kind in _KINDS[kind]
    raise ValueError(f"{kind!r} is no kind of element types; there are {', '.join(_KINDS)}")


def result_type(*arrays_and_dtypes: Tensor | DType | bool | int | float) -> DType:
    """The common type of operands. Python numbers take the type of the others, if it can hold them."""
    types = [_type_of(x) for x in arrays_and_dtypes if isinstance(x, (Tensor, DType))]
    numbers = [x for x in arrays_and_dtypes if not isinstance(x, (Tensor, DType))]
    if not types:
        raise ValueError("a tensor or an element type is wanted")
    result = types[0]
    for dtype in types[1:]:
        result = promote(result, dtype)
    for number in numbers:
        result = type_of_scalar(number, result)
    return result


def cpu(device: object) -> None:
    """Raises an error for a device other than cpu."""
    if device is not None and device != "cpu":
        raise ValueError(f"device {device!r}: tensors lie on the device cpu")


class Info:
    """The contents of the namespace: see __array_namespace_info__."""

    def capabilities(self) -> dict[str, Any]:
        """The optional behaviour of the standard that is supported."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        """The device of new tensors."""
        return "cpu"

    def default_dtypes(self, *, device: str | None = None) -> dict[str, DType]:
        """The types of new tensors. There are no complex numbers."""
        cpu(device)
        return {"real floating": float32, "complex floating": DType("c64"), "integral": int64, "indexing": int64}

    def devices(self) -> list[str]:
        """The devices."""
        return ["cpu"]

    def dtypes(self, *, device: str | None = None, kind: str | tuple[str, ...] | None = None) -> dict[str, DType]:
        """The supported types of the standard by name, or those of a kind."""
        cpu(device)
        all_ = {
            "bool": bool_, "int8": int8, "int16": int16, "int32": int32, "int64": int64, "uint8": uint8, "uint16": uint16,
            "uint32": uint32, "uint64": uint64, "float32": float32, "float64": float64,
        }  # fmt: skip
        return {name: dtype for name, dtype in all_.items() if kind is None or isdtype(dtype, kind)}


def __array_namespace_info__() -> Info:
    """The contents of the namespace: devices, element types and capabilities."""
    return Info()
