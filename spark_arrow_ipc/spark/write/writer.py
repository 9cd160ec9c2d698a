"""The writers of Spark: tasks stage files, and a commit publishes all files of a job or of a streaming batch.

How the streaming writer works
------------------------------
1. Spark creates a new writer for each batch, and another for its commit, in other processes, which share only the reports
   of tasks. So nothing happens before tasks run. A task learns its query and batch from Spark. Its staging directory is
   named by the query and by a number of the attempt, which the writer of the tasks has chosen.
2. The log entry of a batch names the query and the batch, and such a batch is not committed again: after a restart a query
   repeats its last batch if it does not know of the commit. Earlier attempts of the query then expire.
3. Other jobs may add columns while a query runs for months. When the writer is sent to the tasks of a batch, it reads the
   newest log entry, and tasks write the additional columns (`WritePlan.beside`); their reports have the schema.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, Self

from pyspark import TaskContext
from pyspark.sql import types as s
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.dataset.listing.hugging_face import LAYOUT
from spark_arrow_ipc.dataset.write import IfExists, WriteMode, commit
from spark_arrow_ipc.dataset.write.conflicts import Fits
from spark_arrow_ipc.dataset.write.job_plan import (
    CommitIntent,
    JobPlan,
    ReadState,
    check_kept_files,
    make_staging,
    plan_batch,
    plan_job,
)
from spark_arrow_ipc.dataset.write.staged_file import Staging, max_file_nbytes
from spark_arrow_ipc.dataset.write.task import TaskOutput
from spark_arrow_ipc.errors import ArrowIpcError, CommitError, OptionError, printable
from spark_arrow_ipc.spark.bridge import PyArrowBatch
from spark_arrow_ipc.spark.options.options import check_streamed
from spark_arrow_ipc.spark.options.values import Layout, PartitionOverwriteMode, SchemaCheck
from spark_arrow_ipc.spark.options.write_options import SparkWriteOptions
from spark_arrow_ipc.spark.process import short_errors, tune_worker
from spark_arrow_ipc.spark.session_settings import with_warning
from spark_arrow_ipc.spark.write.plan import WritePlan, plan_write
from spark_arrow_ipc.spark.write.schema_check import has_schema
from spark_arrow_ipc.storage.open import storage_of
from spark_arrow_ipc.storage.storage import Storage
from spark_arrow_ipc.table.collect import expire
from spark_arrow_ipc.table.entry import Batch
from spark_arrow_ipc.table.log import read_state
from spark_arrow_ipc.table.names import TableDirectory
from spark_arrow_ipc.table.vacuum import list_staged_jobs

_LOG: Final = logging.getLogger(__name__)

_MANY_FILES: Final = 100
_MANY_FILES_A_DIRECTORY: Final = 2
_SMALL_NBYTES: Final = 1 << 20
"""A job with this many files, more than this many in a directory on average and a median below this size warns."""


@dataclass(frozen=True)
class ArrowIpcCommitMessage(WriterCommitMessage):  # type: ignore[misc]  # PySpark is not typed for mypy's strict mode here
    """The result of one task, for the commit."""

    output: TaskOutput


class ArrowIpcBatchWriter(DataSourceArrowWriter):  # type: ignore[misc]  # as above
    """Writes one job; Spark pickles it for tasks, commit and abort."""

    def __init__(self, job: JobPlan, plan: WritePlan, schema_check: SchemaCheck = SchemaCheck.MERGE) -> None:
        self._job = job
        self._plan = plan
        self._schema_check = schema_check

    @classmethod
    def plan(
        cls,
        schema: s.StructType,
        path: str,
        options: SparkWriteOptions,
        *,
        overwrite: bool,
        read: ReadState | None = None,
        partition: str = "",
    ) -> Self:
        """Plan a new job and return its writer; `partition` is the directory that a dynamic overwrite replaces."""
        plan = plan_write(schema, options)
        job, plan = plan_batch_job(plan, path, options, overwrite=overwrite, read=read, partition=partition)
        return cls(job, plan, options.schema_check)

    @short_errors
    def write(self, iterator: Iterator[PyArrowBatch]) -> ArrowIpcCommitMessage:
        """Stage the rows of one task."""
        # The commit publishes nothing, as for a token that was committed before.
        if self._job.skip:
            return ArrowIpcCommitMessage(TaskOutput(self._job.staging.jobid))
        tune_worker()
        context = TaskContext.get()
        partition_id = context.partitionId() if context is not None else 0
        return ArrowIpcCommitMessage(self._plan.write(self._job.staging, with_warning(iterator, context), partition_id))

    @short_errors
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish the staged files: all become visible, or an error names the visible ones."""
        outputs = [message.output if isinstance(message, ArrowIpcCommitMessage) else None for message in messages]
        plan = self._plan.settle(outputs)
        commit.commit(
            self._job,
            outputs,
            write_empty=lambda: plan.write_empty(self._job.staging),
            fits=check_fit(plan, self._schema_check, self._job.staging.storage),
            schema=plan.new_schema(self._schema_check),
        )
        if not self._job.skip:
            columns = [field.name for field in self._plan.partition_fields]
            _warn_of_small_files(self._job.staging.root, outputs, columns)

    @short_errors
    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002 - Spark's signature
        """Remove the staged files, unless a commit has started to publish them."""
        commit.abort(self._job)  # Spark also calls this after a failed commit


def plan_batch_job(
    plan: WritePlan,
    path: str,
    options: SparkWriteOptions,
    *,
    overwrite: bool,
    read: ReadState | None = None,
    partition: str = "",
) -> tuple[JobPlan, WritePlan]:
    """Plan the job of a planned write: create its staging directory, and find the files that it replaces.

    `read` is the state of the table on all of whose rows the new ones depend.
    """
    storage, root = storage_of(path, options.storage)

    def check_existing(existing: Schema, path: str) -> None:
        nonlocal plan
        plan = plan.beside(existing, path, options)

    # Raises if the storage cannot take files of this size.
    max_file_nbytes(storage.traits, options.max_file_bytes)
    intent = CommitIntent(
        _choose_mode(options, overwrite=overwrite),
        if_exists=options.if_exists,
        commit_token=options.commit_token,
        partition_by=plan.partition_fields,
        partition=partition,
        retention=options.retention,
        layout=LAYOUT if options.layout is Layout.HUGGINGFACE else "",
        reads_all=read is not None,
    )
    job = plan_job(
        root,
        intent,
        storage=storage,
        read=read,
        check_existing=check_existing,
        takes_any=options.schema_check is SchemaCheck.NONE,
    )
    return job, plan


def check_fit(plan: WritePlan, check: SchemaCheck, storage: Storage) -> Fits:
    """Return a callback that returns True if a file that others add meanwhile fits the new files."""
    return lambda file: has_schema(file, plan.file_schema, check, storage, plan.has_encodings)


def _choose_mode(options: SparkWriteOptions, *, overwrite: bool) -> WriteMode:
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
    if not overwrite and options.layout is Layout.HUGGINGFACE and options.if_exists is IfExists.APPEND:
        raise OptionError(
            "layout=huggingface names all files in one state.json, and mode append would keep others beside them; use mode "
            "overwrite, or ifExists=error for a directory that is new"
        )
    if not overwrite:
        return WriteMode.APPEND
    return WriteMode.DYNAMIC if dynamic else WriteMode.OVERWRITE


def _warn_of_small_files(root: str, outputs: Sequence[TaskOutput | None], partition_by: Sequence[str]) -> None:
    """Warn that a job wrote many small files, with advice for fewer."""
    files = [file for output in outputs if output is not None for file in output.files]
    directories = len({file.directory for file in files})
    if len(files) < _MANY_FILES or len(files) <= _MANY_FILES_A_DIRECTORY * directories:
        return
    # By the median, as some large files do not help the many small ones.
    if sorted(file.nbytes for file in files)[len(files) // 2] >= _SMALL_NBYTES:
        return
    # Without partitions, for files of 128 MiB.
    by = ", ".join(f'"{name}"' for name in partition_by) or f"{max(1, sum(f.nbytes for f in files) >> 27)}"
    _LOG.warning(
        "%s: this job wrote %s files of %s bytes on average into %s director%s, and each read opens all of them: call "
        "repartition(%s) before the write for fewer files, or compact(spark, path) to join those that are there",
        printable(root), f"{len(files):,}", f"{sum(file.nbytes for file in files) // len(files):,}", f"{directories:,}",
        "y" if directories == 1 else "ies", printable(by),
    )  # fmt: skip


_QUERY: Final = "sql.streaming.queryId"
_BATCH: Final = "streaming.sql.batchId"
"""Local properties of a task of a streaming query."""

_HALF_ID: Final = 16
"""Hexadecimal digits of a job's id for the query; as many follow for the attempt."""


@dataclass(frozen=True)
class ArrowIpcStreamMessage(WriterCommitMessage):  # type: ignore[misc]  # PySpark is not typed for mypy's strict mode here
    """The result of one task of a streaming batch."""

    output: TaskOutput
    batch: Batch
    grown: s.StructType | None = None
    """The written columns, if the query has fewer columns or narrower types."""
    is_new: bool = False
    """True if the batch certainly runs for the first time, False if an earlier attempt may have committed it."""


class ArrowIpcStreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]  # as above
    """Writes each batch of a streaming query exactly once into a directory."""

    def __init__(self, directory: TableDirectory, plan: WritePlan, options: SparkWriteOptions, mode: WriteMode) -> None:
        self._directory = directory
        self._plan = plan
        self._options = options
        self._mode = mode
        self._attempt = uuid.uuid4().hex[:_HALF_ID]
        self._tasks_plan: WritePlan | None = None

    @classmethod
    def plan(cls, schema: s.StructType, path: str, options: SparkWriteOptions, *, overwrite: bool) -> Self:
        """Return a writer without access to the storage."""
        # Spark calls this several times for each batch.
        check_streamed(options)
        plan = plan_write(schema, options)
        mode = WriteMode.OVERWRITE if overwrite else WriteMode.APPEND
        storage, root = storage_of(path, options.storage)
        storage.check_takes_changes(root)
        max_file_nbytes(storage.traits, options.max_file_bytes)
        return cls(TableDirectory(storage, root), plan, options, mode)

    def __getstate__(self) -> dict[str, Any]:
        """Return the writer for the tasks of a batch, the only one that Spark pickles."""

        def check_existing(existing: Schema, path: str) -> None:
            self._tasks_plan = self._plan.beside(existing, path, self._options)

        if self._tasks_plan is None:
            self._tasks_plan = self._plan
            with suppress(ArrowIpcError, OSError):  # the commit checks again, and raises
                if self._mode is WriteMode.APPEND:
                    check_kept_files(
                        self._directory,
                        read_state(self._directory),
                        self._plan.partition_fields,
                        check_existing,
                        takes_any=self._options.schema_check is SchemaCheck.NONE,
                    )
        return self.__dict__

    @short_errors
    def write(self, iterator: Iterator[PyArrowBatch]) -> ArrowIpcStreamMessage:
        """Stage the rows of one task."""
        tune_worker()
        context = TaskContext.get()
        query, number = (None, None) if context is None else map(context.getLocalProperty, (_QUERY, _BATCH))
        if context is None or query is None or number is None:
            raise CommitError(
                "this task is of no streaming query that Spark names, so that a batch could be written twice; write with "
                "foreachBatch and the option commitToken"
            )
        # The id of a job has 32 hexadecimal digits: half are for the query, half for the attempt.
        staging = self._staging(blake2b(query.encode(), digest_size=_HALF_ID // 2).hexdigest() + self._attempt)
        make_staging(staging)
        plan = self._tasks_plan or self._plan
        grown = None if plan.columns.source is None else plan.schema
        return ArrowIpcStreamMessage(
            plan.write(staging, iterator, context.partitionId()), Batch(query, int(number)), grown
        )

    @short_errors
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's signature
        """Publish the files of a batch, unless it was committed before."""
        reported = [message for message in messages if isinstance(message, ArrowIpcStreamMessage)]
        if not reported:  # a batch without any task
            return
        first = reported[0]
        ours = {(message.output.jobid, message.batch) for message in reported}
        # Rows of two attempts would be written twice.
        if len(ours) > 1 or first.batch.number != batchId:
            raise CommitError(
                expected=f"reports of one attempt of batch {batchId}",
                found=", ".join(f"batch {batch.number} of the attempt {jobid}" for jobid, batch in sorted(ours)),
                path=self._directory.root,
            )
        staging = self._staging(first.output.jobid)
        check = self._options.schema_check
        plan = self._plan if first.grown is None else plan_write(first.grown, self._options)
        outputs = [message.output if isinstance(message, ArrowIpcStreamMessage) else None for message in messages]
        plan = plan.settle(outputs)
        # A batch without rows adds no file, unless it is the first one.
        schema = plan.new_schema(check, adds_files=any(output is not None and output.files for output in outputs))

        def check_existing(existing: Schema, path: str) -> None:
            schema.beside(existing, path)  # raises if the batch may not lack columns that others added

        intent = CommitIntent(
            self._mode,
            partition_by=plan.partition_fields,
            retention=self._options.retention,
            query=first.batch,
            is_new_batch=first.is_new,
        )
        job = plan_batch(staging, intent, check_existing=None if check is SchemaCheck.NONE else check_existing)
        commit.commit(
            job,
            outputs,
            write_empty=lambda: plan.write_empty(staging),
            fits=check_fit(plan, check, staging.storage),
            schema=schema,
        )
        self._expire_earlier_attempts(staging)

    @short_errors
    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803 - as above
        """Remove the staged files of an attempt that is not committed."""
        # Without a report the attempt is unknown, and the commit of the next batch expires it.
        for jobid in {message.output.jobid for message in messages if isinstance(message, ArrowIpcStreamMessage)}:
            commit.abort(JobPlan.of_staging(self._staging(jobid)))

    def _staging(self, jobid: str) -> Staging:
        return Staging(self._directory, jobid)

    def _expire_earlier_attempts(self, staging: Staging) -> None:
        """Expire all other jobs of the query, which runs one batch at a time."""
        of_query = staging.jobid[:_HALF_ID]  # equal in all attempts of the query
        earlier = [
            jobid
            for jobid in list_staged_jobs(self._directory)
            if jobid.startswith(of_query) and jobid != staging.jobid
        ]
        state = read_state(self._directory) if earlier else None
        if state is not None:
            expire(self._directory, state.table, earlier)
