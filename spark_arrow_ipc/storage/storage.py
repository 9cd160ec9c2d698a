"""`Storage`: the protocol of all storages of data files, their differences (`Traits`), and `each`.

Data files, log entries and staged files are reached only by these calls. Paths are absolute strings with ``/`` between
their parts; `resolve` converts a user's path. `Traits` names the properties that a storage lacks, so that callers leave
out a step instead of failing.

A call that fails leaves either the state before it or the state after it, never half of a file under its name. Errors
are builtin ones (`OSError`) of one line with the path, without values of options.

To add a storage:

1. A class with these calls. One behind a network begins with `RemoteStorage` (``base.py``), and reads by a `RemoteSource`; one
   on this machine, without links, with `LearnsByDoing`.
2. Its schemes in `_PLACES`, and its `Place`, in ``paths.py``; its row in `_STORAGES` (``open.py``), which imports it late.
3. A branch in `made`, and its name in `WRITABLE` (``tests/storage/test_storage.py``): one suite runs over every storage. A test
   file of its own, and, if it moves or deletes, the rows that ``tests/test_links.py`` asks for.
4. Its scheme in the table of ``docs/object_stores.md``, and the options ``storage.*`` that it knows: it refuses all others.
5. Write, read and stream with it in Spark, into a root that does not exist yet: the suite begins in one that does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from itertools import islice
from time import perf_counter
from typing import BinaryIO, Final, NamedTuple, Protocol, TypeVar

from spark_arrow_ipc.storage.byte_source import ByteSource


class Kind(Enum):
    """The kinds of objects that a path names."""

    FILE = auto()
    DIRECTORY = auto()
    SPECIAL = auto()
    """A pipe, socket or device."""
    DANGLING = auto()
    """A link to a missing file, in listings; `Storage.status` follows it, and returns None."""
    LINK = auto()
    """A link that was not followed."""


class Status(NamedTuple):
    """The state of one path. A named tuple, because a listing returns 100,000.

    Parameters
    ----------
    path
        The path of the call, or the directory's with the name appended.
    kind
        Links are followed by default.
    nbytes, mtime_ns
        Size, and time of the last modification in nanoseconds since 1970. Listings leave them 0 for directories.
    is_link
        Whether the path itself is a link.
    identity
        Equal for two paths of one file or directory; None in listings, and in storages without it.
    ctime_ns
        Time of the last change of the file or its metadata, which no program can set back; 0 in listings, and in
        storages without it.
    version
        Text that differs whenever the bytes do (an ETag), in listings too; empty in storages without it.
    """

    path: str
    kind: Kind
    nbytes: int = 0
    mtime_ns: int = 0
    is_link: bool = False
    identity: tuple[int, int] | None = None
    ctime_ns: int = 0
    version: str = ""


@dataclass(frozen=True, slots=True)
class Traits:
    """The properties of a storage.

    Parameters
    ----------
    directories
        Directories exist apart from the files in them: they are made, can be empty, and `sync` makes their names
        durable. Elsewhere (object stores) a directory is a prefix of names.
    renames
        `Storage.publish` moves the staged file. Elsewhere it makes a copy, which may complete after its caller ended,
        and the staged file stays until it is deleted.
    waits
        Every call waits for a network, about 30 ms, so that callers make several at once.
    """

    directories: bool
    renames: bool = True
    waits: bool = False

    @property
    def may_come_late(self) -> bool:
        """True if the storage may still carry out a request for which its caller got an error, at any later time."""
        return self.waits or not self.renames


Choose = Callable[[Sequence[str]], Iterable[str]]
"""Callback that gets all names in a directory, and returns some of them."""


class Storage(Protocol):
    """Files by path. Every call may raise `OSError`, for a missing path `FileNotFoundError`."""

    @property
    def traits(self) -> Traits:
        """The properties of this storage."""

    def inside(self, directory: str | None) -> Storage:
        """Return the storage of paths at or below a directory, or of all paths for None, which follows no link below it.

        Paths stay absolute. A directory below it that is a link is a `CommitError` with its path at any time: no user
        who may write into the directory can redirect a call. New directories take the mode of the one above them. A
        storage without links returns itself.
        """

    def resolve(self, path: str | os.PathLike[str]) -> str:
        """Return the absolute path that a user's path or URI names.

        Raises
        ------
        OptionError
            It is not a path.
        UnsupportedError
            It is in another storage.
        """

    def real_path(self, path: str) -> str:
        """Return a path with all links on it followed, as far as it exists."""

    def unique_path(self, path: str) -> str:
        """Return one text for all spellings of a path, to compare two; it may not be a path to read."""

    def status(self, path: str, *, follow_links: bool = True) -> Status | None:
        """Return the state of a path, or None if it does not exist."""

    def list(self, directory: str) -> Iterator[Status]:
        """Yield the state of every name in a directory, in no order, links followed, without files that vanish meanwhile.

        A missing directory is empty if directories are prefixes.
        """

    def list_chosen(self, directory: str, choose: Choose) -> Iterator[Status]:
        """Yield the states that `list` does, of the names that a callback chooses; a disk is asked for no others."""

    def open(self, path: str, *, memory_map: bool = False, listed: Status | None = None) -> ByteSource:
        """Return the byte ranges of a file.

        Parameters
        ----------
        path
            The file.
        memory_map
            True to read through the page cache.
        listed
            Its state in a listing: a storage that waits makes no request for it again, and a file that was replaced
            since is a `FileChangedError` or a `FileNotFoundError` when it is read.
        """

    def read(self, path: str, max_nbytes: int) -> bytes:
        """Return the bytes of a small file.

        Raises
        ------
        LimitError
            It is larger; nothing is read.
        UnsupportedError
            It is not a regular file but a link, a directory, a pipe, a socket or a device.
        """

    def create(self, path: str) -> BinaryIO:
        """Create a new file, whose bytes may be visible before it is closed; with `Traits.directories` its directory exists."""

    def scratch_file(self, directory: str) -> BinaryIO:
        """Return an unnamed file near a directory, to write and read, which vanishes when it is closed."""

    def put(self, path: str, data: bytes, *, durable: bool = False, scratch: str | None = None) -> None:
        """Write or replace a small file in one step.

        Parameters
        ----------
        path, data
            The file.
        durable
            True if its bytes must survive a power loss when this returns; its name does after `sync`.
        scratch
            Directory for the incomplete file, by default its own.
        """

    def put_if_absent(self, path: str, data: bytes, *, durable: bool = False) -> bool:
        """Write a small file in one step, and return False if it exists already.

        Of all calls for one path at once, in any process on any machine, exactly one returns True. After an error the
        file may exist or not.
        """

    def check_takes_changes(self, path: str) -> None:
        """Raise UnsupportedError, without a request, if this storage is for reading only."""

    def check_put_if_absent(self, directory: str) -> None:
        """Raise if `put_if_absent` cannot work for files on the file system of a directory, which must exist.

        Raises
        ------
        UnsupportedError
            It lacks the necessary operation; nothing is left in the directory.
        """

    def check_writable(self, directory: str) -> None:
        """Raise an OSError with the path if files cannot be made and deleted in a directory, as far as a check can tell."""

    def check_publish(self, staging: str, finals: Sequence[str]) -> None:
        """Raise if `publish` cannot move files of a directory to some paths, as far as a check can tell.

        Their directories need not exist yet.

        Raises
        ------
        OSError
            Another device, a missing permission, a path that is too long. The error has the path.
        """

    def check_delete(self, paths: Sequence[str]) -> None:
        """Raise an OSError with the path if existing files cannot be deleted, as far as a check can tell."""

    def publish(self, staged: str, final: str) -> bool:
        """Give a staged file its final name in one step; without `Traits.renames` the staged file stays as well.

        Returns
        -------
        bool
            True if another copy of the file, whose request had no answer, may still run.
        """

    def give_back(self, moved: str, path: str) -> bool:
        """Give a moved file its earlier path again, or return False if another file has it; needs `Traits.renames`."""

    def delete(self, path: str) -> None:
        """Delete a file if it exists."""

    def delete_all(self, paths: Sequence[str]) -> None:
        """Delete files, if they exist, with few requests; after an error some may be left."""

    def delete_tree(self, directory: str) -> None:
        """Delete a directory, if it exists, with its contents; links in it are not followed."""

    def make_directory(self, directory: str) -> None:
        """Make a directory and those above it, if they do not exist."""

    def delete_directory_if_empty(self, directory: str) -> None:
        """Delete a directory if it is empty, and keep it if that fails."""

    def sync_file(self, file: BinaryIO) -> None:
        """Make the bytes of an open file from `create` durable."""

    def sync(self, directory: str) -> None:
        """Make the names in a directory, if it exists, durable."""


class _Discarded(Exception):  # noqa: N818 - not an error, and never seen
    pass


def discard(file: BinaryIO) -> None:
    """Close a file, if it is open, whose bytes are not needed; a local file stays for the caller to delete."""
    # By an error in its ``with`` block, after which an object store shows no object.
    if not file.closed:
        with suppress(OSError, _Discarded), file:
            raise _Discarded


# ---- many calls
#
# On a local disk a rename takes microseconds, and threads only compete for the directory's lock; on network storage each
# call waits for milliseconds. The first calls are timed to tell the two apart, unless the storage is known to wait.

_THREADS: Final = 32
_THREADS_THAT_WAIT: Final = 64
# Number of calls that are timed before threads are started.
_SAMPLE: Final = 32

# Mean duration of calls that wait: a local rename takes 0.00004 s, one over a network 0.001 s.
_SLOW_SECONDS: Final = 0.0005

_Item = TypeVar("_Item")


def each(
    call: Callable[[_Item], object],
    items: Sequence[_Item],
    *,
    waits: bool = False,
    slow_seconds: float | None = None,
    most: int | None = None,
) -> None:
    """Call a function for each item, at most `most` calls at once; raise the first error when all started calls have ended."""
    # Calls that are known to wait run at once, from the first one on.
    if waits:
        _in_threads(call, items, min(_THREADS_THAT_WAIT if most is None else most, len(items)))
        return
    slow = _SAMPLE * (_SLOW_SECONDS if slow_seconds is None else slow_seconds)
    start = perf_counter()
    for item in items[:_SAMPLE]:
        call(item)
    rest = islice(items, _SAMPLE, None)
    if perf_counter() - start < slow:
        for item in rest:
            call(item)
        return
    if len(items) <= _SAMPLE:
        return
    _in_threads(call, rest, _THREADS if most is None else most)


def _in_threads(call: Callable[[_Item], object], items: Iterable[_Item], threads: int) -> None:
    # A pool of one would only add switches.
    if threads <= 1:
        for item in items:
            call(item)
        return
    # A pool for each call: jobs make a few such calls, and idle threads would hold memory.
    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(call, item) for item in items]
        try:
            for future in futures:
                future.result()
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
