"""Writes ../unicode.bin: the classes of characters and the case folding of Oniguruma, the regular expressions of Hugging Face's
tokenizers.

    python tables.py SRC        # SRC is the folder src of Oniguruma 6.9.10 (github.com/kkos/oniguruma), Unicode 16

TestClasses compares the classes with those of the reference's wheel. The file has, as unsigned varints: the number of classes; of
each the length of its name, the name, the number of ranges, and of each range the distance from the last one's end and its length;
then the number of orbits of simple case folding, and of each its size and its code points, the folded one first; then the number
of pairs with which the full folding of a character begins, and the pairs; then the number of characters whose full folding has
several, and these.
"""
import pathlib
import re
import sys


def varint(n):
    out = bytearray()
    while n >= 128:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def classes(source):
    out = {}
    for name, body in re.findall(r"^CR_(\w+)\[\] = \{ \d+,\n(.*?)\}", source, re.M | re.S):
        codes = [int(c, 16) for c in re.findall("0x[0-9a-f]+", body)]
        out[name] = [(a, b + 1) for a, b in zip(codes[::2], codes[1::2])]
    for name, other in re.findall(r"^#define CR_(\w+) CR_(\w+)", source, re.M):
        out[name] = out[other]
    kept = {}
    for name, found in out.items():
        if not name.startswith(("In_", "Age_", "NEWLINE", "Grapheme_Cluster")):
            kept[name.lower().replace("_", "")] = found
    return kept


LONG = {
    "letter": "l", "casedletter": "lc", "uppercaseletter": "lu", "lowercaseletter": "ll", "titlecaseletter": "lt",
    "modifierletter": "lm", "otherletter": "lo", "mark": "m", "nonspacingmark": "mn", "spacingmark": "mc", "enclosingmark": "me",
    "number": "n", "decimalnumber": "nd", "letternumber": "nl", "othernumber": "no", "punctuation": "p",
    "connectorpunctuation": "pc", "dashpunctuation": "pd", "openpunctuation": "ps", "closepunctuation": "pe",
    "initialpunctuation": "pi", "finalpunctuation": "pf", "otherpunctuation": "po", "symbol": "s", "mathsymbol": "sm",
    "currencysymbol": "sc", "modifiersymbol": "sk", "othersymbol": "so", "separator": "z", "spaceseparator": "zs",
    "lineseparator": "zl", "paragraphseparator": "zp", "other": "c", "control": "cc", "format": "cf", "unassigned": "cn",
}


def main():
    folder = pathlib.Path(sys.argv[1])
    out = classes((folder / "unicode_property_data.c").read_text())
    for long, brief in LONG.items():
        out.setdefault(long, out[brief])
    out["\\s"], out["\\w"], out["\\d"], out["\\h"] = out["space"], out["word"], out["digit"], out["xdigit"]
    for name in "alnum alpha ascii blank cntrl digit graph lower print space upper xdigit word".split():
        out["[" + name] = out[name]
    out["[punct"], out["punct"] = out["posixpunct"], out["p"]
    data = bytearray(varint(len(out)))
    for name, found in out.items():
        data += varint(len(name)) + name.encode() + varint(len(found))
        last = 0
        for a, b in found:
            data += varint(a - last) + varint(b - a)
            last = b
    source = (folder / "unicode_fold_data.c").read_text()
    numbers = lambda text: [int(n, 0) for n in re.findall(r"\b(?:0x[0-9a-f]+|\d+)\b", re.sub(r"/\*.*?\*/|^#.*?$", "", text, flags=re.S | re.M))]
    tables = [numbers(source.split("OnigUnicodeFolds%d[] = {" % k)[1].split("}")[0]) for k in (1, 2, 3)]
    orbits, pairs, several = [], set(), set()
    for size, table in enumerate(tables, 1):
        while table:
            key, count = table[:size], table[size]
            unfolds, table = table[size + 1:size + 1 + count], table[size + 1 + count:]
            if size == 1:
                orbits.append(key + unfolds)
            else:
                pairs.add(tuple(key[:2]))
                several |= set(unfolds)
                if count > 1:  # these characters are equal to each other too
                    orbits.append(unfolds)
    data += varint(len(orbits)) + b"".join(varint(len(o)) + b"".join(map(varint, o)) for o in orbits)
    data += varint(len(pairs)) + b"".join(varint(a) + varint(b) for a, b in sorted(pairs))
    data += varint(len(several)) + b"".join(map(varint, sorted(several)))
    (pathlib.Path(__file__).parent.parent / "unicode.bin").write_bytes(data)
    print(len(out), "classes,", len(orbits), "orbits,", len(several), "foldings,", len(data), "bytes")


main()
