"""`compact`: join the small files of a table, in place, while others read and write.

How it works
------------
1. The files of the table are listed once, when the job is planned. Small ones are joined by directory (`fill_bins`), one
   bin by each task, and the commit replaces exactly these files (`WriteMode.REWRITE`).
2. Columns retain their Arrow types and all values (`rewrite.as_stored`, `check_types`); otherwise the table is refused.
3. The new files have the columns of all joined files and of the newest file of the table, for programs that take the schema
   of the newest file, which is now one of the new files.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Unpack

from pyspark.sql import SparkSession

from spark_arrow_ipc.dataset.listing.data_file import DataFile, newest_first
from spark_arrow_ipc.dataset.listing.hive import Partitioning
from spark_arrow_ipc.dataset.scan.file_metadata import MetadataCache, MetadataOptions
from spark_arrow_ipc.dataset.scan.file_range import FileRange
from spark_arrow_ipc.dataset.scan.schemas import distinct_schemas
from spark_arrow_ipc.dataset.write import WriteMode, commit
from spark_arrow_ipc.dataset.write.conflicts import NewSchema
from spark_arrow_ipc.dataset.write.existing_files import Bin, LiveFile, fill_bins
from spark_arrow_ipc.dataset.write.job_plan import CommitIntent, plan_job
from spark_arrow_ipc.dataset.write.staged_file import max_file_nbytes
from spark_arrow_ipc.errors import CommitError, UnsupportedError
from spark_arrow_ipc.spark.datasource import read_options
from spark_arrow_ipc.spark.options.declare import Use
from spark_arrow_ipc.spark.options.keywords import CompactKeywords
from spark_arrow_ipc.spark.options.options import check_in_place, parse_write
from spark_arrow_ipc.spark.options.read_options import ReadOptions
from spark_arrow_ipc.spark.options.write_options import SparkWriteOptions
from spark_arrow_ipc.spark.read.dataset_schema import dataset_schema, file_filter
from spark_arrow_ipc.spark.read.exact import as_stored, without_skipping
from spark_arrow_ipc.spark.read.reader import ArrowIpcBatchReader, ArrowIpcInputPartition
from spark_arrow_ipc.spark.rewrite.job import (
    ChangedRows,
    Part,
    RewriteTask,
    abort_on_error,
    commit_reports,
    context_of,
    run_tasks,
)
from spark_arrow_ipc.spark.rewrite.rewrite import (
    RewriteResult,
    byte_argument,
    order_plan,
    split_options,
    zone_of,
)
from spark_arrow_ipc.spark.write.plan import WritePlan, plan_write
from spark_arrow_ipc.spark.write.same_types import check_types, with_metadata
from spark_arrow_ipc.spark.write.schema_check import unite_schemas
from spark_arrow_ipc.storage.open import storage_of
from spark_arrow_ipc.storage.paths import join
from spark_arrow_ipc.table.names import TableDirectory


def compact(
    spark: SparkSession,
    path: str | os.PathLike[str],
    *,
    file_bytes: int | str = "128m",
    sort_by: str | Sequence[str] = (),
    sort_bytes: int | str = "512m",
    **options: Unpack[CompactKeywords],
) -> RewriteResult:
    """Join the small files of a table into larger ones, in place.

    Rows, types and partitions do not change. Readers see the old files or the new ones, never both; files that others add
    meanwhile stay, and earlier reads go on with the old files, for the ``retention`` of the table or for an hour. A stream
    that follows the commits of the table sees no new rows.

    Parameters
    ----------
    spark
        A classic session: the driver's process plans and commits.
    path
        Directory of the table.
    file_bytes
        The intended size of a file. Files of less than half this size are joined with others of their directory, up to
        this size; all others stay.
    sort_by, sort_bytes
        As for `rewrite`, for the rows of each new file.
    **options
        Options that choose files (``pathGlobFilter``, ``modifiedBefore``, ...) and options of writing (``compression``,
        ``statistics``, ``recordBatchRows``, ``retention``, ``commitToken``, ...). Options that would change rows or types
        are refused; `rewrite` takes them.

    Returns
    -------
    RewriteResult
        The numbers of files, rows and bytes that were read and written; all 0 without small files.

    Raises
    ------
    OptionError, ArrowIpcError
        An option is wrong, there is no such directory, a file is broken, or the schemas of files cannot be merged, before
        any task.
    UnsupportedError
        A column has a type that Spark does not write (a union), or the session is one of Spark Connect.
    PySparkException
        A task failed, as often as Spark lets it. Nothing is published.
    ConcurrentWriteError
        Another job replaced some of these files meanwhile. Nothing is published.
    CommitError
        Either nothing is published, or the message has the published files.
    """
    context_of(spark)
    reading, writing = _options(os.fspath(path), options)
    storage, root = storage_of(os.fspath(path), writing.storage)
    listed: list[DataFile] = []
    bins: list[Bin] = []

    def choose(files: tuple[LiveFile, ...]) -> list[LiveFile]:
        if not files:
            TableDirectory.at(root, storage)  # raises for a path that does not exist, such as a name in SQL
        # All files, as the newest one decides the columns even if it is large.
        listed.extend(_data_file(root, file) for file in files)
        accepts = file_filter(reading).accepts()
        small = [file for file, at in zip(files, listed, strict=True) if accepts is None or accepts(at)]
        bins.extend(fill_bins(small, byte_argument("file_bytes", file_bytes)))
        return [file for each in bins for file in each.files]

    max_file_nbytes(storage.traits, writing.max_file_bytes)
    intent = CommitIntent(
        WriteMode.REWRITE,
        commit_token=writing.commit_token,
        retention=writing.retention,
    )
    job = plan_job(root, intent, storage=storage, choose=choose)
    if job.skip:
        if listed and sort_by:  # a misspelt name would be an error only once there are small files
            order_plan(_plan(next(newest_first(listed)), [], reading, writing)[1], sort_by, sort_bytes)
        return RewriteResult()
    with abort_on_error(job):
        newest = next(newest_first(listed))
        joined = [_data_file(root, file) for each in bins for file in each.files]
        reader, plan = _plan(newest, joined, reading, writing)
        plan = order_plan(plan, sort_by, sort_bytes)
        now = datetime.now().astimezone()
        parts = []
        for number, each in enumerate(bins):
            files = [_data_file(root, file) for file in each.files]
            ranges = tuple(FileRange(file.path, file.nbytes, file.mtime_ns, version=file.version) for file in files)
            parts.append(Part(number, ArrowIpcInputPartition(ranges, (), now), each.directory))
        task = RewriteTask(reader, plan, job.staging, ChangedRows(zone_of(spark), reader.schema))
        reports = run_tasks(spark, task, parts, f"compact {root}")
        rows_read = sum(report.rows_read for report in reports)
        rows = sum(file.rows for report in reports for file in report.output.files)
        # Nothing would be left to recover lost rows from.
        if rows != rows_read:
            raise CommitError(
                expected=f"{rows_read:,} rows in the new files, as in the old ones",
                found=f"{rows:,}; nothing is published",
                path=root,
            )
        if not rows:  # a table without files would have no schema
            commit.abort(job)
            return RewriteResult()
        # Later reads have the columns that they had before, and the additional columns of the joined files.
        schema = plan.file_schema
        new_schema = NewSchema(
            schema, schema, lambda existing, path: unite_schemas((existing, path), (schema, "the files that are made"))
        )
        summary = commit_reports(job, reports, write_empty=None, schema=new_schema)
    return RewriteResult.of(summary, {file.path: file.nbytes for file in joined}, rows_read)


def _options(path: str, user_options: Mapping[str, Any]) -> tuple[ReadOptions, SparkWriteOptions]:
    """Parse the options, and refuse options that would change rows or types."""
    of_read, of_write = split_options(user_options, path, path)
    check_in_place([*of_read, *of_write], Use.COMPACTION)
    reading = without_skipping(replace(read_options({**of_read, "path": path}), merge_schema=True))
    return reading, replace(parse_write({**of_write, "path": path}), restore_types=True)


def _plan(
    newest: DataFile, joined: Sequence[DataFile], reading: ReadOptions, writing: SparkWriteOptions
) -> tuple[ArrowIpcBatchReader, WritePlan]:
    """Plan the columns; opens each file once."""
    cache = MetadataCache(MetadataOptions(storage=reading.path_storage))
    files = tuple({file.path: file for file in (newest, *joined)}.values())
    schemas = [schema for _, schema in distinct_schemas(files, cache)]
    reading = as_stored(reading, schemas)
    schema = dataset_schema(Partitioning((), files), cache, reading)
    try:
        plan = plan_write(schema, with_metadata(writing, cache.read(newest).schema))
    except UnsupportedError as error:  # its advice is for DataFrames
        raise UnsupportedError(
            "a compaction would change the type of this column, because there is no way back to it from Spark's; nothing is "
            "changed",
            field_path=error.field_path,
        ) from error
    check_types(plan.file_schema, schemas)
    return ArrowIpcBatchReader(schema, reading), plan


def _data_file(root: str, file: LiveFile) -> DataFile:
    return DataFile(join(root, file.path), file.nbytes, file.mtime_ns, version=file.version)
