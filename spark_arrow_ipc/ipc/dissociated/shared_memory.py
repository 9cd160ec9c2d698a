"""Shared memory that a server writes once and its clients map: an unnamed file, or one below ``/dev/shm``.

Offsets count from the start of the region, whose first bytes are a random number that identifies it. A peer sends only
offsets into a region of proven size, never addresses.
"""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import re
import secrets
import stat
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np

from spark_arrow_ipc.bounded_json import parse_json
from spark_arrow_ipc.errors import InvalidBodyError, InvalidFramingError, UnsupportedError
from spark_arrow_ipc.ipc.columns.encode import BytesLike
from spark_arrow_ipc.ipc.constants import NO_BYTES, Int64s

_FOLDER: Final = "/dev/shm"  # noqa: S108 - shared memory, and no temporary file
_PREFIX: Final = "arrowipc-"
_NAME: Final = re.compile(r"arrowipc-[0-9a-f]{32}")
_NONCE_NBYTES: Final = 16
# Bodies begin at its multiples, the first one after the random number, so that no offset is 0.
_ALIGNMENT: Final = 64

# fcntl of Python 3.11 lacks some of these.
_F_ADD_SEALS: Final = 1033
_F_GET_SEALS: Final = 1034
_F_SEAL_SEAL, _F_SEAL_SHRINK, _F_SEAL_GROW, _F_SEAL_WRITE = 1, 2, 4, 8
# Nobody can truncate the file, which would kill its readers, or change bytes that they have checked
_NEEDED_SEALS: Final = _F_SEAL_SHRINK | _F_SEAL_WRITE

_WRITE_NBYTES: Final = 1 << 20


class SharedMemory(StrEnum):
    """The kinds of shared memory for bodies."""

    MEMFD = "memfd"
    """An unnamed file whose descriptor goes through a unix socket."""
    NAMED = "named"
    """A file below ``/dev/shm``, which every process of the user can open."""


@dataclass(frozen=True, slots=True)
class Handle:
    """The ``remote_handle`` of a URI, by which a client reaches a region."""

    kind: SharedMemory
    nbytes: int
    nonce: bytes

    @property
    def path(self) -> str:
        """The path of a named region."""
        return f"{_FOLDER}/{_PREFIX}{self.nonce.hex()}"

    def encode(self) -> bytes:
        """Return the handle as bytes."""
        values = {"kind": self.kind.value, "size": self.nbytes, "nonce": self.nonce.hex()}
        return json.dumps(values, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: bytes) -> Handle:
        """Return the handle of a URI."""
        with suppress(ValueError):
            values = parse_json(data[:1000])
            if isinstance(values, dict) and _is_sound(values):
                return cls(SharedMemory(values["kind"]), values["size"], bytes.fromhex(values["nonce"]))
        raise UnsupportedError(
            f"the remote_handle {data[:60]!r}: this release reads shared memory of its own kinds, "
            f"{' and '.join(SharedMemory)}"
        )


def _is_sound(values: dict[str, object]) -> bool:
    nonce, nbytes = values.get("nonce"), values.get("size")
    return (
        values.get("kind") in tuple(SharedMemory)
        and isinstance(nbytes, int)
        and _NONCE_NBYTES <= nbytes < 1 << 62
        and isinstance(nonce, str)
        and _NAME.fullmatch(_PREFIX + nonce) is not None
    )


class Region:
    """A complete region, from `RegionWriter.freeze`."""

    def __init__(self, descriptor: int, handle: Handle) -> None:
        self.descriptor = descriptor
        self.handle = handle
        self._mapping = _map(descriptor, handle.nbytes)
        self._is_open = True

    def view(self, offset: int, nbytes: int) -> memoryview:
        """Return bytes of the region."""
        return memoryview(self._mapping)[offset : offset + nbytes]

    def close(self) -> None:
        """Remove the region's name and this process's mapping; clients' mappings stay until they drop them."""
        if self._is_open:
            self._is_open = False
            if self.handle.kind is SharedMemory.NAMED:
                with suppress(FileNotFoundError):
                    os.unlink(self.handle.path)  # noqa: PTH108 - a name that needs no Path
            os.close(self.descriptor)
            with suppress(BufferError):  # a thread that still sends has a view, which keeps the mapping until then
                self._mapping.close()


class RegionWriter:
    """Writes a region from its start to its end."""

    def __init__(self, kind: SharedMemory) -> None:
        self._kind = kind
        self._nonce = secrets.token_bytes(_NONCE_NBYTES)
        if kind is SharedMemory.MEMFD:
            descriptor = os.memfd_create("arrowipc", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        else:
            remove_abandoned()
            # Without a name before `freeze`, so that a process that dies leaves nothing.
            descriptor = os.open(_FOLDER, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
            # Shows other processes that the owner lives, as the kernel releases the lock with the process.
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        self._descriptor = descriptor
        self._file = open(descriptor, "wb", buffering=_WRITE_NBYTES, closefd=False)  # noqa: SIM115
        self._nbytes = 0
        self._write(self._nonce)

    def append(self, pieces: Iterable[BytesLike]) -> int:
        """Append a body; return its offset, a multiple of 64."""
        self._write(bytes(-self._nbytes % _ALIGNMENT))
        start = self._nbytes
        for piece in pieces:
            self._write(piece)
        return start

    def _write(self, piece: BytesLike) -> None:
        self._file.write(piece)
        self._nbytes += len(piece)

    def freeze(self) -> Region:
        """Return the region, which cannot change any more, and give a named one its name."""
        self._file.close()
        handle = Handle(self._kind, self._nbytes, self._nonce)
        if self._kind is SharedMemory.MEMFD:
            seals = _F_SEAL_SEAL | _F_SEAL_SHRINK | _F_SEAL_GROW | _F_SEAL_WRITE
            fcntl.fcntl(self._descriptor, _F_ADD_SEALS, seals)
        else:
            os.fchmod(self._descriptor, 0o400)
            folder = os.open(_FOLDER, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                # Python lets `link` follow /proc's link only with a descriptor of the folder.
                source, target = f"/proc/self/fd/{self._descriptor}", handle.path
                os.link(source, target, dst_dir_fd=folder, follow_symlinks=True)
            finally:
                os.close(folder)
        return Region(self._descriptor, handle)

    def discard(self) -> None:
        """Drop the region."""
        with suppress(OSError):
            self._file.close()
        os.close(self._descriptor)


def remove_abandoned() -> int:
    """Remove the named regions of servers that were killed; return their number."""
    # Regions in use are locked.
    removed = 0
    for name in os.listdir(_FOLDER):  # noqa: PTH208 - names
        if _NAME.fullmatch(name) is None:
            continue
        path = f"{_FOLDER}/{name}"
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue  # another user's, or removed meanwhile
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(path)  # noqa: PTH108
            removed += 1
        except OSError:
            continue
        finally:
            os.close(descriptor)
    return removed


class Attached:
    """A region of a server, mapped for reading until its last view is dropped."""

    def __init__(self, mapping: mmap.mmap) -> None:
        self._mapping = mapping
        self.nbytes = len(mapping)

    def views(self, pairs: Int64s, released: Callable[[list[int]], None] | None) -> tuple[memoryview, ...]:
        """Return a view of each buffer, without a copy, by pairs of offset and bytes that `decode_pairs` has checked.

        `released` is called with the offsets in the thread that drops the last view.
        """
        places = pairs.tolist()
        offsets = [start for start, nbytes in places if nbytes]
        if not offsets:
            return (NO_BYTES,) * len(places)
        begin = min(offsets)
        stop = max(start + nbytes for start, nbytes in places if nbytes)
        # All views of a batch refer to this one array, so that its finalizer runs after the last view.
        window = np.frombuffer(self._mapping, np.uint8, stop - begin, begin)
        if released is not None:
            weakref.finalize(window, released, offsets).atexit = False
        data = window.data
        return tuple(data[start - begin : start - begin + n] if n else NO_BYTES for start, n in places)


def attach(handle: Handle, descriptor: int | None = None) -> Attached:
    """Map a region for reading; the caller closes the descriptor of an unnamed one."""
    if handle.kind is SharedMemory.NAMED:
        opened = os.open(handle.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            return _attach(handle, opened)
        finally:
            os.close(opened)
    if descriptor is None:
        raise InvalidFramingError(expected="the descriptor of the shared memory", found="none")
    try:
        seals = fcntl.fcntl(descriptor, _F_GET_SEALS)
    except OSError:
        seals = 0
    if seals & _NEEDED_SEALS != _NEEDED_SEALS:
        raise InvalidFramingError(
            expected="shared memory that is sealed against truncation and writes (F_SEAL_SHRINK, F_SEAL_WRITE)",
            found=f"seals 0x{seals:x}",
        )
    return _attach(handle, descriptor)


def _attach(handle: Handle, descriptor: int) -> Attached:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_size != handle.nbytes:
        raise InvalidBodyError(
            expected=f"shared memory of {handle.nbytes:,} bytes, a file of this user",
            found=f"{status.st_size:,} bytes, mode 0{status.st_mode:o}, of user {status.st_uid}",
        )
    mapping = _map(descriptor, handle.nbytes)
    if mapping[:_NONCE_NBYTES] != handle.nonce:
        raise InvalidBodyError(expected="the shared memory of this server", found="another's")
    return Attached(mapping)


def _map(descriptor: int, nbytes: int) -> mmap.mmap:
    # Private, as Linux before 6.7 requires for files sealed against writes; pages are shared nevertheless.
    return mmap.mmap(descriptor, nbytes, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
