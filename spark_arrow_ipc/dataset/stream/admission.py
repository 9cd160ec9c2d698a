"""`Admission`: whether a file is complete, so that a stream may read it.

Strategy
--------
A file that is copied into a directory is visible before its last byte is there. A file of the file format is complete
when it ends in its magic, a stream when it ends in its end marker. A stream may legally end without one, and no byte
says that the file is of some other kind: such files are admitted when they have not changed for a minute.

``cp -p`` and the like set a file's time after its last byte. A task that finds another time than the batch has in mind
takes the file for another one. So a file that has changed within the last 0.2 s is looked at again after that time, by
the time of its last change of any kind, where the storage has it.

In an object store an object is complete when it is visible, and nothing is looked at.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from enum import Enum, auto
from time import time_ns
from typing import Final

from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.errors import printable
from spark_arrow_ipc.storage.concurrent import each
from spark_arrow_ipc.storage.storage import Kind, Status, Storage

__all__ = ["SETTLE_SECONDS", "Admission", "Readiness"]

_LOG: Final = logging.getLogger(__name__)

SETTLE_SECONDS: Final = 0.2
"""A file that changed less than this ago may get another modification time in a moment."""

_STILL_SECONDS: Final = 60
"""A file without a recognisable end is complete if it has not changed for this long."""

_SECOND: Final = 1_000_000_000
_MAGIC: Final = b"ARROW1"
_END_OF_STREAM: Final = b"\xff\xff\xff\xff\0\0\0\0"
_LOOKED_AT: Final = 8
"""Bytes at either end that tell whether a file is complete."""


class Readiness(Enum):
    """Whether a file can be read."""

    READY = auto()
    YOUNG = auto()
    """Changed a moment ago: to be looked at again."""
    INCOMPLETE = auto()
    GONE = auto()


@dataclass(slots=True)
class Admission:
    """Looks at files before they become part of a batch.

    Parameters
    ----------
    storage
        The storage that holds them.
    skips_broken
        Whether the tasks put up with files that are cut off; such a file is admitted when it has not changed for a
        minute. Otherwise it waits, with a warning.
    clock
        Nanoseconds since 1970, as in the times of files.
    """

    storage: Storage
    skips_broken: bool = False
    clock: Callable[[], int] = time_ns
    _warned: set[str] = field(default_factory=set)

    def check(self, files: Sequence[DataFile]) -> list[tuple[Readiness, DataFile]]:
        """Return for each file whether it is complete, and the state in which it was found."""
        if not self.storage.traits.directories:
            return [(Readiness.READY, file) for file in files]
        found: dict[str, tuple[Readiness, DataFile]] = {}

        def look(file: DataFile) -> None:
            found[file.path] = self._check(file)

        each(look, files, waits=self.storage.traits.waits)
        return [found[file.path] for file in files]

    def _check(self, file: DataFile) -> tuple[Readiness, DataFile]:
        status = self.storage.status(file.path)
        if status is None or status.kind is not Kind.FILE:
            return Readiness.GONE, file
        age = self.clock() - (status.ctime_ns or status.mtime_ns)
        if status.ctime_ns and 0 <= age < SETTLE_SECONDS * _SECOND:
            return Readiness.YOUNG, file
        found = file._replace(nbytes=status.nbytes, mtime_ns=status.mtime_ns, version=status.version)
        try:
            is_file, is_whole = self._ends(status)
        except FileNotFoundError:
            return Readiness.GONE, file
        if is_whole:
            return Readiness.READY, found
        if age < _STILL_SECONDS * _SECOND:
            return Readiness.INCOMPLETE, found
        if is_file and not self.skips_broken:
            self._warn(file.path)
            return Readiness.INCOMPLETE, found
        return Readiness.READY, found

    def _ends(self, status: Status) -> tuple[bool, bool]:
        """Return whether a file is of the file format, and whether its end is there."""
        with closing(self.storage.open(status.path)) as source:
            first = bytes(source.read_up_to(0, _LOOKED_AT))
            last = bytes(source.read_up_to(max(0, status.nbytes - _LOOKED_AT), _LOOKED_AT))
        is_file = first.startswith(_MAGIC)
        return is_file, last.endswith(_MAGIC) and status.nbytes > len(first) if is_file else last == _END_OF_STREAM

    def _warn(self, path: str) -> None:
        if path not in self._warned:
            self._warned.add(path)
            _LOG.warning(
                "%s: the file has no end and has not changed for a minute; the stream waits for it to be completed "
                "(recover=true reads what is there)",
                printable(path),
            )
