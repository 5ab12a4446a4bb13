"""Models that turn texts into vectors."""

from __future__ import annotations

import ctypes
import json
import operator
import os
from types import TracebackType
from typing import Any, NamedTuple, Sequence, Union

from ._errors import InputError
from ._library import Owned, library
from ._tensor import Tensor

_Path = Union[str, "os.PathLike[str]"]


class EmbedderMemory(NamedTuple):
    """An embedder's certificate, in bytes. It takes held once it is loaded, and never more, and the tokenizer."""

    held: int  # weights + files + calls × (call + arguments)
    weights: int  # in memory of its own, and code
    files: int  # weights that are read in place in the mapped files
    call: int  # the most that one run takes
    calls: int  # the runs that may be active at once
    arguments: int  # the ids and masks of one run
    tokenizer: int


class Embedder(Owned):
    """A model that turns texts into vectors: see load_embedder. Any thread may call it; calls share runs."""

    _INSTEAD = "Pass the model's path, and call weir.load_embedder there"

    def __init__(self, handle: int) -> None:
        """For the package's own use: load_embedder makes embedders."""
        super().__init__(handle)
        text = ctypes.c_void_p()
        lib = library()
        lib.check(lib.c.weir_describe(handle, ctypes.byref(text)))
        told = json.loads(lib.string(text))
        self.dimensions: int = told["dimensions"]
        self.max_tokens: int = told["max_tokens"]
        self.prompts: dict[str, str] = told["prompts"]
        self.memory = EmbedderMemory(**told["memory"])

    def __repr__(self) -> str:
        return f"<weir.Embedder of {self.dimensions} dimensions{'' if self._handle else ', closed'}>"

    def __enter__(self) -> Embedder:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __call__(self, texts: Sequence[str], *, prompt_name: str | None = None) -> Tensor:
        """The vectors of texts, a row of f32 for each: what sentence-transformers' encode returns.

        Texts that are longer than max_tokens are truncated. prompt_name names one of prompts, which is put before each
        text; without it the default that load_embedder was given is. Ctrl-C ends the call.
        """
        if isinstance(texts, (str, bytes)):
            raise InputError("one text is given; embedders take a list of texts")
        texts = list(texts)
        for i, text in enumerate(texts):
            if not isinstance(text, str):
                raise InputError(f"text {i} is a {type(text).__name__}, not a str")
        try:
            given = json.dumps(texts, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise InputError(f"a text has half of a surrogate pair, which UTF-8 cannot encode: {error.reason}") from None
        handle = ctypes.c_uint64()
        lib = library()
        name = None if prompt_name is None else prompt_name.encode()
        lib.check(lib.c.weir_embed(self._open(), given, name, lib.poll, ctypes.byref(handle)))
        return Tensor(handle.value)


def load_embedder(
    model: _Path,
    *,
    prompt: str = "",
    prompt_name: str = "",
    no_prompt: bool = False,
    max_tokens: int = 0,
    dimensions: int = 0,
    normalize: bool = False,
    artefact: _Path = "",
    budget: int = 0,
    calls: int = 1,
    threads: int = 0,
    precision: str = "",
    cpu: str = "",
) -> Embedder:
    """Loads and compiles a model of texts: a folder that sentence-transformers or transformers wrote, or an ONNX file
    with tokenizer.json beside it.

    prompt is put before each text, or that of the model's prompts with the name prompt_name, or by default the model's own
    choice, if it has one, unless no_prompt. max_tokens is the most tokens of a text (0: what the model says), dimensions
    the number of elements that are kept of each vector (0: all), normalize scales vectors to length 1. artefact is a file
    with the compiled program. budget is the most bytes that the loaded model may take: a run has as many texts as fit. The
    other parameters are compile's. Ctrl-C ends the compilation.
    """
    options = {
        "prompt": prompt, "prompt_name": prompt_name, "no_prompt": bool(no_prompt), "max_tokens": operator.index(max_tokens),
        "dimensions": operator.index(dimensions), "normalize": bool(normalize), "artefact": os.fspath(artefact),
        "budget": operator.index(budget), "calls": operator.index(calls), "threads": operator.index(threads),
        "precision": precision, "cpu": cpu,
    }  # fmt: skip
    handle = ctypes.c_uint64()
    lib = library()
    lib.check(lib.c.weir_load_embedder(os.fsencode(model), json.dumps(options).encode(), lib.poll, ctypes.byref(handle)))
    return Embedder(handle.value)
