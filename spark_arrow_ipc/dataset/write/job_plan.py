"""The plan of a write (step P0): where its tasks stage their files, and what a reader sees before it.

`commit` describes all steps. A `JobPlan` is all that the processes of a job share; it travels by pickle. Planning
brings a pending job of others to its end where it must know what is there, and makes two directories; nothing else
is changed.
"""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass

from spark_arrow_ipc.dataset.commit_log.log import read_head
from spark_arrow_ipc.dataset.commit_log.record import Record
from spark_arrow_ipc.dataset.listing.tree import list_directory
from spark_arrow_ipc.dataset.write import failpoint
from spark_arrow_ipc.dataset.write.modes import IfExists, WriteMode
from spark_arrow_ipc.dataset.write.roll_forward import finish, latest
from spark_arrow_ipc.dataset.write.task import Staging
from spark_arrow_ipc.errors import CommitError, OptionError, UnsupportedError
from spark_arrow_ipc.storage.local import local_path, status, sync_directory

__all__ = ["IfExists", "JobPlan", "LiveFile", "WriteMode", "live_files", "plan_job", "shown"]

_NAMES_SHOWN = 10

_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)
"""What file systems answer that have no hard links."""


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A file that a reader sees.

    Parameters
    ----------
    path
        Relative to the dataset's directory.
    nbytes, mtime_ns
        Its size and the time of its last modification, nanoseconds since 1970.
    """

    path: str
    nbytes: int
    mtime_ns: int

    def __reduce__(self) -> tuple[type[LiveFile], tuple[str, int, int]]:
        # The plan of an overwrite holds all files, and travels to every task.
        return LiveFile, (self.path, self.nbytes, self.mtime_ns)


@dataclass(frozen=True, slots=True)
class JobPlan:
    """One write, from its planning to its commit or abort.

    Parameters
    ----------
    staging
        The dataset's directory, the job's id, and where tasks put their files.
    mode
        What happens to the files in `snapshot`.
    snapshot
        What a reader saw when the job was planned; empty for an append.
    if_exists
        What an append does where files are there.
    commit_token
        A text of the user's: of all jobs that have it, one is committed.
    query
        Id of a streaming query and number of its micro-batch.
    skip
        Whether there is nothing to do: no staging is made, tasks must write nothing, and `commit` publishes nothing.
    """

    staging: Staging
    mode: WriteMode
    snapshot: tuple[LiveFile, ...] = ()
    if_exists: IfExists = IfExists.APPEND
    commit_token: str | None = None
    query: tuple[str, int] | None = None
    skip: bool = False

    @property
    def directory(self) -> str:
        """Absolute path of the dataset's directory."""
        return self.staging.root

    @property
    def jobid(self) -> str:
        """The job's id."""
        return self.staging.jobid

    def path(self, final: str) -> str:
        """Return the path of a published file."""
        return os.path.join(self.directory, final)

    def is_in(self, record: Record | None) -> bool:
        """Return whether the newest record remembers this job, its token or its micro-batch.

        Raises
        ------
        CommitError
            The query has written a later micro-batch: its checkpoint was set back.
        """
        if record is None:
            return False
        if self.query is not None:
            name, batch_id = self.query
            last = record.queries.get(name, -1)
            if batch_id < last:
                raise CommitError(
                    f"the query {name} has written its micro-batch {last} here, and now writes number {batch_id}: its "
                    "checkpoint was set back. Nothing is written; restore the checkpoint, or begin with a new one",
                    path=self.directory,
                )
            if batch_id == last:
                return True
        return self.jobid in record.jobs or self.commit_token in record.tokens


def plan_job(
    path: str,
    mode: WriteMode,
    *,
    durable: bool = True,
    if_exists: IfExists = IfExists.APPEND,
    commit_token: str | None = None,
    query: tuple[str, int] | None = None,
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
        Where a job with this token is committed already, this one does nothing.
    query
        The same for a micro-batch.

    Raises
    ------
    OptionError
        The path is a file, or `if_exists` is not for this mode.
    UnsupportedError
        The path has a scheme other than ``file``, an overwrite would meet a partition that is a link, or the file
        system has no hard links.
    CommitError
        There are files and `if_exists` is error; or a pending job of others cannot be finished.
    OSError
        The directory or the staging cannot be made.
    """
    directory = local_path(path)
    found = status(directory)
    if found is not None and not found.is_directory:
        raise OptionError(
            "a dataset is written into a directory, and this is a file; give another path", path=directory
        )
    if if_exists is not IfExists.APPEND and mode is not WriteMode.APPEND:
        raise OptionError(
            f"ifExists={if_exists.value} is for the mode append, and the mode is {mode.value}", path=directory
        )
    failpoint.hit("P0.begin")
    plan = JobPlan(Staging(directory, uuid.uuid4().hex, durable), mode, (), if_exists, commit_token, query)
    skip, snapshot = _look(plan) if found is not None else (False, ())
    if skip:
        return JobPlan(plan.staging, mode, (), if_exists, commit_token, query, skip=True)
    _make_directory(directory, durable=durable)
    failpoint.hit("P0.snapshot")
    _make_staging(plan.staging)
    failpoint.hit("P0.staging")
    return JobPlan(plan.staging, mode, snapshot, if_exists, commit_token, query)


def _look(plan: JobPlan) -> tuple[bool, tuple[LiveFile, ...]]:
    """Return whether there is nothing to do, and what a reader sees, both as of one moment."""
    if (plan.commit_token is not None or plan.query is not None) and plan.is_in(latest(plan.directory)[1]):
        return True, ()
    if plan.mode is WriteMode.APPEND and plan.if_exists is IfExists.APPEND:
        return False, ()
    while True:
        head = finish(plan.directory)
        files = live_files(plan.directory)
        if read_head(plan.directory) == head:
            break
    if plan.mode is not WriteMode.APPEND:
        return False, files
    if files and plan.if_exists is IfExists.ERROR:
        raise CommitError(
            f"the directory holds {len(files)} files ({shown([file.path for file in files])}), and ifExists is error; "
            "nothing is written",
            path=plan.directory,
        )
    return bool(files), ()


def _make_directory(directory: str, *, durable: bool) -> None:
    made = []
    while not os.path.isdir(directory):
        made.append(directory)
        directory = os.path.dirname(directory)
    for path in reversed(made):
        os.makedirs(path, exist_ok=True)
        if durable:
            with suppress(PermissionError):  # one may be allowed to write into a directory and not to open it
                sync_directory(os.path.dirname(path))


def live_files(root: str, directories: Collection[str] | None = None) -> tuple[LiveFile, ...]:
    """Return what a reader of a dataset sees, sorted: its files and those in its partitions.

    Parameters
    ----------
    root
        The dataset's directory.
    directories
        Relative paths of the only ones that are looked into; None: all.

    Raises
    ------
    UnsupportedError
        A partition's directory is a link.
    NoFilesError
        A name is a link that leads nowhere.
    OSError
        A directory cannot be listed.
    """
    pending = [""] if directories is None else sorted(directories)
    files: list[LiveFile] = []
    while pending:
        inner = pending.pop()
        found = list(_files_in(root, inner, pending if directories is None else []))
        files.extend(found)
    return tuple(sorted(files, key=lambda file: file.path))


def _files_in(root: str, inner: str, below: list[str]) -> Iterator[LiveFile]:
    """Yield the files of one directory, and append its partitions to `below`."""
    path = os.path.join(root, inner) if inner else root
    try:
        listing = list_directory(path)
    except FileNotFoundError:
        if inner:  # its last file went, and it with that; or the job makes it
            return
        raise
    for name in listing.directories:
        if "=" in name:
            if name in listing.links:
                raise UnsupportedError(
                    "an overwrite does not follow links, and this partition is one; remove it or write elsewhere",
                    path=os.path.join(path, name),
                )
            below.append(os.path.join(inner, name))
    for file in listing.files:
        yield LiveFile(os.path.join(inner, os.path.basename(file.path)), file.nbytes, file.mtime_ns)


def _make_staging(staging: Staging) -> None:
    while True:
        try:
            os.makedirs(staging.directory)
        except FileNotFoundError:  # another job, ending, removed the empty parent between the two steps of makedirs
            continue
        break
    if not read_head(staging.root).seq:
        _check_links(staging)


def _check_links(staging: Staging) -> None:
    """Raise, before any work is done for nothing, where the file system lacks what a commit is made with."""
    probe, link = staging.path("probe.staged"), staging.path("linked.staged")
    with open(probe, "xb"):
        pass
    try:
        os.link(probe, link)
        os.unlink(link)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        os.unlink(probe)
        os.rmdir(staging.directory)
        raise UnsupportedError(
            f"this file system has no hard links, with which a write is committed ({error}); write to a local disk, "
            "NFS or another file system that has them, and copy the directory from there",
            path=staging.root,
        ) from error
    os.unlink(probe)


def shown(names: Collection[str]) -> str:
    """Return the first of some names for a message, and how many more there are."""
    some = ", ".join(list(names)[:_NAMES_SHOWN]) or "none"
    return some if len(names) <= _NAMES_SHOWN else f"{some} and {len(names) - _NAMES_SHOWN} more"
