"""Draws classifiers and texts at random, with transformers' answers: python classify/testdata/draw.py FOLDER COUNT [FIRST]

Models FIRST to FIRST+COUNT-1 are written to FOLDER in the form of reference.py, with whose Python it runs. A case whose answer is an
error of the library has {"error": message} as its answer. Then WEIR_CLASSIFIERS=FOLDER go test ./classify -run TestReference
"""

import json
import logging
import pathlib
import random
import sys
import warnings

import reference as r
import transformers as hf
from tiny import CORPUS, bytes_, pieces, roberta, unigram

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

WORDS = sorted({w for line in CORPUS for w in line.split()})
ODD = ["\U0001f600", "co\u0301te\u0301", "\u05e9\u05dc\u05d5\u05dd", "\u0928\u092e\u0938\u094d\u0924\u0947", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", "\u0130stanbul", "stra\u00dfe", "\ufb01ne", "\u200b", "\u00ad", "\u3000", "\t",
       "\n", "  ", "...", "--", "'s", "n't", "[SEP]", "[UNK]", "<unk>", "</s>", "[MASK]", "##ing", "\u2581", "\u0120x", "1,234.5", "A.B.C.", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\u6771\u4eac", "x" * 120, "\u00a0", "\u2028",
       "(a)", "\"q\"", "@", "#tag", "e\u0301", "\ud55c\uad6d", "\u041c\u043e\u0441\u043a\u0432\u0430", "do not", " ,", "{}", "-"]
TAGS = [["O", "B-PER", "I-PER", "B-LOC", "I-LOC"], ["LOC", "PER", "O"], ["O", "I-A", "I-B"], ["B-X", "I-X", "E-X", "S-X", "O"], ["", "-", "B-", "I-", "O"],
        ["B-A-B", "I-A-B", "O", "A-B"], ["NOUN", "VERB"], ["\u540d", "O"], ["LABEL_0", "LABEL_1"], ["same", "same", "O"], ["O"]]
CLASSES = [["NEGATIVE", "POSITIVE"], ["joy", "anger", "fear"], ["LABEL_0"], [f"c{i}" for i in range(12)], ["a", "a", "b"], ["toxic", "", "\u540d"], ["1 star", "2 stars", "3 stars", "4 stars", "5 stars"]]
NLI = [["contradiction", "neutral", "entailment"], ["ENTAILMENT", "NEUTRAL", "CONTRADICTION"], ["entailment", "not_entailment"], ["neutral", "Entail", "contradiction"], ["not_entailment", "entailment"]]
SIGMOID, IDENTITY = "torch.nn.modules.activation.Sigmoid", "torch.nn.modules.linear.Identity"
ACTIVATIONS = [None, SIGMOID, IDENTITY, "torch.nn.modules.activation.Tanh", "torch.nn.modules.activation.ReLU", "torch.nn.modules.activation.LogSigmoid", "torch.nn.modules.activation.Softmax",
               "elsewhere.Function"]


def text(g, most=40):
    parts = []
    for _ in range(g.choice([0, 1, 2, 5, 12, most])):
        parts.append(g.choice(WORDS) if g.random() < 0.75 else g.choice(ODD))
    out = ""
    for p in parts:
        out += p + ("" if g.random() < 0.12 else " ")
    return out if g.random() < 0.3 else out.strip()


def shapes(g):
    size, length = g.choice([16, 32]), g.choice([24, 40, 60])
    common = dict(hidden_size=size, num_hidden_layers=g.choice([1, 2]), num_attention_heads=4, intermediate_size=40, max_position_embeddings=64)
    return common, length


def model(g, task, labels):
    """A model, its tokenizer, and the most tokens."""
    common, length = shapes(g)
    if task == "nli":  # if a hypothesis is too long, the pipeline takes more tokens than the model's limit
        length = 60
    kind = "ForTokenClassification" if task == "token" else "ForSequenceClassification"
    near = {**common, "max_position_embeddings": 66, "type_vocab_size": 1, "layer_norm_eps": 1e-5}
    named = r.labels(labels)
    family = g.choice(["Bert", "BertCased", "Roberta", "XLMRoberta", "DistilBert", "Albert", "Electra", "DebertaV2", "ModernBert", "MPNet", "Camembert"])
    if family.startswith("Bert"):
        types = g.random() < 0.8
        return family, getattr(hf, "Bert" + kind)(hf.BertConfig(vocab_size=320, type_vocab_size=2, **named, **common)), pieces(lower=family == "Bert", types=types), length
    if family in ("Roberta", "Camembert"):
        return family, getattr(hf, family + kind)(getattr(hf, family + "Config")(vocab_size=330, **named, **near)), roberta(), length
    if family == "XLMRoberta":
        return family, getattr(hf, family + kind)(hf.XLMRobertaConfig(vocab_size=320, **named, **near)), r.xlm(), length
    if family == "DistilBert":
        return family, getattr(hf, family + kind)(hf.DistilBertConfig(vocab_size=320, dim=32, n_layers=1, n_heads=4, hidden_dim=48, max_position_embeddings=64, **named)), pieces(types=False), length
    if family == "Albert":
        t = unigram(["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"], ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"), "[CLS]:0 $A:0 [SEP]:0", "[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1", types=True, lower=True)
        return family, getattr(hf, family + kind)(hf.AlbertConfig(vocab_size=320, embedding_size=16, **named, **common)), t, length
    if family == "Electra":
        return family, getattr(hf, family + kind)(hf.ElectraConfig(vocab_size=320, embedding_size=16, **named, **common)), pieces(), length
    if family == "DebertaV2":
        return family, getattr(hf, family + kind)(hf.DebertaV2Config(**{**r.DEBERTA, **common}, vocab_size=320, pooler_hidden_act="gelu", pooler_dropout=0, **named)), r.deberta_tokenizer(), length
    if family == "ModernBert":
        return family, getattr(hf, family + kind)(hf.ModernBertConfig(classifier_pooling=g.choice(["cls", "mean"]), **{**r.MODERN, "hidden_size": 32}, **named)), r.modern(), length
    return family, getattr(hf, family + kind)(hf.MPNetConfig(vocab_size=320, **{k: v for k, v in near.items() if k != "type_vocab_size"}, **named)), \
        pieces(specials=("<pad>", "[UNK]", "<s>", "</s>", "<mask>"), types=False), length


def asked(name, case_name, task, inputs, files=None, **options):
    """A case for the inputs that the library answers, and one for each that it does not."""
    try:
        return [r.case(name, case_name, task, inputs, files, **options)]
    except Exception as e:  # noqa: BLE001
        if len(inputs) == 1:
            return [{"name": case_name + ", refused", "files": files or {}, "task": task, "options": options, "inputs": inputs, "answers": [{"error": str(e)[:80]}]}]
    half = len(inputs) // 2
    return asked(name, case_name, task, inputs[:half], files, **options) + asked(name, case_name, task, inputs[half:], files, **options)


def draw(number):
    g = random.Random(number)
    task = g.choice(["token", "token", "text", "rank", "nli"])
    labels = g.choice({"token": TAGS, "text": CLASSES, "rank": [["LABEL_0"], ["LABEL_0"], ["irrelevant", "relevant"]], "nli": NLI}[task])
    if len(labels) == 1 and task == "token":
        labels = labels + ["I-Y"]
    family, m, t, length = model(g, task, labels)
    if g.random() < 0.2:
        t.truncation_side = "left"
    name = f"{number:04d}_{task}_{family}"
    r.store(name, m, t, number, length=length)
    scale = g.choice([1, 1, 4, 40 if task in ("text", "rank") else 4])
    if scale > 1:  # scores that are 1 but for rounding
        import torch
        from safetensors.torch import load_file, save_file
        at = r.MODELS / name / "model.safetensors"
        w = load_file(at)
        last = [k for k in w if w[k].dim() and w[k].shape[0] == len(labels) and ("classif" in k or "out_proj" in k)]
        for k in last:
            w[k] = (w[k].float() * scale).to(torch.float16)
        save_file(w, at, metadata={"format": "pt"})
    texts = [text(g) for _ in range(g.choice([8, 20]))]
    pairs = [[text(g, 30), text(g, 30)] for _ in range(12)]
    cases = []
    if task == "token":
        some = [x for x in texts]
        strategies = ["none", "simple", "first", "average", "max"]
        for s in strategies:
            o = {"aggregation_strategy": s}
            if g.random() < 0.4:
                o["ignore_labels"] = g.choice([[], ["PER"], [labels[0]], ["O", "LOC", "X"]])
            cases += asked(name, s, "token-classification", some, **o)
        for s in strategies[1:]:
            cases += asked(name, s + " in chunks", "token-classification", some, aggregation_strategy=s, stride=g.choice([0, 1, 5, 12, 20]))
    if task in ("text", "nli", "rank"):
        files = None
        if g.random() < 0.4:
            files = r.config(name, problem_type=g.choice(["multi_label_classification", "regression", "single_label_classification"]))
        for inputs in (texts, pairs):
            o = {"top_k": g.choice([None, 1, 2, 50])} if g.random() < 0.8 else {}
            if g.random() < 0.5:
                o["function_to_apply"] = g.choice(["sigmoid", "softmax", "none"])
            cases += asked(name, "labels", "text-classification", inputs, files, **o)
    if task in ("rank", "text"):
        files = r.config(name, sentence_transformers={"activation_fn": g.choice(ACTIVATIONS)})
        cases += asked(name, "scores", "predict", pairs, files)
        documents = [text(g, 20) for _ in range(10)]
        cases += asked(name, "ranked", "rank", [[text(g, 10), documents]], files, **({"top_k": 3} if g.random() < 0.5 else {}))
    if task == "nli":
        candidates = g.sample(["travel", "cooking", "politics", "the weather in Paris", "\u6771\u4eac", "a {} b", ""], g.choice([1, 2, 5]))
        o = {"candidate_labels": candidates}
        if g.random() < 0.6:
            o["hypothesis_template"] = g.choice(["{}", "About {}!", "{0} it is.", "{{{}}}", "no place", "{} and {}", "} {}", "{x}"])
        if g.random() < 0.5:
            o["multi_label"] = True
        cases += asked(name, "candidates", "zero-shot-classification", [x for x in texts if x] or ["a"], **o)
        cases += asked(name, "nothing", "zero-shot-classification", [""], **o)
    for c in cases:
        c["tolerance"] = 1e-5 * scale
    (r.MODELS / f"{name}.json").write_text(r.pretty({"cases": r.round_(cases)}) + "\n")
    return sum(len(c["inputs"]) for c in cases)


if __name__ == "__main__":
    folder, count = sys.argv[1:3]
    first = int(sys.argv[3]) if sys.argv[3:] else 0
    r.MODELS = pathlib.Path(folder)
    r.MODELS.mkdir(parents=True, exist_ok=True)
    print(sum(draw(n) for n in range(first, first + int(count))), "texts with answers")
