"""A client's connection: whole frames from a socket, in bounded time."""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from spark_arrow_ipc.errors import InvalidFramingError, printable
from spark_arrow_ipc.ipc.dissociated.frames import (
    HEAD_NBYTES,
    MAX_REASON_NBYTES,
    PROGRESS_NBYTES,
    Frame,
    FrameHead,
    FrameKind,
    decode_head,
    encode_head,
)
from spark_arrow_ipc.ipc.dissociated.location import Location
from spark_arrow_ipc.ipc.dissociated.schemes import UNIX
from spark_arrow_ipc.storage.byte_source import new_buffer

_AHEAD_NBYTES: Final = 64 << 10
"""Bytes that are read at once where frames are small."""

_INT: Final = struct.calcsize("i")
_MAX_DESCRIPTORS: Final = 4
"""Room for more than the one that is allowed: the kernel would drop others silently."""


class Connection:
    """One socket to a server. Made by `open`.

    Parameters
    ----------
    opened
        The connected socket.
    address
        For errors.
    timeout
        Seconds that the server may be silent.
    """

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
        """Connect to a server.

        Raises
        ------
        OSError
            There is none, or it does not answer in `timeout` seconds.
        """
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
                opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            raise type(error)(
                error.errno or 0, f"{location.address}: cannot connect: {error.strerror or error}"
            ) from error
        return cls(opened, location.address, timeout)

    @property
    def has_bytes(self) -> bool:
        """Whether bytes were read that belong to the next frame."""
        return bool(self._ahead)

    def fileno(self) -> int:
        """Return the descriptor of the socket, for `poll`."""
        return self._socket.fileno()

    def send(self, kind: FrameKind, data: bytes, tag: int = 0) -> None:
        """Send a frame; wait until it is gone.

        Raises
        ------
        OSError
            The connection is lost, or the time-out is over.
        """
        with self._sending:
            self._socket.settimeout(self._timeout)
            self._socket.sendall(encode_head(kind, len(data), tag) + data)

    def send_later(self, data: bytes, tag: int) -> None:
        """Send a tagged frame as far as the socket takes it now; the rest goes with the next. Never waits or fails.

        May be called by any thread, and in the middle of anything: it is how views say that they are gone.
        """
        self._unsent += encode_head(FrameKind.TAGGED, len(data), tag) + data
        # Whoever holds the lock, maybe this very thread, leaves the rest to the next call.
        if self._sending.acquire(blocking=False):
            try:
                with suppress(OSError):
                    sent = self._socket.send(self._unsent, socket.MSG_DONTWAIT)
                    del self._unsent[:sent]
            finally:
                self._sending.release()

    def receive(self, check: Callable[[FrameHead], None]) -> Frame | None:
        """Return the next frame, or None where the server has closed the connection between two.

        Parameters
        ----------
        check
            Is called with the head, and refuses what is too long, before memory is taken for it.

        Raises
        ------
        InvalidFramingError, UnsupportedError
            The frame is broken, or the connection ends in it.
        ConnectionError
            The server says why it closes the connection.
        OSError
            The connection is lost, or the time-out is over.
        """
        data = memoryview(bytearray(HEAD_NBYTES))
        if not self._fill(data, may_end=True):
            return None
        head = decode_head(data)
        if head.kind is FrameKind.ERROR:
            raise self._reason(head.nbytes)
        check(head)
        content = new_buffer(head.nbytes)
        self._fill(content)
        return Frame(head.kind, head.tag, content.toreadonly())

    def take_descriptor(self) -> int | None:
        """Return the descriptor that came with the frames, which the caller closes; None if none came.

        Raises
        ------
        InvalidFramingError
            Several came.
        """
        if len(self._descriptors) > 1:
            raise InvalidFramingError(expected="one descriptor", found=f"{len(self._descriptors)}")
        return self._descriptors.pop() if self._descriptors else None

    def close(self) -> None:
        """Close the socket, and every descriptor that nobody took."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        while self._descriptors:
            os.close(self._descriptors.pop())

    def _reason(self, nbytes: int) -> ConnectionError:
        text = memoryview(bytearray(min(nbytes, MAX_REASON_NBYTES)))
        self._fill(text)
        return ConnectionError(f"{self.address}: the server says: {printable(bytes(text).decode(errors='replace'))}")

    def _fill(self, data: memoryview, *, may_end: bool = False) -> bool:
        """Fill `data`; return False where the connection ends before its first byte and may."""
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
            if progress >= PROGRESS_NBYTES:
                deadline, progress = time.monotonic() + self._timeout, 0
        return True

    def _receive(self, data: memoryview, deadline: float) -> int:
        """Receive into `data`, or for a small one into what is read ahead; return the bytes put into `data`."""
        left = deadline - time.monotonic()
        if left <= 0:
            raise self._timed_out()
        self._socket.settimeout(left)
        into = data if len(data) >= _AHEAD_NBYTES else memoryview(bytearray(_AHEAD_NBYTES))
        try:
            nbytes = self._receive_into(into)
        except TimeoutError as error:
            raise self._timed_out() from error
        if into is data:
            return nbytes
        wanted = min(nbytes, len(data))
        data[:wanted] = into[:wanted]
        self._ahead = into[wanted:nbytes]
        return wanted

    def _receive_into(self, data: memoryview) -> int:
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

    def _timed_out(self) -> TimeoutError:
        return TimeoutError(
            f"{self.address}: the server sent less than {PROGRESS_NBYTES:,} bytes of what is due in {self._timeout:g} "
            "s; see whether it is stuck, or give more time (timeout=...)"
        )
