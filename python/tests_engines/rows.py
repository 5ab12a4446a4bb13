"""Rows for the tests: what they are made of, what one process makes of them, and workers that die."""

from __future__ import annotations

import os
import pathlib
import random
import signal

import numpy
import weir

ROOT = pathlib.Path(__file__).resolve().parents[2]
DIGITS = str(ROOT / "examples" / "digits" / "data" / "digits.onnx")
TEXTS = str(ROOT / "embed" / "testdata" / "models" / "bert")  # a model of texts, with vectors of 32 numbers
WIDTH = 16

# A small model of rows.
MODEL = b"""weir 1
ir @score {
  dim n in [0, 100000000]
  main @main(%x: f32[n, 16]) {
    %square: f32[n, 16] = mul(%x, %x)
    %sum: f32[n, 16] = add(%square, %x)
    %scores: f32[n, 16] = softmax(%sum) {axis = int 1}
    return %scores
  }
}
"""

# Its rows depend on each other.
JOINED = MODEL.replace(b"axis = int 1", b"axis = int 0")

# Two inputs, and two outputs, of which one is a number for each row.
TWO = b"""weir 1
ir @two {
  dim n in [0, 100000000]
  main @main(%x: f32[n, 2, 3], %y: f32[n]) {
    %double: f32[n, 2, 3] = add(%x, %x)
    %square: f32[n] = mul(%y, %y)
    return %double, %square
  }
}
"""


def features(ids, width: int = WIDTH):
    """The row of each id, between -2 and 2."""
    mixed = ids.astype(numpy.uint64)[:, None] * numpy.uint64(2654435761) + numpy.arange(width, dtype=numpy.uint64) * numpy.uint64(40503)
    return (((mixed >> numpy.uint64(7)) % numpy.uint64(4001)).astype(numpy.float32) - 2000) / numpy.float32(1000)


def texts(ids):
    """The text of each id."""
    return [f"The museum in Vienna bought {id} paintings" + " for the garden" * (int(id) % 7) for id in ids]


def images(ids):
    """The image of each id, for the digits."""
    return features(ids, 64).reshape(-1, 1, 8, 8)


def alone(model, x, batch_size: int = 256, threads: int = 1):
    """What one process makes of rows, one run after the other."""
    loaded = weir.load(model)
    (first,) = {port.shape[0] for port in loaded.inputs}
    program = weir.compile(loaded, dims={first: (1, batch_size)}, threads=threads)
    parts = []
    for i in range(0, len(x), batch_size):
        y = program(x[i : i + batch_size])
        parts.append(y.numpy().copy())
        y.close()
    return numpy.concatenate(parts)


def lives(folder: pathlib.Path, count: int) -> str:
    """A folder of as many files as workers are to die."""
    folder.mkdir()
    for i in range(count):
        (folder / str(i)).touch()
    return str(folder)


def perhaps_die(folder: str, victim=os.getpid, chance: float = 0.2) -> None:
    """Kills the process that calls it, or another, as the system's out-of-memory killer would, if a file is left in the
    folder: one file for each death.
    """
    if random.SystemRandom().random() >= chance:
        return
    for name in os.listdir(folder):
        try:
            os.unlink(os.path.join(folder, name))
        except FileNotFoundError:  # another worker died of it
            continue
        os.kill(victim(), signal.SIGKILL)
        return


def status(name: str) -> int:
    """Bytes of this process that the system counts, such as VmRSS."""
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith(name + ":"))


def usages(program):
    """Parts of the certificate for the sizes of x, and what weir holds of them while a result is open."""

    def measured(x):
        y = program(x)
        held = weir.usage()
        sizes = {program.dims[0].name: len(x), "ceildiv": lambda a, b: -(-a // b), "max": max, "min": min}
        parts = {name: eval(formula, dict(sizes)) for name, formula in program.memory.parts.items()}
        y.close()
        return parts, held

    return measured
