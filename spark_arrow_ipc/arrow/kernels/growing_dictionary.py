"""A dictionary that grows by the values of others.

How it works
------------
Most dictionaries that arrive continue the values so far, or begin them: they are compared slot by slot, from their start,
and no value is hashed. Only after the first that differs do all values enter a hash table, which then finds the values of
each dictionary. Values are stored in parts, joined so that each part is longer than the one after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.arrow import array_data
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.array_data import as_buffer
from spark_arrow_ipc.arrow.distinct import HashTable, hashes
from spark_arrow_ipc.arrow.equality import CHUNK_SLOTS, Bools, Slots, as_bits, differs
from spark_arrow_ipc.arrow.kernels.compact import compact
from spark_arrow_ipc.arrow.kernels.concat import concat
from spark_arrow_ipc.arrow.kernels.take import take
from spark_arrow_ipc.arrow.layout import LAYOUTS, Family
from spark_arrow_ipc.arrow.measure import check_expansion, nbytes
from spark_arrow_ipc.arrow.unseen import tolerate_unseen

Positions: TypeAlias = npt.NDArray[np.int64] | None
"""The position in a growing dictionary of each value of another; None if they are the same."""

_FIRST_CHUNK: Final = 64


class GrowingDictionary:
    """Distinct values of one type, in the order in which they came.

    Values are equal if their bits are equal, at every depth. The first dictionary, and any continuation of the values so
    far, is not copied. `join` concatenates parts of the values.
    """

    def __init__(self, values: Array, join: Callable[[Sequence[Array]], Array] = concat) -> None:
        check_expansion(values)
        self._join = join
        self._parts = [values]
        self._table = HashTable()
        self._in_table = 0  # the number of values that are in the table, which is made when it is first needed
        self._last: tuple[Array, Positions] = (values, None)
        self.length = values.length

    @property
    def values(self) -> Array:
        """All values so far."""
        if len(self._parts) > 1:
            self._parts = [self._join(self._parts)]
        return self._parts[0]

    def since(self, length: int) -> Array:
        """Return the values from a number on, at least one."""
        start, later = self.length, []
        for part in reversed(self._parts):
            start -= part.length
            later.append(part.slice(max(length - start, 0)))
            if start <= length:
                break
        return later[0] if len(later) == 1 else self._join(later[::-1])

    def nbytes_since(self, length: int) -> int:
        """Return the approximate bytes of the values from a number on."""
        return nbytes(self.since(length))

    def add(self, other: Array, most: int, *, keeps_order: bool = False) -> Positions:
        """Add the values of another dictionary; return the position of each. O(bytes), in numpy.

        With `keeps_order` values are added only after all values so far, in their order. ValueError if the values would be
        more than `most`, or their order would be lost: none is added. LimitError if the slots stand for far more values
        than they take bytes (`check_expansion`).
        """
        # Batches share a dictionary object: the positions of the last one are remembered.
        if other is not self._last[0]:
            self._last = (other, self._add(other, most, keeps_order=keeps_order))
        return self._last[1]

    def _add(self, other: Array, most: int, *, keeps_order: bool) -> Positions:
        check_expansion(other)
        if self._begins_alike(other):
            if other.length > self.length:
                self._check(other.length, most)
                self._append(other.slice(self.length))
            return None
        start = 0
        for part in self._parts:
            of_part = part.slice(max(self._in_table - start, 0)) if start + part.length > self._in_table else None
            if of_part is not None:
                self._find_or_add(of_part, self._in_table)
                self._in_table = start + part.length
            start += part.length
        # New values get ids from `length` on, with gaps where values repeat: they are renumbered without gaps.
        ids, rename = self._find_or_add(other, self.length)
        new = np.flatnonzero(ids == self.length + np.arange(other.length))
        numbers = self.length + np.arange(len(new))
        is_new = ids >= self.length
        renumbered = np.empty(other.length, np.int64)
        renumbered[new] = numbers
        ids[is_new] = renumbered[ids[is_new] - self.length]
        try:
            self._check(self.length + len(new), most)
            if keeps_order and (len(new) or (ids[1:] < ids[:-1]).any()):
                raise ValueError(
                    "the batches bring ordered dictionaries that do not continue one another, and in one dictionary their "
                    'order would be lost; write a stream with dictionaries="unify", which may have one for each batch, '
                    "or decode the field"
                )
        except ValueError:
            # The table has ids of values that are not added: it is filled again when it is needed.
            self._table, self._in_table = HashTable(), 0
            raise
        rename(numbers)
        if len(new):
            is_run = int(new[-1] - new[0]) == len(new) - 1  # neighbours are a slice, without a copy
            self._append(other.slice(int(new[0]), len(new)) if is_run else take(other, new))
            self._in_table = self.length
        return ids

    def _find_or_add(self, other: Array, base: int) -> tuple[Slots, Callable[[Slots], None]]:
        return self._table.find_or_add(hashes(other), base, lambda i, ids: self._unequal(other, base, i, ids))

    def _unequal(self, other: Array, base: int, slots: Slots, ids: Slots) -> Bools:
        """Return True for each slot that differs from the value or slot with its id."""
        differing = np.zeros(len(slots), np.bool_)
        ours, start = as_bits(other), 0
        for part in (*self._parts, other):
            first = base if part is other else start
            stop = first + part.length if part is other else min(start + part.length, base)
            members = np.flatnonzero((ids >= first) & (ids < stop))
            for at in range(0, len(members), CHUNK_SLOTS):
                pairs = members[at : at + CHUNK_SLOTS]
                differing[pairs] = differs(ours, slots[pairs], as_bits(part), ids[pairs] - first)
            start += part.length
        return differing

    def _begins_alike(self, other: Array) -> bool:
        """Return whether the values so far begin with `other`, or `other` begins with them."""
        shared, ours, start = min(other.length, self.length), as_bits(other), 0
        for part in self._parts:
            theirs, stop = as_bits(part), min(start + part.length, shared)
            if start >= stop:
                break
            if _same_memory(other.slice(start, stop - start), part.slice(0, stop - start)):
                start = stop
                continue
            # A few slots first: dictionaries that differ most often differ at once.
            at, size = start, _FIRST_CHUNK
            while at < stop:
                slots = np.arange(at, min(at + size, stop))
                if differs(ours, slots, theirs, slots - start).any():
                    return False
                at, size = at + size, min(2 * size, CHUNK_SLOTS)
            start += part.length
        return True

    def _check(self, length: int, most: int) -> None:
        if length > most:
            raise ValueError(
                f"the batches bring {length:,} different values, and its indices count {most:,}; "
                "give the field a wider index type"
            )

    def _append(self, values: Array) -> None:
        self._parts.append(values)
        self.length += values.length
        # Each part stays longer than the next: ten thousand small ones cost joins of small arrays, not of all values.
        while len(self._parts) > 1 and self._parts[-2].length <= self._parts[-1].length:
            self._parts[-2:] = [self._join(self._parts[-2:])]


def _same_memory(ours: Array, theirs: Array) -> bool:
    """Return True if values without nulls, of a fixed width or with value offsets, have the same bytes."""
    # A growing dictionary arrives again with each batch: its bytes are compared 20 times as fast as its slots.
    if ours.validity is not None or theirs.validity is not None:
        return False
    family = LAYOUTS[type(ours.type)].family
    if family is Family.FIXED_WIDTH:
        return np.array_equal(_bytes_of_numbers(ours), _bytes_of_numbers(theirs))
    if family is not Family.BINARY or not ours.length:
        return False
    first, second = array_data.value_offsets(ours), array_data.value_offsets(theirs)
    return np.array_equal(first - first[0], second - second[0]) and np.array_equal(
        array_data.value_bytes(ours)[first[0] : first[-1]], array_data.value_bytes(theirs)[second[0] : second[-1]]
    )


def _bytes_of_numbers(array: Array) -> npt.NDArray[np.uint8]:
    return np.ascontiguousarray(array_data.data_values(array)).view(np.uint8)


def most_values(type_: t.Dictionary) -> int:
    """Return the number of values that the indices of a type can count."""
    return 1 << type_.index.bit_width - type_.index.signed


@tolerate_unseen
def remap_indices(array: Array, positions: Slots, type_: t.Dictionary | None = None) -> Array:
    """Replace each index of a dictionary-encoded array by its entry in `positions`; the dictionary stays.

    IndexError if an index is outside of the dictionary.
    """
    array = compact(array)
    indices = array_data.data_values(array)
    valid = array_data.validity_mask(array)
    if valid is not None:
        indices = np.where(valid, indices, 0)
    if indices.min(initial=0) < 0:  # numpy would count from the end
        raise IndexError(f"a dictionary index of {indices.min()}")
    moved = positions[indices] if len(positions) else np.zeros(array.length, np.int64)
    data = as_buffer(moved.astype(array_data.dtype_of(type_ or array.type)))
    return replace(array, type=type_ or array.type, buffers=(array.buffers[0], data))
