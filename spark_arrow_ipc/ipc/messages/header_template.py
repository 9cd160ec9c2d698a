"""Read many headers of record batches at once, if they differ only in their numbers.

Strategy
--------
A writer gives the headers of all batches of a file one shape: the same flatbuffer with other numbers in it. A
`MessageShape` is learnt from one message that is decoded with all checks. It has the places of the row count, the
body's length, the field nodes and the buffers. A message of the same length with equal bytes at all other places
decodes in the same way, so its numbers are read directly.

This is sound because the bytes of the numbers are proven to be disjoint from all other bytes that decoding reads:
tables, vtables, lengths and references. Messages without such a shape are decoded one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.errors import ArrowIpcError
from spark_arrow_ipc.ipc.constants import Int64s, Limits
from spark_arrow_ipc.ipc.flatbuf import reader, tables
from spark_arrow_ipc.ipc.flatbuf.tables import MessageHeader
from spark_arrow_ipc.ipc.messages.message import Message, RecordBatchHeader, decode_message, decode_prefix

_Bytes: TypeAlias = npt.NDArray[np.uint8]

_STRUCT_WIDTH = 2
"""Numbers in a field node, and in a buffer."""


@dataclass(frozen=True, slots=True, eq=False)
class Headers:
    """The numbers of several messages, one row a message.

    Parameters
    ----------
    lengths, body_nbytes
        int64, shape (messages,).
    nodes
        int64, shape (messages, nodes, 2): length and null count.
    buffers
        int64, shape (messages, buffers, 2): byte offset inside the body and nbytes.
    """

    lengths: Int64s
    body_nbytes: Int64s
    nodes: Int64s
    buffers: Int64s

    def __getitem__(self, rows: slice) -> Headers:
        return Headers(self.lengths[rows], self.body_nbytes[rows], self.nodes[rows], self.buffers[rows])


@dataclass(frozen=True, slots=True, eq=False)
class MessageShape:
    """The bytes that the metadata of similar messages share, and the places of their numbers.

    Parameters
    ----------
    message
        The message that the shape was learnt from.
    prefix, metadata
        Its bytes up to the flatbuffer, and all of them: prefix, flatbuffer, padding.
    fixed
        True for each byte of `metadata` that other messages must share.
    body_nbytes, length, nodes, buffers
        The bytes of the numbers in `metadata`.
    """

    message: Message
    prefix: bytes
    metadata: _Bytes
    fixed: npt.NDArray[np.bool_]
    body_nbytes: range
    length: range
    nodes: range
    buffers: range

    def fits(self, metadata: memoryview) -> bool:
        """Return whether a message has this shape."""
        other = np.frombuffer(metadata, np.uint8)
        return len(other) == len(self.metadata) and bool(((other == self.metadata) | ~self.fixed).all())

    def rows(self, metadata: memoryview) -> int:
        """Return the row count of a message of this shape."""
        return int.from_bytes(metadata[self.length.start : self.length.stop], "little", signed=True)

    def read(self, data: _Bytes, starts: Int64s) -> Headers:
        """Return the numbers of the messages at `starts`, up to the first of another shape."""
        metadata = data[starts[:, None] + np.arange(len(self.metadata))]
        same = ((metadata == self.metadata) | ~self.fixed).all(axis=1)
        if not same.all():
            metadata = metadata[: int(same.argmin())]
        return Headers(
            _numbers(metadata, self.length)[:, 0],
            _numbers(metadata, self.body_nbytes)[:, 0],
            _numbers(metadata, self.nodes).reshape(len(metadata), -1, _STRUCT_WIDTH),
            _numbers(metadata, self.buffers).reshape(len(metadata), -1, _STRUCT_WIDTH),
        )


def _numbers(metadata: _Bytes, extent: range) -> Int64s:
    return np.ascontiguousarray(metadata[:, extent.start : extent.stop]).view("<i8")


def learn(metadata: memoryview, limits: Limits) -> MessageShape | None:
    """Learn the shape of a message; None if messages like it are decoded one by one.

    `metadata` is the prefix, flatbuffer and padding of one message.
    """
    try:
        prefix = decode_prefix(metadata[:8], 0)
        flatbuffer = metadata[prefix.nbytes :]
        if len(flatbuffer) != prefix.flatbuffer_nbytes:
            return None
        message = decode_message(flatbuffer, limits)
        view = reader.root(flatbuffer, tables.MESSAGE)
        kind, header = view.union("header")
    except ArrowIpcError:
        return None
    if (
        kind != MessageHeader.RecordBatch
        or header is None
        or message.custom_metadata
        or header.has("variadicBufferCounts")
    ):
        return None
    numbers = (
        view.scalar_extent("bodyLength"),
        header.scalar_extent("length"),
        header.structs_extent("nodes"),
        header.structs_extent("buffers"),
    )
    if not all(numbers):
        return None
    views = [view, header, *filter(None, [header.table("compression")])]
    fixed = _fixed(len(flatbuffer), numbers, views)
    if fixed is None:
        return None
    assert isinstance(message.header, RecordBatchHeader)
    moved = [range(extent.start + prefix.nbytes, extent.stop + prefix.nbytes) for extent in numbers]
    return MessageShape(
        message,
        bytes(metadata[: prefix.nbytes]),
        np.frombuffer(metadata, np.uint8),
        np.concatenate([np.ones(prefix.nbytes, np.bool_), fixed]),
        *moved,
    )


def _fixed(nbytes: int, numbers: tuple[range, ...], views: list[Any]) -> npt.NDArray[np.bool_] | None:
    """Return a mask of the bytes outside the numbers; None if a number overlaps other data."""
    uses = np.zeros(nbytes, np.uint8)
    uses[:4] += 1
    for view in views:
        for extent in view.extents():
            uses[extent.start : extent.stop] += 1
    body_nbytes, length, *vectors = numbers
    for vector in vectors:
        uses[vector.start - 4 : vector.start] += 1
        uses[vector.start : vector.stop] += 1
    taken = [uses[extent.start : extent.stop].max() for extent in (body_nbytes, length, *vectors)]
    if max(taken) > 1:
        return None
    fixed = np.ones(nbytes, np.bool_)
    for extent in numbers:
        fixed[extent.start : extent.stop] = False
    return fixed
