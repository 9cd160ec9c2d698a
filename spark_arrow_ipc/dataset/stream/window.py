"""`WindowMode`: reads a directory that any program writes to; the offset itself records the files that were read.

An offset has the files of its batch, and the hashes of all files that were read and were modified after `low`. Files
older than `low` are never read. `low` is `late_seconds` before the newest file that was read, but never after a listed
file that waits. So a file is left out only if it appears in the directory with a time before `low`: it is late, and a
warning names it.

Offsets without the hashes would lose files even if none is late, because several files may have the same time, and names
are random (measured: a cursor of time and path lost 7 of 100 files).

An offset also has the paths and `fileNameOnly`, because the hashes depend on them. If a restart names the same directory
by a link, its files are still named by the old path.

`low` never goes back, whatever the options of a restart say, so that no file is read twice. Times in the future count
as the present: one file of the year 2099 must not make all others late.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from time import time_ns
from typing import Final

from spark_arrow_ipc.dataset.listing.data_file import DataFile, time_text
from spark_arrow_ipc.dataset.stream.clean import Cleaner
from spark_arrow_ipc.dataset.stream.mode import (
    MAX_OFFSET_CHARS,
    Backlog,
    Limit,
    Offset,
    OffsetValues,
    StreamBatch,
    make_offset,
    refuse_change,
)
from spark_arrow_ipc.dataset.stream.source_files import (
    SeenFiles,
    files_from_text,
    files_to_text,
    hashes_of,
    seconds_of,
    unread,
)
from spark_arrow_ipc.dataset.stream.waiting_files import LateFiles, WaitingFiles
from spark_arrow_ipc.errors import LimitError, printable

_LOG: Final = logging.getLogger(__name__)

WINDOW: Final = "window"

_SECOND: Final = 1_000_000_000
_EARLIEST: Final = -(1 << 62)
_NAMES: Final = ("hwm", "low", "at", "seen", "files")
_PATH: Final = "path"
_NAME_ONLY: Final = "fileNameOnly"
_WARNED_CHARS: Final = MAX_OFFSET_CHARS // 4
"""Longer offsets are a warning, early enough to begin a new checkpoint before the query ends."""

_MOST_PATH_CHARS: Final = 2_000
"""A longer list of paths is replaced by its digest."""


@dataclass(frozen=True, slots=True)
class WindowOptions:
    """The options by which a directory is followed."""

    # how much older than the newest file read a new file may be
    late_seconds: int = 3600
    from_latest: bool = False  # whether a new query skips the existing files
    from_ns: int | None = None  # a new query never reads files that were modified before this time
    name_only: bool = False  # whether files with the same name in several directories count as one

    @property
    def lateness(self) -> str:
        """The options that leave files out, as text for warnings."""
        start = "" if self.from_ns is None else " (or older than startingFrom)"
        return f"lateWindow={self.late_seconds}s{start}"


@dataclass(frozen=True, slots=True)
class _State:
    """A decoded offset."""

    hwm: int = _EARLIEST  # time of the newest file that was read
    low: int = _EARLIEST  # files that were modified before this time are not read
    at: int = 0  # when the files of the batch were listed, by the machine's clock; 0 before the first batch
    seen: SeenFiles = field(default_factory=SeenFiles.empty)  # files that were read, of those modified since `low`
    batch: StreamBatch = field(default_factory=StreamBatch)  # the files of the batch that ends with this offset
    # the paths, and the option `fileNameOnly`, as texts; None in offsets of earlier releases
    path: str | None = None
    name_only: str | None = None

    def to_offset(self) -> dict[str, str | int]:
        """Return the offset of this state."""
        offset = make_offset(
            WINDOW, hwm=self.hwm, low=self.low, at=self.at, seen=self.seen.to_text(), files=files_to_text(self.batch)
        )
        offset |= {} if self.path is None else {_PATH: self.path}
        offset |= {} if self.name_only is None else {_NAME_ONLY: self.name_only}
        size = len(json.dumps(offset))
        if size > MAX_OFFSET_CHARS:
            raise LimitError(
                f"the offset of a batch of {len(self.batch.files):,} files would have {size:,} characters, because it holds "
                f"the {len(self.seen):,} files that were read within lateWindow, and Spark keeps a hundred offsets; set "
                "sourceLog=<directory> for a new checkpoint, which holds any number of files, or a smaller lateWindow "
                "(of the files of one batch, a smaller maxFilesPerTrigger, and no Trigger.Once)"
            )
        return offset

    @classmethod
    def of(cls, offset: Offset) -> _State:
        values = _values(offset)
        hwm, low = (values.integer(name, least=_EARLIEST) for name in ("hwm", "low"))
        seen = SeenFiles.from_text(values.string("seen"))
        path = values.optional_string(_PATH, max_chars=_MOST_PATH_CHARS)
        name_only = values.optional_string(_NAME_ONLY, max_chars=5)
        return cls(hwm, low, values.integer("at"), seen, files_from_text(values.string("files")), path, name_only)


def batch_of(offset: Offset) -> StreamBatch:
    """Return the files of the batch that ends with an offset of this mode."""
    return _State.of(offset).batch


def _values(offset: Offset) -> OffsetValues:
    return OffsetValues(offset, WINDOW, _NAMES, (_PATH, _NAME_ONLY))


def _note_of(paths: Sequence[str]) -> str:
    """Return a short text of the paths of a source."""
    text = ", ".join(paths)
    if len(text) <= _MOST_PATH_CHARS:
        return text
    digest = blake2b("\0".join(paths).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return f"{len(paths)} paths with the digest {digest}"


class WindowMode:
    """Reads each file of a directory once, if it is not late."""

    name = WINDOW

    def __init__(
        self,
        waiting: WaitingFiles,
        options: WindowOptions,
        cleaner: Cleaner | None = None,
        clock: Callable[[], int] = time_ns,
    ) -> None:
        self._waiting = waiting
        self._options = options
        self._cleaner = cleaner
        self._clock = clock
        self._initial: Offset | None = None
        self._newest: tuple[Offset, _State] | None = None
        self._late = LateFiles(waiting.source.storage, options.lateness)
        self._listed_at = 0
        self._has_warned = False
        source = waiting.source
        self._path = _note_of([source.storage.resolve(path) for path in source.paths])

    def initial(self) -> Offset:
        """Return the offset of a query that has read nothing or, with `from_latest`, all existing files."""
        if self._initial is None:
            from_ns = self._options.from_ns
            state = self._with_options(_State() if from_ns is None else _State(low=from_ns))
            if self._options.from_latest:
                at = self._clock()
                files, _ = self._waiting.source.list_files()
                state = self._after(state, StreamBatch(files), at, waits_from=None)
                state = replace(state, batch=StreamBatch())
            self._initial = state.to_offset()
        return self._initial

    def latest(self, start: Offset, limit: Limit) -> Offset:
        """Return the offset after the next new files, oldest first (or newest). Lists the directory if none are left."""
        state = self._state(start)
        if self._waiting.is_due:
            self._listed_at = self._clock()
            self._waiting.refresh(lambda files: self._new(files, state))
        batch = self._waiting.take(limit)
        if not batch.files:
            return start
        after = self._after(state, batch, self._listed_at, waits_from=self._waiting.oldest_ns())
        self._late.have_read(batch.files)
        offset = after.to_offset()
        self._newest = offset, after
        if not self._has_warned and (size := len(json.dumps(offset))) > _WARNED_CHARS:
            self._has_warned = True
            _LOG.warning(
                "%s: the checkpoint of this query names each file that it read of the last %d seconds (lateWindow), %s by "
                "now, in %s of the %s characters with which the query fails; before that, start it with a smaller lateWindow, "
                "or with a new checkpoint and sourceLog=<directory>, which holds any number of files",
                printable(self._path), self._options.late_seconds, f"{len(after.seen):,}", f"{size:,}",
                f"{MAX_OFFSET_CHARS:,}",
            )  # fmt: skip
        return offset

    def batch(self, start: Offset, end: Offset) -> StreamBatch:
        """Return the files of the batch from an offset to the next one."""
        if start == end:
            return StreamBatch()
        _values(start)
        return batch_of(end)

    def committed(self, end: Offset) -> None:
        """Delete the files of the batch that ends here."""
        if self._cleaner is not None:
            self._cleaner.clean(batch_of(end))

    def backlog(self) -> Backlog:
        """Return the files that were listed and wait."""
        return self._waiting.backlog()._replace(late=self._late.named)

    @staticmethod
    def words(offset: Offset) -> str:
        """Describe for people what has been read up to an offset."""
        state = _State.of(offset)
        if state.hwm == _EARLIEST:
            return "nothing is read yet"
        return f"files up to {time_text(state.hwm)[:19]} UTC, {len(state.seen):,} within lateWindow"

    def only_available_now(self) -> None:
        """List the directory at most once more."""
        self._waiting.only_now()

    def _state(self, start: Offset) -> _State:
        """Decode an offset; unless this process made it last, forget the files listed before."""
        if self._newest is None or self._newest[0] != start:
            self._newest = start, self._with_options(_State.of(start))
            self._waiting.forget()
            self._waiting.remember(self._newest[1].batch.files)
        return self._newest[1]

    def _with_options(self, state: _State) -> _State:
        """Return a state with the options that its hashes depend on, which a restart may not change."""
        name_only = str(self._options.name_only).lower()
        if state.name_only not in (None, name_only):
            refuse_change(_NAME_ONLY, str(state.name_only), name_only, "files that were read would be read again")
        if state.path is not None and state.path != self._path:
            if not self._is_other_name(state.path):
                why = "files of another directory that are older than lateWindow would never be read"
                refuse_change(_PATH, state.path, self._path, why)
            self._waiting.source.paths = (state.path,)
            self._path = state.path
        return replace(state, path=self._path, name_only=name_only)

    def _is_other_name(self, path: str) -> bool:
        """Return True if a path is another name of the directory at the source's only path, and may replace it."""
        source = self._waiting.source
        if len(source.paths) != 1 or source.base_path is not None or self._cleaner is not None:
            return False  # basePath and cleanSource need the path as the options have it
        storage = source.storage
        return storage.resolve(path) == path and storage.unique_path(path) == storage.unique_path(self._path)

    def _new(self, files: Sequence[DataFile], state: _State) -> list[DataFile]:
        """Return the files that were not read and are not late; warn of late ones."""
        inside = [file for file in files if file.mtime_ns >= state.low]
        new = unread(inside, state.seen.contains, name_only=self._options.name_only)
        self._late.warn(files, inside=inside, new=new, read_before=state.batch.files, since=state.at)
        return new

    def _after(self, state: _State, batch: StreamBatch, at: int, *, waits_from: int | None) -> _State:
        """Return the state after a batch."""
        newest = max((file.mtime_ns for file in batch.files), default=_EARLIEST)
        hwm = max(state.hwm, min(newest, self._clock()))
        low = hwm - self._options.late_seconds * _SECOND
        low = max(state.low, low if waits_from is None else min(low, waits_from))
        hashes = hashes_of((file.path for file in batch.files), name_only=self._options.name_only)
        seen = state.seen.joined(hashes, seconds_of(batch.files)).since(low)
        return replace(state, hwm=hwm, low=low, at=at, seen=seen, batch=batch)
