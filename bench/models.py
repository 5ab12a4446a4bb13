"""The benchmark's models: real architectures with random weights, exported from PyTorch.

Usage: models.py FOLDER [NAME...]   writes FOLDER/NAME/model.onnx, its inputs x0.npy …, what PyTorch makes of them y0.npy …, and, where pnnx can convert
the model, m.ncnn.param and m.ncnn.bin. Models that are there already are left alone. Without names all of CORE is exported; "all" is EXTRA too.
Needs what bench/requirements.txt pins.
"""
import os
import pathlib
import sys
import tempfile
import warnings

warnings.filterwarnings("ignore")
import numpy as np  # noqa: E402
import torch  # noqa: E402
import torchvision.models as vision  # noqa: E402
import transformers  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402


class Encoder(nn.Module):
    """BERT: the last hidden state of every token."""

    def __init__(self, layers=12, width=768, heads=12, inner=3072):
        super().__init__()
        config = transformers.BertConfig(num_hidden_layers=layers, hidden_size=width, num_attention_heads=heads, intermediate_size=inner, attn_implementation="eager")
        self.bert = transformers.BertModel(config)

    def forward(self, ids, mask):
        return self.bert(input_ids=ids, attention_mask=mask).last_hidden_state


class DistilledEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.bert = transformers.DistilBertModel(transformers.DistilBertConfig(attn_implementation="eager"))

    def forward(self, ids, mask):
        return self.bert(input_ids=ids, attention_mask=mask).last_hidden_state


class NextToken(nn.Module):
    """GPT-2 on a prompt: the scores of the token after it."""

    def __init__(self):
        super().__init__()
        self.gpt2 = transformers.GPT2LMHeadModel(transformers.GPT2Config(attn_implementation="eager", use_cache=False))

    def forward(self, ids):
        return self.gpt2(input_ids=ids, use_cache=False).logits[:, -1]


class DecodeStep(nn.Module):
    """One step of GPT-2 small with a cache of keys and values: a token, its position and the cache to scores and the new keys and values."""

    def __init__(self, layers=12, width=768, heads=12, vocabulary=50257, positions=1024):
        super().__init__()
        self.width, self.heads = width, heads
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(positions, width)

        def each(make):
            return nn.ModuleList(make() for _ in range(layers))

        self.before, self.between = each(lambda: nn.LayerNorm(width)), each(lambda: nn.LayerNorm(width))
        self.qkv, self.mix = each(lambda: nn.Linear(width, 3 * width)), each(lambda: nn.Linear(width, width))
        self.up, self.down = each(lambda: nn.Linear(width, 4 * width)), each(lambda: nn.Linear(4 * width, width))
        self.last, self.scores = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids, position, cache):  # [1, 1], [1, 1], [layers, 2, heads, past, width/heads]
        size = self.width // self.heads
        x, made = self.tokens(ids) + self.positions(position), []
        for i in range(len(self.qkv)):
            q, k, v = (t.reshape(1, self.heads, size).transpose(0, 1) for t in self.qkv[i](self.before[i](x)).split(self.width, dim=-1))
            made.append(torch.stack([k, v]))
            keys, values = torch.cat([cache[i, 0], k], 1), torch.cat([cache[i, 1], v], 1)
            seen = torch.softmax(q @ keys.transpose(1, 2) * size**-0.5, -1) @ values
            x = x + self.mix[i](seen.transpose(0, 1).reshape(1, 1, self.width))
            x = x + self.down[i](functional.gelu(self.up[i](self.between[i](x)), approximate="tanh"))
        return self.scores(self.last(x)), torch.stack(made)


class Residual(nn.Module):
    """Two convolutions with group norms, and a projection around them."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(32, inputs), nn.Conv2d(inputs, outputs, 3, padding=1)
        self.norm2, self.conv2 = nn.GroupNorm(32, outputs), nn.Conv2d(outputs, outputs, 3, padding=1)
        self.around = nn.Conv2d(inputs, outputs, 1)

    def forward(self, x):
        y = self.conv1(functional.silu(self.norm1(x)))
        return self.conv2(functional.silu(self.norm2(y))) + self.around(x)


class UNet(nn.Module):
    """The blocks of a diffusion model's network: down, attention at the bottom, and up with skip connections."""

    def __init__(self, width=64):
        super().__init__()
        self.first = nn.Conv2d(4, width, 3, padding=1)
        self.down1, self.down2, self.down3 = Residual(width, width), Residual(width, 2 * width), Residual(2 * width, 4 * width)
        self.shrink1, self.shrink2 = nn.Conv2d(width, width, 3, 2, 1), nn.Conv2d(2 * width, 2 * width, 3, 2, 1)
        self.norm, self.qkv, self.mix = nn.GroupNorm(32, 4 * width), nn.Conv2d(4 * width, 12 * width, 1), nn.Conv2d(4 * width, 4 * width, 1)
        self.up2, self.up1 = Residual(6 * width, 2 * width), Residual(3 * width, width)
        self.last = nn.Conv2d(width, 4, 3, padding=1)

    def forward(self, x):
        a = self.down1(self.first(x))
        b = self.down2(self.shrink1(a))
        c = self.down3(self.shrink2(b))
        batch, width, rows, columns = c.shape
        q, k, v = self.qkv(self.norm(c)).reshape(batch, 3, width, rows * columns).unbind(1)
        seen = torch.softmax(q.transpose(1, 2) @ k * width**-0.5, -1) @ v.transpose(1, 2)
        c = c + self.mix(seen.transpose(1, 2).reshape(batch, width, rows, columns))
        b = self.up2(torch.cat([functional.interpolate(c, scale_factor=2.0, mode="nearest"), b], 1))
        return self.last(self.up1(torch.cat([functional.interpolate(b, scale_factor=2.0, mode="nearest"), a], 1)))


class Recurrent(nn.Module):
    def __init__(self, kind=nn.LSTM):
        super().__init__()
        self.cells, self.out = kind(256, 512, 2, batch_first=True), nn.Linear(512, 128)

    def forward(self, x):
        return self.out(self.cells(x)[0])


class Clicks(nn.Module):
    """A click model's tower over 26 categories and 13 numbers, which is so small that overhead dominates."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(26 * 1000, 16)
        self.tower = nn.Sequential(nn.Linear(429, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 1), nn.Sigmoid())

    def forward(self, categories, numbers):
        return self.tower(torch.cat([self.table(categories).flatten(1), numbers], 1))


def image(batch=1, size=224):
    return (torch.randn(batch, 3, size, size),)


def tokens(batch, length, vocabulary=30000):
    return torch.randint(0, vocabulary, (batch, length))


def sentence(batch=1, length=128):
    return tokens(batch, length), torch.ones(batch, length, dtype=torch.int64)


def clicks(batch):
    return Clicks(), (torch.randint(0, 26000, (batch, 26)), torch.randn(batch, 13))


CORE = {
    "resnet50": lambda: (vision.resnet50(), image()),
    "resnet50_b8": lambda: (vision.resnet50(), image(8)),
    "mobilenet_v2": lambda: (vision.mobilenet_v2(), image()),
    "vgg16": lambda: (vision.vgg16(), image()),
    "vit_b_16": lambda: (vision.vit_b_16(), image()),
    "bert_base_s128": lambda: (Encoder(), sentence()),
    "bert_base_s128_b8": lambda: (Encoder(), sentence(8)),
    "gpt2_prefill_s128": lambda: (NextToken(), (tokens(1, 128, 50000),)),
    "gpt2_decode_p127": lambda: (DecodeStep(), (tokens(1, 1), torch.tensor([[127]]), torch.randn(12, 2, 12, 127, 64))),
    "unet_64": lambda: (UNet(), (torch.randn(1, 4, 64, 64),)),
    "lstm_s64": lambda: (Recurrent(), (torch.randn(1, 64, 256),)),
    "mlp_b1": lambda: clicks(1),
    "mlp_b256": lambda: clicks(256),
}

EXTRA = {
    "resnet18": lambda: (vision.resnet18(), image()),
    "densenet121": lambda: (vision.densenet121(), image()),
    "squeezenet1_1": lambda: (vision.squeezenet1_1(), image()),
    "mobilenet_v2_b8": lambda: (vision.mobilenet_v2(), image(8)),
    "mobilenet_v3_large": lambda: (vision.mobilenet_v3_large(), image()),
    "efficientnet_b0": lambda: (vision.efficientnet_b0(), image()),
    "convnext_tiny": lambda: (vision.convnext_tiny(), image()),
    "distilbert_s128": lambda: (DistilledEncoder(), sentence()),
    "minilm_s32": lambda: (Encoder(6, 384, 12, 1536), sentence(1, 32)),
    "gru_s64": lambda: (Recurrent(nn.GRU), (torch.randn(1, 64, 256),)),
}


ALL = {**CORE, **EXTRA}


def build(name):
    """The model and its inputs, the same in each call."""
    torch.manual_seed(0)
    model, arguments = ALL[name]()
    for layer in model.eval().modules():
        if isinstance(layer, nn.BatchNorm2d):  # statistics with an effect
            layer.running_mean.normal_(0, 0.1)
            layer.running_var.uniform_(0.5, 1.5)
    return model, arguments


def export(name, folder):
    model, arguments = build(name)
    with torch.no_grad():
        expected = model(*arguments)
    expected = expected if isinstance(expected, (tuple, list)) else (expected,)
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"x{i}" for i in range(len(arguments))]
    partial = folder / "partial.onnx"
    torch.onnx.export(model, arguments, str(partial), input_names=names, output_names=[f"y{i}" for i in range(len(expected))],
                      opset_version=20, dynamo=True, external_data=False, verbose=False)
    for i, x in enumerate(arguments):
        np.save(folder / f"x{i}.npy", x.numpy())
    for i, y in enumerate(expected):
        np.save(folder / f"y{i}.npy", y.numpy())
    partial.rename(folder / "model.onnx")  # last, so that a model that exists is complete


def export_ncnn(name, folder):
    """Writes ncnn's files by pnnx, which writes temporary files into the current folder."""
    import pnnx

    model, arguments = build(name)
    here, folder = os.getcwd(), folder.resolve()
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        try:
            pnnx.export(model, "m.pt", arguments, fp16=False)
            for file in ("m.ncnn.param", "m.ncnn.bin"):
                (folder / file).write_bytes(pathlib.Path(file).read_bytes())
        finally:
            os.chdir(here)


def main():
    root, names = pathlib.Path(sys.argv[1]), sys.argv[2:] or list(CORE)
    if names == ["all"]:
        names = list(ALL)
    failed = 0
    for name in names:
        for file, make in (("model.onnx", export), ("m.ncnn.bin", export_ncnn)):
            if (root / name / file).exists():
                continue
            try:
                make(name, root / name)
                print(f"{name:20} {file}", flush=True)
            except Exception as e:  # pnnx does not support every operator
                print(f"{name:20} {file}: {type(e).__name__}: {str(e)[:200]}", flush=True)
                failed += make is export
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
