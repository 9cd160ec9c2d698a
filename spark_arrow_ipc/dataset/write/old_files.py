"""Delete the files that a record removes, or move them to the replaced ones (step C5).

Any number of processes may do so at once, and stop at any step. A name that one of our writers made is of one file for
ever, so a look and a removal are enough. Another program may write its usual name again at any moment
(``part-0.arrow``): such a file is moved away first and looked at then, so that what is removed is what was looked at.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from math import ceil
from typing import Final

from spark_arrow_ipc.dataset.commit_log.dataset_directory import (
    DatasetDirectory,
    RemovedFile,
    has_own_name,
    kept_directory,
    kept_path,
    kept_version,
)
from spark_arrow_ipc.dataset.commit_log.log import check_is_there
from spark_arrow_ipc.dataset.commit_log.record import Record
from spark_arrow_ipc.errors import printable
from spark_arrow_ipc.storage import failpoint
from spark_arrow_ipc.storage.storage import Kind, Status, each

_ASIDE_SECONDS: Final = 7 * 24 * 3600
"""The time that a file of another program is kept whose name was taken again while it was moved."""

_DELETED_AT_ONCE: Final = 1000
"""Files that one request deletes; a step of the faults' tests."""

_log = logging.getLogger(__name__)


def delete_one_by_one(dataset: DatasetDirectory, record: Record) -> None:
    """Delete the files that a record removes, or move them to where they are kept until its time; of a storage that renames."""
    replaced = _replaced(dataset, record)
    if any(_may_be_replaced(file) for file in record.removes):
        dataset.storage.make_directory(dataset.staging(record.jobid))
    each(partial(_delete, dataset, record, replaced), record.removes)


def _replaced(dataset: DatasetDirectory, record: Record) -> str | None:
    """Make the directory where removed files are kept until the record's time; None if they are not."""
    if not record.kept_until:
        return None
    replaced = kept_directory(dataset, record.kept_until, record.jobid)
    dataset.storage.make_directory(replaced)
    return replaced


def _delete(dataset: DatasetDirectory, record: Record, replaced: str | None, file: RemovedFile) -> None:
    """Delete an old file, or move it to the replaced ones, unless something else has its name now.

    A backup may be put back between any two files: its files have the same names, and are not to go.
    """
    storage, path = dataset.storage, dataset.path(file.path)
    if _may_be_replaced(file):
        path = _taken(dataset, record, file)
    elif (status := storage.status(path)) is None or not (_is_due(file, status) and check_is_there(dataset, record)):
        path = ""
    if path:
        try:
            if replaced is not None:
                storage.publish(path, kept_path(replaced, file.path))
        except FileNotFoundError:  # another process has moved it, or its time is over already
            replaced = None
        if replaced is None:
            storage.delete(path)
    failpoint.hit("C5.unlinked")


def _may_be_replaced(file: RemovedFile) -> bool:
    """Return whether another program may write a file of the same name at any moment."""
    return file.nbytes is not None and not has_own_name(file.path)


def _taken(dataset: DatasetDirectory, record: Record, file: RemovedFile) -> str:
    """Move an old file away, and return where it is; empty if it is gone, or another has its name.

    Between a look at a name and its removal another program may write the name again, for as long as this process stands
    still. So the file is moved first and looked at then: what is another one gets its name back. It is moved into the
    job's staging directory, which is gone once the record is applied, so that a process which comes late moves nothing.
    """
    storage, path = dataset.storage, dataset.path(file.path)
    taken = kept_path(dataset.staging(record.jobid), file.path)
    status = storage.status(taken)  # of a process that died, or is slower
    if status is None:
        there = storage.status(path)
        if there is None or not _is_due(file, there) or not check_is_there(dataset, record):
            return ""
        with suppress(FileNotFoundError):  # another process was faster
            storage.publish(path, taken)
        status = storage.status(taken)
    if status is None:
        return ""
    if _is_due(file, status._replace(path=path)):
        return taken
    with suppress(FileNotFoundError):  # another process gave it back
        if not storage.give_back(taken, path):
            _keep_aside(dataset, record, file, taken)
    return ""


def _keep_aside(dataset: DatasetDirectory, record: Record, file: RemovedFile, taken: str) -> None:
    """Keep a file of another program whose name a third one has taken, and say where."""
    directory = kept_directory(dataset, ceil(time.time()) + _ASIDE_SECONDS, record.jobid)
    dataset.storage.make_directory(directory)
    aside = kept_path(directory, file.path)
    dataset.storage.publish(taken, aside)
    _log.warning(
        "%s was written twice while the job %s removed what had that name; the file that was there in between is kept for "
        "a week as %s",
        printable(dataset.path(file.path)),
        record.jobid,
        printable(aside),
    )


def _is_due(file: RemovedFile, status: Status) -> bool:
    """Return whether what lies at an old file's path is that file; if not, warn."""
    if status.kind is Kind.FILE and file.is_same(status):
        return True
    _log.warning("%s was replaced since the commit that removes it, and stays", printable(status.path))
    return False


def delete_listed(dataset: DatasetDirectory, record: Record, there: Mapping[str, Status]) -> None:
    """Delete or keep the files that a record removes in as few requests as that takes, by their states."""
    storage, replaced = dataset.storage, _replaced(dataset, record)
    states = [(file, there.get(dataset.path(file.path))) for file in record.removes]
    versions = {file.path: status.version for file, status in states if status is not None and _is_due(file, status)}
    due = list(versions)
    if replaced is not None:
        each(partial(_keep, dataset, replaced, versions), due, waits=storage.traits.waits)
    for start in range(0, len(due), _DELETED_AT_ONCE):
        if not check_is_there(dataset, record):
            return
        storage.delete_all([dataset.path(path) for path in due[start : start + _DELETED_AT_ONCE]])
        failpoint.hit("C5.unlinked")


def _keep(dataset: DatasetDirectory, replaced: str, versions: Mapping[str, str], path: str) -> None:
    with suppress(FileNotFoundError):  # another process has moved it
        kept = kept_path(replaced, path, kept_version(path, versions[path]))
        dataset.storage.publish(dataset.path(path), kept)
