"""`SourceLog`: the numbered files in which a query notes what each of its batches reads.

``00000000000000000017.json`` has the files of one entry; it is made by put-if-absent, so that two queries that were
given one directory notice each other. ``seen-00000000000000000019.bin`` has the hashes of all files up to an entry; one is
made every ten entries, and with the entries after it says what was read. Spark keeps the offsets of a hundred batches, so
entries that are older than that go.

The directory belongs to one query and one source: each entry has the source's paths. The file ``owner`` has the id that
the offsets of its query have. It is made by put-if-absent when Spark has written an offset of the query down, and never
replaced: a query that died before that begins anew with another id.

The directory ``bad`` has the notes of files that the query passes over (`bad_files`).
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from spark_arrow_ipc.bounded_json import parse_json
from spark_arrow_ipc.dataset.stream.bad_files import BadFileNotes
from spark_arrow_ipc.dataset.stream.mode import StreamBatch, refuse_change
from spark_arrow_ipc.dataset.stream.source_files import (
    Hashes,
    SeenFiles,
    files_from_json,
    files_to_json,
    hashes_of,
    seconds_of,
)
from spark_arrow_ipc.errors import StreamOffsetError, cut_repr
from spark_arrow_ipc.storage.paths import TEMPORARY_SUFFIX, join, name_of
from spark_arrow_ipc.storage.storage import Storage

EARLIEST: Final = -(1 << 62)
"""Before the time of any file."""

MOST_FILES: Final = 10_000
"""Files of one entry; a batch may have several entries."""

BAD_FILES: Final = "bad"
"""The directory in a log that has `BadFileNotes`."""

_VERSION: Final = 1
_COMPACTED: Final = 10
"""Entries after which the hashes of all files are written anew."""

_KEPT: Final = 100
"""Entries that stay: Spark keeps the offsets of as many batches."""

_MOST_OWNER_NBYTES: Final = 64
_MOST_NBYTES: Final = 64 << 20
_MOST_SEEN_NBYTES: Final = 1 << 31
_ENTRY: Final = re.compile(r"([0-9]{20})\.json", re.ASCII)
_SEEN: Final = re.compile(r"seen-([0-9]{20})\.bin", re.ASCII)


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry that a log makes before an offset is returned."""

    batch: StreamBatch  # the files that are read
    after: int  # number of the entry before the offset that this one belongs to, -1 for none
    low: int = EARLIEST  # files that were modified before are not read, nanoseconds since 1970
    # files that count as read, as a query that starts from the latest ones leaves them out
    skipped: SeenFiles = field(default_factory=SeenFiles.empty)


class SourceLog:
    """The log of one query; `load` reads what is there. With `name_only` hashes are of names, not of paths."""

    def __init__(self, storage: Storage, directory: str, paths: tuple[str, ...], *, name_only: bool = False) -> None:
        self._storage = storage.inside(directory)
        self.directory = directory
        self._paths = list(paths)
        self._name_only = name_only
        self._by = uuid.uuid4().hex
        self._newest: tuple[int, Entry] | None = None
        self._seen = SeenFiles.empty()
        self._recent = SeenFiles.empty()
        self.last = -1
        """Number of the newest entry, -1 for none."""
        self.low = EARLIEST
        """Files that were modified before are not read."""

    @classmethod
    def at(cls, storage: Storage, directory: str) -> Self:
        """Return the log in a directory, of whatever stream it is; for looking at it."""
        log = cls(storage, directory, ())
        numbers, _ = log._numbers()
        if not numbers:
            raise StreamOffsetError(
                "this is no sourceLog that has an entry, and no checkpoint, which has a directory offsets; give one of them",
                path=directory,
            )
        path = log._entry_path(max(numbers))
        value = _object(log._storage.read(path, _MOST_NBYTES), path)
        paths, name_only = value.get("paths"), value.get("fileNameOnly", False)
        if not isinstance(paths, list) or type(name_only) is not bool:
            raise StreamOffsetError(expected="paths and fileNameOnly of an entry", found=cut_repr(value), path=path)
        return cls(storage, directory, tuple(paths), name_only=name_only)

    def entries(self) -> list[int]:
        """Return the numbers of the entries that are there, ascending."""
        return sorted(self._numbers()[0])

    def written_ns(self, number: int) -> int | None:
        """Return when an entry was written, in nanoseconds since 1970; None if it is gone."""
        status = self._storage.status(self._entry_path(number))
        return None if status is None else status.mtime_ns

    @property
    def bad_files(self) -> BadFileNotes:
        """The notes of the files that the query passes over."""
        return BadFileNotes(self._storage, join(self.directory, BAD_FILES))

    def load(self) -> None:
        """Read which files were read. Lists the log, and reads one set of hashes and the entries after it."""
        numbers, sets = self._numbers()
        self.last = max([*numbers, *sets], default=-1)
        self._seen, self._recent, self.low = SeenFiles.empty(), SeenFiles.empty(), EARLIEST
        first = 0
        if sets:
            path = self._set_path(max(sets))
            self._seen = SeenFiles.from_bytes(self._storage.read(path, _MOST_SEEN_NBYTES), path)
            first = max(sets) + 1
        elif not numbers:
            self._storage.make_directory(self.directory)
            return
        for number in range(min(first, self.last), self.last + 1):
            self._note(self.entry(number))

    def entry(self, number: int) -> Entry:
        """Return an entry."""
        if self._newest is not None and self._newest[0] == number:
            return self._newest[1]
        path = self._entry_path(number)
        try:
            data = self._storage.read(path, _MOST_NBYTES)
        except FileNotFoundError as error:
            raise StreamOffsetError(
                f"the checkpoint of this query names entry {number:,} of its sourceLog, and there is none; was another "
                "directory given, or was it deleted? Give the right one, or a new one and a new checkpoint",
                path=path,
            ) from error
        return self._parse(data, path)

    def append(self, entry: Entry) -> int:
        """Write the next entry, and return its number."""
        self._storage.check_put_if_absent(self.directory)
        number = self.last + 1
        path = self._entry_path(number)
        value: dict[str, Any] = {
            "v": _VERSION,
            "by": self._by,
            "paths": self._paths,
            "fileNameOnly": self._name_only,
            "after": entry.after,
            "low": entry.low,
        }
        data = json.dumps(value | files_to_json(entry.batch) | {"skipped": entry.skipped.to_text()}).encode()
        is_ours = (
            self._storage.put_if_absent(path, data, durable=True) or self._storage.read(path, _MOST_NBYTES) == data
        )
        # An entry of another may have had the name and be pruned by now, long after the one before it.
        if not is_ours or (number and self._storage.status(self._entry_path(number - 1)) is None):
            raise StreamOffsetError(
                "another query has written the next entry of this sourceLog: a log is for one query; give each its own",
                path=path,
            )
        self.last = number
        self._newest = number, entry
        self._note(entry)
        if number % _COMPACTED == _COMPACTED - 1:
            self._seen = self._seen.joined(self._recent.hashes, self._recent.seconds).since(self.low)
            self._recent = SeenFiles.empty()
            self._storage.put(self._set_path(number), self._seen.to_bytes(), durable=True)
        return number

    def owner(self) -> str | None:
        """Return the id of the query whose log this is; None as long as none is known to go on with it."""
        try:
            return self._storage.read(self._owner_path, _MOST_OWNER_NBYTES).decode("ascii", "replace")
        except FileNotFoundError:
            return None

    def claim(self, owner: str) -> None:
        """Write the owner of the log, or check that it is this query."""
        if not self._storage.put_if_absent(self._owner_path, owner.encode(), durable=True) and self.owner() != owner:
            raise StreamOffsetError(
                "this sourceLog is of another query: it notes what that one has read, and a log is for one query; give this "
                "query a sourceLog of its own and a new checkpoint",
                path=self.directory,
            )

    def check_new(self) -> None:
        """Raise if a query with a new checkpoint cannot begin with this log.

        Entries of the first batch alone may be those of a process that died before Spark knew them.
        """
        if self.owner() is not None or (self.last >= 0 and self.entry(self.last).after >= 0):
            raise StreamOffsetError(
                "this sourceLog notes what another query has read (or this one before its checkpoint was deleted), and the "
                "checkpoint of this query is new; give a new directory as sourceLog, with startingFrom=latest to leave out "
                "the files that are there, or give the old checkpoint",
                path=self.directory,
            )

    def contains(self, hashes: Hashes) -> Any:
        """Return which files were read, by the hashes of their paths: shape (n,)."""
        return self._seen.contains(hashes) | self._recent.contains(hashes)

    def prune(self, number: int) -> None:
        """Delete what no offset names any more, when all batches up to an entry are committed; now and then."""
        if number % _COMPACTED:
            return
        numbers, sets = self._numbers()
        keep = max(sets, default=-1)
        stale = [self._entry_path(each) for each in numbers if each < min(number - _KEPT, keep)]
        stale += [self._set_path(each) for each in sets if each < keep]
        names = (name_of(status.path) for status in self._storage.list(self.directory))
        stale += [join(self.directory, name) for name in names if name.endswith(TEMPORARY_SUFFIX)]
        self._storage.delete_all(stale)

    def _note(self, entry: Entry) -> None:
        files = entry.batch.files
        hashes = hashes_of((file.path for file in files), name_only=self._name_only)
        self._recent = self._recent.joined(hashes, seconds_of(files))
        self._recent = self._recent.joined(entry.skipped.hashes, entry.skipped.seconds)
        self.low = max(self.low, entry.low)

    def _numbers(self) -> tuple[list[int], list[int]]:
        """Return the numbers of the entries, and of the sets of hashes."""
        if self._storage.status(self.directory) is None:
            return [], []
        names = [name_of(status.path) for status in self._storage.list(self.directory)]
        return [int(match[1]) for name in names if (match := _ENTRY.fullmatch(name))], [
            int(match[1]) for name in names if (match := _SEEN.fullmatch(name))
        ]

    @property
    def _owner_path(self) -> str:
        return join(self.directory, "owner")

    def _entry_path(self, number: int) -> str:
        return join(self.directory, f"{number:020d}.json")

    def _set_path(self, number: int) -> str:
        return join(self.directory, f"seen-{number:020d}.bin")

    def _parse(self, data: bytes, path: str) -> Entry:
        value = _object(data, path)
        if value.get("paths") != self._paths:
            raise StreamOffsetError(
                f"this sourceLog is of a stream over {cut_repr(value.get('paths'))}, and this one is over "
                f"{cut_repr(self._paths)}; a log is for one source: give each its own",
                path=path,
            )
        name_only = value.get("fileNameOnly", self._name_only)  # entries of earlier releases have none
        if type(name_only) is not bool:
            raise StreamOffsetError(expected="fileNameOnly of an entry", found=cut_repr(name_only), path=path)
        if name_only is not self._name_only:
            before, now = (str(each).lower() for each in (name_only, self._name_only))
            refuse_change("fileNameOnly", before, now, "files that were read would be read again", path=path)
        after, low, skipped = value.get("after"), value.get("low"), value.get("skipped")
        if type(after) is not int or type(low) is not int or not isinstance(skipped, str) or after < -1:
            raise StreamOffsetError(expected="after, low and skipped of an entry", found=cut_repr(value), path=path)
        try:
            return Entry(files_from_json(value), after, low, SeenFiles.from_text(skipped))
        except StreamOffsetError as error:
            error.path = path
            raise


def _object(data: bytes, path: str) -> Mapping[str, Any]:
    try:
        value = parse_json(data)
    except ValueError as error:
        raise StreamOffsetError(expected="an entry of a sourceLog", found=str(error), path=path) from error
    if not isinstance(value, Mapping) or value.get("v") != _VERSION:
        raise StreamOffsetError(
            expected=f"an entry of a sourceLog of version {_VERSION}", found=cut_repr(value), path=path
        )
    return value
