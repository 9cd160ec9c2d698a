"""What a client wants of a table: some of its columns, one part of its record batches, or its schema alone.

The document knows whole tables only. A server that can do more says so by a tag of its own in its URIs (``want_part``);
a message of this tag is a request, and its bytes are these, little-endian, before the ticket:

==========  ====================================================================
uint32      number of the part, from 0
uint32      number of parts; 0: the schema alone, and then the end of the stream
uint32      number of columns; 2**32 - 1: all
uint32 each position of a column in the schema, rising
==========  ====================================================================
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

import numpy as np

from spark_arrow_ipc.errors import InvalidFramingError

MAX_PARTS: Final = 100_000
"""The most parts of a table."""

_HEAD: Final = struct.Struct("<III")
_ALL: Final = 2**32 - 1
_SPEC: Final = 'docs/dissociated.md, "Parts and columns"'


@dataclass(frozen=True, slots=True)
class Selection:
    """A part of a table.

    Parameters
    ----------
    part, of
        The number of the part and of all parts; `of` is 0 for the schema alone.
    columns
        Positions of columns, rising; None for all.
    """

    part: int = 0
    of: int = 1
    columns: tuple[int, ...] | None = None

    @property
    def is_schema_alone(self) -> bool:
        """Whether no record batch is wanted."""
        return not self.of

    def cut(self, count: int) -> range:
        """Return the numbers of the record batches that are wanted, of a table with `count` of them.

        Parts follow each other, in the order of the table, and differ by one record batch at most.
        """
        if self.is_schema_alone:
            return range(0)
        return range(count * self.part // self.of, count * (self.part + 1) // self.of)

    def encode(self, ticket: bytes) -> bytes:
        """Return a request for this part of the table of a ticket."""
        positions = () if self.columns is None else self.columns
        count = _ALL if self.columns is None else len(positions)
        return _HEAD.pack(self.part, self.of, count) + np.array(positions, "<u4").tobytes() + ticket

    @classmethod
    def decode(cls, data: memoryview) -> tuple[Selection, bytes]:
        """Return the selection of a request, and its ticket.

        Raises
        ------
        InvalidFramingError
            The request is too short, the part is none of the parts, or the positions do not rise.
        """
        if len(data) < _HEAD.size:
            raise _invalid(f"a request of at least {_HEAD.size} bytes", f"{len(data)}")
        part, of, count = _HEAD.unpack_from(data)
        if of > MAX_PARTS or part >= max(of, 1):
            raise _invalid(f"a part of at most {MAX_PARTS:,} parts, counted from 0", f"{part:,} of {of:,}")
        if count == _ALL:
            return cls(part, of), bytes(data[_HEAD.size :])
        end = _HEAD.size + 4 * count
        if end > len(data):
            raise _invalid(f"{count:,} positions of columns", f"{len(data) - _HEAD.size:,} bytes")
        positions = np.frombuffer(data[_HEAD.size : end], "<u4")
        if (positions[1:] <= positions[:-1]).any():
            raise _invalid("positions of columns that rise", "others")
        return cls(part, of, tuple(positions.tolist())), bytes(data[end:])


WHOLE: Final = Selection()
"""All of a table, which needs no request of its own kind."""

SCHEMA_ALONE: Final = Selection(of=0)


def _invalid(expected: str, found: str) -> InvalidFramingError:
    return InvalidFramingError(expected=expected, found=found, spec=_SPEC)
