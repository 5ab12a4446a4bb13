"""Evaluates each model of a folder with ONNX's reference evaluator.

NAME.onnx with NAME.in0.npy and so on gives NAME.out0.npy and so on, or NAME.error. Where the evaluator strays from
ONNX's text, a mend takes its place. A mend looks at the inputs of one node, and acts only if they are those that the
evaluator gets wrong; NAME.mended names the mends that acted, by line. All other nodes of the model are the evaluator's
own. The first uses of each mend are also given to onnxruntime, as models of one node: witness.txt has a line for each.
needed.txt has the mends without which the evaluator strayed at least once, and idle.txt the others.
"""

import collections
import glob
import os
import sys
import warnings

import numpy
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.ops import load_op
from onnx.reference.ops_optimized import optimized_operators

WITNESSES = 8
mends, acted, witnessed, witness, needed = [], [], collections.Counter(), [], collections.defaultdict(bool)


def mend(name, operator, wrong, right):
    """Gives an operator another meaning, right(node, arguments, attributes), for the arguments that wrong holds for."""
    mends.append((name, operator, wrong, right))


def attributes(node):
    """The attributes of a node of the evaluator, with their defaults."""
    return {name: getattr(node, name) for name in node.attributes_names_}


def mended(operator, version):
    """The evaluator's class for an operator, with its mends."""
    original = next((c for c in optimized_operators if c.__name__ == operator), None) or load_op("", operator, version)
    mine = [m for m in mends if m[1] == operator]

    def _run(self, *args, **kwargs):
        given = {**attributes(self), **kwargs}
        for name, _, wrong, right in mine:
            if wrong(self, args, given):
                acted.append(name)
                out = right(self, args, given)
                needed[name] = needed[name] or astray(lambda: original._run(self, *args, **kwargs), out)
                if "context" not in kwargs:
                    testify(name, self, args, out, version)
                return out
        return original._run(self, *args, **kwargs)

    known = onnx.defs.get_schema(operator, version, "")
    return type(operator, (original,), {"_run": _run, "plain": original._run, "op_domain": "", "op_schema": known})


def same(left, right):
    """Whether two lists of tensors are the same, floats by rounding."""
    def equal(a, b):
        if a.dtype != b.dtype or a.shape != b.shape:
            return False
        return numpy.allclose(a, b, 1e-3, 1e-3, True) if a.dtype.kind == "f" else numpy.array_equal(a, b)

    return len(left) == len(right) and all(equal(a, b) for a, b in zip(left, right))


def astray(evaluate, right):
    """Whether the evaluator by itself refuses, or gives something else."""
    try:
        return not same(evaluate(), right)
    except Exception:  # noqa: BLE001
        return True


def testify(name, node, args, out, version):
    """Asks onnxruntime for the results of one node."""
    if witnessed[name] >= WITNESSES:
        return
    witnessed[name] += 1
    try:
        import onnxruntime
    except ImportError:
        witness.append(f"{name}: absent")
        return
    onnxruntime.set_default_logger_severity(4)
    proto = onnx.NodeProto()
    proto.CopyFrom(node.onnx_node)
    values = {n: a for n, a in zip(proto.input, args) if a is not None}

    def declared(pairs):
        kind = helper.np_dtype_to_tensor_dtype
        return [helper.make_tensor_value_info(n, kind(x.dtype), [None] * x.ndim) for n, x in pairs]

    graph = helper.make_graph([proto], "node", declared(values.items()), declared(zip(proto.output, out)))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=10)
    shapes = [a.shape for a in values.values()]
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        theirs = session.run(None, values)
    except Exception as e:  # noqa: BLE001
        said = "absent" if "NOT_IMPLEMENTED" in str(e) else "refuses"
        witness.append(f"{name}: {said} {shapes} {' '.join(str(e).split())[:300]}")
        return
    if same(out, theirs):
        witness.append(f"{name}: agrees {shapes}")
    else:
        witness.append(" ".join(f"{name}: differs {shapes} {out} {theirs}".split())[:600])


# Slice: backwards, a start in front of the axis is its first element.

def slices(args):
    data, starts, ends = args[:3]
    axes = args[3] if len(args) > 3 and args[3] is not None else range(len(starts))
    steps = args[4] if len(args) > 4 and args[4] is not None else [1] * len(starts)
    return [(int(s), int(e), int(a), int(d)) for s, e, a, d in zip(starts, ends, axes, steps)]


def slice_before(_, args, __):
    return any(d < 0 and s < -args[0].shape[a] and args[0].shape[a] > 0 for s, _, a, d in slices(args))


def slice_clamped(_, args, __):
    data, at = args[0], [slice(None)] * args[0].ndim
    for s, e, a, d in slices(args):
        n = data.shape[a]
        low, high = (0, n) if d > 0 else (0, n - 1)
        start = min(max(s + n if s < 0 else s, low), high)
        stop = min(max(e + n if e < 0 else e, low if d > 0 else -1), high)
        at[a] = slice(start, None if stop < 0 else stop, d)
    return (data[tuple(at)],)


mend("Slice backwards from before the axis", "Slice", slice_before, slice_clamped)


# Pad: "the number of padding elements to add or remove (if negative)".

def pad_widths(args):
    data, pads = args[:2]
    axes = args[3] if len(args) > 3 and args[3] is not None else range(data.ndim)
    widths = [(0, 0)] * data.ndim
    for i, a in enumerate(axes):
        widths[int(a)] = (int(pads[i]), int(pads[i + len(pads) // 2]))
    return widths


def pad_negative(_, args, kwargs):
    return kwargs.get("mode", "constant") == "constant" and any(min(w) < 0 for w in pad_widths(args))


def pad_removed(_, args, __):
    data, widths = args[0], pad_widths(args)
    value = args[2] if len(args) > 2 and args[2] is not None else 0
    if any(n + b + e < 0 for n, (b, e) in zip(data.shape, widths)):
        raise ValueError("more is removed than there is")
    padded = numpy.pad(data, [(max(b, 0), max(e, 0)) for b, e in widths], constant_values=value).astype(data.dtype)
    return (padded[tuple(slice(max(-b, 0), n - max(-e, 0)) for n, (b, e) in zip(padded.shape, widths))],)


mend("Pad that removes", "Pad", pad_negative, pad_removed)


# GatherElements: the result's shape is that of the indices, which need not be the data's along the other axes. The
# evaluator takes the data's last axis for another one if the axis is -1, and gives a row of nothing for no indices.

def gather_elements(_, args, kwargs):
    data, indices = args
    axis = kwargs["axis"] % data.ndim
    part = data[tuple(slice(None) if k == axis else slice(n) for k, n in enumerate(indices.shape))]
    return (numpy.take_along_axis(part, indices, axis),)


mend("GatherElements by no indices", "GatherElements", lambda _, args, __: args[1].size == 0 and args[1].shape != (0,),
     lambda _, args, __: (numpy.empty(args[1].shape, args[0].dtype),))
mend("GatherElements along axis -1", "GatherElements",
     lambda _, args, kwargs: kwargs["axis"] == -1 and args[1].shape != args[0].shape
     and args[1].shape[:-1] == args[0].shape[:-1], gather_elements)


# Gather: the evaluator gives a row of nothing for no indices, whatever the other axes are.

def gathered(args, kwargs):
    axis = kwargs["axis"] % args[0].ndim
    return args[0].shape[:axis] + args[1].shape + args[0].shape[axis + 1:]


def gather_none(_, args, kwargs):
    return args[1].size == 0 and gathered(args, kwargs) != (0,)


def gather_nothing(_, args, kwargs):
    return (numpy.empty(gathered(args, kwargs), args[0].dtype),)


mend("Gather by no indices", "Gather", gather_none, gather_nothing)


# An index outside of the axis is an error. Weir finds it as it reads, so that it finds none if the result is empty.

def gather_unread(_, args, kwargs):
    data, indices = args
    n = data.shape[kwargs["axis"]]
    return indices.size > 0 and 0 in gathered(args, kwargs) and bool(((indices < -n) | (indices >= n)).any())


mend("lenient: Gather by an index that nothing is read by", "Gather", gather_unread, gather_nothing)


# Flatten: the evaluator has numpy look for an extent by dividing by 0.

def flattened(args, kwargs):
    shape, axis = args[0].shape, kwargs["axis"]
    axis = axis + len(shape) if axis < 0 else axis
    return (int(numpy.prod(shape[:axis])), int(numpy.prod(shape[axis:])))


mend("Flatten whose first part is empty", "Flatten", lambda _, args, kwargs: flattened(args, kwargs)[0] == 0,
     lambda _, args, kwargs: (args[0].reshape(flattened(args, kwargs)),))


# Reshape: a 0 of the new shape is the extent of x there. An extent that a model computes, and that is 0 at a run, is
# one that Weir keeps. ONNX's text makes an error of it wherever the copied extents do not fit.

def reshape_computed(_, args, kwargs):
    x, shape = args
    if kwargs.get("allowzero", 0) or 0 not in shape or -1 in shape or x.size > 0:
        return False
    copied = [x.shape[i] if n == 0 and i < x.ndim else n for i, n in enumerate(shape)]
    return numpy.prod(copied) != 0


mend("lenient: Reshape to an extent that comes out as 0", "Reshape", reshape_computed,
     lambda _, args, __: (args[0].reshape(args[1]),))


# Conv: the evaluator joins the results of each picture, and refuses to join none.

def conv_nothing(node, args, kwargs):
    one = numpy.zeros((1, *args[0].shape[1:]), args[0].dtype)
    return (node.plain(one, *args[1:], **kwargs)[0][:0],)


mend("Conv of no pictures", "Conv", lambda _, args, __: args[0].shape[0] == 0, conv_nothing)


# Logarithms of sums: the evaluator takes infinities from one another, and the logarithm of what has vanished. What the
# fault does not touch stays the evaluator's.

def all_infinite(node, args, kwargs):
    axes = node.handle_axes(args[1] if len(args) > 1 else None, kwargs["noop_with_empty_axes"])
    return numpy.isinf(args[0]).all(axis=axes, keepdims=bool(kwargs["keepdims"])), axes


def sum_of_infinities(node, args, kwargs):
    infinite, axes = all_infinite(node, args, kwargs)
    out = node.plain(*args, **kwargs)[0]
    most = numpy.max(args[0], axis=axes, keepdims=bool(kwargs["keepdims"]))
    return (numpy.where(infinite, most, out).astype(out.dtype),)


mend("ReduceLogSumExp of infinities alone", "ReduceLogSumExp",
     lambda node, args, kwargs: args[0].size > 0 and bool(all_infinite(node, args, kwargs)[0].any()), sum_of_infinities)


def vanished(args, kwargs):
    x, axis = args[0].astype(numpy.float64), kwargs["axis"]
    far = x - numpy.max(x, axis=axis, keepdims=True)
    return numpy.isfinite(far) & (numpy.exp(far) < numpy.finfo(args[0].dtype).tiny * x.shape[axis]), far


def log_softmax(node, args, kwargs):
    gone, far = vanished(args, kwargs)
    out = node.plain(args[0])[0]
    exact = far - numpy.log(numpy.sum(numpy.exp(far), axis=kwargs["axis"], keepdims=True))
    return (numpy.where(gone, exact, out).astype(out.dtype),)


mend("LogSoftmax whose quotient vanishes", "LogSoftmax",
     lambda _, args, kwargs: args[0].size > 0 and bool(vanished(args, kwargs)[0].any()), log_softmax)


# MaxPool: the evaluator marks padding by NaN, and so leaves out the NaN of data. ONNX's text is silent on NaN; like
# Max, the maximum of a window with NaN in it is NaN for Weir.

def pool_nan(node, args, kwargs):
    plain = kwargs["auto_pad"] == "NOTSET" and not kwargs["ceil_mode"] and len(node.onnx_node.output) == 1
    return plain and args[0].dtype.kind == "f" and bool(numpy.isnan(args[0]).any())


def max_pool(_, args, kwargs):
    x, size = args[0], kwargs["kernel_shape"]
    rank = len(size)
    pads, steps = kwargs["pads"] or [0] * 2 * rank, kwargs["strides"] or [1] * rank
    apart = kwargs["dilations"] or [1] * rank
    x = numpy.pad(x, [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:])], constant_values=-numpy.inf)
    spans = [(k - 1) * d + 1 for k, d in zip(size, apart)]
    windows = numpy.lib.stride_tricks.sliding_window_view(x, spans, tuple(range(2, 2 + rank)))
    windows = windows[(slice(None), slice(None), *(slice(None, None, n) for n in [*steps, *apart]))]
    return (windows.max(axis=tuple(range(-rank, 0))),)


mend("MaxPool of NaN", "MaxPool", pool_nan, max_pool)


# Loop: an absent condition is true; rows are joined along an axis of their own, and have their shape also without
# iterations.

def loop_rows(node, args, kwargs):
    return node.K > 0 or args[1] is None


def loop(node, args, kwargs):
    most, going, state, context = args[0], args[1], list(args[2:]), kwargs["context"] or {}
    names, most, rows = node.body.input_names, None if most is None else int(numpy.asarray(most).reshape(())), []

    def turn(i, going):
        given = dict(context, **dict(zip(names, [numpy.array(i, numpy.int64), going, *state])))
        return node._run_body(given, attributes=kwargs.get("attributes"))

    watched, going, i = going is not None, numpy.array(True) if going is None else going, 0
    while (most is None or i < most) and bool(numpy.asarray(going).reshape(())):
        out = turn(i, going)
        going = out[0] if watched else going
        state, i = list(out[1:1 + node.N]), i + 1
        rows.append(out[1 + node.N:])
    if i == 0 and node.K > 0:
        rows = [[x[None][:0] for x in turn(0, going)[1 + node.N:]]]
        return (*state, *rows[0])
    return (*state, *(numpy.stack([r[k] for r in rows]) for k in range(node.K)))


mend("Loop without a condition, or with rows", "Loop", loop_rows, loop)


# Scan: the rows of a scan over nothing have the shape of those over something.

def scan_nothing(node, args, kwargs):
    return args[-1].shape[0] == 0


def scan_shapes(node, args, kwargs):
    many = len(args) - node.num_scan_inputs
    given = dict(kwargs["context"] or {})
    given.update(zip(node.input_names, [*args[:many], *(numpy.zeros(x.shape[1:], x.dtype) for x in args[many:])]))
    return (*args[:many], *(x[None][:0] for x in node._run_body(given)[many:]))


mend("Scan over nothing", "Scan", scan_nothing, scan_shapes)


def ordered(graph):
    """Puts nodes after those that they read, as ONNX asks and Weir does; reports whether it moved any."""
    made = {name for node in graph.node for name in node.output if name}
    ready, left, out = set(), list(graph.node), []

    def reads(node):
        names = set(node.input)
        for a in node.attribute:
            if a.HasField("g"):
                names |= {n for inner in a.g.node for n in reads(inner)} | {o.name for o in a.g.output}
        return names

    moved = False
    while left:
        k = next((k for k, node in enumerate(left) if not (reads(node) & made) - ready), None)
        if k is None:
            return False  # a cycle
        moved = moved or k > 0
        ready |= set(left[k].output)
        out.append(left.pop(k))
    del graph.node[:]
    graph.node.extend(out)
    return moved


def main(folder):
    warnings.simplefilter("ignore")
    numpy.seterr(all="ignore")
    classes = {}
    for path in sorted(glob.glob(os.path.join(folder, "*.onnx"))):
        name = path[:-5]
        acted.clear()
        try:
            model = onnx.load(path)
            version = model.opset_import[0].version
            if ordered(model.graph):
                acted.append("nodes out of order")
                needed["nodes out of order"] = True  # the evaluator looks for what is not there yet
            if version not in classes:
                classes[version] = [mended(op, version) for op in sorted({m[1] for m in mends})]
            given = {value.name: numpy.load(f"{name}.in{i}.npy") for i, value in enumerate(model.graph.input)}
            evaluator = ReferenceEvaluator(model, new_ops=list(classes[version]))
            for i, result in enumerate(evaluator.run(None, given)):
                numpy.save(f"{name}.out{i}.npy", numpy.asarray(result))
        except Exception as e:  # noqa: BLE001
            with open(f"{name}.error", "w", encoding="utf-8") as f:
                f.write(f"{type(e).__name__}: {e}")
        if acted:
            with open(f"{name}.mended", "w", encoding="utf-8") as f:
                f.write("\n".join(sorted(set(acted))))
    with open(os.path.join(folder, "witness.txt"), "w", encoding="utf-8") as f:
        f.write("\n".join(witness))
    for name, is_needed in (("needed", True), ("idle", False)):
        with open(os.path.join(folder, name + ".txt"), "w", encoding="utf-8") as f:
            f.write("\n".join(sorted(m for m in {m[0] for m in mends} | set(needed) if needed[m] == is_needed)))


if __name__ == "__main__":
    main(sys.argv[1])
