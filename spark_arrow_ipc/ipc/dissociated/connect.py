"""`connect` opens a server's table or a part; `DissociatedReader` yields its record batches.

How it works: `Stream` collects the messages of one stream from one connection, or from two, of metadata and of bodies.
A body is bytes from the socket, or a list of places in shared memory, which is mapped once and whose places are freed
when the last view of a batch is gone.
"""

from __future__ import annotations

import os
import select
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from spark_arrow_ipc.arrow.column_path import ColumnPath, resolve_exactly
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.arrow.types import CustomMetadata
from spark_arrow_ipc.errors import (
    InvalidBodyError,
    InvalidFramingError,
    InvalidMetadataError,
    OptionError,
    UnsupportedError,
    error_context,
    printable,
)
from spark_arrow_ipc.ipc.batch_reader import BatchReader
from spark_arrow_ipc.ipc.bytes.body import AnyPlace, BodyPlace, BufferList
from spark_arrow_ipc.ipc.columns.dictionaries import StreamDecoder
from spark_arrow_ipc.ipc.columns.projection import Columns, SelectedColumns
from spark_arrow_ipc.ipc.constants import BODY_ALIGNMENT, DEFAULT_LIMITS, Limits, Validation
from spark_arrow_ipc.ipc.dissociated import protocol
from spark_arrow_ipc.ipc.dissociated.connection import Arrivals, Arrived, Connection, TaggedBody
from spark_arrow_ipc.ipc.dissociated.flight import find_streams, is_flight
from spark_arrow_ipc.ipc.dissociated.location import SCHEMA_ALONE, WHOLE, Location, Selection, parse_location
from spark_arrow_ipc.ipc.dissociated.protocol import BodyType, FrameHead, FrameKind
from spark_arrow_ipc.ipc.dissociated.shared_memory import Attached, Handle, SharedMemory, attach
from spark_arrow_ipc.ipc.flatbuf.tables import MessageHeader
from spark_arrow_ipc.ipc.messages.message import DictionaryBatchHeader, Message, RecordBatchHeader
from spark_arrow_ipc.ipc.messages.schema import SchemaHeader, SchemaMessage, decode_schema
from spark_arrow_ipc.ipc.options import ReadOptions
from spark_arrow_ipc.storage.byte_source import BufferSource

# The longest ticket, and the longest request for a part
_MAX_TICKET_NBYTES: Final = 64 << 10


def connect(
    uri: str | Sequence[str],
    *,
    ticket: str | bytes | None = None,
    columns: Columns | None = None,
    part: tuple[int, int] | None = None,
    validation: Validation | Literal["full", "structural"] = Validation.FULL,
    limits: Limits = DEFAULT_LIMITS,
    timeout: float = 30.0,
    token: str | None = None,
    lenient: bool = False,
) -> DissociatedReader:
    """Open a table of a Dissociated IPC server.

    Parameters
    ----------
    uri
        The server's URI; or two, of metadata and of bodies; or ``grpc://host:port`` of a Flight server with their
        locations.
    ticket
        The name of the table; None if the URI has it. For a Flight server a command of one stream (`find_streams`
        returns all).
    columns
        As for `ipc.open`. A server that can send some columns through its socket does not send others; fields of a
        struct are sent together.
    part
        Number of a part, from 0, and of all parts: some of the record batches, in their order; None for the URI's part,
        or all. Parts are independent and can be read at once.
    validation, limits
        As for `ipc.open`. Use ``structural`` for servers that have checked their tables.
    timeout
        Seconds for the connection, and without an answer of the server.
    token
        The server's token.
    lenient
        True to read tags with a body type that is shifted by 55 bits, as in diagrams of the document.

    Raises
    ------
    OptionError, UnsupportedError
        The URI is broken or has an unknown transport, the ticket is missing, or the server has no parts.
    ConnectionError
        The server does not run, or refuses; the message has its reason.
    ArrowIpcError, OSError
        The schema is broken, or the server does not answer.
    ColumnNotFoundError
        A column of `columns` does not exist.
    """
    options = ReadOptions(columns=columns, validation=validation, limits=limits)
    request = _request(uri, ticket, limits, timeout, token, lenient=lenient)
    with error_context(path=request.locations[0].address):
        selection = request.selection(part)
        sent: Schema | None = None
        if columns is not None and request.selects_columns:
            selection, among_sent, sent = _select(request, selection, columns)
            options = replace(options, columns=among_sent)
        stream, message, schema = request.begin(selection)
        try:
            # Positions were resolved by an earlier answer of the server.
            if sent is not None and schema.schema != sent:
                raise InvalidMetadataError(
                    expected="the columns that were asked for", found="others: the table changed; read it again"
                )
            return DissociatedReader(stream, options.select(schema), message.custom_metadata)
        except BaseException:
            stream.close()
            raise


def read_served_schema(
    uri: str, *, limits: Limits = DEFAULT_LIMITS, timeout: float = 30.0, token: str | None = None
) -> Schema:
    """Return the schema of a server's table; a server with parts sends only this."""
    request = _request(uri, None, limits, timeout, token, lenient=False)
    with error_context(path=request.locations[0].address):
        return request.read_schema().schema


@dataclass(frozen=True, slots=True)
class _Request:
    """A table of one or two servers, for any number of requests."""

    locations: tuple[Location, ...]
    ticket: bytes
    limits: Limits
    timeout: float
    token: str | None = field(repr=False)
    lenient: bool

    @property
    def knows_parts(self) -> bool:
        """True if the server supports requests for parts."""
        return len(self.locations) == 1 and self.locations[0].want_part is not None

    @property
    def selects_columns(self) -> bool:
        """True if the server sends some columns without the others, which has no use in shared memory."""
        return self.knows_parts and self.locations[0].remote_handle is None

    def selection(self, part: tuple[int, int] | None) -> Selection:
        """Return the part of the arguments, the URI, or everything."""
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
        """Connect, send the request, and return the stream and its schema."""
        stream = Stream(self.locations, self.limits, self.timeout, lenient=self.lenient)
        try:
            stream.request(self.locations, self.ticket, self.token, selection)
            arrived = stream.next()
            assert arrived is not None  # `Arrivals` refuses other messages before a schema
            header = arrived.message.header
            assert isinstance(header, SchemaHeader)
            return stream, arrived.message, decode_schema(header.view, self.limits)
        except BaseException:
            stream.close()
            raise

    def read_schema(self) -> SchemaMessage:
        """Return the schema, by another connection."""
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
    """Return the request for some columns, their paths among the columns that are sent, and the schema of these."""
    # A server sends complete columns in the table's order; the client selects fields of structs and restores its order.
    full_schema = request.read_schema().schema
    paths = resolve_exactly(full_schema.fields, columns(full_schema) if callable(columns) else columns)
    positions = tuple(sorted({path[0] for path in paths}))
    selected = Selection(selection.part, selection.of, positions)
    # All columns, or more positions than fit into a request: the server sends all.
    if len(positions) == len(full_schema.fields) or len(selected.encode(request.ticket)) > _MAX_TICKET_NBYTES:
        return selection, paths, None
    index_of = {position: i for i, position in enumerate(positions)}
    fields = tuple(full_schema.fields[position] for position in positions)
    among_sent = [(index_of[top], *below) for top, *below in paths]
    return selected, among_sent, Schema(fields, full_schema.custom_metadata, full_schema.endianness)


def _find_stream(uri: str, command: str | bytes | None, timeout: float) -> tuple[tuple[str, ...], bytes]:
    if command is None:
        raise OptionError(expected="a ticket, which a Flight server knows the table by", found="none", path=uri)
    streams = find_streams(uri, command, timeout=timeout)
    # Streams are read one by one; joining them here would hide that they are parallel.
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


class DissociatedReader(BatchReader):
    """The record batches of a server's table, in order and once, opened by `connect`.

    Batches in shared memory are views of this memory, and stay valid after `close`.
    """

    format = "dissociated"
    is_numbered: Literal[False] = False

    def __init__(self, stream: Stream, columns: SelectedColumns, custom_metadata: CustomMetadata) -> None:
        source = BufferSource(memoryview(b""))
        source.path = stream.address
        super().__init__(source, columns)
        self.custom_metadata = custom_metadata
        """The custom metadata of the schema's message, apart from the schema's own."""
        self._stream = stream
        self._decoder = StreamDecoder(columns, stream.address)
        self._counts = dict.fromkeys((MessageHeader.RecordBatch, MessageHeader.DictionaryBatch), 0)

    def __iter__(self) -> Iterator[RecordBatch]:
        return self

    def __next__(self) -> RecordBatch:
        """Return the next record batch, after the dictionary batches before it.

        Raises
        ------
        ArrowIpcError
            A message is broken, or the connection ends before the stream.
        OSError
            The connection is lost, or the server did not answer in time.
        """
        while True:
            with error_context(path=self.path):
                arrived = self._stream.next()
                if arrived is None:
                    raise StopIteration
                batch = self._decode(arrived)
            if batch is not None:
                return batch

    def _decode(self, arrived: Arrived) -> RecordBatch | None:
        message = arrived.message
        assert arrived.body is not None
        number = self._counts[message.kind]
        # Before decoding, so that an error does not repeat a number.
        self._counts[message.kind] += 1
        with error_context(block_kind=message.kind.noun, block_number=number):
            body_place = self._stream.place(message, arrived.body)
            return self._decoder.decode(message, body_place, number)

    def close(self) -> None:
        """Close the connection; batches stay valid."""
        self._stream.close()

    def __repr__(self) -> str:
        return f"<Dissociated IPC stream {printable(str(self.path))}>\n{self.schema}"


class Stream:
    """The messages of one stream, from one connection or two."""

    def __init__(self, locations: Sequence[Location], limits: Limits, timeout: float, *, lenient: bool) -> None:
        self.address = locations[0].address
        self._limits = limits
        self._timeout = timeout
        self._lenient = lenient
        self._arrivals = Arrivals(limits, lenient=lenient)
        data = locations[-1]
        self._free_data = data.free_data
        self._handle = None if data.remote_handle is None else Handle.decode(data.remote_handle)
        self._shared: Attached | None = None
        self._open: list[Connection] = []
        with ExitStack() as stack:
            for location in locations:
                connection = Connection.open(location, timeout)
                stack.callback(connection.close)
                self._open.append(connection)
            # The other kind comes by a descriptor, after the request.
            if self._handle is not None and self._handle.kind is SharedMemory.NAMED:
                self._shared = attach(self._handle)
            # After an error above all connections are closed.
            self._closing = stack.pop_all()
        self._metadata_from, self._bodies_from = self._open[0], self._open[-1]

    def request(
        self, locations: Sequence[Location], ticket: bytes, token: str | None, selection: Selection = WHOLE
    ) -> None:
        """Request the stream from each server, or a part from one."""
        for connection, location in zip(self._open, locations, strict=True):
            if token is not None:
                connection.send(FrameKind.TOKEN, token.encode())
            data, tag = ticket, location.want_data
            if selection != WHOLE:
                data, tag = selection.encode(ticket), location.want_part
            assert tag is not None
            connection.send(FrameKind.TAGGED, data, tag)

    def next(self) -> Arrived | None:
        """Return the next message with its body, or None at the end of the stream."""
        while True:
            arrived = self._arrivals.take()
            if arrived is not None:
                return arrived
            if self._arrivals.is_finished:
                return None
            self._receive()

    def place(self, message: Message, body: TaggedBody) -> AnyPlace:
        """Return the place of the buffers of a body."""
        if body.body_type is BodyType.BUFFERS:
            return self._list_buffers(message, body.data)
        nbytes = message.body_nbytes
        if len(body.data) not in (nbytes, nbytes + -nbytes % BODY_ALIGNMENT):
            raise InvalidBodyError(expected=f"a body of {nbytes:,} bytes", found=f"{len(body.data):,}")
        return BodyPlace(BufferSource(body.data[:nbytes]), 0, nbytes)

    def close(self) -> None:
        """Close the connections."""
        self._closing.close()

    def _list_buffers(self, message: Message, data: memoryview) -> BufferList:
        if self._shared is None:
            raise InvalidFramingError(expected="shared memory before a list of its buffers", found="none")
        header = message.header
        batch = header.data if isinstance(header, DictionaryBatchHeader) else header
        assert isinstance(batch, RecordBatchHeader)
        pairs = protocol.decode_pairs(data, batch.buffers[:, 1].tolist(), self._shared.nbytes)
        self._limits.check("max_batch_bytes", int(pairs[:, 1].sum()), "the buffers of a batch in shared memory")
        views = self._shared.views(pairs, None if self._free_data is None else self._free_later)
        return BufferList(views, message.body_nbytes)

    def _free_later(self, offsets: list[int]) -> None:
        assert self._free_data is not None
        self._bodies_from.send_later(protocol.encode_freed(offsets), self._free_data)

    def _receive(self) -> None:
        due_from = self._metadata_from if self._arrivals.needs_metadata else self._bodies_from
        if due_from not in self._open:
            raise self._arrivals.truncation_error()
        connection = self._readable()
        frame = connection.receive(self._check)
        if frame is None:
            # A server of metadata may close after its last message, before all bodies have arrived.
            self._open.remove(connection)
        else:
            match frame.kind:
                case FrameKind.UNTAGGED:
                    self._arrivals.add_untagged(frame.data)
                case FrameKind.TAGGED:
                    self._arrivals.add_tagged(frame.tag, frame.data)
                case _:  # `_check` allows only one more kind
                    self._attach_memory(connection)

    def _readable(self) -> Connection:
        """Wait for a connection with bytes, and return it."""
        waiting = self._open
        # Bodies that wait for metadata take memory: no more are received until metadata has caught up.
        if len(waiting) > 1 and self._arrivals.bodies_nbytes >= self._limits.max_batch_bytes // 2:
            waiting = [connection for connection in waiting if connection is not self._bodies_from]
        if len(waiting) == 1:
            return waiting[0]
        for connection in waiting:
            if connection.has_bytes:
                return connection
        poll = select.poll()
        for connection in waiting:
            poll.register(connection.fileno(), select.POLLIN)
        ready = {number for number, _ in poll.poll(self._timeout * 1000)}
        for connection in waiting:
            if connection.fileno() in ready:
                return connection
        raise TimeoutError(f"{self.address}: the servers sent nothing for {self._timeout:g} s")

    def _check(self, head: FrameHead) -> None:
        """Refuse a frame by its head, before its memory is allocated."""
        if head.kind is FrameKind.UNTAGGED:
            most = self._limits.max_metadata_bytes + protocol.PREFIX_NBYTES
            if head.nbytes > most:
                self._limits.check("max_metadata_bytes", head.nbytes - protocol.PREFIX_NBYTES, "a message's metadata")
        elif head.kind is FrameKind.TAGGED:
            tag = protocol.decode_body_tag(head.tag, lenient=self._lenient)
            if tag.body_type is BodyType.PACKED:
                self._limits.check("max_batch_bytes", head.nbytes - BODY_ALIGNMENT + 1, "a body")
                return
            if self._handle is None:
                raise UnsupportedError("a list of buffers from a server whose URI has no remote_handle to reach them")
            # The metadata has 16 bytes a buffer too.
            self._limits.check("max_metadata_bytes", head.nbytes, "a list of buffers")
        elif head.kind is not FrameKind.MEMORY or head.nbytes or self._handle is None or self._shared is not None:
            raise InvalidFramingError(expected="metadata or a body", found=f"a frame of kind {head.kind.name}")

    def _attach_memory(self, connection: Connection) -> None:
        assert self._handle is not None
        descriptor = connection.take_descriptor()
        try:
            self._shared = attach(self._handle, descriptor)
        finally:
            if descriptor is not None:
                os.close(descriptor)
