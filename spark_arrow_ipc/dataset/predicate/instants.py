"""Convert local times and dates to instants.

The session's time zone makes an instant of a local time. A planner does not know it (`UNKNOWN_ZONE`): there the instant is a
`Doubt`, an interval that contains it in every time zone, and a predicate skips only rows that match in no zone. In a known
zone the literal has one instant or is refused: if `time_zones.is_certain` is false, as before 1970, or if Spark has two
answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from spark_arrow_ipc.dataset.predicate import shorten
from spark_arrow_ipc.dataset.time_zones import MOST_OFFSET, UNKNOWN_ZONE, is_certain
from spark_arrow_ipc.errors import OptionError

DAY_MICROSECONDS: Final = 86_400_000_000
EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - the epoch of timestamps without a zone
_MICROSECOND: Final = timedelta(microseconds=1)
MARGIN: Final = MOST_OFFSET // _MICROSECOND
"""The greatest distance of an instant from its local time, in microseconds."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """An instant between two others, both included, while the time zone is not known."""

    # bounds in microseconds
    earliest: int
    latest: int
    why: str  # the reason and the next step: the message of an error


def instant(local: datetime, zone: tzinfo | None, sql: str) -> int | Doubt:
    """Return the instant of a local time in a time zone, in microseconds."""
    zone = zone if local.tzinfo is None else local.tzinfo
    sql = shorten(sql)
    if zone is None:
        raise OptionError(needs_zone(sql))
    if zone is UNKNOWN_ZONE:
        at = (local.replace(tzinfo=None) - EPOCH) // _MICROSECOND
        return Doubt(at - MARGIN, at + MARGIN, needs_zone(sql))
    _check_certain(local, zone, sql)
    try:
        utc = local.replace(tzinfo=zone).astimezone(UTC)
    except OverflowError as error:
        raise OptionError(expected="an instant of the years 1 to 9999", found=sql) from error
    return (utc.replace(tzinfo=None) - EPOCH) // _MICROSECOND


def needs_zone(sql: str) -> str:
    """Return the message for a literal whose instant depends on an unknown time zone."""
    return (
        f"the instant of {sql} depends on the session's time zone, which is not known here, as "
        "spark.sql.session.timeZone was not set: set it, or set the option timeZone (for example timeZone=Europe/Berlin), "
        "or write the zone into the literal ('2024-01-31 12:00:00+01:00')"
    )


def _check_certain(local: datetime, zone: tzinfo, sql: str) -> None:
    if not is_certain(local, zone):
        raise OptionError(
            f"the instant of {sql} in {zone} is not certain, because the time zone tables of Python and of Spark's JVM may "
            "differ for that time: write the literal with an offset, such as TIMESTAMP '1930-01-01 00:00:00+01:00', or "
            "filter the DataFrame"
        )


def dates_in_doubt(literal: int | Doubt, zone: tzinfo, sql: str) -> Doubt | None:
    """Return the days whose midnight may be on either side of an instant; None in a certain zone, or raise."""
    earliest, latest = (literal, literal) if isinstance(literal, int) else (literal.earliest, literal.latest)
    # The midnights of all other days are before or after the instant in every time zone.
    first, last = -((MARGIN - earliest) // DAY_MICROSECONDS), (latest + MARGIN) // DAY_MICROSECONDS
    if zone is UNKNOWN_ZONE:
        return Doubt(first, last, literal.why if isinstance(literal, Doubt) else needs_zone(sql))
    _check_certain(_nearest_local(first * DAY_MICROSECONDS), zone, shorten(sql))
    return None


def days_of_one_midnight(sql: str) -> OptionError:
    """Return the error for several days that begin with one instant, as the time zone skipped all but the last."""
    # By release and by the side of the literal, Spark's optimizer (`UnwrapCastInBinaryComparison`) compares dates with the
    # date of the instant, which is the last of these days, or casts each date to its instant.
    return OptionError(
        f"the time zone skipped the days before {shorten(sql)}, and Spark compares such a date either as it is or as the "
        "instant at which the next day began: write the literal as DATE '...', or filter the DataFrame"
    )


def midnight(day: int, zone: tzinfo) -> int:
    """Return the first instant of a day in a zone, in microseconds: the end of a gap, the beginning of an overlap."""
    local = EPOCH + timedelta(days=day)
    at = _instant(local, zone)
    if at.astimezone(zone).replace(tzinfo=None) != local:
        # Clocks jump over midnight. java.time gives the jump itself, which is between these two, at a full second.
        before, after = _instant(local.replace(fold=1), zone), at
        while after - before > timedelta(seconds=1):
            middle = before + (after - before) // 2
            middle -= timedelta(microseconds=middle.microsecond)
            if middle.astimezone(zone).utcoffset() == at.astimezone(zone).utcoffset():
                after = middle
            else:
                before = middle
        at = after
    return (at.replace(tzinfo=None) - EPOCH) // _MICROSECOND


def _instant(local: datetime, zone: tzinfo) -> datetime:
    return local.replace(tzinfo=zone).astimezone(UTC)


def local_time_of(literal: int | Doubt, zone: tzinfo, sql: str) -> int | Doubt:
    """Return the local time with which local times are compared instead of an instant, or the doubt about it."""
    if not isinstance(literal, int) or zone is UNKNOWN_ZONE:
        earliest, latest = (literal, literal) if isinstance(literal, int) else (literal.earliest, literal.latest)
        return Doubt(earliest - MARGIN, latest + MARGIN, needs_zone(f"a timestamp_ntz beside {shorten(sql)}"))
    _check_certain(_nearest_local(literal - MARGIN), zone, shorten(sql))
    try:
        at = (EPOCH + timedelta(microseconds=literal)).replace(tzinfo=UTC).astimezone(zone)
    except OverflowError as error:
        raise OptionError(expected="an instant of the years 1 to 9999", found=sql) from error
    local = (at.replace(tzinfo=None, fold=0) - EPOCH) // _MICROSECOND
    # Near a change of clocks Spark has two answers, and the literal is refused. A row's local time that clocks skip or show
    # twice becomes the instant of java.time; but if the optimizer (`UnwrapCastInBinaryComparison`, by release and by the side
    # of the literal) removes the cast, it is compared with the literal's local time.
    first_instant = instant(EPOCH + local * _MICROSECOND, zone, sql)
    offset = zone.utcoffset(_nearest_local(local - MARGIN))
    assert offset is not None
    skipped = literal + offset // _MICROSECOND
    if first_instant != literal or (skipped != local and instant(EPOCH + skipped * _MICROSECOND, zone, sql) == literal):
        raise OptionError(
            f"clocks of {zone} were changed near {shorten(sql)}, where Spark compares timestamp_ntz values either as they "
            "are or as instants: write the literal as TIMESTAMP_NTZ '...', or filter the DataFrame"
        )
    return local


def _nearest_local(local: int) -> datetime:
    """Return a local time, or the first or last one that Python has."""
    return EPOCH + min(max(timedelta(microseconds=local), datetime.min - EPOCH), datetime.max - EPOCH)  # noqa: DTZ901 - local
