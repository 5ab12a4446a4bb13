"""Element types."""

from __future__ import annotations

from typing import Any


class DType:
    """An element type. It equals its name as a str, such as "f32", "bf16" or "i64"."""

    __slots__ = ("name",)

    name: str

    def __init__(self, name: DType | str) -> None:
        """Makes the type of a name."""
        object.__setattr__(self, "name", str(name))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("an element type cannot be changed")

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return repr(self.name)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (DType, str)):
            return self.name == str(other)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self.name)

    def __reduce__(self) -> tuple[type[DType], tuple[str]]:
        return (DType, (self.name,))

    @property
    def kind(self) -> str:
        """The kind of the elements: bool, signed, unsigned, float, complex or other."""
        return _KINDS.get(self.name, "other")

    @property
    def letter(self) -> str:
        """The letter of an element in Python's module struct; empty if it has none."""
        return _LETTERS.get(self.name, "")

    @property
    def itemsize(self) -> int:
        """The bytes of an element; 0 if it takes less than one."""
        digits = "8" if self.name == "bool" else "".join(c for c in self.name.split("e")[0] if c.isdigit())
        return int(digits or "0") // 8


# The array API standard's types by its names, and the two floats that it does not have.
NAMES = {
    "bool": "bool", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16",
    "uint32": "u32", "uint64": "u64", "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
}  # fmt: skip


def named(dtype: Any) -> DType:
    """A type by weir's name, by the standard's, or by an object that has one of them as its name, such as NumPy's types."""
    name = dtype if isinstance(dtype, (DType, str)) else getattr(dtype, "name", None) or getattr(dtype, "__name__", dtype)
    return DType(NAMES.get(str(name), str(name)))


_KINDS = {
    "bool": "bool", "i8": "signed", "i16": "signed", "i32": "signed", "i64": "signed", "u8": "unsigned", "u16": "unsigned",
    "u32": "unsigned", "u64": "unsigned", "f16": "float", "bf16": "float", "f32": "float", "f64": "float", "c64": "complex",
    "c128": "complex",
}  # fmt: skip

_LETTERS = {
    "bool": "?", "i8": "b", "i16": "h", "i32": "i", "i64": "q", "u8": "B", "u16": "H", "u32": "I", "u64": "Q", "f16": "e",
    "f32": "f", "f64": "d",
}  # fmt: skip


def promote(x: DType, y: DType) -> DType:
    """The common type of two types, as array.Promote of Weir's Go package."""
    if x == y or y == "bool":
        return x
    if x == "bool":
        return y
    kinds = (x.kind, y.kind)
    if any(kind not in ("signed", "unsigned", "float") for kind in kinds):
        raise TypeError(f"{x} and {y} have no common type: cast one of them")
    if kinds == ("float", "float") and x.itemsize == y.itemsize:
        return DType("f32")  # f16 and bf16
    if kinds[0] == kinds[1]:
        return x if x.itemsize > y.itemsize else y
    if "float" in kinds:
        return x if kinds[0] == "float" else y
    signed, unsigned = (x, y) if kinds[0] == "signed" else (y, x)
    if signed.itemsize > unsigned.itemsize:
        return signed
    if unsigned.itemsize == 8:
        raise TypeError(f"{x} and {y} have no common type: cast one of them")
    return DType(f"i{16 * unsigned.itemsize}")


def limits(dtype: DType) -> tuple[int, int]:
    """The least and the greatest integer of an integer type."""
    bits = 8 * dtype.itemsize
    return (0, (1 << bits) - 1) if dtype.kind == "unsigned" else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
