"""Scopes: what owns the tensors that are made within."""

from __future__ import annotations

import contextvars
import weakref
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from ._errors import ClosedError

if TYPE_CHECKING:
    from ._tensor import Tensor

    T = TypeVar("T", bound=Tensor)

# The scope that tensors are made in, of each thread and task its own.
current: contextvars.ContextVar[Scope | None] = contextvars.ContextVar("weir.Scope", default=None)


class Scope:
    """Owns every tensor that is made while it is entered, by a program, by from_dlpack or by a function, and closes them at its end.

        with weir.Scope("batch") as s:
            y = s.keep(program(x))     # outlives the scope

    Scopes may lie within each other. A thread begins outside of all.
    """

    def __init__(self, name: str = "scope") -> None:
        self.name = name
        self._owned: dict[int, weakref.ref[Tensor]] = {}
        self._outer: contextvars.Token[Scope | None] | None = None

    def __enter__(self) -> Scope:
        if self._outer is not None:
            raise ClosedError(f"scope {self.name} is entered already")
        self._outer = current.set(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._outer is None:
            raise ClosedError(f"scope {self.name} is not entered")
        current.reset(self._outer)
        self._outer = None
        self.close()

    def close(self) -> None:
        """Closes the tensors that the scope owns. What others made of them, such as NumPy's arrays, keeps their memory."""
        failed: Exception | None = None
        while self._owned:
            _, reference = self._owned.popitem()
            tensor = reference()
            try:
                if tensor is not None:
                    tensor.close()
            except Exception as error:
                failed = failed or error
        if failed is not None:
            raise failed

    def keep(self, tensor: T) -> T:
        """Moves a tensor out, to the scope around this one, or to nobody, and returns it."""
        found = self._owned.get(id(tensor))
        if found is None or found() is not tensor:
            raise ValueError(f"scope {self.name} does not own {tensor!r}")
        del self._owned[id(tensor)]
        outer = self._outer.old_value if self._outer is not None else None
        if isinstance(outer, Scope):
            outer._own(tensor)
        return tensor

    def _own(self, tensor: Tensor) -> None:
        owned, key = self._owned, id(tensor)

        def gone(reference: weakref.ref[Tensor]) -> None:
            if owned.get(key) is reference:
                del owned[key]

        owned[key] = weakref.ref(tensor, gone)

    def __len__(self) -> int:
        return len(self._owned)

    def __repr__(self) -> str:
        return f"<weir.Scope {self.name}, of {len(self)} tensors>"
