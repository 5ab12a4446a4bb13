"""Writes numpy.npz: arrays as NumPy saves them, in every type, byte order, memory order, version and shape that npy reads.

    pip install numpy==2.4.6 && python golden.py

A member is called descr_order_memory_version_shape. Element i of an array, counted in row-major order, is i, or for strings
what text(i) gives. Members alternate between stored and deflated.
"""

import io
import zipfile

import numpy as np


def text(i):
    return "" if i == 0 else "é€😀"[: i % 4] + str(i)


members = []


def add(descr, order, memory, version, shape):
    n = int(np.prod(shape, dtype=np.int64))
    if descr.startswith("U"):
        a = np.array([text(i) for i in range(n)], dtype=order + "U6")
    elif descr.startswith("S"):
        a = np.array([text(i).encode() for i in range(n)], dtype="S12")
    else:
        a = np.arange(n).astype(descr).astype(np.dtype(descr).newbyteorder(order))
    a = a.reshape(shape, order="C")
    a = np.asarray(a, order=memory)
    out = io.BytesIO()
    np.lib.format.write_array(out, a, version=version)
    name = "_".join([descr, {"<": "little", ">": "big"}[order], memory, str(version[0]), "x".join(map(str, shape)) or "scalar"])
    members.append((name, out.getvalue()))


TYPES = ["b1", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "c8", "c16", "U", "S"]
for descr in TYPES:
    for order in "<>":
        for memory in "CF":
            add(descr, order, memory, (1, 0), (2, 3))
for shape in [(), (1,), (0,), (7,), (2, 0, 3), (2, 3, 4), (1, 5, 1), (2, 1, 3, 2)]:
    for memory in "CF":
        add("f4", "<", memory, (1, 0), shape)
        add("U", "<", memory, (1, 0), shape)
for version in [(2, 0), (3, 0)]:
    add("i4", ">", "F", version, (2, 3))

with zipfile.ZipFile("numpy.npz", "w") as archive:
    for i, (name, data) in enumerate(dict(members).items()):
        kind = zipfile.ZIP_DEFLATED if i % 2 else zipfile.ZIP_STORED
        info = zipfile.ZipInfo(name + ".npy", (1980, 1, 1, 0, 0, 0))
        archive.writestr(info, data, kind)
