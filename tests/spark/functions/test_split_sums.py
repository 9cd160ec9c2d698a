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
    number = [None if key % 3 == 0 else int(random.integers(-(2**40), 2**40)) for key in keys]
    small = random.integers(-9, 10, 3000).tolist()
    columns = {
        "k": pa.array(keys), "m": digits(money, 4, 1), "s": digits(small, 1, 0), "n": pa.array(number),
        "w": digits([None if n is None else n * 10**15 for n in number], 30, 3),
    }  # fmt: skip
    batch = pa.record_batch(list(columns.values()), list(columns))
    parts = [
        Part("sum", 1, pa.decimal128(4, 1)), Part("count", 1), Part("sum", 2, pa.decimal128(1, 0)), Part("min", 2),
        Part("sum", 3, pa.int64()), Part("count_all", None), Part("sum", 4, pa.decimal128(30, 3)), Part("max", 3),
    ]  # fmt: skip
    batches = partial_rows((0,), parts, *(batch.slice(start, 500) for start in range(0, 3000, 500)))
    assert 40 < sum(each.num_rows for each in batches) < 1500
    assert max(each.num_rows for each in batches) <= 7
    merge = ["sum", "sum", "sum", "min", "sum", "sum", "sum", "max"]
    found = pa.Table.from_batches(batches).group_by("k0").aggregate([(f"a{i}", f) for i, f in enumerate(merge)])
    names = [f"a{i}_{f}" for i, f in enumerate(merge)]
    wanted = (
        pa.Table.from_batches([batch])
        .group_by("k")
        .aggregate([("m", "sum"), ("m", "count"), ("s", "sum"), ("s", "min"), ("n", "sum"), ([], "count_all"), ("w", "sum"), ("n", "max")])
    )  # fmt: skip
    columns = ["m_sum", "m_count", "s_sum", "s_min", "n_sum", "count_all", "w_sum", "n_max"]
    assert wanted.select(["k", *columns]).sort_by("k").to_pylist() == [
        dict(zip(["k", *columns], row.values(), strict=True))
        for row in found.select(["k0", *names]).sort_by("k0").to_pylist()
    ]


@pytest.mark.parametrize("is_key", [True, False])
def test_long_keys_and_extremes_are_in_memory_a_few_at_a_time(is_key):
    """A sum of 5,000 single digits beside a string of 100,000 bytes, as a key and as an extreme."""
    batch = pa.record_batch([pa.array(["x" * 100_000] * 50), digits([9] * 50, 1, 0)], ["k", "a"])
    parts = [Part("sum", 1, pa.decimal128(1, 0)), *([] if is_key else [Part("max", 0)])]
    sizes, total = [], 0
    for made in PartialAggregates((0,) if is_key else (), tuple(parts))(batch for _ in range(100)):
        sizes.append(made.nbytes)
        total += sum(map(int, made.column("a0").to_pylist()))
    assert 45_000 == total
    assert max(sizes) < 20 << 20
