"""Read tensors: `read_tensor`, `read_tensors`, and `iterate_tensors`, which reads only their headers.

How it works: a file of tensors is one message after another, without a schema, and maybe with an end-of-stream marker.
Only the message before it has the start of a message: Arrow C++ does not pad bodies of tensors, so that it may be at
any byte.

The command line and Spark read tensors as rows, one for each cell or each tensor: `slabs` cuts a tensor into pieces by
its header, and `slab_batches` reads one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any, Final

import numpy as np

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.array_data import dtype_of
from spark_arrow_ipc.arrow.python_values import from_pylist
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.errors import ArrowIpcError, InvalidFramingError, NoTensorError, error_context
from spark_arrow_ipc.ipc.bytes.source import Openable, open_source
from spark_arrow_ipc.ipc.constants import DEFAULT_LIMITS, Format, Limits, TensorRows
from spark_arrow_ipc.ipc.flatbuf.tables import MessageHeader
from spark_arrow_ipc.ipc.messages.footer import message_kind
from spark_arrow_ipc.ipc.messages.message import inside, read_head, read_message_or_end, sniff
from spark_arrow_ipc.ipc.messages.tensor import (
    BufferPlace,
    CooIndexHeader,
    CsfIndexHeader,
    CsxIndexHeader,
    SparseTensorHeader,
    TensorHeader,
    TensorMessage,
    decode_tensor_message,
)
from spark_arrow_ipc.ipc.tensors.dense import NDArray, Tensor, little_endian, view_with_strides
from spark_arrow_ipc.ipc.tensors.sparse import CooTensor, CscMatrix, CsfTensor, CsrMatrix, SparseTensor
from spark_arrow_ipc.storage.byte_source import ByteSource

_TENSORS: Final = (MessageHeader.Tensor, MessageHeader.SparseTensor)


@dataclass(frozen=True, slots=True, eq=False)
class StoredTensor:
    """A tensor of a source: its header, and the location of its body."""

    source: ByteSource
    number: int
    # From the start of the source, of the message and of its body
    byte_offset: int
    body_offset: int
    message: TensorMessage
    limits: Limits

    @property
    def end_offset(self) -> int:
        """The byte offset after the body."""
        return self.body_offset + self.message.body_nbytes

    def place(self) -> AbstractContextManager[None]:
        """Return a context that adds the location of the body to errors."""
        return error_context(
            path=self.source.path, block_kind="tensor", block_number=self.number, byte_offset=self.body_offset
        )

    def read(self) -> Tensor | SparseTensor:
        """Read and check the body."""
        with self.place():
            body = self.source.read_at(self.body_offset, self.message.body_nbytes)
            return _decode(self.message, body)

    def read_slab(self, axis: int, start: int, stop: int) -> NDArray:
        """Read the cells of a dense tensor at `start` to `stop` along one dimension, from the first byte to the last."""
        header = self.message.header
        assert isinstance(header, TensorHeader), "only dense tensors have slabs"
        # A tensor without dimensions is read as one of size 1.
        shape, strides = header.shape or (1,), header.strides or (0,)
        width = header.type.bit_width // 8
        # Cells outside of the piece along other dimensions are read with it.
        slab = (*shape[:axis], stop - start, *shape[axis + 1 :])
        nbytes = 0 if 0 in slab else width + sum((n - 1) * s for n, s in zip(slab, strides, strict=True))
        with self.place():
            byte_offset = self.body_offset + header.data.byte_offset + (start * strides[axis] if nbytes else 0)
            return view_with_strides(self.source.read_at(byte_offset, nbytes), header.type, slab, strides)


def read_tensor(
    source: Openable, *, limits: Limits = DEFAULT_LIMITS, storage: Mapping[str, str] | None = None
) -> Tensor | SparseTensor:
    """Read the first tensor of a source.

    A binary file object stays after the tensor, so that a second call reads the next one; for paths and bytes use
    `read_tensors`.

    Parameters
    ----------
    source
        A path or the URL of an object store, bytes, or a binary file object.
    limits
        Budgets: `max_batch_bytes` for the body, `max_slots` for the cells of a dense tensor.
    storage
        Options of an object store, as for `ipc.open`.

    Raises
    ------
    InvalidArrowError
        The bytes are broken (framing, metadata, or the index of a sparse tensor), or end without a tensor.
    NoTensorError
        The source is a table.
    UnsupportedError
        The values have a type that tensors cannot have.
    LimitError
        A budget is exceeded.
    OSError
        The path cannot be opened.
    """
    opened = open_source(source, storage)
    try:
        stored = next(iterate_tensors(opened, limits), None)
        if stored is None:
            raise InvalidFramingError(
                expected="a tensor", found="the end of the stream", path=opened.path, byte_offset=0
            )
        return stored.read()
    finally:
        opened.close()


def read_tensors(
    source: Openable, *, limits: Limits = DEFAULT_LIMITS, storage: Mapping[str, str] | None = None
) -> Iterator[Tensor | SparseTensor]:
    """Return an iterator over the tensors of a source; parameters and errors as for `read_tensor`."""
    opened = open_source(source, storage)

    def tensors() -> Iterator[Tensor | SparseTensor]:
        try:
            for stored in iterate_tensors(opened, limits):
                yield stored.read()
        finally:
            opened.close()

    return tensors()


def holds_tensors(source: ByteSource, limits: Limits = DEFAULT_LIMITS) -> bool:
    """Return True if the first message of a source is a sound tensor."""
    try:
        if sniff(read_head(source), source.nbytes) is Format.FILE:
            return False
        message = read_message_or_end(source, 0, limits)
    except ArrowIpcError:
        return False
    return not isinstance(message, int) and message_kind(message[0]) in _TENSORS


def iterate_tensors(source: ByteSource, limits: Limits = DEFAULT_LIMITS) -> Iterator[StoredTensor]:
    """Yield the tensors of an open source by their headers, with errors as for `read_tensor`."""
    byte_offset = 0
    number = 0
    with error_context(path=source.path):
        if sniff(read_head(source), source.nbytes) is Format.FILE:
            raise NoTensorError(
                "the file is in the Arrow IPC file format, which holds a table and no tensor; tables are read with "
                "ipc.open, and in Spark without the option tensors"
            )
    while True:
        with error_context(path=source.path, block_kind="tensor", block_number=number):
            framed = read_message_or_end(source, byte_offset, limits)
            if isinstance(framed, int):
                return
            flatbuffer, body_offset = framed
            with inside(body_offset - len(flatbuffer)):
                message = decode_tensor_message(flatbuffer, limits)
            stored = StoredTensor(source, number, byte_offset, body_offset, message, limits)
        yield stored
        byte_offset = stored.end_offset
        number += 1


# --- bodies


class _Body:
    """The bytes of a body, which the buffers of its checked header do not exceed."""

    def __init__(self, data: memoryview) -> None:
        self._data = data

    def bytes_of(self, extent: BufferPlace) -> memoryview:
        return self._data[extent.byte_offset : extent.byte_offset + extent.length]

    def values(self, extent: BufferPlace, type_: t.DataType, count: int) -> NDArray:
        """Return the first `count` values of a buffer."""
        dtype = little_endian(type_)
        stop = extent.byte_offset + count * dtype.itemsize
        return np.frombuffer(self._data[extent.byte_offset : stop], dtype)


def _decode(message: TensorMessage, data: memoryview) -> Tensor | SparseTensor:
    header, body = message.header, _Body(data)
    if isinstance(header, TensorHeader):
        values = view_with_strides(body.bytes_of(header.data), header.type, header.shape, header.strides)
        return Tensor(values, header.dim_names, message.custom_metadata)
    make, parts = _INDICES[type(header.index)](header, header.index, body)
    return make(
        shape=header.shape,
        values=body.values(header.data, header.type, header.non_zero_length),
        dim_names=header.dim_names,
        custom_metadata=message.custom_metadata,
        **parts,
    )


_Parts = tuple[type[SparseTensor], Mapping[str, Any]]


def _decode_coo(header: SparseTensorHeader, index: CooIndexHeader, body: _Body) -> _Parts:
    count, dimensions = header.non_zero_length, len(header.shape)
    flat = body.values(index.indices, index.indices_type, count * dimensions)
    indices = flat.reshape(dimensions, count).T if index.by_column else flat.reshape(count, dimensions)
    return CooTensor, {"indices": indices, "is_canonical": index.is_canonical}


def _decode_csx(header: SparseTensorHeader, index: CsxIndexHeader, body: _Body) -> _Parts:
    return (CsrMatrix, CscMatrix)[index.axis], {
        "indptr": body.values(index.indptr, index.indptr_type, header.shape[index.axis] + 1),
        "indices": body.values(index.indices, index.indices_type, header.non_zero_length),
    }


def _decode_csf(_: SparseTensorHeader, index: CsfIndexHeader, body: _Body) -> _Parts:
    return CsfTensor, {
        "axis_order": index.axis_order,
        "indptr": tuple(body.values(extent, index.indptr_type, extent.length) for extent in index.indptr),
        "indices": tuple(body.values(extent, index.indices_type, extent.length) for extent in index.indices),
    }


_INDICES: Final[Mapping[type[Any], Callable[[SparseTensorHeader, Any, _Body], _Parts]]] = {
    CooIndexHeader: _decode_coo,
    CsxIndexHeader: _decode_csx,
    CsfIndexHeader: _decode_csf,
}


# --- rows


# Cells of a piece of a dense tensor, about
_SLAB_CELLS: Final = 1 << 20

# The most rows of a batch of cells
_BATCH_CELLS: Final = 1 << 16

_VALUE: Final = "value"


@dataclass(frozen=True, slots=True)
class Slab:
    """A piece of a tensor."""

    # The dimension of the cut
    axis: int
    start: int
    stop: int
    num_rows: int
    # About the bytes of the rows in the body
    nbytes: int


def row_schema(message: TensorMessage, rows: TensorRows) -> Schema:
    """Return the columns of the rows of a tensor: for cells an int64 for each dimension, by its name or ``i0``, ``i1``, ..."""
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
    # Spark compares names without case: all dimensions get numbers if two names are one there.
    names = tuple(name or number for name, number in zip(dim_names, numbered, strict=True))
    used_names = {name.lower() for name in (*names, _VALUE)}
    return names if len(used_names) == len(names) + 1 else numbered


def slabs(message: TensorMessage, rows: TensorRows) -> list[Slab]:
    """Return the pieces of a tensor in order, by its header."""
    header = message.header
    if rows is TensorRows.VALUES:
        return [Slab(0, 0, 0, 1, message.body_nbytes)]
    if not isinstance(header, TensorHeader):
        return [Slab(0, 0, 0, header.non_zero_length, message.body_nbytes)]
    shape, strides = header.shape or (1,), header.strides or (0,)
    cells = prod(shape)
    if not cells:
        return [Slab(0, 0, 0, 0, 0)]
    # Cut along the largest stride, so that several tasks share a tensor and no byte is read twice: the first dimension of
    # values in row-major order, and the last one in column-major order.
    axis = max(range(len(shape)), key=lambda d: strides[d] if shape[d] > 1 else -1)
    across = cells // shape[axis]
    width = header.type.bit_width // 8
    # At least one step along the axis, however many cells it has.
    edges = [*range(0, shape[axis], max(1, _SLAB_CELLS // across)), shape[axis]]
    return [
        Slab(axis, start, stop, (stop - start) * across, (stop - start) * across * width)
        for start, stop in pairwise(edges)
    ]


def slab_batches(stored: StoredTensor, rows: TensorRows, slab: Slab) -> Iterator[RecordBatch]:
    """Read a piece of a tensor, and yield its rows in batches of at most 65,536 cells."""
    schema = row_schema(stored.message, rows)
    if rows is TensorRows.VALUES:
        yield _tensor_row(stored, schema)
    elif isinstance(stored.message.header, TensorHeader):
        yield from _dense_cells(stored, schema, slab)
    else:
        yield from _sparse_cells(stored, schema)


def _dense_cells(stored: StoredTensor, schema: Schema, slab: Slab) -> Iterator[RecordBatch]:
    array = stored.read_slab(slab.axis, slab.start, slab.stop)
    # In another order, or with a stride of 0 for many cells, only the values of a batch are copied.
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
        # Before the body is read: a stride of 0 makes few bytes many values.
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
