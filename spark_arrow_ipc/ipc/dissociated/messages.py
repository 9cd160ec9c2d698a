"""A table as the messages that a server sends: metadata and body apart."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.arrow.types import CustomMetadata
from spark_arrow_ipc.ipc.dissociated.shared_memory import Region, RegionWriter
from spark_arrow_ipc.ipc.encode import BytesLike, EncodedBatch
from spark_arrow_ipc.ipc.flatbuf import tables
from spark_arrow_ipc.ipc.metadata.record_batch import Int64s
from spark_arrow_ipc.ipc.sinks import FileSink
from spark_arrow_ipc.ipc.write_options import WriteOptions
from spark_arrow_ipc.ipc.writer import Writer

__all__ = ["Outgoing", "OutgoingTable", "SharedTable", "StreamedTable", "Table", "TableSource"]


class Table(NamedTuple):
    """Record batches of one schema, and the custom metadata of the schema's message."""

    schema: Schema
    batches: Iterable[RecordBatch]
    message_metadata: CustomMetadata = ()


TableSource = Callable[[], AbstractContextManager[Table]]
"""Opens a table; called for each client, or once where it goes into shared memory."""


@dataclass(frozen=True, slots=True, eq=False)
class Outgoing:
    """A message to send.

    Parameters
    ----------
    flatbuffer
        Its metadata.
    nbytes
        The bytes of its body.
    pieces
        The body; None for a schema, which has none.
    pairs
        Offset and bytes of each buffer in shared memory; None if it is not there.
    """

    flatbuffer: bytes
    nbytes: int
    pieces: tuple[BytesLike, ...] | None
    pairs: Int64s | None = None


class OutgoingTable(Protocol):
    """A table that can be sent any number of times, to several clients at once."""

    def messages(self) -> Iterator[Outgoing]:
        """Yield the schema, and each dictionary before the first batch that needs it."""


class _Encoder(Writer):
    """A writer of streams whose messages are taken apart instead of written."""

    def __init__(self, schema: Schema, options: WriteOptions, schema_metadata: CustomMetadata) -> None:
        self._made: list[tuple[Outgoing, Int64s | None]] = []
        # Compressed pieces are valid until the compressor is used again, for the next dictionary.
        self._copies = options.codec is not None
        super().__init__(FileSink(io.BytesIO()), schema, options, schema_metadata)

    def _put_flatbuffer(self, table: Any, flatbuffer: bytes, encoded: EncodedBatch) -> None:
        if table is tables.SCHEMA:
            self._made.append((Outgoing(flatbuffer, 0, None), None))
            return
        pieces = (b"".join(encoded.pieces),) if self._copies else encoded.pieces
        self._made.append((Outgoing(flatbuffer, encoded.nbytes, pieces), encoded.header["buffers"]))

    def take(self) -> list[tuple[Outgoing, Int64s | None]]:
        """Return the messages since the last call, each with the places of its buffers in its body."""
        made, self._made = self._made, []
        return made


def _encode(table: Table, options: WriteOptions) -> Iterator[tuple[Outgoing, Int64s | None]]:
    encoder = _Encoder(table.schema, options, table.message_metadata)
    yield from encoder.take()
    for batch in table.batches:
        encoder.write(batch)
        yield from encoder.take()


class StreamedTable:
    """A table that is opened and encoded for each client, a record batch at a time."""

    def __init__(self, source: TableSource, options: WriteOptions) -> None:
        self._source = source
        self._options = options

    def messages(self) -> Iterator[Outgoing]:
        """Yield the messages.

        Raises
        ------
        ArrowIpcError, OSError
            The table cannot be read.
        """
        with self._source() as table:
            for message, _ in _encode(table, self._options):
                yield message


@dataclass(frozen=True, slots=True, eq=False)
class _Stored:
    flatbuffer: bytes
    start: int
    nbytes: int
    pairs: Int64s | None


class SharedTable:
    """A table whose bodies were put into shared memory, uncompressed, when it was made.

    Raises
    ------
    ArrowIpcError, OSError
        The table cannot be read, or the shared memory is full.
    """

    def __init__(self, source: TableSource, options: WriteOptions, memory: RegionWriter) -> None:
        self._stored: list[_Stored] = []
        self._region: Region | None = None
        with source() as table:
            for message, buffers in _encode(table, options):
                pairs, start = None, 0
                if buffers is not None:
                    start = memory.append(message.pieces or ())
                    pairs = buffers.copy()
                    pairs[:, 0] += start
                    pairs[pairs[:, 1] == 0] = 0
                self._stored.append(_Stored(message.flatbuffer, start, message.nbytes, pairs))

    def frozen(self, region: Region) -> None:
        """Take the region that the writer became."""
        self._region = region

    def messages(self) -> Iterator[Outgoing]:
        """Yield the messages; their pieces are views of the region."""
        assert self._region is not None
        for stored in self._stored:
            pieces = None if stored.pairs is None else (self._region.view(stored.start, stored.nbytes),)
            yield Outgoing(stored.flatbuffer, stored.nbytes, pieces, stored.pairs)
