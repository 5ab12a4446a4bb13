"""Executors of Spark that are killed while they compute: their JVMs, with the Python workers in them.

    python executors.py KILLS

A process has one Spark, and this one has a cluster of two executors in processes of their own, which Spark starts again.
"""

from __future__ import annotations

import os
import pathlib
import sys
import tempfile
from typing import Iterator

import numpy
import pyarrow
import rows
import sessions
import weir
import weir.spark
from test_spark import gathered, written

COUNT = 100_000


def executor() -> int:
    """The process of the JVM whose Python worker calls it: the worker is a child of Spark's daemon, and that of the JVM."""
    with open(f"/proc/{os.getppid()}/stat") as f:
        parent = int(f.read().rpartition(")")[2].split()[1])
    command = pathlib.Path(f"/proc/{parent}/cmdline").read_bytes()
    assert b"CoarseGrainedExecutorBackend" in command, command
    return parent


def main():
    kills = int(sys.argv[1])
    settings = {
        "spark.executor.memory": "512m", "spark.deploy.maxExecutorRetries": "-1", "spark.task.maxFailures": "200",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "250",
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder, sessions.spark_session(settings, "local-cluster[2,1,512]") as spark:
        from pyspark.sql.functions import arrow_udf

        lives = rows.lives(pathlib.Path(folder, "lives"), kills)
        scores = weir.spark.udf(rows.MODEL, batch_size=200).func

        @arrow_udf("array<float>")
        def mortal(batches: Iterator[pyarrow.Array]) -> Iterator[pyarrow.Array]:
            import executors

            for scored in scores(batches):
                executors.rows.perhaps_die(lives, executors.executor)
                yield scored

        frame = spark.read.parquet(written(pathlib.Path(folder, "rows"), COUNT, files=40)).withColumn("scores", mortal("x"))
        got, seen = gathered(frame, COUNT)
        assert not os.listdir(lives), "fewer executors died than should have"
        assert (seen == 1).all(), "a row is lost or came twice"
        assert numpy.array_equal(got, rows.alone(rows.MODEL, rows.features(numpy.arange(COUNT))))
    print(f"{kills} executors were killed; {COUNT} rows came once, with one process's results")


if __name__ == "__main__":
    main()
