"""`StreamMode`: the protocol of everything that says which files a streaming query reads next.

A stream is a chain of offsets. A mode makes the next offset from the last one (`StreamMode.latest`), and says which
files lie between two of them (`StreamMode.batch`). Spark keeps the offsets in the query's checkpoint, one file a batch,
written before the batch is run. So exactness rests on two promises of a mode:

- **A batch is its offsets.** `batch(start, end)` gives the same files in the same order, however often and in whatever
  process it is called, and looks at no directory: a batch that failed is run again from its offsets alone.
- **Nothing is between batches.** Every file that a query reads is in `batch(a, b)` of exactly one pair of consecutive
  offsets, whatever process made each of them, and wherever it died.

How a query runs (measured with Spark 4.2 and 4.3): one process, which a crash ends at any moment, calls everything but
the reading of a batch, in one thread::

    [only_available_now]                     with Trigger.AvailableNow, before all others
    initial                                  only while the checkpoint has no offset; may be called several times
    batch(a, b)                              after a restart: of the batch that was not finished, before any `latest`
    latest(b, limit) -> c    batch(b, c)     again and again; Spark writes c down between the two calls
    committed(b)                             one batch late, and again after a restart: must be idempotent

The same process sees all calls of one run, so a mode may remember what it has listed. It must get along without it:
what it remembers is only good for an offset that it returned itself.

Waiting is not a mode's affair: the reader of the stream calls `latest` again only after a pause, unless `backlog` says
that more is known to wait. Offsets are JSON; what a checkpoint gives back is checked (`OffsetValues`). A mode never
sleeps, and raises `OSError` for an error of the storage that may pass.

To add a mode:

1. A class with these calls in a module of its own beside this one. It takes its files from `WaitingFiles`, with their roots,
   which an offset must hold as well.
2. A branch in `stream_mode` (``spark/read/stream_reader.py``), before the refusal of options that are not for directories.
3. If options have a meaning in this mode alone, a `Use` (``spark/options/declare.py``), in `LISTED`, `ROWS` and `STREAMS` as
   well, or all other options are refused; and its row in `USES` (``tests/spark/options/test_applies.py``).
4. Its row in `_WORDS` (``checkpoint.py``), for ``arrowipc stream``; in `MODES` of ``tests/faults/stream_simulator.py``; its tests.
5. Its row in the table of paths in ``docs/streaming.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn, Protocol, TypeAlias

from spark_arrow_ipc.errors import StreamOffsetError, cut_repr

if TYPE_CHECKING:  # every planner imports this module for `OnOverwrite`, and few need those: 3 ms of its start
    from spark_arrow_ipc.dataset.listing.data_file import DataFile
    from spark_arrow_ipc.dataset.scan.file_range import FileRange


@dataclass(frozen=True, slots=True)
class Limit:
    """The most that one batch takes. What it takes first it takes whole, however large: no query stands still."""

    max_files: int | None = None  # files; None for any number
    max_bytes: int | None = None  # sum of their sizes; None for any

    def fitting(self, sizes: Iterable[int]) -> int:
        """Return how many of the first files fit, of their sizes in bytes; at least 1 if there is any."""
        files = nbytes = 0
        for size in sizes:
            nbytes += size
            if files and not self.allows(files + 1, nbytes):
                break
            files += 1
        return files

    def allows(self, files: int, nbytes: int) -> bool:
        """Return whether so many files of so many bytes are within the limit."""
        return (self.max_files is None or files <= self.max_files) and (
            self.max_bytes is None or nbytes <= self.max_bytes
        )


ALL_AVAILABLE = Limit()
"""All that is there (``Trigger.Once``): a mode must obey it, whatever the options say."""


class Backlog(NamedTuple):
    """The files that are known to wait after the newest offset; for people, and so that it is read without a pause."""

    # files (of a growing file, record batches) that the next call of `latest` can give, and their bytes
    files: int = 0
    nbytes: int = 0
    oldest_ns: int | None = None  # when the oldest of them was modified, or committed; None where nothing says it
    # files that this process has named in a warning: those that cannot be read as they are, and those that came too late
    bad: int = 0
    late: int = 0
    incomplete: int = 0  # other files that have no end yet, as the last look found them

    def to_json(self, now_ns: int) -> dict[str, int]:
        """Return the figures by the names that people see."""
        age = {} if self.oldest_ns is None else {"oldestWaitingSeconds": max(0, now_ns - self.oldest_ns) // 10**9}
        sizes = {"waitingFiles": self.files, "waitingBytes": self.nbytes, **age}
        return sizes | {"incompleteFiles": self.incomplete, "lateFiles": self.late, "badFiles": self.bad}


class Change(NamedTuple):
    """The change that the rows of a file are: the values of `CHANGE_COLUMNS`."""

    kind: str
    commit: int


INSERT: Final = "insert"
DELETE: Final = "delete"

CHANGE_COLUMNS: Final = ("_change_type", "_commit")
"""The columns that rows of changes have beside those of the data."""


@dataclass(frozen=True, slots=True)
class StreamBatch:
    """The files of one batch: whole files, or parts of files that the mode has cut itself."""

    # Files that are read whole, with the state in which the mode saw them: path, size, modification time and version. Their
    # partition values are not set: the plan finds them by the paths, as in a batch read, and cuts and packs the files for
    # the tasks.
    files: tuple[DataFile, ...] = ()
    # for each of `files` the directory at or above it below which ``key=value`` directories are columns
    roots: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()  # for each of `files`, where a stream reads changes; else empty
    # Parts of files, for tasks as they are, one task a range; not together with `files`. For modes in which a file is
    # more than one batch.
    ranges: tuple[FileRange, ...] = ()
    ranges_nbytes: int = 0  # bytes of all of them

    @property
    def nbytes(self) -> int:
        """Bytes of all files, or of all parts."""
        return sum(file.nbytes for file in self.files) + self.ranges_nbytes


class StreamMode(Protocol):
    """One way to follow a source; see the module's docstring for the order of calls.

    Every call may raise `OSError` if the storage fails, which is tried again, and an `ArrowIpcError`, which ends the
    query. Offsets that are passed in are those that this mode made, in this process or long ago, and are checked all
    the same (`OffsetValues`): what is wrong with one is a `StreamOffsetError`.
    """

    @property
    def name(self) -> str:
        """The ``mode`` of its offsets."""

    def initial(self) -> Offset:
        """Return the offset before the first batch. The same for all calls in one process."""

    def latest(self, start: Offset, limit: Limit) -> Offset:
        """Return the offset after the next batch of at most `limit`; `start` itself if there is nothing new.

        `start` is the offset after the batch before; any other that is returned differs from it. Once it is returned,
        or once `latest` has left anything behind that outlives the process, ``batch(start, ...)`` must never change.
        """

    def batch(self, start: Offset, end: Offset) -> StreamBatch:
        """Return the files between two offsets; the same each time, without listing. `start` and `end` may be equal.

        StreamOffsetError if what the offsets name is not known any more.
        """

    def committed(self, end: Offset) -> None:
        """Tidy up after all batches up to an offset, which the sink has. Idempotent; failures are only warnings."""

    def words(self, offset: Offset) -> str:
        """Return for people how far an offset is."""

    def backlog(self) -> Backlog:
        """Return the files known to wait after the newest offset that `latest` returned. Looks at no storage."""

    def only_available_now(self) -> None:
        """From the next look on, see nothing new: ``Trigger.AvailableNow`` ends when `latest` returns its `start`."""


class OnBadFile(StrEnum):
    """The answer of a stream to a file that tasks could not read."""

    FAIL = "fail"
    """Wait for one that is not complete; of others the task raises an error."""
    SKIP = "skip"
    """Pass over it until it changes, with a warning."""
    QUARANTINE = "quarantine"
    """The same, with a note of the file and the reason in the query's log."""


class OnOverwrite(StrEnum):
    """The answer of a stream to a log entry that removed rows of earlier ones."""

    FAIL = "fail"
    """Raise an error."""
    SKIP = "skip"
    """Go on after it: neither what it removed nor what it added."""
    APPEND = "append"
    """Read what it added as new rows."""


VERSION: Final = 1
"""Of the form of all offsets. A change that older releases cannot read adds one."""

MAX_OFFSET_CHARS: Final = 1 << 20
"""Most characters of a string of an offset: Spark keeps a hundred offsets, and writes one for each batch."""

_MOST: Final = (1 << 63) - 1

TABLE: Final = "table"
"""The mode that reads a table by its log."""

_COMMON: Final = ("v", "mode")

Offset: TypeAlias = Mapping[str, "str | int"]
"""An offset as JSON: strings and integers by name."""


def make_offset(mode: str, **values: str | int) -> dict[str, str | int]:
    """Return the offset of a mode with the mode's own values."""
    return {"v": VERSION, "mode": mode, **values}


def mode_of_offset(offset: object) -> str:
    """Return the mode that made an offset."""
    if not isinstance(offset, Mapping):
        raise StreamOffsetError(expected="a JSON object as the offset of a stream", found=cut_repr(offset))
    version, mode = offset.get("v"), offset.get("mode")
    if type(version) is not int or not isinstance(mode, str):
        raise StreamOffsetError(
            expected="an offset of this source, with v and mode",
            found=f"{cut_repr(dict(offset))}. Was the checkpoint made by another source",
        )
    if version != VERSION:
        raise StreamOffsetError(
            expected=f"an offset of version {VERSION}",
            found=f"version {version}: a later release made this checkpoint. Install that release, or give a new checkpoint",
        )
    return mode


def refuse_change(option: str, before: str, now: str, why: str, *, path: str | None = None) -> NoReturn:
    """Refuse another value of an option than the query had before its restart."""
    raise StreamOffsetError(
        f"this query began with {option}={cut_repr(before)}, and now has {option}={cut_repr(now)}: {why}; give the old value "
        "again, or the new one with a new checkpoint (and a new sourceLog, if there is one)",
        path=path,
    )


def _another_mode(made_by: str, mode: str) -> str:
    """Return what it means that a checkpoint is of another mode than its query has now."""
    # Only a table is followed by what is in the directory; the options choose between the other modes.
    if mode == TABLE:
        return (
            f"this query began in the mode {cut_repr(made_by)}, and its source is a table by now: a job of this package has "
            "committed there. A table is read by its log, so that rows that jobs rewrite are not read twice; begin with a new "
            "checkpoint, with startingFrom=latest if the sink has all rows that are there"
        )
    if made_by == TABLE:
        return (
            "this query has read a table by its log, and the directory has no log any more: it was deleted or replaced; put "
            "the table back, or begin with a new checkpoint"
        )
    return (
        f"the checkpoint of this query was made in the mode {cut_repr(made_by)}, and its options now ask for the mode {mode!r}; "
        "give the options of its first start again, or a new checkpoint"
    )


class OffsetValues:
    """The checked values of an offset, nothing of which is trusted; `optional` are names that earlier releases lack."""

    def __init__(self, offset: object, mode: str, names: tuple[str, ...], optional: tuple[str, ...] = ()) -> None:
        made_by = mode_of_offset(offset)
        assert isinstance(offset, Mapping)
        if made_by != mode:
            raise StreamOffsetError(_another_mode(made_by, mode))
        if set(offset).difference(optional) != {*_COMMON, *names}:
            raise StreamOffsetError(
                expected=f"an offset with {', '.join([*_COMMON, *names])}",
                found=f"the names {cut_repr(sorted(map(str, offset)))}",
            )
        self._offset = offset

    def optional_string(self, name: str, *, max_chars: int) -> str | None:
        """Return a string of at most `max_chars`; None if an earlier release made the offset without it."""
        return self.string(name, max_chars=max_chars) if name in self._offset else None

    def integer(self, name: str, *, least: int = 0, most: int = _MOST) -> int:
        """Return an integer of `least` to `most`."""
        value = self._offset[name]
        if type(value) is not int or not least <= value <= most:
            raise StreamOffsetError(
                expected=f"an integer of {least:,} to {most:,} for {name} of an offset", found=cut_repr(value)
            )
        return value

    def string(self, name: str, *, max_chars: int = MAX_OFFSET_CHARS) -> str:
        """Return a string of at most `max_chars`."""
        value = self._offset[name]
        if not isinstance(value, str) or len(value) > max_chars:
            raise StreamOffsetError(
                expected=f"a string of at most {max_chars:,} characters for {name} of an offset", found=cut_repr(value)
            )
        return value
