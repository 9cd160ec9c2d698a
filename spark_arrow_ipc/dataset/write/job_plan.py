"""Plan a write (step P0): make its staging directory, note the existing files.

`commit` describes all steps. Planning finishes a pending job of others if it must know the existing files, and makes
two directories; nothing else is changed.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.arrow.types import Field
from spark_arrow_ipc.dataset.commit_log.dataset_directory import DatasetDirectory
from spark_arrow_ipc.dataset.commit_log.log import Head, newest_record, read_head
from spark_arrow_ipc.dataset.commit_log.record import COPIED, Batch, Record
from spark_arrow_ipc.dataset.listing.directory import count_noun
from spark_arrow_ipc.dataset.write import IfExists, WriteMode
from spark_arrow_ipc.dataset.write.copied_files import check_no_copy
from spark_arrow_ipc.dataset.write.existing_files import (
    LiveFile,
    check_is_arrow,
    check_partition_columns_there,
    existing_file,
    existing_schema,
    live_files,
)
from spark_arrow_ipc.dataset.write.hugging_face_layout import HuggingFaceLayout, check_none_named
from spark_arrow_ipc.dataset.write.nested import check_none_above, check_none_below
from spark_arrow_ipc.dataset.write.record_chain import check_decides
from spark_arrow_ipc.dataset.write.roll_forward import delete_staging, finish, latest
from spark_arrow_ipc.dataset.write.staged_file import Staging, advised, keep_room
from spark_arrow_ipc.errors import CommitError, OptionError, UnsupportedError, join_texts
from spark_arrow_ipc.storage import failpoint
from spark_arrow_ipc.storage.open import storage_of
from spark_arrow_ipc.storage.paths import above, parent
from spark_arrow_ipc.storage.storage import Kind, Storage

Choose: TypeAlias = Callable[[tuple[LiveFile, ...]], Sequence[LiveFile]]
"""Callback that returns which of the visible files a rewrite replaces."""

CheckSchema: TypeAlias = Callable[[Schema, str], None]
"""Callback that gets the schema of what a job keeps, with a path for errors, and raises if new files do not fit."""

_REPLACES_ALL: Final = (WriteMode.OVERWRITE, WriteMode.REWRITE)
"""Modes that replace all files of their snapshot, so that nothing of it has to fit beside the new files."""


@dataclass(frozen=True, slots=True)
class CommitIntent:
    """The mode of a job's commit and the state that it relies on, for the driver."""

    mode: WriteMode  # whether the files in `snapshot` are kept or replaced
    # The files that a reader saw when the job was planned, of a rewrite those that it replaces; empty for an append.
    snapshot: tuple[LiveFile, ...] = ()
    # For an append: whether existing files are an error, or make the job do nothing.
    if_exists: IfExists = IfExists.APPEND
    commit_token: str | None = None  # chosen by the user: of all jobs with the same token, only one is committed
    # The partition columns, outermost first; empty without partitions. A job that keeps existing files must have
    # theirs. None: not checked.
    partition_by: tuple[Field, ...] | None = None
    keep_replaced: int = 0  # seconds that replaced files live on for running reads; 0 deletes them
    query: Batch | None = None  # the batch of a streaming query that this is; it is committed once
    is_new_batch: bool = False  # whether it is certain that no earlier attempt has committed it
    # Seconds that this record and all that follow are kept for streams; None leaves that as it is.
    commit_retention: int | None = None
    # Of a copy (`copy`): the job of the record whose state it is, which its own record must follow; empty if the source
    # has no records. None of other jobs.
    copies: str | None = None
    is_new: bool = False  # whether nothing was at the path before, not even a directory
    layout: HuggingFaceLayout | None = None  # of a job that also writes the JSON files of HuggingFace's `datasets`

    @property
    def record_mode(self) -> str:
        """The mode of the job's record."""
        return self.mode.value if self.copies is None else COPIED

    def is_in(self, record: Record | None) -> bool:
        """Return whether a record contains the commit token, or this batch of the query; raise if another is in its place."""
        if record is None:
            return False
        newest = -1 if self.query is None else dict(record.queries).get(self.query.query, -1)
        if self.query is not None and newest >= self.query.number:
            if newest > self.query.number or self.is_new_batch:
                raise CommitError(
                    f"batch {newest} of this query is committed here, and now comes another batch {self.query.number}: the "
                    "checkpoint is older than that, as one is that was restored from a copy, and rows would be left out; "
                    "nothing is published. Give the newest checkpoint, or a new one, with modifiedAfter or "
                    "startingFrom=latest to leave out what was written"
                )
            return True
        return self.commit_token is not None and self.commit_token in record.tokens


@dataclass(frozen=True, slots=True)
class JobPlan:
    """A planned write."""

    staging: Staging  # for the tasks
    intent: CommitIntent  # for the commit
    # There is nothing to do: no staging directory, tasks must write nothing, and `commit` publishes nothing.
    skip: bool = False


def plan_job(
    path: str | os.PathLike[str],
    intent: CommitIntent,
    *,
    durable: bool = True,
    storage: Storage | None = None,
    check_existing: CheckSchema | None = None,
    choose: Choose | None = None,
) -> JobPlan:
    """Plan a write and make its directories (step P0); the intent of the plan has the snapshot, too.

    The dataset's directory is made if it does not exist, in the storage that `path` names unless it is given. A job
    whose token is committed already has nothing to do. If it is not `durable`, the steps do not survive a power loss.
    `check_existing` is called with the schema that a read has of the files that the job keeps, if there are any.
    `choose` is for a rewrite: called with the files that a reader sees now, sorted by path, it returns those that the
    job replaces; without it these are all of them. If there are none, there is nothing to do.

    OptionError if the path is a file or a dangling link, `if_exists` is given for a mode other than append, or the
    partition columns differ from those of the files that the job keeps. UnsupportedError if no storage has the path's
    scheme, or an overwrite finds a partition that is a link. CommitError if there are files and `if_exists` is error, a
    pending job of others cannot be finished, a directory of the commit is a link, or a dataset lies above or below.
    OSError if a directory cannot be made, or this user may not write into it or replace what an overwrite replaces.
    """
    storage, root = storage_of(path) if storage is None else (storage, storage.resolve(path))
    is_there = check_is_no_file(storage, root)
    mode = intent.mode
    if intent.if_exists is not IfExists.APPEND and mode is not WriteMode.APPEND:
        words = f"ifExists={intent.if_exists.value} is for the mode append, and the mode is {mode.value}"
        raise OptionError(words, path=root)
    failpoint.hit("P0.begin")
    staging = Staging(DatasetDirectory(storage, root), uuid.uuid4().hex, durable)
    staging.dataset.check()
    check_none_above(staging.dataset)
    snapshot: tuple[LiveFile, ...] | None = _snapshot(staging.dataset, intent) if is_there else ()
    if snapshot and choose is not None:
        snapshot = tuple(sorted(choose(snapshot), key=lambda file: file.path))
    if snapshot is None or (mode is WriteMode.REWRITE and not snapshot):
        return JobPlan(staging, intent, skip=True)
    head = read_head(staging.dataset)
    if intent.copies is None:
        check_no_copy(staging.dataset, head)
    _check_none_below(staging, head, mode, is_there=is_there)
    if intent.layout is not None:
        intent = replace(intent, layout=HuggingFaceLayout.of(staging.dataset))
    if is_there and mode is not WriteMode.OVERWRITE:
        check_none_named(staging.dataset)
    if is_there and mode not in _REPLACES_ALL:
        check_kept_files(staging.dataset, intent.partition_by, check_existing)
    _make_directory(storage, root, durable=durable)
    staging.storage.check_writable(root)
    if mode in _REPLACES_ALL:  # which partitions a dynamic overwrite replaces is known when its tasks are done
        staging.storage.check_delete([staging.dataset.path(file.path) for file in snapshot])
    failpoint.hit("P0.snapshot")
    _begin(staging, head)
    failpoint.hit("P0.staging")
    return JobPlan(staging, replace(intent, snapshot=snapshot, is_new=not is_there))


def plan_batch(staging: Staging, intent: CommitIntent, *, check_existing: CheckSchema | None = None) -> JobPlan:
    """Plan the commit of a batch of a streaming query, whose tasks have staged its files already; else as `plan_job`.

    Spark gives the tasks and the commit of a batch no object in common, so nothing is planned before the tasks run.
    """
    check_is_no_file(staging.storage, staging.root)
    staging.dataset.check()
    check_none_above(staging.dataset)
    # If the batch is committed, `commit` finds that too, and removes what is staged.
    snapshot = _snapshot(staging.dataset, intent) or ()
    head = read_head(staging.dataset)
    check_no_copy(staging.dataset, head)
    _check_none_below(staging, head, intent.mode)
    if intent.mode is not WriteMode.OVERWRITE:
        check_kept_files(staging.dataset, intent.partition_by, check_existing)
    _check_decides(staging)
    return JobPlan(staging, replace(intent, snapshot=snapshot))


def make_staging(staging: Staging) -> None:
    """Make the directories of the dataset and of a job's staged files, if they are not there."""
    storage = staging.storage.inside(None)
    if storage.traits.directories:  # elsewhere a request for each task, and a key may be a prefix too
        check_is_no_file(storage, staging.root)
    _make_directory(storage, staging.root, durable=staging.durable)
    staging.storage.make_directory(staging.directory)
    keep_room(staging)


def check_is_no_file(storage: Storage, root: str) -> bool:
    """Return whether the dataset's directory is there; raise if something else is, or the storage is for reading only."""
    storage.check_takes_changes(root)
    status = storage.status(root)
    if status is None:
        status = storage.status(root, follow_links=False)
        if status is not None and status.is_link:  # else another job has just made it
            raise OptionError("the path is a link that leads nowhere; make what it names, or remove it", path=root)
    if status is not None and status.kind is not Kind.DIRECTORY:
        raise OptionError("a dataset is written into a directory, and this is a file; give another path", path=root)
    return status is not None


def _snapshot(dataset: DatasetDirectory, intent: CommitIntent) -> tuple[LiveFile, ...] | None:
    """Return the files that the job replaces, or None if it has nothing to do."""
    if intent.commit_token is not None or intent.query is not None:
        head, newest = latest(dataset)
        check_no_copy(dataset, head)
        if intent.is_in(newest):
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
            f"the directory holds {count_noun(len(files), 'file')} ({join_texts([file.path for file in files])}), and ifExists is error; "
            "nothing is written",
            path=dataset.root,
        )
    return None if files else ()


def check_kept_files(
    dataset: DatasetDirectory, partition_by: tuple[Field, ...] | None, check_existing: CheckSchema | None
) -> None:
    """Call a callback with the schema of the files that a job keeps; `OptionError` if the partition columns or format differ."""
    if partition_by is None and check_existing is None:
        return
    record = newest_record(dataset)[1]
    existing = existing_file(dataset, record)
    if existing is None:
        return
    if check_existing is not None:
        check_is_arrow(existing, dataset)
    if partition_by is not None and check_partition_columns_there(existing, partition_by, dataset) is not None:
        return  # a placeholder without rows, which is replaced
    if check_existing is not None and (there := existing_schema(existing, dataset, record)) is not None:
        check_existing(*there)


def _make_directory(storage: Storage, directory: str, *, durable: bool) -> None:
    missing = []
    for path in (directory, *above(directory)) if storage.traits.directories else ():
        if _is_directory(storage, path):
            break
        missing.append(path)
    for path in reversed(missing):
        storage.make_directory(path)
        if durable:
            with suppress(PermissionError):  # a directory may be writable and not readable
                storage.sync(parent(path))


def _is_directory(storage: Storage, path: str) -> bool:
    status = storage.status(path)
    return status is not None and status.kind is Kind.DIRECTORY


def _check_none_below(staging: Staging, head: Head, mode: WriteMode, *, is_there: bool = True) -> None:
    """Raise if there is a dataset below that of a job which lists nothing; once there is a chain above it, none begins."""
    if is_there and not head.seq and mode is WriteMode.APPEND:
        check_none_below(staging.dataset)


def _begin(staging: Staging, head: Head) -> None:
    """Make a job's staging directory, and what it keeps room by; leave nothing of it where that fails."""
    try:
        staging.storage.make_directory(staging.directory)
        if head.seq:
            staging.storage.check_writable(staging.dataset.commits)
        _check_decides(staging)
        keep_room(staging)
    except OSError as error:
        delete_staging(staging.dataset, [staging.jobid])
        then = f"write again, or run 'arrowipc vacuum {staging.root}', which removes what dead jobs have staged"
        raise advised(error, then) from error


def _check_decides(staging: Staging) -> None:
    """Raise before any work is done if the storage cannot decide between two writers."""
    try:
        check_decides(staging.dataset, staging.jobid)
    except UnsupportedError:
        staging.storage.delete_tree(staging.directory)
        raise
