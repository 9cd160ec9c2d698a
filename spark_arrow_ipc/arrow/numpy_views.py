"""Buffers of an array as typed numpy views.

Strategy
--------
The views (`data_values`, `value_offsets`, `views`, ...) are read-only, honour the array's offset, share the buffer's
memory and accept any alignment. They check only that the slots lie inside the buffer; `arrow.validate` checks the
values (offsets that do not decrease, indices in range).

`DTYPES` has the dtype of one slot of a DATA buffer, in the byte order of this machine. Wide decimals are
structures of 64-bit words named from the least significant on (``w0``, ``w1``, ...), the top word signed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.arrow import bitmap
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array_data import ArrayData
from spark_arrow_ipc.arrow.layout import BIT_WIDTHS, LAYOUTS, Family, Role, by_type
from spark_arrow_ipc.errors import InvalidBodyError

NDArray = npt.NDArray[Any]

VIEW = np.dtype([("size", np.int32), ("prefix", "V4"), ("index", np.int32), ("offset", np.int32)])
"""One view of 16 bytes. A value of up to `VIEW_INLINE_NBYTES` is in the view itself, after the size."""

VIEW_INLINE_NBYTES = 12
"""Longest value, in bytes, that lies in the view itself (Columnar.rst, "Variable-size Binary View Layout")."""

DAY_TIME = np.dtype([("days", np.int32), ("milliseconds", np.int32)])
"""One day-time interval."""

MONTH_DAY_NANO = np.dtype([("months", np.int32), ("days", np.int32), ("nanoseconds", np.int64)])
"""One month-day-nano interval."""


def _words(count: int) -> np.dtype[Any]:
    fields = [(f"w{i}", np.int64 if i == count - 1 else np.uint64) for i in range(count)]
    return np.dtype(fields if sys.byteorder == "little" else fields[::-1])


_INTS = {
    (bit_width, signed): np.dtype(f"{'i' if signed else 'u'}{bit_width // 8}")
    for bit_width in (8, 16, 32, 64)
    for signed in (True, False)
}
_FLOATS = tuple(np.dtype(name) for name in ("f2", "f4", "f8"))
_DECIMALS: Mapping[int, np.dtype[Any]] = {32: np.dtype("i4"), 64: np.dtype("i8"), 128: _words(2), 256: _words(4)}
_SIGNED = {bit_width: _INTS[bit_width, True] for bit_width in (8, 16, 32, 64)}


def _signed_integer(type_: t.DataType) -> np.dtype[Any]:
    return _SIGNED[BIT_WIDTHS[type(type_)](type_)]


DTYPES: Mapping[type[t.DataType], Callable[[Any], np.dtype[Any]]] = {
    **{cls: row for cls, row in by_type({Family.FIXED_WIDTH: _signed_integer}).items() if cls is not t.FixedSizeBinary},
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
    """Return the dtype of one slot of the DATA buffer of a type that has a row in `DTYPES`.

    Raises
    ------
    TypeError
        The type has no row.
    """
    row = DTYPES.get(type(type_))
    if row is None:
        raise TypeError(f"expected a type of fixed width, found {type_}")
    return row(type_)


def typed(buffer: memoryview | None, dtype: npt.DTypeLike, offset: int, length: int) -> NDArray:
    """Return `length` elements from element `offset` on as a read-only view of the buffer.

    Raises
    ------
    InvalidBodyError
        The buffer ends before them.
    """
    dtype = np.dtype(dtype)
    if length == 0:
        return np.zeros(0, dtype)
    buffer = _EMPTY if buffer is None else buffer
    needed = (offset + length) * dtype.itemsize
    if buffer.nbytes < needed:
        raise InvalidBodyError(expected=f"a buffer of at least {needed:,} bytes", found=f"{buffer.nbytes:,} bytes")
    view = np.frombuffer(buffer, dtype, length, offset * dtype.itemsize)
    view.flags.writeable = False
    return view


def byte_values(buffer: memoryview | None) -> npt.NDArray[np.uint8]:
    """Return all bytes of a buffer, none if it is absent: a view."""
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
    return typed(buffer_of(array, role), _SIGNED[bit_width], array.offset, array.length)


def data_values(array: ArrayData) -> NDArray:
    """Return the slots of the DATA buffer, null ones with whatever they hold.

    Shape ``(length,)`` of `DTYPES`; booleans as a copy; `FixedSizeBinary` as uint8 of shape
    ``(length, byte_width)``; a `Dictionary`'s indices.
    """
    return _DATA.get(type(array.type), _fixed)(array)


def _fixed(array: ArrayData) -> NDArray:
    return typed(buffer_of(array, Role.DATA), dtype_of(array.type), array.offset, array.length)


def _bits(array: ArrayData) -> NDArray:
    buffer = buffer_of(array, Role.DATA)
    return bitmap.unpack(_EMPTY if buffer is None else buffer, array.offset, array.length)


def _rows(array: ArrayData) -> NDArray:
    assert isinstance(array.type, t.FixedSizeBinary)
    width = array.type.byte_width
    flat = typed(buffer_of(array, Role.DATA), np.uint8, array.offset * width, array.length * width)
    return flat.reshape(array.length, width)


_DATA: Mapping[type[t.DataType], Callable[[ArrayData], NDArray]] = {
    **by_type({Family.BITS: _bits}),
    t.FixedSizeBinary: _rows,
}


def value_offsets(array: ArrayData) -> NDArray:
    """Return the value offsets: int32 or int64, shape ``(length + 1,)``; one zero if there are no slots."""
    number, dtype = _OFFSETS[type(array.type)]
    if array.length == 0:
        return np.zeros(1, dtype)
    return typed(array.buffers[number], dtype, array.offset, array.length + 1)


_OFFSETS: Mapping[type[t.DataType], tuple[int, np.dtype[Any]]] = {
    type_: (number, np.dtype(_SIGNED[buffer.bit_width]))
    for type_, layout in LAYOUTS.items()
    for number, buffer in enumerate(layout.buffers)
    if buffer.role is Role.OFFSETS
}
"""The number of the buffer of value offsets, and their type."""


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
    return typed(buffer_of(array, Role.VIEWS), VIEW, array.offset, array.length)


def validity_mask(array: ArrayData, start: int = 0, stop: int | None = None) -> npt.NDArray[np.bool_] | None:
    """Return True for each slot of a range that is not null, or None if there is no bitmap or no null.

    All False for `Null`.
    """
    length = (array.length if stop is None else stop) - start
    if isinstance(array.type, t.Null):
        return np.zeros(length, np.bool_)
    validity = array.validity
    if validity is None or array.null_count == 0:
        return None
    return bitmap.unpack(validity, array.offset + start, length)


def comparable_floats(values: NDArray) -> NDArray:
    """Return floats whose bits are equal where the floats are: with one zero and one NaN, which is positive."""
    # NaNs first: arithmetic with one that is signalling is a RuntimeWarning.
    one_nan = np.where(np.isnan(values), values.dtype.type(np.nan), values)
    return np.asarray(one_nan + values.dtype.type(0))
