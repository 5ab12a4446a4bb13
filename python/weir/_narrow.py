"""Arrays of types of ml_dtypes that NumPy itself does not have: bf16, float8, and types of less than a byte."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

# The names in weir, and those in ml_dtypes.
NAMES = {
    "bf16": "bfloat16", "f8e4m3fn": "float8_e4m3fn", "f8e4m3fnuz": "float8_e4m3fnuz", "f8e5m2": "float8_e5m2",
    "f8e5m2fnuz": "float8_e5m2fnuz", "f8e8m0": "float8_e8m0fnu", "f4e2m1": "float4_e2m1fn", "i4": "int4", "u4": "uint4",
    "i2": "int2", "u2": "uint2",
}  # fmt: skip
_BACK = {theirs: ours for ours, theirs in NAMES.items()}


def name_of(array: Any) -> str:
    """weir's name of an array's type, or None if ml_dtypes does not have the type."""
    return _BACK.get(getattr(getattr(array, "dtype", None), "name", ""), "")


def _bits(name: str) -> int:
    return int(name[1]) if name[0] in "iu" or name == "f4e2m1" else 16 if name == "bf16" else 8


def unpacked(name: str, address: int, size: int, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """A copy of packed memory of weir as an array."""
    import ml_dtypes
    import numpy

    dtype, bits = numpy.dtype(getattr(ml_dtypes, NAMES[name])), _bits(name)
    data: Any = numpy.frombuffer(ctypes.string_at(address, (size * bits + 7) // 8) if size else b"", numpy.uint8)
    if bits < 8:  # the first element of a byte is in its lowest bits
        places = numpy.arange(8 // bits, dtype=numpy.uint8) * bits
        data = ((data[:, None] >> places) & ((1 << bits) - 1)).reshape(-1)[:size]
        if name[0] == "i":
            sign = 1 << (bits - 1)
            data = ((data ^ sign).astype(numpy.int16) - sign).astype(numpy.int8)
        array = data.astype(dtype) if name[0] in "iu" else data.view(dtype)
    else:
        array = data.view(dtype)
    shaped: np.ndarray[Any, Any] = array.reshape(shape)
    return shaped


def packed(array: Any) -> bytes:
    """An array's elements, packed as weir packs them."""
    import numpy

    name = name_of(array)
    flat, bits = numpy.ascontiguousarray(array).reshape(-1), _bits(name)
    if bits >= 8:
        return flat.tobytes()
    codes = (flat.astype(numpy.int8) if name[0] in "iu" else flat).view(numpy.uint8) & ((1 << bits) - 1)
    per = 8 // bits
    rows = numpy.pad(codes, (0, -len(codes) % per)).reshape(-1, per)
    places = numpy.arange(per, dtype=numpy.uint8) * bits
    return bytes(numpy.bitwise_or.reduce(rows << places, axis=1).astype(numpy.uint8).tobytes())
