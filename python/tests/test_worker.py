"""What weir.ray and weir.spark have in common: one program that runs rows in batches. The engines are not needed."""

from __future__ import annotations

import gc
import pathlib
import random
import subprocess
import sys

import numpy
import pytest
import weir
from weir import _worker

DIGITS = pathlib.Path(__file__).resolve().parents[2] / "examples" / "digits" / "data" / "digits.onnx"


def text(body: str) -> bytes:
    return f"weir 1\nir @model {{\n  dim n in [0, 100000]\n  dim k in [1, 1000]\n{body}\n}}\n".encode()


# Rows are independent; k is another dimension.
ROWS = text("""  main @main(%x: f32[n, k], %y: f32[n]) {
    %double: f32[n, k] = add(%x, %x)
    %square: f32[n] = mul(%y, %y)
    return %double, %square
  }""")

JOINED = text("""  main @main(%x: f32[n, k]) {
    %y: f32[n, k] = softmax(%x) {axis = int 0}
    return %y
  }""")

ONE = text("""  main @main(%x: f32[1, 4]) {
    %y: f32[1, 4] = softmax(%x) {axis = int 1}
    return %y
  }""").replace(b"  dim n in [0, 100000]\n  dim k in [1, 1000]\n", b"")

OTHER = text("""  main @main(%x: f32[n, 2], %y: f32[k, 2]) {
    %a: f32[n, 2] = add(%x, %x)
    %b: f32[k, 2] = add(%y, %y)
    return %a, %b
  }""")


def test_random_batches():
    """Batches of any length give what each row gives alone, and weir holds nothing besides the program after them."""
    rng = numpy.random.default_rng(3)
    worker = _worker.worker(ROWS, 7, dims={"k": (1, 9)})
    held = None
    gc.collect()
    before = weir.usage()  # what other tests still hold
    for length in [*range(30), *(random.Random(3).randrange(300) for _ in range(50))]:
        x, y = rng.random((length, 1 + length % 9), numpy.float32), rng.random(length, numpy.float32)
        got = worker.run({"x": x, "y": y, "more": None})
        assert list(got) == ["double", "square"]
        if length:
            assert numpy.array_equal(got["double"], x + x)
        assert got["double"].shape[0] == length and got["double"].dtype == numpy.float32
        assert numpy.array_equal(got["square"], y * y)
        assert all(weir.usage()[name] <= before[name] for name in ("outputs_bytes", "exported"))
        if length == 299 % 30:
            held = weir.usage()["current_bytes"]
    assert worker.peak == worker.program.memory.peak(n=7, k=9) and held is not None
    assert weir.usage()["current_bytes"] <= held + worker.peak


def test_peak_is_the_highest():
    """The peak of full batches is that of every batch."""
    worker = _worker.worker(DIGITS, 32, threads=2)
    peaks = [worker.program.memory.peak(batch=n) for n in range(1, 33)]
    assert worker.peak == max(peaks) == peaks[-1]


def test_arrays_that_need_a_copy():
    """Columns with gaps, in another order, of objects, and at odd addresses are read right."""
    x = numpy.random.default_rng(1).random((20, 4), numpy.float32)
    y = numpy.arange(20, dtype=numpy.float32)
    odd = numpy.frombuffer(b"\0" + x.tobytes(), numpy.uint8)[1:].view(numpy.float32).reshape(x.shape)
    rows = numpy.empty(20, object)
    rows[:] = list(x)
    worker = _worker.worker(ROWS, 6, dims={"k": 4})
    for given in (x, numpy.asfortranarray(x), numpy.repeat(x, 2, axis=1)[:, ::2], odd, rows, x.tolist() and [row for row in x]):
        assert numpy.array_equal(worker.run({"x": given, "y": y})["double"], x + x)


@pytest.mark.parametrize(
    "model, size, options, kind, words",
    [
        (JOINED, 4, {"dims": {"k": 3}}, weir.UnsupportedError, "batch_size=1"),
        (ROWS, 0, {}, weir.InputError, "at least one row"),
        (ROWS, 4, {"calls": 2}, weir.InputError, "calls"),
        (ROWS, 4, {"dims": {"k": 3}, "peak": 1}, weir.BudgetError, "1 were asked for"),
        (OTHER, 4, {}, weir.InputError, "dynamic batch"),
    ],
)
def test_refused(model, size, options, kind, words):
    with pytest.raises(kind, match=words):
        _worker.worker(model, size, **options)


def test_no_bound():
    with pytest.raises(weir.InputError, match="dims={'k'"):
        _worker.worker(ROWS.replace(b"dim k in [1, 1000]", b"dim k in [1, inf]"), 4)


def test_rows_one_by_one():
    """Rows that depend on each other in a run, and a model of one row, run one by one."""
    x = numpy.random.default_rng(2).random((5, 4), numpy.float32)
    assert numpy.array_equal(_worker.worker(JOINED, 1, dims={"k": 4}).run({"x": x})["y"], numpy.ones((5, 4)))
    worker = _worker.worker(ONE, 64)
    assert worker.batch_size == 1
    want = numpy.exp(x) / numpy.exp(x).sum(axis=1, keepdims=True)
    assert numpy.allclose(worker.run({"x": x})["y"], want, rtol=1e-6)


@pytest.mark.parametrize(
    "x, words",
    [
        (numpy.zeros((3, 4)), "float64"),
        (numpy.zeros((3, 4, 1), numpy.float32), r"\(3, 4, 1\)"),
        (numpy.zeros((2, 4), numpy.float32), "2, 3 rows"),
        ([numpy.zeros(4, numpy.float32), numpy.zeros(3, numpy.float32), numpy.zeros(4, numpy.float32)], "differ in shape"),
        (numpy.array(["a", "b", "c"], object), "<U1"),
    ],
)
def test_wrong_columns(x, words):
    worker = _worker.worker(ROWS, 4, dims={"k": 4})
    y = numpy.ones(3, numpy.float32)
    with pytest.raises(ValueError, match=words):
        worker.run({"x": x, "y": y})
    with pytest.raises(weir.InputError, match="no column for input 'y'"):
        worker.run({"x": numpy.zeros((3, 4), numpy.float32)})
    assert worker.run({"x": numpy.ones((3, 4), numpy.float32), "y": y})["square"].tolist() == [1, 1, 1]


def test_dimensions_say_why():
    joined = {d.name: d.joined for d in weir.compile(ROWS).dims}
    assert joined["n"] == "" and "not the first axis" in joined["k"]
    assert "softmax" in next(d.joined for d in weir.compile(JOINED).dims if d.name == "n")


def test_engines_are_not_imported():
    """weir, weir.ray and weir.spark need neither ray nor pyspark before a function of theirs is called."""
    code = """
import sys
import weir
assert "weir.ray" not in sys.modules and "weir.spark" not in sys.modules
weir.ray.Predictor, weir.spark.udf
import weir.ray, weir.spark
assert not {"ray", "pyspark", "pyarrow", "pandas"} & set(sys.modules)
try:
    weir.none
except AttributeError:
    pass
"""
    subprocess.run([sys.executable, "-c", code], cwd=pathlib.Path(__file__).parent, check=True, timeout=120)


KINDS = text("""  main @main(%i: i8[n], %f: f32[n], %b: bool[n]) {
    %j: i8[n] = add(%i, %i)
    %g: f32[n] = add(%f, %f)
    %c: bool[n] = not(%b)
    return %j, %g, %c
  }""").replace(b"  dim k in [1, 1000]\n", b"")


def test_json():
    """Ray Serve's bodies of JSON become arrays of the inputs' types, or errors."""
    worker = _worker.worker(KINDS, 4)

    def columns(**body):
        return weir.ray._columns(body, worker)

    got = worker.run(columns(i=[1, -2], f=[1, 2.5], b=[True, False]))
    assert got["j"].tolist() == [2, -4] and got["g"].tolist() == [2, 5] and got["c"].tolist() == [False, True]
    assert [len(a) for a in worker.run(columns(i=[], f=[], b=[])).values()] == [0, 0, 0]
    for body in ({"i": [1.5]}, {"i": [200]}, {"i": [2**70]}, {"f": ["a"]}, {"f": [[1], [1, 2]]}, {"f": {"x": 1}}, {"b": [1]}, {"z": [1]}):
        with pytest.raises((ValueError, TypeError)):
            columns(**body)
    for body in ([], 1, None, "i"):
        with pytest.raises(weir.InputError, match="JSON object"):
            weir.ray._columns(body, worker)


def test_requests_together():
    """Requests that share runs get their own rows, whatever their number and the shape of their rows."""
    worker = _worker.worker(ROWS, 5, dims={"k": (1, 9)})
    rng = numpy.random.default_rng(5)
    requests = []
    for _ in range(40):
        count, k = rng.integers(0, 12), rng.integers(1, 4)
        requests.append([rng.random((count, k), numpy.float32), rng.random(count, numpy.float32)])
    for (x, y), answer in zip(requests, weir.ray.joined(worker, requests)):
        assert numpy.array_equal(answer["double"], x + x) and numpy.array_equal(answer["square"], y * y)


TEXTS = pathlib.Path(__file__).parents[2] / "embed/testdata/models/bert"


def test_texts():
    """A folder is a model of texts: its column text becomes the column vector."""
    texts = [f"text number {i}" for i in range(50)] + ["", "a\0b"]
    with weir.load_embedder(TEXTS, threads=1) as embedder:
        wanted = embedder(texts).numpy().copy()
        peak = embedder.memory.held + embedder.memory.tokenizer
    worker = _worker.worker(TEXTS, 16, threads=1)
    assert worker.peak == peak
    for column in (texts, numpy.array(texts, object), numpy.array(texts)):
        got = worker.run({"text": column, "more": None})["vector"]
        assert got.dtype == numpy.float32 and abs(got - wanted).max() < 1e-5
    assert worker.run({"text": []})["vector"].shape == (0, wanted.shape[1])
    for column in (["a", None], [1, 2], [["a"]]):
        with pytest.raises(weir.InputError):
            worker.run({"text": column})
    worker.close()
    with pytest.raises(weir.BudgetError, match="on another"):
        _worker.worker(TEXTS, 16, peak=peak - 1, threads=1)
