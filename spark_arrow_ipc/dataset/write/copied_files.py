"""`CopiedFiles`: the files of a copy, staged in the target, checked and noted.

Each file is read once and written under a new name in the staging directory; then it is read back, and the checksums of
all its bytes are compared. What was copied is noted beside it every few seconds, so that another process goes on after a
kill: it reads a noted file in the target, and not in the source.

A file of the source may be gone, or be another one, when its turn comes. An open file outlives its name: where a storage
does not wait, many are opened at once. What is copied of an earlier state stays for the next one, by name and size where
the name is one of ours, else by time and version, too.

A mark says that a copy was begun: until it is whole, nobody commits.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from hashlib import blake2b
from shlex import quote
from threading import Lock
from typing import Any, Final, NamedTuple, TypeAlias

from spark_arrow_ipc.bounded_json import parse_json
from spark_arrow_ipc.dataset.commit_log.dataset_directory import (
    STAGED_SUFFIX,
    DatasetDirectory,
    NameKind,
    StagedFile,
    has_own_name,
    parse_name,
)
from spark_arrow_ipc.dataset.commit_log.log import Head, newest_record
from spark_arrow_ipc.dataset.commit_log.record import Record
from spark_arrow_ipc.dataset.commit_log.stored_record import is_there, read_record
from spark_arrow_ipc.dataset.listing.data_file import DataFile, open_at_current_path, status_from_listing
from spark_arrow_ipc.dataset.write.staged_file import Staging, missing_staging, remove_staged, tail_crc32
from spark_arrow_ipc.dataset.write.vacuum import staged_job_ids
from spark_arrow_ipc.errors import CommitError, FileChangedError, LimitError, TruncatedError, UnsupportedError
from spark_arrow_ipc.storage import failpoint
from spark_arrow_ipc.storage.byte_source import ByteSource
from spark_arrow_ipc.storage.paths import name_of, relative
from spark_arrow_ipc.storage.storage import Kind, Status, Storage, discard, each

_OPEN_AT_ONCE: Final = 200
"""Files that are opened before the first of them is copied; a process may have 256 open on some systems."""

_PIECE_NBYTES: Final = 8 << 20
_SMALL_NBYTES: Final = 1 << 20
_LARGE_AT_ONCE: Final = 8
"""Files above the small size that are copied at once: each may take 50 MB of memory on its way to an object store."""

_NOTED_SECONDS: Final = 5.0
_NOTED_NBYTES: Final = 64 << 20
"""After so long, or so many bytes, the files that are copied are noted; a kill loses no more."""

_NOTES: Final = "copied-"
_MAX_NOTES_NBYTES: Final = 64 << 20
IS_BOTH: Final = "this object is a directory of others, too, and a copy has one of the two: give it another name"

_ID: Final = re.compile(r"[0-9a-f]{32}")

FileKey: TypeAlias = tuple[str, int, int, str]
"""A file of the source: its path, size, time and version; of a name of ours path and size alone."""


class Copy(NamedTuple):
    """A file that is staged in the target, and the checksums of all its bytes and of its last ones."""

    staged: str
    nbytes: int
    digest: str
    crc32: int


class _Opened(NamedTuple):
    """A file of the source that is open, and its first bytes, if they are read."""

    source: ByteSource
    first: memoryview | None


class _GoneError(Exception):
    """A file of the state is not there any more, or is another one; its path."""


_CHANGES: Final = (FileNotFoundError, FileChangedError, TruncatedError)
"""Errors of a read from a file that was removed, replaced, or cut off."""


class CopiedFiles:
    """The files that are staged in the target.

    Files that an earlier run has staged are `noted` (None without such a run): each is read and compared before it
    counts. `copied` is called for each file.
    """

    def __init__(
        self, staging: Staging, source: str, noted: dict[FileKey, Copy] | None, copied: Callable[[], None]
    ) -> None:
        self.staging = staging
        self.reused = 0
        self.gone = ""
        """The file that was gone, or another one, the last time."""
        self._source = source
        self._noted = noted or {}
        self._copied = copied
        self._done: dict[FileKey, Copy] = {}
        self._gone = False
        self._lock = Lock()
        self._unnoted: list[tuple[FileKey, Copy]] = []
        self._unnoted_nbytes = 0
        self._is_noted = noted is not None
        self._noted_at = time.monotonic()

    def as_staged(self, file: DataFile) -> StagedFile:
        """Return the report of a file that is staged; its rows are not counted."""
        copy = self._done[self._key(file)]
        return StagedFile(copy.staged, relative(file.path, self._source), copy.nbytes, 0, copy.crc32)

    def stage(self, storage: Storage, files: Sequence[DataFile]) -> bool:
        """Stage all files that are not staged yet; return False if one is gone, or another one."""
        self._gone = False
        self._note()
        waits = storage.traits.waits or self.staging.storage.traits.waits
        noted = [key for key in map(self._key, files) if key in self._noted]
        each(self._check_noted, noted, waits=waits)
        wanted = [file for file in files if self._key(file) not in self._done]
        try:
            for first in range(0, len(wanted), _OPEN_AT_ONCE):
                self._stage(storage, wanted[first : first + _OPEN_AT_ONCE], waits=waits)
        except _GoneError as error:
            self.gone = str(error)
            return False
        finally:
            self._note()
        return True

    def _stage(self, storage: Storage, files: Sequence[DataFile], *, waits: bool) -> None:
        with ExitStack() as opened:
            sources: list[_Opened | None] = [None] * len(files)
            if not storage.traits.waits:  # an open file outlives its name
                for i, file in enumerate(files):
                    sources[i] = source = _opened(storage, file)
                    opened.enter_context(closing(source.source))
            pairs = list(zip(files, sources, strict=True))
            small = [pair for pair in pairs[:-1] if pair[0].nbytes <= _SMALL_NBYTES]
            large = [pair for pair in pairs[:-1] if pair[0].nbytes > _SMALL_NBYTES]
            # The newest file last: where no record says the schema, a reader takes that of the newest file.
            for group, most in ((small, None), (large, _LARGE_AT_ONCE), (pairs[-1:], 1)):
                each(lambda pair: self._copy(storage, *pair), group, waits=waits, most=most)

    def _copy(self, storage: Storage, file: DataFile, source: _Opened | None) -> None:
        if self._gone:
            return
        staging, key = self.staging, self._key(file)
        name = f"{uuid.uuid4().hex}{STAGED_SUFFIX}"
        try:
            opened = _opened(storage, file) if source is None else source
            with closing(opened.source):
                digest, crc32 = self._write(name, file, opened)
            if not has_own_name(file.path) and not _is_as_listed(storage, file):
                raise _GoneError(file.path)
            if self._digest_of(name, file.nbytes) != digest:
                raise CommitError("a copied file was read back, and is not what was written", path=staging.path(name))
        except BaseException as error:
            remove_staged(staging, name)
            self._gone = self._gone or isinstance(error, _GoneError)
            raise
        failpoint.hit("K2.copied")
        self._add(key, Copy(name, file.nbytes, digest, crc32), is_noted=False)

    def _write(self, name: str, file: DataFile, opened: _Opened) -> tuple[str, int]:
        """Write a staged file, and return the checksums of what was read."""
        staging, digest = self.staging, blake2b(digest_size=16)
        try:
            out = staging.storage.create(staging.path(name))
        except FileNotFoundError as error:
            raise missing_staging(staging.directory) from error
        try:
            with out:
                for piece in _read(file, opened):
                    digest.update(piece)
                    out.write(piece)
                out.flush()
                if staging.durable:
                    staging.storage.sync_file(out)
        except BaseException:
            discard(out)
            raise
        return digest.hexdigest(), tail_crc32(opened.source)

    def _check_noted(self, key: FileKey) -> None:
        """Take over a file that an earlier run has staged, if it is whole."""
        copy = self._noted.pop(key)
        with suppress(FileNotFoundError, CommitError):
            if self._digest_of(copy.staged, copy.nbytes) == copy.digest:
                self._add(key, copy, is_noted=True)

    def _digest_of(self, name: str, nbytes: int) -> str | None:
        """Return the checksum of a staged file; None if it is not of that size."""
        path, storage, digest = self.staging.path(name), self.staging.storage, blake2b(digest_size=16)
        try:
            with closing(storage.open(path, listed=Status(path, Kind.FILE, nbytes))) as source:
                if source.nbytes != nbytes:
                    return None
                for byte_offset in range(0, nbytes, _PIECE_NBYTES):
                    digest.update(source.read_at(byte_offset, min(_PIECE_NBYTES, nbytes - byte_offset)))
        except FileNotFoundError as error:
            raise missing_staging(self.staging.directory) from error
        except (TruncatedError, FileChangedError):
            return None
        return digest.hexdigest()

    def _add(self, key: FileKey, copy: Copy, *, is_noted: bool) -> None:
        with self._lock:
            self._done[key] = copy
            self.reused += is_noted
            if not is_noted:
                self._unnoted.append((key, copy))
                self._unnoted_nbytes += copy.nbytes
            is_due = time.monotonic() - self._noted_at >= _NOTED_SECONDS or self._unnoted_nbytes >= _NOTED_NBYTES
        self._copied()
        if is_due:
            self._note()

    def _note(self) -> None:
        """Note the files that were staged since the last note; the first one says whose files they will be."""
        with self._lock:
            unnoted, self._unnoted, self._unnoted_nbytes = self._unnoted, [], 0
            is_first, self._is_noted, self._noted_at = not self._is_noted, True, time.monotonic()
        if unnoted or is_first:
            data = json.dumps({"source": self._source, "files": [[*key, *copy] for key, copy in unnoted]}).encode()
            name = f"{_NOTES}{uuid.uuid4().hex}{STAGED_SUFFIX}"
            self.staging.storage.put(self.staging.path(name), data, durable=True)

    def _key(self, file: DataFile) -> FileKey:
        path = relative(file.path, self._source)
        return (path, file.nbytes, 0, "") if has_own_name(path) else (path, file.nbytes, file.mtime_ns, file.version)


def read_notes(staging: Staging, source: str) -> dict[FileKey, Copy] | None:
    """Return the files that a copy of a source has noted; None if there are no notes of that source."""
    noted: dict[FileKey, Copy] | None = None
    for notes in _all_notes(staging.storage, staging.directory):
        with suppress(ValueError, TypeError, KeyError):
            if notes["source"] == source:
                noted = noted or {}
                for path, nbytes, mtime_ns, version, *values in notes["files"]:
                    copy = Copy(*values)
                    if _is_sound(copy) and nbytes == copy.nbytes:
                        noted[path, nbytes, mtime_ns, version] = copy
    return noted


def noted_source(storage: Storage, directory: str) -> str | None:
    """Return the source of the copy whose notes lie in a staging directory; None without any."""
    for notes in _all_notes(storage, directory):
        with suppress(TypeError, KeyError):
            if type(notes["source"]) is str:
                return notes["source"]
    return None


def _all_notes(storage: Storage, directory: str) -> Iterator[dict[str, Any]]:
    for status in storage.list(directory):
        if name_of(status.path).startswith(_NOTES):
            with suppress(FileNotFoundError, LimitError, UnsupportedError, ValueError):
                yield parse_json(storage.read(status.path, _MAX_NOTES_NBYTES))


def _is_sound(copy: Copy) -> bool:
    return (
        type(copy.staged) is str
        and _ID.fullmatch(copy.staged.removesuffix(STAGED_SUFFIX)) is not None
        and all(type(number) is int and number >= 0 for number in (copy.nbytes, copy.crc32))
    )


def _opened(storage: Storage, file: DataFile) -> _Opened:
    """Open a file where it lies: in its place, staged, or among the replaced ones that live on."""

    def open_at(path: str) -> _Opened:
        source = storage.open(path, listed=status_from_listing(file, path, storage))
        # Where a storage waits, only the first read tells that a file is gone.
        first = source.read_at(0, min(_PIECE_NBYTES, file.nbytes)) if storage.traits.waits else None
        return _Opened(source, first)

    try:
        opened = open_at_current_path(file, open_at, storage)
    except _CHANGES as error:
        raise _GoneError(file.path) from error
    if opened.source.nbytes != file.nbytes:
        opened.source.close()
        raise _GoneError(file.path)
    return opened


def _read(file: DataFile, opened: _Opened) -> Iterator[memoryview]:
    """Yield the bytes of a file of the source."""
    if opened.first is not None:
        yield opened.first
    try:
        for byte_offset in range(0 if opened.first is None else len(opened.first), file.nbytes, _PIECE_NBYTES):
            yield opened.source.read_at(byte_offset, min(_PIECE_NBYTES, file.nbytes - byte_offset))
    except _CHANGES as error:
        raise _GoneError(file.path) from error


def _is_as_listed(storage: Storage, file: DataFile) -> bool:
    status = storage.status(file.path)
    if status is not None and status.kind is Kind.DIRECTORY and not storage.traits.directories:
        raise CommitError(f"{IS_BOTH}; nothing is published", path=file.path)
    if status is None or status.nbytes != file.nbytes:
        return False
    # An object store tells times finer in a listing than in the state of one object.
    return status.version == file.version if file.version else status.mtime_ns == file.mtime_ns


_MAX_NBYTES = 1 << 16


def mark_copy(dataset: DatasetDirectory, source: str, record: Record) -> None:
    """Mark a directory as one into which a record of a source is carried over."""
    dataset.storage.make_directory(dataset.commits)
    data = json.dumps({"source": source, "chain": record.chain}).encode()
    dataset.storage.put(dataset.copy_mark, data, durable=True)


def begun_copy(dataset: DatasetDirectory, head: Head) -> str | None:
    """Return the source of the copy that is not whole yet; None if there is none. Two reads where there is a mark."""
    if not head.copies:
        return None
    try:
        mark = parse_json(dataset.storage.read(dataset.copy_mark, _MAX_NBYTES))
        source, chain = str(mark["source"]), str(mark["chain"])
    except FileNotFoundError:
        return None
    except (LimitError, UnsupportedError, ValueError, TypeError, KeyError) as error:
        words = "this is not a mark that 'arrowipc copy' made; if the copy here is whole, remove the mark"
        raise CommitError(words, path=dataset.copy_mark) from error
    newest = newest_record(dataset)[1]
    return source if newest is None or not newest.jobs or newest.chain == chain else None


def begun_sources(dataset: DatasetDirectory, head: Head, record: Record | None) -> list[str]:
    """Return the sources of copies that were begun here and have not ended, by a mark or by what is staged."""
    ended = set[str]() if record is None else {*record.jobs, *record.withdrawn}
    jobs = (jobid for jobid in staged_job_ids(dataset) if jobid not in ended)
    sources = [noted_source(dataset.storage, dataset.staging(jobid)) for jobid in jobs]
    return [source for source in dict.fromkeys((*sources, begun_copy(dataset, head))) if source is not None]


def check_no_copy(dataset: DatasetDirectory, head: Head) -> None:
    """Raise a `CommitError` if a copy is not whole yet: its records remember jobs whose rows are not there."""
    source = begun_copy(dataset, head)
    if source is not None:
        raise CommitError(
            f"a copy of {source} was begun here, and is not whole yet; nothing is published. End it by 'arrowipc copy "
            f"{quote(source)} {quote(dataset.root)}', or remove this directory, and write again",
            path=dataset.root,
        )


def check_carried(dataset: DatasetDirectory, record: Record) -> None:
    """Take a record that was carried over away again if a job was committed beside it meanwhile.

    A job makes its record and then looks for a newer one; this looks for older ones after the carried record is made: at
    least one of the two sees the other.
    """
    storage = dataset.storage
    parsed = (parse_name(name_of(status.path)) for status in storage.list(dataset.commits))
    for seq in [name[0] for name in parsed if name is not None and name[1] is NameKind.RECORD and name[0] < record.seq]:
        with suppress(FileNotFoundError):
            other = read_record(dataset, seq)
            if other.is_of_job and other.chain != record.chain:
                if is_there(dataset, record):  # before its mark: it would be a pending job without it
                    storage.delete(dataset.record(record.seq))
                    storage.delete(dataset.done_mark(record.seq))
                storage.delete(dataset.copy_mark)
                raise CommitError(
                    f"the job {other.jobid} was committed in the target while its files were copied, and a copy replaces "
                    "nothing; give a directory that is not there yet",
                    path=dataset.root,
                )
