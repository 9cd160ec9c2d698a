"""Python values of every type that pyarrow can build, for tests that take pyarrow as the oracle."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa

_NAIVE = [dt.datetime(2020, 2, 29, 12, 34, 56), None, dt.datetime(1969, 12, 31, 23, 59, 59), dt.datetime(1970, 1, 1)]
_AWARE = [None if value is None else value.replace(tzinfo=dt.UTC) for value in _NAIVE]
_MICROS = dt.timedelta(microseconds=123_456)
_FINE = [None if value is None else value + _MICROS for value in _NAIVE]
_TIMES = [dt.time(0), None, dt.time(23, 59, 59), dt.time(1, 2, 3)]
_FINE_TIMES = [dt.time(0), None, dt.time(23, 59, 59, 999_999), dt.time(1, 2, 3, 4)]
_DURATIONS = [dt.timedelta(0), None, dt.timedelta(days=-3, seconds=5), dt.timedelta(days=40_000)]
_TEXT = ["", None, "a", "twelve bytes", "thirteen byte", "zwölf Boxkämpfer jagen Viktor", "\N{GRINNING FACE}" * 9]
_BYTES = [b"", None, b"\xff", b"twelve bytes", b"thirteen byte", bytes(range(256))]
_LISTS = [[1, None], None, [], [2, 3, 4], [None]]
_STRUCT = pa.struct([("a", pa.int8()), ("b", pa.utf8())])
_DEEP = pa.list_(pa.struct([("m", pa.map_(pa.utf8(), pa.list_(pa.int16()))), ("f", pa.list_(pa.float32(), 2))]))
_DEEP_VALUES = [
    [{"m": [("k", [1, None]), ("l", None)], "f": [1.5, None]}, None, {"m": None, "f": None}],
    None,
    [],
    [{"m": [], "f": [0.0, -0.0]}],
    [{"m": [("z", [])], "f": None}],
]

CASES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.null(), [None, None, None]),
    (pa.bool_(), [True, None, False, True, True, False, None, True, True, False]),
    (pa.int8(), [-128, None, 127, 0]),
    (pa.int16(), [-(2**15), None, 2**15 - 1, 0]),
    (pa.int32(), [-(2**31), None, 2**31 - 1, 0]),
    (pa.int64(), [-(2**63), None, 2**63 - 1, 0]),
    (pa.uint8(), [255, None, 0]),
    (pa.uint16(), [2**16 - 1, None, 0]),
    (pa.uint32(), [2**32 - 1, None, 0]),
    (pa.uint64(), [2**64 - 1, None, 0]),
    (pa.float16(), [1.5, None, -0.0, float("inf"), float("nan"), 65504.0]),
    (pa.float32(), [1.5, None, -0.0, float("-inf"), float("nan"), 2.0**-149]),
    (pa.float64(), [1.1, None, -0.0, float("inf"), float("nan"), 5e-324]),
    (pa.decimal32(9, 2), [Decimal("1234567.89"), None, Decimal("-0.01"), Decimal(0)]),
    (pa.decimal64(18, 2), [Decimal("1234567890123456.78"), None, Decimal("-0.01"), Decimal(0)]),
    (pa.decimal128(38, 10), [Decimal("9" * 28), None, Decimal("-" + "9" * 28), Decimal("1E-10"), Decimal(-1)]),
    (pa.decimal128(5, -2), [Decimal(1500), None, Decimal("-12E5"), Decimal(0)]),
    (pa.decimal256(76, 38), [Decimal("9" * 38), None, Decimal("-" + "9" * 38), Decimal("1E-38"), Decimal(-1)]),
    (pa.date32(), [dt.date(1, 1, 1), None, dt.date(9999, 12, 31), dt.date(1969, 12, 31)]),
    (pa.date64(), [dt.date(1, 1, 1), None, dt.date(9999, 12, 31), dt.date(1969, 12, 31)]),
    (pa.time32("s"), _TIMES),
    (pa.time32("ms"), [*_TIMES, dt.time(4, 5, 6, 7000)]),
    (pa.time64("us"), _FINE_TIMES),
    (pa.time64("ns"), _FINE_TIMES),
    (pa.timestamp("s"), _NAIVE),
    (pa.timestamp("ms"), _NAIVE),
    (pa.timestamp("us"), [*_FINE, dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999_999)]),
    (pa.timestamp("ns"), _FINE),
    (pa.timestamp("s", "UTC"), _AWARE),
    (pa.timestamp("ms", "America/New_York"), _AWARE),
    (pa.timestamp("us", "+05:30"), _AWARE),
    (pa.timestamp("us", "-03:00"), _AWARE),
    (pa.timestamp("us", "Europe/Berlin"), [dt.datetime(2020, 10, 25, h, 30, tzinfo=dt.UTC) for h in (0, 1, 2)]),
    (pa.timestamp("ns", "Europe/Berlin"), _AWARE),
    (pa.duration("s"), _DURATIONS),
    (pa.duration("ms"), _DURATIONS),
    (pa.duration("us"), [*_DURATIONS, dt.timedelta(microseconds=-1)]),
    (pa.duration("ns"), [*_DURATIONS, dt.timedelta(microseconds=-1)]),
    (pa.month_day_nano_interval(), [(1, -2, 3), None, (0, 0, 0), (-(2**31), 2**31 - 1, -(2**63))]),
    (pa.binary(3), [b"abc", None, b"\x00\xff\x00"]),
    (pa.binary(0), [b"", None, b""]),
    (pa.binary(), _BYTES),
    (pa.large_binary(), _BYTES),
    (pa.binary_view(), _BYTES),
    (pa.utf8(), _TEXT),
    (pa.utf8(), ["only", None, "ascii", ""]),
    (pa.large_utf8(), _TEXT),
    (pa.string_view(), _TEXT),
    (pa.list_(pa.int32()), _LISTS),
    (pa.large_list(pa.int32()), _LISTS),
    (pa.list_view(pa.int32()), _LISTS),
    (pa.large_list_view(pa.int32()), _LISTS),
    (pa.list_(pa.field("element", pa.utf8(), nullable=False)), [["a"], None, [], ["b", "c"]]),
    (pa.list_(pa.int32(), 2), [[1, 2], None, [None, 3], [4, 5]]),
    (pa.list_(pa.int32(), 0), [[], None, []]),
    (_STRUCT, [{"a": 1, "b": "x"}, None, {"a": None, "b": "y"}, {"a": 2, "b": None}]),
    (pa.struct([]), [{}, None, {}]),
    (pa.map_(pa.utf8(), pa.int64()), [[("a", 1), ("b", None)], None, [], [("a", 3)]]),
    (pa.dictionary(pa.int8(), pa.utf8()), ["a", None, "b", "a", "a", "c"]),
    (pa.dictionary(pa.uint32(), pa.int64()), [5, None, 5, 2**40]),
    (pa.run_end_encoded(pa.int16(), pa.utf8()), ["a", "a", None, None, "b", "a"]),
    (pa.run_end_encoded(pa.int64(), pa.float64()), [1.0, 1.0, 0.5, -0.0, None]),
    (pa.list_(pa.dictionary(pa.int16(), pa.utf8())), [["a", "b"], None, ["a", None], []]),
    (pa.struct([("d", pa.dictionary(pa.int8(), pa.utf8()))]), [{"d": "a"}, None, {"d": None}, {"d": "a"}]),
    (pa.list_view(pa.list_(_STRUCT, 1)), [[[{"a": 1, "b": None}]], None, [], [None, [None]]]),
    (_DEEP, _DEEP_VALUES),
]


def case_id(value: object) -> str | None:
    """Return how pytest names a parameter: a type by its text."""
    return str(value) if isinstance(value, pa.DataType) else None
