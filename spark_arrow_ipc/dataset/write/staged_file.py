"""One staged file: how it is created, written, made durable and proven before it is reported.

Strategy
--------
A file lies in the job's staging directory, under a name of its own, and says where it shall go. It is created
exclusively and never with its directory: a task that is left over from a job which has been cleaned up finds none and
fails, instead of bringing the directory back to life. It is made durable, closed, opened again and compared with what
was written. On any error it is removed.
"""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import BinaryIO, Final

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.arrow.types import CustomMetadata, DataType
from spark_arrow_ipc.dataset.commit_log.record import STAGED_SUFFIX, StagedFile
from spark_arrow_ipc.dataset.statistics.collect import Statistics, StatisticsCollector, Which
from spark_arrow_ipc.dataset.write.staging import Staging, missing_staging
from spark_arrow_ipc.errors import CommitError, error_context
from spark_arrow_ipc.storage import failpoint
from spark_arrow_ipc.storage.byte_source import ByteSource
from spark_arrow_ipc.storage.paths import join

__all__ = [
    "SinkOptions",
    "StagedWriter",
    "column_types",
    "remove_staged",
    "tail_crc32",
]

_TAIL_NBYTES: Final = 64 << 10
"""Last bytes of a file that its checksum covers: the footer of all but very long files, and what precedes it."""

_EXTENSIONS: Final = {"file": ".arrow", "stream": ".arrows"}
"""The two extensions that Arrow registered."""


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """How files are written.

    Parameters
    ----------
    write
        Format and compression.
    record_batch_rows, record_batch_nbytes
        Most rows and about the most bytes of one record batch, before compression.
    max_file_rows, max_file_nbytes
        Most rows and bytes of one file, None for no bound. A file has at least one record batch, however long.
    custom_metadata
        Pairs for the footer of every file; a stream has none.
    statistics
        Of which columns statistics are noted in the footer; a stream has none.
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
    """One staged file from its creation to the proof that it is what was written; on any error it is removed."""

    def __init__(
        self, staging: Staging, schema: Schema, partition_id: int, directory: str, options: SinkOptions
    ) -> None:
        attempt = uuid.uuid4().hex
        self._staging = staging
        self._options = options
        self._schema = schema
        self._staged = attempt + STAGED_SUFFIX
        name = f"part-{partition_id:05d}-{attempt}{_EXTENSIONS[options.write.format]}"
        self._final = join(directory, name)
        self._blocks = 0
        self.rows = 0
        self._file = _create(staging, self._staged)
        with self._removed_on_error():
            failpoint.hit("T1.created")
            self._writer = ipc.create(self._file, schema, options.write)
            self._collector = StatisticsCollector(schema, options.statistics)
            if options.write.format == "file":
                self._writer.custom_metadata.update(options.custom_metadata)

    def takes(self, schema: Schema) -> bool:
        """Return whether batches of a schema have the types of this file."""
        return schema is self._schema or column_types(schema) == column_types(self._schema)

    def write(self, batch: RecordBatch) -> bool:
        """Append a record batch, or return False where the file would become longer than it may."""
        with self._removed_on_error():
            if not self._writer.write(batch, within=self._options.max_file_nbytes if self._blocks else None):
                return False
            self._blocks += 1
            self.rows += batch.num_rows
            self._collector.add(batch, self._writer.nbytes)
            failpoint.hit("T2.batch")
        return True

    def end(self) -> None:
        """Write the footer."""
        with self._removed_on_error():
            pair = self._collector.pair(self._writer.nbytes)
            if pair is not None:
                self._writer.custom_metadata.update([pair])
            self._writer.close()
            self._file.flush()
            failpoint.hit("T2.finished")

    def settle(self) -> StagedFile:
        """Make the file durable, close it, read it back and return what is to be reported."""
        with self._removed_on_error():
            # The file is closed inside: on NFS a full disk may be told only then, and such a file must go.
            with self._file as file:
                nbytes = file.tell()
                if self._staging.durable:
                    self._staging.storage.sync_file(file)
            reported = self._proven(nbytes)
            failpoint.hit("T2.proven")
            return reported

    def discard(self) -> None:
        """Close and remove the file."""
        with suppress(OSError):  # what could not be written is not needed
            self._file.close()
        remove_staged(self._staging, self._staged)

    def _proven(self, nbytes: int) -> StagedFile:
        """Open the file again and return its report if it is what was written."""
        path = self._staging.path(self._staged)
        source = self._staging.storage.open(path)
        try:
            crc32 = tail_crc32(source)
            _prove(source, path, nbytes, self._blocks, self.rows)
        finally:
            source.close()
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
    """Remove a staged file as far as that can be done."""
    with suppress(OSError):  # the first error is the one to tell; what stays is staged and goes with the job
        staging.storage.delete(staging.path(name))


def _prove(source: ByteSource, path: str, nbytes: int, blocks: int, rows: int) -> None:
    """Raise where the closed file is not what was written.

    The stream format has no footer: there the size and the schema are compared.
    """
    if source.nbytes != nbytes:
        raise CommitError(expected=f"a finished file of {nbytes:,} bytes", found=f"{source.nbytes:,} bytes", path=path)
    with error_context(path=path), ipc.open(source) as reader:
        if not isinstance(reader, ipc.FileReader):
            return
        read = sum(reader.read_header(i).length for i in range(len(reader)))
        if (len(reader), read) != (blocks, rows):
            raise CommitError(
                expected=f"{blocks:,} record batches of {rows:,} rows in the finished file",
                found=f"{len(reader):,} of {read:,}",
            )


def tail_crc32(source: ByteSource) -> int:
    """Return the CRC-32 of the last 64 KiB of a file, which holds the footer."""
    assert source.nbytes is not None
    start = max(0, source.nbytes - _TAIL_NBYTES)
    return zlib.crc32(source.read_at(start, source.nbytes - start))
