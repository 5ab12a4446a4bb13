"""A rival of bench/embed.py: python rival.py onnxruntime|sentence-transformers MODEL TEXTS THREADS

It prints a JSON line with the vectors of the first eight texts. Then each number it reads is the batch of a round, which turns all texts into
vectors, and it prints a line with the round's seconds. MODEL is a folder of sentence-transformers; onnxruntime reads model.onnx in it.
"""

import json
import os
import pathlib
import sys
import time

kind, folder, texts, threads = sys.argv[1], pathlib.Path(sys.argv[2]), json.loads(pathlib.Path(sys.argv[3]).read_text()), int(sys.argv[4])
os.environ.update(RAYON_NUM_THREADS=str(threads), TOKENIZERS_PARALLELISM=str(threads > 1).lower(), HF_HUB_OFFLINE="1", OMP_NUM_THREADS=str(threads))

import numpy as np  # noqa: E402


def onnxruntime_():
    """Rust tokenizers and onnxruntime: batches of texts sorted by their tokens, the mean of the tokens, unit length."""
    import onnxruntime
    from tokenizers import Tokenizer

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(folder / "model.onnx", options, providers=["CPUExecutionProvider"])
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(json.loads((folder / "sentence_bert_config.json").read_text())["max_seq_length"])
    names = [i.name for i in session.get_inputs()]
    pad = json.loads((folder / "config.json").read_text()).get("pad_token_id", 0)

    def run(texts, batch):
        ids = [e.ids for e in tokenizer.encode_batch_fast(texts)]
        order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
        out = [None] * len(ids)
        for at in range(0, len(order), batch):
            some = order[at:at + batch]
            longest = max(len(ids[i]) for i in some)
            x = np.full((len(some), longest), pad, np.int64)
            mask = np.zeros_like(x)
            for row, i in enumerate(some):
                x[row, :len(ids[i])] = ids[i]
                mask[row, :len(ids[i])] = 1
            feed = {"input_ids": x, "attention_mask": mask, "token_type_ids": np.zeros_like(x)}
            tokens = session.run(None, {n: feed[n] for n in names})[0]
            m = mask[..., None].astype(np.float32)
            v = (tokens * m).sum(1) / m.sum(1)
            v /= np.linalg.norm(v, axis=1, keepdims=True)
            for row, i in enumerate(some):
                out[i] = v[row]
        return np.array(out)
    return run


def sentence_transformers_():
    import torch
    torch.set_num_threads(threads)
    from sentence_transformers import SentenceTransformer
    model = SentenceTransformer(str(folder), device="cpu")
    return lambda texts, batch: model.encode(texts, batch_size=batch, show_progress_bar=False)


run = {"onnxruntime": onnxruntime_, "sentence-transformers": sentence_transformers_}[kind]()
print(json.dumps({"vectors": run(texts[:8], 8).tolist()}), flush=True)
for line in sys.stdin:
    start = time.perf_counter()
    run(texts, int(line))
    print(json.dumps({"seconds": time.perf_counter() - start}), flush=True)
