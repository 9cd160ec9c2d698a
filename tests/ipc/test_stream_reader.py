"""A stream is read in order and once; errors name the message and the byte offset."""

import io
import os
import struct
import threading
from pathlib import Path

import pytest
from reader_cases import ALL_ROWS, BATCHES, PLACES, ROWS, SCHEMA, STREAM, Pipe, read, saved, wide

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import RecordBatch, Schema
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.errors import InvalidDictionaryError, InvalidFramingError
from spark_arrow_ipc.ipc.messages.message import decode_message
from spark_arrow_ipc.ipc.stream_index import StreamStart

DATA = Path(__file__).parents[1] / "data"


@pytest.mark.parametrize("source", [lambda: STREAM, lambda: Pipe(STREAM)], ids=["bytes", "pipe"])
@pytest.mark.parametrize("columns", [None, ["a"]], ids=["whole", "some"])
def test_a_stream_that_ended_stays_ended(source, columns):
    reader = ipc.open_stream(source(), columns=columns)
    assert 3 == len(list(reader))
    assert [] == list(reader)
    with pytest.raises(StopIteration):
        next(reader)


def test_bytes_after_the_end_of_a_stream_are_not_read():
    assert ALL_ROWS == read(STREAM + b"what else is in this socket")


def test_a_batch_comes_before_the_next_one_was_written():
    """A reader of a pipe may not wait for bytes that it does not need yet."""
    reading, writing = os.pipe()
    said = threading.Event()

    def write():
        with os.fdopen(writing, "wb", buffering=0) as sink:
            writer = ipc.create(sink, SCHEMA, ipc.WriteOptions(format="stream"))
            writer.write(BATCHES[0])
            said.wait(30)
            writer.write(BATCHES[1])
            writer.close()

    thread = threading.Thread(target=write)
    thread.start()
    with os.fdopen(reading, "rb", buffering=0) as source, ipc.open_stream(source) as reader:
        assert ALL_ROWS[0] == next(reader).to_pylist()
        assert not said.is_set()
        said.set()
        assert [ALL_ROWS[1]] == [batch.to_pylist() for batch in reader]
    thread.join()


def test_a_body_that_is_not_read_still_has_to_be_there():
    """The columns asked for are whole, and the rows after the cut would be lost silently."""
    whole = wide("stream")
    second = len(whole) - 100_000
    for source in (io.BytesIO, Pipe, bytes):
        with (
            pytest.raises(InvalidFramingError, match="truncated") as caught,
            ipc.open(source(whole[:second]), columns=["a"]) as reader,
        ):
            list(reader)
        assert ("record batch", 1) == (caught.value.block_kind, caught.value.block_number)


CUTS = [
    # where it is cut, block kind and number, byte offset
    ("inside a prefix", PLACES[2][0] + 6, None, None, PLACES[2][0] + 4),
    ("inside the first bytes", PLACES[2][0] + 3, None, None, PLACES[2][0]),
    ("inside metadata", PLACES[3][0] + 50, None, None, PLACES[3][0] + 8),
    ("inside a body", PLACES[4][1] + 1000, "record batch", 2, PLACES[4][1]),
    ("inside a dictionary", PLACES[1][1] + 3, "dictionary batch", 0, PLACES[1][1]),
    ("inside the schema", 100, None, None, 8),
]


@pytest.mark.parametrize("case", CUTS, ids=[case[0] for case in CUTS])
def test_a_cut_stream_says_where(tmp_path, case):
    _, nbytes, kind, number, byte_offset = case
    path = saved(STREAM[:nbytes], tmp_path)
    with pytest.raises(InvalidFramingError) as caught:
        read(path)
    found = caught.value
    assert (str(path), kind, number) == (found.path, found.block_kind, found.block_number)
    assert byte_offset == found.byte_offset
    with pytest.raises(InvalidFramingError) as of_pipe:
        read(Pipe(STREAM[:nbytes]))
    assert byte_offset == of_pipe.value.byte_offset


@pytest.mark.parametrize("source", [bytes, Pipe], ids=["bytes", "pipe"])
def test_a_stream_without_end_marker_is_whole_where_a_message_ends(source):
    """Columnar.rst: the writer may close the stream instead."""
    assert ALL_ROWS == read(source(STREAM[:-8]))
    assert ALL_ROWS[:2] == read(source(STREAM[: PLACES[4][0]]))


def test_a_second_schema_in_a_stream_is_an_error():
    start, end = PLACES[0][0], PLACES[0][1]
    with pytest.raises(InvalidFramingError, match=r"one schema.*found another one") as caught:
        read(STREAM[: PLACES[2][0]] + STREAM[start:end] + STREAM[PLACES[2][0] :])
    assert PLACES[2][0] == caught.value.byte_offset


def test_indices_before_their_dictionary_are_an_error():
    without = STREAM[: PLACES[1][0]] + STREAM[PLACES[2][0] :]
    with pytest.raises(InvalidDictionaryError, match="a dictionary batch of id 0 before its first use") as caught:
        read(without)
    assert ("record batch", 0, "d") == (caught.value.block_kind, caught.value.block_number, caught.value.field_path)
    assert [[{"a": row["a"]} for row in rows_] for rows_ in ALL_ROWS] == read(without, columns=["a"])


def test_a_legacy_stream_of_a_pipe_is_read_to_its_4_byte_end():
    data = (DATA / "integers.v4.legacy.arrows").read_bytes()
    assert data.endswith(bytes(4))
    assert read(DATA / "integers.arrow") == read(Pipe(data))
    assert read(DATA / "integers.arrow") == read(Pipe(data[:-4]))


def test_an_outer_dictionary_may_come_before_the_inner_one():
    """arrow-java writes them in this order; a pipe and bytes give the same."""
    inner = t.dictionary(t.int8, t.utf8)
    schema = Schema.of([t.field("a", t.dictionary(t.int8, t.struct([("w", inner)])))])
    expected = [{"a": {"w": "x"}}, {"a": {"w": "y"}}, {"a": None}]
    sink = io.BytesIO()
    ipc.write(sink, [RecordBatch.from_pylist(expected, schema)], options=ipc.WriteOptions(format="stream"))
    content = sink.getvalue()
    starts, offset = [], 0
    while (length := int.from_bytes(content[offset + 4 : offset + 8], "little")) != 0:
        starts.append(offset)
        message = decode_message(memoryview(content)[offset + 8 : offset + 8 + length], ipc.Limits())
        offset += 8 + length + message.body_nbytes
    schema_message, first, second, batch = (content[a:b] for a, b in zip(starts, [*starts[1:], offset], strict=True))
    swapped = schema_message + second + first + batch + content[offset:]
    assert [expected, expected] == [next(iter(ipc.open(source))).to_pylist() for source in (swapped, Pipe(swapped))]


def test_a_start_that_is_no_dictionary_is_refused():
    """The index is of another file, or the file has changed."""
    wrong = StreamStart(PLACES[3][0], 1, ROWS, 1, ((0, PLACES[2][0]),))
    with pytest.raises(InvalidFramingError, match="a dictionary batch, as the index of the stream has it") as caught:
        ipc.open_stream(STREAM, columns=["a"]).start_at(wrong)
    assert PLACES[2][0] == caught.value.byte_offset


@pytest.mark.parametrize("most", [0, 1, 2])
@pytest.mark.parametrize("below_rows", [1, 1000], ids=["alone", "joined"])
def test_no_more_batches_are_read_than_asked_for(most, below_rows):
    reader = ipc.open_stream(STREAM)
    rows = [row for batch, _ in reader.read_joined(below_rows=below_rows, most=most) for row in batch.to_pylist()]
    assert [row for rows_ in ALL_ROWS[:most] for row in rows_] == rows
    assert ALL_ROWS[most:] == [batch.to_pylist() for batch in reader]


def test_a_broken_prefix_of_joined_batches_is_located():
    start = PLACES[3][0]
    data = STREAM[: start + 4] + struct.pack("<i", -8) + STREAM[start + 8 :]
    joined = ipc.open_stream(data).read_joined(below_rows=1000)
    with pytest.raises(InvalidFramingError, match="found -8") as caught:
        list(joined)
    assert start + 4 == caught.value.byte_offset


def test_a_second_schema_ends_an_index():
    start, end = PLACES[0]
    with pytest.raises(InvalidFramingError, match="found another one") as caught:
        ipc.open_stream(STREAM[: PLACES[2][0]] + STREAM[start:end] + STREAM[PLACES[2][0] :]).index()
    assert PLACES[2][0] == caught.value.byte_offset


def test_a_stream_without_a_schema_is_refused():
    with pytest.raises(InvalidFramingError, match="expected a schema, found the end of the stream"):
        ipc.open_stream(STREAM[-8:])
