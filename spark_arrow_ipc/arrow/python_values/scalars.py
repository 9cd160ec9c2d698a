"""Convert dates, times, timestamps, durations and decimals from and to Python values.

To Python, no value raises and none is lost: a value that `datetime` cannot hold (a year outside 1 to 9999, a time
outside the day, nanoseconds between two microseconds) becomes the raw count, an `int`. To Arrow, every value is exact
or a ValueError, and an `int` is a raw count, so every value survives both ways. Decimals of 32 to 256 bits are exact.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import MAXYEAR, MINYEAR, UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.types import Date, DateUnit, Duration, Time, Timestamp, TimeUnit
from spark_arrow_ipc.errors import unfit

_Int64s = npt.NDArray[np.int64]

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - the epoch of timestamps without a zone
_EPOCH_UTC = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_ORDINAL = _EPOCH.toordinal()
_DAY_SECONDS = 86_400
_DAY_MILLISECONDS = 86_400_000
_FIRST_DAY = date(MINYEAR, 1, 1).toordinal() - _EPOCH_ORDINAL
_END_DAY = date(MAXYEAR, 12, 31).toordinal() - _EPOCH_ORDINAL + 1
_MICROSECOND = timedelta(microseconds=1)
_FIXED_OFFSET = re.compile(r"([+-])(\d\d):?(\d\d)?")


def zone(name: str) -> tzinfo:
    """Return the time zone of a name or of a fixed offset (``+05:30``); UTC for an unknown one."""
    # UTC preserves the instant, which the file holds: the zone only affects its display.
    fixed = _FIXED_OFFSET.fullmatch(name)
    if fixed is not None:
        sign, hours, minutes = fixed.groups()
        offset = timedelta(hours=int(hours), minutes=int(minutes or 0))
        # `timezone` takes less than a day
        return timezone(-offset if sign == "-" else offset) if offset < timedelta(days=1) else UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        # The name comes from a file: it may be any text, an impossible path, or a directory of the zone database.
        return UTC


def _or_raw(
    convert: Callable[[_Int64s], list[Any]], values: npt.NDArray[Any], fits: npt.NDArray[np.bool_]
) -> list[Any]:
    if fits.all():
        return convert(values)
    converted = convert(np.where(fits, values, 0))
    for i in np.flatnonzero(~fits).tolist():
        converted[i] = int(values[i])
    return converted


def dates(values: npt.NDArray[Any], type_: Date) -> list[date | int]:
    """Return dates, for a date64 its day; the raw count outside the years 1 to 9999."""
    per_day = 1 if type_.unit is DateUnit.DAY else _DAY_MILLISECONDS
    days = values // per_day  # floor division: a moment before 1970 belongs to the day before

    def convert(fitting: _Int64s) -> list[Any]:
        return list((fitting // per_day).astype("M8[D]").tolist())

    return _or_raw(convert, values, (days >= _FIRST_DAY) & (days < _END_DAY))


def times(values: npt.NDArray[Any], type_: Time) -> list[time | int]:
    """Return times of day; the raw count outside the day or between two microseconds."""
    per_second = type_.unit.per_second
    wide = values.astype(np.int64)  # the product of a fraction and 1,000,000 needs 64 bits

    def convert(fitting: _Int64s) -> list[Any]:
        seconds, fraction = np.divmod(fitting, per_second)
        minutes, second = np.divmod(seconds, 60)
        hour, minute = np.divmod(minutes, 60)
        microsecond = fraction * 1_000_000 // per_second
        return list(map(time, hour.tolist(), minute.tolist(), second.tolist(), microsecond.tolist()))

    inside = (wide >= 0) & (wide < _DAY_SECONDS * per_second)
    return _or_raw(convert, wide, inside & _whole_microseconds(wide, type_.unit))


def timestamps(values: npt.NDArray[Any], type_: Timestamp) -> list[datetime | int]:
    """Return datetimes, aware in any zone; the raw count between two microseconds or outside the years 1 to 9999."""
    per_second = type_.unit.per_second

    def convert(fitting: _Int64s) -> list[Any]:
        if type_.unit is TimeUnit.NANOSECOND:
            return list((fitting // 1000).view("M8[us]").tolist())
        return list(fitting.view(f"M8[{type_.unit.abbreviation}]").tolist())

    days = values // (_DAY_SECONDS * per_second)
    fits = (days >= _FIRST_DAY) & (days < _END_DAY) & _whole_microseconds(values, type_.unit)
    naive = _or_raw(convert, values, fits)
    return naive if type_.timezone is None else _aware(naive, values, zone(type_.timezone))


def _aware(naive: list[Any], values: npt.NDArray[Any], tz: tzinfo) -> list[datetime | int]:
    aware: list[datetime | int] = []
    for i, value in enumerate(naive):
        try:
            is_datetime = isinstance(value, datetime)
            aware.append(value.replace(tzinfo=UTC).astimezone(tz) if is_datetime else value)
        except OverflowError:
            # The year is 1 to 9999 in UTC only.
            aware.append(int(values[i]))
    return aware


def durations(values: npt.NDArray[Any], type_: Duration) -> list[timedelta | int]:
    """Return timedeltas; the raw count outside their range or between two microseconds."""
    per_second = type_.unit.per_second

    def convert(fitting: _Int64s) -> list[Any]:
        seconds, fraction = np.divmod(fitting, per_second)
        micros = fraction * 1_000_000 // per_second
        return [timedelta(0, *parts) for parts in zip(seconds.tolist(), micros.tolist(), strict=True)]

    days = values // (_DAY_SECONDS * per_second)
    fits = (days >= timedelta.min.days) & (days <= timedelta.max.days) & _whole_microseconds(values, type_.unit)
    return _or_raw(convert, values, fits)


def _whole_microseconds(values: npt.NDArray[Any], unit: TimeUnit) -> npt.NDArray[np.bool_]:
    if unit is not TimeUnit.NANOSECOND:
        return np.ones(len(values), np.bool_)
    fitting: npt.NDArray[np.bool_] = values % 1000 == 0
    return fitting


def date_units(value: object, type_: Date) -> int:
    """Return the count in the type's unit of a date, or of a datetime at midnight."""
    if isinstance(value, datetime) and value.time() != time():
        raise ValueError(unfit("a date or a datetime at midnight", type_, value))
    if isinstance(value, date):
        days = value.toordinal() - _EPOCH_ORDINAL
        return days if type_.unit is DateUnit.DAY else days * _DAY_MILLISECONDS
    raise TypeError(unfit("a date or an int", type_, value))


def time_units(value: object, type_: Time) -> int:
    """Return the count in the type's unit of a time of day; its time zone is ignored, as in pyarrow."""
    if isinstance(value, time):
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        return _exact(seconds * 1_000_000 + value.microsecond, value, type_)
    raise TypeError(unfit("a time or an int", type_, value))


def timestamp_units(value: object, type_: Timestamp) -> int:
    """Return the count in the type's unit of a datetime: aware as its instant, naive as UTC, as in pyarrow."""
    if isinstance(value, datetime):
        since = value - (_EPOCH if value.tzinfo is None else _EPOCH_UTC)
        return _exact(since // _MICROSECOND, value, type_)
    raise TypeError(unfit("a datetime or an int", type_, value))


def duration_units(value: object, type_: Duration) -> int:
    """Return the count in the type's unit of a timedelta."""
    if isinstance(value, timedelta):
        return _exact(value // _MICROSECOND, value, type_)
    raise TypeError(unfit("a timedelta or an int", type_, value))


def _exact(microseconds: int, value: object, type_: Time | Timestamp | Duration) -> int:
    if type_.unit is TimeUnit.NANOSECOND:
        return microseconds * 1000
    units, rest = divmod(microseconds * type_.unit.per_second, 1_000_000)
    if rest:
        raise ValueError(unfit(f"whole {type_.unit.abbreviation}", type_, value))
    return units


# Never rounds, whatever the decimal context of the thread is
_EXACT = Context(prec=MAX_PREC, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])


def to_unscaled_ints(words: npt.NDArray[Any]) -> list[int]:
    """Return the DATA slots of a decimal, or any integers, as Python integers; ``w0`` is the lowest word."""
    if words.dtype.names is None:
        return list(words.tolist())
    names = sorted(words.dtype.names)
    if len(names) == 2:
        pairs = zip(words["w1"].tolist(), words["w0"].tolist(), strict=True)
        return [high << 64 | low for high, low in pairs]
    columns = (words[name].tolist() for name in names)
    return [d << 192 | c << 128 | b << 64 | a for a, b, c, d in zip(*columns, strict=True)]


def decimals(words: npt.NDArray[Any], type_: t.Decimal) -> list[Decimal]:
    """Return ``unscaled * 10**-scale`` for each slot, exactly, with the type's scale as its exponent."""
    exponent = Decimal(-type_.scale)
    return [_EXACT.scaleb(Decimal(value), exponent) for value in to_unscaled_ints(words)]


def to_unscaled_int(value: object, type_: t.Decimal) -> int:
    """Return the unscaled integer of a Decimal or int; TypeError for any other value.

    ValueError if the value has more decimals than the scale or more digits than the precision, or is not finite.
    """
    if isinstance(value, bool) or not isinstance(value, (Decimal, int, np.integer)):
        raise TypeError(unfit("a Decimal or an int", type_, value))
    number = value if isinstance(value, Decimal) else Decimal(int(value))
    if not number.is_finite():
        raise ValueError(unfit("a finite number", type_, value))
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    if not number:  # a zero may have any exponent
        return 0
    shift = exponent + type_.scale
    # Before a power of ten is computed: an exponent may be of any size.
    if len(digits) + shift > type_.precision:
        raise ValueError(unfit(f"at most {type_.precision} digits", type_, value))
    significant = int("".join(map(str, digits)))
    if shift < 0:
        # Bounded for the same reason: a higher power leaves a remainder as well.
        power: int = 10 ** min(-shift, len(digits) + 1)
        significant, rest = divmod(significant, power)
        if rest:
            raise ValueError(unfit(f"at most {type_.scale} decimals", type_, value))
    else:
        significant *= int(10**shift)
    return -significant if sign else significant
