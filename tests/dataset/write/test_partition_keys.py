"""Rows grouped by partition columns, and the directories of the groups."""

import datetime as dt
import decimal

import pytest

from spark_arrow_ipc.arrow import RecordBatch, Schema, types
from spark_arrow_ipc.arrow.types import field
from spark_arrow_ipc.dataset.write.partition_keys import check_partition_columns, directories_of, group_rows
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
    (types.binary, [b"x", None, b"y"], ["x", None, "y"]),
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


def _directories(zone):
    schema = Schema.of([field("k", types.Timestamp(US, "UTC"))])
    column = RecordBatch.from_pydict({"k": [OLD]}, schema).columns[0]
    return directories_of(["k"], [column], group_rows([column])[1], zone)


def test_an_instant_that_may_be_read_as_another_names_no_directory():
    """Spark writes 00:19:32 of Amsterdam for this one by Java's table, 00:00:00 by Python's."""
    assert ["k=1930-01-01 00%3A20%3A00"] == _directories("+00:20")
    with pytest.raises(UnsupportedError, match=r"the instant 1930-01-01 00:00:00\+0000 cannot name"):
        _directories("Europe/Amsterdam")


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
