"""The memory of an array: type, length, offset, buffers, children and dictionary.

Strategy
--------
Buffers are in the order of `LAYOUTS`. They are byte views (`memoryview`, format ``B``) that keep their owner
alive; a slice copies nothing. The offset counts slots, as in Arrow's C data interface: it applies to the array's
own buffers and, for structs, sparse unions and fixed-size lists, also to the slots of the children, which are not
sliced themselves.

`arrow.array.Array` is the only subclass. Views and conversions, which `Array` has as methods, take `ArrayData`,
so that their modules need not import `Array`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Self, TypeAlias

from spark_arrow_ipc.arrow import bitmap
from spark_arrow_ipc.arrow.layout import LAYOUTS
from spark_arrow_ipc.arrow.types import DataType, Null

Buffer: TypeAlias = memoryview
"""Bytes of one buffer (format ``B``, one dimension, contiguous)."""

NOT_COUNTED = -1
"""`ArrayData.null_count` of a slice whose nulls are not counted yet; `ArrayData.count_nulls` counts them."""

_WITH_VALIDITY: Final = frozenset(type_ for type_, layout in LAYOUTS.items() if layout.has_validity)
"""Type classes whose first buffer is a validity bitmap."""


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
        Those that ``LAYOUTS[type]`` lists, variadic ones last; only a validity bitmap may be None.
    children
        Arrays of ``type.children``, unsliced.
    dictionary
        The values of a `Dictionary` type, else None.
    offset
        Slots to skip in `buffers` (and in the children of struct, sparse union and fixed-size list).
    """

    type: DataType
    length: int
    null_count: int
    buffers: tuple[Buffer | None, ...]
    children: tuple[Self, ...] = ()
    dictionary: Self | None = None
    offset: int = 0

    def __len__(self) -> int:
        return self.length

    @property
    def validity(self) -> Buffer | None:
        """The validity bitmap; None if the layout has none or it was left out because no slot is null."""
        return self.buffers[0] if type(self.type) in _WITH_VALIDITY else None

    def count_nulls(self) -> int:
        """Return the number of null slots by the validity bitmap (all slots for `Null`). O(length / 8)."""
        if self.null_count != NOT_COUNTED:
            return self.null_count
        if isinstance(self.type, Null):
            return self.length
        validity = self.validity
        return 0 if validity is None else self.length - bitmap.count_set(validity, self.offset, self.length)

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
        unsliced_nulls = length if isinstance(self.type, Null) else 0 if self.null_count == 0 else NOT_COUNTED
        return replace(self, length=length, null_count=unsliced_nulls, offset=self.offset + offset)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.type}, {self.length:,} slots, {self.count_nulls():,} null>"
