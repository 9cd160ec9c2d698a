"""`DataFile`: one file of a dataset as the listing saw it, and `open_where_it_lies`, which opens it for reading.

In a module of its own, because executors need these and not the listing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, TypeVar

from spark_arrow_ipc.storage.byte_source import ByteSource
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.storage.storage import Storage

__all__ = ["DataFile", "Located", "open_where_it_lies"]


class Located(Protocol):
    """A committed file: at its path, or still at the place where it was staged."""

    @property
    def path(self) -> str:
        """Where the file is, or will be once its commit has renamed it."""

    @property
    def staged(self) -> str | None:
        """Where a committed file lies until it is renamed; None for all others."""


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

    def open(self, storage: Storage = LOCAL) -> ByteSource:
        """Open the file for reading, wherever it lies; the caller closes the source.

        Raises
        ------
        FileNotFoundError
            It is gone since it was listed.
        OSError
            It cannot be opened.
        """
        return open_where_it_lies(self, storage.open)

    def __reduce__(self) -> tuple[type[DataFile], tuple[object, ...]]:
        # Half of the bytes that a slotted dataclass pickles to: the plan of an overwrite holds all files.
        if self.staged is not None:
            return DataFile, (self.path, self.nbytes, self.mtime_ns, self.partition, self.staged)
        if self.partition:
            return DataFile, (self.path, self.nbytes, self.mtime_ns, self.partition)
        return DataFile, (self.path, self.nbytes, self.mtime_ns)


_Opened = TypeVar("_Opened")


def open_where_it_lies(file: Located, open_at: Callable[[str], _Opened]) -> _Opened:
    """Open a file at its path, or at its staged place while a pending commit has not renamed it.

    Parameters
    ----------
    file
        As it was listed.
    open_at
        Opens one place; raises FileNotFoundError where the file is not there.

    Raises
    ------
    FileNotFoundError
        It is at none of its places.
    """
    if file.staged is not None:
        for place in (file.path, file.staged):
            with suppress(FileNotFoundError):
                return open_at(place)
    # Of a staged file once more: it may have been renamed between the two tries.
    return open_at(file.path)
