"""The request for a table of a server: the server's URI, and the `Selection` of a part and columns.

The document has requests only for complete tables. A server that supports more has another tag in its URIs
(``want_part``). A message with this tag is a request, and has these bytes, little-endian, before the ticket:

==========  ====================================================================
uint32      number of the part, from 0
uint32      number of parts; 0: only the schema, and the end of the stream
uint32      number of columns; 2**32 - 1: all
uint32 each position of a column in the schema, rising
==========  ====================================================================
"""

from __future__ import annotations

import base64
import binascii
import struct
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import parse_qsl, quote, unquote_to_bytes, urlsplit

import numpy as np

from spark_arrow_ipc.errors import InvalidFramingError, OptionError, UnsupportedError
from spark_arrow_ipc.ipc.dissociated import TCP, UNIX
from spark_arrow_ipc.ipc.dissociated.protocol import MAX_UINT64

MAX_PARTS: Final = 100_000
"""The most parts of a table."""

_HEAD: Final = struct.Struct("<III")
_ALL: Final = 2**32 - 1
_PARTS_SPEC: Final = 'format/dissociated.md, "Parts and columns"'


@dataclass(frozen=True, slots=True)
class Selection:
    """A part of a table, and some columns."""

    # Number of the part and of all parts; `of` is 0 for only the schema
    part: int = 0
    of: int = 1
    # Positions of columns, rising; None for all
    columns: tuple[int, ...] | None = None

    @property
    def is_schema_alone(self) -> bool:
        """True for a request without record batches."""
        return not self.of

    def cut(self, count: int) -> range:
        """Return the numbers of the part's record batches, in a table with `count` record batches."""
        # Parts are consecutive ranges, whose lengths differ by at most one.
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
        """Return the selection of a request, and its ticket."""
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
"""A complete table, which every server supports."""

SCHEMA_ALONE: Final = Selection(of=0)


def _invalid(expected: str, actual: str) -> InvalidFramingError:
    return InvalidFramingError(expected=expected, found=actual, spec=_PARTS_SPEC)


_SCHEMES: Final = (TCP, UNIX)
_SPEC: Final = 'Dissociated IPC, "URI Specification"'
_MAX_DIGITS: Final = len(str(MAX_UINT64))
# The longest URI, with room for a ticket of 64 KiB as three characters a byte
_MAX_NBYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Location:
    """A URI in parts."""

    scheme: str
    host: str = ""
    port: int = 0
    path: str = ""
    # The tags of a request and of offsets to free, or None
    want_data: int | None = None
    free_data: int | None = None
    # Encoded `Handle` of the shared memory
    remote_handle: bytes | None = None
    ticket: bytes | None = None
    # The tag of a request for a part of a table (`Selection`), or None
    want_part: int | None = None
    # The part of the table for the URI; without `part`, the advised number of parts
    part: int | None = None
    of: int | None = None

    @property
    def address(self) -> str:
        """The URI without its query, for errors and logs."""
        # Whoever has the numbers of the query can request tables.
        if self.scheme == UNIX:
            return f"{UNIX}://{quote(self.path)}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{TCP}://{host}:{self.port}"

    @property
    def uri(self) -> str:
        """The URI with all its parts."""
        numbers = (
            ("want_data", self.want_data),
            ("want_part", self.want_part),
            ("free_data", self.free_data),
            ("part", self.part),
            ("of", self.of),
        )
        pairs = [f"{name}={number}" for name, number in numbers if number is not None]
        if self.remote_handle is not None:
            # Base64 has `+`, which a query reads as a blank.
            pairs.append("remote_handle=" + quote(base64.b64encode(self.remote_handle), safe=""))
        if self.ticket is not None:
            pairs.append("ticket=" + quote(self.ticket, safe=""))
        return f"{self.address}?{'&'.join(pairs)}" if pairs else self.address

    @property
    def without_tags(self) -> str:
        """The address, the ticket and the part, for errors, logs and a column of Spark."""
        ticket = None if self.ticket is None else "ticket=" + quote(self.ticket, safe="/")
        part = None if self.part is None else f"part={self.part}&of={self.of}"
        pairs = [pair for pair in (ticket, part) if pair is not None]
        return f"{self.address}?{'&'.join(pairs)}" if pairs else self.address

    def with_ticket(self, ticket: bytes) -> Location:
        """Return the same location with a ticket."""
        return replace(self, ticket=ticket)


def parse_address(uri: str) -> Location:
    """Return the location of a URI that may lack the query, as in a server's ``listen``."""
    if len(uri) > _MAX_NBYTES:
        raise OptionError(expected=f"a URI of at most {_MAX_NBYTES:,} characters", found=f"{len(uri):,}")
    try:
        parts = urlsplit(uri)
        port = parts.port
    except ValueError:
        # Without the URI, which may hold a password.
        raise OptionError(expected="a URI", found="one whose host or port is broken") from None
    if parts.scheme not in _SCHEMES:
        raise UnsupportedError(
            f"the scheme {parts.scheme + ':' if parts.scheme else '(none)'} of Dissociated IPC: this release knows "
            f"{TCP}://host:port and {UNIX}:///path/of/socket"
        )
    query = _parse_query(parts.query)
    if parts.scheme == UNIX:
        # Names of files may be any bytes.
        path = unquote_to_bytes(parts.path).decode("utf-8", "surrogateescape")
        if parts.netloc or not path.startswith("/") or "\0" in path:
            raise OptionError(
                expected=f"{UNIX}:///path/of/socket with an absolute path", found=repr(uri.partition("?")[0][:200])
            )
        return replace(query, scheme=UNIX, path=path)
    if parts.username is not None:
        raise OptionError(
            expected=f"{TCP}://host:port", found="a user or a password before @, which errors and logs would show"
        )
    if not parts.hostname or port is None:
        raise OptionError(expected=f"{TCP}://host:port", found=repr(uri.partition("?")[0][:200]))
    in_path = unquote_to_bytes(parts.path[1:])
    if in_path and query.ticket is not None:
        raise OptionError(expected="a ticket in the path or in the query", found="both")
    return replace(query, host=parts.hostname, port=port, ticket=in_path or query.ticket)


def parse_location(uri: str) -> Location:
    """Return the location of a URI, which must have the tag of a request."""
    location = parse_address(uri)
    if location.want_data is None:
        raise OptionError(
            expected="the parameter want_data in the URI, as the server prints it",
            found="none",
            path=location.address,
            spec=_SPEC,
        )
    return location


def _parse_query(query: str) -> Location:
    # `parse_qsl` reads a `+` as a blank, and base64 has `+`.
    pairs = parse_qsl(query.replace("+", "%2B"), keep_blank_values=True, encoding="latin-1")
    values = dict(pairs)
    # Which one counts would depend on the library.
    if len(values) < len(pairs):
        raise OptionError(expected="each parameter of a URI once", found="one of them twice", spec=_SPEC)
    part, of = (_uint64(name, values.get(name)) for name in ("part", "of"))
    if (of is not None and not 1 <= of <= MAX_PARTS) or (part is not None and part >= (of or 0)):
        raise OptionError(
            expected=f"of, a number of parts of 1 to {MAX_PARTS:,}, and part, a number from 0 and less than it",
            found=f"part={part}, of={of}",
        )
    return Location(
        TCP,
        want_data=_uint64("want_data", values.get("want_data")),
        free_data=_uint64("free_data", values.get("free_data")),
        remote_handle=_base64(values.get("remote_handle")),
        ticket=values["ticket"].encode("latin-1") if "ticket" in values else None,
        want_part=_uint64("want_part", values.get("want_part")),
        part=part,
        of=of,
    )


def _uint64(name: str, digits: str | None) -> int | None:
    if digits is None:
        return None
    if digits.isascii() and digits.isdecimal() and len(digits) <= _MAX_DIGITS and int(digits) <= MAX_UINT64:
        return int(digits)
    raise OptionError(expected=f"{name} to be a number of 0 to {MAX_UINT64}", found=repr(digits[:40]), spec=_SPEC)


def _base64(value: str | None) -> bytes | None:
    try:
        return None if value is None else base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise OptionError(expected="remote_handle in base64", found=str(error), spec=_SPEC) from error
