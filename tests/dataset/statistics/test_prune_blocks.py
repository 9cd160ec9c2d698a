"""Blocks are skipped by their statistics."""

import decimal

import pytest
from statistics_cases import batch_of, gathered

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.predicate import expressions as p
from spark_arrow_ipc.dataset.predicate.bind import bind
from spark_arrow_ipc.dataset.predicate.parser import parse
from spark_arrow_ipc.dataset.statistics.prune_blocks import block_filter
from spark_arrow_ipc.dataset.statistics.read import read_statistics

NAN = float("nan")
US = t.TimeUnit.MICROSECOND


def with_span(operator):
    """Return a comparison with an interval of 1.5 s, as push-down has it; `where` has no such literals."""
    return p.Comparison(p.Operator(operator), p.Column(("a",)), p.Literal(t.Duration(US), 1_500_000, "1.5 s"))


CONVERSIONS = [
    ("uint64_as_decimal", t.uint64, (2**63,), t.Decimal(20, 0), "a = 9223372036854775808", "a < 9223372036854775808"),
    ("nanoseconds_before_1970", t.Timestamp(t.TimeUnit.NANOSECOND, "UTC"), (-1,), t.Timestamp(US, "UTC"), "a = '1969-12-31 23:59:59.999999Z'", "a >= '1970-01-01 00:00:00Z'"),
    ("nanoseconds_as_long", t.Timestamp(t.TimeUnit.NANOSECOND), (-1,), t.int64, "a = -1", "a = 0"),
    ("seconds", t.Timestamp(t.TimeUnit.SECOND), (1,), t.Timestamp(US), "a = '1970-01-01 00:00:01'", "a < '1970-01-01 00:00:01'"),
    ("date64", t.date64, (86_400_001,), t.date32, "a = '1970-01-02'", "a > '1970-01-02'"),
    ("date_as_timestamp", t.date32, (1,), t.Timestamp(US), "a = '1970-01-02'", "a > '1970-01-02'"),
    ("time_as_interval", t.Time(t.TimeUnit.MILLISECOND, 32), (1500,), t.Duration(US), with_span("="), with_span(">")),
    ("wider_decimal", t.Decimal(5, 2), (decimal.Decimal("1.5"),), t.Decimal(10, 4), "a = 1.5", "a > 1.5"),
    ("uuid", t.FixedSizeBinary(16), (bytes(15) + b"\x0f",), t.utf8, "a = '00000000-0000-0000-0000-00000000000f'", "a > '1'"),
    ("nan_is_the_largest", t.float32, (1.0, NAN), t.float32, "a > 5", "a < 1"),
    ("nan_above_numbers", t.float32, (1.0, NAN), t.float32, "a < 5", "a < 0"),
    ("only_nan", t.float64, (NAN,), t.float64, "a = 'NaN'", "a <= 'inf'"),
    ("dictionary", t.dictionary(t.int8, t.utf8), ("b",), t.utf8, "a LIKE 'b%'", "a LIKE 'c%'"),
    ("cut_text", t.utf8, ("b" * 100,), t.utf8, "a LIKE 'bbb%'", "a > 'c'"),
]  # fmt: skip


@pytest.mark.parametrize(("stored", "values", "seen", "keeps", "skips"), [pytest.param(*case[1:], id=case[0]) for case in CONVERSIONS])  # fmt: skip
def test_bounds_are_brought_to_what_spark_sees(stored, values, seen, keeps, skips):
    batch = batch_of(stored, *values)
    statistics = read_statistics((gathered([batch]),), batch.schema, 1)
    kept = [
        block_filter(bind(parse(one) if isinstance(one, str) else one, [t.field("A", seen)]), batch.schema, statistics)(
            0
        )
        for one in (keeps, skips)
    ]
    assert [True, False] == kept


def test_what_keeps_no_order_is_not_pruned():
    batch = batch_of(t.int8, -1, 0)
    statistics = read_statistics((gathered([batch]),), batch.schema, 1)
    assert block_filter(bind(parse("a"), [t.field("a", t.bool_)]), batch.schema, statistics)(0)


def test_blocks_are_skipped_one_by_one_and_by_the_path():
    batches = [batch_of(t.int32, *range(i, i + 10)) for i in range(0, 50, 10)] + [batch_of(t.int32, None)]
    statistics = read_statistics((gathered(batches),), batches[0].schema, 6)
    fields = [t.field("a", t.int32), t.field("p", t.utf8)]

    def kept(text, partition=None):
        keep = block_filter(bind(parse(text), fields), batches[0].schema, statistics, partition)
        return [i for i in range(6) if keep(i)]

    assert kept("a BETWEEN 15 AND 22") == [1, 2]
    assert kept("a IS NULL") == [5]
    assert kept("a IN (3, 47) OR a IS NULL") == [0, 4, 5]
    assert kept("NOT a < 40") == [4]
    assert kept("p = 'x' AND a < 5") == [0]
    assert kept("p = 'x' AND a < 5", {"p": "y"}) == []
