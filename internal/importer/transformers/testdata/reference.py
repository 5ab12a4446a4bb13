"""Makes tiny models of transformers and records its answers: python reference.py [NAME...]

It runs in a Python with PyTorch and transformers 5.23.0, and needs no network. Each NAME becomes a folder models/NAME, of config.json and
safetensors of 16 bits, and a file models/NAME.json:

    left     whether padding before a text must not change its answer
    cases    name, files (contents that replace files of the folder), ids (of each text), states (of the tokens) or logits, in float32
"""

import json
import os
import pathlib
import shutil
import sys
import tempfile

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")

import torch  # noqa: E402
import transformers as hf  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

torch.set_num_threads(1)
MODELS = pathlib.Path(__file__).resolve().parent / "models"
SIZE = dict(vocab_size=40, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=24, max_position_embeddings=48, pad_token_id=1)
GQA = dict(SIZE, num_key_value_heads=2)
LABELS = dict(id2label={"0": "a", "1": "b", "2": "c"}, label2id={"a": 0, "b": 1, "c": 2})


def texts(seed=0):
    g = torch.Generator().manual_seed(seed)
    return [[int(x) for x in torch.randint(2, 40, (n,), generator=g)] for n in (5, 1, 13, 8)]


def randomise(model, seed):
    g = torch.Generator().manual_seed(seed)
    for name, p in model.named_parameters():
        r = torch.randn(p.shape, generator=g)
        if p.dim() == 1:
            r = 0.1 * r + (1.0 if "norm" in name.lower() and name.endswith("weight") or ".ln" in name and name.endswith("weight") else 0.0)
        else:
            r = (0.6 if "embed" in name.lower() or "shared" in name else 1.3 / p.shape[-1] ** 0.5) * r
        p.data = r.half().float()
    return model.eval()


def answers(folder, kind, name, files, ids):
    """The states or logits of each text alone, of the folder with some files replaced."""
    with tempfile.TemporaryDirectory() as d:
        d = pathlib.Path(d) / "m"
        shutil.copytree(folder, d)
        for path, content in files.items():
            (d / path).write_text(content)
        model = kind.from_pretrained(d, dtype=torch.float32, attn_implementation="eager").eval()
    case = {"name": name, "files": files, "ids": ids}
    out = [model(input_ids=torch.tensor([x]), attention_mask=torch.ones(1, len(x), dtype=torch.long)) for x in ids]
    number = lambda t: [number(x) for x in t] if t.dim() else float(f"{t.item():.7g}")
    key = "logits" if hasattr(out[0], "logits") else "states"
    case[key] = [number(o[key if key == "logits" else "last_hidden_state"][0].detach()) for o in out]
    return case


def model(name, config, kind, seed, cases=(), left=False, ids=None):
    folder = MODELS / name
    shutil.rmtree(folder, ignore_errors=True)
    m = randomise(kind(config), seed)
    if isinstance(m, hf.T5EncoderModel | hf.MT5EncoderModel | hf.UMT5EncoderModel):
        m.tie_weights()
    m.half().save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    ids = ids or texts()
    list_ = [answers(folder, kind, "plain", {}, ids)]
    for case, changes in cases:
        c = json.loads((folder / "config.json").read_text())
        for k, v in changes.items():
            c.pop(k, None) if v is None else c.update({k: v})
        list_.append(answers(folder, kind, case, {"config.json": json.dumps(c)}, ids))
        assert "same" in case or str(list_[-1].get("states", list_[-1].get("logits"))) != str(list_[0].get("states", list_[0].get("logits"))), (name, case)
    text = ",\n".join("  " + json.dumps(c) for c in list_)
    (MODELS / f"{name}.json").write_text('{"left": %s, "cases": [\n%s\n]}\n' % (json.dumps(left), text))
    print(name, "|", ", ".join(c["name"] for c in list_))
    return folder


def own(name, new, changes, prefix=("", ""), case=0):
    """The same model with the configuration of its own code; transformers stores the tensors with the names of that code."""
    folder = MODELS / new
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(MODELS / name, folder)
    save_file({k.replace(*prefix): v for k, v in load_file(folder / "model.safetensors").items()}, folder / "model.safetensors", metadata={"format": "pt"})
    c = json.loads((folder / "config.json").read_text())
    for k, v in changes.items():
        c.pop(k, None) if v is None else c.update({k: v})
    (folder / "config.json").write_text(json.dumps(c, indent=1))
    answer = json.loads((MODELS / f"{name}.json").read_text())
    answer["cases"] = [dict(answer["cases"][case], files={})]
    (MODELS / f"{new}.json").write_text(json.dumps(answer) + "\n")
    print(new)


def relative(name, kind, seed):
    """A BERT with scores of distances, as transformers 4 had it; transformers 5 does not read it."""
    model(name, hf.BertConfig(**SIZE), hf.BertModel, seed)
    folder = MODELS / name
    w = load_file(folder / "model.safetensors")
    g = torch.Generator().manual_seed(seed)
    for i in range(2):
        w[f"encoder.layer.{i}.attention.self.distance_embedding.weight"] = torch.randn(95, 4, generator=g).half()
    save_file(w, folder / "model.safetensors", metadata={"format": "pt"})
    c = json.loads((folder / "config.json").read_text())
    c["position_embedding_type"] = kind
    (folder / "config.json").write_text(json.dumps(c, indent=1))
    w = {k: v.float() for k, v in w.items()}
    line = lambda x, n: x @ w[n + ".weight"].T + w[n + ".bias"]
    norm = lambda x, n: torch.nn.functional.layer_norm(x, (16,), w[n + ".weight"], w[n + ".bias"], 1e-12)
    answer = {"left": False, "cases": [{"name": "plain", "files": {}, "ids": texts(), "states": []}]}
    for ids in texts():
        n = len(ids)
        x = norm(w["embeddings.word_embeddings.weight"][ids] + w["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
        at = torch.arange(n)
        for i in range(2):
            a = f"encoder.layer.{i}.attention."
            q, k, v = (line(x, a + f"self.{p}").view(n, 4, 4).transpose(0, 1) for p in ("query", "key", "value"))
            e = w[a + "self.distance_embedding.weight"][at[:, None] - at[None] + 47]
            scores = q @ k.transpose(1, 2) + torch.einsum("hld,lrd->hlr", q, e)
            if kind == "relative_key_query":
                scores = scores + torch.einsum("hrd,lrd->hlr", k, e)
            y = ((scores / 2).softmax(-1) @ v).transpose(0, 1).reshape(n, 16)
            x = norm(line(y, a + "output.dense") + x, a + "output.LayerNorm")
            y = torch.nn.functional.gelu(line(x, f"encoder.layer.{i}.intermediate.dense"))
            x = norm(line(y, f"encoder.layer.{i}.output.dense") + x, f"encoder.layer.{i}.output.LayerNorm")
        answer["cases"][0]["states"].append([[float(f"{v:.7g}") for v in row] for row in x.tolist()])
    (MODELS / f"{name}.json").write_text(json.dumps(answer) + "\n")


ROPE = {"rope_theta": 500.0, "rope_type": "default"}


def everything():
    yield "ernie", lambda n: model(n, hf.ErnieConfig(**SIZE, use_task_id=True, task_type_vocab_size=2), hf.ErnieModel, 1)
    yield "bert_relative_key", lambda n: relative(n, "relative_key", 30)
    yield "bert_relative_key_query", lambda n: relative(n, "relative_key_query", 31)
    yield "megatron_bert", lambda n: model(n, hf.MegatronBertConfig(**SIZE), hf.MegatronBertModel, 2)
    yield "data2vec_text", lambda n: model(n, hf.Data2VecTextConfig(**SIZE), hf.Data2VecTextModel, 3)
    yield "roberta_prelayernorm", lambda n: model(n, hf.RobertaPreLayerNormConfig(**SIZE), hf.RobertaPreLayerNormModel, 4)
    yield "xlm_roberta_xl", lambda n: model(n, hf.XLMRobertaXLConfig(**SIZE), hf.XLMRobertaXLModel, 5)
    yield "xlm_roberta_xl_texts", lambda n: model(n, hf.XLMRobertaXLConfig(**SIZE, **LABELS), hf.XLMRobertaXLForSequenceClassification, 6)
    d1 = dict(SIZE, pad_token_id=0, relative_attention=True, max_relative_positions=-1, position_biased_input=False, pos_att_type=["c2p", "p2c"], type_vocab_size=0)
    yield "deberta_1", lambda n: model(n, hf.DebertaConfig(**d1), hf.DebertaModel, 28, left=True, cases=[
        ("c2p", {"pos_att_type": "c2p"}), ("p2c", {"pos_att_type": "p2c"}), ("content only", {"relative_attention": False})])
    yield "deberta_1_texts", lambda n: model(n, hf.DebertaConfig(**dict(d1, max_relative_positions=6, position_biased_input=True, type_vocab_size=2), **LABELS, pooler_hidden_act="tanh"), hf.DebertaForSequenceClassification, 29)
    t5 = dict(vocab_size=40, d_model=16, d_kv=6, d_ff=24, num_layers=2, num_heads=4, relative_attention_num_buckets=8, relative_attention_max_distance=12, pad_token_id=0, is_encoder_decoder=False)
    yield "mt5", lambda n: model(n, hf.MT5Config(**t5), hf.MT5EncoderModel, 7, left=True)
    yield "umt5", lambda n: model(n, hf.UMT5Config(**t5), hf.UMT5EncoderModel, 8, left=True)
    yield "t5_tokens", lambda n: model(n, hf.T5Config(**t5, **LABELS, feed_forward_proj="gated-silu"), hf.T5ForTokenClassification, 9, left=True)
    yield "qwen2", lambda n: model(n, hf.Qwen2Config(**GQA, use_sliding_window=True, sliding_window=3, max_window_layers=1, rope_parameters=ROPE), hf.Qwen2Model, 10, left=True, cases=[
        ("no windows", {"use_sliding_window": False, "layer_types": None}), ("all see", {"is_causal": False}),
        ("version 4's config, same", {"rope_parameters": None, "rope_theta": 500.0, "layer_types": None})])
    scaled = lambda **r: {"rope_parameters": dict(ROPE, **r)}
    yield "llama_scaled", lambda n: model(n, hf.LlamaConfig(**GQA, head_dim=6, attention_bias=True, mlp_bias=True, rope_parameters=ROPE), hf.LlamaModel, 11, left=True, cases=[
        ("linear", scaled(rope_type="linear", factor=4.0)),
        ("llama3", scaled(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8)),
        ("yarn", scaled(rope_type="yarn", factor=4.0, original_max_position_embeddings=12)),
        ("yarn with factors", scaled(rope_type="yarn", factor=2.5, original_max_position_embeddings=24, beta_fast=16.0, beta_slow=2.0, mscale=0.7, mscale_all_dim=1.3, truncate=False)),
        ("yarn, attention", scaled(rope_type="yarn", factor=4.0, attention_factor=0.8)),
        ("version 4's config", {"rope_parameters": None, "rope_theta": 500.0, "rope_scaling": {"type": "linear", "factor": 4.0}}),
        ("base by default", {"rope_parameters": None})])
    yield "llama_texts", lambda n: model(n, hf.LlamaConfig(**GQA, **LABELS, rope_parameters=ROPE), hf.LlamaForSequenceClassification, 12, left=True)
    yield "qwen3_tokens", lambda n: model(n, hf.Qwen3Config(**GQA, **LABELS, head_dim=8, rope_parameters=ROPE), hf.Qwen3ForTokenClassification, 13, left=True)
    yield "mistral_window", lambda n: model(n, hf.MistralConfig(**GQA, sliding_window=4), hf.MistralModel, 14, left=True)
    gemma = dict(GQA, head_dim=6)
    yield "gemma", lambda n: model(n, hf.GemmaConfig(**gemma), hf.GemmaModel, 15, left=True, cases=[("gelu, same", {"hidden_act": "gelu"})])
    yield "gemma2", lambda n: model(n, hf.Gemma2Config(**gemma, sliding_window=3, query_pre_attn_scalar=10, attn_logit_softcapping=2.0), hf.Gemma2Model, 16, left=True, cases=[
        ("version 4's config, same", {"rope_parameters": None, "rope_theta": 10000.0, "layer_types": None})])
    yield "gemma3_scaled", lambda n: model(n, hf.Gemma3TextConfig(**gemma, sliding_window=5, query_pre_attn_scalar=10, sliding_window_pattern=2), hf.Gemma3TextModel, 17, left=True, cases=[
        ("version 4's config", {"rope_parameters": None, "rope_theta": 700.0, "rope_local_base_freq": 90.0, "rope_scaling": {"rope_type": "linear", "factor": 8.0}}),
        ("layers by number", {"layer_types": None, "sliding_window_pattern": 6})])
    yield "eurobert", lambda n: model(n, hf.EuroBertConfig(**GQA, rope_parameters=ROPE), hf.EuroBertModel, 18, left=True)
    for i, pool in enumerate(("bos", "mean", "late")):
        yield f"eurobert_{pool}", lambda n, i=i, pool=pool: model(n, hf.EuroBertConfig(**GQA, **LABELS, rope_parameters=ROPE, classifier_pooling=pool), hf.EuroBertForSequenceClassification, 19 + i, left=pool != "bos")
    yield "modern_texts", lambda n: model(n, hf.ModernBertConfig(**SIZE, **LABELS, local_attention=6, classifier_bias=True, norm_bias=True, attention_bias=True, mlp_bias=True, classifier_pooling="mean"),
                                          hf.ModernBertForSequenceClassification, 22, left=True, cases=[("relu", {"classifier_activation": "relu"}), ("all see", {"layer_types": None, "global_attn_every_n_layers": 1})])
    yield "nomic_texts", lambda n: model(n, hf.NomicBertConfig(**SIZE, **LABELS), hf.NomicBertForSequenceClassification, 23)
    yield "gte", lambda n: model(n, hf.GteConfig(**SIZE), hf.GteModel, 24, left=True, cases=[("another base", scaled())])
    yield "gte_types", lambda n: model(n, hf.GteConfig(**dict(SIZE, type_vocab_size=0)), hf.GteModel, 25, left=True)
    yield "gte_tokens", lambda n: model(n, hf.GteConfig(**SIZE, **LABELS), hf.GteForTokenClassification, 26, left=True)
    yield "gte_scaled", lambda n: model(n, hf.GteConfig(**SIZE), hf.GteModel, 32, left=True, cases=[("ntk", {"rope_parameters": {"rope_type": "linear", "rope_theta": 800.0 * 8, "factor": 8 ** (2 / 4)}})])
    yield "new_scaled", lambda n: own("gte_scaled", n, {"model_type": "new", "architectures": ["NewModel"], "rope_parameters": None, "rope_theta": 800, "rope_scaling": {"factor": 8.0, "type": "ntk"}}, case=1)
    yield "new", lambda n: own("gte_tokens", n, {
        "model_type": "new", "architectures": ["NewForTokenClassification"], "rope_parameters": None, "rope_theta": 160000, "position_embedding_type": "rope",
        "layer_norm_type": "layer_norm", "pack_qkv": True, "logn_attention_scale": False}, ("gte.", "new."))
    yield "nomic", lambda n: model(n, hf.NomicBertConfig(**SIZE), hf.NomicBertModel, 27, left=True)
    yield "nomic_own", lambda n: own("nomic", n, {
        **{k: None for k in ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "hidden_act", "rope_parameters", "head_dim", "layer_norm_eps", "max_position_embeddings")},
         "n_embd": 16, "n_head": 4, "n_layer": 2, "n_inner": 24, "n_positions": 48, "activation_function": "swiglu", "layer_norm_epsilon": 1e-12, "rotary_emb_base": 1000, "rotary_emb_fraction": 1.0,
         "rotary_emb_interleaved": False, "rotary_scaling_factor": None, "prenorm": False, "use_rms_norm": False, "qkv_proj_bias": False, "parallel_block": False})


if __name__ == "__main__":
    MODELS.mkdir(exist_ok=True)
    for name, make in everything():
        if not sys.argv[1:] or name in sys.argv[1:]:
            make(name)
