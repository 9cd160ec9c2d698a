"""A client's side of a stream: complete frames from a socket in bounded time, and messages in the order of their numbers.

How it works: metadata and bodies may arrive in any order, on one connection or two; `Arrivals` holds them until the
next number is complete. Every length is checked against the limits before its memory is allocated.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from spark_arrow_ipc.errors import InvalidFramingError, InvalidMetadataError, printable
from spark_arrow_ipc.ipc.constants import Limits
from spark_arrow_ipc.ipc.dissociated import UNIX
from spark_arrow_ipc.ipc.dissociated.location import Location
from spark_arrow_ipc.ipc.dissociated.protocol import (
    HEAD_NBYTES,
    MAX_REASON_NBYTES,
    MAX_UINT32,
    PROGRESS_NBYTES,
    BodyType,
    EndOfStream,
    Frame,
    FrameHead,
    FrameKind,
    decode_body_tag,
    decode_head,
    decode_untagged,
    encode_head,
)
from spark_arrow_ipc.ipc.flatbuf.tables import MessageHeader
from spark_arrow_ipc.ipc.messages.message import Message, decode_message
from spark_arrow_ipc.storage.byte_source import new_buffer

# Bytes of one read of small frames
_AHEAD_NBYTES: Final = 64 << 10

_INT: Final = struct.calcsize("i")
# Room for more than the one allowed descriptor: the kernel would drop others silently
_MAX_DESCRIPTORS: Final = 4


class Connection:
    """One socket to a server, opened by `open`."""

    def __init__(self, opened: socket.socket, address: str, timeout: float) -> None:
        self._socket = opened
        self.address = address
        self._timeout = timeout
        self._ahead = memoryview(b"")
        self._descriptors: list[int] = []
        self._unsent = bytearray()
        self._sending = threading.Lock()
        self._is_unix = opened.family == socket.AF_UNIX

    @classmethod
    def open(cls, location: Location, timeout: float) -> Connection:
        """Connect to a server."""
        try:
            if location.scheme == UNIX:
                opened = socket.socket(socket.AF_UNIX)
                opened.settimeout(timeout)
                try:
                    opened.connect(location.path)
                except BaseException:
                    opened.close()
                    raise
            else:
                opened = socket.create_connection((location.host, location.port), timeout)
                # Requests are small, and waiting for more bytes would delay each by 40 ms.
                opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            raise type(error)(
                error.errno or 0, f"{location.address}: cannot connect: {error.strerror or error}"
            ) from error
        return cls(opened, location.address, timeout)

    @property
    def has_bytes(self) -> bool:
        """True if bytes of the next frame were read."""
        return bool(self._ahead)

    def fileno(self) -> int:
        """Return the descriptor of the socket, for `poll`."""
        return self._socket.fileno()

    def send(self, kind: FrameKind, data: bytes, tag: int = 0) -> None:
        """Send a frame, and wait for its last byte."""
        with self._sending:
            self._socket.settimeout(self._timeout)
            self._socket.sendall(encode_head(kind, len(data), tag) + data)

    def send_later(self, data: bytes, tag: int) -> None:
        """Send a tagged frame without a wait or error; the next call sends the rest."""
        # Called by the finalizers of views, in any thread and between any two lines.
        self._unsent += encode_head(FrameKind.TAGGED, len(data), tag) + data
        # The holder of the lock, maybe this very thread, leaves the rest to the next call.
        if self._sending.acquire(blocking=False):
            try:
                with suppress(OSError):
                    sent = self._socket.send(self._unsent, socket.MSG_DONTWAIT)
                    del self._unsent[:sent]
            finally:
                self._sending.release()

    def receive(self, check: Callable[[FrameHead], None]) -> Frame | None:
        """Return the next frame, or None if the server has closed the connection; raise an error frame.

        `check` refuses heads of too long frames before their memory is allocated.
        """
        data = memoryview(bytearray(HEAD_NBYTES))
        if not self._fill(data, may_end=True):
            return None
        head = decode_head(data)
        if head.kind is FrameKind.ERROR:
            text = memoryview(bytearray(min(head.nbytes, MAX_REASON_NBYTES)))
            self._fill(text)
            reason = printable(bytes(text).decode(errors="replace"))
            raise ConnectionError(f"{self.address}: the server says: {reason}")
        check(head)
        content = new_buffer(head.nbytes)
        self._fill(content)
        return Frame(head.kind, head.tag, content.toreadonly())

    def take_descriptor(self) -> int | None:
        """Return the descriptor that came with the frames, which the caller closes, or None."""
        if len(self._descriptors) > 1:
            raise InvalidFramingError(expected="one descriptor", found=f"{len(self._descriptors)}")
        return self._descriptors.pop() if self._descriptors else None

    def close(self) -> None:
        """Close the socket, and descriptors that were not taken."""
        with suppress(OSError):
            # Wakes a thread that waits in a read.
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        while self._descriptors:
            os.close(self._descriptors.pop())

    def _fill(self, data: memoryview, *, may_end: bool = False) -> bool:
        """Fill `data`; return False for a connection that ends before its first byte, which `may_end` allows."""
        done = min(len(self._ahead), len(data))
        data[:done] = self._ahead[:done]
        self._ahead = self._ahead[done:]
        deadline, progress = time.monotonic() + self._timeout, 0
        while done < len(data):
            nbytes = self._receive(data[done:], deadline)
            if not nbytes:
                if may_end and not done:
                    return False
                raise InvalidFramingError(
                    expected=f"{len(data):,} bytes", found=f"{done:,}: the connection ends; read it again"
                )
            done, progress = done + nbytes, progress + nbytes
            # A slow peer gets more time by progress, but not byte by byte.
            if progress >= PROGRESS_NBYTES:
                deadline, progress = time.monotonic() + self._timeout, 0
        return True

    def _receive(self, data: memoryview, deadline: float) -> int:
        """Receive into `data`, if it is small by a larger buffer for later reads; return the bytes put into `data`."""
        left = deadline - time.monotonic()
        if left <= 0:
            raise self._timeout_error()
        self._socket.settimeout(left)
        into = data if len(data) >= _AHEAD_NBYTES else memoryview(bytearray(_AHEAD_NBYTES))
        try:
            nbytes = self._receive_into(into)
        except TimeoutError as error:
            raise self._timeout_error() from error
        if into is data:
            return nbytes
        chunk_nbytes = min(nbytes, len(data))
        data[:chunk_nbytes] = into[:chunk_nbytes]
        self._ahead = into[chunk_nbytes:nbytes]
        return chunk_nbytes

    def _receive_into(self, data: memoryview) -> int:
        # Only unix sockets pass descriptors.
        if not self._is_unix:
            return self._socket.recv_into(data)
        room = socket.CMSG_SPACE(_MAX_DESCRIPTORS * _INT)
        nbytes, ancillary, flags, _ = self._socket.recvmsg_into([data], room, socket.MSG_CMSG_CLOEXEC)
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                count = len(content) // _INT
                self._descriptors += struct.unpack(f"{count}i", content[: count * _INT])
        if flags & socket.MSG_CTRUNC or len(self._descriptors) > 1:
            raise InvalidFramingError(expected="one descriptor", found="several")
        return nbytes

    def _timeout_error(self) -> TimeoutError:
        return TimeoutError(
            f"{self.address}: the server sent less than {PROGRESS_NBYTES:,} bytes of what is due in {self._timeout:g} "
            "s; see whether it is stuck, or give more time (timeout=...)"
        )


# Numbers less than this ahead are later, others earlier, as numbers roll over.
_WINDOW: Final = 1 << 31

_SPEC: Final = 'Dissociated IPC, "Client Sequence"'


@dataclass(frozen=True, slots=True)
class TaggedBody:
    """A body from the socket."""

    body_type: BodyType
    data: memoryview


@dataclass(frozen=True, slots=True)
class Arrived:
    """The next message of the stream; `body` is None for a schema."""

    sequence: int
    message: Message
    body: TaggedBody | None


class Arrivals:
    """The messages of a stream that have arrived and were not taken yet."""

    def __init__(self, limits: Limits, *, lenient: bool = False, first: int = 0) -> None:
        # ``max_metadata_bytes`` and ``max_blocks`` bound the metadata that waits, ``max_batch_bytes`` and
        # ``max_blocks`` the bodies
        self._limits = limits
        self._lenient = lenient
        # The number of the first message, 0 by the protocol
        self._first = first
        self._next = first
        self._end: int | None = None
        self._headers: dict[int, memoryview] = {}
        self._bodies: dict[int, TaggedBody] = {}
        self._headers_nbytes = 0
        self._bodies_nbytes = 0
        # The next message, decoded while its body is missing
        self._message: Message | None = None
        self._began = False

    @property
    def is_finished(self) -> bool:
        """True if the end of the stream has arrived, and every message before it was taken."""
        return self._end == self._next

    @property
    def bodies_nbytes(self) -> int:
        """The bytes of the bodies that wait."""
        return self._bodies_nbytes

    @property
    def needs_metadata(self) -> bool:
        """True if the next message's metadata, or the end of the stream, is missing."""
        return self._message is None and self._next not in self._headers and not self.is_finished

    def add_untagged(self, data: memoryview) -> None:
        """Add metadata, or the end of the stream."""
        message = decode_untagged(data)
        sequence = message.sequence
        if isinstance(message, EndOfStream):
            self._add_end(sequence)
            return
        self._check_new(sequence, self._headers, "metadata")
        if self._message is not None and sequence == self._next:
            raise _twice("metadata", sequence)
        self._headers_nbytes += len(message.flatbuffer)
        # Of all messages together, as a server may send any number before the next one.
        self._limits.check("max_metadata_bytes", self._headers_nbytes, "the sum of metadata that waits")
        self._limits.check("max_blocks", len(self._headers) + 1, "metadata that waits for earlier messages")
        self._headers[sequence] = message.flatbuffer

    def add_tagged(self, tag: int, data: memoryview) -> None:
        """Add a body."""
        body = decode_body_tag(tag, lenient=self._lenient)
        self._check_new(body.sequence, self._bodies, "body")
        self._bodies_nbytes += len(data)
        self._limits.check("max_blocks", len(self._bodies) + 1, "bodies that wait for earlier messages")
        # The next body is taken at once, and may be as large as one batch by itself.
        if body.sequence != self._next:
            self._limits.check("max_batch_bytes", self._bodies_nbytes, "the sum of bodies that wait")
        self._bodies[body.sequence] = TaggedBody(body.body_type, data)

    def take(self) -> Arrived | None:
        """Return the next message with its body, or None while either is missing."""
        sequence = self._next
        if self._message is None:
            flatbuffer = self._headers.pop(sequence, None)
            if flatbuffer is None:
                return None
            self._headers_nbytes -= len(flatbuffer)
            self._message = decode_message(flatbuffer, self._limits)
            self._check_place(self._message)
        body = None
        if self._message.kind is not MessageHeader.Schema:
            body = self._bodies.pop(sequence, None)
            if body is None:
                return None
            self._bodies_nbytes -= len(body.data)
        elif sequence in self._bodies:
            raise InvalidFramingError(expected="no body for the schema", found="one", spec=_SPEC)
        message, self._message = self._message, None
        self._began = True
        self._next = (sequence + 1) & MAX_UINT32
        return Arrived(sequence, message, body)

    def truncation_error(self) -> InvalidFramingError:
        """Return the error of a connection that ends before the stream."""
        if self._end is None:
            ending = f"the connection ends, without an end of stream, while message {self._next:,} is still to come"
        else:
            missing = self._ahead(self._end) - len(self._headers) - (self._message is not None)
            ending = f"the connection ends while {missing:,} messages from number {self._next:,} on are missing"
        return InvalidFramingError(expected="all messages of the stream", found=f"{ending}; read it again", spec=_SPEC)

    def _check_place(self, message: Message) -> None:
        is_first = not self._began
        if (message.kind is MessageHeader.Schema) != is_first:
            expected = "a schema as the first message" if is_first else "one schema, at the beginning"
            raise InvalidMetadataError(
                expected=expected, found=f"a {message.kind.noun} as message {self._next:,}", spec=_SPEC
            )
        if is_first and message.body_nbytes:
            raise InvalidMetadataError(
                expected="a schema without a body", found=f"one of {message.body_nbytes:,} bytes", spec=_SPEC
            )

    def _add_end(self, sequence: int) -> None:
        if self._end is not None:
            raise InvalidFramingError(expected="one end of stream", found="a second one", spec=_SPEC)
        # In order from the next one, as numbers roll over.
        latest = max((self._ahead(number) for number in (*self._headers, *self._bodies)), default=-1)
        if not self._began and self._message is None and self._ahead(sequence) == 0:
            raise InvalidFramingError(expected="a schema", found="the end of the stream", spec=_SPEC)
        if not latest < self._ahead(sequence) < _WINDOW:
            raise InvalidFramingError(
                expected="the end of the stream after its last message",
                found=f"number {sequence:,}, where message {(self._next + latest) & MAX_UINT32:,} is known",
                spec=_SPEC,
            )
        if self._message is not None and self._ahead(sequence) == 0:
            raise InvalidFramingError(
                expected=f"the end of the stream after message {self._next:,}", found=f"{sequence:,}", spec=_SPEC
            )
        self._end = sequence

    def _check_new(self, sequence: int, waiting: dict[int, memoryview] | dict[int, TaggedBody], what: str) -> None:
        if sequence in waiting:
            raise _twice(what, sequence)
        end = _WINDOW if self._end is None else self._ahead(self._end)
        if not self._ahead(sequence) < end:
            raise InvalidFramingError(
                expected=f"numbers from {self._next:,} on" + ("" if self._end is None else f", before {self._end:,}"),
                found=f"{what} of number {sequence:,}",
                spec=_SPEC,
            )

    def _ahead(self, sequence: int) -> int:
        return (sequence - self._next) & MAX_UINT32


def _twice(what: str, sequence: int) -> InvalidFramingError:
    return InvalidFramingError(expected=f"one {what} of number {sequence:,}", found="a second one", spec=_SPEC)
