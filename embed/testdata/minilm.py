"""Records sentence-transformers' vectors of MiniLM, which testdata/models/fetch.py fetches: python minilm.py FOLDER minilm.json."""
import base64, json, sys
from sentence_transformers import SentenceTransformer
m = SentenceTransformer(sys.argv[1], device="cpu")
texts = ["A river carries rain to the sea.", "Where does the water go?", "", "bread", "The café's naïve résumé — don't!",
         "東京の夜は長い。 Москва 한국어 😀", "नमस्ते สวัสดี שלום", "[CLS] a [SEP] b [MASK]", "x" * 200, "the " * 700,
         "He said: \"I can't believe it's over,\" and closed the door at 5:30 p.m.; $1,250.00 were left.", "\t tabs\u00a0and\u200bspaces \n"]
v = m.encode(texts, batch_size=1, convert_to_numpy=True).astype("<f4")
json.dump({"texts": texts, "vectors": [base64.b64encode(x.tobytes()).decode() for x in v]}, open(sys.argv[2], "w"), ensure_ascii=False, indent=0)
