"""The graphs that torch.compile has passed to weir, and their certificates. This module does not need PyTorch."""

from __future__ import annotations

import weakref
from typing import Any, Callable, Iterable, Mapping, NamedTuple, Sequence

from ._errors import InputError
from ._program import Program


class Bytes(NamedTuple):
    """A number of bytes, as an expression of sympy over dimensions."""

    expression: Any

    def at(self, dims: Mapping[str, int]) -> int:
        symbols = self.expression.free_symbols
        if unknown := sorted({str(s) for s in symbols} - dims.keys()):
            raise InputError(f"no size is given for {', '.join(unknown)}")
        return int(self.expression.subs({s: dims[str(s)] for s in symbols}))


def _written(sizes: Iterable[Bytes]) -> str:
    """The sum of sizes, in Python's syntax."""
    from torch.utils._sympy.printers import PythonPrinter

    return str(PythonPrinter().doprint(sum(size.expression for size in sizes)))


class Part(NamedTuple):
    """A program of a graph.

    dims computes those of its dimensions that depend on others in floats. outputs are the outputs that are counted as
    values of the graph, while they exist; if they are None, the outputs count with the program.
    """

    program: Program
    dims: Callable[[Mapping[str, int]], dict[str, int]]
    outputs: Sequence[Bytes] | None = None

    def kept(self, dims: Mapping[str, int]) -> int:
        """The bytes that the program keeps for the next call."""
        known = {**dims, **self.dims(dims)}
        peak = self.program.memory.peak(**{d.name: known[d.name] for d in self.program.dims if d.name in known})
        return peak - sum(b.at(dims) for b in self.outputs or ())

    def terms(self) -> list[str]:
        """The formulas whose sum the program keeps."""
        memory = self.program.memory
        if self.outputs is None:
            return [memory.formula]
        parts, workers = memory.parts, memory.workers
        scratch = parts["scratch"]
        if workers > 1:
            scratch = str(workers * int(scratch)) if scratch.isdecimal() else f"{workers}*({scratch})"
        return [parts["weights"], parts["code"], parts["arena"], scratch]


def _sum(terms: Iterable[str]) -> str:
    """The sum of formulas, with the numbers among them added up."""
    total, others = 0, []
    for term in terms:
        if term.isdecimal():
            total += int(term)
        else:
            others.append(term)
    return " + ".join(others + [str(total)] * bool(total or not others))


class Life(NamedTuple):
    """A value of a graph that takes memory: the steps that write it and read it last, and whether the graph returns it."""

    bytes: Bytes
    begin: int
    end: int
    collective: bool
    result: bool


class GraphMemory:
    """A graph's certificate: the memory of its programs, and of the values between them, to the byte.

    Programs keep their memory from call to call, so their terms add up. Values are outputs of programs, and results of
    collectives, which are in flight from their start.
    """

    def __init__(self, parts: Sequence[Part] = (), lives: Sequence[Life] = ()) -> None:
        self._parts, self._lives = parts, lives

    def _alive(self, among: Sequence[Life]) -> list[list[Bytes]]:
        """The values that exist at the same time: a list for each set of them that no other set contains."""
        at_once = {frozenset(i for i, v in enumerate(among) if v.begin <= w.begin <= v.end) for w in among}
        largest = sorted(sorted(s) for s in at_once if not any(s < other for other in at_once))
        return [[among[i].bytes for i in indices] for indices in largest]

    def _largest(self, among: Sequence[Life], dims: Mapping[str, int]) -> int:
        return max((sum(b.at(dims) for b in at_once) for at_once in self._alive(among)), default=0)

    def _formula(self, among: Sequence[Life]) -> str:
        sums = list(dict.fromkeys(_written(at_once) for at_once in self._alive(among)))
        return f"max({', '.join(sums)})" if len(sums) > 1 else "".join(sums) or "0"

    @property
    def _flying(self) -> list[Life]:
        return [value for value in self._lives if value.collective]

    @property
    def parts(self) -> dict[str, str]:
        """The formulas of the terms programs and values, and of flight, the part of values that collectives return."""
        programs = _sum(term for part in self._parts for term in part.terms())
        return {"programs": programs, "values": self._formula(self._lives), "flight": self._formula(self._flying)}

    @property
    def formula(self) -> str:
        """The peak as a formula over the dimensions, in Python's syntax; ceildiv(a, b) is -(-a // b)."""
        parts = self.parts
        return _sum((parts["programs"], parts["values"]))

    def peak(self, **dims: int) -> int:
        """The peak of a call in bytes for these sizes of the dimensions."""
        return self.kept(**dims) + self._largest(self._lives, dims)

    def held(self, **dims: int) -> int:
        """The bytes after a call, while its results exist: in a training, until the backward pass has read them."""
        return self.kept(**dims) + sum(value.bytes.at(dims) for value in self._lives if value.result)

    def kept(self, **dims: int) -> int:
        """The bytes that the programs keep for the next call."""
        return sum(part.kept(dims) for part in self._parts)

    def flight(self, **dims: int) -> int:
        """The most bytes of collectives' results at one time, each from its start to its last use."""
        return self._largest(self._flying, dims)

    def __repr__(self) -> str:
        return f"<weir.GraphMemory {', '.join(f'{name}: {formula}' for name, formula in self.parts.items())}>"


class Graph:
    """A graph that torch.compile has passed to weir.

    kind is "forward", "backward" or "inference". programs are weir's, in the order of the graph. collectives are the
    names of operators that exchange data with other processes, and operators those of others that torch runs: the
    certificate does not count their memory.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.collectives: tuple[str, ...] = ()
        self.operators: tuple[str, ...] = ()
        self.memory = GraphMemory()

    @property
    def programs(self) -> tuple[Program, ...]:
        return tuple(part.program for part in self.memory._parts)

    def __repr__(self) -> str:
        return f"<weir.Graph {self.kind}: {len(self.programs)} programs, {len(self.collectives)} collectives>"


_made: list[weakref.ref[Graph]] = []


def note(graph: Graph) -> None:
    """Adds a graph to those that graphs returns while they exist."""
    _made[:] = [ref for ref in _made if ref() is not None]
    _made.append(weakref.ref(graph))


def graphs() -> list[Graph]:
    """The graphs that torch.compile(backend="weir") has given to weir in this process and still holds, the oldest first."""
    found: list[Any] = [ref() for ref in _made]
    return [graph for graph in found if graph is not None]
