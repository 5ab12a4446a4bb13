"""The models of ../serving.py, exported from PyTorch with a free number of rows, and of tokens.

Usage: export.py FOLDER   writes FOLDER/NAME.onnx; a model that is there already is left alone. Needs what bench/requirements.txt pins.
"""
import pathlib
import sys
import warnings

warnings.filterwarnings("ignore")
import torch  # noqa: E402
import torchvision.models as vision  # noqa: E402
from torch import nn  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from models import Encoder  # noqa: E402


def image():
    return (torch.randn(2, 3, 224, 224),), ({0: "rows"},)


def words():
    return (torch.randint(0, 30000, (2, 32)), torch.ones(2, 32, dtype=torch.int64)), ({0: "rows", 1: "tokens"},) * 2


MODELS = {
    "mlp": lambda: (nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)), (torch.randn(2, 64),), ({0: "rows"},)),
    "mobilenet_v2": lambda: (vision.mobilenet_v2(), *image()),
    "resnet50": lambda: (vision.resnet50(), *image()),
    "bert": lambda: (Encoder(6, 384, 12, 1536), *words()),  # of MiniLM's size
}


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in MODELS.items():
        target = folder / f"{name}.onnx"
        if target.exists():
            continue
        torch.manual_seed(0)
        model, arguments, free = make()
        partial = folder / "partial"
        torch.onnx.export(model.eval(), arguments, str(partial), input_names=[f"x{i}" for i in range(len(arguments))], output_names=["y"],
                          opset_version=17, dynamo=False, dynamic_axes={f"x{i}": axes for i, axes in enumerate(free)} | {"y": {0: "rows"}})
        partial.rename(target)
        print(name, flush=True)


if __name__ == "__main__":
    main()
