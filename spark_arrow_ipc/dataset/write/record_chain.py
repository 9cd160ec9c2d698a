"""Append a record to the chain, claim the old files that it removes, and take a pending record back.

Appending decides between concurrent jobs: of all that ask for one number, one gets it.

A process that applies a record deletes old files; after that the job can only be finished. A person may take the job
back instead; then its new files are deleted. Never may both happen to one record, whenever either process stops and goes
on. So each first makes the record's claim, a file that can be made once, and the second one gives way.
"""

from __future__ import annotations

import logging
import uuid
from contextlib import suppress
from enum import Enum
from typing import Final

from spark_arrow_ipc.dataset.commit_log.dataset_directory import MAX_SEQUENCE_NUMBER, DatasetDirectory, RemovedFile
from spark_arrow_ipc.dataset.commit_log.log import newest_record, read_head
from spark_arrow_ipc.dataset.commit_log.record import MAX_RECORD_NBYTES, REMEMBERED, Record
from spark_arrow_ipc.dataset.commit_log.stored_record import follows_its_previous, is_there, read_record
from spark_arrow_ipc.dataset.write.publisher import TIMING
from spark_arrow_ipc.errors import (
    CommitError,
    ConcurrentWriteError,
    LimitError,
    UnsupportedError,
    error_context,
    join_texts,
    printable,
)
from spark_arrow_ipc.storage import failpoint
from spark_arrow_ipc.storage.paths import name_of

_ATTEMPTS: Final = 3
"""The number of times that a storage is asked to make a record, where it does not answer."""

_log = logging.getLogger(__name__)


def check_decides(dataset: DatasetDirectory, jobid: str) -> None:
    """Raise an `UnsupportedError` if the storage cannot decide between two writers; the job has a staging directory."""
    storage = dataset.storage  # asked by each process, as a dataset may have been moved
    place = dataset.commits if dataset.may_be_there(dataset.commits) else dataset.staging(jobid)
    with error_context(path=dataset.root):
        storage.check_put_if_absent(place)


def append_record(dataset: DatasetDirectory, record: Record) -> bool:
    """Append a record, or return False if another record took its number.

    The record before it must be done, unless this one takes it back. After True the record is committed, whatever happens to
    this process. After an `OSError` it is not in the chain; a `CommitError` says whether that is unknown.
    """
    storage = dataset.storage
    data = _encoded(dataset, record)
    if not dataset.may_be_there(dataset.commits):
        storage.make_directory(dataset.commits)
        if record.durable:
            storage.sync(dataset.root)
    _delete_marks(dataset, record.seq)
    # Over a network a request may be carried out although its reply is lost, and even later: only the chain, or another
    # record of that number, tells what became of it. A local call has its effect before it returns.
    for attempt in range(_ATTEMPTS):
        try:
            return _put(dataset, record, data)
        except OSError as error:
            if _is_in(dataset, record):
                return True
            if isinstance(error, FileNotFoundError):  # vacuum deleted the temporary file of a job that it withdrew
                return False
            if not storage.traits.may_come_late:
                raise
            if attempt == _ATTEMPTS - 1:
                raise _unknown(dataset, record, error) from error
    raise AssertionError  # the loop returns or raises


def _put(dataset: DatasetDirectory, record: Record, data: bytes) -> bool:
    """Make the file of a record, and return whether the record is in the chain."""
    path = dataset.record(record.seq)
    with error_context(path=dataset.root):
        is_made = dataset.storage.put_if_absent(path, data, durable=record.durable)
    # A gateway may list a new name late: what was made is there, and what could not be made is made by another.
    if is_made and read_head(dataset).seq <= record.seq:
        if follows_its_previous(dataset, record):
            return True
        if read_head(dataset).seq <= record.seq:  # no other has followed, so the one before it was not pruned
            _delete_own(dataset, record)
            raise ConcurrentWriteError(
                f"the directory was removed, or removed and made anew, while the job {record.jobid} ran; nothing is published",
                path=dataset.root,
            )
    if not is_made:
        _wait_until_listed(dataset, record)
    if _is_in(dataset, record):
        return True
    if is_made:
        # Others had applied and pruned the record of this number before ours was written: it is among the pruned
        # records, which are never read.
        _delete_own(dataset, record)
    return False


def _wait_until_listed(dataset: DatasetDirectory, record: Record) -> None:
    """Wait until the listing has a record that is there; without it every new one would get the same number."""
    begun = TIMING.clock()
    path = dataset.record(record.seq)
    while read_head(dataset).seq < record.seq and dataset.storage.status(path) is not None:
        if TIMING.clock() - begun >= TIMING.patience_seconds:
            outcome = "the job is committed" if is_there(dataset, record) else "nothing is published"
            raise CommitError(
                f"the commit record number {record.seq} is there, and the storage's listing has not shown it for "
                f"{TIMING.patience_seconds:g} s, so that nobody can write: a cache before the storage may do that; {outcome}",
                path=dataset.root,
            )
        TIMING.sleep(TIMING.poll_seconds)


def _unknown(dataset: DatasetDirectory, record: Record, error: Exception) -> CommitError:
    """Return the error of a record that may be in the chain, or come there: nobody is told that nothing is published."""
    if not record.is_of_job:
        words = "the record that withdraws jobs is not confirmed, and may still be made"
        return CommitError(f"{words}: {error}. Nothing is removed; try again", path=dataset.root)
    remedy = (
        f"Before you run it again, 'arrowipc vacuum --give-up {record.jobid} {dataset.root}' takes it back, or says that it is "
        "committed and in place"
    )
    if record.token is not None or record.query is not None:
        remedy = "Run it again: by its commitToken, or the batch of its query, it is committed once"
    return CommitError(
        f"whether the job {record.jobid} is committed is unknown, as its record is not confirmed, and may still be made: "
        f"{error}. {remedy}",
        path=dataset.root,
    )


def _delete_own(dataset: DatasetDirectory, record: Record) -> None:
    """Delete a record that is in no chain, unless another has its name since the directory was made anew."""
    if is_there(dataset, record):
        dataset.storage.delete(dataset.record(record.seq))


def _encoded(dataset: DatasetDirectory, record: Record) -> bytes:
    """Return a record's bytes, and raise if it can never be read or never be the newest."""
    if record.seq > MAX_SEQUENCE_NUMBER:
        raise CommitError(
            f"no record can follow number {record.seq - 1}; nothing is published. No chain of commits gets there: "
            "write what the directory holds into another one",
            path=dataset.root,
        )
    data = record.to_bytes()
    if len(data) > MAX_RECORD_NBYTES:
        raise CommitError(
            f"a job of {len(record.adds):,} new and {len(record.removes):,} old files makes a record of {len(data):,} "
            f"bytes, and none is read above {MAX_RECORD_NBYTES:,}; nothing is published, write fewer and larger files",
            path=dataset.root,
        )
    return data


def _delete_marks(dataset: DatasetDirectory, seq: int) -> None:
    """Delete marks of a record that does not exist: with them it would count as applied when it is made.

    Somebody removed the record, or made them. If it is made by another writer meanwhile, and the mark is that
    writer's, the record is applied once more, which changes nothing.
    """
    there = {name_of(status.path) for status in dataset.storage.list(dataset.commits)}
    if name_of(dataset.record(seq)) in there:
        return
    for path in (dataset.done_mark(seq), dataset.claim(seq)):
        if name_of(path) in there:
            _log.warning("%s is of a record that is not there, and is removed", printable(path))
            dataset.storage.delete(path)


def _is_in(dataset: DatasetDirectory, record: Record) -> bool:
    """Return whether the newest record contains this job or withdrawal."""
    try:
        newest = newest_record(dataset)[1]
    except (OSError, CommitError) as error:
        raise _unknown(dataset, record, error) from error
    if newest is None:
        return False
    if record.withdraws:
        return set(record.withdraws) <= set(newest.withdrawn)
    if record.jobid in newest.jobs:
        return True
    if newest.seq - record.seq < REMEMBERED:
        return False
    storage = dataset.storage
    if any(storage.status(dataset.path(file.final), follow_links=False) is not None for file in record.adds):
        return True
    raise forgotten(dataset, record, newest)


def forgotten(dataset: DatasetDirectory, record: Record, newest: Record) -> CommitError:
    """Return the error of a job that the newest record does not remember any more."""
    return CommitError(
        f"this process stood still while others made {newest.seq - record.seq:,} commits, and the newest remembers only "
        f"{REMEMBERED:,} jobs: whether the job {record.jobid} is committed is unknown. Look for its rows before you run "
        "it again",
        path=dataset.root,
    )


_CLAIM_ATTEMPTS: Final = 3

_NBYTES: Final = 64


class Claim(Enum):
    """The purpose of a claim, as its file has it."""

    APPLY = b"apply\n"
    TAKE_BACK = b"take back\n"


def claim(dataset: DatasetDirectory, seq: int, purpose: Claim) -> Claim:
    """Claim the old files of a record; return the purpose of its claim, which another process may have made before."""
    path = dataset.claim(seq)
    for attempt in range(_CLAIM_ATTEMPTS):
        if dataset.storage.put_if_absent(path, purpose.value):
            return purpose
        try:
            return Claim(dataset.storage.read(path, _NBYTES))
        except FileNotFoundError:  # the record was done meanwhile, and its claim deleted
            if attempt == _CLAIM_ATTEMPTS - 1:
                raise
        except (ValueError, LimitError, UnsupportedError) as error:
            raise CommitError("this is not a claim that a commit made; remove it", path=path) from error
    raise AssertionError  # the loop returns or raises


def take_back(dataset: DatasetDirectory, record: Record) -> bool:
    """Append the record that takes back a pending one, whose old files are claimed for this; else as `append_record`."""
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
    """Raise a `CommitError` if a file that a record removes is gone already, so that the state before it is lost."""
    gone = [file.path for file in record.removes if not _is_there(dataset, file)]
    if gone:
        paths = (dataset.path(file.final) for file in record.adds)
        new = sum(dataset.storage.status(path) is not None for path in paths)
        raise CommitError(
            f"the job {record.jobid} cannot be taken back: {len(gone)} of {len(record.removes)} old files are gone "
            f"already ({join_texts(gone)}), and {new} of {len(record.adds)} new files have their names. Mend what stops it; "
            f"then 'arrowipc vacuum {dataset.root}' brings it to its end",
            path=dataset.root,
        )


def _is_there(dataset: DatasetDirectory, file: RemovedFile) -> bool:
    status = dataset.storage.status(dataset.path(file.path))
    return status is not None and file.is_same(status)
