"""Compile the declarations for fast reading, once at import.

A `Shape` has, for each slot by kind and name, all that reading needs, so that the reader does one dictionary lookup for
a slot and none of the declarations' indirections.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.ipc.flatbuf import idl, tables

_REFERENCE_NBYTES: Final = 4  # strings, tables and vectors are references of four bytes inside a table

Unpack: TypeAlias = Callable[..., tuple[Any, ...]]
"""`unpack_from` of a compiled `struct.Struct`."""


Layout: TypeAlias = tuple[tuple[int, ...], int, int]
"""The entries of a vtable, the table's inline bytes, and the table's position modulo 8: together they prove its slots."""


@dataclass(frozen=True, slots=True)
class Inline:
    """The bytes that a slot takes inside its table, and the multiple at which they begin."""

    number: int
    name: str
    nbytes: int
    alignment: int
    required: bool


@dataclass(slots=True)
class Shape:
    """The compiled declaration of a table: one mapping by name for each kind of slot.

    Each row begins with the number of the slot, for a union the number of the discriminant.
    """

    definition: idl.TableDefinition
    slot_count: int
    numbers: dict[str, int]  # for a union the number of the value
    inline: tuple[Inline, ...]  # the required inline bytes for each entry of the vtable
    sound: set[Layout]  # layouts that the reader has proven, so that each is proven once
    scalars: dict[str, tuple[int, Unpack, int, int]]
    strings: dict[str, tuple[int, bool]]
    structs: dict[str, tuple[int, Unpack, int]]
    tables: dict[str, tuple[int, Shape]]
    unions: dict[str, tuple[int, dict[int, Shape | None]]]
    table_vectors: dict[str, tuple[int, Shape]]
    struct_vectors: dict[str, tuple[int, StructVector]]
    scalar_vectors: dict[str, tuple[int, np.dtype[Any], npt.NDArray[Any]]]


@dataclass(frozen=True, slots=True)
class StructVector:
    """The layout of a vector of structs, read as int64 rows; `dtype` is None if all fields are long."""

    nbytes: int
    width: int
    dtype: np.dtype[Any] | None
    iter_unpack: Callable[[memoryview], Iterator[tuple[int, ...]]]
    empty: npt.NDArray[np.int64]


def _struct_format(definition: idl.StructDefinition) -> str:
    format_, end = "<", 0
    for field in definition.fields:
        format_ += f"{field.byte_offset - end}x{field.type.code}"
        end = field.byte_offset + field.type.nbytes
    return format_ + f"{definition.nbytes - end}x"


def _struct_vector(definition: idl.StructDefinition) -> StructVector:
    width = len(definition.fields)
    empty = np.empty((0, width), np.int64)
    dtype = None if definition.is_all_long else idl.dtype(definition)
    return StructVector(definition.nbytes, width, dtype, Struct(_struct_format(definition)).iter_unpack, empty)


def _fill(shape: Shape, shapes: dict[str, Shape]) -> None:
    inline = []
    for slot in shape.definition.slots:
        number, name = slot.number, slot.name
        nbytes = alignment = _REFERENCE_NBYTES
        match slot.type:
            case idl.Scalar() | idl.EnumDefinition() as type_:
                scalar = idl.storage(type_)
                default = bool(slot.default) if scalar is idl.BOOL else int(slot.default)
                shape.scalars[name] = (number, Struct("<" + scalar.code).unpack_from, scalar.nbytes, default)
                nbytes = alignment = scalar.nbytes
            case idl.String(lenient):
                shape.strings[name] = (number, lenient)
            case idl.StructDefinition() as struct:
                shape.structs[name] = (number, Struct(_struct_format(struct)).unpack_from, struct.nbytes)
                nbytes, alignment = struct.nbytes, struct.alignment
            case idl.TableReference(target):
                shape.tables[name] = (number, shapes[target])
            case idl.UnionDefinition() as union:
                members = {int(member): shapes.get(member.name) for member in union.members}
                shape.unions[name] = (number, members)
                inline.append(Inline(number, name, 1, 1, required=False))
                number += 1  # the value follows its discriminant
            case idl.Vector(element):
                _fill_vector(shape, slot, element, shapes)
        shape.numbers[name] = number
        inline.append(Inline(number, name, nbytes, alignment, slot.required))
    shape.inline = tuple(inline)


def _fill_vector(shape: Shape, slot: idl.Slot, element: idl.VectorElement, shapes: dict[str, Shape]) -> None:
    match element:
        case idl.TableReference(target):
            shape.table_vectors[slot.name] = (slot.number, shapes[target])
        case idl.StructDefinition():
            shape.struct_vectors[slot.name] = (slot.number, _struct_vector(element))
        case idl.Scalar() | idl.EnumDefinition():
            dtype = np.dtype("<" + idl.storage(element).code)
            shape.scalar_vectors[slot.name] = (slot.number, dtype, np.empty(0, dtype))


def _shapes() -> dict[str, Shape]:
    # All are made before the first is filled, because tables refer to one another.
    shapes = {
        name: Shape(definition, definition.slot_count, {}, (), set(), *({} for _ in range(8)))
        for name, definition in tables.TABLES.items()
    }
    for shape in shapes.values():
        _fill(shape, shapes)
    return shapes


SHAPES = _shapes()
"""The shapes by the names of their tables."""

VTABLE_SLOTS: tuple[Unpack, ...] = tuple(
    Struct(f"<{count}H").unpack_from for count in range(max(shape.slot_count for shape in SHAPES.values()) + 1)
)
"""By count: a function that unpacks this many vtable entries."""
