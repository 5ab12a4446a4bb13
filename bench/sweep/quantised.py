"""Models of the sweep with integers, four bits or halves for weights, made by onnxruntime's own tools.

Usage: quantised.py FOLDER [NAME...]    FOLDER has the models that these are made of; writes what trees.py writes
       quantised.py --beside FOLDER     FOLDER/int8.onnx, of FOLDER/model.onnx with quantised weights and dynamic activations;
                                        weights of four bits stay, and onnxruntime may quantise the activations
Needs what bench/rivals.txt pins.
"""
import pathlib
import sys
import tempfile
import warnings

warnings.filterwarnings("ignore")
import numpy as np  # noqa: E402
import onnx  # noqa: E402
from onnxruntime import quantization  # noqa: E402

import results  # noqa: E402

QUInt8, QInt8 = quantization.QuantType.QUInt8, quantization.QuantType.QInt8


class Samples(quantization.CalibrationDataReader):
    """Three random inputs like the given ones."""

    def __init__(self, inputs):
        random = np.random.RandomState(1)
        self.rest = iter([{f"x{i}": random.randn(*x.shape).astype(x.dtype) if x.dtype.kind == "f" else x for i, x in enumerate(inputs)}
                          for _ in range(3)])

    def get_next(self):
        return next(self.rest, None)


def static(folder, inputs, **settings):
    """Quantised activations and weights: QuantizeLinear and DequantizeLinear around operators."""
    from onnxruntime.quantization.shape_inference import quant_pre_process

    with tempfile.TemporaryDirectory() as work:
        ready, made = f"{work}/ready.onnx", f"{work}/made.onnx"
        quant_pre_process(str(folder / "model.onnx"), ready, skip_symbolic_shape=True)
        quantization.quantize_static(ready, made, Samples(inputs), quant_format=quantization.QuantFormat.QDQ, weight_type=QInt8, **settings)
        return onnx.load(made), inputs


def dynamic(folder, inputs):
    """Quantised weights; activations are quantised as the model runs."""
    with tempfile.TemporaryDirectory() as work:
        model = onnx.load(folder / "model.onnx")
        del model.graph.value_info[:]  # what PyTorch's exporter wrote there does not always agree with shape inference
        onnx.save(model, f"{work}/model.onnx")
        quantization.quantize_dynamic(f"{work}/model.onnx", f"{work}/made.onnx")
        return onnx.load(f"{work}/made.onnx"), inputs


def four_bits(folder, inputs):
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    quantizer = MatMulNBitsQuantizer(onnx.load(folder / "model.onnx"), block_size=32, is_symmetric=True)
    quantizer.process()
    return quantizer.model.model, inputs


def quantised_activations(model):
    """A model with weights of four bits whose products may quantise their activations to int8; None: it has no such weights."""
    nodes = [n for n in model.graph.node if n.op_type == "MatMulNBits"]
    for node in nodes:
        kept = [a for a in node.attribute if a.name != "accuracy_level"]
        del node.attribute[:]
        node.attribute.extend([*kept, onnx.helper.make_attribute("accuracy_level", 4)])
    return model if nodes else None


def halves(folder, inputs):
    from onnxconverter_common import float16

    model = float16.convert_float_to_float16(onnx.load(folder / "model.onnx"))
    return model, [x.astype(np.float16) if x.dtype == np.float32 else x for x in inputs]


CASES = {
    "q8_resnet18": ("resnet18_dyn_hw", lambda *a: static(*a, per_channel=True, activation_type=QUInt8)),
    "q8_bert": ("distilbert_dyn", lambda *a: static(*a, activation_type=QInt8)),
    "q8dyn_bert": ("distilbert_dyn", dynamic),
    "int4_distilbert": ("distilbert_dyn", four_bits),
    "f16_resnet18": ("resnet18_dyn_hw", halves),
    "gpt2_decode_int4": ("gpt2_decode_p127", four_bits),
}


def main():
    if sys.argv[1] == "--beside":
        folder = pathlib.Path(sys.argv[2])
        onnx.save(quantised_activations(onnx.load(folder / "model.onnx")) or dynamic(folder, [])[0], folder / "partial.onnx")
        return (folder / "partial.onnx").rename(folder / "int8.onnx")
    root, names = pathlib.Path(sys.argv[1]), sys.argv[2:] or list(CASES)
    for name in names:
        source, make = CASES[name]
        files = sorted((root / source).glob("x*.npy"), key=lambda f: int(f.stem[1:]))
        results.write(root / name, *make(root / source, [np.load(f) for f in files]))


if __name__ == "__main__":
    main()
