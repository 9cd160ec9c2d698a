"""Measure the bytes, or count the values, of ranges of slots, without slicing or expanding anything.

How it works
------------
A `Measure` maps two arrays of slot numbers, the starts and stops of ranges, to the bytes of each range. It is made once
for a column and called many times. Making it costs nothing for types of fixed width or with value offsets. For types
whose slots point anywhere (views, list-views, dense unions) or repeat values (dictionaries, runs), it sums up the bytes
of all slots once, O(slots).

Two sizes exist. *Stored*: a dictionary-encoded slot is its index. *Decoded*: dictionaries and runs are replaced by their
values, as Spark sees them. A few bytes of a file may be decoded to any number of slots: one run of billions, nulls without
memory, list-views of list-views that share their elements. So each decoded slot can have a price (`slot_nbytes`), and
numbers stop growing at `MOST` instead of overflowing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.arrow import array_data
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array_data import ArrayData
from spark_arrow_ipc.arrow.layout import LAYOUTS, Family, Role, bit_width_of, by_type
from spark_arrow_ipc.arrow.unseen import tolerate_unseen
from spark_arrow_ipc.errors import InvalidBodyError, LimitError

Slots: TypeAlias = npt.NDArray[np.int64]
Measure: TypeAlias = Callable[[Slots, Slots], Slots]
"""From the starts and stops of ranges of slots to the bytes of each range."""

MOST: Final = 1 << 61
"""No measure is larger, so that the sum of two fits 64 bits."""

FREE_SLOTS: Final = 1 << 24
"""Decoded slots that any array may have, however few bytes it takes."""

_SLOTS_A_BYTE: Final = 8  # slots that a byte of an array may be decoded to beyond `FREE_SLOTS`: booleans have as many

_PER_SLOT = (Role.VALIDITY, Role.DATA, Role.OFFSETS, Role.POSITIONS, Role.SIZES, Role.TYPE_IDS, Role.VIEWS)


@dataclass(frozen=True, slots=True)
class _How:
    """The quantities to sum up: the bytes of slots, stored or decoded, and a price for each slot."""

    decoded: bool
    slot_bits: int = 0
    bytes: bool = True


def nbytes(array: ArrayData) -> int:
    """Return the approximate bytes of a compact copy of an array, without dictionaries.

    O(buffers), but O(slots) for views, list-views and dense unions.
    """
    # Bytes that several views share count once for each view, because a copy has them once for each.
    return _whole(array, _How(decoded=False))


@tolerate_unseen
def measure(array: ArrayData, *, decoded: bool, slot_nbytes: int = 0) -> Measure:
    """Return the measure of an array: a callback that gives the bytes of ranges of its slots.

    For types of fixed width or with value offsets, nested ones too, it is exact except for the rounding of bitmaps and
    the last value offset. Bytes or elements that several slots share count once for each slot. No measure exceeds
    `MOST`. If `decoded`, dictionaries and runs count as the values that they stand for; `slot_nbytes` are bytes that
    each slot costs, at every depth, in addition to its value.
    """
    return _measure(array, _How(decoded, 8 * slot_nbytes))


def count_decoded(array: ArrayData) -> int:
    """Return the number of values that an array stands for: its decoded slots, at every depth."""
    return _whole(array, _How(decoded=True, slot_bits=8, bytes=False))


def check_expansion(array: ArrayData, max_slots: int | None = None) -> None:
    """Raise LimitError if an array stands for more values than `max_slots`. O(slots) at most, without decoding.

    By default the limit is the larger of `FREE_SLOTS` and 8 for each byte of the array. InvalidBodyError if offsets or
    indices point outside of the array, which need not have been validated.
    """
    # This refuses only arrays whose values share memory or have none. Flat arrays pass at no cost.
    if not array.type.children and array.dictionary is None and not isinstance(array.type, t.Null):
        return
    most = max(FREE_SLOTS, _SLOTS_A_BYTE * _held_nbytes(array)) if max_slots is None else max_slots
    try:
        count = count_decoded(array)
    except IndexError as error:  # the array need not have been validated
        raise InvalidBodyError(expected="offsets and indices inside what they point into", found=str(error)) from error
    if count > most:
        shown = f"{count:,}" if count < MOST // 2 else "more than can be counted"
        raise LimitError(
            f"an array of {array.length:,} slots stands for {shown} values once runs, dictionaries and shared elements "
            f"are decoded, the budget is {most:,}; leave the column out, or read fewer rows of it"
        )


def buffers_nbytes(array: ArrayData) -> int:
    """Return the bytes of all buffers of an array, used or not, without dictionaries. O(buffers)."""
    nbytes = sum(buffer.nbytes for buffer in array.buffers if buffer is not None)
    if array.validity is None:
        nbytes += array.length >> 3  # joining may make a bitmap, also for slots that take no bytes here
    return nbytes + sum(map(buffers_nbytes, array.children))


def _held_nbytes(array: ArrayData) -> int:
    nbytes = sum(buffer.nbytes for buffer in array.buffers if buffer is not None)
    below = sum(map(_held_nbytes, array.children))
    return nbytes + below + (0 if array.dictionary is None else _held_nbytes(array.dictionary))


def _whole(array: ArrayData, how: _How) -> int:
    return int(_measure(array, how)(np.array([0]), np.array([array.length]))[0])


def _measure(array: ArrayData, how: _How) -> Measure:
    # Never below 0: negative sizes, which no check has refused yet, must not hide others.
    measure = _plain_measure(array, how)
    return lambda start, stop: np.maximum(measure(start, stop), 0)


def _plain_measure(array: ArrayData, how: _How) -> Measure:
    if how.decoded and type(array.type) in _DECODED:
        return _DECODED[type(array.type)](array, how)
    bits = how.slot_bits + (_bits_of_slot(array) if how.bytes else 0)
    beyond = BEYOND_SLOTS[type(array.type)]
    if beyond is None:
        return lambda start, stop: ((stop - start) * bits + 7) // 8
    inner = beyond(array, how)
    return lambda start, stop: np.minimum(((stop - start) * bits + 7) // 8 + inner(start, stop), MOST)


def _bits_of_slot(array: ArrayData) -> int:
    return sum(
        bit_width_of(array.type, row)
        for row, buffer in zip(LAYOUTS[type(array.type)].buffers, array.buffers, strict=False)
        if row.role in _PER_SLOT and buffer is not None
    )


def _nothing(start: Slots, _: Slots) -> Slots:
    return np.zeros_like(start)


def _sum_of(of_slots: npt.NDArray[Any]) -> Measure:
    """Return a measure from the bytes of each slot."""
    # Each slot is bounded, so that the sum of all is at most `MOST`.
    most = MOST // max(len(of_slots), 1)
    if len(of_slots) and of_slots.max() > most:
        of_slots = np.minimum(of_slots, most)
    total = np.zeros(len(of_slots) + 1, np.int64)
    np.cumsum(of_slots, out=total[1:])
    return lambda start, stop: total[stop] - total[start]


def _bytes(array: ArrayData, how: _How) -> Measure:
    if not array.length or not how.bytes:
        return _nothing
    offsets = array_data.value_offsets(array)
    return lambda start, stop: offsets[stop].astype(np.int64) - offsets[start]


def _list(array: ArrayData, how: _How) -> Measure:
    if not array.length:
        return _nothing
    offsets = array_data.value_offsets(array)
    child = _measure(array.children[0], how)
    return lambda start, stop: child(offsets[start].astype(np.int64), offsets[stop].astype(np.int64))


def _struct(array: ArrayData, how: _How) -> Measure:
    children = [_measure(child, how) for child in array.children]
    offset = array.offset

    def of_all(start: Slots, stop: Slots) -> Slots:
        total = np.zeros_like(start)
        for child in children:
            total = np.minimum(total + child(start + offset, stop + offset), MOST)
        return total

    return of_all


def _fixed_size_list(array: ArrayData, how: _How) -> Measure:
    assert isinstance(array.type, t.FixedSizeList)
    size, offset = array.type.list_size, array.offset
    child = _measure(array.children[0], how)
    return lambda start, stop: child((start + offset) * size, (stop + offset) * size)


def _views(array: ArrayData, how: _How) -> Measure:
    if not how.bytes:
        return _nothing
    size = array_data.views(array)["size"]
    mask = array_data.validity_mask(array)
    # Inline values take no bytes outside the view, which `_bits_of_slot` counts.
    long = size > array_data.VIEW_INLINE_NBYTES
    return _sum_of(np.where(long if mask is None else long & mask, size, 0))


def _list_view(array: ArrayData, how: _How) -> Measure:
    start = array_data.positions(array).astype(np.int64)
    child = _measure(array.children[0], how)
    return _sum_of(child(start, start + array_data.sizes(array)))


def _dense_union(array: ArrayData, how: _How) -> Measure:
    assert isinstance(array.type, t.DenseUnion)
    type_ids = array_data.type_ids(array)
    positions = array_data.positions(array).astype(np.int64)
    of_slots = np.zeros(array.length, np.int64)
    for type_id, child in zip(array.type.type_ids, array.children, strict=True):
        members = np.flatnonzero(type_ids == type_id)
        of_slots[members] = _measure(child, how)(positions[members], positions[members] + 1)
    return _sum_of(of_slots)


def _measure_stored_runs(array: ArrayData, how: _How) -> Measure:
    run_ends, values = array.children
    ends, offset = array_data.data_values(run_ends).astype(np.int64), array.offset
    of_ends, of_values = _measure(run_ends, how), _measure(values, how)

    def of_runs(start: Slots, stop: Slots) -> Slots:
        run_start = np.searchsorted(ends, start + offset, "right")
        run_stop = np.where(stop > start, np.searchsorted(ends, stop + offset - 1, "right") + 1, run_start)
        return of_ends(run_start, run_stop) + of_values(run_start, run_stop)

    return of_runs


def _measure_decoded_runs(array: ArrayData, how: _How) -> Measure:
    run_ends, values = array.children
    offset, last = array.offset, array.offset + array.length
    # The last run may end anywhere after the array.
    ends = np.minimum(array_data.data_values(run_ends), last).astype(np.int64)
    if not len(ends):
        return _nothing
    runs = np.arange(len(ends))
    of_runs = np.minimum(_measure(values, how)(runs, runs + 1), MOST // max(last, 1))
    starts = np.concatenate([[0], ends[:-1]])
    before = np.concatenate([[0], np.cumsum(of_runs * (ends - starts))])

    def until(slots: Slots) -> Slots:
        """Return the bytes of all slots before each of these."""
        # By run: slots may be many more than runs.
        run = np.minimum(np.searchsorted(ends, slots, "right"), len(ends) - 1)
        total: Slots = before[run] + (slots - starts[run]) * of_runs[run]
        return total

    return lambda start, stop: until(stop + offset) - until(start + offset)


def _measure_decoded_dictionary(array: ArrayData, how: _How) -> Measure:
    assert array.dictionary is not None
    count = array.dictionary.length
    if not count:
        return lambda start, stop: (stop - start) * how.slot_bits // 8
    of_values = _measure(array.dictionary, how)
    indices = array_data.data_values(array)
    mask = array_data.validity_mask(array)
    if mask is not None:
        indices = np.where(mask, indices, 0)
    if count > len(indices):
        # A dictionary may have billions of values without memory: only values in use are measured.
        used = indices.astype(np.int64)
        of_slots = of_values(used, used + 1)
    else:
        values = np.arange(count)
        of_slots = of_values(values, values + 1)[indices]
    # A null has no value, but takes memory in a type of fixed width: as much as the smallest value.
    return _sum_of(of_slots if mask is None else np.where(mask, of_slots, of_slots.min(initial=MOST)))


BEYOND_SLOTS: Mapping[type[t.DataType], Callable[[ArrayData, _How], Measure] | None] = by_type(
    {
        Family.NULL: None,
        Family.BITS: None,
        Family.FIXED_WIDTH: None,
        Family.BINARY: _bytes,
        Family.VIEW: _views,
        Family.LIST: _list,
        Family.LIST_VIEW: _list_view,
        Family.FIXED_SIZE_LIST: _fixed_size_list,
        Family.STRUCT: _struct,
        Family.SPARSE_UNION: _struct,
        Family.DENSE_UNION: _dense_union,
        Family.RUN_END_ENCODED: _measure_stored_runs,
        Family.DICTIONARY: None,
    }
)
"""For each layout family the bytes outside the buffers that have a fixed number of bits for a slot."""

# Families whose decoded slots take the bytes of their value
_DECODED: Mapping[type[t.DataType], Callable[[ArrayData, _How], Measure]] = by_type(
    {Family.RUN_END_ENCODED: _measure_decoded_runs, Family.DICTIONARY: _measure_decoded_dictionary}
)
