"""`connect`: open a table of a server, whole or in part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from spark_arrow_ipc.arrow.column_path import ColumnPath, resolve_exactly
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.errors import InvalidMetadataError, OptionError, error_context
from spark_arrow_ipc.ipc.columns.projection import Columns, SelectedColumns
from spark_arrow_ipc.ipc.constants import DEFAULT_LIMITS, Limits, Validation
from spark_arrow_ipc.ipc.dissociated.flight import find_streams, is_flight
from spark_arrow_ipc.ipc.dissociated.location import SCHEMA_ALONE, WHOLE, Location, Selection, parse_location
from spark_arrow_ipc.ipc.dissociated.reader import DissociatedReader, Stream
from spark_arrow_ipc.ipc.messages.message import Message
from spark_arrow_ipc.ipc.messages.schema import SchemaHeader, SchemaMessage, decode_schema

_ValidationWord: TypeAlias = Literal["full", "structural"]
_MAX_TICKET_NBYTES: Final = 64 << 10
"""The longest ticket, and the longest request for a part."""


def connect(
    uri: str | Sequence[str],
    *,
    ticket: str | bytes | None = None,
    columns: Columns | None = None,
    part: tuple[int, int] | None = None,
    validation: Validation | _ValidationWord = Validation.FULL,
    limits: Limits = DEFAULT_LIMITS,
    timeout: float = 30.0,
    token: str | None = None,
    lenient: bool = False,
) -> DissociatedReader:
    """Open a table of a Dissociated IPC server.

    Parameters
    ----------
    uri
        The server's URI; or two, of metadata and of bodies; or ``grpc://host:port`` of a Flight server that knows them.
    ticket
        The name of the table; None where the URI has it. Of a Flight server: a command of one stream (`find_streams`
        gives all).
    columns
        As `ipc.open`. Where bodies go through the socket of a server that can, other columns are not sent; fields of a
        struct are sent together.
    part
        Number of a part, from 0, and of all parts: some of the record batches, in their order. None for that of the
        URI, or all. Parts are independent of each other and can be read at once.
    validation, limits
        As `ipc.open`. A server in another process may be trusted with ``structural`` where it has checked its tables.
    timeout
        Seconds for the connection, and that the server may be silent.
    token
        What the server wants to know.
    lenient
        Whether tags whose body type is shifted by 55 bits are read, as diagrams of the document have it.

    Raises
    ------
    OptionError, UnsupportedError
        The URI is broken or of a transport that is not known, there is no ticket, or the server has no parts.
    ConnectionError
        There is no server, or it refuses; the message says why.
    ArrowIpcError, OSError
        The schema is broken, or the server silent.
    ColumnNotFoundError
        A column of `columns` does not exist.
    """
    if validation not in tuple(Validation):
        words = " or ".join(repr(known.value) for known in Validation)
        raise ValueError(f"expected validation {words}, found {validation!r}")
    request = _request(uri, ticket, limits, timeout, token, lenient=lenient)
    with error_context(path=request.locations[0].address):
        selection = request.selection(part)
        chosen = columns
        sent: Schema | None = None
        if columns is not None and request.selects_columns:
            selection, chosen, sent = _select(request, selection, columns)
        stream, message, schema = request.begin(selection)
        try:
            if sent is not None and schema.schema != sent:
                raise InvalidMetadataError(
                    expected="the columns that were asked for", found="others: the table changed; read it again"
                )
            selected = SelectedColumns(schema, chosen, Validation(validation), limits)
            return DissociatedReader(stream, selected, message.custom_metadata)
        except BaseException:
            stream.close()
            raise


def read_served_schema(
    uri: str, *, limits: Limits = DEFAULT_LIMITS, timeout: float = 30.0, token: str | None = None
) -> Schema:
    """Return the schema of a server's table; a server that knows parts sends nothing else."""
    request = _request(uri, None, limits, timeout, token, lenient=False)
    with error_context(path=request.locations[0].address):
        return request.read_schema().schema


@dataclass(frozen=True, slots=True)
class _Request:
    """A table of a server, or of two, that can be asked for several times."""

    locations: tuple[Location, ...]
    ticket: bytes
    limits: Limits
    timeout: float
    token: str | None
    lenient: bool

    @property
    def knows_parts(self) -> bool:
        """True if the server knows requests for parts."""
        return len(self.locations) == 1 and self.locations[0].want_part is not None

    @property
    def selects_columns(self) -> bool:
        """True if the server sends some columns without the others; in shared memory nothing is sent at all."""
        return self.knows_parts and self.locations[0].remote_handle is None

    def selection(self, part: tuple[int, int] | None) -> Selection:
        """Return the part that is asked for."""
        location = self.locations[0]
        if part is None:
            if location.part is None:
                return WHOLE
            assert location.of is not None
            part = location.part, location.of
        number, of = part
        if not 0 <= number < of:
            raise OptionError(expected="the number of a part, from 0, and the number of parts", found=f"{part}")
        if of > 1 and not self.knows_parts:
            raise OptionError(
                expected="the URI of a server that knows parts (with want_part)", found="another one; read it whole"
            )
        return Selection(number, of)

    def begin(self, selection: Selection) -> tuple[Stream, Message, SchemaMessage]:
        """Connect, ask, and return the stream and its schema."""
        stream = Stream(self.locations, self.limits, self.timeout, lenient=self.lenient)
        try:
            stream.request(self.locations, self.ticket, self.token, selection)
            return (stream, *_read_schema(stream, self.limits))
        except BaseException:
            stream.close()
            raise

    def read_schema(self) -> SchemaMessage:
        """Return the schema, by a connection of its own."""
        stream, _, schema = self.begin(SCHEMA_ALONE if self.knows_parts else WHOLE)
        stream.close()
        return schema


def _request(
    uri: str | Sequence[str],
    ticket: str | bytes | None,
    limits: Limits,
    timeout: float,
    token: str | None,
    *,
    lenient: bool,
) -> _Request:
    if isinstance(uri, str) and is_flight(uri):
        uri, ticket = _find_stream(uri, ticket, timeout)
    uris = (uri,) if isinstance(uri, str) else tuple(uri)
    if not 1 <= len(uris) <= 2:
        raise OptionError(expected="one URI, or two: of metadata and of bodies", found=f"{len(uris)}")
    locations = tuple(map(parse_location, uris))
    with error_context(path=locations[0].address):
        return _Request(locations, _ticket_of(locations, ticket), limits, timeout, token, lenient)


def _select(
    request: _Request, selection: Selection, columns: Columns
) -> tuple[Selection, Sequence[ColumnPath], Schema | None]:
    """Return the request for some columns, these among the columns that are sent, and the schema of those.

    A server sends whole columns, in the order of the table; the client selects fields of structs and restores the order.
    """
    whole = request.read_schema().schema
    paths = resolve_exactly(whole.fields, columns(whole) if callable(columns) else columns)
    positions = tuple(sorted({path[0] for path in paths}))
    selected = Selection(selection.part, selection.of, positions)
    if len(positions) == len(whole.fields) or len(selected.encode(request.ticket)) > _MAX_TICKET_NBYTES:
        return selection, paths, None
    place = {position: i for i, position in enumerate(positions)}
    fields = tuple(whole.fields[position] for position in positions)
    among_sent = [(place[top], *below) for top, *below in paths]
    return selected, among_sent, Schema(fields, whole.custom_metadata, whole.endianness)


def _find_stream(uri: str, command: str | bytes | None, timeout: float) -> tuple[tuple[str, ...], bytes]:
    if command is None:
        raise OptionError(expected="a ticket, which a Flight server knows the table by", found="none", path=uri)
    streams = find_streams(uri, command, timeout=timeout)
    if len(streams) != 1:
        raise OptionError(
            expected="a command of one stream",
            found=f"{len(streams)}; connect to each that ipc.find_streams gives",
            path=uri,
        )
    return streams[0].uris, streams[0].ticket


def _ticket_of(locations: Sequence[Location], ticket: str | bytes | None) -> bytes:
    ticket = ticket.encode() if isinstance(ticket, str) else ticket
    if ticket is None:
        ticket = next((location.ticket for location in locations if location.ticket is not None), None)
    if ticket is None:
        raise OptionError(expected="a ticket, the name of a table: ticket=... or in the URI", found="none")
    if len(ticket) > _MAX_TICKET_NBYTES:
        raise OptionError(expected=f"a ticket of at most {_MAX_TICKET_NBYTES:,} bytes", found=f"{len(ticket):,}")
    return ticket


def _read_schema(stream: Stream, limits: Limits) -> tuple[Message, SchemaMessage]:
    arrived = stream.next()
    # `Arrivals` begins with a schema and nothing else.
    assert arrived is not None
    header = arrived.message.header
    assert isinstance(header, SchemaHeader)
    return arrived.message, decode_schema(header.view, limits)
