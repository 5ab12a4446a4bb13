"""The models that the clients' test serves, written by the onnx package: small ones that answer with what they got."""
import pathlib
import shutil

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

HERE = pathlib.Path(__file__).parent
DIGITS = HERE / "../../examples/digits/data/digits.onnx"
WEIGHTS = np.random.default_rng(39).normal(size=(3, 8, 8), scale=0.4).astype(np.float32)  # of the model attend: queries, keys, values
# By the protocol's names of element types.
TYPES = {"BOOL": TensorProto.BOOL, "INT8": TensorProto.INT8, "INT16": TensorProto.INT16, "INT32": TensorProto.INT32, "INT64": TensorProto.INT64,
         "UINT8": TensorProto.UINT8, "UINT16": TensorProto.UINT16, "UINT32": TensorProto.UINT32, "UINT64": TensorProto.UINT64, "FP16": TensorProto.FLOAT16,
         "BF16": TensorProto.BFLOAT16, "FP32": TensorProto.FLOAT, "FP64": TensorProto.DOUBLE, "BYTES": TensorProto.STRING}


def write(path, nodes, inputs, outputs, constants=()):
    """Writes a model; inputs and outputs are (name, the protocol's type, shape)."""
    def values(some):
        return [helper.make_tensor_value_info(name, TYPES[kind], shape) for name, kind, shape in some]
    graph = helper.make_graph([helper.make_node(*n[:3], **dict(*n[3:])) for n in nodes], "g", values(inputs), values(outputs), list(constants))
    path.parent.mkdir(parents=True, exist_ok=True)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)


CONTROLS = """oldest { max_candidate_sequences: 4 }
  control_input [ { name: "start" control [ { kind: CONTROL_SEQUENCE_START bool_false_true: [ false, true ] } ] },
                  { name: "id" control [ { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_STRING } ] } ]"""


def stateful(root, name, nodes, inputs, outputs, kind, dims, first, more="direct { }"):
    """Writes a model whose input state becomes its output next in each step of a sequence."""
    write(root / name / "1" / "model.onnx", nodes, inputs, outputs)
    (root / name / "config.pbtxt").write_text(f"""sequence_batching {{
  max_sequence_idle_microseconds: 60000000
  {more}
  state [ {{ input_name: "state" output_name: "next" data_type: TYPE_{kind} dims: [ {dims} ]
             initial_state: {{ data_type: TYPE_{kind} dims: [ {first} ] zero_data: true name: "zero" }} }} ]
}}
""")


def constant(value):
    return helper.make_tensor("c", TensorProto.FLOAT, [], [value])


def folder(root):
    """Writes the folder of models."""
    shutil.copytree(DIGITS.parent, root, ignore=lambda _, names: [n for n in names if n != DIGITS.name])
    for kind in TYPES:
        write(root / f"same_{kind.lower()}.onnx", [("Identity", ["x"], ["y"])], [("x", kind, ["rows", 3])], [("y", kind, ["rows", 3])])
    write(root / "two.onnx", [("Add", ["a", "b"], ["sum"]), ("Sub", ["a", "b"], ["difference"])], [(n, "FP32", ["rows", 3]) for n in "ab"],
          [(n, "FP32", ["rows", 3]) for n in ("sum", "difference")])
    write(root / "scalar.onnx", [("Add", ["x", "c"], ["y"])], [("x", "FP32", [])], [("y", "FP32", [])], [constant(1)])
    write(root / "axes.onnx", [("Add", ["x", "x"], ["y"])], [("x", "INT32", ["a", "b", "c"])], [("y", "INT32", ["a", "b", "c"])])
    write(root / "large.onnx", [("Neg", ["x"], ["y"])], [("x", "FP32", ["n"])], [("y", "FP32", ["n"])])
    for name, policy in (("latest", ""), ("specific", "version_policy { specific { versions: [1, 3] } }"), ("whole", "version_policy { all {} }")):
        for version in (1, 2, 3):
            write(root / name / str(version) / "model.onnx", [("Mul", ["x", "c"], ["y"])], [("x", "FP32", ["rows", 3])], [("y", "FP32", ["rows", 3])],
                  [constant(version)])
        if policy:
            (root / name / "config.pbtxt").write_text(f'name: "{name}"\nbackend: "onnxruntime"\nmax_batch_size: 8\n{policy}\n')
    for kind in ("INT32", "FP32"):
        stateful(root, f"sum_{kind.lower()}", [("Add", ["state", "x"], ["next"]), ("Identity", ["next"], ["y"])],
                 [("x", kind, [1]), ("state", kind, [1])], [("y", kind, [1]), ("next", kind, [1])], kind, 1, 1)
    stateful(root, "list", [("Concat", ["state", "x"], ["next"], {"axis": 0}), ("ReduceSum", ["next"], ["y"], {"keepdims": 1})],
             [("x", "FP32", ["n"]), ("state", "FP32", ["p"])], [("y", "FP32", [1]), ("next", "FP32", ["q"])], "FP32", -1, 0)
    stateful(root, "started", [("Where", ["start", "x", "state"], ["old"]), ("Add", ["old", "x"], ["next"]), ("Identity", ["next"], ["y"]), ("Identity", ["id"], ["who"])],
             [("x", "FP32", [1]), ("state", "FP32", [1]), ("start", "BOOL", [1]), ("id", "BYTES", [1])], [("y", "FP32", [1]), ("next", "FP32", [1]), ("who", "BYTES", [1])],
             "FP32", 1, 1, CONTROLS)
    attend = [("MatMul", ["x", "wq"], ["q"]), ("MatMul", ["x", "wk"], ["k"]), ("MatMul", ["x", "wv"], ["v"]), ("Concat", ["keys", "k"], ["k2"], {"axis": 1}),
              ("Concat", ["values", "v"], ["v2"], {"axis": 1}), ("Transpose", ["k2"], ["t"], {"perm": [0, 2, 1]}), ("MatMul", ["q", "t"], ["s"]),
              ("Softmax", ["s"], ["a"]), ("MatMul", ["a", "v2"], ["y"])]
    write(root / "attend" / "1" / "model.onnx", attend, [("x", "FP32", [1, "n", 8]), ("keys", "FP32", [1, "p", 8]), ("values", "FP32", [1, "p", 8])],
          [("y", "FP32", [1, "n", 8]), ("k2", "FP32", [1, "m", 8]), ("v2", "FP32", [1, "m", 8])], [numpy_helper.from_array(w, "w" + n) for w, n in zip(WEIGHTS, "qkv")])
    cache = "\n".join(f"""  state {{ input_name: "{name}" output_name: "{name[0]}2" data_type: TYPE_FP32 dims: [ 1, -1, 8 ]
          initial_state: {{ data_type: TYPE_FP32 dims: [ 1, 0, 8 ] zero_data: true name: "empty" }} }}""" for name in ("keys", "values"))
    (root / "attend" / "config.pbtxt").write_text(f"sequence_batching {{\n  max_sequence_idle_microseconds: 60000000\n{cache}\n}}\n")
    shutil.copytree(DIGITS.parents[3] / "embed/testdata/models/bert", root / "minilm")  # a tiny one, of 32 elements
    (root / "broken.onnx").write_bytes(b"this is no model")
