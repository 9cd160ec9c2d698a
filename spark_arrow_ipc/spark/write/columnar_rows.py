"""Read the columns that the source of the JVM makes of a task's rows.

Spark converts rows to Arrow value by value, which takes half of a write's time. The JVM's source copies them into columns of
Arrow's layout itself, and gives Spark each batch as one row of one binary column (``push_down/java/ColumnarRows.java`` has the
layout of its bytes). Here its buffers become the batch that Spark would have sent, in the same memory.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Final

from spark_arrow_ipc.arrow import array_data
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.layout import Role
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.errors import InvalidBodyError
from spark_arrow_ipc.spark import bridge

COLUMN: Final = "columns of arrowipc"
"""The name of the binary column; Spark sends rows in its own way if a column of the DataFrame has it."""

_HEAD: Final = struct.Struct("<ii")


def read_columnar(batches: Iterable[bridge.PyArrowBatch], schema: Schema) -> Iterator[bridge.PyArrowBatch]:
    """Yield the batches of a task with the columns of `schema`; those that Spark has made stay as they are."""
    for batch in batches:
        if batch.schema.names != [COLUMN] or schema.names == (COLUMN,):
            yield batch
            continue
        column = bridge.from_pyarrow(batch.column(0))
        data = array_data.buffer_of(column, Role.BYTES)
        assert data is not None
        for start, end in pairwise(array_data.value_offsets(column).tolist()):
            yield bridge.batch_to_pyarrow(_read_batch(data[start:end], schema))


def _read_batch(data: memoryview, schema: Schema) -> RecordBatch:
    end = _HEAD.size * (1 + len(schema))
    heads = _HEAD.iter_unpack(data[:end])
    rows, zone_nbytes = next(heads)

    def take(nbytes: int) -> memoryview:
        nonlocal end
        start, end = end, end + -(-nbytes // 8) * 8
        return data[start : start + nbytes]

    zone = bytes(take(zone_nbytes)).decode()
    fields, columns = [], []
    for field, (null_count, nbytes) in zip(schema.fields, heads, strict=True):
        validity = take((rows + 7) // 8) if null_count else None
        offsets = [take(4 * (rows + 1))] if isinstance(field.type, t.Utf8 | t.Binary) else []
        type_ = _in_zone(field.type, zone)
        fields.append(t.field(field.name, type_))
        columns.append(Array(type_, rows, null_count, (validity, *offsets, take(nbytes))))
    if end != len(data):
        raise InvalidBodyError(expected=f"{end:,} bytes of {rows:,} rows from the JVM", found=f"{len(data):,}")
    return RecordBatch(Schema(tuple(fields)), tuple(columns), rows)


def _in_zone(type_: t.DataType, zone: str) -> t.DataType:
    """Return the type of a column in Spark's batches, where timestamps have the session's time zone."""
    if isinstance(type_, t.Timestamp) and type_.timezone is not None:
        return replace(type_, timezone=zone)
    return type_
