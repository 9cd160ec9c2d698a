"""What stays beside the new files of a job, looked at when its record is made: how it lies, and what a read has of both.

Strategy
--------
A job is planned against the files of one moment, and others commit before it does. So whenever a record is to be made, after
each lost race for its number anew, the newest record says what is there by then: the new files must have the same partition
columns, and their schema must fit that of the data set. Where others have added columns that may be null, or wider types,
nothing of the job has to change: its record says that reads have both (`recorded_schema`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.dataset.commit_log.record import Record
from spark_arrow_ipc.dataset.commit_log.recorded_files import StagedFile
from spark_arrow_ipc.dataset.commit_log.recorded_schema import encode_schema
from spark_arrow_ipc.dataset.write.existing_files import check_partition_columns_there, existing_file, existing_schema
from spark_arrow_ipc.dataset.write.job_plan import JobPlan
from spark_arrow_ipc.dataset.write.live_files import LiveFile
from spark_arrow_ipc.dataset.write.modes import WriteMode
from spark_arrow_ipc.errors import ConcurrentWriteError, OptionError, SchemaMismatchError


@dataclass(frozen=True, slots=True)
class NewSchema:
    """The schema of a job's files, and how it goes with that of others.

    Parameters
    ----------
    files
        Of files with rows: without partition columns.
    placeholder
        Of a file without rows, which lies in no partition.
    beside
        Returns the schema that a read has of the new files and of those that stay, from the schema of the latter and a
        path for errors. Raises SchemaMismatchError if they do not fit.
    """

    files: Schema
    placeholder: Schema
    beside: Callable[[Schema, str], Schema]


@dataclass(frozen=True, slots=True)
class Beside:
    """What the record of a job says of it and of the files that stay.

    Parameters
    ----------
    placeholder
        The file without rows that a partitioned job replaces, or None.
    schema
        The text for the record; None if that of the record before it stays.
    """

    placeholder: LiveFile | None = None
    schema: str | None = None


def look_beside(
    job: JobPlan,
    adds: Sequence[StagedFile],
    before: Record | None,
    new: NewSchema | None,
    *,
    is_placeholder: bool = False,
) -> Beside:
    """Look at the files that stay beside new ones. At most two calls of the storage, if the newest record names files.

    Parameters
    ----------
    job
        The plan of the write.
    adds
        The new files.
    before
        The newest record, which is done.
    new
        The schema of the new files; None if reads have that of the record before (a copy), or of the newest file.
    is_placeholder
        Whether the only new file is one without rows, that stands for the schema.

    Raises
    ------
    ConcurrentWriteError
        Others were faster, and the new files do not fit beside theirs.
    CommitError
        The schema is too large for a record.
    """
    intent, dataset = job.intent, job.staging.dataset
    if not adds:
        return Beside()
    keeps = intent.mode is not WriteMode.OVERWRITE and (intent.partition_by is not None or new is not None)
    existing = existing_file(dataset, before) if keeps else None
    try:
        replaced = None
        if intent.partition_by is not None and existing is not None:
            replaced = check_partition_columns_there(existing, intent.partition_by, dataset)
        placeholder = None if replaced is None else replaced.as_live_file()
        if new is None:
            return Beside(placeholder)
        schema = new.placeholder if is_placeholder else new.files
        there = None if existing is None or replaced is not None else existing_schema(existing, dataset, before)
        if there is not None:
            schema = new.beside(there.schema, there.path)
    except (OptionError, SchemaMismatchError) as error:
        raise ConcurrentWriteError(f"another writer was faster: {error.message}", path=dataset.root) from error
    return Beside(placeholder, encode_schema(schema, dataset.root))
