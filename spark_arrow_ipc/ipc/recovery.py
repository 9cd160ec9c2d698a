"""Open the complete record batches of truncated and damaged files and streams.

How it works
------------
The bytes between a file's magic and its footer are a stream. If the footer is missing or broken, `open_recovered` walks the
headers of all messages and builds a footer, which the usual `FileReader` gets, with the usual checks. A truncated stream is
walked as well, so that the number of complete batches is known before the first is read. A walk reads no bodies. So
recovered batches are always validated in full: a batch whose dictionary was lost with the end is an error.

`open_to_repair` also classifies the bytes after the last complete message (`Rest`). A file may have been written over a
larger one, whose footer is at the end then: the first footer belongs to the file.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from enum import Enum, auto
from itertools import islice
from typing import Final

from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.errors import (
    ArrowIpcError,
    InvalidArrowError,
    InvalidBodyError,
    InvalidDictionaryError,
    SchemaMismatchError,
    error_context,
)
from spark_arrow_ipc.ipc.bytes.source import Openable, open_source
from spark_arrow_ipc.ipc.concatenated_streams import ConcatenatedStreams
from spark_arrow_ipc.ipc.constants import CONTINUATION, EOS, FILE_HEADER, MAGIC, Limits, Validation
from spark_arrow_ipc.ipc.file_reader import FileReader
from spark_arrow_ipc.ipc.flatbuf.tables import MessageHeader
from spark_arrow_ipc.ipc.messages.footer import Footer, decode_footer, read_first_message
from spark_arrow_ipc.ipc.messages.message import expect, read_footer
from spark_arrow_ipc.ipc.messages.schema import SchemaHeader, SchemaMessage, decode_schema
from spark_arrow_ipc.ipc.options import DEFAULT_READ, ReadOptions
from spark_arrow_ipc.ipc.reader import open_with
from spark_arrow_ipc.ipc.stream_index import StreamIndex, StreamPlace, index_stream
from spark_arrow_ipc.ipc.stream_reader import StreamReader
from spark_arrow_ipc.storage.byte_source import ByteSource

BEYOND_RECOVERY: Final = (InvalidDictionaryError, InvalidBodyError)
"""Errors of reading a batch without its dictionary or a delta, which was lost."""


@dataclass(frozen=True, slots=True, eq=False)
class Recovered:
    """The complete record batches of a file or stream."""

    reader: FileReader | StreamReader | None  # of the complete batches; None if the schema is incomplete
    index: StreamIndex | None = None  # the complete messages; None for a sound file, which is not walked
    lost: InvalidArrowError | None = None  # the reason of a loss; None if nothing is lost

    @property
    def batches(self) -> int | None:
        """The number of complete record batches; None for a sound file, which is not walked."""
        return None if self.index is None else len(self.index.batches)

    def __iter__(self) -> Iterator[RecordBatch]:
        """Yield the batches with complete messages, with the reader's errors."""
        return islice(self.reader or (), self.batches)

    def close(self) -> None:
        """Close the file."""
        if self.reader is not None:
            self.reader.close()


def open_recovered(opens: Callable[[], Openable], options: ReadOptions = DEFAULT_READ) -> Recovered:
    """Open a file or stream, or recover its complete batches, which are validated in full then.

    A sound file costs as much as `ipc.open`, a stream or a broken file a small read more for each message. `opens`
    returns the open source, its path or its bytes, at one or two calls.
    """
    in_full = replace(options, validation=Validation.FULL)
    reader = None
    try:
        reader = open_with(options, opens())
        if reader.is_numbered:
            # Errors of the start have to come here, and not at the first batch.
            reader.check_start()
    except InvalidArrowError as error:
        if reader is not None:
            reader.close()
        return _without_end(open_source(opens()), error, in_full)
    if reader.is_numbered:
        return Recovered(reader)
    try:
        index = reader.index(keeps_broken=True)
        # Only a loss needs full validation.
        if index.broken is None or options == in_full:
            return Recovered(reader, index, index.broken)
        reader.close()
        return Recovered(open_with(in_full, opens()), index, index.broken)
    except BaseException:
        reader.close()
        raise


def _without_end(source: ByteSource, why: InvalidArrowError, options: ReadOptions) -> Recovered:
    """Recover a source that cannot be opened; raise `why` if it does not begin as Arrow."""
    try:
        head = bytes(source.read_up_to(0, len(FILE_HEADER)))
        # Streams before 0.15 begin with a length, which any bytes may be: these are not recovered.
        if not any(start.startswith(head[: len(start)]) for start in (MAGIC, CONTINUATION.to_bytes(4, "little"))):
            raise why
        walked = _walk_file(source, options.limits) if head.startswith(MAGIC) else None
    except BaseException:
        source.close()
        raise
    if walked is None:
        source.close()
        return Recovered(None, None, why)
    reader = FileReader(source, options.select(walked.schema), walked.footer)
    return Recovered(reader, walked.index, walked.index.broken or why)


@dataclass(frozen=True, slots=True, eq=False)
class _WalkedFile:
    """A file by its messages: their index, and a footer from it."""

    schema: SchemaMessage
    footer: Footer
    index: StreamIndex


def _walk_file(source: ByteSource, limits: Limits) -> _WalkedFile | None:
    """Return the complete batches of a file by its messages, or None if its schema is incomplete."""
    start = schema = None
    with error_context(path=source.path):
        with suppress(InvalidArrowError):
            start = read_first_message(source, limits)
            if start is not None:
                message, byte_offset = start
                header = expect(message, MessageHeader.Schema, SchemaHeader)
                schema = decode_schema(header.view, limits)
        if start is None or schema is None:
            return None
        # The end of the messages is where the walk cannot go on.
        index = index_stream(StreamPlace(source, byte_offset, limits), keeps_broken=True)
    dictionaries = tuple(dictionary.block for dictionary in index.dictionaries)
    return _WalkedFile(schema, Footer(header, dictionaries, tuple(batch.block for batch in index.batches), ()), index)


# ---- the bytes after the last complete message


class RestKind(Enum):
    """The kinds of bytes after the last complete message."""

    END = auto()
    """The end-of-stream marker, and the footer of a file, which may be damaged."""
    CUT = auto()
    """None: the bytes end without a marker."""
    ZEROS = auto()
    """Zeros up to the last byte."""
    BROKEN = auto()
    """Bytes of an incomplete or damaged message."""
    FOREIGN = auto()
    """The end, followed by bytes of something else."""


@dataclass(frozen=True, slots=True)
class Rest:
    """The bytes after the last complete message, or for `FOREIGN` after the end, up to the last byte.

    `zeros_before` counts the zeros just before `ZEROS`, which may have been values.
    """

    kind: RestKind
    byte_offset: int
    nbytes: int
    zeros_before: int = 0


def open_to_repair(opens: Callable[[], Openable]) -> tuple[Recovered, Rest | None]:
    """Open the complete batches as `open_recovered`, of all streams in a file, and classify the bytes after them.

    None for a file with a sound footer. A file that was written over a larger one is read by its own footer.
    """
    every_stream = ReadOptions(concatenated_streams=ConcatenatedStreams.READ)
    try:
        recovered = open_recovered(opens, every_stream)
    # The first stream can be saved all the same.
    except SchemaMismatchError:  # another stream, of another table, follows
        recovered = open_recovered(opens)
    reader = recovered.reader
    if reader is None:
        return recovered, None
    with closing(open_source(opens())) as source, error_context(path=source.path):
        if isinstance(reader, StreamReader):
            assert recovered.index is not None, "a stream has an index"
            return recovered, _rest_of_stream(source, recovered.index)
        walked = _walk_file(source, every_stream.limits)
        if walked is None:
            return recovered, None
        first = _first_footer(source, walked, every_stream.limits)
        nbytes = _nbytes(source)
        if first is not None and first[1] < nbytes:
            footer, end = first
            reader.close()
            reader = FileReader(open_source(opens()), every_stream.select(walked.schema), footer)
            return Recovered(reader, walked.index), Rest(RestKind.FOREIGN, end, nbytes - end)
        return recovered, None if recovered.index is None else _rest_of_file(source, walked.index, every_stream.limits)


_LENGTH: Final = struct.Struct("<i")
# Bytes between the marker and the footer
_MOST_PADDING: Final = 64
# Bounds of the search for the end of the first footer, in bytes and in occurrences of the magic
_MOST_SEARCHED_NBYTES: Final = 16 << 20
_MOST_CANDIDATES: Final = 1_000


def _first_footer(source: ByteSource, walked: _WalkedFile, limits: Limits) -> tuple[Footer, int] | None:
    """Return the footer right after the messages of a file and the byte offset after it, if it has their blocks."""
    if walked.index.broken is not None:
        return None
    start = walked.index.end_offset
    data = bytes(source.read_up_to(start, min(limits.max_metadata_bytes, _MOST_SEARCHED_NBYTES)))
    at = -1
    for _ in range(_MOST_CANDIDATES):
        at = data.find(MAGIC, at + 1)
        if at < 0:
            return None
        stop = at - _LENGTH.size
        if stop < 0:
            continue
        (nbytes,) = _LENGTH.unpack_from(data, stop)
        # The footer follows the end-of-stream marker.
        if not 0 <= stop - nbytes <= _MOST_PADDING or nbytes <= 0:
            continue
        with suppress(ArrowIpcError):
            footer = decode_footer(memoryview(data)[stop - nbytes : stop], start + stop - nbytes, limits)
            ours = walked.footer
            # A footer is the file's if it lists the messages of the walk.
            if footer.record_batches == ours.record_batches and footer.dictionaries == ours.dictionaries:
                return footer, start + at + len(MAGIC)
    return None


def _rest_of_file(source: ByteSource, index: StreamIndex, limits: Limits) -> Rest:
    rest = _rest(source, index)
    if rest.kind is RestKind.BROKEN:
        with suppress(ArrowIpcError):  # some writers have no marker before the footer
            _, footer_offset = read_footer(source, limits)
            if 0 <= footer_offset - rest.byte_offset <= _MOST_PADDING:
                return replace(rest, kind=RestKind.END)
    return rest


def _rest_of_stream(source: ByteSource, index: StreamIndex) -> Rest:
    rest = _rest(source, index)
    if rest.kind is not RestKind.END:
        return rest
    end = rest.byte_offset + (len(EOS) if source.read_up_to(rest.byte_offset, 4) == EOS[:4] else 4)
    if _zeros_up_to_end(source, end):
        return rest
    return Rest(RestKind.FOREIGN, end, _nbytes(source) - end)


def _rest(source: ByteSource, index: StreamIndex) -> Rest:
    start = index.end_offset
    nbytes = _nbytes(source) - start
    if index.broken is not None:
        kind = RestKind.BROKEN
    elif not nbytes:
        kind = RestKind.CUT
    # Four zeros are the marker of streams before Arrow 0.15, whose messages have no continuation.
    elif _zeros_up_to_end(source, start) and (
        nbytes > len(EOS)
        or source.read_up_to(index.batches[-1].block.byte_offset if index.batches else 0, 4) == EOS[:4]
    ):
        before = bytes(source.read_at(start - min(start, _PIECE), min(start, _PIECE)))
        return Rest(RestKind.ZEROS, start, nbytes, len(before) - len(before.rstrip(b"\0")))
    else:
        kind = RestKind.END
    return Rest(kind, start, nbytes)


_PIECE: Final = 1 << 20


def _zeros_up_to_end(source: ByteSource, start: int) -> bool:
    pieces = (source.read_up_to(at, _PIECE) for at in range(start, _nbytes(source), _PIECE))
    return not any(bytes(piece).strip(b"\0") for piece in pieces)


def _nbytes(source: ByteSource) -> int:
    assert source.nbytes is not None, "a pipe was refused"
    return source.nbytes
