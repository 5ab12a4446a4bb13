"""Writes the files beside this one, with pyarrow 26.0.1 and pyspark 4.3.0.

    python write.py

rows.npz has the rows of every other file of rows; the files differ in how they encode them. lacking.parquet has rows that
have no values: see lacking.
"""

import glob
import os
import pathlib
import shutil
import tempfile

import numpy
import pyarrow
import pyarrow.parquet

HERE = pathlib.Path(__file__).parent
COUNT = 250
TYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64")


def arrays():
    """Each column's rows."""
    random = numpy.random.default_rng(7)
    made = {}
    for name in TYPES:
        kind = numpy.dtype(name)
        if kind.kind == "f":
            made[name] = random.standard_normal(COUNT).astype(kind)
        elif kind.kind == "b":
            made[name] = random.random(COUNT) < 0.3
        else:
            made[name] = random.integers(numpy.iinfo(kind).min, numpy.iinfo(kind).max, COUNT, kind, endpoint=True)
    made["few"] = random.integers(0, 3, COUNT, "int32")
    made["list"] = random.standard_normal((COUNT, 3)).astype("float32")
    made["nested"] = random.integers(-100, 100, (COUNT, 2, 3, 5), "int16")
    words = ["", "a", "weir", "élan", "weirs and gates", "𝔴"]
    made["text"] = numpy.array([words[i % 6] + words[i // 7 % 6] * (i % 3) for i in random.integers(0, 1000, COUNT)])
    return made


def column(array, kind="list"):
    """An array as one of Arrow's: its rows are values, or nested lists."""
    values = pyarrow.array(array.reshape(-1))
    for axis in range(array.ndim - 1, 0, -1):
        extent, count = array.shape[axis], int(numpy.prod(array.shape[:axis]))
        if kind == "fixed":
            values = pyarrow.FixedSizeListArray.from_arrays(values, extent)
        else:
            offsets = numpy.arange(count + 1, dtype="int32") * numpy.int32(extent)
            values = pyarrow.ListArray.from_arrays(offsets, values)
    return values


def write(name, table, **options):
    pyarrow.parquet.write_table(table, HERE / f"{name}.parquet", row_group_size=100, **options)


def lacking():
    """Rows of which only the first and the last have values that fit [2, 2] in x and a text."""
    x = [[[1, 2], [3, 4]], None, [None, [1, 2]], [[1, None], [3, 4]], [], [[1, 2], [3]], [[1], [2], [3], [4]], [[5, 6], [7, 8]]]
    text = ["first", "a", "b", "c", "d", "e", "f", "last"]
    kind = pyarrow.list_(pyarrow.list_(pyarrow.float32()))
    table = {"x": pyarrow.array(x, kind), "text": text, "null": pyarrow.array([None] * 7 + ["b"]),
             "when": pyarrow.array([0] * 8, pyarrow.timestamp("us")), "pair": [{"a": 1, "b": 2}] * 8}  # fmt: skip
    pyarrow.parquet.write_table(pyarrow.table(table), HERE / "lacking.parquet", compression="none")


def by_spark(table):
    """The rows as Spark writes them, which has no unsigned numbers and no halves, in today's form and in its older one."""
    from pyspark.sql import SparkSession

    folder = tempfile.mkdtemp()
    spark = SparkSession.builder.master("local[1]").config("spark.sql.warehouse.dir", folder).getOrCreate()
    kept = [name for name in table.column_names if not name.startswith("uint") and name != "float16"]
    frame = spark.createDataFrame(table.select(kept)).coalesce(1)
    for form in ("false", "true"):
        spark.conf.set("spark.sql.parquet.writeLegacyFormat", form)
        to = os.path.join(folder, form)
        frame.write.parquet(to)
        (made,) = glob.glob(os.path.join(to, "*.parquet"))
        shutil.copy(made, HERE / ("spark_legacy.parquet" if form == "true" else "spark.parquet"))
    spark.stop()


def main():
    made = arrays()
    numpy.savez_compressed(HERE / "rows.npz", **made)
    table = pyarrow.table({name: column(array) for name, array in made.items()})
    small = {"data_page_size": 300, "write_batch_size": 16}
    for codec in ("none", "snappy", "gzip", "brotli", "zstd", "lz4"):
        write(codec, table, compression=codec)
    write("second", table, data_page_version="2.0", compression="zstd", **small)
    write("second_plain", table, data_page_version="2.0", compression="none", use_dictionary=False, **small)
    write("pages", table, use_dictionary=False, compression="none", **small)
    write("fixed", pyarrow.table({name: column(array, "fixed") for name, array in made.items()}))
    required = [pyarrow.field(name, c.type, nullable=False) for name, c in zip(table.column_names, table.columns)]
    write("required", table.cast(pyarrow.schema(required)), compression="none")
    encodings = {name: "BYTE_STREAM_SPLIT" if "float" in name else "DELTA_BINARY_PACKED" for name in TYPES if name != "bool"}
    encodings |= {"bool": "RLE", "few": "DELTA_BINARY_PACKED", "list.list.element": "BYTE_STREAM_SPLIT"}
    for text in ("DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"):
        chosen = encodings | {"text": text, "nested.list.element.list.element.list.element": "DELTA_BINARY_PACKED"}
        write(text.lower(), table, use_dictionary=False, column_encoding=chosen, data_page_version="2.0", **small)
    lacking()
    by_spark(table)


if __name__ == "__main__":
    main()
