"""The start of a file, and the bytes between its blocks: its schema message, and a check that no batch is hidden there.

Only the footer says where the batches of a file are. If a fault hides one of its blocks, or the whole list, the file
would be read as one of fewer rows, and nothing else would show it. So the bytes between the file's magic and its footer
have to be those of a schema message, of blocks, and padding.

The footer does not say where the schema message is. Writers put it after the magic; arrow-rs has zeros before it, polars
leaves out its prefix, so that it ends where the first message of a batch begins, and arrow-js leaves out the message.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np

from spark_arrow_ipc.errors import ArrowIpcError, InvalidArrowError, InvalidFramingError
from spark_arrow_ipc.ipc.constants import (
    BODY_ALIGNMENT,
    CONTINUATION,
    EOS,
    FILE_HEADER,
    MAGIC,
    READABLE_VERSIONS,
    Format,
)
from spark_arrow_ipc.ipc.flatbuf import reader, tables
from spark_arrow_ipc.ipc.flatbuf.tables import MessageHeader
from spark_arrow_ipc.ipc.limits import Limits
from spark_arrow_ipc.ipc.messages.footer import LEAST_MESSAGE_NBYTES, Footer
from spark_arrow_ipc.ipc.messages.framing import read_head, read_stream_message, sniff
from spark_arrow_ipc.ipc.messages.message import Message, decode_message, expect, inside
from spark_arrow_ipc.ipc.messages.schema import SchemaHeader
from spark_arrow_ipc.storage.byte_source import ByteSource

LEAST_FLATBUFFER_NBYTES: Final = 16
"""Shorter bytes are not a message."""
_MOST_ZEROS_BEFORE: Final = 64
"""arrow-rs begins its first message at a multiple of this, after zeros."""
_MOST_UNPREFIXED_NBYTES: Final = 16 << 20
"""So far the end of a schema without a prefix is looked for."""
_MOST_CANDIDATES: Final = 1_000
"""So many places that look like a message's prefix are tried."""
_PREFIX_NBYTES: Final = 8
_BATCHES: Final = frozenset((MessageHeader.RecordBatch, MessageHeader.DictionaryBatch))


def read_first_message(source: ByteSource, limits: Limits) -> tuple[Message, int] | None:
    """Return the schema message of a file, and the byte offset after it; None where the messages end before one."""
    try:
        return _with_prefix(source, limits)
    except InvalidArrowError:
        message = _without_prefix(source, limits)
        if message is None:
            raise
        return message


def _with_prefix(source: ByteSource, limits: Limits) -> tuple[Message, int] | None:
    head = bytes(source.read_up_to(len(FILE_HEADER), _MOST_ZEROS_BEFORE))
    zeros = len(head) - len(head.lstrip(b"\0"))
    byte_offset = len(FILE_HEADER) + zeros // BODY_ALIGNMENT * BODY_ALIGNMENT
    encapsulated = read_stream_message(source, byte_offset, limits)
    if encapsulated is None:
        return None
    flatbuffer, body_offset = encapsulated
    with inside(body_offset - len(flatbuffer)):
        message = decode_message(flatbuffer, limits)
        expect(message, MessageHeader.Schema, SchemaHeader)
    return message, body_offset


def _without_prefix(source: ByteSource, limits: Limits) -> tuple[Message, int] | None:
    start = len(FILE_HEADER)
    data = source.read_up_to(start, min(limits.max_metadata_bytes, _MOST_UNPREFIXED_NBYTES))
    stop = first_batch(data)
    if stop is None or message_kind(data[:stop]) is not MessageHeader.Schema:
        return None
    return decode_message(data[:stop], limits), start + stop


def message_kind(flatbuffer: memoryview) -> MessageHeader | None:
    """Return the kind of the message in a flatbuffer, or None if it is none. O(1)."""
    try:
        view = reader.root(flatbuffer, tables.MESSAGE)
        kind, header = view.union("header")
    except ArrowIpcError:
        return None
    is_message = header is not None and view.scalar("version") in READABLE_VERSIONS
    return MessageHeader(kind) if is_message else None


def first_batch(data: memoryview) -> int | None:
    """Return the position of the first message of a batch in bytes that begin at a multiple of 8, or None.

    Where very many places look like one, the one at which the search ends counts as found.
    """
    words = np.frombuffer(data, "<u4", len(data) // BODY_ALIGNMENT * 2).reshape(-1, 2)
    left = len(data) - BODY_ALIGNMENT * np.arange(1, len(words) + 1)
    may_be = (words[:, 0] == CONTINUATION) & (words[:, 1] >= LEAST_FLATBUFFER_NBYTES) & (words[:, 1] <= left)
    candidates = np.flatnonzero(may_be)[: _MOST_CANDIDATES + 1]
    for number, word in enumerate(candidates.tolist()):
        start: int = BODY_ALIGNMENT * word
        flatbuffer = data[start + _PREFIX_NBYTES :][: int(words[word, 1])]
        if number == _MOST_CANDIDATES or message_kind(flatbuffer) in _BATCHES:
            return start
    return None


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
    # Most often one range is uncovered, which the prefix of the schema message explains, among the first bytes of the file,
    # which are read in any case. Only other ranges are looked at.
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
