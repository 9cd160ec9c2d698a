"""The classes of declarations: scalars, enums, structs, unions, slots and tables.

They cover the part of the Flatbuffers IDL that Arrow's files use. A declaration is only a frozen value: `reader`,
`builder` and `fbs` interpret it. Definitions compare by identity, because each exists once.

The number of a union's slot belongs to its hidden discriminant (``<name>_type``); the value has the next number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Any, Literal, TypeAlias

import numpy as np


@dataclass(frozen=True, slots=True)
class Scalar:
    """A scalar type of the IDL."""

    name: str  # as in the IDL: ``long``
    code: str  # letter in `struct` formats, standard size, little-endian
    nbytes: int  # 1, 2, 4 or 8; also its alignment

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the greatest value."""
        if self.code == "?":
            return 0, 1
        bits = 8 * self.nbytes
        return (0, (1 << bits) - 1) if self.code.isupper() else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


BOOL = Scalar("bool", "?", 1)
BYTE = Scalar("byte", "b", 1)
UBYTE = Scalar("ubyte", "B", 1)
SHORT = Scalar("short", "h", 2)
INT32 = Scalar("int", "i", 4)
LONG = Scalar("long", "q", 8)


@dataclass(frozen=True, slots=True)
class String:
    """A UTF-8 string; a `lenient` one may have other bytes, which become surrogates and back (PEP 383)."""

    lenient: bool = False

    @property
    def errors(self) -> Literal["strict", "surrogateescape"]:
        """Its codec in Python."""
        return "surrogateescape" if self.lenient else "strict"


STRING = String()
LENIENT_STRING = String(lenient=True)


@dataclass(frozen=True, slots=True, eq=False)
class EnumDefinition:
    """An enum: the scalar that stores it, and its values.

    `spelling` turns a member's name into the name in the IDL, where they differ.
    """

    storage: Scalar
    members: type[IntEnum | IntFlag]
    doc: str = ""
    spelling: Callable[[str], str] = str

    @property
    def name(self) -> str:
        """The name in the IDL."""
        return self.members.__name__


@dataclass(frozen=True, slots=True)
class StructField:
    """A scalar at a fixed byte offset of a struct."""

    name: str
    type: Scalar
    byte_offset: int


@dataclass(frozen=True, slots=True, eq=False)
class StructDefinition:
    """A struct: inline bytes of fixed layout, without a vtable."""

    name: str
    nbytes: int
    fields: tuple[StructField, ...]
    doc: str = ""

    @property
    def alignment(self) -> int:
        """Alignment in bytes: the width of the widest field."""
        return max(field.type.nbytes for field in self.fields)

    @property
    def is_all_long(self) -> bool:
        """True if all fields are longs, so that a vector is an int64 array."""
        return all(field.type is LONG for field in self.fields)


@dataclass(frozen=True, slots=True, eq=False)
class UnionDefinition:
    """A union of tables. `members` maps names of tables to discriminants; ``NONE`` is 0 and no table."""

    members: type[IntEnum]
    doc: str = ""

    @property
    def name(self) -> str:
        """The name in the IDL."""
        return self.members.__name__


@dataclass(frozen=True, slots=True)
class TableReference:
    """A table, by name, because a table may refer to itself: `tables.TABLES` resolves it."""

    name: str


@dataclass(frozen=True, slots=True)
class Vector:
    """Any number of elements of one type."""

    element: VectorElement


VectorElement: TypeAlias = Scalar | EnumDefinition | StructDefinition | TableReference
SlotType: TypeAlias = Scalar | EnumDefinition | String | StructDefinition | UnionDefinition | TableReference | Vector


@dataclass(frozen=True, slots=True)
class Slot:
    """One slot of a table."""

    number: int  # in the vtable: the entry is at ``4 + 2 * number``. For a union the number of its discriminant.
    name: str  # as in the IDL
    type: SlotType
    default: int = 0  # of an absent scalar or enum
    required: bool = False  # a table without it is invalid
    doc: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class TableDefinition:
    """A table: its name and its slots in the order of their numbers."""

    name: str
    slots: tuple[Slot, ...] = ()
    doc: str = ""

    @property
    def slot_count(self) -> int:
        """The number of vtable entries of the slots; a union has two."""
        return sum(2 if isinstance(slot.type, UnionDefinition) else 1 for slot in self.slots)


Definition: TypeAlias = EnumDefinition | StructDefinition | UnionDefinition | TableDefinition


@dataclass(frozen=True, slots=True)
class SchemaFile:
    """One IDL file: what it includes and declares, and its root table."""

    name: str
    includes: tuple[str, ...]
    definitions: tuple[Definition, ...]
    root: TableDefinition
    doc: str


def storage(type_: Scalar | EnumDefinition) -> Scalar:
    """Return the scalar that stores a scalar or an enum."""
    return type_.storage if isinstance(type_, EnumDefinition) else type_


def dtype(struct: StructDefinition) -> np.dtype[Any]:
    """Return the structured, little-endian dtype of a struct, with its padding."""
    return np.dtype(
        {
            "names": [field.name for field in struct.fields],
            "formats": ["<" + field.type.code for field in struct.fields],
            "offsets": [field.byte_offset for field in struct.fields],
            "itemsize": struct.nbytes,
        }
    )
