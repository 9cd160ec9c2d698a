"""Order files from the newest to the oldest, for the schema of a dataset.

The newest file is the one that was modified last; of files with the same time, the first by path. Names play no part
otherwise: those of written files are random.
"""

from __future__ import annotations

from collections.abc import Sequence

from spark_arrow_ipc.dataset.listing.data_file import DataFile

__all__ = ["newest_first"]


def newest_first(files: Sequence[DataFile]) -> list[DataFile]:
    """Return files ordered by modification time, the newest first, then by path. O(n log n)."""
    return sorted(files, key=lambda file: (-file.mtime_ns, file.path))
