"""Weir: load a model, know how much memory it takes before it runs, and run it without a copy.

    program = weir.compile("model.onnx")
    program.memory.peak(batch=64)      # bytes
    y = program(x)                     # x of NumPy, PyTorch, or whatever has __dlpack__
    v = weir.load_embedder("all-MiniLM-L6-v2")(["a text", "another"])
    z = weir.array_api.exp(y) + 1      # the array API standard, by Weir's kernels
"""

from __future__ import annotations

import ctypes as _ctypes
import importlib as _importlib
import json as _json
import operator as _operator
from typing import Any as _Any

from . import array_api
from ._dtypes import DType
from ._embedder import Embedder, EmbedderMemory, load_embedder
from ._errors import BudgetError, ClosedError, Error, InputError, InternalError, OutOfMemoryError, UnsupportedError
from ._graphs import Graph, GraphMemory, graphs
from ._library import library as _weir
from ._page import Page, plan_html
from ._program import Dimension, Memory, Model, Port, Program, Results, compile, consume, donate, load, update
from ._scope import Scope
from ._tensor import Exchangeable, Tensor, from_dlpack, strings, zeros

__version__ = "0.1.0"


def usage() -> dict[str, int]:
    """The memory that the process holds, in bytes by kind, and the numbers of handles and of exported tensors."""
    text = _ctypes.c_void_p()
    lib = _weir()
    lib.check(lib.c.weir_usage(_ctypes.byref(text)))
    told: dict[str, _Any] = _json.loads(lib.string(text))
    return told


def trim() -> int:
    """Frees memory that is kept for later use, and returns its bytes."""
    return int(_weir().c.weir_trim())


def set_limit(bytes: int) -> int:
    """Sets the maximum number of bytes that the process may hold, 0 for no limit, and returns the previous limit."""
    return int(_weir().c.weir_set_limit(_operator.index(bytes)))


def __getattr__(name: str) -> _Any:
    """The modules for engines, which are imported on first use."""
    if name in ("ray", "spark"):
        return _importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "BudgetError",
    "ClosedError",
    "DType",
    "Dimension",
    "Embedder",
    "EmbedderMemory",
    "Error",
    "Exchangeable",
    "Graph",
    "GraphMemory",
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
    "array_api",
    "compile",
    "consume",
    "donate",
    "from_dlpack",
    "graphs",
    "load",
    "load_embedder",
    "plan_html",
    "set_limit",
    "strings",
    "trim",
    "update",
    "usage",
    "zeros",
]
