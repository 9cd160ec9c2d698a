"""Dictionary-encode columns of a write, with one growing dictionary each.

Strategy
--------
Each batch is encoded by pyarrow's kernel, and its few distinct values are added to the dictionary of the task. So the
dictionary of every batch begins with the one before it, and the writer writes one. Nulls are nulls of the indices.
Indices are int32, which every reader supports.

``dictionaryColumns=auto`` samples the first `SAMPLE_ROWS` rows of each task. A column whose dictionary grows too large
later is written without a dictionary from then on, in a new file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from spark_arrow_ipc.arrow import bitmap, numpy_views
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.kernels.compact import as_buffer
from spark_arrow_ipc.arrow.kernels.concat import concat
from spark_arrow_ipc.arrow.kernels.slice import nbytes
from spark_arrow_ipc.arrow.kernels.take import take
from spark_arrow_ipc.arrow.python_values import from_pylist
from spark_arrow_ipc.errors import SchemaMismatchError
from spark_arrow_ipc.spark import bridge

__all__ = [
    "ENCODABLE",
    "MOST_NBYTES",
    "SAMPLE_ROWS",
    "TaskDictionaries",
    "can_encode",
    "encoded_type",
    "is_worth_encoding",
    "outgrown",
]

SAMPLE_ROWS: Final = 65_536
"""Rows of a task that ``auto`` samples: one record batch by default."""

_LEAST_ROWS: Final = 1_000
"""In smaller samples a dictionary costs more than it saves."""

_ROWS_PER_VALUE: Final = 8
"""Least average number of occurrences of a value."""

MOST_NBYTES: Final = 4 << 20
"""Largest dictionary of ``auto``: every file of the task has one, and every reader of a file holds it."""

ENCODABLE: Final = frozenset({t.Utf8, t.Binary, t.LargeUtf8, t.LargeBinary, t.Int, t.Date, t.Decimal, t.Timestamp})
"""Type classes that ``dictionaryColumns`` accepts."""

_SAMPLED: Final = frozenset({t.Utf8, t.Binary})
"""Type classes that ``auto`` samples."""


def encoded_type(type_: t.DataType) -> t.Dictionary:
    """Return the type of a dictionary-encoded column."""
    return t.Dictionary(t.int32, type_)


def can_encode(column: t.Field, *, sampled: bool = False) -> bool:
    """Return True if a column can be dictionary-encoded; with `sampled`, by ``auto``."""
    # The name of an extension fixes its storage type, which is never a dictionary.
    return type(column.type) in (_SAMPLED if sampled else ENCODABLE) and column.extension_name is None


def is_worth_encoding(arrays: Sequence[Array]) -> bool:
    """Return True if the values of a sample repeat often enough for a dictionary to pay."""
    rows = sum(array.length - array.count_nulls() for array in arrays)
    if rows < _LEAST_ROWS:
        return False
    dictionaries = TaskDictionaries()
    for array in arrays:
        values = dictionaries.encode("", array, encoded_type(array.type)).dictionary
        assert values is not None
        if values.length * _ROWS_PER_VALUE > rows or outgrown(values):
            return False
    return True


def outgrown(values: Array) -> bool:
    """Return True if the dictionary of an ``auto`` column has become too large."""
    return nbytes(values) > MOST_NBYTES


@dataclass(slots=True)
class _Known:
    """The values of one column so far."""

    values: Array
    codes: dict[object, int] = field(default_factory=dict)


class TaskDictionaries:
    """The dictionaries of one task's columns, by their paths."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def encode(self, path: str, array: Array, type_: t.Dictionary) -> Array:
        """Dictionary-encode an array; the dictionary begins with the one before it.

        Raises
        ------
        SchemaMismatchError
            There are more values than the indices can count.
        """
        encoded = bridge.from_pyarrow(bridge.to_pyarrow(array).dictionary_encode())
        brought = encoded.dictionary
        assert brought is not None
        known = self._known.get(path)
        if known is None:
            known = self._known[path] = _Known(take(brought, np.zeros(0, np.int64)))
        before = len(known.codes)
        keys = _keys(brought)
        mapping = np.fromiter((known.codes.setdefault(key, len(known.codes)) for key in keys), np.int64, len(keys))
        if len(known.codes) > before:
            # setdefault numbers new values in their order, so these are the first slots of each new number.
            _, first = np.unique(mapping, return_index=True)
            known.values = concat([known.values, take(brought, first[mapping[first] >= before])])
        most = 2 ** (type_.index.bit_width - type_.index.signed)
        if known.values.length > most:
            raise SchemaMismatchError(
                expected=f"at most {most:,} different values, which the indices of {type_} can count",
                found=f"{known.values.length:,}",
            )
        indices = numpy_views.data_values(encoded)
        mask = numpy_views.validity_mask(encoded)
        if mask is not None:
            indices = np.where(mask, indices, 0)
        moved = mapping[indices] if len(mapping) else np.zeros(encoded.length, np.int64)
        moved = moved.astype(numpy_views.dtype_of(type_))
        validity = None if mask is None else bitmap.pack(mask)
        nulls = encoded.count_nulls()
        values = known.values if known.values.type == type_.value else replace(known.values, type=type_.value)
        return Array(type_, array.length, nulls, (validity, as_buffer(moved)), (), values)


def _keys(values: Array) -> Sequence[object]:
    """Return a hashable key for each value.

    Values of a fixed width are compared by their bits, so that NaN equals itself and -0.0 differs from 0.0.
    """
    if type(values.type) in numpy_views.DTYPES:
        numbers = np.ascontiguousarray(numpy_views.data_values(values))
        if numbers.dtype.kind == "f":
            numbers = numbers.view(f"u{numbers.dtype.itemsize}")
        listed_numbers: list[object] = numbers.tolist()
        return listed_numbers
    listed = values.to_pylist()
    return listed if type(values.type) in _HASHABLE else list(map(from_pylist.value_key, listed))


_HASHABLE: Final = frozenset({t.Utf8, t.LargeUtf8, t.Binary, t.LargeBinary, t.FixedSizeBinary, t.Bool})
