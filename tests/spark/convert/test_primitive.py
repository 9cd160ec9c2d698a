"""Units of time by options, and values beyond Spark's range."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
from convert_batches import DAY, DEFAULT, MS, NS, S, converted, ints, option

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.errors import UnsupportedError
from spark_arrow_ipc.spark.options.values import Nanoseconds, Times
from spark_arrow_ipc.spark.types import arrow_to_spark

BY_OPTIONS = {
    "time s as time": (pa.array([1, None], pa.time32("s")), option(times=Times.TIME), [dt.time(0, 0, 1), None]),
    "time us as time": (pa.array([1], pa.time64("us")), option(times=Times.TIME), [dt.time(0, 0, 0, 1)]),
    "time as long": (pa.array([1, None], pa.time32("ms")), option(times=Times.LONG), [1, None]),
    "time ns as long": (pa.array([1999], pa.time64("ns")), option(nanoseconds=Nanoseconds.LONG), [1999]),
    "timestamp ns as long": (pa.array([-1999, None], pa.timestamp("ns")), option(nanoseconds=Nanoseconds.LONG), [-1999, None]),
    "timestamp ns that is whole": (pa.array([-1000, None], pa.timestamp("ns")), option(nanoseconds=Nanoseconds.ERROR), [dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), None]),
    "the day of an instant": (pa.array([86_400_001, -1, None], pa.int64()).view(pa.date64()), DEFAULT, [dt.date(1970, 1, 2), dt.date(1969, 12, 31), None]),
    "whole days": (pa.array([86_400_000, None], pa.int64()).view(pa.date64()), option(nanoseconds=Nanoseconds.ERROR), [dt.date(1970, 1, 2), None]),
    "duration ns as long": (pa.array([1], pa.duration("ns")), option(nanoseconds=Nanoseconds.LONG), [1]),
}  # fmt: skip


@pytest.mark.parametrize("case", BY_OPTIONS)
def test_values_by_options(case):
    array, options, expected = BY_OPTIONS[case]
    made = converted(array, options)
    assert expected == made.to_pylist()


def test_nanoseconds_of_a_time():
    """TIME holds nanoseconds from Spark 4.3 on, microseconds before."""
    made = converted(pa.array([1999], pa.time64("ns")), option(times=Times.TIME))
    assert [1999 if arrow_to_spark.NANOSECOND_TIME_PRECISION == 9 else 1000] == made.view(pa.int64()).to_pylist()


DAY_NS = DAY * 10**9
VALUE_ERRORS = {
    "day": (ints(t.date64, 2**62), DEFAULT, UnsupportedError, "expected a value that Spark holds in 32 bits of days, found day"),
    "timestamp": (ints(t.Timestamp(S), 2**63 // 10**6 + 1), DEFAULT, UnsupportedError, "64 bits of microseconds, found 9223372036855 s"),
    "timestamp before": (ints(t.Timestamp(MS), 0, -(2**62)), DEFAULT, UnsupportedError, f"found {-(2**62)} ms"),
    "duration": (ints(t.Duration(S), 2**62), DEFAULT, UnsupportedError, "64 bits of microseconds"),
    "nanoseconds": (pa.array([1000, 1001], pa.timestamp("ns")), option(nanoseconds=Nanoseconds.ERROR), UnsupportedError, "expected whole microseconds (nanoseconds=error), found 1001 ns"),
    **{f"a time of day in a date, nanoseconds={how}": (ints(t.date64, DAY * 1000, -1), option(nanoseconds=how), UnsupportedError, f"expected whole days (nanoseconds={how}), found -1 ms, which has a time of day; read it with nanoseconds=floor, which drops it: restoreTypes then refuses the column") for how in (Nanoseconds.ERROR, Nanoseconds.LONG)},
    "nanoseconds of a time": (pa.array([1001], pa.time64("ns")), option(nanoseconds=Nanoseconds.ERROR), UnsupportedError, "found 1001 ns"),
    "a time of tomorrow": (ints(t.Time(S, 32), 0, DAY, dtype=np.int32), option(times=Times.TIME), UnsupportedError, "expected a time of day for Spark's TIME, found 86400 s"),
    "a time of yesterday": (ints(t.Time(NS, 64), -1), option(times=Times.TIME), UnsupportedError, "found -1 ns"),
}  # fmt: skip


@pytest.mark.parametrize("case", VALUE_ERRORS)
def test_a_value_that_spark_cannot_hold_is_a_named_error(case):
    array, options, error, expected = VALUE_ERRORS[case]
    with pytest.raises(error) as caught:
        converted(array, options)
    assert expected in str(caught.value)
