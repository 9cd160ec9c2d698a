"""The names in the directory of a table.

=====================================  ==============================================================================
``_ipc_log/table``                     the table's id
``_ipc_log/<id>/<20 digits>.json``     log entries
``_ipc_log/<id>/<20 digits>.checkpoint``  checkpoints: the state after the entry of that number
``_ipc_stage/<job id>/``               files of a job that has not committed, with the mark ``.begin``
``_ipc_replaced/<number>/<path>``      files that the entry of that number removed and that are retained
``.../part-<task>-<table id>-<job id>[-<n>].arrow``  managed data files
=====================================  ==============================================================================

Rules
-----
**A name is used once.** A job id is random and a job never makes two files of one name, so a removed file never comes
back under its name, and whoever finds a removed file may delete it, at any time and twice.

**The id is in the names.** A file with another id, or a name of another form, is unmanaged: a copy from another table, or
a file of another program. A directory that was removed and made anew has another id and so another directory of
entries: no late request of an old process reaches it.

**Names from a log are relative and visible.** No entry can name a file outside the directory, or one that readers skip.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

from spark_arrow_ipc.errors import CommitError, NoFilesError
from spark_arrow_ipc.storage import failpoint
from spark_arrow_ipc.storage.paths import TEMPORARY_SUFFIX, join, name_of
from spark_arrow_ipc.storage.storage import Kind, Status, Storage

LOG_DIRECTORY: Final = "_ipc_log"
STAGING_DIRECTORY: Final = "_ipc_stage"
REPLACED_DIRECTORY: Final = "_ipc_replaced"

STAGED_SUFFIX: Final = TEMPORARY_SUFFIX
"""Recursive patterns of other readers match ``.arrow`` files in directories that begin with ``_``."""

_ATTEMPTS: Final = 3
"""Requests for a mark that fail."""

MAX_NUMBER: Final = (1 << 63) - 1
"""Entry numbers are 64-bit integers in checkpoints."""

NUMBER: Final = re.compile(r"[0-9]{20}")
"""A number in a name: names sort as the numbers do."""

_NUMBERED_NAMES: Final = re.compile(rf"\0({NUMBER.pattern})\.(json|checkpoint)(?=\0)")
_NUMBERED: Final = re.compile(rf"({NUMBER.pattern})\.(json|checkpoint)")
_TABLE_ID: Final = re.compile(r"[0-9a-f]{8}")
_JOB_ID: Final = re.compile(r"[0-9a-f]{32}")
_MANAGED: Final = re.compile(r"(?:.*/)?part-[0-9]{5,}-([0-9a-f]{8})-([0-9a-f]{32})(?:-[0-9]+)?\.arrows?", re.DOTALL)

_PART: Final = r"(?:[^/\0._][^/\0]*|_[^/\0]*=[^/\0]*)"
_RELATIVE: Final = re.compile(f"(?:{_PART}/)*{_PART}")
"""A path that readers see, by Spark's rule of hidden names."""

_NOT_VISIBLE: Final = re.compile(r"[\0/](?:[\0/.]|_[^/\0=]*[/\0])")
"""The begin of a part that `_PART` does not match, among paths with a zero before and after each."""


class ManagedName(NamedTuple):
    """The ids in the name of a managed file."""

    table: str
    job: str


def managed_name(path: str) -> ManagedName | None:
    """Return the ids in the name of a data file; None for names of another form."""
    match = _MANAGED.fullmatch(path)
    return None if match is None else ManagedName(match[1], match[2])


def data_file_name(task: int, table: str, job: str, number: int = 0, suffix: str = ".arrow") -> str:
    """Return the name of a job's data file; `number` counts the files of one task in one directory."""
    # The task comes first, so that a sorted listing has the order of a range partitioning.
    return f"part-{task:05d}-{table}-{job}{f'-{number}' if number else ''}{suffix}"


def suffix_like(path: str) -> str:
    """Return the suffix of a data file that is a copy of another file."""
    return ".arrows" if path.endswith((".arrows", ".stream")) else ".arrow"


def is_table_id(text: object) -> bool:
    """Return whether a value has the form of a table's id."""
    return isinstance(text, str) and _TABLE_ID.fullmatch(text) is not None


def is_job_id(text: object) -> bool:
    """Return whether a value has the form of the id of a job or of an entry."""
    return isinstance(text, str) and _JOB_ID.fullmatch(text) is not None


def is_visible(path: object) -> bool:
    """Return whether a value is a relative path that stays inside the table and that readers do not skip."""
    return isinstance(path, str) and _RELATIVE.fullmatch(path) is not None


def are_visible(paths: Sequence[str]) -> bool:
    """Return whether `is_visible` is True for all values of a sequence."""
    try:
        text = "\0".join(("", *paths, ""))
    except TypeError:  # one is not a string
        return False
    return not paths or (text.count("\0") == len(paths) + 1 and _NOT_VISIBLE.search(text) is None)


def is_text(path: str) -> bool:
    """Return whether UTF-8 can hold a path, as checkpoints do: names of a disk may be any bytes."""
    try:
        path.encode()
    except UnicodeEncodeError:  # bytes that are not UTF-8 are lone surrogates
        return False
    return True


def new_table_id() -> str:
    """Return a random id for a table."""
    # It tells the tables that were at one path apart, and is in every name: 32 bits are enough and short.
    return uuid.uuid4().hex[:8]


def new_id() -> str:
    """Return a random id for a job or an entry."""
    return uuid.uuid4().hex


def parse_number(name: str) -> tuple[int, str] | None:
    """Return the number and the suffix in the name of an entry or a checkpoint; None for other names."""
    match = _NUMBERED.fullmatch(name)
    # 20 digits hold more than 64 bits: such a name is of no entry.
    if match is None or not 0 < int(match[1]) <= MAX_NUMBER:
        return None
    return int(match[1]), match[2]


def parse_numbers(names: Iterable[str]) -> tuple[set[int], set[int]]:
    """Return the numbers of the entries and of the checkpoints among names, as `parse_number` does for one."""
    # One search: a match for each of 20,000 names takes five times as long.
    parsed = [(int(digits), suffix) for digits, suffix in _NUMBERED_NAMES.findall("\0".join(("", *names, "")))]
    entries, checkpoints = (
        {number for number, other in parsed if other == suffix and 0 < number <= MAX_NUMBER}
        for suffix in ("json", "checkpoint")
    )
    return entries, checkpoints


@dataclass(frozen=True, slots=True)
class TableDirectory:
    """The directory of a table: a storage and an absolute path in it.

    The storage is limited to the directory (`Storage.inside`): no call follows a link out of it.
    """

    storage: Storage
    root: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "storage", self.storage.inside(self.root))

    @classmethod
    def at(cls, path: str | os.PathLike[str], storage: Storage) -> TableDirectory:
        """Return the table of a directory; `NoFilesError` if there is no directory."""
        root = storage.resolve(path)
        status = storage.status(root)
        if status is None or status.kind is not Kind.DIRECTORY:
            raise NoFilesError(
                expected="the directory of a table", found="nothing" if status is None else "something else", path=root
            )
        return cls(storage, root)

    def check(self) -> None:
        """Raise a `CommitError` if the directory of the log, of staged or of retained files is a link or a file."""
        # A link could lead out of the table, where nothing may be written or deleted.
        for status in self.not_directories((self.log, self.all_staging, self.path(REPLACED_DIRECTORY))):
            raise CommitError(
                f"expected a directory, found {'a link' if status.is_link else 'a file, a pipe or a device'}: nothing is "
                "read, written or deleted through it; remove it",
                path=status.path,
            )

    def not_directories(self, paths: Iterable[str]) -> Iterator[Status]:
        """Yield what has the path of a directory and is none; nothing can where directories are prefixes of names."""
        if self.storage.traits.directories:
            for path in paths:
                status = self.storage.status(path, follow_links=False)
                if status is not None and status.kind is not Kind.DIRECTORY:
                    yield status

    def path(self, relative: str) -> str:
        """Return the absolute path of a relative one; the table's own for an empty one."""
        return join(self.root, relative) if relative else self.root

    @property
    def log(self) -> str:
        """The directory with the table's id and its entries."""
        return join(self.root, LOG_DIRECTORY)

    @property
    def id_file(self) -> str:
        """The file with the table's id."""
        return join(self.log, "table")

    def entries(self, table: str) -> str:
        """Return the directory of a table's entries and checkpoints."""
        return join(self.log, table)

    def entry(self, table: str, number: int) -> str:
        """Return the path of an entry."""
        return join(self.entries(table), f"{number:020d}.json")

    def checkpoint(self, table: str, number: int) -> str:
        """Return the path of a checkpoint."""
        return join(self.entries(table), f"{number:020d}.checkpoint")

    @property
    def all_staging(self) -> str:
        """The directory that holds the staging directories of all jobs."""
        return join(self.root, STAGING_DIRECTORY)

    def staging(self, job: str) -> str:
        """Return the staging directory of a job."""
        return join(self.all_staging, job)

    def mark(self, job: str) -> str:
        """Return the path of the mark that shows that a job may still make files."""
        # Hidden and without the suffix of staged files, so that nobody takes it for one.
        return join(self.staging(job), ".begin")

    def put_mark(self, job: str) -> None:
        """Make the staging directory of a job, and put its mark durably."""
        for _ in range(_ATTEMPTS):
            # A vacuum may have deleted the empty directory above it in between.
            self.storage.make_directory(self.staging(job))
            with suppress(OSError):
                self.storage.put(self.mark(job), b"", durable=True)
            if self.storage.status(self.mark(job)) is not None:
                self.storage.sync(self.all_staging)
                self.storage.sync(self.root)
                failpoint.hit("planned.mark")
                return
        raise CommitError("the mark of the job cannot be put; nothing is written", path=self.mark(job))

    def replaced(self, number: int, path: str) -> str:
        """Return where a file is retained that an entry removed.

        Its ending keeps it out of other readers' recursive patterns; the number keeps two removed files of one name apart.
        """
        return join(self.all_replaced(number), path + STAGED_SUFFIX)

    def list_replaced(self) -> list[int]:
        """Return the numbers of the entries of which removed files are retained, the newest first. One listing."""
        with suppress(FileNotFoundError, NotADirectoryError):
            names = [name_of(status.path) for status in self.storage.list(self.path(REPLACED_DIRECTORY))]
            return sorted((int(name) for name in names if NUMBER.fullmatch(name)), reverse=True)
        return []

    def all_replaced(self, number: int) -> str:
        """Return the directory of the files that an entry removed and that are retained."""
        return join(self.root, REPLACED_DIRECTORY, f"{number:020d}")
