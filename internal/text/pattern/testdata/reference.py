"""Prints what Hugging Face's tokenizers match, as lines of JSON that TestReference reads.

    pip install tokenizers==0.23.3
    python reference.py SEED TEXTS PATTERNS > reference.jsonl

TEXTS is the number of random texts for each known pattern, PATTERNS the number of random patterns, with 12 texts each. A line has
the pattern p, and either error, or the cases: a text and the lengths of its pieces in characters, negative for those that are not
matches.
"""
import json
import random
import sys

from tokenizers import Regex, pre_tokenizers

KNOWN = json.load(open(__file__.rsplit("/", 1)[0] + "/known.json")) if "/" in __file__ else json.load(open("known.json"))

CHARS = (
    list("abcdefgstrvlmABCDEFGSTRVLM0123456789 \t\n\r'\"-_.,;:!?()[]{}/\\@#$%&*+=<>|~^`")
    + list(" \n\r\t'") * 4 + list("stmdlrve") + list("\u00a0\u0085\u2003\u2028\u200b\u200d\u3000\u000b\u000c\ufeff")
    + list("éßÉñüöŉǰſKµΑαΣσςΩж́ЖяіİıĳﬁﬆﬅǅǆǄΐ") + list("中文字漢字一龥丁ぁのカー가힣각") + list("אבגعربيहिन्दीไทยาอำ")
    + list("٠١٢३४Ⅷⅷ²½①㊿〇") + list("\u0301\u0308\u20dd\u0903\u1ab0\ufe0f") + list("😀👍🏽👩‍🚀🇩🇪🫠🪿") + list("€£₿©®™≠∞→♥…—“”«»،۔、。！？「」")
    + list("\x00\x01\x1f\x7f\x80\x9f\u00ad\ue000\U000f0000\U0010ffff\ufffd\ufffe\u0378") + list("\u1c89\U00010d40\U00016d40\u1c80Ɤꭰᏸ\u10d0\u1c90")
)
WORDS = ["I'm", "we'll", "They'VE", "don't", "HTTPServer", "camelCase", "3.14", "12345678", "  two", "\r\n\r\n", "   ", "\t\t", " \n ", "hello", " world", "naïve", "日本語", "'S", "'ll", "'ſ", "x²", "ﬁn", "co-op", "a_b", "--", "...", "</s>", "été", "e\u0301"]


def text(rand, size=None):
    out = []
    for _ in range(size or rand.choice((1, 2, 3, 5, 8, 12, 20, 30))):
        k = rand.random()
        if k < .3:
            out.append(rand.choice(WORDS))
        elif k < .85:
            out.append(rand.choice(CHARS))
        elif k < .9:
            out.append(rand.choice(CHARS) * rand.randrange(1, 5))
        else:
            c = rand.choice((rand.randrange(0x20, 0x250), rand.randrange(0x3000), rand.randrange(0x110000)))
            out.append(chr(c) if not 0xD800 <= c < 0xE000 else "\u0600")
    return "".join(out)


SETS = [".", r"\s", r"\S", r"\w", r"\W", r"\d", r"\D", r"\h", r"\H", r"\p{L}", r"\P{L}", r"\p{N}", r"\p{Lu}", r"\p{Ll}", r"\p{M}", r"\p{P}", r"\p{S}", r"\p{Han}", r"\p{^L}", r"\p{Greek}", r"\p{Alpha}", "[a-c]", "[^a-c]", "[ab]", r"[^\s\p{L}\p{N}]", r"[\r\n]", r"[^\r\n\p{L}\p{N}]", "[[:alpha:]]", "[^[:space:]]", r"[\p{L}&&[^a-m]]", r"[a\-z]", r"[^\W_]", r"[一-龥]", "[a-f[x-z]]", r"[\x41-\x5a]", r"[']", r"[^']", "[!-/:-@]", r"\p{Cn}"]
LITERALS = list("aabbcsd1 \n'") + [r"\n", r"\t", r"\.", r"\x41", r"\u00e9", r"\x{4e2d}", "é", "中", "ab", "'s", r"\/", r"\-", r"\e"]


def pattern(rand, depth=0, fold=False):
    k = rand.random()
    if depth > 3 or k < .25:
        return rand.choice(LITERALS)
    if k < .45:
        return rand.choice(SETS)
    if k < .65:
        return "".join(pattern(rand, depth + 1) for _ in range(rand.randrange(1, 4)))
    if k < .75:
        return rand.choice(("(%s)", "(?:%s)")) % "|".join(pattern(rand, depth + 1) for _ in range(rand.randrange(2, 4)))
    if k < .9:
        body = pattern(rand, depth + 1)
        if len(body) > 1 and not body.startswith(("(?:", "[")) and body not in SETS:
            body = "(?:%s)" % body
        return body + rand.choice(("*", "+", "?", "*?", "+?", "??", "*+", "++", "?+", "{2}", "{1,2}", "{0,2}", "{1,}", "{,2}", "{1,2}?", "{2}?", "{1,2}+", "{2,}?", "{", "{a}"))
    if k < .95:
        return rand.choice(("(?=%s)", "(?!%s)", "(?=%s)", "(?!%s)", "(?>%s)", "(?<=a)", "(?<!b)", r"(?<=\s|bc)", "(?i:%s)", "(?m:%s)", "(?i)%s", "(?x: %s )", "(?<!%s)")).replace("%s", "{}", 1).format(pattern(rand, depth + 1)) if True else ""
    return rand.choice(("^", "$", r"\A", r"\z", r"\Z", r"\b", r"\B", "(?#x)", ""))


def pieces(split, matches, s):
    """The lengths of the pieces of s; negative if a piece is not a match."""
    matched = {span for _, span in matches.pre_tokenize_str(s)}
    return [(b - a) if (a, b) in matched else a - b for _, (a, b) in split.pre_tokenize_str(s)]


def line(p, texts):
    try:
        regex = Regex(p)
        split, matches = pre_tokenizers.Split(regex, "isolated"), pre_tokenizers.Split(regex, "removed", invert=True)
        return {"p": p, "cases": [[s, pieces(split, matches, s)] for s in texts]}
    except BaseException as error:
        return {"p": p, "error": str(error)}


def main():
    seed, texts, patterns = map(int, sys.argv[1:4])
    rand = random.Random(seed)
    for p in KNOWN.values():
        print(json.dumps(line(p, [text(rand) for _ in range(texts)])))
    for _ in range(patterns):
        p = "|".join(pattern(rand) for _ in range(rand.randrange(1, 4)))
        print(json.dumps(line(p, [text(rand) for _ in range(12)])))


main()
