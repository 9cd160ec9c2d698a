"""`Storage`: the protocol of everything that holds data files, what differs between kinds of it, and `each`.

Data files, commit records and staged files are reached through these calls and no others. Paths are absolute strings
with ``/`` between their parts; `resolve` makes one of what a person wrote. `Traits` says what a storage does not have,
so that a step which means nothing there is left out instead of failing.

A call that fails leaves either the state before it or the state after it, never half of a file under its name. Errors are
builtin ones (`OSError`) of one line with the path, and hold no value of an option.

To add a storage:

1. A class with these calls. One behind a network begins with `RemoteStorage` (``base.py``), and reads by a `RemoteSource`; one
   on this machine, without links, with `LearnsByDoing`.
2. Its schemes in `_PLACES`, and its `Place`, in ``paths.py``; its row in `_STORAGES` (``open.py``), which imports it late.
3. A branch in `made`, and its name in `WRITABLE` (``tests/storage/test_storage.py``): one suite runs over every storage. A test
   file of its own, and, if it moves or deletes, the rows that ``tests/test_links.py`` asks for.
4. Its scheme in the table of ``docs/object_stores.md``, and the options ``storage.*`` that it knows: it refuses all others.
5. Write, read and stream with it in Spark, into a root that is not there yet: the suite begins in a directory that is.
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
    """The kinds of things that a path names."""

    FILE = auto()
    DIRECTORY = auto()
    SPECIAL = auto()
    """A pipe, socket or device."""
    DANGLING = auto()
    """A link that leads nowhere; a directory's listing has it, `Storage.status` follows it to nothing."""
    LINK = auto()
    """A link, where links are not followed."""


class Status(NamedTuple):
    """The state of one path. A named tuple, because a listing makes 100,000 of them.

    Parameters
    ----------
    path
        As it was asked for, or the directory's with the name appended.
    kind
        Links are followed, unless `Storage.status` is told not to.
    nbytes, mtime_ns
        Size, and time of the last modification in nanoseconds since 1970. Listings leave them 0 for directories.
    is_link
        Whether the path itself is a link.
    identity
        Equal for two paths of one file or directory; None where a storage has no such thing, and in listings.
    ctime_ns
        Time of the last change of the file or of what is known of it, which no program can set back; 0 where a
        storage has no such thing, and in listings.
    version
        Text that differs whenever the bytes do (an ETag), in listings too; empty where a storage has no such thing.
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
        `Storage.publish` moves the staged file. Elsewhere it makes a copy, which may still end after its caller did,
        and the staged file stays until it is deleted.
    waits
        Every call waits for a network: 30 ms, whatever it does. Callers have several under way at once.
    """

    directories: bool
    renames: bool = True
    waits: bool = False


class Storage(Protocol):
    """Files by path. Every call may raise `OSError`; a path that is not there is a `FileNotFoundError`."""

    @property
    def traits(self) -> Traits:
        """The properties of this storage."""

    def inside(self, directory: str | None) -> Storage:
        """Return the storage of what is at or below a directory, where its calls follow no link below it.

        Paths stay as they are. A directory below it that is a link is a `CommitError` with its path, whenever it was
        put there: whoever may write into the directory cannot turn a call elsewhere. New directories take the mode of
        the one above them. None gives the storage of all paths again. Where there are no links it is the same storage.
        """

    def resolve(self, path: str | os.PathLike[str]) -> str:
        """Return the absolute path that a person's path or URI names.

        Raises
        ------
        OptionError
            It is not a path.
        UnsupportedError
            It lies in another storage.
        """

    def real_path(self, path: str) -> str:
        """Return a path with all links on it followed, as far as it exists; itself where there are no links."""

    def unique_path(self, path: str) -> str:
        """Return the one text that all spellings of a place have, to compare two places; it need not be one to read from."""

    def status(self, path: str, *, follow_links: bool = True) -> Status | None:
        """Return the state of a path, or None if nothing is there."""

    def list(self, directory: str) -> Iterator[Status]:
        """Yield every name in a directory, in no order, links followed. One look at each file, none at directories.

        A file that vanishes meanwhile is left out. Where directories are prefixes, one without files is empty.
        """

    def open(self, path: str, *, memory_map: bool = False, listed: Status | None = None) -> ByteSource:
        """Return the bytes of a file, to be read in ranges.

        Parameters
        ----------
        path
            The file.
        memory_map
            Whether to read through the page cache.
        listed
            What a listing said of it: a storage that waits does not ask again, and if the file is another one by the
            time it is read, that is a `FileChangedError` or a `FileNotFoundError`.
        """

    def read(self, path: str, max_nbytes: int) -> bytes:
        """Return a small file whole.

        Raises
        ------
        LimitError
            It is larger; nothing is read.
        UnsupportedError
            It is not a regular file but a link, a directory, a pipe, a socket or a device.
        """

    def create(self, path: str) -> BinaryIO:
        """Create a file that is not there yet. Its bytes may be visible under its name before it is closed.

        Where `Traits.directories` is set, its directory must exist.
        """

    def scratch_file(self, directory: str) -> BinaryIO:
        """Return an unnamed file that can be written and read and vanishes when it is closed, near a directory."""

    def put(self, path: str, data: bytes, *, durable: bool = False, scratch: str | None = None) -> None:
        """Write a small file, whole or not at all, in place of what is there.

        Parameters
        ----------
        path, data
            The file.
        durable
            Whether its bytes survive a power loss when this returns; its name does after `sync`.
        scratch
            Directory that may hold the file until it is whole; by default its own.
        """

    def put_if_absent(self, path: str, data: bytes, *, durable: bool = False) -> bool:
        """Write a small file, whole or not at all, and return False where one is there already.

        Of all that call this for one path at once, in any process on any machine, exactly one gets True. After an
        error the file may be there or not.
        """

    def check_takes_changes(self, path: str) -> None:
        """Raise UnsupportedError, without a request, if this storage is for reading only."""

    def check_put_if_absent(self, directory: str) -> None:
        """Raise if `put_if_absent` cannot work for files on the file system of a directory, which must exist.

        Raises
        ------
        UnsupportedError
            It lacks what that takes; nothing is left in the directory.
        """

    def check_writable(self, directory: str) -> None:
        """Raise if files cannot be made and deleted in a directory, as far as can be told without doing it.

        Raises
        ------
        OSError
            The error has the path.
        """

    def check_publish(self, staging: str, finals: Sequence[str]) -> None:
        """Raise if `publish` cannot move files of a directory to some paths, as far as can be told without doing it.

        Their directories need not exist yet.

        Raises
        ------
        OSError
            Another device, a missing permission, a path that is too long. The error has the path.
        """

    def check_delete(self, paths: Sequence[str]) -> None:
        """Raise if files cannot be deleted, as far as can be told without doing it; missing ones do not matter.

        Raises
        ------
        OSError
            The error has the path.
        """

    def publish(self, staged: str, final: str) -> bool:
        """Give a file its final name in one step; where `Traits.renames` is not set, the staged file stays as well.

        Return whether another copy of the file, whose request was not answered, may still be under way.

        Parameters
        ----------
        staged, final
            The paths.
        """

    def give_back(self, moved: str, path: str) -> bool:
        """Give a file that was moved away its name again, or return False if another has that name now.

        For storages with `Traits.renames`.

        Parameters
        ----------
        moved, path
            Where the file is, and where it was.
        """

    def delete(self, path: str) -> None:
        """Delete a file; nothing happens if it is not there."""

    def delete_all(self, paths: Sequence[str]) -> None:
        """Delete files, as few requests as that takes; missing ones do not matter. After an error some may be left."""

    def delete_tree(self, directory: str) -> None:
        """Delete a directory with all in it; nothing happens if it is not there. Links in it are not followed."""

    def make_directory(self, directory: str) -> None:
        """Make a directory and those above it; nothing happens if it is there."""

    def delete_directory_if_empty(self, directory: str) -> None:
        """Delete a directory if nothing is in it, and keep it if that fails."""

    def sync_file(self, file: BinaryIO) -> None:
        """Make the bytes of a file durable that `create` returned and that is still open."""

    def sync(self, directory: str) -> None:
        """Make the names in a directory durable; nothing happens if it is not there."""


class _Discarded(Exception):  # noqa: N818 - not an error, and never seen
    pass


def discard(file: BinaryIO) -> None:
    """Close a file whose bytes are not needed; nothing happens if it is closed.

    Its ``with`` block is left as by an error: an object store, which shows a file when it is closed, shows none then.
    A local file stays, and is for the caller to delete. Errors of the storage are ignored.
    """
    if not file.closed:
        with suppress(OSError, _Discarded), file:
            raise _Discarded


# ---- many calls
#
# On a local disk a rename takes microseconds, and threads only compete for the directory's lock; on network storage each
# call waits for milliseconds. The first calls are timed to tell the two apart, unless the storage says that it waits.

_THREADS: Final = 32
_THREADS_THAT_WAIT: Final = 64
_SAMPLE: Final = 32
"""Number of calls that are timed before threads are considered."""

_SLOW_SECONDS: Final = 0.0005
"""Above this mean the calls wait: a local rename takes 0.00004 s, one over a network 0.001 s."""

_Item = TypeVar("_Item")


def each(
    call: Callable[[_Item], object],
    items: Sequence[_Item],
    *,
    waits: bool = False,
    slow_seconds: float | None = None,
    most: int | None = None,
) -> None:
    """Call a function for each item; make at most `most` calls at once.

    The first error is raised when all calls have ended that were begun; the function may not be called for later items.
    """
    # Calls that are known to wait are made at once, from the first one on.
    if waits:
        _in_threads(call, items, min(_THREADS_THAT_WAIT if most is None else most, len(items)))
        return
    # The default is for single calls of the file system.
    slow = _SAMPLE * (_SLOW_SECONDS if slow_seconds is None else slow_seconds)
    begun = perf_counter()
    for item in items[:_SAMPLE]:
        call(item)
    rest = islice(items, _SAMPLE, None)
    if perf_counter() - begun < slow:
        for item in rest:
            call(item)
        return
    if len(items) <= _SAMPLE:
        return
    _in_threads(call, rest, _THREADS if most is None else most)


def _in_threads(call: Callable[[_Item], object], items: Iterable[_Item], threads: int) -> None:
    if threads <= 1:
        for item in items:
            call(item)
        return
    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(call, item) for item in items]
        try:
            for future in futures:
                future.result()
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
