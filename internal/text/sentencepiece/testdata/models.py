"""Trains the small models that the tests read, and larger ones with SentencePiece's own normalisations.

    pip install sentencepiece==0.2.3
    python models.py FOLDER     # then: python reference.py SEED TEXTS FOLDER/*.model
"""
import pathlib
import sys

import sentencepiece

root = pathlib.Path(__file__).resolve().parents[4]
OTHER = ["日本語の文章です。これはテストです。", "Привет, мир! Как дела?", "Καλημέρα κόσμε, τι κάνεις", "안녕하세요 세계 여러분", "नमस्ते दुनिया कैसे हो", "สวัสดีชาวโลก", "مرحبا بالعالم", "שלום עולם", "É naïve café résumé", "ﬁne oﬃce Ⅷ ½ ㊿"]
SINGLE = "aegkǰßé中字कनद\u094dिาำ가각🇩🇪👩😀👍🏽\u0301\u200d\u0903\u0600©ǅ\r\nאـ०\u0b95\u1b05\u0995\u09cd\u09be"
MODELS = {
    "uni_nmt": dict(),
    "uni_cf": dict(normalization_rule_name="nfkc_cf", byte_fallback=True),
    "uni_id": dict(normalization_rule_name="identity", remove_extra_whitespaces=False, user_defined_symbols=["<mask>", "foo", "  "]),
    "uni_tsv": dict(normalization_rule_tsv="rules.tsv", add_dummy_prefix=False),
    "uni_suffix": dict(normalization_rule_name="nfkc", treat_whitespace_as_suffix=True, control_symbols=["<c>"]),
    "bpe_nmt": dict(model_type="bpe"),
    "bpe_cf": dict(model_type="bpe", normalization_rule_name="nmt_nfkc_cf", byte_fallback=True, split_digits=True),
    "bpe_id": dict(model_type="bpe", normalization_rule_name="identity", remove_extra_whitespaces=False, allow_whitespace_only_pieces=True, byte_fallback=True, user_defined_symbols=["<mask>", "fo", "foo"]),
    "bpe_tsv": dict(model_type="bpe", normalization_rule_tsv="rules.tsv", pad_id=3),
    "char": dict(model_type="char"),
    "word": dict(model_type="word"),
}


def main():
    folder = pathlib.Path(sys.argv[1])
    lines = [line.strip() for f in sorted(root.glob("*.md")) for line in f.read_text().splitlines() if line.strip()]
    (folder / "corpus.txt").write_text("\n".join(lines[:3000] + OTHER * 20) + "\n")
    rules = ["%04X\t23" % ord(c) for c in sorted(set(SINGLE))] + ["0061 0301 0062\t41 20 20 42", "0078 0079\t", "0078\t20", "0020 0020\t20 5F"]
    (folder / "rules.tsv").write_text("\n".join(rules) + "\n")
    for name, options in MODELS.items():
        options = dict(options)
        if "normalization_rule_tsv" in options:
            options["normalization_rule_tsv"] = str(folder / "rules.tsv")
        sentencepiece.SentencePieceTrainer.train(input=str(folder / "corpus.txt"), model_prefix=str(folder / name), vocab_size=700, hard_vocab_limit=False, character_coverage=0.98, minloglevel=2, num_threads=1, **options)


main()
