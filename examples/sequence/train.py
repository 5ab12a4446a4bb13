"""Trains the language model and writes data/language.onnx and data/expected.json from data/sentences.txt.

    pip install torch==2.15.0 onnx==1.22.0 onnxruntime==1.31.1 numpy==2.4.6
    python train.py

The model reads a sentence byte by byte in both directions with a GRU and says which of six languages it is in. Two dimensions are
free: `text` u8 [batch, length] holds UTF-8, short rows padded with anything, `lengths` i32 [batch] says how many bytes of each row
count, and `scores` f32 [batch, 6] add up to 1. The last ten sentences of each language are the test set. Every sentence occurs in
each language, but the test's sentences occur in no language's training part.
"""
import json
import os
import random

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import numpy_helper, parser
from torch import nn

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
LANGUAGES = ["de", "en", "es", "fr", "it", "nl"]
WIDTH, HIDDEN, STEPS, BATCH, HELD_OUT, SEED = 16, 40, 1200, 48, 10, 5


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(256, WIDTH)
        self.gru = nn.GRU(WIDTH, HIDDEN, batch_first=True, bidirectional=True)
        self.drop = nn.Dropout(0.3)
        self.classify = nn.Linear(2 * HIDDEN, len(LANGUAGES))

    def forward(self, text, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(self.drop(self.embed(text)), lengths, batch_first=True, enforce_sorted=False)
        last = self.gru(packed)[1]
        return self.classify(self.drop(torch.cat([last[0], last[1]], dim=-1)))


def load():
    """The sentences by language: those to learn from and those held out."""
    with open(os.path.join(HERE, "sentences.txt"), encoding="utf-8") as f:
        rows = [line.rstrip("\n").split(" ", 1) for line in f]
    texts = {language: [text for label, text in rows if label == language] for language in LANGUAGES}
    return {k: v[:-HELD_OUT] for k, v in texts.items()}, {k: v[-HELD_OUT:] for k, v in texts.items()}


def vary(sentences, rng):
    """A new sentence of one language: a run of words of one or two sentences, sometimes in lower case or without
    punctuation.
    """
    words = " ".join(rng.sample(sentences, 2)).split()
    count = rng.randint(2, min(len(words), 14))
    start = rng.randint(0, len(words) - count)
    text = " ".join(words[start:start + count])
    if rng.random() < 0.3:
        text = text.lower()
    if rng.random() < 0.3:
        text = "".join(c for c in text if c.isalnum() or c in " '")
    return text


def rows(texts):
    """Strings as a padded matrix of bytes, and their lengths in bytes."""
    encoded = [text.encode() for text in texts]
    matrix = np.zeros((len(encoded), max(map(len, encoded))), np.uint8)
    for row, content in zip(matrix, encoded):
        row[:len(content)] = np.frombuffer(content, np.uint8)
    return matrix, np.array([len(content) for content in encoded], np.int32)


def train(texts):
    rng = random.Random(SEED)
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=8e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 8e-3, total_steps=STEPS)
    for _ in range(STEPS):
        labels = [rng.randrange(len(LANGUAGES)) for _ in range(BATCH)]
        matrix, lengths = rows([vary(texts[LANGUAGES[label]], rng) for label in labels])
        loss = nn.functional.cross_entropy(net(torch.tensor(matrix, dtype=torch.int64), torch.tensor(lengths)), torch.tensor(labels), label_smoothing=0.05)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return net.eval()


def gates(tensor):
    """PyTorch's order of the gates (reset, update, new) as ONNX's (update, reset, new)."""
    r, z, n = tensor.detach().numpy().reshape(3, HIDDEN, -1)
    return np.concatenate([z, r, n]).squeeze()


def export(net, path):
    """Writes the trained weights into a graph of ONNX's own operators: PyTorch's exporter has none for packed sequences."""
    model = parser.parse_model(f"""
<ir_version: 10, opset_import: ["" : 20], producer_name: "train.py">
language (uint8[batch,length] text, int32[batch] lengths) => (float[batch,{len(LANGUAGES)}] scores) {{
  bytes = Cast <to = 6> (text)
  embedded = Gather (embedding, bytes)
  steps = Transpose <perm = [1, 0, 2]> (embedded)
  all, last = GRU <hidden_size = {HIDDEN}, direction = "bidirectional", linear_before_reset = 1> (steps, input_weight, state_weight, bias, lengths)
  rows = Transpose <perm = [1, 0, 2]> (last)
  flat = Flatten <axis = 1> (rows)
  logits = Gemm <transB = 1> (flat, class_weight, class_bias)
  scores = Softmax <axis = -1> (logits)
}}""".replace("all, last", "\"\", last"))
    both = lambda name: np.stack([gates(getattr(net.gru, name + "_l0" + suffix)) for suffix in ("", "_reverse")])
    weights = {"embedding": net.embed.weight.detach().numpy(), "input_weight": both("weight_ih"), "state_weight": both("weight_hh"),
               "bias": np.concatenate([both("bias_ih"), both("bias_hh")], axis=1),
               "class_weight": net.classify.weight.detach().numpy(), "class_bias": net.classify.bias.detach().numpy()}
    for name, value in weights.items():
        model.graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)


def main():
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    learn, held = load()
    net = train(learn)
    path = os.path.join(HERE, "language.onnx")
    export(net, path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])

    texts = [text for language in LANGUAGES for text in held[language]]
    labels = [n for n, language in enumerate(LANGUAGES) for _ in held[language]]
    matrix, lengths = rows(texts)
    scores = session.run(None, {"text": matrix, "lengths": lengths})[0]
    with torch.no_grad():
        torch_scores = torch.softmax(net(torch.tensor(matrix, dtype=torch.int64), torch.tensor(lengths)), -1).numpy()
    assert np.abs(scores - torch_scores).max() < 1e-5, np.abs(scores - torch_scores).max()
    alone = np.concatenate([session.run(None, dict(zip(("text", "lengths"), rows([text]))))[0] for text in texts])
    assert np.abs(scores - alone).max() < 1e-5, "padding must not matter"

    cases = [{"text": text, "language": LANGUAGES[label], "scores": [float(f"{v:.6g}") for v in row]} for text, label, row in zip(texts, labels, scores)]
    with open(os.path.join(HERE, "expected.json"), "w", encoding="utf-8") as f:
        f.write("[\n" + ",\n".join("  " + json.dumps(c, ensure_ascii=False) for c in cases) + "\n]\n")
    right = int((scores.argmax(-1) == labels).sum())
    print(f"{sum(p.numel() for p in net.parameters())} parameters, {os.path.getsize(path)} bytes, test accuracy {right}/{len(texts)} = {right / len(texts):.1%}")
    for text, label, row in zip(texts, labels, scores):
        if row.argmax() != label:
            print("   ", LANGUAGES[label], "taken for", LANGUAGES[row.argmax()], f"{row.max():.2f}:", text)


if __name__ == "__main__":
    main()
