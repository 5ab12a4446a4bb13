"""Calls of operators that torch's samples of functions do not come to, for operators.py.

Each becomes a graph of one node, without the decompositions that the way through a function takes. Functions are for
operators whose results only others read.
"""

from __future__ import annotations

import math
import operator
from typing import Any, Iterator

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils import _pytree as pytree

aten = torch.ops.aten


def _floats(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(math.prod(shape) + len(shape)))


def _ints(*shape: int, least: int = -9, most: int = 9) -> torch.Tensor:
    return torch.randint(least, most, shape, generator=torch.Generator().manual_seed(math.prod(shape)))


def _bags(mode: int, last: bool = False, padding: int = -1, weights: bool = False) -> tuple[Any, ...]:
    offsets = [0, 3, 3, 6, 10] if last else [0, 3, 3, 6]
    return (_floats(7, 3), _ints(10, least=0, most=7), torch.tensor(offsets), False, mode, False, _floats(10) if weights else None, last, padding)


def _norm_back(groups: bool) -> tuple[Any, ...]:
    x, g, w = _floats(2, 6, 5), _floats(2, 6, 5) * 2, _floats(6)
    if groups:
        _, mean, rstd = aten.native_group_norm(x, w, _floats(6), 2, 6, 5, 3, 1e-5)
        return (g, x, mean, rstd, w, 2, 6, 5, 3, [True, True, True])
    w = _floats(6, 5)
    _, mean, rstd = aten.native_layer_norm(x, [6, 5], w, _floats(6, 5), 1e-5)
    return (g, x, [6, 5], mean, rstd, w, _floats(6, 5), [True, True, True])


def _distances_back(p: float, pairs: bool) -> tuple[Any, ...]:
    x = _floats(6, 3)
    x[2] = x[1]  # a distance of 0
    if pairs:
        return (_floats(15), x, p, aten._pdist_forward(x, p))
    x, y = x.expand(2, 6, 3).contiguous(), torch.cat([x, _floats(1, 3)]).expand(2, 7, 3).contiguous()
    return (_floats(2, 6, 7), x, y, p, aten._cdist_forward(x, y, p, None))


def _bags_back(mode: int, padding: int = -1, weights: bool = False, often: bool = False) -> tuple[Any, ...]:
    args = _bags(mode, padding=padding, weights=weights)
    _, _, sizes, greatest = aten._embedding_bag(*args)
    bag = torch.tensor([0, 0, 0, 2, 2, 2, 3, 3, 3, 3])
    return (_floats(4, 3), args[1], bag, sizes, greatest, 7, often, mode, args[6], padding)


def _bag_weights_back(padding: int = -1) -> tuple[Any, ...]:
    table, indices, offsets, *_ = _bags(0, padding=padding, weights=True)
    bag = aten._embedding_bag(*_bags(0, padding=padding, weights=True))[1]
    return (_floats(4, 3), table, indices, offsets, bag, 0, padding)


_ORDERS = (0.0, 0.7, 1.0, 1.5, 2.0, 3.5, math.inf)
_RUNNING = (_floats(4), _floats(4).abs() + 1)

CALLS: dict[Any, list[tuple[Any, ...]]] = {
    aten._adaptive_avg_pool2d.default: [(_floats(2, 3, 7, 9), [3, 2]), (_floats(3, 7, 9), [1, 4])],
    aten._adaptive_avg_pool2d_backward.default: [(_floats(2, 3, 3, 2), _floats(2, 3, 7, 9)), (_floats(3, 1, 4), _floats(3, 7, 9))],
    aten._adaptive_avg_pool3d.default: [(_floats(2, 3, 7, 4, 5), [3, 2, 1]), (_floats(3, 7, 4, 5), [7, 2, 2])],
    aten._cdist_forward.default: [(_floats(2, 5, 3), _floats(2, 4, 3), p, None) for p in (0.0, 1.0, 2.0, 3.5, math.inf)]
    + [(_floats(30, 3), _floats(40, 3), 2.0, 1), (_floats(3, 1, 5, 3), _floats(2, 4, 3), 2.0, 2), (_floats(3, 0), _floats(2, 0), 2.0, None)],
    aten._embedding_bag.default: [_bags(0), _bags(1), _bags(2), _bags(0, weights=True), _bags(1, True), _bags(1, padding=4), _bags(2, padding=4)],
    aten._embedding_bag_forward_only.default: [_bags(0), _bags(2, True)],
    aten._native_batch_norm_legit.default: [(_floats(3, 4, 5), _floats(4), None, *_RUNNING, False, 0.1, 1e-5)],
    aten._native_batch_norm_legit.no_stats: [
        (_floats(3, 4, 5), _floats(4), _floats(4), True, 0.1, 1e-5),
        (_floats(3, 4), None, None, True, 0.1, 1e-3),
    ],
    aten._native_batch_norm_legit_no_training.default: [
        (_floats(3, 4, 5), _floats(4), _floats(4), *_RUNNING, 0.1, 1e-5),
        (_floats(3, 4), None, None, *_RUNNING, 0.1, 1e-3),
    ],
    aten._pdist_forward.default: [(_floats(6, 3), p) for p in (0.0, 1.0, 2.0, 3.5, math.inf)] + [(_floats(1, 3), 2.0)],
    aten.adaptive_avg_pool1d.default: [(_floats(2, 3, 7), [3]), (_floats(3, 7), [1])],
    aten.as_strided.default: [
        (_floats(4, 6), [6, 4], [1, 6]),
        (_floats(4, 6), [3, 4], [2, 3], 5),
        (_floats(24), [2, 3, 4], [12, 4, 1]),
        (_floats(24), [21, 4], [1, 1]),
        (_floats(24), [], [], 3),
        (_floats(24), [0, 4], [4, 1], 3),
        (_floats(4, 6), [2, 6], [0, 1], 6),
        (_floats(4, 6).t(), [2, 6], [6, 1], 6),
        (_floats(2, 4, 6).permute(0, 2, 1), [8, 6], [6, 1]),
    ],
    aten.avg_pool1d.default: [(_floats(2, 3, 9), [3], [2], [1]), (_floats(3, 9), [4], [3], [0], True)],
    aten.avg_pool2d.default: [
        (_floats(2, 3, 9, 8), [3, 2], [2], [1], True, True, 5),
        (_floats(3, 9, 8), [3, 2], [3, 3], [1, 0], True, False, -4),
        (_floats(3, 9, 8), [3, 2], [], [0], False, False),
    ],
    aten.avg_pool2d_backward.default: [
        (_floats(2, 3, 5, 5), _floats(2, 3, 9, 8), [3, 2], [2, 2], [1, 1], False, True, None),
        (_floats(3, 3, 4), _floats(3, 9, 8), [3, 2], [3, 2], [0, 0], False, False, 7),
    ],
    aten.avg_pool3d.default: [(_floats(2, 3, 9, 8, 7), [3, 2, 3], [2], [1], True, True, 5)],
    aten.bitwise_and.Scalar: [(_ints(3, 4), 5)],
    aten.bitwise_or.Scalar: [(_ints(3, 4), 5)],
    aten.bitwise_xor.Scalar: [(_ints(3, 4), 5)],
    aten.bitwise_not.default: [(_ints(3, 4),)],
    aten.col2im.default: [
        (_floats(2, 12, 20), [6, 5], [2, 2], [1, 1], [0, 0], [1, 1]),
        (_floats(12, 20), [6, 5], [2, 2], [1, 1], [0, 0], [1, 1]),
        (_floats(2, 12, 9), [6, 5], [2, 3], [2, 1], [1, 1], [2, 2]),
    ],
    aten.convolution_backward.default: [
        (_floats(2, 4, 5, 5), _floats(2, 3, 5, 5), _floats(4, 3, 3, 3), [4], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True, True, True]),
        (_floats(2, 4, 3), _floats(2, 4, 6), _floats(4, 2, 2), [0], [2], [0], [1], False, [0], 2, [True, True, False]),
        (_floats(2, 3, 9), _floats(2, 4, 5), _floats(4, 3, 3), [3], [2], [1], [1], True, [0], 1, [True, True, True]),
    ],
    aten.copy.default: [(_floats(3, 4), _floats(4)), (_ints(3, 4), _floats(3, 4))],
    aten.div.Scalar_mode: [(_floats(3, 4), 0.3), (_ints(3, 4), 2)],
    aten.embedding_dense_backward.default: [
        (_floats(2, 5, 3), _ints(2, 5, least=0, most=7), 7, -1, False),
        (_floats(5, 3), _ints(5, least=0, most=7), 7, 2, False),
    ],
    aten.empty.memory_format: [([3, 4],), (([2, 0],), {"dtype": torch.int64})],
    aten.empty_strided.default: [([3, 4], [4, 1]), ([], [])],
    aten.flip.default: [(_floats(3, 4), [0, -1]), (_floats(3, 0), [1]), (_floats(3), [])],
    aten.fmod.Scalar: [(_floats(3, 4), 0.7), (_ints(3, 4), 4)],
    aten.gather.default: [(_floats(3, 4), 1, _ints(3, 2, least=0, most=4)), (_floats(), 0, torch.tensor(0)), (_floats(), 0, torch.tensor([0, 0]))],
    aten.grid_sampler_2d.default: [
        (_floats(2, 3, 5, 6), _floats(2, 4, 7, 2), mode, padding, align) for mode in (0, 1, 2) for padding in (0, 1, 2) for align in (False, True)
    ],
    aten.index.Tensor: [
        (_floats(3, 4, 5), [None, torch.tensor([1, -1])]),
        (_floats(3, 4, 5), [torch.tensor([1, -1]), None, torch.tensor([[0], [2]])]),
        (_floats(3, 4, 5), [None, torch.tensor([1, -1]), torch.tensor([[0], [2]])]),
        (_floats(3, 4), [_floats(3, 4) > 0]),
        (_floats(3, 4, 5), [None, _floats(4) > 0]),
        (_floats(3, 4, 5), [torch.tensor([True, False, True]), None, torch.tensor([1, 3])]),
    ],
    aten.index_put.default: [
        (_floats(3, 4, 5), [None, torch.tensor([1, -1])], _floats(3, 2, 5)),
        (_floats(3, 4, 5), [None, None, torch.tensor([1, 1, 3])], _floats(3), True),
        (_floats(3, 4, 5), [torch.tensor([1, -1]), None, torch.tensor([[0], [2]])], _floats(2, 2, 4)),
        (_floats(3, 4, 5), [None, torch.tensor([1, -1]), torch.tensor([[0], [2]])], _floats(3, 2, 2), True),
        (_floats(3, 4), [_floats(3, 4) > 0], torch.tensor(7.0)),
        (_floats(3, 4), [_floats(3) > 0], torch.tensor(7.0), True),
        (_floats(3, 4, 5), [_floats(3, 4) > 0], _floats(5)),
        (_floats(3, 4, 5), [None, _floats(4) > 0], _floats(5), True),
        (_ints(3, 4) > 0, [torch.tensor([1, 1])], torch.tensor([True]), True),
    ],
    aten.masked_scatter.default: [
        (_floats(3, 4), _floats(3, 4) > 0, _floats(12)),
        (_floats(3, 4), _floats(4) > 0, _floats(4, 4)),
        (_ints(3, 4), _floats(3, 4) > 9, _ints(0)),
    ],
    aten.max_pool3d_with_indices.default: [(_floats(2, 3, 6, 7, 5), [2, 3, 2], [2, 1, 2], [1, 1, 0]), (_floats(3, 6, 7, 5), [2, 2, 2])],
    aten.mul.Tensor: [(_floats(3, 4), _floats(4)), (_ints(3, 4) > 0, _ints(4) > 0)],
    aten.native_dropout.default: [(_floats(3, 4), 0.5, False), (_floats(3, 4), 0.0, True), (_floats(3, 4), 1.0, True)],
    aten.native_group_norm_backward.default: [_norm_back(True)],
    aten.native_layer_norm_backward.default: [_norm_back(False)],
    aten.nonzero.default: [(_ints(3, 4, least=0, most=2),), (_floats(5) > 0,), (torch.tensor(3),), (torch.tensor(0.0),), (torch.zeros(3, 2),)],
    aten.reflection_pad1d.default: [(_floats(2, 3, 5), [2, 3]), (_floats(3, 5), [4, -1])],
    aten.reflection_pad3d.default: [(_floats(2, 3, 5, 4, 6), [2, 3, 1, 0, 4, 2])],
    aten.replication_pad2d.default: [(_floats(2, 3, 5, 4), [2, 3, -1, 6]), (_floats(3, 5, 4), [-4, 6, 0, 0]), (_floats(3, 5, 4), [0, 0, 3, -5])],
    aten.replication_pad3d.default: [(_floats(2, 3, 5, 4, 6), [2, 3, 1, 0, 4, 2]), (_floats(3, 5, 4, 6), [-1, 3, 1, 0, 4, 2])],
    aten.scatter.value: [(_floats(3, 4), 1, _ints(3, 2, least=0, most=4), 2.5), (_ints(3, 4), 0, _ints(2, 4, least=0, most=3), 5)],
    aten.scatter_reduce.two: [
        (x, 1, _ints(3, 5, least=0, most=4), s, how, own)
        for how in ("sum", "prod", "mean", "amax", "amin")
        for own in (False, True)
        for x, s in ((_floats(3, 4), _floats(3, 6)), (_ints(3, 4), _ints(4, 5)))
    ]
    + [(_floats(), 0, torch.tensor(0), _floats(), "sum", False), (_floats(3, 4), 0, _ints(0, 4), _floats(3, 4), "mean", False)],
    aten.slice_scatter.default: [(_floats(3, 9), _floats(3, 3), 1, 2, 8, 2), (_floats(5, 2), _floats(2, 2), 0, 1, 100, 3)],
    aten.roll.default: [(_floats(3, 4), [5], []), (_floats(3, 4), [-1, 1], [0, 1])],
    aten.sub.Scalar: [(_floats(3, 4), 2, 3), (_ints(3, 4), 2)],
    aten.upsample_bilinear2d.vec: [
        (_floats(2, 3, 5, 6), [8, 4], align, None) for align in (False, True)
    ]
    + [(_floats(2, 3, 5, 6), None, align, [1.7, 2.0]) for align in (False, True)]
    + [(_floats(2, 3, 5, 6), [1, 6], True, None)],
    aten.upsample_nearest2d.vec: [
        (_floats(2, 3, 5, 6), [8, 4], None),
        (_floats(2, 3, 5, 6), None, [2.0, 2.0]),
        (_floats(2, 3, 5, 6), None, [3.0, 1.3]),
        (_ints(2, 3, 5, 6).to(torch.uint8), [10, 7], None),
    ],
    aten.var.dim: [(_floats(3, 4, 5), [1]), (_floats(3, 4, 5), [0, -1], False), (_floats(3, 4, 5), None)],
    # operators that are not core
    aten._cdist_backward.default: [_distances_back(p, False) for p in _ORDERS],
    aten._pdist_backward.default: [_distances_back(p, True) for p in _ORDERS],
    aten._embedding_bag_dense_backward.default: [
        _bags_back(0), _bags_back(1), _bags_back(2), _bags_back(0, weights=True), _bags_back(1, 4), _bags_back(2, 4), _bags_back(0, often=True),
    ],
    aten._embedding_bag_per_sample_weights_backward.default: [_bag_weights_back(), _bag_weights_back(4)],
    aten.atan2.default: [(_floats(3, 4), _floats(4))],
    aten.gt.Scalar: [(_floats(3, 4), 0.25), (_ints(3, 4), 2)],
    aten.ge.Scalar: [(_floats(3, 4), 0.25), (_ints(3, 4), 2)],
    aten.index_fill.int_Scalar: [(_floats(3, 4), 1, torch.tensor([0, -1]), 2.5)],
    aten.index_copy.default: [(_floats(3, 4), 0, torch.tensor([2, 0]), _floats(2, 4))],
    aten.index_add.default: [((_floats(3, 4), 1, torch.tensor([2, 2]), _floats(3, 2)), {"alpha": 3})],
    aten.diagonal.default: [(_floats(3, 4, 5), 1), (_floats(3, 4, 5), -1, 2, 0), (_floats(3, 4, 5), 0, 1, 2)],
    aten.diagonal_scatter.default: [(_floats(3, 4, 5), _floats(5, 3), 1)],
    aten.as_strided_scatter.default: [(_floats(4, 6), _floats(2, 2), [2, 2], [6, 2], 1)],
    aten.unfold.default: [(_floats(3, 11, 2), 1, 4, 3), (_floats(3, 5), -1, 5, 2), (_floats(3, 5), 0, 1, 1), (_floats(), 0, 1, 1)],
    aten.upsample_bicubic2d.vec: [(_floats(2, 3, 5, 6), [8, 4], align, None) for align in (False, True)] + [(_floats(1, 2, 5, 6), None, False, [1.7, 2.0])],
    aten.upsample_linear1d.vec: [(_floats(2, 3, 5), [8], False, None)],
    aten.upsample_trilinear3d.vec: [(_floats(2, 3, 5, 6, 4), [8, 4, 9], False, None)],
    aten._upsample_nearest_exact2d.vec: [(_floats(2, 3, 5, 6), [8, 4], None)],
    aten.upsample_bilinear2d_backward.default: [
        (_floats(2, 3, 8, 4), [8, 4], [2, 3, 5, 6], False, None, None),
        (_floats(2, 3, 8, 4), [8, 4], [2, 3, 5, 6], True, None, None),
    ],
    aten.upsample_nearest2d_backward.default: [
        (_floats(2, 3, 8, 4), [8, 4], [2, 3, 5, 6], None, None),
        (_floats(2, 3, 10, 12), [10, 12], [2, 3, 5, 6], 2.0, 2.0),
    ],
    aten.grid_sampler_2d_backward.default: [(_floats(2, 3, 4, 7), _floats(2, 3, 5, 6), _floats(2, 4, 7, 2), 0, 1, False, [True, True])],
    aten.nll_loss_forward.default: [
        (_floats(5, 4), _ints(5, least=0, most=4), _floats(4).abs(), how, 2) for how in (0, 1, 2)
    ]
    + [(_floats(4), torch.tensor(3), None, 1, -100), (_floats(4), torch.tensor(3), _floats(4).abs(), 0, -100)],
    aten.nll_loss2d_forward.default: [(_floats(2, 4, 3, 3), _ints(2, 3, 3, least=0, most=4), _floats(4).abs(), how, 2) for how in (0, 1, 2)],
    aten.scatter.reduce: [((_floats(3, 4), 1, _ints(3, 5, least=0, most=4), _floats(3, 6)), {"reduce": "multiply"})],
    aten.sort.stable: [((_ints(3, 9),), {"stable": True, "dim": 1}), ((_ints(3, 9),), {"stable": True, "dim": 0, "descending": True})],
}  # fmt: skip


def _transforms(x: torch.Tensor) -> Any:
    return (
        torch.view_as_real(torch.fft.rfft(x)),
        torch.view_as_real(torch.fft.rfftn(x, dim=(2, 0), norm="ortho")),
        torch.fft.fft2(x, norm="forward").abs(),
        torch.view_as_real(torch.fft.ifft(torch.fft.fft(x, dim=1).conj(), dim=1) * 2),
        torch.fft.irfft2(torch.fft.rfft2(x) * x[:, :, :4], s=x.shape[-2:]),
        torch.fft.ihfft(x).imag,
        torch.fft.hfft(torch.fft.rfft(x)),
    )


def _turned(x: torch.Tensor) -> Any:
    """Rotary embeddings, by complex numbers."""
    z = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
    turns = torch.polar(torch.ones_like(x[0, :, :3]), x[0, :, :3])
    return torch.view_as_real(z * turns).flatten(2), (torch.cat([z, z * 1j], 1) + z.sum()).real, (z.mean(1) / 2).angle()


FUNCTIONS: list[tuple[Any, list[torch.Tensor]]] = [
    (_transforms, [_floats(3, 5, 6)]),
    (_transforms, [_floats(4, 4, 7).double()]),
    (_turned, [_floats(2, 5, 6)]),
    (lambda x, n: x * n.item(), [_floats(3, 4), torch.tensor(2.5)]),
    (lambda x: x[x > 0] * 2, [_floats(3, 4)]),
]

_NAMED: dict[Any, dict[str, Any]] = {aten.div.Scalar_mode: {"rounding_mode": "floor"}}


def _traced(function: Any, tensors: list[torch.Tensor]) -> Any:
    """A function's graph, and torch's results."""
    gm = make_fx(function, tracing_mode="fake")(*tensors)
    output = gm.graph.output_node()
    output.args = (tuple(pytree.tree_leaves(output.args[0])),)
    gm.graph.eliminate_dead_code()
    gm.recompile()
    with torch.no_grad():
        return gm, pytree.tree_leaves(function(*tensors))


def traced() -> Iterator[tuple[set[str], list[torch.Tensor], torch.fx.GraphModule, list[torch.Tensor]]]:
    """The operators of each function, its arguments, its graph, and torch's results."""
    for function, tensors in FUNCTIONS:
        gm, want = _traced(function, tensors)
        yield {str(n.target) for n in gm.graph.nodes if isinstance(n.target, torch._ops.OpOverload)}, tensors, gm, want


def calls() -> Iterator[tuple[Any, list[torch.Tensor], torch.fx.GraphModule, list[torch.Tensor | None]]]:
    """Each call's operator, its arguments, its graph, and torch's results."""
    for target, list_of_args in CALLS.items():
        for args in list_of_args:
            named = _NAMED.get(target, {})
            if len(args) == 2 and isinstance(args[0], tuple):
                args, named = args
            if target is aten.scatter_reduce.two:
                args, named = args[:-1], {"include_self": args[-1]}
            yield call(target, args, named)


def call(target: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """A graph of one node, and torch's results."""
    flat, spec = pytree.tree_flatten((args, named))
    places = [i for i, a in enumerate(flat) if isinstance(a, torch.Tensor)]
    tensors = [flat[i] for i in places]
    with torch.no_grad():
        want = target(*args, **named)
    graph, mode = torch.fx.Graph(), FakeTensorMode(shape_env=ShapeEnv(), static_shapes=True, allow_non_fake_inputs=True)
    shown, nodes = list(flat), list(flat)
    for k, i in enumerate(places):
        shown[i], nodes[i] = mode.from_tensor(tensors[k]), graph.placeholder(f"t{k}")
        nodes[i].meta["val"] = shown[i]
    args, named = pytree.tree_unflatten(nodes, spec)
    node = graph.call_function(target, args, named)
    args, named = pytree.tree_unflatten(shown, spec)
    with mode, torch.no_grad():
        node.meta["val"] = target(*args, **named)
    results = [node]
    if not isinstance(want, torch.Tensor):
        results = [graph.call_function(operator.getitem, (node, i)) for i in range(len(want))]
        for i, r in enumerate(results):
            r.meta["val"] = node.meta["val"][i]
        kept = [i for i, w in enumerate(want) if w is not None]
        results, want = [results[i] for i in kept], [want[i] for i in kept]
    else:
        want = [want]
    graph.output(tuple(results))
    return target, tensors, torch.fx.GraphModule(torch.nn.Module(), graph), want
