"""`LogMode`: a directory that anybody writes to, with what was read in a log of the query's own.

Before an offset is returned, the files of its batch are an entry of the log (`source_log`); the offset is the entry's
number. Any file that is not in the log is new, whatever its time: nothing is late.

A process that dies after it wrote an entry leaves one that Spark does not know. The next one finds an entry after its
start and returns that, without a look at the directory; otherwise the log and Spark's offsets would disagree for ever.

Each offset has the id of its query, made before the first one. The first query of which Spark hands back an offset of an
entry owns the log, and any other is refused: the log of a new checkpoint has no owner.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.stream.clean import Cleaner
from spark_arrow_ipc.dataset.stream.mode import (
    ALL_AVAILABLE,
    Backlog,
    Limit,
    Offset,
    OffsetValues,
    StreamBatch,
    make_offset,
)
from spark_arrow_ipc.dataset.stream.source_files import SeenFiles, hashes_of, seconds_of, unread
from spark_arrow_ipc.dataset.stream.source_log import EARLIEST, MOST_FILES, Entry, SourceLog
from spark_arrow_ipc.dataset.stream.waiting_files import WaitingFiles
from spark_arrow_ipc.errors import StreamOffsetError

LOG: Final = "log"


@dataclass(frozen=True, slots=True)
class LogOptions:
    """The options by which a directory is followed."""

    from_latest: bool = False  # whether a new query skips the files that are there
    from_ns: int | None = None  # a new query never reads files that were modified before this time
    name_only: bool = False  # whether files of one name in several directories are one file


class LogMode:
    """Reads each file of a directory once, by a log of this query alone."""

    name = LOG

    def __init__(
        self,
        waiting: WaitingFiles,
        log: SourceLog,
        options: LogOptions,
        cleaner: Cleaner | None = None,
    ) -> None:
        self._waiting = waiting
        self._log = log
        self._options = options
        self._cleaner = cleaner
        self._is_loaded = False
        self._id = uuid.uuid4().hex
        self._owned_by: str | None = None

    def initial(self) -> Offset:
        """Return the offset before the first entry."""
        return make_offset(LOG, log=-1, owner=self._id)

    def latest(self, start: Offset, limit: Limit) -> Offset:
        """Return the offset after the next entry: one that is there already, or a new one."""
        first, owner = read_number(start), owner_of(start)
        try:
            number = self._next(first, owner, limit)
        except BaseException:
            # An entry may be there or not: the log has to be read again.
            self._is_loaded = False
            self._waiting.forget()
            raise
        if number == first:
            return start
        return make_offset(LOG, log=number) if owner is None else make_offset(LOG, log=number, owner=owner)

    def _next(self, first: int, owner: str | None, limit: Limit) -> int:
        log = self._log
        if not self._is_loaded:
            log.load()
            if first < 0:
                log.check_new()
            if log.last >= 0:
                self._waiting.remember(log.entry(log.last).batch.files)
            self._is_loaded = True
        if first > log.last:
            log.entry(first)
        self._claim(first, owner)
        if first < log.last and limit != ALL_AVAILABLE:
            return first + 1
        if log.last < 0:
            self._begin()
        if self._waiting.is_due:
            self._waiting.refresh(self._new)
        batch = self._waiting.take(limit)
        for i in range(0, len(batch.files), MOST_FILES):
            part = StreamBatch(batch.files[i : i + MOST_FILES], batch.roots[i : i + MOST_FILES])
            log.append(Entry(part, first, log.low))
        return log.last

    def batch(self, start: Offset, end: Offset) -> StreamBatch:
        """Return the files of the entries between two offsets."""
        first, last = read_number(start), read_number(end)
        if first > last:
            raise StreamOffsetError(expected=f"an offset from entry {first:,} on", found=f"entry {last:,}")
        return _join_batches([self._log.entry(number).batch for number in range(first + 1, last + 1)])

    def committed(self, end: Offset) -> None:
        """Delete the files of the batch that ends here, and entries that no offset names any more."""
        last = read_number(end)
        if last < 0:
            return
        self._claim(last, owner_of(end))
        if self._cleaner is not None:
            for number in range(self._log.entry(last).after + 1, last + 1):
                self._cleaner.clean(self._log.entry(number).batch)
        self._log.prune(last)

    def _claim(self, number: int, owner: str | None) -> None:
        """Check that the log is this query's, once in this process, if Spark has an offset of an entry of it."""
        if number >= 0 and owner is not None and owner != self._owned_by:
            self._log.claim(owner)
            self._owned_by = owner

    def backlog(self) -> Backlog:
        """Return the files that were listed and wait."""
        return self._waiting.backlog()

    @staticmethod
    def words(offset: Offset) -> str:
        """Return for people how far an offset is."""
        number = read_number(offset)
        return "nothing is read yet" if number < 0 else f"entry {number:,}"

    def only_available_now(self) -> None:
        """List once more at most."""
        self._waiting.only_now()

    def _new(self, files: Sequence[DataFile]) -> list[DataFile]:
        """Return the files that were not read, of those that the query began with or that came later."""
        low = self._log.low
        inside = files if low == EARLIEST else [file for file in files if file.mtime_ns >= low]
        return unread(inside, self._log.contains, name_only=self._options.name_only)

    def _begin(self) -> None:
        """Write an entry of what a new query leaves out, if it does so."""
        if self._options.from_ns is not None:
            self._log.append(Entry(StreamBatch(), -1, self._options.from_ns))
        if self._options.from_latest:
            files, _ = self._waiting.source.list_files()
            hashes = hashes_of((file.path for file in files), name_only=self._options.name_only)
            self._log.append(Entry(StreamBatch(), -1, self._log.low, SeenFiles.of(hashes, seconds_of(files))))


def read_number(offset: Offset) -> int:
    """Return the number of the entry that an offset of this mode names; -1 for none."""
    return _values(offset).integer("log", least=-1)


def owner_of(offset: Offset) -> str | None:
    """Return the id of the query that an offset of this mode has; None in those of earlier releases."""
    return _values(offset).optional_string("owner", max_chars=32)


def _values(offset: Offset) -> OffsetValues:
    return OffsetValues(offset, LOG, ("log",), ("owner",))


def _join_batches(batches: Sequence[StreamBatch]) -> StreamBatch:
    if len(batches) == 1:
        return batches[0]
    files = tuple(file for batch in batches for file in batch.files)
    return StreamBatch(files, tuple(root for batch in batches for root in batch.roots))
