"""Vectors in binary columns as numpy sees them, for functions over columns read with ``vectors=binary``.

A binary column has the bytes of all rows in one buffer, which numpy reads without a copy. The type of the numbers is in
the field's metadata, which Spark passes on in the batches of `mapInArrow` and `map_in_arrow`; pandas functions get Python
objects without metadata, so `stack` takes the type.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_arrow_ipc.arrow import array_data
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.bounded_json import parse_json
from spark_arrow_ipc.errors import ColumnNotFoundError, SchemaMismatchError, absent_name
from spark_arrow_ipc.spark import bridge
from spark_arrow_ipc.spark.types.field_metadata import (
    SPARK_KEY,
    TYPE_KEY,
    annotation_of,
    is_vector_annotation,
    type_of_annotation,
    vector_element,
)

__all__ = ["matrix", "metadata", "ragged", "stack", "to_binary"]

NDArray = npt.NDArray[Any]

_WANTED: Final = "binary values that hold vectors"


def metadata(dtype: npt.DTypeLike, size: int | None = None) -> dict[str, str]:
    """Return the metadata that describe vectors in a binary column, for ``df.withMetadata(column, ...)``.

    A write with ``vectors=binary`` then writes the column as lists.

    Parameters
    ----------
    dtype
        The type of the numbers: integers of 8 to 64 bits, or floats of 16 to 64.
    size
        Numbers of each vector, for fixed-size lists; None for lists of any length.

    Raises
    ------
    TypeError
        Arrow has no such numbers.
    """
    element = bridge.type_from_pyarrow(pa.from_numpy_dtype(np.dtype(dtype)))
    item = t.Field("item", element)
    type_ = t.List(item) if size is None else t.FixedSizeList(item, size)
    if vector_element(type_) is None:
        raise TypeError(f"expected a dtype of whole numbers or floats, found {np.dtype(dtype)}")
    return {TYPE_KEY: annotation_of(type_)}


def matrix(batch: pa.RecordBatch, column: str, dtype: npt.DTypeLike | None = None) -> NDArray:
    """Return the vectors of a column as rows of a matrix: a view, shape ``(rows, size)``.

    Parameters
    ----------
    batch
        Of a function for `map_in_arrow` or `mapInArrow`.
    column
        Its name; read with ``vectors=binary``.
    dtype
        The type of the numbers; by default the one in the column's metadata.

    Raises
    ------
    SchemaMismatchError
        The column is not binary, the type of its numbers is unknown, it has nulls, or its vectors differ in length.
    """
    values, offsets = ragged(batch, column, dtype)
    if batch.column(column).null_count:
        raise SchemaMismatchError(expected="no nulls", found=f"{batch.column(column).null_count:,}", field_path=column)
    sizes = np.diff(offsets)
    if len(sizes) and (sizes != sizes[0]).any():
        actual = f"{sizes.min():,} to {sizes.max():,} numbers; ragged() takes them"
        raise SchemaMismatchError(expected="vectors of one length", found=actual, field_path=column)
    return values[int(offsets[0]) : int(offsets[-1])].reshape(batch.num_rows, -1 if len(sizes) and sizes[0] else 0)


def ragged(batch: pa.RecordBatch, column: str, dtype: npt.DTypeLike | None = None) -> tuple[NDArray, NDArray]:
    """Return the numbers of all rows, and their offsets by row: views, if the bytes are aligned.

    Row i has ``values[offsets[i]:offsets[i + 1]]``, which have no meaning if it is null.

    Parameters
    ----------
    batch, column, dtype
        As for `matrix`.

    Returns
    -------
    values
        Of `dtype`.
    offsets
        Shape ``(rows + 1,)``.

    Raises
    ------
    SchemaMismatchError
        The column is not binary, the type of its numbers is unknown, or a value ends within a number.
    """
    if column not in batch.schema.names:
        raise ColumnNotFoundError(absent_name(column, batch.schema.names))
    array = batch.column(column)
    of_numbers = _dtype(batch, column) if dtype is None else np.dtype(dtype)
    if not pa.types.is_binary(array.type):
        raise SchemaMismatchError(
            expected=_WANTED, found=f"{array.type}; read it with vectors=binary", field_path=column
        )
    ours = bridge.from_pyarrow(array)
    offsets = array_data.value_offsets(ours)
    start, stop = int(offsets[0]), int(offsets[-1])
    nbytes = np.diff(offsets)
    if (nbytes % of_numbers.itemsize).any():
        row = int((nbytes % of_numbers.itemsize != 0).argmax())
        actual = f"{int(nbytes[row]):,} bytes in row {row:,}"
        raise SchemaMismatchError(
            expected=f"a multiple of {of_numbers.itemsize} bytes", found=actual, field_path=column
        )
    data = array_data.value_bytes(ours)[start:stop]
    return data.view(of_numbers), (offsets - start) // of_numbers.itemsize


def stack(values: Iterable[bytes], dtype: npt.DTypeLike) -> NDArray:
    """Return vectors of one length as rows of a matrix: one copy, shape ``(rows, size)``.

    Parameters
    ----------
    values
        A column in a pandas function: a series of bytes without nulls.
    dtype
        The type of the numbers.

    Raises
    ------
    SchemaMismatchError
        A value is null, or they differ in length.
    """
    rows = list(values)
    if any(row is None for row in rows):
        raise SchemaMismatchError(expected="no nulls", found="None")
    least, most = min(map(len, rows), default=0), max(map(len, rows), default=0)
    if least != most:
        raise SchemaMismatchError(expected="vectors of one length", found=f"{least:,} to {most:,} bytes")
    numbers: NDArray = np.frombuffer(b"".join(rows), dtype)
    return numbers.reshape(len(rows), -1 if most else 0)


def to_binary(vectors: NDArray) -> pa.Array:
    """Return the rows of a matrix as binary values, for a batch that a function yields.

    Shares the memory of a matrix that is contiguous and little-endian.

    Parameters
    ----------
    vectors
        Shape ``(rows, size)``.
    """
    rows, size = vectors.shape
    little = np.ascontiguousarray(vectors, vectors.dtype.newbyteorder("<"))
    offsets = np.arange(rows + 1, dtype=np.int64) * size * little.itemsize
    large = pa.Array.from_buffers(
        pa.large_binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(little.reshape(-1).view(np.uint8))]
    )
    return large.cast(pa.binary())


def _dtype(batch: pa.RecordBatch, column: str) -> np.dtype[Any]:
    """Return the dtype in the metadata of a column."""
    metadata_ = batch.schema.field(column).metadata or {}
    try:
        values = parse_json(metadata_.get(SPARK_KEY.encode(), b"{}"))
    except ValueError:
        values = None
    type_name = values.get(TYPE_KEY) if isinstance(values, dict) else None
    if type_name is None or not is_vector_annotation(type_name):
        raise SchemaMismatchError(
            expected="a column whose metadata note its numbers (read with vectors=binary)",
            found="none; give the dtype, as float32",
            field_path=column,
        )
    element = vector_element(type_of_annotation(type_name, t.binary))
    assert element is not None
    return array_data.dtype_of(element)
