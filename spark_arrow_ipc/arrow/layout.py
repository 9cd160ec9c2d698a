"""The buffers of each type: their roles, order and widths, in one table.

How it works
------------
`LAYOUTS` has one row for each type class (Columnar.rst, "Buffer Listing for Each Layout"). All code that iterates over
buffers reads it: decoding, encoding, byte swapping, size checks, and the kernels.

The *role* of a buffer gives the number of slots that it needs for an array of n: `SLOTS`. The *swap* is the unit that is
reversed when bytes are in the other order. The *family* of a layout is the arrangement of slots in buffers and children,
for any width. Kernels have one function for each family, and `by_type` gives it to the type classes, so that a new type
of an existing layout needs no row. Tables by type class are only for the meaning of values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.arrow import types as t

_T = TypeVar("_T")

Lengths = TypeVar("Lengths", int, npt.NDArray[np.int64])
"""A number of slots, or one for each of many arrays."""


class Family(Enum):
    """The buffers and children of a type, and what each slot has in them."""

    NULL = auto()
    """No memory at all."""
    BITS = auto()
    """One bit a slot."""
    FIXED_WIDTH = auto()
    """The same number of bytes for each slot."""
    BINARY = auto()
    """Value offsets into bytes."""
    VIEW = auto()
    """Views into variadic buffers."""
    LIST = auto()
    """Value offsets into a child."""
    LIST_VIEW = auto()
    """Positions and sizes into a child."""
    FIXED_SIZE_LIST = auto()
    """The same number of a child's slots for each slot."""
    STRUCT = auto()
    """One slot of each child for each slot."""
    SPARSE_UNION = auto()
    """Type ids; one slot of each child for each slot."""
    DENSE_UNION = auto()
    """Type ids, and positions in the child that they name."""
    RUN_END_ENCODED = auto()
    """Run ends and values as children."""
    DICTIONARY = auto()
    """Indices of fixed width into a dictionary."""


class Role(Enum):
    """The content of a buffer."""

    VALIDITY = auto()
    """One bit a slot, 1 for a value; may be absent without nulls."""
    DATA = auto()
    """One value of fixed width a slot."""
    OFFSETS = auto()
    """n + 1 value offsets, not decreasing."""
    POSITIONS = auto()
    """Value offsets without an end, one a slot: list-views and dense unions."""
    SIZES = auto()
    """Sizes of list-views, one a slot."""
    TYPE_IDS = auto()
    """Type ids of unions, one int8 a slot."""
    VIEWS = auto()
    """Views of 16 bytes, one a slot."""
    BYTES = auto()
    """Bytes that value offsets point into."""
    VARIADIC = auto()
    """Any number of buffers of bytes that views point into; last, and numbered by the batch."""


class Swap(Enum):
    """The units that are reversed when a buffer comes in the other byte order."""

    NONE = auto()
    UNIT = auto()
    """Every element of the buffer's width as one number (256-bit decimals over all 32 bytes)."""
    DAY_TIME = auto()
    """Two int32."""
    MONTH_DAY_NANO = auto()
    """Two int32 and an int64."""
    VIEWS = auto()
    """An int32 size; if it is above 12 also the buffer index and the offset, never the bytes."""


@dataclass(frozen=True, slots=True)
class BufferLayout:
    """One buffer of a layout. A `bit_width` of 0 means the width of the type (`bit_width_of`)."""

    role: Role
    bit_width: int = 0
    swap: Swap = Swap.NONE


@dataclass(frozen=True, slots=True)
class Layout:
    """The family of a type, and its buffers in the order of the format."""

    family: Family
    buffers: tuple[BufferLayout, ...]

    @property
    def has_validity(self) -> bool:
        """True if the first buffer is a validity bitmap."""
        return bool(self.buffers) and self.buffers[0].role is Role.VALIDITY

    @property
    def is_variadic(self) -> bool:
        """True if the last entry stands for any number of buffers."""
        return bool(self.buffers) and self.buffers[-1].role is Role.VARIADIC

    @property
    def num_fixed_buffers(self) -> int:
        """The number of buffers, not counting the variadic ones."""
        return len(self.buffers) - self.is_variadic


_VALIDITY = BufferLayout(Role.VALIDITY, 1)
_VALUE_BYTES = BufferLayout(Role.BYTES, 8)


def _primitive(swap: Swap = Swap.UNIT, family: Family = Family.FIXED_WIDTH) -> Layout:
    return Layout(family, (_VALIDITY, BufferLayout(Role.DATA, 0, swap)))


def _binary(bit_width: int) -> Layout:
    return Layout(Family.BINARY, (_VALIDITY, BufferLayout(Role.OFFSETS, bit_width, Swap.UNIT), _VALUE_BYTES))


def _list(bit_width: int) -> Layout:
    return Layout(Family.LIST, (_VALIDITY, BufferLayout(Role.OFFSETS, bit_width, Swap.UNIT)))


def _list_view(bit_width: int) -> Layout:
    positions = BufferLayout(Role.POSITIONS, bit_width, Swap.UNIT)
    sizes = BufferLayout(Role.SIZES, bit_width, Swap.UNIT)
    return Layout(Family.LIST_VIEW, (_VALIDITY, positions, sizes))


_VIEWS = Layout(Family.VIEW, (_VALIDITY, BufferLayout(Role.VIEWS, 128, Swap.VIEWS), BufferLayout(Role.VARIADIC, 8)))
_TYPE_IDS = BufferLayout(Role.TYPE_IDS, 8)

LAYOUTS: Mapping[type[t.DataType], Layout] = {
    t.Null: Layout(Family.NULL, ()),
    t.Bool: _primitive(Swap.NONE, Family.BITS),
    t.Int: _primitive(),
    t.FloatingPoint: _primitive(),
    t.Decimal: _primitive(),
    t.Date: _primitive(),
    t.Time: _primitive(),
    t.Timestamp: _primitive(),
    t.Duration: _primitive(),
    t.IntervalYearMonth: _primitive(),
    t.IntervalDayTime: _primitive(Swap.DAY_TIME),
    t.IntervalMonthDayNano: _primitive(Swap.MONTH_DAY_NANO),
    t.FixedSizeBinary: _primitive(Swap.NONE),  # bytes, without an order
    t.Binary: _binary(32),
    t.LargeBinary: _binary(64),
    t.BinaryView: _VIEWS,
    t.Utf8: _binary(32),
    t.LargeUtf8: _binary(64),
    t.Utf8View: _VIEWS,
    t.List: _list(32),
    t.LargeList: _list(64),
    t.ListView: _list_view(32),
    t.LargeListView: _list_view(64),
    t.FixedSizeList: Layout(Family.FIXED_SIZE_LIST, (_VALIDITY,)),
    t.Struct: Layout(Family.STRUCT, (_VALIDITY,)),
    t.Map: _list(32),
    t.SparseUnion: Layout(Family.SPARSE_UNION, (_TYPE_IDS,)),
    t.DenseUnion: Layout(Family.DENSE_UNION, (_TYPE_IDS, BufferLayout(Role.POSITIONS, 32, Swap.UNIT))),
    t.RunEndEncoded: Layout(Family.RUN_END_ENCODED, ()),
    t.Dictionary: _primitive(family=Family.DICTIONARY),
}
"""One row for each type class; a test proves that none is missing."""


def by_type(rows: Mapping[Family, _T]) -> dict[type[t.DataType], _T]:
    """Give each type class the row of its layout family, if `rows` has one."""
    # At import: the row of an array is then one look-up by its type class.
    return {type_: rows[layout.family] for type_, layout in LAYOUTS.items() if layout.family in rows}


BIT_WIDTHS: Mapping[type[t.DataType], Callable[[Any], int]] = {
    t.Bool: lambda _: 1,
    t.Int: lambda type_: type_.bit_width,
    t.FloatingPoint: lambda type_: type_.bit_width,
    t.Decimal: lambda type_: type_.bit_width,
    t.Date: lambda type_: type_.bit_width,
    t.Time: lambda type_: type_.bit_width,
    t.Timestamp: lambda _: 64,
    t.Duration: lambda _: 64,
    t.IntervalYearMonth: lambda _: 32,
    t.IntervalDayTime: lambda _: 64,
    t.IntervalMonthDayNano: lambda _: 128,
    t.FixedSizeBinary: lambda type_: 8 * type_.byte_width,
    t.Dictionary: lambda type_: type_.index.bit_width,
}
"""Bits a slot of the DATA buffer, for the types that have one."""

SLOTS: Mapping[Role, tuple[int, int]] = {
    Role.VALIDITY: (1, 0),
    Role.DATA: (1, 0),
    Role.OFFSETS: (1, 1),  # one more for the end of the last slot
    Role.POSITIONS: (1, 0),
    Role.SIZES: (1, 0),
    Role.TYPE_IDS: (1, 0),
    Role.VIEWS: (1, 0),
    Role.BYTES: (0, 0),
    Role.VARIADIC: (0, 0),
}
"""Factor and extra of each role: a buffer has at least ``factor * length + extra`` slots, none for a length of 0.

Bytes have no slots: their number follows from the offsets or views into them.
"""


def slots_nbytes(length: Lengths, extra: int, bit_width: int) -> Lengths:
    """Return the bytes of `length` slots of `bit_width` bits, with `extra` more unless `length` is 0."""
    # "an array of length 0 may have an offsets buffer of length 0" (Columnar.rst, variable-size binary).
    return (length + extra * (length > 0)) * bit_width + 7 >> 3


CHILD_SLOTS: Mapping[type[t.DataType], Callable[[Any], int]] = by_type(
    {
        Family.STRUCT: lambda _: 1,
        Family.SPARSE_UNION: lambda _: 1,
        Family.FIXED_SIZE_LIST: lambda type_: type_.list_size,
    }
)
"""The slots of every child for each slot of its parent, for the types where that number is fixed."""


def child_slots(type_: t.DataType) -> int | None:
    """Return the slots of every child for each slot of a type, or None if they depend on its buffers."""
    slots = CHILD_SLOTS.get(type(type_))
    return None if slots is None else slots(type_)


def layout_of(type_: t.DataType) -> Layout:
    """Return the row of `LAYOUTS` for a type as stored in a batch (dictionary: its indices)."""
    return LAYOUTS[type(type_)]


def bit_width_of(type_: t.DataType, buffer: BufferLayout) -> int:
    """Return the bits of one slot in a buffer of a type; 0 for bytes."""
    return buffer.bit_width or (BIT_WIDTHS[type(type_)](type_) if buffer.role is Role.DATA else 0)


def least_nbytes(type_: t.DataType, buffer: BufferLayout, length: int) -> int:
    """Return the least bytes of a buffer for `length` slots."""
    factor, extra = SLOTS[buffer.role]
    return slots_nbytes(length, extra, factor * bit_width_of(type_, buffer))


def physical(type_: t.DataType) -> t.DataType:
    """Return the type of the slots in a record batch: for a dictionary-encoded type the type of its indices."""
    return type_.index if isinstance(type_, t.Dictionary) else type_
