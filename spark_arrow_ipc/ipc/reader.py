"""Open files and streams for reading.

How it works
------------
A reader has a `ByteSource` and the schema, and decodes one message at a time into a `RecordBatch`. To open a file, only its
footer and first bytes are read; a body is read with its batch, and with `columns` only the ranges of these columns. Every
error of a reader names the path, the block and the byte offset.

The first bytes distinguish a file from a stream. If each read waits for a network, the last bytes do, which are needed
anyway: a source that ends with the magic is a file, and its first bytes are checked when its first batch is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Literal, TypeAlias, overload

from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.arrow.types import CustomMetadata
from spark_arrow_ipc.errors import (
    InvalidFramingError,
    InvalidMetadataError,
    UnsupportedError,
    error_context,
)
from spark_arrow_ipc.ipc.bytes.source import ForwardSource, KeptEnds, Openable, keep_ends, open_source
from spark_arrow_ipc.ipc.columns.projection import Columns
from spark_arrow_ipc.ipc.concatenated_streams import ConcatenatedStreams
from spark_arrow_ipc.ipc.constants import DEFAULT_LIMITS, MAGIC, Format, Limits, Validation
from spark_arrow_ipc.ipc.file_reader import FileReader
from spark_arrow_ipc.ipc.flatbuf.tables import MessageHeader
from spark_arrow_ipc.ipc.follow import Follow, FollowReader, GrowingStream, open_source_to_follow
from spark_arrow_ipc.ipc.messages.footer import (
    Footer,
    check_covered,
    decode_footer,
    decode_schema_once,
)
from spark_arrow_ipc.ipc.messages.message import (
    decode_message,
    expect,
    inside,
    read_footer,
    read_head,
    read_stream_message,
    sniff,
)
from spark_arrow_ipc.ipc.messages.schema import SchemaHeader, SchemaMessage
from spark_arrow_ipc.ipc.options import DEFAULT_READ, ReadOptions
from spark_arrow_ipc.ipc.stream_reader import StreamReader
from spark_arrow_ipc.storage.byte_source import ByteSource

_ValidationWord: TypeAlias = Literal["full", "structural"]
_StreamsWord: TypeAlias = Literal["warn", "read", "error"]


@overload
def open(  # noqa: A001
    source: Openable,
    options: ReadOptions | None = None,
    *,
    columns: Columns | None = None,
    validation: Validation | _ValidationWord = Validation.FULL,
    limits: Limits = DEFAULT_LIMITS,
    verify_checksums: bool = True,
    concatenated_streams: ConcatenatedStreams | _StreamsWord = ConcatenatedStreams.WARN,
    storage: Mapping[str, str] | None = None,
    follow: Literal[False] = False,
    threads: int = 1,
) -> FileReader | StreamReader: ...


@overload
def open(  # noqa: A001
    source: Openable,
    options: ReadOptions | None = None,
    *,
    columns: Columns | None = None,
    validation: Validation | _ValidationWord = Validation.FULL,
    limits: Limits = DEFAULT_LIMITS,
    follow: Literal[True] | Follow,
) -> FollowReader: ...


def open(  # noqa: A001 - `ipc.open` is the public name
    source: Openable,
    options: ReadOptions | None = None,
    *,
    columns: Columns | None = None,
    validation: Validation | _ValidationWord = Validation.FULL,
    limits: Limits = DEFAULT_LIMITS,
    verify_checksums: bool = True,
    concatenated_streams: ConcatenatedStreams | _StreamsWord = ConcatenatedStreams.WARN,
    storage: Mapping[str, str] | None = None,
    follow: bool | Follow = False,
    threads: int = 1,
) -> FileReader | StreamReader | FollowReader:
    """Open an Arrow IPC file or stream, by its first bytes.

    Parameters
    ----------
    source
        A path or the URL of an object store, bytes, or a binary file object, which for a stream may be unseekable.
    options
        A value with all of the next keywords, instead of these.
    columns
        Names, positions, or tuples of names into structs; None for all. Buffers of other columns are not read.
        A function gets the file's schema and returns them.
    validation
        ``full`` checks the values that a row can see too (offsets, UTF-8, indices ...), ``structural`` only sizes and
        bounds. Neither checks the digits of decimals and the ranges of dates and times, which Arrow's own golden files
        exceed.
    limits
        Budgets of memory and nesting.
    verify_checksums
        True to compare all bytes that are read with the checksums in the file's footer, if it has any.
    concatenated_streams
        The treatment of another stream after the end of a stream: ``warn`` and read the first one, ``read`` all if
        their schemas agree, or raise an ``error``. From a pipe, ``warn`` reads nothing after the end.
    storage
        Options of an object store, such as ``{"region": "eu-central-1"}``: ``storage.*`` without the prefix.
    follow
        True for a local stream that another process still writes, or `Follow` with the waits. Iteration waits for more
        record batches, and for a missing schema, and ends at the stream's marker.
    threads
        The most threads that decompress and check record batches, which iteration yields in order, an error in its
        batch's turn. They need memory for as many batches, read bodies of a stream completely despite `columns`, and
        call a `ByteSource` of your own at once.

    Raises
    ------
    InvalidFramingError
        The source has neither format; the message names a likely one.
    ArrowIpcError
        The footer or the schema is broken.
    ColumnNotFoundError
        A column of `columns` does not exist.
    OSError
        The path cannot be opened.
    ValueError
        `validation` or `threads` is not one of these values.
    TypeError
        `options` and keywords are given at once.
    """
    # Checks the keywords, too.
    keywords = ReadOptions(columns, validation, limits, verify_checksums, concatenated_streams, threads)
    if options is not None and keywords != DEFAULT_READ:
        raise TypeError("expected options or keywords that say how to read, found both")
    options = options or keywords
    if follow:
        if options.threads > 1:
            raise ValueError("a stream that is followed is decoded by one thread")
        if options.concatenated_streams != ConcatenatedStreams.WARN:
            raise ValueError(
                "a stream that is followed ends at its marker, and concatenated_streams has no meaning there"
            )
        return _follow(source, options, Follow() if follow is True else follow)
    return open_with(options, source, storage)


def open_with(
    options: ReadOptions, source: Openable, storage: Mapping[str, str] | None = None
) -> FileReader | StreamReader:
    """Open a file or stream by options; as `open`."""
    with _open_source(source, storage) as opened:
        actual, head = _format_of(opened)
        return _stream(opened, options) if actual is Format.STREAM else _file(opened, head, options)


def open_file(
    source: Openable,
    *,
    columns: Columns | None = None,
    validation: Validation | _ValidationWord = Validation.FULL,
    limits: Limits = DEFAULT_LIMITS,
    verify_checksums: bool = True,
    storage: Mapping[str, str] | None = None,
    threads: int = 1,
) -> FileReader:
    """Open the file format; parameters and errors as for `open`."""
    options = ReadOptions(columns, validation, limits, verify_checksums, threads=threads)
    with _open_source(source, storage) as opened:
        return _file(opened, _head_of(opened, Format.FILE), options)


def open_stream(
    source: Openable,
    *,
    columns: Columns | None = None,
    validation: Validation | _ValidationWord = Validation.FULL,
    limits: Limits = DEFAULT_LIMITS,
    concatenated_streams: ConcatenatedStreams | _StreamsWord = ConcatenatedStreams.WARN,
    storage: Mapping[str, str] | None = None,
    threads: int = 1,
) -> StreamReader:
    """Open the stream format; parameters and errors as for `open`."""
    options = ReadOptions(columns, validation, limits, concatenated_streams=concatenated_streams, threads=threads)
    with _open_source(source, storage) as opened:
        _head_of(opened, Format.STREAM)
        return _stream(opened, options)


def read_schema(
    source: Openable, *, limits: Limits = DEFAULT_LIMITS, storage: Mapping[str, str] | None = None
) -> Schema:
    """Read the schema of a file or stream: only its footer or first message."""
    with open(source, limits=limits, storage=storage) as reader:
        return reader.schema


@contextmanager
def _open_source(openable: Openable, storage: Mapping[str, str] | None) -> Iterator[ByteSource]:
    """Open a source for a reader, which closes it, and close it after an error."""
    # Where reads wait, the first and the last bytes come at once.
    source = keep_ends(open_source(openable, storage))
    try:
        with error_context(path=source.path):
            yield source
    except BaseException:
        source.close()
        raise


def _stream(source: ByteSource, options: ReadOptions) -> StreamReader:
    schema, byte_offset, custom_metadata = _read_stream_schema(source, options.limits)
    streams = ConcatenatedStreams(options.concatenated_streams)
    return StreamReader(source, options.select(schema), byte_offset, custom_metadata, streams, threads=options.threads)


def _file(source: ByteSource, head: memoryview | None, options: ReadOptions) -> FileReader:
    footer, message = _read_file_metadata(source, head, options.limits)
    return FileReader(
        source,
        options.select(message),
        footer,
        verify_checksums=options.verify_checksums,
        checks_start=head is None,
        threads=options.threads,
    )


def _follow(openable: Openable, options: ReadOptions, how: Follow) -> FollowReader:
    def make(source: ByteSource) -> GrowingStream:
        schema, byte_offset, custom_metadata = _read_stream_schema(source, options.limits)
        return GrowingStream(source, options.select(schema), byte_offset, custom_metadata)

    return FollowReader(open_source_to_follow(openable), make, how)


def _head_of(source: ByteSource, demanded: Format) -> memoryview | None:
    """Return the first bytes of a source (`_format_of`), which must have the demanded format."""
    actual, head = _format_of(source)
    if actual is not demanded:
        raise InvalidFramingError(
            expected=f"the Arrow IPC {demanded.value} format", found=f"the {actual.value} format", byte_offset=0
        )
    return head


def _format_of(source: ByteSource) -> tuple[Format, memoryview | None]:
    """Return the format of a source, and its first bytes; None for a file by its last bytes."""
    if isinstance(source, KeptEnds) and not source.is_small and source.ends_with(MAGIC):
        return Format.FILE, None
    head = read_head(source)
    return sniff(head, source.nbytes), head


def _read_file_metadata(source: ByteSource, head: memoryview | None, limits: Limits) -> tuple[Footer, SchemaMessage]:
    """Read the footer of a file with its schema; check the first bytes, if they are known."""
    # A pipe has its footer after all record batches.
    if isinstance(source, ForwardSource):
        raise UnsupportedError("the file format needs a source that can seek; read it into memory and open the bytes")
    flatbuffer, byte_offset = read_footer(source, limits)
    with inside(byte_offset):
        footer = decode_footer(flatbuffer, byte_offset, limits)
        # Once for files of equal schemas, which a directory mostly has.
        message = decode_schema_once(footer.schema.view, limits)
    if head is not None:
        # A footer that lists too few blocks would hide rows.
        check_covered(source, head, footer, limits)
    return footer, message


def _read_stream_schema(source: ByteSource, limits: Limits) -> tuple[SchemaMessage, int, CustomMetadata]:
    """Return the schema of a stream, the byte offset of the next message, and the metadata of the schema's message."""
    encapsulated = read_stream_message(source, 0, limits)
    if encapsulated is None:
        raise InvalidFramingError(expected="a schema", found="the end of the stream", byte_offset=0)
    flatbuffer, body_offset = encapsulated
    with inside(body_offset - len(flatbuffer)):
        message = decode_message(flatbuffer, limits)
        header = expect(message, MessageHeader.Schema, SchemaHeader)
        if message.body_nbytes:
            # A wrong length would skip all batches, to an apparent end.
            raise InvalidMetadataError(
                expected="a schema without a body", found=f"one of {message.body_nbytes:,} bytes"
            )
        schema = decode_schema_once(header.view, limits)
    return schema, body_offset + message.body_nbytes, message.custom_metadata
