"""Dates, timestamps and zones from strings, as Spark casts them."""

from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from spark_arrow_ipc.dataset.time_zones import epoch_ns, parse_date, parse_timestamp

DATES = [
    ("2024", date(2024, 1, 1)), ("2024-3", date(2024, 3, 1)), ("2024-03-09", date(2024, 3, 9)), ("+2024-03-09", date(2024, 3, 9)),
    ("2024-03-09T", date(2024, 3, 9)), ("2024-03-09 any", date(2024, 3, 9)), ("24", None), ("2024-02-30", None), ("12024-01-01", None), ("", None),
    (" \t2024-03-09\x00\n", date(2024, 3, 9)), ("2024-03-09\u00a0", None), ("\u30002024-03-09", None), ("\x852024", None),
]  # fmt: skip


@pytest.mark.parametrize(("string", "expected"), DATES)
def test_dates(string, expected):
    assert expected == parse_date(string)


TIMESTAMPS = [
    ("2024-03-09", datetime(2024, 3, 9)), ("2024-03-09 1:2:3", datetime(2024, 3, 9, 1, 2, 3)), ("2024-03-09T12", datetime(2024, 3, 9, 12)),
    ("2024-03-09 12:00:00.1234567", datetime(2024, 3, 9, 12, 0, 0, 123456)), ("2024-03-09 12:00:00 Z", datetime(2024, 3, 9, 12, tzinfo=UTC)),
    ("2024-03-09 12:00:00+01:30", datetime(2024, 3, 9, 12, tzinfo=timezone(timedelta(hours=1, minutes=30)))),
    ("\x1f2024-03-09 ", datetime(2024, 3, 9)), ("2024-03-09\u2003", None), ("\u00a02024-03-09 12:00:00", None),
    ("12:00:00", None), ("2024-03-09 25:00:00", None), ("2024-03-09 12:00:00 Nowhere/None", None),
]  # fmt: skip


@pytest.mark.parametrize(("string", "expected"), TIMESTAMPS)
def test_timestamps(string, expected):
    assert repr(expected) == repr(parse_timestamp(string))


def test_nanoseconds_since_1970():
    assert 1_500_000_000 == epoch_ns(datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC))
