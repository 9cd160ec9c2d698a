"""Dates, times, timestamps and durations as text: one form a column, exact, and Python's own where it has one."""

import numpy as np
import pytest

from spark_arrow_ipc.arrow import Array, array_data
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.python_values.to_text import to_text

pa = pytest.importorskip("pyarrow")

S, MS, US, NS = t.TimeUnit
LEAST, MOST = -(2**63), 2**63 - 1
DAY = 86_400


def raw(type_, units):
    """Return an array of raw units, null last."""
    valid = (1 << len(units)) - 1
    data = memoryview(np.array([*units, 0], array_data.dtype_of(type_)).tobytes())
    return Array(type_, len(units) + 1, 1, (memoryview(valid.to_bytes(len(units) // 8 + 1, "little")), data))


TEXTS = [
    ("date32", t.date32, [0, -1], ["1970-01-01", "1969-12-31"]),
    ("date32 extremes", t.date32, [-(2**31), 2**31 - 1], ["-5877641-06-23", "5881580-07-11"]),
    ("date64", t.date64, [86_400_005, -1], ["1970-01-02", "1969-12-31"]),
    ("time s", t.Time(S, 32), [0, 86_399], ["00:00:00", "23:59:59"]),
    ("time outside the day", t.Time(S, 32), [86_400, -1], ["24:00:00", "-00:00:01"]),
    ("time ns", t.Time(NS, 64), [0, 1, 1_000], ["00:00:00.000000000", "00:00:00.000000001", "00:00:00.000001000"]),
    ("timestamp ns", t.Timestamp(NS), [0, 1, 1_000, -1],
     ["1970-01-01 00:00:00.000000000", "1970-01-01 00:00:00.000000001", "1970-01-01 00:00:00.000001000",
      "1969-12-31 23:59:59.999999999"]),
    ("timestamp ns extremes", t.Timestamp(NS), [LEAST, MOST],
     ["1677-09-21 00:12:43.145224192", "2262-04-11 23:47:16.854775807"]),
    ("timestamp ns in a zone", t.Timestamp(NS, "Asia/Kolkata"), [0, 1],
     ["1970-01-01 05:30:00.000000000+05:30", "1970-01-01 05:30:00.000000001+05:30"]),
    ("timestamp ns extremes in zones", t.Timestamp(NS, "-05:00"), [LEAST], ["1677-09-20 19:12:43.145224192-05:00"]),
    ("an offset with seconds", t.Timestamp(NS, "America/New_York"), [-4_000_000_000 * 10**9],
     ["1843-03-31 11:57:18.000000000-04:56:02"]),
    ("timestamp s outside datetime", t.Timestamp(S), [-62_135_596_801, 253_402_300_800],
     ["0000-12-31 23:59:59", "10000-01-01 00:00:00"]),
    ("timestamp s outside datetime in a zone", t.Timestamp(S, "Asia/Kolkata"), [253_402_300_800],
     ["10000-01-01 00:00:00+00:00"]),
    ("duration ns", t.Duration(NS), [0, 1, -1, 86_400 * 10**9],
     ["0:00:00.000000000", "0:00:00.000000001", "-1 day, 23:59:59.999999999", "1 day, 0:00:00.000000000"]),
    ("duration outside timedelta", t.Duration(S), [DAY * 10**9], ["1000000000 days, 0:00:00"]),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "units", "expected"), [c[1:] for c in TEXTS], ids=[c[0] for c in TEXTS])
def test_texts_of_raw_units(type_, units, expected):
    assert [*expected, None] == to_text(raw(type_, units))


@pytest.mark.parametrize("unit", list(t.TimeUnit))
@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York", "-03:30"])
def test_no_count_has_no_text(unit, zone):
    """Every count of 64 bits is one text, and no two counts share it."""
    units = [LEAST, LEAST + 1, -1, 0, 1, 999, 1_000, MOST - 1, MOST]
    for type_ in (t.Timestamp(unit, zone), t.Duration(unit)):
        texts = to_text(raw(type_, units))[:-1]
        assert len(set(units)) == len(set(texts))
        assert all(isinstance(text, str) for text in texts)


@pytest.mark.parametrize("unit", [S, MS, US])
def test_texts_are_pythons_where_python_holds_the_value(unit):
    rng = np.random.default_rng(5)
    seconds = rng.integers(-(10**10), 10**10, 300) * unit.per_second
    counts = [0, unit.per_second // 2, *seconds.tolist(), *(seconds + rng.integers(0, unit.per_second, 300)).tolist()]
    for ours, theirs in [
        (t.Timestamp(unit), pa.timestamp(unit.abbreviation)),
        (t.Timestamp(unit, "Europe/Berlin"), pa.timestamp(unit.abbreviation, "Europe/Berlin")),
        (t.Duration(unit), pa.duration(unit.abbreviation)),
    ]:
        assert [str(value) for value in pa.array(counts, theirs).to_pylist()] == to_text(raw(ours, counts))[:-1]


def test_nanoseconds_are_those_of_pyarrow():
    """pyarrow casts timestamps of nanoseconds to text with nine digits."""
    counts = np.random.default_rng(6).integers(LEAST, MOST, 500).tolist()
    assert (
        pa.array(counts, pa.timestamp("ns")).cast(pa.string()).to_pylist() == to_text(raw(t.Timestamp(NS), counts))[:-1]
    )


def nested():
    stamps = raw(t.Timestamp(NS), [1, 1_000])
    text = "1970-01-01T00:00:00.000000001", "1970-01-01T00:00:00.000001000"
    offsets = memoryview(np.array([0, 3], np.int32).tobytes())
    listed = Array(t.list_(stamps.type), 1, 0, (None, offsets), (stamps,))
    struct = Array(t.struct([t.Field("a", listed.type)]), 1, 0, (None,), (listed,))
    encoded = Array(t.dictionary(t.int8, stamps.type), 2, 0, (None, memoryview(b"\1\0")), (), stamps)
    runs = raw(t.int32, [1, 2]).slice(0, 2)
    run_ends = t.RunEndEncoded(t.Field("run_ends", t.int32, nullable=False), t.Field("values", stamps.type))
    ends = Array(run_ends, 2, 0, (), (runs, stamps.slice(0, 2)))
    ids = memoryview(b"\0\0")
    union = Array(t.SparseUnion((t.Field("n", stamps.type),), (0,)), 2, 0, (ids,), (stamps.slice(0, 2),))
    return [
        ("list", listed, [[*text, None]]),
        ("struct", struct, [{"a": [*text, None]}]),
        ("dictionary", encoded, [text[1], text[0]]),
        ("run ends", ends, list(text)),
        ("union", union, list(text)),
    ]


@pytest.mark.parametrize(("array", "expected"), [c[1:] for c in nested()], ids=[c[0] for c in nested()])
def test_texts_at_every_depth(array, expected):
    assert expected == to_text(array, separator="T")


def test_other_types_are_those_of_to_pylist():
    array = raw(t.int64, [1, 2])
    assert array.to_pylist() == to_text(array)
