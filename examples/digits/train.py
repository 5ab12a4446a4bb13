"""Trains the digits model and writes everything in data/ from it: digits.onnx, images/*.png, labels.json, expected.json.

    pip install torch==2.15.0 onnx==1.22.0 onnxscript==0.7.2 scikit-learn==1.9.1 onnxruntime==1.31.1
    python train.py

The data are scikit-learn's handwritten digits: 1,797 grey images of 8 by 8 pixels with 17 levels. A quarter of them,
stratified and chosen with a fixed seed, is the test set; nothing here looks at it before the last line is printed.
The model takes float32 `image` [batch, 1, 8, 8] with values 0 to 1 and gives `scores` [batch, 10], which add up to 1.
"""
import json
import os
import struct
import zlib

import numpy as np
import onnx
import onnxruntime
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
EPOCHS, BATCH, SEED = 60, 64, 7


class Net(nn.Module):
    """Three convolutions and one linear layer: 15,858 parameters while training, the normalisations folded into the convolutions on export."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(24, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU())
        self.classify = nn.Sequential(nn.Flatten(), nn.Dropout(0.3), nn.Linear(32 * 4 * 4, 10))

    def forward(self, image):
        return torch.softmax(self.logits(image), dim=-1)

    def logits(self, image):
        return self.classify(self.features(image))


def shifted(images):
    """Each image moved by at most one pixel along each axis, with empty pixels at the border."""
    out = torch.zeros_like(images)
    for i in range(len(images)):
        dy, dx = torch.randint(-1, 2, (2,)).tolist()
        out[i, :, max(dy, 0):8 + min(dy, 0), max(dx, 0):8 + min(dx, 0)] = \
            images[i, :, max(-dy, 0):8 + min(-dy, 0), max(-dx, 0):8 + min(-dx, 0)]
    return out


def train(images, labels):
    net = Net()
    steps = EPOCHS * -(-len(images) // BATCH)
    optimizer = torch.optim.AdamW(net.parameters(), lr=4e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=steps)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(images)).split(BATCH):
            loss = nn.functional.cross_entropy(net.logits(shifted(images[rows])), labels[rows], label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return net.eval()


def export(net, path):
    """Writes the ONNX file: opset 20, weights inside, batch named, no doc strings."""
    program = torch.onnx.export(
        net, (torch.zeros(2, 1, 8, 8),), dynamo=True, opset_version=20, verbose=False, optimize=True,
        input_names=["image"], output_names=["scores"], dynamic_shapes={"image": {0: torch.export.Dim("batch", min=1, max=4096)}})
    model = program.model_proto
    del model.metadata_props[:]
    for part in [model.graph, *model.graph.node, *model.graph.value_info, *model.graph.input, *model.graph.output, *model.graph.initializer]:
        del part.metadata_props[:]
        part.doc_string = ""
    model.graph.name = "digits"
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)


def png(pixels):
    """An 8-bit grey PNG of a two-dimensional uint8 array, byte for byte the same everywhere."""
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    height, width = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    stored = b"\x78\x01\x01" + struct.pack("<HH", len(rows), len(rows) ^ 0xFFFF) + rows + struct.pack(">I", zlib.adler32(rows))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)) + chunk(b"IDAT", stored) + chunk(b"IEND", b"")


def main():
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    digits = load_digits()
    train_rows, test_rows = train_test_split(np.arange(len(digits.target)), test_size=0.25, random_state=0, stratify=digits.target)
    images = torch.tensor(digits.images, dtype=torch.float32).div(16).unsqueeze(1)
    labels = torch.tensor(digits.target)
    net = train(images[train_rows], labels[train_rows])

    model = os.path.join(HERE, "digits.onnx")
    export(net, model)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])

    # Two test images of each digit, the first in the test set's order: not chosen by the model's answer.
    picked = [row for digit in range(10) for row in [r for r in test_rows if digits.target[r] == digit][:2]]
    files, pixels = [], []
    for n, row in enumerate(picked):
        grey = np.rint(digits.images[row] * (255 / 16)).astype(np.uint8)
        name = f"{n:02d}.png"
        with open(os.path.join(HERE, "images", name), "wb") as f:
            f.write(png(grey))
        files.append(name)
        pixels.append(grey)
    batch = (np.stack(pixels)[:, None] / np.float32(255)).astype(np.float32)
    scores = session.run(["scores"], {"image": batch})[0]
    with open(os.path.join(HERE, "labels.json"), "w") as f:
        f.write("{\n" + ",\n".join(f'  "{name}": {int(digits.target[row])}' for name, row in zip(files, picked)) + "\n}\n")
    with open(os.path.join(HERE, "expected.json"), "w") as f:
        f.write("{\n" + ",\n".join(f'  "{name}": {json.dumps([float(f"{v:.7g}") for v in row])}' for name, row in zip(files, scores)) + "\n}\n")

    guess = session.run(["scores"], {"image": images[test_rows].numpy()})[0].argmax(-1)
    right = int((guess == digits.target[test_rows]).sum())
    count = sum(p.numel() for p in net.parameters())
    print(f"{count} parameters, {os.path.getsize(model)} bytes, test accuracy {right}/{len(test_rows)} = {right / len(test_rows):.2%}, "
          f"pictures {int((scores.argmax(-1) == digits.target[picked]).sum())}/{len(picked)}")


if __name__ == "__main__":
    main()
