"""Typed views of buffers: shape, values and offsets, of memory at any alignment."""

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")


from spark_arrow_ipc.arrow import Array, array_data  # noqa: E402
from spark_arrow_ipc.arrow import types as t  # noqa: E402
from spark_arrow_ipc.arrow.layout import LAYOUTS, Role, bit_width_of  # noqa: E402
from spark_arrow_ipc.arrow.python_values import from_pylist  # noqa: E402
from spark_arrow_ipc.errors import InvalidBodyError  # noqa: E402

S, MS, US, NS = t.TimeUnit


WIDTHS = [
    t.int8, t.uint64, t.float16, t.Decimal(3, 1, 32), t.Decimal(3, 1, 64), t.Decimal(3, 1), t.Decimal(3, 1, 256),
    t.date32, t.date64, t.Time(S, 32), t.Time(NS, 64), t.Timestamp(S), t.Duration(US), t.IntervalYearMonth(),
    t.IntervalDayTime(), t.IntervalMonthDayNano(), t.dictionary(t.uint16, t.utf8),
]  # fmt: skip


@pytest.mark.parametrize("type_", WIDTHS, ids=str)
def test_dtypes_are_as_wide_as_the_layout_says(type_):
    data = LAYOUTS[type(type_)].buffers[1]
    assert bit_width_of(type_, data) == 8 * array_data.dtype_of(type_).itemsize


def test_views_share_memory_and_are_read_only():
    memory = bytearray(np.arange(4, dtype=np.int64).tobytes())
    view = Array(t.int64, 3, 0, (None, memoryview(memory)), offset=1).to_numpy()
    memory[8] = 9
    assert [9, 2, 3] == view.tolist()
    assert not view.flags.writeable


@pytest.mark.parametrize("shift", range(8))
def test_memory_of_any_alignment_is_taken(shift):
    memory = memoryview(bytes(shift) + np.arange(5, dtype=np.int64).tobytes())[shift:]
    array = Array(t.int64, 3, 0, (None, memory), offset=2)
    assert [2, 3, 4] == array.to_pylist() == array.to_numpy().tolist()
    assert [2, 3, 4] == Array(t.Timestamp(S), 3, 0, (None, memory), offset=2).to_numpy().astype(int).tolist()


def test_structured_data():
    decimals = array_data.data_values(from_pylist.array([-1, 2**64], t.Decimal(38, 0)))
    assert [(2**64 - 1, -1), (0, 1)] == list(zip(decimals["w0"].tolist(), decimals["w1"].tolist(), strict=True))
    assert [(1, 2, 3)] == array_data.data_values(from_pylist.array([(1, 2, 3)], t.IntervalMonthDayNano())).tolist()
    fixed = array_data.data_values(from_pylist.array([b"ab", b"cd", b"ef"], t.FixedSizeBinary(2)).slice(1))
    assert [[99, 100], [101, 102]] == fixed.tolist()
    assert (3, 0) == array_data.data_values(from_pylist.array([b"", b"", b""], t.FixedSizeBinary(0))).shape
    assert [0, 1, 0] == array_data.data_values(
        from_pylist.array(["a", "b", "a"], t.dictionary(t.int8, t.utf8))
    ).tolist()
    with pytest.raises(TypeError):
        array_data.data_values(from_pylist.array(["a"], t.utf8))


def test_value_offsets_of_an_empty_buffer_are_one_zero():
    for buffer in (None, memoryview(b"")):
        assert [0] == array_data.value_offsets(Array(t.utf8, 0, 0, (None, buffer, memoryview(b"")))).tolist()
        assert np.int64 == array_data.value_offsets(Array(t.large_utf8, 0, 0, (None, buffer, memoryview(b"")))).dtype


def test_slots_honour_the_offset():
    lists = from_pylist.array([[1], [2, 3], None, [4]], t.list_(t.int8))
    assert [1, 3, 3, 4] == array_data.value_offsets(lists.slice(1)).tolist()
    views = from_pylist.array([[1], [2, 3], None, [4]], t.ListView(t.Field("x", t.int8))).slice(1)
    assert [[1, 0, 3], [2, 0, 1]] == [array_data.positions(views).tolist(), array_data.sizes(views).tolist()]
    union = from_pylist.array([1, "a", "b"], t.DenseUnion((t.Field("i", t.int8), t.Field("s", t.utf8)), (4, 2))).slice(
        1
    )
    assert [[2, 2], [0, 1]] == [array_data.type_ids(union).tolist(), array_data.positions(union).tolist()]
    text = array_data.views(from_pylist.array(["a", "thirteen byte", "fourteen bytes"], t.utf8_view).slice(1))
    assert [[13, 14], [0, 0], [0, 13]] == [text[name].tolist() for name in ("size", "index", "offset")]
    assert [b"thir", b"four"] == [bytes(prefix) for prefix in text["prefix"]]


def test_validity_mask_honours_the_offset():
    array = from_pylist.array([1, None, 3, None, 5, 6, 7, 8, None, 10], t.int8)
    assert [True, False, True] == array_data.validity_mask(array.slice(7)).tolist()
    assert array_data.validity_mask(from_pylist.array([1], t.int8)) is None
    assert [False, False] == array_data.validity_mask(from_pylist.array([None, None], t.null)).tolist()
    union = t.SparseUnion((t.Field("i", t.int8),), (0,))
    assert array_data.validity_mask(from_pylist.array([None], union)) is None


def test_a_buffer_that_ends_early_is_an_error():
    with pytest.raises(InvalidBodyError, match="at least 8 bytes, found 7 bytes"):
        array_data.view_as(memoryview(bytes(7)), np.int32, 1, 1)
    with pytest.raises(InvalidBodyError):
        array_data.view_as(None, np.int32, 0, 1)
    with pytest.raises(TypeError):
        array_data.buffer_of(from_pylist.array([1], t.int8), Role.VIEWS)
