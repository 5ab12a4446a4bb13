"""Pictures or texts through a model in one process, in Ray and in Spark, at two threads.

    python jobs.py MODEL [ROWS]

MODEL is an ONNX file with one input of square pictures, and one output of some numbers for each, such as ResNet-18, or the
folder of a model of texts, such as MiniLM. Each engine makes the picture or text of an id in a step of its own before it
calls the model. The script prints rows a second of the whole job, without its start: of ROWS less 512, in the time of ROWS
less that of 512. Each engine's sum of all results must be that of one process.
"""

from __future__ import annotations

import os
import sys
from typing import Iterator

import numpy
import pyarrow
import rows
import sessions
import weir
import weir.ray
import weir.spark

BATCH, FEW, THREADS = 16, 512, sessions.CORES
TOGETHER = 256  # the rows that an engine gives at once, which are several runs


def pictures(ids, port):
    """The picture of each id: numbers between 0 and 1."""
    size = int(numpy.prod(port.shape[1:]))
    columns = numpy.arange(size, dtype=numpy.uint32) * numpy.uint32(40503)
    mixed = ids.astype(numpy.uint32)[:, None] * numpy.uint32(2654435761) + columns
    return ((mixed >> numpy.uint32(8)).astype(numpy.float32) * numpy.float32(2**-24)).reshape(len(ids), *port.shape[1:])


class Pictures:
    """The pictures of ids."""

    kind = "array<float>"

    def __init__(self, model):
        (self.port,) = weir.load(model).inputs
        self.input = self.port.name

    def __call__(self, ids):
        return pictures(ids, self.port)

    def arrow(self, ids):
        made = self(ids)
        return weir.spark.arrow_of([made.reshape(len(made), -1)], ["x"])

    def alone(self, model):
        """A function of rows in this process, whose value must be closed."""
        program = weir.compile(model, threads=THREADS, dims={self.port.shape[0]: (1, BATCH)})
        return lambda made: [program(made[i : i + BATCH]) for i in range(0, len(made), BATCH)]


class Texts:
    """The texts of ids."""

    input, kind = "text", "string"

    def __call__(self, ids):
        return rows.texts(ids)

    def arrow(self, ids):
        return pyarrow.array(self(ids))

    def alone(self, model):
        embedder = weir.load_embedder(model, threads=THREADS)
        return lambda made: [embedder(made)]


def speed(run, count):
    """Rows a second of count rows less FEW, and what the run of all gave."""
    totals = []
    few, all = sessions.seconds(lambda count: totals.append(run(count)), FEW, count)
    return (count - FEW) / (all - few), totals[1]


def with_process(model, make, count):
    """One process, which is started before."""
    call = make.alone(model)

    def run(count):
        total = 0.0
        for i in range(0, count, TOGETHER):
            for y in call(make(numpy.arange(i, min(i + TOGETHER, count)))):
                total += float(y.numpy().sum(dtype=numpy.float64))
                y.close()
        return total

    run(FEW)
    return speed(run, count)


def with_ray(model, make, count):
    """Ray's data: one task that makes rows, and one actor."""
    import ray.data

    with sessions.ray_session():
        arguments = weir.ray.Predictor.arguments(model, batch_size=BATCH, num_cpus=1, threads=THREADS)
        arguments["batch_size"] = TOGETHER

        def run(count):
            made = ray.data.range(count, override_num_blocks=1 + count // 512).map_batches(
                lambda batch: {make.input: make(batch["id"])}, batch_size=TOGETHER
            )
            total = 0.0
            for batch in made.map_batches(weir.ray.Predictor, **arguments).iter_batches(batch_size=None):
                (scores,) = batch.values()
                total += float(scores.sum(dtype=numpy.float64))
            return total

        run(FEW)
        return speed(run, count)


def with_spark(model, make, count):
    """Spark's Arrow functions: one that makes rows, and weir's."""
    from pyspark.sql.functions import arrow_udf

    settings = {"spark.task.cpus": str(THREADS), "spark.sql.execution.arrow.maxRecordsPerBatch": str(TOGETHER)}
    with sessions.spark_session(settings) as spark:
        scores = weir.spark.udf(model, batch_size=BATCH, cores=THREADS)

        @arrow_udf(make.kind)
        def made(batches: Iterator[pyarrow.Array]) -> Iterator[pyarrow.Array]:
            for ids in batches:
                yield make.arrow(ids.to_numpy())

        def run(count):
            results = spark.range(count, numPartitions=2).select(scores(made("id")).alias("scores"))
            sums = results.selectExpr("aggregate(scores, 0D, (a, b) -> a + double(b)) total")
            return sum(sums.toArrow()["total"].to_pylist())

        run(FEW)
        return speed(run, count)


def main():
    import jobs  # so that the engines' processes find the classes by this name

    model, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 10_000
    make = jobs.Texts() if os.path.isdir(model) else jobs.Pictures(model)
    alone, want = with_process(model, make, count)
    print(f"{count} {type(make).__name__.lower()}: one process {alone:.1f} rows/s", flush=True)
    for name, measure in (("Ray", with_ray), ("Spark", with_spark)):
        got, total = measure(model, make, count)
        again, _ = with_process(model, make, count)
        assert abs(total - want) <= 1e-5 * abs(want), (name, total, want)
        share = 2 * got / (alone + again)
        print(f"{name} {got:.1f} rows/s, one process again {again:.1f}: {share:.2f} of it", flush=True)


if __name__ == "__main__":
    main()
