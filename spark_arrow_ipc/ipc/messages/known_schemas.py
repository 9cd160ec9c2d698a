"""Decode the schema of a file's footer once for all files that have it.

Strategy
--------
The files of a data set have one schema, and to decode it takes a third of the time of opening one of them. Writers build a
flatbuffer from its end, and the schema of a footer first: its bytes, those of all that it refers to included, are the end
of the footer. So the end from the schema's table on is made a flatbuffer of its own, which refers to nothing outside of
itself, because nothing outside of it is there. What such a flatbuffer decodes to is remembered by its bytes. A schema that
does not lie so, one that is broken, and one of many more fields than its bytes can hold without sharing them, is decoded
where it is.
"""

from __future__ import annotations

import struct
from typing import Final

from spark_arrow_ipc.errors import InvalidMetadataError, LimitError, UnsupportedError
from spark_arrow_ipc.ipc.flatbuf import reader, tables
from spark_arrow_ipc.ipc.limits import Limits
from spark_arrow_ipc.ipc.messages.schema import SchemaMessage, decode_schema

_ROOT: Final = struct.Struct("<II")
"""The place of the root table, and padding: places in the flatbuffer are at the same multiples of 8 as before."""

_MOST_NBYTES: Final = (1 << 16) - 16
"""Longer schemas are not remembered. Below this, the first bytes of a flatbuffer cannot be taken for a vtable either."""

_LEAST_TABLE_NBYTES: Final = 8
"""Bytes for each table that is visited; writers need 20. Tables that share bytes could be millions of fields in memory."""

_MOST_KNOWN: Final = 16

_KNOWN: dict[tuple[bytes, Limits, int], SchemaMessage] = {}


def decode_known_schema(view: reader.TableView, limits: Limits, max_depth: int) -> SchemaMessage:
    """Return the schema in a ``Schema`` table, as `decode_schema`; fast if the same bytes were decoded before.

    Parameters
    ----------
    view
        The table, in a footer.
    limits
        As for `decode_schema`.
    max_depth
        The levels of tables that `view` and what it refers to may have.

    Raises
    ------
    InvalidMetadataError, UnsupportedError, LimitError
        As `decode_schema`.
    """
    alone = _alone(view)
    if alone is None:
        return decode_schema(view, limits)
    key = alone, limits, max_depth
    known = _KNOWN.get(key)
    if known is None:
        try:
            most = len(alone) // _LEAST_TABLE_NBYTES
            known = decode_schema(reader.root(alone, tables.SCHEMA, max_tables=most, max_depth=max_depth), limits)
        except (InvalidMetadataError, LimitError, UnsupportedError):
            return decode_schema(view, limits)  # whose errors have the places in the file
        if len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.clear()
        _KNOWN[key] = known
    return known


def _alone(view: reader.TableView) -> bytes | None:
    """Return the table and all bytes after it as a flatbuffer; None if that is too long."""
    table, vtable = view.extents()
    start = min(table.start, vtable.start) & ~7
    buffer = view.vector_of_tables("fields")[0].buffer
    if len(buffer) - start > _MOST_NBYTES:
        return None
    return _ROOT.pack(table.start - start + _ROOT.size, 0) + bytes(buffer[start:])
