"""Run the tasks of a rewrite on Spark, and commit what one attempt of each reported.

The driver's process plans the job and commits it, by the same state machine as Spark's writer (`dataset.write`); tasks are
those of an RDD with one element each, so that only reports come back. Spark returns one result for each element,
whatever it runs twice: that is the choice among attempts, for which a writer of Spark's has a commit coordinator. If
anything fails, or the person interrupts it, the job is aborted: it is withdrawn by a record, and its staged files go.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Final

from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import types as s
from pyspark.sql.datasource import DataSourceReader, InputPartition

from spark_arrow_ipc.dataset.commit_log.dataset_directory import StagedFile
from spark_arrow_ipc.dataset.write import commit
from spark_arrow_ipc.dataset.write.conflicts import Fits, NewSchema
from spark_arrow_ipc.dataset.write.job_plan import JobPlan
from spark_arrow_ipc.dataset.write.roll_forward import CommitSummary
from spark_arrow_ipc.dataset.write.staged_file import Staging
from spark_arrow_ipc.dataset.write.task import TaskOutput
from spark_arrow_ipc.errors import CommitError, UnsupportedError
from spark_arrow_ipc.spark.bridge import PyArrowBatch
from spark_arrow_ipc.spark.functions.map_in_arrow import apply_function
from spark_arrow_ipc.spark.functions.user_function import OutputCheck, ShippedFunction, in_zone
from spark_arrow_ipc.spark.options.values import Nanoseconds
from spark_arrow_ipc.spark.process import short_errors, tune_worker
from spark_arrow_ipc.spark.session_settings import SESSION_ZONE, settings_for_tasks
from spark_arrow_ipc.spark.write.plan import WritePlan


# What a worker does for one partition of a rewrite: decode, apply the function, sort, write, report.
#
# A `RewriteTask` holds frozen values, and is sent to the workers as any function of Spark's. Each call makes files
# with names of their own and returns a `Report` of them. Spark may call it twice for a partition, one after the other
# or at once; the driver gets the report of one call alone, and commits the files that are in it. Those of the others
# stay in the job's staging directory, which the commit removes, as it removes what failed attempts leave.
@dataclass(frozen=True, slots=True)
class Part:
    """The part of a rewrite that one task reads."""

    number: int  # from 0; part of the names of its files
    partition: InputPartition  # what the reader reads
    directory: str = ""  # where its files shall lie in the dataset, unless there are partition columns


@dataclass(frozen=True, slots=True)
class Report:
    """The result of one attempt of a task."""

    number: int  # of its part
    rows_read: int  # before the function
    output: TaskOutput  # the files that it staged


@dataclass(slots=True)
class Counted:
    """Counts the rows of batches that pass."""

    rows: int = field(default=0)

    def batches(self, source: Iterator[PyArrowBatch]) -> Iterator[PyArrowBatch]:
        """Yield the batches of an iterator, and count their rows."""
        for batch in source:
            self.rows += batch.num_rows
            yield batch


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """The change that tasks make to the rows that they read."""

    zone: str  # the session's: that of the function's timestamps, and of those in the names of partitions
    output: s.StructType  # schema of the rows that are written
    function: ShippedFunction | None = None  # None leaves the rows
    nanoseconds: Nanoseconds = Nanoseconds.FLOOR  # the option of the read, which holds for what the function makes

    def of(self, batches: Iterator[PyArrowBatch], counted: Counted) -> Generator[PyArrowBatch, None, None]:
        """Yield the batches that are written, of those that are read; the caller closes these."""
        rows = in_zone(counted.batches(batches), self.zone)
        if self.function is not None:
            check = OutputCheck(self.output, self.function.name, self.nanoseconds)
            # What the function yields is in UTC again, as it is checked against a schema of Spark's.
            rows = in_zone(apply_function(self.function.load(), check, rows), self.zone)
        yield from rows


@dataclass(frozen=True, slots=True)
class RewriteTask:
    """The same for all tasks of a job."""

    reader: DataSourceReader
    plan: WritePlan  # writes rows
    staging: Staging  # of the job
    changed: ChangedRows  # the rows between the two

    def run(self, part: Part) -> Report:
        """Read a part and stage its rows, in a worker. A part without rows stages nothing.

        Memory: one record batch of a file, its converted copy, what the function holds, and what makes up one record batch
        of a written file; with an order, twice the bytes that are sorted together.
        """
        tune_worker()
        counted = Counted()
        with (
            short_errors,
            closing(self.reader.read(part.partition)) as batches,
            closing(self.changed.of(batches, counted)) as rows,
        ):
            output = self.plan.write(self.staging, rows, part.number, part.directory)
        return Report(part.number, counted.rows, output)


_DESCRIPTION: Final = "spark.job.description"


def context_of(spark: SparkSession) -> SparkContext:
    """Return the context of a classic session."""
    try:
        return spark.sparkContext
    except PySparkException as error:
        raise UnsupportedError(
            "what is written is committed in the driver's process, and a client of Spark Connect is none; run it by "
            'spark-submit, or use read or readStream, and write or writeStream, with format("arrowipc")'
        ) from error


@contextmanager
def abort_on_error(staging: Staging) -> Iterator[None]:
    """Withdraw a job and remove its staged files if the body raises, unless it is committed by then."""
    try:
        yield
    except BaseException:
        commit.abort(staging)
        raise


def run_tasks(spark: SparkSession, task: RewriteTask, parts: Sequence[Part], words: str) -> list[Report]:
    """Run a task for each part, and return the report of one attempt of each, in the order of the parts."""
    if not parts:
        return []
    context = context_of(spark)
    tasks = context.parallelize(parts, len(parts)).mapPartitions(_Runs(task))
    with _properties(context, {**settings_for_tasks(spark), SESSION_ZONE: task.changed.zone, _DESCRIPTION: words}):
        reports = tasks.collect()
    return check_reports(reports, parts, task.staging)


class _Runs:
    """Runs a task for each part of a partition of the RDD."""

    def __init__(self, task: RewriteTask) -> None:
        self._task = task

    def __call__(self, parts: Iterable[Part]) -> Iterator[Report]:
        return map(self._task.run, parts)


@contextmanager
def _properties(context: SparkContext, values: dict[str, str]) -> Iterator[None]:
    """Set properties of this thread's jobs, and set them back: tasks learn the session's settings by them."""
    before = {name: context.getLocalProperty(name) for name in values}
    for name, value in values.items():
        context.setLocalProperty(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            context.setLocalProperty(name, value)  # None removes it


def check_reports(reports: Sequence[Report], parts: Sequence[Part], staging: Staging) -> list[Report]:
    """Return the reports in the order of the parts, one of each."""
    by_number = {report.number: report for report in reports}
    if len(reports) != len(parts) or set(by_number) != {part.number for part in parts}:
        raise CommitError(
            expected=f"one report of each of {len(parts)} tasks",
            found=f"{len(reports)} of {len(by_number)}; nothing is published",
            path=staging.root,
        )
    return [by_number[part.number] for part in parts]


def commit_reports(
    job: JobPlan,
    reports: Sequence[Report],
    *,
    write_empty: Callable[[], StagedFile] | None,
    fits: Fits | None = None,
    schema: NewSchema | None = None,
) -> CommitSummary:
    """Publish the files of the reports; parameters and errors as for `commit.commit`."""
    outputs = [report.output for report in reports]
    return commit.commit(job, outputs, write_empty=write_empty, fits=fits, schema=schema)
