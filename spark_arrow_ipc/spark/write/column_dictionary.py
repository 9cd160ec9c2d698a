"""`ColumnDictionary`: the growing dictionary of one column, and the positions of its values.

How it works
------------
1. Values are equal if their bits are: numbers, dates, times and decimals of up to 18 digits are 64-bit words, strings are
   bytes. So NaN payloads and -0.0 stay.
2. Words of a small range are looked up in a table, by their distance from the least one. Other words and strings are found
   by pyarrow's ``index_in``, which hashes the values so far for each batch.
3. Many values, and values of other types, go into a `GrowingDictionary`, whose hash table stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.arrow import array_data
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.array_data import as_buffer
from spark_arrow_ipc.arrow.kernels.compact import compact
from spark_arrow_ipc.arrow.kernels.concat import concat
from spark_arrow_ipc.arrow.python_values import from_pylist
from spark_arrow_ipc.spark import bridge
from spark_arrow_ipc.spark.write.dictionaries import GrowingColumn

Positions: TypeAlias = npt.NDArray[np.signedinteger[Any]]
Mask: TypeAlias = npt.NDArray[np.bool_] | None

_MOST_RANGE: Final = 1 << 17
"""Greatest distance of two words in a table, which takes 512 KiB then and stays in a cache of the processor."""

_MOST_SOUGHT: Final = 1 << 16
"""Most values that are hashed for each batch."""

MOST_DIGITS: Final = t.MAX_DECIMAL_PRECISION[64]
"""Digits of the decimals that a 64-bit word holds."""


class _Values(Protocol):
    """The values of a dictionary so far."""

    @property
    def values(self) -> Array:
        """All values, the same object until one is added."""

    @property
    def seeks(self) -> bool:
        """True if all values are hashed for each batch."""

    def find_or_add(self, array: Array, valid: Mask) -> Positions | None:
        """Return the position of each slot's value, of nulls any; None if these values cannot hold one of the slots."""


class ColumnDictionary:
    """The distinct values of a column, in the order in which the batches bring them."""

    def __init__(self, type_: t.DataType) -> None:
        self._values: _Values = _KINDS.get(type(type_), _Hashed)(type_)

    @property
    def values(self) -> Array:
        """All values so far."""
        return self._values.values

    def encode(self, array: Array) -> tuple[Positions, Mask]:
        """Add the values of an array, and return the position of each slot, 0 for nulls, and which slots are valid."""
        valid = array_data.validity_mask(array)
        if not array.length or (valid is not None and not valid.any()):
            return np.zeros(array.length, np.int32), valid
        positions = self._values.find_or_add(array, valid)
        if positions is None:
            self._values = _Hashed(array.type, self._values.values)
            positions = self._values.find_or_add(array, valid)
            assert positions is not None
        elif self._values.seeks and self._values.values.length > _MOST_SOUGHT:
            self._values = _Hashed(array.type, self._values.values)
        return positions if valid is None else np.where(valid, positions, 0), valid


class _Words:
    """Values of up to 64 bits."""

    def __init__(self, type_: t.DataType) -> None:
        self._type = type_
        self._words = np.empty(0, np.int64)
        self._array: Array | None = None
        # The position of each word from the least one on, -1 for none; without slots if the words are far apart.
        self._least = 0
        self._table = np.empty(0, np.int32)

    @property
    def values(self) -> Array:
        if self._array is None:
            self._array = _from_words(self._words, self._type)
        return self._array

    @property
    def seeks(self) -> bool:
        return not len(self._table)

    def find_or_add(self, array: Array, valid: Mask) -> Positions | None:
        words = _words_of(array, valid)
        if words is None:
            return None
        if valid is not None:
            words = np.where(valid, words, words[int(valid.argmax())])
        least, greatest = int(words.min()), int(words.max())
        if not self._reach(least, greatest):
            return self._seek(words)
        slots = np.subtract(words, self._least, dtype=np.int64)
        positions: Positions = self._table[slots]
        if positions.min() < 0:
            is_new = np.zeros(len(self._table), np.bool_)
            is_new[slots] = True
            self._add(np.flatnonzero(is_new & (self._table < 0)) + self._least)
            positions = self._table[slots]
        return positions

    def _reach(self, least: int, greatest: int) -> bool:
        """Return whether the table has a slot for all words from one to another, after it has grown for them."""
        if len(self._table) and self._least <= least and greatest < self._least + len(self._table):
            return True
        if len(self._words):
            if not len(self._table):
                return False
            least, greatest = min(least, self._least), max(greatest, self._least + len(self._table) - 1)
        if greatest - least >= _MOST_RANGE:
            self._table = np.empty(0, np.int32)
            return False
        self._least, self._table = least, np.full(greatest - least + 1, -1, np.int32)
        self._table[self._words - least] = np.arange(len(self._words), dtype=np.int32)
        return True

    def _seek(self, words: npt.NDArray[Any]) -> Positions:
        sought = _array_of(words.astype(np.int64, copy=False))
        positions = bridge.index_in(sought, _array_of(self._words))
        unknown = positions < 0
        if unknown.any():
            self._add(array_data.data_values(bridge.distinct(sought, unknown)))
            positions = bridge.index_in(sought, _array_of(self._words))
        return positions

    def _add(self, new: npt.NDArray[np.int64]) -> None:
        if len(self._table):
            self._table[new - self._least] = np.arange(len(self._words), len(self._words) + len(new), dtype=np.int32)
        self._words = np.concatenate([self._words, new])
        self._array = None


class _Texts:
    """Strings and binaries."""

    seeks = True

    def __init__(self, type_: t.DataType) -> None:
        self._type = type_
        # As bytes, so that pyarrow takes any.
        self._bytes = t.large_binary if isinstance(type_, t.LargeUtf8 | t.LargeBinary) else t.binary
        self.values = from_pylist.array([], type_)

    def find_or_add(self, array: Array, valid: Mask) -> Positions | None:
        sought = replace(array, type=self._bytes)
        positions = bridge.index_in(sought, replace(self.values, type=self._bytes))
        unknown = positions < 0 if valid is None else (positions < 0) & valid
        if unknown.any():
            new = replace(bridge.distinct(sought, unknown), type=self._type)
            self.values = concat([self.values, new]) if self.values.length else compact(new)
            positions = bridge.index_in(sought, replace(self.values, type=self._bytes))
        return positions


class _Hashed:
    """Values of any type and number."""

    seeks = False

    def __init__(self, type_: t.DataType, values: Array | None = None) -> None:
        self._column = GrowingColumn()
        self._column.encode(from_pylist.array([], type_) if values is None else values)

    @property
    def values(self) -> Array:
        values = self._column.values
        assert values is not None
        return values

    def find_or_add(self, array: Array, valid: Mask) -> Positions | None:  # noqa: ARG002 - as the others
        return array_data.data_values(self._column.encode(array))


def _words_of(array: Array, valid: Mask) -> npt.NDArray[Any] | None:
    """Return the bits of each slot as integers; None if a decimal has more."""
    slots = array_data.data_values(array)
    if slots.dtype.names is None:
        return slots.view(f"i{slots.dtype.itemsize}") if slots.dtype.kind == "f" or slots.dtype == np.uint64 else slots
    low, high = np.ascontiguousarray(slots["w0"]).view(np.int64), slots["w1"]
    differs = high != low >> 63
    return None if (differs if valid is None else differs & valid).any() else low


def _from_words(words: npt.NDArray[np.int64], type_: t.DataType) -> Array:
    dtype = array_data.dtype_of(type_)
    if dtype.names is None:
        slots = words.astype(f"i{dtype.itemsize}")
    else:
        slots = np.empty(len(words), dtype)
        slots["w0"], slots["w1"] = words.view(np.uint64), words >> 63
    return Array(type_, len(words), 0, (None, as_buffer(slots)))


def _array_of(words: npt.NDArray[np.int64]) -> Array:
    return Array(t.int64, len(words), 0, (None, as_buffer(words)))


def _decimals(type_: t.Decimal) -> _Values:
    return _Words(type_) if type_.bit_width <= 128 and type_.precision <= MOST_DIGITS else _Hashed(type_)


_KINDS: Final[Mapping[type[t.DataType], Callable[[Any], _Values]]] = {
    **dict.fromkeys((t.Int, t.FloatingPoint, t.Date, t.Time, t.Timestamp, t.Duration), _Words),
    **dict.fromkeys((t.Utf8, t.Binary, t.LargeUtf8, t.LargeBinary), _Texts),
    t.Decimal: _decimals,
}
"""By type class: the kind of the values; `_Hashed` takes all others."""
