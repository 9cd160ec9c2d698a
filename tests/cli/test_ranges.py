"""Values out of their type's range are found at any depth, and null ones are ignored."""

import pytest

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.python_values import from_pylist
from spark_arrow_ipc.cli.validate import OutOfRange, out_of_range


def retyped(type_, values, stored, nulls=()):
    """Return an array of `type_` over the memory of values of another type of the same width."""
    array = from_pylist.array([None if i in nulls else v for i, v in enumerate(values)], stored)
    return Array(type_, array.length, array.null_count, array.buffers)


DAY_MS = 86_400_000
WIDE = t.Decimal(38, 0)
SLOTS = {
    "times within a day": (retyped(t.Time(t.TimeUnit.SECOND, 32), [0, 86_399], t.int32), None),
    "a time before the day": (retyped(t.Time(t.TimeUnit.SECOND, 32), [0, -1], t.int32), ("times outside of a day", 1, 1)),
    "times after the day": (retyped(t.Time(t.TimeUnit.SECOND, 32), [86_400, 0, 90_000], t.int32), ("times outside of a day", 2, 0)),
    "whole days": (retyped(t.date64, [0, -DAY_MS, DAY_MS], t.int64), None),
    "a date with a time": (retyped(t.date64, [0, DAY_MS + 1], t.int64), ("dates with a time of day", 1, 1)),
    "days of 32 bits": (retyped(t.date32, [2**31 - 1], t.int32), None),
    "digits of 32 bits": (retyped(t.Decimal(2, 0, 32), [99, -99, 100, -100], t.int32), ("decimals of more than 2 digits", 2, 2)),
    "digits of 128 bits": (retyped(t.Decimal(20, 0), [10**20 - 1, 1 - 10**20, 10**20], WIDE), ("decimals of more than 20 digits", 1, 2)),
    "negative digits of 128 bits": (retyped(t.Decimal(20, 0), [-(10**20), 0], WIDE), ("decimals of more than 20 digits", 1, 0)),
    "integers": (retyped(t.int64, [2**62], t.int64), None),
    "no slots": (retyped(t.date64, [], t.int64), None),
}  # fmt: skip


@pytest.mark.parametrize("case", SLOTS)
def test_slots_out_of_range_are_counted(case):
    array, expected = SLOTS[case]
    findings = [] if expected is None else [OutOfRange("c", *expected)]
    assert findings == list(out_of_range(array, "c"))


def test_null_slots_are_ignored():
    times = from_pylist.array([0, None], t.int32)
    hidden = memoryview(b"\0\0\0\0\xff\xff\xff\xff")
    array = Array(t.Time(t.TimeUnit.SECOND, 32), 2, 1, (times.buffers[0], hidden))
    assert [] == list(out_of_range(array, "c"))


def test_children_and_dictionaries_are_checked():
    dates = retyped(t.date64, [1, 0], t.int64)
    type_ = t.struct([("d", t.date64), ("e", t.dictionary(t.int8, t.date64))])
    for indices, seen in ((b"\1\0", [("c.e", 1, 0)]), (b"\1\1", [])):  # a value that no row uses is not noted
        encoded = Array(t.dictionary(t.int8, t.date64), 2, 0, (None, memoryview(indices)), (), dates)
        array = Array(type_, 2, 0, (None,), (dates, encoded))
        assert [("c.d", 1, 0), *seen] == [(one.path, one.count, one.first) for one in out_of_range(array, "c")]
