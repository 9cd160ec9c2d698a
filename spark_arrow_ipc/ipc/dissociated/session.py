"""A server's side of one connection: a request, the stream, and what the client gives back.

The client's thread is the only one that touches its socket: while it sends, it takes in what arrives, so that a client
which sends in the middle of a body is never waited for in vain.
"""

from __future__ import annotations

import hmac
import logging
import select
import socket
import threading
import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from spark_arrow_ipc.errors import ArrowIpcError, InvalidFramingError
from spark_arrow_ipc.ipc.columns.encode import BytesLike
from spark_arrow_ipc.ipc.dissociated import protocol
from spark_arrow_ipc.ipc.dissociated.location import WHOLE, Selection
from spark_arrow_ipc.ipc.dissociated.messages import Outgoing, OutgoingTable
from spark_arrow_ipc.ipc.dissociated.protocol import (
    MAX_REASON_NBYTES,
    PROGRESS_NBYTES,
    BodyType,
    Frame,
    FrameKind,
    Inbox,
    encode_head,
)
from spark_arrow_ipc.ipc.dissociated.shared_memory import Region, SharedMemory

_LOG: Final = logging.getLogger(__name__)

MAX_TICKET_NBYTES: Final = 64 << 10
"""The longest ticket, and the longest message of a client."""

_REQUEST_SECONDS: Final = 60.0
"""The most seconds from the connection to the request."""

_REASON_SECONDS: Final = 1.0

_GUESS_SECONDS: Final = 0.05
"""Seconds between two tokens that are looked at, for all clients together, in the minute after a wrong one."""

_SUSPICIOUS_SECONDS: Final = 60.0
_PIECES: Final = 512
"""Pieces in one call: the kernel takes 1,024."""


class TokenCheck:
    """Compares tokens, and lets nobody guess quickly: after a wrong one all clients wait in one queue."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()
        self._queue = threading.Lock()
        self._suspicious_until = 0.0

    def is_right(self, token: bytes) -> bool:
        """Return whether a token is right; waits while others guess."""
        if time.monotonic() < self._suspicious_until:
            with self._queue:
                time.sleep(_GUESS_SECONDS)
        # In constant time: how long it takes says nothing of how many characters are right.
        if hmac.compare_digest(self._token, token):
            return True
        self._suspicious_until = time.monotonic() + _SUSPICIOUS_SECONDS
        return False


@dataclass(frozen=True, slots=True)
class Service:
    """The tables, tags and bounds that all clients of a server share."""

    tables: Mapping[bytes, OutgoingTable]
    # The tags that clients send
    want_both: int
    want_metadata: int
    want_bodies: int
    want_part: int
    free_data: int
    # The number of parts that URIs advise readers of
    parts: int = 1
    # Checks what a client has to send first, or None
    token: TokenCheck | None = None
    # The most bytes of shared memory that a client may hold, or None
    credit_nbytes: int | None = None
    max_clients: int = 256
    # Seconds that a client may take nothing, or keep what it was lent
    timeout: float = 600.0


TAGS: Final = ("want_both", "want_metadata", "want_bodies", "want_part", "free_data")
"""The attributes of a `Service` that are tags, a random number each."""


@dataclass(frozen=True, slots=True)
class _Request:
    """The request of a client."""

    ticket: bytes
    selection: Selection = WHOLE
    wants_metadata: bool = True
    wants_bodies: bool = True


class _Gone(Exception):  # noqa: N818 - no error: clients go
    """The client has closed the connection, or took too long."""


class _Refused(Exception):  # noqa: N818
    """The client asks for what it does not get; the text is sent to it."""


class Session:
    """One client's connection. `run` serves it, in a thread of its own."""

    def __init__(self, opened: socket.socket, service: Service, region: Region | None) -> None:
        self._socket = opened
        self._service = service
        self._region = region
        self._inbox = Inbox(MAX_TICKET_NBYTES)
        self._lent: Counter[int] = Counter()
        self._nbytes: dict[int, int] = {}
        self.nbytes_in_use = 0
        """The bytes of shared memory that the client holds: of each buffer once, however often it was sent."""
        self._request: _Request | None = None
        self._is_trusted = service.token is None
        self._has_sent_token = False
        self._aborting = threading.Lock()
        self._is_open = True
        opened.settimeout(0)
        if opened.family != socket.AF_UNIX:
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    @property
    def awaits_request(self) -> bool:
        """True if the client has not asked for a table yet."""
        return self._request is None

    def run(self) -> None:
        """Serve the client until it goes."""
        try:
            self._serve()
        except _Gone as gone:
            _LOG.debug("%s", gone)
        except _Refused as refused:
            self.refuse(str(refused))
        except (ArrowIpcError, OSError) as error:
            _LOG.warning("a table could not be served: %s", error)
            # A client must not learn the path of a file.
            self.refuse("the table could not be read to its end; the server's log says why")

    def refuse(self, reason: str) -> None:
        """Tell the client why, if it listens, and close the connection."""
        data = reason.encode()[:MAX_REASON_NBYTES]
        with suppress(_Gone, _Refused, OSError):
            self._send([encode_head(FrameKind.ERROR, len(data)), data], _REASON_SECONDS)
        self.close()

    def abort(self) -> None:
        """Break the connection; another thread may call it."""
        with self._aborting, suppress(OSError):
            if self._is_open:
                self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection: what was lent is given back."""
        with self._aborting:
            self._is_open = False
            self._socket.close()
        self._lent.clear()
        self.nbytes_in_use = 0

    def _serve(self) -> None:
        request = self._await_request()
        service = self._service
        table = service.tables.get(request.ticket)
        if table is None:
            raise _Refused(f"there is no table of the ticket {request.ticket[:100]!r}")
        if request.selection != WHOLE and not table.selects:
            raise _Refused("this table has no parts: read it whole")
        wants_metadata, wants_bodies = request.wants_metadata, request.wants_bodies
        if wants_bodies and self._region is not None and self._region.handle.kind is SharedMemory.MEMFD:
            self._send_descriptor(self._region.descriptor)
        sequence = 0
        for message in table.messages(request.selection):
            if wants_metadata:
                prefix = protocol.encode_metadata_prefix(sequence)
                head = encode_head(FrameKind.UNTAGGED, len(prefix) + len(message.flatbuffer))
                self._send([head, prefix, message.flatbuffer])
            if wants_bodies and message.pieces is not None:
                self._send_body(sequence, message, message.pieces)
            sequence = sequence + 1 & protocol.MAX_UINT32
        if wants_metadata:
            end = protocol.encode_end(sequence)
            self._send([encode_head(FrameKind.UNTAGGED, len(end)), end])
        self._linger()

    def _await_request(self) -> _Request:
        deadline = time.monotonic() + min(_REQUEST_SECONDS, self._service.timeout)
        while self._request is None:
            # The clock decides as well: a client that sends all the while is always ready.
            if time.monotonic() >= deadline or not self._poll(select.POLLIN, deadline):
                raise _Refused("no request came in time")
            self._take_in()
        return self._request

    def _send_body(self, sequence: int, message: Outgoing, pieces: Sequence[BytesLike]) -> None:
        if message.pairs is not None and self._lend(message.pairs.tolist()):
            data = protocol.encode_pairs(message.pairs)
            tag = protocol.encode_body_tag(sequence, BodyType.BUFFERS)
            self._send([encode_head(FrameKind.TAGGED, len(data), tag), data])
            return
        tag = protocol.encode_body_tag(sequence, BodyType.PACKED)
        self._send([encode_head(FrameKind.TAGGED, message.nbytes, tag), *pieces])

    def _lend(self, pairs: list[list[int]]) -> bool:
        """Note what is lent, or return False where the client holds all that it may."""
        if self._poll(select.POLLIN, 0.0):
            self._take_in()
        new = {start: nbytes for start, nbytes in pairs if nbytes and start not in self._lent}
        added = sum(new.values())
        credit = self._service.credit_nbytes
        if credit is not None and self.nbytes_in_use + added > credit:
            return False
        self._lent.update(start for start, nbytes in pairs if nbytes)
        self._nbytes.update(new)
        self.nbytes_in_use += added
        return True

    def _linger(self) -> None:
        """Wait until the client goes: it may hold shared memory, and gives it back bit by bit."""
        deadline = time.monotonic() + self._service.timeout
        while time.monotonic() < deadline and self._poll(select.POLLIN, deadline):
            before = self.nbytes_in_use
            self._take_in()
            if self.nbytes_in_use < before:  # any other frame gives no more time
                deadline = time.monotonic() + self._service.timeout
        raise _Gone("the client neither went nor gave anything back in time")

    def _take_in(self) -> None:
        """Receive what is there, and act on each frame that is whole."""
        try:
            data = self._socket.recv(MAX_TICKET_NBYTES)
        except BlockingIOError:
            return
        except OSError as error:
            raise _Gone(str(error)) from error
        if not data:
            raise _Gone("the client closed the connection")
        try:
            for frame in self._inbox.feed(data):
                self._act(frame)
        except ArrowIpcError as error:
            raise _Refused(f"the client broke the protocol: {error}") from error

    def _act(self, frame: Frame) -> None:
        act = _ACTIONS.get(frame.kind)
        if act is None:
            raise InvalidFramingError(
                expected="a token, a request or offsets to free", found=f"a frame of kind {frame.kind.name}"
            )
        act(self, frame)

    def _take_token(self, frame: Frame) -> None:
        if self._has_sent_token:
            raise InvalidFramingError(expected="one token on a connection", found="a second one")
        self._has_sent_token = True
        check = self._service.token
        if check is not None:
            if not check.is_right(bytes(frame.data)):
                raise _Refused("the token is wrong")
            self._is_trusted = True

    def _take_tagged(self, frame: Frame) -> None:
        service = self._service
        if not self._is_trusted:
            raise _Refused("this server wants a token (connect(token=...)) before a request")
        if frame.tag in (service.want_both, service.want_metadata, service.want_bodies, service.want_part):
            if self._request is not None:
                raise InvalidFramingError(expected="one request on a connection", found="a second one")
            self._request = self._decode_request(frame)
        elif frame.tag == service.free_data:
            self._take_back(protocol.decode_freed(frame.data))
        else:
            raise InvalidFramingError(expected="a tag of this server's URIs", found=f"0x{frame.tag:016x}")

    def _decode_request(self, frame: Frame) -> _Request:
        if frame.tag == self._service.want_part:
            selection, ticket = Selection.decode(frame.data)
            return _Request(ticket, selection)
        wants_metadata, wants_bodies = frame.tag != self._service.want_bodies, frame.tag != self._service.want_metadata
        return _Request(bytes(frame.data), WHOLE, wants_metadata, wants_bodies)

    def _take_back(self, offsets: list[int]) -> None:
        for offset in offsets:
            count = self._lent.get(offset, 0)
            if count == 0:
                raise InvalidFramingError(expected="offsets that were lent", found=f"{offset:,}")
            if count > 1:
                self._lent[offset] = count - 1
            else:
                del self._lent[offset]
                self.nbytes_in_use -= self._nbytes.pop(offset)

    def _send_descriptor(self, descriptor: int) -> None:
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", [descriptor]))
        head = encode_head(FrameKind.MEMORY, 0)
        # The first thing that is sent: there is room for twenty bytes, and they go with their descriptor or not at all.
        try:
            sent = self._socket.sendmsg([head], [rights])
        except OSError as error:
            raise _Gone(str(error)) from error
        if sent != len(head):
            raise _Gone("the connection took a part of a frame's head")

    def _send(self, pieces: Sequence[BytesLike], timeout: float | None = None) -> None:
        """Send all pieces, and take in what arrives while the client takes nothing."""
        seconds = self._service.timeout if timeout is None else timeout
        deadline, progress = time.monotonic() + seconds, 0
        for group in _groups(pieces):
            views = group
            while views:
                try:
                    sent = self._socket.sendmsg(views)
                except BlockingIOError:
                    ready = self._poll(select.POLLIN | select.POLLOUT, deadline)
                    # The clock decides as well: a client that sends all the while, or takes byte by byte, is ready.
                    if not ready or time.monotonic() >= deadline:
                        raise _Gone("the client takes nothing") from None
                    if self._poll(select.POLLIN, 0.0):
                        self._take_in()
                    continue
                except OSError as error:
                    raise _Gone(str(error)) from error
                views, progress = _rest(views, sent), progress + sent
                if progress >= PROGRESS_NBYTES:
                    deadline, progress = time.monotonic() + seconds, 0

    def _poll(self, events: int, deadline: float) -> bool:
        """Wait until the socket is ready, or a time; return whether it is. A connection that is lost is ready."""
        poll = select.poll()
        poll.register(self._socket.fileno(), events)
        left = max(0.0, deadline - time.monotonic()) if deadline else 0.0
        return bool(poll.poll(left * 1000))


_ACTIONS: Final[Mapping[FrameKind, Callable[[Session, Frame], None]]] = {
    FrameKind.TOKEN: Session._take_token,  # noqa: SLF001 - the table of this class
    FrameKind.TAGGED: Session._take_tagged,  # noqa: SLF001
}


def _groups(pieces: Sequence[BytesLike]) -> Iterator[list[memoryview]]:
    """Yield the pieces that are not empty, as many together as one call takes."""
    views = [memoryview(piece).cast("B") for piece in pieces if len(piece)]
    for start in range(0, len(views), _PIECES):
        yield views[start : start + _PIECES]


def _rest(views: list[memoryview], sent: int) -> list[memoryview]:
    """Return the views without their first `sent` bytes."""
    for i, view in enumerate(views):
        if sent < len(view):
            return [view[sent:], *views[i + 1 :]]
        sent -= len(view)
    return []
