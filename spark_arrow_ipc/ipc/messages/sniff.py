"""Tell the file format from the stream format by the first bytes, never by the name."""

from __future__ import annotations

from typing import Final

from spark_arrow_ipc.errors import InvalidFramingError, NotArrowError
from spark_arrow_ipc.ipc.bytes.source import ForwardSource
from spark_arrow_ipc.ipc.constants import MAGIC, Format
from spark_arrow_ipc.storage.byte_source import ByteSource

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
