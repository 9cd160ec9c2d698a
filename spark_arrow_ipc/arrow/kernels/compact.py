"""Compact arrays: offset 0, and no memory beyond the slots.

How it works
------------
A slice has complete buffers and an offset. `compact` resolves it: offset 0, every buffer no longer than its slots need,
value offsets from 0 on, children cut to the slots in use. Bytes are shared where a byte range is enough; copied are bitmaps that
begin inside a byte, and offsets that change because they now start at 0.

One table by role has the functions for buffers, another by layout family the functions for children. The arrays are sound
(`arrow.validate`); null slots may hold anything, and their offsets obey the format.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.arrow import array_data
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array_data import as_buffer
from spark_arrow_ipc.arrow.layout import LAYOUTS, BufferLayout, Family, Role, bit_width_of, by_type
from spark_arrow_ipc.arrow.unseen import tolerate_unseen

if TYPE_CHECKING:
    from spark_arrow_ipc.arrow.array import Array
    from spark_arrow_ipc.arrow.array_data import Buffer

NDArray: TypeAlias = npt.NDArray[Any]

_SPARSE = 2  # variadic buffers are cut if less than 1 / _SPARSE of their bytes are in use, from the first to the last


@tolerate_unseen
def compact(array: Array) -> Array:
    """Return the same slots with offset 0, all memory cut to them and nulls counted.

    A bitmap without nulls is left out. Dictionaries stay unchanged. O(length / 8) for the bitmap; O(length) where
    integers change.
    """
    null_count = array.count_nulls()
    array = replace(array, null_count=null_count)
    buffers = tuple(
        _BUFFERS[row.role](array, row, buffer)
        for row, buffer in zip(LAYOUTS[type(array.type)].buffers, array.buffers, strict=False)
        if row.role is not Role.VARIADIC
    )
    same = replace(array, buffers=buffers, offset=0)
    return CHILDREN[type(array.type)](array, same)


def mask_array(array: Array, mask: npt.NDArray[np.bool_]) -> Array:
    """Return the same slots, which are also null where a mask is false; types without a validity bitmap stay unchanged."""
    validity = array_data.validity_mask(array)
    shown = mask if validity is None else mask & validity
    if (
        Role.VALIDITY not in [row.role for row in LAYOUTS[type(array.type)].buffers]
        or (mask if validity is None else mask | ~validity).all()
    ):
        return array
    compacted = compact(array)
    nulls = array.length - int(np.count_nonzero(shown))
    return replace(compacted, null_count=nulls, buffers=(array_data.pack_bits(shown), *compacted.buffers[1:]))


def _validity(array: Array, _: BufferLayout, buffer: Buffer | None) -> Buffer | None:
    if buffer is None or array.null_count == 0:
        return None  # `compact` has counted the nulls
    return array_data.slice_bits(buffer, array.offset, array.length)


def _slots(array: Array, row: BufferLayout, buffer: Buffer | None) -> Buffer:
    buffer = memoryview(b"") if buffer is None else buffer
    bit_width = bit_width_of(array.type, row)
    if bit_width == 1:
        return array_data.slice_bits(buffer, array.offset, array.length)
    width = bit_width // 8
    return buffer[array.offset * width : (array.offset + array.length) * width]


def _offsets(array: Array, _: BufferLayout, __: Buffer | None) -> Buffer:
    offsets = array_data.value_offsets(array)
    if not array.length:
        return as_buffer(np.zeros(1, offsets.dtype))
    return as_buffer(offsets if offsets[0] == 0 else offsets - offsets[0])


# Cuts a buffer to the slots. Variadic buffers are cut together with the views into them.
_BUFFERS: Mapping[Role, Callable[[Array, BufferLayout, Buffer | None], Buffer | None]] = {
    Role.VALIDITY: _validity,
    Role.DATA: _slots,
    Role.OFFSETS: _offsets,
    Role.POSITIONS: _slots,
    Role.SIZES: _slots,
    Role.TYPE_IDS: _slots,
    Role.VIEWS: _slots,
    Role.BYTES: lambda array, _, buffer: (buffer or memoryview(b""))[slice(*range_in_use(array))],
}


def range_in_use(array: Array) -> tuple[int, int]:
    """Return the half-open range of bytes or elements that the value offsets of an array cover."""
    if not array.length:
        return 0, 0
    offsets = array_data.value_offsets(array)
    return int(offsets[0]), int(offsets[-1])


def _part(child: Array, start: int, stop: int) -> Array:
    return compact(child.slice(start, stop - start))


# Children: (the old array, the array with its buffers cut) -> the array with its children cut


def _no_children(_: Array, same: Array) -> Array:
    return same


def _struct_children(array: Array, same: Array) -> Array:
    start, stop = array.offset, array.offset + array.length
    return replace(same, children=tuple(_part(child, start, stop) for child in array.children))


def _fixed_size_list_children(array: Array, same: Array) -> Array:
    assert isinstance(array.type, t.FixedSizeList)
    size = array.type.list_size
    start, stop = array.offset * size, (array.offset + array.length) * size
    return replace(same, children=(_part(array.children[0], start, stop),))


def _list_view_children(array: Array, same: Array) -> Array:
    (child,) = array.children
    positions, sizes = array_data.positions(array), array_data.sizes(array)
    used = np.flatnonzero(sizes)
    start = int(positions[used].min()) if len(used) else 0
    stop = int((positions[used].astype(np.int64) + sizes[used]).max()) if len(used) else 0
    stop = min(max(stop, 0), child.length)  # in an unused value of a dictionary that was not validated
    start = min(max(start, 0), stop)
    validity, where, how_many = same.buffers
    if start > 0 or stop < child.length:
        # An empty list-view may point anywhere in the old child, and so outside the new, shorter one.
        where = as_buffer(np.where(sizes > 0, positions - start, 0).astype(positions.dtype))
    return replace(same, buffers=(validity, where, how_many), children=(_part(child, start, stop),))


def _dense_union_children(array: Array, same: Array) -> Array:
    assert isinstance(array.type, t.DenseUnion)
    type_ids, positions = array_data.type_ids(array), array_data.positions(array)
    origin = np.zeros(128, positions.dtype)  # by type id, at most 127
    children = []
    for type_id, child in zip(array.type.type_ids, array.children, strict=True):
        member_positions = positions[type_ids == type_id]
        start, stop = (
            (int(member_positions.min()), int(member_positions.max()) + 1) if len(member_positions) else (0, 0)
        )
        origin[type_id] = start
        children.append(_part(child, start, stop))
    ids, where = same.buffers
    if origin.any():  # otherwise the buffer is shared
        where = as_buffer(positions - origin[type_ids])
    return replace(same, buffers=(ids, where), children=tuple(children))


def _runs(array: Array, same: Array) -> Array:
    run_ends, values = array.children
    ends = array_data.data_values(run_ends)
    start, stop = runs_of(ends, array.offset, array.offset + array.length)
    if array.offset == 0 and start < stop and int(ends[stop - 1]) == array.length:
        return replace(same, children=(_part(run_ends, start, stop), _part(values, start, stop)))
    # Subtracted as int64: the last end fits its own type only after it is cut to the slice.
    ends_of_slice = np.minimum(ends[start:stop].astype(np.int64) - array.offset, array.length).astype(ends.dtype)
    part = replace(
        run_ends, length=len(ends_of_slice), null_count=0, buffers=(None, as_buffer(ends_of_slice)), offset=0
    )
    return replace(same, children=(part, _part(values, start, stop)))


def runs_of(ends: NDArray, start: int, stop: int) -> tuple[int, int]:
    """Return the half-open range of runs that hold the slots from `start` to `stop`."""
    if start >= stop:
        return 0, 0
    first, last = np.searchsorted(ends, np.array([start, stop - 1]), "right")
    return int(first), int(last) + 1


def _view_buffers(array: Array, same: Array) -> Array:
    """Cut variadic buffers if views use a small part of them."""
    # A writer would otherwise write all bytes of the buffers for each slice.
    variadic = array.buffers[2:]
    total = sum(buffer.nbytes for buffer in variadic if buffer is not None)
    views = array_data.views(array)
    mask = array_data.validity_mask(array)
    long = views["size"] > array_data.VIEW_INLINE_NBYTES
    used = np.flatnonzero(long if mask is None else long & mask)
    index, offset = views["index"][used], views["offset"][used].astype(np.int64)
    start = np.full(len(variadic), np.iinfo(np.int64).max)
    stop = np.zeros(len(variadic), np.int64)
    try:
        np.minimum.at(start, index, offset)
        np.maximum.at(stop, index, offset + views["size"][used])
    except IndexError:  # an unused value of a dictionary that was not validated
        return replace(same, buffers=same.buffers + variadic)
    start = np.minimum(start, stop)
    if total <= _SPARSE * int((stop - start).sum()):
        return replace(same, buffers=same.buffers + variadic)
    in_use = np.flatnonzero(stop > start)
    number = np.zeros(len(variadic), np.int32)
    number[in_use] = np.arange(len(in_use), dtype=np.int32)
    moved = views.copy()
    if mask is not None:
        # Null views would point into buffers that the array no longer has.
        moved[~mask] = np.zeros((), moved.dtype)
    moved["index"][used] = number[index]
    moved["offset"][used] = offset - start[index]
    parts = tuple(memoryview(variadic[i] or b"")[start[i] : stop[i]] for i in in_use)
    return replace(same, buffers=(same.buffers[0], as_buffer(moved), *parts))


CHILDREN: Mapping[type[t.DataType], Callable[[Array, Array], Array]] = by_type(
    {
        Family.NULL: _no_children,
        Family.BITS: _no_children,
        Family.FIXED_WIDTH: _no_children,
        Family.BINARY: _no_children,
        Family.VIEW: _view_buffers,
        Family.LIST: lambda array, same: replace(same, children=(_part(array.children[0], *range_in_use(array)),)),
        Family.LIST_VIEW: _list_view_children,
        Family.FIXED_SIZE_LIST: _fixed_size_list_children,
        Family.STRUCT: _struct_children,
        Family.SPARSE_UNION: _struct_children,
        Family.DENSE_UNION: _dense_union_children,
        Family.RUN_END_ENCODED: _runs,
        Family.DICTIONARY: _no_children,
    }
)
"""One function for each layout family: cuts the children, and the variadic buffers of views."""
