"""Recover the whole record batches of truncated files and streams.

The bytes between a file's magic and its footer are a stream. If the footer is missing or broken, the headers of all
messages are walked and a footer is made of them; the usual `FileReader` gets it, with the usual checks, and as lazy as
always. A truncated stream is walked as well, so that the number of whole batches is known before the first is read.

A walk reads no bodies. Recovered batches are therefore always validated in full: reading a batch whose dictionary was
lost with the end raises an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.errors import InvalidArrowError, InvalidBodyError, InvalidDictionaryError, error_context
from spark_arrow_ipc.ipc.bytes.source import Openable, open_source
from spark_arrow_ipc.ipc.constants import CONTINUATION, FILE_HEADER, MAGIC, Validation
from spark_arrow_ipc.ipc.file_reader import FileReader
from spark_arrow_ipc.ipc.flatbuf.tables import MessageHeader
from spark_arrow_ipc.ipc.messages.footer import Footer, read_first_message
from spark_arrow_ipc.ipc.messages.message import expect
from spark_arrow_ipc.ipc.messages.schema import SchemaHeader, decode_schema
from spark_arrow_ipc.ipc.options import DEFAULT_READ, ReadOptions
from spark_arrow_ipc.ipc.reader import open_with
from spark_arrow_ipc.ipc.stream_index import StreamIndex, StreamPlace, index_stream
from spark_arrow_ipc.ipc.stream_reader import StreamReader
from spark_arrow_ipc.storage.byte_source import ByteSource

BEYOND_RECOVERY: Final = (InvalidDictionaryError, InvalidBodyError)
"""Errors of reading a batch whose dictionary, or a delta of it, was lost."""


@dataclass(frozen=True, slots=True, eq=False)
class Recovered:
    """The whole record batches of a file or stream.

    Parameters
    ----------
    reader
        Reads the whole batches; None if not even the schema is whole.
    index
        Where the whole messages lie; None for a sound file, which is not walked.
    lost
        Why the rest cannot be read; None if nothing is lost.
    """

    reader: FileReader | StreamReader | None
    index: StreamIndex | None = None
    lost: InvalidArrowError | None = None

    @property
    def batches(self) -> int | None:
        """The number of whole record batches; None for a sound file, which is not walked."""
        return None if self.index is None else len(self.index.batches)

    def __iter__(self) -> Iterator[RecordBatch]:
        """Yield the batches whose messages are whole; the reader's errors apply."""
        return islice(self.reader or (), self.batches)

    def close(self) -> None:
        """Close the file."""
        if self.reader is not None:
            self.reader.close()


def open_recovered(opens: Callable[[], Openable], options: ReadOptions = DEFAULT_READ) -> Recovered:
    """Open a file or stream, and recover its whole batches if it is truncated; of these the rest is validated in full.

    A sound file costs what `ipc.open` costs; a stream or a broken file costs a small read more for each message.
    `opens` opens the source, or gives its path or bytes, and is called once or twice.
    """
    in_full = replace(options, validation=Validation.FULL)
    try:
        reader = open_with(options, opens())
    except InvalidArrowError as error:
        return _without_end(open_source(opens()), error, in_full)
    if reader.is_numbered:
        return Recovered(reader)
    try:
        index = reader.index(keeps_broken=True)
        if index.broken is None or options == in_full:
            return Recovered(reader, index, index.broken)
        reader.close()
        return Recovered(open_with(in_full, opens()), index, index.broken)
    except BaseException:
        reader.close()
        raise


def _without_end(source: ByteSource, why: InvalidArrowError, options: ReadOptions) -> Recovered:
    """Recover a source that cannot be opened; raise `why` if it never was Arrow."""
    try:
        head = bytes(source.read_up_to(0, len(FILE_HEADER)))
        if not any(start.startswith(head[: len(start)]) for start in (MAGIC, CONTINUATION.to_bytes(4, "little"))):
            raise why
        with error_context(path=source.path):
            recovered = _file_without_footer(source, options) if head.startswith(MAGIC) else None
    except BaseException:
        source.close()
        raise
    if recovered is None:
        source.close()
        return Recovered(None, None, why)
    index = recovered.index
    assert index is not None
    return replace(recovered, lost=index.broken or why)


def _file_without_footer(source: ByteSource, options: ReadOptions) -> Recovered | None:
    """Return the whole batches of a file by its messages, or None if its schema is not whole."""
    start = schema = None
    with suppress(InvalidArrowError), error_context(path=source.path):
        start = read_first_message(source, options.limits)
        if start is not None:
            message, byte_offset = start
            header = expect(message, MessageHeader.Schema, SchemaHeader)
            schema = decode_schema(header.view, options.limits)
    if start is None or schema is None:
        return None
    index = index_stream(StreamPlace(source, byte_offset, options.limits), keeps_broken=True)
    footer = Footer(
        header,
        tuple(dictionary.block for dictionary in index.dictionaries),
        tuple(batch.block for batch in index.batches),
        (),
    )
    return Recovered(FileReader(source, options.select(schema), footer), index)
