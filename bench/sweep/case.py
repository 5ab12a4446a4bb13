"""Common parts of the modules of this folder."""
import typing

import torch
from torch import nn

DYNAMIC = torch.export.Dim.DYNAMIC
BATCH = {0: DYNAMIC}
IMAGE = {0: DYNAMIC, 2: DYNAMIC, 3: DYNAMIC}
SENTENCE = {0: DYNAMIC, 1: DYNAMIC}


class Case(typing.NamedTuple):
    """A model with the arguments of its timing."""

    module: nn.Module
    arguments: tuple
    axes: tuple | None = None  # each argument's dynamic axes; None: all sizes are fixed
    example: tuple | None = None  # arguments to export with, if they differ
    script: dict | None = None  # dynamic axes by name of the exporter before torch.export


class Function(nn.Module):
    """A function of modules and arguments as a module."""

    def __init__(self, function, *modules):
        super().__init__()
        self.function, self.parts = function, nn.ModuleList(modules)

    def forward(self, *arguments):
        return self.function(*self.parts, *arguments)


def image(batch=1, height=224, width=None):
    return torch.randn(batch, 3, height, width or height)


def tokens(batch, length, vocabulary=1000):
    return torch.randint(3, vocabulary, (batch, length))


def heads(x, count):
    """[batch, tokens, count * size] to [batch, count, tokens, size]."""
    batch, _, width = x.shape
    return x.reshape(batch, -1, count, width // count).transpose(1, 2)


def attention(q, k, v):
    """Heads' results side by side: [batch, tokens, heads * size]."""
    seen = (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).softmax(-1) @ v
    return seen.transpose(1, 2).flatten(2)
