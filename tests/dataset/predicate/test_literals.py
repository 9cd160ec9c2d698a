"""Values of literals, and their casts to the type of a comparison."""

import math

import pytest

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.predicate.coercion import UTC_TIMESTAMP
from spark_arrow_ipc.dataset.predicate.expressions import Literal, TimestampLiteral
from spark_arrow_ipc.dataset.predicate.literals import cast, number, timestamp
from spark_arrow_ipc.dataset.time_zones import zone
from spark_arrow_ipc.errors import OptionError

LOCAL = t.Timestamp(t.TimeUnit.MICROSECOND)
CASTS = [
    ("int", " +12\n", t.int64, 12),
    ("double", "1e3", t.float64, 1000.0),
    ("infinity", "-Infinity", t.float64, -math.inf),
    ("decimal_rounds_half_up", "1.005", t.Decimal(5, 2), 101),
    ("boolean", " Yes ", t.bool_, 1),
    ("date", "1970-01-02 12:00", t.date32, 1),
    ("timestamp", "1970-01-01 01:00:00+01:00", UTC_TIMESTAMP, 0),
    ("timestamp_ntz", "1970-01-01 00:00:01", LOCAL, 1_000_000),
]


@pytest.mark.parametrize(("string", "type_", "expected"), [pytest.param(*case[1:], id=case[0]) for case in CASTS])
def test_a_string_is_cast_as_spark_casts_it(string, type_, expected):
    assert expected == cast(Literal(t.utf8, string.encode(), repr(string)), type_, None)


REFUSED = [("1.5", t.int64), ("", t.int64), ("9" * 5000, t.int64), ("0x1p3", t.float64), ("9" * 39, t.Decimal(38, 0)), ("maybe", t.bool_), ("today", t.date32), ("12:00", LOCAL)]  # fmt: skip


@pytest.mark.parametrize(("string", "type_"), REFUSED)
def test_a_string_that_is_no_value_is_refused(string, type_):
    with pytest.raises(OptionError, match="a string that Spark casts to"):
        cast(Literal(t.utf8, string.encode(), repr(string)), type_, None)


def test_an_instant_needs_a_zone():
    literal = TimestampLiteral("1970-01-01 00:00:00")
    assert timestamp(literal, zone("+01:00")).value == -3_600_000_000
    with pytest.raises(OptionError, match="set the option timeZone"):
        timestamp(literal, None)


def test_whole_numbers_take_the_first_type_that_holds_them():
    types = [
        number(digits, "").type
        for digits in ("2147483647", "2147483648", "-9223372036854775808", "9223372036854775808")
    ]
    assert [t.int32, t.int64, t.int64, t.Decimal(19, 0)] == types
