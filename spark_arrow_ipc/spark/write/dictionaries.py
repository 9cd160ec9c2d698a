"""Dictionary-encode columns of a write, with one growing dictionary for each.

How it works
------------
1. pyarrow's kernel encodes each batch, and its few distinct values are added to the dictionary of the task. So the
   dictionary of each batch begins with the previous one, and the writer writes one dictionary.
2. Nulls are nulls of the indices. Indices are int32, which every reader supports.
3. ``dictionaryColumns=auto`` samples the first `SAMPLE_ROWS` rows of each task. A column whose dictionary later grows too
   large is written without one from then on, in a new file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from spark_arrow_ipc.arrow import array_data
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.distinct import first_equal
from spark_arrow_ipc.arrow.kernels.growing_dictionary import GrowingDictionary, most_values, remap_indices
from spark_arrow_ipc.arrow.kernels.take import take
from spark_arrow_ipc.arrow.measure import nbytes
from spark_arrow_ipc.errors import SchemaMismatchError
from spark_arrow_ipc.spark import bridge

SAMPLE_ROWS: Final = 65_536
"""Rows of a task that ``auto`` samples: by default one record batch."""

_LEAST_ROWS: Final = 1_000
"""In smaller samples a dictionary costs more than it saves."""

_ROWS_PER_VALUE: Final = 8
"""Least average number of occurrences of a value."""

MOST_NBYTES: Final = 4 << 20
"""Largest dictionary of ``auto``, which each file of the task has and each reader of a file holds in memory."""

ENCODABLE: Final = frozenset({t.Utf8, t.Binary, t.LargeUtf8, t.LargeBinary, t.Int, t.Date, t.Decimal, t.Timestamp})
"""Type classes that ``dictionaryColumns`` accepts."""

_SAMPLED: Final = frozenset({t.Utf8, t.Binary})
"""Type classes that ``auto`` samples."""


def dictionary_type(type_: t.DataType) -> t.Dictionary:
    """Return the type of a dictionary-encoded column."""
    return t.Dictionary(t.int32, type_)


def can_encode(column: t.Field, *, sampled: bool = False) -> bool:
    """Return True if a column can be dictionary-encoded; with `sampled`, by ``auto``."""
    # An extension prescribes its storage type, which is never a dictionary.
    return type(column.type) in (_SAMPLED if sampled else ENCODABLE) and column.extension_name is None


def is_worth_encoding(arrays: Sequence[Array]) -> bool:
    """Return True if the values of a sample repeat often enough for a dictionary to pay."""
    rows = sum(array.length - array.count_nulls() for array in arrays)
    if rows < _LEAST_ROWS:
        return False
    dictionaries = TaskDictionaries()
    for array in arrays:
        values = dictionaries.encode("", array, dictionary_type(array.type)).dictionary
        assert values is not None
        if values.length * _ROWS_PER_VALUE > rows or is_too_large(values):
            return False
    return True


def is_too_large(values: Array) -> bool:
    """Return True if the dictionary of an ``auto`` column has become too large."""
    return nbytes(values) > MOST_NBYTES


class TaskDictionaries:
    """The dictionaries of one task's columns, by their paths."""

    def __init__(self) -> None:
        self._growing: dict[str, GrowingDictionary] = {}

    def encode(self, path: str, array: Array, type_: t.Dictionary) -> Array:
        """Dictionary-encode an array; its dictionary begins with the previous one of the column."""
        encoded = _encode(array)
        new_values = encoded.dictionary
        assert new_values is not None
        growing = self._growing.get(path)
        if growing is None:
            growing = self._growing[path] = GrowingDictionary(new_values)
        # Without a limit here, as the number of values is compared with the indices below.
        positions = growing.add(new_values, np.iinfo(np.int64).max)
        most = most_values(type_)
        if growing.length > most:
            raise SchemaMismatchError(
                expected=f"at most {most:,} different values, which the indices of {type_} can count",
                found=f"{growing.length:,}",
            )
        moved = remap_indices(encoded, np.arange(new_values.length) if positions is None else positions, type_)
        values = growing.values
        return replace(moved, dictionary=values if values.type == type_.value else replace(values, type=type_.value))


def _encode(array: Array) -> Array:
    """Return an array as indices into its distinct values."""
    if not array.type.children:  # pyarrow has a faster kernel for these
        return bridge.from_pyarrow(bridge.to_pyarrow(array).dictionary_encode())
    mask = array_data.validity_mask(array)
    valid = np.arange(array.length) if mask is None else np.flatnonzero(mask)
    present = array if mask is None else take(array, valid)
    first = first_equal(present)
    distinct = np.flatnonzero(first == np.arange(present.length))
    indices = np.zeros(array.length, np.int64)  # of nulls: any valid index
    indices[valid] = np.searchsorted(distinct, first)
    validity = None if mask is None else array_data.pack_bits(mask)
    type_ = t.Dictionary(t.int64, array.type)
    nulls = array.length - len(valid)
    return Array(type_, array.length, nulls, (validity, array_data.as_buffer(indices)), (), take(present, distinct))
