"""The shape of record batches' messages: the bytes that they share, so that only the numbers of most messages are read.

How it works
------------
A writer gives the headers of all batches of a file one shape: the same flatbuffer with other numbers. A `MessageShape` is
learnt from one message that is decoded with all checks. It has the extents of the row count, the body's length, the field
nodes and the buffers. A message of the same length with equal bytes outside of these extents decodes in the same way, so
its numbers are read directly. This is sound because the bytes of the numbers are proven to be disjoint from all other
bytes that decoding reads: tables, vtables, lengths and references. Messages without such a shape are decoded one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.errors import ArrowIpcError
from spark_arrow_ipc.ipc.constants import Int64s, Limits
from spark_arrow_ipc.ipc.flatbuf import reader, tables
from spark_arrow_ipc.ipc.flatbuf.tables import MessageHeader
from spark_arrow_ipc.ipc.messages.message import Message, RecordBatchHeader, decode_message, decode_prefix

_Bytes: TypeAlias = npt.NDArray[np.uint8]

_INT64: Final = Struct("<q")
_LONG: Final = np.dtype("<i8")

_MOST_LEARNT: Final = 8  # after so many messages without the learnt shape, a `MessageDecoder` learns no more


@dataclass(frozen=True, slots=True, eq=False)
class Headers:
    """The numbers of several messages, one row a message."""

    # int64, shape (messages,).
    lengths: Int64s
    body_nbytes: Int64s
    nodes: Int64s  # int64, shape (messages, nodes, 2): length and null count
    buffers: Int64s  # int64, shape (messages, buffers, 2): byte offset inside the body and nbytes

    def __getitem__(self, rows: slice) -> Headers:
        return Headers(self.lengths[rows], self.body_nbytes[rows], self.nodes[rows], self.buffers[rows])


@dataclass(frozen=True, slots=True, eq=False)
class MessageShape:
    """The bytes that the metadata of similar messages share, and the extents of their numbers."""

    message: Message  # that the shape was learnt from
    # Its bytes up to the flatbuffer, and the length of all bytes: prefix, flatbuffer, padding.
    prefix: bytes
    nbytes: int
    shared: tuple[tuple[slice, bytes], ...]  # the bytes that other messages must share, with their extents
    # The extents of the numbers.
    body_nbytes: range
    length: range
    nodes: range
    buffers: range

    def fits(self, metadata: bytes | memoryview) -> bool:
        """Return whether a message has this shape."""
        if len(metadata) != self.nbytes:
            return False
        for extent, shared in self.shared:  # noqa: SIM110 - a generator takes twice as long
            if metadata[extent] != shared:
                return False
        return True

    def rows(self, metadata: bytes | memoryview) -> int:
        """Return the row count of a message of this shape."""
        rows: int = _INT64.unpack_from(metadata, self.length.start)[0]
        return rows

    def decode(self, metadata: bytes) -> Message | None:
        """Return the message of this shape in metadata; None for negative counts."""
        like = self.message
        assert isinstance(like.header, RecordBatchHeader)
        length, (body_nbytes,) = self.rows(metadata), _INT64.unpack_from(metadata, self.body_nbytes.start)
        if length < 0 or body_nbytes < 0:
            return None
        nodes = np.ndarray((len(self.nodes) >> 4, 2), _LONG, metadata, self.nodes.start)
        buffers = np.ndarray((len(self.buffers) >> 4, 2), _LONG, metadata, self.buffers.start)
        header = RecordBatchHeader(length, nodes, buffers, like.header.compression, like.header.variadic_counts)
        return Message(like.version, like.kind, header, body_nbytes, ())

    def read(self, data: _Bytes, starts: Int64s) -> Headers:
        """Return the numbers of the messages at `starts`, up to the first of another shape."""
        metadata = data[starts[:, None] + np.arange(self.nbytes)]
        same = np.ones(len(starts), np.bool_)
        for extent, shared in self.shared:
            same &= (metadata[:, extent] == np.frombuffer(shared, np.uint8)).all(axis=1)
        if not same.all():
            metadata = metadata[: int(same.argmin())]
        return Headers(
            _numbers(metadata, self.length)[:, 0],
            _numbers(metadata, self.body_nbytes)[:, 0],
            _numbers(metadata, self.nodes).reshape(len(metadata), -1, 2),
            _numbers(metadata, self.buffers).reshape(len(metadata), -1, 2),
        )


def _numbers(metadata: _Bytes, extent: range) -> Int64s:
    return np.ascontiguousarray(metadata[:, extent.start : extent.stop]).view("<i8")


def learn(metadata: memoryview, limits: Limits) -> MessageShape | None:
    """Learn the shape of a message from its prefix, flatbuffer and padding; None for a message without a shape."""
    try:
        prefix = decode_prefix(metadata[:8], 0)
        if prefix.nbytes + prefix.flatbuffer_nbytes != len(metadata):
            return None
        message = decode_message(metadata[prefix.nbytes :], limits)
    except ArrowIpcError:
        return None
    return _shape_of(message, bytes(metadata), prefix.nbytes)


def _shape_of(message: Message, metadata: bytes, start: int) -> MessageShape | None:
    """Return the shape of a message whose flatbuffer begins at `start` of its metadata, or None."""
    view = reader.root(memoryview(metadata)[start:], tables.MESSAGE)
    _, header = view.union("header")
    assert header is not None
    if message.kind is not MessageHeader.RecordBatch or message.custom_metadata or header.has("variadicBufferCounts"):
        return None
    numbers = (
        view.scalar_extent("bodyLength"),
        header.scalar_extent("length"),
        header.structs_extent("nodes"),
        header.structs_extent("buffers"),
    )
    views = [view, header, *filter(None, [header.table("compression")])]
    # An absent number, which is a default, has no extent.
    if not all(numbers) or _overlap(len(metadata) - start, numbers, views):
        return None
    places = [range(start + extent.start, start + extent.stop) for extent in numbers]
    edges = [0, *(edge for extent in sorted(places, key=min) for edge in (extent.start, extent.stop)), len(metadata)]
    shared = [(slice(*edges[i : i + 2]), metadata[slice(*edges[i : i + 2])]) for i in range(0, len(edges), 2)]
    return MessageShape(message, metadata[:start], len(metadata), tuple(shared), *places)


def _overlap(nbytes: int, numbers: tuple[range, ...], views: list[reader.TableView]) -> bool:
    """Return True if a number shares bytes with another one, or with the bytes that decoding reads before it."""
    uses = np.zeros(nbytes, np.uint8)
    uses[:4] += 1  # the offset of the root
    for view in views:
        for extent in view.extents():
            uses[extent.start : extent.stop] += 1
    for vector in numbers[2:]:
        uses[vector.start - 4 : vector.start] += 1  # its length
        uses[vector.start : vector.stop] += 1
    return any(uses[extent.start : extent.stop].max() > 1 for extent in numbers)


class Shapes:
    """The shape of the last message, which most often fits the next one. Several threads may use it."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._last: MessageShape | None = None

    def of(self, metadata: memoryview) -> MessageShape | None:
        """Return the shape of a message, or None for a message without one."""
        last = self._last
        if last is None or not last.fits(metadata):
            last = self._last = learn(metadata, self._limits)
        return last


class MessageDecoder:
    """Decodes messages one after another, record batches by the shape of earlier ones. Threads may share it."""

    # For the bytes of the last call it returns the same message object, by which callers recognise a layout.

    __slots__ = ("_last", "_learnt", "_shape")

    def __init__(self) -> None:
        self._last: tuple[bytes, Message | None] = (b"", None)
        self._learnt = 0
        self._shape: MessageShape | None = None

    def find_alike(self, metadata: memoryview) -> Message | None:
        """Return the message in metadata that is like earlier ones; None if it has to be decoded."""
        # A copy: the metadata may be in a mapped file, or in memory that holds a complete body.
        data = bytes(metadata)
        last, message = self._last
        if data == last:
            return message
        shape = self._shape
        message = shape.decode(data) if shape is not None and shape.fits(data) else None
        if message is not None:
            self._last = data, message
        return message

    def decode(self, metadata: memoryview, start: int, limits: Limits) -> Message:
        """Decode the message whose flatbuffer begins at `start` of its metadata, and learn its shape."""
        data = bytes(metadata)
        message = decode_message(memoryview(data)[start:], limits)
        if message.kind is MessageHeader.RecordBatch:
            is_first = self._last[1] is None  # and may be the only one, for which a shape is work in vain
            if not is_first and self._learnt < _MOST_LEARNT:
                self._learnt += 1
                self._shape = _shape_of(message, data, start)
            self._last = data, message
        return message
