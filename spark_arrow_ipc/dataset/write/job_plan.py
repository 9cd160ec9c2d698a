"""Plan a write: check what can be checked before any work is done, note the files to replace, and begin a transaction.

Planning makes the table's directory, its id and the job's staging directory with its mark. Nothing else is changed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeAlias

from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.arrow.types import Field
from spark_arrow_ipc.dataset.listing.directory import count_noun
from spark_arrow_ipc.dataset.write import IfExists, WriteMode
from spark_arrow_ipc.dataset.write.existing_files import (
    LiveFile,
    check_is_arrow,
    check_no_links,
    check_partition_columns_there,
    existing_file,
    existing_schema,
    live_files,
)
from spark_arrow_ipc.dataset.write.hugging_face_layout import check_layout, check_none_named
from spark_arrow_ipc.dataset.write.nested import check_none_above, check_none_below
from spark_arrow_ipc.dataset.write.staged_file import Staging, advised
from spark_arrow_ipc.errors import (
    CommitError,
    ConcurrentWriteError,
    OptionError,
    UnsupportedError,
    error_context,
    join_texts,
)
from spark_arrow_ipc.storage.open import storage_of
from spark_arrow_ipc.storage.paths import above, parent
from spark_arrow_ipc.storage.storage import Kind, Storage
from spark_arrow_ipc.table.checks import check_entries
from spark_arrow_ipc.table.documents import DOCUMENTS
from spark_arrow_ipc.table.entry import Batch
from spark_arrow_ipc.table.log import read_state
from spark_arrow_ipc.table.names import TableDirectory, new_id
from spark_arrow_ipc.table.snapshot import Snapshot, list_data_files, open_table
from spark_arrow_ipc.table.state import State
from spark_arrow_ipc.table.transaction import Transaction

Choose: TypeAlias = Callable[[tuple[LiveFile, ...]], Sequence[LiveFile]]
"""Callback that returns which of the visible files a rewrite replaces."""

CheckSchema: TypeAlias = Callable[[Schema, str], None]
"""Callback that gets the schema of what a job keeps, with a path for errors, and raises if new files do not fit."""

_REPLACES_ALL: Final = frozenset({WriteMode.OVERWRITE, *(mode for mode in WriteMode if mode.replaces_chosen)})
"""Modes that replace all files of their snapshot, so that nothing of it has to fit beside the new files."""


class ReadState(NamedTuple):
    """The state of a table at an earlier read, on which a job relies: of a directory without a log both are empty."""

    table: str = ""  # the table's id
    number: int = 0  # of its newest entry


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
    # For a dynamic overwrite: the relative directory whose files it replaces; empty for the directories of its new files.
    partition: str = ""
    retention: int | None = (
        None  # seconds that the table retains entries and removed files from now on; None: as before
    )
    query: Batch | None = None  # the batch of a streaming query that this is; it is committed once
    is_new_batch: bool = False  # whether it is certain that no earlier attempt has committed it
    layout: str = ""  # of a table of which JSON files name the files that count (`hugging_face.LAYOUT`); empty for none
    application: str = ""  # who runs the job, for the history of the table
    reads_all: bool = False  # whether the new rows depend on all rows of the table, so that others must not add any

    def is_in(self, state: State | None) -> bool:
        """Return whether a state has the token, or this batch of the query; raise if it has a later batch."""
        if state is None:
            return False
        if self.query is not None and state.has_batch(self.query):
            newest = state.queries[self.query.query].batch
            if newest > self.query.number or self.is_new_batch:
                raise CommitError(
                    f"batch {newest} of this query is committed here, and now comes another batch {self.query.number}: the "
                    "checkpoint is older than that, as one is that was restored from a copy, and rows would be left out; "
                    "nothing is published. Give the newest checkpoint, or a new one, with modifiedAfter or "
                    "startingFrom=latest to leave out what was written"
                )
            return True
        return self.commit_token is not None and self.commit_token in state.tokens


@dataclass(frozen=True, slots=True)
class JobPlan:
    """A planned write. Spark sends it to the processes that commit or abort the job."""

    staging: Staging  # for the tasks
    intent: CommitIntent  # for the commit
    # There is nothing to do: no staging directory, tasks must write nothing, and `commit` publishes nothing.
    skip: bool = False
    # The table's id, and the number of the entry that the job was planned on.
    table: str = ""
    base: int = 0

    @classmethod
    def of_staging(cls, staging: Staging) -> JobPlan:
        """Return the plan of a job that only tasks know, to abort it; there is nothing to abort without a table."""
        state = read_state(staging.directory)
        intent = CommitIntent(WriteMode.APPEND)
        return (
            cls(staging, intent, skip=True)
            if state is None
            else cls(staging, intent, table=state.table, base=state.number)
        )

    def transaction(self) -> Transaction:
        """Return the transaction of the job, which has staged files at most."""
        return Transaction(self.staging.directory, self.table, self.base, self.staging.jobid)


def plan_job(
    path: str | os.PathLike[str],
    intent: CommitIntent,
    *,
    storage: Storage | None = None,
    check_existing: CheckSchema | None = None,
    takes_any: bool = False,
    choose: Choose | None = None,
    read: ReadState | None = None,
) -> JobPlan:
    """Plan a write and make its directories; the intent of the plan has the files to replace, too.

    The table's directory is made if it does not exist, in the storage that `path` names unless it is given.
    `check_existing` is called with the schema that a read has of the files that the job keeps, if there are any; with
    `takes_any` these may be of any format.
    `choose` is for a rewrite: called with the files that a reader sees now, sorted by path, it returns those that the
    job replaces; without it these are all of them. If there are none, there is nothing to do, except for a merge. `read` is
    the state on which a job relies that has read the table before; by default that of this call.

    OptionError if the path is a file or a dangling link, `if_exists` is given for a mode other than append, or the
    partition columns differ from those of the files that the job keeps. UnsupportedError if no storage has the path's
    scheme, the storage cannot decide between two writers, or an overwrite finds a partition that is a link. CommitError if
    there are files and `if_exists` is error, a directory of the commit is a link, or a table contains this one or is in it.
    OSError if a directory cannot be made, or this user may not write into it or replace what an overwrite replaces.
    """
    storage, root = storage_of(path) if storage is None else (storage, storage.resolve(path))
    is_there = check_is_no_file(storage, root)
    mode = intent.mode
    if intent.if_exists is not IfExists.APPEND and mode is not WriteMode.APPEND:
        words = f"ifExists={intent.if_exists.value} is for the mode append, and the mode is {mode.value}"
        raise OptionError(words, path=root)
    directory = TableDirectory(storage, root)
    staging = Staging(directory, new_id())
    directory.check()
    check_none_above(directory)
    state, files = _read_files(directory, intent) if is_there else (None, ())
    _check_unchanged(directory, state, read)
    if is_there:
        _check_below(directory, state, replaces=mode is not WriteMode.APPEND)
    if files is not None and choose is not None:
        files = tuple(sorted(choose(files), key=lambda file: file.path))
    if mode in _REPLACES_ALL:
        check_no_links(directory, files or ())
    if files is None or (mode.replaces_chosen and mode is not WriteMode.MERGE and not files):
        return JobPlan(staging, intent, skip=True)
    if intent.layout:
        check_layout(directory)
        files = tuple(file for file in files if file.path not in DOCUMENTS)  # they are replaced after the entry
    if is_there and mode is not WriteMode.OVERWRITE:
        check_none_named(directory, state=state)
    if is_there and mode not in _REPLACES_ALL:
        check_kept_files(directory, state, intent.partition_by, check_existing, takes_any=takes_any)
    make_directory(storage, root)
    directory.storage.check_writable(root)
    if mode in _REPLACES_ALL:  # which partitions a dynamic overwrite replaces is known when its tasks are done
        directory.storage.check_delete([directory.path(file.path) for file in files])
    base = _begin(staging, state)
    number = base.number if read is None else read.number
    return JobPlan(staging, replace(intent, snapshot=files), table=base.table, base=number)


def plan_batch(staging: Staging, intent: CommitIntent, *, check_existing: CheckSchema | None = None) -> JobPlan:
    """Plan the commit of a batch of a streaming query, whose tasks have staged its files already; otherwise as `plan_job`.

    Spark gives the tasks and the commit of a batch no object in common, so nothing is planned before the tasks run.
    """
    directory = staging.directory
    check_is_no_file(directory.storage, directory.root)
    directory.check()
    check_none_above(directory)
    state, files = _read_files(directory, intent)
    if state is None:
        raise CommitError("the table was removed meanwhile; nothing is published", path=directory.root)
    directory.storage.check_put_if_absent(directory.log)
    _check_below(directory, state)
    # If the batch is committed, `commit` sees that too, and removes what is staged.
    if intent.mode is not WriteMode.OVERWRITE:
        check_kept_files(directory, state, intent.partition_by, check_existing)
    return JobPlan(staging, replace(intent, snapshot=files or ()), table=state.table, base=state.number)


def make_staging(staging: Staging) -> None:
    """Make the table and a job's staging directory, if they do not exist, for tasks that nobody planned."""
    storage = staging.storage.inside(None)
    if storage.traits.directories:  # elsewhere a request for each task, and a key may be a prefix too
        check_is_no_file(storage, staging.root)
    make_directory(storage, staging.root)
    open_table(staging.directory)
    staging.directory.put_mark(staging.jobid)


def check_is_no_file(storage: Storage, root: str) -> bool:
    """Return whether the table's directory exists; raise if something else does, or the storage is for reading only."""
    storage.check_takes_changes(root)
    status = storage.status(root)
    if status is None:
        status = storage.status(root, follow_links=False)
        if status is not None and status.is_link:  # otherwise another job has just made it
            raise OptionError("the path is a link that leads nowhere; make what it names, or remove it", path=root)
    if status is not None and status.kind is not Kind.DIRECTORY:
        raise OptionError("a table is a directory, and this is a file; give another path", path=root)
    return status is not None


def _check_unchanged(directory: TableDirectory, state: State | None, read: ReadState | None) -> None:
    """Raise if the table that a job has read was removed, or put back from a copy."""
    if read is not None and read.table and (state is None or state.table != read.table or state.number < read.number):
        raise ConcurrentWriteError(
            "the table was removed, or put back from a copy, since it was read; nothing is written", path=directory.root
        )


def _read_files(directory: TableDirectory, intent: CommitIntent) -> tuple[State | None, tuple[LiveFile, ...] | None]:
    """Return the state that a job is planned on, and the files that it replaces; None if it has nothing to do."""
    state = read_state(directory)
    if intent.is_in(state):
        return state, None
    if intent.mode is WriteMode.APPEND and intent.if_exists is IfExists.APPEND:
        return state, ()
    snapshot = Snapshot.open(directory)
    state, files = snapshot.state, live_files(snapshot)
    if intent.mode is not WriteMode.APPEND:
        return state, files
    if files and intent.if_exists is IfExists.ERROR:
        raise CommitError(
            f"the directory holds {count_noun(len(files), 'file')} ({join_texts([file.path for file in files])}), and ifExists is error, "
            'as without a mode; nothing is written. .mode("append") adds rows, .mode("overwrite") replaces them',
            path=directory.root,
        )
    return state, None if files else ()


def _check_below(directory: TableDirectory, state: State | None, *, replaces: bool = False) -> None:
    """Raise if a first job, or one that replaces files, is in a directory with a table in it, or with lost entries."""
    if replaces or state is None or not state.number:
        check_none_below(directory)
    if state is not None and not state.has_jobs:
        for file in filter(state.is_managed, list_data_files(directory)):
            check_entries(directory, state, file)


def check_kept_files(
    directory: TableDirectory,
    state: State | None,
    partition_by: tuple[Field, ...] | None,
    check_existing: CheckSchema | None,
    *,
    takes_any: bool = False,
) -> None:
    """Call a callback with the schema of the files that a job keeps; `OptionError` if the partition columns or format differ."""
    if partition_by is None and check_existing is None:
        return
    existing = existing_file(directory, state)
    if existing is None:
        return
    if check_existing is not None and not takes_any:
        check_is_arrow(existing, directory)
    if partition_by is not None and check_partition_columns_there(existing, partition_by, directory) is not None:
        return  # a placeholder without rows, which is replaced
    if check_existing is not None and (schema := existing_schema(existing, directory, state)) is not None:
        check_existing(*schema)


def _begin(staging: Staging, state: State | None) -> State:
    """Begin a job on a state, and return that; leave nothing of the job where that fails."""
    directory, storage = staging.directory, staging.storage
    try:
        with error_context(path=directory.root):
            # Not in the directory of staged files, which another job deletes when it is empty.
            storage.make_directory(directory.log)
            # Raises before any work is done if the storage cannot decide between two writers.
            storage.check_put_if_absent(directory.log)
        base = state or State(open_table(directory))
        if not base.number:  # a first job may have died between the id and the directory of entries
            storage.make_directory(directory.entries(base.table))
        storage.check_writable(directory.entries(base.table))
        Transaction.begin(directory, base=base, job=staging.jobid)
    except (OSError, UnsupportedError) as error:
        with suppress(OSError):
            storage.delete_tree(directory.staging(staging.jobid))
            storage.delete_directory_if_empty(directory.all_staging)
            storage.delete_directory_if_empty(directory.log)
        if isinstance(error, UnsupportedError):
            raise
        raise advised(
            error, f"write again, or run 'arrowipc vacuum {directory.root}', which removes what dead jobs have staged"
        ) from error
    return base


def make_directory(storage: Storage, directory: str) -> None:
    """Make a directory, and those above it, durably."""
    missing = []
    for path in (directory, *above(directory)) if storage.traits.directories else ():
        if _is_directory(storage, path):
            break
        missing.append(path)
    for path in reversed(missing):
        storage.make_directory(path)
        with suppress(PermissionError):  # a directory may be writable and not readable
            storage.sync(parent(path))


def _is_directory(storage: Storage, path: str) -> bool:
    status = storage.status(path)
    return status is not None and status.kind is Kind.DIRECTORY
