"""Commit a job: publish all files of its tasks, or none.

The steps are in an order that makes a crash between any two of them harmless:

==== ===================================================================================================
P0   plan a job (`job_plan`): make the directory and its staging; note the files that are to be replaced
T1   a task creates a staged file (`task`)
T2   it writes the file, makes it durable, closes it, reads it back to verify it, and reports it
C1   check every task's output: one job, unique names, staged files present with the size that was reported
C2   make the names of the staged files durable
C3   finish a pending job of others; check that nothing changed that this job relies on; append a record of all its
     changes to the chain (`conflicts`, `record_chain`). **This is the commit.**
C4   (`roll_forward`) publish: give each staged file its final name, make the names durable
C5   delete the files that the job replaces
C6   write ``_SUCCESS``, mark the record as done, delete the staging directory
A    abort (`roll_forward.withdraw`): append a record that withdraws the job; if the job is committed, do C4 to C6
==== ===================================================================================================

Before the record nothing is visible and nothing is changed. After it readers of this package see the job's result, in
the staging directory if need be (`CommittedView`), and the next writer or a vacuum finishes the remaining steps. Only
files that tasks reported are published: the file of a second attempt is deleted with the staging directory.

A record's name can be taken only once, on network storage too: of two jobs that both checked against record *n* only
one becomes *n + 1*, and the other checks again. The record *n + 1* is made only when *n* is done, so that removed files
never come back. Old records are removed, so a job that paused before C3 may take a number below the head. It reads the head
after C3: its record counts only if the head's record names the job, and is removed otherwise.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from math import ceil

from spark_arrow_ipc.dataset.commit_log.dataset_directory import StagedFile, all_replaced, check_names, entries_of
from spark_arrow_ipc.dataset.commit_log.log import Pending, newest_record
from spark_arrow_ipc.dataset.commit_log.record import COPIED, Record
from spark_arrow_ipc.dataset.commit_log.stored_record import begin_to_keep
from spark_arrow_ipc.dataset.write import WriteMode
from spark_arrow_ipc.dataset.write.conflicts import (
    Fits,
    NewSchema,
    check_removes,
    check_unchanged,
    is_left_out,
    is_only_added,
    look_beside,
)
from spark_arrow_ipc.dataset.write.copied_files import check_no_copy
from spark_arrow_ipc.dataset.write.existing_files import existing_file, is_empty
from spark_arrow_ipc.dataset.write.hugging_face_layout import check_none_named
from spark_arrow_ipc.dataset.write.job_plan import JobPlan
from spark_arrow_ipc.dataset.write.nested import check_alone
from spark_arrow_ipc.dataset.write.publisher import publisher_of
from spark_arrow_ipc.dataset.write.record_chain import append_record
from spark_arrow_ipc.dataset.write.roll_forward import (
    CommitSummary,
    check_directories,
    delete_staging,
    latest,
    roll_forward,
    was_taken_back,
    withdraw,
)
from spark_arrow_ipc.dataset.write.staged_file import Staging, advised, with_room
from spark_arrow_ipc.dataset.write.task import TaskOutput
from spark_arrow_ipc.errors import (
    CommitError,
    FileChangedError,
    UnsupportedError,
    error_context,
    printable,
)
from spark_arrow_ipc.storage import failpoint
from spark_arrow_ipc.storage.paths import name_of, parent

_log = logging.getLogger(__name__)


def commit(
    job: JobPlan,
    outputs: Sequence[TaskOutput | None],
    *,
    write_empty: Callable[[], StagedFile] | None,
    fits: Fits | None = None,
    schema: NewSchema | None = None,
) -> CommitSummary:
    """Publish the files of all tasks and return a summary; an output is None if a task reported nothing.

    `write_empty` stages a file with the schema and no rows in the dataset's directory; it is called if no task had rows
    and no file would be there, so that the dataset can be read. None if it may be left without files. `fits` compares
    the schema of a file with that of the new ones: files of the same schema that others add while a static overwrite
    runs stay; without it, they are a conflict. `schema` is that of the new files, for the record; None if that does not
    change.

    CommitError if nothing is published; or the job is committed and its rows may be lost; or the storage did not
    confirm the record, and which of these is unknown. The message says which. Other faults after the record are
    warnings. ConcurrentWriteError if another writer changed files that an overwrite replaces, or made files although
    ifExists is error, or made some beside which the new ones do not fit; nothing is published.

    Cost: about five calls of the storage per file; 32 at once if they are slow.
    """
    staging, mode = job.staging, job.intent.record_mode
    if job.skip:
        return CommitSummary(staging.jobid, mode, published=False)
    with _nothing_published(staging):
        adds = _check_outputs(staging, outputs)
        is_placeholder = not adds and write_empty is not None and _is_left_empty(job)
        if is_placeholder and write_empty is not None:
            adds = _checked_files(staging, (write_empty(),))
        if job.intent.keep_replaced:
            staging.storage.make_directory(all_replaced(staging.dataset))
        begin_to_keep(staging.dataset, job.intent.commit_retention, durable=staging.durable)
        documents = () if job.intent.layout is None else job.intent.layout.stage(staging, adds)
        failpoint.hit("C1.checked")
        _sync(staging, staging.directory, staging.dataset.all_staging, staging.root)
        failpoint.hit("C2.synced")
        record = _append(job, adds, documents, fits, schema, is_placeholder=is_placeholder)
    if record is None:
        delete_staging(staging.dataset, [staging.jobid])
        return CommitSummary(staging.jobid, mode, published=False)
    _put_in_place(staging, record)
    return CommitSummary.of(record)


def _put_in_place(staging: Staging, record: Record) -> None:
    """Apply the job's record; where that fails and all rows are safe, only warn: the job is committed."""
    for is_last in (False, True):
        try:
            put = partial(roll_forward, staging.dataset, record, alone=not is_last)
            with_room(staging.dataset, [staging.jobid], put)
        except (OSError, CommitError) as error:
            if not is_last:  # a second attempt does what is left
                continue
            if not was_taken_back(staging.dataset, record):
                _report_unfinished(staging, record, error)
                return
        break
    if was_taken_back(staging.dataset, record):
        raise CommitError("the job was given up while it was put in place; nothing is published", path=staging.root)


def _report_unfinished(staging: Staging, record: Record, error: Exception) -> None:
    """Raise if rows may be lost, and warn if not."""
    words = _unfinished(staging, record, error)
    if not _are_rows_safe(staging, record):
        give_up = f"arrowipc vacuum --give-up {record.jobid} {staging.root}"
        way_out = f"Do not run the job again; if that cannot be mended, take it back with '{give_up}'"
        if record.mode == COPIED:
            way_out = "If that cannot be mended, remove the directory, and make the copy again"
        raise CommitError(f"{words}. {way_out}", path=staging.root) from error
    _log.warning("%s: %s", printable(staging.root), words)


def _are_rows_safe(staging: Staging, record: Record) -> bool:
    """Return whether the record survives a power failure, and every committed file is there."""
    pending = Pending(staging.dataset, record)
    try:
        _sync(staging, staging.dataset.commits)
        for file in record.adds:
            pending.file(file)
    except (OSError, CommitError, FileChangedError):
        return False
    return True


# C1


def _check_outputs(staging: Staging, outputs: Sequence[TaskOutput | None]) -> tuple[StagedFile, ...]:
    """Check all outputs and return their files."""
    missing = [i for i, output in enumerate(outputs) if output is None]
    if missing:
        raise CommitError(
            f"{len(missing)} of {len(outputs)} tasks reported nothing (the first is number {missing[0]}); "
            "nothing is published",
            path=staging.root,
        )
    reported = [output for output in outputs if output is not None]
    foreign_jobs = {output.jobid for output in reported} - {staging.jobid}
    if foreign_jobs:
        raise CommitError(
            expected=f"outputs of the job {staging.jobid}",
            found=f"some of {', '.join(sorted(foreign_jobs)[:3])}; nothing is published",
            path=staging.root,
        )
    return _checked_files(staging, [file for output in reported for file in output.files])


def _checked_files(staging: Staging, files: Sequence[StagedFile]) -> tuple[StagedFile, ...]:
    for kind, names in (("staged", {file.staged for file in files}), ("final", {file.final for file in files})):
        if len(names) != len(files):
            raise CommitError(f"two outputs share one {kind} name; nothing is published", path=staging.root)
    with error_context(path=staging.root):
        check_names(files)
    check_directories(staging.dataset, {parent(file.final) for file in files})
    sizes = {name_of(status.path): status.nbytes for status in entries_of(staging.storage, staging.directory)}
    if files and not sizes:
        _check_not_withdrawn(staging)
    for file in files:
        _check_staged(staging, file, sizes.get(file.staged))
    _check_absent(staging, [file.final for file in files])
    if files:
        staging.storage.check_publish(staging.directory, [staging.dataset.path(file.final) for file in files])
    return tuple(files)


def _check_absent(staging: Staging, finals: Sequence[str]) -> None:
    """Raise if a file has the name of a new one."""
    dataset = staging.dataset
    taken = set(publisher_of(dataset).there([dataset.path(final) for final in finals]))
    there = [final for final in finals if dataset.path(final) in taken]
    if there:
        raise CommitError(f"{there[0]} exists already and is not replaced; nothing is published", path=staging.root)


def _check_not_withdrawn(staging: Staging) -> None:
    newest = newest_record(staging.dataset)[1]
    if newest is not None and staging.jobid in newest.withdrawn:
        raise CommitError(
            "the job was withdrawn, by an abort or by 'arrowipc vacuum' with a short --older-than; nothing is published, "
            "run it again",
            path=staging.root,
        )


def _check_staged(staging: Staging, file: StagedFile, nbytes: int | None) -> None:
    if nbytes is None:
        raise CommitError(
            "a task wrote this staged file, and the driver does not find it: the path is not shared between driver "
            "and executors (give a path that every machine sees), or somebody removed it; nothing is published",
            path=staging.path(file.staged),
        )
    if nbytes != file.nbytes:
        raise CommitError(
            expected=f"a staged file of {file.nbytes:,} bytes",
            found=f"{nbytes:,}; nothing is published",
            path=staging.path(file.staged),
        )
    publisher_of(staging.dataset).check([(file.final, nbytes)])


def _is_left_empty(job: JobPlan) -> bool:
    """Return whether a job without rows leaves a dataset without files."""
    if job.intent.mode is WriteMode.OVERWRITE:
        return True
    dataset = job.staging.dataset
    return existing_file(dataset, newest_record(dataset)[1]) is None


# C3


def _append(
    job: JobPlan,
    adds: tuple[StagedFile, ...],
    documents: tuple[StagedFile, ...],
    fits: Fits | None,
    schema: NewSchema | None,
    *,
    is_placeholder: bool,
) -> Record | None:
    """Append the job's record; return None if there is nothing to commit."""
    staging, intent = job.staging, job.intent
    fits = fits if intent.layout is None else None  # what others add would be named nowhere
    checked: int | None = None
    while True:
        head, before = latest(staging.dataset)
        if before is not None and staging.jobid in before.withdrawn:
            raise CommitError("the job was withdrawn while it committed; nothing is published", path=staging.root)
        if intent.copies is None:
            check_no_copy(staging.dataset, head)
        if (before is not None and staging.jobid in before.jobs) or intent.is_in(before) or is_left_out(job, before):
            return None
        check_alone(staging.dataset, before if intent.copies is None else None)
        if intent.mode is not WriteMode.OVERWRITE:
            check_none_named(staging.dataset)
        beside = look_beside(job, adds, before, schema, is_placeholder=is_placeholder)
        if checked is None or not is_only_added(job, checked, fits):
            removes, is_all = check_unchanged(job, adds, beside.placeholder, fits)
            replaced = {file.final for file in documents}
            removes = tuple(file for file in removes if file.path not in replaced)
            check_removes(job, removes)
        else:  # others added files
            is_all = False
        checked = head.seq
        failpoint.hit("C3.checked")
        change = Record(
            head.seq + 1,
            staging.jobid,
            intent.record_mode,
            adds=adds,
            removes=tuple(file.as_removed() for file in removes),
            durable=staging.durable,
            token=intent.commit_token,
            query=intent.query,
            kept_until=ceil(time.time()) + intent.keep_replaced if removes and intent.keep_replaced else 0,
            documents=documents,
        )
        is_all = is_all or (before is None and (intent.is_new or is_empty(staging.dataset)))
        record = change.after(before, schema=beside.schema, is_all=is_all)
        if adds and staging.storage.status(staging.directory) is None:
            raise CommitError("the staged files are gone; nothing is published, write again", path=staging.root)
        if append_record(staging.dataset, record):
            return record


# Abort


def abort(staging: Staging) -> bool:
    """Abort a job and return True; False if it is committed, which finishes it, or if that is unknown.

    Spark also calls this after a commit that raised, in another process. After True the job cannot be committed any
    more, whatever request of it still comes. Where the storage cannot be read, or does not confirm the withdrawal,
    nothing is deleted. A second call does nothing.
    """
    name, root = staging.jobid, printable(staging.root)
    try:
        withdrawn = bool(withdraw(staging.dataset, [staging.jobid], durable=staging.durable))
    except (OSError, CommitError, UnsupportedError) as error:
        words = "%s: whether the job %s is committed is unknown, and nothing of it is removed: %s"
        _log.warning(words, root, name, error)
        return False
    if not withdrawn:
        _log.warning("%s: the job %s was aborted after its commit; it is published", root, name)
    return withdrawn


@contextmanager
def _nothing_published(staging: Staging) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        words = f"the commit could not begin: {advised(error, 'write again')}; nothing is published"
        raise CommitError(words, path=staging.root) from error


def _unfinished(staging: Staging, record: Record, error: Exception) -> str:
    """Describe the state of a committed job that could not be put in place."""
    there = _count_there(staging, [file.final for file in record.adds])
    old = _count_there(staging, [file.path for file in record.removes])
    parts = [f"the job is committed, and putting it in place stopped half-way: {error}"]
    parts.append(f"{there} of {len(record.adds)} new files have their names")
    if record.removes:
        parts.append(f"{old} of {len(record.removes)} old files are still there")
    parts.append(
        "readers of this package see the new data; the next write to this directory, or 'arrowipc vacuum "
        f"{staging.root}', does the rest"
    )
    return "; ".join(parts)


def _count_there(staging: Staging, names: Sequence[str]) -> int:
    paths = map(staging.dataset.path, names)
    return sum(staging.storage.status(path, follow_links=False) is not None for path in paths)


def _sync(staging: Staging, *directories: str) -> None:
    if staging.durable:
        for directory in directories:
            staging.storage.sync(directory)
