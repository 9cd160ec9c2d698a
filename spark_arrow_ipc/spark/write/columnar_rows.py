"""Read the columns that the source of the JVM makes of a task's rows.

Spark converts rows to Arrow value by value, which takes half of a write's time. The JVM's source copies them into columns of
Arrow's layout itself, and gives Spark each batch as one row of one binary column (``push_down/java/ColumnarRows.java`` has the
layout of its bytes). Here its buffers become the batch that Spark would have sent, in the same memory.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from itertools import accumulate, chain, pairwise
from typing import Final

import pyarrow as pa

from spark_arrow_ipc.arrow import array_data
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.spark import bridge

COLUMN: Final = "columns of arrowipc"
"""The name of the binary column; Spark sends rows in its own way if a column of the DataFrame has it."""

_HEAD: Final = struct.Struct("<ii")


def read_columnar(batches: Iterable[bridge.PyArrowBatch], schema: Schema) -> Iterator[bridge.PyArrowBatch]:
    """Yield the batches of a task with the columns of `schema`; those that Spark has made stay as they are."""
    source = iter(batches)
    first = next(source, None)
    if first is None:
        return
    rest = chain([first], source)
    if first.schema.names != [COLUMN] or schema.names == (COLUMN,):
        yield from rest
    else:
        for batch in rest:
            column = batch.column(0)
            for start, end in pairwise(array_data.value_offsets(bridge.from_pyarrow(column)).tolist()):
                # A slice, as a value of pyarrow's is a copy.
                yield _read_batch(column.buffers()[2].slice(start, end - start), schema)


def _read_batch(buffer: pa.Buffer, schema: Schema) -> bridge.PyArrowBatch:
    heads = _HEAD.iter_unpack(memoryview(buffer)[: _HEAD.size * (1 + len(schema))])
    rows, zone_nbytes = next(heads)
    columns = list(zip(schema.fields, heads, strict=True))
    lengths = [_HEAD.size * (1 + len(schema)), zone_nbytes]
    for field, (nulls, nbytes) in columns:
        lengths += [(rows + 7) // 8 if nulls else 0, 4 * (rows + 1) if _has_offsets(field.type) else 0, nbytes]
    starts = list(accumulate((-(-length // 8) * 8 for length in lengths), initial=0))
    parts = [buffer.slice(start, length) for start, length in zip(starts[:-1], lengths, strict=True)]
    zone = parts[1].to_pybytes().decode()
    arrays = []
    for i, (field, (nulls, _)) in enumerate(columns):
        validity, offsets, data = parts[2 + 3 * i : 5 + 3 * i]
        buffers = [validity if nulls else None, *([offsets] if _has_offsets(field.type) else []), data]
        arrays.append(pa.Array.from_buffers(_type_of(field.type, zone), rows, buffers, nulls))
    return pa.RecordBatch.from_arrays(arrays, list(schema.names))


def _has_offsets(type_: t.DataType) -> bool:
    return isinstance(type_, t.Utf8 | t.Binary)


def _type_of(type_: t.DataType, zone: str) -> pa.DataType:
    """Return the type of a column in Spark's batches, where timestamps have the session's time zone."""
    has_zone = isinstance(type_, t.Timestamp) and type_.timezone is not None
    return pa.timestamp("us", zone) if has_zone else bridge.type_to_pyarrow(type_)
