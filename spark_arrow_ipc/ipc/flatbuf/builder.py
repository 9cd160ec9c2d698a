"""Build Flatbuffers from nested mappings, by the declarations.

How it works
------------
`build` takes the values of a table by slot name and returns the finished bytes. They depend only on the declarations and
the values, never on the order of a mapping, so equal metadata gives equal bytes. Scalars equal to their default are left
out, as by every Arrow writer. Vectors of structs and scalars come from arrays and are copied as bytes: a record batch may
have tens of thousands of buffers.

Wrong values are a ValueError that names table and slot.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from flatbuffers import Builder

from spark_arrow_ipc.ipc.flatbuf import idl, tables

Values: TypeAlias = Mapping[str, Any]
"""The values of a table by slot name; None means absent.

============================  ============================================================
slot                          value
============================  ============================================================
scalar, enum                  int or bool
string                        str
table                         mapping; or the result of `build_part`, for the first table to be written
union                         (table definition, mapping), or None
struct                        sequence of ints
vector of tables              sequence of mappings
vector of structs             integers of shape (structs, fields): int64 array or sequences
vector of scalars or enums    integers: array or sequence
============================  ============================================================
"""

REFERENCE_NBYTES = 4
"""A reference, and the length of a vector."""


def build(table: idl.TableDefinition, values: Values) -> bytes:
    """Return a Flatbuffers buffer whose root is a table with these values.

    The length is a multiple of the widest alignment used (8 with a long). Cost: O(tables) Python steps and
    one copy of each vector.
    """
    builder = Builder(1024)
    builder.Finish(_table(builder, table, values))
    return bytes(builder.Output())


class Part(NamedTuple):
    """A table and all that it refers to, which are the end of every buffer with it. Made by `build_part`."""

    data: bytes
    position: int
    alignment: int


_ROOM: Final = 1024  # bytes before a part that most buffers with it need


def build_part(table: idl.TableDefinition, values: Values) -> Part:
    """Return a table for several buffers, built once."""
    builder = Builder(_ROOM)
    position = _table(builder, table, values)
    return Part(bytes(builder.Bytes[builder.head :]), position, builder.minalign)  # `Output` needs a finished buffer


def _put_part(builder: Builder, part: Part) -> int:
    assert not builder.Offset(), "places are counted from the end of the buffer"
    builder.Bytes, builder.head = bytearray(_ROOM) + part.data, _ROOM
    builder.minalign = part.alignment
    return part.position


def _table(builder: Builder, table: idl.TableDefinition, values: Values | Part) -> int:
    """Write a table after all that it refers to; return its position."""
    if isinstance(values, Part):
        return _put_part(builder, values)
    if not isinstance(values, Mapping):
        raise ValueError(f"expected a mapping for {table.name}, found {values!r}")  # noqa: TRY004 - documented as ValueError
    unknown = sorted(values.keys() - {slot.name for slot in table.slots})
    if unknown:
        raise ValueError(f"expected slots of {table.name}, found {', '.join(unknown)}")
    # A table's inline bytes may only be written after everything it refers to.
    entries: list[_Entry] = []
    for slot in table.slots:
        value = values.get(slot.name)
        if value is not None:
            entries += _entries(builder, table, slot, value)
        elif slot.required:
            raise ValueError(f"expected {table.name}.{slot.name}, which is required, found None")
    # Widest first leaves no gaps between them; the sort is stable, so the numbers decide among equals.
    entries.sort(key=lambda entry: -entry[1])
    builder.StartObject(table.slot_count)
    for number, _, write in entries:
        write()
        builder.Slot(number)
    position: int = builder.EndObject()
    return position


# Slot number, alignment, and a callback that writes the inline bytes
_Entry: TypeAlias = tuple[int, int, Callable[[], None]]


def _entries(builder: Builder, table: idl.TableDefinition, slot: idl.Slot, value: Any) -> list[_Entry]:
    """Write the values that a slot refers to; return its inline entries."""
    where = f"{table.name}.{slot.name}"
    match slot.type:
        case idl.Scalar() | idl.EnumDefinition() as type_:
            scalar = idl.storage(type_)
            number = _integer(value, scalar, where)
            if number == int(slot.default):  # absent means the default
                return []
            return [(slot.number, scalar.nbytes, _scalar_writer(builder, scalar, number))]
        case idl.StructDefinition() as struct:
            raw = _struct_bytes(struct, [value], where)
            return [(slot.number, struct.alignment, lambda: _place(builder, raw, struct.alignment))]
        case idl.UnionDefinition() as union:
            return _union_entries(builder, slot, union, value, where)
        case idl.String():
            if not isinstance(value, str):
                raise ValueError(f"expected a string for {where}, found {value!r}")  # noqa: TRY004 - documented as ValueError
            position = builder.CreateString(value, errors=slot.type.errors)
        case idl.TableReference(name):
            position = _table(builder, tables.TABLES[name], value)
        case idl.Vector(element):
            position = _vector(builder, element, value, where)
    return [_reference(builder, slot.number, position)]


def _union_entries(
    builder: Builder, slot: idl.Slot, union: idl.UnionDefinition, value: Any, where: str
) -> list[_Entry]:
    match value:
        case (idl.TableDefinition() as member, (Mapping() | Part()) as values) if (
            member.name in union.members.__members__
        ):
            discriminant = int(union.members[member.name])
        case _:
            raise ValueError(f"expected (a table of {union.name}, its values) for {where}, found {value!r}")
    position = _table(builder, member, values)
    return [
        (slot.number, idl.UBYTE.nbytes, _scalar_writer(builder, idl.UBYTE, discriminant)),
        _reference(builder, slot.number + 1, position),  # the value follows its discriminant
    ]


def _reference(builder: Builder, number: int, position: int) -> _Entry:
    return number, REFERENCE_NBYTES, lambda: builder.PrependUOffsetTRelative(position)


_PREPEND: Mapping[idl.Scalar, Callable[[Builder, int], None]] = {
    idl.BOOL: Builder.PrependBool,
    idl.BYTE: Builder.PrependInt8,
    idl.UBYTE: Builder.PrependUint8,
    idl.SHORT: Builder.PrependInt16,
    idl.INT32: Builder.PrependInt32,
    idl.LONG: Builder.PrependInt64,
}


def _scalar_writer(builder: Builder, scalar: idl.Scalar, number: int) -> Callable[[], None]:
    return lambda: _PREPEND[scalar](builder, number)


def _integer(value: Any, scalar: idl.Scalar, where: str) -> int:
    least, most = scalar.bounds
    try:
        number = operator.index(value)
    except TypeError as error:
        raise ValueError(f"expected an integer for {where}, found {value!r}") from error
    if not least <= number <= most:
        raise ValueError(f"expected an integer that fits {scalar.name} for {where}, found {number}")
    return number


def _integers(values: Any, scalar: idl.Scalar, where: str) -> npt.NDArray[Any]:
    """Return values as an array of a scalar's type, all unchanged."""
    array = np.asarray(values)
    dtype = np.dtype("<" + scalar.code)
    if array.dtype == dtype:
        return array
    if not array.size and array.ndim == 1:
        return np.empty(0, dtype)
    narrow = array.astype(dtype) if array.dtype.kind in "iub" else None
    if narrow is None or not np.array_equal(narrow, array):
        raise ValueError(f"expected integers that fit {scalar.name} for {where}, found {values!r}")
    return narrow


# --- vectors


def _vector(builder: Builder, element: idl.VectorElement, values: Any, where: str) -> int:
    match element:
        case idl.TableReference(name):
            return _table_vector(builder, tables.TABLES[name], values)
        case idl.StructDefinition():
            raw = _struct_bytes(element, values, where)
            return _bytes_vector(builder, raw, element.nbytes, element.alignment)
        case idl.Scalar() | idl.EnumDefinition():
            scalar = idl.storage(element)
            array = _integers(values, scalar, where)
            if array.ndim != 1:
                raise ValueError(f"expected a sequence for {where}, found {values!r}")
            return _bytes_vector(builder, array.tobytes(), scalar.nbytes, scalar.nbytes)


def _table_vector(builder: Builder, table: idl.TableDefinition, values: Sequence[Values]) -> int:
    places = [_table(builder, table, value) for value in values]
    builder.StartVector(REFERENCE_NBYTES, len(places), REFERENCE_NBYTES)
    for position in reversed(places):
        builder.PrependUOffsetTRelative(position)
    vector: int = builder.EndVector()
    return vector


def _struct_bytes(struct: idl.StructDefinition, values: Any, where: str) -> bytes:
    """Return rows of integers as structs, their padding zero."""
    width = len(struct.fields)
    rows = _integers(values, idl.LONG, where)
    if not rows.size:
        return b""
    if rows.ndim != 2 or rows.shape[1] != width:
        raise ValueError(f"expected rows of {width} integers for {where}, found an array of shape {rows.shape}")
    if struct.is_all_long:
        return rows.tobytes()
    records = np.zeros(len(rows), idl.dtype(struct))
    for column, field in enumerate(struct.fields):
        records[field.name] = _integers(rows[:, column], field.type, f"{where}, {field.name}")
    return records.tobytes()


def _bytes_vector(builder: Builder, raw: bytes, nbytes: int, alignment: int) -> int:
    builder.StartVector(nbytes, len(raw) // nbytes, alignment)
    _copy(builder, raw)
    vector: int = builder.EndVector()
    return vector


def _place(builder: Builder, raw: bytes, alignment: int) -> None:
    """Write the bytes of an inline struct."""
    builder.Prep(alignment, len(raw) - alignment)
    _copy(builder, raw)


def _copy(builder: Builder, raw: bytes) -> None:
    """Put bytes before the others, in the room that `StartVector` or `Prep` has made."""
    # Not by `Builder.CreateNumpyVector`, which counts numbers, where a vector of structs counts structs.
    builder.head -= len(raw)
    builder.Bytes[builder.head : builder.head + len(raw)] = raw
