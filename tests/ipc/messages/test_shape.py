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
from spark_arrow_ipc.errors import InvalidMetadataError
from spark_arrow_ipc.ipc.flatbuf import builder, tables
from spark_arrow_ipc.ipc.messages import shape
from spark_arrow_ipc.ipc.messages.message import decode_message
from spark_arrow_ipc.ipc.messages.shape import MessageDecoder, learn

SCHEMA = Schema.of([t.field("a", t.int64)])


def messages(*lengths, custom_metadata=()):
    """The metadata of one record batch of each length."""
    sink = io.BytesIO()
    batches = [
        RecordBatch(SCHEMA, (from_pylist.array(list(range(length)), t.int64),), length, custom_metadata)
        for length in lengths
    ]
    ipc.write(sink, batches, SCHEMA, ipc.WriteOptions(compression=None))
    with ipc.open_file(sink.getvalue()) as reader:
        places = [(block.byte_offset, block.metadata_nbytes) for block in reader.blocks]
    return [memoryview(sink.getvalue()[start : start + nbytes]) for start, nbytes in places]


def test_messages_of_one_writer_have_one_shape():
    first, second = messages(10, 300)
    learnt = learn(first, ipc.Limits())
    assert learnt.fits(second)
    assert (10, 300) == (learnt.rows(first), learnt.rows(second))
    data = np.frombuffer(bytes(first) + bytes(second), np.uint8)
    headers = learnt.read(data, np.array([0, len(first)]))
    assert [10, 300] == headers.lengths.tolist()
    assert [[[10, 0]], [[300, 0]]] == headers.nodes.tolist()
    assert [[[0, 0], [0, 80]], [[0, 0], [0, 2400]]] == headers.buffers.tolist()
    assert [128, 2432] == headers.body_nbytes.tolist()


def test_reading_ends_at_a_message_of_another_shape():
    first, second = messages(10, 300)
    other = bytearray(second)
    other[8] ^= 1
    learnt = learn(first, ipc.Limits())
    assert not learnt.fits(memoryview(other))
    data = np.frombuffer(bytes(first) + bytes(other) + bytes(second), np.uint8)
    assert [10] == learnt.read(data, np.array([0, len(first), 2 * len(first)])).lengths.tolist()


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
    learnt = learn(messages(10)[0], ipc.Limits())
    places = (learnt.length, learnt.body_nbytes, learnt.nodes, learnt.buffers)
    shared = [i for place, _ in learnt.shared for i in range(place.start, place.stop)]
    assert sorted([*shared, *(i for place in places for i in place)]) == list(range(learnt.nbytes))


def known_or_decoded(decoder, metadata):
    message = decoder.find_alike(metadata)
    return decoder.decode(metadata, 8, ipc.Limits()) if message is None else message


def test_the_same_bytes_are_decoded_once():
    decoder, metadata = MessageDecoder(), framed({"header": (tables.RECORD_BATCH, BATCH), "bodyLength": 8})
    memory = bytearray(metadata)
    first = known_or_decoded(decoder, memoryview(memory))
    memory[:] = bytes(len(memory))  # as a mapped file that somebody writes
    assert (first.header.length, first.header.nodes.tolist()) == (3, ROWS.tolist())
    assert decoder.find_alike(metadata) is first
    with pytest.raises(InvalidMetadataError):
        known_or_decoded(decoder, metadata[:16])
    # What a view of a schema has visited counts for its limits, so each decoding has its own view.
    schema = framed({"header": (tables.SCHEMA, {}), "bodyLength": 0})
    assert known_or_decoded(decoder, schema) is not known_or_decoded(decoder, schema)


def test_a_message_of_a_known_shape_is_what_it_is_alone(monkeypatch):
    decoder = MessageDecoder()
    for number, metadata in enumerate(messages(*range(40))):
        if number == 3:
            monkeypatch.setattr(shape, "decode_message", None)  # nothing is decoded any more
        message, alone = known_or_decoded(decoder, metadata), decode_message(metadata[8:], ipc.Limits())
        assert message._replace(header=None) == alone._replace(header=None)
        for actual, expected in zip(message.header, alone.header, strict=True):
            assert np.array_equal(actual, expected)


@pytest.mark.parametrize("name", ["length", "bodyLength"])
def test_a_negative_count_is_an_error_in_a_known_shape(name):
    decoder = MessageDecoder()
    for count in (3, 4, 5, -6):
        counts = {"length": 3, "bodyLength": 8, name: count}
        header = (tables.RECORD_BATCH, {**BATCH, "length": counts["length"]})
        metadata = framed({"header": header, "bodyLength": counts["bodyLength"]})
        if count > 0:
            known_or_decoded(decoder, metadata)
    assert decoder._shape.fits(metadata)
    with pytest.raises(InvalidMetadataError, match="at least 0, found -6"):
        known_or_decoded(decoder, metadata)


def test_messages_without_a_shape_are_not_learnt_for_ever(monkeypatch):
    decoder, tries = MessageDecoder(), []
    monkeypatch.setattr(shape, "_shape_of", lambda *_: tries.append(1))
    for metadata in messages(*range(100)):
        known_or_decoded(decoder, metadata)
    assert len(tries) == shape._MOST_LEARNT
