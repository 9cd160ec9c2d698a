"""One record as the storage has it: its file, and the mark that says it is applied, which is a second copy of it.

A record is read by everybody who writes after it: it says which jobs, tokens and batches are committed. So that damage of
the newest one does not end all writing, its mark holds the same bytes. Where the file of a record is damaged, or has been
replaced by a record of another chain, the copy stands for it, and a warning has the path. Without a mark nobody knows which
of its files count, and nothing is done by it.

A copy is believed only if it names the job of the record before: a process that stood still while the directory was removed
and made anew may have left its mark here.

The chain itself (`log`) keeps the newest records only, because everybody lists it. Where a job asked for it
(``commitRetention``), each record is also kept in ``_ipc_commits/log``, for streams that read the dataset (ADR 24), written
**before it is marked as done**. The next record can follow only a done one, so the kept records have no gaps from the first
one on. Only a process that prunes lists that directory: a stream knows the numbers, and reads each record by its name. The
file ``retention`` in it says for how long, and holds until a job says otherwise.
"""

from __future__ import annotations

import json
import logging
from contextlib import closing, suppress
from dataclasses import replace
from typing import Final

from spark_arrow_ipc.bounded_json import parse_json
from spark_arrow_ipc.dataset.commit_log.dataset_directory import DatasetDirectory, NameKind, entries_of, parse_name
from spark_arrow_ipc.dataset.commit_log.record import (
    FIRST_NBYTES,
    MAX_RECORD_NBYTES,
    OtherFormatError,
    Record,
    job_in,
    schema_in,
)
from spark_arrow_ipc.errors import CommitError, LimitError, UnsupportedError, error_context, printable
from spark_arrow_ipc.storage.paths import join, name_of
from spark_arrow_ipc.storage.storage import Status
from spark_arrow_ipc.table.encoded_schema import MAX_TEXT_NBYTES

_WHOLE_NBYTES: Final = 1 << 20
"""A larger record is opened to read its first bytes, where that is a request of its own."""

_SCHEMA_NBYTES: Final = 16 << 10
"""So many bytes of a record are read for its schema; those of 1,000 columns."""

_log = logging.getLogger(__name__)


def read_record(dataset: DatasetDirectory, seq: int) -> Record:
    """Read and check a record; if it is damaged and applied, the copy in its mark.

    `FileNotFoundError` says that at least two records have followed it; `CommitError` that it is damaged and not applied.
    """
    path = dataset.record(seq)
    try:
        return _read(dataset, path, seq)
    except OtherFormatError as error:
        raise CommitError(
            f"{error}. Write with that build; or bring its last job to an end with its 'arrowipc vacuum', stop its jobs, remove "
            f"the directory {dataset.commits} and write again: the data files stay as they are",
            path=dataset.root,
        ) from error
    except (CommitError, LimitError, UnsupportedError) as error:
        applied = _copy(dataset, seq)
        if applied is None:
            raise _damaged(dataset, seq, error) from error
        _log.warning("%s: this commit record is damaged, and the copy in its mark stands for it", printable(path))
        return applied


def settled(dataset: DatasetDirectory, seq: int, *, has_mark: bool) -> tuple[Record, bool]:
    """Return the record of a number, and whether it is applied; for a record of another chain the copy in the mark."""
    record = read_record(dataset, seq)
    if has_mark and is_marked(dataset, record):
        return record, True
    follows = _follows(dataset, record)
    applied = _copy(dataset, seq) if has_mark else None
    if applied is not None and (follows is False or not _has_files(dataset, record)):
        words = "%s: this commit record is not one of this chain, and the copy in its mark stands for it"
        _log.warning(words, printable(dataset.record(seq)))
        return applied, True
    if follows is False:
        raise CommitError(
            f"{dataset.record(seq)} is a commit record of another chain: it does not follow the record before it, and "
            "nothing is done by it. If a backup was put back, put all of it back; else remove that record",
            path=dataset.root,
        )
    return record, False


def is_marked(dataset: DatasetDirectory, record: Record) -> bool:
    """Return whether the mark of a record's own job is there; it may be pruned. Reads a few bytes."""
    return _first_bytes(dataset, dataset.done_mark(record.seq)).startswith(record.first_bytes)


def marked_schema(dataset: DatasetDirectory, seq: int) -> str | None:
    """Return the schema of a record that its own mark says is applied; None if the first bytes of both do not tell."""
    marked = job_in(_first_bytes(dataset, dataset.done_mark(seq)))
    first = _first_bytes(dataset, dataset.record(seq), _SCHEMA_NBYTES)
    if marked is None and job_in(first) is None:  # both are pruned; or of an earlier build, whose marks are empty
        status = dataset.storage.status(dataset.done_mark(seq), follow_links=False)
        return "" if status is not None and not status.nbytes else None
    return schema_in(first) if marked == job_in(first) else None


def is_there(dataset: DatasetDirectory, record: Record) -> bool:
    """Return whether the record of a number is this one. Reads a few bytes."""
    return _first_bytes(dataset, dataset.record(record.seq)).startswith(record.first_bytes)


def follows_its_previous(dataset: DatasetDirectory, record: Record) -> bool:
    """Return whether the record of the number before is there, and of the job that a record names. Reads a few bytes."""
    if record.seq == 1 or _job(dataset, record.seq - 1) == record.previous:
        return True
    with suppress(FileNotFoundError, CommitError):
        return settled(dataset, record.seq - 1, has_mark=True)[0].jobid == record.previous
    return False


def _read(dataset: DatasetDirectory, path: str, seq: int) -> Record:
    data = dataset.storage.read(path, MAX_RECORD_NBYTES)
    with error_context(path=path):
        record = Record.from_bytes(data)
        if record.seq != seq:
            raise CommitError(expected=f"the commit record number {seq}", found=f"number {record.seq}")
    return record


def _copy(dataset: DatasetDirectory, seq: int) -> Record | None:
    """Return the copy in a mark; None if there is none that can be believed."""
    with suppress(FileNotFoundError, CommitError, LimitError, UnsupportedError):
        record = _read(dataset, dataset.done_mark(seq), seq)
        return None if _follows(dataset, record) is False else record
    return None


def _damaged(dataset: DatasetDirectory, seq: int, error: Exception) -> CommitError:
    """Return the error of a damaged record without a copy that stands for it."""
    if job_in(_first_bytes(dataset, dataset.done_mark(seq))) is None:
        state = (
            "nothing is done by it, and which of the files it counts cannot be known. Restore it from a copy; or look at the "
            "data files and write those that you want into another directory"
        )
    else:
        state = (
            f"it is applied, so that the data files are whole, but the copy in {dataset.done_mark(seq)} is damaged, too, and "
            "which jobs are committed cannot be known. Restore one of the two from a copy; or stop all jobs, remove the "
            f"directory {dataset.commits} and write again: the data files stay as they are"
        )
    return CommitError(f"{error}; {state}", path=dataset.root)


def _follows(dataset: DatasetDirectory, record: Record) -> bool | None:
    """Return whether the record before, or its mark, has the job that a record names; None if neither names a job."""
    names = False
    for path in (dataset.record(record.seq - 1), dataset.done_mark(record.seq - 1)):
        job = job_in(_first_bytes(dataset, path))
        if job == record.previous:
            return True
        names = names or job is not None
    return False if names else None


def _has_files(dataset: DatasetDirectory, record: Record) -> bool:
    """Return whether anything of a record's job is in the dataset."""
    paths = [*map(dataset.staging, record.staged_jobs), *(dataset.path(add.final) for add in record.adds[:1])]
    return any(dataset.storage.status(path, follow_links=False) is not None for path in paths)


def _job(dataset: DatasetDirectory, seq: int) -> str | None:
    return job_in(_first_bytes(dataset, dataset.record(seq)))


def _first_bytes(dataset: DatasetDirectory, path: str, nbytes: int = FIRST_NBYTES) -> bytes:
    """Return the bytes of a record, or a mark, that name its number, its job and its schema; empty if there is no such file."""
    try:
        if dataset.storage.traits.waits:  # whole: that is one request, and opening it is another
            with suppress(LimitError):
                return dataset.storage.read(path, _WHOLE_NBYTES)
        with closing(dataset.storage.open(path)) as source:
            first = bytes(source.read_up_to(0, nbytes))
            is_cut = nbytes > FIRST_NBYTES and schema_in(first) is None
            return bytes(source.read_up_to(0, nbytes + MAX_TEXT_NBYTES)) if is_cut else first
    except FileNotFoundError:
        return b""


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
