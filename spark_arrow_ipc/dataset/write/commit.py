"""Commit a job: publish all files of its tasks, or none.

1. The reports of the tasks are checked: one job, staged files that are there with the reported size, names that readers see
   and that no file has.
2. `Transaction.name_files` gives the files their final names, and `Transaction.commit` puts the entry, after `conflicts` has
   compared the job with each state that the entry may follow. **The entry is the commit.**
3. What remains is deleted (`Transaction.collect`). An error of that is a warning: the job is committed, and the next one or
   vacuum deletes the rest.

Only files that tasks reported get names: the file of a second attempt is deleted with the staging directory.
"""

from __future__ import annotations

import getpass
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from spark_arrow_ipc.dataset.write import WriteMode
from spark_arrow_ipc.dataset.write.conflicts import (
    Fits,
    NewSchema,
    check_isolation,
    is_in,
    is_left_out,
    look_beside,
    removed_files,
    touched_directories,
)
from spark_arrow_ipc.dataset.write.existing_files import existing_file, live_files
from spark_arrow_ipc.dataset.write.hugging_face_layout import check_none_named
from spark_arrow_ipc.dataset.write.job_plan import JobPlan
from spark_arrow_ipc.dataset.write.nested import check_alone
from spark_arrow_ipc.dataset.write.staged_file import (
    MAX_COPIED_NBYTES,
    Staging,
    WrittenFile,
    advised,
)
from spark_arrow_ipc.dataset.write.task import TaskOutput
from spark_arrow_ipc.errors import CommitError, ConcurrentWriteError, UnsupportedError, cut_repr, printable
from spark_arrow_ipc.storage.paths import above, name_of, split_url
from spark_arrow_ipc.storage.storage import each
from spark_arrow_ipc.table.bounds import bounds_batch
from spark_arrow_ipc.table.entry import Entry, Operation
from spark_arrow_ipc.table.files import StagedFile
from spark_arrow_ipc.table.log import read_state
from spark_arrow_ipc.table.names import TableDirectory, data_file_name, is_text, is_visible
from spark_arrow_ipc.table.snapshot import Snapshot
from spark_arrow_ipc.table.state import State
from spark_arrow_ipc.table.transaction import Phase, Transaction

SUCCESS_FILE: Final = "_SUCCESS"
"""Hadoop's marker of a finished job: empty, because polars reads every file of a directory that is not."""

OPERATIONS: Final = {
    WriteMode.APPEND: Operation.APPEND,
    WriteMode.OVERWRITE: Operation.OVERWRITE,
    WriteMode.DYNAMIC: Operation.OVERWRITE_PARTITIONS,
    WriteMode.REWRITE: Operation.REWRITE,
    WriteMode.DELETE: Operation.DELETE,
    WriteMode.UPDATE: Operation.UPDATE,
    WriteMode.MERGE: Operation.MERGE,
}

_MAX_KEY_NBYTES: Final = 1024
"""Longest name of an object, its directories included, in S3, Azure and Google Cloud Storage."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CommitSummary:
    """Summary of a commit."""

    jobid: str
    mode: str
    # Totals of the published files.
    files: int = 0
    rows: int = 0
    nbytes: int = 0
    removed: int = 0  # files that ceased to count
    # False if the job had nothing to do: its token was committed before, or ``ifExists=ignore`` and files exist.
    published: bool = True


def commit(
    job: JobPlan,
    outputs: Sequence[TaskOutput | None],
    *,
    write_empty: Callable[[], WrittenFile] | None,
    fits: Fits | None = None,
    schema: NewSchema | None = None,
    is_changed: bool = True,
) -> CommitSummary:
    """Publish the files of all tasks and return a summary; an output is None if a task reported nothing.

    `write_empty` stages a file with the schema and no rows in the table's directory; it is called if no task had rows
    and no file would be there, so that the table can be read. None if it may be left without files. `fits` compares
    the schema of a file with that of the new ones: files of the same schema that others add while a static overwrite
    runs stay; without it, they are a conflict. `schema` is that of the new files, for the log; None if that does not
    change. Without `is_changed` the new files have the rows of those that they would replace, and nothing is published.

    CommitError if nothing is published, or the storage did not confirm the entry, and whether it is there is unknown. The
    message says which. Faults after the entry are warnings. ConcurrentWriteError if another writer changed files that an
    overwrite replaces, or made files although ifExists is error, or made some beside which the new ones do not fit; nothing
    is published.

    Cost: about three calls of the storage per file; 64 at once if they are slow.
    """
    staging, mode = job.staging, job.intent.mode.value
    if job.skip:
        return CommitSummary(staging.jobid, mode, published=False)
    transaction = job.transaction()
    with _nothing_published(staging):
        files = _check_outputs(job, outputs)
        if not is_changed:
            transaction.abort()
            return CommitSummary(staging.jobid, mode, published=False)
        is_placeholder = not files and write_empty is not None and _is_left_empty(job)
        if is_placeholder and write_empty is not None:
            files = _check_files(job, (write_empty(),))
        named = name_files(job.table, staging.jobid, files)
        check_names(staging, named)
        transaction.name_files(named, statistics=bounds_batch([file.bounds for file in files]))
    change = _Change(job, named, fits, schema, is_placeholder=is_placeholder)
    with _nothing_published(staging):
        transaction.commit(change.follow)
    if transaction.phase is not Phase.COMMITTED:
        with suppress(OSError, CommitError):
            transaction.abort()
        return CommitSummary(staging.jobid, mode, published=False)
    _finish(job, transaction)
    rows, nbytes = sum(file.rows for file in files), sum(file.nbytes for file in files)
    return CommitSummary(staging.jobid, mode, len(files), rows, nbytes, change.removed)


def name_files(table: str, job: str, files: Sequence[WrittenFile]) -> list[StagedFile]:
    """Return written files with their final names, which are unique."""
    counts: Counter[tuple[str, int]] = Counter()
    named = []
    for file in files:
        key = file.directory, file.task
        name = data_file_name(file.task, table, job, counts[key], file.suffix)
        counts[key] += 1
        named.append(StagedFile(file.staged, file.directory, name, file.nbytes, file.rows, file.crc32))
    return named


class _Change:
    """Makes the entry of a job for each state that it may follow."""

    def __init__(
        self,
        job: JobPlan,
        named: Sequence[StagedFile],
        fits: Fits | None,
        schema: NewSchema | None,
        *,
        is_placeholder: bool,
    ) -> None:
        self._job = job
        self._named = named
        # What others add would be named in no JSON file.
        self._fits = None if job.intent.layout else fits
        self._schema = schema
        self._is_placeholder = is_placeholder
        self.removed = 0
        """The number of files that the newest entry removes."""

    def follow(self, state: State) -> Entry | None:
        """Return the entry that is to follow a state; None if there is nothing to commit."""
        job, intent, directory = self._job, self._job.intent, self._job.staging.directory
        if intent.is_in(state) or is_left_out(job):
            return None
        check_alone(directory, state)
        check_isolation(job, state)
        if (intent.mode.changes_rows or intent.partition) and (self._is_placeholder or not self._named):
            self._check_left()
        if intent.mode is not WriteMode.OVERWRITE:
            check_none_named(directory, state=state)
        beside = look_beside(job, state, self._schema, adds=bool(self._named), is_placeholder=self._is_placeholder)
        removes = removed_files(job, state, {file.directory for file in self._named}, self._fits)
        if beside.placeholder is not None and beside.placeholder not in removes:
            removes = (*removes, beside.placeholder)
        directory.storage.check_delete([directory.path(file.path) for file in removes])
        self.removed = len(removes)
        retention = intent.retention if intent.retention is not None else state.retention
        partition_columns = intent.partition_by
        return Entry(
            0,
            "",
            OPERATIONS[intent.mode],
            application=intent.application,
            user=_user(),
            schema=beside.schema,
            partition_columns=None if partition_columns is None else tuple(field.name for field in partition_columns),
            remove=removes,
            # Running reads go on with the files that a rewrite replaced.
            retain=bool(removes) and (bool(retention) or (retention is None and intent.mode.replaces_chosen)),
            retention=intent.retention,
            token=intent.commit_token,
            batch=intent.query,
            layout=intent.layout or ("" if state.layout else None),
        )

    def _check_left(self) -> None:
        """Raise if others added or removed files, so that a table that is left without rows has no file or one too many."""
        if _is_left_empty(self._job) != self._is_placeholder:
            raise ConcurrentWriteError(
                "another writer added or removed files since this job was planned; nothing is published, run it again",
                path=self._job.staging.root,
            )


def _finish(job: JobPlan, transaction: Transaction) -> None:
    """Do what follows the entry. The job is committed, so that errors are warnings."""
    directory = job.staging.directory
    try:
        _mark_success(directory, job.table)
        transaction.collect()
    except (OSError, CommitError) as error:
        _log.warning(
            "%s: the job %s is committed, and what it replaced is not deleted yet: %s; the next job or 'arrowipc vacuum' "
            "does that",
            printable(directory.root), job.staging.jobid, error,
        )  # fmt: skip


def _mark_success(directory: TableDirectory, table: str) -> None:
    """Write ``_SUCCESS``; only warn if that fails: no reader of this package needs it."""
    path = directory.path(SUCCESS_FILE)
    try:
        directory.storage.put(path, b"", durable=True, scratch=directory.entries(table))
        directory.storage.sync(directory.root)
    except OSError as error:
        _log.warning("%s could not be written: %s", printable(path), error)


def _user() -> str:
    """Return the name of the user for the history of the table; empty if it is unknown."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container has no such entry
        return ""


# ---- the reports of tasks


def _check_outputs(job: JobPlan, outputs: Sequence[TaskOutput | None]) -> tuple[WrittenFile, ...]:
    """Check all outputs and return their files."""
    staging = job.staging
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
    return _check_files(job, [file for output in reported for file in output.files])


def _check_files(job: JobPlan, files: Sequence[WrittenFile]) -> tuple[WrittenFile, ...]:
    """Compare reported files with the staging directory."""
    staging = job.staging
    if len({file.staged for file in files}) != len(files):
        raise CommitError("two outputs share one staged name; nothing is published", path=staging.root)
    sizes: dict[str, int] = {}
    with suppress(FileNotFoundError):
        sizes = {name_of(status.path): status.nbytes for status in staging.storage.list(staging.path)}
    if files and not sizes:
        _check_not_ended(job)
    for file in files:
        _check_staged(staging, file, sizes.get(file.staged))
    return tuple(files)


def check_names(staging: Staging, named: Sequence[StagedFile]) -> None:
    """Raise if a file could not get its final name: it is hidden, too long, in a link, or a file has it."""
    directory, storage = staging.directory, staging.storage
    for file in named:
        if not is_visible(file.path):
            raise CommitError(
                f"the name {cut_repr(file.path, 300)} is not a relative path that readers see; nothing is published",
                path=directory.root,
            )
        if not is_text(file.path):
            raise CommitError(
                f"the name {cut_repr(file.path, 300)} is not UTF-8, which the log cannot hold; nothing is published, rename "
                "this directory",
                path=directory.root,
            )
    _check_directories(directory, {file.directory for file in named})
    if not storage.traits.renames:
        _check_keys(directory, named)
    paths = [directory.path(file.path) for file in named]

    def check_absent(path: str) -> None:
        if storage.status(path, follow_links=False) is not None:
            raise CommitError("this file exists already and is not replaced; nothing is published", path=path)

    # Where a file is copied, one more request for each is not worth it: the names are random.
    if storage.traits.renames:
        each(check_absent, paths, waits=storage.traits.waits)
    if paths:
        storage.check_publish(staging.path, paths)


def _check_keys(directory: TableDirectory, named: Sequence[StagedFile]) -> None:
    root = directory.root
    for file in named:
        directory.storage.resolve(directory.path(file.path))  # an object store takes no control characters
        if file.nbytes > MAX_COPIED_NBYTES:
            raise CommitError(
                f"{file.path} has {file.nbytes:,} bytes, and an object store copies at most {MAX_COPIED_NBYTES:,} at once; "
                "nothing is published. Write smaller files (maxFileBytes)",
                path=root,
            )
        if "://" in root and len(split_url(f"{root}/{file.path}")[1].encode(errors="surrogatepass")) > _MAX_KEY_NBYTES:
            raise CommitError(
                f"the name {cut_repr(file.path, 300)} is too long here: an object store takes names of {_MAX_KEY_NBYTES:,} "
                "bytes at most, with all directories; nothing is published",
                path=root,
            )


def _check_directories(directory: TableDirectory, directories: set[str]) -> None:
    """Raise if a directory of the new files, or one above it in the table, is a link, which could lead out, or a file."""
    parts = {part for inner in directories if inner for part in (inner, *filter(None, above(inner)))}
    for status in directory.not_directories(map(directory.path, sorted(parts))):
        raise CommitError(
            "a partition's directory must be a directory, and this is a link or a file: nothing is written to or removed "
            "from it",
            path=status.path,
        )


def _check_not_ended(job: JobPlan) -> None:
    """Raise if the log says why nothing is staged: the job was expired, or the table was removed."""
    staging = job.staging
    state = read_state(staging.directory)
    if state is None or state.table != job.table:
        raise CommitError("the table was removed while this job ran; nothing is published", path=staging.root)
    if staging.jobid in state.ended:
        raise CommitError(
            "the job was expired, by an abort or by 'arrowipc vacuum' with a short --older-than; nothing is published, "
            "run it again",
            path=staging.root,
        )


def _check_staged(staging: Staging, file: WrittenFile, nbytes: int | None) -> None:
    path = staging.file(file.staged)
    if nbytes is None:
        raise CommitError(
            "a task wrote this staged file, and the driver does not find it: the path is not shared between driver "
            "and executors (give a path that every machine sees), or somebody removed it; nothing is published",
            path=path,
        )
    if nbytes != file.nbytes:
        raise CommitError(
            expected=f"a staged file of {file.nbytes:,} bytes", found=f"{nbytes:,}; nothing is published", path=path
        )


def _is_left_empty(job: JobPlan) -> bool:
    """Return whether a job without rows leaves a table without files."""
    if job.intent.mode is WriteMode.OVERWRITE:
        return True
    directory = job.staging.directory
    if job.intent.partition:
        paths = [file.path for file in live_files(Snapshot.open(directory))]
        touched = touched_directories(job.intent, (), paths)
        return all(is_in(path, touched) for path in paths)
    if job.intent.mode.changes_rows:
        snapshot = live_files(Snapshot.open(directory))
        return {file.path for file in snapshot} <= {file.path for file in job.intent.snapshot}
    return existing_file(directory, read_state(directory)) is None


# ---- abort


def abort(job: JobPlan) -> bool:
    """Abort a job and return True; False if it is committed, or if that is unknown.

    Spark also calls this after a commit that raised, in another process. After True the job cannot be committed any
    more, whatever request of it still comes. Where the storage cannot be read, or does not confirm the entry that expires the
    job, nothing is deleted. A second call does nothing.
    """
    if job.skip:
        return True
    name, root = job.staging.jobid, printable(job.staging.root)
    try:
        is_aborted = job.transaction().abort(may_be_committed=True)
    except (OSError, CommitError, UnsupportedError) as error:
        _log.warning("%s: whether the job %s is committed is unknown, and its files stay: %s", root, name, error)
        return False
    if not is_aborted:
        _log.warning("%s: the job %s was aborted after its commit; it is published", root, name)
    return is_aborted


@contextmanager
def _nothing_published(staging: Staging) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        words = f"the commit failed: {advised(error, 'write again')}; nothing is published"
        raise CommitError(words, path=staging.root) from error
