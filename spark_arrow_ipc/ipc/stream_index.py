"""Index the messages of a stream without reading bodies, so that it can be read in parts.

How it works: a stream has no footer, but every message has the length of its body. `walk` goes from message to message
and seeks past the bodies, with one small read each. A `StreamIndex` has the record batches with their rows, and the
dictionary batches. A reader can start at any record batch after it has read the dictionaries in force before it, which
`StreamIndex.start` lists.

The walk raises the same errors as a read, except for bodies. The bytes after a file's magic are a stream as well, so
that a file without its footer is walked in the same way.

A stream may grow while it is read. An index ends before the first incomplete message, and a later walk continues there
(`index_stream`, `after`). `StreamIndex.forget` drops batches that were read, so that neither time nor memory depend on
the length of a stream that grows for ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from spark_arrow_ipc.arrow.types import CustomMetadata
from spark_arrow_ipc.errors import InvalidArrowError, InvalidFramingError, TruncatedError, error_context
from spark_arrow_ipc.ipc.bytes.source import HEADERS_NBYTES, WAITING_NBYTES, ReadAhead
from spark_arrow_ipc.ipc.concatenated_streams import StreamEnds
from spark_arrow_ipc.ipc.constants import Limits
from spark_arrow_ipc.ipc.flatbuf.tables import CompressionType, MessageHeader
from spark_arrow_ipc.ipc.messages.footer import Block
from spark_arrow_ipc.ipc.messages.message import (
    DictionaryBatchHeader,
    Message,
    RecordBatchHeader,
    decode_message,
    inside,
    read_message_or_end,
)
from spark_arrow_ipc.storage.byte_source import ByteSource


@dataclass(frozen=True, slots=True)
class IndexedBatch:
    """A record batch of a stream: its block, its rows, and the rows and dictionary batches before it."""

    block: Block
    rows: int
    rows_before: int
    dictionaries_before: int
    compression: CompressionType | None = None
    dictionaries_from: int = 0
    """The number of the first dictionary batch of its stream, if streams are concatenated."""


@dataclass(frozen=True, slots=True)
class IndexedDictionary:
    """A dictionary batch of a stream."""

    block: Block
    id: int
    is_delta: bool
    custom_metadata: CustomMetadata = ()
    number: int = 0


@dataclass(frozen=True, slots=True)
class StreamStart:
    """A record batch at which a read of a stream can start."""

    byte_offset: int  # of its message
    record_batches_before: int
    rows_before: int
    dictionaries_before: int
    # Number and byte offset of each dictionary batch that must be replayed, in the order of the stream.
    dictionaries: tuple[tuple[int, int], ...] = ()

    def __reduce__(self) -> tuple[type[StreamStart], tuple[object, ...]]:
        # Pickles to half the bytes of a slotted dataclass.
        return StreamStart, (
            self.byte_offset, self.record_batches_before, self.rows_before, self.dictionaries_before, self.dictionaries,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class StreamIndex:
    """The messages of a stream after its schema."""

    # In the order of the stream, without forgotten ones
    batches: tuple[IndexedBatch, ...]
    dictionaries: tuple[IndexedDictionary, ...]
    end_offset: int  # byte offset at the end of the last complete message
    nests: bool = False  # True if values of dictionaries are themselves encoded by dictionaries
    # The reason for an end before the end of the stream; a `TruncatedError` for an incomplete message
    broken: InvalidArrowError | None = field(default=None, compare=False)
    # Counts of the stream up to `end_offset`, also of forgotten messages
    num_batches: int = 0
    num_rows: int = 0
    num_dictionaries: int = 0
    # The number of the first dictionary batch of the last stream, if streams are concatenated.
    dictionaries_from: int = 0

    def start(self, number: int) -> StreamStart:
        """Return the position of record batch `number`, and the dictionaries in force there, in O(dictionaries)."""
        batch = self.batches[self._position(number)]
        in_force = self._in_force(batch.dictionaries_from, batch.dictionaries_before)
        return StreamStart(
            batch.block.byte_offset,
            number,
            batch.rows_before,
            batch.dictionaries_before,
            tuple((dictionary.number, dictionary.block.byte_offset) for dictionary in in_force),
        )

    def forget(self, number: int) -> StreamIndex:
        """Return the index without the record batches before `number`, and the dictionaries that only they need."""
        batches = self.batches[max(0, number - (self.num_batches - len(self.batches))) :]
        start, stop = self.dictionaries_from, self.num_dictionaries
        if batches:
            start, stop = batches[0].dictionaries_from, batches[0].dictionaries_before
        later = (dictionary for dictionary in self.dictionaries if dictionary.number >= stop)
        return replace(self, batches=batches, dictionaries=(*self._in_force(start, stop), *later))

    def _position(self, number: int) -> int:
        """Return the position of a record batch in `batches`."""
        position = number - (self.num_batches - len(self.batches))
        if not 0 <= position < len(self.batches):
            raise IndexError(f"record batch {number} of {self.num_batches} is not in the index")
        return position

    def _in_force(self, start: int, stop: int) -> list[IndexedDictionary]:
        """Return the dictionary batches of a range of numbers that are in force at its end."""
        before = [dictionary for dictionary in self.dictionaries if start <= dictionary.number < stop]
        # If dictionaries nest, an outer value refers to the inner dictionary in force when the value came: all are needed.
        if self.nests:
            return before
        # Of each id the last one that is not a delta, and the deltas after it.
        complete = {dictionary.id: dictionary.number for dictionary in before if not dictionary.is_delta}
        return [dictionary for dictionary in before if dictionary.number >= complete.get(dictionary.id, 0)]


@dataclass(frozen=True, slots=True)
class StreamPlace:
    """The messages of a stream after its schema, in a source of known length; `ends` decides about streams after it."""

    source: ByteSource
    byte_offset: int
    limits: Limits
    ends: StreamEnds | None = None


def walk(stream: StreamPlace, numbers: tuple[int, int] = (0, 0)) -> Iterator[tuple[Message, Block] | None]:
    """Yield each message with its block, by headers, and None at the start of another stream.

    `numbers` are the record batches and dictionary batches before the first message.
    """
    source, byte_offset, limits, ends = stream.source, stream.byte_offset, stream.limits, stream.ends
    headers = ReadAhead(source, WAITING_NBYTES if source.waits else HEADERS_NBYTES)
    # Checked against each body, so that a body beyond the end is an error here.
    assert source.nbytes is not None, "a walk seeks"
    counts = dict(zip(_KINDS, numbers, strict=True))
    while True:
        with error_context(path=source.path, byte_offset=byte_offset):
            encapsulated = read_message_or_end(headers, byte_offset, limits)
            if isinstance(encapsulated, int):
                following = None if ends is None else ends.after(encapsulated)
                if following is None:
                    return
                byte_offset = following
                yield None
                continue
            flatbuffer, body_offset = encapsulated
            with inside(body_offset - len(flatbuffer)):
                message = decode_message(flatbuffer, limits)
            if message.kind not in counts:
                if ends is None:
                    raise InvalidFramingError(
                        expected="one schema, at the start of the stream", found="another one",
                        spec='Columnar.rst "IPC Streaming Format"',
                    )  # fmt: skip
                byte_offset = ends.enter(message, byte_offset, body_offset)
                yield None
                continue
            left = source.nbytes - body_offset
            if message.body_nbytes > left:
                raise TruncatedError(
                    expected=f"a body of {message.body_nbytes:,} bytes",
                    found=f"{left:,}: the file ends at byte {source.nbytes:,}, it is truncated",
                    block_kind=message.kind.noun,
                    block_number=counts[message.kind],
                    byte_offset=body_offset,
                )
        # After all checks: a broken message is not counted.
        counts[message.kind] += 1
        block = Block(byte_offset, body_offset - byte_offset, message.body_nbytes)
        yield message, block
        byte_offset += block.nbytes


def ends_in_marker(source: ByteSource, nbytes: int, limits: Limits) -> bool:
    """Return True if the first bytes of a source are one or more streams, and zeros after the last end-of-stream marker."""
    # By a read of each header: the last bytes of a body may equal a marker.
    headers = ReadAhead(source, WAITING_NBYTES if source.waits else HEADERS_NBYTES)
    start = byte_offset = 0
    try:
        while byte_offset < nbytes:
            encapsulated = read_message_or_end(headers, byte_offset, limits)
            if not isinstance(encapsulated, int):
                flatbuffer, body_offset = encapsulated
                byte_offset = body_offset + decode_message(flatbuffer, limits).body_nbytes
            elif byte_offset == start:  # a marker without a stream before it
                return False
            else:
                rest = source.read_up_to(encapsulated, min(_MOST_PADDING, max(0, nbytes - encapsulated)))
                if not any(rest):
                    return encapsulated + len(rest) == nbytes
                start = byte_offset = encapsulated
    # An incomplete message is the end of a stream that still grows.
    except TruncatedError:
        return False
    return False


_MOST_PADDING: Final = 64 << 10


def walk_batches(stream: StreamPlace) -> Iterator[IndexedBatch]:
    """Yield the record batches of a stream by their headers, as `walk`, in constant memory."""
    rows = dictionaries = of_earlier = 0
    for entry in walk(stream):
        if entry is None:
            of_earlier = dictionaries
            continue
        message, block = entry
        header = message.header
        if isinstance(header, RecordBatchHeader):
            yield IndexedBatch(block, header.length, rows, dictionaries, header.compression, of_earlier)
            rows += header.length
        else:
            dictionaries += 1


# The kinds of messages after the schema
_KINDS = (MessageHeader.RecordBatch, MessageHeader.DictionaryBatch)

# Messages in memory after which a walk forgets those that are not needed.
_FORGOTTEN_AT_ONCE = 4096


def index_stream(
    stream: StreamPlace,
    *,
    nests: bool = False,
    keeps_broken: bool = False,
    after: StreamIndex | None = None,
    first_batch: int = 0,
    most: int | None = None,
) -> StreamIndex:
    """Return an index of the messages of a stream, by one small read each.

    It continues at the end of `after`, an index of the stream when it was shorter; forgets record batches before
    `first_batch`; ends after `most` batches; and with `keeps_broken` has the error of broken bytes instead of raising
    it.
    """
    earlier = (after or StreamIndex((), (), stream.byte_offset, nests)).forget(first_batch)
    batches: list[IndexedBatch] = []
    dictionaries: list[IndexedDictionary] = []
    broken: InvalidArrowError | None = None
    byte_offset, of_earlier = earlier.end_offset, earlier.dictionaries_from
    rows, num_batches, num_dictionaries = earlier.num_rows, earlier.num_batches, earlier.num_dictionaries

    def build_index() -> StreamIndex:
        return StreamIndex(
            (*earlier.batches, *batches),
            (*earlier.dictionaries, *dictionaries),
            byte_offset,
            nests,
            broken,
            num_batches,
            rows,
            num_dictionaries,
            of_earlier,
        )

    try:
        for entry in walk(replace(stream, byte_offset=byte_offset), (num_batches, num_dictionaries)):
            if entry is None:
                of_earlier = num_dictionaries
                continue
            message, block = entry
            header = message.header
            byte_offset = block.byte_offset + block.nbytes
            if isinstance(header, DictionaryBatchHeader):
                dictionaries.append(
                    IndexedDictionary(block, header.id, header.is_delta, header.custom_metadata, num_dictionaries)
                )
                num_dictionaries += 1
            elif isinstance(header, RecordBatchHeader):
                batch = IndexedBatch(block, header.length, rows, num_dictionaries, header.compression, of_earlier)
                batches.append(batch)
                rows += header.length
                num_batches += 1
            if num_batches < first_batch and len(batches) + len(dictionaries) >= _FORGOTTEN_AT_ONCE:
                # A stream that grows for ever is walked in bounded memory.
                earlier = build_index().forget(first_batch)
                batches, dictionaries = [], []
            n_blocks = len(earlier.batches) + len(earlier.dictionaries) + len(batches) + len(dictionaries)
            # Each message takes memory here, of which an endless file could take all.
            stream.limits.check("max_blocks", n_blocks, "an index of a stream")
            if most is not None and min(num_batches - first_batch, len(earlier.batches) + len(batches)) >= most:
                break
    except InvalidArrowError as error:
        if not keeps_broken:
            raise
        # The messages before it are sound, and stay in the index.
        broken = error
    index = build_index()
    return index.forget(first_batch) if first_batch else index
