"""Answers with PyPI's tiktoken 0.14.0: reads a file of ranks (argv[1]) for an encoding (argv[2]) and lines of JSON, and writes a line for each."""

import json
import sys

import tiktoken
from tiktoken.load import load_tiktoken_bpe
from tiktoken_ext import openai_public

ranks = load_tiktoken_bpe(sys.argv[1])
openai_public.load_tiktoken_bpe = openai_public.data_gym_to_mergeable_bpe_ranks = lambda *args, **named: ranks
parameters = openai_public.ENCODING_CONSTRUCTORS[sys.argv[2]]()
parameters.pop("explicit_n_vocab", None)  # of the real ranks
encoding = tiktoken.Encoding(**parameters)

for line in sys.stdin:
    text = json.loads(line)["a"]
    ids = encoding.encode(text, allowed_special="all")
    print(json.dumps({"ids": ids, "whole": encoding.decode(ids)}))
