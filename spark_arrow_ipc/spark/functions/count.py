"""`count`: the number of rows, by headers, in the driver's process where that is sooner than a job.

Strategy
--------
A job of Spark's takes a planner's process, a task for each part of the files, and the JVM's work on both. The headers of a
thousand files are read in less. So in a classic session, whose process plans and commits rewrites too, the files are listed
and counted here, if all options that are given are among those that this way honours (`_HONOURED`). In all other cases
tasks count: with a predicate, streams, servers, HDFS, options about errors, very many files, and under Spark Connect, where
the client may not see the files. Errors are left to them as well: whatever goes wrong here is tried again there, and raises what
it always did.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Unpack

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import types as s

from spark_arrow_ipc.errors import ArrowIpcError
from spark_arrow_ipc.spark.functions.aggregate_plan import plan_aggregate
from spark_arrow_ipc.spark.functions.map_in_arrow import load_mapped
from spark_arrow_ipc.spark.functions.shipped_function import ship
from spark_arrow_ipc.spark.options.arguments import Paths, strings_of_read
from spark_arrow_ipc.spark.options.keywords import CountKeywords
from spark_arrow_ipc.spark.options.options import ReadOptions

_HONOURED: Final = frozenset({
    "paths", "path_glob_filter", "modified_before", "modified_after", "base_path", "recursive_file_lookup", "time_zone",
    "partition_type_inference", "storage", "max_batch_bytes", "verify_checksums",
    # These change how rows look, or how tasks read them, and not how many there are.
    "validation", "memory_map", "max_partition_bytes", "open_cost_in_bytes", "min_partition_num", "output_batch_rows",
    "nanoseconds", "times", "map_keys", "extension_types", "vectors", "merge_schema", "is_exact",
})  # fmt: skip
"""The options with which rows are counted without tasks. One that is not here is left to tasks."""


def count(spark: SparkSession, path: Paths, where: str | None = None, **options: Unpack[CountKeywords]) -> int:
    """Return the number of rows, as ``load(path).count()`` does.

    Without `where` no value is read: record batches have their number of rows in their headers, which the driver's process
    reads of up to 5,000 files. With it the columns of the predicate are.

    Parameters
    ----------
    spark, path, **options
        As for `aggregate`.
    where
        Counts only rows for which this predicate is true.

    Raises
    ------
    OptionError, NoFilesError, ArrowIpcError
        From Spark, as PySpark wraps them: an option is wrong, there is no file, or a header is broken.
    """
    given = options if where is None else {**options, "where": where}
    rows = _count_here(spark, strings_of_read(path, given))
    return _count_by_tasks(spark, path, given) if rows is None else rows


def _count_here(spark: SparkSession, strings: dict[str, str]) -> int | None:
    """Return the number of rows by headers; None if tasks shall count."""
    # Planning is for drivers: executors, who load this module with a function, start faster without it.
    from spark_arrow_ipc.dataset.scan.count_rows import count_rows
    from spark_arrow_ipc.spark.datasource import read_options
    from spark_arrow_ipc.spark.read.dataset_schema import list_dataset, partition_files
    from spark_arrow_ipc.storage.paths import is_relative
    from spark_arrow_ipc.storage.url import Place, place_of

    try:
        _ = spark.sparkContext
    except PySparkException:  # the client of Spark Connect
        return None
    try:
        options = read_options(strings)
        # Spark's planners have a working directory of their own.
        if _others_are_given(options) or any(map(is_relative, [*options.paths, *filter(None, [options.base_path])])):
            return None
        # Hadoop's client is a JVM, which takes memory and the signals of the process that it is in: this one is the user's.
        if any(place_of(path) is Place.HADOOP for path in options.paths):
            return None
        files = partition_files(list_dataset(options), options, infer=False).files
        storage = options.opened_storage
        return count_rows(files, storage, limits=options.limits, verify_checksums=options.verify_checksums)
    except (ArrowIpcError, OSError):
        return None


def _others_are_given(options: ReadOptions) -> bool:
    """Return whether there are options that tasks have to honour."""
    default = ReadOptions()
    names = [name for name in ReadOptions.__dataclass_fields__ if name not in _HONOURED]
    return options.reads_servers or any(getattr(options, name) != getattr(default, name) for name in names)


def _count_by_tasks(spark: SparkSession, path: Paths, options: Mapping[str, Any]) -> int:
    # A row for each task: Spark need not add them up, nor anybody know the columns.
    plan = plan_aggregate(s.StructType([]), (), {"rows": "count(*)"}, path)
    partial = load_mapped(spark, path, ship(plan.partials), plan.output, options, asked=plan.asked)
    return sum(int(row[0]) for row in partial.collect())
