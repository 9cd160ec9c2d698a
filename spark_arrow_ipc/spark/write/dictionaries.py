"""Dictionary-encode arrays, with one growing dictionary for each column.

How it works
------------
1. pyarrow's kernel encodes each batch, and its few distinct values are added to the dictionary of the column. So the
   dictionary of each batch begins with the previous one, and the writer writes one dictionary.
2. Nulls are nulls of the indices. Values are equal if their bits are: NaN payloads and -0.0 stay.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from spark_arrow_ipc.arrow import array_data
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.distinct import first_equal
from spark_arrow_ipc.arrow.kernels.growing_dictionary import GrowingDictionary, most_values, remap_indices
from spark_arrow_ipc.arrow.kernels.take import take
from spark_arrow_ipc.errors import SchemaMismatchError
from spark_arrow_ipc.spark import bridge


class GrowingColumn:
    """The dictionary of one column, of any type, with a hash table of its values."""

    def __init__(self) -> None:
        self._growing: GrowingDictionary | None = None

    @property
    def values(self) -> Array | None:
        """All values so far; None before the first array."""
        return None if self._growing is None else self._growing.values

    def encode(self, array: Array, index: t.Int = t.int64) -> Array:
        """Dictionary-encode an array; its dictionary begins with the previous one."""
        encoded = _encode(array)
        new_values = encoded.dictionary
        assert new_values is not None
        if self._growing is None:
            self._growing = GrowingDictionary(new_values)
        # Without a limit here, as the number of values is compared with the indices below.
        positions = self._growing.add(new_values, np.iinfo(np.int64).max)
        type_ = t.Dictionary(index, array.type)
        most = most_values(type_)
        if self._growing.length > most:
            raise SchemaMismatchError(
                expected=f"at most {most:,} different values, which the indices of {type_} can count",
                found=f"{self._growing.length:,}",
            )
        moved = remap_indices(encoded, np.arange(new_values.length) if positions is None else positions, type_)
        return replace(moved, dictionary=self._growing.values)


class TaskDictionaries:
    """The dictionaries inside of one task's columns, by their paths."""

    def __init__(self) -> None:
        self._columns: dict[str, GrowingColumn] = {}

    def encode(self, path: str, array: Array, index: t.Int) -> Array:
        """Dictionary-encode an array; its dictionary begins with the previous one of the path."""
        return self._columns.setdefault(path, GrowingColumn()).encode(array, index)


def _encode(array: Array) -> Array:
    """Return an array as indices into its distinct values."""
    if isinstance(array.type, t.FloatingPoint):  # the kernel takes all NaNs for one
        encoded = _encode(replace(array, type=t.Int(array.type.bit_width, signed=True)))
        assert isinstance(encoded.type, t.Dictionary)
        assert encoded.dictionary is not None
        values = replace(encoded.dictionary, type=array.type)
        return replace(encoded, type=replace(encoded.type, value=array.type), dictionary=values)
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
