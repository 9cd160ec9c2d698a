"""Publishing what the tasks of one job wrote: all of it or none, and never at the cost of what was there.

Strategy
--------
The steps, each in a function of its own, in the order that makes a crash between any two of them harmless to old data:

==== ===================================================================================================
P0   plan a job: make the directory and its staging; for an overwrite note the files that a reader sees now
C1   check every task's output: one job, unique names, staged files present with the size that was reported
C2   make the names of the staged files durable
C3   for an overwrite check that the directory is still as P0 saw it. Up to here nothing is visible
C4   publish: rename each staged file to its final name, never over a file that exists; make the names durable
C5   for an overwrite remove the files noted at P0
C6   write ``_SUCCESS``, remove the staging
==== ===================================================================================================

Only files that tasks reported are published, never "what is there": a second attempt's file dies with the staging.
After the first rename nothing is undone: what failed half-way stays, published files and staged ones, and the error
says which is which. `abort` looks before it removes, because Spark calls it after a commit that raised, too.

A `JobPlan` is all that the processes of a job share. It travels by pickle.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final, TypeVar

from spark_arrow_ipc.dataset.filesystem import status, sync_directory, sync_file
from spark_arrow_ipc.dataset.job import JobPlan, WriteMode, live_files
from spark_arrow_ipc.dataset.listing import STAGED_SUFFIX, STAGING_DIRECTORY
from spark_arrow_ipc.dataset.sink import StagedFile, Staging, TaskOutput
from spark_arrow_ipc.errors import CommitError, ConcurrentWriteError

__all__ = ["SUCCESS_FILE", "CommitSummary", "abort", "commit"]

SUCCESS_FILE: Final = "_SUCCESS"
"""Hadoop's sign of a finished job; ours holds a summary as JSON."""

_THREADS: Final = 32
"""File system calls at once: on network storage each takes milliseconds of waiting."""

_SERIAL: Final = 64
"""Up to so many calls no threads are started."""

_NAMES_SHOWN: Final = 10

_log = logging.getLogger(__name__)

_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class CommitSummary:
    """What a commit did.

    Parameters
    ----------
    jobid, mode
        The job's.
    files, rows, nbytes
        What was published.
    removed
        How many files of before are gone.
    """

    jobid: str
    mode: str
    files: int
    rows: int
    nbytes: int
    removed: int

    def to_json(self) -> str:
        """Return the text of ``_SUCCESS``."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return json.dumps({"writer": "spark-arrow-ipc", **values}, indent=2) + "\n"


# C1 to C6


def commit(
    plan: JobPlan, outputs: Sequence[TaskOutput | None], *, write_empty: Callable[[], StagedFile]
) -> CommitSummary:
    """Publish what the tasks wrote and return a summary.

    Cost: three file system calls a file, on up to 32 threads.

    Parameters
    ----------
    plan
        The job's.
    outputs
        What each task reported.
    write_empty
        Stages a file that carries the schema; called where no task had rows, so that the dataset can be read.

    Raises
    ------
    CommitError
        The outputs are not sound, or the file system failed. The text says what is published and what is not.
    ConcurrentWriteError
        Another writer changed the directory since an overwrite was planned; nothing is published.
    """
    adds = _check_outputs(plan, outputs)
    if not adds:
        adds = _checked_files(plan, (write_empty(),))
    with _told(plan, adds, "the commit could not begin"):
        _sync(plan, plan.staging.directory)
        _check_unchanged(plan)
    _publish(plan, adds)
    _remove_snapshot(plan, adds)
    summary = CommitSummary(
        plan.jobid,
        plan.mode.value,
        len(adds),
        sum(file.rows for file in adds),
        sum(file.nbytes for file in adds),
        len(plan.snapshot),
    )
    with _told(plan, adds, f"only {SUCCESS_FILE} could not be written"):
        _write_success(plan, summary)
    _remove_staging(plan.staging)
    return summary


def _check_outputs(plan: JobPlan, outputs: Sequence[TaskOutput | None]) -> tuple[StagedFile, ...]:
    """Return the files of all outputs, checked (step C1)."""
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
    for kind, names in (("staged", [file.staged for file in files]), ("final", [file.final for file in files])):
        if len(set(names)) != len(names):
            raise CommitError(f"two outputs share one {kind} name; nothing is published", path=plan.directory)
    for file in files:
        _check_names(plan, file)
    _each(lambda file: _check_staged(plan, file), files)
    return tuple(files)


def _check_names(plan: JobPlan, file: StagedFile) -> None:
    """Raise where a name could lead out of the dataset or is one that no reader would see."""
    for name, parts in ((file.staged, 1), (file.final, len(PurePosixPath(file.final).parts))):
        pieces = name.split("/")
        if len(pieces) != parts or any(piece in ("", ".", "..") or "\0" in piece for piece in pieces):
            raise CommitError(f"the name {name!r} is no relative path; nothing is published", path=plan.directory)
    if not file.staged.endswith(STAGED_SUFFIX) or file.final.startswith(("_", ".")):
        raise CommitError(
            f"the names {file.staged!r} and {file.final!r} are not those of a staged and a published file; "
            "nothing is published",
            path=plan.directory,
        )


def _check_staged(plan: JobPlan, file: StagedFile) -> None:
    path = plan.staging.path(file.staged)
    found = status(path)
    if found is None:
        raise CommitError(
            "a task wrote this staged file, and the driver does not find it: the path is not shared between driver "
            "and executors (give a path that every machine sees), or somebody removed it; nothing is published",
            path=path,
        )
    if found.nbytes != file.nbytes:
        raise CommitError(
            expected=f"a staged file of {file.nbytes:,} bytes",
            found=f"{found.nbytes:,}; nothing is published",
            path=path,
        )


def _check_unchanged(plan: JobPlan) -> None:
    """Raise where an overwrite would meet files that it does not know (step C3)."""
    if plan.mode is not WriteMode.OVERWRITE:
        return
    now = live_files(plan.directory)
    if now != plan.snapshot:
        changed = sorted({os.path.basename(file.path) for file in {*now} ^ {*plan.snapshot}})
        raise ConcurrentWriteError(
            f"another writer changed the directory since this overwrite was planned ({_names(changed)}); "
            "nothing is published, write again",
            path=plan.directory,
        )


def _publish(plan: JobPlan, adds: Sequence[StagedFile]) -> None:
    """Rename each staged file to its final name and make the names durable (step C4)."""
    with _told(plan, adds, "the publishing stopped half-way"):
        _each(lambda file: _publish_file(plan, file), adds)
        for directory in sorted({os.path.dirname(plan.path(file.final)) for file in adds}):
            _sync(plan, directory)


def _publish_file(plan: JobPlan, file: StagedFile) -> None:
    staged, final = plan.staging.path(file.staged), plan.path(file.final)
    if os.path.lexists(final):
        # Its name holds a uuid of this attempt: either this very file, published before, or somebody's mistake.
        there = status(final)
        if there is not None and there.nbytes == file.nbytes and not os.path.lexists(staged):
            return
        raise FileExistsError(f"{final} exists already and is not replaced")
    os.rename(staged, final)


def _remove_snapshot(plan: JobPlan, adds: Sequence[StagedFile]) -> None:
    """Remove the files that were there before an overwrite (step C5)."""
    if not plan.snapshot:
        return
    with _told(plan, adds, "files of before the overwrite remain beside the new ones"):
        _each(_remove_file, [file.path for file in plan.snapshot])
        _sync(plan, plan.directory)


def _remove_file(path: str) -> None:
    with suppress(FileNotFoundError):  # somebody removed it already
        os.unlink(path)


def _write_success(plan: JobPlan, summary: CommitSummary) -> None:
    """Write the sign of a finished job, whole or not at all (step C6)."""
    written = plan.staging.path(SUCCESS_FILE + STAGED_SUFFIX)
    with open(written, "x", encoding="utf-8") as file:
        file.write(summary.to_json())
        file.flush()
        if plan.staging.durable:
            sync_file(file.fileno())
    os.replace(written, plan.path(SUCCESS_FILE))
    _sync(plan, plan.directory)


def _remove_staging(staging: Staging) -> None:
    """Remove a job's staging and, where no other job has one, the directory of all.

    A failure is not the job's: what stays is hidden from readers and can be removed later.
    """
    try:
        shutil.rmtree(staging.directory)
    except FileNotFoundError:
        pass
    except OSError as error:  # a late attempt of a task may write into it this very moment
        _log.warning("%s: the staging directory could not be removed: %s", staging.directory, error)
    with suppress(OSError):
        os.rmdir(os.path.join(staging.root, STAGING_DIRECTORY))


# Abort


def abort(plan: JobPlan, outputs: Sequence[TaskOutput | None]) -> tuple[str, ...]:
    """Give the job up and return the names of its files that are published already, which stay.

    The staging is removed only where nothing is published: otherwise it holds the rest of a job that readers see in
    part. Spark calls this after a commit that raised as well, in another process, and with outputs missing where a
    task failed. Calling it twice does nothing more.

    Parameters
    ----------
    plan
        The job's.
    outputs
        What the tasks reported that did.

    Raises
    ------
    OSError
        The file system does not say whether a file is published: then nothing is removed.
    """
    reported = [output for output in outputs if output is not None and output.jobid == plan.jobid]
    published, _ = _published(plan, [file for output in reported for file in output.files])
    if published:
        _log.warning(
            "%s: the job %s is aborted, but its commit had begun: %d of its files are published and stay (%s)",
            plan.directory,
            plan.jobid,
            len(published),
            _names(published),
        )
        return tuple(published)
    _remove_staging(plan.staging)
    return ()


# What the steps share


def _published(plan: JobPlan, files: Sequence[StagedFile]) -> tuple[list[str], list[str]]:
    """Return the final names of the files that are published, and of those that are not."""
    published: list[str] = []
    staged: list[str] = []
    for file in files:
        (published if status(plan.path(file.final)) is not None else staged).append(file.final)
    return published, staged


@contextmanager
def _told(plan: JobPlan, adds: Sequence[StagedFile], what: str) -> Iterator[None]:
    """Turn an OSError of the file system into a `CommitError` that says what readers see now."""
    try:
        yield
    except OSError as error:
        published, staged = _published(plan, adds)
        old = [os.path.basename(file.path) for file in plan.snapshot if os.path.lexists(file.path)]
        parts = [f"{what}: {error}", f"{len(published)} of {len(adds)} new files are published"]
        if published and staged:
            parts[1] += f" ({_names(published)})"
        if staged:
            parts.append(f"{len(staged)} are not and remain staged in {plan.staging.directory} ({_names(staged)})")
        if plan.snapshot:
            parts.append(f"{len(old)} of {len(plan.snapshot)} old files are still there ({_names(old)})")
        raise CommitError("; ".join(parts), path=plan.directory) from error


def _each(call: Callable[[_Item], None], items: Sequence[_Item]) -> None:
    """Call for each item, many at once where there are many; the first error is raised, later items may be left."""
    if len(items) <= _SERIAL:
        for item in items:
            call(item)
        return
    with ThreadPoolExecutor(_THREADS) as pool:
        futures = [pool.submit(call, item) for item in items]
        try:
            for future in futures:
                future.result()
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def _sync(plan: JobPlan, directory: str) -> None:
    if plan.staging.durable:
        sync_directory(directory)


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_NAMES_SHOWN]) or "none"
    return shown if len(names) <= _NAMES_SHOWN else f"{shown} and {len(names) - _NAMES_SHOWN} more"
