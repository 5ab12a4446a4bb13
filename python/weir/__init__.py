"""Weir: load a model, know how much memory it takes before it runs, and run it without a copy.

    program = weir.compile("model.onnx")
    program.memory.peak(batch=64)      # bytes
    y = program(x)                     # x of NumPy, PyTorch, or whatever has __dlpack__
"""

from __future__ import annotations

import ctypes as _ctypes
import json as _json
from typing import Any as _Any

from ._errors import BudgetError, ClosedError, Error, InputError, InternalError, OutOfMemoryError, UnsupportedError
from ._library import library as _weir
from ._page import Page, plan_html
from ._program import Dimension, Memory, Model, Port, Program, Results, compile, consume, donate, load, update
from ._scope import Scope
from ._tensor import Exchangeable, Tensor, from_dlpack, strings, zeros

__version__ = "0.1.0"


def usage() -> dict[str, int]:
    """What the process holds, in bytes, by kind; and how many handles and tensors that were given away there are."""
    text = _ctypes.c_void_p()
    lib = _weir()
    lib.check(lib.c.weir_usage(_ctypes.byref(text)))
    told: dict[str, _Any] = _json.loads(lib.string(text))
    return told


def trim() -> int:
    """Gives back what is kept for later, and says how many bytes that were."""
    return int(_weir().c.weir_trim())


def set_limit(bytes: int) -> int:
    """Bounds the bytes that the process may hold; 0 is no bound. It returns the bound before."""
    return int(_weir().c.weir_set_limit(bytes))


__all__ = [
    "BudgetError",
    "ClosedError",
    "Dimension",
    "Error",
    "Exchangeable",
    "InputError",
    "InternalError",
    "Memory",
    "Model",
    "OutOfMemoryError",
    "Page",
    "Port",
    "Program",
    "Results",
    "Scope",
    "Tensor",
    "UnsupportedError",
    "compile",
    "consume",
    "donate",
    "from_dlpack",
    "load",
    "plan_html",
    "set_limit",
    "strings",
    "trim",
    "update",
    "usage",
    "zeros",
]
