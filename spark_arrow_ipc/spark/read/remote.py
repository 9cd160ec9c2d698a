"""The reader of tables of servers (`arrowipc serve`): each part of a table is an input partition."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime

from pyspark.sql import types as s

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.dataset.listing.hive import Partitioning
from spark_arrow_ipc.dataset.scan.read_blocks import ScannedBatch, join_small
from spark_arrow_ipc.dataset.scan.scan import ScannedFile, ScanOptions, SelectBlocks
from spark_arrow_ipc.errors import error_context
from spark_arrow_ipc.ipc.dissociated.connect import read_served_schema
from spark_arrow_ipc.ipc.dissociated.location import MAX_PARTS, parse_location
from spark_arrow_ipc.spark.options.read_options import ReadOptions
from spark_arrow_ipc.spark.process import short_errors, tune_worker
from spark_arrow_ipc.spark.read.columns import METADATA_COLUMNS, SelectColumns
from spark_arrow_ipc.spark.read.dataset_schema import schema_for_spark
from spark_arrow_ipc.spark.read.reader import ArrowIpcBatchReader, ArrowIpcInputPartition
from spark_arrow_ipc.spark.read.where import RowSelection


@dataclass(frozen=True, slots=True)
class RemotePart:
    """A table of a server, or a part of a table."""

    uri: str = field(repr=False)  # for `ipc.connect`; may have secrets
    path: str  # address, ticket and part, for errors
    # Attributes of a file, which a server does not have.
    nbytes: None = None
    mtime_ns: None = None


def plan_parts(uri: str, parts: int | None) -> list[RemotePart]:
    """Return the parts in which a table is read."""
    location = parse_location(uri)
    # The URI decides the number of parts, without a request to the server.
    of = location.of or (None if parts is None else min(parts, MAX_PARTS))
    if of is None or location.part is not None or location.want_part is None:
        return [RemotePart(uri, location.without_tags)]
    cut = (replace(location, part=part, of=of) for part in range(of))
    return [RemotePart(part.uri, part.without_tags) for part in cut]


def scan_remote(part: RemotePart, *, options: ScanOptions, token: str | None) -> Generator[ScannedFile, None, None]:
    """Yield the rows of a part as one `ScannedFile`."""
    how = options.read
    with (
        error_context(path=part.path),
        ipc.connect(part.uri, columns=how.columns, validation=how.validation, limits=how.limits, token=token) as reader,
    ):
        yield ScannedFile(part, reader.schema, join_small(_number_batches(reader), options.joined_rows), lambda: 0)


def _number_batches(batches: Iterable[RecordBatch]) -> Iterator[ScannedBatch]:
    first_row = 0  # numbers of batches and rows count from the start of the part
    for number, batch in enumerate(batches):
        yield ScannedBatch(batch, number, first_row, (batch.num_rows,))
        first_row += batch.num_rows


_NO_FILES = Partitioning((), ())


@dataclass(frozen=True)
class _RemoteInputPartition(ArrowIpcInputPartition):
    """One part of a table, without ranges of files."""

    part: RemotePart | None = None


class ArrowIpcRemoteReader(ArrowIpcBatchReader):
    """Reads tables of servers into batches of one Spark schema."""

    @classmethod
    def spark_schema(cls, options: ReadOptions) -> s.StructType:
        """Return the Spark schema of the first table."""
        of_table = _read_first_schema(options)
        schema = _schema_for_spark(of_table, options)
        if options.where is not None:
            requested = s.StructType([field for field in schema.fields if field.name not in METADATA_COLUMNS])
            RowSelection.of(requested, options, lambda missing: _schema_for_spark(of_table, missing))
        return schema

    @short_errors
    def partitions(self) -> list[ArrowIpcInputPartition]:
        """Plan the input partitions; asks the first server for a schema if `where` names other columns."""
        options = self._options
        planned_at = datetime.now().astimezone()
        tasks = options.min_partition_num
        parts = None if tasks is None else -(-tasks // len(options.paths))
        planned = [part for uri in options.paths for part in plan_parts(uri, parts)]
        selection = None
        if options.where is not None:
            selection = RowSelection.of(
                self._data_columns, options, lambda missing: _schema_for_spark(_read_first_schema(options), missing)
            )
        tune_worker()
        return [_RemoteInputPartition((), (), planned_at, selection, part=part) for part in planned]

    def _scan(
        self, partition: ArrowIpcInputPartition, columns: SelectColumns, _: SelectBlocks | None
    ) -> Generator[ScannedFile, None, None]:
        assert isinstance(partition, _RemoteInputPartition)
        assert partition.part is not None
        options = ScanOptions(ipc.ReadOptions(columns, self._options.validation, self._options.limits))
        return scan_remote(partition.part, options=options, token=self._options.token)


def _read_first_schema(options: ReadOptions) -> tuple[str, Schema]:
    (part, *_) = plan_parts(options.paths[0], None)
    with error_context(path=part.path):
        return part.path, read_served_schema(part.uri, limits=options.limits, token=options.token)


def _schema_for_spark(of_table: tuple[str, Schema], options: ReadOptions) -> s.StructType:
    return schema_for_spark([of_table], _NO_FILES, options)
