"""The backend of torch.compile: torch.compile(model, backend="weir").

AOTAutograd gives graphs of ATen's operators, of forward and backward passes. What weir reads of a graph becomes programs,
handed over in the form that torch.export writes; what it does not is run by torch, node by node.
"""

from __future__ import annotations

import ctypes
import functools
import json
import logging
import operator
from typing import Any, Callable, Sequence

import torch
import torch.fx
from torch._decomp import core_aten_decompositions
from torch._dynamo.backends.common import aot_autograd
from torch._export.serde import serialize
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymIntArgument,
    TensorArgument,
)
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from ._errors import Error, UnsupportedError
from ._library import HOW, LEND, LENT, WORDS, DLTensor, library
from ._program import Program, compile

_log = logging.getLogger("weir")
_aten = torch.ops.aten

# Operators that only look at memory in another way: torch computes them for outputs, which are views then.
_VIEWS = {
    _aten.t.default, _aten.view.default, _aten.permute.default, _aten.transpose.int, _aten.unsqueeze.default,
    _aten.squeeze.dim, _aten.squeeze.dims, _aten.expand.default, _aten.alias.default, _aten.detach.default,
    _aten.slice.Tensor, _aten.select.int,
}  # fmt: skip
_ALIASES = {_aten.alias.default, _aten.detach.default, _aten.lift_fresh_copy.default}

# What DLPack calls torch's element types: code and bits.
_TYPES = {
    torch.float32: (2, 32), torch.float64: (2, 64), torch.float16: (2, 16), torch.bfloat16: (4, 16), torch.int64: (0, 64),
    torch.int32: (0, 32), torch.int16: (0, 16), torch.int8: (0, 8), torch.uint8: (1, 8), torch.bool: (6, 8),
}  # fmt: skip


@functools.cache
def _operators() -> frozenset[str]:
    """The names of the operators that weir reads."""
    text = ctypes.c_void_p()
    lib = library()
    lib.check(lib.c.weir_operators(ctypes.byref(text)))
    return frozenset(json.loads(lib.string(text)))


def _name(node: torch.fx.Node) -> str:
    return str(node.target)


def _value(node: torch.fx.Node) -> Any:
    return node.meta.get("val")


def _is_tensor(node: torch.fx.Node) -> bool:
    return isinstance(_value(node), torch.Tensor)


def _is_number(node: torch.fx.Node) -> bool:
    """Whether a node is a size: a number that torch computes. A tensor's element is not, even if it becomes a size."""
    return _is_integer(node) and node.target is not _aten._local_scalar_dense.default


def _is_integer(node: torch.fx.Node) -> bool:
    """Whether a node is a whole number: a size, or a tensor's element."""
    return isinstance(_value(node), (int, torch.SymInt)) and not isinstance(_value(node), bool)


class _Support(OperatorSupportBase):
    """Which nodes weir computes."""

    def __init__(self, refused: set[str]) -> None:
        self.refused = refused
        self.operators = _operators()

    def is_node_supported(self, submodules: Any, node: torch.fx.Node) -> bool:
        if node.op != "call_function":
            return False
        if node.target is operator.getitem:
            return self.is_node_supported(submodules, node.args[0])
        if _is_integer(node):  # a size, or an element that may be one in another part
            return False
        values = _value(node)
        for v in values if isinstance(values, (tuple, list)) else (values,):
            if v is not None and not (isinstance(v, torch.Tensor) and v.device.type == "cpu" and v.dtype in _TYPES):
                return False
        for n in node.all_input_nodes:
            v = _value(n)
            if isinstance(v, torch.Tensor) and (v.device.type != "cpu" or v.dtype not in _TYPES):
                return False
        return _name(node) in self.operators and node.name not in self.refused


def _order(value: torch.Tensor) -> list[int] | None:
    """The order of axes in which a tensor lies in row-major order; None if there is none, or it is the axes' own."""
    strides, sizes = [_hint(s) for s in value.stride()], [_hint(s) for s in value.shape]
    order = sorted(range(value.dim()), key=lambda i: (-strides[i], i))
    if 0 in strides or order == list(range(value.dim())):
        return None
    expected = 1
    for axis in reversed(order):
        if sizes[axis] != 1 and strides[axis] != expected:
            return None
        expected *= sizes[axis]
    return order


def _hint(size: Any) -> int:
    """A size as it is now, which of a dynamic one may be another later."""
    return int(size) if isinstance(size, int) else int(size.node.hint or 0)


class _Argument:
    """An input of a program: which argument it is, and the order in which its axes lie."""

    def __init__(self, place: int, value: torch.Tensor, order: list[int] | None) -> None:
        self.place = place
        self.order = order
        self.rank = value.dim()
        self.code, self.bits = _TYPES[value.dtype]


class _Lent:
    """Where an argument lies, as a program is told it."""

    def __init__(self, argument: _Argument) -> None:
        self.place, self.order = argument.place, argument.order
        self.rank = n = argument.rank
        self.extents = (ctypes.c_int64 * max(1, 2 * n))()
        self.tensor = DLTensor()
        self.tensor.device_type, self.tensor.ndim, self.tensor.lanes = 1, n, 1
        self.tensor.code, self.tensor.bits = argument.code, argument.bits
        self.tensor.shape = ctypes.cast(self.extents, ctypes.POINTER(ctypes.c_int64))
        self.tensor.strides = ctypes.cast(ctypes.byref(self.extents, 8 * n), ctypes.POINTER(ctypes.c_int64))
        self.shape: Any = None
        self.stride: Any = None

    def point(self, t: Any) -> None:
        """Says where an argument lies. A size is the extent of what has no elements."""
        if not isinstance(t, torch.Tensor):
            t = torch.empty((int(t), 0), dtype=torch.uint8)
        if self.order is not None:
            t = t.permute(self.order)
        shape, stride = t.shape, t.stride()
        if shape != self.shape or stride != self.stride:
            n = self.rank
            self.extents[:n], self.extents[n : 2 * n] = shape, stride
            self.shape, self.stride = shape, stride
        self.tensor.data = t.data_ptr()


class _Call:
    """What one call of a program tells it: calls that run at once have one each."""

    def __init__(self, arguments: list[_Argument], outputs: int) -> None:
        self.lent = [_Lent(argument) for argument in arguments]
        self.words = (ctypes.c_uint64 * (WORDS * len(arguments)))()
        for k, lent in enumerate(self.lent):
            self.words[WORDS * k + LENT], self.words[WORDS * k + HOW] = ctypes.addressof(lent.tensor), LEND
        self.outputs = (ctypes.c_void_p * outputs)()

    def run(self, program: Program, args: Sequence[Any]) -> list[torch.Tensor]:
        """Runs a program. Its outputs are torch's from then on."""
        for lent in self.lent:
            lent.point(args[lent.place])
        lib, outputs = library(), self.outputs
        failed = lib.run_giving(program._handle, self.words, len(self.lent), lib.poll, outputs, len(outputs))
        if failed:
            lib.check(failed)
        return [_from_capsule(capsule) for capsule in [lib.capsule(managed) for managed in outputs]]


_from_capsule = torch.utils.dlpack.from_dlpack


class _Compiled:
    """A graph of which weir computes everything: called with its inputs, it gives its outputs."""

    def __init__(self, gm: torch.fx.GraphModule) -> None:
        self.placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
        held = [n for n in gm.graph.nodes if n.op == "get_attr"]  # tensors of the graph's own: further inputs
        self.held = [operator.attrgetter(str(n.target))(gm) for n in held]
        for node, tensor in zip(held, self.held):
            node.meta.setdefault("val", tensor)
        self.placeholders += held
        self.places = {node: i for i, node in enumerate(self.placeholders)}
        self.results: list[Any] = list(gm.graph.output_node().args[0])
        self.eager = self._eager()
        graph = torch.fx.Graph()
        copies: dict[torch.fx.Node, torch.fx.Node] = {}
        self.inputs: list[_Argument] = []
        self.turned: list[tuple[torch.fx.Node, Callable[[], torch.fx.Node]]] = []
        for i, node in enumerate(self.placeholders):
            self._input(graph, copies, i, node)
        self._sizes(graph, gm)
        for node in gm.graph.nodes:  # sizes are expressions of symbols: they are declared, not computed
            if node.op == "call_function" and _is_number(node):
                copies[node] = graph.placeholder(node.name)
                copies[node].meta["val"] = _value(node)
        for node, turned in self.turned:
            copies[node] = turned()
        for node in gm.graph.nodes:
            if node.op != "call_function" or _is_number(node):
                continue
            if node.target in _ALIASES:
                copies[node] = copies[node.args[0]]
                continue
            copies[node] = graph.node_copy(node, lambda n: copies[n])
        self.outputs: list[tuple[int, list[int] | None]] = []  # by result: which output, and how its axes lie
        given: list[torch.fx.Node] = []
        for node in self.results:
            self._result(graph, copies, given, node)
        graph.output(given)
        self.program = self._compiled(graph, given)
        self.room = len(given)
        self.calls: list[_Call] = []  # that no thread makes just now

    def _eager(self) -> dict[torch.fx.Node, bool]:
        """The nodes that torch computes for results: numbers, and views of inputs."""
        out: dict[torch.fx.Node, bool] = {}

        def light(node: torch.fx.Node) -> bool:
            if node not in out:
                out[node] = (
                    node.op in ("placeholder", "get_attr")
                    or _is_number(node)
                    or (node.op == "call_function" and node.target in _VIEWS and all(light(n) for n in node.all_input_nodes))
                )
            return out[node]

        for node in self.results:
            if isinstance(node, torch.fx.Node):
                light(node)
        return out

    def _input(self, graph: torch.fx.Graph, copies: dict[torch.fx.Node, torch.fx.Node], i: int, node: torch.fx.Node) -> None:
        """Declares an input, in the order in which it lies in memory."""
        copy = graph.placeholder(node.name)
        value = _value(node)
        copy.meta["val"] = value
        copies[node] = copy
        if not isinstance(value, torch.Tensor):
            return
        order = _order(value)
        self.inputs.append(_Argument(i, value, order))
        if order is not None:
            back = [order.index(k) for k in range(len(order))]
            copy.meta["val"] = value.permute(order)

            def turned() -> torch.fx.Node:
                node = graph.call_function(_aten.permute.default, (copy, back))
                node.meta["val"] = value
                return node

            self.turned.append((node, turned))

    def _sizes(self, graph: torch.fx.Graph, gm: torch.fx.GraphModule) -> None:
        """Declares an input without elements for each symbol that is no extent of another input: its shape has it."""
        bound, used, mode = set(), set(), None
        for node in gm.graph.nodes:
            value = _value(node)
            for v in value if isinstance(value, (tuple, list)) else (value,):
                extents = v.shape if isinstance(v, torch.Tensor) else (v,)
                for e in extents:
                    if isinstance(e, torch.SymInt):
                        used |= set(e.node.expr.free_symbols)
                        if node.op == "placeholder" and isinstance(v, torch.Tensor) and e.node.expr.is_symbol:
                            bound.add(e.node.expr)
                mode = mode or getattr(v, "fake_mode", None)
        for i, node in enumerate(self.placeholders):
            value = _value(node)
            if mode is None or not isinstance(value, torch.SymInt):
                continue
            symbol = value.node.expr
            if symbol.is_symbol and symbol in used - bound:
                bound.add(symbol)
                with mode:
                    shown = torch.empty((value, 0), dtype=torch.uint8)
                graph.placeholder(f"size_{symbol}").meta["val"] = shown
                self.inputs.append(_Argument(i, shown, None))

    def _result(
        self, graph: torch.fx.Graph, copies: dict[torch.fx.Node, torch.fx.Node], given: list[torch.fx.Node], node: Any
    ) -> None:
        """Declares an output, in the order in which torch expects it to lie in memory."""
        if not isinstance(node, torch.fx.Node) or self.eager.get(node):
            self.outputs.append((-1, None))
            return
        copy, order = copies[node], _order(_value(node))
        if order is not None:
            value = _value(node)
            copy = graph.call_function(_aten.permute.default, (copy, order))
            copy.meta["val"] = value.permute(order)
            order = [order.index(k) for k in range(len(order))]
        elif copy in given:
            self.outputs.append((given.index(copy), None))
            return
        self.outputs.append((len(given), order))
        given.append(copy)

    def _compiled(self, graph: torch.fx.Graph, given: Sequence[torch.fx.Node]) -> Program:
        """The program of a graph, by way of torch.export's JSON."""
        for node in graph.nodes:
            node.meta = {"val": node.meta.get("val")}
        inputs = [
            InputSpec(InputKind.USER_INPUT, TensorArgument(n.name) if _is_tensor(n) else SymIntArgument(n.name), None)
            for n in graph.nodes
            if n.op == "placeholder"
        ]
        outputs = [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(n.name), None) for n in given]
        module = torch.fx.GraphModule(torch.nn.Module(), graph)
        written = serialize.GraphModuleSerializer(ExportGraphSignature(inputs, outputs), []).serialize(module)
        text = json.dumps(
            {
                "graph_module": serialize._dataclass_to_dict(written),
                "schema_version": {"major": serialize.SCHEMA_VERSION[0], "minor": serialize.SCHEMA_VERSION[1]},
                "range_constraints": _ranges(graph),
                "torch_version": torch.__version__,
            },
            cls=serialize.EnumEncoder,
        )
        return compile(text.encode(), threads=torch.get_num_threads())

    def __call__(self, args: Sequence[Any]) -> list[Any]:
        args = [*args, *self.held]
        try:
            call = self.calls.pop()
        except IndexError:
            call = _Call(self.inputs, self.room)
        tensors = call.run(self.program, args)
        self.calls.append(call)
        known: dict[torch.fx.Node, Any] = self._numbers(args)
        results = []
        for node, (at, order) in zip(self.results, self.outputs):
            if at >= 0:
                results.append(tensors[at] if order is None else tensors[at].permute(order))
            elif isinstance(node, torch.fx.Node):
                results.append(self._light(node, args, known))
            else:
                results.append(node)
        return results

    def _light(self, node: torch.fx.Node, args: Sequence[Any], known: dict[torch.fx.Node, Any]) -> Any:
        """A number, or a view of an input."""
        if node in self.places:
            return args[self.places[node]]
        if node not in known:
            find = lambda n: self._light(n, args, known)  # noqa: E731
            inputs = torch.fx.map_arg(node.args, find)
            named = torch.fx.map_arg(node.kwargs, find)
            known[node] = node.target(*inputs, **named)
        return known[node]

    def _numbers(self, args: Sequence[Any]) -> dict[torch.fx.Node, Any]:
        """The values of the sizes that results need, out of the sizes of arguments."""
        numbers = [n for n, light in self.eager.items() if light and n not in self.places and _is_number(n)]
        if not numbers:
            return {}
        found: dict[Any, int] = {}
        for node, arg in zip(self.placeholders, args):
            declared = _value(node)
            pairs = zip(declared.shape, arg.shape) if isinstance(declared, torch.Tensor) else [(declared, arg)]
            for symbol, size in pairs:
                if isinstance(symbol, torch.SymInt) and symbol.node.expr.is_symbol:
                    found[symbol.node.expr] = int(size)
        values = ((n, _value(n)) for n in numbers)
        return {n: v if isinstance(v, int) else int(v.node.expr.xreplace(found)) for n, v in values}


def _ranges(graph: torch.fx.Graph) -> dict[str, dict[str, int | None]]:
    """The ranges of the symbols of a graph's shapes."""
    ranges: dict[str, dict[str, int | None]] = {}
    for node in graph.nodes:
        value = _value(node)
        if not isinstance(value, torch.Tensor):
            continue
        for extent in value.shape:
            if not isinstance(extent, torch.SymInt):
                continue
            environment = extent.node.shape_env
            for symbol in extent.node.expr.free_symbols:
                bounds = environment.var_to_range.get(symbol)
                if bounds is None:
                    continue
                low, high = bounds.lower, bounds.upper
                ranges[str(symbol)] = {
                    "min_val": int(low) if low.is_finite else 0,
                    "max_val": int(high) if high.is_finite and high < 1 << 60 else None,
                }
    return ranges


_told: set[str] = set()


def _tell(node: torch.fx.Node, why: str) -> None:
    """Says once that torch runs an operator, and why."""
    if _name(node) not in _told:
        _told.add(_name(node))
        _log.warning("torch runs %s: %s", _name(node), why)


def _whole(gm: torch.fx.GraphModule, refused: set[str]) -> _Compiled:
    """A graph as one program. What is refused is noted by the node's name."""
    try:
        return _Compiled(gm)
    except Error as error:
        known = {node.name: node for node in gm.graph.nodes}
        if error.node in known and error.node not in refused:
            refused.add(error.node)
            _tell(known[error.node], error.detail)
        else:
            refused.add("")
            _log.warning("torch runs a graph: %s", error)
        raise
    except serialize.SerializeError as error:
        refused.add("")
        _log.warning("torch runs a graph: %s", str(error).split("\n")[0])
        raise UnsupportedError(str(error)) from error


def _compile_graph(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[[list[Any]], list[Any]]:
    """Compiles a graph of AOTAutograd's: what weir reads of it."""
    refused: set[str] = set()
    while "" not in refused:
        support = _Support(refused)
        nodes = [n for n in gm.graph.nodes if n.op == "call_function" and not _is_number(n)]
        missing = [n for n in nodes if not support.is_node_supported({}, n)]
        if not nodes:
            break
        try:
            if not missing:
                return _boxed(_whole(gm, refused))
            for node in missing:
                if node.name not in refused:
                    _tell(node, "weir does not read it")
            return _boxed_parts(gm, support, refused)
        except Error:
            continue
    return _boxed_eager(gm)


def _boxed(compiled: _Compiled) -> Callable[[list[Any]], list[Any]]:
    """A callable that takes its arguments' list, and clears it."""

    def run(args: list[Any]) -> list[Any]:
        given = list(args)
        args.clear()
        return compiled(given)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _boxed_eager(gm: torch.fx.GraphModule) -> Callable[[list[Any]], list[Any]]:
    """A graph that torch runs."""

    def run(args: list[Any]) -> list[Any]:
        return list(torch.fx.Interpreter(gm).boxed_run(args))

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _boxed_parts(gm: torch.fx.GraphModule, support: _Support, refused: set[str]) -> Callable[[list[Any]], list[Any]]:
    """A graph of which weir computes parts. torch runs what is left."""
    graph = torch.fx.Graph()
    copies: dict[torch.fx.Node, torch.fx.Node] = {}
    for node in gm.graph.nodes:
        copies[node] = graph.node_copy(node, lambda n: copies[n])
    copy = torch.fx.GraphModule(gm, graph)
    partitioner = CapabilityBasedPartitioner(copy, support, allows_single_node_partition=False)
    fused = partitioner.fuse_partitions(partitioner.propose_partitions())
    for name, module in list(fused.named_children()):
        if isinstance(module, torch.fx.GraphModule) and name.startswith("fused_"):
            out = module.graph.output_node()
            single = isinstance(out.args[0], torch.fx.Node)
            if single:
                out.args = ((out.args[0],),)
            setattr(fused, name, _Part(_whole(module, refused), single))
    fused.delete_all_unused_submodules()
    return _boxed_eager(fused)


class _Part(torch.nn.Module):
    """A part of a graph, as a module of it."""

    def __init__(self, compiled: _Compiled, single: bool) -> None:
        super().__init__()
        self.compiled, self.single = compiled, single

    def forward(self, *args: Any) -> Any:
        results = self.compiled(args)
        return results[0] if self.single else tuple(results)


def _decompositions() -> dict[Any, Any]:
    """How operators that weir does not read are spelled out."""
    known = _operators()
    return {op: f for op, f in core_aten_decompositions().items() if str(op) not in known}


def backend(gm: torch.fx.GraphModule, example_inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
    """torch.compile's backend, which the entry point "weir" names."""
    compiler = aot_autograd(
        fw_compiler=_compile_graph,
        bw_compiler=_compile_graph,
        inference_compiler=_compile_graph,
        partition_fn=min_cut_rematerialization_partition,
        decompositions=_decompositions(),
    )
    compiled: Callable[..., Any] = compiler(gm, example_inputs)
    return compiled
