"""Recover the whole record batches of truncated files and streams.

Strategy
--------
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
from spark_arrow_ipc.ipc.columns.projection import Columns, SelectedColumns
from spark_arrow_ipc.ipc.concatenated_streams import ConcatenatedStreams
from spark_arrow_ipc.ipc.constants import CONTINUATION, FILE_HEADER, MAGIC, Validation
from spark_arrow_ipc.ipc.file_reader import FileReader
from spark_arrow_ipc.ipc.flatbuf.tables import MessageHeader
from spark_arrow_ipc.ipc.limits import Limits
from spark_arrow_ipc.ipc.messages.first_message import read_first_message
from spark_arrow_ipc.ipc.messages.footer import Footer
from spark_arrow_ipc.ipc.messages.message import expect
from spark_arrow_ipc.ipc.messages.schema import SchemaHeader, decode_schema
from spark_arrow_ipc.ipc.reader import open as open_reader
from spark_arrow_ipc.ipc.stream_index import StreamIndex, index_stream
from spark_arrow_ipc.ipc.stream_reader import StreamReader
from spark_arrow_ipc.storage.byte_source import ByteSource

BEYOND_RECOVERY: Final = (InvalidDictionaryError, InvalidBodyError)
"""Errors of reading a batch whose dictionary, or a delta of it, was lost."""

_DEFAULT_LIMITS: Final = Limits()


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


def open_recovered(
    opens: Callable[[], Openable],
    *,
    columns: Columns | None = None,
    validation: Validation = Validation.FULL,
    limits: Limits = _DEFAULT_LIMITS,
    verify_checksums: bool = True,
    concatenated_streams: ConcatenatedStreams = ConcatenatedStreams.WARN,
) -> Recovered:
    """Open a file or stream, and recover its whole batches if it is truncated.

    A sound file costs what `ipc.open` costs; a stream or a broken file costs a small read more for each message.

    Parameters
    ----------
    opens
        Opens the source, or gives its path or bytes; called once or twice.
    columns, validation, limits, verify_checksums, concatenated_streams
        As for `ipc.open`. If something is lost, the rest is validated in full.

    Raises
    ------
    InvalidArrowError
        The bytes do not begin as Arrow IPC does.
    UnsupportedError, LimitError, ColumnNotFoundError, OSError
        As `ipc.open`.
    """
    try:
        reader = open_reader(
            opens(),
            columns=columns,
            validation=validation,
            limits=limits,
            verify_checksums=verify_checksums,
            concatenated_streams=concatenated_streams,
        )
    except InvalidArrowError as error:
        return _without_end(open_source(opens()), error, columns, limits)
    if isinstance(reader, FileReader):
        return Recovered(reader)
    try:
        index = reader.index(keeps_broken=True)
        if index.broken is None or validation == Validation.FULL:
            return Recovered(reader, index, index.broken)
        reader.close()
        reader = open_reader(opens(), columns=columns, limits=limits, concatenated_streams=concatenated_streams)
        return Recovered(reader, index, index.broken)
    except BaseException:
        reader.close()
        raise


def _without_end(source: ByteSource, why: InvalidArrowError, columns: Columns | None, limits: Limits) -> Recovered:
    """Recover a source that cannot be opened; raise `why` if it never was Arrow."""
    try:
        head = bytes(source.read_up_to(0, len(FILE_HEADER)))
        if not any(start.startswith(head[: len(start)]) for start in (MAGIC, CONTINUATION.to_bytes(4, "little"))):
            raise why
        with error_context(path=source.path):
            recovered = _file_without_footer(source, columns, limits) if head.startswith(MAGIC) else None
    except BaseException:
        source.close()
        raise
    if recovered is None:
        source.close()
        return Recovered(None, None, why)
    index = recovered.index
    assert index is not None
    return replace(recovered, lost=index.broken or why)


def _file_without_footer(source: ByteSource, columns: Columns | None, limits: Limits) -> Recovered | None:
    """Return the whole batches of a file by its messages, or None if its schema is not whole."""
    first = schema = None
    with suppress(InvalidArrowError), error_context(path=source.path):
        first = read_first_message(source, limits)
        if first is not None:
            message, byte_offset = first
            header = expect(message, MessageHeader.Schema, SchemaHeader)
            schema = decode_schema(header.view, limits)
    if first is None or schema is None:
        return None
    index = index_stream(source, byte_offset, limits, keeps_broken=True)
    footer = Footer(
        header,
        tuple(dictionary.block for dictionary in index.dictionaries),
        tuple(batch.block for batch in index.batches),
        (),
    )
    return Recovered(FileReader(source, SelectedColumns(schema, columns, Validation.FULL, limits), footer), index)
