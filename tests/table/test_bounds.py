"""Bounds of files are those of their values, by pyarrow, however the rows are cut into record batches."""

import io
import random
import string

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.dataset.statistics import Statistics
from spark_arrow_ipc.dataset.statistics.collect import StatisticsCollector
from spark_arrow_ipc.table.bounds import bounds_batch, bounds_of_file
from spark_arrow_ipc.table.files import Files

TYPES = {
    "integers": (t.int64, pa.int64(), lambda rng: rng.randrange(-(10**9), 10**9)),
    "floats": (t.float64, pa.float64(), lambda rng: rng.choice([rng.uniform(-9, 9), float("nan"), 0.0, -0.0])),
    "short texts": (t.utf8, pa.string(), lambda rng: rng.choice(string.printable) * rng.randrange(4)),
    "flags": (t.bool_, pa.bool_(), lambda rng: rng.random() < 0.5),
}


def bounds(columns):
    """The bounds of a file that has these columns, each a type and a list of record batches."""
    schema = Schema.of([t.Field(name, type_) for name, (type_, _) in columns.items()])
    collector = StatisticsCollector(schema, Statistics.ALL)
    for parts in zip(*(batches for _, batches in columns.values()), strict=True):
        collector.add(RecordBatch.from_pydict(dict(zip(columns, parts, strict=True)), schema))
    return bounds_of_file(collector.statistics())


@pytest.mark.parametrize("name", TYPES)
def test_bounds_are_those_of_pyarrow(name):
    type_, theirs, draw = TYPES[name]
    rng = random.Random(name)
    for _ in range(60):
        batches = [
            [None if rng.random() < 0.3 else draw(rng) for _ in range(rng.randrange(5))]
            for _ in range(rng.randrange(1, 5))
        ]
        column = bounds({"a": (type_, batches)})["a",]
        values = pa.array([value for batch in batches for value in batch], theirs)
        assert values.null_count == column.null_count
        if name == "floats":
            nans = pc.sum(pc.cast(pc.is_nan(values), pa.int64())).as_py() or 0
            assert nans == column.nan_count
            values = values.filter(pc.invert(pc.is_nan(values)))
        extremes = pc.min_max(values).as_py()
        raws = [extremes["min"], extremes["max"]]
        if name == "short texts":
            # By bytes, as Spark orders them.
            raws = [None if raw is None else raw.encode() for raw in raws]
        assert raws == [None if bound is None else bound[0] for bound in (column.least, column.greatest)]


def test_a_bound_that_was_cut_is_said_to_be():
    column = bounds({"a": (t.utf8, [["b" * 500], ["c"]])})["a",]
    assert (b"b" * 64)[:10] == column.least[0][:10]
    assert not column.least[1]
    assert (b"c", True) == column.greatest


def test_a_batch_without_values_has_no_bound_and_hides_none():
    column = bounds({"a": (t.int64, [[None, None], [], [5, 3]])})["a",]
    assert ((3, True), (5, True), 2) == (column.least, column.greatest, column.null_count)


def test_files_with_other_columns_and_types_have_nulls_there():
    files = [
        bounds({"a": (t.int32, [[1, 2]])}),
        {},
        bounds({"a": (t.int64, [[1 << 40]]), "b": (t.utf8, [["x"]])}),
    ]
    batch = bounds_batch(files)
    assert ["a", "a", "b"] == list(batch.schema.names)
    assert [[False, True, True], [True, True, False], [True, True, False]] == [
        [row is None for row in column.to_pylist()] for column in batch.columns
    ]
    rows = [(f"{i}.arrow", 1, 1, 1) for i in range(3)]
    again = Files.from_json(Files.of(rows, 1, batch).to_json(), 1)
    assert batch.to_pylist() == again.statistics.to_pylist()
    assert bounds_batch([{}, {}]) is None


def test_pyarrow_reads_them():
    batch = bounds_batch([bounds({"a": (t.float64, [[1.5, float("nan")]])})])
    sink = io.BytesIO()
    ipc.write(sink, [batch], batch.schema)
    (row,) = pa.ipc.open_file(sink.getvalue()).read_all()["a"].to_pylist()
    assert {
        "ARROW:null_count:exact": 0,
        "spark_arrow_ipc:nan_count:exact": 1,
        "ARROW:min_value:exact": 1.5,
        "ARROW:max_value:exact": 1.5,
    } == row
