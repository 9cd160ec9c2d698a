"""Make slots that no row can see harmless.

Strategy
--------
A slot is unseen if it is null, if a slot above it is, or if no value offset, type id, run or dictionary index leads to it. What
it holds is undefined (Columnar.rst): indices beyond their dictionary, bytes that are not UTF-8, broken views. `clear_unseen` goes
from parents to children, by a table of layout families, and takes the ranges of seen slots along: ranges, because a
fixed-size list or a run may stand for more slots than there is memory. Unseen slots get a value that is sound, and are null
where the field allows it and each slot takes memory. What a row can see stays as it is, sound or not.

The format demands more of some buffers, so that they are left as they are, and checks refuse them below a null too: null
counts, value offsets that do not fall ("even for null slots"), run ends, and the list-views that are null themselves ("including
null values").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import replace
from functools import wraps
from typing import Any, Final, NamedTuple, ParamSpec, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.arrow import array_data
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array_data import NOT_COUNTED, ArrayData, Buffer
from spark_arrow_ipc.arrow.layout import LAYOUTS, BufferLayout, Family, Role, by_type, child_slots, least_nbytes
from spark_arrow_ipc.errors import ArrowIpcError

Ranges: TypeAlias = npt.NDArray[np.int64]
"""Half-open ranges of slots, rising and apart: shape ``(n, 2)``."""

_A = TypeVar("_A", bound=ArrayData)
_T = TypeVar("_T")
_P = ParamSpec("_P")
_Bools: TypeAlias = npt.NDArray[np.bool_]


_RETRIES: Final = ContextVar("_RETRIES", default=True)
"""False while a function is called a second time: what it calls itself has arrays without unseen slots then."""


def of_seen(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Decorate a function of arrays that need not be validated, so that no slot fails it that a row cannot see.

    Where it raises an error, it is called again with arrays whose unseen slots are harmless; that call decides.
    """

    @wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return function(*args, **kwargs)
        except (ArrowIpcError, LookupError, ValueError, OverflowError) as error:
            if not _RETRIES.get():
                raise
            try:
                cleared = [*map(_clear_argument, args)]
            except (ArrowIpcError, LookupError, ValueError):
                raise error from None  # of arrays of wrong sizes
        token = _RETRIES.set(False)
        try:
            return function(*cleared, **kwargs)
        finally:
            _RETRIES.reset(token)

    return call


def _clear_argument(argument: Any) -> Any:
    """Return an array, or a sequence of arrays, without unseen slots, and anything else as it is."""
    if isinstance(argument, ArrayData):
        return clear_unseen(argument)
    return [*map(_clear_argument, argument)] if isinstance(argument, list | tuple) else argument


class _Seen(NamedTuple):
    """What a row can see of an array, and how the rest is made harmless."""

    ranges: Ranges | None = None  # None stands for all slots
    nullable: bool = True  # whether slots may become null
    dictionaries: bool = True  # whether sound dictionaries are cleared too

    def below(self, field: t.Field, ranges: Ranges) -> _Seen:
        """Return the same of a child, of which some ranges are seen."""
        return _Seen(ranges, field.nullable, self.dictionaries)

    def mask(self, length: int) -> _Bools | None:
        """Return the mask of the slots that are seen; None if all are."""
        return None if self.ranges is None else _mask(self.ranges, length)


def clear_unseen(array: _A, *, dictionaries: bool = True) -> _A:
    """Return an array of the same values whose unseen slots, at every depth, are harmless.

    O(bytes), in numpy. The sizes of the array are already checked; its values may be anything. Without `dictionaries`,
    those stay that are proven to be sound (`ArrayData.doubt`).
    """
    return _clear(array, _Seen(dictionaries=dictionaries)) if _are_counted(array, dictionaries) else array


def _are_counted(array: ArrayData, dictionaries: bool) -> bool:
    """Return whether all null counts are those of the bitmaps: wrong ones must not disappear."""
    if array.validity is not None and array.null_count != NOT_COUNTED:
        nulls = array.length - array_data.count_bits(array.validity, array.offset, array.length)
        if nulls != array.null_count:
            return False
    values = () if array.dictionary is None or not (dictionaries or array.dictionary.doubt) else (array.dictionary,)
    return all(_are_counted(part, dictionaries) for part in (*array.children, *values))


def _clear(array: _A, seen: _Seen) -> _A:
    ranges = seen.ranges
    if ranges is not None and len(ranges) == 1 and ranges[0, 0] == 0 and ranges[0, 1] == array.length:
        seen = seen._replace(ranges=None)
    cleared: _A = _CLEAR[type(array.type)](array, seen)
    return cleared


# Ranges of slots


def _mask(ranges: Ranges, length: int) -> _Bools:
    steps = np.zeros(length + 1, np.int8)
    steps[ranges[:, 0]] = 1
    steps[ranges[:, 1]] = -1
    return np.cumsum(steps[:-1], dtype=np.int8).view(np.bool_)


def _ranges(mask: _Bools) -> Ranges:
    padded = np.zeros(len(mask) + 2, np.bool_)
    padded[1:-1] = mask
    return np.flatnonzero(padded[1:] != padded[:-1]).reshape(-1, 2)


def _join_ranges(starts: npt.NDArray[Any], stops: npt.NDArray[Any], most: int) -> Ranges:
    """Return ranges in any order, which may overlap and end anywhere, as ranges up to a slot that rise and are apart."""
    starts = np.clip(starts.astype(np.int64, copy=False), 0, most)
    stops = np.clip(stops.astype(np.int64, copy=False), 0, most)
    some = np.flatnonzero(starts < stops)
    order = some[np.argsort(starts[some], kind="stable")]
    starts, reach = starts[order], np.maximum.accumulate(stops[order])
    apart = np.flatnonzero(starts[1:] > reach[:-1])
    first, last = np.append(0, apart + 1), np.append(apart, len(reach) - 1)
    return np.stack([starts[first], reach[last]], axis=1) if len(order) else _NONE


def _of_slots(slots: npt.NDArray[np.int64]) -> Ranges:
    """Return the ranges of slots, each of which occurs once, that rise."""
    return _join_ranges(slots, slots + 1, _MOST)


_NONE: Final = np.zeros((0, 2), np.int64)
_MOST: Final = 2**63 - 1


def _valid(array: ArrayData, seen: _Seen) -> _Bools | None:
    """Return the mask of seen slots that are not null; None if all are."""
    validity, mask = array_data.validity_mask(array), seen.mask(array.length)
    return validity if mask is None else mask if validity is None else mask & validity


def _valid_ranges(array: ArrayData, seen: _Seen) -> Ranges:
    if array_data.validity_mask(array, 0, 0) is None:  # without a bitmap there may be more slots than memory
        return np.array([[0, array.length]]) if seen.ranges is None else seen.ranges
    mask = _valid(array, seen)
    assert mask is not None
    return _ranges(mask)


# Buffers


def _bytes(values: npt.NDArray[Any]) -> Buffer:
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8).data


def _with(array: ArrayData, seen: _Seen, *buffers: Buffer | None, **others: Any) -> ArrayData:
    """Return an array of these buffers behind its validity bitmap: null where it is unseen, or valid if none may be null."""
    bits, mask = array.validity, None
    if seen.ranges is not None and seen.nullable and _holds_memory(array.type):
        mask = _valid(array, seen)
    elif seen.ranges is not None and bits is not None and not seen.nullable:
        mask = array_data.unpack_bits(bits, array.offset, array.length) | ~_mask(seen.ranges, array.length)
    if mask is not None:
        bits = array_data.pack_bits(mask)
        others["null_count"] = array.length - int(np.count_nonzero(mask))
    elif bits is not None:
        bits = array_data.slice_bits(bits, array.offset, array.length)
    return replace(array, buffers=(bits, *buffers), offset=0, **others)


def _holds_memory(type_: t.DataType) -> bool:
    """Return whether each slot of a type takes memory, which bounds what a bitmap for it takes."""
    return _HOLDS_MEMORY[type(type_)](type_)


def _any_child(type_: t.DataType) -> bool:
    return any(_holds_memory(field.type) for field in type_.children)


_HOLDS_MEMORY: Final[Mapping[type[t.DataType], Callable[[Any], bool]]] = {
    **by_type(
        {
            **dict.fromkeys(Family, lambda _: True),
            Family.NULL: lambda _: False,
            Family.STRUCT: _any_child,
            Family.FIXED_SIZE_LIST: lambda type_: type_.list_size > 0 and _any_child(type_),
            Family.RUN_END_ENCODED: lambda _: False,
        }
    ),
    t.FixedSizeBinary: lambda type_: type_.byte_width > 0,
}


# Harmless slots, where there are none to point to


_MOST_ZEROS: Final = 1 << 12
"""Slots that are made of a type; fixed-size lists may have more elements than fit in memory."""


def _zeros(array: _A, length: int = 1) -> _A | None:
    """Return an array of the same type with slots of zeros; None if these are too many."""
    if length > _MOST_ZEROS:
        return None
    type_, children = array.type, []
    for child, slots in zip(array.children, _ZERO_CHILDREN[type(array.type)](array.type, length), strict=True):
        zeros = _zeros(child, slots)
        if zeros is None:
            return None
        children.append(zeros)
    dictionary = None if array.dictionary is None else _zeros(array.dictionary)
    if dictionary is None and array.dictionary is not None:
        return None
    if isinstance(type_, t.RunEndEncoded) and length:
        end = np.full(1, length, array_data.dtype_of(type_.run_ends.type))
        children[0] = replace(array.children[0], length=1, null_count=0, buffers=(None, _bytes(end)), offset=0)
    buffers = tuple(
        None if row.role is Role.VALIDITY else memoryview(_fill(type_, row) * least_nbytes(type_, row, length))
        for row in LAYOUTS[type(type_)].buffers
        if row.role is not Role.VARIADIC
    )
    nulls = length if isinstance(type_, t.Null) else 0
    empty = replace(array, length=length, null_count=nulls, buffers=buffers, offset=0)
    return replace(empty, children=tuple(children), dictionary=dictionary)


def _fill(type_: t.DataType, row: BufferLayout) -> bytes:
    if row.role is Role.TYPE_IDS and isinstance(type_, t.SparseUnion | t.DenseUnion):
        return bytes(type_.type_ids[:1])
    return b"\0"


def _as_many(type_: t.DataType, length: int) -> tuple[int, ...]:
    return ((child_slots(type_) or 0) * length,) * len(type_.children)


_ZERO_CHILDREN: Final[Mapping[type[t.DataType], Callable[[t.DataType, int], tuple[int, ...]]]] = by_type(
    {
        **dict.fromkeys(Family, lambda *_: ()),
        Family.LIST: lambda *_: (0,),
        Family.LIST_VIEW: lambda *_: (0,),
        Family.FIXED_SIZE_LIST: _as_many,
        Family.STRUCT: _as_many,
        Family.SPARSE_UNION: _as_many,
        Family.DENSE_UNION: lambda type_, _: (1, *[0] * len(type_.children))[: len(type_.children)],
        Family.RUN_END_ENCODED: lambda _, length: (int(length > 0),) * 2,
    }
)
"""The slots of each child for so many slots of zeros."""


# Families: an array and what is seen of it -> the array with harmless slots where nothing is


def _same(array: ArrayData, _: _Seen) -> ArrayData:
    return array


def _bits(array: ArrayData, seen: _Seen) -> ArrayData:
    mask = seen.mask(array.length)
    return array if mask is None else _with(array, seen, array_data.pack_bits(array_data.data_values(array) & mask))


def _primitive(array: ArrayData, seen: _Seen) -> ArrayData:
    mask = seen.mask(array.length) if _holds_memory(array.type) else None
    if mask is None:
        return array
    values = array_data.data_values(array).copy()
    values[~mask] = np.zeros((), values.dtype)
    return _with(array, seen, _bytes(values))


def _are_sound(offsets: npt.NDArray[Any], end: int) -> bool:
    return bool(offsets[0] >= 0 and offsets[-1] <= end and (offsets[1:] >= offsets[:-1]).all())


def _binary(array: ArrayData, seen: _Seen) -> ArrayData:
    """Make the bytes of unseen slots zeros, which are text."""
    mask, offsets, data = _valid(array, seen), array_data.value_offsets(array), array_data.value_bytes(array)
    if mask is None or not _are_sound(offsets, len(data)):
        return array
    region = data[int(offsets[0]) : int(offsets[-1])] * np.repeat(mask, np.diff(offsets))
    return _with(array, seen, _bytes(offsets - offsets[0]), _bytes(region))


def _views(array: ArrayData, seen: _Seen) -> ArrayData:
    mask = _valid(array, seen)
    if mask is None:
        return array
    views = array_data.views(array).copy()
    views[~mask] = np.zeros((), views.dtype)
    return _with(array, seen, _bytes(views), *array.buffers[2:])


def _list(array: ArrayData, seen: _Seen) -> ArrayData:
    offsets, (child,), (field,) = array_data.value_offsets(array), array.children, array.type.children
    if not _are_sound(offsets, child.length):
        return array
    slots = _valid_ranges(array, seen)
    elements = _join_ranges(offsets[slots[:, 0]], offsets[slots[:, 1]], child.length)
    return _with(array, seen, _bytes(offsets), children=(_clear(child, seen.below(field, elements)),))


def _map(array: ArrayData, seen: _Seen) -> ArrayData:
    """Clear a map, of which no entry and no key may be null, whatever the fields say."""
    type_, (entries,) = array.type, array.children
    assert isinstance(type_, t.Map)
    pair = t.Struct((replace(type_.key, nullable=False), type_.item))
    strict = replace(type_, entries=replace(type_.entries, type=pair, nullable=False))
    cleared = _list(replace(array, type=strict, children=(replace(entries, type=pair),)), seen)
    return replace(cleared, type=type_, children=(replace(cleared.children[0], type=entries.type),))


def _list_view(array: ArrayData, seen: _Seen) -> ArrayData:
    positions, sizes = array_data.positions(array), array_data.sizes(array)
    (child,), (field,), mask = array.children, array.type.children, seen.mask(array.length)
    if mask is not None:
        positions, sizes = (np.where(mask, numbers, 0).astype(numbers.dtype) for numbers in (positions, sizes))
    starts, counts = positions.astype(np.int64), sizes.astype(np.int64)
    # A subtraction, because a sum of two int64 may overflow.
    used = (starts >= 0) & (counts >= 0) & (starts <= child.length - counts)
    valid = _valid(array, seen)
    if valid is not None:
        used &= valid
    elements = _join_ranges(starts[used], starts[used] + counts[used], child.length)
    child = _clear(child, seen.below(field, elements))
    return _with(array, seen, _bytes(positions), _bytes(sizes), children=(child,))


def _parallel(array: ArrayData, seen: _Seen) -> ArrayData:
    """Clear a struct or a fixed-size list, whose children have so many slots for each of theirs."""
    size = child_slots(array.type) or 0
    slots = _valid_ranges(array, seen) * size
    elements = _join_ranges(slots[:, 0], slots[:, 1], array.length * size)
    children = tuple(
        _clear(child.slice(array.offset * size, array.length * size), seen.below(field, elements))
        for field, child in zip(array.type.children, array.children, strict=True)
    )
    return _with(array, seen, children=children)


def _sparse_union(array: ArrayData, seen: _Seen) -> ArrayData:
    assert isinstance(array.type, t.SparseUnion)
    ids, mask, children = array_data.type_ids(array).copy(), seen.mask(array.length), []
    for type_id, field, child in zip(array.type.type_ids, array.type.fields, array.children, strict=True):
        selects = ids == type_id if mask is None else (ids == type_id) & mask
        children.append(_clear(child.slice(array.offset, array.length), seen.below(field, _ranges(selects))))
    if mask is not None and array.type.type_ids:
        ids[~mask] = array.type.type_ids[0]
    return replace(array, buffers=(_bytes(ids),), children=tuple(children), offset=0)


def _dense_union(array: ArrayData, seen: _Seen) -> ArrayData:
    """Clear a dense union. Its unseen slots point to a slot of the first child that has one."""
    assert isinstance(array.type, t.DenseUnion)
    type_ids, old, mask = array.type.type_ids, array.children, seen.mask(array.length)
    ids, positions = array_data.type_ids(array).copy(), array_data.positions(array).copy()
    selects = [ids == type_id if mask is None else (ids == type_id) & mask for type_id in type_ids]
    if mask is not None and not mask.all() and old:
        home = next((i for i, child in enumerate(old) if child.length), 0)
        slot = old[home] if old[home].length else _zeros(old[home])
        if slot is None:
            return array
        old = (*old[:home], slot, *old[home + 1 :])
        # Positions must not fall: each is that of the seen slot before it in the same child.
        before = np.maximum.accumulate(np.where(selects[home], positions, 0))
        ids[~mask] = type_ids[home]
        positions[~mask] = np.clip(before[~mask], 0, min(slot.length - 1, np.iinfo(positions.dtype).max))
    children = []
    for chosen, field, child in zip(selects, array.type.fields, old, strict=True):
        slots = np.unique(positions[chosen])
        elements = _of_slots(slots[(slots >= 0) & (slots < child.length)].astype(np.int64))
        children.append(_clear(child, seen.below(field, elements)))
    return replace(array, buffers=(_bytes(ids), _bytes(positions)), children=tuple(children), offset=0)


def _runs(array: ArrayData, seen: _Seen) -> ArrayData:
    run_ends, values = array.children
    slots = np.array([[0, array.length]]) if seen.ranges is None else seen.ranges
    slots = slots[slots[:, 0] < slots[:, 1]] + array.offset
    ends = array_data.data_values(run_ends)
    first, last = np.searchsorted(ends, slots[:, 0], "right"), np.searchsorted(ends, slots[:, 1] - 1, "right")
    used = _join_ranges(first, last + 1, values.length)
    return replace(array, children=(run_ends, _clear(values, seen.below(array.type.children[1], used))))


def _dictionary(array: ArrayData, seen: _Seen) -> ArrayData:
    dictionary, mask = array.dictionary, _valid(array, seen)
    assert dictionary is not None
    indices = array_data.data_values(array)
    if mask is not None:
        indices = np.where(mask, indices, 0).astype(indices.dtype)
    if seen.dictionaries or dictionary.doubt is not None:
        shown = np.unique(indices if mask is None else indices[mask])
        # As unsigned numbers negative indices are too large.
        slots = np.sort(shown.view(f"u{shown.itemsize}"))
        dictionary = _clear(dictionary, _Seen(_of_slots(slots[slots < dictionary.length].astype(np.int64))))
    if mask is not None and not dictionary.length and not mask.any():
        # Index 0 needs a value where the slots may not become null.
        may_be_null = seen.nullable or seen.ranges is None
        dictionary = dictionary if may_be_null else _zeros(dictionary) or dictionary
    return _with(array, seen, _bytes(indices), dictionary=dictionary)


_CLEAR: Final[Mapping[type[t.DataType], Callable[[Any, _Seen], Any]]] = {
    **by_type(
        {
            Family.NULL: _same,
            Family.BITS: _bits,
            Family.FIXED_WIDTH: _primitive,
            Family.BINARY: _binary,
            Family.VIEW: _views,
            Family.LIST: _list,
            Family.LIST_VIEW: _list_view,
            Family.FIXED_SIZE_LIST: _parallel,
            Family.STRUCT: _parallel,
            Family.SPARSE_UNION: _sparse_union,
            Family.DENSE_UNION: _dense_union,
            Family.RUN_END_ENCODED: _runs,
            Family.DICTIONARY: _dictionary,
        }
    ),
    t.Map: _map,
}
"""One function for each layout family; a test proves that none is missing."""
