"""Publishing what the tasks of one job wrote: all of it or none, and never at the cost of what was there.

Strategy
--------
The steps, in the order that makes a crash between any two of them harmless:

==== ===================================================================================================
P0   plan a job (`job`): make the directory and its staging; for an overwrite note the files that a reader sees
T1   a task creates a staged file (`sink`)
T2   it writes, makes durable, closes, opens again and compares, and reports
C1   check every task's output: one job, unique names, staged files present with the size that was reported
C2   make the names of the staged files durable
C3   bring a pending job of others to its end; check that nothing changed which this job relies on; write a record of
     all that it will do and link it to the next number of the chain. **This link is the commit.**
C4   (`commit_forward`) publish: rename each staged file to its final name, make the names durable
C5   remove the files that an overwrite replaces
C6   write ``_SUCCESS``, mark the record as done, remove the staging
A    abort: withdraw the job where no record names it, else do C4 to C6
==== ===================================================================================================

Up to the link nothing is visible and nothing is changed. From then on readers of this package see the job's result,
from the staging where need be (`directories.CommittedView`), and whoever writes next, or vacuum, finishes what is left.
Only files that tasks reported are published, never "what is there": a second attempt's file dies with the staging.

A link fails where its name exists, on network storage too: so of two jobs that both checked against record *n* only
one becomes *n + 1*, and the other checks again. The record *n + 1* is made only when *n* is done, so that what a
record removes never comes back.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from spark_arrow_ipc.dataset.commit_log.log import commits_directory, is_committed, read_head, record_path
from spark_arrow_ipc.dataset.commit_log.record import MAX_RECORD_NBYTES, REMEMBERED, Record, StagedFile, check_names
from spark_arrow_ipc.dataset.write import failpoint
from spark_arrow_ipc.dataset.write.job_plan import JobPlan, LiveFile, live_files, shown
from spark_arrow_ipc.dataset.write.modes import IfExists, WriteMode
from spark_arrow_ipc.dataset.write.roll_forward import (
    STAGED_RECORD,
    SUCCESS_FILE,
    CommitSummary,
    check_directories,
    latest,
    roll_forward,
    withdraw,
)
from spark_arrow_ipc.dataset.write.task import TaskOutput
from spark_arrow_ipc.errors import CommitError, ConcurrentWriteError, error_context
from spark_arrow_ipc.storage.local import sync_directory, sync_file

__all__ = ["SUCCESS_FILE", "CommitSummary", "abort", "commit"]

_log = logging.getLogger(__name__)


def commit(
    plan: JobPlan, outputs: Sequence[TaskOutput | None], *, write_empty: Callable[[], StagedFile] | None
) -> CommitSummary:
    """Publish what the tasks wrote and return a summary.

    Cost: about five file system calls a file; on storage where they wait, 32 at once.

    Parameters
    ----------
    plan
        The job's.
    outputs
        What each task reported.
    write_empty
        Stages a file that carries the schema; called where no task had rows, so that the dataset can be read. None
        where there is no place for one: the dataset is partitioned.

    Raises
    ------
    CommitError
        Either nothing is published, or the job is committed and not all of it is in place. The text says which.
    ConcurrentWriteError
        Another writer changed what an overwrite replaces, or wrote where nothing might be; nothing is published.
    """
    if plan.skip:
        return CommitSummary(plan.jobid, plan.mode.value, published=False)
    with _nothing_published(plan):
        adds = _check_outputs(plan, outputs)
        if not adds and write_empty is not None:
            adds = _checked_files(plan, (write_empty(),))
        failpoint.hit("C1.checked")
        _sync(plan, plan.staging.directory, os.path.dirname(plan.staging.directory), plan.directory)
        failpoint.hit("C2.synced")
        record = _link_record(plan, adds)
    if record is None:
        withdraw(plan.directory, plan.jobid)
        return CommitSummary(plan.jobid, plan.mode.value, published=False)
    try:
        _sync(plan, commits_directory(plan.directory))
        failpoint.hit("C3.synced")
        roll_forward(plan.directory, record)
    except (OSError, CommitError) as error:
        raise _unfinished(plan, record, error) from error
    return CommitSummary.of(record)


# C1


def _check_outputs(plan: JobPlan, outputs: Sequence[TaskOutput | None]) -> tuple[StagedFile, ...]:
    """Return the files of all outputs, checked."""
    missing = [i for i, output in enumerate(outputs) if output is None]
    if missing:
        raise CommitError(
            f"{len(missing)} of {len(outputs)} tasks reported nothing (the first is number {missing[0]}); "
            "nothing is published",
            path=plan.directory,
        )
    reported = [output for output in outputs if output is not None]
    strangers = {output.jobid for output in reported} - {plan.jobid}
    if strangers:
        raise CommitError(
            expected=f"outputs of the job {plan.jobid}",
            found=f"some of {', '.join(sorted(strangers)[:3])}; nothing is published",
            path=plan.directory,
        )
    return _checked_files(plan, [file for output in reported for file in output.files])


def _checked_files(plan: JobPlan, files: Sequence[StagedFile]) -> tuple[StagedFile, ...]:
    for kind, names in (("staged", {file.staged for file in files}), ("final", {file.final for file in files})):
        if len(names) != len(files):
            raise CommitError(f"two outputs share one {kind} name; nothing is published", path=plan.directory)
    with error_context(path=plan.directory):
        check_names(files)
    check_directories(plan.directory, {os.path.dirname(file.final) for file in files})
    sizes = _staged_sizes(plan)
    for file in files:
        _check_staged(plan, file, sizes.get(file.staged))
        if os.path.lexists(plan.path(file.final)):
            raise CommitError(
                f"{file.final} exists already and is not replaced; nothing is published", path=plan.directory
            )
    return tuple(files)


def _staged_sizes(plan: JobPlan) -> dict[str, int]:
    try:
        with os.scandir(plan.staging.directory) as entries:
            return {entry.name: entry.stat(follow_symlinks=False).st_size for entry in entries}
    except FileNotFoundError:
        return {}


def _check_staged(plan: JobPlan, file: StagedFile, nbytes: int | None) -> None:
    if nbytes is None:
        raise CommitError(
            "a task wrote this staged file, and the driver does not find it: the path is not shared between driver "
            "and executors (give a path that every machine sees), or somebody removed it; nothing is published",
            path=plan.staging.path(file.staged),
        )
    if nbytes != file.nbytes:
        raise CommitError(
            expected=f"a staged file of {file.nbytes:,} bytes",
            found=f"{nbytes:,}; nothing is published",
            path=plan.staging.path(file.staged),
        )


# C3


def _link_record(plan: JobPlan, adds: tuple[StagedFile, ...]) -> Record | None:
    """Return the record that commits the job, or None where there was nothing to commit."""
    root = plan.directory
    while True:
        head, before = latest(root)
        if plan.is_in(before):
            return None
        if plan.if_exists is not IfExists.APPEND and (files := live_files(root)):
            if plan.if_exists is IfExists.IGNORE:
                return None
            raise ConcurrentWriteError(
                f"another writer made files ({_paths(files)}) since this job was planned, and ifExists is error; "
                "nothing is published",
                path=root,
            )
        removes = _check_unchanged(plan, adds)
        failpoint.hit("C3.checked")
        record = _record(plan, head.seq + 1, before, adds, removes)
        _write_record(plan, record)
        failpoint.hit("C3.written")
        if _link(plan, record):
            return record


def _check_unchanged(plan: JobPlan, adds: Sequence[StagedFile]) -> tuple[str, ...]:
    """Return what an overwrite removes, after a look whether that is still what its planning saw."""
    if plan.mode is WriteMode.APPEND:
        return ()
    if plan.mode is WriteMode.OVERWRITE:
        before, now = plan.snapshot, live_files(plan.directory)
    else:
        touched = {os.path.dirname(file.final) for file in adds}
        before = tuple(file for file in plan.snapshot if os.path.dirname(file.path) in touched)
        now = live_files(plan.directory, touched)
    if now != before:
        raise ConcurrentWriteError(
            f"another writer changed the directory since this overwrite was planned ({_paths({*now} ^ {*before})}); "
            "nothing is published, write again",
            path=plan.directory,
        )
    return tuple(file.path for file in before)


def _paths(files: Sequence[LiveFile] | set[LiveFile]) -> str:
    return shown(sorted({file.path for file in files}))


def _record(
    plan: JobPlan, seq: int, before: Record | None, adds: tuple[StagedFile, ...], removes: tuple[str, ...]
) -> Record:
    jobs, tokens, queries = (before.jobs, before.tokens, before.queries) if before is not None else ((), (), {})
    token = () if plan.commit_token is None else (plan.commit_token,)
    if plan.query is not None:
        name, batch_id = plan.query
        others = [(other, last) for other, last in queries.items() if other != name]
        queries = dict([*others, (name, batch_id)][-REMEMBERED:])
    return Record(
        seq,
        plan.jobid,
        plan.mode.value,
        adds,
        removes,
        plan.staging.durable,
        (*jobs, plan.jobid)[-REMEMBERED:],
        (*tokens, *token)[-REMEMBERED:],
        queries,
    )


def _write_record(plan: JobPlan, record: Record) -> None:
    """Write the record under its staged name and make it durable, and the directory that it will be linked to."""
    data = record.to_bytes()
    if len(data) > MAX_RECORD_NBYTES:
        raise CommitError(
            f"a job of {len(record.adds):,} new and {len(record.removes):,} old files makes a record of {len(data):,} "
            f"bytes, and none is read above {MAX_RECORD_NBYTES:,}; nothing is published, write fewer and larger files",
            path=plan.directory,
        )
    with open(plan.staging.path(STAGED_RECORD), "wb", buffering=0) as file:
        half = len(data) // 2
        for part in (data[:half], data[half:]):
            _write_all(file.fileno(), part)
            failpoint.hit("C3.torn")
        if plan.staging.durable:
            sync_file(file.fileno())
    with suppress(FileExistsError):
        os.mkdir(commits_directory(plan.directory))
        _sync(plan, plan.directory)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _link(plan: JobPlan, record: Record) -> bool:
    """Link the record to its number, and return whether it is the job's commit; False: another job was quicker."""
    root, target = plan.directory, record_path(plan.directory, record.seq)
    try:
        os.link(plan.staging.path(STAGED_RECORD), target)
        failpoint.hit("C3.linked")
        if read_head(root).seq == record.seq:
            return True
    except FileExistsError:
        return _settled(plan)
    except OSError as error:
        # On network storage the answer may be lost and the link be there.
        if _settled(plan):
            return True
        if isinstance(error, FileNotFoundError):
            raise CommitError("the job was withdrawn while it committed; nothing is published", path=root) from error
        raise
    # Either others have finished this record and gone on; or they did so before, and removed the record of this number:
    # then the link filled a hole in the past, where nobody looks.
    if _settled(plan):
        return True
    with suppress(FileNotFoundError):
        os.unlink(target)
    return False


def _settled(plan: JobPlan) -> bool:
    try:
        return is_committed(plan.directory, plan.jobid)
    except (OSError, CommitError) as error:
        raise CommitError(
            f"whether the job is committed cannot be found out: {error}. Nothing is removed; when the file system "
            f"answers, 'arrowipc vacuum {plan.directory}' settles it",
            path=plan.directory,
        ) from error


# Abort


def abort(plan: JobPlan) -> bool:
    """Give the job up and return True; or, where it is committed, bring it to its end and return False.

    Spark calls this after a commit that raised as well, in another process. Where the file system does not say whether
    the job is committed, nothing is removed and True is returned. Calling it twice does nothing more.

    Parameters
    ----------
    plan
        The job's.
    """
    try:
        withdrawn = withdraw(plan.directory, plan.jobid)
    except (OSError, CommitError) as error:
        _log.warning(
            "%s: the job %s is aborted; nothing of it is removed, because: %s", plan.directory, plan.jobid, error
        )
        return True
    if not withdrawn:
        _log.warning("%s: the job %s was aborted after its commit; it is published", plan.directory, plan.jobid)
    return withdrawn


# What the steps share


@contextmanager
def _nothing_published(plan: JobPlan) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CommitError(f"the commit could not begin: {error}; nothing is published", path=plan.directory) from error


def _unfinished(plan: JobPlan, record: Record, error: Exception) -> CommitError:
    there = sum(os.path.lexists(plan.path(file.final)) for file in record.adds)
    old = sum(os.path.lexists(plan.path(name)) for name in record.removes)
    parts = [f"the job is committed, and putting it in place stopped half-way: {error}"]
    parts.append(f"{there} of {len(record.adds)} new files have their names")
    if record.removes:
        parts.append(f"{old} of {len(record.removes)} old files are still there")
    parts.append(
        "readers of this package see the new data; the next write to this directory, or 'arrowipc vacuum "
        f"{plan.directory}', does the rest. Do not run the job again"
    )
    return CommitError("; ".join(parts), path=plan.directory)


def _sync(plan: JobPlan, *directories: str) -> None:
    if plan.staging.durable:
        for directory in directories:
            sync_directory(directory)
