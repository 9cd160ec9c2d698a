"""`LateFiles`: warn of the files that appear too late to be read.

Strategy
--------
An offset does not say which old files were read; it has forgotten them. But the process remembers what it has listed:
an old file that was not there at the look before is late. A process that starts anew takes what it finds at its first
look as read, apart from files whose last change of any kind was after the look of its offset: a rename sets that time,
and no program can set it back. Where a storage has no such time (object stores), files that came late while the query
was down are not named.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.errors import printable
from spark_arrow_ipc.storage.storage import Storage

_LOG: Final = logging.getLogger(__name__)

_NAMED: Final = 50
"""Files that one warning names."""

_Paths: TypeAlias = npt.NDArray[np.int64]
"""Sorted hashes of paths, Python's own: good within one process."""


class LateFiles:
    """The files of a directory that are known to be read, and warnings of those that never will be.

    Parameters
    ----------
    storage
        The storage that holds them.
    option
        The option that leaves them out, with its value, for the warning.
    """

    def __init__(self, storage: Storage, option: str) -> None:
        self._storage = storage
        self._option = option
        self._known: _Paths | None = None

    def warn(
        self,
        files: Sequence[DataFile],
        *,
        inside: Sequence[DataFile],
        new: Sequence[DataFile],
        read_before: Sequence[DataFile],
        since: int,
    ) -> None:
        """Name the late files of a look in a warning, each once in this process."""
        paths = _hashes(files)
        old = ~np.isin(paths, _hashes(inside))
        if self._known is None:
            late = self._changed_since(old, files, since, {file.path for file in read_before})
        else:
            late = [files[i] for i in np.flatnonzero(old & ~np.isin(paths, self._known)).tolist()]
        self._known = paths[~np.isin(paths, _hashes(new))]
        names = sorted(file.path for file in late)
        for part in (names[i : i + _NAMED] for i in range(0, len(names), _NAMED)):
            _LOG.warning(
                "%s too late and will not be read: more than %s older than the newest file that was read. Set a larger one; "
                "with sourceLog=<directory> and without maxFileAge (for a new checkpoint) files of any time are read: %s",
                "1 file has come" if len(part) == 1 else f"{len(part)} files have come",
                self._option,
                ", ".join(map(printable, part)),
            )

    def have_read(self, files: Sequence[DataFile]) -> None:
        """Note files that are part of a batch now."""
        if self._known is not None:
            self._known = np.union1d(self._known, _hashes(files))

    def _changed_since(
        self, old: npt.NDArray[np.bool_], files: Sequence[DataFile], since: int, read_before: set[str]
    ) -> list[DataFile]:
        if not since:
            return []
        late = []
        for i in np.flatnonzero(old).tolist():
            status = None if files[i].path in read_before else self._storage.status(files[i].path)
            if status is not None and status.ctime_ns > since:
                late.append(files[i])
        return late


def _hashes(files: Sequence[DataFile]) -> _Paths:
    return np.fromiter((hash(file.path) for file in files), np.int64, len(files))
