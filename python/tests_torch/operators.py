"""Counts which of ATen's core operators weir computes as torch does, on torch's own samples of arguments.

    python operators.py [SAMPLES [NAME ...]]      so many samples of each of torch's functions (2), or of those named

Each function is traced into a graph of ATen's operators, which weir compiles whole; results are compared with torch's.
An operator is right if every graph that has it is. Sorted elements' indices may differ among equal elements. What these
functions do not come to, operators_own.py calls by itself.
"""

from __future__ import annotations

import collections
import itertools
import operator
import sys
import warnings
from typing import Any, Iterator

import operators_own
import torch
import weir
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree
from weir import _torch, _torch_program

RANDOM = ("rand", "dropout", "bernoulli", "multinomial", "empty", "normal")
MOST_ELEMENTS = 100_000


def core() -> set[str]:
    """The core overloads, by torch's tags."""
    found = set()
    for name in dir(torch.ops.aten):
        packet = getattr(torch.ops.aten, name)
        for overload in packet.overloads() if hasattr(packet, "overloads") else ():
            operator = getattr(packet, overload)
            if torch.Tag.core in operator.tags:
                found.add(str(operator))
    return found


class Sample:
    """A call of a function with tensors as its arguments."""

    def __init__(self, function: Any, sample: Any) -> None:
        self.function = function
        self.flat, self.spec = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
        self.places = [i for i, a in enumerate(self.flat) if isinstance(a, torch.Tensor)]
        self.tensors = [self.flat[i].detach().clone() for i in self.places]

    def __call__(self, *tensors: torch.Tensor) -> Any:
        flat = list(self.flat)
        for i, t in zip(self.places, tensors):
            flat[i] = t
        args, named = pytree.tree_unflatten(flat, self.spec)
        return self.function(*args, **named)

    def graph(self, decompositions: Any) -> torch.fx.GraphModule:
        """The call as a graph of ATen's operators."""
        gm = make_fx(self, decomposition_table=decompositions, tracing_mode="fake")(*self.tensors)
        output = gm.graph.output_node()
        output.args = (tuple(pytree.tree_leaves(output.args[0])),)
        gm.recompile()
        return gm


def samples(function: Any, count: int) -> Iterator[Sample]:
    """Some calls of a function, spread over torch's samples."""
    for dtype in (torch.float32, torch.int64, torch.bool):
        if dtype not in function.dtypes:
            continue
        try:
            found = list(function.sample_inputs("cpu", dtype))[:60]
        except Exception:  # of torch, if a library is missing
            continue
        for sample in found[:: max(1, len(found) // count)][:count]:
            yield Sample(function.op, sample)


def order(gm: torch.fx.GraphModule, tensors: list[torch.Tensor], node: Any) -> tuple[torch.Tensor, int] | None:
    """The sorted tensor and its axis, if a result is the order of sorted elements."""
    if getattr(node, "target", None) is not operator.getitem or node.args[1] != 1:
        return None
    by, inputs = node.args[0], [n for n in gm.graph.nodes if n.op == "placeholder"]
    if not str(by.target).startswith(("aten.sort", "aten.topk")) or by.args[0] not in inputs:
        return None
    place = {"aten.sort.default": 1, "aten.topk.default": 2}.get(str(by.target), 9)
    return tensors[inputs.index(by.args[0])], by.kwargs.get("dim", by.args[place] if len(by.args) > place else -1)


def verdict(gm: torch.fx.GraphModule, tensors: list[torch.Tensor], want: list[torch.Tensor]) -> str:
    """The verdict on a graph: right, or the reason that it is not."""
    try:
        got = _torch_program.Compiled(gm)(tensors)
    except weir.UnsupportedError as error:
        return f"refused: {error}" if error.op.startswith("aten.") else f"missing: {error}"
    except weir.Error as error:
        return f"failed: {error}"
    for g, w, node in zip(got, want, gm.graph.output_node().args[0]):
        if g.shape != w.shape or g.dtype != w.dtype:
            return f"wrong: {g.dtype}{tuple(g.shape)} for {w.dtype}{tuple(w.shape)}"
        if str(getattr(node, "target", "")).startswith("aten.empty"):  # its elements are undefined
            continue
        if (sorted_ := order(gm, tensors, node)) is not None and sorted_[0].dim() > 0:
            g, w = (torch.gather(sorted_[0], sorted_[1], at) for at in (g, w))
        if not torch.allclose(g.double(), w.double(), rtol=1e-3, atol=1e-4, equal_nan=True):
            return "wrong: other elements"
    return ""


Counts = collections.defaultdict[str, "collections.Counter[str]"]


def count_functions(count: int, names: list[str], status: Counts, tell: Any) -> None:
    """Counts the verdicts on torch's samples of its functions."""
    known, decompositions = _torch._operators(), _torch._decompositions()
    for function in op_db:
        if names and function.name not in names:
            continue
        for sample in samples(function, count):
            if not sample.places or sum(t.numel() for t in sample.tensors) > MOST_ELEMENTS:
                continue
            try:
                with torch.no_grad():
                    want = pytree.tree_leaves(sample(*[t.clone() for t in sample.tensors]))
                    gm = sample.graph(decompositions)
            except Exception:  # torch itself refuses it, or cannot trace it
                continue
            if any(not isinstance(t, torch.Tensor) or t.dtype not in _torch_program.TYPES for t in want + sample.tensors):
                continue
            nodes = [n for n in gm.graph.nodes if n.op == "call_function"]
            operators = {str(n.target) for n in nodes if str(n.target).startswith("aten.")}
            if any(word in name for word in RANDOM for name in operators | {function.name}):
                continue
            if missing := {str(n.target) for n in nodes if isinstance(n.target, torch._ops.OpOverload)} - known:
                status.update({name: status[name] + collections.Counter(["missing"]) for name in missing})
                continue
            if any(n.op == "get_attr" for n in gm.graph.nodes):
                continue
            why = verdict(gm, sample.tensors, want)
            if why.startswith("missing"):  # a function of sizes: no operator is at fault
                continue
            for name in operators:
                status[name][why.split(":")[0] or "right"] += 1
            tell(function.name, why)


def main(count: int, names: list[str]) -> None:
    warnings.simplefilter("ignore")
    wanted, known = core(), _torch._operators()
    status: Counts = collections.defaultdict(collections.Counter)
    told = set()

    def tell(name: str, why: str) -> None:
        if why and (name, why) not in told:
            told.add((name, why))
            print(f"{name}: {why}"[:200])

    count_functions(count, names, status, tell)
    own = (({str(target)}, *rest) for target, *rest in operators_own.calls())
    for operators, tensors, gm, expected in itertools.chain(own, operators_own.traced()):
        if names and not operators & set(names):
            continue
        why = verdict(gm, tensors, expected)
        for name in operators:
            status[name][why.split(":")[0] or "right"] += 1
        tell(", ".join(sorted(operators)), why)
    right = [n for n in wanted if status[n]["right"] and set(status[n]) == {"right"}]
    some = [n for n in wanted if status[n]["right"]]
    print(f"{len(wanted)} core overloads: {len(wanted & known)} have a rule, {len(right)} are right on every sample, {len(some)} on some")
    print("others:", ", ".join(f"{n} {dict(status[n])}" for n in sorted(wanted - set(right))))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2, sys.argv[2:])
