"""The reader of ``metadataOnly=true``: one row per record batch, from headers, so that ``sum(rows)`` reads no values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import types as s
from pyspark.sql.datasource import DataSourceReader, InputPartition

from spark_arrow_ipc.arrow.column_path import find_columns
from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.scan.error_policy import CORRUPT, add_advice, report_missing, report_rest, report_skipped
from spark_arrow_ipc.dataset.statistics.read import FileBlock, file_blocks
from spark_arrow_ipc.errors import FileChangedError, SchemaMismatchError, error_context
from spark_arrow_ipc.spark import bridge
from spark_arrow_ipc.spark.bridge import PyArrowBatch
from spark_arrow_ipc.spark.convert import pyarrow_schema
from spark_arrow_ipc.spark.options.read_options import ReadOptions
from spark_arrow_ipc.spark.process import short_errors, tune_worker
from spark_arrow_ipc.spark.read.dataset_schema import list_dataset, partition_files

_SUMMARY: Final = s.StructType([
    s.StructField("nulls", s.LongType()), s.StructField("least", s.StringType()), s.StructField("greatest", s.StringType()),
])  # fmt: skip

BLOCK_SCHEMA: Final = s.StructType([
    s.StructField("path", s.StringType()),
    s.StructField("format", s.StringType()),
    s.StructField("block", s.IntegerType()),
    s.StructField("byte_offset", s.LongType()),
    s.StructField("metadata_bytes", s.LongType()),
    s.StructField("body_bytes", s.LongType()),
    s.StructField("rows", s.LongType()),
    s.StructField("compression", s.StringType()),
    s.StructField("statistics", s.MapType(s.StringType(), _SUMMARY)),
])  # fmt: skip
"""The columns of the table."""

BLOCK_MEANINGS: Final[Mapping[str, str]] = {
    "path": "absolute path of the file",
    "format": "`file` or `stream`",
    "block": "number of the record batch in the file, from 0",
    "byte_offset": "where it begins in the file",
    "metadata_bytes": "bytes of its header",
    "body_bytes": "bytes of its values in the file",
    "rows": "its rows",
    "compression": "`lz4`, `zstd` or `none`",
    "statistics": "by column; null where the file has none",
}
"""Texts about each column, for the documentation."""

_FILES_A_TASK: Final = 1_000
_ROWS_A_BATCH: Final = 10_000


@dataclass(frozen=True)
class _BlockPartition(InputPartition):  # type: ignore[misc]  # PySpark is not typed for mypy's strict mode here
    files: tuple[DataFile, ...]


class ArrowIpcBlockReader(DataSourceReader):  # type: ignore[misc]  # as above
    """Yields a row with some columns of `BLOCK_SCHEMA`, in any order, for each record batch."""

    is_inferred = False
    """As for `ArrowIpcBatchReader`, and without effect here."""

    def __init__(self, schema: s.StructType, options: ReadOptions) -> None:
        self._schema = schema
        self._options = options
        for field, position in zip(schema.fields, find_columns(BLOCK_SCHEMA.names, schema.names), strict=True):
            declared = BLOCK_SCHEMA.fields[position]
            if field.dataType != declared.dataType:
                raise SchemaMismatchError(
                    expected=declared.dataType.simpleString(),
                    found=field.dataType.simpleString(),
                    field_path=field.name,
                )

    @short_errors
    def partitions(self) -> list[_BlockPartition]:
        """Plan the input partitions without opening a file."""
        files = partition_files(list_dataset(self._options), self._options, infer=False).files
        tasks = max(self._options.min_partition_num or 1, -(-len(files) // _FILES_A_TASK))
        size = -(-len(files) // tasks)
        return [_BlockPartition(files[first : first + size]) for first in range(0, len(files), size)]

    def read(self, partition: InputPartition | None) -> Iterator[PyArrowBatch]:
        """Yield the rows of one input partition."""
        # Spark converts an empty list of partitions to one partition that is None.
        if isinstance(partition, _BlockPartition):
            tune_worker()
            with short_errors:
                yield from self._batches(partition.files)

    def _batches(self, files: Sequence[DataFile]) -> Iterator[PyArrowBatch]:
        rows: list[dict[str, Any]] = []
        for file in files:
            rows += self._rows(file)
            # Bounds the memory, except for a single file with more record batches.
            if len(rows) >= _ROWS_A_BATCH:
                yield self._batch(rows)
                rows = []
        yield self._batch(rows)

    def _rows(self, file: DataFile) -> list[dict[str, Any]]:
        """Return the rows of one file up to a broken header, if the error policy skips it."""
        policy = self._options.error_policy
        rows: list[dict[str, Any]] = []
        try:
            with error_context(path=file.path):
                blocks = file_blocks(
                    file.open(self._options.path_storage),
                    limits=self._options.limits,
                    concatenated_streams=self._options.concatenated_streams,
                )
                for block in blocks:
                    rows.append(_describe_block(file, block))  # noqa: PERF401 - rows before a broken header stay
        except FileNotFoundError as error:
            if not policy.ignore_missing_files:
                raise FileChangedError(
                    "the file is gone since this read was planned; read the path again", path=file.path
                ) from error
            report_missing(file.path)
        except CORRUPT as error:
            if not policy.ignore_corrupt_files:
                raise add_advice(error) from error.__cause__
            if rows:
                report_rest(file.path, range(len(rows), len(rows) + 1), None, error, "ignoreCorruptFiles")
            else:
                report_skipped(file.path, error, "ignoreCorruptFiles")
        return rows

    def _batch(self, rows: Sequence[dict[str, Any]]) -> PyArrowBatch:
        # Spark may request some columns in any order and case.
        schema = pyarrow_schema(self._schema)
        names = [BLOCK_SCHEMA.names[i] for i in find_columns(BLOCK_SCHEMA.names, schema.names)]
        columns = [
            bridge.array([row[name] for row in rows], field.type) for name, field in zip(names, schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=schema)


def _describe_block(file: DataFile, block: FileBlock) -> dict[str, Any]:
    statistics = block.statistics
    return {
        "path": file.path,
        "format": block.format,
        "block": block.block,
        "byte_offset": block.location.byte_offset,
        "metadata_bytes": block.location.metadata_nbytes,
        "body_bytes": block.location.body_nbytes,
        "rows": block.rows,
        "compression": block.compression,
        "statistics": None if statistics is None else [
            (name, {"nulls": column.nulls, "least": column.least, "greatest": column.greatest})
            for name, column in statistics.items()
        ],
    }  # fmt: skip
