"""`DataFile`: one file of a table, as listed; open it, order files by age, and filter them.

Executors import this module without the listing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from operator import attrgetter
from typing import Final, NamedTuple, Protocol, TypeVar

from spark_arrow_ipc.dataset.listing.globs import compile_name
from spark_arrow_ipc.dataset.time_zones import epoch_ns, parse_timestamp, zone
from spark_arrow_ipc.errors import OptionError, cut_repr
from spark_arrow_ipc.storage.byte_source import ByteSource
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.storage.paths import above, name_of, relative
from spark_arrow_ipc.storage.storage import Kind, Status, Storage
from spark_arrow_ipc.table.names import TableDirectory, managed_name

_SAMPLED: Final = "sample-"
"""The prefix of a version that is a digest of samples of a file's bytes; versions of storages never begin with it."""

_SAMPLES: Final = 8
_SAMPLE_NBYTES: Final = 4 << 10

SAMPLED_NBYTES: Final = _SAMPLES * _SAMPLE_NBYTES
"""The sample of a file of at most so many bytes is of all of them."""


class Located(Protocol):
    """A file of a plan."""

    @property
    def path(self) -> str:
        """The path at which it was listed."""

    @property
    def nbytes(self) -> int:
        """Size, when it was listed."""

    @property
    def mtime_ns(self) -> int:
        """Time of its last modification, when it was listed."""

    @property
    def version(self) -> str:
        """Text that differs whenever the bytes do, or an empty one."""


class DataFile(NamedTuple):
    """One file of a table, as listed."""

    # A named tuple, because a listing makes 100,000 of them.
    path: str
    nbytes: int
    mtime_ns: int  # time of its last modification, nanoseconds since 1970
    partition: tuple[object, ...] = ()  # values of the hive partition columns; one tuple for all files of a directory
    # text that differs whenever the bytes do (`Status.version`); empty where a storage has no versions
    version: str = ""

    def open(self, storage: Storage = LOCAL) -> ByteSource:
        """Open the file; the caller closes the source."""
        return open_at_current_path(
            self, lambda path: storage.open(path, listed=status_from_listing(self, path, storage)), storage
        )

    def __reduce__(self) -> tuple[type[DataFile], tuple[object, ...]]:
        # Without the defaults at its end, as the plan of an overwrite has all files of a table.
        if self.version:
            return DataFile, self[:]
        return DataFile, self[:4] if self.partition else self[:3]


def sample_version(source: ByteSource, nbytes: int) -> str:
    """Return a version for a file of a storage that has none: a digest of eight parts of 4 KiB, or of all bytes of a small file."""
    digest = blake2b(digest_size=9)
    if nbytes <= SAMPLED_NBYTES:
        digest.update(source.read_up_to(0, nbytes))
    else:
        for i in range(_SAMPLES):
            digest.update(source.read_up_to((nbytes - _SAMPLE_NBYTES) * i // (_SAMPLES - 1), _SAMPLE_NBYTES))
    return _SAMPLED + digest.hexdigest()


def has_sample(file: Located, path: str, storage: Storage) -> bool:
    """Return whether the file at a path has the sampled bytes of the listed one; False if the listing has no sample."""
    if not file.version.startswith(_SAMPLED):
        return False
    with closing(storage.open(path)) as source:
        return sample_version(source, file.nbytes) == file.version


def time_text(mtime_ns: int) -> str:
    """Return a file's time for messages, in UTC, to the nanosecond."""
    seconds, nanoseconds = divmod(mtime_ns, 1_000_000_000)
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}.{nanoseconds:09d}Z"
    except (ValueError, OverflowError, OSError):  # a year outside of Python's calendar
        return f"{mtime_ns:,} ns"


def status_from_listing(file: Located, path: str, storage: Storage) -> Status | None:
    """Return the listed state of a file; None where using it would not save a request, or would hide a change."""
    # A file at another path than the listed one is a copy, with a state of its own.
    if not storage.traits.waits or not file.version or path != file.path:
        return None
    return Status(path, Kind.FILE, file.nbytes, file.mtime_ns, version=file.version)


_Opened = TypeVar("_Opened")


def open_at_current_path(file: Located, open_at: Callable[[str], _Opened], storage: Storage = LOCAL) -> _Opened:
    """Open a file at its path, or where a removed file of a table is retained."""
    try:
        return open_at(file.path)
    except FileNotFoundError:
        for path in retained_paths(storage, file):
            with suppress(FileNotFoundError):
                return open_at(path)
        raise


def retained_paths(storage: Storage, file: Located) -> Iterator[str]:
    """Yield where a removed file of a table may be retained, the newest removal first.

    Costs a look for a table in each directory up to that of the table, a listing, and the log entry of each removal for
    a name that is not managed, which may be of several files.
    """
    # Imported late: most reads find their files.
    from spark_arrow_ipc.table.log import read_table_id

    for root in above(file.path):
        directory, table = TableDirectory(storage, root), None
        with suppress(OSError):  # a directory above may be closed to this user
            table = read_table_id(directory)
        if table is None:
            continue
        path = relative(file.path, root)
        for number in directory.list_replaced():
            if managed_name(path) is not None or _is_removed_by(directory, table, number, path, file):
                yield directory.replaced(number, path)
        return  # others may write into the directories above


def _is_removed_by(directory: TableDirectory, table: str, number: int, path: str, file: Located) -> bool:
    """Return whether a log entry removes a file of another program as it was listed."""
    from spark_arrow_ipc.table.log import read_entry

    try:
        entry = read_entry(directory, table, number)
    except FileNotFoundError:
        return False
    return any(
        (removed.path, removed.nbytes) == (path, file.nbytes)
        and (
            removed.version in (file.version, str(file.mtime_ns))
            or bool(removed.digest and removed.digest == file.version)
        )
        for removed in entry.remove
    )


def newest_first(files: Sequence[DataFile]) -> Iterator[DataFile]:
    """Yield files ordered by modification time, the newest first, then by path."""

    def age(file: DataFile) -> tuple[int, str]:
        return -file.mtime_ns, file.path

    if files:
        # Most callers stop at the first file, which needs no sorting.
        time_ns = max(map(attrgetter("mtime_ns"), files))
        newest = min((file for file in files if file.mtime_ns == time_ns), key=age)
        yield newest
        yield from (file for file in sorted(files, key=age) if file is not newest)


@dataclass(frozen=True, slots=True)
class FileFilter:
    """The options pathGlobFilter, modifiedBefore and modifiedAfter."""

    path_glob_filter: str | None = None  # pattern of the file's name (not of its path or directories), or None
    # the file was modified strictly before or after this; nanoseconds since 1970, or None
    modified_before: int | None = None
    modified_after: int | None = None

    def accepts(self) -> Callable[[DataFile], bool] | None:
        """Return a predicate for the files to read, or None to read all."""
        if self == FileFilter():
            return None
        matches = compile_name("*" if self.path_glob_filter is None else self.path_glob_filter)
        before = float("inf") if self.modified_before is None else self.modified_before
        after = -float("inf") if self.modified_after is None else self.modified_after
        return lambda file: after < file.mtime_ns < before and bool(matches(name_of(file.path)))


def parse_modified(string: str, time_zone: str | None = None) -> int:
    """Parse ``modifiedBefore`` or ``modifiedAfter`` into nanoseconds since 1970; without a zone the string is in UTC."""
    # Not in the session's time zone, which the planner does not know. Spark (4.3.0, measured) also adds the zone's offset to
    # the file's time, so that the two agree only in UTC.
    moment = parse_timestamp(string)
    if moment is None:
        raise OptionError(expected="a timestamp such as 2024-03-09T12:00:00", found=cut_repr(string))
    return epoch_ns(moment if moment.tzinfo else moment.replace(tzinfo=zone(time_zone or "UTC")))
