import errno
import gc

import pyarrow as pa
import pytest

from spark_arrow_ipc.arrow import RecordBatch, RecordBatchStream, Schema, c_data
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.errors import ArrowIpcError, InvalidBodyError, LimitError, UnsupportedError

SCHEMA = Schema.of([t.field("a", t.int64)], {"k": "v"})


def batch(*values):
    return RecordBatch.from_pydict({"a": values}, SCHEMA)


class Source:
    """Gives a stream of what an iterator gives."""

    def __init__(self, batches):
        self.batches = batches

    def __arrow_c_stream__(self, requested_schema=None):
        structs = (batch.as_structs() for batch in self.batches)
        return c_data.export_stream(SCHEMA.fields, SCHEMA.custom_metadata, structs)


def test_batches_are_made_when_they_are_asked_for():
    made = []

    def make():
        for number in range(3):
            made.append(number)
            yield batch(number)

    reader = pa.RecordBatchReader.from_stream(Source(make()))
    assert SCHEMA == Schema.from_arrow(reader.schema)
    assert [] == made
    assert [0] == reader.read_next_batch()["a"].to_pylist()
    assert [0] == made
    assert 2 == reader.read_all().num_rows
    assert [0, 1, 2] == made
    with pytest.raises(StopIteration):
        reader.read_next_batch()


def test_an_iterator_is_dropped_with_its_stream():
    closed = []

    def make():
        try:
            yield batch(1)
            yield batch(2)
        finally:
            closed.append(1)

    reader = pa.RecordBatchReader.from_stream(Source(make()))
    first = reader.read_next_batch()
    del reader
    gc.collect()
    assert [1] == closed
    assert [1] == first["a"].to_pylist()


ERRORS = [
    (InvalidBodyError("wrong", path="x.arrow", block_number=3, field_path="a.b"), pa.ArrowInvalid, "x.arrow: record batch 3, field a.b: wrong"),
    (ValueError("wrong"), pa.ArrowInvalid, "wrong"),
    (UnsupportedError("new"), pa.ArrowNotImplementedError, "new"),
    (LimitError("large"), pa.ArrowMemoryError, "large"),
    (MemoryError(), pa.ArrowMemoryError, "MemoryError"),
    (OSError("lost"), OSError, "lost"),
    (KeyError("odd"), OSError, "odd"),
    (KeyboardInterrupt(), OSError, "KeyboardInterrupt"),
    (InvalidBodyError("a\0b\nc"), pa.ArrowInvalid, r"a\\x00b\\nc"),
]  # fmt: skip


@pytest.mark.parametrize(("error", "theirs", "message"), ERRORS, ids=[type(c[0]).__name__ for c in ERRORS])
def test_errors_become_a_code_and_a_text(error, theirs, message):
    def make():
        yield batch(1)
        raise error

    reader = pa.RecordBatchReader.from_stream(Source(make()))
    reader.read_next_batch()
    for _ in range(2):  # the error stays
        with pytest.raises(theirs, match=message):
            reader.read_next_batch()


def failing(error):
    def make():
        yield pa.record_batch({"a": [1]})
        raise error

    return pa.RecordBatchReader.from_batches(pa.schema([("a", pa.int64())]), make())


THEIRS = [
    (pa.ArrowInvalid("wrong"), ArrowIpcError, "record batch 1: the Arrow stream of RecordBatchReader: .*wrong"),
    (OSError(errno.EIO, "lost"), ArrowIpcError, "lost"),
    (pa.ArrowNotImplementedError("new"), UnsupportedError, "new"),
]


@pytest.mark.parametrize(("error", "ours", "message"), THEIRS, ids=[type(c[0]).__name__ for c in THEIRS])
def test_errors_of_others_are_ours(error, ours, message):
    stream = RecordBatchStream.from_arrow(failing(error))
    assert 1 == next(stream).num_rows
    with pytest.raises(ours, match=message):
        next(stream)
    assert [] == list(stream)


def test_a_stream_of_our_own_goes_through():
    stream = RecordBatchStream.from_arrow(Source(batch(i, None) for i in range(3)))
    assert SCHEMA == stream.schema
    held = list(stream)
    assert [0, 1, 2] == [part.to_pylist()[0]["a"] for part in held]
