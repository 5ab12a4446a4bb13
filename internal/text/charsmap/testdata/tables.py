"""Writes ../graphemes.bin: the classes of characters that bound grapheme clusters, as Hugging Face's tokenizers know them.

    python tables.py FILE       # FILE is src/tables.rs of the crate unicode-segmentation 1.13.3 (Unicode 17)

The file has, as unsigned varints, for each range of characters of one class: the distance from the last one's end, the length, the
class. The lower four bits of a class are the place of its name in NAMES; 16: joins consonants; 32: stands between consonants.
"""
import pathlib
import re
import sys

NAMES = "Any CR LF Control Extend ZWJ SpacingMark Prepend L V T LV LVT Regional_Indicator Extended_Pictographic InCB_Consonant".split()


def varint(n):
    out = bytearray()
    while n >= 128:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def main():
    source = pathlib.Path(sys.argv[1]).read_text()
    classes = [0] * 0x110000
    table = source.split("const grapheme_cat_table:")[1].split("];")[0]
    for a, b, name in re.findall(r"\('\\u\{(\w+)\}',\s*'\\u\{(\w+)\}',\s*GC_(\w+)\)", table):
        for c in range(int(a, 16), int(b, 16) + 1):
            classes[c] = NAMES.index(name)
    linkers = re.search(r"pub fn is_incb_linker\(c: char\) -> bool \{(.*?)\n\}", source, re.S).group(1)
    for c in re.findall(r"'\\u\{(\w+)\}'", linkers):
        classes[int(c, 16)] |= 16
    table = source.split("const InCB_Extend_table:")[1].split("];")[0]
    for a, b in re.findall(r"\('\\u\{(\w+)\}',\s*'\\u\{(\w+)\}'\)", table):
        for c in range(int(a, 16), int(b, 16) + 1):
            classes[c] |= 32
    data, last, c = bytearray(), 0, 0
    while c < len(classes):
        end = c
        while end < len(classes) and classes[end] == classes[c]:
            end += 1
        if classes[c]:
            data += varint(c - last) + varint(end - c) + varint(classes[c])
            last = end
        c = end
    (pathlib.Path(__file__).parent.parent / "graphemes.bin").write_bytes(data)
    print(len(data), "bytes", sum(k == 15 for k in classes), "consonants", sum(k & 16 > 0 for k in classes), "linkers")


main()
