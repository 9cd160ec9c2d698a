"""The batch reader: plans input partitions on the driver, yields conformed batches on executors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from pyspark.sql import types as s
from pyspark.sql.datasource import DataSourceReader, InputPartition

from spark_arrow_ipc import ipc
from spark_arrow_ipc.dataset.listing import list_files
from spark_arrow_ipc.dataset.scan import ScannedFile, scan
from spark_arrow_ipc.dataset.splits import FileRange, plan_splits
from spark_arrow_ipc.errors import error_context
from spark_arrow_ipc.spark.bridge import PyArrowBatch
from spark_arrow_ipc.spark.column_selection import select_asked
from spark_arrow_ipc.spark.conform import compile_conform
from spark_arrow_ipc.spark.options import ReadOptions

__all__ = ["ArrowIpcBatchReader", "ArrowIpcInputPartition"]


@dataclass(frozen=True)
class ArrowIpcInputPartition(InputPartition):  # type: ignore[misc]  # PySpark is not typed for mypy's strict mode here
    """What one Spark task reads: ranges of record batches of files."""

    ranges: tuple[FileRange, ...]


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
        splits = plan_splits(
            list_files(options.paths),
            max_partition_bytes=options.max_partition_bytes,
            open_cost_bytes=options.open_cost_in_bytes,
        )
        return [ArrowIpcInputPartition(ranges) for ranges in splits]

    def read(self, partition: InputPartition | None) -> Iterator[PyArrowBatch]:
        """Yield the batches of one input partition, each exactly in Spark's Arrow schema.

        Memory: one record batch of a file and what it is conformed to. Files are opened one after the other and
        closed when Spark stops pulling.
        """
        # Spark turns an empty list of partitions into one partition of None.
        if not isinstance(partition, ArrowIpcInputPartition):
            return
        options = self._options
        files = scan(
            partition.ranges,
            columns=select_asked(options.columns, self._schema),
            validation=options.validation.value,
            limits=ipc.Limits(max_batch_bytes=options.max_batch_bytes),
        )
        with closing(files):
            for file in files:
                yield from self._conformed(file)

    def _conformed(self, file: ScannedFile) -> Iterator[PyArrowBatch]:
        first = file.range.first_block or 0
        with error_context(path=file.range.path):
            plan = compile_conform(file.schema, self._schema, self._options)
            for number, batch in enumerate(file.batches, first):
                with error_context(block_kind="record batch", block_number=number):
                    yield from plan.conform(batch)
