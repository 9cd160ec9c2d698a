"""`StagedWriter`: write, sync and verify one staged file.

A staged file has a unique name in the job's staging directory; its report names its final path. It is created
exclusively, and its directory is never made: a task that is left over from a job that has ended fails, instead of
making the directory again. The file is made durable, closed, opened again and compared with what was written. On any
error it is deleted.
"""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import BinaryIO, Final

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.arrow.types import CustomMetadata, DataType
from spark_arrow_ipc.dataset.commit_log.recorded_files import STAGED_SUFFIX, StagedFile
from spark_arrow_ipc.dataset.statistics.collect import StatisticsCollector
from spark_arrow_ipc.dataset.statistics.which import Statistics, Which
from spark_arrow_ipc.dataset.write.publisher import max_file_nbytes
from spark_arrow_ipc.dataset.write.staging import Staging, missing_staging
from spark_arrow_ipc.errors import CommitError, FileChangedError, error_context
from spark_arrow_ipc.storage import failpoint
from spark_arrow_ipc.storage.byte_source import ByteSource
from spark_arrow_ipc.storage.paths import join
from spark_arrow_ipc.storage.storage import Kind, Status, discard

_TAIL_NBYTES: Final = 64 << 10
"""Number of bytes at the end of a file that its checksum covers; they include the footer, unless it is longer."""

_EXTENSIONS: Final = {"file": ".arrow", "stream": ".arrows"}
"""The file extensions that Arrow registered, by format."""


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Options of the files that a task writes.

    Parameters
    ----------
    write
        Format and compression.
    record_batch_rows, record_batch_nbytes
        Maximum number of rows, and approximate maximum size, of a record batch before compression.
    max_file_rows, max_file_nbytes
        Maximum number of rows and bytes of a file, None for no limit of ours (`max_file_nbytes`). A file has at least one
        record batch.
    custom_metadata
        Pairs for the footer of every file; a stream has no footer.
    statistics
        Columns with statistics in the footer; a stream has no footer.
    """

    write: ipc.WriteOptions = field(default_factory=ipc.WriteOptions)
    record_batch_rows: int = 65_536
    record_batch_nbytes: int = 64 << 20
    max_file_rows: int | None = None
    max_file_nbytes: int | None = None
    custom_metadata: CustomMetadata = ()
    statistics: Which = Statistics.NONE


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
            with closing(storage.open(path, known=known)) as source:
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
