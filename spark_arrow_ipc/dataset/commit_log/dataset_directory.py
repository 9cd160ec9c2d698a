"""The names in a dataset: its records and staging directories, and the files that a record adds and removes, with a tally.

Names in a record are relative and visible, so that none leads out of the dataset.

The chain remembers the files of its newest records alone. Whether a copy of a directory has all files of one state, and no
others, is told by a `Tally`: a sum over the paths and sizes of all files whose names our writers made. The sum follows from
that of the record before, so that no job lists anything for it. Files of other programs come and go without a record, and
do not count.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from typing import Final, NamedTuple, Protocol

from spark_arrow_ipc.errors import CommitError, NoFilesError, cut_repr
from spark_arrow_ipc.storage.paths import SEPARATOR, TEMPORARY_SUFFIX, join, name_of, parent, relative
from spark_arrow_ipc.storage.storage import Kind, Status, Storage

STAGING_DIRECTORY: Final = "_ipc_stage"
"""Directory inside a dataset where a write keeps its files until it commits."""

COMMITS_DIRECTORY: Final = "_ipc_commits"
"""Directory inside a dataset that holds the newest records."""

COPY_MARK: Final = "copy"
"""Name of the file beside the records of a copy that is not whole yet."""

_ENTRY: Final = re.compile(r"([0-9]{20})\.(?:(json|done|claim)|(help)-[0-9a-f]{32})")

MAX_SEQUENCE_NUMBER: Final = (1 << 63) - 1
"""Names with larger numbers are foreign; no chain of commits gets there."""


@dataclass(frozen=True, slots=True)
class DatasetDirectory:
    """The directory of one dataset."""

    storage: Storage  # kept as one `Storage.inside` the directory, so that no call leads out of it
    root: str  # absolute path in the storage

    def __post_init__(self) -> None:
        object.__setattr__(self, "storage", self.storage.inside(self.root))

    @classmethod
    def at(cls, path: str | os.PathLike[str], storage: Storage) -> DatasetDirectory:
        """Return the dataset of a directory; `NoFilesError` if that is not there."""
        root = storage.resolve(path)
        status = storage.status(root)
        if status is None or status.kind is not Kind.DIRECTORY:
            found = "nothing" if status is None else "something else"
            raise NoFilesError(expected="the directory of a dataset", found=found, path=root)
        return cls(storage, root)

    def check(self) -> None:
        """Raise a `CommitError` if the directory of the records, or of the staged files, is a link or a file."""
        # A link could lead out of the dataset, where nothing may be written or removed.
        for status in self.not_directories((self.commits, self.all_staging)):
            what = "a link" if status.is_link else "a file, a pipe or a device"
            raise CommitError(
                f"expected a directory, found {what}: nothing is read, written or removed through it; remove it",
                path=status.path,
            )

    def not_directories(self, paths: Iterable[str]) -> Iterator[Status]:
        """Yield what stands in the place of directories; nothing can where these are prefixes."""
        if self.storage.traits.directories:
            for path in paths:
                status = self.storage.status(path, follow_links=False)
                if status is not None and status.kind is not Kind.DIRECTORY:
                    yield status

    def may_be_there(self, path: str) -> bool:
        """Return whether a directory is there; always where directories are prefixes, which nobody makes or deletes."""
        return not self.storage.traits.directories or self.storage.status(path) is not None

    def path(self, relative: str) -> str:
        """Return an absolute path; an empty string stands for the dataset itself."""
        return join(self.root, relative)

    @property
    def commits(self) -> str:
        """The directory of the records."""
        return join(self.root, COMMITS_DIRECTORY)

    def record(self, seq: int) -> str:
        """Return the path of the record with a sequence number."""
        return join(self.root, COMMITS_DIRECTORY, f"{seq:020d}.json")

    def done_mark(self, seq: int) -> str:
        """Return the path of the file that marks a record as applied; it is a copy of it."""
        return join(self.root, COMMITS_DIRECTORY, f"{seq:020d}.done")

    def claim(self, seq: int) -> str:
        """Return the path of the file that decides whether a record's old files are removed, or the record taken back."""
        return join(self.root, COMMITS_DIRECTORY, f"{seq:020d}.claim")

    def help_mark(self, seq: int, uid: str) -> str:
        """Return the path of the empty file that marks a process as a helper with a record; `uid` is of the process."""
        return join(self.root, COMMITS_DIRECTORY, f"{seq:020d}.help-{uid}")

    @property
    def copy_mark(self) -> str:
        """Return the path of the file that says that a copy into this directory is not whole yet."""
        return join(self.root, COMMITS_DIRECTORY, COPY_MARK)

    @property
    def all_staging(self) -> str:
        """The directory that holds the staging directories of all jobs."""
        return join(self.root, STAGING_DIRECTORY)

    def staging(self, jobid: str) -> str:
        """Return a job's staging directory."""
        return join(self.root, STAGING_DIRECTORY, jobid)

    def room(self, jobid: str) -> str:
        """Return the directory of the files by which a job keeps room on a disk."""
        return join(self.root, STAGING_DIRECTORY, f"{jobid}.room")


class NameKind(StrEnum):
    """The kind of a name in the directory of the records, by its suffix."""

    RECORD = "json"
    DONE = "done"
    CLAIM = "claim"
    HELP = "help"


def parse_name(name: str) -> tuple[int, NameKind] | None:
    """Parse the name of a record, a mark or a claim; None for other names."""
    match = _ENTRY.fullmatch(name)
    if match is None or int(match[1]) > MAX_SEQUENCE_NUMBER:
        return None
    return int(match[1]), NameKind(match[2] or match[3])


def sequence_number(name: str) -> int | None:
    """Parse the number of a record, a mark or a claim; None for other names."""
    parsed = parse_name(name)
    return None if parsed is None else parsed[0]


def entries_of(storage: Storage, directory: str) -> list[Status]:
    """Return what is in a directory, in no order; nothing if it is not there."""
    try:
        return list(storage.list(directory))
    except FileNotFoundError:
        return []


def has_any(storage: Storage, directory: str) -> bool:
    """Return whether anything is in a directory, which need not be there."""
    with suppress(FileNotFoundError):
        return any(True for _ in storage.list(directory))
    return False


STAGED_SUFFIX: Final = TEMPORARY_SUFFIX
"""Suffix of staged files: recursive patterns of other readers match files in ``_`` directories."""

_PART: Final = r"(?:[^/\0._][^/\0]*|_[^/\0]*=[^/\0]*)"
_RELATIVE: Final = re.compile(f"(?:{_PART}/)*{_PART}")
"""A path inside the dataset that readers see, by Spark's rule of hidden names."""

_STAGED: Final = re.compile(rf"[^/\0._][^/\0]*{re.escape(STAGED_SUFFIX)}")
_OWN_NAME: Final = re.compile(r"(?:.*/)?part-[0-9]{5,}-[0-9a-f]{32}\.arrows?", re.DOTALL)
"""The names that our writers make, each for one file."""

_DIGEST_NBYTES: Final = 8


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A finished file that waits for the commit."""

    staged: str  # name in the staging directory
    final: str  # path inside the dataset's directory once it is published
    nbytes: int
    rows: int
    crc32: int  # of its last bytes (`tail_crc32`)

    def __reduce__(self) -> tuple[type[StagedFile], tuple[str, str, int, int, int]]:
        # A driver collects one per task.
        return StagedFile, (self.staged, self.final, self.nbytes, self.rows, self.crc32)


def has_own_name(path: str) -> bool:
    """Return whether a writer of this package made the name of a file: no other file ever has it."""
    return _OWN_NAME.fullmatch(path) is not None


def own_names_below(directory: str) -> re.Pattern[str]:
    """Return the pattern of the paths below a directory whose names our writers made."""
    return re.compile(re.escape(directory.rstrip(SEPARATOR) + SEPARATOR) + _OWN_NAME.pattern, re.DOTALL)


class _FileState(Protocol):
    """A file's size, time and version, as a listing or a status has them."""

    @property
    def nbytes(self) -> int: ...
    @property
    def mtime_ns(self) -> int: ...
    @property
    def version(self) -> str: ...


@dataclass(frozen=True, slots=True)
class RemovedFile:
    """A file that a record removes, as it was when the job was planned.

    Another program may write a file of the same name before the record is applied: that one stays. The names that our
    writers make are unique, so there the size is enough: whoever copies a directory or touches its files changes their
    times and versions, and they are the same files.
    """

    path: str  # relative to the dataset's directory
    # Size, and time of the last modification in nanoseconds since 1970. None: any file of that name, which is unique.
    nbytes: int | None = None
    mtime_ns: int | None = None
    # Text that differs whenever the bytes do. Where there is one it decides, as the times of object stores are of whole
    # seconds in some answers and finer in others.
    version: str = ""

    def is_same(self, file: _FileState) -> bool:
        """Return whether a file of that name is the one to remove."""
        if self.nbytes is None:
            return True
        if has_own_name(self.path):
            return self.nbytes == file.nbytes
        if self.version:
            return (self.nbytes, self.version) == (file.nbytes, file.version)
        return (self.nbytes, self.mtime_ns) == (file.nbytes, file.mtime_ns)


class Tally(NamedTuple):
    """A sum over files."""

    files: int
    nbytes: int
    # The checksums of their paths and sizes, added without carry: the order does not matter, and a file that is added
    # and taken away leaves nothing.
    digest: int

    def changed(self, files: Iterable[tuple[str, int]], sign: int = 1) -> Tally:
        """Return the tally with files more, given by paths and sizes, or with `sign` -1 less; names of others do not count."""
        number, total, digest = self
        for path, nbytes in files:
            if has_own_name(path):
                number += sign
                total += sign * nbytes
                text = f"{nbytes} {path}".encode(errors="surrogateescape")
                digest ^= int.from_bytes(blake2b(text, digest_size=_DIGEST_NBYTES).digest())
        return Tally(number, total, digest)

    @property
    def is_sound(self) -> bool:
        """True if there can be files with this tally."""
        return all(type(number) is int and number >= 0 for number in self) and self.digest < 1 << 8 * _DIGEST_NBYTES


NO_FILES: Final = Tally(0, 0, 0)


def tally_after(
    before: Tally | None, adds: Iterable[StagedFile | RemovedFile], removes: Iterable[StagedFile | RemovedFile]
) -> Tally | None:
    """Return the tally after a change; None if the one before is not known, or cannot have been that."""
    if before is None:
        return None
    after = before.changed(map(_path_and_size, removes), -1).changed(map(_path_and_size, adds))
    return after if after.is_sound else None


def _path_and_size(file: StagedFile | RemovedFile) -> tuple[str, int]:
    return (file.final, file.nbytes) if isinstance(file, StagedFile) else (file.path, file.nbytes or 0)


def check_names(adds: Iterable[StagedFile], removes: Iterable[RemovedFile] = ()) -> None:
    """Raise a `CommitError` if a path leads out of its directory, or is hidden from readers."""
    for file in adds:
        if not _STAGED.fullmatch(file.staged):
            raise CommitError(f"the name {cut_repr(file.staged, 300)} is not that of a staged file")
        if not _RELATIVE.fullmatch(file.final):
            raise CommitError(f"the name {cut_repr(file.final, 300)} is not a relative path that readers see")
    for removed in removes:
        if not _RELATIVE.fullmatch(removed.path):
            raise CommitError(f"the name {cut_repr(removed.path, 300)} is not a relative path that readers see")


REPLACED_DIRECTORY: Final = "_ipc_replaced"
"""Directory inside a dataset that holds replaced files for running reads."""

_NAME: Final = re.compile(r"([0-9]{20})-[0-9a-f]{32}")


def all_replaced(dataset: DatasetDirectory) -> str:
    """Return the directory of the replaced files of all jobs."""
    return dataset.path(REPLACED_DIRECTORY)


def kept_directory(dataset: DatasetDirectory, kept_until: int, jobid: str) -> str:
    """Return the directory of the files that a job has replaced; `kept_until` in seconds since 1970."""
    return join(all_replaced(dataset), f"{kept_until:020d}-{jobid}")


def kept_path(directory: str, path: str, version: str = "") -> str:
    """Return the path of a replaced file in the `kept_directory`, by its path in the dataset and its `kept_version`."""
    text = f"{path}\n{version}" if version else path
    digest = hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()
    return join(directory, f"{digest[:32]}{TEMPORARY_SUFFIX}")


def kept_version(path: str, version: str) -> str:
    """Return the part of a file's version that its kept name has: none where the name is of one file for ever."""
    # A kept copy has a version of its own, which does not tell the one that was planned: that one is part of its name.
    return "" if has_own_name(path) else version


def kept_places(storage: Storage, path: str, version: str = "") -> Iterator[str]:
    """Yield the places where a file may live on that is gone from its path: the newest job first.

    One listing, of the dataset that holds the file: the directory above those of partitions. Others may write elsewhere.
    """
    dataset = parent(path)
    while "=" in name_of(dataset) and dataset != parent(dataset):
        dataset = parent(dataset)
    directory = join(dataset, REPLACED_DIRECTORY)
    with suppress(OSError):
        names = [name_of(status.path) for status in storage.list(directory) if not status.is_link]
        for name in sorted(filter(_NAME.fullmatch, names), reverse=True):
            yield kept_path(join(directory, name), relative(path, dataset), kept_version(path, version))


def expired(dataset: DatasetDirectory, now: float) -> list[str]:
    """Return the directories whose files need not be kept any more; `now` in seconds since 1970."""
    paths = sorted(status.path for status in entries_of(dataset.storage, all_replaced(dataset)))
    matches = [(path, _NAME.fullmatch(name_of(path))) for path in paths]
    return [path for path, match in matches if match is not None and int(match[1]) <= now]
