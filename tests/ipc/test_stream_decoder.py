"""Messages are decoded in their order, with the dictionaries in force; where bodies are does not matter."""

import io
from itertools import pairwise

import pyarrow as pa
import pytest

from spark_arrow_ipc import ipc
from spark_arrow_ipc.errors import InvalidDictionaryError
from spark_arrow_ipc.ipc.bytes.body import BodyPlace, BufferList
from spark_arrow_ipc.ipc.bytes.source import open_source
from spark_arrow_ipc.ipc.columns.projection import SelectedColumns
from spark_arrow_ipc.ipc.constants import Validation
from spark_arrow_ipc.ipc.flatbuf.tables import MessageHeader
from spark_arrow_ipc.ipc.messages.message import decode_message
from spark_arrow_ipc.ipc.messages.schema import decode_schema
from spark_arrow_ipc.ipc.stream_decoder import StreamDecoder

TYPE = pa.dictionary(pa.int8(), pa.string())
ROWS = [["a", None], ["a", "b"], ["c"]]


def messages():
    """Return (metadata, body) of each message of a stream with a delta and a replacement, by pyarrow."""
    sink = io.BytesIO()
    schema = pa.schema([("d", TYPE), ("i", pa.int32())])
    with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)) as writer:
        for number, rows in enumerate(ROWS):
            columns = [pa.array(rows).dictionary_encode().cast(TYPE), pa.array([number] * len(rows), pa.int32())]
            writer.write_batch(pa.record_batch(columns, schema=schema))
    reader = pa.ipc.MessageReader.open_stream(sink.getvalue())
    return [(bytes(m.metadata), b"" if m.body is None else bytes(m.body)) for m in reader]


def packed(header, body):
    return BodyPlace(open_source(body), 0, len(body))


def listed(header, body):
    """Return the buffers of a body, each on its own."""
    data = memoryview(b"".join(bytes(body[start : start + n]) for start, n in header.buffers.tolist()))
    ends = [0]
    for _, n in header.buffers.tolist():
        ends.append(ends[-1] + n)
    return BufferList(tuple(data[start:stop] for start, stop in pairwise(ends)), len(body))


def decoder(columns=None):
    (metadata, _), *rest = messages()
    limits = ipc.Limits()
    schema = decode_schema(decode_message(memoryview(metadata), limits).header.view, limits)
    return StreamDecoder(SelectedColumns(schema, columns, Validation.FULL, limits), "x"), [
        (decode_message(memoryview(m), limits), body) for m, body in rest
    ]


@pytest.mark.parametrize("place", [packed, listed])
@pytest.mark.parametrize("columns", [None, ["d"], ["i"]])
def test_bodies_of_either_kind_give_the_same_rows(place, columns):
    decoding, rest = decoder(columns)
    kinds = [message.kind for message, _ in rest]
    assert 3 == kinds.count(MessageHeader.DictionaryBatch)
    found = []
    for message, body in rest:
        header = message.header if message.kind is MessageHeader.RecordBatch else message.header.data
        found.append(decoding.decode(message, place(header, body), 0))
    rows = [[row.get("d", row.get("i")) for row in batch.to_pylist()] for batch in found if batch is not None]
    assert rows == ([[0, 0], [1, 1], [2]] if columns == ["i"] else ROWS)


def test_another_stream_has_dictionaries_of_its_own():
    decoding, rest = decoder()
    (first, first_body), (batch, batch_body), *_ = rest
    assert decoding.decode(first, packed(None, first_body), 0) is None
    assert 2 == decoding.decode(batch, packed(None, batch_body), 0).num_rows
    decoding.begin_stream()
    with pytest.raises(InvalidDictionaryError, match="before its first use"):
        decoding.decode(batch, packed(None, batch_body), 0)
