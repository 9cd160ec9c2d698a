"""Keep the records of a dataset for streams that read it: begin, keep, prune.

`commit_log.kept_records` says what is kept and why there are no gaps.
"""

from __future__ import annotations

import logging
from typing import Final

from spark_arrow_ipc.dataset.commit_log.dataset_directory import DatasetDirectory
from spark_arrow_ipc.dataset.commit_log.kept_records import (
    kept_bytes,
    log_directory,
    outdated_records,
    read_retention,
    record_path,
    retention_bytes,
    retention_path,
)
from spark_arrow_ipc.dataset.commit_log.record import Record
from spark_arrow_ipc.errors import printable
from spark_arrow_ipc.storage.storage import Status

DEFAULT_SECONDS: Final = 7 * 24 * 3600
"""How long records are kept if the file that says it is lost."""

_PRUNED_EVERY: Final = 64
"""Records between two listings of the kept ones."""

_log = logging.getLogger(__name__)


def begin_to_keep(dataset: DatasetDirectory, seconds: int | None, *, durable: bool) -> None:
    """Make every writer keep the records that follow, for a number of seconds. One read, if that is so already.

    None leaves it as it is.

    Raises
    ------
    OSError
        The storage cannot be written.
    """
    if seconds is None or read_retention(dataset) == seconds:
        return
    storage = dataset.storage
    storage.make_directory(log_directory(dataset))
    storage.put(retention_path(dataset), retention_bytes(seconds), durable=durable)
    if durable:
        storage.sync(log_directory(dataset))
        storage.sync(dataset.commits)


def keep_record(dataset: DatasetDirectory, record: Record) -> None:
    """Keep a record that is about to be marked as done. Doing so again changes nothing.

    Raises
    ------
    OSError
        The storage cannot be written.
    """
    dataset.storage.put(record_path(dataset, record.seq), kept_bytes(record), durable=record.durable)
    if record.durable:
        dataset.storage.sync(log_directory(dataset))


def prune_kept(dataset: DatasetDirectory, seq: int) -> None:
    """Delete kept records that are outdated, after each so many-th record. A failure is only logged: it is tried again."""
    if seq % _PRUNED_EVERY:
        return
    try:
        dataset.storage.delete_all([status.path for status in outdated(dataset)])
    except OSError as error:
        _log.warning("%s: old records could not be removed: %s", printable(log_directory(dataset)), error)


def outdated(dataset: DatasetDirectory) -> list[Status]:
    """Return the kept records that need not be kept any more. A read and a listing.

    Raises
    ------
    OSError
        The storage cannot be read.
    """
    seconds = read_retention(dataset)
    return outdated_records(dataset, DEFAULT_SECONDS if seconds is None else seconds)
