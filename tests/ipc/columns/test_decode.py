"""Arrays of one batch: a view into the body for each buffer, each as large as its slots need."""

import numpy as np
import pytest

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.errors import InvalidBodyError, InvalidDictionaryError
from spark_arrow_ipc.ipc.columns.batch_layout import BatchLayout
from spark_arrow_ipc.ipc.columns.decode import Regions, build_columns
from spark_arrow_ipc.ipc.columns.plan import compile_plan
from spark_arrow_ipc.ipc.flatbuf.tables import MetadataVersion

ROWS = 10


def built(type_, nodes, nbytes, ids=()):
    """Decode one column whose buffers have so many bytes, one after the other from byte 1,000 on."""
    plan = compile_plan((t.field("a", type_),), ids, MetadataVersion.V5)
    regions = [memoryview(bytes(own)) for own in nbytes]
    starts = np.cumsum([0, *nbytes])[:-1].tolist()
    layout = BatchLayout(nodes, [list(place) for place in zip(starts, nbytes, strict=True)], (0,))
    return build_columns(ROWS, plan, Regions(layout, regions, 1_000), lambda *_: None, swaps=False)


STRUCT = t.struct([("x", t.int8)])

SOUND = {
    "a validity bitmap that is left out": (t.int32, [[10, 0]], [0, 40], [None, 40]),
    "one that is there": (t.int32, [[10, 3]], [2, 40], [2, 40]),
    "buffers that are larger": (t.int32, [[10, 3]], [64, 64], [64, 64]),
    "no bytes at all in strings": (t.utf8, [[10, 0]], [0, 44, 0], [None, 44, 0]),
    "a child that is longer": (STRUCT, [[10, 0], [12, 0]], [0, 0, 12], [None]),
}


@pytest.mark.parametrize("case", SOUND)
def test_buffers_are_views_of_what_the_body_has(case):
    type_, nodes, nbytes, expected = SOUND[case]
    (column,) = built(type_, nodes, nbytes)
    assert [None if buffer is None else len(buffer) for buffer in column.buffers] == expected
    assert (column.length, column.null_count) == tuple(nodes[0])


WRONG = {
    "a column of another length": (t.int32, [[9, 0]], [0, 40], "a", "expected a column of 10 rows, found 9", 0),
    "nulls without a bitmap": (t.int32, [[10, 1]], [0, 40], "a", "a validity bitmap of 2 bytes for 10 slots, found 0", 0),
    "a bitmap that is too short": (t.int32, [[10, 1]], [1, 40], "a", "a validity bitmap of 2 bytes", 0),
    "values that are too short": (t.int32, [[10, 0]], [0, 39], "a", "values of 40 bytes for 10 slots, found 39", 0),
    "value offsets without the last": (t.utf8, [[10, 0]], [0, 40, 8], "a", "value offsets of 44 bytes", 0),
    "a child that is too short": (STRUCT, [[10, 0], [9, 0]], [0, 0, 10], "a", "child 'x' of at least 10 slots, found 9", 0),
    "values of a child that are too short": (STRUCT, [[10, 0], [10, 0]], [2, 8, 9], "a.x", "values of 10 bytes", 2),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_buffer_that_does_not_fit_is_named(case):
    type_, nodes, nbytes, path, says, byte_offset = WRONG[case]
    with pytest.raises(InvalidBodyError, match=says) as caught:
        built(type_, nodes, nbytes)
    assert (caught.value.field_path, caught.value.byte_offset) == (path, 1_000 + byte_offset)


def test_indices_need_a_dictionary_unless_all_are_null():
    encoded = t.dictionary(t.int8, t.utf8)
    (column,) = built(encoded, [[10, 10]], [2, 10], ids=(0,))
    assert column.dictionary.length == 0
    with pytest.raises(InvalidDictionaryError, match="a dictionary batch of id 0 before its first use"):
        built(encoded, [[10, 9]], [2, 10], ids=(0,))
