"""The sweep's models that come from PyTorch: many kinds, random weights, half of them with dynamic axes.

Usage: export.py FOLDER [NAME...]   writes FOLDER/NAME/model.onnx, its inputs x0.npy …, and what PyTorch makes of them y0.npy …
Models that are there already are left alone. Needs what bench/requirements.txt pins.
"""
import pathlib
import sys
import warnings

warnings.filterwarnings("ignore")
import numpy as np  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402

import other  # noqa: E402
import text  # noqa: E402
import vision  # noqa: E402
from case import Function  # noqa: E402

CASES = {**vision.CASES, **text.CASES, **other.CASES}


def example(case):
    """The arguments of the export: the exporter takes a dynamic axis of one element for a fixed one."""
    def longer(x, axes):
        return torch.cat([x, x]) if axes and 0 in axes and x.shape[0] == 1 else x

    return case.example or tuple(longer(x, axes) for x, axes in zip(case.arguments, case.axes or [None] * len(case.arguments)))


def export(case, names, results, file):
    module = case.module
    if case.script:
        torch.onnx.export(module, case.arguments, file, input_names=names, output_names=results, opset_version=17, dynamo=False,
                          dynamic_axes=case.script)
        return
    axes = case.axes and ((case.axes,) if isinstance(module, Function) else case.axes)  # a Function's arguments are *arguments
    torch.onnx.export(module, example(case), file, input_names=names, output_names=results, opset_version=20, dynamo=True,
                      external_data=False, verbose=False, dynamic_shapes=axes)


def write(name, folder):
    torch.manual_seed(0)
    case = CASES[name]()
    for layer in case.module.eval().modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):  # statistics with an effect
            layer.running_mean.normal_(0, 0.1)
            layer.running_var.uniform_(0.5, 1.5)
    with torch.no_grad():
        expected = case.module(*case.arguments)
    expected = expected if isinstance(expected, (tuple, list)) else (expected,)
    folder.mkdir(parents=True, exist_ok=True)
    export(case, [f"x{i}" for i in range(len(case.arguments))], [f"y{i}" for i in range(len(expected))], str(folder / "partial.onnx"))
    for letter, arrays in (("x", case.arguments), ("y", expected)):
        for i, array in enumerate(arrays):
            np.save(folder / f"{letter}{i}.npy", array.numpy())
    (folder / "partial.onnx").rename(folder / "model.onnx")  # last, so that a model that exists is complete


def main():
    root, failed = pathlib.Path(sys.argv[1]), 0
    for name in sys.argv[2:] or CASES:
        if (root / name / "model.onnx").exists():
            continue
        try:
            write(name, root / name)
            print(name, flush=True)
        except Exception as e:  # the others are still made
            print(f"{name}: {type(e).__name__}: {str(e)[-300:]}", flush=True)
            failed += 1
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
