"""Graphs of ATen's operators as programs of weir, which are called with torch's tensors."""

from __future__ import annotations

import ctypes
import itertools
import json
import operator
import sys
from typing import Any, Callable, Collection, Mapping, Sequence

import sympy
import torch
import torch.fx
from torch._export.serde import serialize
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymIntArgument,
    TensorArgument,
)

from torch.utils._sympy.symbol import SymT, symbol_is_type

from ._errors import UnsupportedError
from ._library import HOW, LEND, LENT, TAKE, WORDS, DLTensor, library
from ._program import Program, compile

_aten = torch.ops.aten

# Operators that only change the view of memory: for outputs torch computes them, so that these are views.
_VIEWS = {
    _aten.t.default, _aten.view.default, _aten.permute.default, _aten.transpose.int, _aten.unsqueeze.default,
    _aten.squeeze.dim, _aten.squeeze.dims, _aten.expand.default, _aten.alias.default, _aten.detach.default,
    _aten.slice.Tensor, _aten.select.int, _aten.unfold.default,
}  # fmt: skip
# Those of them whose result needs all of the memory that they view, and no more.
_WHOLE_VIEWS = _VIEWS - {_aten.slice.Tensor, _aten.select.int, _aten.unfold.default}
ALIASES = {_aten.alias.default, _aten.detach.default, _aten.lift_fresh_copy.default}
# DLPack's code and bits of torch's element types.
TYPES = {
    torch.float32: (2, 32), torch.float64: (2, 64), torch.float16: (2, 16), torch.bfloat16: (4, 16), torch.int64: (0, 64),
    torch.int32: (0, 32), torch.int16: (0, 16), torch.int8: (0, 8), torch.uint8: (1, 8), torch.bool: (6, 8),
}  # fmt: skip

# weir's names of torch's element types.
_NAMES = {t: "bool" if t is torch.bool else f"{'bf' if c == 4 else 'iuf'[c]}{b}" for t, (c, b) in TYPES.items()}


def is_view(node: torch.fx.Node) -> bool:
    """Whether a node's memory is that of its first argument, or whether it is one of several such tensors."""
    if node.op != "call_function":
        return False
    if node.target is operator.getitem:
        return is_view(node.args[0])
    return bool(getattr(node.target, "is_view", False))


def _is_whole_view(node: torch.fx.Node) -> bool:
    """Whether a node is a view that needs no more memory than its base: windows are if they overlap or touch."""
    if node.target is _aten.unfold.default:
        size, step = node.args[2:4]
        return isinstance(size, int) and isinstance(step, int) and step <= size
    return node.target in _WHOLE_VIEWS


def value_of(node: torch.fx.Node) -> Any:
    """The value of a node, as the tracer knows it."""
    return node.meta.get("val")


def is_tensor(node: torch.fx.Node) -> bool:
    return isinstance(value_of(node), torch.Tensor)


def is_integer(node: torch.fx.Node) -> bool:
    """Whether a node is an integer: a size, or a tensor's element."""
    return isinstance(value_of(node), (int, torch.SymInt)) and not isinstance(value_of(node), bool)


def is_number(node: torch.fx.Node) -> bool:
    """Whether a node is a size, or a number computed from sizes by torch. A tensor's element is not, even if it becomes
    a size.
    """
    numbers = (int, float, torch.SymInt, torch.SymFloat)
    value = value_of(node)
    return isinstance(value, numbers) and not isinstance(value, bool) and node.target is not _aten._local_scalar_dense.default


# Functions of sizes that are computed in floats, which weir's formulas do not have.
_ROUNDED = {
    "ToFloat", "FloatTrueDiv", "IntTrueDiv", "FloatPow", "TruncToInt", "TruncToFloat", "FloorToInt", "CeilToInt", "RoundToInt",
    "RoundDecimal",
}  # fmt: skip


_rounded = itertools.count()  # numbers the symbols of such expressions, which differ between programs


def is_rounded(expression: Any) -> bool:
    """Whether an expression of sizes is computed in floats."""
    return any(
        type(e).__name__ in _ROUNDED or type(e).__name__.startswith("OpaqueUnaryFn") or (e.is_number and not e.is_integer)
        for e in sympy.preorder_traversal(expression)
    )


def _order(value: torch.Tensor) -> list[int] | None:
    """The order of axes in which a tensor is row-major; None if there is none, or if it is the axes' own."""
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
    """The present value of a size, which may be dynamic."""
    return int(size) if isinstance(size, int) else int(size.node.hint or 0)


class _Size:
    """The source of a symbol's value: an argument, or its extent along an axis, equals step · symbol + rest."""

    def __init__(self, place: int, axis: int | None, step: int, rest: int) -> None:
        self.place, self.axis, self.step, self.rest = place, axis, step, rest

    @property
    def plain(self) -> bool:
        """Whether the symbol is an extent itself, so that a program gets its value from it."""
        return self.axis is not None and self.step == 1 and self.rest == 0

    def of(self, args: Sequence[Any]) -> int:
        """The symbol's value from a graph's arguments."""
        arg = args[self.place]
        return (int(arg if self.axis is None else arg.shape[self.axis]) - self.rest) // self.step

    def shown(self, args: Sequence[Any]) -> torch.Tensor:
        """A tensor without elements whose shape has the symbol's value."""
        return torch.empty((self.of(args), 0), dtype=torch.uint8)


class _Computed:
    """The source of a number computed from sizes: an expression of symbols, or an argument."""

    def __init__(self, expression: Any, sizes: dict[Any, _Size], place: int | None = None) -> None:
        self.expression, self.place = expression, place
        self.sizes = sizes

    def of(self, args: Sequence[Any]) -> Any:
        """The number, from a graph's arguments."""
        if self.place is not None:
            return args[self.place]
        return self.expression.xreplace({symbol: sympy.Integer(size.of(args)) for symbol, size in self.sizes.items()})


class _Extent(_Computed):
    """An integer that a program gets as an extent."""

    def shown(self, args: Sequence[Any]) -> torch.Tensor:
        return torch.empty((int(self.of(args)), 0), dtype=torch.uint8)


class _Float(_Computed):
    """A float that a program gets as a tensor's only element."""

    def shown(self, args: Sequence[Any]) -> torch.Tensor:
        return torch.tensor(float(self.of(args)), dtype=torch.float64)


def sizes_of(nodes: Sequence[torch.fx.Node]) -> dict[Any, _Size]:
    """The sources of the symbols that nodes have, each by the index of a node."""
    found: dict[Any, _Size] = {}
    for place, node in enumerate(nodes):
        value = value_of(node)
        pairs = enumerate(value.shape) if isinstance(value, torch.Tensor) else [(None, value)]
        for axis, extent in pairs:
            if not isinstance(extent, torch.SymInt):
                continue
            expression = extent.node.expr
            if len(expression.free_symbols) != 1:
                continue
            (symbol,) = expression.free_symbols
            step = expression.coeff(symbol)
            rest = expression - step * symbol
            if not (step.is_Integer and step > 0 and rest.is_Integer):
                continue
            size = _Size(place, axis, int(step), int(rest))
            if symbol not in found or size.plain:
                found[symbol] = size
    return found


def numbers_of(gm: torch.fx.GraphModule) -> dict[Any, Any]:
    """The expressions of sizes in a graph, with the sources of their symbols."""
    told: dict[Any, Any] = {}
    for node in gm.graph.nodes:
        value = value_of(node)
        for v in value if isinstance(value, (tuple, list)) else (value,):
            for e in v.shape if isinstance(v, torch.Tensor) else (v,):
                if isinstance(e, (torch.SymInt, torch.SymFloat)):
                    told[e.node.expr] = e.node.shape_env
    return told


class _Argument:
    """An input of a program: the index of its argument, and the order in which its axes lie."""

    def __init__(self, place: int, value: torch.Tensor, order: list[int] | None, size: Any = None) -> None:
        self.place = place
        self.order = order
        self.size = size  # the number in the input's shape, if it is not an argument
        self.rank = value.dim()
        self.dtype = value.dtype


class _Lent:
    """The memory of an argument, in the form for a program."""

    def __init__(self, argument: _Argument) -> None:
        self.place, self.order, self.size = argument.place, argument.order, argument.size
        self.rank = n = argument.rank
        self.extents = (ctypes.c_int64 * max(1, 2 * n))()
        self.tensor = DLTensor()
        self.tensor.device_type, self.tensor.ndim, self.tensor.lanes = 1, n, 1
        self.dtype = argument.dtype
        self.tensor.code, self.tensor.bits = TYPES[self.dtype]
        self.tensor.shape = ctypes.cast(self.extents, ctypes.POINTER(ctypes.c_int64))
        self.tensor.strides = ctypes.cast(ctypes.byref(self.extents, 8 * n), ctypes.POINTER(ctypes.c_int64))
        self.shape: Any = None
        self.stride: Any = None
        self.told: torch.Tensor | None = None  # holds a number

    def point(self, args: list[Any]) -> None:
        """Sets the memory of an argument. A size is the extent of a tensor without elements.

        An argument of another type than the graph says is converted: the results of some of torch's kernels are wider
        than torch's own description of them. So is one whose memory has the elements with the other sign, such as the
        imaginary part of a conjugate.
        """
        if self.size is not None:
            t = self.told = self.size.shown(args)
        else:
            t = args[self.place]
            if t.dtype is not self.dtype:
                t = args[self.place] = t.to(self.dtype)
            if t.is_neg():
                t = args[self.place] = t.resolve_neg()
        if self.order is not None:
            t = t.permute(self.order)
        shape, stride = t.shape, t.stride()
        if shape != self.shape or stride != self.stride:
            n = self.rank
            self.extents[:n], self.extents[n : 2 * n] = shape, stride
            self.shape, self.stride = shape, stride
        self.tensor.data = t.data_ptr()

    def taken(self, args: list[Any]) -> bool:
        """Whether the run may take the argument: only the list refers to it, and it has the program's layout."""
        if self.size is not None or not _sole(args, self.place):
            return False
        t = args[self.place]
        return bool((t if self.order is None else t.permute(self.order)).is_contiguous())


_from_dlpack = torch._C._from_dlpack  # torch.from_dlpack calls it for a capsule

# Tensors of fewer bytes are held until a run has ended: giving one away costs more than it saves.
_LEAST = 1 << 16


def _references(args: list[Any], place: int) -> int:
    """The number of references to an argument, including those of this call."""
    t = args[place]
    return sys.getrefcount(t)


# The result of _references if only the list holds an argument; versions of Python count their own references
# differently.
_ALONE = _references([object()], 0)


def _sole(args: list[Any], place: int) -> bool:
    """Whether only the list holds an argument, so that nothing reads it later: hooks and retained graphs may hold it
    too.
    """
    if _references(args, place) != _ALONE:
        return False
    t = args[place]
    return (
        t._use_count() == 1
        and torch._C._storage_Use_Count(t.untyped_storage()._cdata) == 2  # the other reference is this call's
        and t.nbytes >= _LEAST
        and not t.requires_grad
    )


class _Call:
    """The arguments of one call of a program: calls that run at once have one each."""

    def __init__(self, arguments: list[_Argument], outputs: int) -> None:
        self.lent = [_Lent(argument) for argument in arguments]
        self.words = (ctypes.c_uint64 * (WORDS * len(arguments)))()
        for k, lent in enumerate(self.lent):
            self.words[WORDS * k + LENT], self.words[WORDS * k + HOW] = ctypes.addressof(lent.tensor), LEND
        self.outputs = (ctypes.c_void_p * outputs)()

    def run(self, program: Program, args: list[Any], spent: Collection[int]) -> list[torch.Tensor]:
        """Runs a program. Its outputs then belong to torch. It takes spent arguments to which only the list refers."""
        for lent in self.lent:
            lent.point(args)
        given = [(k, self._capsule(lent, args)) for k, lent in enumerate(self.lent) if lent.place in spent and lent.taken(args)]
        lib, outputs, versioned = library(), self.outputs, ctypes.c_int32()
        for k, capsule in given:
            self.words[WORDS * k + LENT] = lib.held.weir_capsule_take(capsule, ctypes.byref(versioned))
            self.words[WORDS * k + HOW] = TAKE
        failed = lib.run_giving(program._handle, self.words, len(self.lent), lib.poll, outputs, len(outputs))
        for k, _ in given:
            self.words[WORDS * k + LENT], self.words[WORDS * k + HOW] = ctypes.addressof(self.lent[k].tensor), LEND
        if failed:
            lib.check(failed)
        return [_from_dlpack(capsule) for capsule in [lib.capsule(managed) for managed in outputs]]

    def _capsule(self, lent: _Lent, args: list[Any]) -> Any:
        """An argument as a capsule that holds it; the list no longer has it."""
        t, args[lent.place] = args[lent.place], None
        return torch._C._to_dlpack_versioned(t if lent.order is None else t.permute(lent.order))


class Compiled:
    """A graph of which weir computes everything: called with its inputs, it returns its outputs.

    spent are the indices of inputs that nothing reads after a call: run frees them after their last read.
    """

    def __init__(self, gm: torch.fx.GraphModule, spent: Collection[int] = ()) -> None:
        self.placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
        held = [n for n in gm.graph.nodes if n.op == "get_attr"]  # tensors of the graph itself: further inputs
        self.held = [operator.attrgetter(str(n.target))(gm) for n in held]
        for node, tensor in zip(held, self.held):
            node.meta.setdefault("val", tensor)
        self.placeholders += held
        self.places = {node: i for i, node in enumerate(self.placeholders)}
        self.results: list[Any] = list(gm.graph.output_node().args[0])
        self.found = sizes_of(self.placeholders)
        self.mode = next((v.fake_mode for v in map(value_of, gm.graph.nodes) if getattr(v, "fake_mode", None)), None)
        self.eager = self._eager()
        self.spent = frozenset(spent) - {self.places[n] for n in self.eager if n in self.places}
        graph = torch.fx.Graph()
        copies: dict[torch.fx.Node, torch.fx.Node] = {}
        self.inputs: list[_Argument] = []
        self.turned: list[tuple[torch.fx.Node, Callable[[], torch.fx.Node]]] = []
        for i, node in enumerate(self.placeholders):
            self._input(graph, copies, i, node)
        self._sizes(graph, gm)
        for node in gm.graph.nodes:  # sizes are expressions of symbols: they are declared, not computed
            if node.op == "call_function" and is_number(node):
                self._number(graph, copies, node)
        for node, turned in self.turned:
            copies[node] = turned()
        for node in gm.graph.nodes:
            if node.op != "call_function" or is_number(node):
                continue
            if node.target in ALIASES:
                copies[node] = copies[node.args[0]]
                continue
            copies[node] = graph.node_copy(node, lambda n: copies[n])
        self.computed: dict[torch.fx.Node, tuple[int, list[int] | None]] = {}  # the index of an output, and the order of its axes
        given: list[torch.fx.Node] = []
        for node in self.results:
            self._result(graph, copies, given, node)
        graph.output(given)
        self.program = self._compiled(graph, given)
        self.room = len(given)
        types = [value_of(n).dtype for n in given]
        self.converted = [(k, t) for k, t in enumerate(types) if _NAMES[t] != self.program.outputs[k].dtype]
        self._plan()
        self.calls: list[_Call] = []  # not used by a thread at present

    def _eager(self) -> dict[torch.fx.Node, bool]:
        """The nodes that torch computes for results: numbers, and views of inputs and of weir's outputs.

        A view of an input or of another result must be one: AOTAutograd makes it anew from its base, by the strides and
        the offset of the view that it gets.
        """
        out: dict[torch.fx.Node, bool] = {}
        returned = {n for n in self.results if isinstance(n, torch.fx.Node)}

        def light(node: torch.fx.Node) -> bool:
            if node not in out:
                out[node] = (
                    node in self.places
                    or is_number(node)
                    or (is_view(node) and all(light(n) for n in node.all_input_nodes))
                )
            return out[node]

        for node in returned:
            chain, base = [], node
            while base not in self.places and is_view(base) and all(light(n) for n in base.all_input_nodes[1:]):
                chain.append(base)
                base = base.args[0]
                if base in returned:
                    out.update(dict.fromkeys(chain, True))
                    break
        for node in self.results:
            chain = []
            while isinstance(node, torch.fx.Node) and not light(node) and _is_whole_view(node):
                if not all(light(n) for n in node.all_input_nodes[1:]):
                    break
                chain.append(node)
                node = node.args[0]
            if chain and is_tensor(node):
                out.update(dict.fromkeys(chain, True))
        for node in [n for n, eager in out.items() if eager and n not in self.places]:
            if isinstance(value_of(node), (torch.SymInt, torch.SymFloat)):
                self._of(value_of(node).node.expr)
        return out

    def _input(self, graph: torch.fx.Graph, copies: dict[torch.fx.Node, torch.fx.Node], i: int, node: torch.fx.Node) -> None:
        """Declares an input, with its axes in the order of memory."""
        value = value_of(node)
        if isinstance(value, torch.SymFloat):
            self._float(graph, copies, node, _Float(None, {}, i))
            return
        if not isinstance(value, torch.Tensor) and all(user.op == "output" for user in node.users):
            return  # the graph returns it, such as the device mesh of a distributed tensor
        copy = graph.placeholder(node.name)
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
        """Declares an input without elements for each size that no other input's extent has."""
        told = numbers_of(gm)
        symbols = {symbol: environment for expression, environment in told.items() for symbol in expression.free_symbols}
        bound = {symbol for symbol, size in self.found.items() if size.plain}
        for symbol in sorted(symbols.keys() - bound, key=str):
            size = self.found.get(symbol)
            if size is None and symbol_is_type(symbol, (SymT.UNBACKED_INT, SymT.UNBACKED_FLOAT)):
                continue  # data decide it within the graph, or the graph is refused
            if size is None:
                raise UnsupportedError(f"no argument tells the size {symbol}")
            self._told(graph, f"size_{symbol}", size, symbols[symbol], symbol)
        self.named: dict[str, str] = {}  # expressions computed in floats, with the symbols that replace them
        self.rounded: dict[str, Any] = {}  # and those expressions by symbol
        for expression in sorted((e for e in told if e.is_integer and is_rounded(e)), key=str):
            name = self.named[sympy.srepr(expression)] = f"w{next(_rounded)}"
            self.rounded[name] = expression
            self._told(graph, f"size_{name}", _Extent(expression, self._of(expression)), told[expression], expression)

    def _of(self, expression: Any) -> dict[Any, _Size]:
        """The sources of the symbols in an expression."""
        if unknown := expression.free_symbols - self.found.keys():
            raise UnsupportedError(f"no argument tells the size {min(map(str, unknown))}")
        return {symbol: self.found[symbol] for symbol in expression.free_symbols}

    def _told(self, graph: torch.fx.Graph, name: str, size: Any, environment: Any, extent: Any) -> torch.fx.Node:
        """Declares an input for a number: as an extent, if it is a symbol or an expression, or else as an element."""
        if self.mode is None:
            raise UnsupportedError(f"no tensor beside the size {name}")
        with self.mode:
            if extent is None:
                shown = torch.empty((), dtype=torch.float64)
            else:
                shown = torch.empty((environment.create_symintnode(extent, hint=None), 0), dtype=torch.uint8)
        node = graph.placeholder(name)
        node.meta["val"] = shown
        self.inputs.append(_Argument(0, shown, None, size))
        return node

    def _number(self, graph: torch.fx.Graph, copies: dict[torch.fx.Node, Any], node: torch.fx.Node) -> None:
        """Declares a number computed from sizes. Integers are expressions of symbols; floats are elements of inputs."""
        value = value_of(node)
        if isinstance(value, float):
            copies[node] = value
        elif isinstance(value, torch.SymFloat):
            self._float(graph, copies, node, _Float(value.node.expr, self._of(value.node.expr)))
        else:
            copies[node] = graph.placeholder(node.name)
            copies[node].meta["val"] = value

    def _float(self, graph: torch.fx.Graph, copies: dict[torch.fx.Node, Any], node: torch.fx.Node, size: _Float) -> None:
        """Declares a float as the element of an input."""
        told = self._told(graph, f"told_{node.name}", size, None, None)

        def read() -> torch.fx.Node:
            element = graph.call_function(_aten._local_scalar_dense.default, (told,))
            element.meta["val"] = value_of(node)
            return element

        self.turned.append((node, read))

    def _result(
        self, graph: torch.fx.Graph, copies: dict[torch.fx.Node, torch.fx.Node], given: list[torch.fx.Node], node: Any
    ) -> None:
        """Declares the part of a result that weir computes, in the order of memory that torch expects."""
        while isinstance(node, torch.fx.Node) and self.eager.get(node) and node not in self.places and not is_number(node):
            node = node.args[0]  # torch computes the view
        if not isinstance(node, torch.fx.Node) or self.eager.get(node) or node in self.computed:
            return
        copy, order = copies[node], _order(value_of(node))
        if order is not None:
            value = value_of(node)
            copy = graph.call_function(_aten.permute.default, (copy, order))
            copy.meta["val"] = value.permute(order)
            order = [order.index(k) for k in range(len(order))]
        elif copy in given:
            self.computed[node] = (given.index(copy), None)
            return
        self.computed[node] = (len(given), order)
        given.append(copy)

    def _compiled(self, graph: torch.fx.Graph, given: Sequence[torch.fx.Node]) -> Program:
        """The program of a graph, by torch.export's JSON."""
        for node in graph.nodes:
            node.meta = {"val": node.meta.get("val")}
        inputs = [
            InputSpec(InputKind.USER_INPUT, TensorArgument(n.name) if is_tensor(n) else SymIntArgument(n.name), None)
            for n in graph.nodes
            if n.op == "placeholder"
        ]
        outputs = [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(n.name), None) for n in given]
        module = torch.fx.GraphModule(torch.nn.Module(), graph)
        written = serialize.GraphModuleSerializer(ExportGraphSignature(inputs, outputs), []).serialize(module)
        text = json.dumps(
            {
                "graph_module": _renamed(serialize._dataclass_to_dict(written), self.named),
                "schema_version": {"major": serialize.SCHEMA_VERSION[0], "minor": serialize.SCHEMA_VERSION[1]},
                "range_constraints": _ranges(graph),
                "torch_version": torch.__version__,
            },
            cls=serialize.EnumEncoder,
        )
        return compile(text.encode(), threads=torch.get_num_threads())

    def __call__(self, args: Sequence[Any]) -> list[Any]:
        return self.run([*args])

    def run(self, args: list[Any]) -> list[Any]:
        """Computes the outputs. The call takes over the list."""
        args.extend(self.held)
        numbers = [self._value(node, args) for node in self.numbers]
        try:
            call = self.calls.pop()
        except IndexError:
            call = _Call(self.inputs, self.room)
        tensors = call.run(self.program, args, self.spent)
        self.calls.append(call)
        for k, dtype in self.converted:
            tensors[k] = tensors[k].to(dtype)
        values = args + numbers
        for at, order in self.computed.values():
            values.append(tensors[at] if order is None else tensors[at].permute(order))
        for view in self.views:
            values.append(view(values))
        return [values[k] if isinstance(k, int) else k.constant for k in self.given]

    def dims(self, known: Mapping[str, int]) -> dict[str, int]:
        """The dimensions that are computed from others in floats, if these are known."""
        found = {}
        for name, expression in self.rounded.items():
            if all(str(s) in known for s in expression.free_symbols):
                found[name] = int(expression.xreplace({s: sympy.Integer(known[str(s)]) for s in expression.free_symbols}))
        return found

    def written(self) -> list[list[torch.fx.Node]]:
        """The nodes of each output that the program writes."""
        outputs: list[list[torch.fx.Node]] = [[] for _ in range(self.room)]
        for node, (at, _) in self.computed.items():
            outputs[at].append(node)
        return outputs

    def _plan(self) -> None:
        """Finds the order of a call's values: arguments, numbers, computed tensors, and the views of results."""
        places: dict[torch.fx.Node, int] = dict(self.places)
        self.numbers = [n for n, light in self.eager.items() if light and n not in places and is_number(n)]
        for node in (*self.numbers, *self.computed):
            places[node] = len(places)
        self.views: list[Callable[[list[Any]], Any]] = []

        def visit(node: torch.fx.Node) -> None:
            if node in places:
                return
            for inner in node.all_input_nodes:
                visit(inner)
            self.views.append(_view(node, places))
            places[node] = len(places)

        self.given: list[Any] = []
        for node in self.results:
            if isinstance(node, torch.fx.Node):
                visit(node)
                self.given.append(places[node])
            else:
                self.given.append(_Constant(node))

    def _value(self, node: torch.fx.Node, args: Sequence[Any]) -> Any:
        """The value of a number in the results, from the sizes of arguments."""
        value = value_of(node)
        if isinstance(value, (torch.SymInt, torch.SymFloat)):
            number = _Computed(value.node.expr, self._of(value.node.expr)).of(args)
            return int(number) if isinstance(value, torch.SymInt) else float(number)
        return value


class _Constant:
    """A result that does not depend on a call."""

    def __init__(self, constant: Any) -> None:
        self.constant = constant


# A tensor's method is several times as fast as the operator of the same effect.
_METHODS = {
    _aten.permute.default: torch.Tensor.permute,
    _aten.t.default: torch.Tensor.t,
    _aten.transpose.int: torch.Tensor.transpose,
    _aten.view.default: torch.Tensor.view,
    _aten.unsqueeze.default: torch.Tensor.unsqueeze,
    _aten.squeeze.dim: torch.Tensor.squeeze,
    _aten.detach.default: torch.Tensor.detach,
}


def _view(node: torch.fx.Node, places: dict[torch.fx.Node, int]) -> Callable[[list[Any]], Any]:
    """A function that computes a node from a call's values."""
    target: Any = node.target
    first, rest = node.args[0], node.args[1:]
    if isinstance(first, torch.fx.Node) and node.all_input_nodes == [first] and not node.kwargs:
        does, at = _METHODS.get(target, target), places[first]
        fixed = [list(a) if isinstance(a, torch.fx.immutable_collections.immutable_list) else a for a in rest]
        if not any(isinstance(a, torch.fx.Node) for a in rest):
            return lambda values: does(values[at], *fixed)
    known = dict(places)

    def general(values: list[Any]) -> Any:
        find = lambda n: values[known[n]]  # noqa: E731
        return target(*torch.fx.map_arg(node.args, find), **torch.fx.map_arg(node.kwargs, find))

    return general


def _renamed(written: Any, named: dict[str, str]) -> Any:
    """A printed graph, with expressions replaced by their symbols."""
    if isinstance(written, dict):
        text = written.get("expr_str")
        if isinstance(text, str) and text in named:
            return {**written, "expr_str": named[text]}
        return {key: _renamed(value, named) for key, value in written.items()} if named else written
    if isinstance(written, list):
        return [_renamed(value, named) for value in written]
    return written


def _ranges(graph: torch.fx.Graph) -> dict[str, dict[str, int | None]]:
    """The ranges of the symbols in a graph's shapes."""
    ranges: dict[str, dict[str, int | None]] = {}
    for node in graph.nodes:
        value = value_of(node)
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
