"""Nodes and buffers of a header are checked alike whether there are few of them or many."""

import numpy as np
import pytest

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.errors import InvalidBodyError, InvalidMetadataError, LimitError
from spark_arrow_ipc.ipc.columns import batch_layout
from spark_arrow_ipc.ipc.columns.batch_layout import check_header
from spark_arrow_ipc.ipc.columns.plan import compile_plan
from spark_arrow_ipc.ipc.constants import Limits
from spark_arrow_ipc.ipc.flatbuf.tables import MetadataVersion
from spark_arrow_ipc.ipc.messages.message import RecordBatchHeader

PLAN = compile_plan((t.field("a", t.int64), t.field("b", t.int64)), (), MetadataVersion.V5)
BODY_NBYTES = 160
LARGEST = 2**63 - 1

NODES = [[10, 0], [10, 3]]
BUFFERS = [[0, 0], [0, 80], [80, 8], [88, 72]]


def changed(rows, number, row):
    return [row if i == number else each for i, each in enumerate(rows)]


SOUND = {
    "as written": (NODES, BUFFERS),
    "all slots null": (changed(NODES, 1, [10, 10]), BUFFERS),
    "an empty buffer at the end": (NODES, changed(BUFFERS, 2, [160, 0])),
    "a buffer of the whole body": (NODES, changed(BUFFERS, 1, [0, 160])),
}
WRONG = {
    "a negative null count": (changed(NODES, 1, [10, -1]), BUFFERS, InvalidMetadataError, "null_count -1 in node 1"),
    "more nulls than slots": (changed(NODES, 0, [10, 11]), BUFFERS, InvalidMetadataError, "null_count 11 in node 0"),
    "a negative length": (changed(NODES, 0, [-1, 0]), BUFFERS, InvalidMetadataError, "length -1, null_count 0 in node 0"),
    "too many slots": (changed(NODES, 1, [1001, 0]), BUFFERS, LimitError, "max_slots"),
    "a buffer of less than nothing": (NODES, changed(BUFFERS, 1, [8, -8]), InvalidBodyError, "field a: .* buffer 1 of -8 bytes at 8 "),
    "the most negative size": (NODES, changed(BUFFERS, 1, [8, -LARGEST - 1]), InvalidBodyError, "buffer 1 of -9,223"),
    "a buffer before the body": (NODES, changed(BUFFERS, 2, [-8, 8]), InvalidBodyError, "field b: .* buffer 2 of 8 bytes at -8 "),
    "a buffer that ends after the body": (NODES, changed(BUFFERS, 3, [88, 73]), InvalidBodyError, "buffer 3 of 73 bytes at 88"),
    "a buffer after the body": (NODES, changed(BUFFERS, 3, [168, 0]), InvalidBodyError, "buffer 3 of 0 bytes at 168"),
    "an end beyond 64 bits": (NODES, changed(BUFFERS, 3, [88, LARGEST]), InvalidBodyError, "buffer 3 of 9,223"),
    "buffers that share the body": (NODES, [[0, 160], [0, 160], [0, 160], [0, 0]], LimitError, "share bytes, asks for 480, .* max_batch_bytes"),
    "a buffer between two words": (NODES, changed(BUFFERS, 3, [84, 72]), InvalidBodyError, "buffer 3 of 72 bytes at 84"),
}  # fmt: skip


def checked(nodes, buffers):
    header = RecordBatchHeader(10, np.array(nodes, np.int64), np.array(buffers, np.int64), None, np.zeros(0, np.int64))
    return check_header(header, PLAN, BODY_NBYTES, Limits(max_slots=1000, max_batch_bytes=400))


@pytest.fixture(params=[0, 1000], ids=["many", "few"])
def many(request, monkeypatch):
    """The number of buffers from which on numpy looks at them."""
    monkeypatch.setattr(batch_layout, "_MANY_BUFFERS", request.param)
    return request.param == 0


@pytest.mark.parametrize("case", SOUND)
def test_sound_headers_pass(case, many, monkeypatch):
    nodes, buffers = SOUND[case]
    if many:  # and none of them a second time, one by one
        monkeypatch.setattr(batch_layout, "enumerate", None, raising=False)
    layout = checked(nodes, buffers)
    assert (nodes, buffers) == (layout.nodes, layout.buffers)


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.usefixtures("many")
def test_wrong_headers_are_named_errors(case):
    nodes, buffers, error, says = WRONG[case]
    with pytest.raises(error, match=says):
        checked(nodes, buffers)
