"""Times steps of training and inference by torch.compile(backend="weir") beside eager PyTorch and its inductor.

    python speed.py [THREADS [NAME ...]]      with so many threads (1), of all models or of those named

Engines take turns in one process, and the fastest of each one's rounds counts. Peak is how far steps raise the
process's resident memory: by activations, derivatives and what engines need besides.
"""

from __future__ import annotations

import copy
import ctypes
import gc
import logging
import math
import statistics
import sys
import time
from typing import Any, Callable

import torch
import torch.nn.functional as F
import weir
from torch import nn

from models import UNet

ENGINES = ("eager", "inductor", "weir")
SECONDS, ROUNDS = 0.25, 7


def mlp() -> tuple[nn.Module, tuple[Any, ...]]:
    layers = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    return layers, (torch.randn(64, 256),)


def resnet18() -> tuple[nn.Module, tuple[Any, ...]]:
    from torchvision.models import resnet18

    return resnet18(num_classes=10), (torch.randn(2, 3, 96, 96),)


def bert() -> tuple[nn.Module, tuple[Any, ...]]:
    layer = nn.TransformerEncoderLayer(768, 12, 3072, batch_first=True, activation="gelu", dropout=0.0)
    return layer, (torch.randn(2, 64, 768),)


def gpt2() -> tuple[nn.Module, tuple[Any, ...]]:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, use_cache=False)
    return GPT2LMHeadModel(config), (torch.randint(0, 50257, (1, 32)),)


def unet() -> tuple[nn.Module, tuple[Any, ...]]:
    return UNet(), (torch.randn(4, 4, 64, 64), torch.randn(4, 8))


class LlamaBlock(nn.Module):
    """One decoder layer of transformers, with its rotary positions."""

    def __init__(self) -> None:
        super().__init__()
        from transformers import LlamaConfig
        from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding

        config = LlamaConfig(hidden_size=512, intermediate_size=1376, num_attention_heads=8, num_key_value_heads=4)
        config._attn_implementation = "sdpa"
        self.layer, self.rotary = LlamaDecoderLayer(config, 0), LlamaRotaryEmbedding(config)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        places = torch.arange(x.shape[1])[None]
        y = self.layer(x, position_embeddings=self.rotary(x, places), position_ids=places)
        return y if isinstance(y, torch.Tensor) else y[0]


def llama() -> tuple[nn.Module, tuple[Any, ...]]:
    return LlamaBlock(), (torch.randn(1, 64, 512),)


MODELS = {"mlp": mlp, "resnet18": resnet18, "bert": bert, "gpt2": gpt2, "unet": unet, "llama": llama}


def loss(y: Any) -> torch.Tensor:
    y = getattr(y, "logits", y)
    return F.mse_loss(y, torch.zeros_like(y))


def training(model: nn.Module, args: tuple[Any, ...]) -> Callable[[], None]:
    optimizer = torch.optim.SGD(model.parameters(), 1e-4)

    def step() -> None:
        optimizer.zero_grad()
        loss(model(*args)).backward()
        optimizer.step()

    return step


def inference(model: nn.Module, args: tuple[Any, ...]) -> Callable[[], None]:
    def step() -> None:
        with torch.no_grad():
            model(*args)

    return step


def memory(key: str) -> int:
    """A memory size of the process, in bytes."""
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith(key)) << 10


def peak(step: Callable[[], None]) -> int:
    """The growth of resident memory by steps, from a state without earlier steps."""
    gc.collect()
    weir.trim()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/clear_refs", "w") as f:
        f.write("5")
    before = memory("VmRSS")
    for _ in range(3):
        step()
    return memory("VmHWM") - before


def measure(name: str, kind: Callable[..., Callable[[], None]]) -> list[float]:
    torch.manual_seed(0)
    model, args = MODELS[name]()
    model.train(kind is training)
    steps, compiling, fastest, peaks = {}, {}, dict.fromkeys(ENGINES, math.inf), {}
    modules: list[nn.Module] = []
    for engine in ENGINES:
        torch._dynamo.reset()
        modules.append(own := copy.deepcopy(model))
        begin = time.perf_counter()
        steps[engine] = kind(own if engine == "eager" else torch.compile(own, backend=engine), args)
        steps[engine]()
        compiling[engine] = time.perf_counter() - begin
        for _ in range(3):
            steps[engine]()
    for _ in range(ROUNDS):
        for engine in ENGINES:
            count, begin = 0, time.perf_counter()
            while (taken := time.perf_counter() - begin) < SECONDS or count == 0:
                steps[engine]()
                count += 1
            taken = time.perf_counter() - begin
            fastest[engine] = min(fastest[engine], taken / count)
    for engine in ENGINES:
        for m in modules:
            m.zero_grad()
        peaks[engine] = peak(steps[engine])
    columns = [f"{fastest[e] * 1e3:9.2f}" for e in ENGINES] + [f"{peaks[e] / 2**20:7.1f}" for e in ENGINES]
    columns += [f"{compiling[e]:7.1f}" for e in ENGINES[1:]]
    print(f"{kind.__name__:9} {name:9}", *columns, flush=True)
    return [fastest[e] / fastest["weir"] for e in ENGINES[:2]]


def main(threads: int, names: list[str]) -> None:
    torch.set_num_threads(threads)
    logging.getLogger("weir").setLevel(logging.ERROR)
    print(f"{threads} threads; times in ms, memory in MiB, compiling in s")
    heads = [f"{e:>9}" for e in ENGINES] + [f"{e:>7.7}" for e in ENGINES] + [f"{e:>7.7}" for e in ENGINES[1:]]
    print(f"{'':19}", *heads)
    for kind in (training, inference):
        ratios = [measure(name, kind) for name in names or MODELS]
        means = [statistics.geometric_mean(column) for column in zip(*ratios)]
        print(f"{kind.__name__}: weir is {means[0]:.2f} times as fast as eager, {means[1]:.2f} as inductor")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1, sys.argv[2:])
