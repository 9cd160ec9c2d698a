"""The one place that says which buffers each type has, in which order, and how wide.

Strategy
--------
`LAYOUTS` has one row for each type class (Columnar.rst, "Buffer Listing for Each Layout"). Everything that
walks buffers reads it: decode, encode, byte swapping, size checks, slicing, concatenation, comparison.

The *role* of a buffer says how many slots it needs for an array of n: `SLOTS`. The *swap* says what its unit
is when bytes are in the other order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from spark_arrow_ipc.arrow import types as t


class Role(Enum):
    """What a buffer holds."""

    VALIDITY = auto()
    """One bit a slot, 1 for a value; may be absent where there is no null."""
    DATA = auto()
    """One value of fixed width a slot."""
    OFFSETS = auto()
    """Value offsets: n + 1 of them, not decreasing."""
    POSITIONS = auto()
    """Value offsets that stand alone, one a slot: list-views and dense unions."""
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
    """What is reversed when a buffer comes in the other byte order."""

    NONE = auto()
    UNIT = auto()
    """Every element of the buffer's width as one number (256-bit decimals over all 32 bytes)."""
    DAY_TIME = auto()
    """Two int32."""
    MONTH_DAY_NANO = auto()
    """Two int32 and an int64."""
    VIEWS = auto()
    """An int32 size; where it is above 12 also the buffer index and the offset, never the bytes."""


@dataclass(frozen=True, slots=True)
class BufferLayout:
    """One buffer of a layout. `bit_width` 0 means that of the type (`bit_width_of`)."""

    role: Role
    bit_width: int = 0
    swap: Swap = Swap.NONE


@dataclass(frozen=True, slots=True)
class Layout:
    """The buffers of a type in the order of the format."""

    buffers: tuple[BufferLayout, ...]

    @property
    def has_validity(self) -> bool:
        """Whether the first buffer is a validity bitmap."""
        return bool(self.buffers) and self.buffers[0].role is Role.VALIDITY

    @property
    def is_variadic(self) -> bool:
        """Whether the last entry stands for any number of buffers."""
        return bool(self.buffers) and self.buffers[-1].role is Role.VARIADIC

    @property
    def fixed_buffers(self) -> int:
        """How many buffers there are beside the variadic ones."""
        return len(self.buffers) - self.is_variadic


_VALIDITY = BufferLayout(Role.VALIDITY, 1)
_FIXED = Layout((_VALIDITY, BufferLayout(Role.DATA, 0, Swap.UNIT)))
_BYTES = Layout((_VALIDITY, BufferLayout(Role.DATA)))


def _offsets(bit_width: int, *rest: BufferLayout) -> Layout:
    return Layout((_VALIDITY, BufferLayout(Role.OFFSETS, bit_width, Swap.UNIT), *rest))


def _list_view(bit_width: int) -> Layout:
    return Layout(
        (
            _VALIDITY,
            BufferLayout(Role.POSITIONS, bit_width, Swap.UNIT),
            BufferLayout(Role.SIZES, bit_width, Swap.UNIT),
        )
    )


_TEXT = BufferLayout(Role.BYTES, 8)
_VIEWS = Layout((_VALIDITY, BufferLayout(Role.VIEWS, 128, Swap.VIEWS), BufferLayout(Role.VARIADIC, 8)))
_TYPE_IDS = BufferLayout(Role.TYPE_IDS, 8)

LAYOUTS: Mapping[type[t.DataType], Layout] = {
    t.Null: Layout(()),
    t.Bool: _BYTES,
    t.Int: _FIXED,
    t.FloatingPoint: _FIXED,
    t.Decimal: _FIXED,
    t.Date: _FIXED,
    t.Time: _FIXED,
    t.Timestamp: _FIXED,
    t.Duration: _FIXED,
    t.IntervalYearMonth: _FIXED,
    t.IntervalDayTime: Layout((_VALIDITY, BufferLayout(Role.DATA, 0, Swap.DAY_TIME))),
    t.IntervalMonthDayNano: Layout((_VALIDITY, BufferLayout(Role.DATA, 0, Swap.MONTH_DAY_NANO))),
    t.FixedSizeBinary: _BYTES,
    t.Binary: _offsets(32, _TEXT),
    t.LargeBinary: _offsets(64, _TEXT),
    t.BinaryView: _VIEWS,
    t.Utf8: _offsets(32, _TEXT),
    t.LargeUtf8: _offsets(64, _TEXT),
    t.Utf8View: _VIEWS,
    t.List: _offsets(32),
    t.LargeList: _offsets(64),
    t.ListView: _list_view(32),
    t.LargeListView: _list_view(64),
    t.FixedSizeList: Layout((_VALIDITY,)),
    t.Struct: Layout((_VALIDITY,)),
    t.Map: _offsets(32),
    t.SparseUnion: Layout((_TYPE_IDS,)),
    t.DenseUnion: Layout((_TYPE_IDS, BufferLayout(Role.POSITIONS, 32, Swap.UNIT))),
    t.RunEndEncoded: Layout(()),
    t.Dictionary: _FIXED,
}
"""One row for each type class; a test proves that none is missing."""


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

SLOTS: Mapping[Role, Callable[[int], int]] = {
    Role.VALIDITY: lambda length: length,
    Role.DATA: lambda length: length,
    # "an array of length 0 may have an offsets buffer of length 0" (Columnar.rst, variable-size binary).
    Role.OFFSETS: lambda length: length + 1 if length else 0,
    Role.POSITIONS: lambda length: length,
    Role.SIZES: lambda length: length,
    Role.TYPE_IDS: lambda length: length,
    Role.VIEWS: lambda length: length,
    Role.BYTES: lambda _: 0,
    Role.VARIADIC: lambda _: 0,
}
"""How many slots a buffer needs at least for an array of `length`. Bytes are bounded by what points at them."""

CHILD_SLOTS: Mapping[type[t.DataType], Callable[[Any], int]] = {
    t.Struct: lambda _: 1,
    t.SparseUnion: lambda _: 1,
    t.FixedSizeList: lambda type_: type_.list_size,
}
"""How many slots every child needs for each slot of its parent, for the types where that is fixed."""


def child_slots(type_: t.DataType) -> int | None:
    """Return the slots that every child needs for each slot of a type, or None where its buffers say."""
    slots = CHILD_SLOTS.get(type(type_))
    return None if slots is None else slots(type_)


def layout_of(type_: t.DataType) -> Layout:
    """Return the row of `LAYOUTS` for a type as it lies in a batch (dictionary: its indices)."""
    return LAYOUTS[type(type_)]


def bit_width_of(type_: t.DataType, buffer: BufferLayout) -> int:
    """Return the bits a slot of one buffer of a type."""
    return buffer.bit_width or (BIT_WIDTHS[type(type_)](type_) if buffer.role is Role.DATA else 0)


def needed_nbytes(type_: t.DataType, buffer: BufferLayout, length: int) -> int:
    """Return how many bytes a buffer must hold at least for `length` slots."""
    return (SLOTS[buffer.role](length) * bit_width_of(type_, buffer) + 7) // 8


def physical(type_: t.DataType) -> t.DataType:
    """Return the type that lies in a record batch: for a dictionary-encoded one that of its indices."""
    return type_.index if isinstance(type_, t.Dictionary) else type_
