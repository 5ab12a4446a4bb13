"""The backend of torch.compile: torch.compile(model, backend="weir").

AOTAutograd passes graphs of ATen's operators, of forward and backward passes. The supported parts of a graph become
programs, in the form that torch.export writes; torch runs the rest, node by node.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import json
import logging
import operator
from typing import Any, Callable, Collection, Iterable, Sequence

import torch
import torch._dynamo.exc
import torch.fx
from torch._decomp import core_aten_decompositions
from torch._dynamo.backends.common import aot_autograd
from torch._export.serde import serialize
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase
from torch.utils._sympy.symbol import SymT, symbol_is_type

from ._errors import Error
from ._graphs import Graph, GraphMemory, Life, Part, note
from ._library import library
from ._torch_collectives import Staged, bytes_of, is_collective
from ._torch_norms import DECOMPOSITIONS
from ._torch_program import TYPES, Compiled, is_integer, is_number, is_rounded, is_view, numbers_of, sizes_of, value_of

_aten = torch.ops.aten
_log = logging.getLogger("weir")

_Run = Callable[[list[Any]], list[Any]]


@functools.cache
def _operators() -> frozenset[str]:
    """The names of the operators that weir supports."""
    text = ctypes.c_void_p()
    lib = library()
    lib.check(lib.c.weir_operators(ctypes.byref(text)))
    return frozenset(json.loads(lib.string(text)))


def _name(node: torch.fx.Node) -> str:
    return str(node.target)


class _Support(OperatorSupportBase):
    """Decides which nodes weir computes."""

    def __init__(self, refused: set[str]) -> None:
        self.refused = refused
        self.operators = _operators()

    def is_node_supported(self, submodules: Any, node: torch.fx.Node) -> bool:
        if node.op != "call_function":
            return False
        if node.target is operator.getitem:
            return self.is_node_supported(submodules, node.args[0])
        if is_integer(node):  # a size, or an element that may become one in another part
            return False
        values = value_of(node)
        for v in values if isinstance(values, (tuple, list)) else (values,):
            if v is not None and not (isinstance(v, torch.Tensor) and v.device.type == "cpu" and v.dtype in TYPES):
                return False
        for n in node.all_input_nodes:
            v = value_of(n)
            if isinstance(v, torch.Tensor) and (v.device.type != "cpu" or v.dtype not in TYPES):
                return False
        return _name(node) in self.operators and node.name not in self.refused


_told: dict[str, object] = {}


def _tell(node: torch.fx.Node, why: str) -> None:
    """Reports once that torch runs an operator, and why."""
    if _first(_name(node)):
        _log.warning("torch runs %s: %s", _name(node), why)


def _warn(error: Exception) -> None:
    """Reports once that torch runs a graph, and why."""
    why = str(error).split("\n")[0]
    if not isinstance(error, (Error, serialize.SerializeError)):
        why = f"{type(error).__name__}: {why}"
    if _first(why):
        _log.warning("torch runs a graph: %s", why)


def _first(key: str) -> bool:
    """Whether something is to be told for the first time."""
    mine = object()
    return _told.setdefault(key, mine) is mine  # only in one of several threads


class _Build:
    """What a graph becomes: weir's programs, the values between them, and what torch runs."""

    def __init__(self, refused: set[str]) -> None:
        self.refused = refused
        self.parts: list[Part] = []
        self.operators: list[str] = []
        self.collectives: list[str] = []
        self.lives: list[Life] = []

    def whole(self, gm: torch.fx.GraphModule, spent: Collection[int] = ()) -> Compiled:
        """Compiles a graph as one program. The reason of a refusal is recorded by the node's name."""
        try:
            compiled = Compiled(gm, spent)
        except Error as error:
            known = {node.name: node for node in gm.graph.nodes}
            if error.node not in known or error.node in self.refused:
                raise
            self.refused.add(error.node)
            _tell(known[error.node], error.detail)
            raise _Refused from error
        self.parts.append(Part(compiled.program, compiled.dims))
        return compiled

    def between(self, gm: torch.fx.GraphModule, spent: Collection[int]) -> tuple[_Run, Compiled | None]:
        """Compiles a graph without collectives, or a part of one between two of them. If it becomes one program, that is
        returned too, and the certificate counts the program's outputs while they exist.
        """
        if self.missing(gm):
            return _boxed_graph(gm, self, spent), None
        compiled = self.whole(gm, spent)
        sizes = [bytes_of(value_of(nodes[0])) for nodes in compiled.written()]
        unknown = any(symbol_is_type(s, SymT.UNBACKED_INT) for size in sizes for s in size.expression.free_symbols)
        if unknown or any(is_rounded(size.expression) for size in sizes):  # the program has names of its own for them
            return _boxed(compiled.run), None
        self.parts[-1] = self.parts[-1]._replace(outputs=sizes)
        return _boxed(compiled.run), compiled

    def missing(self, gm: torch.fx.GraphModule) -> list[torch.fx.Node]:
        """The nodes that weir does not compute."""
        support = _Support(self.refused)
        nodes = [n for n in gm.graph.nodes if n.op == "call_function" and not is_number(n)]
        return [n for n in nodes if not support.is_node_supported({}, n)]

    def left(self, nodes: Iterable[torch.fx.Node]) -> None:
        """Records the operators that torch runs."""
        for node in nodes:
            if node.op != "call_function" or is_number(node) or is_view(node) or node.target is operator.getitem:
                continue
            (self.collectives if is_collective(node) else self.operators).append(_name(node))

    def graph(self, kind: str) -> Graph:
        """The graph for its user."""
        graph = Graph(kind)
        graph.operators, graph.collectives = tuple(self.operators), tuple(self.collectives)
        graph.memory = GraphMemory(self.parts, self.lives)
        note(graph)
        return graph


class _Refused(Exception):
    """One more node of a graph is refused: the graph is divided again without it."""


def _spent(gm: torch.fx.GraphModule) -> set[int]:
    """The indices of a backward graph's inputs that nothing reads after it: activations, and derivatives of results."""
    context = torch._guards.TracingContext.try_get()
    donated = context.fw_metadata.bw_donated_idxs if context and context.fw_metadata else None
    inputs = [n for n in gm.graph.nodes if n.op == "placeholder"]
    return {*(donated or ()), *(i for i, n in enumerate(inputs) if n.name.startswith("tangents_"))}


def _compile_graph(kind: str, gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> _Run:
    """Compiles the supported parts of a graph of AOTAutograd. A backward graph frees its inputs on the way."""
    spent = _spent(gm) if kind == "backward" else ()
    refused: set[str] = set()
    while True:
        build = _Build(refused)
        try:
            run = _boxed_graph(gm, build, spent)
        except _Refused:
            continue
        except Exception as error:  # of weir or of torch: whatever it is, torch can run the graph
            _warn(error)
            build = _Build(refused)
            build.left(gm.graph.nodes)
            run = _boxed_eager(gm)
        run.graph = build.graph(kind)  # type: ignore[attr-defined]
        return run


def _boxed_graph(gm: torch.fx.GraphModule, build: _Build, spent: Collection[int]) -> _Run:
    """A graph of which weir computes all nodes but the refused ones, and those that it does not read."""
    nodes = [n for n in gm.graph.nodes if n.op == "call_function" and not is_number(n)]
    if any(map(is_collective, nodes)):
        build.left(filter(is_collective, nodes))
        staged = Staged(gm, spent, build.between)
        build.lives = staged.lives
        return _boxed(staged.run)
    missing = build.missing(gm)
    if not nodes:
        return _boxed_eager(gm)
    if not missing:
        run, _ = build.between(gm, spent)
        build.lives = [Life(size, 0, 0, False, True) for size in build.parts[-1].outputs or ()]
        return run
    for node in missing:
        if node.name not in build.refused:
            _tell(node, "weir does not read it")
    _leave_views(gm, build.refused)
    return _boxed_parts(gm, _Support(build.refused), build)


def _leave_views(gm: torch.fx.GraphModule, refused: set[str]) -> None:
    """Leaves to torch what reads or writes a view's memory by strides of its own, and the view: a part's result has no gaps."""
    for node in gm.graph.nodes:
        if node.target in (_aten.as_strided.default, _aten.as_strided_scatter.default):
            refused.add(node.name)
            view = node.args[0]
            while is_view(view):
                refused.add(view.name)
                view = view.args[0]


def _boxed(compute: Callable[[list[Any]], list[Any]]) -> _Run:
    """A callable that takes its arguments' list, and clears it."""

    def run(args: list[Any]) -> list[Any]:
        given = list(args)
        args.clear()
        return compute(given)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _boxed_eager(gm: torch.fx.GraphModule) -> _Run:
    """A graph that torch runs."""

    def run(args: list[Any]) -> list[Any]:
        return list(torch.fx.Interpreter(gm).boxed_run(args))

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _draws(node: torch.fx.Node) -> bool:
    """Whether a node may draw random numbers, whose order decides their values."""
    if isinstance(node.target, torch._ops.HigherOrderOperator):
        return True
    return isinstance(node.target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags


def _after(earlier: Any, target: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """Calls an operator, in a graph whose nodes are sorted by their arguments, after the node that has computed earlier."""
    return target(*args, **named)


def _boxed_parts(gm: torch.fx.GraphModule, support: _Support, build: _Build) -> _Run:
    """A graph of which weir computes some parts, and torch the rest."""
    graph = torch.fx.Graph()
    copies: dict[torch.fx.Node, torch.fx.Node] = {}
    last: torch.fx.Node | None = None
    for node in gm.graph.nodes:
        copies[node] = copied = graph.node_copy(node, lambda n: copies[n])
        if _draws(node) and not support.is_node_supported({}, node):
            if last is not None:
                copied.args = (last, copied.target, *copied.args)
                copied.target = _after
            last = copied
    copy = torch.fx.GraphModule(gm, graph)
    partitioner = CapabilityBasedPartitioner(copy, support, allows_single_node_partition=False)
    fused = partitioner.fuse_partitions(partitioner.propose_partitions())
    for caller in [n for n in fused.graph.nodes if n.op == "call_module"]:
        name = str(caller.target)
        module = getattr(fused, name)
        if isinstance(module, torch.fx.GraphModule) and name.startswith("fused_"):
            _teach(fused, caller, module)
            out = module.graph.output_node()
            single = isinstance(out.args[0], torch.fx.Node)
            if single:
                out.args = ((out.args[0],),)
            setattr(fused, name, _Part(build.whole(module), single))
    fused.recompile()
    fused.delete_all_unused_submodules()
    build.left(fused.graph.nodes)
    return _boxed_eager(fused)


def _teach(fused: torch.fx.GraphModule, caller: torch.fx.Node, module: torch.fx.GraphModule) -> None:
    """Adds arguments to a part of a graph for the sizes that none of its own arguments has."""
    inner = [n for n in module.graph.nodes if n.op == "placeholder"]
    missing = {s for e in numbers_of(module) for s in e.free_symbols} - sizes_of(inner).keys()
    if not missing:
        return
    before = list(itertools.takewhile(lambda n: n is not caller, fused.graph.nodes))
    known = sizes_of(before)
    for symbol in sorted(missing & known.keys(), key=str):
        size = known[symbol]
        source = before[size.place]
        value = value_of(source) if size.axis is None else value_of(source).shape[size.axis]
        if size.axis is not None:
            with fused.graph.inserting_before(caller):
                source = fused.graph.call_function(torch.ops.aten.sym_size.int, (source, size.axis))
            source.meta["val"] = value
        with module.graph.inserting_after(inner[-1]) if inner else module.graph.inserting_before():
            inner.append(module.graph.placeholder(f"size_of_{symbol}"))
        inner[-1].meta["val"] = value
        caller.args = (*caller.args, source)
    module.recompile()


class _Part(torch.nn.Module):
    """A part of a graph, as a module of it."""

    def __init__(self, compiled: Compiled, single: bool) -> None:
        super().__init__()
        self.compiled, self.single = compiled, single

    def forward(self, *args: Any) -> Any:
        results = self.compiled(args)
        return results[0] if self.single else tuple(results)


def _decompositions() -> dict[Any, Any]:
    """The decompositions of operators that weir does not support, or of which it does not support all types."""
    known = _operators()
    return {**{op: f for op, f in core_aten_decompositions().items() if str(op) not in known}, **DECOMPOSITIONS}


def backend(gm: torch.fx.GraphModule, example_inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
    """torch.compile's backend, which the entry point "weir" names."""
    compiler = aot_autograd(
        fw_compiler=functools.partial(_compile_graph, "forward"),
        bw_compiler=functools.partial(_compile_graph, "backward"),
        inference_compiler=functools.partial(_compile_graph, "inference"),
        partition_fn=min_cut_rematerialization_partition,
        decompositions=_decompositions(),
    )
    compiled: Callable[..., Any] = gm.forward
    try:
        compiled = compiler(gm, example_inputs)
    except torch._dynamo.exc.TorchDynamoException:  # dynamo's own control flow
        raise
    except Exception as error:  # AOTAutograd cannot trace the graph
        _warn(error)
    return compiled
