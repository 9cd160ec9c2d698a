"""Time zones by Spark's names, and which local times are beyond doubt in them."""

from datetime import datetime, timedelta

import pytest

from spark_arrow_ipc.dataset.time_zones import UNKNOWN_ZONE, is_certain, zone
from spark_arrow_ipc.errors import OptionError


@pytest.mark.parametrize(
    ("name", "hours"),
    [
        ("UTC", 0),
        ("Z", 0),
        ("Etc/UTC", 0),
        ("GMT0", 0),
        ("+02:00", 2),
        ("GMT-3", -3),
        ("Etc/GMT-3", 3),
        ("Asia/Tokyo", 9),
    ],
)
def test_zones(name, hours):
    assert timedelta(hours=hours) == zone(name).utcoffset(datetime(2024, 1, 1))


@pytest.mark.parametrize(
    "name",
    [
        "Nowhere/None",
        "+19:00",
        "+01:60",
        "../etc/passwd",
        "",
        "ROC",
        "Factory",
        "posix/Asia/Tokyo",
        "right/UTC",
        "*/" * 5_000,
    ],
)
def test_no_zone_of_spark(name):
    with pytest.raises(OptionError, match="expected a time zone"):
        zone(name)


CERTAIN = [
    ("UTC", 1, True), ("Etc/UTC", 1, True), ("+01:00", 1900, True), ("Etc/GMT+5", 1900, True),
    ("Europe/Amsterdam", 1930, False), ("Europe/Amsterdam", 1969, False), ("Europe/Amsterdam", 1970, True),
    ("WET", 1985, False), ("WET", 1997, True), ("America/Tijuana", 1975, False), ("America/Tijuana", 1976, True),
]  # fmt: skip


@pytest.mark.parametrize(("name", "year", "expected"), CERTAIN)
def test_local_times_are_certain_where_tables_agree(name, year, expected):
    assert expected is is_certain(datetime(year, 12, 31), zone(name))


def test_no_local_time_is_certain_in_an_unknown_zone():
    assert not is_certain(datetime(2024, 1, 1), UNKNOWN_ZONE)
