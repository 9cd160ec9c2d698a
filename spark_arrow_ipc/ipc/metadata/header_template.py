"""Headers of record batches that differ in nothing but numbers, read many at once.

Strategy
--------
One writer gives all batches of a file headers of one shape: the same flatbuffer with other numbers in it. A
`MessageShape` is learnt from one message that was read with all checks, and knows which of its bytes are the rows,
the body's length, the field nodes and the buffers' places. Another message of the same length that equals it in all
other bytes would be read in the same way, so its numbers can be taken from where they lie.

That holds because the bytes of numbers are proven to be no part of what else is read: tables, vtables, lengths and
references. Whatever does not fit gives None, and is read one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.errors import ArrowIpcError
from spark_arrow_ipc.ipc.constants import MessageHeader
from spark_arrow_ipc.ipc.flatbuf import reader, tables
from spark_arrow_ipc.ipc.framing import decode_prefix
from spark_arrow_ipc.ipc.limits import Limits
from spark_arrow_ipc.ipc.metadata.message import Message, decode_message
from spark_arrow_ipc.ipc.metadata.record_batch import RecordBatchHeader

__all__ = ["Headers", "MessageShape", "learn"]

Int64s: TypeAlias = npt.NDArray[np.int64]
_Bytes: TypeAlias = npt.NDArray[np.uint8]

_STRUCT_WIDTH = 2
"""Numbers of a field node, and of a buffer."""


@dataclass(frozen=True, slots=True, eq=False)
class Headers:
    """The numbers of some messages, one row a message.

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
    """What messages have in common.

    Parameters
    ----------
    message
        The one that it was learnt from.
    prefix, metadata
        Its first bytes, up to the flatbuffer, and all: prefix, flatbuffer, padding.
    fixed
        Which of them must be equal.
    body_nbytes, length, nodes, buffers
        Where the numbers lie in them.
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
        """Return whether a message is of this shape."""
        other = np.frombuffer(metadata, np.uint8)
        return len(other) == len(self.metadata) and bool(((other == self.metadata) | ~self.fixed).all())

    def rows(self, metadata: memoryview) -> int:
        """Return the rows of a message of this shape."""
        return int.from_bytes(metadata[self.length.start : self.length.stop], "little", signed=True)

    def read(self, data: _Bytes, starts: Int64s) -> Headers:
        """Return the numbers of the messages of this shape: those at `starts`, up to the first of another one.

        Parameters
        ----------
        data
            Memory that holds the metadata of all of them.
        starts
            Where they begin in it.
        """
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
    """Return the shape of a message, or None where messages like it have to be read one by one.

    Parameters
    ----------
    metadata
        Prefix, flatbuffer and padding of one message.
    limits
        Budgets of metadata.
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
    """Return which bytes of a flatbuffer are no numbers, or None where a number is also something else."""
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
