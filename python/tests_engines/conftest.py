"""Sessions of the engines, each in a folder of its own and on this machine alone."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile

import pytest

CORES = 2

# Workers use the interpreter of the tests. Nothing is reported to anybody, and nothing listens for other machines.
os.environ.update(
    PYSPARK_PYTHON=sys.executable, PYSPARK_DRIVER_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1",
    RAY_USAGE_STATS_ENABLED="0", RAY_AUTH_MODE="disabled", RAY_DATA_DISABLE_PROGRESS_BARS="1",
)  # fmt: skip


def pytest_addoption(parser):
    parser.addoption("--whole", action="store_true", help="the long forms: 50 killed workers instead of 3")


@pytest.fixture
def kills(request) -> int:
    """The number of workers that a test kills."""
    return 50 if request.config.getoption("--whole") else 3


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
def spark_session(configuration=()):
    """Spark in this process's JVM, with CORES cores. A task may fail often, since tests kill workers."""
    if not shutil.which("java", path=os.path.join(os.environ.get("JAVA_HOME", ""), "bin")) and not shutil.which("java"):
        pytest.fail("Spark needs Java 17 or later, and there is none: Debian has openjdk-17-jre-headless")
    from pyspark.sql import SparkSession

    folder = tempfile.mkdtemp(prefix="weir-spark-")
    builder = SparkSession.builder.master(f"local[{CORES},200]")
    for name, value in {
        "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1", "spark.driver.memory": "1g", "spark.driver.maxResultSize": "0",
        "spark.sql.warehouse.dir": folder, "spark.local.dir": folder, **dict(configuration),
    }.items():  # fmt: skip
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")  # killed workers are errors
    try:
        yield session
    finally:
        session.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def ray():
    with ray_session() as session:
        yield session


@pytest.fixture(scope="session")
def spark():
    with spark_session() as session:
        yield session
