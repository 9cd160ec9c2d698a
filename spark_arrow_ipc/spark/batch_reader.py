"""The batch reader: plans input partitions on the driver, yields conformed batches on executors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import types as s
from pyspark.sql.datasource import DataSourceReader, InputPartition

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow.types import Field
from spark_arrow_ipc.dataset.scan import ScannedFile, ScanOptions, scan
from spark_arrow_ipc.dataset.splits import FileRange, block_sizes, block_sizes_if_sound, plan_splits
from spark_arrow_ipc.errors import error_context
from spark_arrow_ipc.spark.bridge import PyArrowBatch
from spark_arrow_ipc.spark.column_selection import select_asked
from spark_arrow_ipc.spark.conform import compile_conform
from spark_arrow_ipc.spark.options import ReadOptions
from spark_arrow_ipc.spark.read_plan import faults_of, list_dataset, typed

__all__ = ["ArrowIpcBatchReader", "ArrowIpcInputPartition"]


@dataclass(frozen=True)
class ArrowIpcInputPartition(InputPartition):  # type: ignore[misc]  # PySpark is not typed for mypy's strict mode here
    """What one Spark task reads.

    Parameters
    ----------
    ranges
        Ranges of record batches of files.
    partition_fields
        Columns that the files' paths tell; their values are in the ranges.
    planned_at
        When the read was planned.
    """

    ranges: tuple[FileRange, ...]
    partition_fields: tuple[Field, ...]
    planned_at: datetime


class ArrowIpcBatchReader(DataSourceReader):  # type: ignore[misc]  # as above
    """Reads the columns of one Spark schema.

    Parameters
    ----------
    schema
        What Spark expects, to the last nullability: ours, or the user's ``.schema(...)``.
    options
        Of the read.
    """

    def __init__(self, schema: s.StructType, options: ReadOptions) -> None:
        self._schema = schema
        self._options = options

    def partitions(self) -> list[ArrowIpcInputPartition]:
        """Return the input partitions; a file is opened only where it is larger than one split."""
        options = self._options
        planned_at = datetime.now().astimezone()
        found = typed(list_dataset(options, infer=False), self._schema)
        splits = plan_splits(
            found.files,
            max_partition_bytes=options.max_partition_bytes,
            open_cost_bytes=options.open_cost_in_bytes,
            min_partitions=options.min_partition_num,
            footer=block_sizes_if_sound if faults_of(options).skips_any else block_sizes,
        )
        return [ArrowIpcInputPartition(ranges, found.fields, planned_at) for ranges in splits]

    def read(self, partition: InputPartition | None) -> Iterator[PyArrowBatch]:
        """Yield the batches of one input partition, each exactly in Spark's Arrow schema.

        Memory: one record batch of a file and what it is conformed to. Files are opened one after the other and
        closed when Spark stops pulling.
        """
        # Spark turns an empty list of partitions into one partition of None.
        if not isinstance(partition, ArrowIpcInputPartition):
            return
        options = self._options
        fields = partition.partition_fields
        files = scan(
            partition.ranges,
            columns=select_asked(options.columns, self._schema, fields, skips_absent=options.merge_schema),
            partition_fields=fields,
            options=ScanOptions(
                validation=options.validation.value,
                limits=ipc.Limits(max_batch_bytes=options.max_batch_bytes),
                memory_map=options.memory_map,
                faults=faults_of(options),
                planned_at=partition.planned_at,
            ),
        )
        with closing(files):
            for file in files:
                yield from self._conformed(file)

    def _conformed(self, file: ScannedFile) -> Iterator[PyArrowBatch]:
        with error_context(path=file.range.path):
            plan = compile_conform(file.schema, self._schema, self._options)
            for scanned in file.batches:
                with error_context(block_kind="record batch", block_number=scanned.first_block):
                    yield from plan.conform(scanned.batch)
