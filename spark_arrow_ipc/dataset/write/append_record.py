"""Append a record to the chain: the one step that decides between jobs, and between a job and its withdrawal."""

from __future__ import annotations

from spark_arrow_ipc.dataset.commit_log.dataset_directory import DatasetDirectory
from spark_arrow_ipc.dataset.commit_log.log import newest_record, read_head
from spark_arrow_ipc.dataset.commit_log.record import MAX_RECORD_NBYTES, Record
from spark_arrow_ipc.errors import CommitError, error_context

__all__ = ["append_record"]


def append_record(dataset: DatasetDirectory, record: Record) -> bool:
    """Make a record the head of the chain, and return False where another record came first.

    The record before it must be done. When this returns True the record is committed, whatever happens to this process.

    Raises
    ------
    CommitError
        The record is too large; or whether it is in the chain cannot be found out.
    UnsupportedError
        The storage cannot decide between two writers.
    OSError
        The storage refuses, and the record is not in the chain.
    """
    storage, path = dataset.storage, dataset.record(record.seq)
    data = record.to_bytes()
    if len(data) > MAX_RECORD_NBYTES:
        raise CommitError(
            f"a job of {len(record.adds):,} new and {len(record.removes):,} old files makes a record of {len(data):,} "
            f"bytes, and none is read above {MAX_RECORD_NBYTES:,}; nothing is published, write fewer and larger files",
            path=dataset.root,
        )
    if storage.status(dataset.commits) is None:
        storage.make_directory(dataset.commits)
        if record.durable:
            storage.sync(dataset.root)
    try:
        with error_context(path=dataset.root):
            made = storage.put_if_absent(path, data, durable=record.durable)
        if made and read_head(dataset).seq == record.seq:
            return True
    except OSError as error:
        # Over a network the answer may be lost and the record be there.
        if _is_in(dataset, record):
            return True
        if isinstance(error, FileNotFoundError):  # vacuum took the temporary file of a job that it withdrew
            return False
        raise
    if _is_in(dataset, record):
        return True
    if made:
        # Others had finished this number and removed its record before we made ours: it filled a hole in the past,
        # where no one looks.
        storage.delete(path)
    return False


def _is_in(dataset: DatasetDirectory, record: Record) -> bool:
    """Return whether the newest record remembers what this one does."""
    try:
        newest = newest_record(dataset)[1]
    except (OSError, CommitError) as error:
        raise CommitError(
            f"whether the job is committed cannot be found out: {error}. Nothing is removed; when the file system "
            f"answers, 'arrowipc vacuum {dataset.root}' settles it",
            path=dataset.root,
        ) from error
    if newest is None:
        return False
    return set(record.withdraws) <= set(newest.withdrawn) if record.withdraws else record.jobid in newest.jobs
