"""Numbers of NumPy as numbers of Python."""

from __future__ import annotations

import sys
from typing import Any

from . import _narrow

# The kinds of NumPy's element types that are numbers, with Python's types.
_KINDS: dict[str, type[Any]] = {"b": bool, "i": int, "u": int, "f": float, "c": complex}


def number(value: Any) -> Any:
    """A scalar of NumPy, or of ml_dtypes, as Python's number of its kind; any other value as it is."""
    scalars: Any = getattr(sys.modules.get("numpy"), "generic", ())  # none before NumPy is imported
    if not isinstance(value, scalars):
        return value
    name = _narrow.name_of(value)
    kind = _KINDS.get(value.dtype.kind) if not name else int if name[0] in "iu" else float
    return value if kind is None else kind(value)
