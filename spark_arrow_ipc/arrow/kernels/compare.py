"""Compare arrays by value, and describe the first difference.

Strategy
--------
Pairs of slots are compared: two equally long arrays of slot numbers, one into each side. A type of fixed width needs
one gather on each side. A nested type maps the pairs of its slots to pairs of slots of its children, compares these,
and combines the results. So children need not have the same layout, and no array is rebuilt: arrays may be sliced,
dictionaries in any order, views inline or not.

Nulls are equal to each other, whatever the buffers hold under them. NaN equals NaN. 0.0 and -0.0 differ, because a
file that turns one into the other has changed data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.arrow import bitmap, numpy_views
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.layout import Family, by_type
from spark_arrow_ipc.arrow.measure import check_expansion

if TYPE_CHECKING:
    from spark_arrow_ipc.arrow.array import Array
    from spark_arrow_ipc.arrow.record_batch import RecordBatch

__all__ = ["alike", "batch_difference", "differ", "difference"]

Slots: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
NDArray: TypeAlias = npt.NDArray[Any]

_CHUNK_SLOTS = 1 << 16
"""Pairs of top-level slots compared at once: keeps temporaries small, and stops early at a difference."""

_LONGEST_VALUE = 200
"""Characters of a value that a description shows."""


def batch_difference(a: RecordBatch, b: RecordBatch, *, types: bool = True) -> str | None:
    """Describe the first difference between two batches, or return None if there is none.

    Compares names and rows, but neither custom metadata nor the nullability of top-level fields.
    """
    if a.schema.names != b.schema.names:
        return f"the columns are {', '.join(a.schema.names)} and {', '.join(b.schema.names)}"
    if a.num_rows != b.num_rows:
        return f"there are {a.num_rows} and {b.num_rows} rows"
    for name, ours, theirs in zip(a.schema.names, a.columns, b.columns, strict=True):
        sentence = difference(ours, theirs, name, types=types)
        if sentence is not None:
            return sentence
    return None


def difference(a: Array, b: Array, path: str = "", *, types: bool = True) -> str | None:
    """Describe the first difference between two arrays, or return None if they are equal by value.

    Vectorised, except for the description.

    Parameters
    ----------
    a, b
        Sound arrays.
    path
        The path of the field, for the description.
    types
        Whether types must be equal. If not, they must be equal without their encoding (dictionaries, runs, views,
        the width of value offsets) and without the names and nullability of nested fields.

    Raises
    ------
    LimitError
        The slots stand for far more values than they take bytes (`check_expansion`).
    """
    where = f"{path}: " if path else ""
    same_types = a.type == b.type if types else alike(a.type) == alike(b.type)
    if not same_types:
        return f"{where}the types are {a.type} and {b.type}"
    if a.length != b.length:
        return f"{where}there are {a.length} and {b.length} slots"
    for side in (a, b):
        check_expansion(side)
    for start in range(0, a.length, _CHUNK_SLOTS):
        slots = np.arange(start, min(start + _CHUNK_SLOTS, a.length))
        differs = _differs(a, slots, b, slots)
        if differs.any():
            slot = start + int(differs.argmax())
            ours, theirs = _shown(a, slot), _shown(b, slot)
            if ours == theirs:  # nulls of two children of a union, or values that differ after the cut
                return f"{where}slot {slot} differs, though both read {ours}"
            return f"{where}slot {slot} is {ours} and {theirs}"
    return None


def differ(a: Array, i: Slots, b: Array, j: Slots) -> Bools:
    """Return for each pair of slot `i` of `a` and slot `j` of `b` whether their values differ. In numpy.

    Types must be `alike`; the rules are those of `difference`.

    Raises
    ------
    LimitError
        The slots stand for far more values than they take bytes (`check_expansion`).
    """
    for side in (a, b):
        check_expansion(side)
    parts = [np.zeros(0, np.bool_)]
    for start in range(0, len(i), _CHUNK_SLOTS):
        stop = start + _CHUNK_SLOTS
        parts.append(_differs(a, i[start:stop], b, j[start:stop]))
    return np.concatenate(parts)


def _shown(array: Array, slot: int) -> str:
    shown = repr(array.slice(slot, 1).to_pylist()[0])
    return shown if len(shown) <= _LONGEST_VALUE else f"{shown[:_LONGEST_VALUE]}..."


# Types without their encoding


def alike(type_: t.DataType) -> t.DataType:
    """Return one type for all encodings of the same values, without names and nullability."""
    return _ALIKE.get(type(type_), _as_is)(type_)


def _as_is(type_: t.DataType) -> t.DataType:
    return type_


def _bare(field: t.Field) -> t.Field:
    return t.Field("", alike(field.type))


def _bare_union(type_: t.SparseUnion | t.DenseUnion) -> t.DataType:
    return replace(type_, fields=tuple(map(_bare, type_.fields)))


def _bare_list(type_: t.DataType) -> t.DataType:
    return t.List(_bare(type_.children[0]))


def _bare_bytes(type_: t.DataType) -> t.DataType:
    return t.utf8 if type(type_) in t.UTF8_CLASSES else t.binary


_ALIKE: Mapping[type[t.DataType], Callable[[Any], t.DataType]] = {
    **by_type(
        {
            Family.BINARY: _bare_bytes,
            Family.VIEW: _bare_bytes,
            Family.LIST: _bare_list,
            Family.LIST_VIEW: _bare_list,
            Family.FIXED_SIZE_LIST: lambda type_: replace(type_, value=_bare(type_.value)),
            Family.STRUCT: lambda type_: t.Struct(tuple(map(_bare, type_.fields))),
            Family.SPARSE_UNION: _bare_union,
            Family.DENSE_UNION: _bare_union,
            Family.RUN_END_ENCODED: lambda type_: alike(type_.values.type),
            Family.DICTIONARY: lambda type_: alike(type_.value),
        }
    ),
    t.Map: lambda type_: t.Map(_bare(type_.entries), keys_sorted=False),
}
"""The type without its encoding, for the families that have one; all others stay as they are."""


# Pairs of slots


def _differs(a: Array, i: Slots, b: Array, j: Slots) -> Bools:
    """Return True for each pair of slot `i` of `a` and slot `j` of `b` that differs."""
    a, i, a_null = _decoded(a, i)
    b, j, b_null = _decoded(b, j)
    differs: Bools = a_null != b_null
    both = np.flatnonzero(~(a_null | b_null))
    if len(both):
        of_values = VALUES[type(a.type)]
        differs[both] = of_values(a, i, b, j) if len(both) == len(i) else of_values(a, i[both], b, j[both])
    return differs


def _decoded(array: Array, slots: Slots) -> tuple[Array, Slots, Bools]:
    """Follow dictionaries and runs: return the array of the values, their slots in it, and a mask of nulls."""
    null = _null(array, slots)
    while isinstance(array.type, t.Dictionary | t.RunEndEncoded):
        if isinstance(array.type, t.Dictionary):
            assert array.dictionary is not None
            indices = numpy_views.data_values(array)[slots]
            array, slots = array.dictionary, np.where(null, 0, indices).astype(np.int64)
            if not array.length:
                return array, slots, null
        else:
            ends = numpy_views.data_values(array.children[0])
            slots = np.searchsorted(ends, slots + array.offset, "right").astype(np.int64)
            array = array.children[1]
        null = null | _null(array, slots)
    return array, slots, null


def _null(array: Array, slots: Slots) -> Bools:
    if isinstance(array.type, t.Null):
        return np.ones(len(slots), np.bool_)
    if array.validity is None or not len(slots):
        return np.zeros(len(slots), np.bool_)
    low = int(slots.min())
    mask = numpy_views.validity_mask(array, low, int(slots.max()) + 1)
    return np.zeros(len(slots), np.bool_) if mask is None else ~mask[slots - low]


def _bits(a: Array, i: Slots, b: Array, j: Slots) -> Bools:
    differs: Bools = _bits_of(a, i) != _bits_of(b, j)
    return differs


def _bits_of(array: Array, slots: Slots) -> Bools:
    data = array.buffers[1]
    assert data is not None
    low, high = int(slots.min()), int(slots.max())
    # Not `data_values` of a slice: making the slice takes longer than unpacking a few hundred bits.
    return bitmap.unpack(data, array.offset + low, high + 1 - low)[slots - low]


def _numbers(a: Array, i: Slots, b: Array, j: Slots) -> Bools:
    unequal: Bools = numpy_views.data_values(a)[i] != numpy_views.data_values(b)[j]
    differs: Bools = unequal if unequal.ndim == 1 else np.logical_or.reduce(unequal, axis=1)
    return differs


def _floats(a: Array, i: Slots, b: Array, j: Slots) -> Bools:
    x, y = numpy_views.data_values(a)[i], numpy_views.data_values(b)[j]
    bits = np.dtype(f"u{x.itemsize}")
    differs: Bools = (x.view(bits) != y.view(bits)) & ~(np.isnan(x) & np.isnan(y))
    return differs


def _texts(a: Array, i: Slots, b: Array, j: Slots) -> Bools:
    a_bytes, a_start, a_size = _LOCATED[type(a.type)](a, i)
    b_bytes, b_start, b_size = _LOCATED[type(b.type)](b, j)
    return _unequal_ranges(a_size, b_size, lambda pair, k: a_bytes[a_start[pair] + k] != b_bytes[b_start[pair] + k])


def _located_bytes(array: Array, slots: Slots) -> tuple[NDArray, Slots, Slots]:
    offsets = numpy_views.value_offsets(array)
    start, stop = offsets[slots].astype(np.int64), offsets[slots + 1].astype(np.int64)
    return numpy_views.value_bytes(array), start, stop - start


def _located_views(array: Array, slots: Slots) -> tuple[NDArray, Slots, Slots]:
    """Return the views, followed by the bytes of the long values, and the place of each value in them."""
    views = np.ascontiguousarray(numpy_views.views(array)[slots])
    size = views["size"].astype(np.int64)
    long = size > numpy_views.VIEW_INLINE_NBYTES
    start = np.arange(len(slots)) * views.itemsize + 4
    pieces, total = [views.view(np.uint8)], views.nbytes
    for number in np.unique(views["index"][long]):
        own = np.flatnonzero(long & (views["index"] == number))
        where = views["offset"][own].astype(np.int64)
        low, high = int(where.min()), int((where + size[own]).max())
        pieces.append(numpy_views.byte_values(array.buffers[2 + number])[low:high])
        start[own] = total + where - low
        total += high - low
    return np.concatenate(pieces), start, size


_LOCATED = by_type({Family.BINARY: _located_bytes, Family.VIEW: _located_views})
"""From slots to bytes, the start of each value in them, and its size."""


def _unequal_ranges(a_size: Slots, b_size: Slots, unequal: Callable[[Slots, Slots], Bools]) -> Bools:
    """Return True for each pair of ranges that differs, in size or in an element.

    Parameters
    ----------
    a_size, b_size
        The number of elements of each range.
    unequal
        From numbers of pairs, and of elements in their ranges, to True for each element that differs.
    """
    differs: Bools = a_size != b_size
    size = np.where(differs, 0, a_size)
    total = np.cumsum(size)
    start = 0
    while start < len(size):
        # Bounds the elements compared at once, but takes at least one pair.
        done = int(total[start - 1]) if start else 0
        stop = max(int(np.searchsorted(total, done + 16 * _CHUNK_SLOTS, "right")), start + 1)
        own = size[start:stop]
        if own.any():
            pair = np.repeat(np.arange(start, stop), own)
            element = np.arange(int(own.sum())) - np.repeat(np.cumsum(own) - own, own)
            differs[pair[unequal(pair, element)]] = True
        start = stop
    return differs


def _lists(a: Array, i: Slots, b: Array, j: Slots) -> Bools:
    a_start, a_size = _ELEMENTS[type(a.type)](a, i)
    b_start, b_size = _ELEMENTS[type(b.type)](b, j)
    ours, theirs = a.children[0], b.children[0]
    return _unequal_ranges(a_size, b_size, lambda pair, k: _differs(ours, a_start[pair] + k, theirs, b_start[pair] + k))


def _list_elements(array: Array, slots: Slots) -> tuple[Slots, Slots]:
    offsets = numpy_views.value_offsets(array)
    start = offsets[slots].astype(np.int64)
    return start, offsets[slots + 1] - start


def _list_view_elements(array: Array, slots: Slots) -> tuple[Slots, Slots]:
    start, sizes = numpy_views.positions(array)[slots], numpy_views.sizes(array)[slots]
    return start.astype(np.int64), sizes.astype(np.int64)


def _fixed_size_list_elements(array: Array, slots: Slots) -> tuple[Slots, Slots]:
    assert isinstance(array.type, t.FixedSizeList)
    size = array.type.list_size
    return (array.offset + slots) * size, np.full(len(slots), size, np.int64)


_ELEMENTS = by_type(
    {
        Family.LIST: _list_elements,
        Family.LIST_VIEW: _list_view_elements,
        Family.FIXED_SIZE_LIST: _fixed_size_list_elements,
    }
)
"""From slots to the start of their elements in the child, and their number."""


def _structs(a: Array, i: Slots, b: Array, j: Slots) -> Bools:
    differs = np.zeros(len(i), np.bool_)
    for ours, theirs in zip(a.children, b.children, strict=True):
        differs |= _differs(ours, a.offset + i, theirs, b.offset + j)
    return differs


def _unions(a: Array, i: Slots, b: Array, j: Slots) -> Bools:
    assert isinstance(a.type, t.SparseUnion | t.DenseUnion)
    ids, other = numpy_views.type_ids(a)[i], numpy_views.type_ids(b)[j]
    differs: Bools = ids != other
    a_where, b_where = _selected(a, i), _selected(b, j)
    for type_id, ours, theirs in zip(a.type.type_ids, a.children, b.children, strict=True):
        own = np.flatnonzero((ids == type_id) & ~differs)
        if len(own):
            differs[own] = _differs(ours, a_where[own], theirs, b_where[own])
    return differs


def _selected(array: Array, slots: Slots) -> Slots:
    """Return the slot that each slot of a union selects in its child."""
    if isinstance(array.type, t.DenseUnion):
        return numpy_views.positions(array)[slots].astype(np.int64)
    return array.offset + slots


def _never(_: Array, i: Slots, __: Array, ___: Slots) -> Bools:
    """Compare slots of families that never get here: nulls, and those that `_decoded` replaces."""
    return np.zeros(len(i), np.bool_)


VALUES: Mapping[type[t.DataType], Callable[[Array, Slots, Array, Slots], Bools]] = {
    **by_type(
        {
            Family.NULL: _never,
            Family.BITS: _bits,
            Family.FIXED_WIDTH: _numbers,
            Family.BINARY: _texts,
            Family.VIEW: _texts,
            Family.LIST: _lists,
            Family.LIST_VIEW: _lists,
            Family.FIXED_SIZE_LIST: _lists,
            Family.STRUCT: _structs,
            Family.SPARSE_UNION: _unions,
            Family.DENSE_UNION: _unions,
            Family.RUN_END_ENCODED: _never,
            Family.DICTIONARY: _never,
        }
    ),
    t.FloatingPoint: _floats,
}
"""Compares pairs of slots that are not null, by layout family; floating point has a row because NaN equals NaN."""
