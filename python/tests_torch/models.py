"""Models to export and to compile, small and with random weights."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class Basic(nn.Module):
    def __init__(self, i, o, st=1):
        super().__init__()
        self.a = nn.Conv2d(i, o, 3, st, 1, bias=False)
        self.b = nn.BatchNorm2d(o)
        self.c = nn.Conv2d(o, o, 3, 1, 1, bias=False)
        self.d = nn.BatchNorm2d(o)
        self.down = nn.Sequential(nn.Conv2d(i, o, 1, st, bias=False), nn.BatchNorm2d(o)) if st > 1 or i != o else None

    def forward(self, x):
        y = F.relu(self.b(self.a(x)))
        y = self.d(self.c(y))
        return F.relu(y + (self.down(x) if self.down is not None else x))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 16, 7, 2, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        self.l = nn.Sequential(Basic(16, 16), Basic(16, 32, 2), Basic(32, 64, 2))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(64, 10)

    def forward(self, x):
        return self.fc(torch.flatten(self.pool(self.l(self.stem(x))), 1))


class MobileNet(nn.Module):
    def __init__(self):
        super().__init__()

        def blk(i, o, st, e):
            return nn.Sequential(
                nn.Conv2d(i, i * e, 1, bias=False),
                nn.BatchNorm2d(i * e),
                nn.ReLU6(),
                nn.Conv2d(i * e, i * e, 3, st, 1, groups=i * e, bias=False),
                nn.BatchNorm2d(i * e),
                nn.ReLU6(),
                nn.Conv2d(i * e, o, 1, bias=False),
                nn.BatchNorm2d(o),
            )

        self.f = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.Hardswish(), blk(16, 24, 2, 6), blk(24, 32, 2, 6))
        self.h = nn.Linear(32, 10)

    def forward(self, x):
        return self.h(self.f(x).mean((2, 3)))


class Bert(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(100, 64)
        self.p = nn.Embedding(64, 64)
        self.n = nn.LayerNorm(64)
        self.l = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, activation="gelu", dropout=0.0)

    def forward(self, ids, mask):
        x = self.n(self.e(ids) + self.p(torch.arange(ids.shape[1], device=ids.device)))
        q = x
        return self.l(q, src_key_padding_mask=mask)


class Attn(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.q = nn.Linear(d, 3 * d)
        self.o = nn.Linear(d, d)
        self.h = h

    def forward(self, x, mask=None, causal=True):
        b, t, d = x.shape
        q, k, v = self.q(x).split(d, -1)
        f = lambda z: z.view(b, t, self.h, d // self.h).transpose(1, 2)
        return self.o(
            F.scaled_dot_product_attention(f(q), f(k), f(v), attn_mask=mask, is_causal=causal)
            .transpose(1, 2)
            .reshape(b, t, d)
        )


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Embedding(200, 48)
        self.p = nn.Embedding(64, 48)
        self.bl = nn.ModuleList(
            [
                nn.ModuleList(
                    [
                        nn.LayerNorm(48),
                        Attn(48, 4),
                        nn.LayerNorm(48),
                        nn.Sequential(nn.Linear(48, 192), nn.GELU(approximate="tanh"), nn.Linear(192, 48)),
                    ]
                )
                for _ in range(2)
            ]
        )
        self.n = nn.LayerNorm(48)

    def forward(self, ids):
        x = self.w(ids) + self.p(torch.arange(ids.shape[1]))
        for a, b, c, d in self.bl:
            x = x + b(a(x))
            x = x + d(c(x))
        return self.n(x) @ self.w.weight.T


class ViT(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(3, 32, 8, 8)
        self.cls = nn.Parameter(torch.randn(1, 1, 32))
        self.pos = nn.Parameter(torch.randn(1, 17, 32))
        self.l = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=True, dropout=0.0)
        self.h = nn.Linear(32, 5)

    def forward(self, x):
        x = self.c(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.shape[0], -1, -1), x], 1) + self.pos
        return self.h(self.l(x)[:, 0])


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(4, 16, 3, 1, 1)
        self.b = nn.Conv2d(16, 32, 3, 2, 1)
        self.g = nn.GroupNorm(4, 32)
        self.t = nn.ConvTranspose2d(32, 16, 2, 2)
        self.o = nn.Conv2d(32, 4, 3, 1, 1)
        self.te = nn.Linear(8, 32)

    def forward(self, x, t):
        a = F.silu(self.a(x))
        b = F.silu(self.g(self.b(a)) + self.te(t)[:, :, None, None])
        return self.o(torch.cat([a, self.t(b)], 1))


class LSTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.LSTM(8, 16, 2, batch_first=True, bidirectional=True)
        self.h = nn.Linear(32, 3)

    def forward(self, x):
        y, (h, c) = self.l(x)
        return self.h(y), h


class Whisper(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv1d(20, 32, 3, padding=1)
        self.b = nn.Conv1d(32, 32, 3, stride=2, padding=1)
        self.p = nn.Parameter(torch.randn(50, 32))
        self.n = nn.LayerNorm(32)
        self.at = Attn(32, 4)
        self.m = nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))

    def forward(self, x):
        x = F.gelu(self.b(F.gelu(self.a(x)))).permute(0, 2, 1) + self.p
        x = x + self.at(self.n(x), causal=False)
        return x + self.m(x)


class RMSNorm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.w = nn.Parameter(torch.ones(d))

    def forward(self, x):
        return self.w * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class Llama(nn.Module):
    def __init__(self, d=64, h=4, kv=2):
        super().__init__()
        self.d, self.h, self.kv = d, h, kv
        self.q = nn.Linear(d, d, bias=False)
        self.k = nn.Linear(d, d * kv // h, bias=False)
        self.v = nn.Linear(d, d * kv // h, bias=False)
        self.o = nn.Linear(d, d, bias=False)
        self.g = nn.Linear(d, 128, bias=False)
        self.u = nn.Linear(d, 128, bias=False)
        self.dn = nn.Linear(128, d, bias=False)
        self.n1 = RMSNorm(d)
        self.n2 = RMSNorm(d)
        self.register_buffer("inv", 1 / (10000 ** (torch.arange(0, d // h, 2) / (d // h))), persistent=False)

    def forward(self, x):
        b, t, d = x.shape
        hd = d // self.h
        y = self.n1(x)
        q = self.q(y).view(b, t, self.h, hd).transpose(1, 2)
        k = self.k(y).view(b, t, self.kv, hd).transpose(1, 2)
        v = self.v(y).view(b, t, self.kv, hd).transpose(1, 2)
        f = torch.outer(torch.arange(t).float(), self.inv)
        e = torch.cat([f, f], -1)
        cos, sin = e.cos(), e.sin()
        rot = lambda z: torch.cat([-z[..., hd // 2 :], z[..., : hd // 2]], -1)
        q = q * cos + rot(q) * sin
        k = k * cos + rot(k) * sin
        k = k[:, :, None].expand(b, self.kv, self.h // self.kv, t, hd).reshape(b, self.h, t, hd)
        v = v[:, :, None].expand(b, self.kv, self.h // self.kv, t, hd).reshape(b, self.h, t, hd)
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d))
        y = self.n2(x)
        return x + self.dn(F.silu(self.g(y)) * self.u(y))


class DLRM(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.ModuleList([nn.Embedding(50, 16) for _ in range(4)])
        self.b = nn.Sequential(nn.Linear(13, 32), nn.ReLU(), nn.Linear(32, 16))
        self.t = nn.Sequential(nn.Linear(16 + 10, 32), nn.ReLU(), nn.Linear(32, 1), nn.Sigmoid())

    def forward(self, x, ids):
        d = self.b(x)
        e = torch.stack([d] + [m(ids[:, i]) for i, m in enumerate(self.e)], 1)
        z = torch.bmm(e, e.transpose(1, 2))
        i, j = torch.triu_indices(5, 5, 1)
        return self.t(torch.cat([d, z[:, i, j]], 1))


batch = torch.export.Dim("batch", min=2, max=16)
sequence = torch.export.Dim("seq", min=2, max=32)
# A model with inputs, and those of their axes that may have other sizes.
CASES = {
    "resnet": (ResNet(), (torch.randn(3, 3, 64, 64),), ({0: batch},)),
    "mobilenet": (MobileNet(), (torch.randn(3, 3, 32, 32),), ({0: batch},)),
    "bert": (
        Bert(),
        (torch.randint(0, 100, (3, 10)), torch.zeros(3, 10, dtype=torch.bool)),
        ({0: batch, 1: sequence}, {0: batch, 1: sequence}),
    ),
    "gpt": (GPT(), (torch.randint(0, 200, (2, 12)),), ({0: batch, 1: sequence},)),
    "vit": (ViT(), (torch.randn(3, 3, 32, 32),), ({0: batch},)),
    "unet": (UNet(), (torch.randn(3, 4, 16, 16), torch.randn(3, 8)), ({0: batch}, {0: batch})),
    "lstm": (LSTM(), (torch.randn(3, 7, 8),), ({0: batch},)),
    "whisper": (Whisper(), (torch.randn(3, 20, 100),), ({0: batch},)),
    "llama": (Llama(), (torch.randn(2, 9, 64),), ({0: batch, 1: sequence},)),
    "dlrm": (DLRM(), (torch.randn(5, 13), torch.randint(0, 50, (5, 4))), ({0: batch}, {0: batch})),
}
