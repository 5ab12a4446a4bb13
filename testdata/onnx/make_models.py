"""Makes the small ONNX models of this folder, with inputs and with the outputs that onnxruntime computes for them.

    pip install onnx==1.22.0 onnxruntime==1.31.1 numpy==2.4.6 ml_dtypes==0.6.0
    python make_models.py [NAME...]

Each case becomes NAME/model.onnx and NAME/test_data_set_N/{input,output}_I.pb: the layout of ONNX's own test data. The models
(models_*.py) are written in ONNX's text syntax; weights and inputs are drawn from a generator seeded by the case's name, so a
second run writes the same bytes. README.md lists what each case is for: it is the first line of the case's function.
"""
import json
import os
import shutil
import sys
import zlib

import numpy as np
import onnx
import onnx.reference
import onnxruntime
from onnx import numpy_helper, parser

HERE = os.path.dirname(os.path.abspath(__file__))
CASES = {}


class Case:
    """A model: its graph in ONNX's text syntax, its weights, and one dictionary of inputs for each data set.

    functions: model-local functions as text, domains: their opset imports as text, edit: changes the finished ModelProto,
    save: writes it in a way of its own, outputs: computes the expected outputs where onnxruntime cannot, amend: corrects those
    of onnxruntime's that are not the standard's, settings: the case's data.json: tolerances of its own, and why.
    """

    def __init__(self, graph, weights=None, data=(), opset=21, ir=10, functions="", domains="", edit=None, save=None, outputs=None, amend=None, settings=None):
        text = f'<ir_version: {ir}, opset_import: ["" : {opset}{domains}]>\n{graph.strip()}\n{functions}'
        self.model = parser.parse_model(text)
        self.model.producer_name = "make_models.py"
        for name, value in (weights or {}).items():
            self.model.graph.initializer.append(numpy_helper.from_array(value, name))
        if edit:
            edit(self.model)
        self.data = [{name: value if value is None or isinstance(value, list) else np.asarray(value) for name, value in inputs.items()} for inputs in data]
        self.save, self.outputs, self.amend, self.settings = save, outputs, amend, settings


def case(build):
    """Registers a function that takes a random generator and returns a Case; the function's name is the case's."""
    CASES[build.__name__] = build
    return build


def normal(rng, *shape, scale=1.0, dtype=np.float32):
    return (rng.standard_normal(shape) * scale).astype(dtype)


def ints(rng, low, high, *shape, dtype=np.int64):
    return rng.integers(low, high, shape).astype(dtype)


def run(path, inputs):
    """The outputs that onnxruntime computes, with the graph as it was written: its optimiser is off."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


def reference(model):
    """A function that computes the outputs by onnx's reference evaluator: for types that onnxruntime's Python interface lacks."""
    return lambda inputs: onnx.reference.ReferenceEvaluator(model).run(None, inputs)


def saved(value, declared):
    """A value in the message of its declared type."""
    if declared.type.HasField("optional_type"):
        return numpy_helper.from_optional(value, declared.name)
    if declared.type.HasField("sequence_type"):
        return numpy_helper.from_list(value, declared.name)
    return numpy_helper.from_array(np.asarray(value), declared.name)


def write(name, built):
    folder = os.path.join(HERE, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    path = os.path.join(folder, "model.onnx")
    (built.save or onnx.save)(built.model, path)
    onnx.checker.check_model(path, full_check=True)
    if built.settings:
        with open(os.path.join(folder, "data.json"), "w") as f:
            f.write(json.dumps(built.settings) + "\n")
    initial = {t.name for t in built.model.graph.initializer}
    for n, inputs in enumerate(built.data):
        results = built.outputs(inputs) if built.outputs else run(path, inputs)
        if built.amend:
            results = built.amend(inputs, results)
        directory = os.path.join(folder, f"test_data_set_{n}")
        os.makedirs(directory)
        declared = [i for i in built.model.graph.input if i.name not in initial or i.name in inputs]
        for kind, values in (("input", [(i, inputs[i.name]) for i in declared]),
                             ("output", list(zip(built.model.graph.output, results)))):
            for i, (port, value) in enumerate(values):
                with open(os.path.join(directory, f"{kind}_{i}.pb"), "wb") as f:
                    f.write(saved(value, port).SerializeToString())
    size = sum(os.path.getsize(os.path.join(d, f)) for d, _, files in os.walk(folder) for f in files)
    print(f"{name:24} {len(built.model.graph.node):3} nodes {len(built.data)} sets {size:6} bytes")


def main():
    import models_control, models_layers, models_memory, models_microsoft, models_sizes, models_types, models_values, models_vision  # noqa: F401  each registers its cases
    names = sys.argv[1:] or sorted(CASES)
    for name in names:
        write(name, CASES[name](np.random.default_rng(zlib.crc32(name.encode()))))
    if not sys.argv[1:]:
        with open(os.path.join(HERE, "README.md"), "w") as f:
            f.write("# Small ONNX models\n\nEach folder is a model with inputs and expected outputs, in the layout of ONNX's own test data "
                    "(`weir test testdata/onnx/*/`).\n`make_models.py` writes all of it, this file too; the outputs are onnxruntime's unless a case says otherwise.\n\n"
                    "| case | what it shows |\n|---|---|\n")
            for name in sorted(CASES):
                f.write(f"| {name} | {CASES[name].__doc__.strip()} |\n")


if __name__ == "__main__":
    sys.modules["make_models"] = sys.modules["__main__"]
    main()
