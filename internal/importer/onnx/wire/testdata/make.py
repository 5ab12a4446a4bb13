"""Writes the files beside it with the Python package onnx (1.22): messages, and as .txt what the package reads in them.

The text is that of malformedtest.Text: a line a value, fields by number, singular zeros left out, floats as bits.
Run: python make.py
"""
import hashlib
import os
import struct

import numpy as np
import onnx
from google.protobuf.descriptor import FieldDescriptor as F
from onnx import TensorProto as T
from onnx import helper as h

SKIPPED = {"device_configurations", "configuration", "training_info"}


def leaf(field, value):
    if field.type == F.TYPE_FLOAT:
        return struct.pack(">f", value).hex()
    if field.type == F.TYPE_DOUBLE:
        return struct.pack(">d", value).hex()
    if field.type in (F.TYPE_STRING, F.TYPE_BYTES):
        value = value.encode() if isinstance(value, str) else value
        return value.hex() if len(value) <= 32 else f"{len(value)}:{hashlib.sha256(value).hexdigest()}"
    return str(int(value))


def text(out, prefix, message):
    for field, value in sorted(message.ListFields(), key=lambda pair: pair[0].number):
        if field.name in SKIPPED:
            continue
        for i, element in enumerate(value if field.is_repeated else [value]):
            path = prefix + field.name + (f"[{i}]" if field.is_repeated else "")
            if field.type == F.TYPE_MESSAGE:
                out.append(path + "{}\n")
                text(out, path + ".", element)
            elif field.is_repeated or leaf(field, element).strip("0") != "":
                out.append(f"{path}={leaf(field, element)}\n")


def write(name, message):
    folder = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(folder, name), "wb") as f:
        f.write(message.SerializeToString())
    out = []
    text(out, "", message)
    with open(os.path.join(folder, name + ".txt"), "w") as f:
        f.write("".join(out))


def tensors():
    """Every element type in its typed field, and in raw_data what has one."""
    values = [0, 1, 1, 0, 1]
    made = []
    for name, number in sorted(T.DataType.items(), key=lambda pair: pair[1]):
        if name == "UNDEFINED":
            continue
        data = [b"a", "é".encode(), b"", b"b", b"c"] if name == "STRING" else values
        made.append(h.make_tensor(name.lower(), number, [5], data))
        if name != "STRING":
            t = onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(made[-1]), "raw_" + name.lower())
            made.append(t)
    return made


def types():
    tensor = h.make_tensor_type_proto(T.FLOAT, ["batch", 3, None, 0])
    sequence = h.make_sequence_type_proto(tensor)
    opaque = onnx.TypeProto(denotation="IMAGE")
    opaque.opaque_type.domain, opaque.opaque_type.name = "some.domain", "Thing"
    return [
        tensor,
        h.make_tensor_type_proto(T.INT64, None),
        h.make_tensor_type_proto(T.BOOL, []),
        sequence,
        h.make_optional_type_proto(sequence),
        h.make_map_type_proto(T.STRING, sequence),
        h.make_sparse_tensor_type_proto(T.DOUBLE, [7, "n"]),
        opaque,
    ]


def model():
    body = h.make_graph([h.make_node("Identity", ["outer"], ["inner"])], "body", [], [h.make_value_info("inner", types()[0])])
    attributes = dict(
        f=0.0, i=0, s="", t=tensors()[0], g=body, floats=[1.5, -0.0, float("inf")], ints=[-1, 0, 2**63 - 1, -(2**63)],
        strings=["x", ""], tensors=tensors()[:2], graphs=[body, body], tp=types()[4], type_protos=types()[:2],
        sparse_tensor=h.make_sparse_tensor(h.make_tensor("v", T.FLOAT, [1], [2.5]), h.make_tensor("i", T.INT64, [1], [3]), [9]),
    )
    node = h.make_node("Everything", ["a", "", "b"], ["c", ""], name="n", doc_string="of a node", domain="some.domain", overload="o", **attributes)
    node.attribute.add(name="referring", type=onnx.AttributeProto.INT, ref_attr_name="outer_name")
    node.metadata_props.add(key="k", value="v")
    node.device_configurations.add(configuration_id="skipped")
    graph = h.make_graph([node], "g", [h.make_value_info(f"in{i}", t) for i, t in enumerate(types())], [h.make_value_info("out", types()[3])],
                         tensors(), doc_string="of a graph", value_info=[h.make_value_info("v", types()[0])])
    graph.sparse_initializer.append(attributes["sparse_tensor"])
    graph.input[0].doc_string = "of a value"
    graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    note = graph.quantization_annotation.add(tensor_name="a")
    note.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="s")
    graph.metadata_props.add(key="gk", value="gv")
    external = graph.initializer.add(name="external", data_type=T.FLOAT, dims=[1024], data_location=T.EXTERNAL)
    for key, value in dict(location="w.bin", offset="4096", length="4096").items():
        external.external_data.add(key=key, value=value)
    segment = graph.initializer.add(name="segment", data_type=T.FLOAT, dims=[4])
    segment.segment.begin, segment.segment.end = 2, 4
    function = h.make_function("some.domain", "Everything", ["x"], ["y"], [h.make_node("Relu", ["x"], ["y"])],
                               [h.make_opsetid("", 21)], attributes=["no_default"], attribute_protos=[h.make_attribute("with_default", 7)],
                               doc_string="of a function", overload="o", value_info=[h.make_value_info("x", types()[0])])
    m = h.make_model(graph, producer_name="onnx", producer_version="1.22", domain="a.domain", model_version=-3, doc_string="of a model",
                     functions=[function], opset_imports=[h.make_opsetid("", 21), h.make_opsetid("some.domain", 1)])
    m.metadata_props.add(key="mk", value="mv")
    m.training_info.add().algorithm.name = "skipped"
    m.configuration.add(name="skipped", num_devices=2)
    return m


def values():
    numbers = h.make_tensor("n", T.INT32, [2], [1, 2])
    sequence = onnx.helper.make_sequence("s", onnx.SequenceProto.TENSOR, [numbers, numbers])
    nested = onnx.helper.make_sequence("ss", onnx.SequenceProto.SEQUENCE, [sequence, sequence])
    mapping = onnx.helper.make_map("m", T.INT64, [5, -6], sequence)
    return {
        "sequence.pb": nested,
        "map.pb": mapping,
        "stringmap.pb": onnx.helper.make_map("m", T.STRING, [b"a", b"b"], sequence),
        "optional.pb": onnx.helper.make_optional("o", onnx.OptionalProto.SEQUENCE, sequence),
        "nothing.pb": onnx.helper.make_optional("o", onnx.OptionalProto.UNDEFINED, None),
        "mapsequence.pb": onnx.helper.make_sequence("s", onnx.SequenceProto.MAP, [mapping]),
    }


def main():
    write("everything.onnx", model())
    for name, value in values().items():
        write(name, value)


main()
