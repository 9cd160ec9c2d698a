"""Both readers close their file, show their schema, and leave batches valid."""

import io

import pytest
from reader_cases import (
    ALL_ROWS,
    FILE,
    SCHEMA,
    STREAM,
    saved,
)

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import RecordBatch, Schema
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.errors import InvalidMetadataError
from spark_arrow_ipc.ipc.batch_reader import expect, inside
from spark_arrow_ipc.ipc.constants import MessageHeader
from spark_arrow_ipc.ipc.metadata.message import decode_message
from spark_arrow_ipc.ipc.metadata.record_batch import RecordBatchHeader
from spark_arrow_ipc.ipc.metadata.schema import SchemaHeader


def test_batches_outlive_their_reader(tmp_path):
    with ipc.open(saved(FILE, tmp_path)) as reader:
        batch = reader.read_batch(1)
    (tmp_path / "x.arrow").unlink()
    assert ALL_ROWS[1] == batch.to_pylist()


def test_a_closed_reader_says_so(tmp_path):
    reader = ipc.open(saved(FILE, tmp_path))
    reader.close()
    reader.close()
    with pytest.raises(ValueError, match=r"x\.arrow: the reader is closed"):
        reader.read_batch(0)


def test_representations_are_for_people():
    with ipc.open(FILE) as file, ipc.open(STREAM) as stream:
        assert f"<Arrow IPC file in memory: 3 record batches>\n{SCHEMA}" == repr(file)
        assert f"<Arrow IPC stream in memory>\n{SCHEMA}" == repr(stream)


def test_custom_metadata_is_kept_in_order_everywhere():
    pairs = (("z", "1"), ("a", "2"), ("z", "3"), ("", ""), ("grün", "🏹"))
    field = t.field("l", t.list_(t.field("item", t.int8, custom_metadata=pairs)), custom_metadata=pairs)
    schema = Schema.of([field], pairs)
    array = RecordBatch.from_pydict({"l": [[1]]}, schema).columns
    for kind in ("file", "stream"):
        sink = io.BytesIO()
        with ipc.create(sink, schema, ipc.WriteOptions(format=kind), schema_metadata=pairs) as writer:
            writer.write(RecordBatch(schema, array, 1, pairs))
            writer.write(RecordBatch(schema, array, 1))
            if kind == "file":
                writer.custom_metadata.update(rows="2", end="yes")
        with ipc.open(sink.getvalue()) as reader:
            assert schema == reader.schema
            assert [pairs, ()] == [batch.custom_metadata for batch in reader]
            assert pairs == (reader.read_schema_metadata() if kind == "file" else reader.custom_metadata)
            if kind == "file":
                assert (("rows", "2"), ("end", "yes")) == reader.custom_metadata


def test_a_header_of_another_kind_is_refused():
    with ipc.open(FILE) as reader:
        flatbuffer = memoryview(FILE)[reader.blocks[0].byte_offset + 8 :]
    message = decode_message(flatbuffer, ipc.Limits())
    assert message.header is expect(message, MessageHeader.RecordBatch, RecordBatchHeader)
    with pytest.raises(InvalidMetadataError, match="expected a schema, found a record batch"):
        expect(message, MessageHeader.Schema, SchemaHeader)


def test_offsets_inside_a_flatbuffer_become_those_of_the_file():
    for inner, outer in ((None, 100), (8, 108)):
        with pytest.raises(InvalidMetadataError) as caught, inside(100):
            raise InvalidMetadataError("broken", byte_offset=inner)
        assert outer == caught.value.byte_offset
