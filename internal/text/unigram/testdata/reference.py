"""Prints the pieces that Hugging Face's Unigram model finds in random texts, as lines of JSON that TestReference reads.

    pip install tokenizers==0.23.3
    python reference.py SEED MODELS TEXTS > reference.jsonl

A line has the pieces with their scores, the unknown id (-1: none), whether there is a byte fallback, and the texts with their ids and
offsets in bytes; null if the text cannot be encoded.
"""
import json
import pathlib
import random
import sys

from tokenizers.models import Unigram

source = (pathlib.Path(__file__).parents[2] / "pattern/testdata/reference.py").read_text()
exec(source[source.index("CHARS ="):source.index("SETS =")])


def model(rand):
    alphabet = rand.choice(("ab", "abc▁", "aé中😀b", "abcdefghi▁'é中"))
    pieces = {"<unk>": 0.0}
    steps = rand.choice((1, 0.5, 0.1, None))
    for _ in range(rand.randrange(1, 60)):
        piece = "".join(rand.choice(alphabet) for _ in range(rand.choice((1, 1, 2, 2, 3, 4, 6))))
        pieces[piece] = -rand.randrange(1, 8) * steps if steps else -rand.random() * 10
    if rand.random() < .2:
        pieces["aab"] = 3.5
    if rand.random() < .1:
        pieces["a"] = 150.0
        pieces["<unk>"] = 150.0
    fallback = rand.random() < .5
    if fallback:
        for b in range(256 if rand.random() < .7 else 200):
            pieces["<0x%02X>" % b] = -float(b % 7)
    items = list(pieces.items())
    rand.shuffle(items)
    unknown = next(i for i, (p, _) in enumerate(items) if p == "<unk>")
    if rand.random() < .1:
        unknown = rand.randrange(len(items))
    return alphabet, items, None if rand.random() < .1 else unknown, fallback


def main():
    seed, models, texts = map(int, sys.argv[1:4])
    rand = random.Random(seed)
    for _ in range(models):
        alphabet, items, unknown, fallback = model(rand)
        unigram = Unigram(items, unk_id=unknown, byte_fallback=fallback)
        cases = []
        for _ in range(texts):
            s = text(rand) if rand.random() < .2 else "".join(rand.choice(alphabet + "xy" * (rand.random() < .1)) for _ in range(rand.randrange(1, 30)))
            try:
                cases.append([s, [[t.id, *t.offsets] for t in unigram.tokenize(s)]])
            except Exception:
                cases.append([s, None])
        print(json.dumps([items, -1 if unknown is None else unknown, fallback, cases]))


main()
