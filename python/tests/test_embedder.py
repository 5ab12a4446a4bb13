"""Texts become the vectors that sentence-transformers gives, in memory that is known before."""

from __future__ import annotations

import json
import pathlib
import pickle
import signal
import threading

import numpy
import pytest
import weir

MODELS = pathlib.Path(__file__).parents[2] / "embed/testdata/models"


def reference(name):
    """The texts of a model, and the vectors of its first case, which has the folder's own files and no prompt."""
    told = json.loads((MODELS / f"{name}.json").read_text())
    case = next(c for c in told["cases"] if not c.get("files") and c.get("prompt") is None and c.get("text") is None)
    return told["texts"], numpy.array(case["vectors"], numpy.float32)


@pytest.fixture(scope="module")
def bert():
    with weir.load_embedder(MODELS / "bert", threads=1, calls=2) as embedder:
        yield embedder


@pytest.mark.parametrize("name", ["bert", "mpnet", "static", "qwen3"])
def test_vectors(name):
    texts, wanted = reference(name)
    with weir.load_embedder(MODELS / name, threads=1) as embedder:
        got = embedder(texts)
        assert got.shape == (len(texts), embedder.dimensions) and str(got.dtype) == "f32"
        size = numpy.linalg.norm(wanted, axis=1, keepdims=True)
        assert (abs(got.numpy() - wanted) <= 1e-5 * size + 1e-6).all()  # the file has six digits
        got.close()


def test_no_texts(bert):
    assert bert([]).shape == (0, bert.dimensions)


def test_odd_texts(bert):
    """Zeros, surrogates' partners and long texts arrive as they are; a lone surrogate is no text."""
    texts = ["", "a\0b", "\U0001f600" * 9, "word " * 5000]
    assert numpy.isfinite(bert(texts).numpy()).all()
    assert numpy.array_equal(bert(["a\0b"]).numpy(), bert(texts).numpy()[1:2])


def test_wrong_arguments(bert):
    for texts in ("a text", b"a text", ["a", 1], ["a", None], ["\ud83d"]):
        with pytest.raises(weir.InputError):
            bert(texts)
    with pytest.raises(weir.InputError, match="no prompt"):
        bert(["a"], prompt_name="nothing")
    with pytest.raises(weir.InputError):
        weir.load_embedder(MODELS / "bert", prompt="a", no_prompt=True)
    with pytest.raises(weir.InputError):
        weir.load_embedder(MODELS / "bert", dimensions=-1)
    with pytest.raises(weir.Error):
        weir.load_embedder(MODELS / "nothing")
    with pytest.raises(weir.BudgetError):
        weir.load_embedder(MODELS / "bert", budget=1)
    with pytest.raises(TypeError, match="load_embedder"):
        pickle.dumps(bert)


def test_memory():
    """What the process holds is never more than the certificate, which a budget limits."""
    texts = ["a text of some words"] * 300
    before = weir.usage()["current_bytes"]
    with weir.load_embedder(MODELS / "bert", threads=1) as free:
        whole = free.memory
        assert whole.held == whole.weights + whole.files + whole.calls * (whole.call + whole.arguments)
    with weir.load_embedder(MODELS / "bert", threads=1, budget=whole.held // 2) as small:
        assert small.memory.held <= whole.held // 2
        vectors = small(texts)
        assert weir.usage()["current_bytes"] - before <= small.memory.held + vectors.numpy().nbytes + 4096
        vectors.close()
    assert weir.usage()["current_bytes"] == before


def test_threads(bert):
    """Calls of several threads share runs, and each gets its own vectors."""
    texts = [f"number {i}" for i in range(64)]
    wanted, got = bert(texts).numpy().copy(), [None] * len(texts)

    def one(i):
        got[i] = bert([texts[i]]).numpy().copy()

    threads = [threading.Thread(target=one, args=(i,)) for i in range(len(texts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert abs(numpy.concatenate(got) - wanted).max() < 1e-5


def test_closed():
    embedder = weir.load_embedder(MODELS / "bert", threads=1)
    embedder.close()
    embedder.close()
    with pytest.raises(weir.ClosedError):
        embedder(["a"])


def test_interrupted(bert):
    """Ctrl-C ends a call."""
    timer = threading.Timer(0.2, signal.raise_signal, [signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        while True:
            bert(["word " * 100] * 2000).close()
    timer.join()


def test_scope(bert):
    with weir.Scope("texts"):
        vectors = bert(["a"])
    assert vectors.closed
