"""Python's operators, and indexing, of tensors."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Iterator

from . import _operate
from ._numbers import number

if TYPE_CHECKING:
    from types import ModuleType

    from ._operate import Scalar
    from ._tensor import Tensor

_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")


class Operators:
    """The methods of the array API standard's array object, except the properties. Tensor is the only subclass."""

    __slots__ = ()
    __array_priority__ = -1.0  # operators of NumPy's scalars leave tensors to these methods; those of its arrays do not
    __hash__ = object.__hash__

    @property
    def device(self) -> str:
        """The device of the elements: cpu."""
        return "cpu"

    @property
    def T(self) -> Tensor:
        """A copy of the matrix, transposed."""
        if len(_self(self).shape) != 2:
            raise ValueError(f"{self!r} is no matrix: mT and permute_dims transpose other ranks")
        return _operate.operate("permute", _self(self))

    @property
    def mT(self) -> Tensor:
        """A copy with the last two axes exchanged."""
        rank = len(_self(self).shape)
        if rank < 2:
            raise ValueError(f"{self!r} is no matrix")
        return _operate.operate("permute", _self(self), give=[*range(rank - 2), rank - 1, rank - 2])

    def to_device(self, device: object, /, *, stream: None = None) -> Tensor:
        """The tensor itself: cpu is the only device."""
        if device != "cpu" or stream is not None:
            raise ValueError(f"device {device!r}, stream {stream!r}: tensors lie on the device cpu, which has no streams")
        return _self(self)

    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        """The module weir.array_api, with the functions of the standard."""
        if api_version is not None and api_version not in _VERSIONS:
            raise ValueError(f"version {api_version!r} of the array API standard; there are {', '.join(_VERSIONS)}")
        from . import array_api

        return array_api

    def __iter__(self) -> Iterator[Tensor]:
        if not _self(self).shape:
            raise TypeError("a tensor without axes cannot be iterated over")
        return iter(_operate.operate_several("unstack", _self(self), give=[0]))

    def __getitem__(self, key: Any, /) -> Tensor:
        """A copy of the elements at an index: integers, slices, None, ..., tensors of integers or bools."""
        mask = _single_mask(key)
        if mask is not None:
            rows = _operate.operate("expand_dims", _self(self), give=[0])
            return _operate.operate("index", rows, _operate.operate("reshape", mask, give=[1]), give=["array"])
        places, arrays = _places(_self(self), key)
        return _operate.operate("index", _self(self), *arrays, give=places)

    def __setitem__(self, key: Any, value: Tensor | Scalar, /) -> None:
        """Writes value, broadcast and converted to the tensor's type, to the elements at an index."""
        mask = _single_mask(key)
        if mask is not None:
            if not mask:
                return
            key = ...
        places, arrays = _places(_self(self), key)
        dtype, value = _self(self).dtype, number(value)
        if isinstance(value, float) and dtype.kind != "float":
            raise TypeError(f"a float cannot be written into elements of {dtype}")
        _operate.operate("assign", _self(self), _operate.operand(value, dtype), *arrays, give=places)

    def __pos__(self) -> Tensor:
        return _operate.copy_of(_self(self))

    def __neg__(self) -> Tensor:
        return _operate.operate("neg", _self(self))

    def __abs__(self) -> Tensor:
        return _operate.operate("abs", _self(self))

    def __invert__(self) -> Tensor:
        return _operate.operate("bitwise_invert", _self(self))

    def __eq__(self, other: Any, /) -> Tensor:  # type: ignore[override]
        return _binary("equal", self, other)

    def __ne__(self, other: Any, /) -> Tensor:  # type: ignore[override]
        return _binary("not_equal", self, other)

    def __lt__(self, other: Tensor | Scalar, /) -> Tensor:
        return _binary("less", self, other)

    def __le__(self, other: Tensor | Scalar, /) -> Tensor:
        return _binary("less_equal", self, other)

    def __gt__(self, other: Tensor | Scalar, /) -> Tensor:
        return _binary("greater", self, other)

    def __ge__(self, other: Tensor | Scalar, /) -> Tensor:
        return _binary("greater_equal", self, other)

    def __add__(self, other: Tensor | Scalar, /) -> Tensor:
        return _binary("add", self, other)

    def __radd__(self, other: Tensor | Scalar, /) -> Tensor:
        return _reflected("add", other, self)

    def __iadd__(self, other: Tensor | Scalar, /) -> Tensor:
        return _in_place("add", self, other)

    def __sub__(self, other: Tensor | Scalar, /) -> Tensor:
        return _binary("sub", self, other)

    def __rsub__(self, other: Tensor | Scalar, /) -> Tensor:
        return _reflected("sub", other, self)

    def __isub__(self, other: Tensor | Scalar, /) -> Tensor:
        return _in_place("sub", self, other)

    def __mul__(self, other: Tensor | Scalar, /) -> Tensor:
        return _binary("mul", self, other)

    def __rmul__(self, other: Tensor | Scalar, /) -> Tensor:
        return _reflected("mul", other, self)

    def __imul__(self, other: Tensor | Scalar, /) -> Tensor:
        return _in_place("mul", self, other)

    def __truediv__(self, other: Tensor | Scalar, /) -> Tensor:
        return _binary("div", self, other)

    def __rtruediv__(self, other: Tensor | Scalar, /) -> Tensor:
        return _reflected("div", other, self)

    def __itruediv__(self, other: Tensor | Scalar, /) -> Tensor:
        return _in_place("div", self, other)

    def __floordiv__(self, other: Tensor | Scalar, /) -> Tensor:
        return _binary("floor_divide", self, other)

    def __rfloordiv__(self, other: Tensor | Scalar, /) -> Tensor:
        return _reflected("floor_divide", other, self)

    def __ifloordiv__(self, other: Tensor | Scalar, /) -> Tensor:
        return _in_place("floor_divide", self, other)

    def __mod__(self, other: Tensor | Scalar, /) -> Tensor:
        return _binary("remainder", self, other)

    def __rmod__(self, other: Tensor | Scalar, /) -> Tensor:
        return _reflected("remainder", other, self)

    def __imod__(self, other: Tensor | Scalar, /) -> Tensor:
        return _in_place("remainder", self, other)

    def __pow__(self, other: Tensor | Scalar, /) -> Tensor:
        return _binary("pow", self, other)

    def __rpow__(self, other: Tensor | Scalar, /) -> Tensor:
        return _reflected("pow", other, self)

    def __ipow__(self, other: Tensor | Scalar, /) -> Tensor:
        return _in_place("pow", self, other)

    def __matmul__(self, other: Tensor, /) -> Tensor:
        return _binary("matmul", self, other)

    def __rmatmul__(self, other: Tensor, /) -> Tensor:
        return _reflected("matmul", other, self)

    def __imatmul__(self, other: Tensor, /) -> Tensor:
        return _in_place("matmul", self, other)

    def __and__(self, other: Tensor | Scalar, /) -> Tensor:
        return _binary("bitwise_and", self, other)

    def __rand__(self, other: Tensor | Scalar, /) -> Tensor:
        return _reflected("bitwise_and", other, self)

    def __iand__(self, other: Tensor | Scalar, /) -> Tensor:
        return _in_place("bitwise_and", self, other)

    def __or__(self, other: Tensor | Scalar, /) -> Tensor:
        return _binary("bitwise_or", self, other)

    def __ror__(self, other: Tensor | Scalar, /) -> Tensor:
        return _reflected("bitwise_or", other, self)

    def __ior__(self, other: Tensor | Scalar, /) -> Tensor:
        return _in_place("bitwise_or", self, other)

    def __xor__(self, other: Tensor | Scalar, /) -> Tensor:
        return _binary("bitwise_xor", self, other)

    def __rxor__(self, other: Tensor | Scalar, /) -> Tensor:
        return _reflected("bitwise_xor", other, self)

    def __ixor__(self, other: Tensor | Scalar, /) -> Tensor:
        return _in_place("bitwise_xor", self, other)

    def __lshift__(self, other: Tensor | Scalar, /) -> Tensor:
        return _binary("shift_left", self, other)

    def __rlshift__(self, other: Tensor | Scalar, /) -> Tensor:
        return _reflected("shift_left", other, self)

    def __ilshift__(self, other: Tensor | Scalar, /) -> Tensor:
        return _in_place("shift_left", self, other)

    def __rshift__(self, other: Tensor | Scalar, /) -> Tensor:
        return _binary("shift_right", self, other)

    def __rrshift__(self, other: Tensor | Scalar, /) -> Tensor:
        return _reflected("shift_right", other, self)

    def __irshift__(self, other: Tensor | Scalar, /) -> Tensor:
        return _in_place("shift_right", self, other)


def _self(x: Operators) -> Tensor:
    """The object as a tensor, which it is."""
    return x  # type: ignore[return-value]


def _operand(x: object) -> bool:
    """Whether an operator accepts an operand: other types may have a reflected operator of their own."""
    return isinstance(number(x), (Operators, bool, int, float, complex))


def _binary(name: str, x: Operators, y: Any) -> Tensor:
    return _operate.binary(name, _self(x), y) if _operand(y) else NotImplemented


def _reflected(name: str, x: Any, y: Operators) -> Tensor:
    return _operate.binary(name, x, _self(y)) if _operand(x) else NotImplemented


def _in_place(name: str, x: Operators, y: Any) -> Tensor:
    """The tensor x, into which the result is written; it must have the result's type and shape."""
    if not _operand(y):
        return NotImplemented  # type: ignore[no-any-return]
    this = _self(x)
    result = _operate.binary(name, this, y)
    if result.dtype != this.dtype:
        raise TypeError(f"the result {result!r} is of another type than {this!r}, and cannot be written into it")
    if result.shape != this.shape:
        raise ValueError(f"the result {result!r} has another shape than {this!r}, and cannot be written into it")
    _operate.operate("assign", this, result)
    result.close()
    return this


def _single_mask(key: Any) -> Tensor | None:
    """The tensor of one bool, if the index is one; None otherwise."""
    if isinstance(key, tuple) and len(key) == 1:
        key = key[0]
    if isinstance(key, Operators) and _self(key).dtype == "bool" and not _self(key).shape:
        return _self(key)
    return None


def _places(x: Tensor, key: Any) -> tuple[list[Any], list[Tensor]]:
    """An index in weir_operate's form, and the tensors in it."""
    keys = [number(k) for k in (key if isinstance(key, tuple) else (key,))]
    places: list[Any] = []
    arrays: list[Tensor] = []
    axes = sum(_axes(k) for k in keys)
    if axes > x.ndim:
        raise IndexError(f"an index of {axes} axes for {x!r}")
    axis = 0
    for k in keys:
        if k is Ellipsis:
            places.append("rest")
            axis += x.ndim - axes
        elif k is None:
            places.append("new")
        elif isinstance(k, slice):
            begin, end = (None if e is None else operator.index(e) for e in (k.start, k.stop))
            step = 1 if k.step is None else operator.index(k.step)
            if step == 0:
                raise ValueError("a slice with a step of 0")
            places.append([begin, end, step])
        elif isinstance(k, Operators):
            found = _positions(x, _self(k), axis)
            places += ["array"] * len(found)
            arrays += found
        else:
            place = operator.index(k)
            extent = x.shape[axis]
            if not -extent <= place < extent:
                raise IndexError(f"index {place} of axis {axis} of {x!r}")
            places.append(place)
        axis += _axes(k)
    return places, arrays


def _positions(x: Tensor, key: Tensor, axis: int) -> list[Tensor]:
    """A tensor of an index, or, for an empty mask whose extents may differ, the positions that it selects."""
    if key.dtype != "bool" or not key.shape:
        return [key]
    for extent, other in zip(key.shape, x.shape[axis:]):
        if extent not in (0, other):
            raise IndexError(f"the mask {key!r} from axis {axis} of {x!r} on")
    return [key] if key.size else _operate.operate_several("nonzero", key)


def _axes(key: Any) -> int:
    """The number of axes that an item of an index covers."""
    if key is None or key is Ellipsis:
        return 0
    if isinstance(key, Operators) and _self(key).dtype == "bool":
        return _self(key).ndim
    if isinstance(key, (bool, float, str, list)):
        raise IndexError(f"{key!r} is no place of an index; those are integers, slices, None, ... and tensors")
    return 1
