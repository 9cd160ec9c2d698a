"""Read the messages of a Dissociated IPC server: `Stream`, and `DissociatedReader`, which `connect` makes."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Final, Literal

from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.types import CustomMetadata
from spark_arrow_ipc.errors import InvalidBodyError, InvalidFramingError, UnsupportedError, error_context
from spark_arrow_ipc.ipc.batch_reader import BatchReader
from spark_arrow_ipc.ipc.bytes.body import AnyPlace, BodyPlace, BufferList
from spark_arrow_ipc.ipc.columns.projection import SelectedColumns
from spark_arrow_ipc.ipc.constants import BODY_ALIGNMENT, Limits
from spark_arrow_ipc.ipc.dissociated import protocol
from spark_arrow_ipc.ipc.dissociated.connection import Arrivals, Arrived, Connection, TaggedBody
from spark_arrow_ipc.ipc.dissociated.location import WHOLE, Location, Selection
from spark_arrow_ipc.ipc.dissociated.protocol import BodyType, Frame, FrameHead, FrameKind
from spark_arrow_ipc.ipc.dissociated.shared_memory import Attached, Handle, SharedMemory, attach
from spark_arrow_ipc.ipc.flatbuf.tables import MessageHeader
from spark_arrow_ipc.ipc.messages.message import DictionaryBatchHeader, Message, RecordBatchHeader
from spark_arrow_ipc.ipc.stream_decoder import StreamDecoder
from spark_arrow_ipc.storage.byte_source import BufferSource


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
            if self._handle is not None and self._handle.kind is SharedMemory.NAMED:
                self._shared = attach(self._handle)
            self._closing = stack.pop_all()
        self._metadata_from, self._bodies_from = self._open[0], self._open[-1]

    def request(
        self, locations: Sequence[Location], ticket: bytes, token: str | None, selection: Selection = WHOLE
    ) -> None:
        """Ask each server for the stream, or one server for a part of it."""
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
        """Return where the buffers of a body are."""
        if body.body_type is BodyType.BUFFERS:
            return self._listed(message, body.data)
        nbytes = message.body_nbytes
        if len(body.data) not in (nbytes, nbytes + -nbytes % BODY_ALIGNMENT):
            raise InvalidBodyError(expected=f"a body of {nbytes:,} bytes", found=f"{len(body.data):,}")
        return BodyPlace(BufferSource(body.data[:nbytes]), 0, nbytes)

    def close(self) -> None:
        """Close the connections."""
        self._closing.close()

    def _listed(self, message: Message, data: memoryview) -> BufferList:
        if self._shared is None:
            raise InvalidFramingError(expected="shared memory before a list of its buffers", found="none")
        header = message.header
        batch = header.data if isinstance(header, DictionaryBatchHeader) else header
        assert isinstance(batch, RecordBatchHeader)
        pairs = protocol.decode_pairs(data, batch.buffers[:, 1].tolist(), self._shared.nbytes)
        self._limits.check("max_batch_bytes", int(pairs[:, 1].sum()), "the buffers of a batch in shared memory")
        views = self._shared.views(pairs, None if self._free_data is None else self._give_back)
        return BufferList(views, message.body_nbytes)

    def _give_back(self, offsets: list[int]) -> None:
        assert self._free_data is not None
        self._bodies_from.send_later(protocol.encode_freed(offsets), self._free_data)

    def _receive(self) -> None:
        due_from = self._metadata_from if self._arrivals.needs_metadata else self._bodies_from
        if due_from not in self._open:
            raise self._arrivals.truncated()
        connection = self._readable()
        frame = connection.receive(self._check)
        if frame is None:
            # A server of metadata may close once all is sent, while bodies are still to come.
            self._open.remove(connection)
        else:
            _TAKES[frame.kind](self, frame, connection)

    def _readable(self) -> Connection:
        """Wait for a connection with bytes; one with bodies is left alone while enough of them wait for metadata."""
        waiting = self._open
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
        """Refuse a frame by its head, before memory is taken for it."""
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

    def _take_untagged(self, frame: Frame, _: Connection) -> None:
        self._arrivals.add_untagged(frame.data)

    def _take_tagged(self, frame: Frame, _: Connection) -> None:
        self._arrivals.add_tagged(frame.tag, frame.data)

    def _take_memory(self, _: Frame, connection: Connection) -> None:
        assert self._handle is not None
        descriptor = connection.take_descriptor()
        try:
            self._shared = attach(self._handle, descriptor)
        finally:
            if descriptor is not None:
                os.close(descriptor)


_TAKES: Final = {
    FrameKind.UNTAGGED: Stream._take_untagged,  # noqa: SLF001 - the table of this class
    FrameKind.TAGGED: Stream._take_tagged,  # noqa: SLF001
    FrameKind.MEMORY: Stream._take_memory,  # noqa: SLF001
}


class DissociatedReader(BatchReader):
    """The record batches of a server's table, in order and once. Made by `connect`.

    Batches in shared memory are views of it, and stay valid after `close`.
    """

    format = "dissociated"
    is_numbered: Literal[False] = False

    def __init__(self, stream: Stream, columns: SelectedColumns, custom_metadata: CustomMetadata) -> None:
        source = BufferSource(memoryview(b""))
        source.path = stream.address
        super().__init__(source, columns)
        self.custom_metadata = custom_metadata
        """The custom metadata of the schema's message, which is not that of the schema."""
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
            The connection is lost, or the server silent for too long.
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
        self._counts[message.kind] += 1
        with error_context(block_kind=message.kind.noun, block_number=number):
            place = self._stream.place(message, arrived.body)
            return self._decoder.decode(message, place, number)

    def close(self) -> None:
        """Close the connection. Batches that were read stay valid."""
        self._stream.close()

    def __repr__(self) -> str:
        return f"<Dissociated IPC stream {self.path}>\n{self.schema}"
