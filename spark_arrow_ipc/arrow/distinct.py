"""Find the slots of an array that are equal, by their bits, for arrays of every type.

How it works
------------
Each slot gets a hash of 64 bits from the words of its values, in numpy; slots with equal hashes are then compared by
`arrow.equality`. So a collision costs time, and never changes the result. The keys of the hash are random in each process:
strings are hashed by sums of products of words and keys (NH, Black et al., UMAC, 1999), for which two strings collide once
in four billion draws, even if an attacker chose them. Floats are compared by their bits.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from spark_arrow_ipc.arrow import array_data
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array_data import ArrayData
from spark_arrow_ipc.arrow.equality import (
    CHUNK_SLOTS,
    ELEMENTS,
    FEW_WORDS,
    LOCATED,
    WORD_NBYTES,
    Bools,
    Slots,
    Words,
    as_bits,
    differ,
    member_slots,
    null_slots,
    ranges_in_pieces,
    words_at,
)
from spark_arrow_ipc.arrow.layout import BIT_WIDTHS, Family, by_type
from spark_arrow_ipc.arrow.measure import check_expansion
from spark_arrow_ipc.arrow.unseen import tolerate_unseen

_SEED: Final = np.uint64(secrets.randbits(64))
_LOW: Final = np.uint64(2**32 - 1)
_HALF: Final = np.uint64(32)


@tolerate_unseen
def hashes(array: ArrayData) -> Words:
    """Return a hash of each slot: equal for equal slots, and almost never for others. O(bytes), in numpy.

    LimitError if the slots stand for far more values than they take bytes (`check_expansion`).
    """
    check_expansion(array)
    array = as_bits(array)
    # In chunks, because hashes of elements take more memory than the slots of a list.
    chunks = ((start, min(start + CHUNK_SLOTS, array.length)) for start in range(0, array.length, CHUNK_SLOTS))
    return np.concatenate([np.zeros(0, np.uint64), *(_hashes(array, np.arange(*chunk)) for chunk in chunks)])


def first_equal(array: ArrayData) -> Slots:
    """Return for each slot the first one that is equal to it; LimitError as of `hashes`. O(bytes), in numpy."""
    bits = as_bits(array)
    firsts, _ = HashTable().find_or_add(hashes(array), 0, lambda i, j: differ(bits, i, bits, j))
    return firsts


class HashTable:
    """Distinct slots by their hashes, with open addressing; all slots of one call are probed together."""

    def __init__(self) -> None:
        self._ids = np.full(1 << 6, -1)
        self._hashes = np.zeros(1 << 6, np.uint64)
        self._used = 0

    def find_or_add(
        self, hashes_: Words, base: int, unequal: Callable[[Slots, Slots], Bools]
    ) -> tuple[Slots, Callable[[Slots], None]]:
        """Return an id for each slot, and a function that changes the ids of the new slots.

        The id is the one of the equal slot in the table, or `base` plus the number of the first equal slot, which is
        added. `unequal` compares slots by their numbers with ids.
        """
        self._reserve(len(hashes_))
        places = (hashes_ & np.uint64(len(self._ids) - 1)).view(np.int64)
        equal = np.empty(len(hashes_), np.int64)
        is_added = np.zeros(len(hashes_), np.bool_)
        pending = np.arange(len(hashes_))
        while len(pending):
            self._probe(hashes_, base, pending, places)
            equal[pending] = self._ids[places[pending]]
            is_new = equal[pending] == base + pending
            is_added[pending[is_new]] = True
            # Slots of one hash that differ go on behind their places.
            doubtful = pending[~is_new]
            pending = doubtful[unequal(doubtful, equal[doubtful])]
            places[pending] = places[pending] + 1 & len(self._ids) - 1
        added = places[is_added]
        self._used += len(added)

        def rename(ids: Slots) -> None:
            self._ids[added] = ids

        return equal, rename

    def _probe(self, hashes_: Words, base: int, slots: Slots, places: Slots) -> None:
        """Move the places of slots to the next place with the same hash, or to a free one, and occupy it."""
        while len(slots):
            candidate = places[slots]
            free = np.flatnonzero(self._ids[candidate] < 0)[::-1]
            # Reversed above: of several slots for one place the first one is written last, and stays.
            self._ids[candidate[free]] = base + slots[free]
            self._hashes[candidate[free]] = hashes_[slots[free]]
            slots = slots[self._hashes[candidate] != hashes_[slots]]
            places[slots] = places[slots] + 1 & len(self._ids) - 1

    def _reserve(self, more: int) -> None:
        size = len(self._ids)
        # At most half full, so that probes are short; a power of two, so that a mask makes a place of a hash.
        while size < 2 * (self._used + more):
            size *= 2
        if size == len(self._ids):
            return
        held = np.flatnonzero(self._ids >= 0)
        ids, hashes_ = self._ids[held], self._hashes[held]
        self._ids, self._hashes, self._used = np.full(size, -1), np.zeros(size, np.uint64), 0
        # The slots in the table are distinct: no pair has to be compared.
        _, rename = self.find_or_add(hashes_, 0, lambda i, _: np.ones(len(i), np.bool_))
        rename(ids)


def _mix(words: Words) -> Words:
    """Return numbers that depend on all bits of others, one to one (the end of SplitMix64)."""
    words = (words ^ words >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ words >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return words ^ words >> np.uint64(31)


def _keys(numbers: Slots) -> Words:
    """Return the keys of this process, by the numbers of words or elements in a slot."""
    return _mix(numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + _SEED)


_FEW_KEYS: Final = _keys(np.arange(1024))
_NULL_HASH, _SIZE_KEY = _FEW_KEYS[0], _FEW_KEYS[1] | np.uint64(1)  # odd: a product with it loses no bit of a size


def _keys_of(numbers: Slots) -> Words:
    return _FEW_KEYS[numbers] if int(numbers.max(initial=0)) < len(_FEW_KEYS) else _keys(numbers)


def _sum_ranges(values: Words, sizes: Slots) -> Words:
    """Return the sum of each run of values, modulo 2**64."""
    # Differences of a running sum: both wrap around at 2**64, so that the difference is right.
    before = np.zeros(len(values) + 1, np.uint64)
    np.cumsum(values, out=before[1:])
    ends = np.cumsum(sizes)
    sums: Words = before[ends] - before[ends - sizes]
    return sums


def _hashes(array: ArrayData, slots: Slots) -> Words:
    null = null_slots(array, slots)
    of_values = HASHES[type(array.type)]
    if not null.any():
        return of_values(array, slots)
    words = np.full(len(slots), _NULL_HASH)  # nulls are equal, whatever the buffers hold under them
    valid = np.flatnonzero(~null)
    if len(valid):
        words[valid] = of_values(array, slots[valid])
    return words


def _hash_fixed_width(array: ArrayData, slots: Slots) -> Words:
    width = BIT_WIDTHS[type(array.type)](array.type) // 8
    values = array_data.data_values(array)[slots]
    if width in (1, 2, 4, 8) and values.ndim == 1:  # one word: no need to sum products
        return _mix(np.ascontiguousarray(values).view(f"u{width}").astype(np.uint64) ^ _SEED)
    region = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    return _hash_ranges(region, np.arange(len(slots)) * width, np.full(len(slots), width))


def _hash_texts(array: ArrayData, slots: Slots) -> Words:
    return _hash_ranges(*LOCATED[type(array.type)](array, slots))


def _hash_ranges(region: Any, starts: Slots, sizes: Slots) -> Words:
    """Return the hashes of ranges of bytes."""
    # The first words of all strings together, word by word; only long strings are then expanded to their words.
    sums = sizes.astype(np.uint64) * _SIZE_KEY
    rest = np.arange(len(sizes))
    for word in range(FEW_WORDS):
        before = word * WORD_NBYTES
        if (sizes[rest] <= before).any():
            rest = rest[sizes[rest] > before]
        if not len(rest):
            return _mix(sums)
        sums[rest] += _product(words_at(region, starts[rest] + before, sizes[rest] - before), _FEW_KEYS[word])
    words = np.maximum((sizes[rest] + WORD_NBYTES - 1 >> 3) - FEW_WORDS, 0)
    for start, stop, lengths, of_range, element in ranges_in_pieces(words):
        done, of_slot = element + FEW_WORDS << 3, rest[of_range]
        word_of_each = words_at(region, starts[of_slot] + done, sizes[of_slot] - done)
        sums[rest[start:stop]] += _sum_ranges(_product(word_of_each, _keys_of(element + FEW_WORDS)), lengths)
    return _mix(sums)


def _product(words: Words, keys: Words | np.uint64) -> Words:
    """Return the product of the halves of each word, each half plus its key."""
    # In place: for strings these temporaries are most of the memory traffic.
    low = words + keys
    low &= _LOW
    words >>= _HALF
    words += keys >> _HALF
    words &= _LOW
    words *= low
    return words


def _hash_lists(array: ArrayData, slots: Slots) -> Words:
    starts, sizes = ELEMENTS[type(array.type)](array, slots)
    words = sizes.astype(np.uint64) * _SIZE_KEY
    for start, stop, lengths, of_range, element in ranges_in_pieces(sizes):
        of_elements = _hashes(array.children[0], starts[of_range] + element)
        # Odd, so that no bit of an element is lost.
        words[start:stop] += _sum_ranges(of_elements * (_keys_of(element) | np.uint64(1)), lengths)
    return _mix(words)


def _hash_structs(array: ArrayData, slots: Slots) -> Words:
    words = np.full(len(slots), _SIZE_KEY)
    # Mixed between the children, so that structs with swapped values differ.
    for child in array.children:
        words = _mix(words) + _hashes(child, array.offset + slots)
    return _mix(words)


def _hash_unions(array: ArrayData, slots: Slots) -> Words:
    assert isinstance(array.type, t.SparseUnion | t.DenseUnion)
    ids, where = array_data.type_ids(array)[slots], member_slots(array, slots)
    words = np.zeros(len(slots), np.uint64)
    for type_id, child in zip(array.type.type_ids, array.children, strict=True):
        members = np.flatnonzero(ids == type_id)
        if len(members):
            words[members] = _mix(_hashes(child, where[members]) + _FEW_KEYS[type_id])
    return words


def _hash_used(values: ArrayData, slots: Slots) -> Words:
    """Return the hashes of slots that repeat, computed once for each distinct slot."""
    used, inverse = np.unique(slots, return_inverse=True)
    words: Words = _hashes(values, used)[inverse]
    return words


def _hash_indices(array: ArrayData, slots: Slots) -> Words:
    assert array.dictionary is not None
    return _hash_used(array.dictionary, array_data.data_values(array)[slots].astype(np.int64))


def _hash_runs(array: ArrayData, slots: Slots) -> Words:
    run_ends, values = array.children
    runs = np.searchsorted(array_data.data_values(run_ends), slots + array.offset, "right")
    return _hash_used(values, runs.astype(np.int64))


HASHES: Mapping[type[t.DataType], Callable[[ArrayData, Slots], Words]] = by_type(
    {
        Family.NULL: lambda _, slots: np.full(len(slots), _NULL_HASH),
        Family.BITS: lambda array, slots: _FEW_KEYS[2:4][array_data.data_values(array)[slots].view(np.uint8)],
        Family.FIXED_WIDTH: _hash_fixed_width,
        Family.BINARY: _hash_texts,
        Family.VIEW: _hash_texts,
        Family.LIST: _hash_lists,
        Family.LIST_VIEW: _hash_lists,
        Family.FIXED_SIZE_LIST: _hash_lists,
        Family.STRUCT: _hash_structs,
        Family.SPARSE_UNION: _hash_unions,
        Family.DENSE_UNION: _hash_unions,
        Family.RUN_END_ENCODED: _hash_runs,
        Family.DICTIONARY: _hash_indices,
    }
)
"""Hashes slots that are not null, by layout family; a test proves that none is missing."""
