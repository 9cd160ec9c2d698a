"""The input partitions of a read: which files, cut where, and which of their rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql import types as s

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow.types import Field
from spark_arrow_ipc.dataset.listing.hive import Partitioning
from spark_arrow_ipc.dataset.scan.splits import (
    BatchLength,
    FileRange,
    KeptSizes,
    block_sizes,
    block_sizes_if_sound,
    plan_splits,
)
from spark_arrow_ipc.errors import ArrowIpcError
from spark_arrow_ipc.spark.options.options import ReadOptions
from spark_arrow_ipc.spark.read.dataset_schema import list_dataset, read_spark_schema, typed
from spark_arrow_ipc.spark.read.projection import SelectColumns, select_needed
from spark_arrow_ipc.spark.read.where import RowSelection, plan_selection, selected_files

__all__ = ["PartitionPlan", "plan_partitions"]


_MOST_OPENED: Final = 1_000
"""Files whose footers are read for `where` before tasks are made: about 2 ms each."""

_LEAST_SHARE: Final = 1 / 16
"""Of a file's bytes that a task counts with, since each record batch costs something, however little is read of it."""


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """What the tasks of a read do.

    Parameters
    ----------
    splits
        File ranges of each input partition.
    fields
        Columns that the files' paths tell; their values are in the ranges.
    selection
        Which rows are given to Spark; None for all.
    """

    splits: tuple[tuple[FileRange, ...], ...]
    fields: tuple[Field, ...]
    selection: RowSelection | None


def plan_partitions(own: s.StructType, options: ReadOptions) -> PartitionPlan:
    """Return the plan of a read. Opened are files larger than one split, the largest one, and by `where` up to 1,000.

    Parameters
    ----------
    own
        Columns of files and paths that Spark asked for.
    options
        Of the read.

    Raises
    ------
    OptionError, NoFilesError, ArrowIpcError
        As `list_dataset`, `typed`, `plan_selection` and `plan_splits`.
    """
    found = list_dataset(options, infer=False)
    selection = None
    if options.where is None:
        found = typed(found, own)
    else:
        selection = plan_selection(
            options.where,
            own,
            lambda paths: read_spark_schema(replace(options, columns=paths, metadata_columns=False)),
            options.time_zone,
        )
        found = selected_files(selection, typed(found, s.StructType([*own.fields, *selection.extra])))
    extra = () if selection is None else selection.extra
    columns = select_needed(options.columns, own, extra, found.fields, skips_absent=options.merge_schema)
    splits = plan_splits(
        found.files,
        max_partition_bytes=options.max_partition_bytes,
        open_cost_bytes=options.open_cost_in_bytes,
        min_partitions=options.min_partition_num,
        footer=block_sizes_if_sound if options.faults.skips_any else block_sizes,
        kept=_kept(selection, found, options),
        share=_share(columns, found, options),
        batch_length=None if options.faults.recover else _batch_length(columns, options),
    )
    return PartitionPlan(splits, found.fields, selection)


def _kept(selection: RowSelection | None, found: Partitioning, options: ReadOptions) -> KeptSizes | None:
    """Return what tells of a file how much of it may match, where that costs less than the tasks that it saves."""
    if selection is None or len(found.files) > _MOST_OPENED:
        return None
    return lambda file: selection.kept_sizes(file, found.fields, _limits(options))


def _batch_length(columns: SelectColumns, options: ReadOptions) -> BatchLength:
    """Return what tells how many rows a record batch has, where ranges of them can be read apart."""

    def batch_length(path: str, i: int) -> int | None:
        try:
            with ipc.open(path, columns=columns, limits=_limits(options)) as reader:
                rows = reader.batch_rows(i) if isinstance(reader, ipc.FileReader) else None
                return None if rows is None else rows.num_rows
        except (ArrowIpcError, OSError):  # which the task that reads it will say
            return None

    return batch_length


def _limits(options: ReadOptions) -> ipc.Limits:
    return ipc.Limits(max_batch_bytes=options.max_batch_bytes)


def _share(columns: SelectColumns, found: Partitioning, options: ReadOptions) -> float:
    """Return which part of the files' bytes is read, by the largest one's first record batch. Opens that file.

    All of it is assumed where no file is worth a look, and where the file is a stream or cannot be opened, which the
    task that reads it will say.
    """
    largest = max(found.files, key=lambda file: file.nbytes, default=None)
    if largest is None or largest.nbytes <= options.open_cost_in_bytes:
        return 1.0
    try:
        with ipc.open(largest.path, columns=columns, limits=_limits(options)) as reader:
            if not isinstance(reader, ipc.FileReader) or not len(reader):
                return 1.0
            return max(_LEAST_SHARE, reader.wanted_nbytes(0) / max(1, reader.blocks[0].nbytes))
    except (ArrowIpcError, OSError):
        return 1.0
