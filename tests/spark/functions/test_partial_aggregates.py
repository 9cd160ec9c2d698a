"""Partial rows of batches: what pyarrow's kernels get wrong by themselves, sums at their bounds, and what is held."""

import decimal
import math

import numpy as np
import pyarrow as pa
import pytest

from spark_arrow_ipc.spark.functions import partial_aggregates
from spark_arrow_ipc.spark.functions.partial_aggregates import Part, PartialAggregates

SUM = Part("sum", 0)


def rows(keys, parts, *batches):
    return [row for made in PartialAggregates(keys, tuple(parts))(iter(batches)) for row in made.to_pylist()]


def batch(*arrays):
    return pa.record_batch(list(arrays), [f"c{i}" for i in range(len(arrays))])


WHOLE = [
    ("small", pa.array([1, -2, None], pa.int8())),
    ("64 bits that fit", pa.array([2**61, -(2**61), 5])),
    ("64 bits that do not", pa.array([2**63 - 1, 2**63 - 1, 1])),
    ("64 bits that do not fit together", pa.array([2**60] * 4)),
    ("the least", pa.array([-(2**63), -(2**63)])),
    ("nulls alone", pa.nulls(3, pa.int64())),
]


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("column", [c[1] for c in WHOLE], ids=[c[0] for c in WHOLE])
def test_sums_of_whole_numbers_have_128_bits(column, keyed):
    given = batch(column, pa.nulls(len(column), pa.int32()))
    values = [value for value in column.to_pylist() if value is not None]
    (row,) = rows((1,) if keyed else (), [SUM], given, given, given)
    assert (3 * sum(values) if values else None) == row["a0"]


def digits(*values, precision=38, scale=2):
    return pa.array(
        [v if v is None else decimal.Decimal(v).scaleb(-scale, decimal.Context(prec=60)) for v in values],
        pa.decimal128(precision, scale),
    )


MOST = 10**38 - 1
DECIMALS = [
    ("fit", [digits(1, -2, None), digits(5)], [4]),
    ("batches that fit alone are yielded apart", [digits(MOST // 2, 1), digits(MOST // 2 + 5), digits(7)], [MOST // 2 + 1, MOST // 2 + 12]),
    ("a batch that does not fit goes as rows", [digits(MOST, MOST, -MOST)], [MOST, MOST, -MOST]),
    ("ten digits more than the column", [digits(*[10**5 - 1] * 9, precision=5)], [9 * (10**5 - 1)]),
]  # fmt: skip


@pytest.mark.parametrize(("columns", "wanted"), [c[1:] for c in DECIMALS], ids=[c[0] for c in DECIMALS])
def test_sums_of_decimals_never_wrap(columns, wanted):
    made = list(PartialAggregates((), (SUM,))(batch(column) for column in columns))
    precision = min(columns[0].type.precision + 10, 38)
    assert {pa.decimal128(precision, 2)} == {each.schema.field("a0").type for each in made}
    exact = decimal.Context(prec=60)
    assert sorted(wanted) == sorted(int(v["a0"].scaleb(2, exact)) for each in made for v in each.to_pylist())


def test_keys_and_types_come_back():
    given = batch(
        pa.array([1, 1, None], pa.duration("us")), pa.array([math.nan, math.nan, 0.0]), pa.array(["b", "a", None])
    )
    (made,) = PartialAggregates((0, 1), (Part("count_all", None), Part("count", 2), Part("min", 2), Part("max", 0)))(
        iter([given] * 2)
    )
    assert [
        pa.duration("us"),
        pa.float64(),
        pa.int64(),
        pa.int64(),
        pa.string(),
        pa.duration("us"),
    ] == made.schema.types
    assert [(4, 4, "a"), (2, 0, None)] == [(r["a0"], r["a1"], r["a2"]) for r in made.to_pylist()]


def merged(found):
    """Return partial rows as one for each key, as Spark merges them: sums and counts add up, nulls are one key."""
    totals = {}
    for row in found:
        total = totals.setdefault((row["k0"], row["k1"]), [0, None, None])
        total[0] += row["a0"]
        for i, function in ((1, max), (2, lambda a, b: a + b)):
            value = row[f"a{i}"]
            total[i] = value if total[i] is None else total[i] if value is None else function(total[i], value)
    return totals


@pytest.mark.parametrize("repeats", [1, 2000])
def test_keys_in_dictionaries_are_those_of_values(repeats):
    """With nulls as indices and as values, with equal values, and with another dictionary in the middle of the batches."""
    words, more = pa.array(["x", None, "y", "x"]), pa.array(["y", "z"])
    steps = pa.array([1, 2], pa.duration("us"))

    def encoded(values, *indices):
        return pa.DictionaryArray.from_arrays(pa.array(list(indices) * repeats, pa.int8()), values)

    def numbers(*values):
        return pa.array(list(values) * repeats)

    given = [
        batch(encoded(words, 0, 1, 2, 3, None), encoded(steps, 0, 0, 1, 0, 1), numbers(1, 2, 3, 4, 5)),
        batch(encoded(words, 3, 3, 3, 0, 0), encoded(steps, 0, 0, 0, 0, None), numbers(1, 2, 3, 4, None)),
        batch(encoded(more, 0, 1, 0, None, 1), encoded(steps, 1, 1, 1, 1, 0), numbers(6, 7, 8, 9, 10)),
    ]
    plain = [batch(*(c.dictionary_decode() if pa.types.is_dictionary(c.type) else c for c in b.columns)) for b in given]
    parts = [Part("count_all", None), Part("max", 0), Part("sum", 2)]
    answers = [rows((0, 1), parts, *many) for many in (given, plain)]
    assert merged(answers[1]) == merged(answers[0])
    (types,) = {tuple(made.schema.types) for made in PartialAggregates((0, 1), tuple(parts))(iter(given))}
    assert (pa.string(), pa.duration("us"), pa.int64(), pa.string()) == types[:4]


@pytest.mark.parametrize(
    ("values", "groupings"),
    [
        (pa.array(["x" * 2**20, "y"]), 6),
        (pa.array(["x", "y"]), 1),
        (pa.array([1, 2]), 1),
        (pa.array([decimal.Decimal(1), None]), 1),
        (pa.nulls(2), 1),
    ],
    ids=["long", "short", "numbers", "decimals", "nulls"],
)
def test_long_values_of_dictionaries_are_few_together(values, groupings, grouped_rows):
    keys = pa.DictionaryArray.from_arrays(pa.array([0, 1] * 40, pa.int8()), values)
    made = rows((0,), [Part("count_all", None)], *[batch(keys)] * 6)
    assert groupings == len(grouped_rows)
    assert 480 == sum(row["a0"] for row in made)


def test_groups_of_long_keys_are_yielded_by_their_bytes():
    keys = [pa.array([letter * 2**20] * 20 + [f"{letter}{i}" for i in range(30)]) for letter in "abcdefgh"]
    keys = [pa.array([f"{i}{value}" for i, value in enumerate(column.to_pylist())]) for column in keys]
    made = list(PartialAggregates((0,), (Part("count_all", None),))(batch(column) for column in keys))
    assert max(each.nbytes for each in made) < 100 << 20
    assert 400 == sum(each.num_rows for each in made)
    assert len(made) > 1


def test_no_batches_and_empty_ones_give_no_rows():
    assert [] == rows((), [Part("count_all", None)])
    assert [] == rows((), [Part("count_all", None)], batch(pa.array([], pa.int64())))


def test_rows_without_columns_are_counted():
    given = pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), 7, [None]))
    assert [{"a0": 14}] == rows((), [Part("count_all", None)], given, given)


def test_few_partial_rows_are_held(monkeypatch):
    monkeypatch.setattr(partial_aggregates, "_LEAST_MERGED_ROWS", 10)
    monkeypatch.setattr(partial_aggregates, "_MOST_HELD_ROWS", 100)
    monkeypatch.setattr(partial_aggregates, "_MOST_TOGETHER_ROWS", 40)
    batches = [batch(pa.array(np.arange(i, i + 40))) for i in range(0, 4000, 20)]
    made = list(PartialAggregates((0,), (Part("count_all", None),))(iter(batches)))
    assert len(made) > 10
    assert max(each.num_rows for each in made) < 250
    totals = {}
    for row in (row for each in made for row in each.to_pylist()):
        totals[row["k0"]] = totals.get(row["k0"], 0) + row["a0"]
    assert {i: 2 if 20 <= i < 4000 else 1 for i in range(4020)} == totals


@pytest.fixture
def grouped_rows(monkeypatch):
    """A list of the numbers of rows that are grouped at once."""
    made = []
    reduced = partial_aggregates._Inputs.reduce
    monkeypatch.setattr(
        partial_aggregates._Inputs, "reduce", lambda inputs: made.append(inputs.table.num_rows) or reduced(inputs)
    )
    return made


FIVE = pa.array(np.arange(20_000) % 5)
TOGETHER = [
    ("few groups, behind the first batch", [FIVE] * 9, 2),
    ("up to so many rows", [FIVE] * 6 + [pa.array(np.arange(500_000) % 5)] + [FIVE] * 2, 4),
    ("sums that could pass 64 bits together", [pa.array([2**59] * 4)] * 9, 3),
    ("sums that could in one batch", [pa.array([2**62] * 4)] * 3, 0),
    ("groups that do not repeat", [pa.array(np.arange(20_000) + 20_000 * i) for i in range(6)], 2),
    ("groups that two batches repeat", [pa.array(np.arange(20_000))] * 9, 3),
]  # fmt: skip


@pytest.mark.parametrize(("columns", "groupings"), [c[1:] for c in TOGETHER], ids=[c[0] for c in TOGETHER])
def test_batches_are_grouped_together(columns, groupings, grouped_rows):
    made = rows((0,), [Part("sum", 1, pa.int64())], *(batch(column, column) for column in columns))
    assert groupings == len(grouped_rows)
    values, counts = np.unique(np.concatenate(columns), return_counts=True)
    totals = dict.fromkeys(values.tolist(), 0)
    for row in made:
        totals[row["k0"]] += row["a0"]
    assert {value: value * count for value, count in zip(values.tolist(), counts.tolist(), strict=True)} == totals


def sized(*sizes):
    return [batch(pa.array(np.arange(size) % 5)) for size in sizes]


LIMITED = [
    ("bytes of partial values", "_MOST_TOGETHER_NBYTES", 2 * 32 * 20_000, sized(*[20_000] * 6), [20_000, 40_000, 40_000, 20_000]),
    ("bytes of batches", "_MOST_TOGETHER_NBYTES", 2 * 32 * 20_000, [each.append_column("s", pa.array(["x" * 50] * 20_000)) for each in sized(*[20_000] * 3)], [20_000] * 3),
    ("batches", "_MOST_TOGETHER", 3, sized(*[10] * 7), [30, 30, 10]),
    ("rows before grouping is known to pay", "_LEAST_MERGED_ROWS", 20, sized(*[10] * 7), [20, 20, 30]),
    ("rows", "_MOST_TOGETHER_ROWS", 50_000, sized(*[20_000] * 7), [20_000, 40_000, 40_000, 40_000]),
]  # fmt: skip


@pytest.mark.parametrize(("limit", "most", "batches", "wanted"), [c[1:] for c in LIMITED], ids=[c[0] for c in LIMITED])
def test_batches_are_grouped_together_up_to_a_limit(limit, most, batches, wanted, grouped_rows, monkeypatch):
    monkeypatch.setattr(partial_aggregates, limit, most)
    rows((0,), [Part("count", 0)], *batches)
    assert wanted == grouped_rows


def test_large_batches_without_keys_are_aggregated_one_by_one(grouped_rows):
    rows((), [Part("count", 0)], *sized(*[20_000] * 4, 10, 10))
    assert [20_000] * 4 + [20] == grouped_rows


def test_a_small_batch_of_known_keys_repeats_them():
    """Of 9,500 keys, 90 % of the rows, all are among those of the batches before."""
    many, few = np.arange(100_000) % 60_000, np.arange(10_000) % 9_500
    made = list(PartialAggregates((0,), (Part("count_all", None),))([batch(pa.array(many)), batch(pa.array(few))]))
    assert 60_000 == sum(each.num_rows for each in made)


def test_sums_of_large_and_of_small_numbers_are_of_two_types_and_agree():
    columns = [pa.array([value] * 4) for value in (1, 2**62, 2, 2**62, 3)]
    (row,) = rows((), [SUM], *map(batch, columns))
    assert 4 * (1 + 2 + 3) + 8 * 2**62 == row["a0"]


DRAWN = np.random.default_rng(0).integers(0, 120_000, (12, 65_536))
REPEATED = [
    ("many in a batch that the next ones have, too", [np.arange(65536) % 10_000] * 12, 10_000),
    ("as many as the rows of two batches", list(DRAWN), len(np.unique(DRAWN))),
    ("a batch each, in order", [np.arange(65536) // 4 + 16_384 * i for i in range(6)], 6 * 16_384),
    ("one each", [np.arange(65536) + 65_536 * i for i in range(4)], 4 * 65_536),
    ("one each, but in the first batch", [np.arange(65536) % 50, *(np.arange(65536) + 65_536 * i for i in (1, 2))], 50 + 2 * 65_536),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("keys", "wanted"), [c[1:] for c in REPEATED], ids=[c[0] for c in REPEATED])
def test_groups_of_few_rows_are_made_where_batches_repeat_them(keys, wanted):
    batches = [batch(pa.array(each), pa.array(np.full(len(each), 3))) for each in keys]
    made = pa.Table.from_batches(
        PartialAggregates((0,), (Part("count_all", None), Part("sum", 1, pa.int64())))(batches)
    )
    assert wanted == made.num_rows
    total = made.group_by("k0").aggregate([("a0", "sum"), ("a1", "sum")]).sort_by("k0")
    values, counts = np.unique(np.concatenate(keys), return_counts=True)
    assert values.tolist() == total["k0"].to_pylist()
    assert counts.tolist() == total["a0_sum"].to_pylist()
    assert (3 * counts).tolist() == total["a1_sum"].to_pylist()


@pytest.mark.slow
def test_a_task_that_gave_up_grouping_looks_again():
    """The first two batches have keys of their own, all others the same nine."""
    size = partial_aggregates._LEAST_MERGED_ROWS
    numbers = np.arange(100 * size)
    keys = np.where(numbers < 2 * size, numbers, numbers % 9)
    batches = [
        batch(pa.array(keys[start : start + size]), pa.array(numbers[start : start + size]))
        for start in range(0, len(keys), size)
    ]
    made = pa.Table.from_batches(list(PartialAggregates((0,), (Part("sum", 1),))(iter(batches))))
    assert 2 * size < made.num_rows < 40 * size
    whole = pa.table({"k0": keys, "a0": numbers}).group_by("k0").aggregate([("a0", "sum")]).sort_by("k0")
    again = made.group_by("k0").aggregate([("a0", "sum")]).sort_by("k0")
    assert whole["k0"].equals(again["k0"])
    assert whole["a0_sum"].to_pylist() == [int(value) for value in again["a0_sum"].to_pylist()]
