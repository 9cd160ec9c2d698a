"""Records that are kept after they are done, in ``_ipc_commits/log``, for streams that read the dataset (ADR 24).

The chain itself (`log`) keeps the newest records only, because everybody lists it. Where a job asked for it
(``commitRetention``), each record is also written into a directory of its own **before it is marked as done**. The next
record can follow only a done one, so the kept records have no gaps from the first one on. Only a process that prunes lists
that directory: a stream knows the numbers, and reads each record by its name.

Any listing of the chain shows whether a dataset keeps records, as their directory lies in it; the file ``retention`` in it
says for how long, and holds until a job says otherwise.
"""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import Final

from spark_arrow_ipc.bounded_json import parse_json
from spark_arrow_ipc.dataset.commit_log.dataset_directory import DatasetDirectory, NameKind, entries_of, parse_name
from spark_arrow_ipc.dataset.commit_log.record import MAX_RECORD_NBYTES, Record
from spark_arrow_ipc.errors import CommitError, LimitError, UnsupportedError, error_context, printable
from spark_arrow_ipc.storage.paths import join, name_of
from spark_arrow_ipc.storage.storage import Status

LOG_NAME: Final = "log"
"""Name of the directory, in the one of the chain."""

LEAST_KEPT: Final = 1000
"""So many of the newest records are kept, however old they are."""

_LEAST_KEPT_NBYTES: Final = 64 << 20
"""Old records are not kept for their number above so many bytes: a record of a million files has 150 MB."""

_MAX_SETTING_NBYTES: Final = 1024
_MAX_SECONDS: Final = 1 << 40


def log_directory(dataset: DatasetDirectory) -> str:
    """Return the directory of the kept records."""
    return join(dataset.commits, LOG_NAME)


def record_path(dataset: DatasetDirectory, seq: int) -> str:
    """Return the path of the kept record with a sequence number."""
    return join(log_directory(dataset), name_of(dataset.record(seq)))


def retention_path(dataset: DatasetDirectory) -> str:
    """Return the path of the file that says how long records are kept."""
    return join(log_directory(dataset), "retention")


def retention_bytes(seconds: int) -> bytes:
    """Encode how long records are kept, as its file holds it."""
    return json.dumps({"seconds": seconds}).encode()


def kept_bytes(record: Record) -> bytes:
    """Encode a record as it is kept: without its schema, and what it carries on from the ones before it."""
    return replace(
        record,
        jobs=(record.jobid,) if record.is_of_job else (),
        tokens=() if record.token is None else (record.token,),
        withdrawn=record.withdraws,
        queries=() if record.query is None else (record.query,),
        schema="",
    ).to_bytes()


def read_kept(dataset: DatasetDirectory, seq: int) -> Record | None:
    """Read and check a kept record by one read; None if it is not there, `CommitError` if it is damaged."""
    path = record_path(dataset, seq)
    try:
        data = dataset.storage.read(path, MAX_RECORD_NBYTES)
    except FileNotFoundError:
        return None
    except (LimitError, UnsupportedError) as error:
        raise CommitError(f"this is not a kept record: {error}", path=path) from error
    with error_context(path=path):
        record = Record.from_bytes(data)
        if record.seq != seq:
            raise CommitError(expected=f"the kept record number {seq}", found=f"number {record.seq}")
    return record


def read_retention(dataset: DatasetDirectory) -> int | None:
    """Return for how many seconds records are kept; None if they are not, or the file is damaged. One read."""
    try:
        data = dataset.storage.read(retention_path(dataset), _MAX_SETTING_NBYTES)
        seconds = parse_json(data)["seconds"]
    except (FileNotFoundError, LimitError, UnsupportedError, ValueError, TypeError, KeyError):
        return None
    return seconds if type(seconds) is int and 0 <= seconds <= _MAX_SECONDS else None


def outdated_records(dataset: DatasetDirectory, seconds: int) -> list[Status]:
    """Return the kept records that may be deleted, by one listing.

    A record stays if it is at most `seconds` older than the youngest, or one of the newest `LEAST_KEPT`, if those are not too
    large together.
    """
    statuses = entries_of(dataset.storage, log_directory(dataset))
    numbered = [(parse_name(name_of(status.path)), status) for status in statuses]
    records = sorted(
        ((parsed[0], status) for parsed, status in numbered if parsed is not None and parsed[1] is NameKind.RECORD),
        reverse=True,
    )
    youngest = max((status.mtime_ns for _, status in records), default=0)
    outdated: list[Status] = []
    nbytes = 0
    for position, (_, status) in enumerate(records):
        nbytes += status.nbytes
        is_young = status.mtime_ns >= youngest - seconds * 10**9
        # Without gaps: what is older than one that goes, goes.
        if outdated or not (is_young or (position < LEAST_KEPT and nbytes <= _LEAST_KEPT_NBYTES)):
            outdated.append(status)
    return outdated


DEFAULT_SECONDS: Final = 7 * 24 * 3600
"""The time that records are kept if the file that says it is lost."""

_PRUNED_EVERY: Final = 64
"""Records between two listings of the kept ones."""

_log = logging.getLogger(__name__)


def begin_to_keep(dataset: DatasetDirectory, seconds: int | None, *, durable: bool) -> None:
    """Make every writer keep the records that follow, for a number of seconds; None leaves it as it is."""
    if seconds is None or read_retention(dataset) == seconds:
        return
    storage = dataset.storage
    storage.make_directory(log_directory(dataset))
    storage.put(retention_path(dataset), retention_bytes(seconds), durable=durable)
    if durable:
        storage.sync(log_directory(dataset))
        storage.sync(dataset.commits)


def keep_record(dataset: DatasetDirectory, record: Record) -> None:
    """Keep a record that is about to be marked as done. Doing so again changes nothing."""
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
    """Return the kept records that may be deleted by the retention of the dataset. A read and a listing."""
    seconds = read_retention(dataset)
    return outdated_records(dataset, DEFAULT_SECONDS if seconds is None else seconds)
