"""Rank the slots of an array, and sort rows by columns.

How it works
------------
`ranks` gives each slot a number: equal values have equal numbers, and numbers are in the order of the values. Rows of all
types are then sorted, grouped and matched by integers. Each layout family has one function. Wide decimals compare word by
word. Strings are refined eight bytes at a time: after each round only strings remain that are equal so far and go on.

Numbers, dates and times are integers already, and need no ranks to be sorted. Where the columns to sort by and the position
of a row fit into 64 bits, they become one integer, and sorting these gives the positions in a fifth of the time.

The order is Spark's: null before all values, NaN after all numbers, 0.0 equal to -0.0, strings by their bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.arrow import array_data
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.kernels.concat import concat, concat_batches
from spark_arrow_ipc.arrow.kernels.take import take, take_rows
from spark_arrow_ipc.arrow.layout import Family, by_type
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.unseen import tolerate_unseen
from spark_arrow_ipc.errors import UnsupportedError

_Numbers: TypeAlias = npt.NDArray[Any]
_Slots: TypeAlias = npt.NDArray[np.int64]

_KEY_NBYTES: Final = 8  # bytes of a string that one round compares

_AT_ONCE: Final = 1 << 16  # slots whose distinct values are computed together: many columns soon have too many

_MOST_GAPS: Final = 4  # places of the table for each key; keys that are too far apart for it are sorted


def has_order(type_: t.DataType) -> bool:
    """Return whether `ranks` takes arrays of a type: scalars, and dictionaries and runs with scalar values."""
    if isinstance(type_, t.Dictionary):
        return has_order(type_.value)
    if isinstance(type_, t.RunEndEncoded):
        return has_order(type_.values.type)
    return type(type_) in _RANKS


@tolerate_unseen
def ranks(array: Array) -> _Slots:
    """Return the rank of each slot among all slots, from 0 on; -1 for null. O(n log n), in numpy.

    UnsupportedError if the type has no order.
    """
    if not has_order(array.type):
        raise UnsupportedError(f"values of the type {array.type} have no order")
    return _RANKS[type(array.type)](array)


def sort_rows(columns: Sequence[Array], *, descending: bool = False) -> _Slots:
    """Return the positions of rows in the order of columns, the first one first; equal rows keep their order.

    Null is before all values, or after them if `descending`. UnsupportedError if a type has no order. O(n log n).
    """
    keys = [key for column in columns for key in _sort_keys(column)]
    if descending:
        keys = [~key for key in keys]  # reverses the order of all integers, and cannot overflow as a negation can
    positions = _sort_as_one(keys)
    return np.lexsort(keys[::-1]).astype(np.int64, copy=False) if positions is None else positions


def _sort_keys(column: Array) -> list[_Numbers]:
    """Return integers in the order of the slots, the most significant first."""
    if (
        not has_order(column.type)
        or _RANKS[type(column.type)] is not _primitive
        or isinstance(column.type, t.FixedSizeBinary)
    ):
        return [ranks(column)]
    keys = _keys(array_data.data_values(column))
    valid = array_data.validity_mask(column)
    # The content of a null slot is not compared.
    return keys if valid is None else [valid.view(np.int8), *(key * valid for key in keys)]


def _sort_as_one(keys: Sequence[_Numbers]) -> _Slots | None:
    """Return the positions of rows in the order of several keys; None if keys and position take more than 64 bits."""
    rows = len(keys[0])
    if not rows:
        return np.zeros(0, np.int64)
    leasts = [int(key.min()) for key in keys]
    widths = [(int(key.max()) - least).bit_length() for key, least in zip(keys, leasts, strict=True)]
    position_width = (rows - 1).bit_length()
    if sum(widths) + position_width > 64:
        return None
    packed = np.zeros(rows, np.uint64)
    for key, least, width in zip(keys, leasts, widths, strict=True):
        packed <<= np.uint64(width)
        # Modulo 2**64, so that the distance to the least value is right for signed and unsigned integers.
        packed |= key.astype(np.int64, copy=False).view(np.uint64) - np.uint64(least % 2**64)
    packed <<= np.uint64(position_width)
    packed |= np.arange(rows, dtype=np.uint64)
    packed.sort()
    return (packed & np.uint64((1 << position_width) - 1)).view(np.int64)


def sort_batches(
    batches: Sequence[RecordBatch], columns: Sequence[int], *, descending: bool = False, rows: int
) -> Iterator[RecordBatch]:
    """Yield the rows of all batches in the order of some columns, the first one first, `rows` at a time.

    UnsupportedError if the type of a column has no order, or all rows do not fit value offsets of 32 bits.
    """
    try:
        joined = concat_batches(batches)
    except ValueError as error:
        raise UnsupportedError(f"the rows cannot be sorted together: {error}; split them first") from error
    order = sort_rows([joined.columns[i] for i in columns], descending=descending)
    for start in range(0, max(joined.num_rows, 1), rows):
        yield take_rows(joined, order[start : start + rows])


def distinct(array: Array) -> Array:
    """Return each value of an array once, without null, in order; UnsupportedError if the type has no order."""
    values, first = np.unique(ranks(array), return_index=True)
    return take(array, first[values >= 0].astype(np.int64, copy=False))


class Matches(NamedTuple):
    """Rows of two tables by their keys: pairs of rows in both, and rows of one side only; all rising."""

    in_a: _Slots
    in_b: _Slots
    only_a: _Slots
    only_b: _Slots


def match_rows(a: Sequence[Array], b: Sequence[Array]) -> Matches:
    """Match the rows of two tables by key columns of the same types. O(n log n).

    Null matches null. Of rows with equal keys the first matches the first, the second the second. UnsupportedError if a
    type has no order.
    """
    length = a[0].length
    together = _dense([ranks(concat([ours, theirs])) for ours, theirs in zip(a, b, strict=True)])
    sides = together[:length], together[length:]
    times = [_occurrences(keys) for keys in sides]
    most = 1 + max((int(side.max()) for side in times if len(side)), default=0)
    # A key and its occurrence as one number, so that equal keys match in order.
    codes = [keys * most + time for keys, time in zip(sides, times, strict=True)]
    _, in_a, in_b = np.intersect1d(codes[0], codes[1], assume_unique=True, return_indices=True)
    order = np.argsort(in_a)
    only = [np.setdiff1d(np.arange(len(c)), matched) for c, matched in zip(codes, (in_a, in_b), strict=True)]
    return Matches(in_a[order], in_b[order], *only)


def _occurrences(keys: _Slots) -> _Slots:
    """Return for each key the number of equal ones before it."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])) if len(keys) else np.zeros(0, np.int64)
    before = np.arange(len(keys)) - np.repeat(starts, np.diff(np.append(starts, len(keys))))
    counts = np.empty(len(keys), np.int64)
    counts[order] = before
    return counts


def _rank_valid(array: Array, key: Callable[[_Slots], _Slots]) -> _Slots:
    """Return the ranks of the slots that are not null, and -1 for the others."""
    valid = array_data.validity_mask(array)
    if valid is None:
        return key(np.arange(array.length))
    ranked = np.full(array.length, -1, np.int64)
    slots = np.flatnonzero(valid)
    ranked[slots] = key(slots)
    return ranked


def _dense(keys: Sequence[_Numbers]) -> _Slots:
    """Return the dense rank of each row of several keys, the most significant first."""
    if len(keys) == 1:
        return dense_ranks(keys[0])
    order = np.lexsort(list(reversed(keys)))
    changes = np.zeros(len(order), np.int64)
    for key in keys:
        ordered = key[order]
        changes[1:] |= ordered[1:] != ordered[:-1]
    ranked = np.empty(len(order), np.int64)
    ranked[order] = np.cumsum(changes)
    return ranked


def dense_ranks(keys: _Numbers) -> _Slots:
    """Return the rank of each key among the distinct ones: from 0 on, int64. Keys are integers or booleans."""
    if not len(keys):
        return np.zeros(0, np.int64)
    keys = keys.view(np.uint8) if keys.dtype == np.bool_ else keys
    low, high = keys.min(), keys.max()
    span = int(high) - int(low) + 1
    if span > _MOST_GAPS * len(keys):
        return np.unique(keys, return_inverse=True)[1].astype(np.int64, copy=False)
    # A table of the values that occur takes a fifth of the time of sorting. A difference that overflows is right unsigned.
    places = (keys - low).view(f"u{keys.dtype.itemsize}")
    occurs = np.zeros(span, np.bool_)
    occurs[places] = True
    ranked: _Slots = (np.cumsum(occurs) - 1)[places]
    return ranked


def _primitive(array: Array) -> _Slots:
    values = array_data.data_values(array)
    if isinstance(array.type, t.FixedSizeBinary):
        width = array.type.byte_width
        return _rank_valid(
            array, lambda slots: _strings(values.reshape(-1), slots * width, np.full(len(slots), width, np.int64))
        )
    return _rank_valid(array, lambda slots: _dense(_keys(values[slots])))


def _keys(values: _Numbers) -> list[_Numbers]:
    """Return integers in the order of numbers: one array, or one for each word."""
    names = values.dtype.names
    if names is not None:  # words of a decimal from the highest on; the parts of an interval in their order
        words = sorted(names, reverse=True) if names[0].startswith("w") else names
        return [values[name] for name in words]
    if values.dtype.kind != "f":
        return [values]
    width = values.dtype.itemsize
    bits = array_data.comparable_floats(values).view(f"i{width}")
    # The bits of floats are in order once the bits of negative numbers, except the sign, are inverted.
    sign = np.array(8 * width - 1, bits.dtype)
    return [bits ^ ((bits >> sign) & np.array(np.iinfo(bits.dtype).max, bits.dtype))]


def _binary(array: Array) -> _Slots:
    offsets = array_data.value_offsets(array).astype(np.int64, copy=False)
    region = array_data.value_bytes(array)
    return _rank_valid(array, lambda slots: _strings(region, offsets[slots], offsets[slots + 1] - offsets[slots]))


def _views(array: Array) -> _Slots:
    def key(slots: _Slots) -> _Slots:
        views = array_data.views(array)[slots]
        inline = np.frombuffer(views.tobytes(), np.uint8)
        regions = [inline, *(array_data.byte_values(buffer) for buffer in array.buffers[2:])]
        begins = np.cumsum([len(region) for region in regions], dtype=np.int64)
        lengths = views["size"].astype(np.int64)
        is_long = lengths > array_data.VIEW_INLINE_NBYTES
        starts = np.arange(len(views), dtype=np.int64) * array_data.VIEW.itemsize + 4
        starts = np.where(is_long, begins[np.where(is_long, views["index"], 0)] + views["offset"], starts)
        return _strings(np.concatenate(regions), starts, lengths)

    return _rank_valid(array, key)


def _strings(region: _Numbers, starts: _Slots, lengths: _Slots) -> _Slots:
    """Return the ranks of strings in a region of bytes. O(n log n) a round, for the strings that are still equal."""
    ranks = np.zeros(len(starts), np.int64)  # the number of strings that are less, by the bytes compared so far
    pending = np.arange(len(starts))
    padded = np.concatenate([region, np.zeros(_KEY_NBYTES, np.uint8)])
    windows = np.ndarray(len(padded) - _KEY_NBYTES + 1, "V8", padded.data, 0, strides=(1,))
    done = 0
    while len(pending):
        lengths_here = np.clip(lengths[pending] - done, 0, _KEY_NBYTES)
        where = np.where(lengths_here > 0, starts[pending] + done, 0)
        keys = windows[where].view("<u8").byteswap()  # big-endian words are in the order of their bytes
        # Bytes after the end of a string become zeros; a length less than another one decides between "a" and "a\0".
        unused = (8 * (_KEY_NBYTES - lengths_here)).astype(np.uint64)
        keys = np.where(lengths_here > 0, keys >> unused % 64 << unused % 64, 0)
        order = np.lexsort((lengths_here, keys, ranks[pending]))
        pending, lengths_here, keys = pending[order], lengths_here[order], keys[order]
        before = ranks[pending]
        new_group = np.append(True, before[1:] != before[:-1])
        new = new_group | np.append(True, (keys[1:] != keys[:-1]) | (lengths_here[1:] != lengths_here[:-1]))
        numbers = np.arange(len(pending))
        first = np.flatnonzero(new)
        sub = np.cumsum(new) - 1
        ranks[pending] = before + first[sub] - np.flatnonzero(new_group)[np.cumsum(new_group) - 1]
        sizes = np.diff(np.append(first, len(numbers)))
        goes_on = np.maximum.reduceat(lengths[pending], first) > done + _KEY_NBYTES
        pending = pending[((sizes > 1) & goes_on)[sub]]
        done += _KEY_NBYTES
    return _dense([ranks])


def _dictionary(array: Array) -> _Slots:
    assert array.dictionary is not None
    of_values = ranks(array.dictionary)
    indices = array_data.data_values(array)
    return _rank_valid(array, lambda slots: of_values[indices[slots]])


def _runs(array: Array) -> _Slots:
    ends = array_data.data_values(array.children[0])
    run = np.searchsorted(ends, np.arange(array.offset, array.offset + array.length), side="right")
    return ranks(array.children[1])[run]


# One function for each layout family whose values have an order
_RANKS: Final[Mapping[type[t.DataType], Callable[[Array], _Slots]]] = by_type(
    {
        Family.NULL: lambda array: np.full(array.length, -1, np.int64),
        Family.BITS: lambda array: _rank_valid(array, lambda slots: _dense([array_data.data_values(array)[slots]])),
        Family.FIXED_WIDTH: _primitive,
        Family.BINARY: _binary,
        Family.VIEW: _views,
        Family.DICTIONARY: _dictionary,
        Family.RUN_END_ENCODED: _runs,
    }
)


class DistinctValues:
    """The distinct values of several arrays of one type, up to a maximum number. Memory: O(most) values."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: Array | None = None
        self.count: int | None = 0  # distinct values so far; None for more than `most`

    def add(self, array: Array) -> None:
        """Add the values of an array, unless it has too many already; UnsupportedError if the type has no order."""
        for start in range(0, array.length, _AT_ONCE):
            if self.count is None:
                return
            values = distinct(array.slice(start, min(_AT_ONCE, array.length - start)))
            if self._known is not None:
                values = distinct(concat([self._known, values]))
            self._known = values
            self.count = values.length
            if self.count > self._most:
                self.count = self._known = None
