"""The C library, by ctypes. It is loaded on first use, so that a process may fork before that."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from typing import TYPE_CHECKING, Any

from ._errors import ClosedError, _Interrupted, error_of

if TYPE_CHECKING:
    from typing_extensions import Self

_NAMES = {"darwin": "libweir.dylib", "win32": "libweir.dll"}
_ABI, _ABI_MINOR = 1, 2  # the lowest minor version with all functions that this package calls


# The words of weir_argument, one argument of a run: a handle, the address of a DLTensor, and the run's use of it.
TENSOR, LENT, HOW = range(3)
WORDS = 3
LEND, CONSUME, DONATE, UPDATE, ABSENT, TAKE = range(6)
COPY_IF_NEEDED, COPY_NEVER, COPY_ALWAYS = range(3)


class DLTensor(ctypes.Structure):
    """DLPack's view of a tensor."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_handle, _out, _pointer, _text = ctypes.c_uint64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p

# The parameters of each function. Functions that may fail return an error, or NULL.
_FALLIBLE: dict[str, list[Any]] = {
    "weir_load": [_text, _out],
    "weir_load_bytes": [_text, ctypes.c_size_t, _out],
    "weir_compile": [_handle, _text, _pointer, _out],
    "weir_load_embedder": [_text, _text, _pointer, _out],
    "weir_embed": [_handle, _text, _text, _pointer, _out],
    "weir_describe": [_handle, _out],
    "weir_memory": [_handle, ctypes.c_int32, _text, _out],
    "weir_plan_page": [_handle, _text, _text, _out],
    "weir_run": [_handle, _pointer, ctypes.c_int32, _pointer, _pointer, ctypes.c_int32],
    "weir_run_giving": [_handle, _pointer, ctypes.c_int32, _pointer, _pointer, ctypes.c_int32],
    "weir_take": [_pointer, ctypes.c_int32, ctypes.c_int32, _out],
    "weir_give": [_handle, ctypes.c_int32, ctypes.c_int32, _out],
    "weir_view": [_handle, _out],
    "weir_share": [_handle, _out, _out],
    "weir_type": [_handle, _out, _out],
    "weir_zeros": [_text, _pointer, ctypes.c_int32, _out],
    "weir_strings": [_text, _pointer, ctypes.c_int32, _out],
    "weir_text": [_handle, _out, _pointer, _out],
    "weir_list": [_pointer, ctypes.c_int32, _out],
    "weir_items": [_handle, _pointer, _out],
    "weir_operate": [_text, _text, _pointer, ctypes.c_int32, _out],
    "weir_close": [_handle],
    "weir_usage": [_out],
    "weir_save": [_handle, _text],
    "weir_operators": [_out],
}

# Python's own functions, in the order of weir_python.
_PYTHON = (
    "PyCapsule_IsValid",
    "PyCapsule_GetPointer",
    "PyCapsule_SetName",
    "PyGILState_Ensure",
    "PyGILState_Release",
    "PyErr_CheckSignals",
    "PyErr_Fetch",
    "PyErr_Restore",
)


VERSIONED, LEGACY = b"dltensor_versioned", b"dltensor"  # the names of capsules, which keep their addresses


class Library:
    """The loaded library. Functions of c release Python's lock while they run; those of held keep it."""

    def __init__(self, path: str) -> None:
        self.c = ctypes.CDLL(path)
        self.held = ctypes.PyDLL(path)
        if self.c.weir_abi() != _ABI:
            raise ImportError(f"{path} has version {self.c.weir_abi()} of weir's interface; this package wants {_ABI}")
        minor = self.c.weir_abi_minor() if hasattr(self.c, "weir_abi_minor") else 0
        if minor < _ABI_MINOR:
            raise ImportError(f"{path} has version {_ABI}.{minor} of weir's interface; this package wants {_ABI}.{_ABI_MINOR}")
        for name, takes in _FALLIBLE.items():
            function = getattr(self.c, name)
            function.argtypes, function.restype = takes, ctypes.c_void_p
        self.c.weir_free.argtypes = [ctypes.c_void_p]
        self.c.weir_trim.restype = ctypes.c_int64
        self.c.weir_set_limit.argtypes, self.c.weir_set_limit.restype = [ctypes.c_int64], ctypes.c_int64
        self.held.weir_capsule_take.argtypes = [ctypes.py_object, _out]
        self.held.weir_capsule_take.restype = ctypes.c_void_p
        self.held.weir_capsule_view.argtypes = [ctypes.py_object, _out]
        self.held.weir_capsule_view.restype = ctypes.c_void_p
        addresses = [ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value for name in _PYTHON]
        self.c.weir_python((ctypes.c_void_p * len(addresses))(*addresses))
        self.poll = ctypes.cast(self.c.weir_python_poll, ctypes.c_void_p)
        self.destructor = ctypes.cast(self.c.weir_capsule_destructor, ctypes.c_void_p)
        self._new_capsule = ctypes.pythonapi.PyCapsule_New
        self._new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        self._new_capsule.restype = ctypes.py_object
        self.run, self.close, self.share = self.c.weir_run, self.c.weir_close, self.c.weir_share
        self.run_giving = self.c.weir_run_giving

    def capsule(self, managed: Any, name: bytes = VERSIONED) -> Any:
        """A capsule of a structure from weir_give."""
        return self._new_capsule(managed, name, self.destructor)

    def check(self, failed: int | None) -> None:
        """Raises the error that a function returned."""
        if not failed:
            return
        text = ctypes.string_at(failed)
        self.c.weir_free(failed)
        error = error_of(text)
        if isinstance(error, _Interrupted):
            self.held.weir_python_raise()
            raise KeyboardInterrupt
        raise error

    def string(self, text: ctypes.c_char_p | ctypes.c_void_p) -> str:
        """The string that a function returned, which is freed."""
        address = ctypes.cast(text, ctypes.c_void_p).value or 0
        value = ctypes.string_at(address).decode()
        self.c.weir_free(address)
        return value


_library: Library | None = None
_loading = threading.Lock()


def library() -> Library:
    """The library; the first call loads it."""
    global _library
    if _library is None:
        with _loading:
            if _library is None:
                name = _NAMES.get(sys.platform, "libweir.so")
                path = os.environ.get("WEIR_LIBRARY") or os.path.join(os.path.dirname(__file__), name)
                _library = Library(path)
    return _library


class Owned:
    """An object of the library that is closed once: by close, or when it is collected."""

    __slots__ = ("_handles", "__weakref__")
    _INSTEAD = "Make another there"  # instead of pickling the object

    def __init__(self, handle: int) -> None:
        self._handles = [handle]  # until close takes it, which succeeds in one thread only

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:  # the interpreter may be ending, and modules may be incomplete
            pass

    def __copy__(self) -> Self:
        """The object itself: the handle belongs to one object, which closes it."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> Any:
        raise TypeError(f"a weir.{type(self).__name__} cannot be pickled: it exists in its own process only. {self._INSTEAD}")

    def close(self) -> None:
        """Closes the object. Closing twice is harmless."""
        try:
            handle = self._handles.pop()
        except (IndexError, AttributeError):  # it is closed, or its construction failed
            return
        library().check(library().close(handle))

    @property
    def _handle(self) -> int:
        """The handle; 0 if the object is closed."""
        try:
            return self._handles[0]
        except IndexError:
            return 0

    def _open(self) -> int:
        """The handle; ClosedError if the object is closed."""
        try:
            return self._handles[0]
        except IndexError:
            raise ClosedError(f"the {type(self).__name__.lower()} is closed, or was given away") from None
