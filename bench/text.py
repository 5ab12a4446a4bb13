"""Times the package tokenizer beside PyPI's tokenizers and Go's sugarme/tokenizer, on one thread: python bench/text.py [TOKENIZER.JSON...]

It runs in a Python with tokenizers 0.23.3 and prints the best of many short times for a sentence and for 200 of them, of ids alone and of
whole encodings, which alone sugarme/tokenizer makes; it cannot read some files. Without files it takes those of the tests. Beside a
.model (an absolute path) it times PyPI's sentencepiece.
"""

import gzip
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"

from tokenizers import Tokenizer  # noqa: E402

SENTENCE = "The quick brown fox jumps over the lazy dog; 1,234 people didn't see it happen in the café. "
ROOT = pathlib.Path(__file__).resolve().parent.parent
FAMILIES = ROOT / "tokenizer/testdata/families"
CALLS = {"AppendIDs": "encode_batch_fast", "Encode": "encode_batch"}


def content(name):
    return pathlib.Path(name).read_text() if "/" in name else gzip.decompress((FAMILIES / f"{name}.json.gz").read_bytes()).decode()


def sugarme(name):
    """Nanoseconds and allocations of a text, by its length; nothing if the file or the module cannot be read."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(content(name))
        file.flush()
        out = subprocess.run(["go", "run", ".", file.name, SENTENCE], cwd=ROOT / "bench/sugarme", capture_output=True, text=True,
                             env={**os.environ, "GOMAXPROCS": "1"})
    return {} if out.returncode else {length: (float(ns), int(n)) for length, ns, n in map(str.split, out.stdout.splitlines())}


def reference(name):
    """Nanoseconds of a text, by its length and our call."""
    if name.endswith(".model"):
        from sentencepiece import SentencePieceProcessor
        model = SentencePieceProcessor(model_file=name)
        calls = {"AppendIDs": lambda batch: model.encode(batch, num_threads=1)}
    else:
        tokenizer = Tokenizer.from_str(content(name))
        calls = {ours: getattr(tokenizer, theirs) for ours, theirs in CALLS.items()}
    out = {}
    for length, text in (("short", SENTENCE), ("long", SENTENCE * 200)):
        for ours, call in calls.items():
            call([text])
            start = time.perf_counter()
            call([text])
            batch = [text] * max(1, int(0.003 / (time.perf_counter() - start)))  # as long as Go's benchmarks take
            best = float("inf")
            for _ in range(60):
                start = time.perf_counter()
                call(batch)
                best = min(best, time.perf_counter() - start)
            out[length, ours] = best / len(batch) * 1e9
    return out


def ours(name):
    out = subprocess.run(["go", "test", "-run", "XXX", "-bench", "Encode", "-benchtime", "3ms", "-count", "60", "./tokenizer"], cwd=ROOT, check=True,
                         capture_output=True, text=True, env={**os.environ, "GOMAXPROCS": "1", "WEIR_FAMILY": name}).stdout
    best = {}
    for length, call, ns, allocations in re.findall(r"/(short|long)/(AppendIDs|Encode)\S*\s+\d+\s+([\d.]+) ns/op.*?(\d+) allocs/op", out):
        best[length, call] = min(best.get((length, call), (float("inf"), 0)), (float(ns), int(allocations)))
    return best


if __name__ == "__main__":
    print("| tokenizer | text | call | Weir, µs | tokenizers, µs | times as fast | sugarme, µs | times as fast | allocations | sugarme's |\n"
          "|---|---|---|---|---|---|---|---|---|---|")
    for name in sys.argv[1:] or ["bert_uncased", "roberta", "llama3", "t5"]:
        theirs, go = reference(name), {} if name.endswith(".model") else sugarme(name)
        for (length, call), (ns, allocations) in ours(name).items():
            if (length, call) not in theirs:
                continue
            other = theirs[length, call]
            third = ["", "", ""]
            if call == "Encode" and length in go:
                third = [f"{go[length][0] / 1e3:.1f}", f"{go[length][0] / ns:.0f}", str(go[length][1])]
            print(f"| {pathlib.Path(name).parent.name or name} | {length} | {call} | {ns / 1e3:.1f} | {other / 1e3:.1f} | {other / ns:.1f} |",
                  f"{third[0]} | {third[1]} | {allocations} | {third[2]} |")
