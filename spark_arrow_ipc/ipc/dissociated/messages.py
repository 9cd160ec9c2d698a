"""The tables of a server, and their messages: read, encoded and cached, or stored once in shared memory.

How it works: tables that are read for each client share one cache of encoded messages, and the least recently requested
ones are dropped first. A client that is being sent messages holds them itself.
"""

from __future__ import annotations

import io
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.arrow.types import CustomMetadata
from spark_arrow_ipc.errors import InvalidArrowError, UnsupportedError
from spark_arrow_ipc.ipc.bytes.sinks import FileSink
from spark_arrow_ipc.ipc.bytes.source import Openable
from spark_arrow_ipc.ipc.columns.encode import BytesLike, EncodedBatch
from spark_arrow_ipc.ipc.columns.plan import compile_plan
from spark_arrow_ipc.ipc.constants import Int64s, Limits
from spark_arrow_ipc.ipc.dissociated.location import WHOLE, Selection
from spark_arrow_ipc.ipc.dissociated.shared_memory import Region, RegionWriter
from spark_arrow_ipc.ipc.file_reader import FileReader
from spark_arrow_ipc.ipc.flatbuf import tables
from spark_arrow_ipc.ipc.flatbuf.tables import MetadataVersion
from spark_arrow_ipc.ipc.messages.message import DictionaryBatchHeader, decode_message
from spark_arrow_ipc.ipc.messages.schema import number_dictionaries
from spark_arrow_ipc.ipc.options import WriteOptions
from spark_arrow_ipc.ipc.reader import open as open_any
from spark_arrow_ipc.ipc.stream_reader import StreamReader
from spark_arrow_ipc.ipc.writer import Writer


class Table(NamedTuple):
    """Record batches of one schema, and the custom metadata of the schema's message."""

    schema: Schema
    batches: Iterable[RecordBatch]
    message_metadata: CustomMetadata = ()


OpenTable: TypeAlias = Callable[[], AbstractContextManager[Table]]
"""Opens a table; called for each client, or once for shared memory."""


class TableSource(Protocol):
    """A table that can be opened any number of times, by several threads."""

    @property
    def selects(self) -> bool:
        """True if it supports parts and columns."""

    def open(self, selection: Selection) -> AbstractContextManager[Table]:
        """Open the selected part and columns."""

    def version(self) -> Hashable | None:
        """Return a value that changes whenever the rows do; None if it is unknown, so that messages are not cached."""


class FileTable:
    """A table that `ipc.open` opens."""

    def __init__(self, openable: Openable, limits: Limits) -> None:
        self._openable = openable
        self._limits = limits

    @property
    def selects(self) -> bool:
        """Return True, as reads of files can start anywhere."""
        return True

    @contextmanager
    def open(self, selection: Selection) -> Iterator[Table]:
        """Open the file."""
        with open_any(self._openable, columns=selection.columns, limits=self._limits) as reader:
            yield Table(reader.schema, select_batches(reader, selection), _message_metadata(reader))

    def version(self) -> Hashable | None:
        """Return identity, size and times of a path, or a constant for bytes, which do not change."""
        if isinstance(self._openable, bytes):
            return "bytes"
        return file_version(self._openable) if isinstance(self._openable, str | os.PathLike) else None


def file_version(path: str | os.PathLike[str]) -> Hashable | None:
    """Return identity, size and times of a local file; None if it does not exist."""
    try:
        status = os.stat(path)  # noqa: PTH116 - the user's path
    except (OSError, ValueError):
        return None
    # The time of the last change cannot be set back, unlike the time of the last write.
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


class BatchesTable:
    """Record batches in memory, at least one."""

    def __init__(self, batches: tuple[RecordBatch, ...]) -> None:
        self._batches = batches

    @property
    def selects(self) -> bool:
        """Return True."""
        return True

    @contextmanager
    def open(self, selection: Selection) -> Iterator[Table]:
        """Select batches and columns, without a copy."""
        cut = selection.cut(len(self._batches))
        # The first one for its schema: a part may have no batch.
        batches = [self._batches[0], *self._batches[cut.start : cut.stop]]
        if selection.columns is not None:
            batches = [batch.select(selection.columns) for batch in batches]
        yield Table(batches[0].schema, batches[1:])

    def version(self) -> Hashable | None:
        """Return a constant, as batches do not change."""
        return "batches"


class FunctionTable:
    """A function that opens a complete table, maybe another one each time."""

    def __init__(self, opens: OpenTable) -> None:
        self._opens = opens

    @property
    def selects(self) -> bool:
        """Return False."""
        return False

    def open(self, selection: Selection) -> AbstractContextManager[Table]:
        """Call the function."""
        assert selection == Selection(), "a session refuses others"
        return self._opens()

    def version(self) -> Hashable | None:
        """Return None, as only the function could tell."""
        return None


def select_batches(reader: FileReader | StreamReader, selection: Selection) -> Iterable[RecordBatch]:
    """Return the record batches of a part; for a stream, which must be able to seek, the headers before it are read."""
    if selection.of == 1:
        return reader
    if reader.is_numbered:
        cut = selection.cut(len(reader))
        return (batch for batch, _ in reader.read_joined(cut.start, cut.stop, below_rows=0))
    if selection.is_schema_alone:
        return ()
    index = reader.index()
    cut = selection.cut(len(index.batches))
    if not cut:
        return ()
    reader.start_at(index.start(cut.start))
    return islice(reader, len(cut))


def _message_metadata(reader: FileReader | StreamReader) -> CustomMetadata:
    try:
        return reader.read_schema_metadata()
    except InvalidArrowError:
        # Some writers of files leave this message out, as the footer has the schema.
        return ()


# Tables that are remembered as too large, as each attempt to cache one would displace others.
_MOST_TOO_LARGE: Final = 1_000


class _Sized(Protocol):
    @property
    def held_nbytes(self) -> int:
        """The bytes of memory."""


_S = TypeVar("_S", bound=_Sized)


class MessageCache(Generic[_S]):
    """Sequences of messages by key, in bounded memory, for any thread."""

    def __init__(self, max_nbytes: int) -> None:
        # The budget; 0 for no cache
        self._max_nbytes = max_nbytes
        self._lock = threading.Lock()
        self._messages: OrderedDict[Hashable, tuple[tuple[_S, ...], int]] = OrderedDict()
        self._recording: set[Hashable] = set()
        self._too_large: set[Hashable] = set()
        self._nbytes = 0

    @property
    def nbytes(self) -> int:
        """The bytes of cached messages, and of messages that are being recorded, up to the budget."""
        return self._nbytes

    def find(self, key: Hashable) -> tuple[_S, ...] | None:
        """Return the cached messages of a key, or None."""
        with self._lock:
            entry = self._messages.get(key)
            if entry is None:
                return None
            # The least recently used one is at the front.
            self._messages.move_to_end(key)
            return entry[0]

    def record(self, key: Hashable, messages: Iterator[_S]) -> Iterator[_S]:
        """Yield the messages, and cache them after the last, unless another thread records them or they do not fit."""
        with self._lock:
            records = self._max_nbytes > 0 and key not in self._recording and key not in self._too_large
            if records:
                self._recording.add(key)
        if not records:
            yield from messages
            return
        recorded: list[_S] | None = []
        nbytes = 0
        is_complete = False
        try:
            for message in messages:
                if recorded is not None:
                    if self._reserve(key, nbytes, message.held_nbytes):
                        nbytes += message.held_nbytes
                        recorded.append(message)
                    else:
                        nbytes, recorded = 0, None
                yield message
            is_complete = True
        finally:
            with self._lock:
                self._recording.discard(key)
                if is_complete and recorded is not None:
                    self._messages[key] = tuple(recorded), nbytes
                else:
                    self._nbytes -= nbytes

    def _reserve(self, key: Hashable, reserved: int, nbytes: int) -> bool:
        """Reserve bytes of the budget for a recording, or release all that it has reserved and return False."""
        with self._lock:
            if reserved + nbytes > self._max_nbytes:
                # Bounded, as each version of a file is another key.
                if len(self._too_large) >= _MOST_TOO_LARGE:
                    self._too_large.clear()
                self._too_large.add(key)
                self._nbytes -= reserved
                return False
            while self._nbytes + nbytes > self._max_nbytes and self._messages:
                _, (_, freed) = self._messages.popitem(last=False)
                self._nbytes -= freed
            if self._nbytes + nbytes > self._max_nbytes:  # other recordings have the rest
                self._nbytes -= reserved
                return False
            self._nbytes += nbytes
            return True


# For messages of this process
_LIMITS: Final = Limits()


@dataclass(frozen=True, slots=True, eq=False)
class Outgoing:
    """A message to send."""

    flatbuffer: bytes
    nbytes: int
    # The body; None for a schema
    pieces: tuple[BytesLike, ...] | None
    # Offset and bytes of each buffer in shared memory; None for a body in this process
    pairs: Int64s | None = None

    @property
    def held_nbytes(self) -> int:
        """The bytes of memory."""
        return len(self.flatbuffer) + self.nbytes


class OutgoingTable(Protocol):
    """A table that can be sent repeatedly, to several clients at once."""

    @property
    def selects(self) -> bool:
        """True if it has parts."""

    def messages(self, selection: Selection = WHOLE) -> Iterator[Outgoing]:
        """Yield the schema, the record batches, and each dictionary before the first batch that needs it."""


class _Encoder(Writer):
    """A writer of streams that collects messages instead of writing them."""

    def __init__(self, schema: Schema, options: WriteOptions, schema_metadata: CustomMetadata) -> None:
        self._encoded: list[tuple[Outgoing, Int64s | None]] = []
        # Compressed pieces are valid until the compressor is used again, for the next dictionary.
        self._copies = options.codec is not None
        super().__init__(FileSink(io.BytesIO()), schema, options, schema_metadata)

    def _put_flatbuffer(self, table: Any, flatbuffer: bytes, encoded: EncodedBatch) -> None:
        if table is tables.SCHEMA:
            self._encoded.append((Outgoing(flatbuffer, 0, None), None))
            return
        pieces = (b"".join(encoded.pieces),) if self._copies else encoded.pieces
        self._encoded.append((Outgoing(flatbuffer, encoded.nbytes, pieces), encoded.places))

    def take(self) -> list[tuple[Outgoing, Int64s | None]]:
        """Return the messages since the last call, each with the ranges of its buffers in its body."""
        encoded, self._encoded = self._encoded, []
        return encoded


def _encode(table: Table, options: WriteOptions) -> Iterator[tuple[Outgoing, Int64s | None]]:
    encoder = _Encoder(table.schema, options, table.message_metadata)
    yield from encoder.take()
    for batch in table.batches:
        encoder.write(batch)
        yield from encoder.take()


class StreamedTable:
    """A table that is read and encoded for a client, a record batch at a time, and cached for the next if it fits."""

    def __init__(self, source: TableSource, options: WriteOptions, cache: MessageCache[Outgoing]) -> None:
        self._source = source
        self._options = options
        self._cache = cache

    @property
    def selects(self) -> bool:
        """True if it has parts, and columns can be sent without others."""
        return self._source.selects

    def messages(self, selection: Selection = WHOLE) -> Iterator[Outgoing]:
        """Yield the messages."""
        version = self._source.version()
        if version is None:
            yield from self._read(selection)
            return
        key = id(self), selection, version
        messages = self._cache.find(key)
        yield from self._cache.record(key, self._read(selection)) if messages is None else messages

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
    """A table whose constructor puts its bodies into shared memory, uncompressed."""

    selects = True

    def __init__(self, source: TableSource, options: WriteOptions, memory: RegionWriter) -> None:
        self._stored: list[_Stored] = []
        # Numbers of the record batches among all messages
        self._batches: list[int] = []
        # By the number of a dictionary batch: its id, and True for a delta
        self._dictionaries: dict[int, tuple[int, bool]] = {}
        self._region: Region | None = None
        with source.open(WHOLE) as table:
            ids = number_dictionaries(table.schema).dictionary_ids
            plan = compile_plan(table.schema.fields, ids, MetadataVersion.V5)
            self._nests = any(inner.dictionaries for inner in plan.dictionaries.values())
            for message, buffers in _encode(table, options):
                self._store(message, buffers, memory)

    def _store(self, message: Outgoing, buffers: Int64s | None, memory: RegionWriter) -> None:
        pairs, start = None, 0
        if buffers is not None:
            header = decode_message(memoryview(message.flatbuffer), _LIMITS).header
            if isinstance(header, DictionaryBatchHeader):
                self._dictionaries[len(self._stored)] = header.id, header.is_delta
            else:
                self._batches.append(len(self._stored))
            start = memory.append(message.pieces or ())
            pairs = buffers.copy()
            pairs[:, 0] += start
            # An empty buffer has no place.
            pairs[pairs[:, 1] == 0] = 0
        self._stored.append(_Stored(message.flatbuffer, start, message.nbytes, pairs))

    def attach(self, region: Region) -> None:
        """Set the region of the bodies, which exists once all tables are written."""
        self._region = region

    def messages(self, selection: Selection = WHOLE) -> Iterator[Outgoing]:
        """Yield the messages, with views of the region as pieces; the client selects columns."""
        assert self._region is not None
        if selection.columns is not None:
            raise UnsupportedError("columns of a table in shared memory: a client selects them, without a copy")
        for number in self._numbers(selection):
            stored = self._stored[number]
            pieces = None if stored.pairs is None else (self._region.view(stored.start, stored.nbytes),)
            yield Outgoing(stored.flatbuffer, stored.nbytes, pieces, stored.pairs)

    def _numbers(self, selection: Selection) -> Sequence[int]:
        """Return the numbers of a part's messages, after the schema and the dictionaries in force at its start."""
        if selection == WHOLE:
            return range(len(self._stored))
        numbers = selection.cut(len(self._batches))
        if not numbers:
            return (0,)
        begin, end = self._batches[numbers[0]], self._batches[numbers[-1]] + 1
        before = [number for number in self._dictionaries if number < begin]
        if not self._nests:
            # As in `StreamIndex.start`: an outer value refers to the inner dictionary in force when the value came.
            begins = {self._dictionaries[number][0]: number for number in before if not self._dictionaries[number][1]}
            before = [number for number in before if number >= begins.get(self._dictionaries[number][0], 0)]
        return [0, *before, *range(begin, end)]
