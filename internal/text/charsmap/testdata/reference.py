"""Prints what Hugging Face's tokenizers make of random texts by charsmaps, as lines of JSON that TestReference reads.

    pip install tokenizers==0.23.3
    python reference.py SEED TEXTS FILE.charsmap... > reference.jsonl

A .charsmap file is the precompiled_charsmap of a SentencePiece model. rules.charsmap replaces one character of each kind that
bounds grapheme clusters.
"""
import json
import pathlib
import random
import sys

from tokenizers import normalizers

source = (pathlib.Path(__file__).parents[2] / "pattern/testdata/reference.py").read_text()
exec(source[source.index("CHARS ="):source.index("SETS =")])
CLUSTERS = list("aegkǰßé中字कनद\u094d\u093cिาำ가각ᄀ까ᅢᆨᆩ🇩🇪👩😀👍🏽\u0301\u200d\u0903\u0600\u06dd©ǅ\r\nอـ०b\u0995\u09cd\u09be\u1b05\u1b44\u0d4e\u200c\ufe0f\u20e3❤#")


def main():
    seed, texts = map(int, sys.argv[1:3])
    for path in sys.argv[3:]:
        name = pathlib.Path(path).name
        normalizer = normalizers.Precompiled(pathlib.Path(path).read_bytes())
        rand = random.Random(seed)
        for k in range(texts):
            s = "".join(rand.choice(CLUSTERS) for _ in range(rand.randrange(1, 12))) if k % 2 else text(rand)
            print(json.dumps([name, s, normalizer.normalize_str(s)]))


main()
