"""Norms of 16-bit tensors with weights in f32, as autocast makes them.

PyTorch computes them in f32 and keeps the mean and the reciprocal deviation in f32, which its own shapes of them, for
tracing, say in the type of the input. These decompositions into norms of f32 have the types of PyTorch's kernels.
"""

from __future__ import annotations

from typing import Any, Callable, Sequence

import torch

_aten = torch.ops.aten
_Tensors = Any  # a tuple of tensors, or NotImplemented: the operator is as it should be


def _mixed(x: torch.Tensor, *others: torch.Tensor | None) -> bool:
    """Whether x has 16 bits, and another tensor is f32."""
    return x.dtype in (torch.bfloat16, torch.float16) and any(o is not None and o.dtype == torch.float32 for o in others)


def _layer_norm(x: Any, shape: Sequence[Any], weight: Any, bias: Any, epsilon: float) -> _Tensors:
    if not _mixed(x, weight, bias):
        return NotImplemented
    y, mean, deviation = _aten.native_layer_norm(x.float(), shape, weight, bias, epsilon)
    return y.to(x.dtype), mean, deviation


def _layer_norm_backward(
    g: Any, x: Any, shape: Sequence[Any], mean: Any, deviation: Any, weight: Any, bias: Any, wanted: Sequence[bool]
) -> _Tensors:
    if not _mixed(x, mean, weight, bias):
        return NotImplemented
    wide = [None if t is None else t.float() for t in (mean, deviation, weight, bias)]
    of_x, *others = _aten.native_layer_norm_backward(g.float(), x.float(), shape, *wide, wanted)
    return (None if of_x is None else of_x.to(x.dtype), *others)


def _group_norm(x: Any, weight: Any, bias: Any, n: Any, c: Any, rest: Any, groups: int, epsilon: float) -> _Tensors:
    if not _mixed(x, weight, bias):
        return NotImplemented
    y, mean, deviation = _aten.native_group_norm(x.float(), weight, bias, n, c, rest, groups, epsilon)
    return y.to(x.dtype), mean, deviation


def _group_norm_backward(
    g: Any, x: Any, mean: Any, deviation: Any, weight: Any, n: Any, c: Any, rest: Any, groups: int, wanted: Sequence[bool]
) -> _Tensors:
    if not _mixed(x, mean, weight):
        return NotImplemented
    wide = [None if t is None else t.float() for t in (mean, deviation, weight)]
    of_x, *others = _aten.native_group_norm_backward(g.float(), x.float(), *wide, n, c, rest, groups, wanted)
    return (None if of_x is None else of_x.to(x.dtype), *others)


def _batch_norm(operator: Any) -> Callable[..., _Tensors]:
    """The decomposition of a batch norm, whose arguments begin with the input, the weight and the bias."""

    def decomposed(x: Any, *rest: Any) -> _Tensors:
        if not _mixed(x, *(t for t in rest if isinstance(t, torch.Tensor))):
            return NotImplemented
        y, *others = operator(x.float(), *rest)
        return (y.to(x.dtype), *others)

    return decomposed


_BATCH_NORMS = (
    _aten._native_batch_norm_legit_functional.default, _aten._native_batch_norm_legit.no_stats,
    _aten._native_batch_norm_legit_no_training.default,
)  # fmt: skip

DECOMPOSITIONS: dict[Any, Callable[..., _Tensors]] = {
    _aten.native_layer_norm.default: _layer_norm,
    _aten.native_layer_norm_backward.default: _layer_norm_backward,
    _aten.native_group_norm.default: _group_norm,
    _aten.native_group_norm_backward.default: _group_norm_backward,
    **{operator: _batch_norm(operator) for operator in _BATCH_NORMS},
}
