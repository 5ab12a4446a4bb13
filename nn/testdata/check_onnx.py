"""Runs models in onnxruntime on the inputs of fixtures, and compares with their results.

Usage: check_onnx.py MODELS FIXTURES
"""
import json
import pathlib
import struct
import sys

import numpy as np
import onnx

try:
    import onnxruntime
except ImportError:
    sys.exit("no onnxruntime")

TYPES = {"F32": np.float32, "I64": np.int64, "I32": np.int32, "BOOL": np.bool_}


def read(path):
    data = path.read_bytes()
    n = struct.unpack("<Q", data[:8])[0]
    table, body = json.loads(data[8:8 + n]), data[8 + n:]
    return {k: np.frombuffer(body[e["data_offsets"][0]:e["data_offsets"][1]], TYPES[e["dtype"]]).reshape(e["shape"]) for k, e in table.items()}


def main():
    good, files = 0, sorted(pathlib.Path(sys.argv[1]).glob("*.onnx"))
    for file in files:
        f = read(pathlib.Path(sys.argv[2]) / f"{file.stem}.safetensors")
        try:
            onnx.checker.check_model(onnx.load(file), full_check=True)
            session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
            results = session.run(None, {i.name: f[i.name] for i in session.get_inputs()})
            for i, got in enumerate(results):
                want = f[f"y{i}"]
                assert got.shape == want.shape, f"result {i} is {got.shape}, not {want.shape}"
                wrong = np.abs(got - want).max() / max(1, np.abs(want).max())
                assert wrong < 2e-5, f"result {i} errs by {wrong}"
            good += 1
        except Exception as e:
            print(f"{file.stem}: {str(e)[:400]}")
    print(f"{good} models")
    sys.exit(good < len(files))


main()
