"""Weir on Spark: a function of columns, with one program in each Python worker process.

    scores = weir.spark.udf("model.onnx", batch_size=256, cores=4)
    rows.withColumn("scores", scores("image"))

See docs/scale.md. The package pyspark is imported when a function needs it.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import threading
from typing import Any, Iterator, Mapping

from ._errors import InputError, UnsupportedError
from ._program import Port
from ._worker import Worker, worker

# The bytes of a Python worker process before it has a model: Python, Spark's worker, NumPy and Arrow, and weir's library.
PROCESS = 256 << 20
# What Spark reserves for an executor's memory outside of the heap, unless it is told otherwise.
_OVERHEAD = 384 << 20

# Classes of pyspark.sql.types.
_TYPES = {
    "bool": "BooleanType", "i8": "ByteType", "i16": "ShortType", "i32": "IntegerType", "i64": "LongType", "f32": "FloatType",
    "f64": "DoubleType", "string": "StringType",
}  # fmt: skip


def udf(model: Any, *, batch_size: int, cores: int = 1, **options: Any) -> Any:
    """A function of columns for Spark, one column for each input of the model, in order.

    The rows of a column are numbers, or arrays of them (float is f32, double is f64); an array may be flat where an input
    has several axes of known extents. The function's value is the output, in the same form, or if there are several a
    struct of them. cores is the number of threads of a run, which should be spark.task.cpus; the other parameters are
    weir.compile's. See resources.
    """
    from pyspark.sql import types
    from pyspark.sql.functions import arrow_udf

    held, given = _made(model, batch_size, cores, options)
    held.close()
    made = [types.StructField(port.name, _type(port)) for port in held.outputs]
    kind = types.StructType(made) if len(made) > 1 else made[0].dataType
    key = _key(given)

    def predict(batches: Iterator[Any]) -> Iterator[Any]:
        import weir.spark

        return weir.spark._predict(key, given, batches)

    return arrow_udf(_annotated(predict, len(held.inputs)), kind)


def resources(model: Any, *, batch_size: int, cores: int = 1, process: int = PROCESS, **options: Any) -> dict[str, str]:
    """The configuration of executors of so many cores, which run one task at a time: one Python worker, one program.

    spark.executor.memoryOverhead is the certificate's peak for batch_size rows, plus the bytes of the Python worker
    itself, plus what Spark reserves for the JVM outside of its heap. Call it before the session is made.
    """
    held, _ = _made(model, batch_size, cores, options)
    held.close()
    overhead = held.peak + process + _OVERHEAD
    return {
        "spark.executor.cores": str(cores),
        "spark.task.cpus": str(cores),
        "spark.executor.memoryOverhead": f"{math.ceil(overhead / (1 << 20))}m",
    }


def _made(model: Any, batch_size: int, cores: int, options: dict[str, Any]) -> tuple[Worker, dict[str, Any]]:
    """A model as the workers will make it, and the parameters with which they do."""
    if not isinstance(model, (bytes, bytearray, memoryview)):
        model = os.path.abspath(os.fsdecode(model))
    given: dict[str, Any] = {"model": model, "batch_size": batch_size, "threads": cores, **options}
    held = worker(**given)
    return held, {**given, "peak": held.peak}


def _key(given: Mapping[str, Any]) -> str:
    """A name for a model: of its bytes, or of its files as they are now, and of the options."""
    model = given["model"]
    if isinstance(model, str):
        files = [model]
        if os.path.isdir(model):
            files = sorted(os.path.join(folder, name) for folder, _, names in os.walk(model) for name in names)
        states = [os.stat(file) for file in files]
        told = repr([(file, at.st_size, at.st_mtime_ns) for file, at in zip(files, states)]).encode()
    else:
        told = bytes(model)
    options = json.dumps({name: value for name, value in given.items() if name != "model"}, sort_keys=True, default=repr)
    return hashlib.sha256(told + b"\0" + options.encode()).hexdigest()


# The models of this process, by key. A worker keeps them from task to task, until it ends.
_workers: dict[str, Worker] = {}
_making = threading.Lock()


def _worker(key: str, given: Mapping[str, Any]) -> Worker:
    """The process's one model for a key."""
    with _making:
        if key not in _workers:
            _workers[key] = worker(**given)
        return _workers[key]


def _predict(key: str, given: Mapping[str, Any], batches: Iterator[Any]) -> Iterator[Any]:
    """The outputs for Arrow's arrays: one for each batch, or a tuple of them if there are several inputs."""
    held = _worker(key, given)
    inputs, outputs = held.inputs, held.outputs
    for batch in batches:
        columns = batch if isinstance(batch, tuple) else (batch,)
        made = held.run({port.name: numpy_of(column, port) for port, column in zip(inputs, columns)})
        yield arrow_of([made[port.name] for port in outputs], [port.name for port in outputs])


def numpy_of(column: Any, port: Port) -> Any:
    """The memory of one of Arrow's arrays as NumPy's array for an input, without a copy of numbers."""
    import pyarrow.types

    shape, values = [len(column)], column
    while True:
        if values.null_count:
            raise InputError(f"the column for input {port} has nulls. Filter or fill them before", tensor=port.name)
        kind = values.type
        if pyarrow.types.is_fixed_size_list(kind):
            shape.append(kind.list_size)
            values = values.flatten()
        elif pyarrow.types.is_list(kind) or pyarrow.types.is_large_list(kind):
            offsets = values.offsets.to_numpy()
            extent = int(offsets[1] - offsets[0]) if len(offsets) > 1 else 0
            if ((offsets[1:] - offsets[:-1]) != extent).any():
                raise InputError(f"the arrays of the column for input {port} differ in length", tensor=port.name)
            shape.append(extent)
            values = values.values[int(offsets[0]) : int(offsets[-1])]
        else:
            break
    if pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind) or pyarrow.types.is_boolean(kind):
        array = values.to_numpy(zero_copy_only=False)
    elif pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind):
        array = values.to_numpy()
    else:
        raise InputError(f"the column for input {port} has rows of {column.type}; rows are numbers or arrays", tensor=port.name)
    row = port.shape[1:]
    if len(shape) != len(port.shape) and sum(not isinstance(extent, int) for extent in row) <= 1 and len(array):
        known = [extent if isinstance(extent, int) else -1 for extent in row]
        try:
            return array.reshape(shape[0], *known)
        except ValueError:
            pass  # the shape of the column is told below
    return array.reshape(shape)


def arrow_of(outputs: list[Any], names: list[str]) -> Any:
    """Outputs as one of Arrow's arrays, of structs if there are several; numbers are not copied."""
    import numpy
    import pyarrow

    made = []
    for array in outputs:
        values = pyarrow.array(array.reshape(-1))
        for axis in range(array.ndim - 1, 0, -1):
            extent, count = array.shape[axis], math.prod(array.shape[:axis])
            if count * extent >= 1 << 31:
                raise InputError(
                    f"a batch of Arrow has {count * extent} elements, and may have 2147483647. Set "
                    "spark.sql.execution.arrow.maxRecordsPerBatch lower"
                )
            offsets = numpy.arange(count + 1, dtype=numpy.int32) * numpy.int32(extent)
            values = pyarrow.ListArray.from_arrays(offsets, values)
        made.append(values)
    return made[0] if len(made) == 1 else pyarrow.StructArray.from_arrays(made, names)


def _type(port: Port) -> Any:
    """Spark's type of an output's rows."""
    from pyspark.sql import types

    if port.dtype not in _TYPES:
        raise UnsupportedError(f"output {port}: Spark has no {port.dtype}. Add a Cast to the model", tensor=port.name)
    kind: Any = getattr(types, _TYPES[port.dtype])()
    for _ in port.shape[1:]:
        kind = types.ArrayType(kind)
    return kind


def _annotated(function: Any, inputs: int) -> Any:
    """The function with the annotations by which Spark knows the form of its arguments."""
    import pyarrow

    form: Any = pyarrow.Array if inputs == 1 else tuple[pyarrow.Array, ...]
    function.__annotations__ = {"batches": Iterator[form], "return": Iterator[pyarrow.Array]}
    return function
