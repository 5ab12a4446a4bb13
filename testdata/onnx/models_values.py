"""Cases of values that are no tensors of numbers: texts, sequences, optionals."""
import numpy as np

from make_models import Case, case, normal, reference


def texts_of(*words):
    return np.array(words, object)


@case
def texts_moved(rng):
    """operators that only move elements, on texts of inputs and weights: gathered, joined, padded, chosen; the different ones; casts; outputs by onnx's reference evaluator"""
    words = texts_of("zero", "one", "two", "drei", "")
    built = Case("""
g (string[n] s, int64[k] at) => (string[k] named, string[m] all, string[p] padded, string[n] chosen, string[1,n] row, string[u] unique, int64[u] counts, int64[1] shape, float[n] numbers, string[k] digits) {
  named = Gather (words, at)
  all = Concat <axis = 0> (s, named, s)
  padded = Pad (s, pads, fill)
  same = Equal (s, one)
  chosen = Where (same, two, s)
  row = Unsqueeze (s, zero)
  unique, first, inverse, counts = Unique (all)
  shape = Shape (all)
  lengths = Where (same, three, zeros)
  numbers = Cast <to = 1> (lengths)
  digits = Cast <to = 8> (at)
}""", {"words": words, "pads": np.array([1, 2]), "fill": texts_of("-")[0:1].reshape(()), "one": texts_of("one"), "two": texts_of("two"), "zero": np.array([0]),
       "three": texts_of("3.5"), "zeros": texts_of("-1e2")},
        [{"s": texts_of("one", "vier", ""), "at": np.array([4, 2, -3])}, {"s": texts_of("one"), "at": np.array([0, 0])}], opset=20)
    built.outputs = reference(built.model)
    return built


@case
def texts_read(rng):
    """operators that look into texts: normalised, cut, matched, counted; outputs by onnx's reference evaluator"""
    built = Case("""
g (string[n] s) => (string[m] kept, string[n,k] pieces, int64[n] counts, bool[n] matched, float[3] found) {
  kept = StringNormalizer <case_change_action = "UPPER", is_case_sensitive = 0, stopwords = ["The"]> (s)
  pieces, counts = StringSplit <delimiter = " ", maxsplit = 2> (s)
  matched = RegexFullMatch <pattern = "[a-z ]+"> (s)
  found = TfIdfVectorizer <mode = "TFIDF", min_gram_length = 1, max_gram_length = 2, max_skip_count = 1, ngram_counts = [0, 2], ngram_indexes = [0, 1, 2],
    pool_strings = ["the", "x", "the", "x"], weights = [0.5, 2.0, 3.0]> (s)
}""", data=[{"s": texts_of("the", "A B", "x", "a b c d")}, {"s": texts_of("The")}], opset=20)
    built.outputs = reference(built.model)
    return built


@case
def sequences(rng):
    """sequences as inputs and outputs: inserted, taken out, put together, one tensor of them; of ragged shapes, and empty"""
    return Case("""
g (seq(float[k,2]) s, float[n,2] x, int64 at) => (seq(float[k,2]) longer, seq(float[k,2]) shorter, float[m,2] one, float[t,2] whole, int64 length) {
  longer = SequenceInsert (s, x, at)
  shorter = SequenceErase (longer)
  one = SequenceAt (longer, at)
  whole = ConcatFromSequence <axis = 0> (longer)
  length = SequenceLength (longer)
}""", data=[{"s": [normal(rng, 1, 2), normal(rng, 3, 2)], "x": normal(rng, 2, 2), "at": np.array(1)}, {"s": [normal(rng, 2, 2)], "x": normal(rng, 1, 2), "at": np.array(0)}])


@case
def sequences_mapped(rng):
    """a tensor cut into pieces of sizes that the run is given; each of them mapped, and put together again"""
    return Case("""
g (float[n,3] x, int64[k] sizes, float[3] bias) => (float[n,3] y, seq(float[m,3]) pieces, seq(int64[2]) shapes) {
  pieces = SplitToSequence <axis = 0> (x, sizes)
  mapped, shapes = SequenceMap <body = each (float[m,3] piece, float[3] b) => (float[m,3] out, int64[2] shape) {
    sum = Add (piece, b)
    out = Relu (sum)
    shape = Shape (piece)
  }> (pieces, bias)
  y = ConcatFromSequence <axis = 0> (mapped)
}""", data=[{"x": normal(rng, 5, 3), "sizes": np.array([2, 1, 2]), "bias": normal(rng, 3)}, {"x": normal(rng, 4, 3), "sizes": np.array([4]), "bias": normal(rng, 3)}])


@case
def sequences_looped(rng):
    """a loop that carries a sequence, each of whose tensors is longer than the last; a branch that gives one of two"""
    return Case("""
g (int64 trips, float[1] x, bool which) => (seq(float[k]) grown, seq(float[m]) either) {
  empty = SequenceEmpty ()
  yes = Constant <value = bool {1}> ()
  grown = Loop <body = step (int64 i, bool c, seq(float[k]) before) => (bool go, seq(float[k]) after) {
    go = Identity (c)
    end = Add (i, one)
    size = Unsqueeze (end, zero)
    part = Expand (x, size)
    after = SequenceInsert (before, part)
  }> (trips, yes, empty)
  either = If <then_branch = then () => (seq(float[m]) a) { a = Identity (grown) },
    else_branch = other () => (seq(float[m]) b) { b = SequenceConstruct (x, x) }> (which)
}""", {"one": np.array(1), "zero": np.array([0])}, [{"trips": np.array(3), "x": normal(rng, 1), "which": np.array(True)}, {"trips": np.array(1), "x": normal(rng, 1), "which": np.array(False)}])


@case
def optionals(rng):
    """an optional tensor as an input, passed on, asked for, and got where there is one"""
    built = Case("""
g (optional(float[n]) o) => (optional(float[n]) same, bool has, float[m] y) {
  same = Identity (o)
  has = OptionalHasElement (o)
  y = If <then_branch = then () => (float[m] a) { a = OptionalGetElement (o) }, else_branch = other () => (float[m] b) { b = Identity (none) }> (has)
}""", {"none": np.array([7, 8], np.float32)}, [{"o": normal(rng, 3)}, {"o": None}], opset=18)
    built.outputs = lambda inputs: [inputs["o"], np.array(inputs["o"] is not None), np.array([7, 8], np.float32) if inputs["o"] is None else inputs["o"]]
    return built
