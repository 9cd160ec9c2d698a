"""`DatasetDirectory`: paths of a dataset's records and staging directories."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from spark_arrow_ipc.errors import CommitError, NoFilesError
from spark_arrow_ipc.storage.paths import join
from spark_arrow_ipc.storage.storage import Kind, Status, Storage

STAGING_DIRECTORY: Final = "_ipc_stage"
"""Directory inside a dataset where a write keeps its files until it commits."""

COMMITS_DIRECTORY: Final = "_ipc_commits"
"""Directory inside a dataset that holds the newest records."""

COPY_MARK: Final = "copy"
"""Name of the file beside the records of a copy that is not whole yet."""

_NAME: Final = re.compile(r"([0-9]{20})\.(?:(json|done|claim)|(help)-[0-9a-f]{32})")

MAX_SEQUENCE_NUMBER: Final = (1 << 63) - 1
"""Names with larger numbers are foreign; no chain of commits gets there."""


@dataclass(frozen=True, slots=True)
class DatasetDirectory:
    """The directory of one dataset.

    Parameters
    ----------
    storage
        The storage that holds it; kept as one `Storage.inside` the directory, so that no call leads out of it.
    root
        Its absolute path in the storage.
    """

    storage: Storage
    root: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "storage", self.storage.inside(self.root))

    @classmethod
    def at(cls, path: str | os.PathLike[str], storage: Storage) -> DatasetDirectory:
        """Return the dataset of a directory; `NoFilesError` if that is not there."""
        root = storage.resolve(path)
        status = storage.status(root)
        if status is None or status.kind is not Kind.DIRECTORY:
            found = "nothing" if status is None else "something else"
            raise NoFilesError(expected="the directory of a data set", found=found, path=root)
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
    match = _NAME.fullmatch(name)
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
