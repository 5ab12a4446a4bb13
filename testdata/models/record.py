"""Records what onnxruntime answers for the cases of models.json: python3 record.py FOLDER, which fetch.py filled. It needs
numpy and onnxruntime.

Writes expected.json beside this file: of each output in each step the shape, the sums of its elements and of their
magnitudes, 24 elements that lie evenly, and the 8 largest. The inputs are computed: exactly, of integers, so that
internal/conformance/real_test.go computes the same.
"""
import json
import os
import sys

import numpy
import onnxruntime

import fetch


def noise(i):
    """24 bits that look random, for each integer below 2³²."""
    h = ((i.astype(numpy.uint64) + 1) * 2654435761) & 0xFFFFFFFF
    h ^= h >> 16
    h = (h * 73244475) & 0xFFFFFFFF
    return (h ^ (h >> 16)) >> 8


def sound(i):
    """A voice-like sound at 16,000 samples a second: triangles of a pitch that steps, three of its overtones, noise, and pauses."""
    i = i.astype(numpy.int64)
    period = 96 + 16 * ((i // 3000) % 4)
    v = numpy.zeros_like(i)
    for overtone, loud in (1, 4096), (2, 3072), (4, 2048), (7, 1024):
        p = period // overtone
        v += loud * (2 * numpy.abs(2 * (i % p) - p) - p) // p
    loud = numpy.where((i // 2000) % 5 == 4, 0, 256 - numpy.abs(i % 2000 - 1000) // 8)
    v = v * loud // 256 + noise(i).astype(numpy.int64) // 65536 - 128
    return (v / 32768).astype(numpy.float32)


def page(i, shape):
    """Black words on grey paper, from −1 to 1."""
    x, y, c = i % shape[-1], i // shape[-1] % shape[-2], i // (shape[-1] * shape[-2]) % 3
    row, ink = y // 4 % 6, noise(y // 24 * 4099 + y // 3 * 65599 + x // 3)
    dark = (row > 0) & (row < 5) & (x // 40 % 3 != 2) & (ink % 3 == 0)
    v = numpy.where(dark, 16 + 8 * c, 224 - (x + y) % 32)
    return ((v - 127.5) / 127.5).astype(numpy.float32)


def fill(what, step):
    shape = what["shape"]
    size = int(numpy.prod(shape, dtype=numpy.int64))
    i = numpy.arange(size, dtype=numpy.int64)
    kinds = {
        "zeros": lambda: numpy.zeros(size, numpy.float32),
        "number": lambda: numpy.full(size, what["value"], numpy.float32),
        "integer": lambda: numpy.full(size, what["value"], numpy.int64),
        "sound": lambda: sound(i + step * size),
        "page": lambda: page(i, shape),
    }
    return kinds[what["fill"]]().reshape(shape)


def summary(x):
    flat = x.reshape(-1)
    at = sorted({int(k) * flat.size // 24 for k in range(24)} | {int(k) for k in numpy.argsort(-numpy.abs(flat.astype(numpy.float64)), kind="stable")[:8]}) if flat.size else []
    wide = flat.astype(numpy.float64)
    show = (lambda v: int(v)) if flat.dtype.kind in "iub" else (lambda v: float(f"{float(v):.9g}"))
    return {"shape": list(x.shape), "sum": float(f"{wide.sum():.9g}"), "magnitudes": float(f"{numpy.abs(wide).sum():.9g}"), "at": at, "values": [show(flat[k]) for k in at]}


def main():
    models = fetch.load()
    paths = {name: fetch.place(p, name, sys.argv[1]) for p in models["packages"] for name in p.get("models", {})}
    expected = {}
    for case in models["cases"]:
        session = onnxruntime.InferenceSession(paths[case["model"]], providers=["CPUExecutionProvider"])
        names = [o.name for o in session.get_outputs()]
        fed, steps = {}, []
        for step in range(case.get("steps", 1)):
            given = {name: fill(what, step) for name, what in case["inputs"].items()} | fed
            outputs = dict(zip(names, session.run(names, given)))
            fed = {to: outputs[out] for out, to in case.get("feed", {}).items()}
            steps.append({name: summary(x) for name, x in outputs.items() if step in (0, 1, case.get("steps", 1) - 1) or x.size < 24})
        expected[case["name"]] = steps
    path = os.path.join(fetch.HERE, "expected.json")
    with open(path, "w") as f:
        f.write('{\n"onnxruntime": "' + onnxruntime.__version__ + '",\n"cases": {\n')
        f.write(",\n".join(json.dumps(name) + ": [\n" + ",\n".join(json.dumps(s, separators=(",", ":")) for s in steps) + "\n]" for name, steps in expected.items()))
        f.write("\n}\n}\n")


if __name__ == "__main__":
    main()
