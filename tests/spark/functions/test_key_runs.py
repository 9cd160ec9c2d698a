"""Rows of neighbours with equal keys: pyarrow's groups of the merged rows are those of the rows themselves."""

import datetime as dt
import decimal
import itertools
import math

import numpy as np
import pyarrow as pa
import pytest

from spark_arrow_ipc.spark.functions.key_runs import merge_runs
from spark_arrow_ipc.spark.functions.partial_aggregates import Part, PartialAggregates

FOURS = pa.array(np.arange(40) // 4)
EXACT = decimal.Context(prec=60)
MOST = 10**38 - 1


def digits(values, *, precision=38):
    scaled = [v if v is None else decimal.Decimal(v).scaleb(-2, EXACT) for v in values]
    return pa.array(scaled, pa.decimal128(precision, 2))


def repeat(*values):
    return [values[i % len(values)] for i in range(40)]


def hide(array, rows):
    """Return an array whose rows are null, with bytes of values under them."""
    valid = np.packbits([i not in rows for i in range(len(array))], bitorder="little")
    return pa.Array.from_buffers(array.type, len(array), [pa.py_buffer(valid), array.buffers()[1]])


DAYS = pa.array(repeat(dt.date(1, 1, 1), None, dt.date(9999, 12, 31)))
MERGED = [
    ("whole numbers", FOURS, "sum", pa.array(repeat(5, -7, 2**40)), 10),
    ("a sum that just fits", FOURS, "sum", pa.array([2**61 - 1] * 40), 10),
    ("8 bits, whose sum has more", FOURS, "sum", pa.array([127] * 40, pa.int8()), 10),
    ("nulls", FOURS, "sum", pa.array(repeat(1, None, 3)), 10),
    ("runs of nulls", FOURS, "sum", pa.array([None] * 8 + repeat(1, 2)[8:], pa.int32()), 10),
    ("least of 64 bits", FOURS, "min", pa.array(repeat(-(2**63), None, 2**63 - 1)), 10),
    ("greatest of nulls", FOURS, "max", pa.array([None] * 8 + repeat(-1, None)[8:], pa.int64()), 10),
    ("greatest of 16 bits", FOURS, "max", pa.array(repeat(-(2**15), None, 2**15 - 1), pa.int16()), 10),
    ("days", FOURS, "min", DAYS, 10),
    ("instants", FOURS, "max", DAYS.cast(pa.timestamp("us", "UTC")), 10),
    ("decimals", FOURS, "sum", digits(repeat(10**15, -(10**15) + 1, None)), 10),
    ("least decimals", FOURS, "min", digits(repeat(10**15, -(10**14), None), precision=16), 10),
    ("bytes under nulls", FOURS, "sum", hide(digits(repeat(3, MOST)), set(range(1, 40, 2))), 10),
    ("sums of more than 64 bits", FOURS, "sum", digits([2**62] * 40), 40),
    ("decimals of more than 64 bits", FOURS, "max", digits(repeat(1, 2**63)), 40),
    ("decimals of more than 64 bits, below", FOURS, "min", digits(repeat(1, -(2**63) - 1)), 40),
    ("text", FOURS, "min", pa.array(repeat("b", "a", None)), 40),
    ("text as keys", pa.array([f"key {i // 4}" for i in range(40)]), "sum", pa.array(range(40)), 10),
    ("decimals as keys", digits([i // 4 for i in range(40)]), "sum", pa.array(range(40)), 10),
    ("keys that change each row", pa.array(range(40)), "sum", pa.array(range(40)), 40),
    ("keys in no order", pa.array(repeat(1, 2)), "sum", pa.array(range(40)), 40),
    ("keys that come again", pa.array([i // 4 % 3 for i in range(40)]), "sum", pa.array(range(40)), 10),
    ("voids as keys", pa.nulls(40), "sum", pa.array(range(40)), 40),
    ("intervals as keys", pa.array([pa.MonthDayNano([i // 4, 0, 0]) for i in range(40)]), "sum", pa.array(range(40)), 40),
    ("null keys, one by one", pa.array([None] * 8 + [1] * 32), "sum", pa.array(range(40)), 9),
]  # fmt: skip


def grouped(table, function):
    made = table.group_by("k0").aggregate([("a0", function)])
    return sorted(zip(made["k0"].to_pylist(), made[f"a0_{function}"].to_pylist(), strict=True), key=repr)


@pytest.mark.parametrize(("keys", "function", "values", "rows"), [c[1:] for c in MERGED], ids=[c[0] for c in MERGED])
@pytest.mark.parametrize("cut", [(), (7,), (4, 5, 39)], ids=["one chunk", "two", "of one row"])
def test_runs_have_the_sums_of_their_rows(keys, function, values, rows, cut):
    table = pa.table({"k0": keys, "a0": values})
    edges = [0, *cut, 40]
    pieces = pa.concat_tables([table.slice(a, b - a) for a, b in itertools.pairwise(edges)])
    merged = merge_runs(pieces, 1, [function])
    assert rows == merged.num_rows
    assert grouped(table, function) == grouped(merged, function)
    assert grouped(table, function)[0][1].__class__ is grouped(merged, function)[0][1].__class__
    again = pa.concat_tables(
        [merged.group_by("k0").aggregate([("a0", function)]), table.group_by("k0").aggregate([("a0", function)])]
    )
    assert 2 * len(grouped(table, function)) == again.num_rows  # partial rows with and without runs are of one schema


@pytest.mark.parametrize("type_", [pa.int64(), pa.decimal128(38, 0)], ids=str)
def test_buffers_may_be_longer_than_their_values(type_):
    data = pa.array([3, 4, 5, 6], type_).buffers()[1].to_pybytes() + b"x" * 9
    values = pa.Array.from_buffers(type_, 4, [None, pa.py_buffer(data)])
    merged = merge_runs(pa.table({"k0": [1, 1, 1], "a0": values[1:]}), 1, ["sum"])
    assert [15] == [int(value) for value in merged["a0"].to_pylist()]


def test_runs_end_where_any_key_changes():
    keys = {"k0": [1, 1, 1, 2, 2, 2, 2, 2], "k1": ["a", "a", "b", "b", "b", "b", "b", "b"]}
    merged = merge_runs(pa.table({**keys, "a0": [1] * 8, "a1": range(8)}), 2, ["sum", "max"])
    assert [(1, "a", 2, 1), (1, "b", 1, 2), (2, "b", 5, 7)] == [tuple(row.values()) for row in merged.to_pylist()]


def test_floats_that_spark_groups_are_of_one_run_or_several():
    keys = [0.0, -0.0, 0.0, -0.0, 1.0, 1.0, 1.0, math.nan, math.nan]
    merged = merge_runs(pa.table({"k0": keys, "a0": [1] * 9}), 1, ["sum"])
    assert [(0.0, 4), (1.0, 3), ("nan", 1), ("nan", 1)] == [
        ("nan" if math.isnan(k) else k, a) for k, a in zip(*merged.to_pydict().values(), strict=True)
    ]


def test_rows_without_keys_are_no_run():
    table = pa.table({"a0": [1, 2]})
    assert merge_runs(table, 0, ["sum"]) is table


LINES = 65_536
PART = (Part("count_all", None), Part("count", 1), Part("sum", 1, pa.int64()), Part("min", 1), Part("max", 1))


def test_runs_across_batches_are_added_up_where_grouping_is_given_up():
    """Keys in order, three rows each, so that a batch ends within a run: a third of the rows is passed, and one row more."""
    values = np.random.default_rng(0).integers(-9, 9, 9 * LINES)
    batches = [
        pa.record_batch([pa.array(np.arange(at, at + LINES) // 3), pa.array(values[at : at + LINES])], ["k", "v"])
        for at in range(0, 9 * LINES, LINES)
    ]
    passed = pa.Table.from_batches(PartialAggregates((0,), PART)(batches))
    assert 3 * LINES <= passed.num_rows <= 3 * LINES + 9
    merges = [("a0", "sum"), ("a1", "sum"), ("a2", "sum"), ("a3", "min"), ("a4", "max")]
    whole = pa.Table.from_batches(batches).group_by("k")
    whole = whole.aggregate([([], "count_all"), ("v", "count"), ("v", "sum"), ("v", "min"), ("v", "max")])
    merged = passed.group_by("k0").aggregate(merges)
    sort = lambda table: sorted(zip(*(column.to_pylist() for column in table.columns), strict=True))  # noqa: E731
    assert sort(whole.select(["k", "count_all", "v_count", "v_sum", "v_min", "v_max"])) == sort(
        merged.select(["k0", "a0_sum", "a1_sum", "a2_sum", "a3_min", "a4_max"])
    )
