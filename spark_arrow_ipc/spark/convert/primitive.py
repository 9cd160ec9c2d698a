"""Convert primitive values: dates, times, timestamps, durations and intervals, and numbers.

Spark counts microseconds in 64 bits, and days in 32. Coarser units are multiplied, and overflow is an error;
nanoseconds are divided by the rule of the option `nanoseconds`. Slots that are not visible may overflow silently.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Context
from decimal import Decimal as PyDecimal
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import types as s

from spark_arrow_ipc.arrow import array_data
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.errors import InvalidBodyError, UnsupportedError
from spark_arrow_ipc.spark import bridge
from spark_arrow_ipc.spark.convert.conversion import (
    Conversion,
    Mask,
    Numbers,
    Refusal,
    Site,
    data,
    first_seen,
    pyarrow_type,
    rebuild,
    retype,
    share,
    validity,
    visible_slots,
)
from spark_arrow_ipc.spark.options.values import Nanoseconds
from spark_arrow_ipc.spark.types.arrow_to_spark import normal_decimal

_MILLISECONDS_A_DAY = 86_400_000
_SECONDS_A_DAY = 86_400
_INT64_MAX = 2**63 - 1
_INT32_MAX = 2**31 - 1
_NANOSECONDS_A_MICROSECOND = 1000
_NANOSECOND_DIGITS = 9
_FIELD_MICROSECONDS = (86_400_000_000, 3_600_000_000, 60_000_000, 1)
"""By the last field of an interval (day, hour, minute, second): the unit of its values."""

_DROPS_TIME = "read it with nanoseconds=floor, which drops it: restoreTypes then refuses the column"
_DROPS_TIME_KEPT = "rewrite with nanoseconds=floor and without restoreTypes drops it"
_ROUNDS = "read it with nanoseconds=floor or nanoseconds=long"
_ROUNDS_KEPT = "read it with nanoseconds=long, or leave restoreTypes out and give nanoseconds=floor"
"""Next steps in errors, for a read and for a rewrite that keeps types, which refuses ``nanoseconds=floor``."""

Scale = Callable[[Array, Numbers, Mask], Numbers]
"""Converts an array's raw numbers to Spark's unit; raises if a visible one does not fit."""


def date(type_: t.Date, natural: s.DataType, site: Site) -> Conversion:
    """Compile the conversion of dates; milliseconds become days by the rule of the option `nanoseconds`."""
    to = pyarrow_type(natural, site.path)
    if type_.unit is t.DateUnit.DAY:
        return share(to)

    def convert(array: Array, live: Mask) -> pa.Array:
        values = data(array, np.int64)
        days = np.floor_divide(values, _MILLISECONDS_A_DAY)
        if site.options.nanoseconds is not Nanoseconds.FLOOR:
            i = first_seen(days * _MILLISECONDS_A_DAY != values, array, live)
            if i is not None:
                raise UnsupportedError(
                    f"expected whole days (nanoseconds={site.options.nanoseconds.value}), found {values[i]} ms, which has a "
                    f"time of day; {_DROPS_TIME_KEPT if site.options.is_exact else _DROPS_TIME}",
                    field_path=site.path,
                )
        i = first_seen((days > _INT32_MAX) | (days < -_INT32_MAX - 1), array, live)
        if i is not None:
            raise _beyond(f"day {days[i]} since 1970", "32 bits of days", site.path)
        return rebuild(to, array, days.astype(np.int32))

    # Rounding down keeps the order of values, so their extremes tell whether a day does not fit.
    is_floored = site.options.nanoseconds is Nanoseconds.FLOOR
    return Conversion(convert, checks=True, refusal=Refusal.OUTSIDE if is_floored else Refusal.UNKNOWN)


def time(type_: t.Time, natural: s.DataType, site: Site) -> Conversion:
    """Compile the conversion of times of day to an interval, Spark's TIME or the raw count."""
    to = pyarrow_type(natural, site.path)
    raw = np.dtype(f"i{type_.bit_width // 8}")
    if isinstance(natural, s.LongType):
        return _plain(lambda array: rebuild(to, array, data(array, raw).astype(np.int64)))
    # Seconds and milliseconds have 32 bits, which always fit.
    refusal = _refusal(type_.unit, site) if type_.bit_width == 64 else Refusal.NONE
    if isinstance(natural, s.DayTimeIntervalType):
        return _scale_values(to, raw, _to_microseconds(type_.unit, site), refusal)
    per_day = _SECONDS_A_DAY * type_.unit.per_second
    factor = np.int64(10**9 // type_.unit.per_second)
    # Before Spark 4.3 TIME has 6 digits, so nanoseconds are rounded to microseconds and counted in nanoseconds again.
    divisor = np.int64(1 if natural.precision == 3 * type_.unit else _NANOSECONDS_A_MICROSECOND)

    def nanoseconds(array: Array, values: Numbers, live: Mask) -> Numbers:
        outside = (values < 0) | (values >= per_day)
        i = first_seen(outside, array, live)
        if i is not None:
            raise UnsupportedError(
                f"expected a time of day for Spark's TIME, found {values[i]} {type_.unit.abbreviation}; "
                "read it with times=interval or times=long",
                field_path=site.path,
            )
        if outside.any():
            values = np.where(outside, 0, values)  # hidden slots
        if divisor > 1:
            return _floor_nanoseconds(array, values, live, site) * divisor
        return values if factor == 1 else values * factor

    return _scale_values(to, raw, nanoseconds, max(Refusal.OUTSIDE, refusal))


def is_finer_or_coarser(natural: s.DataType, target: s.DataType) -> bool:
    """Return whether two types are both intervals of days to seconds, or both times of day."""
    return type(natural) is type(target) and isinstance(target, s.DayTimeIntervalType | s.TimeType)


def check_steps(conversion: Conversion, target: s.DayTimeIntervalType | s.TimeType, path: str) -> Conversion:
    """Return a conversion that refuses values between the steps of `target`, as half an hour for ``interval hour``."""
    if isinstance(target, s.TimeType):
        unit = 10 ** (_NANOSECOND_DIGITS - target.precision)
    else:
        unit = _FIELD_MICROSECONDS[target.endField]
    if unit == 1:
        return conversion

    def convert(array: Array, live: Mask) -> pa.Array:
        converted = conversion.convert(array, live)
        # numpy, because a task without a predicate does not import pyarrow's kernels.
        counts = bridge.view_values(converted, np.dtype(np.int64))
        slot = first_seen(counts % unit != 0, array, live)
        if slot is not None:
            raise UnsupportedError(
                f"the type of this column is {target.simpleString()}, and slot {slot:,} has {counts[slot]} {converted.type.unit}, "
                "which is not one of its values; if the file notes the type, another program has changed the values: ask for "
                "another type with .schema(...)",
                field_path=path,
            )
        return converted

    return Conversion(convert, checks=True)


def timestamp(type_: t.Timestamp, natural: s.DataType, site: Site) -> Conversion:
    """Compile the conversion of timestamps, whose counts are in UTC if they have a zone."""
    to = pyarrow_type(natural, site.path)
    if isinstance(natural, s.LongType) or type_.unit is t.TimeUnit.MICROSECOND:
        return share(to)
    return _scale_values(to, np.dtype(np.int64), _to_microseconds(type_.unit, site), _refusal(type_.unit, site))


def duration(type_: t.Duration, natural: s.DataType, site: Site) -> Conversion:
    """Compile the conversion of durations."""
    to = pyarrow_type(natural, site.path)
    if isinstance(natural, s.LongType) or type_.unit is t.TimeUnit.MICROSECOND:
        return share(to)
    return _scale_values(to, np.dtype(np.int64), _to_microseconds(type_.unit, site), _refusal(type_.unit, site))


def year_month(_type: t.IntervalYearMonth, natural: s.DataType, site: Site) -> Conversion:
    """Compile the conversion of months to integers, which copies nothing."""
    return share(pyarrow_type(natural, site.path))


def day_time(_type: t.IntervalDayTime, natural: s.DataType, site: Site) -> Conversion:
    """Compile the conversion of days and milliseconds to a struct."""
    layout = np.dtype([("days", np.int32), ("milliseconds", np.int32)])
    return _split(natural, layout, site)


def month_day_nano(_type: t.IntervalMonthDayNano, natural: s.DataType, site: Site) -> Conversion:
    """Compile the conversion of months, days and nanoseconds to a struct."""
    layout = np.dtype([("months", np.int32), ("days", np.int32), ("nanoseconds", np.int64)])
    return _split(natural, layout, site)


def days_to_microseconds(days: pa.Array, to: pa.DataType, path: str) -> pa.Array:
    """Return the midnights of dates, for a date that widens to timestamp_ntz."""
    numbers = days.view(pa.int32()).cast(pa.int64())
    largest = _INT64_MAX // (_SECONDS_A_DAY * 10**6)
    bounds = pa.compute.min_max(numbers).as_py()
    for day in (bounds["min"], bounds["max"]):
        if day is not None and abs(day) > largest:
            raise _beyond(f"day {day} since 1970", "64 bits of microseconds", path)
    return pa.compute.multiply(numbers, _SECONDS_A_DAY * 10**6).view(to)


def _plain(convert: Callable[[Array], pa.Array]) -> Conversion:
    """Return a conversion that accepts every value."""
    return Conversion(lambda array, _live: convert(array), refusal=Refusal.NONE)


def _refusal(unit: t.TimeUnit, site: Site) -> Refusal:
    """Return what `_to_microseconds` refuses."""
    if unit is t.TimeUnit.NANOSECOND:
        return Refusal.UNKNOWN if site.options.nanoseconds is Nanoseconds.ERROR else Refusal.NONE
    return Refusal.NONE if unit is t.TimeUnit.MICROSECOND else Refusal.OUTSIDE


def _scale_values(to: pa.DataType, raw: np.dtype[np.signedinteger], scale: Scale, refusal: Refusal) -> Conversion:
    def convert(array: Array, live: Mask) -> pa.Array:
        values = data(array, raw).astype(np.int64, copy=False)
        scaled = scale(array, values, live)
        return retype(to, array) if scaled is values and raw.itemsize == 8 else rebuild(to, array, scaled)

    return Conversion(convert, checks=True, refusal=refusal)


def _to_microseconds(unit: t.TimeUnit, site: Site) -> Scale:
    if unit is t.TimeUnit.NANOSECOND:
        return lambda array, values, live: _floor_nanoseconds(array, values, live, site)
    factor = 10**6 // unit.per_second
    if factor == 1:
        return lambda _array, values, _live: values

    def multiply(array: Array, values: Numbers, live: Mask) -> Numbers:
        largest = _INT64_MAX // factor
        if len(values) and (values.max() > largest or values.min() < -largest):
            i = first_seen((values > largest) | (values < -largest), array, live)
            if i is not None:
                raise _beyond(f"{values[i]} {unit.abbreviation}", "64 bits of microseconds", site.path)
        return values * np.int64(factor)

    return multiply


def _floor_nanoseconds(array: Array, values: Numbers, live: Mask, site: Site) -> Numbers:
    floored = np.floor_divide(values, _NANOSECONDS_A_MICROSECOND)
    if site.options.nanoseconds is Nanoseconds.ERROR:
        i = first_seen(floored * _NANOSECONDS_A_MICROSECOND != values, array, live)
        if i is not None:
            raise UnsupportedError(
                f"expected whole microseconds (nanoseconds=error), found {values[i]} ns; "
                f"{_ROUNDS_KEPT if site.options.is_exact else _ROUNDS}",
                field_path=site.path,
            )
    return floored


def _split(target: s.DataType, layout: np.dtype[np.void], site: Site) -> Conversion:
    """Compile the conversion of packed integers to a struct of the requested ones."""
    assert isinstance(target, s.StructType)
    to, names = pyarrow_type(target, site.path), target.names

    def convert(array: Array, _live: Mask) -> pa.Array:
        packed = data(array, layout)
        # The fields are never null: only the struct has a validity bitmap.
        children = [bridge.numbers(packed[name]) for name in names]
        return pa.Array.from_buffers(to, array.length, [validity(array)], array.null_count, children=children)

    return Conversion(convert, refusal=Refusal.NONE)


def _beyond(value: str, holds: str, path: str) -> UnsupportedError:
    return UnsupportedError(
        f"expected a value that Spark holds in {holds}, found {value}; leave the column out with the option columns",
        field_path=path,
    )


# Convert numbers: widen integers and floats, decimals to 128 bits.
#
# Decimals are copied as 64-bit words, least significant first; only decimals of more than 38 digits become Python objects,
# for strings. Spark does not check that a decimal has at most the digits of its type, and fails much later if it has
# more; so this is checked here: by the extremes of a batch, and with two comparisons of words for each value if these do
# not tell (0.06 and 0.27 ms for 65,536 values).
_WORD = 1 << 64


def integer(type_: t.Int, natural: s.DataType, site: Site) -> Conversion:
    """Compile the conversion of integers, of which unsigned ones are widened."""
    to = pyarrow_type(natural, site.path)
    if type_.signed:
        return share(to)
    dtype = np.dtype(f"u{type_.bit_width // 8}")
    if type_.bit_width == 64:
        # Spark has no unsigned type, so these are decimals: a word of zeros after each value.
        return _plain(lambda array: rebuild(to, array, np.pad(data(array, dtype)[:, None], ((0, 0), (0, 1)))))
    wider = np.dtype(f"i{type_.bit_width // 4}")
    return _plain(lambda array: rebuild(to, array, data(array, dtype).astype(wider)))


def floating_point(type_: t.FloatingPoint, natural: s.DataType, site: Site) -> Conversion:
    """Compile the conversion of floats, of which half precision is widened."""
    to = pyarrow_type(natural, site.path)
    if type_.precision is not t.Precision.HALF:
        return share(to)
    return _plain(lambda array: rebuild(to, array, data(array, np.float16).astype(np.float32)))


def decimal(type_: t.Decimal, natural: s.DataType, site: Site) -> Conversion:
    """Compile the conversion of decimals of any width."""
    normal = normal_decimal(type_)
    if normal is None:
        return _plain(lambda array: _decimal_strings(array, type_))
    to = pyarrow_type(natural, site.path)
    # A cast to the wider scale multiplies, so the words first get the type that they have in the file.
    unscaled = pa.decimal128(min(type_.precision, 38), min(type_.scale, 38))

    def convert(array: Array, live: Mask) -> pa.Array:
        words, dead = _check_words(array, type_, live, site.path)
        if type_.bit_width == 128 and dead is None:
            if type_.scale >= 0:
                return retype(to, array)
        elif dead is not None:
            words = np.where(dead[:, None], np.uint64(0), words)  # Spark would fail on their digits
        if type_.scale >= 0:
            return rebuild(to, array, np.ascontiguousarray(words))
        return rebuild(unscaled, array, np.ascontiguousarray(words)).cast(to)

    return Conversion(convert, checks=True, refusal=Refusal.OUTSIDE)


def _words_of_signed(values: Numbers) -> Numbers:
    """Return int64 values as 128-bit words, of shape ``(length, 2)``."""
    words = np.empty((len(values), 2), np.int64)
    words[:, 0] = values
    np.right_shift(words[:, 0], 63, out=words[:, 1])  # the sign: all zeros or all ones
    return words.view(np.uint64)


def _check_words(array: Array, type_: t.Decimal, live: Mask, path: str) -> tuple[Numbers, Numbers | None]:
    """Return decimals as 128-bit words, and the mask of hidden slots with too many digits."""
    words, bad = _WORDS[type_.bit_width](array, type_.precision)
    if bad is None or not bad.any():
        return words, None
    i = first_seen(bad, array, live)
    if i is not None:
        width = type_.bit_width // 8
        buffer = array.buffers[1]
        assert buffer is not None
        start = (array.offset + i) * width
        value = int.from_bytes(buffer[start : start + width], "little", signed=True)
        raise InvalidBodyError(
            expected=f"decimals of at most {type_.precision} digits ({type_})",
            found=f"the unscaled value {value} in slot {i}",
            field_path=path,
            spec='Schema.fbs "Decimal"',
        )
    return words, bad


def _small(values: Numbers, precision: int) -> tuple[Numbers, Numbers]:
    bound = 10**precision
    return _words_of_signed(values), (values >= bound) | (values <= -bound)


def _large(array: Array, precision: int) -> tuple[Numbers, Numbers | None]:
    assert isinstance(array.type, t.Decimal)
    words = _words(array, array.type.bit_width // 64)
    if words.shape[1] == 2 and _are_short(words, precision):
        return words, None
    bad = _too_long(words, precision)
    if words.shape[1] > 2:
        # A value fits in 128 bits if the upper words only repeat the sign.
        sign = (words[:, 1].view(np.int64) >> 63).view(np.uint64)
        bad |= (words[:, 2:] != sign[:, None]).any(axis=1)
    return words[:, :2], bad


_WORDS: Mapping[int, Callable[[Array, int], tuple[Numbers, Numbers | None]]] = {
    32: lambda array, precision: _small(data(array, np.int32).astype(np.int64), precision),
    64: lambda array, precision: _small(data(array, np.int64), precision),
    128: _large,
    256: _large,
}
"""By bit width: returns the 128-bit words of slots, and the mask of those with too many digits, or None if none has."""


def _words(array: Array, number: int) -> Numbers:
    """Return a view of slots as 64-bit words, lowest first, of shape ``(length, number)``."""
    words = array_data.view_as(array.buffers[1], np.uint64, array.offset * number, array.length * number)
    rows: Numbers = words.reshape(-1, number)
    return rows


def _are_short(words: Numbers, precision: int) -> bool:
    """Return True if the extremes of 128-bit values tell that each has at most `precision` digits."""
    if len(words) == 0:
        return True
    low, high = words[:, 0].view(np.int64), words[:, 1].view(np.int64)
    if precision > t.MAX_DECIMAL_PRECISION[64]:
        bound = 10**precision // _WORD
        return bool(high.max() < bound and high.min() >= -bound)
    bound, least = 10**precision, low.min()
    if least <= -bound or low.max() >= bound:
        return False
    # The upper words repeat the sign of the lower ones.
    return not (high.any() if least >= 0 else (high != low >> 63).any())


def _too_long(words: Numbers, precision: int) -> Numbers:
    """Return the mask of 128-bit values of more than `precision` digits."""
    if len(words) == 0:
        return np.zeros(0, np.bool_)
    low, high = words[:, 0], words[:, 1].view(np.int64)
    bound_high, bound_low = divmod(10**precision, _WORD)
    least_high, least_low = divmod(1 - 10**precision, _WORD)
    too_large = high > bound_high
    too_large |= (high == bound_high) & (low >= np.uint64(bound_low))
    too_small = high < least_high
    too_small |= (high == least_high) & (low < np.uint64(least_low))
    beyond: Numbers = too_large | too_small
    return beyond


def _decimal_strings(array: Array, type_: t.Decimal) -> pa.Array:
    """Return decimals as exact strings without an exponent. Costs a Python call a value."""
    width = type_.bit_width // 8
    buffer = array.buffers[1]
    assert buffer is not None
    mask = visible_slots(array, None)
    exact = Context(prec=400)
    strings: list[Any] = [None] * array.length
    for i in range(array.length) if mask is None else np.flatnonzero(mask):
        start = (array.offset + int(i)) * width
        value = int.from_bytes(buffer[start : start + width], "little", signed=True)
        strings[i] = f"{PyDecimal(value).scaleb(-type_.scale, exact):f}"
    return bridge.array(strings, pa.string())
