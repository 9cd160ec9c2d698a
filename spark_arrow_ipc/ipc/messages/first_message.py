"""Find the schema message of a file, which its footer does not name.

Writers put it after the magic; arrow-rs has zeros before it, polars leaves out its prefix, and arrow-js the message.
Without a prefix it ends where the first message of a batch begins.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from spark_arrow_ipc.errors import ArrowIpcError, InvalidArrowError
from spark_arrow_ipc.ipc.constants import BODY_ALIGNMENT, CONTINUATION, FILE_HEADER, READABLE_VERSIONS
from spark_arrow_ipc.ipc.flatbuf import reader, tables
from spark_arrow_ipc.ipc.flatbuf.tables import MessageHeader
from spark_arrow_ipc.ipc.limits import Limits
from spark_arrow_ipc.ipc.messages.framing import read_stream_message
from spark_arrow_ipc.ipc.messages.message import Message, decode_message, expect, inside
from spark_arrow_ipc.ipc.messages.schema import SchemaHeader
from spark_arrow_ipc.storage.byte_source import ByteSource

LEAST_FLATBUFFER_NBYTES: Final = 16
"""Shorter ones are no message."""
_MOST_PADDING: Final = 64
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
        found = _without_prefix(source, limits)
        if found is None:
            raise
        return found


def _with_prefix(source: ByteSource, limits: Limits) -> tuple[Message, int] | None:
    head = bytes(source.read_up_to(len(FILE_HEADER), _MOST_PADDING))
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
