"""Tensors as rows, for the command line and Spark: a row for each cell, or one for each tensor.

`slabs` cuts a tensor into pieces by its header alone, and `slab_batches` reads one of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Final

import numpy as np

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.numpy_views import dtype_of
from spark_arrow_ipc.arrow.python_values import from_pylist
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.ipc.constants import TensorRows
from spark_arrow_ipc.ipc.messages.tensor import TensorHeader, TensorMessage
from spark_arrow_ipc.ipc.tensors.dense import NDArray, Tensor
from spark_arrow_ipc.ipc.tensors.read import StoredTensor

_SLAB_CELLS: Final = 1 << 20
"""About the most cells of a piece of a dense tensor."""

_BATCH_CELLS: Final = 1 << 16
"""The most rows of a batch of cells."""

_VALUE: Final = "value"


@dataclass(frozen=True, slots=True)
class Slab:
    """A piece of a tensor."""

    # The dimension along which the tensor is cut
    axis: int
    start: int
    stop: int
    num_rows: int
    # About the bytes of the body that they take
    nbytes: int


def row_schema(message: TensorMessage, rows: TensorRows) -> Schema:
    """Return the columns of the rows of a tensor.

    Cells have an int64 for each dimension, named as it is, or ``i0``, ``i1``, ... where it has no name; all have the
    latter where two names are alike but for case, or one is ``value``.
    """
    header = message.header
    if rows is TensorRows.VALUES:
        return Schema((
            t.Field("shape", t.list_(t.int64)), t.Field("dim_names", t.list_(t.utf8)), t.Field("values", t.list_(header.type)),
        ))  # fmt: skip
    names = _dimension_columns(header.dim_names)
    fields = (*(t.Field(name, t.int64, nullable=False) for name in names), t.Field(_VALUE, header.type, nullable=False))
    return Schema(fields)


def _dimension_columns(dim_names: tuple[str, ...]) -> tuple[str, ...]:
    numbered = tuple(f"i{d}" for d in range(len(dim_names)))
    names = tuple(name or number for name, number in zip(dim_names, numbered, strict=True))
    taken = {name.lower() for name in (*names, _VALUE)}
    return names if len(taken) == len(names) + 1 else numbered


def slabs(message: TensorMessage, rows: TensorRows) -> list[Slab]:
    """Return the pieces of a tensor in order. Reads nothing."""
    header = message.header
    if rows is TensorRows.VALUES:
        return [Slab(0, 0, 0, 1, message.body_nbytes)]
    if not isinstance(header, TensorHeader):
        return [Slab(0, 0, 0, header.non_zero_length, message.body_nbytes)]
    shape, strides = header.shape or (1,), header.strides or (0,)
    cells = prod(shape)
    if not cells:
        return [Slab(0, 0, 0, 0, 0)]
    # Cut along the largest stride, so that several tasks share a tensor and no byte is read twice: the first dimension
    # where values are stored by rows, the last one where they are stored by columns.
    axis = max(range(len(shape)), key=lambda d: strides[d] if shape[d] > 1 else -1)
    across = cells // shape[axis]
    width = header.type.bit_width // 8
    edges = [*range(0, shape[axis], max(1, _SLAB_CELLS // across)), shape[axis]]
    return [
        Slab(axis, start, stop, (stop - start) * across, (stop - start) * across * width)
        for start, stop in pairwise(edges)
    ]


def slab_batches(stored: StoredTensor, rows: TensorRows, slab: Slab) -> Iterator[RecordBatch]:
    """Read a piece of a tensor, and yield its rows.

    Memory: the bytes of the piece, for a sparse tensor also its coordinates, and one batch of at most 65,536 cells.
    """
    schema = row_schema(stored.message, rows)
    if rows is TensorRows.VALUES:
        yield _tensor_row(stored, schema)
    elif isinstance(stored.message.header, TensorHeader):
        yield from _dense_cells(stored, schema, slab)
    else:
        yield from _sparse_cells(stored, schema)


def _dense_cells(stored: StoredTensor, schema: Schema, slab: Slab) -> Iterator[RecordBatch]:
    array = stored.read_slab(slab.axis, slab.start, slab.stop)
    # Where values are not by rows, or stand for many cells, only those of a batch are copied.
    values = array.reshape(-1) if array.flags.c_contiguous else array.flat
    dimensions = len(stored.message.header.shape)
    for start in range(0, array.size, _BATCH_CELLS):
        part = values[start : start + _BATCH_CELLS]
        coordinates = list(np.unravel_index(np.arange(start, start + len(part)), array.shape))[:dimensions]
        if coordinates:
            coordinates[slab.axis] = coordinates[slab.axis] + slab.start
        yield _batch(schema, [*coordinates, part])


def _sparse_cells(stored: StoredTensor, schema: Schema) -> Iterator[RecordBatch]:
    tensor = stored.read()
    assert not isinstance(tensor, Tensor)
    with stored.place():
        coordinates = tensor.coordinates(limits=stored.limits)
    for start in range(0, len(coordinates), _BATCH_CELLS):
        part = slice(start, start + _BATCH_CELLS)
        yield _batch(schema, [*coordinates[part].T, tensor.values[part]])


def _tensor_row(stored: StoredTensor, schema: Schema) -> RecordBatch:
    header = stored.message.header
    with stored.place():
        nbytes = prod(header.shape) * (header.type.bit_width // 8)
        stored.limits.check("max_batch_bytes", nbytes, "the values of a tensor")
    tensor = stored.read()
    with stored.place():
        dense = tensor.to_numpy() if isinstance(tensor, Tensor) else tensor.to_dense_numpy(limits=stored.limits)
    values = _column(tensor.type, dense.reshape(-1))
    shape, dim_names, list_type = (field.type for field in schema.fields)
    offsets = np.array([0, len(values)], np.int32).view(np.uint8).data
    return RecordBatch(
        schema,
        (
            from_pylist.array([list(tensor.shape)], shape),
            from_pylist.array([list(tensor.dim_names)], dim_names),
            Array(list_type, 1, 0, (None, offsets), (values,)),
        ),
        1,
    )


def _batch(schema: Schema, columns: list[NDArray]) -> RecordBatch:
    arrays = tuple(_column(field.type, column) for field, column in zip(schema.fields, columns, strict=True))
    return RecordBatch(schema, arrays, len(arrays[-1]))


def _column(type_: t.DataType, values: NDArray) -> Array:
    """Return values without nulls as an array, in the byte order of this machine."""
    native = np.ascontiguousarray(values, dtype_of(type_))
    data = native.view(np.uint8).data if len(native) else memoryview(b"")
    return Array(type_, len(native), 0, (None, data))
