"""Runs the models that TestFinetune trained in onnxruntime, and compares with what Weir computes.

    python bench/training/finetune_check.py FOLDER

Needs onnx and onnxruntime.
"""
import json, pathlib, sys
import numpy as np, onnx, onnxruntime

folder = pathlib.Path(sys.argv[1])
size = json.loads((folder / "told.json").read_text())["size"]
x = np.fromfile(folder / "x.bin", np.float32).reshape(8, 3, size, size)
for file in sorted(folder.glob("trained_*.onnx")):
    onnx.checker.check_model(onnx.load(file), full_check=True)
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    got = session.run(None, {session.get_inputs()[0].name: x})[0]
    want = np.fromfile(f"{file}.bin", np.float32).reshape(got.shape)
    error = np.abs(got - want).max()
    print(f"{file.name}: {error:.1e} apart")
    assert error < 1e-4 * max(1, np.abs(want).max())
