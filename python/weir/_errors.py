"""The exceptions of weir."""

from __future__ import annotations

import json
from typing import Any


class Error(Exception):
    """An error of weir, with its position in the model. kind names the subclass; unknown fields are empty strings."""

    kind = ""

    def __init__(self, message: str, **fields: str) -> None:
        super().__init__(message)
        self.file = fields.get("file", "")
        self.node = fields.get("node", "")
        self.op = fields.get("op", "")
        self.tensor = fields.get("tensor", "")
        self.dim = fields.get("dim", "")
        self.detail = fields.get("detail", message)
        self.fix = fields.get("fix", "")


class InputError(Error, ValueError):
    """A file, a model, a value or an option is at fault."""

    kind = "input"


class UnsupportedError(Error, NotImplementedError):
    """The request is valid, but weir does not support it."""

    kind = "unsupported"


class BudgetError(Error, MemoryError):
    """A plan does not fit its budget."""

    kind = "budget"


class OutOfMemoryError(Error, MemoryError):
    """The system, or the process's limit, refused memory."""

    kind = "memory"


class ClosedError(Error, ValueError):
    """A program or a tensor was used after it was closed or given away."""

    kind = "closed"


class InternalError(Error, RuntimeError):
    """A bug of weir."""

    kind = "internal"


class _Interrupted(Error):
    """A call was ended by a signal handler, whose exception the caller gets."""

    kind = "interrupted"


_KINDS: dict[str, type[Error]] = {
    e.kind: e
    for e in (InputError, UnsupportedError, BudgetError, OutOfMemoryError, ClosedError, InternalError, _Interrupted)
}


def error_of(text: bytes) -> Error:
    """The exception for an error of the library."""
    fields: dict[str, Any] = json.loads(text)
    message = fields.pop("message")
    return _KINDS.get(fields.pop("kind"), InternalError)(message, **fields)
