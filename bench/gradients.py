"""Compares derivatives with PyTorch's, operator by operator, through ONNX's Gradient and `weir run`.

Usage: gradients.py WEIR FOLDER [NAME...]   prints a line a function: the largest difference relative to the largest derivative.
Needs what bench/requirements.txt pins; `make gradients` sets that up.
"""
import pathlib
import subprocess
import sys

import numpy as np
import onnx
import torch
import torch.nn.functional as F
import torchvision.ops
from onnx import TensorProto, helper, numpy_helper

TOLERANCE = 1e-4
TRAINING = "ai.onnx.preview.training"


def node(op, inputs, outputs="y", **attributes):
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


def unary(op, f, low=-2.0, **attributes):
    return dict(nodes=[node(op, "a", **attributes)], f=f, shapes=[(3, 5)], low=low)


def unary_of(op, f, shape):
    return dict(nodes=[node(op, "a")], f=f, shapes=[shape])


def binary(op, f, low=-2.0, shapes=((3, 5), (5,))):
    return dict(nodes=[node(op, "a b")], f=f, shapes=list(shapes), low=low)


def reduction(op, f, low=-2.0):
    return dict(nodes=[node(op, "a axes", keepdims=0)], f=f, shapes=[(3, 4, 5)], low=low, axes=np.array([1]))


def convolution(rank, f, channels=4, filters=6, groups=1, then=(), **attributes):
    kernel = (3,) * rank
    return dict(nodes=[node("Conv", "a b c", "q" if then else "y", kernel_shape=kernel, group=groups, **attributes), *then], f=f,
                shapes=[(2, channels) + (7, 6, 5)[:rank], (filters, channels // groups) + kernel, (filters,)])


def recurrent(op, gates, order):
    """A layer of 4 steps, 2 sequences, 3 inputs and 5 units; order maps ONNX's gates to PyTorch's."""
    def f(x, w, r, b):
        layer = getattr(torch.nn, op)(3, 5)
        sort = lambda v: torch.cat([v.reshape(gates, 5, *v.shape[1:])[i] for i in order])
        weights = {"weight_ih_l0": sort(w[0]), "weight_hh_l0": sort(r[0]), "bias_ih_l0": sort(b[0, :gates * 5]), "bias_hh_l0": sort(b[0, gates * 5:])}
        return torch.func.functional_call(layer, weights, x)[0].unsqueeze(1)
    attributes = dict(linear_before_reset=1) if op == "GRU" else {}
    return dict(nodes=[node(op, "a b c d", hidden_size=5, **attributes)], f=f,
                shapes=[(4, 2, 3), (1, gates * 5, 3), (1, gates * 5, 5), (1, gates * 10)])


def batch_norm(x, s, b):
    return F.batch_norm(x, None, None, s, b, training=True)


def attended(q, k, v):
    return F.scaled_dot_product_attention(q, k, v)


def regions(op, rows, f, **attributes):
    """An operator on constant regions: rows of image, x, y, x, y, in torchvision's form."""
    rows = np.array(rows, np.float32)
    given = dict(rois=rows) if op == "MaxRoiPool" else dict(rois=rows[:, 1:], images=rows[:, 0].astype(np.int64))
    return dict(nodes=[node(op, "a " + " ".join(given), **attributes)], f=lambda x: f(x, torch.tensor(rows)), shapes=[(2, 3, 9, 8)], **given)


def deform(groups, offset_groups, **settings):
    """A deformable convolution of 4 channels and 6 filters by a window of 3 x 2, with a mask."""
    attributes = dict(strides=[2, 1], pads=[1, 0, 1, 0], dilations=[1, 2], group=groups, offset_group=offset_groups, kernel_shape=[3, 2])
    f = lambda x, w, o, b, m: torchvision.ops.deform_conv2d(x, o, w, b, stride=(2, 1), padding=(1, 0), dilation=(1, 2), mask=m)
    places = 6 * offset_groups
    return dict(nodes=[node("DeformConv", "a b c d e", **attributes)], f=f,
                shapes=[(2, 4, 7, 6), (6, 4 // groups, 3, 2), (2, 2 * places, 4, 4), (6,), (2, places, 4, 4)], **settings)


def twice(case):
    """The second derivatives of a case: derivatives of a weighted sum of the first ones."""
    return dict(case, twice=True)


SINGULAR = np.array([[5, 1, 2], [7, 1, 2], [3, 1, 2]], np.float32)
MASK = np.array([[True, False, True, True, False], [False, False, True, False, True], [True, True, False, False, False]])
PAIRS = np.array([[2, 1], [0, 1], [2, 3], [2, 1]])
INDEX = torch.tensor([2, 0, 2, 1])
PLACES = np.array([[0, 2, 1, 1, 2], [1, 1, 0, 2, 0]])
CLASSES = np.array([1, 4, 0])

CASES = {
    "relu": unary("Relu", F.relu), "sigmoid": unary("Sigmoid", torch.sigmoid), "tanh": unary("Tanh", torch.tanh), "exp": unary("Exp", torch.exp),
    "log": unary("Log", torch.log, 0.1), "sqrt": unary("Sqrt", torch.sqrt, 0.1), "abs": unary("Abs", torch.abs), "erf": unary("Erf", torch.erf),
    "sin": unary("Sin", torch.sin), "cos": unary("Cos", torch.cos), "gelu": unary("Gelu", F.gelu),
    "gelu tanh": unary("Gelu", lambda x: F.gelu(x, approximate="tanh"), approximate="tanh"), "mish": unary("Mish", F.mish),
    "elu": unary("Elu", F.elu), "selu": unary("Selu", F.selu), "softplus": unary("Softplus", F.softplus), "softsign": unary("Softsign", F.softsign),
    "hardswish": unary("HardSwish", F.hardswish), "leaky relu": unary("LeakyRelu", F.leaky_relu),
    "silu": dict(nodes=[node("Sigmoid", "a", "s"), node("Mul", "a s")], f=F.silu, shapes=[(3, 5)]),
    "add": binary("Add", torch.add), "sub": binary("Sub", torch.sub), "mul": binary("Mul", torch.mul), "div": binary("Div", torch.div, 0.5),
    "pow": binary("Pow", torch.pow, 0.5), "max": binary("Max", torch.maximum), "min": binary("Min", torch.minimum),
    "prelu": binary("PRelu", lambda x, s: torch.where(x < 0, s * x, x)),
    "clip": dict(nodes=[node("Clip", "a low high")], f=lambda x: x.clamp(-1, 1), shapes=[(3, 5)], low_=np.float32(-1), high=np.float32(1)),
    "where": dict(nodes=[node("Where", "choice a b")], f=lambda x, y: torch.where(torch.tensor([True, False, True, False, False]), x, y), shapes=[(3, 5), (3, 1)],
                  choice=np.array([True, False, True, False, False])),
    "matmul": binary("MatMul", torch.matmul, shapes=((3, 4), (4, 5))), "matmul of many": binary("MatMul", torch.matmul, shapes=((2, 1, 3, 4), (3, 4, 5))),
    "matmul by one": binary("MatMul", torch.matmul, shapes=((2, 6, 3, 4), (4, 5))), "matmul vector": binary("MatMul", torch.matmul, shapes=((2, 3, 4), (4,))),
    "gemm": dict(nodes=[node("Gemm", "a b c", transB=1)], f=F.linear, shapes=[(3, 4), (5, 4), (5,)]),
    "einsum": dict(nodes=[node("Einsum", "a b", equation="bqhd,bkhd->bhqk")], f=lambda x, y: torch.einsum("bqhd,bkhd->bhqk", x, y), shapes=[(2, 3, 2, 4), (2, 5, 2, 4)]),
    "softmax": unary("Softmax", lambda x: x.softmax(-1)), "log softmax": unary("LogSoftmax", lambda x: x.log_softmax(0), axis=0),
    "cross entropy": dict(nodes=[node("SoftmaxCrossEntropyLoss", "a classes")], f=lambda x: F.cross_entropy(x, torch.tensor(CLASSES)), shapes=[(3, 5)], classes=CLASSES),
    "sum": reduction("ReduceSum", lambda x: x.sum(1)), "mean": reduction("ReduceMean", lambda x: x.mean(1)), "amax": reduction("ReduceMax", lambda x: x.amax(1)),
    "amin": reduction("ReduceMin", lambda x: x.amin(1)), "prod": reduction("ReduceProd", lambda x: x.prod(1)), "norm": reduction("ReduceL2", lambda x: x.norm(dim=1)),
    "logsumexp": reduction("ReduceLogSumExp", lambda x: x.logsumexp(1)),
    "layer norm": dict(nodes=[node("LayerNormalization", "a b c")], f=lambda x, s, b: F.layer_norm(x, (5,), s, b), shapes=[(3, 4, 5), (5,), (5,)]),
    "rms norm": dict(nodes=[node("RMSNormalization", "a b")], f=lambda x, s: F.rms_norm(x, (5,), s, 1e-5), shapes=[(3, 4, 5), (5,)]),
    "instance norm": dict(nodes=[node("InstanceNormalization", "a b c")], f=lambda x, s, b: F.instance_norm(x, weight=s, bias=b), shapes=[(2, 3, 4, 5), (3,), (3,)]),
    "group norm": dict(nodes=[node("GroupNormalization", "a b c", num_groups=2)], f=lambda x, s, b: F.group_norm(x, 2, s, b), shapes=[(2, 4, 3, 5), (4,), (4,)]),
    "batch norm": dict(nodes=[node("BatchNormalization", "a b c mean variance", training_mode=1)], f=batch_norm, shapes=[(3, 4, 5, 2), (4,), (4,)],
                       mean=np.zeros(4, np.float32), variance=np.ones(4, np.float32)),
    "batch norm given": dict(nodes=[node("BatchNormalization", "a b c mean variance")],
                             f=lambda x, s, b: F.batch_norm(x, torch.full((4,), 0.5), torch.full((4,), 2.0), s, b), shapes=[(3, 4, 5, 2), (4,), (4,)],
                             mean=np.full(4, 0.5, np.float32), variance=np.full(4, 2, np.float32)),
    "conv 1d": convolution(1, lambda x, w, b: F.conv1d(x, w, b, stride=2, padding=1), strides=[2], pads=[1, 1]),
    "conv 2d": convolution(2, lambda x, w, b: F.conv2d(x, w, b, padding=1), pads=[1] * 4),
    "conv 2d groups": convolution(2, lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=(0, 2), dilation=2, groups=2), groups=2, strides=[2, 2], pads=[0, 2, 0, 2], dilations=[2, 2]),
    "conv 2d depthwise": convolution(2, lambda x, w, b: F.conv2d(x, w, b, padding=1, groups=4), filters=4, groups=4, pads=[1] * 4),
    "conv 2d wide": convolution(2, lambda x, w, b: F.conv2d(x, w, b, padding=1), channels=16, filters=8, pads=[1] * 4),
    "conv 3d": convolution(3, lambda x, w, b: F.conv3d(x, w, b, stride=(2, 1, 1)), strides=[2, 1, 1]),
    "conv transposed": dict(nodes=[node("ConvTranspose", "a b c", strides=[2, 2], pads=[1, 0, 1, 0], group=2)],
                            f=lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2, padding=(1, 0), groups=2), shapes=[(2, 4, 5, 4), (4, 3, 3, 3), (6,)]),
    "max pool": dict(nodes=[node("MaxPool", "a", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)], f=lambda x: F.max_pool2d(x, 3, 2, 1), shapes=[(2, 3, 7, 6)]),
    "max pool apart": dict(nodes=[node("MaxPool", "a", kernel_shape=[2, 2], strides=[2, 2])], f=lambda x: F.max_pool2d(x, 2), shapes=[(2, 3, 8, 6)]),
    "average pool": dict(nodes=[node("AveragePool", "a", kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 0])],
                         f=lambda x: F.avg_pool2d(x, (3, 2), (2, 1), (1, 0), count_include_pad=False), shapes=[(2, 3, 7, 6)]),
    "global average pool": dict(nodes=[node("GlobalAveragePool", "a")], f=lambda x: F.adaptive_avg_pool2d(x, 1), shapes=[(2, 3, 7, 6)]),
    "embedding": dict(nodes=[node("Gather", "a index")], f=lambda x: F.embedding(INDEX, x), shapes=[(3, 5)], index=INDEX.numpy()),
    "gather": dict(nodes=[node("GatherElements", "a places", axis=0)], f=lambda x: x.gather(0, torch.tensor(PLACES)), shapes=[(3, 5)], places=PLACES),
    "scatter add": dict(nodes=[node("ScatterElements", "a places b", axis=0, reduction="add")], f=lambda x, y: x.scatter_add(0, torch.tensor(PLACES), y), shapes=[(3, 5), (2, 5)], places=PLACES),
    "slice": dict(nodes=[node("Slice", "a starts ends axes steps")], f=lambda x: x[:, 1:9:3], shapes=[(3, 10)], starts=np.array([1]), ends=np.array([9]), axes=np.array([1]), steps=np.array([3])),
    "pad": dict(nodes=[node("Pad", "a pads", mode="reflect")], f=lambda x: F.pad(x, (2, 1), mode="reflect"), shapes=[(2, 3, 5)], pads=np.array([0, 0, 2, 0, 0, 1])),
    "concat": dict(nodes=[node("Concat", "a b", axis=1)], f=lambda x, y: torch.cat([x, y], 1), shapes=[(3, 2), (3, 4)]),
    "split": dict(nodes=[node("Split", "a sizes", "p y", axis=1)], f=lambda x: x.split([2, 3], 1)[1], shapes=[(3, 5)], sizes=np.array([2, 3])),
    "transpose": dict(nodes=[node("Transpose", "a", perm=[2, 0, 1])], f=lambda x: x.permute(2, 0, 1), shapes=[(3, 4, 5)]),
    "tile": dict(nodes=[node("Tile", "a times")], f=lambda x: x.repeat(2, 3), shapes=[(3, 5)], times=np.array([2, 3])),
    "expand": dict(nodes=[node("Expand", "a shape")], f=lambda x: x.expand(4, 3, 5), shapes=[(3, 1)], shape=np.array([4, 3, 5])),
    "cumsum": dict(nodes=[node("CumSum", "a axis")], f=lambda x: x.cumsum(1), shapes=[(3, 5)], axis=np.array(1)),
    "triu": dict(nodes=[node("Trilu", "a", upper=1)], f=torch.triu, shapes=[(2, 4, 5)]),
    "topk": dict(nodes=[node("TopK", "a k", "y i")], f=lambda x: x.topk(2)[0], shapes=[(3, 5)], k=np.array([2])),
    "resize": dict(nodes=[node("Resize", "a none scales", mode="linear")], f=lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), shapes=[(1, 2, 4, 3)],
                   none=np.array([], np.float32), scales=np.array([1, 1, 2, 2], np.float32)),
    "grid sample": dict(nodes=[node("GridSample", "a b", mode="linear", padding_mode="zeros")], f=lambda x, g: F.grid_sample(x, g, align_corners=False), shapes=[(2, 3, 5, 4), (2, 3, 3, 2)], scale=0.5),
    "attention": dict(nodes=[node("Attention", "a b c")], f=attended, shapes=[(2, 3, 4, 5), (2, 3, 6, 5), (2, 3, 6, 7)]),
    "roi align": regions("RoiAlign", [[0, 1, 2, 12, 9], [1, -1, 0, 5, 17], [1, 4, 4, 4.5, 5]],
                         lambda x, r: torchvision.ops.roi_align(x, r, (3, 2), 0.5, 2, True),
                         output_height=3, output_width=2, spatial_scale=0.5, sampling_ratio=2, coordinate_transformation_mode="half_pixel"),
    "roi align adaptive": regions("RoiAlign", [[0, 1, 2, 12, 9], [1, -1, 0, 5, 17], [1, 4, 4, 4.5, 5]],
                                  lambda x, r: torchvision.ops.roi_align(x, r, (2, 3), 0.75, -1, False),
                                  output_height=2, output_width=3, spatial_scale=0.75, coordinate_transformation_mode="output_half_pixel"),
    "roi pool": regions("MaxRoiPool", [[0, 1, 2, 12, 9], [1, 0, 0, 5, 15], [1, 4, 4, 5, 5], [0, 20, 20, 22, 22]],
                        lambda x, r: torchvision.ops.roi_pool(x, r, (3, 2), 0.5), pooled_shape=[3, 2], spatial_scale=0.5),
    "deform conv": deform(1, 1), "deform conv groups": deform(2, 2), "deform conv far": deform(1, 2, scale=4),
    "det": unary_of("Det", torch.linalg.det, (2, 4, 4)), "det of 1": unary_of("Det", torch.linalg.det, (3, 1, 1)),
    "det singular": dict(nodes=[node("Sub", "a given", "p"), node("Add", "p matrix", "q"), node("Det", "q")],
                         f=lambda x: torch.linalg.det(torch.tensor(SINGULAR) + x - x.detach()), shapes=[(3, 3)], matrix=SINGULAR, given=None),
    "index by mask": dict(nodes=[node("NonZero", "mask", "i"), node("Transpose", "i", "j"), node("GatherND", "a j", "g"), node("Mul", "g g")],
                          f=lambda x: x[torch.tensor(MASK)] ** 2, shapes=[(3, 5)], mask=MASK),
    "index by arrays": dict(nodes=[node("GatherND", "a pairs", "g"), node("CumSum", "g axis", "h"), node("Mul", "h g")],
                            f=lambda x: x[PAIRS[:, 0], PAIRS[:, 1]].cumsum(0) * x[PAIRS[:, 0], PAIRS[:, 1]], shapes=[(3, 5)], pairs=PAIRS, axis=np.array(0)),
    "sort and gather": dict(nodes=[node("TopK", "a k", "v i"), node("GatherElements", "b i", "g", axis=1), node("Mul", "g v")],
                            f=lambda x, y: x.sort(1, True)[0] * y.gather(1, x.sort(1, True)[1]), shapes=[(3, 5), (3, 5)], k=np.array([5])),
    "cumsum of products": dict(nodes=[node("Mul", "a b", "p"), node("CumSum", "p axis", "c", exclusive=1, reverse=1), node("Tanh", "c")],
                               f=lambda x, y: torch.tanh((x * y).flip(1).cumsum(1).flip(1) - x * y), shapes=[(3, 5), (5,)], axis=np.array(1)),
    "einsum repeated": dict(nodes=[node("Einsum", "a b", equation="bii,bij->bj")], f=lambda x, y: torch.einsum("bii,bij->bj", x, y), shapes=[(2, 4, 4), (2, 4, 3)]),
    "einsum of three": dict(nodes=[node("Einsum", "a b c", equation="ij,jk,ik->i")], f=lambda x, y, z: torch.einsum("ij,jk,ik->i", x, y, z), shapes=[(3, 4), (4, 5), (3, 5)]),
    "distances": dict(nodes=[node("Unsqueeze", "a one", "r"), node("Sub", "r b", "d"), node("ReduceL2", "d last", "n", keepdims=0), node("ReduceLogSumExp", "n one", keepdims=0)],
                      f=lambda x, y: (x[:, None] - y).norm(dim=-1).logsumexp(1), shapes=[(3, 4), (5, 4)], one=np.array([1]), last=np.array([-1])),
    "masked softmax": dict(nodes=[node("Where", "mask a low", "w"), node("Softmax", "w", "s"), node("MatMul", "s b")],
                           f=lambda x, y: x.masked_fill(~torch.tensor(MASK), -1e4).softmax(-1) @ y, shapes=[(3, 5), (5, 2)], mask=MASK, low_=np.float32(-1e4)),
    "scatter rows": dict(nodes=[node("ScatterND", "a rows b", "s", reduction="add"), node("Mul", "s s")], f=lambda x, y: x.index_add(0, INDEX, y) ** 2,
                         shapes=[(3, 5), (4, 5)], rows=INDEX.numpy()[:, None]),
    "turned and padded": dict(nodes=[node("Slice", "a starts ends axes steps", "t"), node("Concat", "t a", "c", axis=1), node("Pad", "c pads", "p", mode="edge"), node("Mul", "p p")],
                              f=lambda x: F.pad(torch.cat([x.flip(1)[:, ::2], x], 1), (1, 2), mode="replicate") ** 2, shapes=[(2, 5, 3)],
                              starts=np.array([4]), ends=np.array([-9]), axes=np.array([1]), steps=np.array([-2]), pads=np.array([0, 0, 1, 0, 0, 2])),
    "second of softmax": twice(unary("Softmax", lambda x: x.softmax(-1))), "second of gelu": twice(unary("Gelu", F.gelu)),
    "second of layer norm": twice(dict(nodes=[node("LayerNormalization", "a b c")], f=lambda x, s, b: F.layer_norm(x, (5,), s, b), shapes=[(3, 4, 5), (5,), (5,)])),
    "second of conv": twice(convolution(2, lambda x, w, b: F.conv2d(x, w, b, padding=1) ** 2, pads=[1] * 4, then=[node("Mul", "q q")])),
    "second of det": twice(unary_of("Det", torch.linalg.det, (2, 4, 4))),
    "second of distances": twice(dict(nodes=[node("Sub", "a b", "d"), node("ReduceL2", "d last", keepdims=0)], f=lambda x, y: (x - y).norm(dim=-1), shapes=[(3, 4), (4,)], last=np.array([-1]))),
    "lstm": recurrent("LSTM", 4, [0, 2, 3, 1]), "gru": recurrent("GRU", 3, [1, 0, 2]), "rnn": recurrent("RNN", 1, [0]),
}
OPTIONS = ("nodes", "f", "shapes", "low", "scale", "twice")


def arguments(case):
    """Random arguments; numbers between low and above it are never near a tie."""
    generator = np.random.default_rng(1)
    low = case.get("low", -2.0)
    draw = (lambda s: generator.standard_normal(s)) if low < 0 else (lambda s: low + 2 * generator.random(s))
    return [(case.get("scale", 1) * draw(s)).astype(np.float32) for s in case["shapes"]]


def build(case, args, seed):
    """The model: the function, its result times a seed, and the derivatives of the product."""
    names = NAMES[:len(args)]
    given = {("low" if k == "low_" else k): args[0] if v is None else v for k, v in case.items() if k not in OPTIONS}
    constants = [numpy_helper.from_array(np.asarray(v), k) for k, v in given.items()] + [numpy_helper.from_array(seed, "seed")]
    derived = lambda to, y: helper.make_node("Gradient", list(names), [to + n for n in names], domain=TRAINING, xs=list(names), y=y)
    nodes = case["nodes"] + [node("Mul", "y seed", "z")]
    if case.get("twice"):
        nodes += [derived("first_", "z")]
        for n in names:
            nodes += [node("Mul", f"first_{n} first_{n}", f"square_{n}"), node("ReduceSum", f"square_{n}", f"sum_{n}", keepdims=0)]
        nodes += [node("Sum", " ".join(f"sum_{n}" for n in names), "w"), derived("d", "w")]
    else:
        nodes += [derived("d", "z")]
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in zip(names, args)]
    outputs = [helper.make_tensor_value_info("d" + n, TensorProto.FLOAT, a.shape) for n, a in zip(names, args)]
    graph = helper.make_graph(nodes, "gradient", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23), helper.make_opsetid(TRAINING, 1)], ir_version=10)


# The arguments' names, in the model's order.
NAMES = "abcde"


def compare(weir, name, folder):
    case = CASES[name]
    args = arguments(case)
    leaves = [torch.tensor(a, requires_grad=True) for a in args]
    y = case["f"](*leaves)
    seed = np.random.default_rng(2).random(tuple(y.shape)).astype(np.float32) + 0.5
    want = torch.autograd.grad((y * torch.tensor(seed)).sum(), leaves, create_graph=case.get("twice", False))
    if case.get("twice"):
        want = torch.autograd.grad(sum((w * w).sum() for w in want), leaves, allow_unused=True)
        want = [torch.zeros_like(x) if w is None else w for w, x in zip(want, leaves)]
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(build(case, args, seed), folder / "model.onnx")
    inputs = []
    for n, a in zip(NAMES, args):
        np.save(folder / f"{n}.npy", a)
        inputs += ["--input", f"{n}={folder / f'{n}.npy'}"]
    run = subprocess.run([weir, "run", str(folder / "model.onnx"), "--output", str(folder), *inputs], capture_output=True, text=True)
    if run.returncode:
        print(f"{name:20} {run.stderr.strip()}", flush=True)
        return None
    wrong = 0.0
    for n, w in zip(NAMES, want):
        got = np.load(folder / f"d{n}.npy")
        wrong = max(wrong, float(np.abs(got - w.numpy()).max()) / max(1.0, float(w.abs().max())))
    print(f"{name:20} error {wrong:.1e}  {'ok' if wrong < TOLERANCE else 'WRONG'}", flush=True)
    return wrong


def main():
    weir, folder, names = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:] or list(CASES)
    errors = [compare(weir, name, folder / name.replace(" ", "-")) for name in names]
    good = sum(e is not None and e < TOLERANCE for e in errors)
    print(f"{good} of {len(names)} derivatives as PyTorch has them, the largest error {max(e or 0 for e in errors):.1e}")
    sys.exit(good < len(names))


if __name__ == "__main__":
    main()
