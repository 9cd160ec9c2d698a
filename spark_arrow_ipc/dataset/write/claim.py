"""Claims: who decides over the old files that a record removes.

Strategy
--------
A process that applies a record deletes old files, after which the job can only be finished. A person may take the job
back instead, after which its new files are deleted. Both must never happen to one record, whenever either process
stops and goes on. So each makes the record's claim first, a file that can be made once, and the other one gives way.
"""

from __future__ import annotations

import uuid
from contextlib import suppress
from enum import Enum
from typing import Final

from spark_arrow_ipc.dataset.commit_log.dataset_directory import DatasetDirectory
from spark_arrow_ipc.dataset.commit_log.record import Record
from spark_arrow_ipc.dataset.commit_log.recorded_files import RemovedFile
from spark_arrow_ipc.dataset.commit_log.stored_record import read_record
from spark_arrow_ipc.dataset.write.append_record import append_record
from spark_arrow_ipc.dataset.write.live_files import shown
from spark_arrow_ipc.errors import CommitError, LimitError, UnsupportedError
from spark_arrow_ipc.storage import failpoint

_ATTEMPTS: Final = 3

_NBYTES: Final = 64


class Claim(Enum):
    """The purpose of a claim, as its file has it."""

    APPLY = b"apply\n"
    TAKE_BACK = b"take back\n"


def claim(dataset: DatasetDirectory, seq: int, purpose: Claim) -> Claim:
    """Claim the old files of a record; return the purpose of the first claim, which may be that of another process.

    Raises
    ------
    CommitError
        The claim is no file of ours.
    OSError
        A call of the storage fails.
    """
    path = dataset.claim(seq)
    for attempt in range(_ATTEMPTS):
        if dataset.storage.put_if_absent(path, purpose.value):
            return purpose
        try:
            return Claim(dataset.storage.read(path, _NBYTES))
        except FileNotFoundError:  # the record was done meanwhile, and its claim deleted
            if attempt == _ATTEMPTS - 1:
                raise
        except (ValueError, LimitError, UnsupportedError) as error:
            raise CommitError("this is no claim that a commit made; remove it", path=path) from error
    raise AssertionError  # the loop returns or raises


def take_back(dataset: DatasetDirectory, record: Record) -> bool:
    """Append the record that takes back a pending one; return False if another record took its number.

    The old files must be claimed for this.

    Raises
    ------
    CommitError
        An old file is gone; or as `append_record`.
    OSError
        As `append_record`.
    """
    check_old_files(dataset, record)
    failpoint.hit("G.claimed")
    return append_record(dataset, record.taken_back(uuid.uuid4().hex, _schema_before(dataset, record)))


def _schema_before(dataset: DatasetDirectory, record: Record) -> str:
    """Return the schema of the record before one; empty where that is not there any more."""
    with suppress(FileNotFoundError, CommitError):
        before = read_record(dataset, record.seq - 1)
        if record.follows(before):
            return before.schema
    return ""


def check_old_files(dataset: DatasetDirectory, record: Record) -> None:
    """Raise if a file that a record removes is gone already, so that the state before it is lost.

    Raises
    ------
    CommitError
        The message says which half of the job is there.
    """
    gone = [file.path for file in record.removes if not _is_there(dataset, file)]
    if gone:
        paths = (dataset.path(file.final) for file in record.adds)
        new = sum(dataset.storage.status(path) is not None for path in paths)
        raise CommitError(
            f"the job {record.jobid} cannot be taken back: {len(gone)} of {len(record.removes)} old files are gone "
            f"already ({shown(gone)}), and {new} of {len(record.adds)} new files have their names. Mend what stops it; "
            f"then 'arrowipc vacuum {dataset.root}' brings it to its end",
            path=dataset.root,
        )


def _is_there(dataset: DatasetDirectory, file: RemovedFile) -> bool:
    status = dataset.storage.status(dataset.path(file.path))
    return status is not None and file.is_same(status)
