"""The bytes of the Dissociated IPC protocol, without any input or output.

Untagged messages are metadata: a type, a sequence number, a flatbuffer. Tagged messages are a request, a body, or
offsets to free, depending on the tag. Section names are from the document "Dissociated IPC Protocol".

The document leaves the framing of messages in a socket open. Here a frame is a head of 20 bytes (kind, three zero
bytes, tag and length, little-endian), followed by as many bytes as its length.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np

from spark_arrow_ipc.errors import InvalidBodyError, InvalidFramingError, UnsupportedError
from spark_arrow_ipc.ipc.constants import BODY_ALIGNMENT, Int64s

_METADATA_SPEC: Final = 'Dissociated IPC, "Metadata Stream Sequence"'
_DATA_SPEC: Final = 'Dissociated IPC, "Data Stream Sequence"'
_CLIENT_SPEC: Final = 'Dissociated IPC, "Client Sequence"'

_PREFIX: Final = struct.Struct("<BI")
PREFIX_NBYTES: Final = _PREFIX.size
"""The type and the sequence number, before each flatbuffer or as an end of stream."""

_PAIRS_HEAD: Final = struct.Struct("<QQ")
PAIRS_HEAD_NBYTES: Final = _PAIRS_HEAD.size
"""Two numbers: the bytes of all buffers and their number, before the pairs, and each pair."""

MAX_UINT32: Final = 2**32 - 1
MAX_UINT64: Final = 2**64 - 1

_TYPE_SHIFT: Final = 56
# The diagrams of the document and the reference shift the type by 55; its text, and this module, by 56
_SHIFT_55: Final = 1 << 55

_END, _METADATA = 0, 1


class BodyType(IntEnum):
    """The form of the body of a tagged message."""

    PACKED = 0
    """The bytes of a stream's body."""
    BUFFERS = 1
    """The offset and length of each buffer in shared memory."""


@dataclass(frozen=True, slots=True)
class Metadata:
    """An untagged message with the flatbuffer of an IPC message."""

    sequence: int
    flatbuffer: memoryview


@dataclass(frozen=True, slots=True)
class EndOfStream:
    """An untagged message that ends a stream, with the number after the last message."""

    sequence: int


@dataclass(frozen=True, slots=True)
class BodyTag:
    """The tag of a body: the number of its metadata message, and its type."""

    sequence: int
    body_type: BodyType


def encode_metadata_prefix(sequence: int) -> bytes:
    """Return the bytes before the flatbuffer of a metadata message."""
    return _PREFIX.pack(_METADATA, sequence & MAX_UINT32)


def encode_end(sequence: int) -> bytes:
    """Return the message that ends a stream."""
    return _PREFIX.pack(_END, sequence & MAX_UINT32)


def decode_untagged(data: memoryview) -> Metadata | EndOfStream:
    """Return an untagged message."""
    if len(data) < PREFIX_NBYTES:
        raise InvalidFramingError(
            expected=f"a message of at least {PREFIX_NBYTES} bytes", found=f"{len(data)}", spec=_METADATA_SPEC
        )
    kind, sequence = _PREFIX.unpack_from(data)
    if kind == _METADATA:
        if len(data) == PREFIX_NBYTES:
            raise InvalidFramingError(
                expected=f"a flatbuffer in message {sequence}", found="no byte", spec=_METADATA_SPEC
            )
        return Metadata(sequence, data[PREFIX_NBYTES:])
    if kind == _END:
        if len(data) != PREFIX_NBYTES:
            raise InvalidFramingError(
                expected=f"an end of stream of {PREFIX_NBYTES} bytes", found=f"{len(data):,}", spec=_METADATA_SPEC
            )
        return EndOfStream(sequence)
    raise UnsupportedError(f"untagged messages of type {kind}: this release knows 0 (end of stream) and 1 (metadata)")


def encode_body_tag(sequence: int, body_type: BodyType) -> int:
    """Return the tag of a body."""
    return body_type << _TYPE_SHIFT | sequence & MAX_UINT32


def decode_body_tag(tag: int, *, lenient: bool = False) -> BodyTag:
    """Decode the tag of a body; `lenient` allows a type that is shifted by 55 bits."""
    sequence, reserved, number = tag & MAX_UINT32, tag & ~(0xFF << _TYPE_SHIFT | MAX_UINT32), tag >> _TYPE_SHIFT
    if reserved == _SHIFT_55 and number == 0 and lenient:
        reserved, number = 0, 1
    if reserved:
        hint = "; this peer shifts the type by 55 bits: connect(lenient=True) reads it" if reserved == _SHIFT_55 else ""
        raise InvalidFramingError(
            expected="bits 32 to 55 of a body's tag to be 0", found=f"tag 0x{tag:016x}{hint}", spec=_DATA_SPEC
        )
    if number not in tuple(BodyType):
        raise UnsupportedError(f"bodies of type {number}: this release knows 0 (packed) and 1 (buffers)")
    return BodyTag(sequence, BodyType(number))


def encode_pairs(pairs: Int64s) -> bytes:
    """Return a body of type 1, from offset and bytes of each buffer: int64, shape (buffers, 2)."""
    return _PAIRS_HEAD.pack(int(pairs[:, 1].sum()), len(pairs)) + pairs.astype("<u8").tobytes()


def decode_pairs(data: memoryview, expected: Sequence[int], region_nbytes: int) -> Int64s:
    """Return offset and bytes of each buffer of a body of type 1: int64, shape (buffers, 2); (0, 0) for an empty one.

    `expected` has the bytes of each buffer by the metadata; a pair may have more, for padding.
    """
    if len(data) < PAIRS_HEAD_NBYTES:
        raise InvalidBodyError(
            expected=f"a list of buffers of at least {PAIRS_HEAD_NBYTES} bytes", found=f"{len(data)}", spec=_DATA_SPEC
        )
    total, count = _PAIRS_HEAD.unpack_from(data)
    nbytes = PAIRS_HEAD_NBYTES * (1 + len(expected))
    # The number of buffers comes from the peer, and is compared before its first use.
    if count != len(expected) or len(data) != nbytes:
        raise InvalidBodyError(
            expected=f"a list of {len(expected)} buffers, as the metadata has them, in {nbytes:,} bytes",
            found=f"{count:,} buffers in {len(data):,} bytes",
            spec=_DATA_SPEC,
        )
    # Python's integers: a sum of numbers of 64 bits cannot overflow.
    words = np.frombuffer(data, "<u8", offset=PAIRS_HEAD_NBYTES).tolist()
    starts, lengths = words[::2], words[1::2]
    if sum(lengths) != total:
        raise InvalidBodyError(
            expected=f"buffers of {total:,} bytes together", found=f"{sum(lengths):,}", spec=_DATA_SPEC
        )
    pairs = np.zeros((len(expected), 2), np.int64)
    for i, (start, length, least) in enumerate(zip(starts, lengths, expected, strict=True)):
        if length < least:
            raise InvalidBodyError(expected=f"buffer {i} of at least {least:,} bytes", found=f"{length:,}")
        if not length:
            continue
        if length > region_nbytes or start > region_nbytes - length or start % BODY_ALIGNMENT:
            raise InvalidBodyError(
                expected=f"buffer {i} at a multiple of 8 inside the {region_nbytes:,} bytes of shared memory",
                found=f"{length:,} bytes at {start:,}",
                spec=_DATA_SPEC,
            )
        pairs[i] = start, length
    return pairs


def encode_freed(offsets: Iterable[int]) -> bytes:
    """Return the body of a free_data message."""
    return np.fromiter(offsets, "<u8").tobytes()


def decode_freed(data: memoryview) -> list[int]:
    """Return the offsets of a free_data message."""
    if not data or len(data) % 8:
        raise InvalidFramingError(
            expected="one or more numbers of 8 bytes to free", found=f"{len(data):,} bytes", spec=_CLIENT_SPEC
        )
    offsets: list[int] = np.frombuffer(data, "<u8").tolist()
    return offsets


_HEAD: Final = struct.Struct("<B3xQQ")
_RESERVED: Final = slice(1, 4)
HEAD_NBYTES: Final = _HEAD.size

MAX_REASON_NBYTES: Final = 4096
"""The longest text of an error frame."""

PROGRESS_NBYTES: Final = 64 << 10
"""Fewest bytes that a peer must send or receive in a time-out, if as many are due."""

_FRAMES_SPEC: Final = 'format/dissociated.md, "Frames"'


class FrameKind(IntEnum):
    """The content of a frame."""

    UNTAGGED = 0
    """Metadata, or the end of the stream."""
    TAGGED = 1
    """A request, a body, or offsets to free."""
    ERROR = 2
    """The server's reason to close the connection, in UTF-8."""
    MEMORY = 3
    """The descriptor of the shared memory, without bytes (unix sockets)."""
    TOKEN = 4
    """A client's token, before its request."""


@dataclass(frozen=True, slots=True)
class FrameHead:
    """Kind, tag and length of a frame; the tag is 0 for kinds without one."""

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
    """Return the head in the first `HEAD_NBYTES` bytes; the caller checks the length."""
    number, tag, nbytes = _HEAD.unpack_from(data)
    if number not in tuple(FrameKind):
        raise UnsupportedError(
            f"frames of kind {number}: this release knows {', '.join(str(int(k)) for k in FrameKind)}; "
            "is the peer a server of Dissociated IPC?"
        )
    kind = FrameKind(number)
    if any(data[_RESERVED]) or (tag and kind is not FrameKind.TAGGED):
        raise InvalidFramingError(
            expected="zeros where a frame's head has no meaning",
            found=bytes(data[:HEAD_NBYTES]).hex(),
            spec=_FRAMES_SPEC,
        )
    return FrameHead(kind, tag, nbytes)


class Inbox:
    """Collects bytes until frames are complete, for a server, whose clients send little."""

    def __init__(self, max_nbytes: int) -> None:
        self._max_nbytes = max_nbytes
        self._data = bytearray()

    def feed(self, data: bytes | memoryview) -> Iterator[Frame]:
        """Yield the frames that these bytes complete."""
        self._data += data
        while len(self._data) >= HEAD_NBYTES:
            head = decode_head(self._data)
            if head.nbytes > self._max_nbytes:
                raise InvalidFramingError(
                    expected=f"a frame of at most {self._max_nbytes:,} bytes",
                    found=f"{head.nbytes:,}",
                    spec=_FRAMES_SPEC,
                )
            end = HEAD_NBYTES + head.nbytes
            if len(self._data) < end:
                return
            content = bytes(self._data[HEAD_NBYTES:end])
            del self._data[:end]
            yield Frame(head.kind, head.tag, memoryview(content))
