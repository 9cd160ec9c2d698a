"""Instants of local times, and the intervals that have them in every time zone."""

from datetime import datetime, timedelta

import pytest

from spark_arrow_ipc.dataset.predicate.instants import (
    Doubt,
    dates_in_doubt,
    instant,
    midnight,
    needs_zone,
)
from spark_arrow_ipc.dataset.time_zones import UNKNOWN_ZONE, zone
from spark_arrow_ipc.errors import OptionError

HOUR = 3_600_000_000
DAY = 24 * HOUR
OLD, NEW = datetime(1930, 1, 1), datetime(2024, 1, 1)


def micros(local):
    return (local - datetime(1970, 1, 1)) // timedelta(microseconds=1)


def test_a_certain_local_time_is_one_instant():
    assert micros(NEW) - HOUR == instant(NEW, zone("Europe/Amsterdam"), "x")
    assert micros(OLD) - HOUR == instant(OLD, zone("+01:00"), "x")
    assert micros(OLD) - HOUR == instant(OLD.replace(tzinfo=zone("+01:00")), None, "x")


@pytest.mark.parametrize("local", [OLD, NEW])
def test_a_doubt_has_the_instants_of_all_zones(local):
    found = instant(local, UNKNOWN_ZONE, "x")
    assert isinstance(found, Doubt)
    assert "timeZone" in found.why
    for offset in ("-18:00", "+00:19:32", "+18:00"):
        assert found.earliest <= instant(local, zone(offset), "x") <= found.latest


@pytest.mark.parametrize(
    ("local", "name"), [(OLD, "Europe/Amsterdam"), (OLD.replace(tzinfo=zone("Europe/Amsterdam")), "UTC")]
)
def test_a_local_time_of_which_the_tables_may_differ_is_refused(local, name):
    with pytest.raises(OptionError, match="write the literal with an offset"):
        instant(local, zone(name), "x")


def test_no_zone_at_all_is_an_error():
    with pytest.raises(OptionError) as caught:
        instant(NEW, None, "x")
    assert needs_zone("x") == str(caught.value)


def test_instants_beyond_the_year_9999_are_errors():
    with pytest.raises(OptionError, match="years 1 to 9999"):
        instant(datetime(9999, 12, 31, 23), zone("-18:00"), "x")


@pytest.mark.parametrize(
    ("literal", "name", "days"),
    [
        (0, "UTC", None), (-(10**15), "UTC", None), (20 * DAY, "Europe/Amsterdam", None), (0, "Europe/Amsterdam", None),
        (20 * DAY, None, (20, 20)), (Doubt(-HOUR, 30 * HOUR, ""), None, (0, 2)),
        (micros(datetime.max), "UTC", None), (micros(datetime.min), "+01:00", None),
    ],
)  # fmt: skip
def test_dates_whose_midnight_is_surely_elsewhere_are_not_in_doubt(literal, name, days):
    found = dates_in_doubt(literal, UNKNOWN_ZONE if name is None else zone(name), "x")
    assert days == (None if found is None else (found.earliest, found.latest))


def test_midnight_is_the_end_of_a_gap():
    """In 2018 the clocks of São Paulo went from 00:00 to 01:00 on 4 November."""
    day = (datetime(2018, 11, 4) - datetime(1970, 1, 1)).days
    assert day * DAY + 3 * HOUR == midnight(day, zone("America/Sao_Paulo"))
    assert -HOUR == midnight(0, zone("+01:00"))
