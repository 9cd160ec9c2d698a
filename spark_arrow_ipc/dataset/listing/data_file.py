"""`DataFile`: one file of a dataset as the listing saw it.

In a module of its own, because executors need the value and not the listing.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DataFile"]


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file of a dataset as the listing saw it.

    Parameters
    ----------
    path
        Absolute.
    nbytes
        Its size.
    mtime_ns
        Time of its last modification, nanoseconds since 1970.
    partition
        Values of the hive partition columns; one tuple for all files of a directory.
    staged
        Absolute path where a committed file still lies, or lay, before it gets its name.
    """

    path: str
    nbytes: int
    mtime_ns: int
    partition: tuple[object, ...] = ()
    staged: str | None = None

    def __reduce__(self) -> tuple[type[DataFile], tuple[object, ...]]:
        # Half of the bytes that a slotted dataclass pickles to: the plan of an overwrite holds all files.
        if self.staged is not None:
            return DataFile, (self.path, self.nbytes, self.mtime_ns, self.partition, self.staged)
        if self.partition:
            return DataFile, (self.path, self.nbytes, self.mtime_ns, self.partition)
        return DataFile, (self.path, self.nbytes, self.mtime_ns)
