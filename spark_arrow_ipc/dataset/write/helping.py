"""Wait for the process that publishes a job, and help it only if it does not go on.

Strategy
--------
Where a storage copies, a copy may end on the server long after the process that asked for it. If it ends after a later
job has removed the file, the file is back. So whoever ends a job must know whether others have asked for copies: a
helper leaves a mark in the directory of the records before its first copy (`publish` looks for the marks), and to keep
helpers rare it waits for the job's own process first.

Where a storage renames, everybody helps at once: a file can be moved only once.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection
from typing import Final, TypeAlias

from spark_arrow_ipc.dataset.commit_log.dataset_directory import DatasetDirectory, NameKind, parse_name
from spark_arrow_ipc.dataset.commit_log.log import Pending, is_applied
from spark_arrow_ipc.dataset.commit_log.record import Record
from spark_arrow_ipc.dataset.write.timing import TIMING
from spark_arrow_ipc.storage import failpoint
from spark_arrow_ipc.storage.concurrent import each
from spark_arrow_ipc.storage.paths import name_of

_SAMPLE: Final = 32
"""Files of a kind that are looked at to see whether a job goes on."""

_Progress: TypeAlias = tuple[frozenset[str], frozenset[str]]
"""The files of a sample that are there, and the marks of helpers."""


def may_help(dataset: DatasetDirectory, record: Record, ended: Collection[str] = ()) -> bool:
    """Return whether this process shall apply the pending record of another one, or False if it is applied now.

    Waits up to `Timing.patience_seconds` without progress, but not for the jobs `ended`, and then leaves a mark.

    Raises
    ------
    OSError
        A call of the storage fails.
    """
    if dataset.storage.traits.renames or not record.adds:
        return True
    if record.jobid in ended:
        return _announced(dataset, record)
    seen: _Progress | None = None
    moved = looked = TIMING.clock()
    while not is_applied(dataset, record):
        now = TIMING.clock()
        if now - looked >= TIMING.patience_seconds / 2:
            looked, before, seen = now, seen, _progress(dataset, record)
            if before is not None and seen != before:
                moved = now
            elif before is not None and now - moved >= TIMING.patience_seconds:
                return _announced(dataset, record)
        TIMING.sleep(min(TIMING.poll_seconds, TIMING.patience_seconds / 10))
    return False


def _announced(dataset: DatasetDirectory, record: Record) -> bool:
    """Leave a helper's mark, and return True."""
    dataset.storage.put(dataset.help_mark(record.seq, uuid.uuid4().hex), b"")
    failpoint.hit("H.announced")
    return True


def help_marks(dataset: DatasetDirectory, seq: int) -> frozenset[str]:
    """Return the names of the marks that helpers of a record left.

    Raises
    ------
    OSError
        The storage cannot be read.
    """
    names = (name_of(status.path) for status in dataset.storage.list(dataset.commits))
    return frozenset(name for name in names if parse_name(name) == (seq, NameKind.HELP))


def _progress(dataset: DatasetDirectory, record: Record) -> _Progress:
    pending = Pending(dataset, record)
    adds = record.adds[:: len(record.adds) // _SAMPLE + 1]
    removes = record.removes[:: len(record.removes) // _SAMPLE + 1]
    paths = [path for add in adds for path in (pending.staged(add), dataset.path(add.final))]
    paths += [dataset.path(file.path) for file in removes]
    there: set[str] = set()

    def look(path: str) -> None:
        if dataset.storage.status(path, follow_links=False) is not None:
            there.add(path)

    each(look, paths, waits=dataset.storage.traits.waits)
    return frozenset(there), help_marks(dataset, record.seq)
