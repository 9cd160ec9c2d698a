"""Headers that differ in their numbers only are read from where those numbers lie."""

import io
import struct

import numpy as np
import pytest

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import Schema
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.python_values import from_pylist
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.ipc.columns.coalesce import learn
from spark_arrow_ipc.ipc.flatbuf import builder, tables

SCHEMA = Schema.of([t.field("a", t.int64)])


def messages(*lengths, custom_metadata=()):
    """The metadata of one record batch of each length."""
    sink = io.BytesIO()
    batches = [
        RecordBatch(SCHEMA, (from_pylist.array(list(range(length)), t.int64),), length, custom_metadata)
        for length in lengths
    ]
    ipc.write(sink, batches, SCHEMA)
    with ipc.open_file(sink.getvalue()) as reader:
        places = [(block.byte_offset, block.metadata_nbytes) for block in reader.blocks]
    return [memoryview(sink.getvalue()[start : start + nbytes]) for start, nbytes in places]


def test_messages_of_one_writer_have_one_shape():
    first, second = messages(10, 300)
    shape = learn(first, ipc.Limits())
    assert shape.fits(second)
    assert (10, 300) == (shape.rows(first), shape.rows(second))
    data = np.frombuffer(bytes(first) + bytes(second), np.uint8)
    headers = shape.read(data, np.array([0, len(first)]))
    assert [10, 300] == headers.lengths.tolist()
    assert [[[10, 0]], [[300, 0]]] == headers.nodes.tolist()
    assert [[[0, 0], [0, 80]], [[0, 0], [0, 2400]]] == headers.buffers.tolist()
    assert [128, 2432] == headers.body_nbytes.tolist()


def test_reading_ends_at_a_message_of_another_shape():
    first, second = messages(10, 300)
    other = bytearray(second)
    other[8] ^= 1
    shape = learn(first, ipc.Limits())
    assert not shape.fits(memoryview(other))
    data = np.frombuffer(bytes(first) + bytes(other) + bytes(second), np.uint8)
    assert [10] == shape.read(data, np.array([0, len(first), 2 * len(first)])).lengths.tolist()


def framed(values):
    flatbuffer = builder.build(tables.MESSAGE, {"version": 4, **values})
    flatbuffer += bytes(-len(flatbuffer) % 8)
    return memoryview(b"\xff\xff\xff\xff" + struct.pack("<i", len(flatbuffer)) + flatbuffer)


ROWS = np.array([[3, 0]], np.int64)
BATCH = {"length": 3, "nodes": ROWS, "buffers": ROWS}
SHAPELESS = [
    ("no nodes and buffers", lambda: framed({"header": (tables.RECORD_BATCH, {"length": 3}), "bodyLength": 8})),
    ("a dictionary batch", lambda: framed({"header": (tables.DICTIONARY_BATCH, {"data": BATCH}), "bodyLength": 8})),
    ("variadic counts", lambda: framed({"header": (tables.RECORD_BATCH, {**BATCH, "variadicBufferCounts": [1]}), "bodyLength": 8})),
    ("custom metadata", lambda: messages(3, custom_metadata=(("k", "v"),))[0]),
    ("no message", lambda: memoryview(bytes(64))),
    ("half of one", lambda: messages(3)[0][:40]),
]  # fmt: skip


@pytest.mark.parametrize("make", [case[1] for case in SHAPELESS], ids=[case[0] for case in SHAPELESS])
def test_other_messages_have_no_shape(make):
    assert learn(make(), ipc.Limits()) is None


def test_a_message_with_every_number_has_a_shape():
    """The counterpart of the cases above: only what they name takes the shape away."""
    assert learn(framed({"header": (tables.RECORD_BATCH, BATCH), "bodyLength": 8}), ipc.Limits()) is not None


def test_numbers_are_the_only_bytes_that_may_differ():
    shape = learn(messages(10)[0], ipc.Limits())
    places = (shape.length, shape.body_nbytes, shape.nodes, shape.buffers)
    assert sorted(i for place in places for i in place) == np.flatnonzero(~shape.fixed).tolist()
