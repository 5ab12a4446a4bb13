"""Scopes: tensors that are made within a scope are closed at its end."""

from __future__ import annotations

import contextvars
import threading
import weakref
from types import TracebackType
from typing import TYPE_CHECKING, Any, Iterator, Mapping, Sequence, TypeVar

from ._errors import ClosedError, InputError

if TYPE_CHECKING:
    from ._tensor import Tensor

_T = TypeVar("_T")

_current: contextvars.ContextVar[Scope | None] = contextvars.ContextVar("weir.scope", default=None)
_NEW, _OPEN, _CLOSED = range(3)


class Scope:
    """A block of code that owns the tensors made within it, and closes them at its end, also when an error ends it.

        with weir.Scope("batch") as s:
            h = first(x)
            y = s.keep(second(h))
        # h is closed; y is not

    The results of programs, and the tensors of from_dlpack and zeros, belong to the innermost open scope of the context
    that makes them. A thread begins outside all scopes; contextvars.copy_context, asyncio's tasks and asyncio.to_thread
    keep the caller's. A scope refers to its tensors weakly: a tensor without other references is closed before the end, as
    it is without a scope. Arrays that NumPy or PyTorch made of a tensor stay valid, as after Tensor.close.
    """

    __slots__ = ("name", "_parent", "_state", "_lock", "_tensors", "__weakref__")

    def __init__(self, name: str = "") -> None:
        self.name = name
        self._parent: Scope | None = None
        self._state = _NEW
        self._lock = threading.RLock()  # a finalizer may make a tensor while its thread holds the lock
        self._tensors: dict[int, weakref.ref[Tensor]] = {}  # by id

    def __copy__(self) -> Scope:
        """The scope itself: a tensor belongs to one."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Scope:
        return self

    def __reduce__(self) -> Any:
        raise TypeError("a weir.Scope cannot be pickled: it is a block of its own process. Make another there")

    def __repr__(self) -> str:
        state = ("not entered", f"{len(self._tensors)} tensors", "closed")[self._state]
        return f"<weir.Scope {self.name!r}, {state}>"

    def __enter__(self) -> Scope:
        with self._lock:
            if self._state != _NEW:
                raise ClosedError(f"{self!r} is entered again; each block needs a scope of its own")
            self._parent, self._state = _innermost(), _OPEN
        _current.set(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._lock:
            self._state = _CLOSED
            tensors = [tensor for ref in self._tensors.copy().values() if (tensor := ref()) is not None]
            self._tensors.clear()
        if _current.get() is self:
            _current.set(_nearest(self._parent))
        failed: BaseException | None = None
        for tensor in reversed(tensors):
            try:
                tensor.close()
            except Exception as e:
                failed = failed or e
        if failed is not None and error is None:
            raise failed

    def keep(self, value: _T) -> _T:
        """Moves a tensor to the scope around this one, or out of all scopes, and returns it: return s.keep(y).

        value may be Results, or a list, tuple or dict of tensors, which are moved together. A tensor that would outlive this
        scope anyway, such as one of the scope around it, is not moved. ClosedError: the scope or a tensor is closed.
        InputError: a tensor belongs to a scope within this one, which must keep it first.
        """
        tensors = {id(t): t for t in _tensors_of(value)}.values()
        if not tensors and not isinstance(value, (Sequence, Mapping)):
            raise InputError(f"{type(value).__name__} is no tensor, and cannot be kept")
        with self._lock:
            if self._state != _OPEN:
                raise ClosedError(f"{self!r} keeps nothing")
            for tensor in tensors:
                if tensor.closed:
                    raise ClosedError("a tensor that is to be kept is closed, or was given away")
                owner = tensor._scope
                if owner is not None and owner is not self and owner._within(self):
                    raise InputError(f"a tensor that is to be kept belongs to {owner!r}, within {self!r}")
            for tensor in tensors:
                if self._tensors.pop(id(tensor), None) is not None:
                    tensor._scope = _given(self._parent, tensor)
        return value

    def _within(self, other: Scope) -> bool:
        """Whether other encloses this scope."""
        at = self._parent
        while at is not None and at is not other:
            at = at._parent
        return at is not None


def adopt(tensor: Tensor) -> Scope | None:
    """Gives a new tensor to the innermost open scope, and returns the scope; None if there is none."""
    scope = _current.get()
    return scope if scope is None else _given(scope, tensor)


def _given(scope: Scope | None, tensor: Tensor) -> Scope | None:
    """Gives a tensor to a scope, or to the nearest open one that encloses it."""
    while scope is not None:
        with scope._lock:
            if scope._state == _OPEN:
                scope._tensors[id(tensor)] = _reference(tensor, scope._tensors)
                return scope
        scope = scope._parent
    return None


def _reference(tensor: Tensor, tensors: dict[int, weakref.ref[Tensor]]) -> weakref.ref[Tensor]:
    """A weak reference to a tensor, which leaves tensors when the tensor goes: at any time, and on any thread.

    weakref.WeakValueDictionary is not for that: of Python 3.13 without its lock it fails if that happens while it is read.
    """
    key = id(tensor)
    return weakref.ref(tensor, lambda _: tensors.pop(key, None))


def _nearest(scope: Scope | None) -> Scope | None:
    """The scope, or the nearest open one that encloses it."""
    while scope is not None and scope._state != _OPEN:
        scope = scope._parent
    return scope


def _innermost() -> Scope | None:
    return _nearest(_current.get())


def _tensors_of(value: Any) -> Iterator[Tensor]:
    """The tensors in a value, and in its lists and dicts."""
    from ._tensor import Tensor  # _tensor imports this module

    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _tensors_of(item)
    elif isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray, memoryview)):
        for item in value:
            yield from _tensors_of(item)
