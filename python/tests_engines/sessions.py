"""Sessions of the engines, each in a folder of its own and on this machine alone; what runs in them is timed alike."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import sys
import tempfile
import time

CORES = 2

# Workers use the interpreter of the tests. Nothing is reported to anybody, and nothing listens for other machines.
os.environ.update(
    PYSPARK_PYTHON=sys.executable, PYSPARK_DRIVER_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1",
    RAY_USAGE_STATS_ENABLED="0", RAY_AUTH_MODE="disabled", RAY_DATA_DISABLE_PROGRESS_BARS="1",
)  # fmt: skip


@contextlib.contextmanager
def ray_session():
    """Ray with CORES CPUs."""
    import ray
    import ray.data

    folder = tempfile.mkdtemp(prefix="weir-ray-", dir="/tmp")  # sockets have short names
    for attempt in range(4):  # Ray waits 30 seconds for its own processes, which is short on a busy machine
        try:
            ray.init(
                num_cpus=CORES, object_store_memory=512 << 20, _memory=6 << 30, include_dashboard=False, _temp_dir=folder,
                _node_ip_address="127.0.0.1", log_to_driver=False, logging_level="error",
            )  # fmt: skip
            break
        except Exception as error:
            ray.shutdown()
            if attempt == 3 or "timed out" not in str(error):
                raise
    ray.data.DataContext.get_current().enable_progress_bars = False
    try:
        yield ray
    finally:
        ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def spark_session(configuration=(), master=f"local[{CORES},200]"):
    """Spark in this process's JVM, with CORES cores, or with another master. A task may fail often, since tests kill workers.

    Workers can import the modules of this folder.
    """
    if not shutil.which("java", path=os.path.join(os.environ.get("JAVA_HOME", ""), "bin")) and not shutil.which("java"):
        raise RuntimeError("Spark needs Java 17 or later, and there is none: Debian has openjdk-17-jre-headless")
    from pyspark.sql import SparkSession

    folder = tempfile.mkdtemp(prefix="weir-spark-")
    builder = SparkSession.builder.master(master)
    for name, value in {
        "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1", "spark.driver.memory": "1g", "spark.driver.maxResultSize": "0",
        "spark.sql.warehouse.dir": folder, "spark.local.dir": folder, **dict(configuration),
    }.items():  # fmt: skip
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")  # killed workers are errors
    for module in pathlib.Path(__file__).parent.glob("*.py"):
        session.sparkContext.addPyFile(str(module))
    try:
        yield session
    finally:
        session.stop()
        shutil.rmtree(folder, ignore_errors=True)


def seconds(run, *sizes):
    """Seconds of a run of each size."""
    told = []
    for size in sizes:
        begin = time.monotonic()
        run(size)
        told.append(time.monotonic() - begin)
    return told
