"""Writing a task's record batches into one staged file, proven before it is reported.

Strategy
--------
A task writes into the job's staging directory, under a name of its own, and says in what it returns where the file
shall go. It never creates a directory: a task that is left over from a job which has been cleaned up finds none and
fails, instead of bringing the directory back to life. The file is created exclusively, made durable, closed, opened
again and compared with what was written; only then is it reported. On any error it is removed.

Nothing written here is visible to a reader. Publishing is the commit's work, in another process and perhaps never:
of two attempts at one task both may finish their file, and only one of them is heard.
"""

from __future__ import annotations

import os
import uuid
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import BinaryIO, Final

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.arrow.slicing import rechunk
from spark_arrow_ipc.dataset.filesystem import status, sync_file
from spark_arrow_ipc.dataset.listing import STAGED_SUFFIX, STAGING_DIRECTORY
from spark_arrow_ipc.errors import CommitError, error_context

__all__ = ["SinkOptions", "StagedFile", "Staging", "TaskOutput", "tail_crc32", "write_empty", "write_task"]

_TAIL_NBYTES: Final = 64 << 10
"""Last bytes of a file that its checksum covers: the footer of all but very long files, and what precedes it."""

_BUFFER_NBYTES: Final = 1 << 20
"""Small buffers are gathered to writes of this size; larger ones go to the file system as they are."""

_EXTENSIONS: Final = {"file": ".arrow", "stream": ".arrows"}
"""The two extensions that Arrow registered."""


@dataclass(frozen=True, slots=True)
class Staging:
    """Where the tasks of one job keep their files until the job commits.

    Parameters
    ----------
    root
        Absolute path of the dataset's directory.
    jobid
        Names the job among all others, for ever.
    durable
        Whether files are made durable (``fsync``) before they are reported.
    """

    root: str
    jobid: str
    durable: bool = True

    @property
    def directory(self) -> str:
        """The job's staging directory."""
        return os.path.join(self.root, STAGING_DIRECTORY, self.jobid)

    def path(self, name: str) -> str:
        """Return the path of a staged file."""
        return os.path.join(self.directory, name)


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A finished file that waits for the commit.

    Parameters
    ----------
    staged
        Its name in the staging directory.
    final
        Its path inside the dataset's directory once it is published.
    nbytes, rows
        Its size and its rows.
    crc32
        `tail_crc32` of it.
    """

    staged: str
    final: str
    nbytes: int
    rows: int
    crc32: int

    def __reduce__(self) -> tuple[type[StagedFile], tuple[str, str, int, int, int]]:
        # A driver collects one for every task.
        return StagedFile, (self.staged, self.final, self.nbytes, self.rows, self.crc32)


@dataclass(frozen=True, slots=True)
class TaskOutput:
    """What one task tells the commit: the files that it wrote, none where it had no rows."""

    jobid: str
    files: tuple[StagedFile, ...] = ()


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """How files are written.

    Parameters
    ----------
    write
        Format and compression.
    record_batch_rows, record_batch_nbytes
        Most rows and about the most bytes of one record batch, before compression.
    """

    write: ipc.WriteOptions = field(default_factory=ipc.WriteOptions)
    record_batch_rows: int = 65_536
    record_batch_nbytes: int = 64 << 20


def write_task(
    staging: Staging,
    batches: Iterable[RecordBatch],
    schema: Schema,
    *,
    partition_id: int,
    options: SinkOptions | None = None,
) -> TaskOutput:
    """Write a task's rows into one staged file and return what the commit needs to know.

    Memory: the batches that make up one record batch of the file.

    Parameters
    ----------
    staging
        The job's, as `plan_job` made it.
    batches
        Rows in any portions; they are cut and joined to record batches of the size that `options` ask for.
    schema
        Schema of the file.
    partition_id
        Number of the task, for the file's name.
    options
        Format, compression and size of record batches.

    Raises
    ------
    CommitError
        The staging directory is not there, or the finished file is not what was written.
    OSError
        The file system refuses (disk full, no permission); nothing is left behind.
    """
    how = options or SinkOptions()
    filled = (batch for batch in batches if batch.num_rows)
    first = next(filled, None)
    if first is None:
        return TaskOutput(staging.jobid)
    portions = rechunk(chain([first], filled), rows=how.record_batch_rows, nbytes=how.record_batch_nbytes)
    return TaskOutput(staging.jobid, (_write_staged(staging, portions, schema, partition_id, how),))


def write_empty(staging: Staging, schema: Schema, *, options: SinkOptions | None = None) -> StagedFile:
    """Write a staged file without rows that carries the schema, for a job whose tasks all had none.

    Raises
    ------
    CommitError, OSError
        As `write_task`.
    """
    return _write_staged(staging, (), schema, 0, options or SinkOptions())


def _write_staged(
    staging: Staging, batches: Iterable[RecordBatch], schema: Schema, partition_id: int, how: SinkOptions
) -> StagedFile:
    attempt = uuid.uuid4().hex
    staged = attempt + STAGED_SUFFIX
    path = staging.path(staged)
    blocks = rows = 0
    with _created(path) as file:
        with ipc.create(file, schema, how.write) as writer:
            for batch in batches:
                writer.write(batch)
                blocks += 1
                rows += batch.num_rows
        file.flush()
        nbytes = file.tell()
        if staging.durable:
            sync_file(file.fileno())
    with _removed_on_error(path):
        _prove(path, nbytes, blocks, rows)
        final = f"part-{partition_id:05d}-{attempt}{_EXTENSIONS[how.write.format]}"
        return StagedFile(staged, final, nbytes, rows, tail_crc32(path))


@contextmanager
def _created(path: str) -> Iterator[BinaryIO]:
    """Create a file exclusively; leaving by an exception removes it."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except FileNotFoundError as error:
        raise CommitError(
            "the job's staging directory is not there: either the path is not shared between the driver and the "
            "executors (give a path that every machine sees), or the job ended before this attempt of the task began",
            path=os.path.dirname(path),
        ) from error
    # The file is closed inside: on NFS a full disk may be told only then, and such a file must go.
    with _removed_on_error(path), os.fdopen(descriptor, "wb", buffering=_BUFFER_NBYTES) as file:
        yield file


@contextmanager
def _removed_on_error(path: str) -> Iterator[None]:
    try:
        yield
    except BaseException:
        with suppress(OSError):  # the first error is the one to tell; what stays is staged and goes with the job
            os.unlink(path)
        raise


def _prove(path: str, nbytes: int, blocks: int, rows: int) -> None:
    """Raise where the closed file is not what was written.

    The stream format has no footer: there the size and the schema are compared.
    """
    found = status(path)
    if found is None or found.nbytes != nbytes:
        size = "none" if found is None else f"{found.nbytes:,} bytes"
        raise CommitError(expected=f"a finished file of {nbytes:,} bytes", found=size, path=path)
    with error_context(path=path), ipc.open(path) as reader:
        if not isinstance(reader, ipc.FileReader):
            return
        read = sum(reader.read_header(i).length for i in range(len(reader)))
        if (len(reader), read) != (blocks, rows):
            raise CommitError(
                expected=f"{blocks:,} record batches of {rows:,} rows in the finished file",
                found=f"{len(reader):,} of {read:,}",
            )


def tail_crc32(path: str) -> int:
    """Return the CRC-32 of the last 64 KiB of a file, which holds the footer.

    Raises
    ------
    OSError
        The file cannot be read.
    """
    with open(path, "rb", buffering=0) as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_NBYTES))
        return zlib.crc32(file.read(_TAIL_NBYTES) or b"")
