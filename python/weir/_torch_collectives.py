"""Graphs with collectives of torch.distributed: programs between them, and the buffers in flight.

A graph is cut at each operator that starts a collective, and at each that waits for one. What lies between two cuts
becomes programs. The steps run in the graph's order, so that every process starts and awaits its collectives as the
graph says. A value is dropped before its last step, which may then free it on the way.
"""

from __future__ import annotations

import operator
from typing import Any, Callable, Collection, Iterable

import sympy
import torch
import torch.fx

from ._graphs import Bytes, Life
from ._torch_program import ALIASES, Compiled, is_number, is_view, numbers_of, sizes_of, value_of

# Namespaces of operators that exchange data with other processes.
_NAMESPACES = {"_c10d_functional", "_c10d_functional_autograd", "_dtensor", "c10d", "c10d_functional", "symm_mem"}
_WAITS = {"wait_tensor", "wait_tensors"}

Run = Callable[[list[Any]], list[Any]]  # takes over the list of its arguments


def _name(node: torch.fx.Node) -> str:
    """The name of an operator without its namespace and its overload; "" if the node is no such operator."""
    target = node.target
    return str(target).split(".")[1] if node.op == "call_function" and isinstance(target, torch._ops.OpOverload) else ""


def is_collective(node: torch.fx.Node) -> bool:
    """Whether a node starts a collective or waits for one, or is one of the tensors that such a node returns."""
    if node.op != "call_function":
        return False
    if node.target is operator.getitem and isinstance(node.args[0], torch.fx.Node):
        return is_collective(node.args[0])
    return isinstance(node.target, torch._ops.OpOverload) and node.target.namespace in _NAMESPACES


def _is_alias(node: torch.fx.Node) -> bool:
    """Whether a node's memory is, or may be, that of its arguments."""
    if node.op != "call_function" or is_number(node):
        return False
    if node.target is operator.getitem or is_view(node) or node.target in ALIASES or _name(node) in _WAITS:
        return True
    if not isinstance(node.target, torch._ops.OpOverload):
        return True  # an operator with graphs of its own
    return any(r.alias_info is not None for r in node.target._schema.returns)


class _At:
    """The place of a value."""

    def __init__(self, place: int) -> None:
        self.place = place


class _Step:
    """A step of a graph: places of its arguments, and of its results."""

    def __init__(self, run: Run, inputs: list[int], results: list[int]) -> None:
        self.run, self.inputs, self.results = run, inputs, results
        self.last: list[int] = []  # the places that no later step reads
        self.extents: list[tuple[int, int, int]] = []  # the index of a result, an axis, and the place of the extent


class Staged:
    """A graph that is cut at its collectives.

    compile makes a callable of a graph between two cuts, from the indices of inputs that it may free, and tells its
    program, if it is one. lives are the values that take memory of their own: results of collectives, and outputs of
    such programs.
    """

    def __init__(
        self,
        gm: torch.fx.GraphModule,
        spent: Collection[int],
        compile: Callable[[torch.fx.GraphModule, set[int]], tuple[Run, Compiled | None]],
    ) -> None:
        self.gm = gm
        _without_copies(gm)
        self.nodes = list(gm.graph.nodes)
        self.order = {node: i for i, node in enumerate(self.nodes)}
        self.places: dict[torch.fx.Node, int] = {}
        self.room = 0
        self.constants: list[tuple[int, Any]] = []
        self.begin = _Step(lambda args: args, [], [])
        self.steps: list[_Step] = []
        self.made: list[torch.fx.Node] = []  # nodes with a place that steps fill: the sources of sizes
        self.step_of: dict[torch.fx.Node, int] = {}
        self.taken: set[torch.fx.Node] = set()  # nodes whose memory an all_reduce takes
        segments: dict[_Step, torch.fx.GraphModule] = {}
        for node in self.nodes:
            if node.op == "placeholder":
                self.begin.results.append(self._place(node))
                self.made.append(node)
        between: list[torch.fx.Node] = []
        for node in self.nodes:
            if node.op == "call_function" and not is_collective(node):
                between.append(node)
            elif node.op in ("call_function", "output"):
                self._segment(between, segments)
                between = []
                if node.op == "call_function":
                    self._call(node)
        self.step_of[self.nodes[-1]] = len(self.steps)
        results: Any = self.nodes[-1].args[0]
        self.given = [self._known(n) if isinstance(n, torch.fx.Node) else n for n in results]
        self._drop(spent)
        self.lives = [self._life([n], value_of(n), True) for n in self.nodes if self._is_in_flight(n)]
        named = {node.name: node for node in self.nodes}
        for step, module in segments.items():
            step.run, program = compile(module, {i for i, place in enumerate(step.inputs) if place in step.last})
            for nodes in program.written() if program else ():
                self.lives.append(self._life([named[n.name] for n in nodes], value_of(nodes[0]), False))

    def _place(self, node: torch.fx.Node) -> int:
        self.places[node] = self.room
        self.room += 1
        return self.places[node]

    def _known(self, node: torch.fx.Node) -> _At:
        """The place of a node's value. A constant gets its place when it is first read."""
        if node not in self.places and node.op == "get_attr":
            self.constants.append((self._place(node), operator.attrgetter(str(node.target))(self.gm)))
        return _At(self.places[node])

    def _call(self, node: torch.fx.Node) -> None:
        """Adds a node that torch runs."""
        target, args, named = self._target(node), node.args, node.kwargs
        read = list(node.all_input_nodes)
        inputs = [self._known(n).place for n in read]
        index = {n: i for i, n in enumerate(read)}

        def run(values: list[Any]) -> list[Any]:
            find = lambda n: values[index[n]]  # noqa: E731
            return [target(*torch.fx.map_arg(args, find), **torch.fx.map_arg(named, find))]

        self.step_of[node] = len(self.steps)
        self.steps.append(_Step(run, inputs, [self._place(node)]))
        self.made.append(node)

    def _target(self, node: torch.fx.Node) -> Callable[..., Any]:
        """A node's operator: an all_reduce of memory that only it reads works in place, without a copy."""
        target: Any = node.target
        if target is not torch.ops._c10d_functional.all_reduce.default:
            return target  # type: ignore[no-any-return]
        source = node.args[0]
        assert isinstance(source, torch.fx.Node)
        value = value_of(source)
        fresh = source.op == "call_function" and not is_collective(source) and not _is_alias(source)
        if not fresh or list(source.users) != [node] or not value.is_contiguous():
            return target  # type: ignore[no-any-return]
        self.taken.add(node)
        return _all_reduce

    def _segment(self, nodes: list[torch.fx.Node], segments: dict[_Step, torch.fx.GraphModule]) -> None:
        """Adds the nodes between two cuts. Torch runs them if they are views and numbers only, or have no results."""
        inside = set(nodes)
        results = [n for n in nodes if any(user not in inside for user in n.users)]
        if not results or all(is_view(n) or is_number(n) for n in nodes):
            for node in nodes:
                self._call(node)
            return
        graph = torch.fx.Graph()
        copies: dict[torch.fx.Node, torch.fx.Node] = {}
        inputs: list[torch.fx.Node] = []
        for node in sorted({n for m in nodes for n in m.all_input_nodes} - inside, key=self.order.__getitem__):
            if node.op == "get_attr":
                copies[node] = graph.node_copy(node)
                continue
            copies[node] = graph.placeholder(node.name)
            copies[node].meta["val"] = value_of(node)
            inputs.append(node)
        for node in nodes:
            copies[node] = graph.node_copy(node, copies.__getitem__)
        places = [self.places[n] for n in inputs]
        module = torch.fx.GraphModule(self.gm, graph)
        for place, name, value in self._sizes(inputs, module):
            first = next((n for n in graph.nodes if n.op != "placeholder"), None)
            with graph.inserting_before(first):
                graph.placeholder(name).meta["val"] = value
            places.append(place)
        graph.output([copies[n] for n in results])
        module.recompile()
        step = _Step(lambda args: args, places, [self._place(n) for n in results])
        self.step_of.update(dict.fromkeys(nodes, len(self.steps)))
        self.steps.append(step)
        self.made += results
        segments[step] = module

    def _sizes(self, inputs: list[torch.fx.Node], module: torch.fx.GraphModule) -> Iterable[tuple[int, str, Any]]:
        """The places, names and values of the sizes that a segment needs and that none of its inputs has."""
        missing = {s for e in numbers_of(module) for s in e.free_symbols} - sizes_of(inputs).keys()
        known = sizes_of(self.made) if missing else {}
        for symbol in sorted(missing & known.keys(), key=str):
            size = known[symbol]
            source = self.made[size.place]
            value = value_of(source)
            if size.axis is None:
                yield self.places[source], f"size_of_{symbol}", value
                continue
            maker = next(s for s in (self.begin, *self.steps) if self.places[source] in s.results)
            maker.extents.append((maker.results.index(self.places[source]), size.axis, self.room))
            yield self.room, f"size_of_{symbol}", value.shape[size.axis]
            self.room += 1

    def _drop(self, spent: Collection[int]) -> None:
        """Finds the last step that reads each place. The caller holds an input that is not spent."""
        kept = {at.place for at in self.given if isinstance(at, _At)} | {place for place, _ in self.constants}
        kept |= {place for i, place in enumerate(self.begin.results) if i not in spent}
        for step in reversed(self.steps):
            step.last = [place for place in dict.fromkeys(step.inputs) if place not in kept]
            kept.update(step.last)
        read = {place for step in self.steps for place in step.inputs}
        for step in self.steps:  # results that nothing reads
            step.results = [place if place in read or place in kept else -1 for place in step.results]

    def run(self, args: list[Any]) -> list[Any]:
        """Runs the steps. The call takes over the list."""
        values: list[Any] = [None] * self.room
        for place, constant in self.constants:
            values[place] = constant
        _put(values, self.begin, args)
        for step in self.steps:
            given = [values[place] for place in step.inputs]
            for place in step.last:
                values[place] = None
            results = step.run(given)
            given.clear()
            _put(values, step, results)
        return [values[g.place] if isinstance(g, _At) else g for g in self.given]

    def _is_in_flight(self, node: torch.fx.Node) -> bool:
        """Whether a node is a collective's result in memory of its own."""
        return is_collective(node) and not self._shares(node)

    def _shares(self, node: torch.fx.Node) -> bool:
        return _is_alias(node) or node in self.taken

    def _life(self, nodes: list[torch.fx.Node], value: Any, collective: bool) -> Life:
        """The life of a value that some nodes have, to the last use of it or of its views."""
        shared = set(nodes)
        begin = end = min(self.step_of[n] for n in nodes)
        for later in self.nodes[self.order[nodes[0]] :]:
            if not shared.isdisjoint(later.all_input_nodes):
                end = max(end, self.step_of[later])
                if later.op == "call_function" and self._shares(later):
                    shared.add(later)
        return Life(bytes_of(value), begin, end, collective, end == len(self.steps))


def _put(values: list[Any], step: _Step, results: list[Any]) -> None:
    """Puts a step's results, and extents of them, in their places. The list is emptied."""
    for index, axis, to in step.extents:
        values[to] = results[index].shape[axis]
    for place in reversed(step.results):
        result = results.pop()
        if place >= 0:
            values[place] = result


def _without_copies(gm: torch.fx.GraphModule) -> None:
    """Removes the copies of all that a collective gives, if nothing else reads it: dist.all_reduce(x) copies into x."""
    for node in list(gm.graph.nodes):
        if node.target is not torch.ops.aten.copy.default:
            continue
        over, source = node.args[:2]
        if _name(source) != "wait_tensor" or list(source.users) != [node] or list(source.args[0].users) != [source]:
            continue
        a, b = value_of(over), value_of(source)
        if a.dtype == b.dtype and a.shape == b.shape and a.stride() == b.stride():
            node.replace_all_uses_with(source)
            gm.graph.erase_node(node)


def _all_reduce(tensor: torch.Tensor, operation: Any, group: Any) -> torch.Tensor:
    """Starts an all_reduce that writes its result over its argument, if the argument has no gaps."""
    ops = torch.ops._c10d_functional
    return (ops.all_reduce_ if tensor.is_contiguous() else ops.all_reduce)(tensor, operation, group)


def bytes_of(value: Any) -> Bytes:
    """The bytes of a node's value, which is a tensor or several."""
    total = sympy.Integer(0)
    for tensor in value if isinstance(value, (list, tuple)) else (value,):
        count = tensor.numel()
        total += (count.node.expr if isinstance(count, torch.SymInt) else sympy.Integer(count)) * tensor.element_size()
    return Bytes(total)
