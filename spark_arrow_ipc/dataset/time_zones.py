"""Time zones by the names that Spark takes, the local times with a certain offset, and Spark's casts of strings to times.

Spark uses the JVM's tables of time zones, this package uses Python's. Both come from the tz database, which promises
little about the time before 1970: the JVM has histories that Python's tables leave out, and the reverse. After 1970 the
tables of different releases differ for few zones and years (`_REVISED`). For such local times `is_certain` is false, and the
caller must not guess. Changes of the clock by laws of this century count as certain: both sides need tables that are recent
enough to have the law.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import Final, NoReturn
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from spark_arrow_ipc.errors import OptionError, cut_repr

MOST_OFFSET: Final = timedelta(hours=18)
"""The limit of Java's ``ZoneOffset``, in both directions."""

_OFFSET: Final = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{1,2})(?::?(\d{2}))?)?", re.ASCII)
_UTC: Final = re.compile(r"Z|UT|(Etc/)?(UTC|GMT|GMT[+-]?0|UCT|Greenwich|Universal|Zulu)")
_NOT_IN_SPARK: Final = re.compile(r"(posix|right)/.*|posixrules|localtime|Factory|ROC|leapseconds|tzdata\.zi")
"""Files among Python's tables that the JVM does not have."""

_LONGEST_NAME: Final = 255
"""Characters of a zone's name; zoneinfo takes the parts of a longer one for directories, by recursion."""

_FIRST_CERTAIN_YEAR: Final = 1970
_REVISED: Final[Mapping[str, int]] = {
    **dict.fromkeys(("America/Bahia_Banderas", "America/Hermosillo", "America/Mazatlan", "Mexico/BajaSur", "Pacific/Niue"), 1971),
    **dict.fromkeys(("Australia/Currie", "Australia/King"), 1972),
    **dict.fromkeys(("America/Nipigon", "America/Thunder_Bay"), 1974),
    **dict.fromkeys(("America/Tijuana", "America/Ensenada", "America/Santa_Isabel", "Mexico/BajaNorte"), 1976),
    **dict.fromkeys(("America/Cambridge_Bay", "America/Inuvik", "America/Iqaluit", "America/Rankin_Inlet"), 1980),
    **dict.fromkeys(("America/Resolute", "America/Yellowknife", "Asia/Tehran", "Iran"), 1980),
    "EET": 1981,
    **dict.fromkeys(("America/Merida", "Asia/Kuala_Lumpur", "Asia/Singapore", "Singapore"), 1983),
    "Europe/Budapest": 1984,
    "Pacific/Efate": 1985,
    **dict.fromkeys(("Asia/Jerusalem", "Asia/Tel_Aviv", "Israel", "Europe/Lisbon", "Portugal"), 1986),
    "Atlantic/Madeira": 1987,
    "Asia/Manila": 1991,
    "America/Guyana": 1993,
    **dict.fromkeys(("America/Bogota", "Atlantic/Azores"), 1994),
    **dict.fromkeys(("America/Pangnirtung", "Europe/Simferopol"), 1996),
    **dict.fromkeys(("Europe/Kiev", "Europe/Kyiv", "Europe/Uzhgorod", "Europe/Zaporozhye", "WET"), 1997),
    "America/Cancun": 1998,
    "America/Rainy_River": 2001,
    "Asia/Choibalsan": 2007,
    **dict.fromkeys(("Asia/Gaza", "Asia/Hebron"), 2016),
    **dict.fromkeys(("Antarctica/Casey", "Antarctica/Macquarie", "Antarctica/Vostok"), 2024),
}  # fmt: skip
"""The first year from which on a zone's history is the same in the releases 2020a to 2026f of the tz database; for all other
zones it is 1970."""


class _UnknownZone(tzinfo):
    """Stands for the session's time zone where that is not known: no local time is certain."""

    def utcoffset(self, _: datetime | None) -> NoReturn:
        raise NotImplementedError  # no arithmetic may use it by mistake

    dst = tzname = utcoffset


UNKNOWN_ZONE: Final[tzinfo] = _UnknownZone()


def zone(name: str) -> tzinfo:
    """Return a time zone by the names that Spark takes: ``Europe/Berlin``, ``UTC``, ``Z``, ``+02:00``, ``GMT+2``."""
    if _UTC.fullmatch(name):
        return UTC
    if offset_match := _OFFSET.fullmatch(name):
        sign, hours, minutes, seconds = offset_match.groups("0")
        offset = timedelta(hours=int(hours), minutes=int(minutes), seconds=int(seconds))
        if offset <= MOST_OFFSET and int(minutes) < 60 and int(seconds) < 60:
            return timezone(-offset if sign == "-" else offset)
    try:
        if len(name) <= _LONGEST_NAME and _NOT_IN_SPARK.fullmatch(name) is None:
            return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        pass
    raise OptionError(
        expected="a time zone such as Europe/Berlin, UTC or +02:00 that Spark and this machine know",
        found=cut_repr(name),
    )


def is_certain(local: datetime, zone: tzinfo) -> bool:
    """Return whether Python's and the JVM's tables surely agree on the offset of a zone at a local time."""
    if isinstance(zone, timezone):  # a fixed offset needs no table
        return True
    if not isinstance(zone, ZoneInfo):
        return False
    return zone.key.startswith("Etc/") or local.year >= _REVISED.get(zone.key, _FIRST_CERTAIN_YEAR)


BLANKS: Final = "".join(map(chr, range(33)))
"""Characters that Spark trims before it casts a string: the blank and all control characters below it, and no others."""

_DATE: Final = r"\+?(\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})"
_DATE_STRING: Final = re.compile(rf"{_DATE}(?:[ T].*)?)?)?", re.ASCII | re.DOTALL)
_TIMESTAMP_STRING: Final = re.compile(
    rf"{_DATE}(?:[ T](\d{{1,2}})(?::(\d{{1,2}})(?::(\d{{1,2}})(?:\.(\d*))?(?: ?([A-Za-z+-]\S*))?)?)?)?)?)?", re.ASCII
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def parse_date(string: str) -> date | None:
    """Return the date of a string such as ``2024``, ``2024-3`` or ``2024-03-09T...``, or None."""
    match = _DATE_STRING.fullmatch(string.strip(BLANKS))
    if not match:
        return None
    year, month, day = match.groups("1")
    try:
        return date(int(year), int(month), int(day))
    except ValueError:
        return None


def parse_timestamp(string: str) -> datetime | None:
    """Return the timestamp of a string, or None; aware only if it names a zone or offset."""
    match = _TIMESTAMP_STRING.fullmatch(string.strip(BLANKS))
    if not match:
        return None
    year, month, day, hour, minute, second, fraction, zone_name = match.groups()
    if year is None or len(year) > 6:
        return None
    microsecond = int(f"{fraction or 0:0<6}"[:6])  # as Spark, which drops further digits
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
