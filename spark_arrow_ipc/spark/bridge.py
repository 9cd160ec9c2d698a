"""Convert record batches between pyarrow and this package (`arrow.pyarrow_bridge` converts types and arrays), and join them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_arrow_ipc.arrow import array_data, pyarrow_bridge
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.pyarrow_bridge import (
    buffers_of,
    field_from_pyarrow,
    field_to_pyarrow,
    pairs_of,
    to_pyarrow,
    type_from_pyarrow,
    type_to_pyarrow,
)
from spark_arrow_ipc.arrow.python_values import from_pylist
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema

__all__ = [
    "PyArrowBatch",
    "PyArrowSchema",
    "batch_from_pyarrow",
    "batch_to_pyarrow",
    "buffers_of",
    "copy_to_arrow_memory",
    "field_to_pyarrow",
    "from_pyarrow",
    "join_batches",
    "schema_from_pyarrow",
    "to_pyarrow",
    "type_from_pyarrow",
    "type_to_pyarrow",
    "use_system_memory",
]

PyArrowSchema: TypeAlias = pa.Schema
PyArrowBatch: TypeAlias = pa.RecordBatch
"""The batches that Spark gives a writer, for annotations in modules that do not import pyarrow."""


def use_system_memory() -> None:
    """Let pyarrow allocate from now on as numpy does."""
    pa.set_memory_pool(pa.system_memory_pool())


def from_pyarrow(array: pa.Array) -> Array:
    """Return a pyarrow array as an array of this package that shares its memory."""
    return pyarrow_bridge.from_pyarrow(array, Array)


def batch_from_pyarrow(batch: pa.RecordBatch) -> RecordBatch:
    """Return a pyarrow record batch as one of this package that shares its memory."""
    schema = schema_from_pyarrow(batch.schema)
    return RecordBatch(schema, tuple(map(from_pyarrow, batch.columns)), batch.num_rows)


def batch_to_pyarrow(batch: RecordBatch) -> pa.RecordBatch:
    """Return a record batch of this package as one of pyarrow that shares its memory."""
    return pa.RecordBatch.from_arrays([to_pyarrow(column) for column in batch.columns], names=list(batch.schema.names))


def join_batches(batches: Iterable[pa.RecordBatch], rows: int, nbytes: int) -> Iterator[pa.RecordBatch]:
    """Join small batches of one schema into batches of `rows` rows, or of fewer if they reach `nbytes` bytes."""
    held: list[pa.RecordBatch] = []
    held_rows = held_nbytes = 0
    for batch in batches:
        first = 0
        while first < batch.num_rows:
            part = batch if first == 0 and batch.num_rows <= rows - held_rows else batch.slice(first, rows - held_rows)
            held.append(part)
            held_rows += part.num_rows
            held_nbytes += part.nbytes
            first += part.num_rows
            if held_rows == rows or held_nbytes >= nbytes:
                yield from _as_one(held)
                held, held_rows, held_nbytes = [], 0, 0
    if held:
        yield from _as_one(held)


def copy_to_arrow_memory(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a copy of a record batch in memory that pyarrow allocated."""
    # Buffers of Python objects are freed under Python's lock, and these are not.
    copied: pa.RecordBatch = batch.copy_to(pa.default_cpu_memory_manager())
    return copied


def _as_one(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    if len(batches) == 1:
        return batches
    # Strings that exceed 32-bit value offsets remain several batches.
    joined_batches: list[pa.RecordBatch] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return joined_batches


def schema_from_pyarrow(schema: pa.Schema) -> Schema:
    """Return a pyarrow schema as one of this package."""
    return Schema(tuple(map(field_from_pyarrow, schema)), pairs_of(schema))


def array(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    """Return an array of the Python values that `from_pylist.array` takes."""
    # Python time for each value: only for constants, and for a row for each record batch.
    return to_pyarrow(from_pylist.array(values, type_from_pyarrow(type_)))


def scalar(value: object, type_: pa.DataType) -> pa.Scalar:
    """Return one Python value as a scalar."""
    return array([value], type_)[0]


def numbers(values: npt.NDArray[Any], nulls: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """Return a one-dimensional numpy array of numbers or booleans as an array of the same type."""
    # Not `pyarrow.array`, which imports pandas, 0.4 seconds of CPU, at the first numpy array that it meets.
    type_ = pa.from_numpy_dtype(values.dtype)
    # Contiguous numbers are shared and not copied.
    buffer = pa.py_buffer(array_data.pack_bits(values) if values.dtype == np.bool_ else np.ascontiguousarray(values))
    validity = None if nulls is None else pa.py_buffer(array_data.pack_bits(~nulls))
    return pa.Array.from_buffers(type_, len(values), [validity, buffer])


def view_values(array: pa.Array, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return the values of an array of fixed width, whatever they are for nulls, in the same memory."""
    if not len(array):
        return np.zeros(0, dtype)
    # With a count, as buffers may be longer than their values, by any number of bytes.
    return np.frombuffer(array.buffers()[1], dtype, len(array), array.offset * dtype.itemsize)


def index_in(array: Array, values: Array) -> npt.NDArray[np.int32]:
    """Return the position in `values` of the value of each slot, -1 for nulls and for slots without one."""
    # Imported late: plans do without the kernels, which take 0.1 s to import.
    import pyarrow.compute as pc

    positions = pc.index_in(to_pyarrow(array), value_set=to_pyarrow(values))
    return (pc.fill_null(positions, -1) if positions.null_count else positions).to_numpy()  # type: ignore[no-any-return]


def distinct(array: Array, chosen: npt.NDArray[np.bool_]) -> Array:
    """Return the distinct values of chosen slots, in the order in which they come."""
    return from_pyarrow(to_pyarrow(array).filter(numbers(chosen)).unique())
