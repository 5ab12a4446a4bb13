"""Prints what SentencePiece makes of random texts, as lines of JSON that TestReference reads.

    pip install sentencepiece==0.2.3 protobuf
    python reference.py SEED TEXTS MODEL... > reference.jsonl
"""
import json
import pathlib
import random
import sys

import sentencepiece

source = (pathlib.Path(__file__).parents[2] / "pattern/testdata/reference.py").read_text()
exec(source[source.index("CHARS ="):source.index("SETS =")])


def main():
    seed, texts = map(int, sys.argv[1:3])
    for path in sys.argv[3:]:
        model = sentencepiece.SentencePieceProcessor(model_file=path)
        rand = random.Random(seed)
        extra = ["<mask>", "foo", "fo", "<s>", "<unk>", "<0x41>", "the", " of the", "\u2581", "  ", "xy", "a\u0301b"] + [model.id_to_piece(rand.randrange(len(model))).replace("\u2581", " ") for _ in range(200)]
        for _ in range(texts):
            s = text(rand)
            for _ in range(rand.randrange(6)):
                at = rand.randrange(len(s) + 1)
                s = s[:at] + rand.choice(extra) + s[at:]
            proto = model.encode(s, return_type="proto")
            pieces = [(p.id, p.piece, p.begin, p.end) for p in proto.pieces]
            some = [rand.randrange(len(model)) for _ in range(rand.randrange(8))]
            print(json.dumps([pathlib.Path(path).name, s, pieces, model.decode([p[0] for p in pieces]), some, model.decode(some)]))


main()
