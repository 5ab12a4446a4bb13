"""Makes tiny classifiers as transformers writes them, and records its answers: python classify/testdata/reference.py [NAME...]

It runs in the same Python as embed/testdata/reference.py and shares its texts and tokenizers. Each NAME becomes a folder models/NAME and
a file models/NAME.json, whose cases have

    name, files  contents that replace or join files of the folder
    task         the pipeline of transformers, or "predict" and "rank" of sentence-transformers' CrossEncoder
    options      what the task is called with
    inputs       texts, or pairs of texts; a query and its documents for "rank"
    answers      of each input; offsets count characters (start, end)
    ids, logits  (where no other case has the same) what the network got and gave for each input

All is computed in float32, one input at a time, and rounded to six digits after the point.
"""

import json
import pathlib
import shutil
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "embed/testdata"))
sys.dont_write_bytecode = True

import torch  # noqa: E402

import tiny  # noqa: E402
import transformers as hf  # noqa: E402
from sentence_transformers import CrossEncoder  # noqa: E402
from tiny import CORPUS, HERE, LONG, PAIRS, TEXTS, bytes_, fresh, pieces, randomise, roberta, tidy, unigram  # noqa: E402
from transformers.utils import logging as hf_logging  # noqa: E402

hf_logging.set_verbosity_error()
hf_logging.disable_progress_bar()
MODELS = HERE / "models"
SIZE = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, max_position_embeddings=64)
OFFSET = {**SIZE, "max_position_embeddings": 66}
SHORT = [t for t in TEXTS if 0 < len(t) < 100]
ACTIVATIONS = {"identity": torch.nn.Identity, "sigmoid": torch.nn.Sigmoid}


def round_(v):
    if isinstance(v, dict):
        return {k: round_(x) for k, x in v.items()}
    if isinstance(v, (list, tuple)):
        return [round_(x) for x in v]
    if hasattr(v, "tolist"):
        return round_(v.tolist())
    return round(v, 6) if isinstance(v, float) else v


def labels(names):
    return {"id2label": dict(enumerate(names)), "label2id": {n: i for i, n in enumerate(names)}}


def centre(model, tokenizer, dtype):
    """Lets every label win somewhere: the last layer's bias takes the mean logits of the texts away."""
    model = model.float()
    last = [m for m in model.modules() if isinstance(m, torch.nn.Linear) and m.out_features == model.config.num_labels][-1]
    last.weight.data *= 3
    with torch.no_grad():
        logits = [model(**tokenizer(t, truncation=True, return_tensors="pt")).logits.reshape(-1, model.config.num_labels) for t in TEXTS if t]
    last.bias.data -= torch.cat(logits).mean(0)
    return model.to(dtype)


def store(name, model, tokenizer, seed, dtype=torch.float16, length=60):
    folder = fresh(MODELS / name)
    tokenizer.model_max_length = length
    centre(randomise(model, seed, dtype), tokenizer, dtype).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    tidy(folder)


class Folder:
    """The folder with some files replaced."""

    def __init__(self, name, files):
        self.name, self.files = name, files or {}

    def __enter__(self):
        self.root = tempfile.TemporaryDirectory()
        d = pathlib.Path(self.root.name) / self.name
        shutil.copytree(MODELS / self.name, d)
        for path, content in self.files.items():
            if content is None:
                (d / path).unlink()
            else:
                (d / path).write_text(content)
        return str(d)

    def __exit__(self, *_):
        self.root.cleanup()


def case(name, case_name, task, inputs, files=None, **options):
    with Folder(name, files) as d:
        out = {"name": case_name, "files": files or {}, "task": task, "options": options, "inputs": inputs}
        if task in ("predict", "rank"):
            model = CrossEncoder(d, device="cpu", model_kwargs={"dtype": torch.float32})
            call = dict(options)
            if "activation_fn" in call:
                call["activation_fn"] = ACTIVATIONS[call["activation_fn"]]()
            if task == "predict":
                out["answers"] = [model.predict([tuple(p)], batch_size=1, **call)[0] for p in inputs]
            else:
                out["answers"] = [model.rank(q, d, batch_size=1, **call) for q, d in inputs]
            tokenizer, network = model.tokenizer, model.model
        else:
            kind = {"text-classification": hf.AutoModelForSequenceClassification, "zero-shot-classification": hf.AutoModelForSequenceClassification,
                    "token-classification": hf.AutoModelForTokenClassification}[task]
            network, tokenizer = kind.from_pretrained(d, dtype=torch.float32).eval(), hf.AutoTokenizer.from_pretrained(d)
            pipe = hf.pipeline(task, model=network, tokenizer=tokenizer, device="cpu")
            out["answers"] = [ask(pipe, task, x, options) for x in inputs]
        out["answers"] = round_(out["answers"])
        if task not in ("rank", "zero-shot-classification"):
            out["ids"], out["logits"] = [], []
            for x in inputs:
                e = tokenizer(*([x] if isinstance(x, str) else x), truncation=True, return_tensors="pt")
                out["ids"].append(e["input_ids"][0].tolist())
                with torch.no_grad():
                    out["logits"].append(round_(network(**e).logits[0]))
        return out


def ask(pipe, task, x, options):
    if task == "text-classification":
        given = x if isinstance(x, str) else {"text": x[0], "text_pair": x[1]}
        out = pipe(given, truncation=True, **options)
        while isinstance(out, list) and len(out) == 1 and isinstance(out[0], list):
            out = out[0]
        return out
    if task == "zero-shot-classification":
        return pipe(x, **options)
    return pipe(x, **options)


def record(name, cases):
    seen = {}
    for c in cases:
        key = json.dumps(c["answers"])
        assert c["name"].endswith(", same") or key not in seen, (name, c["name"], seen.get(key))
        seen.setdefault(key, c["name"])
        if c.get("ids"):  # once for the same inputs and network
            key = json.dumps([c["ids"], c["logits"]])
            if key in seen:
                del c["ids"], c["logits"]
            seen[key] = c["name"]
    (MODELS / f"{name}.json").write_text(pretty({"cases": cases}) + "\n")
    print(name, "|", ", ".join(f"{c['task']}: {c['name']}" for c in cases))


def pretty(value, depth=0):
    """JSON with one line for each answer."""
    pad = " " * (depth + 1)
    if isinstance(value, dict) and depth < 4:
        return "{\n" + ",\n".join(pad + json.dumps(k) + ": " + pretty(v, depth + 1) for k, v in value.items()) + "\n" + pad[1:] + "}"
    if isinstance(value, list) and value and depth < 4 and isinstance(value[0], (dict, list, str)):
        return "[\n" + ",\n".join(pad + pretty(v, depth + 1 if isinstance(v, dict) and depth < 2 else 9) for v in value) + "\n" + pad[1:] + "]"
    return json.dumps(value, ensure_ascii=False)


def config(name, **changes):
    c = json.loads((MODELS / name / "config.json").read_text())
    for k, v in changes.items():
        c.pop(k, None) if v is None else c.update({k: v})
    return {"config.json": json.dumps(c)}


RANKED = [["Where is the nearest station?", CORPUS[:6]], ["bread", ["the baker", "", LONG, "the baker"]]]


def make_cross_encoder():
    """A reranker: one label, pairs with token types."""
    name = "cross_encoder"
    model = hf.BertForSequenceClassification(hf.BertConfig(vocab_size=320, type_vocab_size=2, num_labels=1, **SIZE))
    store(name, model, pieces(), 1, torch.float32, length=48)
    with tempfile.TemporaryDirectory() as d:  # again through the library, so that all files are its own
        shutil.copytree(MODELS / name, d, dirs_exist_ok=True)
        CrossEncoder(d, device="cpu", max_length=48).save_pretrained(str(fresh(MODELS / name)), create_model_card=False)
    tidy(MODELS / name)
    cases = [case(name, "plain", "predict", PAIRS), case(name, "identity", "predict", PAIRS, activation_fn="identity"),
             case(name, "rank", "rank", RANKED), case(name, "rank two with documents", "rank", RANKED, top_k=2, return_documents=True),
             case(name, "rank by logits", "rank", RANKED, activation_fn="identity"),
             case(name, "pipeline", "text-classification", PAIRS[:4]), case(name, "one text", "text-classification", TEXTS)]
    older = {"modules.json": None, "config_sentence_transformers.json": None, "sentence_bert_config.json": None}
    cases.append(case(name, "version 3, same", "predict", PAIRS, {**older, **config(name, sbert_ce_default_activation_function="torch.nn.modules.linear.Identity")}))
    cases.append(case(name, "version 4, same", "predict", PAIRS, {**older, **config(
        name, sentence_transformers={"activation_fn": "torch.nn.modules.linear.Identity", "version": "4.1.0"})}))
    assert cases[-1]["answers"] == cases[1]["answers"] == cases[-2]["answers"]
    cases.append(case(name, "a folder of transformers alone, same", "predict", PAIRS, older))
    record(name, cases)


CANDIDATES = ["travel", "cooking", "politics", "the weather in Paris"]
NLI = ["contradiction", "neutral", "entailment"]


def text_cases(name, zero=True):
    cases = [case(name, "plain", "text-classification", TEXTS), case(name, "all", "text-classification", TEXTS[:5], top_k=None),
             case(name, "two", "text-classification", TEXTS[:4], top_k=2), case(name, "sigmoid", "text-classification", TEXTS[:4], top_k=None, function_to_apply="sigmoid"),
             case(name, "none", "text-classification", TEXTS[:4], top_k=None, function_to_apply="none"), case(name, "pairs", "text-classification", PAIRS[:5], top_k=None)]
    return cases + (zero_cases(name) if zero else [])


def zero_cases(name):
    texts = SHORT[:4]
    task = "zero-shot-classification"
    return [case(name, "zero-shot", task, texts, candidate_labels=CANDIDATES),
            case(name, "zero-shot, several", task, texts[:2], candidate_labels=CANDIDATES, multi_label=True),
            case(name, "zero-shot, template", task, texts[:2], candidate_labels=CANDIDATES[:2], hypothesis_template="The text is about {}"),
            case(name, "zero-shot, one label", task, texts[:2], candidate_labels=["travel"]),
            case(name, "zero-shot, labels in one string", task, texts[:2], candidate_labels="cooking, travel ,bread", hypothesis_template="{}!")]


def make_nli_bert():
    name = "nli_bert"
    model = hf.BertForSequenceClassification(hf.BertConfig(vocab_size=320, type_vocab_size=2, **labels(NLI), **SIZE))
    store(name, model, pieces(), 2)
    cases = text_cases(name)
    flipped = ["ENTAILMENT", "NEUTRAL", "CONTRADICTION"]
    cases.append(case(name, "other order", "zero-shot-classification", SHORT[:2], config(name, **labels(flipped)), candidate_labels=CANDIDATES, multi_label=True))
    cases.append(case(name, "multi-label", "text-classification", TEXTS[:5], config(name, problem_type="multi_label_classification"), top_k=None))
    cases.append(case(name, "regression", "text-classification", TEXTS[:5], config(name, problem_type="regression"), top_k=None))
    cases.append(case(name, "no labels", "text-classification", TEXTS[:5], config(name, id2label=None, label2id=None, num_labels=3), top_k=None))
    record(name, cases)


def make_nli_roberta():
    name = "nli_roberta"
    model = hf.RobertaForSequenceClassification(hf.RobertaConfig(
        vocab_size=330, type_vocab_size=1, layer_norm_eps=1e-5, **labels(["CONTRADICTION", "NEUTRAL", "ENTAILMENT"]), **OFFSET))
    store(name, model, roberta(), 3)
    record(name, text_cases(name))


def xlm():
    return unigram(["<s>", "<pad>", "</s>", "<unk>", "<mask>"], ("<pad>", "<unk>", "<s>", "</s>", "<mask>"), "<s> $A </s>", "<s> $A </s> </s> $B </s>")


def make_rerank_xlm_roberta():
    name = "rerank_xlm_roberta"
    model = hf.XLMRobertaForSequenceClassification(hf.XLMRobertaConfig(vocab_size=320, type_vocab_size=1, layer_norm_eps=1e-5, num_labels=1, **OFFSET))
    store(name, model, xlm(), 4)
    record(name, [case(name, "plain", "predict", PAIRS), case(name, "rank", "rank", RANKED)])


def make_text_distilbert():
    name = "text_distilbert"
    model = hf.DistilBertForSequenceClassification(hf.DistilBertConfig(
        vocab_size=320, dim=16, n_layers=2, n_heads=2, hidden_dim=24, max_position_embeddings=64, **labels(["NEGATIVE", "POSITIVE"])))
    store(name, model, pieces(types=False), 5, torch.bfloat16)
    record(name, text_cases(name, zero=False))


def deberta_tokenizer():
    return unigram(["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"], ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"), "[CLS]:0 $A:0 [SEP]:0",
                   "[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1", types=True)


DEBERTA = {**SIZE, "relative_attention": True, "max_relative_positions": -1, "position_buckets": 8, "norm_rel_ebd": "layer_norm", "share_att_key": True,
           "pos_att_type": ["p2c", "c2p"], "position_biased_input": False, "type_vocab_size": 0, "layer_norm_eps": 1e-7}


def make_nli_deberta_v2():
    name = "nli_deberta_v2"
    model = hf.DebertaV2ForSequenceClassification(hf.DebertaV2Config(
        vocab_size=320, pooler_hidden_act="gelu", pooler_dropout=0, **labels(["entailment", "not_entailment"]), **DEBERTA))
    store(name, model, deberta_tokenizer(), 6)
    record(name, text_cases(name))


def modern():
    return bytes_(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"), "[CLS] $A [SEP]", "[CLS] $A [SEP] $B [SEP]")


MODERN = {**SIZE, "vocab_size": 320, "local_attention": 12, "pad_token_id": 0, "cls_token_id": 2, "sep_token_id": 3, "bos_token_id": 2, "eos_token_id": 3,
          "num_hidden_layers": 3, "max_position_embeddings": 256}


def make_rerank_modernbert():
    name = "rerank_modernbert"
    store(name, hf.ModernBertForSequenceClassification(hf.ModernBertConfig(num_labels=1, classifier_pooling="mean", **MODERN)), modern(), 7, length=120)
    record(name, [case(name, "plain", "predict", PAIRS), case(name, "cls", "predict", PAIRS[:4], config(name, classifier_pooling="cls")), case(name, "rank", "rank", RANKED)])


def make_more():
    """Heads that differ: ALBERT and MPNet and ELECTRA."""
    albert = unigram(["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"], ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"), "[CLS]:0 $A:0 [SEP]:0",
                     "[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1", types=True, lower=True)
    three = labels(["joy", "anger", "fear"])
    for name, model, tokenizer, seed in (
            ("text_albert", hf.AlbertForSequenceClassification(hf.AlbertConfig(vocab_size=320, embedding_size=12, **three, **SIZE)), albert, 8),
            ("text_electra", hf.ElectraForSequenceClassification(hf.ElectraConfig(vocab_size=320, embedding_size=12, **three, **SIZE)), pieces(), 9),
            ("text_mpnet", hf.MPNetForSequenceClassification(hf.MPNetConfig(vocab_size=320, layer_norm_eps=1e-5, **three, **OFFSET)),
             pieces(specials=("<pad>", "[UNK]", "<s>", "</s>", "<mask>"), types=False), 10)):
        store(name, model, tokenizer, seed)
        record(name, [case(name, "all", "text-classification", TEXTS[:5], top_k=None), case(name, "pairs", "text-classification", PAIRS[3:5], top_k=None)])


BIO = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
SENTENCES = SHORT + ["Anna-Maria O'Neil lives in New York; Peter (her brother) in Wien.", "a\u00a0b\u2009c  d", CORPUS[12] + " " + CORPUS[11], LONG]


def token_cases(name, long=False):
    task, texts = "token-classification", [t for t in SENTENCES if t != LONG]
    texts = texts[:3] + texts[-4:] if long else texts[:4]
    cases = [case(name, "none", task, texts)]
    cases += [case(name, s, task, texts, aggregation_strategy=s) for s in ("simple", "first", "average", "max")]
    cases.append(case(name, "nothing ignored", task, texts[:3], aggregation_strategy="simple", ignore_labels=[]))
    cases.append(case(name, "LOC ignored", task, texts[:3], aggregation_strategy="first", ignore_labels=["O", "LOC"]))
    if long:
        cases.append(case(name, "stride", task, [LONG], aggregation_strategy="average", stride=10))
        cases.append(case(name, "stride and first", task, [LONG], aggregation_strategy="first", stride=20))
    return cases


def make_token():
    fives = {"vocab_size": 320, **labels(BIO)}
    near = dict(vocab_size=330, type_vocab_size=1, layer_norm_eps=1e-5, **OFFSET)
    for name, model, tokenizer, seed in (
            ("token_bert", hf.BertForTokenClassification(hf.BertConfig(**fives, **SIZE)), pieces(lower=False), 11),
            ("token_xlm_roberta", hf.XLMRobertaForTokenClassification(hf.XLMRobertaConfig(**{**near, **fives})), xlm(), 12),
            ("token_roberta", hf.RobertaForTokenClassification(hf.RobertaConfig(**labels(["LOC", "PER", "O"]), **near)), roberta(), 13)):
        store(name, model, tokenizer, seed)
        record(name, token_cases(name, long=name == "token_bert"))


ALL = {k[5:]: v for k, v in list(globals().items()) if k.startswith("make_")}

if __name__ == "__main__":
    for make in tiny.chosen(ALL).values():
        make()
