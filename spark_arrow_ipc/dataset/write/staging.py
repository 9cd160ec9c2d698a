"""`Staging`: the staging directory of a job, as its tasks need it."""

from __future__ import annotations

from dataclasses import dataclass

from spark_arrow_ipc.dataset.commit_log.dataset_directory import DatasetDirectory
from spark_arrow_ipc.errors import CommitError
from spark_arrow_ipc.storage.paths import join
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
