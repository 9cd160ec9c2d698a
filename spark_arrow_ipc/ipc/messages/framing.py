"""Encapsulated messages: prefix, metadata, body (Columnar.rst, "Encapsulated message format"), and the format of a file.

A prefix is a continuation marker and an int32 length, or before 0.15 the length alone. A length of 0 ends a
stream. Only the bounds of the metadata are checked here; `ipc.messages` decodes it. `sniff` tells the file format from the
stream format by the first bytes, never by the name.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from spark_arrow_ipc.errors import InvalidFramingError, NotArrowError, TruncatedError
from spark_arrow_ipc.ipc.bytes.source import ForwardSource
from spark_arrow_ipc.ipc.constants import BODY_ALIGNMENT, CONTINUATION, FOOTER_TAIL_NBYTES, MAGIC, Format
from spark_arrow_ipc.ipc.limits import Limits
from spark_arrow_ipc.ipc.messages.footer import Block
from spark_arrow_ipc.storage.byte_source import ByteSource

_SPEC: Final = 'Columnar.rst "Encapsulated message format"'
_FILE_SPEC: Final = 'Columnar.rst "IPC File Format"'
_UINT32: Final = struct.Struct("<I")
_INT32: Final = struct.Struct("<i")


@dataclass(frozen=True, slots=True)
class Prefix:
    """The bytes before a message's flatbuffer, and its length.

    `flatbuffer_nbytes` counts padding too; 0 is the end of the stream.
    """

    nbytes: int
    flatbuffer_nbytes: int


def decode_prefix(data: memoryview, byte_offset: int) -> Prefix:
    """Return the prefix at the start of `data`, which has 8 bytes, or 4 at the end of a stream."""
    if len(data) < 4:
        raise TruncatedError(
            expected="a message prefix of 8 bytes", found=f"{len(data)} bytes", byte_offset=byte_offset, spec=_SPEC
        )
    if _UINT32.unpack_from(data)[0] != CONTINUATION:
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
    """Return the flatbuffer of a stream's message, and the byte offset of its body; None at the end of the stream.

    Raises as `read_message_or_end`.
    """
    message = read_message_or_end(source, byte_offset, limits)
    return None if isinstance(message, int) else message


def read_message_or_end(source: ByteSource, byte_offset: int, limits: Limits) -> tuple[memoryview, int] | int:
    """Return the flatbuffer of a stream's message, and the byte offset of its body.

    At the end of the stream, the byte offset after it: after its marker, or where the bytes end between two messages.
    """
    head = source.read_up_to(byte_offset, 4)
    if not head:
        return byte_offset
    # The rest of the prefix is a second read: a legacy end marker may be the last 4 bytes of a pipe.
    if len(head) == 4 and _UINT32.unpack_from(head)[0] == CONTINUATION:
        head = memoryview(bytes(head) + bytes(source.read_up_to(byte_offset + 4, 4)))
    prefix = decode_prefix(head, byte_offset)
    if prefix.flatbuffer_nbytes == 0:
        return byte_offset + prefix.nbytes
    limits.check("max_metadata_bytes", prefix.flatbuffer_nbytes, "a message's metadata")
    start = byte_offset + prefix.nbytes
    return source.read_at(start, prefix.flatbuffer_nbytes), start + prefix.flatbuffer_nbytes


def split_block(metadata: memoryview, block: Block) -> memoryview:
    """Return the flatbuffer inside the metadata of a file's block."""
    prefix = decode_prefix(metadata[:8], block.byte_offset)
    metadata_nbytes = prefix.nbytes + prefix.flatbuffer_nbytes
    if metadata_nbytes != block.metadata_nbytes or not prefix.flatbuffer_nbytes:
        raise InvalidFramingError(
            expected=f"a message whose metadata takes {block.metadata_nbytes:,} bytes, as the footer says",
            found=f"{metadata_nbytes:,}",
            byte_offset=block.byte_offset,
            spec="File.fbs, Block.metaDataLength",
        )
    return metadata[prefix.nbytes :]


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
            found=f"{bytes(tail[4:])!r}: the file is truncated, or its writer did not finish; copy or write it again",
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
"""Bytes that `read_head` reads of a file: up to the prefix of its first message, before which arrow-rs has zeros."""

_LEGACY_LEAST: Final = 16
"""The least bytes of a schema message's flatbuffer."""

_CONVERT: Final = ", or make an Arrow file of it with 'arrowipc convert'"

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
"""First bytes of formats that are mistaken for Arrow, and advice for each."""


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
    """Return the first bytes of a source, at most `HEAD_NBYTES`; a `ForwardSource` keeps them for later reads."""
    if isinstance(source, ForwardSource):
        # A pipe may have no more bytes until its writer goes on.
        return source.peek(SNIFF_NBYTES)
    return source.read_up_to(0, HEAD_NBYTES)
