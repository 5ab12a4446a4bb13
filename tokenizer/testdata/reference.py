"""Answers with PyPI's tokenizers: reads a tokenizer.json (argv[1]) and lines of JSON, and writes a line for each."""

import bisect
import json
import sys

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

t = Tokenizer.from_file(sys.argv[1])


def ends(text):
    """The byte at which each character begins, and the length."""
    at = [0]
    for c in text:
        at.append(at[-1] + len(c.encode()))
    return at


def lists(e, texts):
    """Offsets in bytes. Those of a special token are 0 in every text."""
    at = [ends(x) for x in texts]
    out = []
    for (a, b), which in zip(e.offsets, e.sequence_ids):
        table = at[which] if which and which < len(at) else at[0]
        out.append([table[a] if a < len(table) else a, table[b] if b < len(table) else b])
    return {
        "ids": e.ids, "at": out, "mask": e.attention_mask, "types": e.type_ids, "special": e.special_tokens_mask,
        "words": [-1 if w is None else w for w in e.word_ids], "over": [lists(o, texts) for o in e.overflowing],
        # Else the offsets' texts are not known: a step after the template has numbered its pieces.
        "known": len(texts) == 1 or 1 in e.sequence_ids and not any(m and s is not None for m, s in zip(e.special_tokens_mask, e.sequence_ids)),
    }


def parts(ids):
    """What decoding the first ids one by one gives, or None if it fails."""
    stream = DecodeStream(skip_special_tokens=True)
    try:
        return [stream.step(t, i) or "" for i in ids[:40]]
    except Exception:
        return None


for line in sys.stdin:
    q = json.loads(line)
    try:
        cut, pad = q.get("cut"), q.get("pad")
        t.enable_truncation(cut["max"], stride=cut["stride"], strategy=cut["strategy"], direction=cut["side"]) if cut else t.no_truncation()
        t.enable_padding(direction=pad["side"], pad_id=pad["id"], pad_type_id=pad["type"], pad_token="p", length=pad["length"] or None,
                         pad_to_multiple_of=pad["multiple"] or None) if pad else t.no_padding()
        texts = [q["a"]] + ([q["b"]] if "b" in q else [])
        e = t.encode(*texts, add_special_tokens=q["special"])
        out = lists(e, texts)
        out["text"], out["whole"] = t.decode(e.ids), t.decode(e.ids, skip_special_tokens=False)
        out["parts"] = parts(e.ids) if q["stream"] else None
    except BaseException as x:  # panics of Rust too
        if isinstance(x, KeyboardInterrupt):
            raise
        out = {"error": str(x)}
    print(json.dumps(out))
