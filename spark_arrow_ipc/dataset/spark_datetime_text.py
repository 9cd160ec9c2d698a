"""Parse dates and timestamps from strings, in the forms that Spark casts to DATE and TIMESTAMP.

Strategy
--------
Spark's ``DateTimeUtils.stringToDate`` and ``stringToTimestamp``: years of at least four digits, months, days, hours,
minutes and seconds of one or two, with parts left out from the right, a fraction of which six digits count, and a
zone at the end. Years outside 1 to 9999, which Python's dates cannot hold, and times without a date, which
Spark puts on the current day, are refused.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from spark_arrow_ipc.errors import OptionError, cut_repr

__all__ = ["epoch_ns", "parse_date", "parse_timestamp", "zone"]

_DATE: Final = r"\+?(\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})"
_DATE_STRING: Final = re.compile(rf"{_DATE}(?:[ T].*)?)?)?", re.ASCII | re.DOTALL)
_TIMESTAMP_STRING: Final = re.compile(
    rf"{_DATE}(?:[ T](\d{{1,2}})(?::(\d{{1,2}})(?::(\d{{1,2}})(?:\.(\d*))?(?: ?([A-Za-z+-]\S*))?)?)?)?)?)?", re.ASCII
)
_OFFSET: Final = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{1,2})(?::?(\d{2}))?)?", re.ASCII)
_UTC_NAMES: Final = ("Z", "UTC", "GMT", "UT")
_MOST_OFFSET: Final = timedelta(hours=18)
"""The limit of Java's ``ZoneOffset``."""

_LONGEST_NAME: Final = 255
"""Characters of a zone's name; zoneinfo takes the parts of a longer one for directories, by recursion."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def zone(name: str) -> tzinfo:
    """Return a time zone by the names that Spark takes: ``Europe/Berlin``, ``UTC``, ``Z``, ``+02:00``, ``GMT+2``.

    Raises
    ------
    OptionError
        This machine knows no such zone.
    """
    if name in _UTC_NAMES:
        return UTC
    if offset_match := _OFFSET.fullmatch(name):
        sign, hours, minutes, seconds = offset_match.groups("0")
        offset = timedelta(hours=int(hours), minutes=int(minutes), seconds=int(seconds))
        if offset <= _MOST_OFFSET and int(minutes) < 60 and int(seconds) < 60:
            return timezone(-offset if sign == "-" else offset)
    try:
        if len(name) > _LONGEST_NAME:
            raise ValueError(name)
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise OptionError(
            expected="a time zone such as Europe/Berlin, UTC or +02:00 that this machine knows", found=cut_repr(name)
        ) from error


def parse_date(string: str) -> date | None:
    """Return the date of a string, or None.

    Takes ``2024``, ``2024-3``, ``2024-03-09``, and anything after ``2024-03-09T``.
    """
    match = _DATE_STRING.fullmatch(string.strip())
    if not match:
        return None
    year, month, day = match.groups("1")
    try:
        return date(int(year), int(month), int(day))
    except ValueError:
        return None


def parse_timestamp(string: str) -> datetime | None:
    """Return the timestamp of a string, or None; aware only if it names a zone or offset.

    Digits after the sixth of a fraction are dropped, as Spark does.
    """
    match = _TIMESTAMP_STRING.fullmatch(string.strip())
    if not match:
        return None
    year, month, day, hour, minute, second, fraction, zone_name = match.groups()
    if year is None or len(year) > 6:
        return None
    microsecond = int(f"{fraction or 0:0<6}"[:6])
    try:
        zone_ = None if zone_name is None else zone(zone_name)
        return datetime(
            int(year), int(month or 1), int(day or 1), int(hour or 0), int(minute or 0), int(second or 0), microsecond,
            tzinfo=zone_,
        )  # fmt: skip
    except (ValueError, OptionError):
        return None


def epoch_ns(moment: datetime) -> int:
    """Return the nanoseconds since 1970 of an aware datetime."""
    return (moment - _EPOCH) // timedelta(microseconds=1) * 1000
