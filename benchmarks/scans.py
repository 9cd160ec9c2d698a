"""What is scanned, by whom, into what: the driver's side of the contenders."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from contenders import BLOCKS, SOURCES, NullSource, PyArrowSource
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.datasource import DataSource
from workloads import Workload, arrow_file, parquet_file

from spark_arrow_ipc.dataset.listing.tree import list_tree
from spark_arrow_ipc.dataset.scan.file_metadata import MetadataCache, MetadataOptions
from spark_arrow_ipc.dataset.scan.file_range import FileRange
from spark_arrow_ipc.dataset.scan.splits import SplitOptions, split_files
from spark_arrow_ipc.spark.options.values import byte_size


def file_splits(path: str, options: SplitOptions) -> tuple[tuple[FileRange, ...], ...]:
    """Return where `arrowipc` cuts a file."""
    return split_files(list_tree([path]).files(nested=False), options, MetadataCache(MetadataOptions()))


@dataclass(frozen=True, slots=True)
class Scan:
    """One file to be read, and how it is cut.

    Parameters
    ----------
    workload, directory
        Which file, and where it lies.
    max_partition_bytes
        As the option of that name.
    validation
        Of `arrowipc`.
    """

    workload: Workload
    directory: Path
    max_partition_bytes: str = "128m"
    validation: str = "full"

    @property
    def path(self) -> str:
        return str(arrow_file(self.workload, self.directory))

    def blocks(self) -> tuple[int, ...]:
        """Return where `arrowipc` cuts the file: the first record batch of each task, and the end of the last."""
        splits = file_splits(self.path, SplitOptions(byte_size(self.max_partition_bytes)))
        ends = [part.stop for ranges in splits for part in ranges]
        return (0, self.workload.batches) if ends == [None] else (0, *ends)


def _foreign(source: type[DataSource]) -> Callable[[SparkSession, Scan], DataFrame]:
    def load(spark: SparkSession, scan: Scan) -> DataFrame:
        blocks = ",".join(map(str, scan.blocks()))
        return spark.read.format(source.name()).option(BLOCKS, blocks).load(scan.path)

    return load


def _arrowipc(spark: SparkSession, scan: Scan) -> DataFrame:
    options = {"maxPartitionBytes": scan.max_partition_bytes, "validation": scan.validation}
    return spark.read.format("arrowipc").options(**options).load(scan.path)


def _parquet(spark: SparkSession, scan: Scan) -> DataFrame:
    return spark.read.parquet(str(parquet_file(scan.workload, scan.directory)))


CONTENDERS: Mapping[str, Callable[[SparkSession, Scan], DataFrame]] = {
    "null": _foreign(NullSource),
    "arrowipc": _arrowipc,
    "pyarrow": _foreign(PyArrowSource),
    "parquet": _parquet,
}
"""By name: from a scan to the DataFrame of its rows."""


def register(spark: SparkSession) -> None:
    """Make the sources of the benchmarks known to a session."""
    for source in SOURCES:
        spark.dataSource.register(source)


def _noop(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


def _aggregate(rows: DataFrame) -> None:
    rows.agg(f.sum("id"), f.sum("quantity"), f.sum("amount"), f.max("name"), f.max("at")).collect()


def _sum_of_rows(blocks: DataFrame) -> None:
    blocks.agg(f.sum("rows")).collect()


def _count(rows: DataFrame) -> None:
    rows.count()


SINKS: Mapping[str, Callable[[DataFrame], None]] = {
    "noop": _noop,
    "aggregate": _aggregate,
    "sum of rows": _sum_of_rows,
    "count": _count,
}
"""By name: what becomes of the rows."""


def rows_of_tasks(rows: DataFrame) -> list[int]:
    """Return how many rows each task reads."""
    counted = rows.groupBy(f.spark_partition_id().alias("task")).count().orderBy("task").collect()
    return [row["count"] for row in counted]
