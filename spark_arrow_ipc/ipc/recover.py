"""Files and streams that lost their end: what of them is whole, and why the rest is not.

Strategy
--------
What stands between a file's magic and its footer is a stream. So where the footer is missing or broken, the headers
of all messages are walked, and what they say makes a footer; the reader that it is given to is the usual one, with
the usual checks, lazy as always. A stream that was cut is walked as well, so that it is known before the first
batch is read how many are whole.

A walk knows bodies by their length only. Recovered batches are therefore always checked in full: one that needs a
dictionary which went with the end says so when it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.errors import InvalidArrowError, InvalidBodyError, InvalidDictionaryError, error_context
from spark_arrow_ipc.ipc.batch_reader import expect, inside
from spark_arrow_ipc.ipc.constants import BODY_ALIGNMENT, CONTINUATION, FILE_HEADER, MAGIC, MessageHeader, Validation
from spark_arrow_ipc.ipc.file_reader import FileReader
from spark_arrow_ipc.ipc.framing import read_stream_message
from spark_arrow_ipc.ipc.limits import Limits
from spark_arrow_ipc.ipc.metadata.footer import Footer
from spark_arrow_ipc.ipc.metadata.message import decode_message
from spark_arrow_ipc.ipc.metadata.schema import SchemaHeader, decode_schema
from spark_arrow_ipc.ipc.projection import Columns, SelectedColumns
from spark_arrow_ipc.ipc.reader import open as open_reader
from spark_arrow_ipc.ipc.source import ByteSource, Openable, open_source
from spark_arrow_ipc.ipc.stream_index import StreamIndex, index_stream
from spark_arrow_ipc.ipc.stream_reader import StreamReader

__all__ = ["BEYOND_RECOVERY", "Recovered", "open_recovered"]

BEYOND_RECOVERY: Final = (InvalidDictionaryError, InvalidBodyError)
"""What reading a batch says whose dictionary, or a delta of it, lay behind the cut."""

_MOST_PADDING: Final = 64
"""arrow-rs begins its first message at a multiple of this, behind zeros."""

_DEFAULT_LIMITS: Final = Limits()


@dataclass(frozen=True, slots=True, eq=False)
class Recovered:
    """What is whole of a file or stream.

    Parameters
    ----------
    reader
        Of all whole batches; None where not even the schema is.
    index
        Where the whole messages lie; None where the file is sound and nobody walked it.
    lost
        Why the rest cannot be read; None where there is no rest.
    """

    reader: FileReader | StreamReader | None
    index: StreamIndex | None = None
    lost: InvalidArrowError | None = None

    @property
    def batches(self) -> int | None:
        """How many record batches are whole; None where nobody counted."""
        return None if self.index is None else len(self.index.batches)

    def __iter__(self) -> Iterator[RecordBatch]:
        """Yield the batches whose messages are whole; reading one raises as the reader does."""
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
) -> Recovered:
    """Return what is whole of a file or stream: all of it, usually.

    Costs what `ipc.open` costs where a file is sound, and a small read for each message of streams and of files
    that are not.

    Parameters
    ----------
    opens
        Gives what is opened, anew each time: up to twice.
    columns, validation, limits
        As for `ipc.open`. Where something is lost, the rest is checked in full.

    Raises
    ------
    InvalidArrowError
        The bytes do not begin as Arrow IPC does.
    UnsupportedError, LimitError, ColumnNotFoundError, OSError
        What opening can say.
    """
    try:
        reader = open_reader(opens(), columns=columns, validation=validation, limits=limits)
    except InvalidArrowError as error:
        return _without_end(open_source(opens()), error, columns, limits)
    if isinstance(reader, FileReader):
        return Recovered(reader)
    try:
        index = reader.index(keeps_broken=True)
        if index.broken is None or validation == Validation.FULL:
            return Recovered(reader, index, index.broken)
        reader.close()
        reader = open_reader(opens(), columns=columns, limits=limits)
        return Recovered(reader, index, index.broken)
    except BaseException:
        reader.close()
        raise


def _without_end(source: ByteSource, why: InvalidArrowError, columns: Columns | None, limits: Limits) -> Recovered:
    """Return what is whole of bytes that cannot be opened for a reason; that reason where they never were Arrow."""
    try:
        head = bytes(source.read_up_to(0, len(FILE_HEADER)))
        if not any(start.startswith(head[: len(start)]) for start in (MAGIC, CONTINUATION.to_bytes(4, "little"))):
            raise why
        found = _file_without_footer(source, columns, limits) if head.startswith(MAGIC) else None
    except BaseException:
        source.close()
        raise
    if found is None:
        source.close()
        return Recovered(None, None, why)
    index = found.index
    assert index is not None
    return replace(found, lost=index.broken or why)


def _file_without_footer(source: ByteSource, columns: Columns | None, limits: Limits) -> Recovered | None:
    """Return the whole batches of a file by its messages, or None where its schema is not whole."""
    head = bytes(source.read_up_to(len(FILE_HEADER), _MOST_PADDING))
    zeros = len(head) - len(head.lstrip(b"\0"))
    byte_offset = len(FILE_HEADER) + zeros // BODY_ALIGNMENT * BODY_ALIGNMENT
    header = schema = None
    with suppress(InvalidArrowError), error_context(path=source.path):
        found = read_stream_message(source, byte_offset, limits)
        if found is not None:
            flatbuffer, byte_offset = found
            with inside(byte_offset - len(flatbuffer)):
                header = expect(decode_message(flatbuffer, limits), MessageHeader.Schema, SchemaHeader)
                schema = decode_schema(header.view, limits)
    if header is None or schema is None:
        return None
    index = index_stream(source, byte_offset, limits, keeps_broken=True)
    footer = Footer(
        header,
        tuple(dictionary.block for dictionary in index.dictionaries),
        tuple(batch.block for batch in index.batches),
        (),
    )
    return Recovered(FileReader(source, SelectedColumns(schema, columns, Validation.FULL, limits), footer), index)
