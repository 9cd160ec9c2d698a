"""Messages of the three kinds are decoded; other kinds, versions and compressions are refused by name."""

from dataclasses import replace

import numpy as np
import pytest

from spark_arrow_ipc.errors import InvalidMetadataError, NoTableError, UnsupportedError
from spark_arrow_ipc.ipc.constants import Limits
from spark_arrow_ipc.ipc.flatbuf import builder, idl, tables
from spark_arrow_ipc.ipc.flatbuf.tables import MessageHeader, MetadataVersion
from spark_arrow_ipc.ipc.messages.message import decode_message

ROWS = np.array([[3, 1], [2, 0]], np.int64)
BATCH = {"length": 3, "nodes": ROWS, "buffers": ROWS[:1]}


def decoded(table, header, **values):
    flatbuffer = builder.build(tables.MESSAGE, {"version": 4, "header": (table, header), "bodyLength": 0, **values})
    return decode_message(memoryview(flatbuffer), Limits())


KINDS = [
    (MessageHeader.Schema, tables.SCHEMA, {}),
    (MessageHeader.RecordBatch, tables.RECORD_BATCH, BATCH),
    (MessageHeader.DictionaryBatch, tables.DICTIONARY_BATCH, {"id": 5, "data": BATCH}),
]


@pytest.mark.parametrize(("kind", "table", "header"), KINDS, ids=[kind.noun for kind, *_ in KINDS])
def test_a_message_says_its_kind(kind, table, header):
    pairs = [{"key": "k", "value": "v"}]
    message = decoded(table, header, bodyLength=16, custom_metadata=pairs)
    assert (kind, 16, (("k", "v"),), MetadataVersion.V5) == (
        message.kind, message.body_nbytes, message.custom_metadata, message.version,
    )  # fmt: skip


PAGED_BUFFER = idl.StructDefinition(
    "Buffer",
    24,
    (
        idl.StructField("page", idl.SHORT, 0),
        idl.StructField("offset", idl.LONG, 8),
        idl.StructField("length", idl.LONG, 16),
    ),
)
RECORD_BATCH_OF_V3 = replace(
    tables.RECORD_BATCH,
    slots=tuple(
        replace(slot, type=idl.Vector(PAGED_BUFFER)) if slot.name == "buffers" else slot
        for slot in tables.RECORD_BATCH.slots
    ),
)
"""As Arrow 0.3 to 0.7 wrote it."""

REFUSED = [
    ("a tensor", tables.TENSOR, {"type": (tables.INT, {}), "shape": [], "data": (0, 0)}, {}, NoTableError, "the file holds a tensor"),
    ("a version of 0.1", tables.SCHEMA, {}, {"version": 0}, UnsupportedError, "metadata version V1"),
    ("a version of 0.2", tables.RECORD_BATCH, BATCH, {"version": 1}, UnsupportedError, "metadata version V2"),
    ("a version before 0.8", tables.SCHEMA, {}, {"version": 2}, UnsupportedError, "metadata version V3"),
    ("a version before 0.8, whose buffers had a page", RECORD_BATCH_OF_V3, {**BATCH, "buffers": [(0, 0, 8)]}, {"version": 2}, UnsupportedError, "metadata version V3"),
    ("a version to come", tables.SCHEMA, {}, {"version": 5}, UnsupportedError, "metadata version number 5"),
    ("a negative body", tables.SCHEMA, {}, {"bodyLength": -8}, InvalidMetadataError, "a body length of at least 0"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("table", "header", "values", "error", "says"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_other_messages_are_refused_by_name(table, header, values, error, says):
    with pytest.raises(error, match=says):
        decoded(table, header, **values)


def test_a_message_has_a_header():
    flatbuffer = memoryview(builder.build(tables.MESSAGE, {"version": 4}))
    with pytest.raises(InvalidMetadataError, match="a message header"):
        decode_message(flatbuffer, Limits())
