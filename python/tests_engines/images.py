"""Pictures through a model in one process, in Ray and in Spark, at two threads.

    python images.py MODEL [ROWS]

MODEL is an ONNX file with one input of square pictures, and one output of some numbers for each, such as ResNet-18. Each
engine makes the picture of an id in a step of its own before it calls the model. The script prints rows a second of the
whole job, without its start: of ROWS less 512, in the time of ROWS less that of 512. Each engine's sum of all results must
be that of one process.
"""

from __future__ import annotations

import sys
from typing import Iterator

import numpy
import pyarrow
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


def speed(run, count):
    """Rows a second of count rows less FEW, and what the run of all gave."""
    totals = []
    few, all = sessions.seconds(lambda count: totals.append(run(count)), FEW, count)
    return (count - FEW) / (all - few), totals[1]


def with_process(model, port, count):
    """One process, which is started before."""
    with weir.compile(model, threads=THREADS, dims={port.shape[0]: (1, BATCH)}) as program:
        def run(count):
            total = 0.0
            for i in range(0, count, BATCH):
                y = program(pictures(numpy.arange(i, min(i + BATCH, count)), port))
                total += float(y.numpy().sum(dtype=numpy.float64))
                y.close()
            return total

        run(FEW)
        return speed(run, count)


def with_ray(model, port, count):
    """Ray's data: one task that makes pictures, and one actor."""
    import ray.data

    with sessions.ray_session():
        arguments = weir.ray.Predictor.arguments(model, batch_size=BATCH, num_cpus=1, threads=THREADS)
        arguments["batch_size"] = TOGETHER

        def run(count):
            made = ray.data.range(count, override_num_blocks=1 + count // 512).map_batches(
                lambda batch: {port.name: pictures(batch["id"], port)}, batch_size=TOGETHER
            )
            total = 0.0
            for batch in made.map_batches(weir.ray.Predictor, **arguments).iter_batches(batch_size=None):
                (scores,) = batch.values()
                total += float(scores.sum(dtype=numpy.float64))
            return total

        run(FEW)
        return speed(run, count)


def with_spark(model, port, count):
    """Spark's Arrow functions: one that makes pictures, and weir's."""
    from pyspark.sql.functions import arrow_udf

    settings = {"spark.task.cpus": str(THREADS), "spark.sql.execution.arrow.maxRecordsPerBatch": str(TOGETHER)}
    with sessions.spark_session(settings) as spark:
        scores = weir.spark.udf(model, batch_size=BATCH, cores=THREADS)

        @arrow_udf("array<float>")
        def make(batches: Iterator[pyarrow.Array]) -> Iterator[pyarrow.Array]:
            import images

            for ids in batches:
                made = images.pictures(ids.to_numpy(), port)
                yield weir.spark.arrow_of([made.reshape(len(made), -1)], ["x"])

        def run(count):
            made = spark.range(count, numPartitions=2).select(scores(make("id")).alias("scores"))
            sums = made.selectExpr("aggregate(scores, 0D, (a, b) -> a + double(b)) total")
            return sum(sums.toArrow()["total"].to_pylist())

        run(FEW)
        return speed(run, count)


def main():
    model, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 10_000
    (port,) = weir.load(model).inputs
    alone, want = with_process(model, port, count)
    print(f"{count} pictures, runs of {BATCH}: one process {alone:.1f} rows/s", flush=True)
    for name, measure in (("Ray", with_ray), ("Spark", with_spark)):
        rows, total = measure(model, port, count)
        again, _ = with_process(model, port, count)
        assert abs(total - want) <= 1e-9 * abs(want), (name, total, want)
        share = 2 * rows / (alone + again)
        print(f"{name} {rows:.1f} rows/s, one process again {again:.1f}: {share:.2f} of it", flush=True)


if __name__ == "__main__":
    main()
