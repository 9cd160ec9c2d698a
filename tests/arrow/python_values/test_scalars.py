"""Temporal values and decimals.

Raw units where `datetime` cannot hold a time, exact counts or an error to Arrow; decimals are exact in both directions,
whatever the scale and the context of the thread.
"""

import datetime as dt
import decimal
import zoneinfo
from decimal import Decimal

import numpy as np
import pytest

from spark_arrow_ipc.arrow import Array, array_data
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.python_values import from_pylist, scalars

S, MS, US, NS = t.TimeUnit


def raw(type_, units):
    """Return an array of raw units, null last."""
    dtype = array_data.dtype_of(type_)
    data = memoryview(np.array([*units, 0], dtype).tobytes())
    valid = (1 << len(units)) - 1
    return Array(type_, len(units) + 1, 1, (memoryview(bytes([valid])), data))


_MIN, _MAX = -(2**63), 2**63 - 1
_YEAR_1 = -62_135_596_800
_YEAR_10000 = 253_402_300_800
RAW = [
    ("date32 before year 1", t.date32, [-719_163, -719_162], [-719_163, dt.date(1, 1, 1)]),
    ("date32 after 9999", t.date32, [2_932_897, 2_932_896], [2_932_897, dt.date(9999, 12, 31)]),
    ("date32 extremes", t.date32, [-(2**31), 2**31 - 1], [-(2**31), 2**31 - 1]),
    ("date64 time of day", t.date64, [86_400_005, -1], [dt.date(1970, 1, 2), dt.date(1969, 12, 31)]),
    ("date64 extremes", t.date64, [_MIN, _MAX], [_MIN, _MAX]),
    ("time outside the day", t.Time(S, 32), [86_400, -1, 86_399], [86_400, -1, dt.time(23, 59, 59)]),
    ("time ns", t.Time(NS, 64), [1_001, 2_000], [1_001, dt.time(0, 0, 0, 2)]),
    ("time us extremes", t.Time(US, 64), [_MIN, _MAX], [_MIN, _MAX]),
    ("timestamp s range", t.Timestamp(S), [_YEAR_1 - 1, _YEAR_1], [_YEAR_1 - 1, dt.datetime(1, 1, 1)]),
    ("timestamp s end", t.Timestamp(S), [_YEAR_10000], [_YEAR_10000]),
    ("timestamp ms extremes", t.Timestamp(MS), [_MIN, _MAX], [_MIN, _MAX]),
    ("timestamp us extremes", t.Timestamp(US), [_MIN, _MAX], [_MIN, _MAX]),
    ("timestamp ns", t.Timestamp(NS), [1, -1_000, _MIN], [1, dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), _MIN]),
    ("zone beyond year 1", t.Timestamp(S, "-05:00"), [_YEAR_1], [_YEAR_1]),
    ("duration s extremes", t.Duration(S), [_MIN, _MAX], [_MIN, _MAX]),
    ("duration us extremes", t.Duration(US), [_MIN, _MAX], [dt.timedelta(microseconds=_MIN), dt.timedelta(microseconds=_MAX)]),
    ("duration ns", t.Duration(NS), [1, -1_000], [1, dt.timedelta(microseconds=-1)]),
    ("duration limits", t.Duration(S), [-86_400 * 999_999_999, 86_400 * 10**9 - 1, 86_400 * 10**9],
     [dt.timedelta.min, dt.timedelta(days=999_999_999, seconds=86_399), 86_400 * 10**9]),
    ("months", t.IntervalYearMonth(), [14, -1], [14, -1]),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "units", "expected"), [case[1:] for case in RAW], ids=[case[0] for case in RAW])
def test_raw_units_where_datetime_cannot_hold_the_value(type_, units, expected):
    array = raw(type_, units)
    assert [*expected, None] == array.to_pylist()
    assert [type(value) for value in expected] == [type(value) for value in array.to_pylist()[:-1]]


ZONES = [
    ("UTC", zoneinfo.ZoneInfo("UTC")),
    ("Asia/Kolkata", zoneinfo.ZoneInfo("Asia/Kolkata")),
    ("+05:30", dt.timezone(dt.timedelta(hours=5, minutes=30))),
    ("-0330", dt.timezone(-dt.timedelta(hours=3, minutes=30))),
    ("+02", dt.timezone(dt.timedelta(hours=2))),
    ("+99:00", dt.UTC),
    ("Nowhere/Atlantis", dt.UTC),
    ("../../etc/passwd", dt.UTC),
    ("America", dt.UTC),
    ("a\0b", dt.UTC),
]


@pytest.mark.parametrize(("name", "zone"), ZONES)
def test_time_zone_of_any_name_keeps_the_instant(name, zone):
    """The instant is what the file holds; no name from a file may raise."""
    (value, _) = raw(t.Timestamp(S, name), [1_600_000_000]).to_pylist()
    assert dt.datetime.fromtimestamp(1_600_000_000, zone) == value
    assert zone == value.tzinfo


ROUND_TRIPS = [
    (t.Timestamp(NS), [1, None, dt.datetime(2020, 1, 1), -(2**63)]),
    (t.Timestamp(S), [2**62, None]),
    (t.Time(NS, 64), [1, None, dt.time(1)]),
    (t.date32, [-(2**31), None]),
    (t.Decimal(2, 5), [Decimal("0.00012"), None]),
]


@pytest.mark.parametrize(("type_", "values"), ROUND_TRIPS, ids=[str(case[0]) for case in ROUND_TRIPS])
def test_what_pyarrow_cannot_build_comes_back(type_, values):
    array = from_pylist.array(values, type_)
    assert values == array.to_pylist()
    assert sum(value is None for value in values) == array.null_count


ACCEPTED = [
    ("midnight", t.date32, [dt.datetime(2020, 1, 1)], [dt.date(2020, 1, 1)]),
    ("date64 ms", t.date64, [86_400_001], [dt.date(1970, 1, 2)]),
    ("aware without zone", t.Timestamp(S), [dt.datetime(2020, 1, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=2)))],
     [dt.datetime(2020, 1, 1)]),
    ("naive with zone", t.Timestamp(S, "UTC"), [dt.datetime(2020, 1, 1)], [dt.datetime(2020, 1, 1, tzinfo=dt.UTC)]),
    ("int in decimal", t.Decimal(5, 2), [3, np.int8(4)], [Decimal("3.00"), Decimal("4.00")]),
    ("zeros after the scale", t.Decimal(5, 2), [Decimal("3.00000")], [Decimal("3.00")]),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "values", "expected"), [c[1:] for c in ACCEPTED], ids=[c[0] for c in ACCEPTED])
def test_other_python_types_are_taken(type_, values, expected):
    assert repr(expected) == repr([_fixed_zone(value) for value in from_pylist.array(values, type_).to_pylist()])


def _fixed_zone(value):
    return value.replace(tzinfo=dt.UTC) if isinstance(value, dt.datetime) and value.tzinfo else value


REFUSED = [
    (t.date32, [dt.datetime(2020, 1, 1, 1)], ValueError, "midnight"),
    (t.date32, [dt.time(1)], TypeError, "a date or an int"),
    (t.date32, [True], TypeError, "a date or an int"),
    (t.Time(S, 32), [dt.time(0, 0, 0, 5)], ValueError, "whole s"),
    (t.Timestamp(S), [dt.date(2020, 1, 1)], TypeError, "a datetime or an int"),
    (t.Timestamp(MS), [dt.datetime(2020, 1, 1, 0, 0, 0, 5)], ValueError, "whole ms"),
    (t.Timestamp(NS), [dt.datetime(9999, 1, 1)], ValueError, "9,223,372,036,854,775,807"),
    (t.Duration(S), [dt.timedelta(microseconds=1)], ValueError, "whole s"),
    (t.Decimal(5, 1), [Decimal("1.25")], ValueError, "at most 1 decimals"),
    (t.Decimal(5, 1), [Decimal("1E-999999999")], ValueError, "at most 1 decimals"),
    (t.Decimal(5, 1), [Decimal(12345)], ValueError, "at most 5 digits"),
    (t.Decimal(5, 1), [Decimal("1E+999999999")], ValueError, "at most 5 digits"),
    (t.Decimal(5, 1), [Decimal("NaN")], ValueError, "a finite number"),
    (t.Decimal(5, 1), [1.5], TypeError, "a Decimal or an int"),
]


@pytest.mark.parametrize(
    ("type_", "values", "error", "words"), REFUSED, ids=[f"{case[0]} {case[3]}" for case in REFUSED]
)
def test_what_does_not_fit_is_refused_in_words(type_, values, error, words):
    with pytest.raises(error) as caught:
        from_pylist.array(values, type_)
    assert words in str(caught.value)


@pytest.mark.parametrize("bit_width", [32, 64, 128, 256])
def test_the_largest_decimals_of_each_width_come_back_in_a_context_of_one_digit(bit_width):
    digits = t.MAX_DECIMAL_PRECISION[bit_width]
    type_ = t.Decimal(digits, 3, bit_width)
    values = [Decimal(f"{sign}{'9' * (digits - 3)}.999") for sign in ("", "-")] + [Decimal("0.000"), Decimal("-0.001")]
    with decimal.localcontext(prec=1):
        assert values == from_pylist.array(values, type_).to_pylist()


@pytest.mark.parametrize("bit_width", [32, 64, 128, 256])
def test_words_are_joined_with_the_sign_of_the_highest(bit_width):
    numbers = [0, 1, -1, 2 ** (bit_width - 1) - 1, -(2 ** (bit_width - 1)), 2 ** (bit_width // 2)]
    dtype = array_data.dtype_of(t.Decimal(1, 0, bit_width))
    slots = b"".join(number.to_bytes(bit_width // 8, "little", signed=True) for number in numbers)
    assert numbers == scalars.to_unscaled_ints(np.frombuffer(slots, dtype.newbyteorder("<")))


UNSCALED = [
    ("an int", 3, t.Decimal(5, 2), 300),
    ("a Decimal", Decimal("-1.25"), t.Decimal(5, 2), -125),
    ("fewer decimals than the scale", Decimal("1.2"), t.Decimal(5, 2), 120),
    ("zero of any exponent", Decimal("0E+999999"), t.Decimal(5, 2), 0),
    ("a negative scale", Decimal(1200), t.Decimal(5, -2), 12),
    ("all digits", Decimal("999.99"), t.Decimal(5, 2), 99_999),
]


@pytest.mark.parametrize(("value", "type_", "expected"), [c[1:] for c in UNSCALED], ids=[c[0] for c in UNSCALED])
def test_the_unscaled_integer_of_a_value(value, type_, expected):
    assert expected == scalars.to_unscaled_int(value, type_)
