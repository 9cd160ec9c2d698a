"""`Entry`: one change of a table, as JSON that ends in its own checksum.

An entry names the entry before it, and readers accept an unbroken run of entries only. So an entry that a process put
after a long pause, where later ones were pruned meanwhile, does not belong to the log.

Columns of files are lists, not lists of objects: an entry of 100,000 files takes a third of the bytes and of the time.
"""

from __future__ import annotations

import json
import re
import zlib
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

from spark_arrow_ipc.bounded_json import parse_json
from spark_arrow_ipc.errors import ArrowIpcError, CommitError, UnsupportedError, cut_repr
from spark_arrow_ipc.table.encoded_schema import MAX_TEXT_NBYTES
from spark_arrow_ipc.table.files import NO_FILES, Files
from spark_arrow_ipc.table.names import MAX_NUMBER, is_job_id, is_table_id, is_visible, new_id

FORMAT: Final = 1
"""The version of the protocol that this build reads and writes."""

MAX_ENTRY_NBYTES: Final = 256 << 20
"""Larger entries are neither written nor read; a job of a million files makes one of about 130 MB."""

_TAIL: Final = re.compile(rb',"crc32":(\d{1,10})\}\n')
_TAIL_NBYTES: Final = 24
_VERSION: Final = re.compile(rb'\{"format":(\d{1,9}),')


class Operation(StrEnum):
    """The change that an entry makes to the table."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    OVERWRITE_PARTITIONS = "overwrite partitions"
    REWRITE = "rewrite"
    """The same rows in other files."""
    DELETE = "delete"
    """The rows of some files in other files, without those that a statement has deleted."""
    UPDATE = "update"
    """The rows of some files in other files, some with other values."""
    MERGE = "merge"
    """The rows of some files in other files, some of them changed, deleted or inserted."""
    RESTORE = "restore"
    """The files of an older entry, under new names."""
    EXPIRE = "expire"
    """Ends jobs that must not commit any more."""
    CLOSE = "close"
    """Forgets removed files that are deleted."""

    @property
    def is_of_job(self) -> bool:
        """True if the entry commits a job."""
        return self not in {Operation.EXPIRE, Operation.CLOSE}


class Batch(NamedTuple):
    """A batch of a streaming query: the query's id, and the number of the batch."""

    query: str
    number: int


class Removed(NamedTuple):
    """A file that an entry removes, as it was when the job was planned.

    A managed name belongs to one file for ever, so its size is enough. An unmanaged file may be replaced at any time: it
    is removed only as the version that the job has seen. Where the storage has no versions its time takes their place, and
    a digest of samples of its bytes: `cp -r` changes the time of a file, not its bytes.
    """

    path: str
    nbytes: int
    version: str = ""
    digest: str = ""

    @property
    def is_managed(self) -> bool:
        """True if the file has a managed name."""
        return not self.version and not self.digest

    @property
    def identity(self) -> tuple[str, int, str]:
        """The same for all removals of one file, whose time may change between them."""
        return self.path, self.nbytes, self.digest or self.version


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """One entry of the log.

    Parameters
    ----------
    number
        From 1, without gaps.
    previous
        The id of the entry before it, empty in the first one.
    operation
        What the entry does.
    id
        Of the entry itself.
    job
        The job that it commits; empty in entries of maintenance.
    base
        The number of the entry that the job was planned on.
    time
        Milliseconds since 1970 by the writer's clock, never before the entry before it.
    application, user
        Who ran the job, for people; empty if unknown.
    schema
        Encoded schema of a plain read after this entry; empty if it stays as it is.
    partition_columns
        Columns in the names of directories; None if they stay as they are.
    add, remove
        Files that begin and cease to count.
    retain
        True if removed files are moved to ``_ipc_replaced`` instead of deleted.
    retention
        For how many seconds the table retains entries and removed files from now on; None if that stays as it is.
    token
        The user's commit token.
    batch
        The batch of a streaming query.
    expire
        Jobs that cannot commit after this entry.
    close
        Removed files that are deleted, which the log forgets.
    restores
        The number of the entry whose files come back.
    queries
        The newest batches of streaming queries at that entry, or in the table that this one is a copy of: query, batch and the
        number of its entry.
    tokens
        The commit tokens at the entry whose files come back, or of the table that this one is a copy of.
    former
        Ids that the table had before: files with one of them in their names are managed, too.
    layout
        The layout that the table has from now on (`hugging_face.LAYOUT`), empty for none; None if that stays as it is.
    """

    number: int
    previous: str
    operation: Operation
    id: str = field(default_factory=new_id)
    job: str = ""
    base: int = 0
    time: int = 0
    application: str = ""
    user: str = ""
    schema: str = ""
    partition_columns: tuple[str, ...] | None = None
    add: Files = NO_FILES
    remove: tuple[Removed, ...] = ()
    retain: bool = False
    retention: int | None = None
    token: str | None = None
    batch: Batch | None = None
    expire: tuple[str, ...] = ()
    close: tuple[Removed, ...] = ()
    restores: int | None = None
    queries: tuple[tuple[str, int, int], ...] = ()
    tokens: tuple[str, ...] = ()
    former: tuple[str, ...] = ()
    layout: str | None = None

    def to_bytes(self) -> bytes:
        """Encode the entry as its file holds it; fields with their default value are left out.

        Raises
        ------
        CommitError
            It is too large to be read again.
        """
        values: dict[str, Any] = {"format": FORMAT, "number": self.number, "previous": self.previous}
        values |= {"operation": self.operation, "id": self.id, "time": self.time}
        # Defaults are left out: most entries have few of the fields, and later builds may add more.
        texts = {name: getattr(self, name) for name in ("job", "application", "user", "schema")}
        values |= {name: text for name, text in texts.items() if text}
        optional = ("partition_columns", "retention", "token", "batch", "restores", "layout")
        values |= {name: getattr(self, name) for name in optional if getattr(self, name) is not None}
        if self.operation.is_of_job:
            values["base"] = self.base
        if len(self.add):
            values["add"] = self.add.to_json()
        for name in ("remove", "close"):
            if removed := getattr(self, name):
                values[name] = removed_to_json(removed)
        for name in ("expire", "queries", "tokens", "former"):
            if rows := getattr(self, name):
                values[name] = rows
        if self.retain:
            values["retain"] = True
        # The checksum is of the bytes before it: a cut or mixed entry is told from a malformed one.
        body = json.dumps(values, separators=(",", ":")).encode()[:-1]
        data = b'%s,"crc32":%d}\n' % (body, zlib.crc32(body))
        if len(data) > MAX_ENTRY_NBYTES:
            raise CommitError(
                f"the log entry of this job takes {len(data):,} bytes, and at most {MAX_ENTRY_NBYTES:,} are read; "
                "nothing is published: write fewer, larger files"
            )
        return data

    @classmethod
    def from_bytes(cls, data: bytes, number: int) -> Entry:
        """Decode and check an entry.

        Raises
        ------
        UnsupportedError
            It is of a newer version of the protocol.
        CommitError
            It is incomplete, damaged, not the entry of this number, or names a file outside the table.
        """
        tail = _TAIL.search(data, max(0, len(data) - _TAIL_NBYTES))
        body = data[: tail.start()] if tail and tail.end() == len(data) else b""
        # Before the checksum, which a newer version may place or compute in another way.
        version = _VERSION.match(data)
        if version and int(version[1]) > FORMAT:
            raise UnsupportedError(
                f"this table has a log of version {int(version[1])}, and this build of spark-arrow-ipc reads version "
                f"{FORMAT}; read it with a newer one"
            )
        if tail is None or zlib.crc32(body) != int(tail[1]):
            raise CommitError(expected="a log entry that ends in its own CRC-32", found=f"{len(data):,} bytes without")
        try:
            # A value of our own writers takes at most eight times its text.
            values = parse_json(body + b"}", most_memory=8 * MAX_ENTRY_NBYTES)
            entry = cls._of(values)
        except (CommitError, UnsupportedError):
            raise
        except (ArrowIpcError, ValueError, TypeError, LookupError, AttributeError, OverflowError) as error:
            raise CommitError(f"this log entry is malformed: {cut_repr(str(error), 300)}") from error
        # A file that was copied to the name of another entry.
        if entry.number != number:
            raise CommitError(expected=f"entry number {number}", found=f"number {entry.number}")
        return entry

    @classmethod
    def _of(cls, values: dict[str, Any]) -> Entry:
        """Return the entry of parsed values, each checked; unknown names are for later builds and are ignored."""
        if values["format"] != FORMAT:
            raise ValueError(f"the format {values['format']!r}")
        number = _integer(values["number"])
        operation = Operation(values["operation"])
        batch = values.get("batch")
        partition_columns = values.get("partition_columns")
        entry = cls(
            number,
            _identifier(values["previous"]) if number > 1 else "",
            operation,
            _identifier(values["id"]),
            _identifier(values["job"]) if operation.is_of_job else "",
            _integer(values["base"]) if operation.is_of_job else 0,
            _integer(values["time"]),
            _text(values.get("application", "")),
            _text(values.get("user", "")),
            _text(values.get("schema", "")),
            None if partition_columns is None else tuple(map(_text, partition_columns)),
            Files.from_json(values["add"], number) if "add" in values else NO_FILES,
            removed_from_json(values["remove"]) if "remove" in values else (),
            values.get("retain", False) is True,
            None if "retention" not in values else _integer(values["retention"]),
            None if "token" not in values else _text(values["token"]),
            None if batch is None else Batch(_text(batch[0]), _integer(batch[1])),
            tuple(map(_identifier, values.get("expire", ()))),
            removed_from_json(values["close"]) if "close" in values else (),
            None if "restores" not in values else _integer(values["restores"]),
            tuple((_text(query), _integer(batch), _integer(n)) for query, batch, n in values.get("queries", ())),
            tuple(map(_text, values.get("tokens", ()))),
            tuple(map(_table, values.get("former", ()))),
            None if "layout" not in values else _text(values["layout"]),
        )
        # Their jobs are not checked for having ended, so that they could be applied twice.
        changes_files = bool(len(entry.add) or entry.remove)
        if not operation.is_of_job and changes_files:
            raise ValueError(f"an entry of the operation {operation} that changes files")
        return entry


def removed_to_json(removed: tuple[Removed, ...]) -> dict[str, list[Any]]:
    """Return removed files as columns; versions and digests only if any file has them."""
    names = ("path", "bytes", "version", "digest")
    columns = dict(zip(names, map(list, zip(*removed, strict=True)), strict=True))
    return {name: column for name, column in columns.items() if name in names[:2] or any(column)}


def removed_from_json(columns: dict[str, Any]) -> tuple[Removed, ...]:
    """Decode removed files; ValueError, TypeError or KeyError if they are malformed."""
    paths = columns["path"]
    empty = [""] * len(paths)
    removed = tuple(
        Removed(path, _integer(nbytes), _text(version), _text(digest))
        for path, nbytes, version, digest in zip(
            paths, columns["bytes"], columns.get("version", empty), columns.get("digest", empty), strict=True
        )
    )
    for file in removed:
        if not is_visible(file.path):
            raise ValueError(f"the path {file.path!r:.300}, which is not a relative one that readers see")
        # A name of a disk may be any bytes, and has no other surrogates.
        file.path.encode(errors="surrogateescape")
    return removed


def _integer(value: object) -> int:
    # Not `isinstance`: a bool is an int, and would be counted as 0 or 1.
    if type(value) is not int or not 0 <= value <= MAX_NUMBER:
        raise ValueError(f"{value!r:.100} where a number belongs")
    return value


def _text(value: object) -> str:
    if type(value) is not str or len(value) > MAX_TEXT_NBYTES:
        raise ValueError(f"{value!r:.100} where a text belongs")
    return value


def _identifier(value: object) -> str:
    if not is_job_id(value):
        raise ValueError(f"{value!r:.100} where an id belongs")
    return str(value)


def _table(value: object) -> str:
    if not is_table_id(value):
        raise ValueError(f"{value!r:.100} where the id of a table belongs")
    return str(value)
