"""`BadFiles`: the files that a stream passes over because tasks could not read them, each named once, with the reason.

A file is judged before it is part of a batch, by what its footer and its headers say, and one that is bad is left out. So
nothing has to be said of it in an offset: a batch that is run again has the files that it had. The judgement is about the
file as it is: one that is mended later is looked at again, as any that has changed, and is in a batch then, once.

What only reading its values shows (a damaged body) is not known here; the task that reads the file raises it.

With notes, each bad file is a small JSON file in a directory of the query's own, made anew when the file has changed and
is still bad. Nothing is moved: a directory that others write to stays theirs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, TypeAlias

from spark_arrow_ipc.bounded_json import parse_json
from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.errors import (
    InvalidArrowError,
    LimitError,
    SchemaMismatchError,
    StreamOffsetError,
    UnsupportedError,
    cut_repr,
)
from spark_arrow_ipc.storage.paths import join, name_of
from spark_arrow_ipc.storage.storage import Storage

Check: TypeAlias = Callable[[DataFile, str], None]
"""Raises if tasks could not read a file, given its root; an `OSError` says nothing of the file."""

_BAD: Final = (InvalidArrowError, UnsupportedError, LimitError, SchemaMismatchError)

_VERSION: Final = 1
_MOST_CHARS: Final = 2_000
"""Of a reason."""

_MOST_NBYTES: Final = 64 << 10
_NAMES: Final = {"v", "path", "bytes", "time", "reason"}


@dataclass(frozen=True, slots=True)
class BadFile:
    """A note of a bad file."""

    path: str
    nbytes: int
    mtime_ns: int
    reason: str


@dataclass(frozen=True, slots=True)
class BadFileNotes:
    """A directory of notes, in a storage that follows no link to it."""

    storage: Storage
    directory: str

    def write(self, bad: BadFile) -> None:
        """Note a file, in place of what was noted of it before."""
        value = {"v": _VERSION, "path": bad.path, "bytes": bad.nbytes, "time": bad.mtime_ns, "reason": bad.reason}
        digest = blake2b(bad.path.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
        self.storage.make_directory(self.directory)
        # ASCII keeps the halves of character pairs that names of local files may hold.
        self.storage.put(join(self.directory, f"{digest}.json"), json.dumps(value).encode())

    def read(self) -> Iterator[BadFile]:
        """Yield what is noted, in the order of the names of notes."""
        if self.storage.status(self.directory) is None:
            return
        for path in sorted(status.path for status in self.storage.list(self.directory)):
            if name_of(path).endswith(".json"):
                yield _parse(self.storage.read(path, _MOST_NBYTES), path)


def _parse(data: bytes, path: str) -> BadFile:
    try:
        value = parse_json(data)
    except ValueError as error:
        raise StreamOffsetError(expected="a note of a bad file", found=str(error), path=path) from error
    types = {"v": int, "path": str, "bytes": int, "time": int, "reason": str}
    if (
        not isinstance(value, dict)
        or set(value) != _NAMES
        or any(type(value[name]) is not types[name] for name in _NAMES)
        or value["v"] != _VERSION
    ):
        raise StreamOffsetError(
            expected=f"a note of a bad file, of version {_VERSION}", found=cut_repr(value), path=path
        )
    return BadFile(value["path"], value["bytes"], value["time"], value["reason"])


@dataclass(frozen=True, slots=True)
class BadFiles:
    """Passes over the files that tasks could not read."""

    word: str  # the value of the option onBadFile, for warnings
    check: Check
    notes: BadFileNotes | None = None

    def why(self, file: DataFile, root: str) -> str | None:
        """Return why a file is bad; None if it is not, as far as its headers tell."""
        try:
            self.check(file, root)
        except _BAD as error:
            return str(error)
        return None

    def note(self, file: DataFile, reason: str) -> None:
        """Note a bad file where notes are kept."""
        if self.notes is not None:
            self.notes.write(BadFile(file.path, file.nbytes, file.mtime_ns, reason[:_MOST_CHARS]))
