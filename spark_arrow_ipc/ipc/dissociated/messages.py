"""A table as the messages that a server sends: metadata and body apart."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.arrow.types import CustomMetadata
from spark_arrow_ipc.errors import UnsupportedError
from spark_arrow_ipc.ipc.bytes.sinks import FileSink
from spark_arrow_ipc.ipc.columns.encode import BytesLike, EncodedBatch
from spark_arrow_ipc.ipc.columns.plan import compile_plan
from spark_arrow_ipc.ipc.constants import Int64s
from spark_arrow_ipc.ipc.dissociated.kept import Kept
from spark_arrow_ipc.ipc.dissociated.selection import WHOLE, Selection
from spark_arrow_ipc.ipc.dissociated.shared_memory import Region, RegionWriter
from spark_arrow_ipc.ipc.dissociated.tables import Table, TableSource
from spark_arrow_ipc.ipc.flatbuf import tables
from spark_arrow_ipc.ipc.flatbuf.tables import MetadataVersion
from spark_arrow_ipc.ipc.limits import Limits
from spark_arrow_ipc.ipc.messages.dictionary_batch import DictionaryBatchHeader
from spark_arrow_ipc.ipc.messages.message import decode_message
from spark_arrow_ipc.ipc.messages.schema import number_dictionaries
from spark_arrow_ipc.ipc.options import WriteOptions
from spark_arrow_ipc.ipc.writer import Writer

_OWN: Final = Limits()
"""For messages that this process has made."""


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

    @property
    def held_nbytes(self) -> int:
        """The bytes of memory that it takes."""
        return len(self.flatbuffer) + self.nbytes


class OutgoingTable(Protocol):
    """A table that can be sent any number of times, to several clients at once."""

    @property
    def selects(self) -> bool:
        """Whether it has parts."""

    def messages(self, selection: Selection = WHOLE) -> Iterator[Outgoing]:
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
    """A table that is read and encoded for a client, a record batch at a time, and kept for the next ones if it fits.

    Parameters
    ----------
    source
        The table.
    options
        How it is encoded.
    kept
        Where messages are kept.
    """

    def __init__(self, source: TableSource, options: WriteOptions, kept: Kept[Outgoing]) -> None:
        self._source = source
        self._options = options
        self._kept = kept

    @property
    def selects(self) -> bool:
        """Whether it has parts, and columns travel alone."""
        return self._source.selects

    def messages(self, selection: Selection = WHOLE) -> Iterator[Outgoing]:
        """Yield the messages.

        Raises
        ------
        ArrowIpcError, OSError
            The table cannot be read.
        """
        version = self._source.version()
        if version is None:
            yield from self._read(selection)
            return
        key = id(self), selection, version
        found = self._kept.find(key)
        yield from self._kept.record(key, self._read(selection)) if found is None else found

    def _read(self, selection: Selection) -> Iterator[Outgoing]:
        with self._source.open(selection) as table:
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

    selects = True

    def __init__(self, source: TableSource, options: WriteOptions, memory: RegionWriter) -> None:
        self._stored: list[_Stored] = []
        self._batches: list[int] = []
        """Places of the record batches among all messages."""
        self._dictionaries: dict[int, tuple[int, bool]] = {}
        """Of a dictionary batch, by its place: the id, and whether it is a delta."""
        self._region: Region | None = None
        with source.open(WHOLE) as table:
            self._nests = _has_nested_dictionaries(table.schema)
            for message, buffers in _encode(table, options):
                self._store(message, buffers, memory)

    def _store(self, message: Outgoing, buffers: Int64s | None, memory: RegionWriter) -> None:
        pairs, start = None, 0
        if buffers is not None:
            header = decode_message(memoryview(message.flatbuffer), _OWN).header
            if isinstance(header, DictionaryBatchHeader):
                self._dictionaries[len(self._stored)] = header.id, header.is_delta
            else:
                self._batches.append(len(self._stored))
            start = memory.append(message.pieces or ())
            pairs = buffers.copy()
            pairs[:, 0] += start
            pairs[pairs[:, 1] == 0] = 0
        self._stored.append(_Stored(message.flatbuffer, start, message.nbytes, pairs))

    def frozen(self, region: Region) -> None:
        """Take the region that the writer became."""
        self._region = region

    def messages(self, selection: Selection = WHOLE) -> Iterator[Outgoing]:
        """Yield the messages; their pieces are views of the region. Columns are for the client to select.

        Raises
        ------
        UnsupportedError
            Columns are selected.
        """
        assert self._region is not None
        if selection.columns is not None:
            raise UnsupportedError("columns of a table in shared memory: a client selects them, without a copy")
        for place in self._places(selection):
            stored = self._stored[place]
            pieces = None if stored.pairs is None else (self._region.view(stored.start, stored.nbytes),)
            yield Outgoing(stored.flatbuffer, stored.nbytes, pieces, stored.pairs)

    def _places(self, selection: Selection) -> Sequence[int]:
        """Return the places of the messages of a part: the schema, the dictionaries in force at its start, and its own."""
        if selection == WHOLE:
            return range(len(self._stored))
        numbers = selection.cut(len(self._batches))
        if not numbers:
            return (0,)
        first, last = self._batches[numbers[0]], self._batches[numbers[-1]]
        before = [place for place in self._dictionaries if place < first]
        if not self._nests:
            # As `StreamIndex.start`: of nested ones an outer value refers to the inner dictionary in force when it came.
            begins = {self._dictionaries[place][0]: place for place in before if not self._dictionaries[place][1]}
            before = [place for place in before if place >= begins.get(self._dictionaries[place][0], 0)]
        return [0, *before, *range(first, last + 1)]


def _has_nested_dictionaries(schema: Schema) -> bool:
    message = number_dictionaries(schema)
    plan = compile_plan(schema.fields, message.dictionary_ids, MetadataVersion.V5)
    return any(inner.dictionaries for inner in plan.dictionaries.values())
