"""The memory of an array: its type, length, offset, buffers, children and dictionary; functions for bits, and numpy views.

How it works
------------
Buffers are in the order of `LAYOUTS`. They are byte views (`memoryview`, format ``B``) that keep their owner alive; a slice
copies nothing. The offset counts slots, as in Arrow's C data interface: it applies to the array's own buffers and, for
structs, sparse unions and fixed-size lists, also to the children, which are not sliced themselves.

`arrow.array.Array` is the only subclass. Its methods call functions that take `ArrayData`, so that their modules need not
import `Array`.

In a bitmap the least significant bit is the first (Columnar.rst, "Validity bitmaps"). A bitmap that is too short is a
ValueError here, because callers have compared the sizes of a file before. Bits outside the range may hold anything.

The views (`data_values`, `value_offsets`, `views`, ...) are read-only, respect the array's offset, share the buffer's
memory and accept any alignment. They check only that the slots are inside the buffer; `arrow.validate` checks the values.

`DTYPES` has the dtype of one slot of a DATA buffer, in the byte order of this machine. Wide decimals are structures of
64-bit words named from the least significant on (``w0``, ``w1``, ...), the top word signed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.layout import BIT_WIDTHS, LAYOUTS, Family, Role, by_type
from spark_arrow_ipc.errors import InvalidBodyError

Buffer: TypeAlias = memoryview
"""Bytes of one buffer (format ``B``, one dimension, contiguous)."""

NOT_COUNTED = -1
"""`ArrayData.null_count` of a slice whose nulls are not counted yet; `ArrayData.count_nulls` counts them."""

# Type classes whose first buffer is a validity bitmap
_WITH_VALIDITY: Final = frozenset(type_ for type_, layout in LAYOUTS.items() if layout.has_validity)


@dataclass(frozen=True, slots=True, eq=False)
class ArrayData:
    """Slots of one type.

    Parameters
    ----------
    type
        The logical type.
    length
        Slots, from `offset` on.
    null_count
        Nulls by the validity bitmap, or `NOT_COUNTED`.
    buffers
        The buffers that ``LAYOUTS[type]`` lists, variadic ones last; only a validity bitmap may be None.
    children
        Arrays of ``type.children``, unsliced.
    dictionary
        The values of a `Dictionary` type, otherwise None.
    offset
        Slots to skip in `buffers` (and in the children of struct, sparse union and fixed-size list).
    """

    type: t.DataType
    length: int
    null_count: int
    buffers: tuple[Buffer | None, ...]
    children: tuple[Self, ...] = ()
    dictionary: Self | None = None
    offset: int = 0

    def __init__(  # noqa: PLR0917 - the fields
        self,
        type: t.DataType,  # noqa: A002 - the fields' names
        length: int,
        null_count: int,
        buffers: tuple[Buffer | None, ...],
        children: tuple[Self, ...] = (),
        dictionary: Self | None = None,
        offset: int = 0,
    ) -> None:
        # By the slots' descriptors: half the time of the method that a frozen dataclass generates, and tables are wide.
        set_type, set_length, set_null_count, set_buffers, set_children, set_dictionary, set_offset = _SETTERS
        set_type(self, type)
        set_length(self, length)
        set_null_count(self, null_count)
        set_buffers(self, buffers)
        set_children(self, children)
        set_dictionary(self, dictionary)
        set_offset(self, offset)

    def __len__(self) -> int:
        return self.length

    @property
    def doubt(self) -> Doubt | None:
        """The doubt of a dictionary with an unsound value; None for all other arrays."""
        return None

    @property
    def validity(self) -> Buffer | None:
        """The validity bitmap; None for a layout without one, or if it was left out because no slot is null."""
        return self.buffers[0] if type(self.type) in _WITH_VALIDITY else None

    def count_nulls(self) -> int:
        """Return the number of null slots by the validity bitmap (all slots for `Null`). O(length / 8)."""
        if self.null_count != NOT_COUNTED:
            return self.null_count
        if isinstance(self.type, t.Null):
            return self.length
        validity = self.validity
        return 0 if validity is None else self.length - count_bits(validity, self.offset, self.length)

    def slice(self, offset: int, length: int | None = None) -> Self:
        """Return `length` slots from `offset` on, sharing all memory. O(1).

        Raises
        ------
        IndexError
            The slots are not all inside this array.
        """
        length = self.length - offset if length is None else length
        if offset < 0 or length < 0 or offset + length > self.length:
            raise IndexError(f"expected slots within 0 to {self.length}, found {offset} to {offset + length}")
        if offset == 0 and length == self.length:
            return self
        # A slice must not read the bitmap, which takes O(length): its nulls are counted on demand.
        unsliced_nulls = length if isinstance(self.type, t.Null) else 0 if self.null_count == 0 else NOT_COUNTED
        return replace(self, length=length, null_count=unsliced_nulls, offset=self.offset + offset)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.type}, {self.length:,} slots, {self.count_nulls():,} null>"


class Doubt:
    """The error of a dictionary's value, with a budget of bytes to check for rows that use other values."""

    def __init__(self, error: InvalidBodyError) -> None:
        self.error = error
        self._left = _MOST_DOUBTED_NBYTES

    def spend(self, values: ArrayData) -> None:
        """Count another check of the values; raise the error once the budget is spent."""
        self._left -= _held_nbytes(values)
        if self._left < 0:
            raise self.error


# Each batch checks such a dictionary again: a large one and many tiny batches must not take hours
_MOST_DOUBTED_NBYTES: Final = 1 << 32

_ARRAY_NBYTES: Final = 1 << 16  # bytes that are checked in about the time that an array takes, however short it is


def _held_nbytes(array: ArrayData) -> int:
    inner = array.children if array.dictionary is None else (*array.children, array.dictionary)
    return _ARRAY_NBYTES + sum(buffer.nbytes for buffer in array.buffers if buffer) + sum(map(_held_nbytes, inner))


_SETTERS: Final = tuple(getattr(ArrayData, field.name).__set__ for field in fields(ArrayData))

_Bytes: TypeAlias = memoryview | bytes | bytearray

# From this many bytes on numpy counts faster than Python's integers (measured: both take 2.5 us here)
_WORDS_FROM = 4096


def count_bits(buf: _Bytes, offset: int, length: int) -> int:
    """Count the set bits among `length` bits from bit `offset` on; ValueError for fewer bits. O(length / 64)."""
    if length <= 0:
        return 0
    region = _region(buf, offset, length)
    nbytes = len(region)
    if nbytes < _WORDS_FROM:
        count = int.from_bytes(region, "little").bit_count()
    else:
        whole_words_nbytes = nbytes & ~7
        words = np.frombuffer(region, np.uint64, whole_words_nbytes >> 3)
        count = int(np.bitwise_count(words).sum(dtype=np.int64))
        count += int.from_bytes(region[whole_words_nbytes:], "little").bit_count()
    # Complete bytes were counted: subtract the bits before and after the range.
    before = offset & 7
    after = 8 * nbytes - before - length
    return count - (region[0] & ((1 << before) - 1)).bit_count() - (region[-1] >> (8 - after)).bit_count()


def unpack_bits(buf: _Bytes, offset: int, length: int) -> npt.NDArray[np.bool_]:
    """Return `length` bits from bit `offset` on as booleans, a copy; ValueError if the buffer has fewer."""
    if length <= 0:
        return np.zeros(0, np.bool_)
    before = offset & 7
    packed = np.frombuffer(_region(buf, offset, length), np.uint8)
    bits = np.unpackbits(packed, count=before + length, bitorder="little")
    return bits[before:].view(np.bool_)


def pack_bits(bools: npt.ArrayLike) -> memoryview:
    """Return booleans as a bitmap; unused bits of the last byte are zero."""
    return np.packbits(np.asarray(bools, np.bool_), bitorder="little").data


def slice_bits(buf: _Bytes, offset: int, length: int) -> memoryview:
    """Return a bitmap whose bit 0 is bit `offset`, of ``ceil(length / 8)`` bytes; ValueError if `buf` ends before.

    A view of `buf` where `offset` is a multiple of 8, with the unused bits of the last byte as in `buf`; otherwise a copy,
    in which they are zero.
    """
    if length <= 0:
        return memoryview(b"")
    region = _region(buf, offset, length)
    shift = offset & 7
    if shift == 0:
        return region
    nbytes = (length + 7) >> 3
    packed = np.frombuffer(region, np.uint8)
    shifted = packed[:nbytes] >> shift
    carried = packed[1 : nbytes + 1] << (8 - shift)
    shifted[: len(carried)] |= carried  # the last byte has no successor if the range ends inside the region's last one
    shifted[-1] &= 0xFF >> (8 * nbytes - length)
    return shifted.data


def _region(buf: _Bytes, offset: int, length: int) -> memoryview:
    start, stop = offset >> 3, (offset + length + 7) >> 3
    view = memoryview(buf)
    if offset < 0 or stop > view.nbytes:
        raise ValueError(f"expected a bitmap of at least {stop} bytes, found {view.nbytes}")
    return view[start:stop]


NDArray = npt.NDArray[Any]

VIEW = np.dtype([("size", np.int32), ("prefix", "V4"), ("index", np.int32), ("offset", np.int32)])
"""One view of 16 bytes. A value of up to `VIEW_INLINE_NBYTES` is in the view itself, after the size."""

VIEW_INLINE_NBYTES = 12
"""Longest value, in bytes, that the view itself contains (Columnar.rst, "Variable-size Binary View Layout")."""

DAY_TIME = np.dtype([("days", np.int32), ("milliseconds", np.int32)])
"""One day-time interval."""

MONTH_DAY_NANO = np.dtype([("months", np.int32), ("days", np.int32), ("nanoseconds", np.int64)])
"""One month-day-nano interval."""


def _words(count: int) -> np.dtype[Any]:
    fields = [(f"w{i}", np.int64 if i == count - 1 else np.uint64) for i in range(count)]
    # In the order of memory, where names count from the low word
    return np.dtype(fields if sys.byteorder == "little" else fields[::-1])


_INTS = {
    (bit_width, signed): np.dtype(f"{'i' if signed else 'u'}{bit_width // 8}")
    for bit_width in (8, 16, 32, 64)
    for signed in (True, False)
}
_FLOATS = tuple(np.dtype(name) for name in ("f2", "f4", "f8"))
_DECIMALS: Mapping[int, np.dtype[Any]] = {32: np.dtype("i4"), 64: np.dtype("i8"), 128: _words(2), 256: _words(4)}
_SIGNED = {bit_width: _INTS[bit_width, True] for bit_width in (8, 16, 32, 64)}


DTYPES: Mapping[type[t.DataType], Callable[[Any], np.dtype[Any]]] = {
    **dict.fromkeys(
        by_type({Family.FIXED_WIDTH: None}).keys() - {t.FixedSizeBinary},
        lambda type_: _SIGNED[BIT_WIDTHS[type(type_)](type_)],
    ),
    t.Int: lambda type_: _INTS[type_.bit_width, type_.signed],
    t.FloatingPoint: lambda type_: _FLOATS[type_.precision],
    t.Decimal: lambda type_: _DECIMALS[type_.bit_width],
    t.IntervalDayTime: lambda _: DAY_TIME,
    t.IntervalMonthDayNano: lambda _: MONTH_DAY_NANO,
    t.Dictionary: lambda type_: _INTS[type_.index.bit_width, type_.index.signed],
}
"""One slot of the DATA buffer: a signed integer of the layout's width, if the type has no row of its own.

It has all types with a DATA buffer except `Bool` (bits) and `FixedSizeBinary` (a row of bytes).
"""

_EMPTY = memoryview(b"")


def dtype_of(type_: t.DataType) -> np.dtype[Any]:
    """Return the dtype of one slot of the DATA buffer of a type that has a row in `DTYPES`; TypeError for any other."""
    row = DTYPES.get(type(type_))
    if row is None:
        raise TypeError(f"expected a type of fixed width, found {type_}")
    return row(type_)


def view_as(buffer: memoryview | None, dtype: npt.DTypeLike, offset: int, length: int) -> NDArray:
    """Return `length` elements from element `offset` on as a read-only view; InvalidBodyError if it ends before."""
    dtype = np.dtype(dtype)
    if length == 0:
        return np.zeros(0, dtype)
    buffer = _EMPTY if buffer is None else buffer
    needed = (offset + length) * dtype.itemsize
    if buffer.nbytes < needed:
        raise InvalidBodyError(expected=f"a buffer of at least {needed:,} bytes", found=f"{buffer.nbytes:,} bytes")
    view = np.frombuffer(buffer, dtype, length, offset * dtype.itemsize)
    view.flags.writeable = False  # the memory may be a mapped file, or belong to another library
    return view


def as_buffer(values: NDArray) -> Buffer:
    """Return the bytes of an array as a buffer (format ``B``), shared where they are contiguous."""
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8).data


def byte_values(buffer: memoryview | None) -> npt.NDArray[np.uint8]:
    """Return all bytes of a buffer as a view; an absent one has none."""
    return np.frombuffer(_EMPTY if buffer is None else buffer, np.uint8)


def buffer_of(array: ArrayData, role: Role) -> memoryview | None:
    """Return the buffer of a role that the layout of the array has."""
    for buffer_layout, buffer in zip(LAYOUTS[type(array.type)].buffers, array.buffers, strict=False):
        if buffer_layout.role is role:
            return buffer
    raise TypeError(f"expected a type with {role.name}, found {array.type}")


def _slots(array: ArrayData, role: Role) -> NDArray:
    layouts = LAYOUTS[type(array.type)].buffers
    bit_width = next((b.bit_width for b in layouts if b.role is role), 0)
    return view_as(buffer_of(array, role), _SIGNED[bit_width], array.offset, array.length)


def data_values(array: ArrayData) -> NDArray:
    """Return the slots of the DATA buffer, null ones with any value.

    Shape ``(length,)`` of `DTYPES`; booleans as a copy; `FixedSizeBinary` as uint8 of shape
    ``(length, byte_width)``; a `Dictionary`'s indices.
    """
    read = _DATA.get(type(array.type))
    if read is not None:
        return read(array)
    return view_as(buffer_of(array, Role.DATA), dtype_of(array.type), array.offset, array.length)


def _rows(array: ArrayData) -> NDArray:
    assert isinstance(array.type, t.FixedSizeBinary)
    width = array.type.byte_width
    flat = view_as(buffer_of(array, Role.DATA), np.uint8, array.offset * width, array.length * width)
    return flat.reshape(array.length, width)


_DATA: Mapping[type[t.DataType], Callable[[ArrayData], NDArray]] = {
    t.Bool: lambda array: unpack_bits(buffer_of(array, Role.DATA) or _EMPTY, array.offset, array.length),
    t.FixedSizeBinary: _rows,
}


def value_offsets(array: ArrayData) -> NDArray:
    """Return the value offsets: int32 or int64, shape ``(length + 1,)``; one zero without slots."""
    number, dtype = _OFFSETS[type(array.type)]
    if array.length == 0:
        return np.zeros(1, dtype)  # the format allows a file to leave it out
    return view_as(array.buffers[number], dtype, array.offset, array.length + 1)


# The number of the buffer of value offsets, and their type
_OFFSETS: Mapping[type[t.DataType], tuple[int, np.dtype[Any]]] = {
    type_: (number, np.dtype(_SIGNED[buffer.bit_width]))
    for type_, layout in LAYOUTS.items()
    for number, buffer in enumerate(layout.buffers)
    if buffer.role is Role.OFFSETS
}


def value_bytes(array: ArrayData) -> npt.NDArray[np.uint8]:
    """Return all bytes of the buffer that value offsets point into: a view."""
    return byte_values(buffer_of(array, Role.BYTES))


def positions(array: ArrayData) -> NDArray:
    """Return the position in the child of each slot of a list-view or dense union: shape ``(length,)``."""
    return _slots(array, Role.POSITIONS)


def sizes(array: ArrayData) -> NDArray:
    """Return the number of elements of each slot of a list-view: shape ``(length,)``."""
    return _slots(array, Role.SIZES)


def type_ids(array: ArrayData) -> NDArray:
    """Return the type id of each slot of a union: int8, shape ``(length,)``."""
    return _slots(array, Role.TYPE_IDS)


def views(array: ArrayData) -> NDArray:
    """Return the views of a `BinaryView` or `Utf8View`: dtype `VIEW`, shape ``(length,)``."""
    return view_as(buffer_of(array, Role.VIEWS), VIEW, array.offset, array.length)


def validity_mask(array: ArrayData, start: int = 0, stop: int | None = None) -> npt.NDArray[np.bool_] | None:
    """Return True for each slot of a range that is not null (none of `Null`), or None without a bitmap or a null."""
    length = (array.length if stop is None else stop) - start
    if isinstance(array.type, t.Null):
        return np.zeros(length, np.bool_)
    validity = array.validity
    if validity is None or array.null_count == 0:
        return None
    return unpack_bits(validity, array.offset + start, length)


def comparable_floats(values: NDArray) -> NDArray:
    """Return floats whose bits are equal where the floats are: with one zero and one NaN, which is positive."""
    # NaNs first: arithmetic with one that is signalling is a RuntimeWarning.
    one_nan = np.where(np.isnan(values), values.dtype.type(np.nan), values)
    return np.asarray(one_nan + values.dtype.type(0))  # -0.0 + 0.0 is 0.0
