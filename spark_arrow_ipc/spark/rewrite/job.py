"""Run the tasks of a rewrite on Spark, and commit the files in the reports of one attempt of each.

How it works
------------
1. The driver's process plans and commits the job, by the same state machine as Spark's writer (`dataset.write`).
2. Tasks belong to an RDD with one element for each. A task decodes, applies the function, sorts, writes files with new
   names and returns a `Report`. Spark may run it twice, also at once, and returns the result of one attempt for each
   element. The commit removes the files of other attempts from the staging directory.
3. After an error or an interrupt the job is aborted: a log entry expires it where it may still commit, and its staged files are deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import types as s
from pyspark.sql.datasource import DataSourceReader, InputPartition

from spark_arrow_ipc.dataset.write import commit
from spark_arrow_ipc.dataset.write.commit import CommitSummary
from spark_arrow_ipc.dataset.write.conflicts import Fits, NewSchema
from spark_arrow_ipc.dataset.write.job_plan import JobPlan
from spark_arrow_ipc.dataset.write.staged_file import Staging, WrittenFile
from spark_arrow_ipc.dataset.write.task import TaskOutput
from spark_arrow_ipc.errors import CommitError, UnsupportedError
from spark_arrow_ipc.spark.bridge import PyArrowBatch
from spark_arrow_ipc.spark.functions.map_in_arrow import apply_function
from spark_arrow_ipc.spark.functions.user_function import OutputCheck, ShippedFunction, in_zone
from spark_arrow_ipc.spark.options.values import Nanoseconds
from spark_arrow_ipc.spark.process import short_errors, tune_worker
from spark_arrow_ipc.spark.session_settings import SESSION_ZONE, settings_for_tasks
from spark_arrow_ipc.spark.write.plan import WritePlan

if TYPE_CHECKING:
    from pyspark import SparkContext  # a client of Spark Connect alone has none


@dataclass(frozen=True, slots=True)
class Part:
    """The part of a rewrite that one task reads."""

    number: int  # from 0; part of the names of its files
    partition: InputPartition  # for the reader
    directory: str = ""  # of the written files in the table, without partition columns


@dataclass(frozen=True, slots=True)
class Report:
    """The result of one attempt of a task."""

    number: int  # of its part
    rows_read: int  # before the function
    output: TaskOutput  # the staged files


@dataclass(slots=True)
class Counted:
    """Counts the rows of batches."""

    rows: int = field(default=0)

    def batches(self, source: Iterator[PyArrowBatch]) -> Iterator[PyArrowBatch]:
        """Yield the batches of an iterator, and count their rows."""
        for batch in source:
            self.rows += batch.num_rows
            yield batch


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """The change of rows between reading and writing."""

    zone: str  # time zone of the session, for the function's timestamps and the names of partitions
    output: s.StructType  # schema of the written rows
    function: ShippedFunction | None = None  # None does not change rows
    nanoseconds: Nanoseconds = Nanoseconds.FLOOR  # the option of the read, also for the function's result

    def of(self, batches: Iterator[PyArrowBatch], counted: Counted) -> Generator[PyArrowBatch, None, None]:
        """Yield the batches to write from the batches of a read, which the caller closes."""
        rows = in_zone(counted.batches(batches), self.zone)
        if self.function is not None:
            check = OutputCheck(self.output, self.function.name, self.nanoseconds)
            # The check of the function's result converts it to UTC, for Spark's schema.
            rows = in_zone(apply_function(self.function.load(), check, rows), self.zone)
        yield from rows


@dataclass(frozen=True, slots=True)
class RewriteTask:
    """The work of all tasks of a job."""

    reader: DataSourceReader
    plan: WritePlan  # writes rows
    staging: Staging  # of the job
    changed: ChangedRows  # the rows between the two

    def run(self, part: Part) -> Report:
        """Read a part and stage its rows in a worker."""
        # Memory: a record batch of a file, its converted copy and a written record batch; with an order, twice the bytes
        # that are sorted together.
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
def abort_on_error(job: JobPlan) -> Iterator[None]:
    """Withdraw a job and remove its staged files if the body raises before the commit."""
    try:
        yield
    except BaseException:
        commit.abort(job)
        raise


def run_tasks(spark: SparkSession, task: RewriteTask, parts: Sequence[Part], words: str) -> list[Report]:
    """Run a task for each part, and return the reports in the order of the parts."""
    if not parts:
        return []
    context = context_of(spark)
    tasks = context.parallelize(parts, len(parts)).mapPartitions(_Runs(task))
    with _set_properties(context, {**settings_for_tasks(spark), SESSION_ZONE: task.changed.zone, _DESCRIPTION: words}):
        reports = tasks.collect()
    return check_reports(reports, parts, task.staging)


class _Runs:
    """Runs a task for each part of a partition of the RDD."""

    def __init__(self, task: RewriteTask) -> None:
        self._task = task

    def __call__(self, parts: Iterable[Part]) -> Iterator[Report]:
        return map(self._task.run, parts)


@contextmanager
def _set_properties(context: SparkContext, values: dict[str, str]) -> Iterator[None]:
    """Set properties of this thread's jobs, by which tasks get the session's settings, and restore them."""
    before = {name: context.getLocalProperty(name) for name in values}
    for name, value in values.items():
        context.setLocalProperty(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            context.setLocalProperty(name, value)  # None removes it


def check_reports(reports: Sequence[Report], parts: Sequence[Part], staging: Staging) -> list[Report]:
    """Return the reports in the order of the parts, or raise if one is missing."""
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
    write_empty: Callable[[], WrittenFile] | None,
    fits: Fits | None = None,
    schema: NewSchema | None = None,
) -> CommitSummary:
    """Publish the files of the reports."""
    outputs = [report.output for report in reports]
    return commit.commit(job, outputs, write_empty=write_empty, fits=fits, schema=schema)
