"""The digits in one process, and the same program in Ray's actor and in Spark's worker, beside an engine that does nothing.

    python speed.py [ROWS]

prints rows a second of what the engines call, without the engines. Then it prints for each engine the seconds of a run of 256 rows, which starts the worker, and of a run of all rows, both with a function that
gives zeros and with weir. The calls of the worker alone, without its first one, are compared with one process in rows a second, and
in rows a second of the processor's time, which leaves out the other work of the machine.
"""

from __future__ import annotations

import os
import pathlib
import sys
import tempfile
import time
from typing import Iterator

import numpy
import pyarrow
import pyarrow.parquet
import rows
import sessions
import weir
import weir.ray
import weir.spark

BATCH, THREADS = 256, sessions.CORES


class Clock:
    """Notes the rows, the time and the processor's time of calls in a file of its process."""

    def __init__(self, folder):
        self._path = pathlib.Path(folder, str(os.getpid()))

    def __call__(self, count, function, *arguments):
        wall, processor = time.monotonic(), time.process_time()
        result = function(*arguments)
        wall, processor = time.monotonic() - wall, time.process_time() - processor
        with open(self._path, "a") as f:
            print(count, wall, processor, file=f)
        return result


def read(folder):
    """Rows a second of all calls but the first of each process, and those of the processor's time."""
    lines = [line.split() for path in pathlib.Path(folder).iterdir() for line in path.read_text().splitlines()[1:]]
    count, wall, processor = (sum(float(line[i]) for line in lines) for i in range(3))
    return count / wall, count / processor


class Timed(weir.ray.Predictor):
    """An actor whose calls are timed."""

    def __init__(self, *args, folder, **options):
        super().__init__(*args, **options)
        self._clock = Clock(folder)

    def __call__(self, batch):
        return self._clock(len(batch["id"]), super().__call__, batch)


class Nothing:
    """An actor that gives zeros."""

    def __init__(self, *args, **options):
        pass

    def __call__(self, batch):
        return {"id": batch["id"], "scores": numpy.zeros((len(batch["id"]), 10), numpy.float32)}


def loop(x):
    """Rows a second of one process, and those of its processor's time."""
    with weir.compile(rows.DIGITS, threads=THREADS, dims={"batch": (1, BATCH)}) as program:
        program(x[:BATCH]).close()
        wall, processor = time.monotonic(), time.process_time()
        made = numpy.empty((len(x), 10), numpy.float32)
        for i in range(0, len(x), BATCH):
            y = program(x[i : i + BATCH])
            made[i : i + BATCH] = y.numpy()
            y.close()
        return len(x) / (time.monotonic() - wall), len(x) / (time.process_time() - processor)


def with_ray(x, folder):
    """Seconds of Ray with nothing and with weir, for few rows and for all, and the speed of weir's calls."""
    import ray
    import ray.data

    with sessions.ray_session():
        def data(count):
            numbered = ray.data.range(count, override_num_blocks=1 + count // 20_000)
            return numbered.map_batches(lambda batch: {"id": batch["id"], "image": rows.images(batch["id"])}).materialize()

        few, all = data(BATCH), data(len(x))
        arguments = weir.ray.Predictor.arguments(rows.DIGITS, batch_size=BATCH, num_cpus=THREADS)

        def run(kind):
            def consume(data):
                for _ in data.map_batches(kind, **arguments).iter_batches(batch_size=None):
                    pass
            return consume

        nothing = sessions.seconds(run(Nothing), few, all)
        arguments["fn_constructor_kwargs"]["folder"] = folder
        return nothing, sessions.seconds(run(Timed), few, all), read(folder)


def with_spark(x, folder, files):
    """The same of Spark."""
    from pyspark.sql.functions import arrow_udf

    for name, count in (("few", BATCH), ("all", len(x))):
        table = pyarrow.table({"id": numpy.arange(count), "x": weir.spark.arrow_of([x[:count].reshape(count, -1)], ["x"])})
        pathlib.Path(files, name).mkdir()
        pyarrow.parquet.write_table(table, pathlib.Path(files, name, "rows.parquet"), use_dictionary=False, compression="none")
    with sessions.spark_session({"spark.task.cpus": str(THREADS)}) as spark:
        scores = weir.spark.udf(rows.DIGITS, batch_size=BATCH, cores=THREADS).func

        @arrow_udf("array<float>")
        def timed(batches: Iterator[pyarrow.Array]) -> Iterator[pyarrow.Array]:
            import speed

            clock = speed.Clock(folder)
            for batch in batches:
                yield clock(len(batch), next, scores(iter([batch])))

        @arrow_udf("array<float>")
        def nothing(batches: Iterator[pyarrow.Array]) -> Iterator[pyarrow.Array]:
            for batch in batches:
                yield weir.spark.arrow_of([numpy.zeros((len(batch), 10), numpy.float32)], ["scores"])

        def run(function):
            return lambda name: spark.read.parquet(os.path.join(files, name)).select("id", function("x").alias("scores")).toArrow()

        return sessions.seconds(run(nothing), "few", "all"), sessions.seconds(run(timed), "few", "all"), read(folder)


def calls():
    """Prints rows a second of the processor's time in one process, of the program and of what the engines call, and returns
    the speeds of the latter in those of the program, by the rows of a run.
    """
    shares = {}
    for size in (16, 64, 256):
        x = rows.images(numpy.arange(size * (4096 // size)))
        ids, column = numpy.arange(size), weir.spark.arrow_of([x.reshape(len(x), -1)], ["x"])
        predictor = weir.ray.Predictor(rows.DIGITS, batch_size=size, threads=1)
        program = predictor._worker.program
        scores = weir.spark.udf(rows.DIGITS, batch_size=size).func
        made = numpy.empty((size, 10), numpy.float32)

        def direct(part):
            y = program(part)
            made[:] = y.numpy()
            y.close()

        parts = [x[i : i + size] for i in range(0, len(x), size)]
        forms = {
            "weir.Program": lambda: [direct(part) for part in parts],
            "weir.ray.Predictor": lambda: [predictor({"id": ids, "image": part}) for part in parts],
            "weir.spark.udf": lambda: list(scores(iter([column]))),
        }
        least = dict.fromkeys(forms, float("inf"))
        for _ in range(20):
            for name, form in forms.items():
                begin = time.process_time()
                form()
                least[name] = min(least[name], time.process_time() - begin)
        told = ", ".join(f"{name} {len(x) / t:.0f} ({least['weir.Program'] / t:.2f})" for name, t in least.items())
        print(f"runs of {size} rows by 1 thread, rows a second: {told}", flush=True)
        shares[size] = [least["weir.Program"] / least[name] for name in forms if name != "weir.Program"]
    return shares


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 300_000
    x = rows.images(numpy.arange(count))
    calls()
    first = loop(x)
    print(f"{count} rows, runs of {BATCH} by {THREADS} threads")
    for name, measure in (("Ray", with_ray), ("Spark", with_spark)):
        folders = [tempfile.mkdtemp() for _ in range(2 if measure is with_spark else 1)]
        nothing, whole, inner = measure(x, *folders)
        last = loop(x)
        alone = [(a + b) / 2 for a, b in zip(first, last)]
        first = last
        print(f"{name}: {BATCH} rows and all of them: {nothing[0]:.1f} s and {nothing[1]:.1f} s of nothing, {whole[0]:.1f} s and {whole[1]:.1f} s of weir; "
              f"rows a second: the worker's calls {inner[0]:.0f}, one process {alone[0]:.0f}: {inner[0] / alone[0]:.2f}; "
              f"of the processor's time {inner[1]:.0f} and {alone[1]:.0f}: {inner[1] / alone[1]:.2f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
