"""Runs the benchmark's models through `weir run` and compares with PyTorch.

Usage: compare.py WEIR FOLDER [NAME...]   prints a line a model: largest difference relative to the largest output, and predicted beside measured bytes.
Needs what bench/requirements.txt pins (about 6 GB installed); `make compare` sets that up and runs all of models.py.
"""
import json
import pathlib
import subprocess
import sys

import models
import numpy as np
from engine import arrays, error

TOLERANCE = 1e-3


def compare(weir, name, folder):
    if not (folder / "model.onnx").exists():
        models.export(name, folder)
    model, want = str(folder / "model.onnx"), arrays(folder, "y")
    inputs = [text for i in range(len(arrays(folder, "x"))) for text in ("--input", f"x{i}={folder / f'x{i}.npy'}")]
    out = folder / "weir"
    subprocess.run([weir, "run", model, "--output", str(out), *inputs], check=True)
    got = arrays(out, "y")
    wrong = error(got, want) if [g.shape for g in got] == [w.shape for w in want] else float("inf")
    bench = json.loads(subprocess.run([weir, "bench", model, "--json", "--seconds", "0.1", *inputs], check=True, capture_output=True, text=True).stdout)
    same = bench["predicted_bytes"] == bench["measured_bytes"]
    ok = wrong < TOLERANCE and same
    print(f"{name:20} error {wrong:.2g}  predicted {bench['predicted_bytes']} measured {bench['measured_bytes']}  {'ok' if ok else 'WRONG'}", flush=True)
    return ok


def main():
    weir, folder, names = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:] or list(models.ALL)
    good = sum(compare(weir, name, folder / name) for name in names)
    print(f"{good} of {len(names)} models as PyTorch has them")
    sys.exit(good < len(names))


if __name__ == "__main__":
    main()
