"""The record batches of an Arrow IPC stream, in order and once (Columnar.rst, "IPC Streaming Format").

How it works: a stream has no footer, so that a reader goes from message to message. It keeps the dictionaries in force,
and may start at any record batch of an index (`StreamIndex`) once the dictionaries before it are read. Where reads wait
for a network, pieces of the stream are fetched ahead. Small neighbours of one shape are decoded as one batch
(`read_joined`).
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Iterator
from typing import Final, Literal, TypeVar

import numpy as np

from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.types import CustomMetadata
from spark_arrow_ipc.errors import InvalidFramingError, TruncatedError, UnsupportedError, error_context, printable
from spark_arrow_ipc.ipc.batch_reader import BatchReader
from spark_arrow_ipc.ipc.bytes.ahead import PIECES_AHEAD, PIECES_AHEAD_OF_PART, Ahead, StreamAhead
from spark_arrow_ipc.ipc.bytes.body import BodyPlace
from spark_arrow_ipc.ipc.bytes.source import HEADERS_NBYTES, KeptEnds, ReadAhead, read_ahead
from spark_arrow_ipc.ipc.columns.coalesce import Run, coalesce
from spark_arrow_ipc.ipc.columns.dictionaries import StreamDecoder
from spark_arrow_ipc.ipc.columns.projection import SelectedColumns
from spark_arrow_ipc.ipc.concatenated_streams import ConcatenatedStreams, StreamEnds
from spark_arrow_ipc.ipc.constants import Format
from spark_arrow_ipc.ipc.flatbuf.tables import MessageHeader, MetadataVersion
from spark_arrow_ipc.ipc.messages.message import Message, decode_prefix, inside, read_message_or_end
from spark_arrow_ipc.ipc.messages.shape import MessageShape, Shapes
from spark_arrow_ipc.ipc.stream_index import (
    IndexedBatch,
    StreamIndex,
    StreamPlace,
    StreamStart,
    index_stream,
    walk_batches,
)
from spark_arrow_ipc.storage.byte_source import ByteSource

_INT64: Final = struct.Struct("<q")

# A record batch, or a callback that decodes it later
_Decoded = TypeVar("_Decoded")


class StreamReader(BatchReader):
    """The record batches of an Arrow IPC stream, in order and once, opened by `open`."""

    format = Format.STREAM.value
    is_numbered: Literal[False] = False

    def __init__(
        self,
        source: ByteSource,
        columns: SelectedColumns,
        byte_offset: int,
        custom_metadata: CustomMetadata = (),
        concatenated_streams: ConcatenatedStreams = ConcatenatedStreams.WARN,
        *,
        threads: int = 1,
    ) -> None:
        # Not ahead for a projection: pieces would hold buffers of other columns.
        super().__init__(read_ahead(source) if columns.is_whole else source, columns)
        self.custom_metadata = custom_metadata
        """The custom metadata of the schema's message, apart from the schema's own."""
        # Headers for an index are read from here, without bytes fetched ahead.
        self._indexed = self._source
        self._ahead: StreamAhead | None = None
        self._ends = StreamEnds(self._source, columns.message, concatenated_streams, columns.limits)
        self._first_offset = byte_offset
        self._byte_offset = byte_offset
        self._decoder = StreamDecoder(columns, self.path)
        self._ended = False
        self._decoded = Ahead(self._jobs(), threads, "arrow-ipc-decode", waits=True) if threads > 1 else None
        # For errors, and for indexes that begin in the middle.
        self._counts = dict.fromkeys((MessageHeader.RecordBatch, MessageHeader.DictionaryBatch), 0)

    def read_schema_metadata(self) -> CustomMetadata:
        """Return `custom_metadata`, which a file's reader has to read."""
        return self.custom_metadata

    def __iter__(self) -> Iterator[RecordBatch]:
        return self

    def __next__(self) -> RecordBatch:
        """Return the next record batch, after the dictionary batches before it.

        Raises
        ------
        ArrowIpcError
            The bytes are broken, end inside a message, or other streams follow (`open`).
        """
        if self._source.waits:
            self._begin_ahead(PIECES_AHEAD)
        if self._decoded is not None:
            return next(self._decoded)
        while not self._ended:
            batch = self._read_message(self._decoder.decode)
            if batch is not None:
                return batch
        raise StopIteration

    def _jobs(self) -> Iterator[Callable[[], RecordBatch]]:
        """Yield a callback for each record batch, which decodes the batch in any thread."""
        while not self._ended:
            job = self._read_message(self._decoder.prepare)
            if job is not None:
                yield job

    def close(self) -> None:
        """Close the stream, if this reader opened it, and its threads; batches stay valid."""
        if self._decoded is not None:
            self._decoded.close()
        super().close()

    def read_joined(self, *, below_rows: int, most: int | None = None) -> Iterator[tuple[RecordBatch, tuple[int, ...]]]:
        """Yield the next record batches, small ones joined, and the rows of each.

        Small neighbours that can be decoded as one batch are joined, up to a few hundred kilobytes, which one read gets
        completely for any projection. Other batches are as from iteration.

        Parameters
        ----------
        below_rows
            Batches of this many rows or more are not joined.
        most
            The most record batches to read; None for all.

        Raises
        ------
        ArrowIpcError
            As iteration, after all batches before the broken one.
        """
        self._begin_ahead(PIECES_AHEAD if most is None else PIECES_AHEAD_OF_PART)
        if not isinstance(self._source, ReadAhead):
            self._source = read_ahead(self._source)
        if self._decoded is not None:
            below_rows = 0  # threads have read ahead of this position
        shapes = Shapes(self._columns.limits)
        one_by_one_before = piece_end = 0
        left = sys.maxsize if most is None else most
        while left > 0:
            joined = None
            source = self._source
            if below_rows > 1 and isinstance(source, ReadAhead) and source.expects_small:
                if self._byte_offset >= one_by_one_before:
                    joined = self._coalesce(source, shapes, below_rows, left)
                if joined is None:
                    piece_end = self._byte_offset + len(source.held(self._byte_offset))
            if joined is None:
                batch = next(self, None)
                if batch is None:
                    return
                joined = batch, (batch.num_rows,)
                if batch.num_rows < below_rows:
                    # A small batch that cannot be coalesced most often has neighbours like it.
                    one_by_one_before = piece_end
            yield joined
            left -= len(joined[1])
        self._end_ahead()

    def _coalesce(
        self, source: ReadAhead, shapes: Shapes, below_rows: int, most: int
    ) -> tuple[RecordBatch, tuple[int, ...]] | None:
        data = source.held(self._byte_offset)
        # Too few bytes for the next header: a new piece, before the end of this one is decoded by itself.
        if len(data) < HEADERS_NBYTES:
            data = source.refill(self._byte_offset)
        shape = self._shape(data, shapes)
        if shape is None or shape.rows(data) >= below_rows:
            return None
        run, ends = self._run(data, shape, most)
        # The first message may be cut by the end of the piece.
        if not ends:
            run, ends = self._run(source.refill(self._byte_offset), shape, most)
        # Joining one batch would only cost a copy.
        if len(ends) <= 1:
            return None
        # Dictionaries that were read but not decoded yet come before these batches.
        self._decoder.flush()
        coalesced = coalesce(self._columns, run, self._decoder.find, below_rows=below_rows)
        if coalesced is not None:
            count = len(coalesced[1])
            self._counts[MessageHeader.RecordBatch] += count
            self._byte_offset += ends[count - 1]
            # The size of messages decides about the next piece.
            source.adapt(ends[0])
        return coalesced

    def _shape(self, data: memoryview, shapes: Shapes) -> MessageShape | None:
        """Return the shape of the message at the start of `data`, or None for one to read by itself."""
        try:
            prefix = decode_prefix(data[:8], 0)
        except InvalidFramingError:  # the usual read raises it with its location
            return None
        nbytes = prefix.nbytes + prefix.flatbuffer_nbytes
        if not prefix.flatbuffer_nbytes or nbytes > min(len(data), self._columns.limits.max_metadata_bytes):
            return None
        return shapes.of(data[:nbytes])

    @staticmethod
    def _run(data: memoryview, shape: MessageShape, most: int) -> tuple[Run, list[int]]:
        """Return the record batches of a shape at the start of `data`, and the end of each."""
        nbytes, at = shape.nbytes, shape.body_nbytes.start
        prefix = shape.prefix
        starts: list[int] = []
        ends: list[int] = []
        start = 0
        while start + nbytes <= len(data) and len(starts) < most and data[start : start + len(prefix)] == prefix:
            body_nbytes: int = _INT64.unpack_from(data, start + at)[0]
            end = start + nbytes + body_nbytes
            # A length is a claim of the file; the usual read refuses it.
            if body_nbytes < 0 or end > len(data):
                break
            starts.append(start)
            ends.append(end)
            start = end
        return Run(data, np.array(starts, np.int64), shape), ends

    def index(
        self,
        *,
        keeps_broken: bool = False,
        after: StreamIndex | None = None,
        first_batch: int = 0,
        most: int | None = None,
    ) -> StreamIndex:
        """Index all messages after the schema by their headers, without effect on iteration.

        Parameters
        ----------
        keeps_broken
            True to end the index at broken bytes, with their error, instead of raising.
        after
            An index of the stream when it was shorter: only newer messages are walked.
        first_batch
            Record batches before this number are only counted.
        most
            The most record batches in the index; a later index continues after them.

        Raises
        ------
        UnsupportedError
            The source cannot seek.
        ArrowIpcError
            The header of a message is broken, or the stream has more messages than `Limits.max_blocks`.
        """
        dictionaries = self._columns.plan(MetadataVersion.V5).dictionaries
        # Nested dictionaries need all earlier ones (`StreamIndex.start`).
        nests = any(plan.dictionaries for plan in dictionaries.values())
        return index_stream(
            self._stream(), nests=nests, keeps_broken=keeps_broken, after=after, first_batch=first_batch, most=most
        )

    def read_headers(self) -> Iterator[IndexedBatch]:
        """Yield all record batches of a stream of any length by their headers, without effect on iteration.

        Raises
        ------
        UnsupportedError, ArrowIpcError
            As `index`.
        """
        return walk_batches(self._stream())

    def _stream(self) -> StreamPlace:
        if self._source.nbytes is None:
            # A pipe could be walked only by reading its bodies.
            raise UnsupportedError("listing a stream needs a source that can seek", path=self.path)
        return StreamPlace(self._indexed, self._first_offset, self._columns.limits, self._ends)

    def start_at(self, start: StreamStart) -> None:
        """Go to a record batch of an index, and read the dictionaries in force before it.

        Raises
        ------
        ArrowIpcError
            The bytes are broken, or have changed since the walk of the index.
        """
        for number, byte_offset in start.dictionaries:
            self._counts[MessageHeader.DictionaryBatch] = number
            self._byte_offset = byte_offset
            if (
                self._read_message(self._decoder.decode) is not None
                or self._counts[MessageHeader.DictionaryBatch] == number
            ):
                raise InvalidFramingError(
                    expected="a dictionary batch, as the index of the stream has it", found="none",
                    path=self.path, byte_offset=byte_offset,
                )  # fmt: skip
        self._counts = {
            MessageHeader.RecordBatch: start.record_batches_before,
            MessageHeader.DictionaryBatch: start.dictionaries_before,
        }
        self._byte_offset = start.byte_offset

    def _begin_ahead(self, pieces: int) -> None:
        """Fetch the pieces of the stream from here on ahead, if each read waits."""
        # Not at the start: dictionaries that `start_at` replays come from other offsets.
        source = self._source
        if self._ahead is not None or isinstance(source, ReadAhead) or not source.waits:
            return
        if not isinstance(source, KeptEnds) or not source.is_small:
            source = self._ahead = StreamAhead(source, self._byte_offset, pieces)
        self._source = ReadAhead(source)

    def _end_ahead(self) -> None:
        if self._ahead is not None:
            self._ahead.end()

    def _read_message(self, decode: Callable[[Message, BodyPlace, int, int], _Decoded | None]) -> _Decoded | None:
        """Read one message; return the result of `decode` for a record batch, and None for other messages and the end."""
        limits = self._columns.limits
        noun = number = None
        try:
            encapsulated = read_message_or_end(self._source, self._byte_offset, limits)
            if isinstance(encapsulated, int):
                following = self._ends.after(encapsulated)
                self._ended = following is None
                if self._ended:
                    self._end_ahead()
                if following is not None:
                    self._begin_stream(following)
                return None
            flatbuffer, body_offset = encapsulated
            # Headers of equal batches are often equal bytes.
            message = self._messages.find_alike(flatbuffer)
            if message is None:
                with inside(body_offset - len(flatbuffer)):
                    message = self._messages.decode(flatbuffer, 0, limits)
            kind = message.kind
            # A schema begins another stream, or is an error.
            if kind not in self._counts:
                self._begin_stream(self._ends.enter(message, self._byte_offset, body_offset))
                return None
            noun, number = kind.noun, self._counts[kind]
            self._check_body(message, body_offset)
            body_place = BodyPlace(self._source, body_offset, message.body_nbytes)
            batch = decode(message, body_place, number, self._byte_offset)
            self._skip_body(body_offset, message.body_nbytes)
        except BaseException as error:
            at = error_context(path=self.path, block_kind=noun, block_number=number, byte_offset=self._byte_offset)
            at.add_to(error)
            raise
        self._counts[kind] += 1
        end = body_offset + message.body_nbytes
        if isinstance(self._source, ReadAhead):
            self._source.adapt(end - self._byte_offset)
        self._byte_offset = end
        return batch

    def _begin_stream(self, byte_offset: int) -> None:
        """Continue with the messages of another stream, without the dictionaries so far."""
        self._decoder.begin_stream()
        self._byte_offset = byte_offset

    def _check_body(self, message: Message, body_offset: int) -> None:
        """Do nothing, as decoding checks the body; a stream that grows checks it first."""

    def _skip_body(self, byte_offset: int, nbytes: int) -> None:
        """Check that a body exists to its end."""
        # A projection may not read its last bytes, and without them later batches would be missing silently.
        source_nbytes, end = self._source.nbytes, byte_offset + nbytes
        if source_nbytes is None:
            # Of a pipe the rest of the body is read and dropped.
            self._source.read_up_to(end, 0)
        elif source_nbytes < end:
            raise TruncatedError(
                expected=f"a body of {nbytes:,} bytes",
                found=f"{source_nbytes - byte_offset:,}: the file ends at byte {source_nbytes:,}, it is truncated",
                byte_offset=byte_offset,
            )

    def __repr__(self) -> str:
        return f"<Arrow IPC stream {printable(self.path or 'in memory')}>\n{self.schema}"
