"""Dates and timestamps that are read many at a time are those that are read one by one."""

from datetime import timedelta

import numpy as np
import pytest

from spark_arrow_ipc.dataset.predicate import instants as time_lists
from spark_arrow_ipc.dataset.predicate.instants import EPOCH, Doubt, instant, midnight
from spark_arrow_ipc.dataset.time_zones import UNKNOWN_ZONE, zone

HOUR = 3_600_000_000
DAY = 24 * HOUR

READ = {
    "days": (time_lists.days_of, ["1970-01-02", "0001-01-01"], [1, -719_162]),
    "no day": (time_lists.days_of, ["1970-01-02", "2023-02-29"], None),
    "the year 0": (time_lists.days_of, ["0000-12-31"], None),
    "a short date": (time_lists.days_of, ["2024-1-1"], None),
    "times": (time_lists.local_times_of, ["1970-01-01", "1970-01-01 01:00", "1970-01-01T00:00:00.5"], [0, HOUR, 500_000]),
    "a time of 24 hours": (time_lists.local_times_of, ["1970-01-01 24:00"], None),
    "a time with a zone": (time_lists.local_times_of, ["1970-01-01 00:00:00Z"], None),
    "seven digits": (time_lists.local_times_of, ["1970-01-01 00:00:00.1234567"], None),
    "offsets": (time_lists.zoned_times_of, ["1970-01-01 00:00:00Z", "1970-01-01 00:00:00-01:00"], [0, HOUR]),
    "an offset of 19 hours": (time_lists.zoned_times_of, ["1970-01-01 00:00:00+19:00"], None),
    "no offset": (time_lists.zoned_times_of, ["1970-01-01 00:00:00"], None),
    "before the year 1": (time_lists.zoned_times_of, ["0001-01-01 00:00:00+01:00"], None),
    "after the year 9999": (time_lists.zoned_times_of, ["9999-12-31 23:30:00-01:00"], None),
}  # fmt: skip


@pytest.mark.parametrize("case", READ)
def test_strings_in_the_common_form_are_read_at_once(case):
    read, strings, expected = READ[case]
    assert expected == read(strings)


ZONES = ["Europe/Amsterdam", "America/Sao_Paulo", "Asia/Beirut", "Australia/Lord_Howe", "+05:30", "UTC"]


@pytest.mark.parametrize("name", ZONES)
def test_instants_and_midnights_are_those_of_each(name):
    """Every third hour of a year, and every day of five years: clocks change at midnight in two of the zones."""
    zone_ = zone(name)
    locals_ = [14_600 * DAY + i * 3 * HOUR for i in range(8 * 366)]
    expected = [instant(EPOCH + timedelta(microseconds=local), zone_, "") for local in locals_]
    assert (expected, []) == time_lists.instants_of(locals_, zone_)
    days = list(range(14_600, 14_600 + 5 * 366))
    midnights = [midnight(day, zone_) for day in days]
    assert (midnights, []) == time_lists.midnights_of(days, zone_)
    others = [at + 1 for at in midnights[::2]]
    assert days[1::2] == time_lists.days_at([*midnights[1::2], *others], zone_)


def test_doubts_that_overlap_are_joined():
    """Each reaches 18 hours to both sides."""
    locals_ = [0, 36 * HOUR, 72 * HOUR + 1, -400 * DAY]
    values, doubts = time_lists.instants_of(locals_, UNKNOWN_ZONE)
    reach = 18 * HOUR
    each = [(-400 * DAY - reach, -400 * DAY + reach), (-reach, 36 * HOUR + reach), (54 * HOUR + 1, 90 * HOUR + 1)]
    assert ([], each) == (values, [(doubt.earliest, doubt.latest) for doubt in doubts])
    assert "'1970-01-01 00:00:00'" in doubts[1].why


def test_what_is_certain_is_told_from_what_is_not():
    zone_ = zone("Europe/Amsterdam")
    years = np.array(["1930-01-01", "1990-01-01"], "M8[us]").astype(np.int64).tolist()
    (certain,), (doubt,) = time_lists.instants_of(years, zone_)
    assert certain == instant(EPOCH + timedelta(microseconds=years[1]), zone_, "")
    assert doubt == Doubt(years[0] - 18 * HOUR, years[0] + 18 * HOUR, doubt.why)
    assert "not certain" in doubt.why


def test_what_has_no_answer_is_left_to_others():
    assert time_lists.instants_of([0], None) is None
    assert time_lists.days_at([0], UNKNOWN_ZONE) is None
    assert time_lists.days_at([253_402_300_000_000_000], zone("UTC")) is None
    assert time_lists.midnights_of([1 << 30], zone("UTC")) is None
    assert time_lists.midnights_of([-719_162], zone("+01:00")) is None
