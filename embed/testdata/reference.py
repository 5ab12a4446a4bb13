"""Makes tiny models as sentence-transformers writes them, and records its answers: python embed/testdata/reference.py [NAME...]

It runs in a Python with PyTorch, transformers 5.23.0, sentence-transformers 6.2.0 and model2vec 0.10.0, and needs no network. Each NAME
becomes a folder models/NAME and a file models/NAME.json:

    texts    what was embedded
    cases    name, files (contents that replace or join files of the folder; null removes one), prompt (name of the prompt or null),
             text (the prompt itself, if it has no name), ids (of each text, as the model saw them; null: those of the first case), vectors (float32)

The weights are stored in the type that the name or the config says; the answers are computed in float32, one text at a time.
"""

import json
import pathlib
import shutil
import tempfile

import torch
import transformers as hf
from transformers.utils import logging as hf_logging
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer

import tiny
from tiny import HERE, TEXTS, bytes_, digits, fresh, pieces, randomise, roberta, tidy, unigram

hf_logging.set_verbosity_error()
MODELS = HERE / "models"
SIZE = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, max_position_embeddings=64)


def store(name, model, tokenizer, modules=(), max_length=None, shard=None, dtype=None, **options):
    """Writes models/NAME: the network and the tokenizer first, then through sentence-transformers, so that all files are its own."""
    folder = fresh(MODELS / name)
    with tempfile.TemporaryDirectory() as d:
        model.save_pretrained(d)
        tokenizer.save_pretrained(d)
        word = Transformer(d, max_seq_length=max_length, **({"processor_kwargs": {"model_max_length": max_length}} if max_length else {}))
        whole = SentenceTransformer(modules=[word, *modules], device="cpu", **options)
        whole.save(str(folder), create_model_card=False)
        if shard:
            (folder / "model.safetensors").unlink()
            word.model.save_pretrained(folder, max_shard_size=shard)
    tidy(folder)
    return folder


def case(name, case_name="plain", files=None, prompt=None, text=None, texts=TEXTS):
    """The answers of the folder with some files replaced."""
    with tempfile.TemporaryDirectory() as d:
        d = pathlib.Path(d) / name
        shutil.copytree(MODELS / name, d)
        for path, content in (files or {}).items():
            (d / path).parent.mkdir(exist_ok=True)
            if content is None:
                (d / path).unlink()
            else:
                (d / path).write_text(content)
        model = SentenceTransformer(str(d), device="cpu", model_kwargs={"dtype": torch.float32})
    options = {"prompt_name": prompt} if prompt else {"prompt": text} if text is not None else {}
    vectors = [model.encode([t], batch_size=1, **options)[0] for t in texts]
    together = model.encode(texts, batch_size=len(texts), **options)
    worst = max(abs(together[i] - vectors[i]).max() for i in range(len(texts)))
    assert worst < 2e-5 * max(1, abs(together).max()), (name, case_name, worst)
    shown = model.prompts[prompt] if prompt else text if text is not None else model.prompts.get(model.default_prompt_name or "", "")
    ids = [ids_of(model, shown + t) for t in texts]
    return {"name": case_name, "files": files or {}, "prompt": prompt, "text": text, "ids": ids, "vectors": [digits(v) for v in vectors]}


def ids_of(model, text):
    features = model.preprocess([text])
    return features["input_ids"].reshape(-1).tolist()


def record(name, cases, texts=TEXTS):
    for i, c in enumerate(cases):
        for other in cases[:i]:
            assert "same" in c["name"] or c["vectors"] != other["vectors"], (name, c["name"], other["name"])
        if i and c["ids"] == cases[0]["ids"]:
            c["ids"] = None
    tiny.write(MODELS / f"{name}.json", {"texts": texts, "cases": cases})
    print(name, "|", ", ".join(c["name"] for c in cases))


def config(name, **changes):
    """The folder's config.json with changes, as a file of a case."""
    c = json.loads((MODELS / name / "config.json").read_text())
    for k, v in changes.items():
        c.pop(k, None) if v is None else c.update({k: v})
    return {"config.json": json.dumps(c)}


def pooling(*modes, size=32, prompt=True):
    return {"1_Pooling/config.json": json.dumps({"embedding_dimension": size, "pooling_mode": modes[0] if len(modes) == 1 else modes, "include_prompt": prompt})}


MODES = ["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]
FLAGS = ["cls_token", "max_tokens", "mean_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken"]


def old(*modes, size=32, normalize=False, lower=False, length=None, prompt=None):
    """The files as version 2 wrote them, which most published models have."""
    kinds = ["Transformer", "Pooling"] + ["Normalize"] * normalize
    pool = {"word_embedding_dimension": size, **{f"pooling_mode_{f}": m in modes for f, m in zip(FLAGS, MODES)}}
    if prompt is None:  # version 2.0 knew four modes only
        pool = {k: v for k, v in pool.items() if "weighted" not in k and "last" not in k} if not {"weightedmean", "lasttoken"} & set(modes) else pool
    else:
        pool["include_prompt"] = prompt
    files = {
        "modules.json": json.dumps([{"idx": i, "name": str(i), "path": f"{i}_{k}" if i else "", "type": f"sentence_transformers.models.{k}"} for i, k in enumerate(kinds)]),
        "1_Pooling/config.json": json.dumps(pool),
        "sentence_bert_config.json": json.dumps({"max_seq_length": length, "do_lower_case": lower}),
        "config_sentence_transformers.json": json.dumps({"__version__": {"sentence_transformers": "2.0.0", "transformers": "4.6.1", "pytorch": "1.8.1"}}),
    }
    return files


def bert():
    name = "bert"
    model = hf.BertModel(hf.BertConfig(vocab_size=300, type_vocab_size=2, **SIZE))
    folder = store(name, randomise(model, 1), pieces(), [Pooling(32, "mean")], max_length=40)
    cases = [case(name)]
    cases += [case(name, m, pooling(m)) for m in MODES if m != "mean"]
    cases.append(case(name, "all poolings", pooling(*MODES)))
    cases.append(case(name, "two poolings", pooling("cls", "mean")))
    cases.append(case(name, "version 2", old("mean", length=40, normalize=True)))
    cases.append(case(name, "version 2, concatenated", old("cls", "max", "mean_sqrt_len_tokens", length=30)))
    cases.append(case(name, "version 2, lasttoken", old("lasttoken", length=12, prompt=True)))
    for act in ("relu", "gelu_new", "gelu_pytorch_tanh", "silu"):
        cases.append(case(name, act, config(name, hidden_act=act)))
    cases.append(case(name, "layer_norm_eps", config(name, layer_norm_eps=0.01)))
    cases.append(case(name, "heads", config(name, num_attention_heads=2)))
    cases.append(case(name, "one layer", config(name, num_hidden_layers=1)))
    record(name, cases)
    return folder


ALL = {f.__name__: f for f in (bert,)}

if __name__ == "__main__":
    for make in tiny.chosen(ALL).values():
        make()
