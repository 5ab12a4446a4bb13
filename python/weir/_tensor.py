"""Tensors, and their exchange with other libraries."""

from __future__ import annotations

import copy as copy_module
import ctypes
import json
import math
import operator
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Protocol, Sequence, TypeVar

from . import _narrow, _operate
from ._dtypes import DType, named
from ._errors import ClosedError
from ._library import COPY_ALWAYS, COPY_IF_NEEDED, COPY_NEVER, LEGACY, VERSIONED, DLTensor, Owned, library
from ._operators import Operators
from ._scope import adopt

if TYPE_CHECKING:
    import numpy as np
    from typing_extensions import CapsuleType, Self

_CPU = 1  # DLPack's kDLCPU


class Exchangeable(Protocol):
    """The methods of DLPack's protocol, which arrays of NumPy, PyTorch, JAX and weir have."""

    def __dlpack__(self) -> object: ...

    def __dlpack_device__(self) -> tuple[int, int]: ...


class _Layout(NamedTuple):
    """A tensor's layout in memory. It is a copy: the library's own is freed when another thread closes the tensor."""

    shape: tuple[int, ...]
    data: int
    bits: int


class _Shared(Owned):
    """A second handle of a tensor: within its block the memory stays, even if the tensor is closed."""

    __slots__ = ("_layout",)

    def __init__(self, tensor: Tensor) -> None:
        handle, address = ctypes.c_uint64(), ctypes.c_void_p()
        lib = library()
        lib.check(lib.share(tensor._open(), ctypes.byref(handle), ctypes.byref(address)))
        super().__init__(handle.value)
        view = DLTensor.from_address(address.value or 0)
        shape = tuple(view.shape[: view.ndim]) if view.ndim else ()
        self._layout = _Layout(shape, int(view.data or 0), int(view.bits))

    def __enter__(self) -> _Layout:
        return self._layout

    def __exit__(self, *_: object) -> None:
        self.close()


class Tensor(Operators, Owned):
    """An array in memory of weir's, or in memory that another library lends; in row-major order.

    NumPy and PyTorch read it without a copy: numpy.from_dlpack(t), torch.from_dlpack(t). The memory is freed after the
    tensor is closed, or collected, and all arrays that share it are gone.
    """

    __slots__ = ("_seen", "_dtype", "_scope", "_foreign")

    def __init__(self, handle: int) -> None:
        """For the package's own use; from_dlpack, zeros and programs make tensors."""
        super().__init__(handle)
        self._seen: _Layout | None = None
        self._dtype: DType | None = None
        self._scope = adopt(self)
        self._foreign = False  # whether the memory may be that of another library, whose user may still hold it

    def __copy__(self) -> Self:
        """A tensor with the same elements, in memory of its own."""
        return self._twin(lambda state: state)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self._twin(lambda state: copy_module.deepcopy(state, memo))

    def __reduce__(self) -> tuple[Any, ...]:
        """The elements' bytes, for pickle and torch.save."""
        state = getattr(self, "__dict__", None)  # of a class that is derived from this one
        if self.dtype == "string":
            words, shape = self._strings()
            return (_restored, (type(self), "string", shape, words), state)
        with self._lent() as lies:
            count = (math.prod(lies.shape) * lies.bits + 7) // 8
            data = ctypes.string_at(lies.data, count) if count else b""
        return (_restored, (type(self), self.dtype.name, lies.shape, data), state)

    def _twin(self, copied: Callable[[Any], Any]) -> Self:
        """A copy. copied copies the state of a class that is derived from this one."""
        if self.dtype == "string":
            twin = _made(type(self), _words(*self._strings()))
        else:
            with self._lent() as lies:
                twin = _made(type(self), _zeros(lies.shape, self.dtype))
                with twin._lent() as to:
                    ctypes.memmove(to.data, lies.data, (math.prod(lies.shape) * lies.bits + 7) // 8)
        if state := getattr(self, "__dict__", None):
            twin.__dict__.update(copied(state))
        return twin

    def close(self) -> None:
        """Frees the memory, or leaves that to the last object that shares it. Closing twice is harmless."""
        super().close()

    @property
    def closed(self) -> bool:
        """Whether the tensor was closed, or given to a run for good."""
        return not self._handle

    def _view(self) -> _Layout:
        seen = self._seen
        if seen is None:
            with _Shared(self) as seen:
                self._seen = seen
        self._open()
        return seen

    def _lent(self) -> _Shared:
        """A block within which the memory stays, even if another thread closes the tensor."""
        return _Shared(self)

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        if self.dtype == "string":
            return self._strings()[1]
        return self._view().shape

    @property
    def dtype(self) -> DType:
        """The element type by weir's name, such as f32, bf16 or i64."""
        if self._dtype is None:
            self._dtype = DType(self._type()[0])
        return self._dtype

    def _type(self) -> tuple[str, bool]:
        """The element type, and whether the memory is read-only."""
        name, fixed = ctypes.c_void_p(), ctypes.c_int32()
        library().check(library().c.weir_type(self._open(), ctypes.byref(name), ctypes.byref(fixed)))
        return library().string(name), bool(fixed.value)

    @property
    def read_only(self) -> bool:
        """Whether the memory is read-only, as its owner lent it."""
        return self._type()[1]

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        count = 1
        for extent in self.shape:
            count *= extent
        return count

    @property
    def data_ptr(self) -> int:
        """The address of the first element; 0 if there is none."""
        return self._view().data

    @property
    def nbytes(self) -> int:
        """The bytes of the elements."""
        return (self.size * self._view().bits + 7) // 8

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a tensor without axes has no length")
        return self.shape[0]

    def __repr__(self) -> str:
        try:
            return f"<weir.Tensor {self.dtype}{list(self.shape)}>" if self._handle else "<weir.Tensor, closed>"
        except ClosedError:  # another thread closed it
            return "<weir.Tensor, closed>"

    def __dlpack_device__(self) -> tuple[int, int]:
        return (_CPU, 0)

    def __dlpack__(
        self,
        *,
        stream: None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A capsule for from_dlpack of another library, as the array API describes it.

        BufferError: another device, a stream, or read-only memory for a library that does not support it.
        """
        if stream is not None:
            raise BufferError("a tensor on the CPU has no stream")
        if dl_device is not None and tuple(dl_device) != (_CPU, 0):
            raise BufferError(f"the tensor is on the CPU, and cannot be had on device {tuple(dl_device)}")
        handle = self._open()
        versioned = max_version is not None and max_version[0] >= 1
        managed = ctypes.c_void_p()
        lib = library()
        try:
            lib.check(lib.c.weir_give(handle, versioned, _copying(copy), ctypes.byref(managed)))
        except NotImplementedError as error:
            raise BufferError(str(error)) from None
        return lib.capsule(managed, VERSIONED if versioned else LEGACY)

    def numpy(self) -> np.ndarray[Any, Any]:
        """The tensor as NumPy's array, without a copy.

        Strings are copied into an array of objects; types that NumPy does not have, such as bf16, into those of ml_dtypes.
        """
        import numpy

        if self.dtype.name in _narrow.NAMES:
            with self._lent() as lies:
                return _narrow.unpacked(self.dtype.name, lies.data, math.prod(lies.shape), lies.shape)

        if self.dtype == "string":
            words, shape = self._strings()
            return numpy.array(words, dtype=object).reshape(shape)
        array: np.ndarray[Any, Any] = numpy.from_dlpack(self)
        return array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError(f"{self!r} is {dtype} with a copy only")
            return array.astype(dtype)
        return array.copy() if copy else array

    def torch(self) -> Any:
        """The tensor as PyTorch's, without a copy."""
        import torch

        return torch.from_dlpack(self)

    def tolist(self) -> Any:
        """The elements as Python numbers, in nested lists."""
        if self.dtype.kind in ("complex", "other"):
            return self.numpy().tolist()
        return _operate.nested(_operate.elements(self), self.shape)

    def item(self) -> Any:
        """The only element."""
        if self.dtype.kind in ("complex", "other"):
            return self.numpy().item()
        if self.size != 1:
            raise ValueError(f"{self!r} has {self.size} elements, not one")
        return _operate.elements(self)[0]

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        if self.dtype.kind not in ("signed", "unsigned") or self.shape:
            raise TypeError(f"{self!r} is no integer")
        return int(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __bool__(self) -> bool:
        return bool(self.item())

    def _strings(self) -> tuple[list[str], tuple[int, ...]]:
        text, shape, rank = ctypes.c_void_p(), (ctypes.c_int64 * 64)(), ctypes.c_int32()
        lib = library()
        lib.check(lib.c.weir_text(self._open(), ctypes.byref(text), shape, ctypes.byref(rank)))
        return json.loads(lib.string(text)), tuple(shape[: rank.value])


_Kind = TypeVar("_Kind", bound=Tensor)


def _made(kind: type[_Kind], handle: int) -> _Kind:
    """A tensor of a class that may be derived from Tensor."""
    tensor = kind.__new__(kind)
    Tensor.__init__(tensor, handle)
    return tensor


def _restored(kind: type[Tensor], dtype: str, shape: tuple[int, ...], contents: Any) -> Tensor:
    """The tensor that Tensor.__reduce__ described; pickles name this function."""
    if dtype == "string":
        return _made(kind, _words(contents, shape))
    tensor = _made(kind, _zeros(shape, dtype))
    if len(contents) != tensor.nbytes:
        raise ValueError(f"{len(contents)} bytes for {tensor!r}, which takes {tensor.nbytes}")
    with tensor._lent() as lies:
        ctypes.memmove(lies.data, contents, len(contents))
    return tensor


def _copying(copy: bool | None) -> int:
    """The value of copy= in the array API for a flag."""
    return COPY_ALWAYS if copy else COPY_NEVER if copy is False else COPY_IF_NEEDED


# Types whose __dlpack__ does not accept max_version.
_older: set[type] = set()


def capsule_of(x: Any) -> object:
    """The capsule that x exports by DLPack; x itself, if it is one."""
    if type(x).__name__ == "PyCapsule":
        return x
    if getattr(x, "requires_grad", False):
        x = x.detach()
    kind = type(x)
    if kind not in _older:
        try:
            return x.__dlpack__(max_version=(1, 0))
        except TypeError:
            _older.add(kind)
    return x.__dlpack__()


def copied(array: Any) -> Tensor:
    """A copy of an array of a type that NumPy itself does not have."""
    data = _narrow.packed(array)
    tensor = zeros(array.shape, _narrow.name_of(array))
    if data:
        with tensor._lent() as lies:
            ctypes.memmove(lies.data, data, len(data))
    return tensor


def from_dlpack(x: Exchangeable | CapsuleType, /, *, copy: bool | None = None) -> Tensor:
    """A tensor of the memory of x, without a copy unless copy asks for one or the memory's strides need one.

    With copy=False such memory is refused. x's memory is released when the tensor is closed or collected. x may be a
    capsule of DLPack itself, which can be taken once.
    """
    lib = library()
    capsule = capsule_of(x)
    versioned = ctypes.c_int32()
    managed = lib.held.weir_capsule_take(capsule, ctypes.byref(versioned))
    if not managed:
        raise BufferError(f"{type(x).__name__}.__dlpack__ gave {capsule!r}, which holds no tensor, or one that was taken")
    handle = ctypes.c_uint64()
    try:
        lib.check(lib.c.weir_take(managed, versioned, _copying(copy), ctypes.byref(handle)))
    except NotImplementedError as error:
        raise BufferError(str(error)) from error
    tensor = Tensor(handle.value)
    tensor._foreign = not copy
    return tensor


def items(handle: int) -> list[Tensor]:
    """The tensors of a list of the library, which is closed."""
    owned = Owned(handle)
    count = ctypes.c_int32()
    lib = library()
    lib.check(lib.c.weir_items(handle, None, ctypes.byref(count)))
    found = (ctypes.c_uint64 * count.value)()
    lib.check(lib.c.weir_items(handle, found, ctypes.byref(count)))
    owned.close()
    return [Tensor(item) for item in found]


def zeros(shape: Sequence[int], dtype: DType | str = "f32") -> Tensor:
    """A tensor of zeros."""
    return Tensor(_zeros(shape, named(dtype)))


def _zeros(shape: Sequence[int], dtype: DType | str) -> int:
    """The handle of a tensor of zeros."""
    sizes = _sizes(shape)
    handle = ctypes.c_uint64()
    library().check(library().c.weir_zeros(str(dtype).encode(), sizes, len(sizes), ctypes.byref(handle)))
    return handle.value


def _sizes(shape: Sequence[int]) -> Any:
    """A shape for the library."""
    return (ctypes.c_int64 * len(shape))(*map(operator.index, shape))


def strings(words: Any) -> Tensor:
    """A tensor of strings from a string, or from nested lists of strings."""
    shape: list[int] = []
    flat = words
    while isinstance(flat, (list, tuple)):
        shape.append(len(flat))
        if len(flat) == 0:
            break
        flat = flat[0]
    items: list[Any] = [words]
    for extent in shape:
        if any(not isinstance(item, (list, tuple)) or len(item) != extent for item in items):
            raise ValueError("lists of strings of unequal lengths")
        items = [word for item in items for word in item]
    return Tensor(_words(items, shape))


def _words(words: Sequence[str], shape: Sequence[int]) -> int:
    """The handle of a tensor of strings."""
    handle = ctypes.c_uint64()
    library().check(library().c.weir_strings(json.dumps(words).encode(), _sizes(shape), len(shape), ctypes.byref(handle)))
    return handle.value
