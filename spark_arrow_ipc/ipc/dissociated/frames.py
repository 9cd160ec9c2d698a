"""Frames: the messages of the Dissociated IPC protocol on a socket, which has no messages of its own.

The document leaves the framing of a plain socket open; this one is ours. A frame is a head of 20 bytes (kind, three zero
bytes, tag and length, little-endian) and as many bytes as the length says. All lengths are checked before anything is
allocated for them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from spark_arrow_ipc.errors import InvalidFramingError, UnsupportedError

_HEAD: Final = struct.Struct("<B3xQQ")
_RESERVED: Final = slice(1, 4)
HEAD_NBYTES: Final = _HEAD.size

MAX_REASON_NBYTES: Final = 4096
"""The longest text of an error frame."""

PROGRESS_NBYTES: Final = 64 << 10
"""A peer that sends or takes less than this of what is due in a time-out has timed out."""

_SPEC: Final = 'docs/dissociated.md, "Frames"'


class FrameKind(IntEnum):
    """What a frame carries."""

    UNTAGGED = 0
    """Metadata, or the end of the stream."""
    TAGGED = 1
    """A request, a body, or offsets that may be freed."""
    ERROR = 2
    """Why the server closes the connection, in UTF-8."""
    MEMORY = 3
    """No bytes, but the descriptor of the shared memory beside them (unix sockets)."""
    TOKEN = 4
    """A client's token, before its request."""


@dataclass(frozen=True, slots=True)
class FrameHead:
    """Kind, tag and length of a frame; the tag is 0 where the kind has none."""

    kind: FrameKind
    tag: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame with its bytes."""

    kind: FrameKind
    tag: int
    data: memoryview


def encode_head(kind: FrameKind, nbytes: int, tag: int = 0) -> bytes:
    """Return the head of a frame."""
    return _HEAD.pack(kind, tag, nbytes)


def decode_head(data: bytes | bytearray | memoryview) -> FrameHead:
    """Return the head in the first `HEAD_NBYTES` bytes. Its length is as found: the caller knows what it allows.

    Raises
    ------
    InvalidFramingError
        A reserved byte is set, or a frame without a tag has one.
    UnsupportedError
        The kind is unknown.
    """
    number, tag, nbytes = _HEAD.unpack_from(data)
    if number not in tuple(FrameKind):
        raise UnsupportedError(
            f"frames of kind {number}: this release knows {', '.join(str(int(k)) for k in FrameKind)}; "
            "is the peer a server of Dissociated IPC?"
        )
    kind = FrameKind(number)
    if any(data[_RESERVED]) or (tag and kind is not FrameKind.TAGGED):
        raise InvalidFramingError(
            expected="zeros where a frame's head has no meaning", found=bytes(data[:HEAD_NBYTES]).hex(), spec=_SPEC
        )
    return FrameHead(kind, tag, nbytes)


class Inbox:
    """Collects the bytes that arrive until frames are whole: for a server, whose clients send little.

    Parameters
    ----------
    max_nbytes
        The longest frame.
    """

    def __init__(self, max_nbytes: int) -> None:
        self._max_nbytes = max_nbytes
        self._data = bytearray()

    def feed(self, data: bytes | memoryview) -> Iterator[Frame]:
        """Yield the frames that are whole with these bytes.

        Raises
        ------
        InvalidFramingError, UnsupportedError
            As `decode_head`; or a frame is longer than `max_nbytes`.
        """
        self._data += data
        while len(self._data) >= HEAD_NBYTES:
            head = decode_head(self._data)
            if head.nbytes > self._max_nbytes:
                raise InvalidFramingError(
                    expected=f"a frame of at most {self._max_nbytes:,} bytes", found=f"{head.nbytes:,}", spec=_SPEC
                )
            end = HEAD_NBYTES + head.nbytes
            if len(self._data) < end:
                return
            content = bytes(self._data[HEAD_NBYTES:end])
            del self._data[:end]
            yield Frame(head.kind, head.tag, memoryview(content))
