"""Measure the bytes of ranges of slots, without slicing.

Strategy
--------
A `Measure` maps two arrays of slot numbers, the starts and stops of ranges, to the bytes of each range. One is made
for a column and called many times. For types of fixed width or with value offsets making it costs nothing. For types
whose slots point anywhere (views, list-views, dense unions) or repeat values (dictionaries, runs) the bytes of all
slots are summed up once, O(slots).

There are two sizes. *Stored*: as the arrays are, where a dictionary-encoded slot is its index. *Decoded*: with
dictionaries and runs replaced by their values, as Spark sees them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.arrow import numpy_views
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.layout import LAYOUTS, Family, Role, bit_width_of, by_type

if TYPE_CHECKING:
    from spark_arrow_ipc.arrow.array import Array

__all__ = ["Measure", "measure", "nbytes"]

Slots: TypeAlias = npt.NDArray[np.int64]
Measure: TypeAlias = Callable[[Slots, Slots], Slots]
"""From the starts and stops of ranges of slots to the bytes of each range."""

_PER_SLOT = (Role.VALIDITY, Role.DATA, Role.OFFSETS, Role.POSITIONS, Role.SIZES, Role.TYPE_IDS, Role.VIEWS)


def nbytes(array: Array) -> int:
    """Return the approximate bytes of a compact copy of an array, without dictionaries.

    O(buffers), but O(slots) for views, list-views and dense unions. Bytes that views share count for each.
    """
    return int(measure(array, decoded=False)(np.array([0]), np.array([array.length]))[0])


def measure(array: Array, *, decoded: bool) -> Measure:
    """Return the measure of an array: a callback that gives the bytes of ranges of its slots.

    For types of fixed width, or with value offsets, and those nested of them it is exact, except for the rounding of
    bitmaps and the last value offset. Bytes or elements that slots share count for each.
    """
    if decoded and type(array.type) in _DECODED:
        return _DECODED[type(array.type)](array)
    bits = _bits_of_slot(array)
    beyond = BEYOND_SLOTS[type(array.type)]
    if beyond is None:
        return lambda start, stop: ((stop - start) * bits + 7) // 8
    inner = beyond(array, decoded)
    return lambda start, stop: ((stop - start) * bits + 7) // 8 + inner(start, stop)


def _bits_of_slot(array: Array) -> int:
    return sum(
        bit_width_of(array.type, row)
        for row, buffer in zip(LAYOUTS[type(array.type)].buffers, array.buffers, strict=False)
        if row.role in _PER_SLOT and buffer is not None
    )


def _sum_of(of_slots: npt.NDArray[Any]) -> Measure:
    """Return a measure from the bytes of each slot."""
    total = np.zeros(len(of_slots) + 1, np.int64)
    np.cumsum(of_slots, out=total[1:])
    return lambda start, stop: total[stop] - total[start]


def _bytes(array: Array, _: bool) -> Measure:
    if not array.length:
        return lambda start, _: np.zeros_like(start)
    offsets = numpy_views.value_offsets(array)
    return lambda start, stop: offsets[stop].astype(np.int64) - offsets[start]


def _list(array: Array, decoded: bool) -> Measure:
    if not array.length:
        return lambda start, _: np.zeros_like(start)
    offsets = numpy_views.value_offsets(array)
    child = measure(array.children[0], decoded=decoded)
    return lambda start, stop: child(offsets[start].astype(np.int64), offsets[stop].astype(np.int64))


def _struct(array: Array, decoded: bool) -> Measure:
    children = [measure(child, decoded=decoded) for child in array.children]
    offset = array.offset

    def of_all(start: Slots, stop: Slots) -> Slots:
        total = np.zeros_like(start)
        for child in children:
            total += child(start + offset, stop + offset)
        return total

    return of_all


def _fixed_size_list(array: Array, decoded: bool) -> Measure:
    assert isinstance(array.type, t.FixedSizeList)
    size, offset = array.type.list_size, array.offset
    child = measure(array.children[0], decoded=decoded)
    return lambda start, stop: child((start + offset) * size, (stop + offset) * size)


def _views(array: Array, _: bool) -> Measure:
    size = numpy_views.views(array)["size"]
    mask = numpy_views.validity_mask(array)
    long = size > numpy_views.VIEW_INLINE_NBYTES
    return _sum_of(np.where(long if mask is None else long & mask, size, 0))


def _list_view(array: Array, decoded: bool) -> Measure:
    start = numpy_views.positions(array).astype(np.int64)
    child = measure(array.children[0], decoded=decoded)
    return _sum_of(child(start, start + numpy_views.sizes(array)))


def _dense_union(array: Array, decoded: bool) -> Measure:
    assert isinstance(array.type, t.DenseUnion)
    type_ids = numpy_views.type_ids(array)
    positions = numpy_views.positions(array).astype(np.int64)
    of_slots = np.zeros(array.length, np.int64)
    for type_id, child in zip(array.type.type_ids, array.children, strict=True):
        own = np.flatnonzero(type_ids == type_id)
        of_slots[own] = measure(child, decoded=decoded)(positions[own], positions[own] + 1)
    return _sum_of(of_slots)


def _stored_runs(array: Array, decoded: bool) -> Measure:
    run_ends, values = array.children
    ends, offset = numpy_views.data_values(run_ends).astype(np.int64), array.offset
    of_ends, of_values = measure(run_ends, decoded=decoded), measure(values, decoded=decoded)

    def of_runs(start: Slots, stop: Slots) -> Slots:
        run_start = np.searchsorted(ends, start + offset, "right")
        run_stop = np.where(stop > start, np.searchsorted(ends, stop + offset - 1, "right") + 1, run_start)
        return of_ends(run_start, run_stop) + of_values(run_start, run_stop)

    return of_runs


def _decoded_runs(array: Array) -> Measure:
    run_ends, values = array.children
    ends = numpy_views.data_values(run_ends).astype(np.int64)
    if not len(ends):
        return lambda start, _: np.zeros_like(start)
    runs = np.arange(len(ends))
    of_runs = measure(values, decoded=True)(runs, runs + 1)
    starts = np.concatenate([[0], ends[:-1]])
    before = np.concatenate([[0], np.cumsum(of_runs * (ends - starts))])
    offset = array.offset

    def until(slots: Slots) -> Slots:
        """Return the bytes of all slots before each of these. By run: slots may be many more than runs."""
        run = np.minimum(np.searchsorted(ends, slots, "right"), len(ends) - 1)
        total: Slots = before[run] + (slots - starts[run]) * of_runs[run]
        return total

    return lambda start, stop: until(stop + offset) - until(start + offset)


def _decoded_dictionary(array: Array) -> Measure:
    assert array.dictionary is not None
    if not array.dictionary.length:
        return lambda start, _: np.zeros_like(start)
    values = np.arange(array.dictionary.length)
    of_values = measure(array.dictionary, decoded=True)(values, values + 1)
    indices = numpy_views.data_values(array)
    mask = numpy_views.validity_mask(array)
    return _sum_of(of_values[indices if mask is None else np.where(mask, indices, 0)])


BEYOND_SLOTS: Mapping[type[t.DataType], Callable[[Array, bool], Measure] | None] = by_type(
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
        Family.RUN_END_ENCODED: _stored_runs,
        Family.DICTIONARY: None,
    }
)
"""For each layout family the bytes beyond those buffers that have a fixed number of bits for a slot."""

_DECODED: Mapping[type[t.DataType], Callable[[Array], Measure]] = by_type(
    {Family.RUN_END_ENCODED: _decoded_runs, Family.DICTIONARY: _decoded_dictionary}
)
"""Families whose decoded slots take the bytes of their value."""
