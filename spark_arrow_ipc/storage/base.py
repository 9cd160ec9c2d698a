"""Parts of storages behind a network: base classes, the connections of a process, errors without secrets, and bytes.

A request waits about 30 ms for its first byte, and one connection carries about 90 MB/s. So several threads read the
pieces of a long range at once.
"""

from __future__ import annotations

import errno
import html
import json
import os
import re
import tempfile
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import starmap
from threading import Lock
from typing import BinaryIO, ClassVar, Final, Generic, NoReturn, Self, TypeAlias, TypeVar, cast
from urllib.parse import quote

from spark_arrow_ipc.errors import FileChangedError, LimitError, OptionError, UnsupportedError, did_you_mean, printable
from spark_arrow_ipc.storage.byte_source import ExactReads, new_buffer
from spark_arrow_ipc.storage.paths import name_of
from spark_arrow_ipc.storage.storage import Choose, Status, Storage

StorageOptions: TypeAlias = tuple[tuple[str, str], ...]
"""Names without the prefix, and values."""

PREFIX: Final = "storage."

_T = TypeVar("_T")


class LearnsByDoing:
    """A storage without links and checks beforehand: its answer to a change tells whether that worked, and is durable.

    A directory is a prefix of names: it needs no creation, and is never empty.
    """

    __slots__ = ()

    def inside(self, directory: str | None) -> Self:  # noqa: ARG002 - without links
        """Return this storage, which has no links."""
        return self

    def real_path(self, path: str) -> str:
        """Return the path, which has no links."""
        return path

    def unique_path(self, path: str) -> str:
        """Return the path, which has one spelling."""
        return path

    def list_chosen(self: Storage, directory: str, choose: Choose) -> Iterator[Status]:
        """Yield the states of some names in a directory, from a listing of all."""
        statuses = {name_of(status.path): status for status in self.list(directory)}
        for name in choose(tuple(statuses)):
            yield statuses[name]

    def scratch_file(self, directory: str) -> BinaryIO:  # noqa: ARG002 - of this machine
        """Return an unnamed file in the temporary directory of this machine."""
        return cast("BinaryIO", tempfile.TemporaryFile())

    def check_takes_changes(self, path: str) -> None:
        """Do nothing."""

    def check_put_if_absent(self, directory: str) -> None:
        """Do nothing."""

    def check_writable(self, directory: str) -> None:
        """Do nothing."""

    def check_publish(self, staging: str, finals: Sequence[str]) -> None:
        """Do nothing."""

    def check_delete(self, paths: Sequence[str]) -> None:
        """Do nothing."""

    def delete_all(self: Storage, paths: Sequence[str]) -> None:
        """Delete files, one by one; missing ones do not matter."""
        for path in paths:
            self.delete(path)

    def make_directory(self, directory: str) -> None:
        """Do nothing."""

    def delete_directory_if_empty(self, directory: str) -> None:
        """Do nothing."""

    def sync_file(self, file: BinaryIO) -> None:
        """Do nothing."""

    def sync(self, directory: str) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class RemoteStorage(LearnsByDoing):
    """A storage behind a network, reached by options, without their prefix, that may be secrets."""

    options: StorageOptions = ()

    def __repr__(self) -> str:
        """Show the names of the options, and no value."""
        return f"{type(self).__name__}({', '.join(printable(name) for name, _ in self.options)})"


@dataclass(frozen=True, slots=True, repr=False)
class ReadOnlyStorage(RemoteStorage):
    """A storage behind a network that refuses every change, and every check for one."""

    reason: ClassVar[str]

    def _refuse(self, *args: object, **_: object) -> NoReturn:
        # The last path is the one to change, as in publish(staged, final).
        named = [each for each in args if isinstance(each, str)][-1:]
        # Of a list of paths the first one stands for all.
        named = named or [path for paths in args if isinstance(paths, Sequence) for path in paths][:1]
        raise UnsupportedError(self.reason, path=named[0] if named else None)

    create = scratch_file = put = put_if_absent = publish = give_back = _refuse
    delete = delete_all = delete_tree = make_directory = delete_directory_if_empty = sync_file = sync = _refuse
    check_put_if_absent = check_writable = check_publish = check_delete = check_takes_changes = _refuse


class Connections(Generic[_T]):
    """The connections of this process, by key.

    `not_forked` names a library that a forked process cannot use: it lacks its parent's threads, and calls would wait
    for ever. If it is empty, a forked process makes connections of its own.
    """

    def __init__(self, not_forked: str = "") -> None:
        self._not_forked = not_forked
        # A child inherits its parent's connections, and must neither use nor close them.
        self._by_process: dict[int, dict[Hashable, _T]] = {}

    def get(self, key: Hashable, make: Callable[[], _T], path: str) -> _T:
        """Return the connection of a key, and make it at the first call."""
        of_process = self._by_process.get(os.getpid())
        if of_process is None:
            if self._by_process and self._not_forked:
                raise UnsupportedError(
                    f"this process was forked from one that had used {self._not_forked} cannot be used here; start "
                    "processes with multiprocessing's method spawn or forkserver",
                    path=path,
                )
            of_process = {}
        connection = of_process.get(key)
        if connection is None:
            # Threads may make one twice: the first one stays, and the other is dropped.
            connection = of_process.setdefault(key, make())
            # After the connection, so that an error leaves no empty entry, which would hide a fork.
            self._by_process.setdefault(os.getpid(), of_process)
        return connection


# ---- options and errors, which hold no value of an option

# Values of options that are never secret: the address of a server without a user, a flag, a number, a region of a
# cloud.
_HARMLESS: Final = re.compile(
    r"https?://[A-Za-z0-9._-]+(:\d+)?|true|false|\d{1,5}(ms|s|m|h)?|[a-z]{2}(-[a-z]+)+-\d{1,2}"
)

_USER: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://([^/@]*:?[^@]*)@")

# Parts of a value that a library may show, such as a line of a key or a string of a JSON object
_WORD: Final = re.compile(r"[^\s\"'{}\[\],\\]{8,}")

# Fewest characters of a value that is searched in texts; shorter values are part of words.
_LEAST_SECRET: Final = 4

# Most characters of an error of a library
_MOST_CHARACTERS: Final = 400


def without_secrets(text: str, options: StorageOptions) -> str:
    """Return a text with three stars for each value of an option, and for each part that a library may show."""
    hidden: set[str] = set()
    for part in (part for _, value in options for part in _secret_parts(value)):
        # As URLs, JSON, Python, XML and people write it.
        hidden |= {part, quote(part), quote(part, safe=""), json.dumps(part)[1:-1], repr(part)[1:-1], html.escape(part)}
    for part in sorted(hidden, key=len, reverse=True):  # a part of another would leave the rest of that
        text = text.replace(part, "***")
    return text


def _secret_parts(value: str) -> Iterator[str]:
    # By the value's form and not the option's name: a secret may stand in an option of any name.
    if _HARMLESS.fullmatch(value) is not None or len(value) < _LEAST_SECRET:
        return
    yield value
    for user in _USER.findall(value):
        yield from (part for part in (user, user.partition(":")[2]) if len(part) >= _LEAST_SECRET)
    # Keys of letters and digits have no parts.
    if not value.isalnum():
        yield from (word for word in _WORD.findall(value) if _HARMLESS.fullmatch(word) is None)


def unknown_option(name: str, names: Iterable[str], of: str, otherwise: str) -> OptionError:
    """Return the error of an unknown option, with similar names or, without any, another hint."""
    hint = did_you_mean(name, names, show=PREFIX.__add__, most=1) or otherwise
    return OptionError(f"there is no option {PREFIX}{name[:100]} for {of}; {hint}")


def one_line(text: str, options: StorageOptions = ()) -> str:
    """Return a library's text on one line of at most 400 characters, without a secret."""
    text = without_secrets(" ".join(text.split()), options)
    return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 3] + "..."


def missing(path: str) -> FileNotFoundError:
    """Return the error of a missing file."""
    return FileNotFoundError(errno.ENOENT, "No such file", path)


def replacement_error(path: str, thing: str = "file") -> FileChangedError:
    """Return the error of a file that was replaced after it was listed."""
    return FileChangedError(f"the {thing} was replaced after it was listed; read the path again", path=path)


def check_small(path: str, nbytes: int, max_nbytes: int) -> None:
    """Raise if a file that is read at once is too large."""
    if nbytes > max_nbytes:
        raise LimitError(expected=f"a file of at most {max_nbytes:,} bytes", found=f"{nbytes:,}", path=path)


# ---- bytes

TAIL_NBYTES: Final = 64 << 10
"""Holds every footer with statistics of the tests' files, and costs as much as 8 KiB: the wait is longer than the transfer."""

PIECE_NBYTES: Final = 8 << 20
"""Bytes of one request of a long range."""

# Requests of one source at once
_THREADS: Final = 8


class RemoteSource(ExactReads):
    """A remote file, read with ranged requests. Several threads may read at once."""

    waits = True

    def __init__(self, fetch: Callable[[int, memoryview], None], path: str, nbytes: int) -> None:
        # Fills memory with the bytes from an offset on, of the listed version; its errors reach the caller of the reader.
        self._fetch = fetch
        self.path: str | None = path
        self.nbytes: int | None = nbytes
        self._tail_start = max(0, nbytes - TAIL_NBYTES)
        self._tail: memoryview | None = None
        self._lock = Lock()
        self._pool: ThreadPoolExecutor | None = None

    def read_up_to(self, byte_offset: int, nbytes: int) -> memoryview:
        """Return the bytes from `byte_offset` on, at most `nbytes`. One request for each 8 MiB, 8 at once."""
        assert self.nbytes is not None
        stop = min(byte_offset + nbytes, self.nbytes)
        if stop <= byte_offset:
            return memoryview(b"")
        if byte_offset >= self._tail_start:
            # Fetched once: the footer of almost all files, and all bytes of a small one.
            tail = self._read_tail()
            return tail[byte_offset - self._tail_start : stop - self._tail_start]
        data = new_buffer(stop - byte_offset)
        if len(data) <= PIECE_NBYTES:
            self._fetch(byte_offset, data)
        else:
            starts = range(0, len(data), PIECE_NBYTES)
            pieces = [(byte_offset + start, data[start : start + PIECE_NBYTES]) for start in starts]
            list(self._threads().map(self._fetch, *zip(*pieces, strict=True)))
        return data.toreadonly()

    def read_into(self, byte_offset: int, into: memoryview) -> None:
        """Fill `into` by one request."""
        assert self.nbytes is not None
        # Into the caller's memory as they arrive: a large body is never held twice.
        if byte_offset + len(into) > self._tail_start:
            super().read_into(byte_offset, into)
        else:
            self._fetch(byte_offset, into)

    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        """Return each (byte offset, nbytes), several at once."""
        if len(ranges) < 2 or any(nbytes > PIECE_NBYTES for _, nbytes in ranges):
            return list(starmap(self.read_at, ranges))
        # Not by one call of the library, which joins neighbours into one long request and reads the bytes between them.
        return list(self._threads().map(self.read_at, *zip(*ranges, strict=True)))

    def close(self) -> None:
        """Drop all memory and requests without a wait; reads after it fail."""
        pool, self._pool = self._pool, None
        if pool is not None:
            # Requests that run already end by themselves, without a wait for them.
            pool.shutdown(wait=False, cancel_futures=True)
        self._tail = None

    def _read_tail(self) -> memoryview:
        with self._lock:
            if self._tail is None:
                assert self.nbytes is not None
                tail = new_buffer(self.nbytes - self._tail_start)
                self._fetch(self._tail_start, tail)
                self._tail = tail.toreadonly()
            return self._tail

    def _threads(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(_THREADS, "arrowipc-ranges")
            return self._pool
