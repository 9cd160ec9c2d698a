"""`StagedWriter`: write, sync and verify one staged file.

A staged file has a unique name in the job's staging directory; the commit gives it its final name. It is created
exclusively, and its directory is never made: a task that is left over from a job that has ended fails, instead of
making the directory again. The file is made durable, closed, opened again and compared with what was written. On any
error it is deleted.
"""

from __future__ import annotations

import errno
import uuid
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import BinaryIO, Final, NamedTuple, Protocol

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.arrow.types import CustomMetadata, DataType
from spark_arrow_ipc.dataset.statistics import Statistics, Which
from spark_arrow_ipc.dataset.statistics.collect import StatisticsCollector
from spark_arrow_ipc.errors import CommitError, FileChangedError, OptionError, error_context
from spark_arrow_ipc.storage import failpoint
from spark_arrow_ipc.storage.byte_source import ByteSource
from spark_arrow_ipc.storage.paths import join
from spark_arrow_ipc.storage.storage import Kind, Status, Storage, Traits, discard
from spark_arrow_ipc.table.bounds import FileBounds, bounds_of_file
from spark_arrow_ipc.table.names import STAGED_SUFFIX, TableDirectory


@dataclass(frozen=True, slots=True)
class Staging:
    """The staging directory of one job. Pickled to every task."""

    directory: TableDirectory  # the table
    jobid: str  # globally unique

    @property
    def storage(self) -> Storage:
        """The storage of the table."""
        return self.directory.storage

    @property
    def root(self) -> str:
        """Absolute path of the table's directory."""
        return self.directory.root

    @property
    def path(self) -> str:
        """Absolute path of the job's staging directory."""
        return self.directory.staging(self.jobid)

    def file(self, name: str) -> str:
        """Return the path of a staged file."""
        return join(self.path, name)


class WrittenFile(NamedTuple):
    """The report of a file that a task has written, made durable and read back."""

    staged: str  # name in the staging directory
    directory: str  # relative directory of the table where it belongs, empty for the table's own
    task: int  # number of the task, part of the final name
    suffix: str
    nbytes: int
    rows: int
    crc32: int  # of its last bytes (`tail_crc32`)
    bounds: FileBounds  # statistics of its columns


def missing_staging(directory: str) -> CommitError:
    """Return the error for a staging directory that does not exist."""
    return CommitError(
        "the job's staging directory is not there: either the path is not shared between the driver and the "
        "executors (give a path that every machine sees), or the job ended before this attempt of the task began: it was "
        "committed, aborted, or expired by 'arrowipc vacuum'",
        path=directory,
    )


_FULL: Final = {errno.ENOSPC: "free some space there", errno.EDQUOT: "free some space there, or ask for a larger quota"}
"""Errors of a disk without room, and what to do."""

MAX_COPIED_NBYTES: Final = 5_000_000_000
"""Largest object that S3 copies in one request, by which a file gets its final name where a storage cannot rename."""


def max_file_nbytes(traits: Traits, requested: int | None) -> int | None:
    """Return the largest size of a file that a job writes, None for no limit; `OptionError` if it could not be copied."""
    if traits.renames:
        return requested
    if requested is not None and requested > MAX_COPIED_NBYTES:
        raise OptionError(
            expected=f"maxFileBytes of at most {MAX_COPIED_NBYTES:,} in an object store, which publishes a file by one copy",
            found=f"{requested:,}",
        )
    return MAX_COPIED_NBYTES if requested is None else requested


def advised(error: OSError, then: str) -> OSError:
    """Return the error of a disk without room with what to do, or another error as it is."""
    if error.errno not in _FULL:
        return error
    return OSError(error.errno, f"{error.strerror}: {_FULL[error.errno]}, and {then}", error.filename)


_TAIL_NBYTES: Final = 64 << 10
"""Number of bytes at the end of a file that its checksum covers; they include the footer, unless it is longer."""

_EXTENSIONS: Final = {"file": ".arrow", "stream": ".arrows"}
"""The file extensions that Arrow registered, by format."""


class FileEncoder(Protocol):
    """Dictionary-encodes the record batches of files, one file after another."""

    def begin(self) -> None:
        """Begin a new file."""

    def encode(self, batch: RecordBatch) -> RecordBatch | None:
        """Return the first rows of a batch for the file, all if it has room; None if it must end before them."""


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
    # Makes an encoder for a series of files, whose dictionaries have at most some bytes in each; None without dictionaries.
    encoder: Callable[[int], FileEncoder] | None = None


def column_types(schema: Schema) -> list[DataType]:
    """Return the types of a schema's fields."""
    return [field.type for field in schema.fields]


class StagedWriter:
    """Writes and verifies one staged file; on any error it is deleted."""

    def __init__(
        self, staging: Staging, schema: Schema, partition_id: int, directory: str, options: SinkOptions
    ) -> None:
        self._staging = staging
        self._options = options
        self._max_nbytes = max_file_nbytes(staging.storage.traits, options.max_file_nbytes)
        self._staged = uuid.uuid4().hex + STAGED_SUFFIX
        self._task, self._directory = partition_id, directory
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

    def sync_and_verify(self) -> WrittenFile:
        """Make the file durable, close it, read it back and return its report."""
        with self._removed_on_error():
            # Closed inside: NFS may report a full disk only then, and the file must be deleted.
            with self._file as file:
                nbytes = file.tell()
                self._staging.storage.sync_file(file)
            reported = self._verified(nbytes)
            failpoint.hit("T2.proven")
            return reported

    def discard(self) -> None:
        """Close and delete the file."""
        discard(self._file)
        remove_staged(self._staging, self._staged)

    def _verified(self, nbytes: int) -> WrittenFile:
        """Open the file again, compare it with what was written, and return its report."""
        path, storage = self._staging.file(self._staged), self._staging.storage
        # Where every read waits there is one, of the footer, which says the size as well; to count the rows of the headers
        # would take a request for each.
        waits = storage.traits.waits
        known, rows = (Status(path, Kind.FILE, nbytes), None) if waits else (None, self.rows)
        try:
            with closing(storage.open(path, listed=known)) as source:
                crc32 = tail_crc32(source)
                _verify(source, path, nbytes, self._blocks, rows)
        except FileNotFoundError as error:  # the job has ended meanwhile
            raise missing_staging(self._staging.path) from error
        except FileChangedError as error:
            raise CommitError(f"a file that was written is another one by now: {error}", path=path) from error
        suffix = _EXTENSIONS[self._options.write.format]
        bounds = bounds_of_file(self._collector.statistics())
        return WrittenFile(self._staged, self._directory, self._task, suffix, nbytes, self.rows, crc32, bounds)

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
        return staging.storage.create(staging.file(name))
    except FileNotFoundError as error:
        raise missing_staging(staging.path) from error


def remove_staged(staging: Staging, name: str) -> None:
    """Delete a staged file, ignoring errors."""
    with suppress(OSError):  # the first error is the one to raise; the file is deleted with the job's directory
        staging.storage.delete(staging.file(name))


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
