"""Compare arrays by value, in pairs of slots or slot by slot, and describe the first difference.

How it works
------------
Two equally long arrays of slot numbers, one for each side, are the pairs to compare. A type of fixed width needs one gather
on each side. A nested type maps the pairs of its slots to pairs of slots of its children, compares these, and combines the
results. So no array is rebuilt, although one side may be sliced, or have another layout or another order of dictionary
values than the other side. Bytes are compared eight at a time.

Nulls are equal to each other, whatever the buffers hold under them. NaN equals NaN; apply `as_bits` to compare
their bits.
0.0 and -0.0 differ, because a file that turns one into the other has changed data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.arrow import array_data
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array_data import ArrayData
from spark_arrow_ipc.arrow.layout import Family, by_type
from spark_arrow_ipc.arrow.measure import check_expansion
from spark_arrow_ipc.arrow.unseen import tolerate_unseen
from spark_arrow_ipc.errors import cut_repr

if TYPE_CHECKING:
    from spark_arrow_ipc.arrow.array import Array


Slots: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Words: TypeAlias = npt.NDArray[np.uint64]
NDArray: TypeAlias = npt.NDArray[Any]

_A = TypeVar("_A", bound=ArrayData)

CHUNK_SLOTS = 1 << 14
"""Pairs of top-level slots compared at once: temporaries stay small, and `difference` stops early."""

WORD_NBYTES = 8
FEW_WORDS = 8
"""So many first words of strings are compared in turn, each word of all strings at once."""

# By a number of bytes: the mask of the first bytes of a word
_MASKS = np.array([2 ** (8 * nbytes) - 1 for nbytes in range(WORD_NBYTES + 1)], np.uint64)


@tolerate_unseen
def differ(a: ArrayData, i: Slots, b: ArrayData, j: Slots) -> Bools:
    """Return, for each pair of slot `i` of `a` and slot `j` of `b`, True if the values differ. Vectorised.

    Types must be `alike`. LimitError if the slots stand for far more values than they take bytes (`check_expansion`).
    """
    for side in (a, b):
        check_expansion(side)
    # An empty part first: `concatenate` needs at least one.
    parts = [np.zeros(0, np.bool_)]
    for start in range(0, len(i), CHUNK_SLOTS):
        stop = start + CHUNK_SLOTS
        parts.append(differs(a, i[start:stop], b, j[start:stop]))
    return np.concatenate(parts)


def as_bits(array: _A) -> _A:
    """Return an array whose floats, at every depth, are unsigned integers of the same bits. O(fields), no copy."""
    type_ = array.type
    return replace(
        array,
        type=t.Int(type_.bit_width, signed=False) if isinstance(type_, t.FloatingPoint) else type_,
        children=tuple(map(as_bits, array.children)),
        dictionary=None if array.dictionary is None else as_bits(array.dictionary),
    )


def words_at(region: npt.NDArray[np.uint8], starts: Slots, nbytes: Slots) -> Words:
    """Return the eight bytes at each start as one number; all after the first `nbytes` (at least 1) are zeros."""
    if len(region) < WORD_NBYTES:  # a region needs at least one window
        region = np.concatenate([region, np.zeros(WORD_NBYTES, np.uint8)])
    last = len(region) - WORD_NBYTES
    # A window at each byte: one gather reads the words of all starts, aligned or not.
    windows = np.ndarray(last + 1, "V8", region.data, 0, strides=(1,))
    # A start near the end has no window: the last window has its bytes, and they are shifted down.
    beyond = starts - last
    if (beyond > 0).any():
        np.maximum(beyond, 0, out=beyond)
        words: Words = windows[starts - beyond].view("<u8").astype(np.uint64, copy=False)
        words >>= (beyond << 3).view(np.uint64)
    else:
        words = windows[starts].view("<u8").astype(np.uint64, copy=False)
    if (nbytes < WORD_NBYTES).any():
        words &= _MASKS[np.minimum(nbytes, WORD_NBYTES)]
    return words


def ranges_in_pieces(sizes: Slots) -> Iterator[tuple[int, int, Slots, Slots, Slots]]:
    """Yield the elements of ranges, a quarter of a million at a time.

    A piece is the number of its first range, the number after its last range, its number of elements from each range,
    and two arrays with an item for each element: the number of its range, and its position in that range.
    """
    # A piece may end inside a range, so that one long range needs no more memory than many short ones.
    stops = np.cumsum(sizes)
    count = int(stops[-1]) if len(sizes) else 0
    for begin in range(0, count, 16 * CHUNK_SLOTS):
        end = min(begin + 16 * CHUNK_SLOTS, count)
        first, behind = int(np.searchsorted(stops, begin, "right")), int(np.searchsorted(stops, end)) + 1
        starts = stops[first:behind] - sizes[first:behind]
        lengths = np.minimum(stops[first:behind], end) - np.maximum(starts, begin)
        of_range = np.repeat(np.arange(first, behind), lengths)
        yield first, behind, lengths, of_range, np.arange(begin, end) - np.repeat(starts, lengths)


def differs(a: ArrayData, i: Slots, b: ArrayData, j: Slots) -> Bools:
    """Return the result of `differ` without chunks; the caller has called `check_expansion`."""
    a, i, a_null = resolve_encoding(a, i)
    b, j, b_null = resolve_encoding(b, j)
    differing: Bools = a_null != b_null
    both = np.flatnonzero(~(a_null | b_null))
    if len(both):
        of_values = VALUES[type(a.type)]
        differing[both] = of_values(a, i, b, j) if len(both) == len(i) else of_values(a, i[both], b, j[both])
    return differing


def resolve_encoding(array: ArrayData, slots: Slots) -> tuple[ArrayData, Slots, Bools]:
    """Follow dictionaries and runs to the values; return their array, the slots in it, and a mask of nulls."""
    null = null_slots(array, slots)
    while isinstance(array.type, t.Dictionary | t.RunEndEncoded):
        if isinstance(array.type, t.Dictionary):
            assert array.dictionary is not None
            indices = array_data.data_values(array)[slots]
            array, slots = (
                array.dictionary,
                np.where(null, 0, indices).astype(np.int64),
            )  # a null slot may have any index
            if not array.length:
                return array, slots, null
        else:
            ends = array_data.data_values(array.children[0])
            slots = np.searchsorted(ends, slots + array.offset, "right").astype(np.int64)
            array = array.children[1]
        null = null | null_slots(array, slots)
    return array, slots, null


def null_slots(array: ArrayData, slots: Slots) -> Bools:
    """Return True for each slot that is null in the array's own validity bitmap."""
    if isinstance(array.type, t.Null):
        return np.ones(len(slots), np.bool_)
    if array.validity is None or not len(slots):
        return np.zeros(len(slots), np.bool_)
    # Only the bits from the least to the greatest slot are unpacked.
    low = int(slots.min())
    mask = array_data.validity_mask(array, low, int(slots.max()) + 1)
    return np.zeros(len(slots), np.bool_) if mask is None else ~mask[slots - low]


def _bits_of(array: ArrayData, slots: Slots) -> Bools:
    data = array.buffers[1]
    assert data is not None
    low, high = int(slots.min()), int(slots.max())
    # Not `data_values` of a slice: making the slice takes longer than unpacking a few hundred bits.
    return array_data.unpack_bits(data, array.offset + low, high + 1 - low)[slots - low]


def _numbers(a: ArrayData, i: Slots, b: ArrayData, j: Slots) -> Bools:
    unequal: Bools = array_data.data_values(a)[i] != array_data.data_values(b)[j]
    differing: Bools = unequal if unequal.ndim == 1 else np.logical_or.reduce(unequal, axis=1)
    return differing


def _floats(a: ArrayData, i: Slots, b: ArrayData, j: Slots) -> Bools:
    x, y = array_data.data_values(a)[i], array_data.data_values(b)[j]
    # By their bits, so that 0.0 and -0.0 differ.
    bits = np.dtype(f"u{x.itemsize}")
    differing: Bools = (x.view(bits) != y.view(bits)) & ~(np.isnan(x) & np.isnan(y))
    return differing


def _texts(a: ArrayData, i: Slots, b: ArrayData, j: Slots) -> Bools:
    a_bytes, a_start, size = LOCATED[type(a.type)](a, i)
    b_bytes, b_start, b_size = LOCATED[type(b.type)](b, j)
    differing: Bools = size != b_size
    pairs = np.flatnonzero(~differing)

    def unequal(pair: Slots, word: Slots | int) -> Bools:
        done = word * WORD_NBYTES
        left = size[pair] - done
        apart: Bools = words_at(a_bytes, a_start[pair] + done, left) != words_at(b_bytes, b_start[pair] + done, left)
        return apart

    # The first words of all strings together; only pairs that are longer and equal so far are expanded to their words.
    for word in range(FEW_WORDS):
        pairs = pairs[(size[pairs] > word * WORD_NBYTES) & ~differing[pairs]]
        if not len(pairs):
            return differing
        differing[pairs] = unequal(pairs, word)
    words = (size[pairs] + WORD_NBYTES - 1 >> 3) - FEW_WORDS
    words[differing[pairs]] = 0
    differing[pairs] |= _unequal_ranges(words, words, lambda pair, word: unequal(pairs[pair], word + FEW_WORDS))
    return differing


def _locate_bytes(array: ArrayData, slots: Slots) -> tuple[NDArray, Slots, Slots]:
    offsets = array_data.value_offsets(array)
    start, stop = offsets[slots].astype(np.int64), offsets[slots + 1].astype(np.int64)
    return array_data.value_bytes(array), start, stop - start


def _locate_views(array: ArrayData, slots: Slots) -> tuple[NDArray, Slots, Slots]:
    """Return the views followed by the bytes of long values, and the start and size of each value in these bytes."""
    views = np.ascontiguousarray(array_data.views(array)[slots])
    size = views["size"].astype(np.int64)
    long = size > array_data.VIEW_INLINE_NBYTES
    start = np.arange(len(slots)) * views.itemsize + 4  # an inline value follows the size, of 4 bytes
    pieces, total = [views.view(np.uint8)], views.nbytes
    for number in np.unique(views["index"][long]):
        members = np.flatnonzero(long & (views["index"] == number))
        where = views["offset"][members].astype(np.int64)
        low, high = int(where.min()), int((where + size[members]).max())
        pieces.append(array_data.byte_values(array.buffers[2 + number])[low:high])
        start[members] = total + where - low
        total += high - low
    return np.concatenate(pieces), start, size


LOCATED = by_type({Family.BINARY: _locate_bytes, Family.VIEW: _locate_views})
"""From slots to bytes, the start of each value in them, and its size."""


def _unequal_ranges(a_size: Slots, b_size: Slots, unequal: Callable[[Slots, Slots], Bools]) -> Bools:
    """Return True for each pair of ranges that differs, in size or in an element.

    `unequal` takes the numbers of pairs, and of elements within their ranges; it returns True for elements that differ.
    """
    differing: Bools = a_size != b_size
    # Ranges of unequal sizes get no elements to compare.
    for *_, pair, element in ranges_in_pieces(np.where(differing, 0, a_size)):
        if len(pair):
            differing[pair[unequal(pair, element)]] = True
    return differing


def _lists(a: ArrayData, i: Slots, b: ArrayData, j: Slots) -> Bools:
    a_start, a_size = ELEMENTS[type(a.type)](a, i)
    b_start, b_size = ELEMENTS[type(b.type)](b, j)
    ours, theirs = a.children[0], b.children[0]
    return _unequal_ranges(a_size, b_size, lambda pair, k: differs(ours, a_start[pair] + k, theirs, b_start[pair] + k))


def _list_elements(array: ArrayData, slots: Slots) -> tuple[Slots, Slots]:
    offsets = array_data.value_offsets(array)
    start = offsets[slots].astype(np.int64)
    return start, offsets[slots + 1] - start


def _list_view_elements(array: ArrayData, slots: Slots) -> tuple[Slots, Slots]:
    start, sizes = array_data.positions(array)[slots], array_data.sizes(array)[slots]
    return start.astype(np.int64), sizes.astype(np.int64)


def _fixed_size_list_elements(array: ArrayData, slots: Slots) -> tuple[Slots, Slots]:
    assert isinstance(array.type, t.FixedSizeList)
    size = array.type.list_size
    return (array.offset + slots) * size, np.full(len(slots), size, np.int64)


ELEMENTS = by_type(
    {
        Family.LIST: _list_elements,
        Family.LIST_VIEW: _list_view_elements,
        Family.FIXED_SIZE_LIST: _fixed_size_list_elements,
    }
)
"""From slots to the start of their elements in the child, and their number."""


def _structs(a: ArrayData, i: Slots, b: ArrayData, j: Slots) -> Bools:
    differing = np.zeros(len(i), np.bool_)
    for ours, theirs in zip(a.children, b.children, strict=True):
        differing |= differs(ours, a.offset + i, theirs, b.offset + j)
    return differing


def _unions(a: ArrayData, i: Slots, b: ArrayData, j: Slots) -> Bools:
    assert isinstance(a.type, t.SparseUnion | t.DenseUnion)
    ids, other = array_data.type_ids(a)[i], array_data.type_ids(b)[j]
    differing: Bools = ids != other
    a_where, b_where = member_slots(a, i), member_slots(b, j)
    for type_id, ours, theirs in zip(a.type.type_ids, a.children, b.children, strict=True):
        members = np.flatnonzero((ids == type_id) & ~differing)
        if len(members):
            differing[members] = differs(ours, a_where[members], theirs, b_where[members])
    return differing


def member_slots(array: ArrayData, slots: Slots) -> Slots:
    """Return the slot that each slot of a union selects in its child."""
    if isinstance(array.type, t.DenseUnion):
        return array_data.positions(array)[slots].astype(np.int64)
    return array.offset + slots


def _never(_: ArrayData, i: Slots, __: ArrayData, ___: Slots) -> Bools:
    """Reject no pair: null slots never get here, nor dictionaries and runs, which `resolve_encoding` replaces."""
    return np.zeros(len(i), np.bool_)


VALUES: Mapping[type[t.DataType], Callable[[ArrayData, Slots, ArrayData, Slots], Bools]] = {
    **by_type(
        {
            Family.NULL: _never,
            Family.BITS: lambda a, i, b, j: _bits_of(a, i) != _bits_of(b, j),
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


_LONGEST_VALUE = 200  # characters of a value that a description shows


@tolerate_unseen
def difference(a: Array, b: Array, path: str = "", *, types: bool = True) -> str | None:
    """Describe the first difference between two sound arrays, or return None if they are equal by value.

    Vectorised, except for the description. With `types=False`, types may differ in encoding (dictionaries, runs,
    views, the width of value offsets) and in the names and nullability of nested fields.
    LimitError if the slots stand for far more values than they take bytes (`check_expansion`).
    """
    where = f"{path}: " if path else ""
    same_types = a.type == b.type if types else alike(a.type) == alike(b.type)
    if not same_types:
        return f"{where}the types are {a.type} and {b.type}"
    if a.length != b.length:
        return f"{where}there are {a.length} and {b.length} slots"
    for side in (a, b):
        check_expansion(side)
    for start in range(0, a.length, CHUNK_SLOTS):
        slots = np.arange(start, min(start + CHUNK_SLOTS, a.length))
        unequal = differs(a, slots, b, slots)
        if unequal.any():
            slot = start + int(unequal.argmax())
            ours, theirs = (cut_repr(side.slice(slot, 1).to_pylist()[0], _LONGEST_VALUE) for side in (a, b))
            if ours == theirs:  # nulls of two children of a union, or values that differ after the cut
                return f"{where}slot {slot} differs, though both read {ours}"
            return f"{where}slot {slot} is {ours} and {theirs}"
    return None


# Types without their encoding


def alike(type_: t.DataType) -> t.DataType:
    """Return one type for all encodings of the same values, without names and nullability."""
    without_encoding = _ALIKE.get(type(type_))
    return type_ if without_encoding is None else without_encoding(type_)


def _bare(field: t.Field) -> t.Field:
    return t.Field("", alike(field.type))


def _bare_union(type_: t.SparseUnion | t.DenseUnion) -> t.DataType:
    return replace(type_, fields=tuple(map(_bare, type_.fields)))


def _bare_list(type_: t.DataType) -> t.DataType:
    return t.List(_bare(type_.children[0]))


def _bare_bytes(type_: t.DataType) -> t.DataType:
    return t.utf8 if type(type_) in t.UTF8_CLASSES else t.binary


# The type without its encoding; families without a row have one encoding only
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
