"""What Spark hands over becomes exactly the written schema, or an error that names the column. No session needed."""

import datetime as dt
import json
import mmap

import numpy as np
import pyarrow as pa
import pytest

from spark_arrow_ipc.arrow import Schema
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.errors import LimitError, SchemaMismatchError
from spark_arrow_ipc.spark.write.batches import convert_batch

US, NS, MS = t.TimeUnit.MICROSECOND, t.TimeUnit.NANOSECOND, t.TimeUnit.MILLISECOND
UTC = t.Timestamp(US, "UTC")
MOMENT = dt.datetime(2024, 1, 2, 3, 4, 5, 6, tzinfo=dt.UTC)
VARIANT = t.Struct((t.Field("metadata", t.binary, nullable=False), t.Field("value", t.binary, nullable=False)))


def batch(array):
    return pa.record_batch([array], ["c"])


FITTING = [
    ("the same", pa.array([1, None], pa.int32()), t.int32, [1, None]),
    ("another time zone", pa.array([MOMENT, None], pa.timestamp("us", "Asia/Tokyo")), UTC, [MOMENT, None]),
    ("large text", pa.array(["a", None, "bcd"], pa.large_string()), t.utf8, ["a", None, "bcd"]),
    ("large text, sliced", pa.array(["a", None, "bcd", "e"], pa.large_string()).slice(1, 2), t.utf8, [None, "bcd"]),
    ("large binary in a list", pa.array([[b"a"], None, [b"b", None]], pa.list_(pa.large_binary())).slice(1),
     t.list_(t.binary), [None, [b"b", None]]),
    ("time of nanoseconds", pa.array([1_000, None, 5_000], pa.time64("ns")).slice(1), t.Time(US, 64), [None, dt.time(0, 0, 0, 5)]),
    ("other names of elements", pa.array([[1]], pa.list_(pa.field("element", pa.int8()))), t.list_(t.int8), [[1]]),
    ("a map", pa.array([[("k", MOMENT)]], pa.map_(pa.large_string(), pa.timestamp("us", "Asia/Tokyo"))),
     t.map_(t.utf8, UTC), [[("k", MOMENT)]]),
    ("a variant in Spark's order", pa.array([{"value": b"v", "metadata": b"m"}, None]), VARIANT,
     [{"metadata": b"m", "value": b"v"}, None]),
]  # fmt: skip


@pytest.mark.parametrize(("array", "type_", "expected"), [c[1:] for c in FITTING], ids=[c[0] for c in FITTING])
def test_a_batch_gets_the_written_schema(array, type_, expected):
    schema = Schema.of([t.field("c", type_)])
    found = convert_batch(batch(array), schema)
    found.validate()
    assert schema == found.schema
    assert expected == found.to_pydict()["c"]


GEOMETRIES = pa.array(
    [{"srid": 1, "wkb": b"w"}, None, {"srid": 4326, "wkb": b"x"}],
    pa.struct([("srid", pa.int32()), ("wkb", pa.large_binary())]),
).slice(1)


def geometry(crs):
    described = {"ARROW:extension:name": "geoarrow.wkb", "ARROW:extension:metadata": json.dumps({"crs": crs})}
    return t.field("c", t.binary, custom_metadata=described)


def test_a_geometry_is_its_bytes():
    schema = Schema.of([geometry("OGC:CRS84"), t.field("d", t.list_(geometry("EPSG:4326")))])
    below = pa.ListArray.from_arrays(pa.array([0, 2, 2]), GEOMETRIES)
    found = convert_batch(pa.record_batch([GEOMETRIES, below], ["c", "d"]), schema)
    found.validate()
    assert {"c": [None, b"x"], "d": [[None, b"x"], []]} == found.to_pydict()


@pytest.mark.parametrize(("crs", "srid"), [("EPSG:3857", 3857), (None, 0)])
def test_a_geometry_of_another_srid_than_its_column_is_an_error(crs, srid):
    with pytest.raises(
        SchemaMismatchError,
        match=rf"field c: .*SRID {srid} for all rows, and slot 1 has SRID 4326.*ST_SetSrid\(c, 4326\)",
    ):
        convert_batch(batch(GEOMETRIES), Schema.of([geometry(crs)]))


STRANGE = [
    ("a narrower integer", pa.array([1], pa.int32()), t.int64),
    ("an unsigned integer", pa.array([1], pa.uint32()), t.int32),
    ("another precision", pa.array([1], pa.decimal128(10, 2)), t.Decimal(12, 2)),
    ("another unit", pa.array([1], pa.timestamp("ms", "UTC")), UTC),
    ("no zone", pa.array([1], pa.timestamp("us")), UTC),
    ("another unit of time", pa.array([1], pa.time32("ms")), t.Time(US, 64)),
    ("another unit of duration", pa.array([1], pa.duration("ms")), t.Duration(US)),
    ("another kind", pa.array(["a"]), t.binary),
    ("fewer fields", pa.array([{"a": 1}]), t.struct([("a", t.int64), ("b", t.int64)])),
    ("inside a list", pa.array([[1]], pa.list_(pa.int32())), t.list_(t.int64)),
    ("a struct without geometry", pa.array([{"a": b"x"}]), t.binary),
]


@pytest.mark.parametrize(("array", "type_"), [c[1:] for c in STRANGE], ids=[c[0] for c in STRANGE])
def test_a_type_that_spark_should_not_give_is_an_error(array, type_):
    with pytest.raises(
        SchemaMismatchError, match=r"field c: expected a (column|struct) that can be written as .* from Spark"
    ):
        convert_batch(batch(array), Schema.of([t.field("c", type_)]))


def test_texts_beyond_two_gigabytes_are_an_error_with_a_way_out():
    offsets = pa.py_buffer(np.array([0, 1 << 31], np.int64))
    array = pa.Array.from_buffers(pa.large_string(), 1, [None, offsets, pa.py_buffer(mmap.mmap(-1, 1 << 31))])
    with pytest.raises(LimitError, match=r"field c: .*2,147,483,648 bytes.*maxRecordsPerBatch lower"):
        convert_batch(batch(array), Schema.of([t.field("c", t.utf8)]))
