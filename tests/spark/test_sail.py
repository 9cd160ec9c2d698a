"""What Sail hands to a source, and takes from it, without Sail; `tests/programs/sail.py` runs on Sail itself.

PySpark's `to_arrow_schema` is the oracle of schemas; the rest was seen in Sail 0.7.2.
"""

import inspect
import io
import json
import weakref

import arrow_files
import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import types as s
from pyspark.sql.pandas.types import to_arrow_schema

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.errors import UnsupportedError
from spark_arrow_ipc.spark import sail
from spark_arrow_ipc.spark.bridge import copy_to_arrow_memory
from spark_arrow_ipc.spark.datasource import ArrowIpcDataSource
from spark_arrow_ipc.spark.sail import spark_schema_of

NESTED = s.StructType([
    s.StructField("a", s.ArrayType(s.TimestampNTZType(), containsNull=False), nullable=False),
    s.StructField("m", s.MapType(s.StringType(), s.VariantType(), valueContainsNull=False)),
])  # fmt: skip

TYPES = {
    type_.simpleString(): type_
    for type_ in (
        s.NullType(), s.BooleanType(), s.ByteType(), s.ShortType(), s.IntegerType(), s.LongType(), s.FloatType(),
        s.DoubleType(), s.DecimalType(10, 2), s.StringType(), s.BinaryType(), s.DateType(), s.TimestampType(),
        s.TimestampNTZType(), s.DayTimeIntervalType(), s.VariantType(), s.GeometryType(4326), s.GeometryType("ANY"),
        s.GeographyType(4326), s.GeographyType("ANY"), NESTED, s.ArrayType(NESTED), s.MapType(s.LongType(), NESTED),
    )
}  # fmt: skip


@pytest.mark.parametrize("nullable", [True, False])
@pytest.mark.parametrize("case", TYPES)
def test_what_pyspark_made_of_a_schema_becomes_that_schema(case, nullable):
    schema = s.StructType([s.StructField("c", TYPES[case], nullable or case == "void")])
    assert schema == spark_schema_of(arrow_of(schema))
    assert schema == spark_schema_of(arrow_of(schema, large=True))


def arrow_of(schema, *, large=False):
    """The Arrow schema that PySpark makes of a schema; its releases differ in how they take the time zone."""
    zone = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(schema, prefers_large_types=large, **zone)


def interval(start, end):
    return {"SAIL::spark::interval": json.dumps({"unit": "dayTime", "startField": start, "endField": end})}


CASES = {
    "a time zone of the session": (pa.field("c", pa.timestamp("us", "Asia/Tokyo")), s.TimestampType(), {}),
    "string view": (pa.field("c", pa.string_view()), s.StringType(), {}),
    "binary view": (pa.field("c", pa.binary_view()), s.BinaryType(), {}),
    "time": (pa.field("c", pa.time64("us")), s.TimeType(6), {}),
    "interval hour": (pa.field("c", pa.duration("us"), metadata=interval("hour", "hour")), s.DayTimeIntervalType(1, 1), {}),
    "interval day to minute": (pa.field("c", pa.duration("us"), metadata=interval("day", "minute")), s.DayTimeIntervalType(0, 2), {}),
    "an interval of other fields": (pa.field("c", pa.duration("us"), metadata=interval("week", "day")), s.DayTimeIntervalType(), {}),
    "in a list": (pa.field("c", pa.list_(pa.field("item", pa.duration("us"), metadata=interval("day", "day")))), s.ArrayType(s.DayTimeIntervalType(0, 0)), {}),
    "metadata of Spark": (pa.field("c", pa.int8(), metadata={"SPARK::metadata::json": '{"comment": "c", "n": 3}'}), s.ByteType(), {"comment": "c", "n": 3}),
    "a variant by its name": (
        pa.field("c", pa.struct([pa.field("metadata", pa.binary(), metadata={"variant": "true"}), ("value", pa.binary())])),
        s.VariantType(),
        {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_other_schemas_become(case):
    field, type_, metadata = CASES[case]
    assert s.StructType([s.StructField("c", type_, metadata=metadata)]) == spark_schema_of(pa.schema([field]))


def test_an_extension_is_written_again_by_its_name(tmp_path):
    field = pa.field(
        "g", pa.binary(), metadata={"ARROW:extension:name": "geoarrow.wkb", "ARROW:extension:metadata": "{}"}
    )
    written = write(tmp_path, pa.table({"g": pa.array([b"1"], pa.binary())}, schema=pa.schema([field])))
    assert field.metadata == written.schema.field("g").metadata


TABLE = pa.table({
    "n": pa.array([1, None, 3], pa.int64()),
    "t": pa.array([0, 1, None], pa.timestamp("us", "Asia/Tokyo")),
    "h": pa.array([3_600_000_000, None, 0], pa.duration("us")),
}).cast(pa.schema([("n", pa.int64()), ("t", pa.timestamp("us", "Asia/Tokyo")), pa.field("h", pa.duration("us"), metadata=interval("hour", "hour"))]))  # fmt: skip


def write(path, table, **options):
    """Write a table as an engine does that hands its schema."""
    writer = ArrowIpcDataSource({"path": str(path / "out"), **options}).writer(table.schema, overwrite=False)
    writer.commit([writer.write(iter(table.to_batches()))])
    (file,) = (path / "out").glob("*.arrow")
    return pa.ipc.open_file(file).read_all()


def test_rows_come_in_the_schema_that_was_handed(tmp_path):
    arrow_files.write(
        tmp_path / "a.arrow",
        TABLE.cast(pa.schema([("n", pa.int64()), ("t", pa.timestamp("us", "UTC")), ("h", pa.duration("us"))])),
    )
    source = ArrowIpcDataSource({"path": str(tmp_path)})
    handed = arrow_of(source.schema())
    reader = source.reader(handed)
    read = pa.Table.from_batches([batch for part in reader.partitions() for batch in reader.read(part)])
    assert handed.types == read.schema.types
    assert TABLE.cast(handed).to_pylist() == read.to_pylist()


def test_batches_are_in_memory_of_pyarrows(tmp_path):
    """Sail stands still where it frees memory of Python's in a thread, while another one waits with Python's lock."""
    values = np.arange(5)
    freed = weakref.finalize(values, str)
    ours = pa.record_batch({"n": pa.Array.from_buffers(pa.int64(), 5, [None, pa.py_buffer(values)])})
    copied = copy_to_arrow_memory(ours)
    del values, ours
    assert not freed.alive
    assert {"n": [0, 1, 2, 3, 4]} == copied.to_pydict()


def test_batches_have_the_names_inside_of_lists_that_were_handed(tmp_path):
    arrow_files.write(tmp_path / "a.arrow", pa.table({"l": pa.array([[1], None], pa.list_(pa.int64()))}))
    handed = pa.schema([pa.field("l", pa.list_(pa.field("item", pa.int64())))])
    reader = ArrowIpcDataSource({"path": str(tmp_path)}).reader(handed)
    (batch,) = (batch for part in reader.partitions() for batch in reader.read(part))
    assert handed.equals(batch.schema)
    assert "item" == batch.schema.field("l").type.value_field.name
    assert [[1], None] == batch["l"].to_pylist()


def test_a_reader_of_sails_reads_such_batches(tmp_path, monkeypatch):
    arrow_files.write(tmp_path / "a.arrow", pa.table({"n": [1, 2, 3]}), rows=1)
    source = ArrowIpcDataSource({"path": str(tmp_path)})
    seen = []
    monkeypatch.setattr(sail, "copy_to_arrow_memory", lambda batch: seen.append(batch) or copy_to_arrow_memory(batch))
    handed = source.reader(arrow_of(source.schema()))
    read = [batch for part in handed.partitions() for batch in handed.read(part)]
    assert [1, 2, 3] == [n for batch in read for n in batch["n"].to_pylist()]
    assert len(seen) == len(read)
    of_spark = source.reader(source.schema())
    assert 3 == sum(batch.num_rows for part in of_spark.partitions() for batch in of_spark.read(part))
    assert len(seen) == len(read)  # Spark's readers copy nothing


def test_rows_are_written_by_the_schema_that_was_handed(tmp_path):
    written = write(tmp_path, TABLE)
    assert [pa.int64(), pa.timestamp("us", "UTC"), pa.duration("us")] == written.schema.types
    assert TABLE.to_pylist() == written.cast(TABLE.schema).to_pylist()
    back = ArrowIpcDataSource({"path": str(tmp_path / "out")}).schema()
    assert "interval hour" == back["h"].dataType.simpleString()


def test_months_are_refused_by_the_name_of_their_column(tmp_path):
    sink = io.BytesIO()
    with ipc.create(sink, Schema.of([t.field("m", t.IntervalYearMonth())])):
        pass
    handed = pa.ipc.open_file(sink.getvalue()).schema  # pyarrow has no other way to its type of months
    with pytest.raises(UnsupportedError, match=r"^field m: a column of type interval year to month cannot be written"):
        ArrowIpcDataSource({"path": str(tmp_path / "out")}).writer(handed, overwrite=False)
    assert not (tmp_path / "out").exists()
