"""A server's side of one connection: a request, the stream, and the places in shared memory that the client frees.

How it works: only the client's thread uses its socket. While it sends, it also receives, so that server and client
never wait for each other when the client sends in the middle of a body.
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
from collections.abc import Callable, Mapping, Sequence
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

# The most seconds from the connection to the request
_REQUEST_SECONDS: Final = 60.0

_REASON_SECONDS: Final = 1.0

# Pause between two tokens, of all clients together, in the minute after a wrong one
_GUESS_SECONDS: Final = 0.05

_SUSPICIOUS_SECONDS: Final = 60.0
# Pieces of one call, of which the kernel takes at most 1,024
_PIECES: Final = 512


class TokenCheck:
    """Compares tokens, and slows guesses down: after a wrong one all clients wait in one queue."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()
        self._queue = threading.Lock()
        self._suspicious_until = 0.0

    def is_right(self, token: bytes) -> bool:
        """Return True for the right token, after a pause while clients guess."""
        if time.monotonic() < self._suspicious_until:
            with self._queue:
                time.sleep(_GUESS_SECONDS)
        # In constant time, so that the duration does not tell how many characters are right.
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
    # Checks the token that a client must send first, or None
    token: TokenCheck | None = None
    # The most bytes of shared memory that a client may hold, or None
    credit_nbytes: int | None = None
    max_clients: int = 256
    # Seconds in which a client must receive or free bytes
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
    """The client has closed the connection, or was too slow."""


class _Refused(Exception):  # noqa: N818
    """The server refuses the client's request; the client gets the text."""


class Session:
    """One client's connection, which `run` serves in a thread of its own."""

    def __init__(self, opened: socket.socket, service: Service, region: Region | None) -> None:
        self._socket = opened
        self._service = service
        self._region = region
        self._inbox = Inbox(MAX_TICKET_NBYTES)
        self._exported: Counter[int] = Counter()
        self._nbytes: dict[int, int] = {}
        self.nbytes_in_use = 0
        """The bytes of shared memory that the client holds, of each buffer once."""
        self._request: _Request | None = None
        self._is_trusted = service.token is None
        self._has_sent_token = False
        self._aborting = threading.Lock()
        self._is_open = True
        # Never blocks: `_poll` waits for both directions.
        opened.settimeout(0)
        if opened.family != socket.AF_UNIX:
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    @property
    def awaits_request(self) -> bool:
        """True before the client's request."""
        return self._request is None

    def run(self) -> None:
        """Serve the client until it disconnects."""
        try:
            self._serve()
        except _Gone as gone:
            _LOG.debug("%s", gone)
        except _Refused as refused:
            self.refuse(str(refused))
        except (ArrowIpcError, OSError) as error:
            _LOG.warning("a table could not be served: %s", error)
            # Without the error, as clients must not learn the path of a file.
            self.refuse("the table could not be read to its end; the server's log says why")

    def refuse(self, reason: str) -> None:
        """Send the client a reason, if it receives, and close the connection."""
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
        """Close the connection, which frees its places in shared memory."""
        with self._aborting:
            self._is_open = False
            self._socket.close()
        self._exported.clear()
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
            # Checked apart from `_poll`, as a client that sends all the time is always ready.
            if time.monotonic() >= deadline or not self._poll(select.POLLIN, deadline):
                raise _Refused("no request came in time")
            self._receive()
        return self._request

    def _send_body(self, sequence: int, message: Outgoing, pieces: Sequence[BytesLike]) -> None:
        if message.pairs is not None and self._export(message.pairs.tolist()):
            data = protocol.encode_pairs(message.pairs)
            tag = protocol.encode_body_tag(sequence, BodyType.BUFFERS)
            self._send([encode_head(FrameKind.TAGGED, len(data), tag), data])
            return
        tag = protocol.encode_body_tag(sequence, BodyType.PACKED)
        # Also from shared memory: a client without credit gets a copy.
        self._send([encode_head(FrameKind.TAGGED, message.nbytes, tag), *pieces])

    def _export(self, pairs: list[list[int]]) -> bool:
        """Count places in shared memory as in use, or return False beyond the client's credit."""
        if self._poll(select.POLLIN, 0.0):
            self._receive()
        # Batches may share buffers, of dictionaries for example.
        new = {start: nbytes for start, nbytes in pairs if nbytes and start not in self._exported}
        added = sum(new.values())
        credit = self._service.credit_nbytes
        if credit is not None and self.nbytes_in_use + added > credit:
            return False
        self._exported.update(start for start, nbytes in pairs if nbytes)
        self._nbytes.update(new)
        self.nbytes_in_use += added
        return True

    def _linger(self) -> None:
        """Wait until the client disconnects, as it may free places in shared memory one after the other."""
        deadline = time.monotonic() + self._service.timeout
        while time.monotonic() < deadline and self._poll(select.POLLIN, deadline):
            before = self.nbytes_in_use
            self._receive()
            if self.nbytes_in_use < before:  # only freed bytes extend the time
                deadline = time.monotonic() + self._service.timeout
        raise _Gone("the client neither went nor gave anything back in time")

    def _receive(self) -> None:
        """Receive available bytes, and handle each complete frame."""
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

    def _check_token(self, frame: Frame) -> None:
        if self._has_sent_token:
            raise InvalidFramingError(expected="one token on a connection", found="a second one")
        self._has_sent_token = True
        check = self._service.token
        if check is not None:
            if not check.is_right(bytes(frame.data)):
                raise _Refused("the token is wrong")
            self._is_trusted = True

    def _handle_tagged(self, frame: Frame) -> None:
        service = self._service
        if not self._is_trusted:
            raise _Refused("this server wants a token (connect(token=...)) before a request")
        if frame.tag in (service.want_both, service.want_metadata, service.want_bodies, service.want_part):
            if self._request is not None:
                raise InvalidFramingError(expected="one request on a connection", found="a second one")
            self._request = self._decode_request(frame)
        elif frame.tag == service.free_data:
            self._free(protocol.decode_freed(frame.data))
        else:
            raise InvalidFramingError(expected="a tag of this server's URIs", found=f"0x{frame.tag:016x}")

    def _decode_request(self, frame: Frame) -> _Request:
        if frame.tag == self._service.want_part:
            selection, ticket = Selection.decode(frame.data)
            return _Request(ticket, selection)
        wants_metadata, wants_bodies = frame.tag != self._service.want_bodies, frame.tag != self._service.want_metadata
        return _Request(bytes(frame.data), WHOLE, wants_metadata, wants_bodies)

    def _free(self, offsets: list[int]) -> None:
        for offset in offsets:
            count = self._exported.get(offset, 0)
            # Offsets are claims of the client.
            if count == 0:
                raise InvalidFramingError(expected="offsets that were lent", found=f"{offset:,}")
            if count > 1:
                self._exported[offset] = count - 1
            else:
                del self._exported[offset]
                self.nbytes_in_use -= self._nbytes.pop(offset)

    def _send_descriptor(self, descriptor: int) -> None:
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", [descriptor]))
        head = encode_head(FrameKind.MEMORY, 0)
        # Sent first, while the socket has room for twenty bytes: they go with their descriptor or not at all.
        try:
            sent = self._socket.sendmsg([head], [rights])
        except OSError as error:
            raise _Gone(str(error)) from error
        if sent != len(head):
            raise _Gone("the connection took a part of a frame's head")

    def _send(self, pieces: Sequence[BytesLike], timeout: float | None = None) -> None:
        """Send all pieces, and receive while the client does not."""
        seconds = self._service.timeout if timeout is None else timeout
        deadline, progress = time.monotonic() + seconds, 0
        every = [memoryview(piece).cast("B") for piece in pieces if len(piece)]
        for start in range(0, len(every), _PIECES):
            views = every[start : start + _PIECES]
            while views:
                try:
                    sent = self._socket.sendmsg(views)
                except BlockingIOError:
                    ready = self._poll(select.POLLIN | select.POLLOUT, deadline)
                    # Checked apart from `_poll`, as a client that sends all the time, or receives byte by byte, is ready.
                    if not ready or time.monotonic() >= deadline:
                        raise _Gone("the client takes nothing") from None
                    if self._poll(select.POLLIN, 0.0):
                        self._receive()
                    continue
                except OSError as error:
                    raise _Gone(str(error)) from error
                views, progress = _rest(views, sent), progress + sent
                if progress >= PROGRESS_NBYTES:
                    deadline, progress = time.monotonic() + seconds, 0

    def _poll(self, events: int, deadline: float) -> bool:
        """Wait until the socket is ready or lost, and return True, or until a time."""
        poll = select.poll()
        poll.register(self._socket.fileno(), events)
        left = max(0.0, deadline - time.monotonic()) if deadline else 0.0
        return bool(poll.poll(left * 1000))


_ACTIONS: Final[Mapping[FrameKind, Callable[[Session, Frame], None]]] = {
    FrameKind.TOKEN: Session._check_token,  # noqa: SLF001 - the table of this class
    FrameKind.TAGGED: Session._handle_tagged,  # noqa: SLF001
}


def _rest(views: list[memoryview], sent: int) -> list[memoryview]:
    """Return the views without their first `sent` bytes."""
    for i, view in enumerate(views):
        if sent < len(view):
            return [view[sent:], *views[i + 1 :]]
        sent -= len(view)
    return []
