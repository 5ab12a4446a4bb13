"""Runs the models of a folder in onnxruntime on the elements beside them, and compares with the results beside them.

Usage: check_onnx.py FOLDER
"""
import pathlib
import sys

import numpy as np

try:
    import onnx
    import onnxruntime
except ImportError:
    sys.exit("no onnxruntime")

files = sorted(pathlib.Path(sys.argv[1]).glob("*.onnx"))
for file in files:
    onnx.checker.check_model(onnx.load(file), full_check=True)
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    x = np.fromfile(file.with_suffix(".x"), np.float32).reshape(-1, 3, 8, 8)
    got = session.run(None, {session.get_inputs()[0].name: x})[0]
    want = np.fromfile(file.with_suffix(".y"), np.float32).reshape(got.shape)
    wrong = np.abs(got - want).max() / max(1, np.abs(want).max())
    assert wrong < 1e-5, f"{file.name} errs by {wrong}"
print(f"{len(files)} models")
