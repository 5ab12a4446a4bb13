"""Training steps in PyTorch: one engine on one model, in this process alone; prints one JSON line as bench/engine.py does.

Usage: steps.py ENGINE MODEL THREADS SECONDS
ENGINE is torch (eager) or inductor (torch.compile of forward, loss and optimiser). bench/steps is the same in Weir.
MODEL is one of those in MODELS: a step is forward, loss, backward and the optimiser's update, on a batch that stays.
peak is the process's resident bytes at their highest while it trains, less those before the model was made. tensors is the
most bytes of tensors alive at once in a step, as PyTorch's profiler records them.
"""
import json
import sys
import time

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()

    def loss(self, x, y):
        return nn.functional.cross_entropy(self(x), y)


class MLP(Net):
    """784-256-128-10, a batch of 64, Adam."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10))

    def batch(self):
        return torch.randn(64, 784), torch.randint(10, (64,))

    def forward(self, x):
        return self.net(x)


class CNN(Net):
    """Two 3 × 3 convolutions of 32 and 64 filters with batch norm, relu and pooling, on 28 × 28, a batch of 64, Adam."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64 * 49, 10))

    def batch(self):
        return torch.randn(64, 1, 28, 28), torch.randint(10, (64,))

    def forward(self, x):
        return self.net(x)


class Transformer(Net):
    """Two blocks of width 256 with 4 heads and 1024 in between, causal, on 8 sequences of 128 of 96 tokens, Adam."""

    def __init__(self):
        super().__init__()
        self.embed, self.place = nn.Embedding(96, 256), nn.Embedding(128, 256)
        layer = [nn.TransformerEncoderLayer(256, 4, 1024, dropout=0, activation="gelu", batch_first=True, norm_first=True) for _ in range(2)]
        self.layers, self.head = nn.ModuleList(layer), nn.Linear(256, 96)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(128))

    def batch(self):
        return torch.randint(96, (8, 128)), torch.randint(96, (8, 128))

    def forward(self, x):
        h = self.embed(x) + self.place.weight
        for layer in self.layers:
            h = layer(h, src_mask=self.mask, is_causal=True)
        return self.head(h)

    def loss(self, x, y):
        return nn.functional.cross_entropy(self(x).reshape(-1, 96), y.reshape(-1))


class LSTM(Net):
    """An LSTM of width 128 over 28 steps of 28, and a layer on its last state, a batch of 64, Adam."""

    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(28, 128, batch_first=True), nn.Linear(128, 10)

    def batch(self):
        return torch.randn(64, 28, 28), torch.randint(10, (64,))

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


class Embedding(Net):
    """A table of 10⁶ × 64, of which a batch of 1,024 ids is gathered, and a layer on it; SGD updates only those rows.
    """

    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Embedding(1_000_000, 64, sparse=True), nn.Linear(64, 10)

    def batch(self):
        return torch.randint(1_000_000, (1024,)), torch.randint(10, (1024,))

    def forward(self, x):
        return self.head(self.table(x))


MODELS = {"step_mlp": MLP, "step_cnn": CNN, "step_transformer": Transformer, "step_lstm": LSTM, "step_embedding": Embedding}


def resident(field):
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith(field))


def most(step, held):
    """The most bytes of tensors alive at once in a step: the tensors held from step to step, and those the step makes."""
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in held}
    with torch.profiler.profile(profile_memory=True) as seen:
        step()
    events = sorted((e.start_ns(), e.nbytes()) for e in seen.profiler.kineto_results.events() if e.name() == "[memory]")
    now = top = sum(storages.values())
    for _, size in events:
        now += size
        top = max(top, now)
    return top


def main():
    engine, name, threads, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    before, begin = resident("VmRSS:"), time.perf_counter()
    model = MODELS[name]()
    optimiser = torch.optim.SGD(model.parameters(), 1e-3) if name == "step_embedding" else torch.optim.Adam(model.parameters(), 1e-3)
    x, y = model.batch()

    def step():
        optimiser.zero_grad(set_to_none=True)
        loss = model.loss(x, y)
        loss.backward()
        optimiser.step()
        return loss

    if engine == "inductor":
        step = torch.compile(step)
    loss = step().item()
    first = (time.perf_counter() - begin) * 1e3
    for _ in range(5):
        step()
    with open("/proc/self/clear_refs", "w") as f:
        f.write("5")
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 10:
        begin = time.perf_counter()
        last = step()
        times.append((time.perf_counter() - begin) * 1e3)
    times.sort()
    peak = resident("VmHWM:") - before
    optimiser.zero_grad(set_to_none=True)
    state = [t for entry in optimiser.state.values() for t in entry.values() if torch.is_tensor(t)]
    tensors = most(step, [x, y, *model.parameters(), *model.buffers(), *state])
    print(json.dumps({"min": times[0], "median": times[len(times) // 2], "first": first, "peak": peak, "tensors": tensors,
                      "loss": loss, "last": last.item()}))


main()
