"""Spark: a function of columns, with one program in each Python worker process."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import Iterator

import numpy
import pyarrow
import pyarrow.parquet
import pytest
import rows
import weir
import weir.spark

ROWS = 1_000_000


def column(x):
    """Rows as one of Arrow's columns."""
    return weir.spark.arrow_of([x], ["x"])


def written(path, count, make=rows.features, files=8):
    """A folder of Parquet files with an id and its row."""
    path.mkdir()
    for i, ids in enumerate(numpy.array_split(numpy.arange(count), files)):
        table = pyarrow.table({"id": ids, "x": column(make(ids))})
        pyarrow.parquet.write_table(table, path / f"{i}.parquet", use_dictionary=False, compression="none")
    return str(path)


def gathered(frame, count, width=rows.WIDTH):
    """The rows of the column scores by id, and how often each id came."""
    got, seen = numpy.zeros((count, width), numpy.float32), numpy.zeros(count, numpy.int64)
    table = frame.select("id", "scores").toArrow()
    ids = table["id"].to_numpy()
    got[ids] = numpy.concatenate([chunk.flatten().to_numpy() for chunk in table["scores"].chunks]).reshape(-1, width)
    numpy.add.at(seen, ids, 1)
    return got, seen


def test_a_million_rows(spark, tmp_path):
    """Each row comes once, with the result of one process."""
    scores = weir.spark.udf(rows.MODEL, batch_size=4096)
    frame = spark.read.parquet(written(tmp_path / "rows", ROWS)).withColumn("scores", scores("x"))
    got, seen = gathered(frame, ROWS)
    assert (seen == 1).all()
    assert numpy.array_equal(got, rows.alone(rows.MODEL, rows.features(numpy.arange(ROWS))))


def test_killed_workers(spark, kills, tmp_path):
    """Python workers that are killed during a run cost no row."""
    from pyspark.sql.functions import arrow_udf

    count, folder = 100_000, rows.lives(tmp_path / "lives", kills)
    scores = weir.spark.udf(rows.MODEL, batch_size=200).func

    @arrow_udf("array<float>")
    def mortal(batches: Iterator[pyarrow.Array]) -> Iterator[pyarrow.Array]:
        for scored in scores(batches):
            rows.perhaps_die(folder)
            yield scored

    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 250)
    try:
        frame = spark.read.parquet(written(tmp_path / "rows", count)).repartition(40).withColumn("scores", mortal("x"))
        got, seen = gathered(frame, count)
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert not os.listdir(folder), "fewer workers died than should have"
    assert (seen == 1).all()
    assert numpy.array_equal(got, rows.alone(rows.MODEL, rows.features(numpy.arange(count))))


def test_killed_executors(kills):
    """Executors that are killed during a run cost no row: see executors.py, which has a process and a cluster of its own."""
    subprocess.run([sys.executable, "-P", "executors.py", str(kills)], check=True, timeout=1200, cwd=pathlib.Path(__file__).parent,
                   env={**os.environ, "PYTHONPATH": str(pathlib.Path(__file__).parent)})  # fmt: skip


def test_memory(spark, tmp_path):
    """A worker's weir holds what the certificate says, and it is one program for all tasks."""
    size, cores = 512, 2
    scores = weir.spark.udf(rows.DIGITS, batch_size=size, cores=cores).func

    def told(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        before = rows.status("VmRSS")
        for batch in batches:
            for _ in scores(iter([batch["x"]])):
                pass
            (worker,) = weir.spark._workers.values()
            x = weir.spark.numpy_of(batch["x"], worker.program.inputs[0])[:size]
            parts, held = rows.usages(worker.program)(x)
            after = weir.usage()
            answer = {"parts": parts, "held": held, "after": after, "before": before, "pid": os.getpid(), "resident": rows.status("VmRSS")}
            yield pyarrow.record_batch({"told": [json.dumps(answer)]})

    frame = spark.read.parquet(written(tmp_path / "rows", 4096, lambda ids: rows.features(ids, 64)))
    answers = [json.loads(row.told) for row in frame.mapInArrow(told, "told string").collect()]
    with weir.compile(rows.DIGITS, threads=cores, dims={"batch": (1, size)}) as program:
        peak = program.memory.peak(batch=size)
    assert answers
    for told in answers:
        parts, held = told["parts"], told["held"]
        assert held["arenas_bytes"] == parts["arena"] and held["outputs_bytes"] == parts["outputs"]
        assert held["scratch_bytes"] == cores * parts["scratch"] and held["code_bytes"] == parts["code"]
        assert 0 <= held["weights_bytes"] - parts["weights"] < 64  # they begin at multiples of 64 bytes
        assert held["tensors_bytes"] == held["files_bytes"] == held["foreign_bytes"] == 0
        assert held["current_bytes"] - (held["weights_bytes"] - parts["weights"]) == peak, "to the byte"
        assert told["after"]["outputs_bytes"] == 0
        assert told["resident"] <= peak + weir.spark.PROCESS
    first = {}
    for told in answers:
        first.setdefault(told["pid"], told["before"])
    assert max(first.values()) <= weir.spark.PROCESS, "a process without a model takes more than weir.spark.PROCESS"
    asked = weir.spark.resources(rows.DIGITS, batch_size=size, cores=cores)
    assert asked["spark.executor.cores"] == asked["spark.task.cpus"] == "2"
    mebibytes = -(-(peak + weir.spark.PROCESS + (384 << 20)) >> 20)
    assert asked["spark.executor.memoryOverhead"] == f"{mebibytes}m"
    resident = max(told["resident"] for told in answers)
    print(f"\nSpark, a worker in MiB: {peak / (1 << 20):.1f} of weir, {max(first.values()) / (1 << 20):.1f} before it had a model, "
          f"{resident / (1 << 20):.1f} resident at the end")  # fmt: skip


def test_several_inputs_and_outputs(spark):
    """Two columns become a struct of an array of arrays and a number."""
    two = weir.spark.udf(rows.TWO, batch_size=7)
    frame = spark.range(100, numPartitions=3).selectExpr(
        "id", "array(array(float(id), 1f, 2f), array(3f, 4f, 5f)) x", "float(id) y", "array(float(id), 1f, 2f, 3f, 4f, 5f) flat"
    )
    for name in ("x", "flat"):
        got = frame.select("id", two(name, "y").alias("z")).select("id", "z.double", "z.square").collect()
        assert sorted((r.id, r.double, r.square) for r in got) == [
            (i, [[2.0 * i, 2, 4], [6, 8, 10]], float(i) ** 2) for i in range(100)
        ]


PORT = weir.compile(rows.MODEL).inputs[0]


def test_arrow_without_a_copy():
    """The arrays that weir gets are Arrow's memory, and Arrow's outputs are NumPy's."""
    x = rows.features(numpy.arange(100))
    for made in (column(x), column(x)[10:90], pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(x.reshape(-1)), 16)[10:90],
                 column(x).cast(pyarrow.large_list(pyarrow.float32()))):  # fmt: skip
        got = weir.spark.numpy_of(made, PORT)
        assert numpy.array_equal(got, x if len(made) == 100 else x[10:90])
        values = made.values.to_numpy()
        assert numpy.shares_memory(got, values)
        assert got.ctypes.data == values.ctypes.data + (0 if len(made) == 100 else 10 * 64)
    assert numpy.shares_memory(column(x).values.to_numpy(), x)
    assert weir.spark.numpy_of(column(x)[:0], PORT).shape[0] == 0


@pytest.mark.parametrize(
    "made, words",
    [
        (pyarrow.array([[1.0] * 16, None], pyarrow.list_(pyarrow.float32())), "nulls"),
        (pyarrow.array([[1.0] * 15 + [None]], pyarrow.list_(pyarrow.float32())), "nulls"),
        (pyarrow.array([[1.0] * 16, [1.0] * 15], pyarrow.list_(pyarrow.float32())), "differ in length"),
        (pyarrow.array([["a"] * 16], pyarrow.list_(pyarrow.string())), "<U1|object"),
        (pyarrow.array([{"a": 1}]), "rows of struct"),
        (pyarrow.array([[1.0] * 16], pyarrow.list_(pyarrow.float64())), "float64"),
        (pyarrow.array([[1.0] * 17], pyarrow.list_(pyarrow.float32())), "(1, 17)"),
    ],
)
def test_wrong_columns(made, words):
    scores = weir.spark.udf(rows.MODEL, batch_size=8).func
    with pytest.raises(weir.InputError, match=words.replace("(", r"\(").replace(")", r"\)")):
        list(scores(iter([made])))


def test_texts(spark):
    """A folder of a model of texts: a column of texts becomes one of vectors, those of one process."""
    count = 2000
    vectors = weir.spark.udf(rows.TEXTS, batch_size=64)
    frame = spark.createDataFrame(list(enumerate(rows.texts(range(count)))), "id long, text string").repartition(4)
    got = sorted((row.id, row.vector) for row in frame.select("id", vectors("text").alias("vector")).collect())
    assert [id for id, _ in got] == list(range(count))
    with weir.load_embedder(rows.TEXTS, threads=1) as embedder:
        wanted = embedder(rows.texts(range(count))).numpy()
        assert abs(numpy.array([vector for _, vector in got], numpy.float32) - wanted).max() < 1e-5
