"""A producer and a consumer of DLPack that count: each structure must be deleted exactly once."""

from __future__ import annotations

import ctypes
import math
from typing import Any

from weir._library import DLTensor


class Versioned(ctypes.Structure):
    pass


class Legacy(ctypes.Structure):
    pass


VersionedDeleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(Versioned))
LegacyDeleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(Legacy))
Versioned._fields_ = [
    ("major", ctypes.c_uint32),
    ("minor", ctypes.c_uint32),
    ("manager_ctx", ctypes.c_void_p),
    ("deleter", VersionedDeleter),
    ("flags", ctypes.c_uint64),
    ("tensor", DLTensor),
]
Legacy._fields_ = [("tensor", DLTensor), ("manager_ctx", ctypes.c_void_p), ("deleter", LegacyDeleter)]

_api = ctypes.pythonapi
_new = _api.PyCapsule_New
_new.argtypes, _new.restype = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p], ctypes.py_object
# The destructor gets a capsule whose reference count is zero: it must not become a Python object.
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", _api))
_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", _api))
_rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_SetName", _api))

VERSIONED, LEGACY = b"dltensor_versioned", b"dltensor"
USED_VERSIONED, USED_LEGACY = b"used_dltensor_versioned", b"used_dltensor"

CODES = {"i": 0, "u": 1, "f": 2, "bf": 4, "c": 5, "bool": 6}


def _destroy(capsule: int) -> None:
    if _valid(capsule, VERSIONED):
        managed = Versioned.from_address(_pointer(capsule, VERSIONED))
        managed.deleter(ctypes.pointer(managed))
    elif _valid(capsule, LEGACY):
        legacy = Legacy.from_address(_pointer(capsule, LEGACY))
        legacy.deleter(ctypes.pointer(legacy))


_destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_destroy)


# The structures that are not deleted yet, by address. Deleters must work even if the producer is gone, as those of a
# library do: they do not belong to a producer.
_given: dict[int, tuple[Any, ...]] = {}


def _delete(managed: Any) -> None:
    producer = _given.pop(ctypes.addressof(managed.contents))[0]
    producer.deletions.append(None)


_versioned_deleter, _legacy_deleter = VersionedDeleter(_delete), LegacyDeleter(_delete)


class Producer:
    """Exports float32 memory, and counts the calls of each structure's deleter."""

    def __init__(self, shape: tuple[int, ...] = (2, 3), strides: tuple[int, ...] | None = None, offset: int = 0, **change: Any):
        count = max(1, math.prod(shape)) * 4 + 64
        self.memory = (ctypes.c_float * count)(*range(count))
        self.shape, self.strides, self.offset = shape, strides, offset
        self.change = change
        # A mark for each: several threads may append to a list.
        self.gifts: list[None] = []
        self.deletions: list[None] = []

    @property
    def given(self) -> int:
        """The number of exported structures."""
        return len(self.gifts)

    @property
    def deleted(self) -> int:
        """The number of deleter calls."""
        return len(self.deletions)

    def alive(self) -> list[Any]:
        """The structures that are not deleted yet."""
        return [given[1] for given in _given.copy().values() if given[0] is self]

    def _fill(self, tensor: DLTensor) -> Any:
        rank = len(self.shape)
        shape = (ctypes.c_int64 * rank)(*self.shape)
        strides = None if self.strides is None else (ctypes.c_int64 * rank)(*self.strides)
        tensor.data = ctypes.addressof(self.memory)
        tensor.device_type, tensor.ndim, tensor.code, tensor.bits, tensor.lanes = 1, rank, 2, 32, 1
        if not self.change.get("no_shape"):
            tensor.shape = ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64))
        if strides is not None:
            tensor.strides = ctypes.cast(strides, ctypes.POINTER(ctypes.c_int64))
        tensor.byte_offset = self.offset
        for name, value in self.change.items():
            if hasattr(tensor, name):
                setattr(tensor, name, value)
        return shape, strides

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def capsule(self, versioned: bool = True) -> object:
        managed: Any
        if versioned:
            managed = Versioned()
            managed.major, managed.minor = self.change.get("version", (1, 1))
            managed.flags = self.change.get("flags", 0)
            if not self.change.get("no_deleter"):
                managed.deleter = _versioned_deleter
        else:
            managed = Legacy()
            if not self.change.get("no_deleter"):
                managed.deleter = _legacy_deleter
        extents = self._fill(managed.tensor)
        self.gifts.append(None)
        address = ctypes.addressof(managed)
        _given[address] = (self, managed, extents)
        return _new(address, VERSIONED if versioned else LEGACY, _destructor)

    def __dlpack__(self, *, max_version: tuple[int, int] | None = None, **rest: Any) -> object:
        return self.capsule(versioned=max_version is not None)


class OldProducer(Producer):
    """A producer from before DLPack 1, whose __dlpack__ accepts only a stream."""

    def __dlpack__(self, *, stream: Any = None) -> object:  # type: ignore[override]
        return self.capsule(versioned=False)


class Consumer:
    """Takes the structure of a capsule, as another library would, and calls its deleter."""

    def __init__(self, capsule: object) -> None:
        address = id(capsule)
        self.managed: Any
        if _valid(address, VERSIONED):
            self.managed = Versioned.from_address(_pointer(address, VERSIONED))
            _rename(address, USED_VERSIONED)
            self.versioned = True
        elif _valid(address, LEGACY):
            self.managed = Legacy.from_address(_pointer(address, LEGACY))
            _rename(address, USED_LEGACY)
            self.versioned = False
        else:
            raise ValueError("no tensor")
        self.tensor: DLTensor = self.managed.tensor

    def shape(self) -> list[int]:
        return self.tensor.shape[: self.tensor.ndim] if self.tensor.ndim else []

    def strides(self) -> list[int]:
        return self.tensor.strides[: self.tensor.ndim] if self.tensor.ndim else []

    def floats(self) -> list[float]:
        count = math.prod(self.shape())
        return list((ctypes.c_float * count).from_address(self.tensor.data)) if count else []

    def delete(self) -> None:
        self.managed.deleter(ctypes.pointer(self.managed))
