"""Parse dates and timestamps from strings, in the forms that Spark casts to DATE and TIMESTAMP.

Spark's ``DateTimeUtils.stringToDate`` and ``stringToTimestamp``: years of at least four digits, months, days, hours,
minutes and seconds of one or two, with parts left out from the right, a fraction of which six digits count, and a
zone at the end. Years outside 1 to 9999, which Python's dates cannot hold, and times without a date, which
Spark puts on the current day, are refused.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import Final

from spark_arrow_ipc.dataset.time_zones import zone
from spark_arrow_ipc.errors import OptionError

BLANKS: Final = "".join(map(chr, range(33)))
"""Characters that Spark trims before it casts a string: the blank and all control characters below it, and no others."""

_DATE: Final = r"\+?(\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})"
_DATE_STRING: Final = re.compile(rf"{_DATE}(?:[ T].*)?)?)?", re.ASCII | re.DOTALL)
_TIMESTAMP_STRING: Final = re.compile(
    rf"{_DATE}(?:[ T](\d{{1,2}})(?::(\d{{1,2}})(?::(\d{{1,2}})(?:\.(\d*))?(?: ?([A-Za-z+-]\S*))?)?)?)?)?)?", re.ASCII
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def parse_date(string: str) -> date | None:
    """Return the date of a string, or None.

    Takes ``2024``, ``2024-3``, ``2024-03-09``, and anything after ``2024-03-09T``.
    """
    match = _DATE_STRING.fullmatch(string.strip(BLANKS))
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
    match = _TIMESTAMP_STRING.fullmatch(string.strip(BLANKS))
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
