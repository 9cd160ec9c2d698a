"""Check that the blocks of a file's footer cover all its batches.

Strategy
--------
Only the footer says where the batches of a file are. If a fault hides one of its blocks, or the whole list, the file
would be read as one of fewer rows, and nothing else would show it. So the bytes between the file's magic and its footer
have to be those of a schema message, of blocks, and padding.

The footer's blocks leave ranges uncovered (`Footer.uncovered`); most often it is one, which the prefix of the schema
message explains, among the first bytes of the file, which are read in any case. Only other ranges are looked at. Writers
differ in the first one: polars writes the schema without a prefix there, arrow-js nothing, arrow-rs zeros before it.
"""

from __future__ import annotations

import struct
from typing import Final

from spark_arrow_ipc.errors import InvalidFramingError
from spark_arrow_ipc.ipc.constants import CONTINUATION, EOS, FILE_HEADER, MAGIC, Format
from spark_arrow_ipc.ipc.flatbuf.tables import MessageHeader
from spark_arrow_ipc.ipc.limits import Limits
from spark_arrow_ipc.ipc.messages.first_message import LEAST_FLATBUFFER_NBYTES, first_batch, message_kind
from spark_arrow_ipc.ipc.messages.footer import LEAST_MESSAGE_NBYTES, Footer
from spark_arrow_ipc.ipc.messages.sniff import read_head, sniff
from spark_arrow_ipc.storage.byte_source import ByteSource

_PREFIX: Final = struct.Struct("<Ii")
_LEGACY_PREFIX: Final = struct.Struct("<i")
_MOST_PADDING_NBYTES: Final = 1 << 16
"""Longer zeros are not padding."""
_MOST_RANGES: Final = 1_000
"""So many ranges of padding are looked at, one small read each; sound files have none."""


def check_start(source: ByteSource, footer: Footer, limits: Limits) -> None:
    """Refuse a file that does not begin as one, or that `check_covered` refuses. Reads its first bytes."""
    head = read_head(source)
    if sniff(head, source.nbytes) is not Format.FILE:
        raise InvalidFramingError(
            expected=f"the magic {MAGIC.decode()} at the start of a file that ends with it",
            found="the start of a stream",
            byte_offset=0,
            spec='Columnar.rst "IPC File Format"',
        )
    check_covered(source, head, footer, limits)


def check_covered(source: ByteSource, head: memoryview, footer: Footer, limits: Limits) -> None:
    """Refuse a file that has bytes of batches which no block of its footer covers.

    Costs nothing but a look at `head` for the files of most writers.
    """
    if len(footer.uncovered) > _MOST_RANGES:
        raise _not_covered(*footer.uncovered[_MOST_RANGES])
    for start, stop in footer.uncovered:
        schema_stop = start if start > len(FILE_HEADER) else _schema_stop(source, head, stop, limits)
        if schema_stop is None:
            _check_no_batch(source, start, stop, limits)
        elif stop - schema_stop >= LEAST_MESSAGE_NBYTES:
            _check_padding(source, schema_stop, stop)


def _schema_stop(source: ByteSource, head: memoryview, stop: int, limits: Limits) -> int | None:
    """Return the end of the schema message, which begins after the magic or after zeros; None without a prefix."""
    after_magic = bytes(head[len(FILE_HEADER) :])
    zeros = len(after_magic) - len(after_magic.lstrip(b"\0"))
    for start in dict.fromkeys((len(FILE_HEADER), len(FILE_HEADER) + zeros)):
        if start + _PREFIX.size > len(head):
            continue
        marker, nbytes = _PREFIX.unpack_from(head, start)
        flatbuffer = start + _PREFIX.size
        if marker != CONTINUATION:
            (nbytes,) = _LEGACY_PREFIX.unpack_from(head, start)
            flatbuffer = start + _LEGACY_PREFIX.size
        end: int = flatbuffer + nbytes
        if nbytes < LEAST_FLATBUFFER_NBYTES or end > stop:
            continue
        # Most often it ends with the range. Else it might be a batch, or the offset of a root that looks like a length.
        if end == stop or _is_schema(source, flatbuffer, nbytes, limits):
            return end
    return None


def _is_schema(source: ByteSource, byte_offset: int, nbytes: int, limits: Limits) -> bool:
    limits.check("max_metadata_bytes", nbytes, "a message's metadata")
    return message_kind(source.read_at(byte_offset, nbytes)) is MessageHeader.Schema


def _check_no_batch(source: ByteSource, start: int, stop: int, limits: Limits) -> None:
    """Refuse a message of a batch inside a range that begins with a schema without a prefix."""
    limits.check("max_metadata_bytes", stop - start, "a schema without a prefix")
    at = first_batch(source.read_at(start, stop - start))
    if at is not None:
        raise _not_covered(start + at, stop)


def _check_padding(source: ByteSource, start: int, stop: int) -> None:
    """Refuse a range that is not zeros, after an end-of-stream marker or without one."""
    if stop - start <= _MOST_PADDING_NBYTES:
        data = bytes(source.read_at(start, stop - start))
        if not data.removeprefix(EOS).strip(b"\0"):
            return
    raise _not_covered(start, stop)


def _not_covered(start: int, stop: int) -> InvalidFramingError:
    return InvalidFramingError(
        expected="blocks in the footer for all bytes between the schema and the footer",
        found=f"{stop - start:,} bytes that belong to none: the footer is damaged, and rows would be missing; "
        "`arrowipc repair` reads the batches without the footer",
        byte_offset=start,
        spec="File.fbs, Footer",
    )
