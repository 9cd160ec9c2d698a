"""Read the columns that the source of the JVM makes of a task's rows.

Spark converts rows to Arrow value by value, which takes half of a write's time. The JVM's source copies them into columns of
Arrow's layout itself, and gives Spark each batch as one row of one binary column (``push_down/java/ColumnarRows.java`` has the
layout of its bytes). Here its buffers become the batch that Spark would have sent, in the same memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from spark_arrow_ipc.arrow import array_data
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.layout import Role, layout_of, least_nbytes
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.errors import InvalidBodyError
from spark_arrow_ipc.spark import bridge

COLUMN: Final = "columns of arrowipc"
"""The name of the binary column; Spark sends rows in its own way if a column of the DataFrame has it."""


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


@dataclass(slots=True)
class _Source:
    """The bytes of a batch, and how many are read."""

    data: memoryview
    end: int = 0

    def take(self, nbytes: int) -> memoryview:
        start, self.end = self.end, self.end + -(-nbytes // 8) * 8
        return self.data[start : start + nbytes]

    def number(self) -> int:
        return int.from_bytes(self.take(8), "little")


def _read_batch(data: memoryview, schema: Schema) -> RecordBatch:
    source = _Source(data)
    rows = source.number()
    zone = bytes(source.take(source.number())).decode()
    fields = tuple(t.field(field.name, _in_zone(field.type, zone)) for field in schema.fields)
    columns = _read_array(t.Struct(fields), rows, source)
    if source.end != len(data):
        raise InvalidBodyError(expected=f"{source.end:,} bytes of {rows:,} rows from the JVM", found=f"{len(data):,}")
    return RecordBatch(Schema(fields), columns.children, rows)


def _read_array(type_: t.DataType, length: int, source: _Source) -> Array:
    null_count = source.number()
    buffers: list[memoryview | None] = []
    slots = length  # of the children, or the bytes of strings
    for layout in layout_of(type_).buffers:
        if layout.role is Role.VALIDITY and not null_count:
            buffers.append(None)
            continue
        buffer = source.take(slots if layout.role is Role.BYTES else least_nbytes(type_, layout, length))
        if layout.role is Role.OFFSETS:
            slots = int.from_bytes(buffer[-4:], "little")
        buffers.append(buffer)
    children = tuple(_read_array(child.type, slots, source) for child in type_.children)
    return Array(type_, length, null_count, tuple(buffers), children)


def _in_zone(type_: t.DataType, zone: str) -> t.DataType:
    """Return the type of a column in Spark's batches, where timestamps have the session's time zone."""
    if isinstance(type_, t.Timestamp) and type_.timezone is not None:
        return replace(type_, timezone=zone)
    return type_
