"""The one model of a worker process, for engines that divide rows among processes: see weir.ray and weir.spark."""

from __future__ import annotations

import operator
import os
import sys
from typing import TYPE_CHECKING, Any, Mapping

from ._embedder import load_embedder
from ._errors import BudgetError, InputError, UnsupportedError
from ._program import NUMPY, Model, Port, Program, compile, load

if TYPE_CHECKING:
    import numpy as np


def rows_of(model: Model) -> str | None:
    """The dimension that counts a model's rows: the first axis of every input; None if this axis is 1 in all of them."""
    firsts = {port.shape[0] if port.shape else "" for port in model.inputs}
    if firsts == {1}:
        return None
    first = firsts.pop() if len(firsts) == 1 else ""
    if not isinstance(first, str) or not first:
        raise InputError(
            f"the inputs are {', '.join(map(str, model.inputs))}: an engine gives rows to a model whose inputs all have the "
            "same dimension, or 1, as their first axis. Export the model with a dynamic batch"
        )
    return first


class Worker:
    """A model that runs at most batch_size rows at a time, by one thread of Python at a time.

    peak is the certificate for these runs: the bytes that weir holds in the process are never more. What the caller
    gives and gets is NumPy's memory, so it is not among them.
    """

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    peak: int

    def __init__(self, batch_size: int, options: Mapping[str, Any]) -> None:
        self.batch_size = operator.index(batch_size)
        if self.batch_size < 1:
            raise InputError(f"batch_size={batch_size}; a run has at least one row")
        if "calls" in options:
            raise InputError("calls is an option of weir.compile; here one run at a time is active in a process")

    def close(self) -> None:
        """Closes the model."""
        raise NotImplementedError

    def _call(self, arrays: list[Any]) -> Any:
        """The outputs of a run: a tensor, or several."""
        raise NotImplementedError

    def _within(self, peak: int) -> None:
        """Refuses a model that takes more than the peak that was asked for; 0: any."""
        if 0 < peak < self.peak:
            self.close()
            raise BudgetError(
                f"the program takes {self.peak} bytes on this machine; {peak} were asked for on another. Give cpu= and "
                "threads= so that all machines compile alike, or compute the resources where the workers run"
            )

    def arrays(self, columns: Mapping[str, Any]) -> list[Any]:
        """The inputs in order, as arrays that weir reads in place. Copies that this needs are NumPy's memory."""
        made = []
        for port in self.inputs:
            if port.name not in columns:
                names = ", ".join(map(repr, columns))
                raise InputError(f"there is no column for input {port.name!r}, only {names}", tensor=port.name)
            made.append(_array(columns[port.name], port))
        if len(made) > 1 and len({len(array) for array in made}) > 1:
            raise InputError(f"the columns of one batch have {', '.join(str(len(array)) for array in made)} rows")
        return made

    def run(self, columns: Mapping[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
        """The outputs by name for columns by input name, which have any number of rows."""
        import numpy

        arrays, outputs = self.arrays(columns), self.outputs
        count = len(arrays[0])
        made: dict[str, np.ndarray[Any, Any]] = {}
        for start in range(0, count, self.batch_size):
            stop = min(start + self.batch_size, count)
            results = self._call([array[start:stop] for array in arrays])
            for port, tensor in zip(outputs, [results] if len(outputs) == 1 else results):
                part = tensor.numpy()
                if part.shape[:1] != (stop - start,) or (start > 0 and part.shape[1:] != made[port.name].shape[1:]):
                    raise InputError(f"output {port} has the shape {part.shape} for {stop - start} rows", tensor=port.name)
                if start == 0:
                    made[port.name] = numpy.empty((count, *part.shape[1:]), part.dtype)
                made[port.name][start:stop] = part
                del part  # a view, which would keep the output's memory
                tensor.close()
        if count == 0:
            made = {port.name: numpy.empty((0, *known(port)), NUMPY.get(port.dtype, "float32")) for port in outputs}
        return made


def worker(model: Any, batch_size: int, peak: int = 0, **options: Any) -> Worker:
    """Compiles a model: the path or the bytes of one, with compile's options, or a folder of a model of texts, with
    load_embedder's. If peak is given, a higher one is an error."""
    if not isinstance(model, (Model, bytes, bytearray, memoryview)) and os.path.isdir(model):
        return _Texts(model, batch_size, peak, options)
    return _Tensors(model, batch_size, peak, options)


class _Texts(Worker):
    """A model of texts: the column text becomes the column vector. A run has as many texts as the certificate allows."""

    def __init__(self, model: Any, batch_size: int, peak: int, options: Mapping[str, Any]) -> None:
        super().__init__(batch_size, options)
        self.batch_size = sys.maxsize  # the embedder joins texts of about the same length into runs, of all that are given
        self._embedder = load_embedder(model, **options)
        self.inputs = (Port("text", "string", ("rows",), "tensor", "", False),)
        self.outputs = (Port("vector", "f32", ("rows", self._embedder.dimensions), "tensor", "", False),)
        self.peak = self._embedder.memory.held + self._embedder.memory.tokenizer
        self._within(peak)

    def close(self) -> None:
        self._embedder.close()

    def _call(self, arrays: list[Any]) -> Any:
        return self._embedder(arrays[0].tolist())


class _Tensors(Worker):
    """A program."""

    def __init__(self, model: Any, batch_size: int, peak: int, options: dict[str, Any]) -> None:
        super().__init__(batch_size, options)
        loaded = load(model)
        rows = rows_of(loaded)
        if rows is None:
            self.batch_size = 1
        else:
            options = {**options, "dims": {**(options.get("dims") or {}), rows: (1, self.batch_size)}}
        self.program: Program = compile(loaded, **options)
        loaded.close()
        self.inputs, self.outputs = self.program.inputs, self.program.outputs
        try:
            self.peak = self._bounded(rows)
        except Exception:
            self.close()
            raise
        self._within(peak)

    def close(self) -> None:
        self.program.close()

    def _call(self, arrays: list[Any]) -> Any:
        return self.program(*arrays)

    def _bounded(self, rows: str | None) -> int:
        """The peak of a program whose runs may be cut from rows in any way."""
        dims = self.program.dims
        unbounded = [d.name for d in dims if d.max is None]
        if unbounded:
            raise InputError(
                f"the memory has no bound while {', '.join(unbounded)} has none. Give an upper bound: "
                f"dims={{{unbounded[0]!r}: (1, 512)}}",
                dim=unbounded[0],
            )
        for port in self.program.inputs + self.program.outputs:
            if port.kind != "tensor":
                raise UnsupportedError(f"{port} is no tensor, so it has no rows that an engine could divide", tensor=port.name)
        joined = next((d.joined for d in dims if d.name == rows), "")
        if joined and self.batch_size > 1:
            raise UnsupportedError(f"{joined}. With batch_size=1 each row is a run of its own", dim=rows or "")
        return self.program.memory.peak(**{d.name: d.max or 0 for d in dims})


def known(port: Port) -> list[int]:
    """The shape of a row, with 0 for an extent that is not known before a run."""
    return [extent if isinstance(extent, int) else 0 for extent in port.shape[1:]]


def _array(column: Any, port: Port) -> Any:
    """A column as an array for an input."""
    import numpy

    if isinstance(column, numpy.ndarray) and len(column) > 0 and column.shape[1:] == port.shape[1:]:
        flags = column.flags
        if flags.c_contiguous and flags.aligned and column.dtype == NUMPY.get(port.dtype):
            return column
    try:
        array = numpy.asarray(column)
        if array.dtype == object and port.dtype != "string":  # of rows
            array = numpy.stack([numpy.asarray(row) for row in array]) if len(array) else numpy.empty((0, *known(port)))
    except ValueError:
        raise InputError(f"the rows of the column for input {port} differ in shape", tensor=port.name) from None
    if array.ndim == 0:
        raise InputError(f"{type(column).__name__} is given as the column for input {port}", tensor=port.name)
    if len(array) == 0:
        return numpy.empty((0, *known(port)), NUMPY.get(port.dtype, array.dtype))
    wanted = NUMPY.get(port.dtype, array.dtype.name)
    extents = zip(array.shape[1:], port.shape[1:])
    if array.dtype.name != wanted or array.ndim != len(port.shape) or any(isinstance(e, int) and n != e for n, e in extents):
        raise InputError(f"the column for input {port} has {array.dtype} of the shape {array.shape}", tensor=port.name)
    return array if port.dtype == "string" else numpy.require(array, requirements=["C", "A"])
