"""`to_pylist` gives what pyarrow gives, and a value where pyarrow has none."""

import datetime as dt
import zoneinfo

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")

from arrow_from_pyarrow import from_pyarrow, type_from_pyarrow, type_to_pyarrow  # noqa: E402
from pylist_cases import CASES, case_id  # noqa: E402

from spark_arrow_ipc.arrow import Array, numpy_views  # noqa: E402
from spark_arrow_ipc.arrow import types as t  # noqa: E402
from spark_arrow_ipc.arrow.python_values import from_pylist  # noqa: E402
from spark_arrow_ipc.errors import InvalidBodyError  # noqa: E402

S, MS, US, NS = t.TimeUnit


def assert_same(expected, actual, type_):
    # pandas values, and MonthDayNano, equal but do not look like what we give.
    if "[ns" in str(type_) or "nano" in str(type_):
        assert expected == actual
    else:
        assert repr(expected) == repr(actual)


@pytest.mark.parametrize(("type_", "values"), CASES, ids=case_id)
def test_values_are_those_of_pyarrow(type_, values):
    expected = pa.array(values, type_)
    assert_same(expected.to_pylist(), from_pyarrow(expected).to_pylist(), type_)


@pytest.mark.parametrize(("type_", "values"), CASES, ids=case_id)
def test_slices_are_those_of_pyarrow(type_, values):
    whole = pa.array(values * 4, type_)
    for begin, length in [(1, len(values)), (3, 2 * len(values)), (9, 0), (0, 0), (len(whole), 0)]:
        expected = whole.slice(begin, length)
        assert_same(expected.to_pylist(), from_pyarrow(expected).to_pylist(), type_)
        assert_same(expected.to_pylist(), from_pyarrow(whole).slice(begin, length).to_pylist(), type_)


@pytest.mark.parametrize(("type_", "values"), CASES, ids=case_id)
def test_slices_inside_nested_arrays_are_those_of_pyarrow(type_, values):
    child = pa.array(values * 4, type_).slice(2)
    struct = pa.StructArray.from_arrays([child, child.slice(0)], names=["a", "b"], mask=_mask(len(child)))
    lists = pa.ListArray.from_arrays(pa.array([0, 2, None, 5, 5, len(child)], pa.int32()), child)
    fixed = pa.FixedSizeListArray.from_arrays(child.slice(0, len(child) // 2 * 2), 2)
    for parent in (struct, lists, fixed):
        assert_same(parent.to_pylist(), from_pyarrow(parent).to_pylist(), type_)
        assert_same(parent[1:-1].to_pylist(), from_pyarrow(parent[1:-1]).to_pylist(), type_)


def _mask(length):
    return pa.array([i == 2 for i in range(length)])


@pytest.mark.parametrize(("type_", "values"), CASES, ids=case_id)
def test_empty_array_may_have_empty_buffers(type_, values):
    ours = type_from_pyarrow(type_)
    built = from_pylist.array([], ours)
    bare = Array(ours, 0, 0, tuple(None if b is None else memoryview(b"") for b in built.buffers), built.children,
                 built.dictionary)  # fmt: skip
    assert bare.to_pylist() == []


@pytest.mark.parametrize("dense", [False, True])
def test_union_is_the_value_of_the_selected_child(dense):
    type_ids = pa.array([7, 3, 3, 7, 3], pa.int8())
    if dense:
        children = [pa.array(["a", "b"]), pa.array([1, None, 3])]
        union = pa.UnionArray.from_dense(type_ids, pa.array([1, 0, 1, 0, 2], pa.int32()), children, ["s", "i"], [7, 3])
    else:
        children = [pa.array(["b", None, "x", "a", "y"]), pa.array([9, 1, None, 9, 3])]
        union = pa.UnionArray.from_sparse(type_ids, children, ["s", "i"], [7, 3])
    assert ["b", 1, None, "a", 3] == union.to_pylist() == from_pyarrow(union).to_pylist()
    assert union[2:].to_pylist() == from_pyarrow(union[2:]).to_pylist()
    assert union[1:4].to_pylist() == from_pyarrow(union).slice(1, 3).to_pylist()
    nested = pa.StructArray.from_arrays([union], names=["u"])
    assert nested[2:].to_pylist() == from_pyarrow(nested[2:]).to_pylist()


def test_dictionary_may_hold_null():
    dictionary = pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), pa.array([None, "b"]))
    assert dictionary.to_pylist() == from_pyarrow(dictionary).to_pylist()


def test_list_view_may_overlap_and_go_backwards():
    offsets, sizes = pa.array([2, 0, 1, 3], pa.int32()), pa.array([2, 3, 0, 1], pa.int32())
    views = pa.ListViewArray.from_arrays(
        offsets, sizes, pa.array([1, 2, 3, 4]), mask=pa.array([False, False, False, True])
    )
    assert [[3, 4], [1, 2, 3], [], None] == views.to_pylist() == from_pyarrow(views).to_pylist()


def test_struct_with_a_name_twice_keeps_its_last_field():
    struct = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    assert from_pyarrow(struct).to_pylist() == [{"a": 2}]


def raw(type_, units):
    """Return an array of raw units, null last."""
    dtype = numpy_views.dtype_of(type_)
    data = memoryview(np.array([*units, 0], dtype).tobytes())
    valid = (1 << len(units)) - 1
    return Array(type_, len(units) + 1, 1, (memoryview(bytes([valid])), data))


_MIN, _MAX = -(2**63), 2**63 - 1
_YEAR_1 = -62_135_596_800
_YEAR_10000 = 253_402_300_800
RAW = [
    ("date32 before year 1", t.date32, [-719_163, -719_162], [-719_163, dt.date(1, 1, 1)]),
    ("date32 after 9999", t.date32, [2_932_897, 2_932_896], [2_932_897, dt.date(9999, 12, 31)]),
    ("date32 extremes", t.date32, [-(2**31), 2**31 - 1], [-(2**31), 2**31 - 1]),
    ("date64 time of day", t.date64, [86_400_005, -1], [dt.date(1970, 1, 2), dt.date(1969, 12, 31)]),
    ("date64 extremes", t.date64, [_MIN, _MAX], [_MIN, _MAX]),
    ("time outside the day", t.Time(S, 32), [86_400, -1, 86_399], [86_400, -1, dt.time(23, 59, 59)]),
    ("time ns", t.Time(NS, 64), [1_001, 2_000], [1_001, dt.time(0, 0, 0, 2)]),
    ("time us extremes", t.Time(US, 64), [_MIN, _MAX], [_MIN, _MAX]),
    ("timestamp s range", t.Timestamp(S), [_YEAR_1 - 1, _YEAR_1], [_YEAR_1 - 1, dt.datetime(1, 1, 1)]),
    ("timestamp s end", t.Timestamp(S), [_YEAR_10000], [_YEAR_10000]),
    ("timestamp ms extremes", t.Timestamp(MS), [_MIN, _MAX], [_MIN, _MAX]),
    ("timestamp us extremes", t.Timestamp(US), [_MIN, _MAX], [_MIN, _MAX]),
    ("timestamp ns", t.Timestamp(NS), [1, -1_000, _MIN], [1, dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), _MIN]),
    ("zone beyond year 1", t.Timestamp(S, "-05:00"), [_YEAR_1], [_YEAR_1]),
    ("duration s extremes", t.Duration(S), [_MIN, _MAX], [_MIN, _MAX]),
    ("duration us extremes", t.Duration(US), [_MIN, _MAX], [dt.timedelta(microseconds=_MIN), dt.timedelta(microseconds=_MAX)]),
    ("duration ns", t.Duration(NS), [1, -1_000], [1, dt.timedelta(microseconds=-1)]),
    ("duration limits", t.Duration(S), [-86_400 * 999_999_999, 86_400 * 10**9 - 1, 86_400 * 10**9],
     [dt.timedelta.min, dt.timedelta(days=999_999_999, seconds=86_399), 86_400 * 10**9]),
    ("months", t.IntervalYearMonth(), [14, -1], [14, -1]),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "units", "expected"), [case[1:] for case in RAW], ids=[case[0] for case in RAW])
def test_raw_units_where_datetime_cannot_hold_the_value(type_, units, expected):
    array = raw(type_, units)
    assert [*expected, None] == array.to_pylist()
    assert [type(value) for value in expected] == [type(value) for value in array.to_pylist()[:-1]]


def test_day_time_interval_is_a_tuple():
    array = Array(t.IntervalDayTime(), 2, 0, (None, memoryview(np.array([1, -2, 3, 4], np.int32).tobytes())))
    assert array.to_pylist() == [(1, -2), (3, 4)]


ZONES = [
    ("UTC", zoneinfo.ZoneInfo("UTC")),
    ("Asia/Kolkata", zoneinfo.ZoneInfo("Asia/Kolkata")),
    ("+05:30", dt.timezone(dt.timedelta(hours=5, minutes=30))),
    ("-0330", dt.timezone(-dt.timedelta(hours=3, minutes=30))),
    ("+02", dt.timezone(dt.timedelta(hours=2))),
    ("+99:00", dt.UTC),
    ("Nowhere/Atlantis", dt.UTC),
    ("../../etc/passwd", dt.UTC),
    ("America", dt.UTC),
    ("a\0b", dt.UTC),
]


@pytest.mark.parametrize(("name", "zone"), ZONES)
def test_time_zone_of_any_name_keeps_the_instant(name, zone):
    """The instant is what the file holds; no name from a file may raise."""
    (value, _) = raw(t.Timestamp(S, name), [1_600_000_000]).to_pylist()
    assert dt.datetime.fromtimestamp(1_600_000_000, zone) == value
    assert zone == value.tzinfo


def int32s(values):
    return memoryview(np.array(values, np.int32).tobytes())


def test_positions_outside_their_target_are_an_error():
    child = from_pylist.array([1, 2], t.int8)
    text = memoryview(b"ab")
    broken = [
        Array(t.list_(t.int8), 1, 0, (None, int32s([0, 9])), (child,)),
        Array(t.utf8, 1, 0, (None, int32s([-1, 1]), text)),
        Array(t.utf8, 2, 0, (None, int32s([0, 2, 1]), text)),
        Array(t.utf8, 1, 0, (None, int32s([0]), text)),
        Array(t.utf8, 1, 0, (None, int32s([0, 1]), memoryview(b"\xff"))),
        Array(t.utf8_view, 1, 0, (None, int32s([13, 0, 1, 0]), text)),
        Array(t.utf8_view, 1, 0, (None, int32s([13, 0, 0, 0]), text)),
        Array(t.utf8_view, 1, 0, (None, int32s([-1, 0, 0, 0]), text)),
        Array(t.ListView(t.Field("x", t.int8)), 1, 0, (None, int32s([1]), int32s([2])), (child,)),
        Array(t.ListView(t.Field("x", t.int8)), 1, 0, (None, int32s([1]), int32s([-1])), (child,)),
        Array(t.FixedSizeList(t.Field("x", t.int8), 3), 1, 0, (None,), (child,)),
        Array(t.dictionary(t.int32, t.int8), 1, 0, (None, int32s([2])), (), child),
        Array(t.dictionary(t.int32, t.int8), 1, 0, (None, int32s([-1])), (), child),
        Array(t.SparseUnion((t.Field("x", t.int8),), (1,)), 1, 0, (memoryview(b"\2"),), (child,)),
        Array(t.DenseUnion((t.Field("x", t.int8),), (1,)), 1, 0, (memoryview(b"\1"), int32s([2])), (child,)),
        Array(t.run_end_encoded(t.int32, t.int8), 9, 0, (), (from_pylist.array([3, 8], t.int32), child)),
    ]
    for array in broken:
        with pytest.raises(InvalidBodyError):
            array.to_pylist()


def test_garbage_under_null_is_not_looked_at():
    nothing = memoryview(b"\0")
    assert Array(t.utf8, 1, 1, (nothing, int32s([0, 1]), memoryview(b"\xff"))).to_pylist() == [None]
    assert Array(t.utf8_view, 1, 1, (nothing, int32s([99, 9, 9, 9]))).to_pylist() == [None]
    assert Array(
        t.dictionary(t.int32, t.int8), 1, 1, (nothing, int32s([99])), (), from_pylist.array([], t.int8)
    ).to_pylist() == [None]
    views = Array(
        t.ListView(t.Field("x", t.int8)), 1, 1, (nothing, int32s([-5]), int32s([-7])), (from_pylist.array([], t.int8),)
    )
    assert views.to_pylist() == [None]


@pytest.mark.parametrize(("type_", "values"), CASES, ids=case_id)
def test_types_come_back_from_ours(type_, values):
    assert type_ == type_to_pyarrow(type_from_pyarrow(type_))
