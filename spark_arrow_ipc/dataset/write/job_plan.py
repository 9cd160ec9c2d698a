"""Plan a write (step P0): where its tasks stage their files, and what its commit has to decide.

`commit` describes all steps. Planning brings a pending job of others to its end where it must know what is there, and
makes two directories; nothing else is changed.
"""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from dataclasses import dataclass

from spark_arrow_ipc.dataset.commit_log.dataset_directory import DatasetDirectory
from spark_arrow_ipc.dataset.commit_log.log import read_head
from spark_arrow_ipc.dataset.commit_log.record import Record
from spark_arrow_ipc.dataset.write.live_files import LiveFile, live_files, shown
from spark_arrow_ipc.dataset.write.modes import IfExists, WriteMode
from spark_arrow_ipc.dataset.write.roll_forward import finish, latest
from spark_arrow_ipc.dataset.write.staging import Staging
from spark_arrow_ipc.errors import CommitError, OptionError, UnsupportedError, error_context
from spark_arrow_ipc.storage import failpoint
from spark_arrow_ipc.storage.open import storage_of
from spark_arrow_ipc.storage.paths import parent
from spark_arrow_ipc.storage.storage import Kind, Storage

__all__ = ["CommitIntent", "JobPlan", "plan_job"]


@dataclass(frozen=True, slots=True)
class CommitIntent:
    """What a job wants to do to its dataset when it commits. Only the driver needs it.

    Parameters
    ----------
    mode
        What happens to the files in `snapshot`.
    snapshot
        What a reader saw when the job was planned; empty for an append.
    if_exists
        What an append does where files are there.
    commit_token
        A string of the user's: of all jobs that have it, one is committed.
    """

    mode: WriteMode
    snapshot: tuple[LiveFile, ...] = ()
    if_exists: IfExists = IfExists.APPEND
    commit_token: str | None = None

    def is_in(self, record: Record | None) -> bool:
        """Return whether a record remembers the commit token."""
        return record is not None and self.commit_token is not None and self.commit_token in record.tokens


@dataclass(frozen=True, slots=True)
class JobPlan:
    """A planned write.

    Parameters
    ----------
    staging
        What its tasks need.
    intent
        What its commit decides by.
    skip
        Whether there is nothing to do: no staging directory is made, tasks must write nothing, and `commit` publishes
        nothing.
    """

    staging: Staging
    intent: CommitIntent
    skip: bool = False


def plan_job(
    path: str | os.PathLike[str],
    mode: WriteMode,
    *,
    durable: bool = True,
    if_exists: IfExists = IfExists.APPEND,
    commit_token: str | None = None,
    storage: Storage | None = None,
) -> JobPlan:
    """Return the plan of a write and make its directories; nothing else is changed (step P0).

    Parameters
    ----------
    path
        Directory of the dataset; made where it does not exist.
    mode
        Append, or overwrite: then the files that a reader sees now are noted, those in partitions too.
    durable
        Whether ``fsync`` guards the steps against a power loss.
    if_exists
        For an append: whether files that are there make it an error, or a job that does nothing.
    commit_token
        If a job with this token is committed already, this one does nothing.
    storage
        What the path lies in; found by the path if not given.

    Raises
    ------
    OptionError
        The path is a file, or `if_exists` is not for this mode.
    UnsupportedError
        The path has a scheme that no storage has, or an overwrite would meet a partition that is a link.
    CommitError
        There are files and `if_exists` is error; or a pending job of others cannot be finished.
    OSError
        The directory or the staging cannot be made.
    """
    storage, root = storage_of(path) if storage is None else (storage, storage.resolve(path))
    status = storage.status(root)
    if status is not None and status.kind is not Kind.DIRECTORY:
        raise OptionError("a dataset is written into a directory, and this is a file; give another path", path=root)
    if if_exists is not IfExists.APPEND and mode is not WriteMode.APPEND:
        raise OptionError(f"ifExists={if_exists.value} is for the mode append, and the mode is {mode.value}", path=root)
    failpoint.hit("P0.begin")
    staging = Staging(DatasetDirectory(storage, root), uuid.uuid4().hex, durable)
    intent = CommitIntent(mode, (), if_exists, commit_token)
    snapshot: tuple[LiveFile, ...] | None = () if status is None else _look(staging.dataset, intent)
    if snapshot is None:
        return JobPlan(staging, intent, skip=True)
    _make_directory(storage, root, durable=durable)
    failpoint.hit("P0.snapshot")
    storage.make_directory(staging.directory)
    if not read_head(staging.dataset).seq:
        _check_storage(staging)
    failpoint.hit("P0.staging")
    return JobPlan(staging, CommitIntent(mode, snapshot, if_exists, commit_token))


def _look(dataset: DatasetDirectory, intent: CommitIntent) -> tuple[LiveFile, ...] | None:
    """Return the files that an overwrite replaces, or None if there is nothing to do, both as of one moment."""
    if intent.commit_token is not None and intent.is_in(latest(dataset)[1]):
        return None
    if intent.mode is WriteMode.APPEND and intent.if_exists is IfExists.APPEND:
        return ()
    while True:
        head = finish(dataset)
        files = live_files(dataset)
        if read_head(dataset) == head:
            break
    if intent.mode is not WriteMode.APPEND:
        return files
    if files and intent.if_exists is IfExists.ERROR:
        raise CommitError(
            f"the directory holds {len(files)} files ({shown([file.path for file in files])}), and ifExists is error; "
            "nothing is written",
            path=dataset.root,
        )
    return None if files else ()


def _make_directory(storage: Storage, directory: str, *, durable: bool) -> None:
    missing = []
    while storage.traits.directories and not _is_directory(storage, directory):
        missing.append(directory)
        directory = parent(directory)
    for path in reversed(missing):
        storage.make_directory(path)
        if durable:
            with suppress(PermissionError):  # one may be allowed to write into a directory and not to open it
                storage.sync(parent(path))


def _is_directory(storage: Storage, path: str) -> bool:
    status = storage.status(path)
    return status is not None and status.kind is Kind.DIRECTORY


def _check_storage(staging: Staging) -> None:
    """Raise, before any work is done for nothing, where the storage cannot decide between two writers."""
    try:
        with error_context(path=staging.root):
            staging.storage.check_put_if_absent(staging.directory)
    except UnsupportedError:
        staging.storage.delete_tree(staging.directory)
        raise
