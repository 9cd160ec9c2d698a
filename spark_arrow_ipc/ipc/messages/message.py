"""``Message`` of Message.fbs: the metadata before each body, with one of three headers.

All checks that need only metadata are here and in `messages.schema`. The vectors of a batch's header stay numpy arrays: ten
thousand columns take no Python loop. The framing of messages, in streams and at both ends of a file, is at the end.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import numpy as np

from spark_arrow_ipc.arrow.types import CustomMetadata
from spark_arrow_ipc.errors import (
    ArrowIpcError,
    InvalidFramingError,
    InvalidMetadataError,
    NoTableError,
    NotArrowError,
    TruncatedError,
    UnsupportedError,
)
from spark_arrow_ipc.ipc.bytes.source import ForwardSource
from spark_arrow_ipc.ipc.constants import (
    BODY_ALIGNMENT,
    CONTINUATION,
    EXPERIMENTAL_COMPRESSION_KEY,
    FOOTER_TAIL_NBYTES,
    MAGIC,
    READABLE_VERSIONS,
    Format,
    Int64s,
    Limits,
)
from spark_arrow_ipc.ipc.flatbuf import reader, tables
from spark_arrow_ipc.ipc.flatbuf.tables import CompressionType, MessageHeader, MetadataVersion
from spark_arrow_ipc.ipc.messages.schema import SchemaHeader, decode_custom_metadata
from spark_arrow_ipc.storage.byte_source import ByteSource

_NO_COUNTS: Final = np.zeros(0, np.int64)

_EXPERIMENTAL_CODECS: Final[dict[str, CompressionType]] = {codec.word: codec for codec in CompressionType}


class RecordBatchHeader(NamedTuple):
    """``RecordBatch`` of Message.fbs."""

    length: int  # rows
    nodes: Int64s  # int64, shape (nodes, 2): length and null_count of each field, in pre-order
    buffers: Int64s  # int64, shape (buffers, 2): byte offset inside the body, and nbytes
    compression: CompressionType | None  # codec of the buffers
    # int64, shape (view fields,): the number of variadic buffers of each field, in pre-order.
    variadic_counts: Int64s


def decode_record_batch(view: reader.TableView, custom_metadata: CustomMetadata) -> RecordBatchHeader:
    """Return the header in a ``RecordBatch`` table, with the custom metadata of its message."""
    length = int(view.scalar("length"))
    if length < 0:
        raise InvalidMetadataError(expected="a record batch length of at least 0", found=f"{length}")
    return RecordBatchHeader(
        length,
        view.structs("nodes"),
        view.structs("buffers"),
        _decode_compression(view, custom_metadata),
        view.scalars("variadicBufferCounts") if view.has("variadicBufferCounts") else _NO_COUNTS,
    )


def _decode_compression(view: reader.TableView, custom_metadata: CustomMetadata) -> CompressionType | None:
    compression = view.table("compression")
    if compression is None:
        # Arrow 0.17 had the codec in the custom metadata.
        word = next((value for key, value in custom_metadata if key == EXPERIMENTAL_COMPRESSION_KEY), None)
        if word is None:
            return None
        if word.lower() not in _EXPERIMENTAL_CODECS:
            raise UnsupportedError(f"the compression codec {word!r} of Arrow 0.17 is not one of LZ4, ZSTD")
        return _EXPERIMENTAL_CODECS[word.lower()]
    codec, method = int(compression.scalar("codec")), int(compression.scalar("method"))
    if method != 0:
        raise UnsupportedError(f"body compression method {method}: this release reads method 0 (BUFFER)")
    if codec not in tuple(CompressionType):
        raise UnsupportedError(f"compression codec {codec}: this release reads 0 (LZ4_FRAME) and 1 (ZSTD)")
    return CompressionType(codec)


@dataclass(frozen=True, slots=True, eq=False)
class DictionaryBatchHeader:
    """``DictionaryBatch`` of Message.fbs: a record batch of one column that belongs to an id."""

    id: int
    data: RecordBatchHeader
    is_delta: bool
    custom_metadata: CustomMetadata = ()  # of the message


def decode_dictionary_batch(view: reader.TableView, custom_metadata: CustomMetadata) -> DictionaryBatchHeader:
    """Return the header in a ``DictionaryBatch`` table, with the custom metadata of its message."""
    data = view.table("data")
    if data is None:
        raise InvalidMetadataError(expected="data in the dictionary batch", found="none", spec="Message.fbs")
    header = decode_record_batch(data, custom_metadata)
    return DictionaryBatchHeader(int(view.scalar("id")), header, bool(view.scalar("isDelta")), custom_metadata)


Header: TypeAlias = RecordBatchHeader | DictionaryBatchHeader | SchemaHeader


class Message(NamedTuple):
    """``Message`` of Message.fbs."""

    version: MetadataVersion
    kind: MessageHeader
    header: Header
    body_nbytes: int
    custom_metadata: CustomMetadata


def decode_message(flatbuffer: memoryview, limits: Limits) -> Message:
    """Return the message in the flatbuffer of an encapsulated message."""
    view = reader.root(flatbuffer, tables.MESSAGE, max_depth=2 * limits.max_depth + 8)
    version = readable_version(view)
    discriminant, header_view = view.union("header")
    if header_view is None:
        raise InvalidMetadataError(expected="a message header", found="none", spec="Message.fbs, Message.header")
    entry = _HEADERS.get(discriminant)
    if entry is None:
        raise NoTableError(
            f"the file holds a {MessageHeader(discriminant).noun}, which is not a table; ipc.read_tensor and the "
            "option tensors read it, and in a directory the option pathGlobFilter leaves it out"
        )
    kind, decode_header = entry
    body_nbytes = body_length(view)
    custom_metadata = decode_custom_metadata(view)  # before the header, whose codec may be in it
    header = decode_header(header_view, custom_metadata)
    return Message(version, kind, header, body_nbytes, custom_metadata)


def body_length(view: reader.TableView) -> int:
    """Return the bytes of the body after a ``Message`` table."""
    nbytes = int(view.scalar("bodyLength"))
    if nbytes < 0:
        raise InvalidMetadataError(expected="a body length of at least 0", found=f"{nbytes}")
    return nbytes


def readable_version(view: reader.TableView) -> MetadataVersion:
    """Return the metadata version of a ``Message`` table."""
    number = int(view.scalar("version"))
    version = _VERSIONS.get(number)
    if version is None:
        word = f"V{number + 1}" if number in tuple(MetadataVersion) else f"number {number}"
        raise UnsupportedError(
            f"the message has metadata version {word}; this release reads V4 (Arrow 0.8 of 2017) and V5"
        )
    return version


# By discriminant. The keys are plain integers: converting to an enum costs a tiny batch 4 % of its time.
_HEADERS: Final[dict[int, tuple[MessageHeader, Any]]] = {
    int(kind): (kind, decode)
    for kind, decode in (
        (MessageHeader.Schema, lambda view, _: SchemaHeader(view)),
        (MessageHeader.DictionaryBatch, decode_dictionary_batch),
        (MessageHeader.RecordBatch, decode_record_batch),
    )
}

_VERSIONS: Final[dict[int, MetadataVersion]] = {int(version): version for version in READABLE_VERSIONS}


_H = TypeVar("_H", RecordBatchHeader, DictionaryBatchHeader, SchemaHeader)


class inside:  # noqa: N801 - used as a statement, `with inside(byte_offset):`
    """Convert the byte offsets of errors inside a flatbuffer to offsets in the file."""

    __slots__ = ("_byte_offset",)

    def __init__(self, byte_offset: int) -> None:
        self._byte_offset = byte_offset

    def __enter__(self) -> None:
        return None

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> None:
        if isinstance(error, ArrowIpcError):
            error.byte_offset = self._byte_offset + (error.byte_offset or 0)


def expect(message: Message, kind: MessageHeader, header_class: type[_H]) -> _H:
    """Return the header of a message, or raise if it has another kind."""
    if not isinstance(message.header, header_class):
        raise InvalidMetadataError(expected=f"a {kind.noun}", found=f"a {message.kind.noun}")
    return message.header


_SPEC: Final = 'Columnar.rst "Encapsulated message format"'
_FILE_SPEC: Final = 'Columnar.rst "IPC File Format"'
_UINT32: Final = struct.Struct("<I")
_INT32: Final = struct.Struct("<i")


class Prefix(NamedTuple):
    """The bytes before a message's flatbuffer, and its length."""

    nbytes: int
    flatbuffer_nbytes: int  # with padding; 0 is the end of the stream


def decode_prefix(data: memoryview, byte_offset: int) -> Prefix:
    """Return the prefix at the start of `data`, which has 8 bytes, or 4 at the end of a stream."""
    if len(data) < 4:
        raise TruncatedError(
            expected="a message prefix of 8 bytes", found=f"{len(data)} bytes", byte_offset=byte_offset, spec=_SPEC
        )
    if _UINT32.unpack_from(data)[0] != CONTINUATION:  # before Arrow 0.15: the length only
        nbytes, length = 4, _INT32.unpack_from(data)[0]
    elif len(data) < 8:
        raise TruncatedError(
            expected="a metadata length after the continuation marker",
            found=f"{len(data) - 4} bytes",
            byte_offset=byte_offset + 4,
            spec=_SPEC,
        )
    else:
        nbytes, length = 8, _INT32.unpack_from(data, 4)[0]
    if length < 0 or (length and (nbytes + length) % BODY_ALIGNMENT):
        raise InvalidFramingError(
            expected="a metadata length of at least 0 that ends at a multiple of 8 bytes",
            found=f"{length:,} after a prefix of {nbytes} bytes",
            byte_offset=byte_offset + nbytes - 4,
            spec=_SPEC,
        )
    return Prefix(nbytes, length)


def read_stream_message(source: ByteSource, byte_offset: int, limits: Limits) -> tuple[memoryview, int] | None:
    """Return the flatbuffer of a stream's message, and the byte offset of its body; None at the end of the stream."""
    message = read_message_or_end(source, byte_offset, limits)
    return None if isinstance(message, int) else message


def read_message_or_end(source: ByteSource, byte_offset: int, limits: Limits) -> tuple[memoryview, int] | int:
    """Return the flatbuffer of a stream's message, and the byte offset of its body; only the end offset at the end."""
    # In a pipe the rest of the prefix is a second read: a legacy end marker may be its last 4 bytes.
    head = source.read_up_to(byte_offset, 4 if source.nbytes is None else 8)
    if not head:
        return byte_offset
    if len(head) == 4 and _UINT32.unpack_from(head)[0] == CONTINUATION:
        head = memoryview(bytes(head) + bytes(source.read_up_to(byte_offset + 4, 4)))
    prefix = decode_prefix(head, byte_offset)
    if prefix.flatbuffer_nbytes == 0:
        return byte_offset + prefix.nbytes
    limits.check("max_metadata_bytes", prefix.flatbuffer_nbytes, "a message's metadata")
    start = byte_offset + prefix.nbytes
    return source.read_at(start, prefix.flatbuffer_nbytes), start + prefix.flatbuffer_nbytes


def read_footer(source: ByteSource, limits: Limits) -> tuple[memoryview, int]:
    """Return the flatbuffer of a file's footer, and its byte offset."""
    nbytes = source.nbytes
    assert nbytes is not None, "the file format needs a source that can seek"
    least = len(MAGIC) + 2 + FOOTER_TAIL_NBYTES
    if nbytes < least:
        raise InvalidFramingError(
            expected=f"an Arrow IPC file of at least {least} bytes",
            found=f"{nbytes}: the file is truncated; copy or write it again",
            byte_offset=0,
            spec=_FILE_SPEC,
        )
    tail_offset = nbytes - FOOTER_TAIL_NBYTES
    tail = source.read_at(tail_offset, FOOTER_TAIL_NBYTES)
    if bytes(tail[4:]) != MAGIC:
        raise InvalidFramingError(
            expected=f"the magic {MAGIC.decode()} at the end of the file",
            found=f"{bytes(tail[4:])!r}: the file is truncated, or its writer did not finish; copy or write it again, or read "
            "its complete record batches with recover=true or 'arrowipc repair'",
            byte_offset=nbytes - len(MAGIC),
            spec=_FILE_SPEC,
        )
    footer_nbytes = _INT32.unpack_from(tail)[0]
    most = tail_offset - len(MAGIC) - 2
    if not 0 < footer_nbytes <= most:
        raise InvalidFramingError(
            expected=f"a footer length of 1 to {most:,}",
            found=f"{footer_nbytes:,}",
            byte_offset=tail_offset,
            spec=_FILE_SPEC,
        )
    limits.check("max_metadata_bytes", footer_nbytes, "the footer")
    footer_offset = tail_offset - footer_nbytes
    return source.read_at(footer_offset, footer_nbytes), footer_offset


SNIFF_NBYTES: Final = 16
"""The number of first bytes that `sniff` needs."""

HEAD_NBYTES: Final = 80
"""Bytes that `read_head` reads: up to the prefix of the first message, before which arrow-rs has zeros."""

_LEGACY_LEAST: Final = 16  # the least bytes of a schema message's flatbuffer

_CONVERT: Final = ", or make an Arrow file of it with 'arrowipc convert'"

# First bytes of formats that are mistaken for Arrow, and advice for each
_SIGNATURES: Final = (
    (b"PAR1", f"Parquet; use spark.read.parquet{_CONVERT}"),
    (b"FEA1", "Feather version 1, which is not Arrow IPC; rewrite it with an Arrow release that still reads it"),
    (b"ORC", "ORC; use spark.read.orc"),
    (b"Obj\x01", "Avro; use spark.read.format('avro')"),
    (b"\x1f\x8b", "gzip; decompress it first: Arrow compresses buffers, not files"),
    (b"\x28\xb5\x2f\xfd", "a zstd-compressed file; decompress it first: Arrow compresses buffers, not files"),
    (b"\x04\x22\x4d\x18", "an lz4-compressed file; decompress it first: Arrow compresses buffers, not files"),
    (b"BZh", "bzip2; decompress it first"),
    (b"PK\x03\x04", "a zip archive; unpack it first"),
    (b"\x89HDF", "HDF5"),
    (b"SQLite format 3", "an SQLite database"),
)


def sniff(first: bytes | memoryview, nbytes: int | None = None) -> Format:
    """Return the format of a file by its first `SNIFF_NBYTES` bytes."""
    head = bytes(first[:SNIFF_NBYTES])
    if head.startswith(MAGIC):
        return Format.FILE
    if head.startswith(b"\xff\xff\xff\xff"):
        return Format.STREAM
    expected = "an Arrow IPC file (ARROW1) or stream"
    if not head:
        raise InvalidFramingError(expected=expected, found="an empty file; write it again, or remove it", byte_offset=0)
    for signature, guess in _SIGNATURES:
        if head.startswith(signature):
            raise NotArrowError(expected=expected, found=f"what looks like {guess}", byte_offset=0)
    # Before Arrow 0.15 a stream began with the length of its schema message.
    legacy = int.from_bytes(head[:4], "little", signed=True)
    if len(head) >= 8 and legacy >= _LEGACY_LEAST and (nbytes is None or legacy <= nbytes - 4) and not _is_text(head):
        return Format.STREAM
    if head.startswith(b"\0\0\0\0"):
        finding = "an end-of-stream marker without a schema before it"
    elif MAGIC.startswith(head):
        finding = f"only {len(head)} bytes: the file is truncated; copy or write it again"
    elif _is_text(head):
        text = f"what looks like text: {head!r}; for CSV use spark.read.csv, for JSON spark.read.json{_CONVERT}"
        raise NotArrowError(expected=expected, found=text, byte_offset=0)
    else:
        raise NotArrowError(expected=expected, found=f"the bytes {head.hex(' ')}", byte_offset=0)
    raise InvalidFramingError(expected=expected, found=finding, byte_offset=0)


def _is_text(head: bytes) -> bool:
    return all(32 <= byte < 127 or byte in b"\t\r\n" for byte in head.removeprefix(b"\xef\xbb\xbf"))


def read_head(source: ByteSource) -> memoryview:
    """Return the first bytes of a source, at most `HEAD_NBYTES`; a `ForwardSource` returns them again."""
    if isinstance(source, ForwardSource):
        # A pipe may have no more bytes until its writer goes on.
        return source.peek(SNIFF_NBYTES)
    return source.read_up_to(0, HEAD_NBYTES)
