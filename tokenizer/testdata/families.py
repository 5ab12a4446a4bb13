"""Trains the tokenizers of the tests with the reference, PyPI's tokenizers 0.23.3: python families.py FOLDER."""

import base64
import gzip
import json
import pathlib
import random
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers as N, pre_tokenizers as P
from tokenizers import processors, trainers

GPT4 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
ALPHABETS = ["abcdefghijklmnopqrstuvwxyz"] * 6 + ["ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghij"] * 2 + [
    "éèàüößñçaeiou", "абвгдежзийклмнопрст", "αβγδεζηθικλμνξοσς", "אבגדהוזחטי", "ابتثجحخدذرزس", "कखगघचछजिीुू",
    "กขคงจฉชซัิี", "日本語中国人大小", "かきくけこさしす", "カキクケコ", "가나다라마바사", "0123456789", "🙂🚀👍🏽❤️"]


def corpus(seed, lines=3000):
    r = random.Random(seed)
    words = ["".join(r.choice(a) for _ in range(r.randint(1, 7))) for a in ALPHABETS for _ in range(60)]
    words += ["don't", "it's", "we'll", "I'd", "e.g.", "naïve", "café", "résumé", "<tag>", "x=1;", "(a+b)", "…", "—"]
    for _ in range(lines):
        line = ""
        for _ in range(r.randint(3, 14)):
            line += words[min(int(r.expovariate(0.01)), len(words) - 1)] + r.choice([" "] * 12 + ["  ", "\n", "\t", ", ", ". "])
        yield line


def bert(lower):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = N.BertNormalizer(lowercase=lower)
    t.pre_tokenizer = P.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    t.train_from_iterator(corpus(1), trainers.WordPieceTrainer(vocab_size=1500, special_tokens=special, show_progress=False))
    cls, sep = t.token_to_id("[CLS]"), t.token_to_id("[SEP]")
    if lower:
        t.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", cls), ("[SEP]", sep)])
    else:
        t.post_processor = processors.BertProcessing(("[SEP]", sep), ("[CLS]", cls))
    t.decoder = decoders.WordPiece(cleanup=lower)
    return t


def bert_added():
    t = bert(True)
    t.add_tokens([AddedToken("Yesterday", single_word=True), AddedToken("new_token", lstrip=True),
                  AddedToken("ab", rstrip=True), AddedToken("abc"), AddedToken("Éa", normalized=True)])
    t.add_special_tokens([AddedToken("<e1>", lstrip=True, rstrip=True), AddedToken("<e1>x", single_word=True)])
    return t


def words(pre, normalizer=None):
    t = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    t.normalizer = normalizer
    t.pre_tokenizer = pre
    t.train_from_iterator(corpus(2), trainers.WordLevelTrainer(vocab_size=1500, special_tokens=["[UNK]"], show_progress=False))
    return t


def byte_level(pre, decoder=None, normalizer=None, special=("<|endoftext|>",), post=None, **model):
    t = Tokenizer(models.BPE(**model))
    t.normalizer, t.pre_tokenizer = normalizer, pre
    t.train_from_iterator(corpus(3), trainers.BpeTrainer(
        vocab_size=1500, special_tokens=list(special), initial_alphabet=P.ByteLevel.alphabet(), show_progress=False))
    t.decoder = decoder or decoders.ByteLevel()
    if post:
        t.post_processor = post(t)
    return t


def roberta():
    ends = lambda t: processors.RobertaProcessing(("</s>", t.token_to_id("</s>")), ("<s>", t.token_to_id("<s>")),
                                                  trim_offsets=True, add_prefix_space=False)
    t = byte_level(P.ByteLevel(add_prefix_space=False), special=("<s>", "<pad>", "</s>", "<unk>"), post=ends)
    t.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    return t


def llama3():
    def post(t):
        return processors.Sequence([processors.ByteLevel(trim_offsets=True, add_prefix_space=True), processors.TemplateProcessing(
            single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A <|begin_of_text|>:1 $B:1",
            special_tokens=[("<|begin_of_text|>", t.token_to_id("<|begin_of_text|>"))])])
    pre = P.Sequence([P.Split(Regex(GPT4), "isolated"), P.ByteLevel(add_prefix_space=False, use_regex=False)])
    return byte_level(pre, special=("<|begin_of_text|>", "<|eot_id|>"), post=post, ignore_merges=True)


def deberta():
    """The first version's."""
    def post(t):
        cls, sep = t.token_to_id("[CLS]"), t.token_to_id("[SEP]")
        return processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", cls), ("[SEP]", sep)])
    t = byte_level(P.ByteLevel(add_prefix_space=False), special=("[CLS]", "[PAD]", "[SEP]", "[UNK]"), post=post)
    t.add_special_tokens([AddedToken("[MASK]", lstrip=True)])
    return t


def qwen():
    pre = P.Sequence([P.Split(Regex(GPT4.replace("{1,3}", "")), "isolated"), P.ByteLevel(add_prefix_space=False, use_regex=False)])
    return byte_level(pre, normalizer=N.NFC(), post=lambda t: processors.ByteLevel(trim_offsets=False))


def smollm():
    pre = P.Sequence([P.Digits(individual_digits=True), P.ByteLevel(add_prefix_space=False)])
    return byte_level(pre, special=("<|endoftext|>", "<|im_start|>", "<|im_end|>"))


def gemma():
    """SentencePiece's BPE: bytes for what is unknown."""
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.normalizer = N.Replace(" ", "▁")
    t.pre_tokenizer = P.Split(" ", "merged_with_previous")
    special = ["<pad>", "<eos>", "<bos>", "<unk>"] + [f"<0x{b:02X}>" for b in range(256)]
    t.train_from_iterator(corpus(4), trainers.BpeTrainer(vocab_size=2000, special_tokens=special, show_progress=False, limit_alphabet=80))
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    t.post_processor = processors.TemplateProcessing(single="<bos> $A", pair="<bos> $A <bos>:1 $B:1", special_tokens=[("<bos>", 2)])
    data = json.loads(t.to_str())
    data["added_tokens"] = data["added_tokens"][:4]
    return Tokenizer.from_str(json.dumps(data))


def llama2():
    """The same with a normaliser that writes a space first, and no pre-tokenizer."""
    data = json.loads(gemma().to_str())
    data["normalizer"] = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"},
                                                              {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]}
    data["pre_tokenizer"] = None
    data["decoder"]["decoders"].append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    return Tokenizer.from_str(json.dumps(data))


def clip():
    """BPE whose last part of a word has a suffix."""
    t = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>", fuse_unk=False))
    t.normalizer = N.Sequence([N.NFKC(), N.Lowercase()])
    t.pre_tokenizer = P.Whitespace()
    t.train_from_iterator(corpus(5), trainers.BpeTrainer(vocab_size=1500, special_tokens=["<unk>"], end_of_word_suffix="</w>",
                                                         show_progress=False, limit_alphabet=120))
    t.decoder = decoders.BPEDecoder("</w>")
    return t


def bytes_normalizer():
    """The bytes become characters in the normaliser; the template is before the step that trims offsets."""
    t = byte_level(P.Split("Ġ", "merged_with_next"), normalizer=N.Sequence([N.NFKC(), N.ByteLevel()]), special=("<s>", "a b"))
    two = {"id": "two", "ids": [0, 1], "tokens": ["<s>", " a b"]}
    t.post_processor = processors.Sequence([
        processors.TemplateProcessing(single="$A:2 two:1", pair="$B:3 two $A:1 two:2", special_tokens=[two]),
        processors.ByteLevel(trim_offsets=True, add_prefix_space=False)])
    t.add_tokens(["é b", AddedToken("日本", normalized=False, rstrip=True)])
    return t


def words_patterns():
    """Patterns that match nothing, a part or all, and decoders one after the other."""
    normal = N.Sequence([N.Replace(Regex(r"[0-9]+"), "0"), N.Prepend("▁"), N.StripAccents(), N.Replace(Regex("x+y?"), "-")])
    pre = P.Sequence([P.Metaspace(prepend_scheme="always", split=False), P.Split(Regex(r"[▁\s]+|\p{P}"), "merged_with_previous", invert=True),
                      P.Punctuation("merged_with_next"), P.Split("", "isolated")])
    t = words(pre, normal)
    t.decoder = decoders.Sequence([decoders.Metaspace(), decoders.CTC(pad_token="a", word_delimiter_token="-"), decoders.Replace("b", "cc"),
                                   decoders.Strip("c", 2, 0)])
    t.post_processor = processors.RobertaProcessing(("[UNK]", 0), ("[UNK]", 0), trim_offsets=True, add_prefix_space=True)
    return t


def words_invert():
    t = words(P.Sequence([P.Split(Regex(r"\w+|[^\w\s]+"), "removed", invert=True), P.Split("a", "merged_with_next", invert=True)]),
              N.Sequence([N.Strip(left=False), N.NFC(), N.Lowercase()]))
    t.decoder = decoders.Metaspace(prepend_scheme="never")
    return t


CHARSMAP = pathlib.Path(__file__).parent / "../../internal/text/charsmap/testdata/rules.charsmap"


def charsmap():
    """A charsmap of SentencePiece."""
    return N.Precompiled(CHARSMAP.read_bytes())


def unigram(normalizer, pre, decoder, special=("<pad>", "</s>", "<unk>"), **options):
    t = Tokenizer(models.Unigram())
    t.normalizer, t.pre_tokenizer, t.decoder = normalizer, pre, decoder
    t.train_from_iterator(corpus(6), trainers.UnigramTrainer(vocab_size=1200, special_tokens=list(special), unk_token="<unk>", show_progress=False))
    data = json.loads(t.to_str())
    data["model"].update(options)
    t = Tokenizer.from_str(json.dumps(data))
    end = t.token_to_id(special[1])
    t.post_processor = processors.TemplateProcessing(single=f"$A {special[1]}", pair=f"$A {special[1]} $B {special[1]}",
                                                     special_tokens=[(special[1], end)])
    return t


def t5():
    normal = N.Sequence([charsmap(), N.Strip(left=False), N.Replace(Regex(" {2,}"), "▁")])
    return unigram(normal, P.Metaspace(prepend_scheme="always"), decoders.Metaspace())


def xlm_r():
    t = unigram(charsmap(), P.Sequence([P.WhitespaceSplit(), P.Metaspace()]), decoders.Metaspace(), ("<s>", "</s>", "<unk>", "<pad>"))
    t.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    return t


def deberta_v3():
    """The second version's too."""
    normal = N.Sequence([N.Strip(), charsmap(), N.Replace(Regex(" {2,}"), " ")])
    t = unigram(normal, P.Sequence([P.Punctuation("isolated"), P.Metaspace(prepend_scheme="always")]), decoders.Metaspace(),
                ("[PAD]", "[CLS]", "[SEP]", "<unk>"))
    cls, sep = t.token_to_id("[CLS]"), t.token_to_id("[SEP]")
    t.post_processor = processors.TemplateProcessing(single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
                                                     special_tokens=[("[CLS]", cls), ("[SEP]", sep)])
    t.add_special_tokens(["[MASK]"])
    return t


def unigram_bytes():
    special = ["<pad>", "<eos>", "<unk>"] + [f"<0x{b:02X}>" for b in range(256)]
    t = unigram(N.Replace(" ", "▁"), P.Metaspace(prepend_scheme="first", split=False),
                decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(), decoders.Fuse()]), special, byte_fallback=True)
    data = json.loads(t.to_str())
    data["added_tokens"] = data["added_tokens"][:3]
    return Tokenizer.from_str(json.dumps(data))


FAMILIES = {
    "words_scripts": lambda: words(P.Sequence([P.UnicodeScripts(), P.Punctuation()])),
    "t5": t5,
    "xlm_r": xlm_r,
    "unigram_bytes": unigram_bytes,
    "bytes_normalizer": bytes_normalizer,
    "words_patterns": words_patterns,
    "words_invert": words_invert,
    "bert_uncased": lambda: bert(True),
    "bert_cased": lambda: bert(False),
    "bert_added": bert_added,
    "words_whitespace": lambda: words(P.Whitespace(), N.Sequence([N.NFD(), N.StripAccents(), N.Lowercase()])),
    "words_punctuation": lambda: words(P.Sequence([P.WhitespaceSplit(), P.Punctuation("merged_with_previous"), P.Digits()]), N.NFKD()),
    "words_contiguous": lambda: words(P.Sequence([P.Punctuation("contiguous"), P.Split(" ", "merged_with_next")]),
                                      N.Sequence([N.Nmt(), N.NFKC(), N.Strip()])),
    "words_delimiter": lambda: words(P.Sequence([P.CharDelimiterSplit("a"), P.FixedLength(3)]), N.Sequence([N.NFC(), N.Replace("e", "--")])),
    "words_metaspace": lambda: words(P.Metaspace(prepend_scheme="first"), N.Strip(right=False)),
    "gpt2": lambda: byte_level(P.ByteLevel(add_prefix_space=True), post=lambda t: processors.ByteLevel(trim_offsets=True)),
    "roberta": roberta,
    "deberta": deberta,
    "deberta_v3": deberta_v3,
    "llama3": llama3,
    "qwen": qwen,
    "smollm": smollm,
    "gemma": gemma,
    "llama2": llama2,
    "clip": clip,
}

def ranks():
    """Ranks as tiktoken's files have them: 256 bytes and what joins them."""
    t = byte_level(P.Sequence([P.Split(Regex(GPT4), "isolated"), P.ByteLevel(add_prefix_space=False, use_regex=False)]), special=())
    byte = {c: b for b, c in zip(sorted(range(256), key=lambda b: (not (33 <= b <= 126 or 161 <= b <= 172 or 174 <= b <= 255), b)), [
        chr(b) for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or 174 <= b <= 255] + [chr(256 + i) for i in range(68)])}
    tokens = sorted(t.get_vocab().items(), key=lambda item: item[1])
    return "".join(f"{base64.b64encode(bytes(byte[c] for c in token)).decode()} {rank}\n" for token, rank in tokens)


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    (folder / "ranks.gz").write_bytes(gzip.compress(ranks().encode(), mtime=0))
    for name in sys.argv[2:] or FAMILIES:
        text = json.dumps(json.loads(FAMILIES[name]().to_str()), ensure_ascii=False, separators=(",", ":"))
        (folder / f"{name}.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
