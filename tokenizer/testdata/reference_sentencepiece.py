"""Answers with PyPI's sentencepiece 0.2.3: reads a model (argv[1]) and lines of JSON, and writes a line for each."""

import json
import sys

import sentencepiece

model = sentencepiece.SentencePieceProcessor(model_file=sys.argv[1])

for line in sys.stdin:
    text = json.loads(line)["a"]
    pieces = [(p.id, p.begin, p.end) for p in model.encode(text, return_type="proto").pieces]
    ids = [p[0] for p in pieces]
    print(json.dumps({"ids": ids, "at": [p[1:] for p in pieces], "text": model.decode(ids)}))
