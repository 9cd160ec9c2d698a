"""`to_pylist` gives what pyarrow gives, and a value where pyarrow has none."""

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")

from arrow_from_pyarrow import from_pyarrow, type_from_pyarrow, type_to_pyarrow  # noqa: E402
from pylist_cases import CASES, case_id  # noqa: E402

from spark_arrow_ipc.arrow import Array  # noqa: E402
from spark_arrow_ipc.arrow import types as t  # noqa: E402
from spark_arrow_ipc.arrow.python_values import from_pylist  # noqa: E402
from spark_arrow_ipc.errors import InvalidBodyError  # noqa: E402


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


def test_day_time_interval_is_a_tuple():
    array = Array(t.IntervalDayTime(), 2, 0, (None, memoryview(np.array([1, -2, 3, 4], np.int32).tobytes())))
    assert array.to_pylist() == [(1, -2), (3, 4)]


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


FAR_APART = {
    "dictionary": lambda slots: pa.DictionaryArray.from_arrays(pa.array([*slots, None], pa.int32()), pa.array(map(str, range(5000)))),
    "list-view": lambda slots: pa.ListViewArray.from_arrays(
        pa.array([*slots, 4000, 7], pa.int32()), pa.array([3] * len(slots) + [0, 9], pa.int32()), pa.array(range(5010))
    ),
    "dense union": lambda slots: pa.UnionArray.from_dense(
        pa.array([0] * len(slots), pa.int8()), pa.array(sorted(slots), pa.int32()), [pa.array(range(5000))]
    ),
}  # fmt: skip


@pytest.mark.parametrize("make", FAR_APART.values(), ids=FAR_APART)
@pytest.mark.parametrize("slots", [[0, 4999], [4999, 0, 0, 2500, 2501, 2], [17], [5, 6, 7, 1000, 1001, 1003]])
def test_values_in_use_may_lie_far_apart(make, slots):
    """Those between them, which may be billions without memory, are not converted."""
    array = make(slots)
    assert array.to_pylist() == from_pyarrow(array).to_pylist()
    assert array.slice(1).to_pylist() == from_pyarrow(array.slice(1)).to_pylist()
