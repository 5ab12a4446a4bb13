"""Writes the models of TestBounds: ONNX files that take the place of bert_onnx's, with few positions or other needs.

Run it by a Python that has onnx: python embed/testdata/bounds.py
"""

import pathlib

import numpy as np
import onnx

FOLDER = pathlib.Path(__file__).resolve().parent / "bounds"
INPUTS = "int64[batch, tokens] input_ids, int64[batch, tokens] attention_mask"
OF_IDS = """
  padding = Equal (input_ids, one)
  token = Not (padding)
  number = Cast <to = 6> (token)
  counted = CumSum (number, one)
  masked = Mul (counted, number)
  wide = Cast <to = 7> (masked)
  at = Add (wide, one)"""
OF_MASK = """
  counted = CumSum (attention_mask, one)
  before = Sub (counted, one)
  padding = Equal (attention_mask, zero)
  at = Where (padding, one, before)"""
DOUBLED = """
  at = Add (input_ids, input_ids)"""
SUM = """
  words_at = Gather (words, input_ids)
  positions_at = Gather (positions, at)
  last_hidden_state = Add (words_at, positions_at)"""
NEAR = """
  words_at = Gather (words, input_ids)
  turned = Transpose <perm = [0, 2, 1]> (words_at)
  near = Conv (turned, filter)
  sentence_embedding = ReduceMean <keepdims = 0> (near, two)"""


def model(name, body, rows, out="float[batch, tokens, 2] last_hidden_state"):
    draw = np.random.default_rng(39)
    graph = onnx.parser.parse_graph(f"g ({INPUTS}) => ({out}) {{{body}\n}}")
    weights = {"words": draw.integers(-8, 8, (320, 2)).astype(np.float32) / 8, "positions": draw.integers(-8, 8, (rows, 2)).astype(np.float32) / 8,
               "filter": np.ones((2, 2, 5), np.float32), "zero": np.array(0), "one": np.array(1), "two": np.array([2])}
    for key, value in weights.items():
        if key in body:
            graph.initializer.append(onnx.numpy_helper.from_array(value, key))
    made = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9)
    onnx.checker.check_model(made, full_check=True)
    onnx.save(made, FOLDER / (name + ".onnx"))


FOLDER.mkdir(exist_ok=True)
model("of_ids", OF_IDS + SUM, 34)
model("of_mask", OF_MASK + SUM, 24)
model("doubled", DOUBLED + SUM, 200)
model("near", NEAR, 0, "float[batch, 2] sentence_embedding")
