"""Common types of comparisons, and constants in a column's own type."""

import math

import pytest

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.predicate.coercion import (
    UTC_TIMESTAMP,
    Cut,
    common_type,
    cut,
    midnight,
    order_key,
    rescale,
    wider_decimal,
)
from spark_arrow_ipc.dataset.time_zones import zone

LOCAL = t.Timestamp(t.TimeUnit.MICROSECOND)
COMMON = [
    ("same", t.utf8, t.utf8, t.utf8),
    ("null", t.null, t.date32, t.date32),
    ("wider_int", t.int8, t.int32, t.int32),
    ("int_and_decimal", t.int32, t.Decimal(5, 2), t.Decimal(12, 2)),
    ("int_and_float", t.int64, t.float32, t.float64),
    ("string_and_int", t.utf8, t.int8, t.int64),
    ("string_and_date", t.utf8, t.date32, t.date32),
    ("date_and_timestamp", t.date32, UTC_TIMESTAMP, UTC_TIMESTAMP),
    ("timestamps", LOCAL, UTC_TIMESTAMP, UTC_TIMESTAMP),
    ("bool_and_int", t.bool_, t.int32, None),
    ("date_and_int", t.date32, t.int32, None),
]


@pytest.mark.parametrize(("left", "right", "expected"), [pytest.param(*case[1:], id=case[0]) for case in COMMON])
def test_the_common_type_is_the_same_from_both_sides(left, right, expected):
    assert expected == common_type(left, right) == common_type(right, left)


def test_integral_digits_come_first_in_a_decimal_that_is_too_wide():
    assert t.Decimal(38, 37) == wider_decimal(t.Decimal(38, 38), t.Decimal(1, 0))
    assert t.Decimal(38, 0) == wider_decimal(t.Decimal(38, 38), t.Decimal(38, 0))


CUTS = [
    ("exact", t.int32, t.int32, 5, Cut(5, 6)),
    ("between_values", t.int32, t.float64, 1.5, Cut(2, 2)),
    ("lossy", t.int64, t.float64, 2.0**53, Cut(2**53, 2**53 + 2)),
    ("below_all", t.int8, t.int32, -1000, Cut(-128, -128, is_least=True)),
    ("above_all", t.int8, t.int32, 1000, Cut(None, None)),
    ("rounded", t.Decimal(5, 2), t.Decimal(5, 1), 10, Cut(95, 105)),
    ("string", t.utf8, t.utf8, b"a", Cut(b"a", b"a\0")),
    ("infinity", t.float64, t.float64, math.inf, Cut(math.inf, math.nan)),
    ("timestamp_ntz_as_an_instant", LOCAL, UTC_TIMESTAMP, 0, None),
]


@pytest.mark.parametrize(("column", "common", "constant", "expected"), [pytest.param(*case[1:], id=case[0]) for case in CUTS])  # fmt: skip
def test_the_place_of_a_constant(column, common, constant, expected):
    assert repr(expected) == repr(cut(column, common, constant))


def test_nan_is_the_largest_and_zeros_are_equal():
    assert order_key(math.inf) < order_key(math.nan) == order_key(-math.nan)
    assert order_key(-0.0) == order_key(0.0)


@pytest.mark.parametrize(("value", "to_scale", "expected"), [(15, 0, 2), (-15, 0, -2), (14, 0, 1), (1, 3, 100)])
def test_decimals_round_half_up(value, to_scale, expected):
    assert expected == rescale(value, 1, to_scale)


def test_midnight_of_a_day_without_one_is_the_jump():
    # Clocks went from 0:00 to 1:00 in Sao Paulo on 4 November 2018 (day 17839), at 3:00 UTC.
    assert (17839 * 24 + 3) * 3_600_000_000 == midnight(17839, zone("America/Sao_Paulo"))
