"""Take slots of an array by position, in any order.

How it works
------------
`take` has one function for each layout family. Slots of fixed width are one gather. With value offsets the slots are
expanded to the elements or bytes that they cover, a megabyte of positions at a time. For views and list-views only the
views, or positions and sizes, are gathered, and dictionaries stay complete (`with_used_values` cuts them).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.arrow import array_data
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.array_data import Buffer, as_buffer
from spark_arrow_ipc.arrow.layout import Family, by_type
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.unseen import tolerate_unseen
from spark_arrow_ipc.errors import InvalidBodyError

NDArray: TypeAlias = npt.NDArray[Any]
Slots: TypeAlias = npt.NDArray[np.int64]

# Bytes of values that are gathered at once: each needs eight bytes of positions, which then fit a processor's cache
_PIECE_NBYTES = 1 << 17


@tolerate_unseen
def take(array: Array, slots: Slots) -> Array:
    """Return some slots of an array, in their order and as often as they occur, as a compact array. O(bytes).

    ValueError if the bytes or elements are too many for the value offsets of the type.
    """
    return TAKE[type(array.type)](array, slots)


def take_rows(batch: RecordBatch, rows: Slots) -> RecordBatch:
    """Return some rows of a batch, in their order, with its schema and custom metadata; ValueError as of `take`."""
    columns = tuple(take(column, rows) for column in batch.columns)
    return RecordBatch(batch.schema, columns, len(rows), batch.custom_metadata)


def positions_of_runs(starts: Slots, lengths: Slots) -> Slots:
    """Return ``start, start + 1, ...`` of each run, one run after another."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    # One `arange` plus the shift of each run, and not a call for each run
    positions = np.repeat(starts - (ends - lengths), lengths)
    positions += np.arange(total)
    return positions


@tolerate_unseen
def with_used_values(array: Array) -> Array:
    """Return an array whose dictionaries, nested ones too, have only values in use, in their old order."""
    if array.children:
        children = tuple(map(with_used_values, array.children))
        array = replace(array, children=children)
    if array.dictionary is None:
        return array
    assert isinstance(array.type, t.Dictionary)
    indices = array_data.data_values(array)
    mask = array_data.validity_mask(array)
    used, inverse = np.unique(indices if mask is None else indices[mask], return_inverse=True)
    if len(used) == array.dictionary.length:
        return array
    # Zeros under nulls
    moved = np.zeros(array.length, indices.dtype)
    moved[slice(None) if mask is None else mask] = inverse
    return replace(
        array,
        offset=0,
        null_count=array.count_nulls(),
        buffers=(None if mask is None else array_data.pack_bits(mask), as_buffer(moved)),
        dictionary=take(array.dictionary, used.astype(np.int64)),
    )


def _validity(array: Array, slots: Slots) -> tuple[Buffer | None, int]:
    mask = array_data.validity_mask(array)
    if mask is None:
        return None, 0
    bits = mask[slots]
    nulls = len(slots) - int(np.count_nonzero(bits))
    return (array_data.pack_bits(bits) if nulls else None), nulls  # the format allows to leave it out


def _primitive(array: Array, slots: Slots) -> Array:
    validity, nulls = _validity(array, slots)
    data = as_buffer(array_data.data_values(array)[slots])
    return Array(array.type, len(slots), nulls, (validity, data), (), array.dictionary)


def _bits(array: Array, slots: Slots) -> Array:
    validity, nulls = _validity(array, slots)
    return Array(array.type, len(slots), nulls, (validity, array_data.pack_bits(array_data.data_values(array)[slots])))


def _runs(array: Array, slots: Slots, end: int) -> tuple[Slots, Slots, Buffer]:
    """Return the start and number of the elements of each slot, of `end` elements, and the new value offsets."""
    offsets = array_data.value_offsets(array)
    starts, stops = offsets[slots].astype(np.int64), offsets[slots + 1].astype(np.int64)
    lengths = stops - starts
    if min(starts.min(initial=0), lengths.min(initial=0)) < 0 or stops.max(initial=0) > end:
        # Their differences would become sizes of memory.
        expected = f"value offsets from 0 up to {end} that do not fall"
        raise InvalidBodyError(expected=expected, found="others, in an array that was not validated")
    new_offsets = np.zeros(len(slots) + 1, np.int64)
    np.cumsum(lengths, out=new_offsets[1:])
    if new_offsets[-1] > np.iinfo(offsets.dtype).max:
        raise ValueError(f"expected value offsets that fit {offsets.dtype}, found {new_offsets[-1]}; take fewer slots")
    return starts, lengths, as_buffer(new_offsets.astype(offsets.dtype))


def _bytes(array: Array, slots: Slots) -> Array:
    validity, nulls = _validity(array, slots)
    data = array_data.value_bytes(array)
    starts, lengths, offsets = _runs(array, slots, len(data))
    ends = np.cumsum(lengths)
    gathered = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
    start = done = 0
    while start < len(slots):
        stop = max(int(np.searchsorted(ends, done + _PIECE_NBYTES, "right")), start + 1)  # one slot at least
        piece = slice(start, stop)
        gathered[done : ends[stop - 1]] = data[positions_of_runs(starts[piece], lengths[piece])]
        start, done = stop, int(ends[stop - 1])
    return Array(array.type, len(slots), nulls, (validity, offsets, gathered.data))


def _list(array: Array, slots: Slots) -> Array:
    validity, nulls = _validity(array, slots)
    starts, lengths, offsets = _runs(array, slots, array.children[0].length)
    child = take(array.children[0], positions_of_runs(starts, lengths))
    return Array(array.type, len(slots), nulls, (validity, offsets), (child,))


def _fixed_size_list(array: Array, slots: Slots) -> Array:
    assert isinstance(array.type, t.FixedSizeList)
    validity, nulls = _validity(array, slots)
    size = array.type.list_size
    elements = ((slots + array.offset)[:, None] * size + np.arange(size)).reshape(-1)
    return Array(array.type, len(slots), nulls, (validity,), (take(array.children[0], elements),))


def _struct(array: Array, slots: Slots) -> Array:
    validity, nulls = _validity(array, slots)
    children = tuple(take(child, slots + array.offset) for child in array.children)
    return Array(array.type, len(slots), nulls, (validity,), children)


def _views(array: Array, slots: Slots) -> Array:
    validity, nulls = _validity(array, slots)
    views = as_buffer(array_data.views(array)[slots])
    return Array(array.type, len(slots), nulls, (validity, views, *array.buffers[2:]))


def _list_view(array: Array, slots: Slots) -> Array:
    validity, nulls = _validity(array, slots)
    moved = (as_buffer(array_data.positions(array)[slots]), as_buffer(array_data.sizes(array)[slots]))
    return Array(array.type, len(slots), nulls, (validity, *moved), array.children)


def _sparse_union(array: Array, slots: Slots) -> Array:
    children = tuple(take(child, slots + array.offset) for child in array.children)
    return Array(array.type, len(slots), 0, (as_buffer(array_data.type_ids(array)[slots]),), children)


def _dense_union(array: Array, slots: Slots) -> Array:
    # The positions in each child must not decrease (Columnar.rst, "Dense Union").
    assert isinstance(array.type, t.DenseUnion)
    type_ids = array_data.type_ids(array)[slots]
    old = array_data.positions(array)[slots].astype(np.int64)
    positions = np.zeros(len(slots), np.int32)
    children = []
    for type_id, child in zip(array.type.type_ids, array.children, strict=True):
        members = np.flatnonzero(type_ids == type_id)
        positions[members] = np.arange(len(members))
        children.append(take(child, old[members]))
    return Array(array.type, len(slots), 0, (as_buffer(type_ids), as_buffer(positions)), tuple(children))


def _run_end_encoded(array: Array, slots: Slots) -> Array:
    run_ends, values = array.children
    ends = array_data.data_values(run_ends)
    run = np.searchsorted(ends, slots + array.offset, "right")
    # Neighbours of one run stay a run: the last slot of each ends it.
    last = np.flatnonzero(np.append(run[1:] != run[:-1], [True] * bool(len(run))))
    taken_ends = Array(run_ends.type, len(last), 0, (None, as_buffer((last + 1).astype(ends.dtype))))
    return Array(array.type, len(slots), 0, (), (taken_ends, take(values, run[last].astype(np.int64))))


TAKE: Mapping[type[t.DataType], Callable[[Array, Slots], Array]] = by_type(
    {
        Family.NULL: lambda array, slots: Array(array.type, len(slots), len(slots), ()),
        Family.BITS: _bits,
        Family.FIXED_WIDTH: _primitive,
        Family.BINARY: _bytes,
        Family.VIEW: _views,
        Family.LIST: _list,
        Family.LIST_VIEW: _list_view,
        Family.FIXED_SIZE_LIST: _fixed_size_list,
        Family.STRUCT: _struct,
        Family.SPARSE_UNION: _sparse_union,
        Family.DENSE_UNION: _dense_union,
        Family.RUN_END_ENCODED: _run_end_encoded,
        Family.DICTIONARY: _primitive,
    }
)
"""One function for each layout family; a test proves that none is missing."""
