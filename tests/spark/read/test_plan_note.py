"""Notes of a plan: the keys of bounds have the order of Spark's values, and files without known bounds have all keys."""

import base64
import datetime as dt
import decimal
import json
import math

import numpy as np
import pyarrow as pa
import pytest
from one_job import commit_files
from pyspark.sql import types as s

from spark_arrow_ipc import ipc
from spark_arrow_ipc.spark.datasource import ArrowIpcDataSource
from spark_arrow_ipc.spark.read import plan_note

EVERY = [-(1 << 63), (1 << 63) - 1]
NONE = EVERY[::-1]


def notes(path, schema=None, **options):
    source = ArrowIpcDataSource({"path": str(path), "minPartitionNum": "1", **options})
    partitions = source.reader(schema or source.schema()).partitions()
    return [json.loads(base64.b64decode(partition.note.split(":")[1])) for partition in partitions]


def bounds(path, name, schema=None, **options):
    """Return the least and the greatest key of each file, and whether it may have nulls."""
    (note,) = notes(path, schema, **options)
    if name not in note["bounds"]:
        return None
    octets, files = base64.b64decode(note["bounds"][name]), note["files"]
    keys = np.frombuffer(octets, "<i8", 2 * files).reshape(2, files).T.tolist()
    return list(zip(keys, map(bool, octets[16 * files :]), strict=True))


INSTANT = dt.datetime(2026, 11, 30, tzinfo=dt.UTC)
D = decimal.Decimal

# Values in Spark's order, one in each file.
ORDERED = {
    "int8": (pa.int8(), [-128, -1, 0, 127]),
    "int64": (pa.int64(), [-(1 << 63) + 1, -1, 0, (1 << 63) - 2]),
    "float": (pa.float32(), [-math.inf, -1.5, -0.0, 0.5, math.inf]),
    "double": (pa.float64(), [-math.inf, -1e300, -1e-300, 0.0, 1e-300, math.inf]),
    "decimal": (pa.decimal128(18, 2), [D("-9999999999999999.99"), D("-0.01"), D("0.00"), D("9999999999999999.99")]),
    "date": (pa.date32(), [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(9999, 12, 31)]),
    "timestamp": (pa.timestamp("us", "UTC"), [INSTANT - dt.timedelta(days=30_000), INSTANT]),
    "string": (pa.string(), ["", "a", "b", "prefix a", "prefix b and more", "z", "\u00e9", "\U0001f600"]),
    "binary": (pa.binary(), [b"", b"\x00\x01", b"\x7f", b"\x80", b"\xff" * 9]),
}


@pytest.mark.parametrize("name", ORDERED)
def test_keys_have_the_order_of_values(tmp_path, name):
    type_, values = ORDERED[name]
    commit_files(
        tmp_path / "t", *[pa.table({"x": pa.array([value], type_), "n": [n]}) for n, value in enumerate(values)]
    )
    # The names of the files have no order.
    numbers = [least for (least, _), _ in bounds(tmp_path / "t", "n")]
    keys = [key for _, key in sorted(zip(numbers, bounds(tmp_path / "t", "x"), strict=True))]
    assert [(least, least) for (least, _), _ in keys] == [tuple(bound) for bound, _ in keys]
    assert [least for (least, _), _ in keys] == sorted({least for (least, _), _ in keys})
    assert not any(may_be_null for _, may_be_null in keys)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([1, None, 3]), ([1, 3], True)),
        (pa.array([None, None], pa.int64()), (NONE, True)),
        (pa.array([-0.0, 0.0]), ([0, 0], False)),
        # NaN is above all numbers, and the key of no bound.
        (pa.array([0.0, math.nan]), ([0, EVERY[1]], False)),
        (pa.array([math.nan, math.nan]), (EVERY, False)),
        # No 64 bits have all values of the type, or there is no order.
        (pa.array([D(1)], pa.decimal128(19, 0)), None),
        (pa.array([[1]]), None),
    ],
    ids=str,
)  # fmt: skip
def test_what_a_note_has_of_a_column(tmp_path, column, expected):
    commit_files(tmp_path / "t", pa.table({"x": column}))
    assert (None if expected is None else [expected]) == bounds(tmp_path / "t", "x")


def test_files_of_which_nothing_is_known_have_all_keys(tmp_path):
    rows = pa.table({"k": [1, 2], "s": ["a", "b"]})
    commit_files(tmp_path / "t", rows, rows)
    assert [([1, 2], False)] * 2 == bounds(tmp_path / "t", "k")
    assert [["k", "s"]] == [note["answered"] for note in notes(tmp_path / "t")]
    ipc.write(tmp_path / "t" / "z.arrow", rows)  # of another program
    assert [([1, 2], False), ([1, 2], False), (EVERY, True)] == bounds(tmp_path / "t", "k")
    assert not any("answered" in note for note in notes(tmp_path / "t"))


@pytest.mark.parametrize(
    "read",
    [
        {"ignoreCorruptFiles": "true"},
        {"schema": s.StructType().add("k", "string").add("s", "string")},
        {"schema": s.StructType().add("k", "double")},
    ],
    ids=str,
)
def test_bounds_are_of_the_values_that_are_read(tmp_path, read):
    commit_files(tmp_path / "t", pa.table({"k": [1, 2], "s": ["a", "b"]}))
    assert bounds(tmp_path / "t", "k", **read) is None


def test_a_wider_type_has_the_same_keys(tmp_path):
    commit_files(tmp_path / "t", pa.table({"k": pa.array([1, 2], pa.int32())}))
    assert [([1, 2], False)] == bounds(tmp_path / "t", "k", s.StructType().add("k", "long"))


def test_the_first_columns_have_bounds(tmp_path):
    commit_files(tmp_path / "t", pa.table({f"c{i}": [i] for i in range(40)}))
    (note,) = notes(tmp_path / "t")
    assert [f"c{i}" for i in range(32)] == list(note["bounds"])


def test_a_name_of_several_columns_has_none(tmp_path):
    commit_files(tmp_path / "t", pa.table({"k": [1]}), pa.table({"k": [2]}))
    commit_files(tmp_path / "t", pa.table({"K": [3]}), caseSensitive="true")
    assert bounds(tmp_path / "t", "k") is None


def test_bounds_of_another_case_are_of_another_column(tmp_path):
    """A name that differs in case may be that of a second column, which has no statistics."""
    columns = s.StructType().add("A", "long").add("a", "long")
    path = tmp_path / "t"
    writer = ArrowIpcDataSource({"path": str(path), "statistics": "A", "caseSensitive": "true"}).writer(
        columns, overwrite=False
    )
    writer.commit([writer.write(iter(pa.table({"A": [1, 2], "a": [None, 900]}).to_batches()))])
    assert bounds(path, "a", s.StructType().add("a", "long")) is None
    assert [([1, 2], False)] == bounds(path, "A", s.StructType().add("A", "long"))


def test_columns_of_which_the_log_answers_aggregates(tmp_path):
    """Neither those of a type that may be stored for another, nor dictionaries; the others need not open a file."""
    table = pa.table({"byte": pa.array([1] * 5000, pa.int8()), "k": [*range(5000)], "coded": [5] * 5000})
    commit_files(tmp_path / "t", table, dictionaryColumns="coded")
    (note,) = notes(tmp_path / "t")
    assert {"byte", "k", "coded"} == note["bounds"].keys()
    assert ["k"] == note["answered"]
    for options in ({"where": "k >= 0"}, {"versionAsOf": "1"}, {"timestampAsOf": "9999-12-31"}):
        assert not any("answered" in note for note in notes(tmp_path / "t", **options))


def test_bounds_of_many_files_are_of_fewer_columns(tmp_path, monkeypatch):
    commit_files(tmp_path / "t", *[pa.table({"a": [n], "b": [n], "c": [n]}) for n in range(10)])
    monkeypatch.setattr(plan_note, "_MOST_NBYTES", 2 * 10 * 17)
    assert [["a", "b"]] == [[*note["bounds"]] for note in notes(tmp_path / "t")]
