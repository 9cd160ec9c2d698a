"""Give the files of a committed job their final names (step C4), by renames or by copies.

A rename moves the staged file: a process that comes late finds nothing to move, so everybody helps at once. A copy leaves it,
and may end on the server long after the process that asked for it; if a later job has removed the file by then, the file is
back. Therefore, where a storage copies:

1. a process first waits for the one that made the record, and helps only if that one does not go on (`may_help`). Before its
   first copy a helper leaves a mark in the directory of the records;
2. every file is copied, and a listing proves that all are there with their sizes;
3. the staged files are deleted, so that no copy can begin any more;
4. if anybody else may have copies under way, they are waited for. Only then may the record be marked as done, and another
   job remove these files.
"""

from __future__ import annotations

import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

from spark_arrow_ipc.dataset.commit_log.dataset_directory import DatasetDirectory, NameKind, StagedFile, parse_name
from spark_arrow_ipc.dataset.commit_log.log import Pending, is_applied
from spark_arrow_ipc.dataset.commit_log.record import TAKEN_BACK, Record
from spark_arrow_ipc.dataset.commit_log.stored_record import read_record
from spark_arrow_ipc.dataset.write.old_files import delete_listed, delete_one_by_one
from spark_arrow_ipc.errors import CommitError, OptionError, cut_repr
from spark_arrow_ipc.storage import failpoint
from spark_arrow_ipc.storage.paths import name_of, parent, split_url
from spark_arrow_ipc.storage.storage import Status, Storage, Traits, each

_ATTEMPTS: Final = 5
"""The number of times that a file is published, where other processes interfere each time."""

_SAMPLE: Final = 32
"""Files of a kind that are looked at to see whether a job goes on."""

_NAMES: Final = 10_000
"""Most names of a directory that are listed; in a larger one the files are asked for one by one."""

MAX_COPIED_NBYTES: Final = 5_000_000_000
"""Largest object that S3 copies in one request."""

DEFAULT_COPIED_NBYTES: Final = 1 << 30
"""Largest file where a storage copies and nothing else is asked for: a copy of it takes seconds."""

_MAX_KEY_NBYTES: Final = 1024
"""Longest name of an object, its directories included, in S3, Azure and Google Cloud Storage."""


@dataclass(slots=True)
class Timing:
    """The times that writers wait for each other where a storage copies, and the clock for it; the one place of these numbers.

    Nothing waits unless a process died or stands still.
    """

    # A job that is being published by another process is helped after so long without any progress.
    patience_seconds: float = 60.0
    # A copy that the storage began for another process ends within this time, and one second more for each
    # `copied_nbytes` of the file.
    grace_seconds: float = 30.0
    copied_nbytes: int = 50_000_000  # bytes that a storage copies in a second, at least
    poll_seconds: float = 1.0  # between two looks at a pending record
    clock: Callable[[], float] = time.monotonic  # seconds that never go back
    sleep: Callable[[float], None] = time.sleep  # lets seconds pass

    def grace(self, nbytes: int) -> float:
        """Return the seconds in which a copy of a file of this size ends."""
        return self.grace_seconds + nbytes / self.copied_nbytes


TIMING: Final = Timing()
"""The times of every writer of this process."""


def publisher_of(dataset: DatasetDirectory) -> Publisher:
    """Return the way in which a dataset's storage publishes files."""
    return RenamePublisher(dataset) if dataset.storage.traits.renames else CopyPublisher(dataset)


def max_file_nbytes(traits: Traits, asked: int | None) -> int | None:
    """Return the largest size of a file that a job writes, None for no limit; `OptionError` if what is asked cannot be copied."""
    if traits.renames:
        return asked
    if asked is not None and asked > MAX_COPIED_NBYTES:
        raise OptionError(
            expected=f"maxFileBytes of at most {MAX_COPIED_NBYTES:,} in an object store, which publishes a file by one copy",
            found=f"{asked:,}",
        )
    return DEFAULT_COPIED_NBYTES if asked is None else asked


@dataclass(frozen=True, slots=True)
class Publisher(ABC):
    """Publishes the files of a dataset's records, and removes old ones; a step that is done already does nothing."""

    dataset: DatasetDirectory

    @property
    def storage(self) -> Storage:
        """The storage that holds the dataset."""
        return self.dataset.storage

    @abstractmethod
    def may_help(self, record: Record, ended: Collection[str] = ()) -> bool:
        """Return whether this process shall apply the pending record of another one, or False if it is applied now.

        Nobody is waited for to apply the jobs `ended`.
        """

    @abstractmethod
    def publish(self, record: Record, *, alone: bool) -> None:
        """Give all files of a record their final names; `CommitError` if a committed file is missing.

        With `alone` this is the first attempt of the job's own process: all copies have ended by then, unless the storage
        says of one that it may be under way.
        """

    @abstractmethod
    def wait_for_copies(self, record: Record) -> None:
        """Wait until copies that another process may have begun are ended; their sources are deleted."""

    @abstractmethod
    def delete_old(self, record: Record) -> None:
        """Delete the files that a record removes, or move them to where they are kept until its time."""

    @abstractmethod
    def there(self, paths: Sequence[str]) -> list[str]:
        """Return those of some paths that have a file."""

    @abstractmethod
    def check(self, files: Iterable[tuple[str, int]]) -> None:
        """Raise a `CommitError` if a file can never be published here, by its path in the dataset and its size."""

    @abstractmethod
    def move(self, path: str, other: str) -> None:
        """Give a file another path."""

    def publish_documents(self, record: Record) -> None:
        """Give the documents of a record their names, one after the other, in place of those that have them.

        A staged file can be renamed once: a process that comes late finds none, and replaces nothing of later jobs.
        """
        for file in record.documents:
            self._publish(record, file)
            if record.durable:
                self.storage.sync(self.dataset.root)

    def check_published(self, record: Record) -> None:
        """Raise if a file of a record that is to be marked as done does not have its final name."""
        gone = self._missing((*record.adds, *record.documents))
        if gone and not is_applied(self.dataset, record):  # later jobs may have removed files of an applied one
            raise CommitError(
                f"the file {gone[0].final} was published, and is not there any more: the directory was put back from a copy, "
                "or somebody removed the file",
                path=self.dataset.root,
            )

    def _missing(self, adds: Sequence[StagedFile]) -> list[StagedFile]:
        """Return the files that are not there with their sizes."""
        paths = [self.dataset.path(add.final) for add in adds]
        statuses = map(present(self.storage, paths).get, paths)
        return [
            add for add, status in zip(adds, statuses, strict=True) if status is None or status.nbytes != add.nbytes
        ]

    def _publish(self, record: Record, file: StagedFile) -> bool:
        """Give a file its final name; return whether a copy of it may still be under way."""
        under_way = False
        staged = Pending(self.dataset, record).staged(file)
        try:
            under_way = self.storage.publish(staged, self.dataset.path(file.final))
        except FileNotFoundError:
            self._publish_again(record, file, staged)
        failpoint.hit("C4.renamed")
        return under_way

    def _publish_again(self, record: Record, file: StagedFile, staged: str) -> None:
        """Publish a file again, unless another process has published it."""
        storage, final = self.storage, self.dataset.path(file.final)
        for _ in range(_ATTEMPTS):
            # Staged first: if it is renamed between the two calls, the second one finds it.
            is_staged = storage.status(staged, follow_links=False) is not None
            status = storage.status(final)
            if (status is not None and status.nbytes == file.nbytes) or is_applied(self.dataset, record):
                return
            if not is_staged:
                break
            # A late process of the job before may have deleted a partition's directory that it emptied.
            storage.make_directory(parent(final))
            with suppress(FileNotFoundError):  # another process renames it at the same time
                storage.publish(staged, final)
                return
        raise self._lost(file)

    def _lost(self, file: StagedFile) -> CommitError:
        return CommitError(
            f"the file {file.final} is committed, and is neither there nor staged: somebody removed it; restore it",
            path=self.dataset.root,
        )


class RenamePublisher(Publisher):
    """Publishes by renames: a file can be moved only once, so that everybody helps at once."""

    __slots__ = ()

    def may_help(self, record: Record, ended: Collection[str] = ()) -> bool:  # noqa: ARG002 - for copies
        """Return True."""
        return True

    def publish(self, record: Record, *, alone: bool) -> None:  # noqa: ARG002 - for copies
        """Move the staged files."""
        each(partial(self._publish, record), record.adds)

    def wait_for_copies(self, record: Record) -> None:
        """Do nothing: a file can be moved only once."""

    def delete_old(self, record: Record) -> None:
        """Look at each file and remove it."""
        delete_one_by_one(self.dataset, record)

    def there(self, paths: Sequence[str]) -> list[str]:
        """Return those of some paths that have a file: one call for each."""
        return [path for path in paths if self.storage.status(path, follow_links=False) is not None]

    def check(self, files: Iterable[tuple[str, int]]) -> None:
        """Do nothing: there is no limit."""

    def move(self, path: str, other: str) -> None:
        """Rename a file."""
        self.storage.publish(path, other)


class CopyPublisher(Publisher):
    """Publishes by copies, in as few requests as that takes, and waits for those of others."""

    __slots__ = ()

    def may_help(self, record: Record, ended: Collection[str] = ()) -> bool:
        """Wait up to `Timing.patience_seconds` without progress for the process that publishes, then leave a mark."""
        dataset = self.dataset
        if not record.adds:
            return True
        if record.jobid in ended:
            return self._announced(record)
        seen: _Progress | None = None
        moved = looked = TIMING.clock()
        while not is_applied(dataset, record):
            now = TIMING.clock()
            if now - looked >= TIMING.patience_seconds / 2:
                looked, before, seen = now, seen, self._progress(record)
                if before is not None and seen != before:
                    moved = now
                elif before is not None and now - moved >= TIMING.patience_seconds:
                    return self._announced(record)
            TIMING.sleep(min(TIMING.poll_seconds, TIMING.patience_seconds / 10))
        return False

    def _announced(self, record: Record) -> bool:
        """Leave a helper's mark, and return True."""
        self.storage.put(self.dataset.help_mark(record.seq, uuid.uuid4().hex), b"")
        failpoint.hit("H.announced")
        return True

    def _progress(self, record: Record) -> _Progress:
        dataset, pending = self.dataset, Pending(self.dataset, record)
        adds = record.adds[:: len(record.adds) // _SAMPLE + 1]
        removes = record.removes[:: len(record.removes) // _SAMPLE + 1]
        paths = [path for add in adds for path in (pending.staged(add), dataset.path(add.final))]
        paths += [dataset.path(file.path) for file in removes]
        there: set[str] = set()

        def look(path: str) -> None:
            if self.storage.status(path, follow_links=False) is not None:
                there.add(path)

        each(look, paths, waits=self.storage.traits.waits)
        return frozenset(there), help_marks(dataset, record.seq)

    def publish(self, record: Record, *, alone: bool) -> None:
        """Copy the files, prove that all are there, delete the staged ones, and wait for copies that may be under way."""
        if not record.adds:
            return
        waiting = record.adds if alone else self._missing(record.adds)
        under_way: list[bool] = []

        def copy(file: StagedFile) -> None:
            under_way.append(self._publish(record, file))

        each(copy, waiting, waits=self.storage.traits.waits)
        gone = self._missing(record.adds)
        if is_applied(self.dataset, record):  # by others; later jobs may have removed these files
            return
        if gone:
            raise self._lost(gone[0])
        failpoint.hit("C4.proven")
        pending = Pending(self.dataset, record)
        self.storage.delete_all([pending.staged(add) for add in record.adds])
        failpoint.hit("C4.sources")
        # A helper left a mark, this process is one, or an earlier attempt of its own failed.
        if not alone or any(under_way) or help_marks(self.dataset, record.seq):
            self.wait_for_copies(record)

    def wait_for_copies(self, record: Record) -> None:
        """Wait as long as a copy of the largest file takes; of a record that takes a job back, of that job's files."""
        if record.mode == TAKEN_BACK:
            with suppress(CommitError, FileNotFoundError):
                record = read_record(self.dataset, record.seq - 1)
        TIMING.sleep(TIMING.grace(max((add.nbytes for add in record.adds), default=0)))
        failpoint.hit("C4.waited")

    def delete_old(self, record: Record) -> None:
        """Remove all that one listing of each directory shows."""
        delete_listed(self.dataset, record, present(self.storage, [self.dataset.path(f.path) for f in record.removes]))

    def there(self, paths: Sequence[str]) -> list[str]:
        """Return those of some paths that have a file: one listing for each directory."""
        statuses = present(self.storage, paths)
        return [path for path in paths if path in statuses]

    def check(self, files: Iterable[tuple[str, int]]) -> None:
        """Raise if a file cannot be copied by one request: it is too large, or its name is none of an object."""
        root = self.dataset.root
        for path, nbytes in files:
            self.storage.resolve(self.dataset.path(path))  # an object store takes no control characters
            if nbytes > MAX_COPIED_NBYTES:
                raise CommitError(
                    f"{path} has {nbytes:,} bytes, and an object store copies at most {MAX_COPIED_NBYTES:,} at once; nothing "
                    "is published. Write smaller files (maxFileBytes), and large ones without keepReplaced",
                    path=root,
                )
            if "://" in root and len(split_url(f"{root}/{path}")[1].encode(errors="surrogatepass")) > _MAX_KEY_NBYTES:
                raise CommitError(
                    f"the name {cut_repr(path, 300)} is too long here: an object store takes names of {_MAX_KEY_NBYTES:,} "
                    "bytes at most, with all directories; nothing is published",
                    path=root,
                )

    def move(self, path: str, other: str) -> None:
        """Copy a file and delete the old one."""
        self.storage.publish(path, other)
        self.storage.delete(path)


_Progress: TypeAlias = tuple[frozenset[str], frozenset[str]]
"""The files of a sample that are there, and the marks of helpers."""


def help_marks(dataset: DatasetDirectory, seq: int) -> frozenset[str]:
    """Return the names of the marks that helpers of a record left."""
    names = (name_of(status.path) for status in dataset.storage.list(dataset.commits))
    return frozenset(name for name in names if parse_name(name) == (seq, NameKind.HELP))


def present(storage: Storage, paths: Iterable[str]) -> dict[str, Status]:
    """Return the states of those of some paths that are there.

    One listing for each directory; one call for each file that is alone in its directory, or lies in a large one.
    """
    directories: dict[str, set[str]] = {}
    for path in paths:
        directories.setdefault(parent(path), set()).add(path)
    statuses: dict[str, Status] = {}
    unlisted: list[str] = []

    def look(directory: str) -> None:
        wanted = directories[directory]
        if len(wanted) == 1 or not _listed(storage, directory, wanted, statuses):
            unlisted.extend(wanted - statuses.keys())

    def ask(path: str) -> None:
        status = storage.status(path, follow_links=False)
        if status is not None:
            statuses[path] = status

    waits = storage.traits.waits
    each(look, sorted(directories), waits=waits)
    each(ask, unlisted, waits=waits)
    return statuses


def _listed(storage: Storage, directory: str, wanted: set[str], statuses: dict[str, Status]) -> bool:
    """Look for files in the listing of their directory; return False if that is too long to tell."""
    left = len(wanted)
    with suppress(FileNotFoundError):
        for number, status in enumerate(storage.list(directory)):
            if number == _NAMES:
                return False
            if status.path in wanted:
                statuses[status.path] = status
                left -= 1
                if not left:
                    break
    return True
