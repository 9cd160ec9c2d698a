"""`merge_runs`: one row for neighbours with equal keys, before pyarrow groups rows or Spark gets them.

Tables are often written in the order of a key (an order with its lines, a day with its events), so equal keys follow one another.
numpy adds up such a run for about 4 ns a row, and pyarrow groups rows for 36 to 99.

Groups need not be complete, as with all partial rows. So keys that are null or NaN may stay apart, and 0.0 and -0.0 may be
one group, as they are for Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_arrow_ipc.spark import bridge

_MOST_RUNS: Final = 0.7
"""Rows are merged if the share of runs in them is at most this."""
_SAMPLE_ROWS: Final = 4096
"""Rows that are looked at first: keys without runs cost no more than these."""
_ONES: Final = (1 << 63) - 1


def merge_runs(table: pa.Table, num_keys: int, functions: Sequence[str]) -> pa.Table:
    """Return one row for each run of equal keys, or `table` if that saves little or a value has no exact sum in 64 bits."""
    rows = table.num_rows
    if not num_keys or rows < 2:
        return table
    keys = table.columns[:num_keys]
    for size in {min(rows, _SAMPLE_ROWS): None, rows: None}:
        try:
            starts = _starts(keys, size)
        except pa.ArrowNotImplementedError:  # pyarrow groups voids and calendar intervals, and compares neither
            return table
        if len(starts) > _MOST_RUNS * size:
            return table
    merged = []
    for column, function in zip(table.columns[num_keys:], functions, strict=True):
        values = _reduce(_join(column), starts, function)
        if values is None:
            return table
        merged.append(values)
    first = bridge.numbers(starts)
    return pa.Table.from_arrays([*(key.take(first) for key in keys), *merged], table.column_names)


def _starts(keys: Sequence[pa.ChunkedArray], rows: int) -> npt.NDArray[np.int64]:
    """Return the positions, among the first `rows`, whose keys differ from the row before."""
    differs = np.zeros(rows, np.bool_)
    differs[0] = True
    for key in keys:
        # Null beside anything is a new run, also beside null.
        changes = pc.fill_null(pc.not_equal(key.slice(1, rows - 1), key.slice(0, rows - 1)), fill_value=True)
        differs[1:] |= changes.to_numpy()
    return np.flatnonzero(differs)


def _join(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _reduce(column: pa.Array, starts: npt.NDArray[np.int64], function: str) -> pa.Array | None:
    """Return an aggregate of each run, null for a run of nulls; None for types and sizes without one in 64 bits."""
    values = _numbers(column)
    if values is None:
        return None
    valid = column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else None
    aggregate = _REDUCTIONS[function]
    if valid is not None:
        limits = np.iinfo(values.dtype)
        values = np.where(valid, values, {"sum": 0, "min": limits.max, "max": limits.min}[function])
    if function == "sum":
        longest = int(np.diff(starts, append=len(values)).max())
        # Whole numbers of at most 64 bits: the caller has a bound for each sum. Decimals of 64 bits may have larger sums.
        if pa.types.is_decimal(column.type) and max(-int(values.min()), int(values.max())) * longest > _ONES:
            return None
        result = aggregate(values, starts, dtype=np.int64)
    else:
        result = aggregate(values, starts)
    absent = None if valid is None else ~np.logical_or.reduceat(valid, starts)
    if pa.types.is_decimal(column.type):
        return _decimals(result, absent, column.type)
    numbers = bridge.numbers(result, absent)
    return numbers if function == "sum" else numbers.view(column.type)


_REDUCTIONS: Final[Mapping[str, Callable[..., npt.NDArray[np.int64]]]] = {
    "sum": np.add.reduceat,
    "min": np.minimum.reduceat,
    "max": np.maximum.reduceat,
}


def _numbers(column: pa.Array) -> npt.NDArray[np.signedinteger] | None:
    """Return values as whole numbers in the order of the type; None if a type has none, or a value more than 64 bits."""
    type_ = column.type
    if pa.types.is_decimal128(type_):
        words = bridge.view_values(column, np.dtype(("<i8", 2)))
        low, high = words[:, 0], words[:, 1]
        if column.null_count:  # a null may have any bytes
            valid = column.is_valid().to_numpy(zero_copy_only=False)
            low, high = low * valid, high * valid
        return low if np.array_equal(low >> 63, high) else None
    if pa.types.is_signed_integer(type_) or pa.types.is_date32(type_) or pa.types.is_timestamp(type_):
        return bridge.view_values(column, np.dtype(f"i{type_.byte_width}"))
    return None


def _decimals(values: npt.NDArray[np.int64], absent: npt.NDArray[np.bool_] | None, type_: pa.DataType) -> pa.Array:
    words = np.stack([values, values >> 63], axis=1)
    valid = None if absent is None else pa.py_buffer(np.packbits(~absent, bitorder="little"))
    return pa.Array.from_buffers(type_, len(values), [valid, pa.py_buffer(words)])
