"""Write a partial sum of decimals as several rows where it has more digits than the column that takes it.

Spark takes partial sums of a column of decimals in the type of that column, and adds them up (``V2ScanRelationPushDown``).
A sum of many values has more digits. So a group whose sum is 25,000,000 in a column of seven digits becomes three rows with
9,999,999, 9,999,999 and 5,000,002. Each of them has the keys. Only the first has the counts, the extremes and the other sums.
There are never more rows than were summed, as each of these fits the column.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_arrow_ipc.arrow import array_data
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.spark import bridge

MOST_DIGITS: Final = t.MAX_DECIMAL_PRECISION[64]
"""Digits of the decimals that 64 bits hold."""

_MOST_ROWS: Final = 1 << 16
"""Rows that are made at once: a sum of single digits may have as many rows as were summed."""

_MOST_KEY_NBYTES: Final = 16 << 20
"""Bytes of their keys, unless one has more."""


def split_sums(
    table: pa.Table, num_keys: int, limits: Mapping[int, int], counts: Collection[int]
) -> Iterator[pa.Table]:
    """Yield the rows of a table, of which a row becomes several if a sum exceeds its limit.

    Parameters
    ----------
    table
        Partial rows, keys first, with sums as decimals of 128 bits.
    num_keys
        Number of keys.
    limits
        Positions of sums, whose absolute values are less than 2**63 without the point, and the greatest value of each.
    counts
        Positions of counts.
    """
    table = table.combine_chunks()
    sums = {i: _numbers(table.column(i)) for i in limits}
    pieces = {i: np.maximum(-(-np.abs(sums[i]) // limit), 1) for i, limit in limits.items()}
    of_row = np.max([*pieces.values()], axis=0)
    ends = np.cumsum(of_row)
    key_nbytes = sum(map(longest_nbytes, table.columns[:num_keys]))
    step = min(_MOST_ROWS, max(1, _MOST_KEY_NBYTES // max(1, key_nbytes)))
    repeated = {*range(num_keys), *limits}
    for start in range(0, int(ends[-1]), step):
        numbers = np.arange(start, min(start + step, int(ends[-1])))
        rows = np.searchsorted(ends, numbers, side="right")
        piece = numbers - (ends - of_row)[rows]
        in_all, in_first = bridge.numbers(rows), bridge.numbers(rows, piece > 0)
        columns = [column.take(in_all if i in repeated else in_first) for i, column in enumerate(table.columns)]
        for i, limit in limits.items():
            is_inside = piece < pieces[i][rows]  # another sum of the row may have more pieces
            left = np.abs(sums[i][rows]) - np.where(is_inside, piece, 0) * limit
            values = np.where(is_inside, np.minimum(left, limit) * np.sign(sums[i][rows]), 0)
            columns[i] = _decimals(values, columns[i].chunk(0))
        # Spark's sums and extremes pass over nulls, and a count has none.
        for i in counts:
            columns[i] = pc.fill_null(columns[i], bridge.scalar(0, columns[i].type))
        yield pa.Table.from_arrays(columns, table.column_names)


def longest_nbytes(values: pa.Array | pa.ChunkedArray) -> int:
    """Return at least the bytes of the longest value."""
    if pa.types.is_string(values.type) or pa.types.is_binary(values.type):
        return int(pc.max(pc.binary_length(values)).as_py() or 0)
    return int(-(-values.type.bit_width // 8)) if pa.types.is_primitive(values.type) else int(values.nbytes)


def _numbers(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """Return decimals without their point, 0 for nulls."""
    array = bridge.from_pyarrow(column.chunk(0))
    slots, valid = array_data.data_values(array), array_data.validity_mask(array)
    numbers = np.ascontiguousarray(slots["w0"]).view(np.int64)
    return numbers if valid is None else np.where(valid, numbers, 0)


def _decimals(numbers: npt.NDArray[np.int64], like: pa.Array) -> pa.Array:
    """Return numbers as decimals of the type of an array, null where it has nulls."""
    words = bridge.numbers(numbers).cast(pa.decimal128(19, 0)).buffers()[1]
    return pa.Array.from_buffers(like.type, len(numbers), [like.buffers()[0], words])
