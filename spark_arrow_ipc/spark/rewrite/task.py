"""What a worker does for one partition of a rewrite: decode, apply the function, sort, write, report.

Strategy
--------
A `RewriteTask` holds frozen values, and is sent to the workers as any function of Spark's. Each call makes files with names
of their own and returns a `Report` of them. Spark may call it twice for a partition, one after the other or at once; the
driver gets the report of one call alone, and commits the files that are in it. Those of the others stay in the job's
staging directory, which the commit removes, as it removes what failed attempts leave.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field

from pyspark.sql import types as s
from pyspark.sql.datasource import DataSourceReader, InputPartition

from spark_arrow_ipc.dataset.write.staging import Staging
from spark_arrow_ipc.dataset.write.task import TaskOutput
from spark_arrow_ipc.spark.bridge import PyArrowBatch
from spark_arrow_ipc.spark.functions.checked_output import OutputCheck
from spark_arrow_ipc.spark.functions.mapped_source import applied
from spark_arrow_ipc.spark.functions.session_zone import in_zone
from spark_arrow_ipc.spark.functions.shipped_function import ShippedFunction
from spark_arrow_ipc.spark.options.enums import Nanoseconds
from spark_arrow_ipc.spark.process import short_errors
from spark_arrow_ipc.spark.worker_tuning import tune_worker
from spark_arrow_ipc.spark.write.plan import WritePlan


@dataclass(frozen=True, slots=True)
class Part:
    """What one task reads.

    Parameters
    ----------
    number
        From 0; part of the names of its files.
    partition
        What the reader reads.
    directory
        Where its files shall lie in the dataset, unless there are partition columns.
    """

    number: int
    partition: InputPartition
    directory: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """The result of one attempt of a task.

    Parameters
    ----------
    number
        Of its part.
    rows_read
        Rows before the function.
    output
        The files that it staged.
    """

    number: int
    rows_read: int
    output: TaskOutput


@dataclass(slots=True)
class _Counted:
    """Counts the rows of batches that pass."""

    rows: int = field(default=0)

    def batches(self, source: Iterator[PyArrowBatch]) -> Iterator[PyArrowBatch]:
        for batch in source:
            self.rows += batch.num_rows
            yield batch


@dataclass(frozen=True, slots=True)
class RewriteTask:
    """The same for all tasks of a job.

    Parameters
    ----------
    reader
        Reads parts.
    plan
        Writes rows.
    staging
        Of the job.
    zone
        The session's time zone: that of the function's timestamps, and of those in the names of partitions.
    output
        The schema of the rows that are written.
    function
        Changes the rows; None to leave them.
    nanoseconds
        The option of the read, which holds for what the function makes.
    """

    reader: DataSourceReader
    plan: WritePlan
    staging: Staging
    zone: str
    output: s.StructType
    function: ShippedFunction | None = None
    nanoseconds: Nanoseconds = Nanoseconds.FLOOR

    def run(self, part: Part) -> Report:
        """Read a part and stage its rows, in a worker. A part without rows stages nothing.

        Memory: one record batch of a file, its conformed copy, what the function holds, and what makes up one record batch
        of a written file; with an order, twice the bytes that are sorted together.

        Raises
        ------
        ArrowIpcError, OSError
            As for a read and a write. What the function raises passes as it is. No file remains after any error.
        """
        tune_worker()
        counted = _Counted()
        with short_errors, closing(self._rows(part, counted)) as rows:
            output = self.plan.write(self.staging, rows, part.number, part.directory)
        return Report(part.number, counted.rows, output)

    def _rows(self, part: Part, counted: _Counted) -> Generator[PyArrowBatch, None, None]:
        batches = self.reader.read(part.partition)
        with closing(batches):
            rows = in_zone(counted.batches(batches), self.zone)
            if self.function is not None:
                check = OutputCheck(self.output, self.function.name, self.nanoseconds)
                # What the function yields is in UTC again, as it is checked against a schema of Spark's.
                rows = in_zone(applied(self.function.load(), check, rows), self.zone)
            yield from rows
