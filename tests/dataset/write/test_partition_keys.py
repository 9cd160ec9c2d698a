"""Rows grouped by partition columns, and the directories of the groups."""

import datetime as dt
import decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_arrow_ipc.arrow import RecordBatch, Schema, types
from spark_arrow_ipc.arrow.types import field
from spark_arrow_ipc.dataset import time_zones
from spark_arrow_ipc.dataset.listing.partition_values import cast, escape_path_name, unescape_path_name
from spark_arrow_ipc.dataset.write.partition_keys import (
    PARTITIONABLE,
    check_partition_columns,
    directories_of,
    group_rows,
)
from spark_arrow_ipc.errors import OptionError, UnsupportedError

D = decimal.Decimal


US = types.TimeUnit.MICROSECOND


SCHEMA = Schema.of([field("a", types.int64), field("k", types.int32), field("b", types.utf8), field("s", types.utf8)])


KEYS = [
    (types.int8, [1, None, 1, -1], ["1", None, "1", "-1"]),
    (types.int64, [2**62, None, 0], ["4611686018427387904", None, "0"]),
    (types.bool_, [True, None, False, True], ["true", None, "false", "true"]),
    (types.float32, [0.1, None, float("nan"), 0.1, 1e10], ["0.1", None, "NaN", "0.1", "1.0E10"]),
    (types.float64, [0.1, -0.0, 0.0], ["0.1", "-0.0", "0.0"]),
    (types.Decimal(10, 2), [D("1.50"), None, D("-0.01"), D("1.50")], ["1.50", None, "-0.01", "1.50"]),
    (types.Decimal(38, 0), [D(10**37), D(10**37 + 2**64)], [str(10**37), str(10**37 + 2**64)]),
    (types.date32, [dt.date(2024, 2, 29), None], ["2024-02-29", None]),
    (types.Timestamp(US), [dt.datetime(2024, 1, 2, 3, 4, 5, 600)], ["2024-01-02 03%3A04%3A05.0006"]),
    (types.Timestamp(US, "UTC"), [dt.datetime(2024, 7, 2, 3, 4, tzinfo=dt.UTC)], ["2024-07-01 23%3A04%3A00"]),
    (types.Time(US, 64), [dt.time(3, 4, 5)], ["03%3A04%3A05"]),
    (types.utf8, ["", "a", None, "12345678", "123456789", "12345678\0", "a"],
     [None, "a", None, "12345678", "123456789", "12345678%00", "a"]),
    (types.utf8, ["é" * 40, "é" * 39 + "e", "a=b"], ["é" * 40, "é" * 39 + "e", "a%3Db"]),
    (types.binary, [b"x", None, b"y", "é".encode()], ["x", None, "y", "é"]),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "values", "strings"), KEYS, ids=[f"{i}-{case[0]}" for i, case in enumerate(KEYS)])
@pytest.mark.parametrize("sliced", [False, True])
def test_values_name_directories_as_spark_does(type_, values, strings, sliced):
    array = RecordBatch.from_pydict({"k": [values[-1], *values] if sliced else values}, Schema.of([field("k", type_)]))
    column = array.slice(1).columns[0] if sliced else array.columns[0]
    groups, first = group_rows([column])
    names = directories_of(["k"], [column], first, "America/New_York")
    expected = [f"k={'__HIVE_DEFAULT_PARTITION__' if string is None else string}" for string in strings]
    assert expected == [names[group] for group in groups]


def test_keys_of_several_columns():
    schema = Schema.of([field("a", types.int32), field("b", types.utf8)])
    rows = [{"a": i % 3 or None, "b": "xyz"[i % 2]} for i in range(60)]
    batch = RecordBatch.from_pylist(rows, schema)
    groups, first = group_rows(batch.columns)
    names = directories_of(["a", "b"], batch.columns, first)
    null = "__HIVE_DEFAULT_PARTITION__"
    assert [f"a={row['a'] or null}/b={row['b']}" for row in rows] == [names[group] for group in groups]
    assert 6 == len(names)


OLD = dt.datetime(1930, 1, 1, tzinfo=dt.UTC)


def of_one(type_, value):
    return RecordBatch.from_pydict({"k": [value]}, Schema.of([field("k", type_)])).columns[0]


def _directories(zone):
    column = of_one(types.Timestamp(US, "UTC"), OLD)
    return directories_of(["k"], [column], group_rows([column])[1], zone)


def test_an_instant_that_may_be_read_as_another_names_no_directory():
    """Spark writes 00:19:32 of Amsterdam for this one by Java's table, 00:00:00 by Python's."""
    assert ["k=1930-01-01 00%3A20%3A00"] == _directories("+00:20")
    with pytest.raises(UnsupportedError, match=r"the instant 1930-01-01 00:00:00\+0000 cannot name"):
        _directories("Europe/Amsterdam")


ZONES = [
    "Europe/Berlin", "Australia/Lord_Howe", "America/St_Johns", "Africa/Casablanca", "Europe/Dublin", "Pacific/Apia",
    "America/Caracas", "Antarctica/Troll", "Asia/Kolkata", "UTC", "+05:30", "GMT-3",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize("name", ZONES)
def test_an_instant_names_a_directory_exactly_if_its_local_time_is_read_as_that_instant(name):
    """Where clocks go back, a local time is that of the earlier of two instants, as in Java."""
    zone = time_zones.zone(name)
    start = dt.datetime(2006, 1, 1, tzinfo=dt.UTC)
    hours = [start + dt.timedelta(hours=n) for n in range(20 * 8766)]
    offsets = [hour.astimezone(zone).utcoffset() for hour in hours]
    changes = [a for a, before, after in zip(hours, offsets, offsets[1:], strict=False) if before != after]
    instants = [
        c + dt.timedelta(minutes=m, microseconds=m) for c in changes[-12:] or [start] for m in range(-150, 300, 15)
    ]
    refused = 0
    for instant in instants:
        local = instant.astimezone(zone)
        comes_back = local.replace(fold=0).astimezone(dt.UTC) == instant
        column = of_one(types.Timestamp(US, "UTC"), instant)
        if comes_back:
            expected = f"k={escape_path_name(str(local.replace(tzinfo=None)).rstrip('0' if local.microsecond else ''))}"
            assert [expected] == directories_of(["k"], [column], np.array([0]), name)
        else:
            refused += 1
            with pytest.raises(UnsupportedError, match=r"comes twice when clocks go back.*UTC"):
                directories_of(["k"], [column], np.array([0]), name)
    assert (refused > 0) == (name in ZONES[:8])


# Values that no reader would find again, by the type of the column.
LOST = [
    (types.utf8, "__HIVE_DEFAULT_PARTITION__", "read back as null"),
    (types.binary, b"__HIVE_DEFAULT_PARTITION__", "read back as null"),
    (types.binary, b"\xff", "read back as"),
    (types.binary, b"a\xc3", "read back as"),
    (types.date32, 2932897, "outside the years 1 to 9999"),
    (types.Timestamp(US), 2**62, "outside the years 1 to 9999"),
    (types.Timestamp(US, "UTC"), dt.datetime(1, 1, 1, tzinfo=dt.UTC), "outside the years 1 to 9999"),
    (types.Timestamp(types.TimeUnit.NANOSECOND), 1, "between two microseconds"),
    (types.Time(US, 64), 86_400_000_000, "outside the day"),
]


@pytest.mark.parametrize(("type_", "value", "message"), LOST, ids=[f"{case[0]}-{case[1]!r}" for case in LOST])
def test_a_value_that_would_be_read_back_as_another_names_no_directory(type_, value, message):
    with pytest.raises(UnsupportedError, match=f"field k: .*{message}"):
        directories_of(["k"], [of_one(type_, value)], np.array([0]), "-03:00")


NAMED = {
    types.utf8: st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
    | st.sampled_from(["%C3%A9", " 1 ", "é%", "."]),
    types.binary: st.binary(max_size=5),
    types.bool_: st.booleans(),
    types.int64: st.integers(-(2**63), 2**63 - 1),
    types.float32: st.floats(width=32),
    types.float64: st.floats(),
    types.Decimal(38, 18): st.decimals(-(10**19), 10**19, places=18),
    types.Decimal(3, 0): st.integers(-999, 999).map(D),
    types.date32: st.dates(),
    types.Timestamp(US): st.datetimes(),
    types.Timestamp(US, "UTC"): st.datetimes(timezones=st.just(dt.UTC)),
    types.Time(US, 64): st.times(),
}


def test_every_type_of_partition_columns_is_drawn():
    also = {types.LargeUtf8, types.LargeBinary}
    assert {type(type_) for type_ in NAMED} | also == PARTITIONABLE


@pytest.mark.slow
@pytest.mark.one_in(4, "exhaustive")
@settings(max_examples=60, deadline=None)
@given(data=st.data(), name=st.sampled_from(["+00:20", "Europe/Berlin", "America/New_York"]))
@pytest.mark.parametrize("type_", NAMED, ids=str)
def test_every_value_is_read_back_or_refused(type_, name, data):
    """No two values share a directory, but null and the empty string, and NaNs."""
    values = data.draw(st.lists(NAMED[type_], min_size=1, max_size=8))
    columns = {}
    for value in values:
        column = of_one(type_, value)
        try:
            [directory] = directories_of(["a%C3%A9=b"], [column], np.array([0]), name)
        except (UnsupportedError, OptionError):
            continue
        escaped, _, raw = directory.partition("=")
        back = cast(raw, type_, name)
        [stored] = column.to_pylist()
        stored = stored.astimezone(dt.UTC) if getattr(stored, "tzinfo", None) else stored
        assert "a%C3%A9=b" == unescape_path_name(escaped)
        assert back == (stored or None) if type_ in (types.utf8, types.binary) else repr(back) == repr(stored)
        assert columns.setdefault(directory, repr(back)) == repr(back)
    assert len(columns) == len(set(columns.values()))


def test_a_zone_that_python_does_not_know_names_no_directory():
    with pytest.raises(OptionError, match="Mars/X"):
        _directories("Mars/X")


BAD_COLUMNS = [
    ("all", (0, 1, 2, 3), OptionError, "a column that stays in the files"),
    ("twice", (1, 1), OptionError, "each partition column once"),
    ("a list", (4,), UnsupportedError, "field l: a column of type list.*cannot be a partition column"),
    ("nothing", (5,), UnsupportedError, "field n: .*null"),
    ("nanoseconds", (6,), UnsupportedError, r"field t: .*time64\[ns\]"),
    ("an interval", (7,), UnsupportedError, "field d: .*duration"),
]


@pytest.mark.parametrize("case", BAD_COLUMNS, ids=[case[0] for case in BAD_COLUMNS])
def test_columns_that_cannot_be_partition_columns(case):
    _, positions, error, message = case
    fields = SCHEMA.fields
    if max(positions) > 3:
        more = [("l", types.list_(types.int8)), ("n", types.null), ("t", types.Time(types.TimeUnit.NANOSECOND, 64))]
        fields += tuple(field(*pair) for pair in [*more, ("d", types.Duration(US))])
    with pytest.raises(error, match=message):
        check_partition_columns(fields, positions)
