"""Count the rows of a data set by the headers of its files, in one process.

Strategy
--------
A file takes a quarter of a millisecond: its footer, its first bytes and the header of each record batch are read, and no
body. Footers are checked as by a read, and headers are compared with their checksums if the file has any. So a thousand
files are counted before Spark has planned a job. Where reads wait, 64 files are read at once. Not counted here are streams,
files that changed meanwhile, and what tasks would count sooner.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from spark_arrow_ipc import ipc
from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.ipc.columns.coalesce import Shapes
from spark_arrow_ipc.storage.concurrent import each
from spark_arrow_ipc.storage.storage import Storage

_MOST_FILES: Final = 5_000
"""Most files that are counted: a little more than a second, or a few where reads wait."""

_MOST_HEADERS: Final = 50_000
"""Most record batches of all files: about half a second."""

_MOST_WAITING_HEADERS: Final = 5_000
"""The same where the header of each is a request."""

_MOST_HEADER_NBYTES: Final = 256 << 20
"""Most bytes of all headers, a quarter of a second: one of 10,000 columns has half a megabyte."""

_SLOW_SECONDS: Final = 0.004
"""A file that takes longer is on a slow file system, where threads are worth it, and not only on a busy machine."""


class _NotCountedError(Exception):
    """Tasks shall count."""


def count_rows(
    files: Sequence[DataFile], storage: Storage, *, limits: ipc.Limits, verify_checksums: bool = True
) -> int | None:
    """Return the number of rows of files; None if they are too many, or streams, or change meanwhile."""
    if len(files) > _MOST_FILES:
        return None
    shapes = Shapes(limits)
    rows: list[int] = []
    headers_left = _MOST_WAITING_HEADERS if storage.traits.waits else _MOST_HEADERS
    nbytes_left = _MOST_HEADER_NBYTES

    def count(file: DataFile) -> None:
        nonlocal headers_left, nbytes_left
        with ipc.open(file.open(storage), limits=limits, verify_checksums=verify_checksums) as reader:
            if not reader.is_numbered:
                raise _NotCountedError
            headers_left -= len(reader)
            nbytes_left -= sum(block.metadata_nbytes for block in reader.blocks)
            if headers_left < 0 or nbytes_left < 0:
                raise _NotCountedError
            reader.check_start()
            rows.extend(reader.row_counts(range(len(reader)), shapes, verified=True))
        if not _is_as_listed(file, storage):
            raise _NotCountedError

    try:
        each(count, files, waits=storage.traits.waits, slow_seconds=_SLOW_SECONDS)
    except _NotCountedError:
        return None
    return sum(rows)


def _is_as_listed(file: DataFile, storage: Storage) -> bool:
    """Return whether a file that was read is the one that was listed. Of one that is gone by now nobody can tell."""
    if file.version or file.staged is not None:  # each read named the version; the other one may be renamed by now
        return True
    status = storage.status(file.path)
    return status is not None and (status.nbytes, status.mtime_ns) == (file.nbytes, file.mtime_ns)
