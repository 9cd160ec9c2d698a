"""Hive partition values are constant columns after the file's own, or in place of one of the same name."""

import datetime as dt
from decimal import Decimal

import pytest
from listed_files import list_files

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import RecordBatch, Schema
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.scan import scan as scan_module
from spark_arrow_ipc.dataset.scan.file_range import FileRange, PartitionColumns, repeat_slot
from spark_arrow_ipc.dataset.scan.scan import ScanOptions, scan

pa = pytest.importorskip("pyarrow")

NUMBERS = Schema.of([t.field("a", t.int64)])


def write(path, table):
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return str(path)


def with_partition(path, values, **how):
    """The names of a file's columns and its batches, with partition columns."""
    (listed,) = list_files([path])
    part = FileRange(listed.path, listed.nbytes, listed.mtime_ns, partition=values)
    scanning = scan([part], partition_fields=HIVE, **how)
    file = next(scanning)
    return file.schema, list(file.batches)


HIVE = (t.field("year", t.int32), t.field("k", t.utf8))


def test_partition_columns_follow_the_files_own(tmp_path):
    path = write(tmp_path / "x", pa.table({"a": [1, 2, 3]}))
    schema, (found,) = with_partition(path, (2026, "ä"))
    assert ("a", "year", "k") == schema.names
    assert [{"a": i, "year": 2026, "k": "ä"} for i in (1, 2, 3)] == found.batch.to_pylist()
    found.batch.validate()


def test_the_paths_value_wins_in_the_place_of_the_files_column(tmp_path):
    path = write(tmp_path / "x", pa.table({"k": ["of the file"], "a": [1], "year": ["a string"]}))
    schema, (found,) = with_partition(path, (2026, None))
    assert [("k", t.utf8), ("a", t.int64), ("year", t.int32)] == [(f.name, f.type) for f in schema.fields]
    assert [{"k": None, "a": 1, "year": 2026}] == found.batch.to_pylist()
    schema, _ = with_partition(path, (2026, None), options=ScanOptions(ipc.ReadOptions(["a"])))
    assert ("a", "year", "k") == schema.names


def test_batches_of_more_rows_than_a_constant_are_cut(tmp_path, monkeypatch):
    monkeypatch.setattr(scan_module, "CONSTANT_SLOTS", 4)
    path = write(tmp_path / "x", pa.table({"a": range(10)}))
    _, found = with_partition(path, (1, "x"))
    places = [(scanned.first_block, scanned.first_row, scanned.block_rows) for scanned in found]
    assert [(0, 0, (4,)), (0, 4, (4,)), (0, 8, (2,))] == places
    assert [*range(10)] == [value for one in found for value in one.batch.to_pydict()["a"]]


CONSTANTS = [
    (t.int32, 7),
    (t.int64, -(1 << 40)),
    (t.float64, 2.5),
    (t.utf8, "Zürich"),
    (t.utf8, ""),
    (t.bool_, True),
    (t.bool_, False),
    (t.date32, dt.date(1969, 7, 20)),
    (t.Decimal(38, 2, 128), Decimal("12.34")),
    (t.Timestamp(t.TimeUnit.MICROSECOND, None), dt.datetime(2026, 1, 2, 3, 4, 5, 6)),
]


@pytest.mark.parametrize("value", [False, True], ids=["value", "null"])
@pytest.mark.parametrize(("type_", "slot"), CONSTANTS, ids=[f"{type_} {slot}" for type_, slot in CONSTANTS])
def test_constants_are_repeated(type_, slot, value):
    schema = Schema.of([t.field("x", type_)])
    expected = None if value else slot
    column = RecordBatch.from_pydict({"x": [expected]}, schema).column(0)
    for length in (1, 9, 64):
        many = repeat_slot(column, length)
        assert [expected] * length == many.to_pylist()
        RecordBatch(schema, (many,), length).validate()


def test_one_constant_serves_all_batches():
    constants = PartitionColumns(NUMBERS, HIVE, (2026, "x"))
    large = constants.add(RecordBatch.from_pydict({"a": [1] * 100}, NUMBERS))
    small = constants.add(RecordBatch.from_pydict({"a": [1] * 3}, NUMBERS))
    assert large.columns[1].buffers[1] is small.columns[1].buffers[1]
    assert [2026] * 3 == small.to_pydict()["year"]


def test_values_must_be_as_many_as_fields():
    with pytest.raises(ValueError, match="expected 2 partition values, found 1"):
        PartitionColumns(NUMBERS, HIVE, (2026,))


NOT_ONE_FLAT_SLOT = {
    "two slots": (t.int32, [1, 2]),
    "no slot": (t.int32, []),
    "a list": (t.List(t.field("item", t.int32)), [[1]]),
    "a struct": (t.Struct((t.field("x", t.int32),)), [{"x": 1}]),
}


@pytest.mark.parametrize("name", NOT_ONE_FLAT_SLOT)
def test_only_one_slot_of_a_flat_type_is_repeated(name):
    type_, values = NOT_ONE_FLAT_SLOT[name]
    column = RecordBatch.from_pydict({"x": values}, Schema.of([t.field("x", type_)])).column(0)
    with pytest.raises(ValueError, match=f"expected one slot of a flat type, found {len(values)} of"):
        repeat_slot(column, 3)
