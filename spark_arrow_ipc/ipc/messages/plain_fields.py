"""The fields of a wide schema, decoded at once if most of them are plain.

Strategy
--------
A plain field has no children, no dictionary and no custom metadata, and a name in ASCII. `plain_fields` makes every
check of `schema.decode_schema` for all of them together, and decodes each distinct type once; the few others are decoded
one by one. The `Field` objects are made when somebody asks for them: who reads record batches of numbers does not. Any
other schema, and every broken one, is decoded field by field, which names what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.validate.many import are_ascii
from spark_arrow_ipc.errors import ArrowIpcError
from spark_arrow_ipc.ipc.flatbuf import reader
from spark_arrow_ipc.ipc.flatbuf.many import ManyTables, Unusual, demand
from spark_arrow_ipc.ipc.limits import Limits

LEAST_FIELDS: Final = 32
"""Below this many fields, decoding one after the other is faster (measured)."""

_PLAIN_SHARE: Final = 4
"""Where more than one field in this many is not plain, all are decoded one by one."""

DecodeType = Callable[[int, reader.TableView], t.DataType]
"""Decodes a type without children, given the discriminant and the table."""

DecodeField = Callable[[reader.TableView], t.Field]
"""Decodes any field."""


@dataclass(frozen=True, slots=True, eq=False)
class PlainFields:
    """The fields of a schema, most of them plain.

    Parameters
    ----------
    types, type_of
        The distinct types of plain fields, and the number of each field's; -1 of a field that is not plain.
    others
        The fields that are not plain, by their positions, which rise.
    names, starts, stops
        A copy of the bytes that hold all names, in ASCII, and where each is.
    nullable
        Of each field.
    """

    types: tuple[t.DataType, ...]
    type_of: npt.NDArray[np.int64]
    names: bytes
    starts: npt.NDArray[np.int64]
    stops: npt.NDArray[np.int64]
    nullable: npt.NDArray[np.bool_]
    others: Mapping[int, t.Field]

    def __len__(self) -> int:
        return len(self.type_of)

    def fields(self) -> tuple[t.Field, ...]:
        """Return the fields."""
        numbers = (self.starts, self.stops, self.type_of, self.nullable)
        return tuple(
            self.others[i]
            if type_ < 0
            else t.Field(self.names[start:stop].decode("ascii"), self.types[type_], nullable)
            for i, (start, stop, type_, nullable) in enumerate(zip(*(own.tolist() for own in numbers), strict=True))
        )


def plain_fields(
    view: reader.TableView, limits: Limits, decode_type: DecodeType, decode_field: DecodeField
) -> PlainFields | None:
    """Return the fields of a ``Schema`` table, or None if they are few, few of them plain, or not all sound. O(fields)."""
    walk = view.vector_of_tables("fields")[0]
    budget = walk.remaining
    try:
        return _plain_fields(view, limits, decode_type, decode_field)
    except (Unusual, ArrowIpcError, ValueError):
        walk.remaining = budget  # who decodes field by field visits the same tables
        return None


def _plain_fields(
    view: reader.TableView, limits: Limits, decode_type: DecodeType, decode_field: DecodeField
) -> PlainFields | None:
    count = view.vector_of_tables("fields")[2]
    if not LEAST_FIELDS <= count <= limits.max_columns or not limits.max_depth:
        return None
    fields = ManyTables.of(view, "fields")
    starts, stops = fields.strings("name")
    nbytes = stops - starts
    # Names may share bytes, and each check and copy costs its own.
    demand(int(nbytes.sum()) <= len(fields.memory))
    (named,) = nbytes.nonzero()
    first, last = (int(starts[named].min()), int(stops[named].max())) if len(named) else (0, 0)
    names = fields.memory[first:last].tobytes()
    starts = starts - first if len(named) == count else np.where(nbytes > 0, starts - first, 0)
    stops = starts + nbytes
    is_plain = are_ascii(np.frombuffer(names, np.uint8), starts, stops)
    is_plain &= ~(fields.has("dictionary") | fields.has_elements("children") | fields.has_elements("custom_metadata"))
    (plain,), (others,) = is_plain.nonzero(), (~is_plain).nonzero()
    demand(len(others) * _PLAIN_SHARE <= count)
    types: dict[t.DataType, int] = {}
    type_of = np.full(len(fields), -1)
    for discriminant, own, tables in (fields[plain] if len(others) else fields).unions("type"):
        for table, alike in tables.distinct():
            type_of[plain[own[alike]]] = types.setdefault(decode_type(discriminant, table), len(types))
    # Last: if one of these is broken or beyond the limits, all fields are read again one by one, to name the mistake.
    decoded = dict(zip(others.tolist(), map(decode_field, fields[others].each()), strict=True))
    return PlainFields(tuple(types), type_of, names, starts, stops, fields.bytes_of("nullable") != 0, decoded)
