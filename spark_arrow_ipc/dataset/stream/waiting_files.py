"""`WaitingFiles`: the new files of a directory, from a look at it until batches have taken them; and `LateFiles`.

One listing of a large directory feeds many batches: what a batch leaves is kept, in the order in which it is to be
read, and the directory is listed again when nothing is left, or after ten seconds, or after five times what the last
listing took if that is longer. With ``Trigger.AvailableNow`` it is listed once. Nothing depends on this memory: a
process that starts anew lists once more.

What is written to a file after it was read is never read. So the sizes of the files that were read last are kept, and a
warning names those that have another one in a later look.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import attrgetter
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.stream.admission import Admission, Readiness
from spark_arrow_ipc.dataset.stream.mode import Backlog, Limit, StreamBatch
from spark_arrow_ipc.dataset.stream.overlap import check_outside
from spark_arrow_ipc.dataset.stream.source_files import Roots, SourceFiles
from spark_arrow_ipc.errors import printable
from spark_arrow_ipc.storage.paths import parent
from spark_arrow_ipc.storage.storage import Storage

_LOG: Final = logging.getLogger(__name__)

_FRESH_SECONDS: Final = 10.0
_LISTING_SHARE: Final = 5
_MOST_REMEMBERED: Final = 10_000
"""Files whose sizes are kept."""

_MOST_CHECKED: Final = 1_000
"""Files that are looked at before it is seen whether the batch is full."""


@dataclass(slots=True)
class WaitingFiles:
    """The new files of a source."""

    source: SourceFiles  # the paths
    admission: Admission  # says which files are complete
    latest_first: bool = False  # whether the newest files are read first; otherwise the oldest
    target: str | None = None  # the directory that the query writes to, where it is known
    # A clock and a pause, for tests
    seconds: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _files: deque[DataFile] = field(default_factory=deque)
    _roots: Roots = field(default_factory=lambda: Roots(()))
    _listed_at: float | None = None
    _fresh_seconds: float = 0.0
    _only_now: bool = False
    _incomplete: int = 0
    _sizes: dict[str, int] = field(default_factory=dict)
    """Of the files that were read last, in their order."""

    def only_now(self) -> None:
        """List once more at most."""
        self._only_now = True
        self._listed_at = None

    def forget(self) -> None:
        """Drop what is known; the next batch begins with a listing."""
        self._files = deque()
        self._listed_at = None

    @property
    def is_due(self) -> bool:
        """True if the directory is to be listed before the next batch."""
        if self._listed_at is None:
            return True
        if self._only_now:
            return False
        return not self._files or self.seconds() - self._listed_at > self._fresh_seconds

    def refresh(self, select: Callable[[Sequence[DataFile]], Sequence[DataFile]]) -> None:
        """List the files, and keep those that `select` says are new."""
        begun = self.seconds()
        files, self._roots = self.source.list_files()
        self._incomplete = 0
        self._listed_at = self.seconds()
        self._fresh_seconds = max(_FRESH_SECONDS, _LISTING_SHARE * (self._listed_at - begun))
        new = select(files)
        if self.target is not None and self.source.storage.traits.directories:
            check_outside(self.source.storage, {parent(file.path) for file in new}, self.target)
        self._warn_of_growth(files, new)
        self._files = deque(sorted(new, key=attrgetter("mtime_ns", "path"), reverse=self.latest_first))

    def take(self, limit: Limit) -> StreamBatch:
        """Return the files of the next batch, and keep the rest. Incomplete files come with a later listing."""
        batch = _Taken(limit)
        try:
            young = self._fill(batch)
            if young:
                self.sleep(self.admission.settle_seconds)
                waiting, self._files = self._files, deque(young)
                still_young = self._fill(batch)
                self._files.extendleft(reversed(still_young))
                self._files.extend(waiting)
        except BaseException:
            self.forget()  # what was taken is in no batch
            raise
        if not batch.files and not self._only_now:
            self._listed_at = None
        self.remember(batch.files)
        return StreamBatch(tuple(batch.files), tuple(self._roots.of(file.path) for file in batch.files))

    def remember(self, files: Sequence[DataFile]) -> None:
        """Keep the sizes of files that were read, in this process or by an earlier one."""
        for file in files:
            self._sizes.pop(file.path, None)
            self._sizes[file.path] = file.nbytes
        for path in list(islice(self._sizes, max(0, len(self._sizes) - _MOST_REMEMBERED))):
            del self._sizes[path]

    def _warn_of_growth(self, files: Sequence[DataFile], new: Sequence[DataFile]) -> None:
        """Name the files that were read and have another size now, each once, unless they are read again."""
        grown = {file.path: file.nbytes for file in files if self._sizes.get(file.path, file.nbytes) != file.nbytes}
        for file in new if grown else ():
            grown.pop(file.path, None)
        for path, nbytes in grown.items():
            _LOG.warning(
                "%s: this file had %d bytes when it was read and has %d now; what was written since will not be read: give "
                "new files new names, or follow the file with tail=true",
                printable(path), self._sizes.pop(path), nbytes,
            )  # fmt: skip

    def _fill(self, batch: _Taken) -> list[DataFile]:
        """Move complete files into a batch until it is full; return those that changed a moment ago."""
        young: list[DataFile] = []
        while self._files and not batch.is_full:
            part = list(islice(self._files, batch.most(_MOST_CHECKED)))
            for readiness, file in self.admission.check(part, self._roots):
                if readiness is Readiness.READY and not batch.add(file):
                    break
                if readiness is Readiness.YOUNG:
                    young.append(file)
                self._incomplete += readiness is Readiness.INCOMPLETE and not self.admission.has_named(file.path)
                self._files.popleft()
        return young

    def oldest_ns(self) -> int | None:
        """Return the earliest modification time of the files that wait; None if there are none."""
        return min((file.mtime_ns for file in self._files), default=None)

    def backlog(self) -> Backlog:
        """Return how many files wait, their bytes when they were listed, the oldest, the bad ones and the incomplete."""
        nbytes = sum(file.nbytes for file in self._files)
        return Backlog(len(self._files), nbytes, self.oldest_ns(), self.admission.named, incomplete=self._incomplete)


@dataclass(slots=True)
class _Taken:
    """A batch that is being filled."""

    limit: Limit
    files: list[DataFile] = field(default_factory=list)
    nbytes: int = 0
    is_full: bool = False

    def most(self, cap: int) -> int:
        """Return how many files it can take still, at most `cap` at once."""
        if self.limit.max_files is None:
            return cap
        return max(1, min(cap, self.limit.max_files - len(self.files)))

    def add(self, file: DataFile) -> bool:
        """Add a file unless the batch is full; the first one always fits."""
        if self.files and not self.limit.allows(len(self.files) + 1, self.nbytes + file.nbytes):
            self.is_full = True
            return False
        self.files.append(file)
        self.nbytes += file.nbytes
        self.is_full = not self.limit.allows(len(self.files) + 1, self.nbytes)
        return True


_NAMED: Final = 50


"""Files that one warning names."""


_Paths: TypeAlias = npt.NDArray[np.int64]


"""Sorted hashes of paths, Python's own: good within one process."""


class LateFiles:
    """The files of a directory that are known to be read, and warnings of those that never will be.

    An offset does not say which old files were read, but the process remembers what it has listed: an old file that was
    not there at the look before is late. A process that starts anew takes what it finds at its first look as read, apart
    from files whose last change of any kind was after the look of its offset: a rename sets that time, and no program can
    set it back. Where a storage has no such time (object stores), files that came late while the query was down are not
    named.
    """

    def __init__(self, storage: Storage, option: str) -> None:
        self._storage = storage
        self._option = option
        self._known: _Paths | None = None
        self.named = 0
        """Files that a warning has named."""

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
        self.named += len(names)
        for part in (names[i : i + _NAMED] for i in range(0, len(names), _NAMED)):
            _LOG.warning(
                "%s too late and will not be read: more than %s older than the newest file that was read. Set a larger one; "
                "with sourceLog=<directory> (for a new checkpoint) files of any time are read: %s",
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
