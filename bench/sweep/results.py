"""Writes a model's folder if only onnxruntime can compute its results."""
import numpy as np
import onnx
import onnxruntime


def write(folder, model, inputs):
    """model.onnx, x0.npy … and y0.npy …, the results of onnxruntime without its optimisations, in the order of the outputs."""
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(model, folder / "partial.onnx")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level, options.log_severity_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL, 4
    session = onnxruntime.InferenceSession(str(folder / "partial.onnx"), options, providers=["CPUExecutionProvider"])
    for i, x in enumerate(inputs):
        np.save(folder / f"x{i}.npy", x)
    for i, y in enumerate(session.run(None, {f"x{i}": x for i, x in enumerate(inputs)})):
        np.save(folder / f"y{i}.npy", y)
    (folder / "partial.onnx").rename(folder / "model.onnx")  # last, so that a model that exists is complete
