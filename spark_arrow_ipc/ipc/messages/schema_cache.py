"""Decode the schema of a file once for all files that have it.

The files of a data set have one schema, and to decode it takes most of the time of opening one of them: 10 ms for 1,000
columns. Writers build a flatbuffer from its end, and the schema first: its bytes, those of all that it refers to
included, are the end of a footer or of a message. What they decode to is kept by these bytes.
"""

from __future__ import annotations

import struct
from typing import Final

from spark_arrow_ipc.errors import InvalidMetadataError, LimitError, UnsupportedError
from spark_arrow_ipc.ipc.flatbuf import reader, tables
from spark_arrow_ipc.ipc.limits import Limits
from spark_arrow_ipc.ipc.messages.footer import footer_depth
from spark_arrow_ipc.ipc.messages.schema import SchemaMessage, decode_schema

_ROOT: Final = struct.Struct("<II")
"""The place of the root table, and padding: places in the flatbuffer are at the same multiples of 8 as before."""

_MOST_ROOT: Final = 1 << 15
"""Below this, the root's place cannot be taken for a vtable: as one, it says that its tables have no bytes."""

_MOST_NBYTES: Final = 1 << 20
"""Longer schemas are not kept: 1,000 columns with short names take 52 kB."""

_LEAST_TABLE_NBYTES: Final = 8
"""Bytes for each table that is visited; writers need 20. Tables that share bytes could be millions of fields in memory."""

_MOST_KEPT: Final = 16
_MOST_KEPT_NBYTES: Final = 4 << 20

_KEPT: dict[tuple[bytes, Limits], SchemaMessage] = {}


def decode_schema_once(view: reader.TableView, limits: Limits) -> SchemaMessage:
    """Return the schema in a ``Schema`` table of a footer or message, as `decode_schema`; fast for bytes decoded before."""
    alone = _alone(view)
    if alone is None:
        return decode_schema(view, limits)
    key = alone, limits
    schema = _KEPT.get(key)
    if schema is None:
        try:
            # As a flatbuffer of its own it refers to nothing outside of itself, because nothing outside of it is there.
            # A schema that shares vtables with tables before it does, and is decoded where it is.
            most_tables, depth = len(alone) // _LEAST_TABLE_NBYTES, footer_depth(limits) - 1
            schema = decode_schema(reader.root(alone, tables.SCHEMA, max_tables=most_tables, max_depth=depth), limits)
        except (InvalidMetadataError, LimitError, UnsupportedError):
            return decode_schema(view, limits)  # whose errors have the places in the file
        if len(_KEPT) >= _MOST_KEPT or sum(len(kept) for kept, _ in [*_KEPT, key]) > _MOST_KEPT_NBYTES:
            _KEPT.clear()
        _KEPT[key] = schema
    return schema


def _alone(view: reader.TableView) -> bytes | None:
    """Return the table and all bytes after it as a flatbuffer; None if that is too long."""
    table, vtable = view.extents()
    start = min(table.start, vtable.start) & ~7
    buffer = view.vector_of_tables("fields")[0].buffer
    if len(buffer) - start > _MOST_NBYTES or table.start - start > _MOST_ROOT:
        return None
    return _ROOT.pack(table.start - start + _ROOT.size, 0) + bytes(buffer[start:])
