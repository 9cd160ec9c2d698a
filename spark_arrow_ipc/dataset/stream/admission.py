"""`Admission`: whether a file is complete, so that a stream may read it.

A file that is copied into a directory is visible before its last byte is there. A file of the file format is complete
when it ends in its magic, a stream when the walk over its messages ends at its end marker. What is not complete waits,
and a warning names it when it has not changed for a minute: a file once admitted is part of its batch for ever, and one
that cannot be read would end the query. So do files that are not Arrow's at all, and empty ones.

A stream may legally end without its marker, but its producer may as well be about to write more, which would never be
read. So it waits, too. Files of tensors have no marker at all: they are complete when they have not changed for a minute.

``cp -p`` and the like set a file's time after its last byte. A task that finds another time than the batch has in mind
takes the file for another one, unless samples of its bytes, taken here, are the same. And a file that has changed
within the last 0.2 s is looked at again after that time, by the time of its last change of any kind, where the storage
has it.

In an object store an object is complete when it is visible; it is asked only for its first bytes, if it is Arrow's.

Where bad files are passed over (`BadFiles`), a complete one is asked whether tasks could read it as well, and what waits
for its end for more than a minute is bad.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from enum import Enum, auto
from time import time_ns
from typing import Final, NamedTuple, TypeAlias

from spark_arrow_ipc.dataset.listing.data_file import DataFile, sample_version, status_from_listing
from spark_arrow_ipc.dataset.stream.bad_files import BadFiles
from spark_arrow_ipc.dataset.stream.source_files import Roots
from spark_arrow_ipc.errors import ArrowIpcError, FileChangedError, InvalidArrowError, printable
from spark_arrow_ipc.ipc.constants import EOS, MAGIC, Format, Limits
from spark_arrow_ipc.ipc.messages.message import SNIFF_NBYTES, sniff
from spark_arrow_ipc.ipc.stream_index import ends_in_marker
from spark_arrow_ipc.storage.byte_source import ByteSource
from spark_arrow_ipc.storage.storage import Kind, Storage, each

_LOG: Final = logging.getLogger(__name__)

SETTLE_SECONDS: Final = 0.2
"""A file that changed less than this ago may get another modification time in a moment."""

_TICK_SECONDS: Final = 0.001
"""By so much a pause is longer, as clocks differ."""

_STILL_SECONDS: Final = 60
"""A file without its end is named in a warning if it has not changed for this long."""

_SECOND: Final = 1_000_000_000
_LIMITS: Final = Limits()

_NO_ROOTS: Final = Roots(())

_State: TypeAlias = tuple[int, int, str]
"""Size, time of the last change, and version of a file."""


class _Wanted(NamedTuple):
    """A thing that a file lacks: the reason why it is not read, and what the query says while it waits for it."""

    reason: str
    sentence: str


_NO_MARKERS: Final = _Wanted("nothing tells the end of tensors but time", "nothing tells the end of tensors but time")

_END_MARKER: Final = _Wanted(
    "this stream has no end marker",
    "this stream has no end marker, and the query waits for it, as more may come; close the writer, or if nothing more "
    "comes, copy the stream into the directory with 'arrowipc repair'",
)

_MAGIC_AT_END: Final = _Wanted(
    "the file has no end and has not changed for a minute",
    "the file has no end and has not changed for a minute; the query waits for it to be completed (recover=true reads what "
    "is there)",
)


class Readiness(Enum):
    """The readiness of a file."""

    READY = auto()
    YOUNG = auto()
    """Changed a moment ago: to be looked at again."""
    INCOMPLETE = auto()
    GONE = auto()


@dataclass(slots=True)
class Admission:
    """Looks at files before they become part of a batch."""

    storage: Storage
    # Whether the tasks skip files that are broken; such a file is admitted when it has not changed for a minute.
    # Otherwise it waits, with a warning.
    skips_broken: bool = False
    of_tensors: bool = False  # whether files hold tensors, which have no end marker
    bad_files: BadFiles | None = None  # passes over those that tasks could not read; None to leave that to the tasks
    clock: Callable[[], int] = time_ns  # nanoseconds since 1970, as in the times of files
    _settled_ns: int = 0  # when the files that were found young have not changed for long enough
    _warned: dict[str, _State] = field(default_factory=dict)
    """Files that wait and are named already, as they were then: they are not opened again until they change."""

    @property
    def settle_seconds(self) -> float:
        """Seconds until the files that were found young are to be looked at again."""
        return min(SETTLE_SECONDS, max(0.0, (self._settled_ns - self.clock()) / _SECOND + _TICK_SECONDS))

    @property
    def named(self) -> int:
        """Files that cannot be read as they are, and that a warning has named."""
        return len(self._warned)

    def has_named(self, path: str) -> bool:
        """Return whether a warning has named a file as one that cannot be read as it is."""
        return path in self._warned

    def check(self, files: Sequence[DataFile], roots: Roots = _NO_ROOTS) -> list[tuple[Readiness, DataFile]]:
        """Return for each file whether it is complete, and the state in which it was found."""
        by_path: dict[str, tuple[Readiness, DataFile]] = {}

        def look(file: DataFile) -> None:
            readiness, file = self._check(file, roots.of(file.path))
            by_path[file.path] = readiness, file
            if readiness in (Readiness.READY, Readiness.GONE):
                self._warned.pop(file.path, None)

        each(look, files, waits=self.storage.traits.waits)
        return [by_path[file.path] for file in files]

    def _check(self, file: DataFile, root: str) -> tuple[Readiness, DataFile]:
        if not self.storage.traits.directories:
            return self._check_object(file, root)
        status = self.storage.status(file.path)
        if status is None or status.kind is not Kind.FILE:
            return Readiness.GONE, file
        changed_ns = status.ctime_ns or status.mtime_ns
        age = self.clock() - changed_ns
        if status.ctime_ns and 0 <= age < SETTLE_SECONDS * _SECOND:
            self._settled_ns = max(self._settled_ns, changed_ns + int(SETTLE_SECONDS * _SECOND))
            return Readiness.YOUNG, file
        current = file._replace(nbytes=status.nbytes, mtime_ns=status.mtime_ns, version=status.version)
        state = (status.nbytes, changed_ns, status.version)
        if self._warned.get(file.path) == state:
            return Readiness.INCOMPLETE, current
        try:
            with closing(self.storage.open(status.path)) as source:
                requirement = self._wanted(source, status.nbytes)
                if requirement is None and not status.version and not self.storage.traits.waits:
                    current = current._replace(version=sample_version(source, status.nbytes))
        except FileNotFoundError:
            return Readiness.GONE, file
        if requirement is None or self._is_taken(current, requirement, age):
            return self._judged(current, root, state)
        if age >= _STILL_SECONDS * _SECOND:
            if self.bad_files is None:
                self._warn(current, requirement.sentence, state)
            else:
                self._pass_over(current, requirement.reason, state)
        return Readiness.INCOMPLETE, current

    def _judged(self, file: DataFile, root: str, state: _State) -> tuple[Readiness, DataFile]:
        """Return a complete file as ready, unless it is bad and passed over."""
        try:
            why = None if self.bad_files is None else self.bad_files.why(file, root)
        except (FileNotFoundError, FileChangedError):
            return Readiness.GONE, file
        if why is None:
            return Readiness.READY, file
        self._pass_over(file, why, state)
        return Readiness.INCOMPLETE, file

    def _pass_over(self, file: DataFile, why: str, state: _State) -> None:
        assert self.bad_files is not None
        if self._warned.get(file.path) != state:
            self.bad_files.note(file, why)
            self._warn(file, f"passed over until it changes, as onBadFile={self.bad_files.word} asks: {why}", state)

    def _is_taken(self, file: DataFile, requirement: _Wanted, age: int) -> bool:
        """Return whether a file is admitted though its end is not there, by nanoseconds since its last change."""
        is_still = age >= _STILL_SECONDS * _SECOND
        if requirement == _NO_MARKERS:
            return is_still
        if is_still and self.skips_broken and requirement in (_END_MARKER, _MAGIC_AT_END):
            _LOG.warning(
                "%s: the file has no end and has not changed for a minute, so it is read as it is; what is written to it "
                "later will not be read",
                printable(file.path),
            )
        return is_still and self.skips_broken

    def _wanted(self, source: ByteSource, nbytes: int) -> _Wanted | None:
        """Return what a file waits for; None if it is complete."""
        head = bytes(source.read_up_to(0, SNIFF_NBYTES))
        last = bytes(source.read_up_to(max(0, nbytes - len(EOS)), len(EOS)))
        try:
            format_ = sniff(head, nbytes)
        except InvalidArrowError as error:
            return _not_arrow(error)
        if format_ is Format.FILE:
            return None if last.endswith(MAGIC) and nbytes > len(EOS) else _MAGIC_AT_END
        if self.of_tensors:
            return _NO_MARKERS
        # A look at the last bytes saves the walk while a stream grows: its marker, an old one, or padding after it.
        if not last.endswith(EOS[4:]):
            return _END_MARKER
        try:
            return None if ends_in_marker(source, nbytes, _LIMITS) else _END_MARKER
        except ArrowIpcError:  # tasks say what is wrong
            return None

    def _check_object(self, file: DataFile, root: str) -> tuple[Readiness, DataFile]:
        state = (file.nbytes, file.mtime_ns, file.version)
        if self._warned.get(file.path) == state:
            return Readiness.INCOMPLETE, file
        try:
            with closing(
                self.storage.open(file.path, listed=status_from_listing(file, file.path, self.storage))
            ) as source:
                sniff(source.read_up_to(0, SNIFF_NBYTES), file.nbytes)
        except InvalidArrowError as error:
            if self.skips_broken:
                return Readiness.READY, file
            if self.bad_files is None:
                self._warn(file, _not_arrow(error).sentence, state)
            else:
                self._pass_over(file, str(error), state)
            return Readiness.INCOMPLETE, file
        except (FileNotFoundError, FileChangedError):
            return Readiness.GONE, file
        return self._judged(file, root, state)

    def _warn(self, file: DataFile, what: str, state: _State) -> None:
        if self._warned.get(file.path) != state:
            self._warned[file.path] = state
            _LOG.warning("%s: %s", printable(file.path), what)


def _not_arrow(error: InvalidArrowError) -> _Wanted:
    return _Wanted(
        str(error),
        f"this is not a complete Arrow file, and the query waits for it to become one: {error}; leave such files out with "
        "pathGlobFilter, or remove it",
    )
