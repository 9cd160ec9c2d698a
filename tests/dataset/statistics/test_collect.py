"""Collecting statistics: the columns, their bounds, and the size of all."""

import base64
import decimal

import pytest
from statistics_cases import batch_of, column_of, gathered

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.dataset.statistics import Statistics
from spark_arrow_ipc.dataset.statistics.format import leaves
from spark_arrow_ipc.dataset.statistics.read import read_statistics

NAN = float("nan")
BOUNDS = [
    ("int", t.int16, (3, None, -4), -4, 3),
    ("uint64", t.uint64, (2**64 - 1, 0), 0, 2**64 - 1),
    ("bool", t.bool_, (False, None, True), 0, 1),
    ("float16", t.float16, (1.5, NAN, -2.0), -2.0, 1.5),
    ("negative_zero", t.float64, (-0.0, -0.0), 0.0, 0.0),
    ("infinities", t.float32, (float("inf"), float("-inf"), NAN), float("-inf"), float("inf")),
    ("decimal32", t.Decimal(5, 2, 32), (decimal.Decimal("-1.5"), decimal.Decimal(2)), -150, 200),
    ("decimal128", t.Decimal(38, 0), (10**37, -1, None, -(10**37)), -(10**37), 10**37),
    ("decimal256", t.Decimal(76, 0, 256), (10**75, -(10**75), 5), -(10**75), 10**75),
    ("date", t.date32, (5, -5), -5, 5),
    ("date64", t.date64, (86_400_000, 0), 0, 86_400_000),
    ("time", t.Time(t.TimeUnit.NANOSECOND, 64), (5, 1), 1, 5),
    ("timestamp", t.Timestamp(t.TimeUnit.NANOSECOND, "UTC"), (-1, 7), -1, 7),
    ("duration", t.Duration(t.TimeUnit.SECOND), (1, 2), 1, 2),
    ("months", t.IntervalYearMonth(), (1, 2), 1, 2),
    ("text_by_unsigned_bytes", t.utf8, ("z", "ä", "Z"), b"Z", "ä".encode()),
    ("large_text", t.large_utf8, ("b", "a"), b"a", b"b"),
    ("text_view", t.utf8_view, ("b" * 20, "b" * 19, "a"), b"a", b"b" * 20),
    ("empty_text", t.utf8, ("", "a"), b"", b"a"),
    ("binary_with_zeros", t.binary, (b"a\0", b"a", b"a\0\0"), b"a", b"a\0\0"),
    ("fixed_width", t.FixedSizeBinary(3), (b"abc", b"abd"), b"abc", b"abd"),
    ("dictionary", t.dictionary(t.int8, t.utf8), ("b", None, "a", "b"), b"a", b"b"),
    ("runs", t.run_end_encoded(t.int32, t.int64), (5, 5, None, 7), 5, 7),
    ("all_null", t.int32, (None, None), None, None),
    ("no_rows", t.int32, (), None, None),
    ("all_nan", t.float64, (NAN, None), None, None),
]


@pytest.mark.parametrize(
    ("type_", "values", "least", "greatest"), [pytest.param(*case[1:], id=case[0]) for case in BOUNDS]
)
def test_bounds_go_through_a_file_and_back(type_, values, least, greatest):
    found = column_of(type_, values)
    assert ([least], [greatest]) == (list(found.least), list(found.greatest))
    assert [values.count(None)] == list(found.null_counts)
    if isinstance(type_, t.FloatingPoint):
        assert [sum(value is not None and value != value for value in values)] == list(found.nan_counts)
        assert str(least) == str(found.least[0])


def test_leaves_of_structs_do_not_see_what_lies_under_a_null():
    type_ = t.struct([("x", t.int32), ("s", t.struct([("y", t.float64)]))])
    batch = batch_of(type_, {"x": 1, "s": {"y": 5.0}}, None, {"x": 3, "s": None}, {"x": None, "s": {"y": NAN}})
    (column,) = batch.columns
    # A value under a null struct.
    hidden = type(column.children[0])(
        t.int32, 4, 0, (None, memoryview(b"".join(v.to_bytes(4, "little") for v in (1, 99, 3, 2))))
    )
    column = type(column)(type_, 4, 1, column.buffers, (hidden, column.children[1]))
    batch = RecordBatch(batch.schema, (column,), 4).slice(0, 4)
    found = read_statistics((gathered([batch]),), batch.schema, 1).columns
    assert [("a", "x"), ("a", "s", "y")] == list(found)
    assert (1, 3, 1) == (*found["a", "x"].least, *found["a", "x"].greatest, *found["a", "x"].null_counts)
    assert (5.0, 2, 1) == (
        *found["a", "s", "y"].least,
        *found["a", "s", "y"].null_counts,
        *found["a", "s", "y"].nan_counts,
    )


@pytest.mark.slow
def test_which_columns():
    schema = Schema.of([*(t.field(f"c{i}", t.int8) for i in range(70)), t.field("n", t.struct([("x", t.int8), ("y", t.int8)])), t.field("l", t.list_(t.int8))])  # fmt: skip
    batch = RecordBatch.from_pylist([{}], schema)
    chosen = {
        which if isinstance(which, str) else "list": list(
            read_statistics((gathered([batch], which),), schema, 1).columns
        )
        for which in (Statistics.AUTO, Statistics.ALL, ["C3", ("n", "Y"), 5])
    }
    assert [len(chosen[Statistics.AUTO]), len(chosen[Statistics.ALL])] == [64, 72]
    assert [("c3",), ("c5",), ("n", "y")] == chosen["list"]
    assert gathered([batch], Statistics.NONE) is None
    assert read_statistics((gathered([batch]),), schema, 1).dropped[-1] == ("n", "y")
    assert len(list(leaves(Schema.of([t.field("a", t.int8), t.field("a", t.int8)])))) == 0


@pytest.mark.nightly
def test_auto_is_bounded_by_the_size_of_the_file():
    schema = Schema.of([t.field(f"c{i}", t.utf8) for i in range(30)])
    batch = RecordBatch.from_pylist([{f"c{i}": "x" * 64 for i in range(30)}], schema)
    key, text = gathered([batch] * 600)
    assert len(text) <= 1 << 20
    statistics = read_statistics(((key, text),), schema, 600)
    assert 0 < len(statistics.columns) < 30
    assert [(f"c{i}",) for i in range(30)] == [*statistics.columns, *statistics.dropped]
    assert len(gathered([batch] * 600, Statistics.ALL)[1]) > 1 << 20
    assert len(gathered([batch] * 600, Statistics.AUTO, 10 << 30)[1]) > 1 << 20


def test_arrow_readers_can_read_the_stream():
    pa = pytest.importorskip("pyarrow")
    key, text = gathered([batch_of(t.utf8, "a", "b" * 70), batch_of(t.utf8, None)])
    assert key == "spark_arrow_ipc.statistics"
    table = pa.ipc.open_stream(base64.b64decode(text)).read_all()
    assert table.column("ARROW:row_count:exact").to_pylist() == [2, 1]
    assert table.column("a").to_pylist() == [
        {"ARROW:null_count:exact": 0, "ARROW:min_value:exact": "a", "ARROW:min_value:approximate": None,
         "ARROW:max_value:exact": None, "ARROW:max_value:approximate": "b" * 63 + "c"},
        {"ARROW:null_count:exact": 1, "ARROW:min_value:exact": None, "ARROW:min_value:approximate": None,
         "ARROW:max_value:exact": None, "ARROW:max_value:approximate": None},
    ]  # fmt: skip
