"""Give the files of a committed job their final names (step C4), by renames or by copies.

A rename moves the staged file: a process that comes late finds nothing to move, so everybody helps at once. A copy leaves it,
and may end on the server long after the process that asked for it; if a later job has removed the file by then, the file is
back. Therefore, where a storage copies:

1. a process first waits for the one that made the record, and helps only if that one does not go on (`may_help`). Before its
   first copy a helper leaves a mark in the directory of the records;
2. every file is copied, and a listing proves that all are there with their sizes;
3. the staged files are deleted, so that no copy can begin any more;
4. if anybody else may have copies under way (a helper left a mark, this process is a helper, or an earlier attempt of its
   own failed), they are waited for. Only then may the record be marked as done, and another job remove these files.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

from spark_arrow_ipc.dataset.commit_log.dataset_directory import DatasetDirectory, NameKind, parse_name
from spark_arrow_ipc.dataset.commit_log.log import Pending, is_applied
from spark_arrow_ipc.dataset.commit_log.record import TAKEN_BACK, Record
from spark_arrow_ipc.dataset.commit_log.recorded_files import StagedFile
from spark_arrow_ipc.dataset.commit_log.stored_record import read_record
from spark_arrow_ipc.errors import CommitError, OptionError, cut_repr
from spark_arrow_ipc.storage import failpoint
from spark_arrow_ipc.storage.concurrent import each
from spark_arrow_ipc.storage.paths import name_of, parent
from spark_arrow_ipc.storage.storage import Status, Storage, Traits
from spark_arrow_ipc.storage.url import split_url


@dataclass(slots=True)
class Timing:
    """Waiting times, and the clock by which they pass. Nothing waits unless a process died or stands still.

    Parameters
    ----------
    patience_seconds
        A job that is being published by another process is helped after so long without any progress.
    grace_seconds
        A copy that the storage began for another process ends within this time, and one second more for each
        `copied_nbytes` of the file.
    copied_nbytes
        Bytes that a storage copies in a second, at least.
    poll_seconds
        Time between two looks at a pending record.
    clock, sleep
        Seconds that never go back, and a function that lets them pass.
    """

    patience_seconds: float = 60.0
    grace_seconds: float = 30.0
    copied_nbytes: int = 50_000_000
    poll_seconds: float = 1.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def grace(self, nbytes: int) -> float:
        """Return the seconds in which a copy of a file of this size ends."""
        return self.grace_seconds + nbytes / self.copied_nbytes


TIMING: Final = Timing()
"""What every writer of this process uses."""


_SAMPLE: Final = 32
"""Files of a kind that are looked at to see whether a job goes on."""

_Progress: TypeAlias = tuple[frozenset[str], frozenset[str]]
"""The files of a sample that are there, and the marks of helpers."""


def may_help(dataset: DatasetDirectory, record: Record, ended: Collection[str] = ()) -> bool:
    """Return whether this process shall apply the pending record of another one, or False if it is applied now.

    Waits up to `Timing.patience_seconds` without progress, but not for the jobs `ended`, and then leaves a mark.

    Raises
    ------
    OSError
        A call of the storage fails.
    """
    if dataset.storage.traits.renames or not record.adds:
        return True
    if record.jobid in ended:
        return _announced(dataset, record)
    seen: _Progress | None = None
    moved = looked = TIMING.clock()
    while not is_applied(dataset, record):
        now = TIMING.clock()
        if now - looked >= TIMING.patience_seconds / 2:
            looked, before, seen = now, seen, _progress(dataset, record)
            if before is not None and seen != before:
                moved = now
            elif before is not None and now - moved >= TIMING.patience_seconds:
                return _announced(dataset, record)
        TIMING.sleep(min(TIMING.poll_seconds, TIMING.patience_seconds / 10))
    return False


def _announced(dataset: DatasetDirectory, record: Record) -> bool:
    """Leave a helper's mark, and return True."""
    dataset.storage.put(dataset.help_mark(record.seq, uuid.uuid4().hex), b"")
    failpoint.hit("H.announced")
    return True


def help_marks(dataset: DatasetDirectory, seq: int) -> frozenset[str]:
    """Return the names of the marks that helpers of a record left.

    Raises
    ------
    OSError
        The storage cannot be read.
    """
    names = (name_of(status.path) for status in dataset.storage.list(dataset.commits))
    return frozenset(name for name in names if parse_name(name) == (seq, NameKind.HELP))


def _progress(dataset: DatasetDirectory, record: Record) -> _Progress:
    pending = Pending(dataset, record)
    adds = record.adds[:: len(record.adds) // _SAMPLE + 1]
    removes = record.removes[:: len(record.removes) // _SAMPLE + 1]
    paths = [path for add in adds for path in (pending.staged(add), dataset.path(add.final))]
    paths += [dataset.path(file.path) for file in removes]
    there: set[str] = set()

    def look(path: str) -> None:
        if dataset.storage.status(path, follow_links=False) is not None:
            there.add(path)

    each(look, paths, waits=dataset.storage.traits.waits)
    return frozenset(there), help_marks(dataset, record.seq)


_NAMES: Final = 10_000
"""Most names of a directory that are listed; in a larger one the files are asked for one by one."""


def present(storage: Storage, paths: Iterable[str]) -> dict[str, Status]:
    """Return the states of those of some paths that are there.

    One listing for each directory; one call for each file that is alone in its directory, or lies in a large one.

    Raises
    ------
    OSError
        The storage cannot be read.
    """
    directories: dict[str, set[str]] = {}
    for path in paths:
        directories.setdefault(parent(path), set()).add(path)
    found: dict[str, Status] = {}
    unknown: list[str] = []

    def look(directory: str) -> None:
        wanted = directories[directory]
        if len(wanted) == 1 or not _listed(storage, directory, wanted, found):
            unknown.extend(wanted - found.keys())

    def ask(path: str) -> None:
        status = storage.status(path, follow_links=False)
        if status is not None:
            found[path] = status

    waits = storage.traits.waits
    each(look, sorted(directories), waits=waits)
    each(ask, unknown, waits=waits)
    return found


def _listed(storage: Storage, directory: str, wanted: set[str], found: dict[str, Status]) -> bool:
    """Look for files in the listing of their directory; return whether it is known now which of them are there."""
    left = len(wanted)
    with suppress(FileNotFoundError):
        for number, status in enumerate(storage.list(directory)):
            if number == _NAMES:
                return False
            if status.path in wanted:
                found[status.path] = status
                left -= 1
                if not left:
                    break
    return True


_ATTEMPTS: Final = 5
"""How often a file is published, where other processes interfere each time."""


def publish_files(dataset: DatasetDirectory, record: Record, *, alone: bool) -> None:
    """Give all files of a record their final names; what is done already is left.

    Parameters
    ----------
    dataset
        The dataset.
    record
        The pending record, or one that was pending until a moment ago.
    alone
        Whether this is the first attempt of the job's own process: all copies have ended by then, unless the storage says
        of one that it may be under way.

    Raises
    ------
    CommitError
        A committed file is missing.
    OSError
        A call of the storage fails.
    """
    if dataset.storage.traits.renames:
        each(partial(_publish, dataset, record), record.adds)
        return
    if not record.adds:
        return
    waiting = record.adds if alone else _missing(dataset, record.adds)
    under_way: list[bool] = []

    def copy(file: StagedFile) -> None:
        under_way.append(_publish(dataset, record, file))

    each(copy, waiting, waits=dataset.storage.traits.waits)
    gone = _missing(dataset, record.adds)
    if is_applied(dataset, record):  # by others; later jobs may have removed these files
        return
    if gone:
        raise _lost(dataset, gone[0])
    failpoint.hit("C4.proven")
    pending = Pending(dataset, record)
    dataset.storage.delete_all([pending.staged(add) for add in record.adds])
    failpoint.hit("C4.sources")
    if not alone or any(under_way) or help_marks(dataset, record.seq):
        wait_for_copies(dataset, record)


def wait_for_copies(dataset: DatasetDirectory, record: Record) -> None:
    """Wait until copies of a job's files that another process may have begun are ended; their sources are deleted."""
    if dataset.storage.traits.renames:
        return
    if record.mode == TAKEN_BACK:
        with suppress(CommitError, FileNotFoundError):
            record = read_record(dataset, record.seq - 1)
    TIMING.sleep(TIMING.grace(max((add.nbytes for add in record.adds), default=0)))
    failpoint.hit("C4.waited")


def check_published(dataset: DatasetDirectory, record: Record) -> None:
    """Raise if a file of a record that is to be marked as done has not its final name.

    Raises
    ------
    CommitError
        It was published, and a backup of the directory was put back since.
    OSError
        The storage cannot be read.
    """
    gone = _missing(dataset, record.adds)
    if gone and not is_applied(dataset, record):  # later jobs may have removed files of an applied one
        raise CommitError(
            f"the file {gone[0].final} was published, and is not there any more: the directory was put back from a copy, "
            "or somebody removed the file",
            path=dataset.root,
        )


def _missing(dataset: DatasetDirectory, adds: Sequence[StagedFile]) -> list[StagedFile]:
    """Return the files that are not there with their sizes."""
    there = present(dataset.storage, [dataset.path(add.final) for add in adds])
    return [
        add for add in adds if (status := there.get(dataset.path(add.final))) is None or status.nbytes != add.nbytes
    ]


def _publish(dataset: DatasetDirectory, record: Record, file: StagedFile) -> bool:
    """Give a file its final name; return whether a copy of it may still be under way."""
    under_way = False
    staged = Pending(dataset, record).staged(file)
    try:
        under_way = dataset.storage.publish(staged, dataset.path(file.final))
    except FileNotFoundError:
        _publish_again(dataset, record, file, staged)
    failpoint.hit("C4.renamed")
    return under_way


def _publish_again(dataset: DatasetDirectory, record: Record, file: StagedFile, staged: str) -> None:
    """Publish a file again, unless another process has published it."""
    storage, final = dataset.storage, dataset.path(file.final)
    for _ in range(_ATTEMPTS):
        # Staged first: if it is renamed between the two calls, the second one finds it.
        is_staged = storage.status(staged, follow_links=False) is not None
        status = storage.status(final)
        if (status is not None and status.nbytes == file.nbytes) or is_applied(dataset, record):
            return
        if not is_staged:
            break
        # A late process of the job before may have deleted a partition's directory that it emptied.
        storage.make_directory(parent(final))
        with suppress(FileNotFoundError):  # another process renames it at the same time
            storage.publish(staged, final)
            return
    raise _lost(dataset, file)


def _lost(dataset: DatasetDirectory, file: StagedFile) -> CommitError:
    return CommitError(
        f"the file {file.final} is committed, and is neither there nor staged: somebody removed it; restore it",
        path=dataset.root,
    )


MAX_COPIED_NBYTES: Final = 5_000_000_000
"""Largest object that S3 copies in one request."""

DEFAULT_COPIED_NBYTES: Final = 1 << 30
"""Largest file where a storage copies and nothing else is asked for: a copy of it takes seconds."""

_MAX_KEY_NBYTES: Final = 1024
"""Longest name of an object, its directories included, in S3, Azure and Google Cloud Storage."""


def max_file_nbytes(traits: Traits, asked: int | None) -> int | None:
    """Return the largest size of a file, or None for no limit.

    Parameters
    ----------
    traits
        Of the storage that it is written to.
    asked
        The option maxFileBytes, if it is given.

    Raises
    ------
    OptionError
        The storage publishes files by copies, and cannot copy such a file.
    """
    if traits.renames:
        return asked
    if asked is not None and asked > MAX_COPIED_NBYTES:
        raise OptionError(
            expected=f"maxFileBytes of at most {MAX_COPIED_NBYTES:,} in an object store, which publishes a file by one copy",
            found=f"{asked:,}",
        )
    return DEFAULT_COPIED_NBYTES if asked is None else asked


def check_copied(path: str, nbytes: int, root: str) -> None:
    """Raise if a file cannot be copied by one request: it is too large, or its name is too long.

    Parameters
    ----------
    path
        Of the file, relative to the dataset's directory.
    nbytes
        Its size.
    root
        The dataset's directory, for the error.

    Raises
    ------
    CommitError
        Nothing is published.
    """
    if nbytes > MAX_COPIED_NBYTES:
        raise CommitError(
            f"{path} has {nbytes:,} bytes, and an object store copies at most {MAX_COPIED_NBYTES:,} at once; nothing is "
            "published. Write smaller files (maxFileBytes, recordBatchBytes), and large ones without keepReplaced",
            path=root,
        )
    if "://" in root and len(split_url(f"{root}/{path}")[1].encode(errors="surrogatepass")) > _MAX_KEY_NBYTES:
        raise CommitError(
            f"the name {cut_repr(path, 300)} is too long here: an object store takes names of {_MAX_KEY_NBYTES:,} bytes at "
            "most, with all directories; nothing is published",
            path=root,
        )
