"""Writes what PyTorch computes with each of its layers that package nn has: the fixtures of nn's tests.

Usage: layers.py FOLDER [NAME...]   writes FOLDER/NAME.safetensors: parameters as p.*, inputs x0…, results y0…, the weights w0… of the results in a sum,
and the sum's derivatives by the parameters, g.*, and by the inputs, d0…; after training buffers as b.*.
Needs what bench/requirements.txt pins. nn/testdata/torch holds what it wrote; `go test ./nn -run TestTorch` compares.
"""
import pathlib
import struct
import sys
import json

import numpy as np
import torch
from torch import nn


def tensor(*shape):
    return torch.randn(*shape)


def ids(high, *shape, dtype=torch.int64):
    return torch.randint(0, high, shape).to(dtype)


class Pick(nn.Module):
    """A module with some of another's results; a function makes the inputs."""

    def __init__(self, inner, call):
        super().__init__()
        for name, child in [*inner.named_children(), *inner.named_parameters(recurse=False), *inner.named_buffers(recurse=False)]:
            if isinstance(child, nn.Module):
                self.add_module(name, child)
        self.inner, self.call = [inner], call

    def state_dict(self, **kw):
        return self.inner[0].state_dict(**kw)

    def named_parameters(self, **kw):
        return self.inner[0].named_parameters(**kw)

    def train(self, mode=True):
        self.inner[0].train(mode)
        return self

    def forward(self, *x):
        return self.call(self.inner[0], *x)


def recurrent(m, states):
    def call(m, x, *s):
        y, last = m(x, (s if states == 2 else s[0]) if s else None)
        return [y, *(last if states == 2 else [last])] if s else [y]
    return Pick(m, call)


def attention(m, causal=False):
    def call(m, *x):
        q, k, v = (x[0],) * 3 if len(x) < 3 else x[:3]
        mask = x[-1] if len(x) % 2 == 0 else None
        if mask is not None and mask.dtype == torch.bool:
            mask = ~mask
        if causal:
            mask = torch.ones(q.shape[1], k.shape[1], dtype=torch.bool).triu(1)
        return [m(q, k, v, attn_mask=mask, need_weights=False)[0]]
    return Pick(m, call)


def decoder(m):
    def call(m, x, memory):
        n = x.shape[1]
        return [m(x, memory, tgt_mask=torch.ones(n, n, dtype=torch.bool).triu(1))]
    return Pick(m, call)


F = dict(batch_first=True)
# name: the module, its inputs, whether it is in training
CASES = {
    "linear": lambda: (nn.Linear(5, 3), [tensor(4, 5)]),
    "linear_rank3": lambda: (nn.Linear(5, 3, bias=False), [tensor(2, 3, 5)]),
    "conv1d": lambda: (nn.Conv1d(4, 6, 3, stride=2, padding=2, dilation=2, groups=2), [tensor(2, 4, 11)]),
    "conv2d": lambda: (nn.Conv2d(3, 4, 3, padding=1), [tensor(2, 3, 6, 5)]),
    "conv2d_window": lambda: (nn.Conv2d(2, 4, (3, 2), stride=(1, 2), padding=(0, 1), bias=False), [tensor(1, 2, 6, 5)]),
    "conv3d": lambda: (nn.Conv3d(2, 3, 2), [tensor(1, 2, 3, 4, 3)]),
    "conv_transpose1d": lambda: (nn.ConvTranspose1d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2), [tensor(2, 4, 5)]),
    "conv_transpose2d": lambda: (nn.ConvTranspose2d(3, 4, 3, stride=2), [tensor(1, 3, 4, 3)]),
    "conv_transpose3d": lambda: (nn.ConvTranspose3d(2, 3, 2, stride=2), [tensor(1, 2, 2, 3, 2)]),
    "embedding": lambda: (nn.Embedding(7, 4), [ids(7, 5)]),
    "embedding_rank0": lambda: (nn.Embedding(7, 4), [ids(7)]),
    "embedding_rank3": lambda: (nn.Embedding(7, 4), [ids(7, 2, 3, 2, dtype=torch.int32)]),
    "layer_norm": lambda: (nn.LayerNorm(6), [tensor(3, 4, 6)]),
    "layer_norm_over": lambda: (nn.LayerNorm((4, 6)), [tensor(3, 4, 6)]),
    "rms_norm": lambda: (nn.RMSNorm(6, eps=1e-5), [tensor(3, 4, 6)]),
    "batch_norm": lambda: (nn.BatchNorm2d(3), [tensor(4, 3, 2, 2)]),
    "batch_norm_training": lambda: (nn.BatchNorm2d(3), [tensor(4, 3, 2, 2)], True),
    "batch_norm_1d": lambda: (nn.BatchNorm1d(3, momentum=0.3, eps=1e-3), [tensor(5, 3)], True),
    "group_norm": lambda: (nn.GroupNorm(2, 6), [tensor(2, 6, 3, 2)]),
    "instance_norm": lambda: (nn.InstanceNorm2d(3), [tensor(2, 3, 4, 2)]),
    "instance_norm_scaled": lambda: (nn.InstanceNorm1d(3, affine=True), [tensor(2, 3, 4)]),
    "lstm": lambda: (recurrent(nn.LSTM(3, 4, **F), 2), [tensor(2, 5, 3)]),
    "lstm_states": lambda: (recurrent(nn.LSTM(3, 4, num_layers=2, bidirectional=True, **F), 2), [tensor(2, 5, 3), tensor(4, 2, 4), tensor(4, 2, 4)]),
    "gru": lambda: (recurrent(nn.GRU(3, 4, **F), 1), [tensor(2, 5, 3)]),
    "gru_states": lambda: (recurrent(nn.GRU(3, 4, num_layers=2, bidirectional=True, bias=False, **F), 1), [tensor(2, 5, 3), tensor(4, 2, 4)]),
    "rnn": lambda: (recurrent(nn.RNN(3, 4, **F), 1), [tensor(2, 5, 3)]),
    "rnn_relu": lambda: (recurrent(nn.RNN(3, 4, nonlinearity="relu", bidirectional=True, **F), 1), [tensor(2, 5, 3), tensor(2, 2, 4)]),
    "attention": lambda: (attention(nn.MultiheadAttention(6, 2, **F)), [tensor(2, 5, 6)]),
    "attention_causal": lambda: (attention(nn.MultiheadAttention(6, 3, **F), True), [tensor(2, 5, 6)]),
    "attention_mask": lambda: (attention(nn.MultiheadAttention(6, 2, bias=False, **F)), [tensor(2, 4, 6), torch.ones(4, 4).tril().bool()]),
    "attention_cross": lambda: (attention(nn.MultiheadAttention(6, 2, **F)), [tensor(2, 3, 6), tensor(2, 5, 6), tensor(2, 5, 6)]),
    "attention_added": lambda: (attention(nn.MultiheadAttention(6, 2, **F)), [tensor(2, 3, 6), tensor(2, 5, 6), tensor(2, 5, 6), tensor(3, 5)]),
    "encoder_layer": lambda: (nn.TransformerEncoderLayer(6, 2, 8, dropout=0, **F), [tensor(2, 4, 6)], True),
    "encoder_layer_first": lambda: (nn.TransformerEncoderLayer(6, 2, 8, dropout=0, norm_first=True, activation="gelu", **F), [tensor(2, 4, 6)], True),
    "decoder_layer": lambda: (decoder(nn.TransformerDecoderLayer(6, 2, 8, dropout=0, **F)), [tensor(2, 4, 6), tensor(2, 3, 6)], True),
    "encoder": lambda: (nn.TransformerEncoder(nn.TransformerEncoderLayer(6, 2, 8, dropout=0, **F), 2, norm=nn.LayerNorm(6)), [tensor(2, 4, 6)], True),
    "max_pool": lambda: (nn.MaxPool2d(3, stride=2, padding=1, ceil_mode=True), [tensor(1, 2, 7, 6)]),
    "avg_pool": lambda: (nn.AvgPool2d(3, stride=2, padding=1), [tensor(1, 2, 7, 6)]),
    "avg_pool_uncounted": lambda: (nn.AvgPool1d(3, stride=1, padding=1, count_include_pad=False), [tensor(1, 2, 7)]),
    "max_pool3d": lambda: (nn.MaxPool3d(2), [tensor(1, 2, 4, 4, 2)]),
    "adaptive_avg": lambda: (nn.AdaptiveAvgPool2d((3, 2)), [tensor(1, 2, 7, 6)]),
    "adaptive_max": lambda: (nn.AdaptiveMaxPool2d((3, 1)), [tensor(1, 2, 7, 6)]),
    "prelu": lambda: (nn.PReLU(3), [tensor(2, 3, 4)]),
    **{name: (lambda f=f: (f, [tensor(3, 6) * 3])) for name, f in {
        "relu": nn.ReLU(), "relu6": nn.ReLU6(), "sigmoid": nn.Sigmoid(), "log_sigmoid": nn.LogSigmoid(), "tanh": nn.Tanh(), "silu": nn.SiLU(), "gelu": nn.GELU(),
        "gelu_tanh": nn.GELU("tanh"), "softplus": nn.Softplus(), "softsign": nn.Softsign(), "mish": nn.Mish(), "selu": nn.SELU(), "elu": nn.ELU(0.7),
        "celu": nn.CELU(0.7), "leaky_relu": nn.LeakyReLU(0.1), "hard_sigmoid": nn.Hardsigmoid(), "hard_swish": nn.Hardswish(), "softmax": nn.Softmax(-1),
        "log_softmax": nn.LogSoftmax(0), "glu": nn.GLU(-1)}.items()},
    "mlp": lambda: (nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2)), [tensor(3, 4)]),
}
KINDS = {torch.float32: "F32", torch.int64: "I64", torch.int32: "I32", torch.bool: "BOOL"}


def write(path, tensors):
    table, data = {}, b""
    for name, t in tensors.items():
        raw = np.ascontiguousarray(t.detach().numpy()).tobytes()
        table[name] = {"dtype": KINDS[t.dtype], "shape": list(t.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    head = json.dumps(table, separators=(",", ":")).encode()
    path.write_bytes(struct.pack("<Q", len(head)) + head + data)


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or CASES:
        torch.manual_seed(7)
        module, inputs, *training = CASES[name]()
        module.train(bool(training))
        with torch.no_grad():
            for key, p in module.named_parameters():  # zeros and ones would hide parameters that are not read
                p.add_(0.1 * torch.randn_like(p))
        tensors = {"p." + k: v.clone() for k, v in module.state_dict().items() if not k.endswith("num_batches_tracked")}
        for i, x in enumerate(inputs):
            tensors[f"x{i}"] = x.clone()
            x.requires_grad_(x.is_floating_point())
        results = module(*inputs)
        results = [results] if isinstance(results, torch.Tensor) else results
        weights = [torch.randn_like(y) for y in results]
        total = sum((y * w).sum() for y, w in zip(results, weights))
        for i, (y, w) in enumerate(zip(results, weights)):
            tensors[f"y{i}"], tensors[f"w{i}"] = y, w
        if total.requires_grad:
            total.backward()
        for key, p in module.named_parameters():
            tensors["g." + key] = p.grad
        for i, x in enumerate(inputs):
            if x.grad is not None:
                tensors[f"d{i}"] = x.grad
        if training:
            tensors |= {"b." + k: v for k, v in module.state_dict().items() if k.startswith("running")}
        write(folder / f"{name}.safetensors", tensors)


main()
