"""Index the messages of a stream without reading bodies, so that it can be read in parts.

Strategy
--------
A stream has no footer, but every message has the length of its body. `walk` goes from message to message and seeks
past the bodies: one small read each. Its result is a `StreamIndex`: the record batches with their rows, and the
dictionary batches. Reading can begin at any record batch, once the dictionaries in force there are replayed;
`StreamIndex.start` names them.

The walk raises the errors that reading raises, except for those of bodies. The bytes after a file's magic are a stream
as well, so a file that lost its footer is walked in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from spark_arrow_ipc.arrow.types import CustomMetadata
from spark_arrow_ipc.errors import InvalidArrowError, InvalidFramingError, error_context
from spark_arrow_ipc.ipc.batch_reader import inside
from spark_arrow_ipc.ipc.concatenated_streams import StreamEnds
from spark_arrow_ipc.ipc.constants import CompressionType, MessageHeader
from spark_arrow_ipc.ipc.framing import read_message_or_end
from spark_arrow_ipc.ipc.limits import Limits
from spark_arrow_ipc.ipc.metadata.dictionary_batch import DictionaryBatchHeader
from spark_arrow_ipc.ipc.metadata.footer import Block
from spark_arrow_ipc.ipc.metadata.message import Message, decode_message
from spark_arrow_ipc.ipc.metadata.record_batch import RecordBatchHeader
from spark_arrow_ipc.ipc.read_ahead import HEADERS_NBYTES, WAITING_NBYTES, ReadAhead
from spark_arrow_ipc.ipc.source import ByteSource

__all__ = ["IndexedBatch", "IndexedDictionary", "StreamIndex", "StreamStart", "index_stream", "walk", "walk_batches"]


@dataclass(frozen=True, slots=True)
class IndexedBatch:
    """A record batch of a stream: its place, its rows, and what comes before it."""

    block: Block
    rows: int
    rows_before: int
    dictionaries_before: int
    compression: CompressionType | None = None
    dictionaries_from: int = 0
    """The number of the first dictionary batch of its stream, if streams are concatenated."""


@dataclass(frozen=True, slots=True)
class IndexedDictionary:
    """A dictionary batch of a stream: its place, its id, whether it is a delta, and the pairs of its message."""

    block: Block
    id: int
    is_delta: bool
    custom_metadata: CustomMetadata = ()


@dataclass(frozen=True, slots=True)
class StreamStart:
    """A record batch at which reading of a stream can begin.

    Parameters
    ----------
    byte_offset
        Of its message.
    record_batches_before, rows_before, dictionaries_before
        The numbers of record batches, rows and dictionary batches before it.
    dictionaries
        Number and byte offset of each dictionary batch that must be replayed, in the order of the stream.
    """

    byte_offset: int
    record_batches_before: int
    rows_before: int
    dictionaries_before: int
    dictionaries: tuple[tuple[int, int], ...] = ()

    def __reduce__(self) -> tuple[type[StreamStart], tuple[object, ...]]:
        # Pickles to half the bytes of a slotted dataclass.
        return StreamStart, (
            self.byte_offset, self.record_batches_before, self.rows_before, self.dictionaries_before, self.dictionaries,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class StreamIndex:
    """The messages of a stream after its schema.

    Parameters
    ----------
    batches, dictionaries
        In the order of the stream.
    end_offset
        The byte offset at the end of the last whole message.
    nests
        Whether values of dictionaries are themselves encoded by dictionaries.
    broken
        Why the walk stopped before the end of the stream, or None.
    """

    batches: tuple[IndexedBatch, ...]
    dictionaries: tuple[IndexedDictionary, ...]
    end_offset: int
    nests: bool = False
    broken: InvalidArrowError | None = field(default=None, compare=False)

    def start(self, number: int) -> StreamStart:
        """Return the place of record batch `number` and the dictionaries in force there. O(dictionaries).

        For each id these are the last dictionary batch that is no delta, and the deltas after it. If dictionaries
        nest, they are all before it: an outer value refers to the inner dictionary in force when it came.
        """
        batch = self.batches[number]
        first_number, stop = batch.dictionaries_from, batch.dictionaries_before
        before = list(enumerate(self.dictionaries[first_number:stop], first_number))
        if not self.nests:
            first = {dictionary.id: i for i, dictionary in before if not dictionary.is_delta}
            before = [(i, dictionary) for i, dictionary in before if i >= first.get(dictionary.id, 0)]
        return StreamStart(
            batch.block.byte_offset,
            number,
            batch.rows_before,
            batch.dictionaries_before,
            tuple((i, dictionary.block.byte_offset) for i, dictionary in before),
        )


def walk(
    source: ByteSource, byte_offset: int, limits: Limits, ends: StreamEnds | None = None
) -> Iterator[tuple[Message, Block] | None]:
    """Yield each message from `byte_offset` on, with its block, and None where another stream begins. Reads no body.

    The source must know its length.

    Parameters
    ----------
    ends
        Decides whether streams after the first are read; None reads the first.

    Raises
    ------
    InvalidArrowError
        A message is broken or cut off, or there is a second schema; the message's offset is given.
    UnsupportedError, LimitError
        As for reading a message.
    """
    headers = ReadAhead(source, WAITING_NBYTES if source.waits else HEADERS_NBYTES)
    assert source.nbytes is not None, "a walk seeks"
    counts = dict.fromkeys(_KINDS, 0)
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
                raise InvalidFramingError(
                    expected=f"a body of {message.body_nbytes:,} bytes",
                    found=f"{left:,}: the file ends at byte {source.nbytes:,}, it is truncated",
                    block_kind=message.kind.noun,
                    block_number=counts[message.kind],
                    byte_offset=body_offset,
                )
        counts[message.kind] += 1
        block = Block(byte_offset, body_offset - byte_offset, message.body_nbytes)
        yield message, block
        byte_offset += block.nbytes


def walk_batches(
    source: ByteSource, byte_offset: int, limits: Limits, ends: StreamEnds | None = None
) -> Iterator[IndexedBatch]:
    """Yield the record batches of a stream by their headers, as `walk`; keeps none of them."""
    rows = dictionaries = of_earlier = 0
    for found in walk(source, byte_offset, limits, ends):
        if found is None:
            of_earlier = dictionaries
            continue
        message, block = found
        header = message.header
        if isinstance(header, RecordBatchHeader):
            yield IndexedBatch(block, header.length, rows, dictionaries, header.compression, of_earlier)
            rows += header.length
        else:
            dictionaries += 1


_KINDS = (MessageHeader.RecordBatch, MessageHeader.DictionaryBatch)
"""The kinds of messages after the schema."""


def index_stream(
    source: ByteSource,
    byte_offset: int,
    limits: Limits,
    *,
    nests: bool = False,
    keeps_broken: bool = False,
    ends: StreamEnds | None = None,
) -> StreamIndex:
    """Return an index of the messages of a stream. One small read a message.

    Parameters
    ----------
    source
        Its length must be known.
    byte_offset
        Of the first message after the schema.
    limits
        Budgets of metadata and of messages.
    nests
        Whether values of dictionaries are themselves encoded by dictionaries.
    keeps_broken
        Whether broken bytes end the index, which keeps the error, instead of raising.
    ends
        As for `walk`.

    Raises
    ------
    InvalidArrowError
        As `walk`, unless `keeps_broken`.
    UnsupportedError, LimitError
        As for reading a message.
    """
    batches: list[IndexedBatch] = []
    dictionaries: list[IndexedDictionary] = []
    broken: InvalidArrowError | None = None
    rows = of_earlier = 0
    try:
        for found in walk(source, byte_offset, limits, ends):
            if found is None:
                of_earlier = len(dictionaries)
                continue
            message, block = found
            header = message.header
            if isinstance(header, DictionaryBatchHeader):
                dictionaries.append(IndexedDictionary(block, header.id, header.is_delta, header.custom_metadata))
            elif isinstance(header, RecordBatchHeader):
                before = len(dictionaries)
                batches.append(IndexedBatch(block, header.length, rows, before, header.compression, of_earlier))
                rows += header.length
            limits.check("max_blocks", len(batches) + len(dictionaries), "an index of a stream")
            byte_offset = block.byte_offset + block.nbytes
    except InvalidArrowError as error:
        if not keeps_broken:
            raise
        broken = error
    return StreamIndex(tuple(batches), tuple(dictionaries), byte_offset, nests, broken)
