"""The batch writer: tasks stage files, the commit publishes all of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from pyspark import TaskContext
from pyspark.sql import types as s
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.dataset.write import commit
from spark_arrow_ipc.dataset.write.conflicts import Fits
from spark_arrow_ipc.dataset.write.job_plan import CommitIntent, JobPlan, plan_job
from spark_arrow_ipc.dataset.write.modes import IfExists, WriteMode
from spark_arrow_ipc.dataset.write.publisher import max_file_nbytes
from spark_arrow_ipc.dataset.write.task import TaskOutput
from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.spark.arrow_batch_bytes import with_warning
from spark_arrow_ipc.spark.bridge import PyArrowBatch
from spark_arrow_ipc.spark.options.enums import Durability, PartitionOverwriteMode, SchemaCheck
from spark_arrow_ipc.spark.options.options import SparkWriteOptions
from spark_arrow_ipc.spark.process import short_errors
from spark_arrow_ipc.spark.worker_tuning import tune_worker
from spark_arrow_ipc.spark.write.plan import WritePlan, plan_write
from spark_arrow_ipc.spark.write.schema_check import has_schema
from spark_arrow_ipc.storage.open import storage_of
from spark_arrow_ipc.storage.storage import Storage


@dataclass(frozen=True)
class ArrowIpcCommitMessage(WriterCommitMessage):  # type: ignore[misc]  # PySpark is not typed for mypy's strict mode here
    """The result of one task, for the commit."""

    output: TaskOutput


class ArrowIpcBatchWriter(DataSourceArrowWriter):  # type: ignore[misc]  # as above
    """Writes one job. Spark pickles one object for its tasks, its commit and its abort.

    Parameters
    ----------
    job
        The planned job.
    plan
        The columns and files that tasks write.
    schema_check
        What files that others add meanwhile must have.
    """

    def __init__(self, job: JobPlan, plan: WritePlan, schema_check: SchemaCheck = SchemaCheck.MERGE) -> None:
        self._job = job
        self._plan = plan
        self._schema_check = schema_check

    @classmethod
    def plan(cls, schema: s.StructType, path: str, options: SparkWriteOptions, *, overwrite: bool) -> Self:
        """Plan a new job and return its writer.

        Raises
        ------
        UnsupportedError
            A column's type cannot be written, or the path's scheme.
        OptionError
            The path is a file, options do not fit each other or the columns, or the partition columns differ from
            those of the files that are kept.
        SchemaMismatchError
            The columns do not fit beside those files.
        """
        job, plan = plan_batch_job(plan_write(schema, options), path, options, overwrite=overwrite)
        return cls(job, plan, options.schema_check)

    @short_errors
    def write(self, iterator: Iterator[PyArrowBatch]) -> ArrowIpcCommitMessage:
        """Stage the rows of one task. A task without rows stages nothing."""
        if self._job.skip:
            return ArrowIpcCommitMessage(TaskOutput(self._job.staging.jobid))
        tune_worker()
        context = TaskContext.get()
        partition_id = context.partitionId() if context is not None else 0
        return ArrowIpcCommitMessage(self._plan.write(self._job.staging, with_warning(iterator, context), partition_id))

    @short_errors
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish the staged files: all become visible, or an error names those that did."""
        commit.commit(
            self._job,
            _outputs(messages),
            write_empty=lambda: self._plan.write_empty(self._job.staging),
            fits=fits_beside(self._plan, self._schema_check, self._job.staging.storage),
            schema=self._plan.new_schema(self._schema_check),
        )

    @short_errors
    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002 - Spark's signature
        """Remove the staged files, unless a commit has begun to publish them.

        Spark also calls this after a failed commit.
        """
        commit.abort(self._job.staging)


def plan_batch_job(
    plan: WritePlan, path: str, options: SparkWriteOptions, *, overwrite: bool
) -> tuple[JobPlan, WritePlan]:
    """Plan the job of a write whose columns are planned: make its staging directory, note what it replaces.

    Returns
    -------
    tuple
        The job, and the plan by which its tasks write beside the files that it keeps (`WritePlan.beside`).

    Raises
    ------
    OptionError, SchemaMismatchError, UnsupportedError, CommitError, OSError
        As `plan_job`, or options do not fit each other.
    """
    storage, root = storage_of(path, options.storage)

    def check_existing(there: Schema, path: str) -> None:
        nonlocal plan
        plan = plan.beside(there, path, options)

    max_file_nbytes(storage.traits, options.max_file_bytes)
    intent = CommitIntent(
        _mode(options, overwrite=overwrite),
        if_exists=options.if_exists,
        commit_token=options.commit_token,
        partition_by=plan.partition_fields,
        keep_replaced=options.keep_replaced,
        commit_retention=options.commit_retention,
    )
    job = plan_job(
        root,
        intent,
        durable=options.durability is Durability.FSYNC,
        storage=storage,
        check_existing=None if options.schema_check is SchemaCheck.NONE else check_existing,
    )
    return job, plan


def fits_beside(plan: WritePlan, check: SchemaCheck, storage: Storage) -> Fits:
    """Return a callback that says whether a file that others add meanwhile may stay beside the new ones."""
    return lambda file: has_schema(file, plan.file_schema, check, storage)


def _mode(options: SparkWriteOptions, *, overwrite: bool) -> WriteMode:
    dynamic = options.partition_overwrite_mode is PartitionOverwriteMode.DYNAMIC
    if overwrite and options.if_exists is not IfExists.APPEND:
        raise OptionError(
            f"ifExists={options.if_exists} asks that nothing is replaced, and mode overwrite replaces; "
            "use mode append with it"
        )
    if dynamic and not overwrite:
        raise OptionError("partitionOverwriteMode=dynamic has no meaning with mode append; use mode overwrite")
    if dynamic and not options.partition_by:
        raise OptionError("partitionOverwriteMode=dynamic replaces partitions; name their columns with partitionBy")
    if not overwrite:
        return WriteMode.APPEND
    return WriteMode.DYNAMIC if dynamic else WriteMode.OVERWRITE


def _outputs(messages: list[WriterCommitMessage | None]) -> list[TaskOutput | None]:
    return [message.output if isinstance(message, ArrowIpcCommitMessage) else None for message in messages]
