"""Order files from the newest to the oldest, for the schema of a dataset.

The newest file is the one that was modified last; of files with the same time, the first by path. Names play no part
otherwise: those of written files are random.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from spark_arrow_ipc.dataset.listing.data_file import DataFile


def newest_first(files: Sequence[DataFile]) -> Iterator[DataFile]:
    """Yield files ordered by modification time, the newest first, then by path.

    O(n) for the first file, O(n log n) for all.
    """
    if files:
        newest = min(files, key=_age)
        yield newest
        yield from (file for file in sorted(files, key=_age) if file is not newest)


def _age(file: DataFile) -> tuple[int, str]:
    return -file.mtime_ns, file.path
