"""The input partitions of a read: which files, cut where, and which of their rows.

Strategy
--------
The paths are listed once. Then outlines are read, each by one open, and only of files that need one: the first file
where `where` names columns that Spark did not ask for, whose types it tells; the largest, for the share of its bytes
that is read; with `where` all, if they are few, for the record batches that may match; else those that are larger than
a split. What tasks do follows from the outlines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Final

from pyspark.sql import types as s

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow.column_path import ColumnPath
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.arrow.types import Field
from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.listing.hive import Partitioning
from spark_arrow_ipc.dataset.scan.file_range import FileRange
from spark_arrow_ipc.dataset.scan.outline import OutlineOptions, Outlines, each_file
from spark_arrow_ipc.dataset.scan.splits import SplitOptions, cut_above, larger_than_split, plan_splits
from spark_arrow_ipc.spark.options.options import ReadOptions
from spark_arrow_ipc.spark.read.dataset_schema import dataset_schema, list_dataset, partition_files, typed
from spark_arrow_ipc.spark.read.projection import SelectColumns, select_asked, select_referenced
from spark_arrow_ipc.spark.read.where import RowSelection, Where, selected_files

__all__ = ["PartitionPlan", "plan_partitions"]


_MOST_OPENED: Final = 1_000
"""Files whose outlines are read for `where` before tasks are made: about 2 ms each."""

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
    """Return the plan of a read. Lists the paths once, and opens no file twice.

    Parameters
    ----------
    own
        Columns of files and paths that Spark asked for.
    options
        Of the read.

    Raises
    ------
    OptionError, NoFilesError, ArrowIpcError
        As `list_dataset`, `typed`, `Where`, `dataset_schema` and `plan_splits`.
    """
    tree = list_dataset(options)
    found = partition_files(tree, options, infer=False)
    where = None if options.where is None else Where.parse(options.where, own)
    missing = () if where is None else where.missing
    outlines = Outlines(_outline_options(own, missing, found, options))
    selection = None
    if where is not None:
        extra: Sequence[s.StructField] = ()
        if missing:
            extra = dataset_schema(tree, outlines, replace(options, columns=missing, metadata_columns=False)).fields
        selection = where.bind(own, extra, options.time_zone)
        found = selected_files(selection, typed(found, s.StructType([*own.fields, *extra])))
    else:
        found = typed(found, own)
    return PartitionPlan(_splits(found, selection, outlines, options), found.fields, selection)


def _splits(
    found: Partitioning, selection: RowSelection | None, outlines: Outlines, options: ReadOptions
) -> tuple[tuple[FileRange, ...], ...]:
    split = _split_options(options)
    kept: Mapping[str, Sequence[int]] = {}
    if selection is not None and len(found.files) <= _MOST_OPENED:
        share = _share(found.files, outlines, 0, options)
        kept = _kept(found, selection, outlines, split, share)
    else:
        large, most = larger_than_split(found.files, split)
        share = _share(found.files, outlines, most, options)
        if share < 1:
            large, most = larger_than_split(found.files, split, share=share)
        outlines.read_all(large, cut_above=most)
    return plan_splits(
        found.files,
        split,
        outlines=outlines.by_path,
        kept=kept,
        share=share,
        skips_broken=options.faults.skips_any,
    )


def _split_options(options: ReadOptions) -> SplitOptions:
    return SplitOptions(options.max_partition_bytes, options.open_cost_in_bytes, options.min_partition_num)


def _outline_options(
    own: s.StructType, missing: Sequence[tuple[str, ...]], found: Partitioning, options: ReadOptions
) -> OutlineOptions:
    return OutlineOptions(
        columns=_columns(own, missing, found, options),
        limits=ipc.Limits(max_batch_bytes=options.max_batch_bytes),
        with_statistics=options.where is not None,
        recover=options.recover,
        cut_above=cut_above(_split_options(options).split_bytes(0)),
        share_above=options.open_cost_in_bytes,
    )


def _columns(
    own: s.StructType, missing: Sequence[tuple[str, ...]], found: Partitioning, options: ReadOptions
) -> SelectColumns:
    """Return the columns of a file that its task reads, by names alone: types are not known yet."""
    asked = select_asked(options.columns, own, found.fields, skips_absent=options.merge_schema)
    others = select_referenced(missing, found.fields, skips_absent=options.merge_schema)

    def select(schema: Schema) -> list[ColumnPath]:
        return [*asked(schema), *others(schema)]

    return select


def _share(files: Sequence[DataFile], outlines: Outlines, cut_above: int, options: ReadOptions) -> float:
    """Return which part of the files' bytes is read, by the largest one's first record batch.

    All of it is assumed where no file is worth a look, and where the file is a stream or cannot be opened, which the
    task that reads it raises.
    """
    largest = max(files, key=lambda file: file.nbytes, default=None)
    if largest is None or largest.nbytes <= options.open_cost_in_bytes:
        return 1.0
    return max(_LEAST_SHARE, outlines.read(largest, cut_above=cut_above).wanted_share)


def _kept(
    found: Partitioning, selection: RowSelection, outlines: Outlines, split: SplitOptions, share: float
) -> dict[str, Sequence[int]]:
    """Return by path the bytes of each record batch, 0 for those that cannot match, of files with statistics."""
    kept: dict[str, Sequence[int]] = {}
    total = 0

    def read(file: DataFile) -> None:
        nonlocal total
        # Splits rise with the bytes that are kept of all files: those known by now make a lower bound. Two threads
        # that add at once may lose one of the sums, which leaves a lower bound as well.
        outline = outlines.read(file, cut_above=cut_above(split.split_bytes(total), share))
        sizes = selection.kept_sizes(outline, file.partition, found.fields)
        if sizes is not None:
            kept[file.path] = sizes
        nbytes = ceil(share * (file.nbytes if sizes is None else sum(sizes)))
        if nbytes:
            total += nbytes + split.open_cost_bytes

    each_file(read, found.files)
    return kept
