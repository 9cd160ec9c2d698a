"""`StagedWriter`: write, sync and verify one staged file.

A staged file has a unique name in the job's staging directory; its report names its final path. It is created
exclusively, and its directory is never made: a task that is left over from a job that has ended fails, instead of
making the directory again. The file is made durable, closed, opened again and compared with what was written. On any
error it is deleted.

`Staging` is the directory of a job, with room for the record that the job will need.
"""

from __future__ import annotations

import errno
import secrets
import uuid
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import BinaryIO, Final, NoReturn, TypeVar

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.arrow.types import CustomMetadata, DataType
from spark_arrow_ipc.dataset.commit_log.dataset_directory import STAGED_SUFFIX, DatasetDirectory, StagedFile
from spark_arrow_ipc.dataset.commit_log.log import read_head
from spark_arrow_ipc.dataset.statistics import Statistics, Which
from spark_arrow_ipc.dataset.statistics.collect import StatisticsCollector
from spark_arrow_ipc.dataset.write.publisher import max_file_nbytes
from spark_arrow_ipc.errors import CommitError, FileChangedError, error_context
from spark_arrow_ipc.storage import failpoint
from spark_arrow_ipc.storage.byte_source import ByteSource
from spark_arrow_ipc.storage.paths import TEMPORARY_SUFFIX, join
from spark_arrow_ipc.storage.storage import Kind, Status, Storage, discard


@dataclass(frozen=True, slots=True)
class Staging:
    """The staging directory of one job. Pickled to every task."""

    dataset: DatasetDirectory  # that the job writes to
    jobid: str  # globally unique
    durable: bool = True  # whether files are made durable (``fsync``) before they are reported

    @property
    def storage(self) -> Storage:
        """The storage that holds the dataset."""
        return self.dataset.storage

    @property
    def root(self) -> str:
        """Absolute path of the dataset's directory."""
        return self.dataset.root

    @property
    def directory(self) -> str:
        """The job's staging directory."""
        return self.dataset.staging(self.jobid)

    def path(self, name: str) -> str:
        """Return the path of a staged file."""
        return join(self.directory, name)


def missing_staging(directory: str) -> CommitError:
    """Return the error for a staging directory that does not exist."""
    return CommitError(
        "the job's staging directory is not there: either the path is not shared between the driver and the "
        "executors (give a path that every machine sees), or the job ended before this attempt of the task began: it was "
        "committed, aborted, or withdrawn by 'arrowipc vacuum'",
        path=directory,
    )


_FULL: Final = {errno.ENOSPC: "free some space there", errno.EDQUOT: "free some space there, or ask for a larger quota"}
"""Errors of a disk without room, and what to do."""

_FILES: Final = 3
"""A record, a mark and a kept record: as many files, where a disk has no room for more of them."""

_LEAST_NBYTES: Final = 32 << 10
"""Room for what a thousand other jobs add to the records while this one runs."""

_MOST_RECORD_NBYTES: Final = 1 << 20
"""A larger record is large by the files of its job, which the next one does not take over."""

_Result = TypeVar("_Result")


def keeps_room(storage: Storage) -> bool:
    """Return whether a storage is a disk that can be full."""
    return storage.traits.directories and not storage.traits.waits


def keep_room(staging: Staging) -> None:
    """Make the files by which a job keeps room, unless they are there; after an `OSError` none of them is left."""
    storage, directory = staging.storage, staging.dataset.room(staging.jobid)
    if not keeps_room(storage) or storage.status(directory) is not None:
        return
    record = storage.status(staging.dataset.record(read_head(staging.dataset).seq))
    # Two copies of the newest record: that of the withdrawal and its mark are not longer than it without its files.
    nbytes = _LEAST_NBYTES + 2 * min(0 if record is None else record.nbytes, _MOST_RECORD_NBYTES)
    try:
        storage.make_directory(directory)
        for number in range(_FILES):
            # Random bytes, as file systems that compress keep nothing for others.
            with (
                suppress(FileExistsError),  # another task of the job
                storage.create(join(directory, f"{number}{TEMPORARY_SUFFIX}")) as file,
            ):
                file.write(secrets.token_bytes(nbytes // _FILES))
    except OSError:
        storage.delete_tree(directory)
        raise


def with_room(dataset: DatasetDirectory, jobids: Collection[str], act: Callable[[], _Result]) -> _Result:
    """Return the result of an act that may be done again; if the disk is full, give it the room that jobs keep first."""
    try:
        return act()
    except (OSError, CommitError) as error:
        if not is_full(error) or not _give(dataset, jobids):
            _raise(dataset, error)
    try:
        return act()
    except (OSError, CommitError) as error:
        _raise(dataset, error)


def is_full(error: BaseException | None) -> bool:
    """Return whether an error, or one that it is from, is that of a disk without room."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _FULL:
            return True
        error = error.__cause__
    return False


def advised(error: OSError, then: str) -> OSError:
    """Return the error of a disk without room with what to do, or another error as it is."""
    if error.errno not in _FULL:
        return error
    return OSError(error.errno, f"{error.strerror}: {_FULL[error.errno]}, and {then}", error.filename)


def _give(dataset: DatasetDirectory, jobids: Collection[str]) -> bool:
    """Delete the room that jobs keep, and return whether there was any."""
    storage = dataset.storage
    rooms = [room for room in map(dataset.room, jobids) if keeps_room(storage) and storage.status(room) is not None]
    for room in rooms:
        storage.delete_tree(room)
    return bool(rooms)


def _raise(dataset: DatasetDirectory, error: OSError | CommitError) -> NoReturn:
    """Raise an error, with what to do if it is that of a full disk and does not say it yet."""
    if isinstance(error, OSError) and is_full(error) and not is_full(error.__cause__):
        raise advised(error, f"run 'arrowipc vacuum {dataset.root}'") from error
    raise error


_TAIL_NBYTES: Final = 64 << 10
"""Number of bytes at the end of a file that its checksum covers; they include the footer, unless it is longer."""

_EXTENSIONS: Final = {"file": ".arrow", "stream": ".arrows"}
"""The file extensions that Arrow registered, by format."""


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Options of the files that a task writes."""

    write: ipc.WriteOptions = field(default_factory=ipc.WriteOptions)  # format and compression
    # Most rows, and approximate most bytes before compression, of a record batch.
    record_batch_rows: int = 65_536
    record_batch_nbytes: int = 64 << 20
    # None for no limit of ours (`max_file_nbytes`); a file has at least one record batch.
    max_file_rows: int | None = None
    max_file_nbytes: int | None = None
    custom_metadata: CustomMetadata = ()  # for the footer of every file; a stream has no footer
    statistics: Which = Statistics.NONE  # columns with statistics in the footer; a stream has no footer


def column_types(schema: Schema) -> list[DataType]:
    """Return the types of a schema's fields."""
    return [field.type for field in schema.fields]


class StagedWriter:
    """Writes and verifies one staged file; on any error it is deleted."""

    def __init__(
        self, staging: Staging, schema: Schema, partition_id: int, directory: str, options: SinkOptions
    ) -> None:
        attempt = uuid.uuid4().hex
        self._staging = staging
        self._options = options
        self._max_nbytes = max_file_nbytes(staging.storage.traits, options.max_file_nbytes)
        self._schema = schema
        self._staged = attempt + STAGED_SUFFIX
        name = f"part-{partition_id:05d}-{attempt}{_EXTENSIONS[options.write.format]}"
        self._final = join(directory, name)
        self._blocks = 0
        self.rows = 0
        self._file = _create(staging, self._staged)
        with self._removed_on_error():
            failpoint.hit("T1.created")
            self._collector = StatisticsCollector(schema, options.statistics)
            # Statistics prove by checksums that they are of this file; a stream holds neither.
            checksums = self._collector.collects and options.write.format == "file"
            self._writer = ipc.create(self._file, schema, replace(options.write, checksums=checksums))
            if options.write.format == "file":
                self._writer.custom_metadata.update(options.custom_metadata)

    def takes(self, schema: Schema) -> bool:
        """Return whether a schema has the same types as this file."""
        return schema is self._schema or column_types(schema) == column_types(self._schema)

    def write(self, batch: RecordBatch) -> bool:
        """Append a record batch, or return False if the file would become too long."""
        with self._removed_on_error():
            if not self._writer.write(batch, within=self._max_nbytes if self._blocks else None):
                return False
            self._blocks += 1
            self.rows += batch.num_rows
            self._collector.add(batch, self._writer.nbytes)
            failpoint.hit("T2.batch")
        return True

    def end(self) -> None:
        """Write the footer."""
        with self._removed_on_error():
            pair = self._collector.pair(self._writer.nbytes, fingerprint=self._writer.fingerprint)
            if pair is not None:
                self._writer.custom_metadata.update([pair])
            self._writer.close()
            self._file.flush()
            failpoint.hit("T2.finished")

    def sync_and_verify(self) -> StagedFile:
        """Make the file durable, close it, read it back and return its report."""
        with self._removed_on_error():
            # Closed inside: NFS may report a full disk only then, and the file must be deleted.
            with self._file as file:
                nbytes = file.tell()
                if self._staging.durable:
                    self._staging.storage.sync_file(file)
            reported = self._verified(nbytes)
            failpoint.hit("T2.proven")
            return reported

    def discard(self) -> None:
        """Close and delete the file."""
        discard(self._file)
        remove_staged(self._staging, self._staged)

    def _verified(self, nbytes: int) -> StagedFile:
        """Open the file again, compare it with what was written, and return its report."""
        path, storage = self._staging.path(self._staged), self._staging.storage
        # Where every read waits there is one, of the footer, which says the size as well; to count the rows of the headers
        # would take a request for each.
        waits = storage.traits.waits
        known, rows = (Status(path, Kind.FILE, nbytes), None) if waits else (None, self.rows)
        try:
            with closing(storage.open(path, listed=known)) as source:
                crc32 = tail_crc32(source)
                _verify(source, path, nbytes, self._blocks, rows)
        except FileNotFoundError as error:  # the job was withdrawn meanwhile
            raise missing_staging(self._staging.directory) from error
        except FileChangedError as error:
            raise CommitError(f"a file that was written is another one by now: {error}", path=path) from error
        return StagedFile(self._staged, self._final, nbytes, self.rows, crc32)

    @contextmanager
    def _removed_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.discard()
            raise


def _create(staging: Staging, name: str) -> BinaryIO:
    """Create a staged file exclusively."""
    try:
        return staging.storage.create(staging.path(name))
    except FileNotFoundError as error:
        raise missing_staging(staging.directory) from error


def remove_staged(staging: Staging, name: str) -> None:
    """Delete a staged file, ignoring errors."""
    with suppress(OSError):  # the first error is the one to raise; the file is deleted with the job's directory
        staging.storage.delete(staging.path(name))


def _verify(source: ByteSource, path: str, nbytes: int, blocks: int, rows: int | None) -> None:
    """Raise if the closed file differs from what was written.

    The stream format has no footer: only the size and the schema are checked. Rows are counted unless they are None.
    """
    if source.nbytes != nbytes:
        raise CommitError(expected=f"a finished file of {nbytes:,} bytes", found=f"{source.nbytes:,} bytes", path=path)
    with error_context(path=path), ipc.open(source) as reader:
        if not reader.is_numbered:
            return
        read = None if rows is None else sum(reader.read_header(i).length for i in range(len(reader)))
        if (len(reader), read) != (blocks, rows):
            raise CommitError(
                expected=f"{blocks:,} record batches of {_counted(rows)} in the finished file",
                found=f"{len(reader):,} of {_counted(read)}",
            )


def _counted(rows: int | None) -> str:
    return "rows not counted" if rows is None else f"{rows:,} rows"


def tail_crc32(source: ByteSource) -> int:
    """Return the CRC-32 of the last 64 KiB of a file, which contain the footer."""
    assert source.nbytes is not None
    start = max(0, source.nbytes - _TAIL_NBYTES)
    return zlib.crc32(source.read_at(start, source.nbytes - start))
