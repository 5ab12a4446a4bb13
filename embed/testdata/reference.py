"""Makes tiny models as sentence-transformers writes them, and records its answers: python embed/testdata/reference.py [NAME...]

It runs in a Python with PyTorch, transformers 5.23.0, sentence-transformers 6.2.0 and model2vec 0.10.0, and needs no network. Each NAME
becomes a folder models/NAME and a file models/NAME.json:

    texts    what was embedded
    cases    name, files (contents that replace or join files of the folder; null removes one), prompt (name of the prompt or null),
             text (the prompt itself, if it has no name), ids (of each text, as the model saw them; null: those of the first case), vectors (float32);
             variants answer the first four texts only

The weights are stored in the type that the name or the config says; the answers are computed in float32, one text at a time.
"""

import json
import pathlib
import shutil
import tempfile

import numpy as np
import onnxruntime
import torch
import transformers as hf
from model2vec import StaticModel
from transformers.utils import logging as hf_logging
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, StaticEmbedding, Transformer

import tiny
from tiny import HERE, TEXTS, bytes_, digits, fresh, pieces, randomise, roberta, tidy, unigram

hf_logging.set_verbosity_error()
hf_logging.disable_progress_bar()
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


def case(name, case_name="plain", files=None, prompt=None, text=None):
    """The answers of the folder with some files replaced."""
    texts = TEXTS if case_name == "plain" else TEXTS[:4]
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


def record(name, cases):
    for i, c in enumerate(cases):
        for other in cases[:i]:
            assert c["name"].endswith(", same") or c["vectors"][:4] != other["vectors"][:4], (name, c["name"], other["name"])
        assert not c["name"].endswith(", same") or c["vectors"] == cases[0]["vectors"][:4], (name, c["name"])
        assert all(x == x for v in c["vectors"] for x in v), (name, c["name"])
        if i and c["ids"] and c["ids"] == cases[0]["ids"][:len(c["ids"])]:
            c["ids"] = None
    tiny.write(MODELS / f"{name}.json", {"texts": TEXTS, "cases": cases})
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
    model = hf.BertModel(hf.BertConfig(vocab_size=320, type_vocab_size=2, **SIZE))
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


def xlm(kind="xlm", **options):
    """The tokenizer of XLM-R and CamemBERT."""
    return unigram(["<s>", "<pad>", "</s>", "<unk>", "<mask>"], ("<pad>", "<unk>", "<s>", "</s>", "<mask>"), "<s> $A </s>", "<s> $A </s> </s> $B </s>", **options)


OFFSET = {**SIZE, "max_position_embeddings": 66}  # RoBERTa and its kin number positions from the padding's id on.


class Sentence(torch.nn.Module):
    """A network whose graph pools too."""

    def __init__(self, network, pool):
        super().__init__()
        self.network, self.pool = network, pool

    def forward(self, input_ids, attention_mask, token_type_ids):
        tokens = self.network(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids).last_hidden_state
        if not self.pool:
            return tokens
        mask = attention_mask.unsqueeze(-1).to(tokens.dtype)
        return tokens, torch.nn.functional.normalize((tokens * mask).sum(1) / mask.sum(1).clamp(min=1e-9))


def model_bert_onnx():
    """bert's folder with an ONNX file in place of the weights: one gives tokens, the other the sentence too."""
    names = ["input_ids", "attention_mask", "token_type_ids"]
    for name, path, outputs in (("bert_onnx", "onnx/model.onnx", ["last_hidden_state"]),
                                ("bert_onnx_sentence", "model.onnx", ["token_embeddings", "sentence_embedding"])):
        folder = MODELS / name
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(MODELS / "bert", folder)
        (folder / "model.safetensors").unlink()
        (folder / path).parent.mkdir(exist_ok=True)
        network = hf.AutoModel.from_pretrained(MODELS / "bert", dtype=torch.float32, attn_implementation="eager")
        ids = torch.tensor([[2, 88, 105, 3], [2, 88, 3, 0]])
        axes = {n: {0: "batch", 1: "sequence"} for n in (*names, outputs[0])} | {"sentence_embedding": {0: "batch"}}
        torch.onnx.export(Sentence(network, len(outputs) == 2).eval(), (ids, (ids > 0).long(), torch.zeros_like(ids)), folder / path, input_names=names,
                          output_names=outputs, dynamic_axes={n: a for n, a in axes.items() if n in (*names, *outputs)}, opset_version=18, dynamo=False)
        bert = json.loads((MODELS / "bert.json").read_text())
        files = {} if len(outputs) == 1 else old("mean", length=40, normalize=True)
        if files:
            for file, text in files.items():
                (folder / file).write_text(text)
        cases = {"bert_onnx": ["plain", "cls"], "bert_onnx_sentence": ["version 2"]}[name]
        answers = [c for c in bert["cases"] if c["name"] in cases]
        got = onnxruntime.InferenceSession(folder / path)
        for i, row in enumerate(bert["cases"][0]["ids"][:4]):
            feed = {"input_ids": [row], "attention_mask": [[1] * len(row)], "token_type_ids": [[0] * len(row)]}
            out = got.run(None, {k: np.array(v, np.int64) for k, v in feed.items()})
            vector = out[1][0] if len(outputs) == 2 else out[0][0].mean(0)
            assert abs(vector - np.array(answers[0]["vectors"][i])).max() < 1e-5, (name, i)
        answers[0] |= {"name": "plain", "files": {}, "ids": bert["cases"][0]["ids"][:len(answers[0]["vectors"])]}
        record(name, answers)


def model_roberta():
    name = "roberta"
    model = hf.RobertaModel(hf.RobertaConfig(vocab_size=330, type_vocab_size=1, pad_token_id=1, layer_norm_eps=1e-5, **OFFSET))
    store(name, randomise(model, 2, torch.float32), roberta(), [Pooling(32, "mean"), Normalize()], max_length=60)
    record(name, [case(name), case(name, "version 2", old("cls", length=64)), case(name, "version 2, lower case", old("mean", length=20, lower=True, normalize=True))])


def model_xlm_roberta():
    name = "xlm_roberta"
    model = hf.XLMRobertaModel(hf.XLMRobertaConfig(vocab_size=320, type_vocab_size=1, layer_norm_eps=1e-5, **OFFSET))
    store(name, randomise(model, 3), xlm(), [Pooling(32, "cls"), Normalize()], max_length=50,
          prompts={"query": "query: ", "passage": "passage: the "}, default_prompt_name="query")
    without = {**pooling("mean", prompt=False)}
    cases = [case(name), case(name, "passage", prompt="passage"), case(name, "given prompt", text="Represent the water: "),
             case(name, "no prompt", text=""), case(name, "prompt left out of the mean", without, prompt="passage")]
    cases += [case(name, f"prompt left out of {m}", pooling(m, prompt=False), prompt="passage") for m in MODES if "mean" != m != "mean_sqrt_len_tokens"]
    cases.append(case(name, "camembert, same", config(name, model_type="camembert", architectures=["CamembertModel"])))
    cases.append(case(name, "roberta, same", config(name, model_type="roberta", architectures=["RobertaModel"])))
    cases.append(case(name, "version 2, no prompts", old("mean", length=30)))
    record(name, cases)


def model_distilbert():
    name = "distilbert"
    model = hf.DistilBertModel(hf.DistilBertConfig(vocab_size=320, dim=32, n_layers=2, n_heads=4, hidden_dim=48, max_position_embeddings=64))
    dense = randomise(Dense(32, 20, activation_function=torch.nn.Tanh()), 5, torch.float32)
    second = randomise(Dense(20, 24, bias=False, activation_function=torch.nn.Identity()), 6, torch.float32)
    store(name, randomise(model, 4, torch.bfloat16), pieces(types=False), [Pooling(32, "mean"), dense, second, Normalize()], max_length=40)
    dense_config = json.loads((MODELS / name / "2_Dense/config.json").read_text())
    cases = [case(name)]
    for f in ("linear.Identity", "activation.ReLU", "activation.GELU", "activation.Sigmoid"):
        cases.append(case(name, f, {"2_Dense/config.json": json.dumps({**dense_config, "activation_function": f"torch.nn.modules.{f}"})}))
    cases.append(case(name, "relu", config(name, activation="relu")))
    record(name, cases)


def model_mpnet():
    name = "mpnet"
    model = hf.MPNetModel(hf.MPNetConfig(vocab_size=320, relative_attention_num_buckets=32, layer_norm_eps=1e-5, **OFFSET))
    store(name, randomise(model, 7), pieces(specials=("<pad>", "[UNK]", "<s>", "</s>", "<mask>"), types=False), [Pooling(32, "mean"), Normalize()], max_length=60)
    record(name, [case(name), case(name, "version 2, max", old("max", length=64))])


def albert_tokenizer():
    return unigram(["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"], ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"), "[CLS]:0 $A:0 [SEP]:0",
                   "[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1", types=True, lower=True)


def model_albert():
    name = "albert"
    model = hf.AlbertModel(hf.AlbertConfig(vocab_size=320, embedding_size=16, num_hidden_groups=1, inner_group_num=1, hidden_act="gelu_new", **{**SIZE, "num_hidden_layers": 3}))
    store(name, randomise(model, 8), albert_tokenizer(), [Pooling(32, "mean")], max_length=50)
    record(name, [case(name), case(name, "five layers", config(name, num_hidden_layers=5)), case(name, "gelu", config(name, hidden_act="gelu"))])


def model_albert_groups():
    name = "albert_groups"
    model = hf.AlbertModel(hf.AlbertConfig(vocab_size=320, embedding_size=16, num_hidden_groups=2, inner_group_num=2, **{**SIZE, "num_hidden_layers": 4}))
    store(name, randomise(model, 9), albert_tokenizer(), [Pooling(32, "cls"), Normalize()], max_length=50)
    record(name, [case(name)])


def model_electra():
    name = "electra"
    model = hf.ElectraModel(hf.ElectraConfig(vocab_size=320, embedding_size=16, **SIZE))
    store(name, randomise(model, 10), pieces(), [Pooling(32, "cls")], max_length=40, shard="20KB")
    record(name, [case(name)])


DEBERTA = {**SIZE, "relative_attention": True, "max_relative_positions": -1, "position_buckets": 8, "norm_rel_ebd": "layer_norm", "share_att_key": True,
           "pos_att_type": ["p2c", "c2p"], "position_biased_input": False, "type_vocab_size": 0, "layer_norm_eps": 1e-7}


def deberta_tokenizer():
    return unigram(["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"], ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"), "[CLS]:0 $A:0 [SEP]:0",
                   "[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1", types=True)


def model_deberta_v2():
    name = "deberta_v2"
    store(name, randomise(hf.DebertaV2Model(hf.DebertaV2Config(vocab_size=320, **DEBERTA)), 11), deberta_tokenizer(), [Pooling(32, "mean")], max_length=60)
    cases = [case(name), case(name, "c2p", config(name, pos_att_type=["c2p"])), case(name, "p2c", config(name, pos_att_type=["p2c"])),
             case(name, "types in one string, same", config(name, pos_att_type="p2c|c2p")), case(name, "no norm", config(name, norm_rel_ebd="none")),
             case(name, "content only", config(name, pos_att_type=[]))]
    record(name, cases)


def model_deberta_v2_conv():
    name = "deberta_v2_conv"
    more = {**DEBERTA, "conv_kernel_size": 3, "conv_act": "gelu", "share_att_key": False, "position_biased_input": True, "type_vocab_size": 2, "norm_rel_ebd": "none",
            "position_buckets": -1, "max_relative_positions": 16}
    store(name, randomise(hf.DebertaV2Model(hf.DebertaV2Config(vocab_size=320, **more)), 12), deberta_tokenizer(), [Pooling(32, "cls")], max_length=60)
    record(name, [case(name), case(name, "tanh", config(name, conv_act="tanh"))])


def model_modernbert():
    name = "modernbert"
    tokenizer = bytes_(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"), "[CLS] $A [SEP]", "[CLS] $A [SEP] $B [SEP]")
    model = hf.ModernBertModel(hf.ModernBertConfig(
        vocab_size=320, local_attention=12, pad_token_id=0, cls_token_id=2, sep_token_id=3, bos_token_id=2, eos_token_id=3,
        **{**SIZE, "num_hidden_layers": 4, "max_position_embeddings": 256}))
    store(name, randomise(model, 13), tokenizer, [Pooling(32, "mean"), Normalize()], max_length=90)
    four = config(name, layer_types=None, rope_parameters=None, global_attn_every_n_layers=3, global_rope_theta=160000.0, local_rope_theta=10000.0)
    cases = [case(name), case(name, "version 4's config, same", four),
             case(name, "other angles", config(name, layer_types=None, rope_parameters=None, global_attn_every_n_layers=2, global_rope_theta=500.0, local_rope_theta=50.0)),
             case(name, "wider window", config(name, local_attention=40)), case(name, "cls", pooling("cls"))]
    record(name, cases)


def model_nomic_bert():
    name = "nomic_bert"
    model = hf.NomicBertModel(hf.NomicBertConfig(vocab_size=320, type_vocab_size=2, **{**SIZE, "max_position_embeddings": 128}))
    store(name, randomise(model, 14), pieces(), [Pooling(32, "mean"), Normalize()], max_length=70,
          prompts={"query": "search query: ", "document": "search document: "})
    record(name, [case(name), case(name, "query", prompt="query")])


def t5_tokenizer():
    return unigram(["<pad>", "</s>", "<unk>"], ("<pad>", "<unk>", None, "</s>", None), "$A </s>", "$A </s> $B </s>", eos_token="</s>")


def model_t5():
    for name, act, seed in (("t5", "relu", 15), ("t5_gated", "gated-gelu", 16)):
        model = hf.T5EncoderModel(hf.T5Config(vocab_size=320, d_model=32, d_kv=8, d_ff=40, num_layers=2, num_heads=4, relative_attention_num_buckets=16,
                                              relative_attention_max_distance=40, feed_forward_proj=act))
        randomise(model, seed)
        for key, p in model.named_parameters():
            if key.endswith("SelfAttention.q.weight"):  # T5 does not divide by the root of the head's size
                p.data = (p.data / 3).to(p.dtype)
        dense = randomise(Dense(32, 24, bias=False, activation_function=torch.nn.Identity()), 17, torch.float32)
        store(name, model, t5_tokenizer(), [Pooling(32, "mean"), dense, Normalize()], max_length=80)
        cases = [case(name)]
        if act == "relu":
            cases.append(case(name, "shorter distance", config(name, relative_attention_max_distance=10)))
        record(name, cases)


def model_qwen3():
    name = "qwen3"
    end = "<|endoftext|>"
    tokenizer = bytes_((end, None, None, None, None), f"$A {end}", f"$A $B {end}", eos_token=end, padding_side="left")
    model = hf.Qwen3Model(hf.Qwen3Config(
        vocab_size=320, head_dim=12, num_key_value_heads=2, bos_token_id=0, eos_token_id=0, pad_token_id=0, **{**SIZE, "max_position_embeddings": 256}))
    store(name, randomise(model, 18, torch.bfloat16), tokenizer, [Pooling(32, "lasttoken"), Normalize()], max_length=70,
          prompts={"query": "Instruct: Given a question, retrieve passages\nQuery:", "document": ""})
    four = config(name, rope_parameters=None, rope_theta=1000000.0)
    record(name, [case(name), case(name, "query", prompt="query"), case(name, "mean", pooling("mean")), case(name, "weightedmean", pooling("weightedmean")),
                  case(name, "version 4's config", four)])


def model_gemma3():
    name = "gemma3_text"
    model = hf.Gemma3TextModel(hf.Gemma3TextConfig(vocab_size=320, head_dim=8, num_key_value_heads=1, query_pre_attn_scalar=8, sliding_window=12, pad_token_id=0, eos_token_id=1,
                               bos_token_id=2, use_bidirectional_attention=True, **{**SIZE, "num_hidden_layers": 3, "max_position_embeddings": 256},
                               layer_types=["sliding_attention", "full_attention", "sliding_attention"]))
    randomise(model, 19)
    for key, p in model.named_parameters():
        if "norm" in key:  # Gemma adds 1
            p.data = (p.data - 1).to(p.dtype)
    first = randomise(Dense(32, 40, bias=False, activation_function=torch.nn.Identity()), 20, torch.float32)
    second = randomise(Dense(40, 32, bias=False, activation_function=torch.nn.Identity()), 21, torch.float32)
    tokenizer = unigram(["<pad>", "<eos>", "<bos>", "<unk>"], ("<pad>", "<unk>", "<bos>", "<eos>", None), "<bos> $A <eos>", "<bos> $A <eos> <bos> $B <eos>", eos_token="<eos>")
    store(name, model, tokenizer, [Pooling(32, "mean"), first, second, Normalize()], max_length=80,
          prompts={"query": "task: search result | query: ", "document": "title: none | text: "})
    record(name, [case(name), case(name, "query", prompt="query"), case(name, "causal", {**config(name, use_bidirectional_attention=False, sliding_window=20)})])


def model_llama():
    """A decoder with the last token's vector, as e5-mistral is; grouped keys, no bias."""
    for name, kind, seed in (("mistral", "Mistral", 22), ("llama", "Llama", 23)):
        tokenizer = unigram(["<unk>", "<s>", "</s>"], ("</s>", "<unk>", "<s>", "</s>", None), "<s> $A </s>", "<s> $A </s> <s> $B </s>", eos_token="</s>", padding_side="left")
        more = {"sliding_window": 10} if kind == "Mistral" else {"rope_parameters": {
            "rope_type": "llama3", "rope_theta": 1000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32}}
        cfg = getattr(hf, kind + "Config")(vocab_size=320, num_key_value_heads=2, **{**SIZE, "max_position_embeddings": 256}, **more)
        store(name, randomise(getattr(hf, kind + "Model")(cfg), seed), tokenizer, [Pooling(32, "lasttoken"), Normalize()], max_length=70)
        record(name, [case(name)])


def model_static():
    name = "static"
    tokenizer = pieces()
    module = StaticEmbedding(tokenizer, embedding_dim=32)
    randomise(module, 24, torch.float32)
    folder = fresh(MODELS / name)
    SentenceTransformer(modules=[module, Normalize()], device="cpu").save(str(folder), create_model_card=False)
    tidy(folder)
    modules = json.loads((folder / "modules.json").read_text())
    record(name, [case(name), case(name, "without normalisation", {"modules.json": json.dumps(modules[:1])})])


def model_model2vec():
    """Files as model2vec writes them, with its own answers and sentence-transformers' for the same folder."""
    for name, normalize, seed in (("model2vec", True, 25), ("model2vec_quantized", False, 26)):
        tokenizer = pieces()._tokenizer
        g = np.random.default_rng(seed)
        more = {}
        rows = 320
        if not normalize:
            rows = 60
            more = {"token_mapping": g.integers(0, rows, 320), "weights": g.uniform(0.1, 2, 320).astype(np.float32)}
        kind = np.float16 if normalize else np.float32
        m = StaticModel(g.normal(size=(rows, 32)).astype(kind), tokenizer, normalize=normalize, max_length=30, **more)
        folder = fresh(MODELS / name)
        m.save_pretrained(folder)
        tidy(folder)
        m = StaticModel.from_pretrained(folder, quantize_to="float32")
        ids = [x[:30] for x in m.tokenize(TEXTS)]
        own = {"name": "model2vec's own", "files": {}, "prompt": None, "text": None, "ids": ids, "vectors": [digits(m.encode([t])[0].astype(np.float32)) for t in TEXTS]}
        # On float16 rows sentence-transformers computes in float16, and makes NaN of an empty text.
        record(name, [own] if normalize else [own, case(name, "sentence-transformers")])


ALL = {"bert": bert, **{k[6:]: v for k, v in list(globals().items()) if k.startswith("model_")}}

if __name__ == "__main__":
    for make in tiny.chosen(ALL).values():
        make()
