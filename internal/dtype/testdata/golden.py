"""Writes golden.txt: what ml_dtypes, NumPy and ONNX's reference give for the conversions that dtype's tests repeat.

    pip install ml_dtypes==0.6.0 numpy onnx==1.22.0 && python golden.py > golden.txt

A line is: source type, destination type, mode, CRC-32 of the destination's codes. The inputs are every code of the source;
of f32, every upper 19 bits with each of four lower 13 bits. NaNs are left out of f32 to f16, where NumPy keeps signalling ones.
A table line instead spells out the f32 values, as bits, of every code of a type; a NaN is written nan.
"""

import warnings
import zlib

import ml_dtypes
import numpy as np
import onnx.numpy_helper

warnings.simplefilter("ignore")

NARROW = {
    "f4e2m1": ml_dtypes.float4_e2m1fn,
    "f8e4m3fn": ml_dtypes.float8_e4m3fn,
    "f8e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "f8e5m2": ml_dtypes.float8_e5m2,
    "f8e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "f8e8m0": ml_dtypes.float8_e8m0fnu,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
}
INTEGERS = {"u2": ml_dtypes.uint2, "i2": ml_dtypes.int2, "u4": ml_dtypes.uint4, "i4": ml_dtypes.int4}
SATURATING = ["f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz"]


def codes_of(a):
    return a.view(np.uint16 if a.dtype.itemsize == 2 else np.uint8)


def show(source, destination, mode, codes):
    print(source, destination, mode, f"{zlib.crc32(codes.tobytes()):08x}")


upper = np.arange(1 << 19, dtype=np.uint32) << 13
f32 = np.concatenate([upper | low for low in (0x0000, 0x0001, 0x1000, 0x1FFF)]).view(np.float32)
f16 = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
bf16 = np.arange(1 << 16, dtype=np.uint16).view(ml_dtypes.bfloat16)

for name, kind in NARROW.items():
    if np.dtype(kind).itemsize == 1:
        values = np.arange(16 if name == "f4e2m1" else 256, dtype=np.uint8).view(kind).astype(np.float32)
        print("table", name, *("nan" if np.isnan(v) else f"{v.view(np.uint32):08x}" for v in values))
    else:
        values = np.arange(1 << 16, dtype=np.uint16).view(kind).astype(np.float32)
        show(name, "f32", "no-nan", values[~np.isnan(values)].view(np.uint32))

for source, values in (("f32", f32), ("f16", f16), ("bf16", bf16)):
    for name, kind in NARROW.items():
        if name in (source, "f8e8m0"):
            continue
        if name == "f16":
            show(source, name, "no-nan", codes_of(values[~np.isnan(values.astype(np.float32))].astype(kind)))
            continue
        show(source, name, "plain", codes_of(values.astype(np.float32).astype(kind)))
    for name in SATURATING:
        # NumPy's clip keeps a NaN and its sign, and the sign of a zero.
        show(source, name, "saturate", codes_of(onnx.numpy_helper.saturate_cast(values.astype(np.float32), NARROW[name])))

# Finite normal values above 0 alone: of others the reference departs from the operator's text.
words = f32.view(np.uint32)
normal = f32[(words >= 0x00800000) & (words < 0x7F800000)]
for mode in ("up", "down", "nearest"):
    for saturate in (True, False):
        converted = onnx.numpy_helper.to_float8e8m0(normal, saturate, mode)
        show("f32", "f8e8m0", mode + ("-saturate" if saturate else ""), codes_of(converted))

for source, values in (("i16", np.arange(1 << 16, dtype=np.uint16).view(np.int16)), ("f16", np.arange(-300, 300, 0.25).astype(np.float16))):
    for name, kind in INTEGERS.items():
        wide = np.int8 if name.startswith("i") else np.uint8
        show(source, name, "plain", values.astype(kind).astype(wide).view(np.uint8))
for name, kind in INTEGERS.items():
    wide = np.int8 if name.startswith("i") else np.uint8
    every = np.arange(1 << int(name[1]), dtype=np.uint8)
    if name.startswith("i"):
        every = every.astype(np.int8) - (1 << int(name[1]) - 1)
    show(name, "f32", "plain", every.astype(wide).astype(kind).astype(np.float32).view(np.uint32))
