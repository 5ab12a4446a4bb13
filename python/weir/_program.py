"""Models, programs and their certificates."""

from __future__ import annotations

import ctypes
import json
import operator
import os
from types import TracebackType
from typing import Any, Iterator, Mapping, NamedTuple, Sequence, Union

from . import _narrow
from ._errors import ClosedError, InputError
from ._library import ABSENT, CONSUME, DONATE, HOW, LEND, LENT, TENSOR, UPDATE, WORDS, Owned, library
from ._numbers import number
from ._tensor import Tensor, capsule_of, copied, from_dlpack, items, strings

_Path = Union[str, "os.PathLike[str]"]


class Port(NamedTuple):
    """An input or an output: an extent of its shape is a number, or the name of a dimension or a formula."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    kind: str  # of an input that a run updates: the output with its new value
    state: str  # the model has an initial value; the program keeps a state that a call does not give
    initial: bool = False  # the layout of an input in memory, if it is not row-major: see compile
    layout: str = ""  # how an input lies in memory, if not in row-major order: see compile

    def __str__(self) -> str:
        tensor = f"{self.dtype}[{','.join(map(str, self.shape))}]"
        return f"{self.name}: {tensor}" if self.kind == "tensor" else f"{self.name}: {self.kind} of {tensor}"


class Dimension(NamedTuple):
    """A dimension with its range; max is None if it has no upper bound.

    joined says why rows of the dimension are not proved to be independent; it is empty if they are: then row i of each
    output is computed from row i of the inputs, and rows of several requests may share a run.
    """

    name: str
    min: int
    max: int | None
    joined: str


class _Given:
    """An argument with the run's use of it."""

    __slots__ = ("value", "how")

    def __init__(self, value: Any, how: int) -> None:
        self.value, self.how = value, how


def consume(x: Any) -> Any:
    """Gives x to a run for good: the run frees its memory after the last step that reads it."""
    return _Given(x, CONSUME)


def donate(x: Any) -> Any:
    """Gives x to a run for good, and its memory to an output, if the memory is weir's own.

    The memory of another library is released as by consume, since other arrays may share it.
    """
    return _Given(x, DONATE)


def update(x: Any) -> Any:
    """Lends x as a state: the run replaces its elements by the new value."""
    return _Given(x, UPDATE)


class Model(Owned):
    """A model that was loaded: see load."""

    _INSTEAD = "Pass the model's path or its bytes, and call weir.load there"

    def __init__(self, handle: int) -> None:
        super().__init__(handle)
        told = _told(handle)
        self.inputs: tuple[Port, ...] = _ports(told["inputs"])
        self.outputs: tuple[Port, ...] = _ports(told["outputs"])
        self.metadata: dict[str, str] = told["metadata"] or {}

    def __repr__(self) -> str:
        return f"<weir.Model ({', '.join(map(str, self.inputs))}) -> ({', '.join(map(str, self.outputs))})>"

    def __enter__(self) -> Model:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def load(model: _Path | bytes) -> Model:
    """Loads a model from a file, or from the bytes of one: ONNX, weir's text, or an artefact."""
    handle = ctypes.c_uint64()
    lib = library()
    if isinstance(model, (bytes, bytearray, memoryview)):
        data = bytes(model)
        lib.check(lib.c.weir_load_bytes(data, len(data), ctypes.byref(handle)))
    else:
        lib.check(lib.c.weir_load(os.fsencode(model), ctypes.byref(handle)))
    return Model(handle.value)


def compile(
    model: Model | _Path | bytes,
    *,
    budget: int = 0,
    calls: int = 1,
    threads: int = 0,
    target: str = "",
    precision: str = "",
    cache: str = "",
    cpu: str = "",
    page_folder: str = "",
    outputs: Sequence[str] = (),
    states: Mapping[str, str] | None = None,
    dims: Mapping[str, int | tuple[int, int]] | None = None,
    layouts: Mapping[str, Any] | None = None,
    exact: bool = False,
    tune: bool = False,
) -> Program:
    """Compiles a model, and plans its memory.

    budget is the maximum peak in bytes (0: no limit), calls the maximum number of active runs, threads the maximum
    number of threads of a run (0: all), dims a size or a range for dimensions, states the output that is the new value
    of an input. layouts declares inputs that are not row-major: by an example array with the strides, or by the axes
    from the outermost to the innermost, such as (0, 2, 3, 1) or "0,2,3,1"; runs read such arrays in place. The other
    parameters are the command's flags of the same names. Ctrl-C ends the compilation.
    """
    loaded = model if isinstance(model, Model) else load(model)
    calls = operator.index(calls)
    options: dict[str, Any] = {
        "budget": operator.index(budget), "calls": calls, "threads": operator.index(threads), "target": target,
        "precision": precision, "cache": cache, "cpu": cpu, "page_folder": page_folder, "outputs": list(outputs),
        "states": dict(states or {}), "dims": {name: _range(r) for name, r in (dims or {}).items()},
        "exact": bool(exact), "tune": bool(tune), "layouts": {name: _layout(how) for name, how in (layouts or {}).items()},
    }  # fmt: skip
    handle = ctypes.c_uint64()
    lib = library()
    lib.check(lib.c.weir_compile(loaded._open(), json.dumps(options).encode(), lib.poll, ctypes.byref(handle)))
    if loaded is not model:
        loaded.close()
    return Program(handle.value, calls)


def _range(sizes: int | tuple[int, int]) -> list[int]:
    """The least and the greatest size of a dimension, of which one stands for both."""
    if isinstance(sizes, (tuple, list)):
        return [operator.index(size) for size in sizes]
    return [operator.index(sizes)] * 2


def _layout(how: Any) -> dict[str, Any]:
    """The layout of an input in the library's form."""
    if isinstance(how, str):
        return {"text": how}
    shape = getattr(how, "shape", None)
    if shape is None:
        return {"text": ",".join(str(operator.index(axis)) for axis in how)}
    if callable(getattr(how, "stride", None)):  # PyTorch's strides count elements
        return {"shape": list(shape), "strides": list(how.stride())}
    strides = getattr(how, "strides", None)
    if strides is None:
        return {"text": ""}  # tensors of weir are row-major
    if any(s % how.itemsize for s in strides):
        raise InputError(f"strides of {tuple(strides)} bytes between elements of {how.itemsize}")
    return {"shape": list(shape), "strides": [s // how.itemsize for s in strides]}


def sizes_of(dims: Mapping[str, int]) -> bytes:
    """Sizes of dimensions for the library."""
    return json.dumps({name: number(size) for name, size in dims.items()}).encode()


class Memory:
    """A program's certificate: the memory that it takes, to the byte, before it runs."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def _ask(self, calls: int | None, dims: dict[str, int] | None) -> dict[str, Any]:
        text = ctypes.c_void_p()
        lib = library()
        bound = None if dims is None else sizes_of(dims)
        count = self._program.calls if calls is None else operator.index(calls)
        lib.check(lib.c.weir_memory(self._program._open(), count, bound, ctypes.byref(text)))
        told: dict[str, Any] = json.loads(lib.string(text))
        return told

    @property
    def formula(self) -> str:
        """The peak as a formula over the dimensions, in Python's syntax; ceildiv(a, b) is -(-a // b)."""
        return str(self._ask(None, None)["peak_formula"])

    @property
    def parts(self) -> dict[str, str]:
        """The formulas of the terms: weights, code, arena, outputs, scratch and lower_bound."""
        told = self._ask(None, None)
        return {name[: -len("_formula")]: told[name] for name in told if name.endswith("_formula") and name != "peak_formula"}

    @property
    def workers(self) -> int:
        """The number of workers, each of which takes the term scratch."""
        return int(self._ask(None, None)["workers"])

    def peak(self, calls: int | None = None, **dims: int) -> int:
        """The peak in bytes for these sizes of the dimensions: peak(batch=64)."""
        return int(self._ask(calls, dims)["peak_bytes"])

    def copies(self, **dims: int) -> int:
        """The bytes that a call takes besides the peak if no argument has its input's declared layout."""
        return int(self._ask(1, dims)["copies_bytes"])

    def __repr__(self) -> str:
        return str(self._ask(None, None)["report"])


class Results(Sequence[Any]):
    """A run's outputs: by position, and by name as results["scores"]."""

    __slots__ = ("_names", "_values")

    def __init__(self, names: Sequence[str], values: Sequence[Any]) -> None:
        self._names, self._values = names, tuple(values)

    def __reduce__(self) -> tuple[type[Results], tuple[list[str], tuple[Any, ...]]]:
        return (type(self), (list(self._names), self._values))

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            try:
                return self._values[list(self._names).index(key)]
            except ValueError:
                raise KeyError(f"there is no output {key!r}; there are {', '.join(self._names)}") from None
        return self._values[key]

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __repr__(self) -> str:
        return "<weir.Results " + ", ".join(f"{n}: {v!r}" for n, v in zip(self._names, self._values)) + ">"

    def asdict(self) -> dict[str, Any]:
        """The outputs by name."""
        return dict(zip(self._names, self._values))


class Program(Owned):
    """A compiled model: call it with one array for each input, by position or by name.

    Arrays of NumPy and PyTorch, weir's tensors, and other objects with __dlpack__ are read in place. One output is
    returned as a tensor, several as Results. At most calls threads run it at once; others wait.
    """

    _INSTEAD = "Write it to a file with program.save(path), pass the path, and call weir.compile(path) there"

    def __init__(self, handle: int, calls: int) -> None:
        """For the package's own use: compile makes programs."""
        super().__init__(handle)
        self.calls = calls
        told = _told(handle)
        self.inputs: tuple[Port, ...] = _ports(told["inputs"])
        self.outputs: tuple[Port, ...] = _ports(told["outputs"])
        self.dims: tuple[Dimension, ...] = tuple(Dimension(**d) for d in told["dims"])
        self.requires: tuple[str, ...] = tuple(told["requires"])
        self.target: str = told["target"]
        self.memory = Memory(self)
        self._names = [p.name for p in self.inputs]
        self._gives = [p.name for p in self.outputs]
        self._arguments_type = ctypes.c_uint64 * (WORDS * len(self._names))
        self._outputs_type = ctypes.c_uint64 * len(self._gives)
        states = {p.state: i for i, p in enumerate(self.inputs) if p.state}
        self._states = [states.get(name) for name in self._gives]
        self._keeps = any(p.initial for p in self.inputs)

    def __repr__(self) -> str:
        ports = f"({', '.join(map(str, self.inputs))}) -> ({', '.join(map(str, self.outputs))})"
        return f"<weir.Program {ports}{'' if self._handle else ', closed'}>"

    def __enter__(self) -> Program:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def save(self, path: _Path) -> None:
        """Writes the program as an artefact, which load reads."""
        library().check(library().c.weir_save(self._open(), os.fsencode(path)))

    def _arguments(self, args: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        if len(args) > len(self._names):
            raise InputError(f"{len(args)} arguments are given; the inputs are {', '.join(map(str, self.inputs))}")
        values = list(args) + [None] * (len(self._names) - len(args))
        for name, value in named.items():
            if name not in self._names:
                raise InputError(f"there is no input {name!r}; the inputs are {', '.join(map(str, self.inputs))}")
            at = self._names.index(name)
            if at < len(args):
                raise InputError(f"input {name!r} is given by position and by name")
            values[at] = value
        return values

    def __call__(self, *args: Any, **named: Any) -> Any:
        values = self._arguments(args, named) if named or len(args) != len(self._names) else args
        count, room = len(values), len(self._gives)
        arguments, outputs = self._arguments_type(), self._outputs_type()
        kept: list[Any] = []
        parted: list[Tensor] = []
        for i, value in enumerate(values):
            _supply(arguments, WORDS * i, value, self.inputs[i], kept, parted)
        lib = library()
        failed = lib.run(self._open(), arguments, count, lib.poll, outputs, room)
        if failed:
            lib.check(failed)
        for tensor in parted:
            tensor.close()
        results = [self._output(i, outputs[i], values) for i in range(room)]
        names = self._gives
        if self._keeps:  # states that the program keeps are not results
            shown = [i for i, state in enumerate(self._states) if state is None or values[state] is not None]
            results, names = [results[i] for i in shown], [names[i] for i in shown]
        return results[0] if len(results) == 1 else Results(names, results)

    def _output(self, i: int, handle: int, values: Sequence[Any]) -> Any:
        state = self._states[i]
        if state is not None:
            given = values[state]
            return given.value if isinstance(given, _Given) else given
        if not handle:
            return None
        if self.outputs[i].kind.endswith("sequence"):
            return items(handle)
        return Tensor(handle)


def _supply(to: Any, at: int, value: Any, port: Port, kept: list[Any], parted: list[Tensor]) -> None:
    """Writes a value as an argument, at a word. Objects that must live until the run has returned are added to kept,
    and tensors that the run takes for good to parted."""
    how = LEND
    if isinstance(value, _Given):
        value, how = value.value, value.how
    if isinstance(value, Tensor):
        handle = value._handle
        if how == DONATE and value._foreign:
            how = CONSUME
        if not handle:
            raise ClosedError(f"the tensor given for input {port} is closed, or was given away", tensor=port.name)
        to[at + TENSOR], to[at + HOW] = handle, how
        if how in (CONSUME, DONATE):
            parted.append(value)
        return
    if value is None:
        if not port.kind.startswith("optional") and not port.initial:
            raise InputError(f"no value is given for input {port}", tensor=port.name)
        to[at + HOW] = ABSENT
        return
    if port.kind.endswith("sequence") or port.dtype == "string":
        owned = _list(value, port) if port.kind.endswith("sequence") else _words(value)
        kept.append(owned)
        to[at + TENSOR] = owned._open()
        return
    if _narrow.name_of(value):
        owned = copied(value)
        kept.append(owned)
        to[at + TENSOR] = owned._open()
        return
    if not hasattr(value, "__dlpack__"):
        value = _array(value, port)
    if how in (CONSUME, DONATE):
        tensor = from_dlpack(value)
        parted.append(tensor)
        to[at + TENSOR], to[at + HOW] = tensor._open(), CONSUME
        return
    capsule = capsule_of(value)
    fixed = ctypes.c_int32()
    view = library().held.weir_capsule_view(capsule, ctypes.byref(fixed))
    if not view:
        raise BufferError(f"what is given for input {port} holds no tensor of DLPack 0 or 1")
    if how == UPDATE and fixed.value:
        raise InputError(f"the memory given for state {port} may only be read", tensor=port.name)
    kept.append(capsule)
    to[at + LENT], to[at + HOW] = view, how


def _words(value: Any) -> Tensor:
    """A tensor of the strings in lists or in a NumPy array."""
    return strings(value.tolist() if hasattr(value, "tolist") else value)


# NumPy's names of the types of Python numbers.
NUMPY = {
    "bool": "bool", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64", "i8": "int8", "i16": "int16",
    "i32": "int32", "i64": "int64", "f16": "float16", "f32": "float32", "f64": "float64", "c64": "complex64",
    "c128": "complex128",
}  # fmt: skip


def _array(value: Any, port: Port) -> Any:
    """Python numbers, or lists of them, as a NumPy array of an input's type."""
    if port.dtype not in NUMPY:
        raise InputError(f"{type(value).__name__} is given for input {port}; give a tensor", tensor=port.name)
    try:
        import numpy
    except ImportError:
        raise InputError(f"{type(value).__name__} is given for input {port}; NumPy would make an array of it") from None
    array = numpy.asarray(value)
    if array.dtype == object or array.dtype.kind not in "biufc":
        raise InputError(f"{type(value).__name__} is given for input {port}, of no numbers", tensor=port.name)
    return numpy.ascontiguousarray(array.astype(NUMPY[port.dtype], casting="same_kind" if array.size else "unsafe")).reshape(array.shape)


def _list(values: Any, port: Port) -> Owned:
    """A sequence's tensors as a list of the library."""
    made: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            made.append(value)
        elif port.dtype == "string":
            made.append(_words(value))
        elif _narrow.name_of(value):
            made.append(copied(value))
        else:
            made.append(from_dlpack(value if hasattr(value, "__dlpack__") else _array(value, port)))
    handles = (ctypes.c_uint64 * len(made))(*[t._open() for t in made])
    handle = ctypes.c_uint64()
    library().check(library().c.weir_list(handles, len(made), ctypes.byref(handle)))
    return Owned(handle.value)


def _told(handle: int) -> dict[str, Any]:
    text = ctypes.c_void_p()
    library().check(library().c.weir_describe(handle, ctypes.byref(text)))
    told: dict[str, Any] = json.loads(library().string(text))
    return told


def _ports(list_: list[dict[str, Any]]) -> tuple[Port, ...]:
    return tuple(Port(p["name"], p["dtype"], tuple(p["shape"]), p["kind"], p["state"], p["initial"], p["layout"]) for p in list_)
