"""Serve tables by Dissociated IPC: `serve` and `Server`.

How it works: one thread accepts connections, and one serves each client (`Session`).
"""

from __future__ import annotations

import ipaddress
import logging
import os
import secrets
import socket
import stat
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Final, Literal, Self, TypeAlias, cast

from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.ipc.bytes.source import Openable
from spark_arrow_ipc.ipc.constants import Limits
from spark_arrow_ipc.ipc.dissociated import TCP, UNIX
from spark_arrow_ipc.ipc.dissociated.location import MAX_PARTS, Location, parse_address
from spark_arrow_ipc.ipc.dissociated.messages import (
    BatchesTable,
    FileTable,
    FunctionTable,
    MessageCache,
    OpenTable,
    Outgoing,
    OutgoingTable,
    SharedTable,
    StreamedTable,
    TableSource,
)
from spark_arrow_ipc.ipc.dissociated.session import TAGS, Service, Session, TokenCheck
from spark_arrow_ipc.ipc.dissociated.shared_memory import Region, RegionWriter, SharedMemory
from spark_arrow_ipc.ipc.options import WriteOptions

_LOG: Final = logging.getLogger(__name__)
_STREAM: Final = WriteOptions(format="stream")
_JOIN_SECONDS: Final = 5.0
# Pause between two attempts to accept without free descriptors
_REST_SECONDS: Final = 0.1

Servable: TypeAlias = "Openable | Iterable[RecordBatch] | OpenTable | TableSource"
"""Anything that `ipc.open` opens, record batches, or a function that opens a table for each client."""

KEEP_NBYTES: Final = 256 << 20
"""The default of memory for cached messages."""


@dataclass(frozen=True, slots=True)
class _Listening:
    """A listening socket and its location."""

    opened: socket.socket
    location: Location


class Server:
    """Serves tables until it is closed; `serve` returns one."""

    def __init__(self, listening: _Listening, service: Service, region: Region | None) -> None:
        self._listening = listening
        self._service = service
        self._region = region
        self._sessions: dict[Session, threading.Thread] = {}
        self._lock = threading.Lock()
        self._is_open = True
        self._closed = threading.Event()
        # Daemon threads, so that a process without `close` can end.
        self._accepting = threading.Thread(target=self._accept, name="arrowipc-accept", daemon=True)
        self._accepting.start()

    @property
    def tickets(self) -> tuple[bytes, ...]:
        """The names of the tables."""
        return tuple(self._service.tables)

    @property
    def uri(self) -> str:
        """The URI of metadata and bodies on one connection, without a ticket."""
        return self._both.uri

    @property
    def _both(self) -> Location:
        parts = self._service.parts if self._service.parts > 1 else None
        return replace(self._location(self._service.want_both), want_part=self._service.want_part, of=parts)

    @property
    def split_uris(self) -> tuple[str, str]:
        """The URIs of the metadata and of the bodies, on a connection each."""
        metadata = replace(self._location(self._service.want_metadata), free_data=None, remote_handle=None)
        return metadata.uri, self._location(self._service.want_bodies).uri

    def uri_of(self, ticket: bytes | str) -> str:
        """Return the URI of one table.

        Raises
        ------
        KeyError
            The server has no such table.
        """
        encoded = ticket.encode() if isinstance(ticket, str) else ticket
        if encoded not in self._service.tables:
            raise KeyError(ticket)
        location = self._both
        # Clients learn from the URI whether they may request parts.
        if not self._service.tables[encoded].selects:
            location = replace(location, want_part=None, of=None)
        return location.with_ticket(encoded).uri

    @property
    def nbytes_in_use(self) -> int:
        """The bytes of shared memory that clients hold."""
        with self._lock:
            return sum(session.nbytes_in_use for session in self._sessions)

    @property
    def num_clients(self) -> int:
        """The number of connected clients."""
        with self._lock:
            return len(self._sessions)

    def wait(self) -> None:
        """Wait until another thread or a signal's handler closes the server."""
        self._closed.wait()

    def close(self) -> None:
        """Close all connections, and remove the names of the socket and the shared memory; clients' batches stay valid."""
        with self._lock:
            if not self._is_open:
                return
            self._is_open = False
            sessions = dict(self._sessions)
        with suppress(OSError):
            self._listening.opened.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._listening.opened.close()
        if self._listening.location.scheme == UNIX:
            with suppress(OSError):
                os.unlink(self._listening.location.path)  # noqa: PTH108
        for session in sessions:
            # A client must not delay the end of the server.
            session.abort()
        deadline = time.monotonic() + _JOIN_SECONDS
        for thread in (self._accepting, *sessions.values()):
            thread.join(max(0.0, deadline - time.monotonic()))
        if self._region is not None:
            self._region.close()
        self._closed.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Dissociated IPC server at {self._listening.location.address}, {len(self.tickets)} tables>"

    def _location(self, want_data: int) -> Location:
        region = self._region
        handle = None if region is None else region.handle.encode()
        free_data = None if region is None else self._service.free_data
        return replace(self._listening.location, want_data=want_data, free_data=free_data, remote_handle=handle)

    def _accept(self) -> None:
        while self._is_open:
            try:
                opened, _ = self._listening.opened.accept()
            except OSError:
                if self._is_open:
                    time.sleep(_REST_SECONDS)
                continue
            self._begin(opened)

    def _begin(self, opened: socket.socket) -> None:
        session = Session(opened, self._service, self._region)
        thread = threading.Thread(target=self._run, args=(session,), name="arrowipc-client", daemon=True)
        with self._lock:
            if len(self._sessions) >= self._service.max_clients:
                self._drop_silent()
            is_full = len(self._sessions) >= self._service.max_clients
            if self._is_open and not is_full:
                self._sessions[session] = thread
        if not self._is_open or is_full:
            session.refuse("the server has all the clients it may have; try again later")
            return
        try:
            thread.start()
        except RuntimeError:  # no more threads
            with self._lock:
                del self._sessions[session]
            session.refuse("the server has no more threads; try again later")

    def _drop_silent(self) -> None:
        """Break the oldest connection without a request, which must not keep others out."""
        silent = next((session for session in self._sessions if session.awaits_request), None)
        if silent is not None:
            del self._sessions[silent]
            silent.abort()

    def _run(self, session: Session) -> None:
        try:
            session.run()
        except Exception:  # noqa: BLE001 - one client's failure is not another's
            _LOG.exception("a client of %s could not be served", self._listening.location.address)
        finally:
            session.close()
            with self._lock:
                self._sessions.pop(session, None)  # `_drop_silent` may have removed it


def serve(
    tables: Mapping[str, Servable] | Mapping[bytes, Servable],
    listen: str = f"{TCP}://127.0.0.1:0",
    *,
    shared_memory: SharedMemory | Literal["memfd", "named"] | None = None,
    options: WriteOptions = _STREAM,
    limits: Limits | None = None,
    token: str | None = None,
    credit_nbytes: int | None = None,
    keep_nbytes: int = KEEP_NBYTES,
    parts: int = 1,
    max_clients: int = 256,
    timeout: float = 600.0,
) -> Server:
    """Serve tables to the clients of `ipc.connect`, in threads of this process, until the server is closed.

    Parameters
    ----------
    tables
        By ticket: a source for `ipc.open`, at least one record batch, or a function that opens a `Table`. Files are
        opened for each client, or read once into shared memory.
    listen
        ``dissociated+tcp://host:port`` (port 0: a free one) or ``dissociated+unix:///path/of/socket``.
    shared_memory
        ``memfd`` (unix sockets only), ``named``, or None: bodies go through the socket.
    options
        The encoding of streams: ``compression`` of bodies in the socket, ``dictionaries`` and so on.
    limits
        Budgets of the files.
    token
        A secret that clients must send. Hosts other than the loopback need one.
    credit_nbytes
        The most bytes of shared memory that a client may hold; further bodies go through the socket.
    keep_nbytes
        The most bytes of memory to cache messages that went through the socket, for the next client. Messages of local
        files (as long as these do not change), bytes and record batches are cached; 0 caches nothing.
    parts
        The number of parts that URIs advise readers to read a table in at once (``of=``).
    max_clients
        The most clients at once.
    timeout
        Seconds after which a client that receives nothing, or frees nothing, is disconnected.

    Raises
    ------
    OptionError
        The host needs a token, or ``memfd`` a unix socket.
    ArrowIpcError, OSError
        A table cannot be read, the address is taken, or the shared memory is full.
    """
    memory = None if shared_memory is None else SharedMemory(shared_memory)
    if options.format != "stream":
        options = replace(options, format="stream")
    if memory is not None and options.codec is not None:
        raise OptionError("compression is for bodies that go through a socket; leave it or shared_memory out")
    if not 1 <= parts <= MAX_PARTS:
        raise OptionError(expected=f"1 to {MAX_PARTS:,} parts", found=f"{parts:,}")
    listening = _listen(parse_address(listen), memory, token)
    region = None
    try:
        sources = {
            ticket.encode() if isinstance(ticket, str) else ticket: _source(table, limits or Limits())
            for ticket, table in tables.items()
        }
        cache = MessageCache[Outgoing](keep_nbytes)
        served: dict[bytes, OutgoingTable] = {t: StreamedTable(s, options, cache) for t, s in sources.items()}
        if memory is not None:
            served, region = _share(sources, options, memory)
        service = Service(
            served,
            # Random, so that a client needs the URI.
            **{tag: secrets.randbits(63) for tag in TAGS},
            parts=parts,
            token=None if token is None else TokenCheck(token),
            credit_nbytes=credit_nbytes,
            max_clients=max_clients,
            timeout=timeout,
        )
        return Server(listening, service, region)
    except BaseException:
        listening.opened.close()
        if listening.location.scheme == UNIX:
            os.unlink(listening.location.path)  # noqa: PTH108
        if region is not None:
            region.close()
        raise


def _share(
    sources: Mapping[bytes, TableSource], options: WriteOptions, memory: SharedMemory
) -> tuple[dict[bytes, OutgoingTable], Region]:
    """Read all tables into one region."""
    writer = RegionWriter(memory)
    try:
        shared = {ticket: SharedTable(source, options, writer) for ticket, source in sources.items()}
        region = writer.freeze()
    except BaseException:
        writer.discard()
        raise
    for table in shared.values():
        table.attach(region)
    return dict(shared), region


def _source(table: Servable, limits: Limits) -> TableSource:
    if hasattr(table, "selects"):
        return cast("TableSource", table)
    if callable(table):
        return FunctionTable(table)
    if (
        isinstance(table, str | os.PathLike | bytes | bytearray | memoryview)
        or hasattr(table, "read_at")
        or hasattr(table, "read")
    ):
        return FileTable(cast("Openable", table), limits)
    batches = tuple(cast("Iterable[RecordBatch]", table))
    if not batches:
        raise OptionError(expected="at least one record batch, whose schema is sent", found="none")
    return BatchesTable(batches)


def _listen(location: Location, memory: SharedMemory | None, token: str | None) -> _Listening:
    """Bind and listen."""
    if location.scheme == UNIX:
        return _Listening(_listen_unix(location.path), location)
    if memory is SharedMemory.MEMFD:
        raise OptionError(
            expected=f"{UNIX}:///path/of/socket for shared_memory=memfd: only such a socket passes descriptors",
            found=location.address,
        )
    family, kind, number, _, address = socket.getaddrinfo(
        location.host, location.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    if token is None and not ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback:
        raise OptionError(
            expected="a token where the host is not the loopback: want_data is a number, and no authentication",
            found=f"none for {location.address}",
        )
    opened = socket.socket(family, kind, number)
    try:
        # A new server may follow an old one at once.
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
        opened.listen(socket.SOMAXCONN)
    except BaseException:
        opened.close()
        raise
    return _Listening(opened, replace(location, port=opened.getsockname()[1], ticket=None))


def _listen_unix(path: str) -> socket.socket:
    opened = socket.socket(socket.AF_UNIX)
    try:
        # The mode of the name that `bind` makes, so that other users cannot connect.
        os.fchmod(opened.fileno(), 0o600)
        try:
            opened.bind(path)
        except OSError:
            if not _is_abandoned(path):
                raise
            os.unlink(path)  # noqa: PTH108
            opened.bind(path)
        opened.listen(socket.SOMAXCONN)
    except BaseException:
        opened.close()
        raise
    return opened


def _is_abandoned(path: str) -> bool:
    """Return True for the name of a socket whose server has ended."""
    # A connection to another kind of file is refused as well.
    if not stat.S_ISSOCK(os.lstat(path).st_mode):
        return False
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False
