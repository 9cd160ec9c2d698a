"""Streams that follow another one in the same file, as ``cat a.arrows b.arrows`` makes them.

How it works: a stream ends at its marker, and bytes after it are not a part of it. If they are another stream, readers
of only the first lose rows without a warning. `ConcatenatedStreams` decides: read the first and warn, read all, or
raise an error. If the first has no end marker, the schema of the next one follows at once, which is an error unless all
are read.
"""

from __future__ import annotations

import warnings
from enum import StrEnum

from spark_arrow_ipc.errors import ArrowIpcError, InvalidFramingError, SchemaMismatchError, error_context, printable
from spark_arrow_ipc.ipc.constants import Limits
from spark_arrow_ipc.ipc.flatbuf.tables import MessageHeader
from spark_arrow_ipc.ipc.messages.message import Message, decode_message, inside, read_stream_message
from spark_arrow_ipc.ipc.messages.schema import SchemaHeader, SchemaMessage, decode_schema
from spark_arrow_ipc.storage.byte_source import ByteSource


class ConcatenatedStreams(StrEnum):
    """The treatment of another stream that begins after the end of a stream."""

    WARN = "warn"
    """Read the first one and warn."""
    READ = "read"
    """Read all, whose schemas must agree."""
    ERROR = "error"
    """Raise an `InvalidFramingError`."""


class ConcatenatedStreamsWarning(UserWarning):
    """A file has another stream after the one that is read; shown once a file and process."""


def next_stream(source: ByteSource, end_offset: int, limits: Limits) -> tuple[Message, int] | None:
    """Return the schema message of a stream after `end_offset`, the end of another, and its end; None for other bytes."""
    try:
        encapsulated = read_stream_message(source, end_offset, limits)
        if encapsulated is None:
            return None
        flatbuffer, body_offset = encapsulated
        with inside(body_offset - len(flatbuffer)):
            message = decode_message(flatbuffer, limits)
    except ArrowIpcError:  # other bytes, which readers ignore
        return None
    return (message, body_offset) if message.kind is MessageHeader.Schema else None


class StreamEnds:
    """Decides by its mode at the end of a stream about another one after it."""

    def __init__(self, source: ByteSource, schema: SchemaMessage, mode: ConcatenatedStreams, limits: Limits) -> None:
        self._source = source
        self._schema = schema
        self._mode = mode
        self._limits = limits

    def after(self, end_offset: int) -> int | None:
        """Return the byte offset of the first message of the next stream; None to read no other.

        `end_offset` is after the end marker, or at the last byte. Another stream is an InvalidFramingError in the mode
        `ConcatenatedStreams.ERROR`, a ConcatenatedStreamsWarning if it is not read, or a SchemaMismatchError.
        """
        # A pipe may stay open after the stream: a warning is not worth a wait for more bytes.
        if self._source.nbytes is None and self._mode is ConcatenatedStreams.WARN:
            return None
        following = next_stream(self._source, end_offset, self._limits)
        if following is None:
            return None
        # Without a change of its schema the next stream continues the first.
        if self._mode is ConcatenatedStreams.READ:
            message, body_offset = following
            return self.enter(message, end_offset, body_offset)
        if self._mode is ConcatenatedStreams.ERROR:
            raise InvalidFramingError(
                expected="nothing after the end of the stream",
                found=f"another stream; {_WAY_OUT}",
                path=self._source.path,
                byte_offset=end_offset,
            )
        path = "" if self._source.path is None else f"{self._source.path}: "
        words = f"{path}another stream begins at byte {end_offset:,}, after the end of this one, and is not read; {_WAY_OUT}"
        # This line and not the caller's, so that Python shows the warning once for each file.
        warnings.warn(printable(words), ConcatenatedStreamsWarning, stacklevel=1)
        return None

    def enter(self, message: Message, start: int, body_offset: int) -> int:
        """Return the byte offset after a schema message that begins another stream.

        InvalidFramingError if only one stream is read, SchemaMismatchError if the schema differs from the first.
        """
        with error_context(path=self._source.path, byte_offset=start):
            if self._mode is not ConcatenatedStreams.READ or not isinstance(message.header, SchemaHeader):
                raise InvalidFramingError(
                    expected="one schema, at the start of the stream",
                    found=f"another one; if streams were joined, {_WAY_OUT}",
                    spec='Columnar.rst "IPC Streaming Format"',
                )
            difference = _difference(self._schema, decode_schema(message.header.view, self._limits))
            if difference is not None:
                raise SchemaMismatchError(
                    f"the stream that begins here has another schema than the first: {difference}"
                )
        return body_offset + message.body_nbytes


_WAY_OUT = (
    "to read all streams, write one file of them with 'arrowipc repair', or in Python set concatenated_streams='read'"
)


def _difference(first: SchemaMessage, other: SchemaMessage) -> str | None:
    """Describe the first difference of two streams; None if both can be read as one, also with other metadata."""
    ours, theirs = first.schema, other.schema
    for i, (our_field, their_field) in enumerate(zip(ours.fields, theirs.fields, strict=False)):
        if our_field != their_field:
            return f"column {i} is {their_field.name}: {their_field.type}, and was {our_field.name}: {our_field.type}"
    if len(ours.fields) != len(theirs.fields):
        return f"{len(theirs.fields)} columns, and there were {len(ours.fields)}"
    if ours.endianness != theirs.endianness:
        return "its byte order"
    return None if first.dictionary_ids == other.dictionary_ids else "the ids of its dictionaries"
