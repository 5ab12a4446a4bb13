"""Exports architectures from torchvision and transformers (random weights), runs each through `weir run`, and compares with PyTorch.

Usage: compare.py WEIR FOLDER [NAME...]   prints a line a model: largest difference relative to the largest output, and predicted beside measured bytes.
Needs what bench/requirements.txt pins (about 6 GB installed); `make compare` sets that up and runs all of them.
"""
import json
import pathlib
import subprocess
import sys
import warnings

warnings.filterwarnings("ignore")
import numpy as np  # noqa: E402
import torch  # noqa: E402
import torchvision.models as vision  # noqa: E402
import transformers  # noqa: E402

TOLERANCE = 1e-3


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.bert = transformers.BertModel(transformers.BertConfig(attn_implementation="eager"))

    def forward(self, ids, mask):
        return self.bert(input_ids=ids, attention_mask=mask).last_hidden_state


class NextToken(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gpt2 = transformers.GPT2LMHeadModel(transformers.GPT2Config(attn_implementation="eager", use_cache=False))

    def forward(self, ids):
        return self.gpt2(input_ids=ids, use_cache=False).logits[:, -1]


class Recurrent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(128, 256, num_layers=2, batch_first=True)
        self.out = torch.nn.Linear(256, 32)

    def forward(self, x):
        return self.out(self.lstm(x)[0])


class Clicks(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(5000, 16)
        self.tower = torch.nn.Sequential(torch.nn.Linear(26 * 16 + 13, 128), torch.nn.ReLU(), torch.nn.Linear(128, 1), torch.nn.Sigmoid())

    def forward(self, categories, numbers):
        return self.tower(torch.cat([self.table(categories).flatten(1), numbers], 1))


def image(batch=1):
    return (torch.randn(batch, 3, 224, 224),)


def tokens(batch, length, vocabulary):
    return torch.randint(0, vocabulary, (batch, length))


MODELS = {
    "resnet18": lambda: (vision.resnet18(), image()),
    "resnet50": lambda: (vision.resnet50(), image(2)),
    "mobilenet_v2": lambda: (vision.mobilenet_v2(), image()),
    "vgg11": lambda: (vision.vgg11(), image()),
    "densenet121": lambda: (vision.densenet121(), image()),
    "vit_b_16": lambda: (vision.vit_b_16(), image()),
    "bert": lambda: (Encoder(), (tokens(1, 64, 30000), torch.ones(1, 64, dtype=torch.int64))),
    "gpt2": lambda: (NextToken(), (tokens(1, 32, 50000),)),
    "lstm": lambda: (Recurrent(), (torch.randn(2, 16, 128),)),
    "clicks": lambda: (Clicks(), (torch.randint(0, 5000, (8, 26)), torch.randn(8, 13))),
}


def export(name, folder):
    torch.manual_seed(0)
    model, arguments = MODELS[name]()
    for layer in model.eval().modules():
        if isinstance(layer, torch.nn.BatchNorm2d):  # statistics that do something
            layer.running_mean.normal_(0, 0.1)
            layer.running_var.uniform_(0.5, 1.5)
    folder.mkdir(parents=True, exist_ok=True)
    with torch.no_grad():
        expected = model(*arguments)
    names = [f"x{i}" for i in range(len(arguments))]
    torch.onnx.export(model, arguments, str(folder / "model.onnx"), input_names=names, output_names=["y"], opset_version=20, dynamo=True, external_data=False, verbose=False)
    for n, a in zip(names, arguments):
        np.save(folder / f"{n}.npy", a.numpy())
    return names, expected.numpy()


def compare(weir, name, folder):
    names, expected = export(name, folder)
    model = str(folder / "model.onnx")
    inputs = [text for n in names for text in ("--input", f"{n}={folder / n}.npy")]
    subprocess.run([weir, "run", model, "--output", str(folder), *inputs], check=True)
    got = np.load(folder / "y.npy")
    error = float(np.max(np.abs(got - expected)) / np.max(np.abs(expected))) if got.shape == expected.shape else float("inf")
    bench = json.loads(subprocess.run([weir, "bench", model, "--json", "--seconds", "0.1", *inputs], check=True, capture_output=True, text=True).stdout)
    same = bench["predicted_bytes"] == bench["measured_bytes"]
    ok = error < TOLERANCE and same
    print(f"{name:14} error {error:.2g}  predicted {bench['predicted_bytes']} measured {bench['measured_bytes']}  {'ok' if ok else 'WRONG'}", flush=True)
    return ok


def main():
    weir, folder, names = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:] or list(MODELS)
    good = sum(compare(weir, name, folder / name) for name in names)
    print(f"{good} of {len(names)} models as PyTorch has them")
    sys.exit(good < len(names))


if __name__ == "__main__":
    main()
