"""Which types a read may change, by its options."""

from dataclasses import replace

import pytest

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.spark.options.read_options import ReadOptions
from spark_arrow_ipc.spark.options.values import ExtensionTypes, Nanoseconds, Times, TimestampsWithOffset
from spark_arrow_ipc.spark.types.arrow_to_spark import MAPPINGS
from spark_arrow_ipc.spark.types.extension_columns import EXTENSIONS
from spark_arrow_ipc.spark.types.field_metadata import (
    EXTENSIONS_THAT_MAY_CHANGE,
    MAY_CHANGE,
    NANOSECOND_TIME_PRECISION,
    may_change,
)

NS = t.TimeUnit.NANOSECOND
FLOOR, ERROR, LONG = (
    ReadOptions(nanoseconds=each) for each in (Nanoseconds.FLOOR, Nanoseconds.ERROR, Nanoseconds.LONG)
)
BOOL8 = t.Field("c", t.int8, custom_metadata=(("ARROW:extension:name", "arrow.bool8"),))
OFFSET = t.field(
    "c",
    t.struct([("timestamp", t.Timestamp(t.TimeUnit.MICROSECOND, "UTC")), ("offset_minutes", t.int16)]),
    custom_metadata={"ARROW:extension:name": "arrow.timestamp_with_offset"},
)
STORAGE = ReadOptions(extension_types=ExtensionTypes.STORAGE)
MAP = t.map_(t.utf8, t.int8)

CASES = [
    ("nanoseconds", t.Timestamp(NS, "UTC"), FLOOR, True),
    ("nanoseconds that are checked", t.Timestamp(NS, "UTC"), ERROR, False),
    ("counts", t.Duration(NS), LONG, False),
    ("microseconds", t.Timestamp(t.TimeUnit.MICROSECOND), FLOOR, False),
    ("a time of day", t.Time(NS, 64), FLOOR, True),
    ("a time as a count", t.Time(NS, 64), ReadOptions(times=Times.LONG), False),
    ("a time as Spark's", t.Time(NS, 64), ReadOptions(times=Times.TIME), NANOSECOND_TIME_PRECISION == 6),
    ("days in milliseconds", t.date64, FLOOR, True),
    ("days in milliseconds that are checked", t.date64, LONG, False),
    ("days", t.date32, FLOOR, False),
    ("below a list", t.list_(t.struct([("a", t.Duration(NS))])), FLOOR, True),
    ("values of a dictionary", t.dictionary(t.int8, t.Timestamp(NS)), FLOOR, True),
    ("values of runs", t.run_end_encoded(t.int16, t.date64), FLOOR, True),
    ("keys of a map", t.map_(t.Timestamp(NS), t.int8), FLOOR, True),
    ("different keys", MAP, FLOOR, False),
    ("a bool8", BOOL8, FLOOR, True),
    ("a bool8 as its storage", BOOL8, STORAGE, False),
    ("a bool8 that is checked", BOOL8, ReadOptions(is_exact=True), False),
    ("a bool8 below a list", t.list_(t.struct([BOOL8])), FLOOR, True),
    ("a dictionary of bool8", replace(BOOL8, type=t.dictionary(t.int8, t.int8)), FLOOR, True),
    ("runs of bool8", replace(BOOL8, type=t.run_end_encoded(t.int16, t.int8)), FLOOR, True),
    ("an offset that is dropped", OFFSET, ReadOptions(), True),
    ("an offset beside its instant", OFFSET, ReadOptions(timestamps_with_offset=TimestampsWithOffset.STRUCT), False),
    ("an offset in a string", OFFSET, ReadOptions(timestamps_with_offset=TimestampsWithOffset.STRING), False),
    ("an offset as its storage", OFFSET, STORAGE, False),
    ("no storage of bool8", replace(BOOL8, type=t.int16), FLOOR, False),
]


@pytest.mark.parametrize(("type_", "options", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_values_that_a_read_may_change(type_, options, expected):
    field = type_ if isinstance(type_, t.Field) else t.field("c", type_)
    assert expected == may_change(field, options)


def test_what_the_documentation_calls_not_lossless_may_change():
    documented = {cls for cls, row in MAPPINGS.items() if not all(line.lossless for line in row.lines)}
    assert documented == MAY_CHANGE.keys()
    assert {
        name for name, row in EXTENSIONS.items() if not all(line.lossless for line in row.lines)
    } == EXTENSIONS_THAT_MAY_CHANGE.keys()
