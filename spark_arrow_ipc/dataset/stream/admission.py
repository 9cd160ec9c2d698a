"""`Admission`: whether a file is complete, so that a stream may read it.

Strategy
--------
A file that is copied into a directory is visible before its last byte is there. A file of the file format is complete
when it ends in its magic, a stream when it ends in its end marker. What is not complete waits, and a warning names it
when it has not changed for a minute: a file once admitted is part of its batch for ever, and one that cannot be read
would end the query. So do files that are not Arrow's at all, and empty ones.

A stream may legally end without its marker, but its producer may as well be about to write more, which would never be
read. So it waits, too, unless an option says how long a pause means the end. Streams of releases before 0.15 and
tensors have no marker that could be told from their bytes: those are complete when they have not changed for a minute.

``cp -p`` and the like set a file's time after its last byte. A task that finds another time than the batch has in mind
takes the file for another one, unless samples of its bytes, taken here, are the same. And a file that has changed
within the last 0.2 s is looked at again after that time, by the time of its last change of any kind, where the storage
has it.

In an object store an object is complete when it is visible; it is asked only for its first bytes, if it is Arrow's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from enum import Enum, auto
from time import time_ns
from typing import Final, TypeAlias

from spark_arrow_ipc.dataset.listing.data_file import DataFile, known_status, sampled_version
from spark_arrow_ipc.errors import FileChangedError, InvalidArrowError, printable
from spark_arrow_ipc.ipc.constants import Format
from spark_arrow_ipc.ipc.sniff import SNIFF_NBYTES, sniff
from spark_arrow_ipc.storage.byte_source import ByteSource
from spark_arrow_ipc.storage.concurrent import each
from spark_arrow_ipc.storage.storage import Kind, Storage

__all__ = ["SETTLE_SECONDS", "Admission", "Readiness"]

_LOG: Final = logging.getLogger(__name__)

SETTLE_SECONDS: Final = 0.2
"""A file that changed less than this ago may get another modification time in a moment."""

_STILL_SECONDS: Final = 60
"""A file without its end is named in a warning if it has not changed for this long."""

_SECOND: Final = 1_000_000_000
_MAGIC: Final = b"ARROW1"
_END_OF_STREAM: Final = b"\xff\xff\xff\xff\0\0\0\0"
_CONTINUATION: Final = _END_OF_STREAM[:4]

_State: TypeAlias = tuple[int, int, str]
"""Size, time of the last change, and version of a file."""


_A_MINUTE: Final = "nothing tells its end but time"

_END_MARKER: Final = (
    "this stream has no end marker, and the query waits for it, as more may come; with unfinishedAfter=5m such a stream is "
    "read when it has not changed for so long"
)

_MAGIC_AT_END: Final = (
    "the file has no end and has not changed for a minute; the query waits for it to be completed (recover=true reads what "
    "is there)"
)


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
        Whether the tasks put up with files that are broken; such a file is admitted when it has not changed for a
        minute. Otherwise it waits, with a warning.
    unfinished_seconds
        A stream without its end marker is admitted when it has not changed for so long; None to wait for the marker.
    of_tensors
        Whether files hold tensors, which have no end marker.
    clock
        Nanoseconds since 1970, as in the times of files.
    """

    storage: Storage
    skips_broken: bool = False
    unfinished_seconds: int | None = None
    of_tensors: bool = False
    clock: Callable[[], int] = time_ns
    _warned: dict[str, _State] = field(default_factory=dict)
    """Files that wait and are named already, as they were then: they are not opened again until they change."""
    _unfinished: dict[str, int] = field(default_factory=dict)
    """Sizes of the streams that were admitted without their end marker."""

    def check(self, files: Sequence[DataFile]) -> list[tuple[Readiness, DataFile]]:
        """Return for each file whether it is complete, and the state in which it was found."""
        found: dict[str, tuple[Readiness, DataFile]] = {}

        def look(file: DataFile) -> None:
            found[file.path] = self._check(file)

        each(look, files, waits=self.storage.traits.waits)
        return [found[file.path] for file in files]

    def warn_of_growth(self, files: Sequence[DataFile]) -> None:
        """Name the streams that were admitted without an end marker and have grown since, each once in this process."""
        if not self._unfinished:
            return
        for file in files:
            nbytes = self._unfinished.get(file.path, file.nbytes)
            if nbytes != file.nbytes:
                del self._unfinished[file.path]
                _LOG.warning(
                    "%s: %d bytes have come since this stream was read without an end marker, and they will not be read; "
                    "give a longer unfinishedAfter, or follow the file with tail=true",
                    printable(file.path), file.nbytes - nbytes,
                )  # fmt: skip

    def _check(self, file: DataFile) -> tuple[Readiness, DataFile]:
        if not self.storage.traits.directories:
            return self._check_object(file)
        status = self.storage.status(file.path)
        if status is None or status.kind is not Kind.FILE:
            return Readiness.GONE, file
        changed_ns = status.ctime_ns or status.mtime_ns
        age = self.clock() - changed_ns
        if status.ctime_ns and 0 <= age < SETTLE_SECONDS * _SECOND:
            return Readiness.YOUNG, file
        found = file._replace(nbytes=status.nbytes, mtime_ns=status.mtime_ns, version=status.version)
        state = (status.nbytes, changed_ns, status.version)
        if self._warned.get(file.path) == state and not self._is_still(age):
            return Readiness.INCOMPLETE, found
        try:
            with closing(self.storage.open(status.path)) as source:
                wanted = self._wanted(source, status.nbytes)
                if wanted is None and not status.version and not self.storage.traits.waits:
                    found = found._replace(version=sampled_version(source, status.nbytes))
        except FileNotFoundError:
            return Readiness.GONE, file
        if wanted is None or self._is_taken(found, wanted, age):
            return Readiness.READY, found
        if age >= _STILL_SECONDS * _SECOND:
            self._warn(file.path, wanted, state)
        return Readiness.INCOMPLETE, found

    def _is_taken(self, file: DataFile, wanted: str, age: int) -> bool:
        """Return whether a file is admitted though its end is not there, by nanoseconds since its last change."""
        if wanted == _END_MARKER and self._is_still(age):
            self._unfinished[file.path] = file.nbytes
            _LOG.warning(
                "%s: this stream has no end marker and has not changed for %d s (unfinishedAfter), so it is read as it is; "
                "what is written to it later will not be read",
                printable(file.path), age // _SECOND,
            )  # fmt: skip
            return True
        return age >= _STILL_SECONDS * _SECOND and (self.skips_broken or wanted == _A_MINUTE)

    def _wanted(self, source: ByteSource, nbytes: int) -> str | None:
        """Return what a file waits for, as a sentence; None if it is complete."""
        head = bytes(source.read_up_to(0, SNIFF_NBYTES))
        last = bytes(source.read_up_to(max(0, nbytes - len(_END_OF_STREAM)), len(_END_OF_STREAM)))
        try:
            format_ = sniff(head, nbytes)
        except InvalidArrowError as error:
            return _not_arrow(error)
        if format_ is Format.FILE:
            return None if last.endswith(_MAGIC) and nbytes > len(_END_OF_STREAM) else _MAGIC_AT_END
        if self.of_tensors or not head.startswith(_CONTINUATION):
            return _A_MINUTE
        return None if last == _END_OF_STREAM and nbytes > len(_END_OF_STREAM) else _END_MARKER

    def _is_still(self, age: int) -> bool:
        """Return whether a stream without an end marker counts as complete, by nanoseconds since its last change."""
        return self.unfinished_seconds is not None and age >= self.unfinished_seconds * _SECOND

    def _check_object(self, file: DataFile) -> tuple[Readiness, DataFile]:
        state = (file.nbytes, file.mtime_ns, file.version)
        if self._warned.get(file.path) == state:
            return Readiness.INCOMPLETE, file
        try:
            with closing(self.storage.open(file.path, known=known_status(file, file.path, self.storage))) as source:
                sniff(source.read_up_to(0, SNIFF_NBYTES), file.nbytes)
        except InvalidArrowError as error:
            if self.skips_broken:
                return Readiness.READY, file
            self._warn(file.path, _not_arrow(error), state)
            return Readiness.INCOMPLETE, file
        except (FileNotFoundError, FileChangedError):
            return Readiness.GONE, file
        return Readiness.READY, file

    def _warn(self, path: str, wanted: str, state: _State) -> None:
        if self._warned.get(path) != state:
            self._warned[path] = state
            _LOG.warning("%s: %s", printable(path), wanted)


def _not_arrow(error: InvalidArrowError) -> str:
    return (
        f"this is not a complete Arrow file, and the query waits for it to become one: {error}; leave such files out with "
        "pathGlobFilter, or remove it"
    )
