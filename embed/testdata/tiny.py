"""What the reference scripts of embed and classify share: texts, tokenizers trained on them, and random weights."""

import collections
import json
import math
import os
import pathlib
import shutil
import sys

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", TOKENIZERS_PARALLELISM="false", TRANSFORMERS_VERBOSITY="error")

import torch  # noqa: E402
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers  # noqa: E402
from transformers import PreTrainedTokenizerFast  # noqa: E402

torch.set_num_threads(1)

CORPUS = """A river carries the rain from the hills down to the sea.
The baker opens her shop at six and sells the last bread before noon.
Where is the nearest station, and when does the next train leave?
Seven engineers measured the bridge twice; they found 3.5 mm of difference.
It was raining in Paris, so Anna and Peter stayed at home and played chess.
The museum in Vienna bought two paintings for 1,250,000 euros on Monday.
Do not open the window while the heater is running!
Small models answer quickly, large models answer slowly, and both are sometimes wrong.
The cat sleeps on the warm stones behind the old garden wall.
He said: "I can't believe it's already over," and closed the door.
Water boils at 100 degrees; at high altitude it boils sooner.
Der Zug nach Berlin fährt heute später, weil es geschneit hat.
Le café est fermé le dimanche, mais la boulangerie reste ouverte.
El niño juega en la plaza mientras su abuela lee el periódico.
Москва и Берлин далеко друг от друга. 東京の夜は長い。 한국어 문장입니다.
Please send the invoice to the office in London before the end of May.
""".splitlines()

LONG = " ".join(CORPUS[:11])
TEXTS = [  # variants answer the first four
    "A river carries the rain to the sea.",
    LONG,
    "",
    "東京の夜は長い。 Москва 한국어 \U0001f600 naïve co\u0301te",
    "   Anna   and\tPeter played CHESS in Paris!\n",
    "Der Zug nach Berlin fährt später; le café est fermé.",
    "Where is the nearest station?",
    "bread",
    "the " * 45,
]
PAIRS = [
    ["Where is the nearest station?", "The train leaves for Berlin at six."],
    ["Where is the nearest station?", ""],
    ["", "bread"],
    ["It was raining in Paris.", "Anna and Peter stayed at home, and played chess; café, fährt, 東京."],
    ["water boils", LONG],
    [LONG, "the cat sleeps"],
    [LONG, LONG],
]


def scripts():
    """The corpus and letters for the alphabets."""
    return CORPUS + ["a b c d e f g h i j k l m n o p q r s t u v w x y z aabcdefg ahijklm anopqrst auvwxyz A B C D E F G H I J K L M N O P Q R S T U V W X Y Z "
                     "0 1 2 3 4 5 6 7 8 9 001234 056789 . , ; : ! ? ' \" - ( )"]


def frequent(words, size, inside):
    """Every character, and the pieces that shorten the words most, with their counts. Trainers order equals at random; this does not."""
    count = collections.Counter()
    for w in words:
        for i in range(len(w)):
            for j in range(i + 1, min(len(w), i + 8) + 1):
                count[inside * (i > 0) + w[i:j]] += 1
    bare = {p: p.removeprefix(inside) if inside else p for p in count}
    single = sorted(p for p in count if len(bare[p]) == 1)
    longer = sorted((p for p in count if len(bare[p]) > 1 and count[p] > 1), key=lambda p: (-count[p] * (len(bare[p]) - 1), p))
    assert size - len(single) > 60, len(single)
    return [(p, count[p]) for p in single + longer[:size - len(single)]]


def pieces(lower=True, specials=("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"), size=320, types=True):
    """WordPiece as BERT has it; specials are padding, unknown, first, last, mask."""
    pad, unknown, first, last, mask = specials
    t = Tokenizer(models.WordPiece(unk_token=unknown))
    t.normalizer = normalizers.BertNormalizer(lowercase=lower)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    order = list(specials) if first == "[CLS]" else [first, pad, last, unknown, mask]
    words = [w for line in scripts() for w, _ in t.pre_tokenizer.pre_tokenize_str(t.normalizer.normalize_str(line))]
    vocabulary = order + [p for p, _ in frequent(words, size - len(order), "##")]
    t.model = models.WordPiece({p: i for i, p in enumerate(vocabulary)}, unk_token=unknown)
    t.add_special_tokens(order)
    double = f" {last}" if first != "[CLS]" else ""
    t.post_processor = processors.TemplateProcessing(
        single=f"{first} $A {last}", pair=f"{first} $A {last}{double} $B:{int(types)} {last}:{int(types)}",
        special_tokens=[(x, t.token_to_id(x)) for x in (first, last)])
    return fast(t, specials, types)


def roberta(size=330):
    """Byte-level BPE with RoBERTa's special tokens."""
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(scripts(), trainers.BpeTrainer(
        vocab_size=size, special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    return fast(t, ("<pad>", "<unk>", "<s>", "</s>", "<mask>"), False)


def bytes_(specials, single, pair, size=320, **options):
    """Byte-level BPE with a template; specials are padding, unknown, first, last, mask (or None)."""
    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.NFC()
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    names = list(dict.fromkeys(x for x in specials if x))
    t.train_from_iterator(scripts(), trainers.BpeTrainer(
        vocab_size=size, special_tokens=names, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    t.post_processor = processors.TemplateProcessing(single=single, pair=pair, special_tokens=[(x, t.token_to_id(x)) for x in names])
    return fast(t, specials, False, **options)


def unigram(order, specials, single, pair, types=False, size=320, lower=False, **options):
    """Unigram as SentencePiece makes it; order gives the first ids, specials padding, unknown, first, last, mask (or None)."""
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace("  ", " ")] + ([normalizers.Lowercase()] if lower else []))
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.decoder = decoders.Metaspace()
    unknown = "<unk>" if "<unk>" in order else "[UNK]"
    words = [w for line in scripts() for w, _ in t.pre_tokenizer.pre_tokenize_str(t.normalizer.normalize_str(line))]
    rest = frequent(words, size - len(order), "")
    total = sum(n for _, n in rest)
    t.model = models.Unigram([(x, 0.0) for x in order] + [(p, round(math.log(n / total), 4)) for p, n in rest], order.index(unknown))
    t.add_special_tokens(order)
    t.post_processor = processors.TemplateProcessing(
        single=single, pair=pair, special_tokens=[(x, t.token_to_id(x)) for x in dict.fromkeys(specials) if x])
    return fast(t, specials, types, **options)


def fast(t, specials, types, **options):
    pad, unknown, first, last, mask = specials
    names = {"pad_token": pad, "unk_token": unknown, "cls_token": first, "sep_token": last, "mask_token": mask}
    if "eos_token" in options:
        del names["sep_token"]
    return PreTrainedTokenizerFast(
        tokenizer_object=t, model_input_names=["input_ids"] + ["token_type_ids"] * types + ["attention_mask"],
        **{k: v for k, v in names.items() if v}, **options)


def coarse(x):
    """x with three binary digits, so that most bytes of a float16 are equal."""
    m, e = math.frexp(x)
    return math.ldexp(round(m * 8) / 8, e)


def randomise(model, seed, dtype=torch.float16):
    """Gives every parameter values that show in the answer, exact in dtype: biases too, and norms that are not 1.

    Most weights are 0 and the others are equal but for their signs, so that the files compress to a tenth.
    """
    g = torch.Generator().manual_seed(seed)
    for name, p in model.named_parameters():
        if p.dim() == 1:
            norm = "norm" in name.lower() and name.endswith("weight")
            r = (torch.randint(0, 4, p.shape, generator=g) - 1.5) / 8 + (1.0 if norm else 0.0)
        else:
            table = "embed" in name.lower() or "shared" in name
            few = 2 if table else 3  # of 20
            pick = torch.randint(0, 40, p.shape, generator=g)
            r = ((pick < few).float() - (pick >= 40 - few).float()) * coarse((0.6 if table else 1.3 / p.shape[-1] ** 0.5) / (few / 20) ** 0.5)
        p.data = r.to(dtype)
    return model.eval()


def tidy(folder):
    """Leaves out what no program reads."""
    for name in ("README.md", ".gitattributes", "training_args.bin"):
        (folder / name).unlink(missing_ok=True)


def digits(x):
    """Six digits after the point: a tenth of the tolerance."""
    return [round(float(v), 6) for v in x]


def write(path, value):
    """JSON with a line for each text, so that differences are readable."""
    def lines(v, indent):
        if isinstance(v, dict) and v:
            inner = ",\n".join(" " * (indent + 1) + json.dumps(k) + ": " + lines(x, indent + 1) for k, x in v.items())
            return "{\n" + inner + "\n" + " " * indent + "}"
        if isinstance(v, list) and v and isinstance(v[0], (dict, list, str)):
            inner = (lines(x, indent + 1) if isinstance(x, dict) and indent < 3 else json.dumps(x, ensure_ascii=False) for x in v)
            return "[\n" + ",\n".join(" " * (indent + 1) + x for x in inner) + "\n" + " " * indent + "]"
        return json.dumps(v, ensure_ascii=False)
    path.write_text(lines(value, 0) + "\n")


def fresh(folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def chosen(table):
    """The functions that the command line names, or all."""
    return {k: v for k, v in table.items() if not sys.argv[1:] or k in sys.argv[1:]}


HERE = pathlib.Path(sys.argv[0]).resolve().parent
