"""Messages of Arrow IPC made field by field, so that they may say anything."""

import struct

import numpy as np

from spark_arrow_ipc.arrow import Schema
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.schema import Endianness
from spark_arrow_ipc.ipc.flatbuf import builder, tables
from spark_arrow_ipc.ipc.messages.schema import SchemaMessage, encode_schema


def framed(flatbuffer, body=b""):
    padding = -(8 + len(flatbuffer)) % 8
    return b"\xff\xff\xff\xff" + struct.pack("<i", len(flatbuffer) + padding) + flatbuffer + bytes(padding) + body


def message(values, body=b""):
    return framed(builder.build(tables.MESSAGE, {"version": 4, "bodyLength": len(body)} | values), body)


def schema_values(fields, ids=(), endianness=Endianness.LITTLE):
    return encode_schema(SchemaMessage(Schema(tuple(fields), (), endianness), ids))


def schema(type_, ids=(), **values):
    return message({"header": (tables.SCHEMA, schema_values([t.Field("a", type_)], ids))} | values)


def schema_of(fields, ids=(), endianness=Endianness.LITTLE):
    return message({"header": (tables.SCHEMA, schema_values(fields, ids, endianness))})


def rows(length, nodes, buffers, codec=None, variadic=None):
    pairs = (np.array(numbers, np.int64).reshape(-1, 2) for numbers in (nodes, buffers))
    values = dict(zip(("length", "nodes", "buffers"), (length, *pairs), strict=True))
    if codec is not None:
        values["compression"] = {"codec": codec, "method": 0}
    if variadic is not None:
        values["variadicBufferCounts"] = variadic
    return values


def record_batch(length, nodes, buffers=(), body=b"", **how):
    return message({"header": (tables.RECORD_BATCH, rows(length, nodes, buffers, **how))}, body)


def dictionary_batch(length, nodes, buffers, body, *, is_delta=False, id_=0, **how):
    values = {"id": id_, "isDelta": is_delta, "data": rows(length, nodes, buffers, **how)}
    return message({"header": (tables.DICTIONARY_BATCH, values)}, body)
