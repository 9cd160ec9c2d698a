"""The plan of a write (step P0): where its tasks stage their files, and what a reader sees before it.

`commit` describes all steps. A `JobPlan` is all that the processes of a job share; it travels by pickle.
"""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum

from spark_arrow_ipc.dataset.filesystem import local_path, status, sync_directory
from spark_arrow_ipc.dataset.listing import DataFile, list_directory
from spark_arrow_ipc.dataset.sink import Staging
from spark_arrow_ipc.errors import OptionError, UnsupportedError

__all__ = ["JobPlan", "WriteMode", "live_files", "plan_job"]


class WriteMode(Enum):
    """What happens to the files that are there."""

    APPEND = "append"
    OVERWRITE = "overwrite"


@dataclass(frozen=True, slots=True)
class JobPlan:
    """One write, from its planning to its commit or abort.

    Parameters
    ----------
    staging
        The dataset's directory, the job's id, and where tasks put their files.
    mode
        Whether the files in `snapshot` go.
    snapshot
        What a reader saw when the job was planned; empty unless `mode` is overwrite.
    """

    staging: Staging
    mode: WriteMode
    snapshot: tuple[DataFile, ...] = ()

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


def plan_job(path: str, mode: WriteMode, *, durable: bool = True) -> JobPlan:
    """Return the plan of a write and make its directories; nothing else is changed (step P0).

    Parameters
    ----------
    path
        Directory of the dataset; made where it does not exist.
    mode
        Append, or overwrite: then the files that a reader sees now are noted, to be removed at the commit.
    durable
        Whether ``fsync`` guards the steps against a power loss.

    Raises
    ------
    OptionError
        The path is a file.
    UnsupportedError
        The path has a scheme other than ``file``, or an overwrite would meet a partitioned directory.
    OSError
        The directories cannot be made or listed.
    """
    directory = local_path(path)
    found = status(directory)
    if found is not None and not found.is_directory:
        raise OptionError(
            "a dataset is written into a directory, and this is a file; give a directory that exists or can be made",
            path=directory,
        )
    _make_directory(directory, durable=durable)
    snapshot = live_files(directory) if mode is WriteMode.OVERWRITE else ()
    staging = Staging(directory, uuid.uuid4().hex, durable)
    _make_staging(staging)
    return JobPlan(staging, mode, snapshot)


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


def live_files(directory: str) -> tuple[DataFile, ...]:
    """Return what a reader of the directory sees."""
    listing = list_directory(directory)
    partitions = [name for name in listing.directories if "=" in name]
    if partitions:
        raise UnsupportedError(
            f"an overwrite would leave the files in its partitions ({', '.join(partitions[:3])}) beside the new ones; "
            "remove them or write to another directory",
            path=directory,
        )
    return listing.files


def _make_staging(staging: Staging) -> None:
    while True:
        try:
            os.makedirs(staging.directory)
        except FileNotFoundError:  # another job, ending, removed the empty parent between the two steps of makedirs
            continue
        return
