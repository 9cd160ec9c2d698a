"""The staging directory of a job, and the room on the disk that the job keeps beside it.

Nothing staged is deleted before the record that withdraws its job is in the chain, as the job could be committed meanwhile.
If jobs fill a disk, there is no room for that record, and nothing could ever be removed. So each job begins with a few files
of random bytes beside its staging directory, and does not begin without room for them. No record names them: if the disk is
full when the job is withdrawn, given up or put in place, they are deleted first. Object stores and HDFS need none.
"""

from __future__ import annotations

import errno
import secrets
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NoReturn, TypeVar

from spark_arrow_ipc.dataset.commit_log.dataset_directory import DatasetDirectory
from spark_arrow_ipc.dataset.commit_log.log import read_head
from spark_arrow_ipc.errors import CommitError
from spark_arrow_ipc.storage.paths import TEMPORARY_SUFFIX, join
from spark_arrow_ipc.storage.storage import Storage


@dataclass(frozen=True, slots=True)
class Staging:
    """The staging directory of one job. Pickled to every task.

    Parameters
    ----------
    dataset
        The dataset that the job writes to.
    jobid
        Globally unique id of the job.
    durable
        Whether files are made durable (``fsync``) before they are reported.
    """

    dataset: DatasetDirectory
    jobid: str
    durable: bool = True

    @property
    def storage(self) -> Storage:
        """The storage that holds the dataset."""
        return self.dataset.storage

    @property
    def root(self) -> str:
        """Absolute path of the dataset's directory."""
        return self.dataset.root

    @property
    def directory(self) -> str:
        """The job's staging directory."""
        return self.dataset.staging(self.jobid)

    def path(self, name: str) -> str:
        """Return the path of a staged file."""
        return join(self.directory, name)


def missing_staging(directory: str) -> CommitError:
    """Return the error for a staging directory that does not exist."""
    return CommitError(
        "the job's staging directory is not there: either the path is not shared between the driver and the "
        "executors (give a path that every machine sees), or the job ended before this attempt of the task began: it was "
        "committed, aborted, or withdrawn by 'arrowipc vacuum'",
        path=directory,
    )


_FULL: Final = {errno.ENOSPC: "free some space there", errno.EDQUOT: "free some space there, or ask for a larger quota"}
"""Errors of a disk without room, and what to do."""

_FILES: Final = 3
"""A record, a mark and a kept record: as many files, where a disk has no room for more of them."""

_LEAST_NBYTES: Final = 32 << 10
"""Room for what a thousand other jobs add to the records while this one runs."""

_MOST_RECORD_NBYTES: Final = 1 << 20
"""A larger record is large by the files of its job, which the next one does not take over."""

_Result = TypeVar("_Result")


def keeps_room(storage: Storage) -> bool:
    """Return whether a storage is a disk that can be full."""
    return storage.traits.directories and not storage.traits.waits


def keep_room(staging: Staging) -> None:
    """Make the files by which a job keeps room, unless they are there; after an `OSError` none of them is left."""
    storage, directory = staging.storage, staging.dataset.room(staging.jobid)
    if not keeps_room(storage) or storage.status(directory) is not None:
        return
    record = storage.status(staging.dataset.record(read_head(staging.dataset).seq))
    # Two copies of the newest record: that of the withdrawal and its mark are not longer than it without its files.
    nbytes = _LEAST_NBYTES + 2 * min(0 if record is None else record.nbytes, _MOST_RECORD_NBYTES)
    try:
        storage.make_directory(directory)
        for number in range(_FILES):
            # Random bytes, as file systems that compress keep nothing for others.
            with (
                suppress(FileExistsError),  # another task of the job
                storage.create(join(directory, f"{number}{TEMPORARY_SUFFIX}")) as file,
            ):
                file.write(secrets.token_bytes(nbytes // _FILES))
    except OSError:
        storage.delete_tree(directory)
        raise


def with_room(dataset: DatasetDirectory, jobids: Collection[str], act: Callable[[], _Result]) -> _Result:
    """Return the result of an act that may be done again; if the disk is full, give it the room that jobs keep first."""
    try:
        return act()
    except (OSError, CommitError) as error:
        if not is_full(error) or not _give(dataset, jobids):
            _raise(dataset, error)
    try:
        return act()
    except (OSError, CommitError) as error:
        _raise(dataset, error)


def is_full(error: BaseException | None) -> bool:
    """Return whether an error, or one that it is from, is that of a disk without room."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _FULL:
            return True
        error = error.__cause__
    return False


def advised(error: OSError, then: str) -> OSError:
    """Return the error of a disk without room with what to do, or another error as it is."""
    if error.errno not in _FULL:
        return error
    return OSError(error.errno, f"{error.strerror}: {_FULL[error.errno]}, and {then}", error.filename)


def _give(dataset: DatasetDirectory, jobids: Collection[str]) -> bool:
    """Delete the room that jobs keep, and return whether there was any."""
    storage = dataset.storage
    rooms = [room for room in map(dataset.room, jobids) if keeps_room(storage) and storage.status(room) is not None]
    for room in rooms:
        storage.delete_tree(room)
    return bool(rooms)


def _raise(dataset: DatasetDirectory, error: OSError | CommitError) -> NoReturn:
    """Raise an error, with what to do if it is that of a full disk and does not say it yet."""
    if isinstance(error, OSError) and is_full(error) and not is_full(error.__cause__):
        raise advised(error, f"run 'arrowipc vacuum {dataset.root}'") from error
    raise error
