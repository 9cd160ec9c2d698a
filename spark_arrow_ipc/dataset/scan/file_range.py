"""`FileRange`: the part of a file that one task reads.

A range names its file by path, size, modification time and version, so that a task notices a file that changed since
planning.
A range of a stream also names the dictionary batches in force at its first record batch, which the task replays.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, Protocol

from spark_arrow_ipc.ipc.stream_index import StreamStart


class Origin(Protocol):
    """Where rows are from: a range of a file, or what is no file and has no size and no time."""

    @property
    def path(self) -> str:
        """For people."""

    @property
    def nbytes(self) -> int | None:
        """Size of the whole file."""

    @property
    def mtime_ns(self) -> int | None:
        """Modification time of the whole file."""


class FileRange(NamedTuple):
    """The record batches `start` to `stop` (exclusive) of a file; all by default.

    A named tuple, because a plan makes 100,000 of them: it takes a third of the time of a frozen dataclass.

    Parameters
    ----------
    path
        Absolute.
    nbytes, mtime_ns
        Size and modification time of the whole file at planning.
    start, stop
        Record batch numbers; None for a whole file that was not cut at planning.
    partition
        Values of the hive partition columns.
    staged
        Path of a published file before it is renamed to `path`; None for all others.
    stream_start
        Position in a stream at which the range starts; None for a file, and for a whole stream.
    rows
        Start and stop of the rows, in a range of one record batch; None for all rows.
    version
        Text that differs whenever the bytes of the file do (`Status.version`); empty where a storage has no such thing.
    grows
        True if the file is appended to: it may be longer than `nbytes`, and newer. None for all others.
    """

    path: str
    nbytes: int
    mtime_ns: int
    start: int | None = None
    stop: int | None = None
    partition: tuple[object, ...] = ()
    staged: str | None = None
    stream_start: StreamStart | None = None
    rows: tuple[int, int] | None = None
    version: str = ""
    grows: Literal[True] | None = None

    def __reduce__(self) -> tuple[type[FileRange], tuple[object, ...]]:
        # Without the defaults at its end: a driver holds and sends one for every file.
        end = len(self)
        while end > _REQUIRED and self[end - 1] in _DEFAULTS:
            end -= 1
        return FileRange, self[:end]


_DEFAULTS: Final = frozenset({None, (), ""})

_REQUIRED: Final = 3
"""Fields of a `FileRange` that have no default."""
