"""Write tensors: `write_tensor`.

Arrow C++ must read the result: the metadata of a dense tensor end at a multiple of 64 bytes, lengths of buffers are
padded to 8, and lengths of a CSF index count elements. Two things differ from C++: the body of a dense tensor is padded
to 8, so that every message begins at a multiple of 8, and a tensor keeps its dimension names when its values are copied.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, BinaryIO, Final, TypeAlias

import numpy as np

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array_data import dtype_of
from spark_arrow_ipc.ipc.bytes.sinks import FileSink, PathSink, StoredSink, path_sink, prove_ends
from spark_arrow_ipc.ipc.constants import BODY_ALIGNMENT
from spark_arrow_ipc.ipc.flatbuf import tables
from spark_arrow_ipc.ipc.messages.tensor import (
    encode_shape,
    encode_tensor_message,
    encode_value_type,
    row_major_strides,
)
from spark_arrow_ipc.ipc.tensors.dense import NDArray, Tensor, little_endian
from spark_arrow_ipc.ipc.tensors.sparse import CooTensor, CscMatrix, CsfTensor, CsrMatrix, SparseTensor

_PREFIX: Final = struct.Struct("<4si")
_CONTINUATION: Final = b"\xff\xff\xff\xff"
# Arrow C++ begins the values of a dense tensor at a multiple of this, counted from the start of the message
_DENSE_ALIGNMENT: Final = 64

Buffer: TypeAlias = tuple[memoryview, int]
"""The bytes of a buffer, and the length that the metadata has for it."""


def write_tensor(
    sink: str | os.PathLike[str] | BinaryIO,
    tensor: Tensor | SparseTensor | NDArray,
    *,
    dim_names: Sequence[str] = (),
    storage: Mapping[str, str] | None = None,
) -> None:
    """Write a tensor as one message.

    Parameters
    ----------
    sink
        A path or the URL of an object: the file appears once it is complete, and replaces an existing one. Or a binary
        file object, which can take several tensors; the caller closes it.
    tensor
        A `Tensor`, a `SparseTensor`, or an array of integers or floating-point numbers. An array of contiguous memory,
        in row-major or column-major order, is not copied; any other is copied in row-major order.
    dim_names
        Names for the dimensions of an array.
    storage
        Options of an object store, as for `ipc.open`.

    Raises
    ------
    TypeError
        Tensors cannot have values of this dtype, or the sink is neither a path nor a binary file object.
    ValueError
        The number of names differs from the number of dimensions, or a `Tensor` has names already.
    OSError
        The path cannot be created.
    """
    if isinstance(tensor, Tensor | SparseTensor):
        if dim_names:
            raise ValueError("expected dim_names with an array only: a tensor has names of its own")
        tensor_to_write: Tensor | SparseTensor = tensor
    else:
        tensor_to_write = Tensor(tensor, tuple(dim_names))
    parts = _encode(tensor_to_write)
    if isinstance(sink, str | os.PathLike):
        _write_path(path_sink(os.fspath(sink), storage), parts)
    elif callable(getattr(sink, "write", None)):
        for part in parts:
            sink.write(part)
        FileSink(sink).finish(lambda _: None)
    else:
        raise TypeError(f"expected a path or a binary file object, found {type(sink).__name__}")


def _write_path(sink: PathSink | StoredSink, parts: Sequence[bytes | memoryview]) -> None:
    prove = partial(prove_ends, nbytes=sum(map(len, parts)), head=bytes(parts[0]))
    try:
        for part in parts:
            sink.file.write(part)
        sink.finish(prove)
    except BaseException:
        sink.discard()
        raise


def _encode(tensor: Tensor | SparseTensor) -> list[bytes | memoryview]:
    """Return the bytes of a message in pieces, with views of values that need no change."""
    if isinstance(tensor, Tensor):
        table, values, buffers, alignment = _encode_dense(tensor)
    else:
        table, values, buffers = _encode_sparse(tensor)
        alignment = BODY_ALIGNMENT
    body: list[bytes | memoryview] = []
    for data, _ in buffers:
        body += [data, bytes(-len(data) % BODY_ALIGNMENT)]
    flatbuffer = encode_tensor_message(table, values, sum(map(len, body)), tensor.custom_metadata)
    padding = bytes(-(_PREFIX.size + len(flatbuffer)) % alignment)
    prefix = _PREFIX.pack(_CONTINUATION, len(flatbuffer) + len(padding))
    return [prefix, flatbuffer, padding, *body]


def _places(buffers: Sequence[Buffer]) -> list[tuple[int, int]]:
    """Return the (offset, length) of buffers that are written one after another, each padded to 8 bytes."""
    places = []
    start = 0
    for data, length in buffers:
        places.append((start, length))
        start += len(data) + -len(data) % BODY_ALIGNMENT
    return places


def _raw(array: NDArray, type_: t.DataType) -> memoryview:
    """Return the little-endian bytes of an array in row-major order."""
    flat = np.ascontiguousarray(array, little_endian(type_)).reshape(-1)
    return flat.view(np.uint8).data if flat.size else memoryview(b"")


def _pad(array: NDArray, type_: t.DataType) -> Buffer:
    """Return a buffer whose length includes its padding, as Arrow C++ writes buffers of sparse tensors."""
    data = _raw(array, type_)
    return data, len(data) + -len(data) % BODY_ALIGNMENT


# --- dense


def _encode_dense(tensor: Tensor) -> tuple[Any, dict[str, Any], list[Buffer], int]:
    array = tensor.to_numpy()
    # Strides can describe cells in column-major order, which saves a copy of them.
    by_column = array.flags.f_contiguous and not array.flags.c_contiguous
    data = _raw(array.T if by_column else array, tensor.type)
    values = {
        "type": encode_value_type(tensor.type),
        "shape": encode_shape(tensor.shape, tensor.dim_names),
        "strides": list(array.strides if by_column else row_major_strides(tensor.shape, array.itemsize)),
        "data": (0, len(data)),
    }
    return tables.TENSOR, values, [(data, len(data))], _DENSE_ALIGNMENT


# --- sparse


def _encode_sparse(tensor: SparseTensor) -> tuple[Any, dict[str, Any], list[Buffer]]:
    index_type = tensor.index_type
    table, make_values, buffers = _INDICES[type(tensor)](tensor, index_type)
    buffers = [*buffers, _pad(tensor.values, tensor.type)]
    *places, data = _places(buffers)
    values = {
        "type": encode_value_type(tensor.type),
        "shape": encode_shape(tensor.shape, tensor.dim_names),
        "non_zero_length": tensor.non_zero_length,
        "sparseIndex": (table, make_values(places)),
        "data": data,
    }
    return tables.SPARSE_TENSOR, values, buffers


Places: TypeAlias = list[tuple[int, int]]
Encoded: TypeAlias = tuple[Any, Callable[[Places], dict[str, Any]], list[Buffer]]
"""The Flatbuffers table of an index, a function from the places of buffers to its values, and the buffers."""


def _encode_coo(tensor: CooTensor, type_: t.Int) -> Encoded:
    width = type_.bit_width // 8

    def values(places: Places) -> dict[str, Any]:
        return {
            "indicesType": _encode_integer(type_),
            "indicesStrides": list(row_major_strides(tensor.indices.shape, width)),
            "indicesBuffer": places[0],
            "isCanonical": tensor.is_canonical,
        }

    return tables.SPARSE_TENSOR_INDEX_COO, values, [_pad(tensor.indices, type_)]


def _encode_csx(tensor: CsrMatrix | CscMatrix, type_: t.Int) -> Encoded:
    # Both arrays get one type, as Arrow C++ aborts the process if their types differ.
    type_ = _wider(type_, tensor.indptr)

    def values(places: Places) -> dict[str, Any]:
        return {
            "compressedAxis": tensor.axis,
            "indptrType": _encode_integer(type_),
            "indptrBuffer": places[0],
            "indicesType": _encode_integer(type_),
            "indicesBuffer": places[1],
        }

    return tables.SPARSE_MATRIX_INDEX_CSX, values, [_pad(tensor.indptr, type_), _pad(tensor.indices, type_)]


def _encode_csf(tensor: CsfTensor, type_: t.Int) -> Encoded:
    type_ = _wider(type_, *tensor.indptr, *tensor.indices)
    arrays = [*tensor.indptr, *tensor.indices]

    def values(places: Places) -> dict[str, Any]:
        levels = len(tensor.indptr)
        return {
            "indptrType": _encode_integer(type_),
            "indptrBuffers": places[:levels],
            "indicesType": _encode_integer(type_),
            "indicesBuffers": places[levels:],
            "axisOrder": list(tensor.axis_order),
        }

    # Lengths of these buffers count elements, unlike all others.
    return tables.SPARSE_TENSOR_INDEX_CSF, values, [(_raw(array, type_), len(array)) for array in arrays]


def _wider(type_: t.Int, *arrays: NDArray) -> t.Int:
    """Return a type that holds the values of an index: `type_` if all arrays have it, or int64."""
    return type_ if all(array.dtype == dtype_of(type_) for array in arrays) else t.int64


def _encode_integer(type_: t.Int) -> dict[str, Any]:
    return {"bitWidth": type_.bit_width, "is_signed": type_.signed}


_INDICES: Final[Mapping[type[SparseTensor], Callable[[Any, t.Int], Encoded]]] = {
    CooTensor: _encode_coo,
    CsrMatrix: _encode_csx,
    CscMatrix: _encode_csx,
    CsfTensor: _encode_csf,
}
