"""Rows a second of the digits: one process, and the same program in Ray's actor and Spark's worker, beside an engine that does nothing.

    python speed.py [ROWS]

prints a table. For each engine it gives the rows a second of the whole run, of the whole run with a function that gives zeros, and
of the worker's calls alone; the last column compares the processor's time of these calls with that of one process, so that other
work of the machine is left out. Seconds of an engine begin when the first worker exists.
"""

from __future__ import annotations

import os
import pathlib
import sys
import tempfile
import time
from typing import Iterator

import conftest
import numpy
import pyarrow
import pyarrow.parquet
import rows
import weir
import weir.ray
import weir.spark

BATCH, THREADS = 256, conftest.CORES


class Clock:
    """Notes the time and the processor's time of calls in a file of its process."""

    def __init__(self, folder):
        self._path = pathlib.Path(folder, str(os.getpid()))

    def __call__(self, function, *arguments):
        wall, processor = time.monotonic(), time.process_time()
        result = function(*arguments)
        with open(self._path, "a") as f:
            print(time.monotonic() - wall, time.process_time() - processor, file=f)
        return result


def read(folder):
    """The times of all calls together."""
    lines = [line.split() for path in pathlib.Path(folder).iterdir() for line in path.read_text().splitlines()]
    return sum(float(wall) for wall, _ in lines), sum(float(processor) for _, processor in lines)


class Timed(weir.ray.Predictor):
    """An actor whose calls are timed."""

    def __init__(self, *args, folder, **options):
        super().__init__(*args, **options)
        self._clock = Clock(folder)

    def __call__(self, batch):
        return self._clock(super().__call__, batch)


class Nothing:
    """An actor that gives zeros."""

    def __init__(self, *args, **options):
        pass

    def __call__(self, batch):
        return {"id": batch["id"], "scores": numpy.zeros((len(batch["id"]), 10), numpy.float32)}


def loop(x):
    """Seconds, and the processor's, of one process."""
    with weir.compile(rows.DIGITS, threads=THREADS, dims={"batch": (1, BATCH)}) as program:
        program(x[:BATCH]).close()
        wall, processor = time.monotonic(), time.process_time()
        made = numpy.empty((len(x), 10), numpy.float32)
        for i in range(0, len(x), BATCH):
            y = program(x[i : i + BATCH])
            made[i : i + BATCH] = y.numpy()
            y.close()
        return time.monotonic() - wall, time.process_time() - processor


def warmed(run, few, all):
    """Seconds of a run, less those of a run of few rows."""
    begin = time.monotonic()
    run(few)
    middle = time.monotonic()
    run(all)
    return max(1e-3, time.monotonic() - middle - (middle - begin))


def with_ray(x, folder):
    """Seconds of Ray with nothing and with weir, and the times of weir's calls."""
    import ray
    import ray.data

    with conftest.ray_session():
        def data(count):
            table = {"id": numpy.arange(count), "image": x[:count]}
            return ray.data.from_numpy(table["image"]).rename_columns({"data": "image"}).zip(
                ray.data.from_numpy(table["id"]).rename_columns({"data": "id"})).materialize()  # fmt: skip

        few, all = data(BATCH), data(len(x))
        arguments = weir.ray.Predictor.arguments(rows.DIGITS, batch_size=BATCH, num_cpus=THREADS)

        def run(kind):
            def consume(data):
                for _ in data.map_batches(kind, **arguments).iter_batches(batch_size=None):
                    pass
            return consume

        nothing = warmed(run(Nothing), few, all)
        arguments["fn_constructor_kwargs"]["folder"] = folder
        return nothing, warmed(run(Timed), few, all), read(folder)


def with_spark(x, folder, files):
    """The same of Spark."""
    from pyspark.sql.functions import arrow_udf

    for name, count in (("few", BATCH), ("all", len(x))):
        table = pyarrow.table({"id": numpy.arange(count), "x": weir.spark.arrow_of([x[:count].reshape(count, -1)], ["x"])})
        pathlib.Path(files, name).mkdir()
        pyarrow.parquet.write_table(table, pathlib.Path(files, name, "rows.parquet"), use_dictionary=False, compression="none")
    with conftest.spark_session({"spark.task.cpus": str(THREADS)}) as spark:
        spark.sparkContext.addPyFile(rows.__file__)
        spark.sparkContext.addPyFile(conftest.__file__)
        spark.sparkContext.addPyFile(__file__)
        scores = weir.spark.udf(rows.DIGITS, batch_size=BATCH, cores=THREADS).func

        @arrow_udf("array<float>")
        def timed(batches: Iterator[pyarrow.Array]) -> Iterator[pyarrow.Array]:
            import speed

            clock = speed.Clock(folder)
            for batch in batches:
                yield clock(next, scores(iter([batch])))

        @arrow_udf("array<float>")
        def nothing(batches: Iterator[pyarrow.Array]) -> Iterator[pyarrow.Array]:
            for batch in batches:
                yield weir.spark.arrow_of([numpy.zeros((len(batch), 10), numpy.float32)], ["scores"])

        def run(function):
            return lambda name: spark.read.parquet(os.path.join(files, name)).select("id", function("x").alias("scores")).toArrow()

        return warmed(run(nothing), "few", "all"), warmed(run(timed), "few", "all"), read(folder)


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    x = rows.images(numpy.arange(count))
    wall, processor = loop(x)
    print(f"{count} rows, runs of {BATCH} by {THREADS} threads; rows a second")
    print(f"one process: {count / wall:.0f}")
    for name, measure in (("Ray", with_ray), ("Spark", with_spark)):
        folders = [tempfile.mkdtemp() for _ in range(2 if measure is with_spark else 1)]
        nothing, whole, (calls, busy) = measure(x, *folders)
        again = loop(x)
        wall, processor = (wall + again[0]) / 2, (processor + again[1]) / 2
        print(f"{name}: whole {count / whole:.0f}, of nothing {count / nothing:.0f}, calls alone {count / calls:.0f}: "
              f"{wall / calls:.2f} of one process, {processor / busy:.2f} by the processor's time; one process {count / wall:.0f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
