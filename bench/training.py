"""Times steps of training beside PyTorch's, by turns: the texts in bench/training, which internal/conformance writes.

Both have batches, sizes and optimisers alike; see peer for PyTorch's side. Of each engine's rounds the fastest counts.

  training.py WEIR                        every step, on one thread
  training.py WEIR --threads 2 --modes eager,compile --steps cnn_sgd lstm_adam
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent


def values(text):
    """The bindings of a step's inputs: small weights, averages of 0, labels and ids in their ranges."""
    main = re.search(r"main @main\((.*)\) \{", text).group(1)
    for name in re.findall(r"%([\w.]+): ", main):
        if name == "labels":
            yield name, "random:0..9"
        elif name == "ids":
            yield name, "random:0..999999"
        elif name in ("count", "places", "mean", "square") or name.endswith((".m", ".v")) or re.match(r"shift|b\d*$|b\.|bias", name):
            yield name, "zeros"
        elif name.startswith("scale"):
            yield name, "random:0.9..1.1"
        elif re.match(r"w|r$", name):
            yield name, "random:-0.05..0.05"
        else:
            yield name, "random:-1..1"


def ours(weir, step, threads, seconds):
    """The fastest step in µs, and the predicted and measured bytes."""
    path = HERE / "training" / (step + ".weir")
    inputs = [word for name, value in values(path.read_text()) for word in ("--input", f"{name}={value}")]
    command = [weir, "bench", "-q", "--json", "--threads", str(threads), "--seconds", str(seconds), *inputs, path]
    got = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return got["latency_ms"]["min"] * 1e3, got["predicted_bytes"], got["measured_bytes"]


def peer(step, threads, mode, seconds):
    """PyTorch's fastest step in µs, in a process of its own."""
    out = subprocess.run([sys.executable, __file__, "--peer", step, "--threads", str(threads), "--modes", mode, "--seconds", str(seconds)], check=True, capture_output=True, text=True).stdout
    return float(out.split()[-1])


def networks(torch):
    """Each kind's model, inputs and loss."""
    nn, functional = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.LayerNorm(256), nn.LayerNorm(256)
            self.qkv, self.out, self.up, self.down = nn.Linear(256, 768), nn.Linear(256, 256), nn.Linear(256, 1024), nn.Linear(1024, 256)

        def forward(self, x):
            b, n, w = x.shape
            q, k, v = (t.reshape(b, n, 8, 32).transpose(1, 2) for t in self.qkv(self.first(x)).split(256, -1))
            y = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, w)
            x = x + self.out(y)
            return x + self.down(functional.gelu(self.up(self.second(x))))

    class LSTM(nn.Module):
        def __init__(self):
            super().__init__()
            self.steps, self.out = nn.LSTM(28, 128), nn.Linear(128, 10)

        def forward(self, x):
            return self.out(self.steps(x)[0][-1])

    def mlp():
        return nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10))

    def cnn():
        return nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1, bias=False),
            nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(3136, 10))

    def labels():
        return torch.randint(0, 10, (64,))

    classes, squares = functional.cross_entropy, functional.mse_loss
    return {
        "mlp": lambda: (mlp(), torch.randn(64, 784), labels(), classes),
        "mlpt": lambda: (mlp(), torch.randn(64, 784), labels(), classes),
        "cnn": lambda: (cnn(), torch.randn(64, 1, 28, 28), labels(), classes),
        "transformer": lambda: (nn.Sequential(Block(), Block()), torch.randn(8, 128, 256), torch.randn(8, 128, 256), squares),
        "lstm": lambda: (LSTM(), torch.randn(28, 64, 28), labels(), classes),
        "recurrent": lambda: (LSTM(), torch.randn(28, 64, 28), labels(), classes),
        "embed": lambda: (nn.Embedding(1000000, 64, sparse=True), torch.randint(0, 1000000, (1024,)), torch.randn(1024, 64), squares),
    }


def train(step, threads, mode, seconds):
    """Runs PyTorch's step for so long, and prints the fastest time."""
    import torch

    torch.set_num_threads(threads)
    kind, optimiser = step.split("_")
    model, x, y, loss = networks(torch)[kind]()
    makers = {("embed", "adam"): torch.optim.SparseAdam}
    maker = makers.get((kind, optimiser), torch.optim.SGD if optimiser == "sgd" else torch.optim.Adam)
    update = maker(model.parameters(), lr=0.001)

    def forward():
        return loss(model(x), y)

    change = update.step
    if mode == "compile":
        forward = torch.compile(forward)
        change = update.step if kind == "embed" else torch.compile(update.step)

    def once():
        update.zero_grad(set_to_none=True)
        forward().backward()
        change()

    for _ in range(4):
        once()
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        begin = time.perf_counter()
        once()
        times.append(time.perf_counter() - begin)
    print(min(times) * 1e6)


def main():
    every = sorted(p.stem for p in (HERE / "training").glob("*.weir"))
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("weir", nargs="?")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--modes", default="eager")
    p.add_argument("--seconds", type=float, default=2)
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--steps", nargs="+", default=every)
    p.add_argument("--peer", help=argparse.SUPPRESS)
    o = p.parse_args()
    if o.peer:
        train(o.peer, o.threads, o.modes, o.seconds)
        return
    for step in o.steps:
        best, sizes = {}, ()
        for _ in range(o.rounds):
            took, *sizes = ours(o.weir, step, o.threads, o.seconds)
            best["weir"] = min(took, best.get("weir", took))
            for mode in o.modes.split(","):
                took = peer(step, o.threads, mode, o.seconds)
                best[mode] = min(took, best.get(mode, took))
        print(step, f"{o.threads} threads:", ", ".join(f"{name} {took:.1f} µs" for name, took in best.items()), f"; predicted {sizes[0]}, measured {sizes[1]} bytes", flush=True)


if __name__ == "__main__":
    main()
