"""Evaluates each model of a folder with ONNX's reference evaluator: NAME.onnx with NAME.in0.npy and so on gives NAME.out0.npy and so on, or NAME.error."""

import glob
import os
import sys
import warnings

import numpy
import onnx
from onnx.reference import ReferenceEvaluator

warnings.simplefilter("ignore")
numpy.seterr(all="ignore")
for path in sorted(glob.glob(os.path.join(sys.argv[1], "*.onnx"))):
    name = path[:-5]
    try:
        model = onnx.load(path)
        given = {}
        for i, value in enumerate(model.graph.input):
            given[value.name] = numpy.load(f"{name}.in{i}.npy")
        for i, result in enumerate(ReferenceEvaluator(model).run(None, given)):
            numpy.save(f"{name}.out{i}.npy", numpy.asarray(result))
    except Exception as e:
        with open(f"{name}.error", "w", encoding="utf-8") as f:
            f.write(f"{type(e).__name__}: {e}")
