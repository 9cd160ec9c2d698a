"""A bounds-checked reader for untrusted Flatbuffers.

How it works
------------
`root` returns a `TableView`, whose methods return the values of slots. All bytes are proven to be inside the buffer
before they are read: the vtable, the table's inline bytes and the extents of its slots when a view is made; a reference
and the length of its vector or string when the slot is read. Every visit of a table is counted (shared tables could
make a traversal exponential), and so is depth. References point forward only, so cycles are impossible.

A vtable has few numbers, and a writer repeats them: a layout that was proven once is remembered (`Shape.sound`), so that
most tables cost one look-up instead of a check for each slot.

For any bytes, the only errors are `InvalidMetadataError` and `LimitError`, with the position inside the Flatbuffers
buffer as `byte_offset`. A name or kind that the table does not declare is the caller's mistake and a KeyError.

The checks are the same as in the official verifier: strings end in NUL, references are not zero, required slots exist, and
tables, vectors, strings and scalars begin at multiples of 4 or of their own size. Neither `struct` nor numpy need this,
but a damaged reference often shows in no other way. Multiples count from the start of the buffer, which may begin
anywhere; elements of 8 bytes need no more than 4, because arrow-rs and polars have aligned structs so for years.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.errors import InvalidMetadataError, LimitError
from spark_arrow_ipc.ipc.flatbuf import idl
from spark_arrow_ipc.ipc.flatbuf.compiled import SHAPES, VTABLE_SLOTS, Shape, Unpack

SPEC = "Flatbuffers"
MAX_DEPTH = 64
"""Default of the most levels of tables, with the root."""
MAX_TABLES = 1_000_000
"""Default of the most visits of tables for one root."""
MAX_TABLES_PER_BYTE = 8
"""As in Arrow C++: a sound buffer of n bytes has far fewer than 8 n tables."""
_MOST_LAYOUTS = 256  # layouts that are remembered for each table; writers use a handful

_u32: Unpack = Struct("<I").unpack_from  # Bound once: a look-up of the method at each read takes longer than the read
_i32: Unpack = Struct("<i").unpack_from
_u8: Unpack = Struct("<B").unpack_from
_vtable_head: Unpack = Struct("<HH").unpack_from


class _Walk:
    """The state that the views of one root share: the buffer and the rest of the budget."""

    __slots__ = ("buffer", "last", "lenient_strings", "max_depth", "max_tables", "nbytes", "remaining", "strings")

    def __init__(self, buffer: memoryview, max_tables: int, max_depth: int) -> None:
        self.buffer = buffer
        self.nbytes = buffer.nbytes
        # The target of a reference begins with four bytes: a vtable's offset or a length.
        self.last = buffer.nbytes - 4
        self.max_tables = max_tables
        self.max_depth = max_depth
        self.remaining = max_tables
        # By position: many tables may refer to one string, and copies for each could fill the memory.
        self.strings: dict[int, str] = {}
        self.lenient_strings: dict[int, str] = {}


def _invalid(expected: str, actual: object, byte_offset: int) -> NoReturn:
    raise InvalidMetadataError(expected=expected, found=str(actual), byte_offset=byte_offset, spec=SPEC)


def _too_many_tables(walk: _Walk, byte_offset: int) -> NoReturn:
    raise LimitError(
        expected=f"metadata that visits at most {walk.max_tables:,} tables (max_tables)",
        found="more",
        byte_offset=byte_offset,
        spec=SPEC,
    )


def _too_deep(walk: _Walk, byte_offset: int) -> NoReturn:
    raise LimitError(
        expected=f"metadata of at most {walk.max_depth:,} nested tables (max_depth)",
        found="deeper nesting",
        byte_offset=byte_offset,
        spec=SPEC,
    )


def root(
    buffer: memoryview | bytes | bytearray,
    definition: idl.TableDefinition,
    *,
    max_tables: int | None = None,
    max_depth: int = MAX_DEPTH,
) -> TableView:
    """Return a view of the root table of a Flatbuffers buffer, by default for 8 visits of tables a byte, up to `MAX_TABLES`."""
    data = memoryview(buffer)
    if data.format != "B" or data.ndim != 1:
        data = data.cast("B")
    if max_tables is None:
        max_tables = min(MAX_TABLES, MAX_TABLES_PER_BYTE * data.nbytes)
    walk = _Walk(data, max_tables, max_depth)
    if data.nbytes < 4:
        _invalid("at least 4 bytes of metadata", data.nbytes, 0)
    position = _u32(data, 0)[0]
    if not 4 <= position <= walk.last:
        _invalid(f"the root table's offset within {data.nbytes:,} bytes", position, 0)
    return table_at(walk, SHAPES[definition.name], position, 1)


def table_at(walk: _Walk, shape: Shape, position: int, depth: int) -> TableView:
    """Return the view of the table at a position of at most `walk.last`, after a check of its vtable."""
    walk.remaining -= 1
    if walk.remaining < 0:
        _too_many_tables(walk, position)
    if depth > walk.max_depth:
        _too_deep(walk, position)
    buffer, nbytes = walk.buffer, walk.nbytes
    vtable = position - _i32(buffer, position)[0]
    if not 0 <= vtable <= walk.last:
        _invalid(f"the vtable of {shape.definition.name} within {nbytes:,} bytes", f"byte {vtable:,}", position)
    vtable_nbytes, inline_nbytes = _vtable_head(buffer, vtable)
    if (vtable | vtable_nbytes) & 1 or vtable_nbytes < 4 or vtable + vtable_nbytes > nbytes:
        _invalid(
            f"a vtable of {shape.definition.name} of at least 4, even and at most {nbytes - vtable:,} bytes at an even place",
            f"{vtable_nbytes:,} bytes",
            vtable,
        )
    if inline_nbytes < 4 or position + inline_nbytes > nbytes:
        _invalid(
            f"inline bytes of {shape.definition.name} of 4 to {nbytes - position:,}", f"{inline_nbytes:,}", position
        )
    # A longer vtable comes from a newer schema, with slots that have no declaration here.
    count = (vtable_nbytes - 4) >> 1
    if count > shape.slot_count:  # noqa: PLR1730 - min() costs twice as much, and this runs for every table
        count = shape.slot_count
    offsets = VTABLE_SLOTS[count](buffer, vtable + 4)
    # With the alignment of the table, on which the alignment of its slots depends
    layout = (offsets, inline_nbytes, position & 7)
    if layout not in shape.sound:
        _check_layout(shape, position, inline_nbytes, offsets)
        if len(shape.sound) >= _MOST_LAYOUTS:
            shape.sound.clear()
        shape.sound.add(layout)
    return TableView(walk, shape, position, depth, inline_nbytes, offsets)


def _check_layout(shape: Shape, position: int, inline_nbytes: int, offsets: tuple[int, ...]) -> None:
    """Refuse a misaligned table, a slot outside of the table or misaligned, and a missing required slot."""
    table = shape.definition.name
    if position & 3:
        _invalid(f"{table} at a multiple of 4 bytes", f"byte {position:,}", position)
    for slot in shape.inline:
        at = offsets[slot.number] if slot.number < len(offsets) else 0
        if not at:
            if slot.required:
                _invalid(f"{table}.{slot.name}, which is required", "none", position)
        elif at < 4 or at + slot.nbytes > inline_nbytes:
            _invalid(f"{table}.{slot.name} within the table's {inline_nbytes:,} inline bytes", f"byte {at:,}", position)
        elif (position + at) % slot.alignment:
            at += position
            _invalid(f"{table}.{slot.name} at a multiple of {slot.alignment} bytes", f"byte {at:,}", at)


class TableView:
    """A table inside a buffer; each slot is checked when it is read.

    Made by `root` and by views. Names come from the table's declaration; a name of another kind is a KeyError.
    Cost: O(1) for all but `tables` and `string`, which are O(elements).
    """

    __slots__ = ("_depth", "_inline_nbytes", "_offsets", "_position", "_shape", "_walk")

    def __init__(  # noqa: PLR0917 - private, and keywords cost time for every table
        self, walk: _Walk, shape: Shape, position: int, depth: int, inline_nbytes: int, offsets: tuple[int, ...]
    ) -> None:
        self._walk = walk
        self._shape = shape
        self._position = position
        self._depth = depth
        self._inline_nbytes = inline_nbytes
        self._offsets = offsets

    def __repr__(self) -> str:
        return f"<{self._shape.definition.name} at byte {self._position:,}>"

    @property
    def definition(self) -> idl.TableDefinition:
        """The table's declaration."""
        return self._shape.definition

    @property
    def buffer(self) -> memoryview:
        """The buffer of the root."""
        return self._walk.buffer

    @property
    def byte_offset(self) -> int:
        """The start of the table, from the start of the buffer."""
        return self._position

    def has(self, name: str) -> bool:
        """Return whether the slot is present; for a union, its value."""
        number = self._shape.numbers[name]
        return number < len(self._offsets) and self._offsets[number] != 0

    def scalar(self, name: str) -> int:
        """Return a scalar, the number of an enum or a bool; the default if absent."""
        number, unpack, _, default = self._shape.scalars[name]
        offsets = self._offsets
        if number >= len(offsets):
            return default
        at = offsets[number]
        if not at:
            return default
        value: int = unpack(self._walk.buffer, self._position + at)[0]
        return value

    def string(self, name: str) -> str | None:
        """Return a string, with surrogates for bytes that are not UTF-8 in a lenient one, or None if absent."""
        number, lenient = self._shape.strings[name]
        at = self._target(name, number)
        if not at:
            return None
        strings = self._walk.lenient_strings if lenient else self._walk.strings
        text = strings.get(at)  # writers share the strings of metadata
        if text is not None:
            return text
        buffer = self._walk.buffer
        start = at + 4
        nbytes = _u32(buffer, at)[0]
        end = start + nbytes
        if end >= self._walk.nbytes:  # a NUL follows
            self._bad_length(name, nbytes, self._walk.nbytes - start - 1, at)
        if buffer[end]:
            _invalid(f"{self._shape.definition.name}.{name} to end in NUL", f"byte {buffer[end]}", end)
        try:
            string = str(buffer[start:end], "utf-8", "surrogateescape" if lenient else "strict")
        except UnicodeDecodeError as error:
            raise InvalidMetadataError(
                expected=f"{self._shape.definition.name}.{name} in UTF-8",
                found=f"{error.reason} at byte {error.start:,} of the string",
                byte_offset=start + error.start,
                spec=SPEC,
            ) from error
        strings[at] = string
        return string

    def table(self, name: str) -> TableView | None:
        """Return a view of a table, or None if absent."""
        number, shape = self._shape.tables[name]
        at = self._target(name, number)
        return table_at(self._walk, shape, at, self._depth + 1) if at else None

    def union(self, name: str) -> tuple[int, TableView | None]:
        """Return a union's discriminant, and a view of its value: None if absent, or for the discriminant 0 (NONE)."""
        number, members = self._shape.unions[name]
        discriminant = self.discriminant(name)
        if discriminant not in members:
            most = f"{self._shape.definition.name}.{name} with a discriminant of at most {max(members)}"
            _invalid(most, discriminant, self._position + self._offsets[number])
        shape = members[discriminant]
        if shape is None:
            return discriminant, None
        at = self._target(name, number + 1)
        return discriminant, table_at(self._walk, shape, at, self._depth + 1) if at else None

    def discriminant(self, name: str) -> int:
        """Return a union's discriminant, declared or not; 0 if absent."""
        number = self._shape.unions[name][0]
        at = self._offsets[number] if number < len(self._offsets) else 0
        return _u8(self._walk.buffer, at + self._position)[0] if at else 0

    def tables(self, name: str) -> list[TableView]:
        """Return views of the tables of a vector; an empty list if absent."""
        number, shape = self._shape.table_vectors[name]
        start, count = self._vector(name, number, 4)
        if not count:
            return []
        walk, depth = self._walk, self._depth + 1
        buffer, last = walk.buffer, walk.last
        if count > walk.remaining:  # before a list of so many is made
            _too_many_tables(walk, start)
        views = []
        for at in range(start, start + 4 * count, 4):
            offset = _u32(buffer, at)[0]
            if not offset or offset & 3 or at + offset > last:
                self._bad_reference(name, offset, at)
            views.append(table_at(walk, shape, at + offset, depth))
        return views

    def struct(self, name: str) -> tuple[int, ...] | None:
        """Return the numbers of an inline struct in the order of its fields, or None if absent."""
        number, unpack, _ = self._shape.structs[name]
        at = self._offsets[number] if number < len(self._offsets) else 0
        if not at:
            return None
        return unpack(self._walk.buffer, self._position + at)

    def structs(self, name: str) -> npt.NDArray[np.int64]:
        """Return a vector of structs: int64, shape (structs, fields); no rows if absent.

        A view into the buffer if all fields are long (field nodes, buffers); blocks are copied.
        """
        number, vector = self._shape.struct_vectors[name]
        start, count = self._vector(name, number, vector.nbytes)
        if not count:
            return vector.empty
        if vector.dtype is None:
            return np.frombuffer(self._walk.buffer, "<i8", count * vector.width, start).reshape(count, vector.width)
        records = np.frombuffer(self._walk.buffer, vector.dtype, count, start)
        rows = np.empty((count, vector.width), np.int64)
        for column, field in enumerate(vector.dtype.names or ()):
            rows[:, column] = records[field]
        return rows

    def few_structs(self, name: str, most: int) -> list[tuple[int, ...]] | None:
        """Return a vector of at most `most` structs as tuples, which is faster for a few; None for more."""
        number, vector = self._shape.struct_vectors[name]
        start, count = self._vector(name, number, vector.nbytes)
        if count > most:
            return None
        return list(vector.iter_unpack(self._walk.buffer[start : start + count * vector.nbytes]))

    def scalars(self, name: str) -> npt.NDArray[Any]:
        """Return a vector of scalars as a view into the buffer; empty if absent."""
        number, dtype, empty = self._shape.scalar_vectors[name]
        start, count = self._vector(name, number, dtype.itemsize)
        return np.frombuffer(self._walk.buffer, dtype, count, start) if count else empty

    def extents(self) -> tuple[range, range]:
        """Return the extents of the table's inline bytes and of its vtable."""
        buffer, position = self._walk.buffer, self._position
        vtable = position - _i32(buffer, position)[0]
        vtable_nbytes = _vtable_head(buffer, vtable)[0]
        return range(position, position + self._inline_nbytes), range(vtable, vtable + vtable_nbytes)

    def scalar_extent(self, name: str) -> range:
        """Return the extent of a scalar; empty if absent."""
        number, _, nbytes, _ = self._shape.scalars[name]
        at = self._offsets[number] if number < len(self._offsets) else 0
        return range(self._position + at, self._position + at + nbytes) if at else range(0)

    def structs_extent(self, name: str) -> range:
        """Return the extent of a vector's structs, after its length; empty for none."""
        number, vector = self._shape.struct_vectors[name]
        start, count = self._vector(name, number, vector.nbytes)
        return range(start, start + count * vector.nbytes)

    # --- the checks

    def _target(self, name: str, number: int) -> int:
        """Return the target of a slot's reference, at least four bytes; 0 if absent."""
        offsets = self._offsets
        if number >= len(offsets):
            return 0
        at = offsets[number]
        if not at:
            return 0
        walk = self._walk
        at += self._position
        offset: int = _u32(walk.buffer, at)[0]
        if not offset or offset & 3 or at + offset > walk.last:
            self._bad_reference(name, offset, at)
        return at + offset

    def _vector(self, name: str, number: int, element_nbytes: int) -> tuple[int, int]:
        """Return the start and the count of a vector's elements, all inside the buffer."""
        at = self._target(name, number)
        if not at:
            return 0, 0
        walk = self._walk
        count: int = _u32(walk.buffer, at)[0]
        start = at + 4
        if count * element_nbytes > walk.nbytes - start:
            self._bad_length(name, count, (walk.nbytes - start) // element_nbytes, at)
        return start, count

    def _bad_reference(self, name: str, offset: int, at: int) -> NoReturn:
        _invalid(
            f"{self._shape.definition.name}.{name} to refer to a multiple of 4 of up to {self._walk.last - at:,} bytes ahead",
            f"{offset:,}",
            at,
        )

    def _bad_length(self, name: str, length: int, most: int, at: int) -> NoReturn:
        _invalid(f"{self._shape.definition.name}.{name} of length at most {most:,}", f"{length:,}", at)


def to_mapping(view: TableView) -> dict[str, Any]:
    """Convert a table to nested mappings, as `builder.build` takes them.

    Only present slots; unions are (table, mapping). For debugging and tests. O(all of the table).
    """
    shape = view._shape  # noqa: SLF001 - not a method, because reading never uses it
    values: dict[str, Any] = {}
    for slot in shape.definition.slots:
        name = slot.name
        if name in shape.unions:
            member = view.union(name)[1]
            if member is not None:
                values[name] = (member.definition, to_mapping(member))
        elif view.has(name):
            values[name] = _value(view, shape, name)
    return values


def _value(view: TableView, shape: Shape, name: str) -> Any:
    if name in shape.tables:
        table = view.table(name)
        return None if table is None else to_mapping(table)
    if name in shape.table_vectors:
        return [to_mapping(table) for table in view.tables(name)]
    readers: tuple[tuple[dict[str, Any], Callable[[str], Any]], ...] = (
        (shape.scalars, view.scalar),
        (shape.strings, view.string),
        (shape.structs, view.struct),
        (shape.struct_vectors, view.structs),
        (shape.scalar_vectors, view.scalars),
    )
    return next(read(name) for names, read in readers if name in names)
