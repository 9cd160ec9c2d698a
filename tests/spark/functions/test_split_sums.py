"""Partial sums of decimals with more digits than their column: rows that fit it, and add up to the same."""

import decimal

import numpy as np
import pyarrow as pa
import pytest

from spark_arrow_ipc.spark.functions import split_sums
from spark_arrow_ipc.spark.functions.partial_aggregates import Part, PartialAggregates

EXACT = decimal.Context(prec=60)


def digits(values, precision, scale):
    return pa.array(
        [v if v is None else decimal.Decimal(v).scaleb(-scale, EXACT) for v in values], pa.decimal128(precision, scale)
    )


def partial_rows(keys, parts, *batches):
    return list(PartialAggregates(keys, tuple(parts))(iter(batches)))


def unscaled(value, scale):
    return None if value is None else int(value.scaleb(scale, EXACT))


SUMS = [
    ("fits", 7, 2, [9_999_999], 1),
    ("one more", 7, 2, [9_999_999, 1], 2),
    ("many", 7, 2, [9_999_999] * 1000, 1000),
    ("negative", 7, 2, [-9_999_999, -9_999_999, -1], 3),
    ("cancels out", 7, 2, [9_999_999, -9_999_999], 1),
    ("few digits", 1, 0, [7] * 100, 78),
    ("only digits behind the point", 2, 2, [99, 99, 99], 3),
    ("digits before the point only", 3, -2, [999, 999], 2),
    ("18 digits", 18, 5, [10**18 - 1] * 9, 9),
    ("18 digits that go as rows", 18, 5, [10**18 - 1] * 10, 10),
    ("19 digits go as rows", 19, 5, [10**19 - 1] * 3, 3),
    ("nulls alone", 7, 2, [None] * 5, 1),
    ("nulls and values", 7, 2, [None, 9_999_999, None, 5], 2),
    ("none", 7, 2, [], 0),
]


@pytest.mark.parametrize(("precision", "scale", "values", "count"), [c[1:] for c in SUMS], ids=[c[0] for c in SUMS])
def test_rows_of_a_sum_fit_the_column_and_add_up(precision, scale, values, count):
    type_ = pa.decimal128(precision, scale)
    parts = [Part("count_all", None), Part("count", 0), Part("sum", 0, type_), Part("max", 0)]
    batches = partial_rows((), parts, pa.record_batch([digits(values, precision, scale)], ["c0"]))
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert {type_} == {batch.schema.field("a2").type for batch in batches} or not values
    for batch in batches:
        batch.validate(full=True)
    assert count == len(rows)
    present = [v for v in values if v is not None]
    sums = [unscaled(row["a2"], scale) for row in rows if row["a2"] is not None]
    assert (sum(present), bool(present)) == (sum(sums), bool(sums))
    assert (len(values), len(present)) == (sum(r["a0"] for r in rows), sum(r["a1"] for r in rows))
    assert max(present, default=None) == max(
        (unscaled(r["a3"], scale) for r in rows if r["a3"] is not None), default=None
    )


def test_groups_are_those_of_one_row_each(monkeypatch):
    """Sums of several types, some of them null, and rows that are made a few at a time."""
    monkeypatch.setattr(split_sums, "_MOST_ROWS", 7)
    random = np.random.default_rng(7)
    keys = random.integers(0, 40, 3000)
    money = [None if key % 5 == 0 or random.random() < 0.1 else int(random.integers(-9_999, 9_999)) for key in keys]
    small = random.integers(-9, 10, 3000).tolist()
    batch = pa.record_batch([pa.array(keys), digits(money, 4, 1), digits(small, 1, 0)], ["k", "m", "s"])
    parts = [Part("sum", 1, pa.decimal128(4, 1)), Part("count", 1), Part("sum", 2, pa.decimal128(1, 0)), Part("min", 2)]
    batches = partial_rows((0,), parts, *(batch.slice(start, 500) for start in range(0, 3000, 500)))
    totals = {}
    for row in (row for each in batches for row in each.to_pylist()):
        total = totals.setdefault(row["k0"], [None, 0, 0, 9])
        if row["a0"] is not None:
            total[0] = (total[0] or 0) + unscaled(row["a0"], 1)
        total[1:] = [total[1] + row["a1"], total[2] + int(row["a2"]), min(total[3], int(row["a3"]))]
    expected = {}
    for key, m, s in zip(keys.tolist(), money, small, strict=True):
        total = expected.setdefault(key, [None, 0, 0, 9])
        if m is not None:
            total[:2] = [(total[0] or 0) + m, total[1] + 1]
        total[2:] = [total[2] + s, min(total[3], s)]
    assert expected == totals
    assert 40 < sum(each.num_rows for each in batches) < 600
    assert max(each.num_rows for each in batches) <= 7
