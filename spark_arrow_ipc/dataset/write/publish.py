"""Give the files of a committed job their final names (step C4), by renames or by copies.

Strategy
--------
A rename moves the staged file: whoever comes late finds nothing to move. A copy leaves it, and may end on the server
after the process that asked for it. Therefore, where a storage copies:

1. every file is copied, and a listing proves that all are there with their sizes;
2. the staged files are deleted, so that from then on no copy can begin;
3. if anybody else may have copies under way (a helper left a mark, this process is a helper, or an earlier attempt of
   its own failed), they are waited for.

Only then may the record be marked as done, and another job remove these files: nothing brings them back.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from spark_arrow_ipc.dataset.commit_log.dataset_directory import DatasetDirectory
from spark_arrow_ipc.dataset.commit_log.log import Pending, is_applied
from spark_arrow_ipc.dataset.commit_log.record import TAKEN_BACK, Record
from spark_arrow_ipc.dataset.commit_log.recorded_files import StagedFile
from spark_arrow_ipc.dataset.commit_log.stored_record import read_record
from spark_arrow_ipc.dataset.write.helping import help_marks
from spark_arrow_ipc.dataset.write.present_files import present
from spark_arrow_ipc.dataset.write.timing import TIMING
from spark_arrow_ipc.errors import CommitError
from spark_arrow_ipc.storage import failpoint
from spark_arrow_ipc.storage.concurrent import each
from spark_arrow_ipc.storage.paths import parent

_ATTEMPTS: Final = 5
"""How often a file is published, where other processes interfere each time."""


def publish_files(dataset: DatasetDirectory, record: Record, *, alone: bool) -> None:
    """Give all files of a record their final names; what is done already is left.

    Parameters
    ----------
    dataset
        The dataset.
    record
        The pending record, or one that was pending until a moment ago.
    alone
        Whether this is the first attempt of the job's own process: all copies have ended by then, unless the storage says
        of one that it may be under way.

    Raises
    ------
    CommitError
        A committed file is missing.
    OSError
        A call of the storage fails.
    """
    if dataset.storage.traits.renames:
        each(partial(_publish, dataset, record), record.adds)
        return
    if not record.adds:
        return
    waiting = record.adds if alone else _missing(dataset, record.adds)
    under_way: list[bool] = []

    def copy(file: StagedFile) -> None:
        under_way.append(_publish(dataset, record, file))

    each(copy, waiting, waits=dataset.storage.traits.waits)
    gone = _missing(dataset, record.adds)
    if is_applied(dataset, record):  # by others; later jobs may have removed these files
        return
    if gone:
        raise _lost(dataset, gone[0])
    failpoint.hit("C4.proven")
    pending = Pending(dataset, record)
    dataset.storage.delete_all([pending.staged(add) for add in record.adds])
    failpoint.hit("C4.sources")
    if not alone or any(under_way) or help_marks(dataset, record.seq):
        wait_for_copies(dataset, record)


def wait_for_copies(dataset: DatasetDirectory, record: Record) -> None:
    """Wait until copies of a job's files that another process may have begun are ended; their sources are deleted."""
    if dataset.storage.traits.renames:
        return
    if record.mode == TAKEN_BACK:
        with suppress(CommitError, FileNotFoundError):
            record = read_record(dataset, record.seq - 1)
    TIMING.sleep(TIMING.grace(max((add.nbytes for add in record.adds), default=0)))
    failpoint.hit("C4.waited")


def check_published(dataset: DatasetDirectory, record: Record) -> None:
    """Raise if a file of a record that is to be marked as done has not its final name.

    Raises
    ------
    CommitError
        It was published, and a backup of the directory was put back since.
    OSError
        The storage cannot be read.
    """
    gone = _missing(dataset, record.adds)
    if gone and not is_applied(dataset, record):  # later jobs may have removed files of an applied one
        raise CommitError(
            f"the file {gone[0].final} was published, and is not there any more: the directory was put back from a copy, "
            "or somebody removed the file",
            path=dataset.root,
        )


def _missing(dataset: DatasetDirectory, adds: Sequence[StagedFile]) -> list[StagedFile]:
    """Return the files that are not there with their sizes."""
    there = present(dataset.storage, [dataset.path(add.final) for add in adds])
    return [
        add for add in adds if (status := there.get(dataset.path(add.final))) is None or status.nbytes != add.nbytes
    ]


def _publish(dataset: DatasetDirectory, record: Record, file: StagedFile) -> bool:
    """Give a file its final name; return whether a copy of it may still be under way."""
    under_way = False
    staged = Pending(dataset, record).staged(file)
    try:
        under_way = dataset.storage.publish(staged, dataset.path(file.final))
    except FileNotFoundError:
        _publish_again(dataset, record, file, staged)
    failpoint.hit("C4.renamed")
    return under_way


def _publish_again(dataset: DatasetDirectory, record: Record, file: StagedFile, staged: str) -> None:
    """Publish a file again, unless another process has published it."""
    storage, final = dataset.storage, dataset.path(file.final)
    for _ in range(_ATTEMPTS):
        # Staged first: if it is renamed between the two calls, the second one finds it.
        is_staged = storage.status(staged, follow_links=False) is not None
        status = storage.status(final)
        if (status is not None and status.nbytes == file.nbytes) or is_applied(dataset, record):
            return
        if not is_staged:
            break
        # A late process of the job before may have deleted a partition's directory that it emptied.
        storage.make_directory(parent(final))
        with suppress(FileNotFoundError):  # another process renames it at the same time
            storage.publish(staged, final)
            return
    raise _lost(dataset, file)


def _lost(dataset: DatasetDirectory, file: StagedFile) -> CommitError:
    return CommitError(
        f"the file {file.final} is committed, and is neither there nor staged: somebody removed it; restore it",
        path=dataset.root,
    )
