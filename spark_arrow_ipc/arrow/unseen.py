"""Make slots that no row can see harmless.

How it works
------------
A slot is unseen if it is null, if a slot above it is, or if no value offset, type id, run or dictionary index leads to it. Its
content is undefined (Columnar.rst): indices beyond their dictionary, bytes that are not UTF-8, broken views. `clear_unseen` goes
from parents to children, by a table of layout families, and passes the ranges of seen slots down: ranges, because a
fixed-size list or a run may stand for more slots than fit in memory. Unseen slots get a sound value, and are null where the
field allows it and each slot takes memory. Seen slots never change, sound or not.

The format demands more of some buffers. They never change, and checks refuse them below a null too: null counts, value
offsets that do not decrease ("even for null slots"), run ends, and null list-views ("including null values").
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
from spark_arrow_ipc.arrow.array_data import NOT_COUNTED, ArrayData, Buffer, as_buffer
from spark_arrow_ipc.arrow.layout import LAYOUTS, Family, Role, by_type, child_slots, least_nbytes
from spark_arrow_ipc.errors import ArrowIpcError

Ranges: TypeAlias = npt.NDArray[np.int64]
"""Half-open ranges of slots, rising and apart: shape ``(n, 2)``."""

_A = TypeVar("_A", bound=ArrayData)
_T = TypeVar("_T")
_P = ParamSpec("_P")
_Bools: TypeAlias = npt.NDArray[np.bool_]


# False during the second call of a function: the functions that it calls then get arrays without unseen slots
_RETRIES: Final = ContextVar("_RETRIES", default=True)


def tolerate_unseen(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Decorate a function of unvalidated arrays, so that slots that no row can see do not make it fail."""

    @wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return function(*args, **kwargs)
        except (ArrowIpcError, LookupError, ValueError, OverflowError) as error:
            # Called again with harmless unseen slots: the second call decides, and sound arrays cost nothing.
            if not _RETRIES.get():
                raise
            try:
                cleared = [*map(_clear_argument, args)]
            except (ArrowIpcError, LookupError, ValueError):
                raise error from None  # the arrays have wrong sizes
        token = _RETRIES.set(False)
        try:
            return function(*cleared, **kwargs)
        finally:
            _RETRIES.reset(token)

    return call


def _clear_argument(argument: Any) -> Any:
    """Return an array or a sequence of arrays without unseen slots, and any other argument unchanged."""
    if isinstance(argument, ArrayData):
        return clear_unseen(argument)
    return [*map(_clear_argument, argument)] if isinstance(argument, list | tuple) else argument


class _Seen(NamedTuple):
    """The slots of an array that rows can see, and the rules for the others."""

    ranges: Ranges | None = None  # None stands for all slots
    nullable: bool = True  # whether slots may become null
    dictionaries: bool = True  # whether sound dictionaries are cleared too

    def below(self, field: t.Field, ranges: Ranges) -> _Seen:
        """Return the seen slots of a child, with the same rules."""
        return _Seen(ranges, field.nullable, self.dictionaries)

    def mask(self, length: int) -> _Bools | None:
        """Return the mask of the seen slots; None if all are seen."""
        return None if self.ranges is None else _mask(self.ranges, length)


def clear_unseen(array: _A, *, dictionaries: bool = True) -> _A:
    """Return an array of the same values whose unseen slots, at every depth, are harmless.

    O(bytes), in numpy. The sizes of the array must be checked; its values may be anything. Without `dictionaries`,
    sound dictionaries stay unchanged (`ArrayData.doubt`).
    """
    return _clear(array, _Seen(dictionaries=dictionaries)) if _are_counted(array, dictionaries) else array


def _are_counted(array: ArrayData, dictionaries: bool) -> bool:
    """Return whether all null counts fit the bitmaps."""
    # A wrong count must be refused, and a new bitmap would hide it.
    if array.validity is not None and array.null_count != NOT_COUNTED:
        nulls = array.length - array_data.count_bits(array.validity, array.offset, array.length)
        if nulls != array.null_count:
            return False
    values = () if array.dictionary is None or not (dictionaries or array.dictionary.doubt) else (array.dictionary,)
    return all(_are_counted(part, dictionaries) for part in (*array.children, *values))


def _clear(array: _A, seen: _Seen) -> _A:
    # All slots as None, which costs no mask.
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
    """Return the union of any ranges below the slot `most`, as ranges that rise and do not touch."""
    starts = np.clip(starts.astype(np.int64, copy=False), 0, most)
    stops = np.clip(stops.astype(np.int64, copy=False), 0, most)
    some = np.flatnonzero(starts < stops)
    order = some[np.argsort(starts[some], kind="stable")]
    starts, reach = starts[order], np.maximum.accumulate(stops[order])
    apart = np.flatnonzero(starts[1:] > reach[:-1])
    first, last = np.append(0, apart + 1), np.append(apart, len(reach) - 1)
    return np.stack([starts[first], reach[last]], axis=1) if len(order) else _NONE


def _ranges_of_slots(slots: npt.NDArray[np.int64]) -> Ranges:
    """Return the ranges of distinct, rising slots."""
    return _join_ranges(slots, slots + 1, _MOST)


_NONE: Final = np.zeros((0, 2), np.int64)
_MOST: Final = 2**63 - 1


def _valid(array: ArrayData, seen: _Seen) -> _Bools | None:
    """Return the mask of slots that are seen and not null; None if all are."""
    validity, mask = array_data.validity_mask(array), seen.mask(array.length)
    return validity if mask is None else mask if validity is None else mask & validity


def _valid_ranges(array: ArrayData, seen: _Seen) -> Ranges:
    if array_data.validity_mask(array, 0, 0) is None:  # without a bitmap an array may have more slots than memory
        return np.array([[0, array.length]]) if seen.ranges is None else seen.ranges
    mask = _valid(array, seen)
    assert mask is not None
    return _ranges(mask)


# Buffers


def _with(array: ArrayData, seen: _Seen, *buffers: Buffer | None, **others: Any) -> ArrayData:
    """Return an array of these buffers after its validity bitmap, without nulls below a field that allows none."""
    bits, mask = array.validity, None
    # Unseen slots become null, or valid if the field allows no null: checks refuse a null there.
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
    """Return whether each slot of a type takes memory, which bounds the memory of a bitmap for it."""
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


# Harmless slots, for children without any


# Fixed-size lists may have more elements than fit in memory
_MOST_ZEROS: Final = 1 << 12


def _zeros(array: _A, length: int = 1) -> _A | None:
    """Return an array of the same type with slots of zeros; None for too many."""
    if length > _MOST_ZEROS:
        return None
    type_: Any = array.type
    children = []
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
        children[0] = replace(array.children[0], length=1, null_count=0, buffers=(None, as_buffer(end)), offset=0)
    buffers = tuple(
        None
        if row.role is Role.VALIDITY
        # The first type id of a union need not be 0.
        else memoryview(
            (bytes(type_.type_ids[:1]) if row.role is Role.TYPE_IDS else b"\0") * least_nbytes(type_, row, length)
        )
        for row in LAYOUTS[type(type_)].buffers
        if row.role is not Role.VARIADIC
    )
    nulls = length if isinstance(type_, t.Null) else 0
    empty = replace(array, length=length, null_count=nulls, buffers=buffers, offset=0)
    return replace(empty, children=tuple(children), dictionary=dictionary)


def _as_many(type_: t.DataType, length: int) -> tuple[int, ...]:
    return ((child_slots(type_) or 0) * length,) * len(type_.children)


# The slots of each child for a number of slots of zeros
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


# Families: an array and its seen slots -> the array with harmless unseen slots


def _bits(array: ArrayData, seen: _Seen) -> ArrayData:
    mask = seen.mask(array.length)
    return array if mask is None else _with(array, seen, array_data.pack_bits(array_data.data_values(array) & mask))


def _primitive(array: ArrayData, seen: _Seen) -> ArrayData:
    mask = seen.mask(array.length) if _holds_memory(array.type) else None
    if mask is None:
        return array
    values = array_data.data_values(array).copy()
    values[~mask] = np.zeros((), values.dtype)
    return _with(array, seen, as_buffer(values))


def _are_sound(offsets: npt.NDArray[Any], end: int) -> bool:
    return bool(offsets[0] >= 0 and offsets[-1] <= end and (offsets[1:] >= offsets[:-1]).all())


def _binary(array: ArrayData, seen: _Seen) -> ArrayData:
    """Make the bytes of unseen slots zeros, which are text."""
    mask, offsets, data = _valid(array, seen), array_data.value_offsets(array), array_data.value_bytes(array)
    if mask is None or not _are_sound(offsets, len(data)):
        return array
    region = data[int(offsets[0]) : int(offsets[-1])] * np.repeat(mask, np.diff(offsets))
    return _with(array, seen, as_buffer(offsets - offsets[0]), as_buffer(region))


def _views(array: ArrayData, seen: _Seen) -> ArrayData:
    mask = _valid(array, seen)
    if mask is None:
        return array
    views = array_data.views(array).copy()
    views[~mask] = np.zeros((), views.dtype)
    return _with(array, seen, as_buffer(views), *array.buffers[2:])


def _list(array: ArrayData, seen: _Seen) -> ArrayData:
    offsets, (child,), (field,) = array_data.value_offsets(array), array.children, array.type.children
    if not _are_sound(offsets, child.length):
        return array
    slots = _valid_ranges(array, seen)
    elements = _join_ranges(offsets[slots[:, 0]], offsets[slots[:, 1]], child.length)
    return _with(array, seen, as_buffer(offsets), children=(_clear(child, seen.below(field, elements)),))


def _map(array: ArrayData, seen: _Seen) -> ArrayData:
    """Clear a map, whose entries and keys may not be null, even if its fields allow nulls."""
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
    return _with(array, seen, as_buffer(positions), as_buffer(sizes), children=(child,))


def _parallel(array: ArrayData, seen: _Seen) -> ArrayData:
    """Clear a struct or a fixed-size list, whose children have a fixed number of slots for each slot."""
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
    return replace(array, buffers=(as_buffer(ids),), children=tuple(children), offset=0)


def _dense_union(array: ArrayData, seen: _Seen) -> ArrayData:
    """Clear a dense union, whose unseen slots then point to a slot of the first child with slots."""
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
        # Positions must not decrease: an unseen slot gets the one of the seen slot before it in the same child.
        before = np.maximum.accumulate(np.where(selects[home], positions, 0))
        ids[~mask] = type_ids[home]
        positions[~mask] = np.clip(before[~mask], 0, min(slot.length - 1, np.iinfo(positions.dtype).max))
    children = []
    for chosen, field, child in zip(selects, array.type.fields, old, strict=True):
        slots = np.unique(positions[chosen])
        elements = _ranges_of_slots(slots[(slots >= 0) & (slots < child.length)].astype(np.int64))
        children.append(_clear(child, seen.below(field, elements)))
    return replace(array, buffers=(as_buffer(ids), as_buffer(positions)), children=tuple(children), offset=0)


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
        # As unsigned numbers, negative indices are too large as well.
        slots = np.sort(shown.view(f"u{shown.itemsize}"))
        dictionary = _clear(dictionary, _Seen(_ranges_of_slots(slots[slots < dictionary.length].astype(np.int64))))
    if mask is not None and not dictionary.length and not mask.any():
        # Index 0 needs a value where the slots may not become null.
        may_be_null = seen.nullable or seen.ranges is None
        dictionary = dictionary if may_be_null else _zeros(dictionary) or dictionary
    return _with(array, seen, as_buffer(indices), dictionary=dictionary)


# One function for each layout family; a test proves that none is missing
_CLEAR: Final[Mapping[type[t.DataType], Callable[[Any, _Seen], Any]]] = {
    **by_type(
        {
            Family.NULL: lambda array, _: array,
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
