"""Plan a read: its input partitions, their file ranges, the selection of rows.

How it works
------------
The paths are listed once; a batch of a stream has its files already. Then the metadata of some files is read, each with
one open, and splits are computed from it:

- the newest file, if no log entry has the schema, for the types of columns that only `where` names;
- the largest file, for the share of its bytes that is read;
- with `where` all files that the statistics in the log do not exclude, if they are few, for the record batches that may
  match;
- without `where` the files that are larger than a split;
- a few files that are not named like Arrow files (`check_no_foreign_files`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import types as s

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow.types import Field
from spark_arrow_ipc.dataset.listing.data_file import DataFile, newest_first
from spark_arrow_ipc.dataset.listing.directory import list_directory
from spark_arrow_ipc.dataset.listing.hive import Partitioning
from spark_arrow_ipc.dataset.predicate.expressions import WHERE
from spark_arrow_ipc.dataset.scan.file_metadata import MetadataCache, MetadataOptions
from spark_arrow_ipc.dataset.scan.file_range import FileRange
from spark_arrow_ipc.dataset.scan.schemas import check_no_foreign_files
from spark_arrow_ipc.dataset.scan.splits import SplitOptions, cut_above, split_files
from spark_arrow_ipc.errors import NoFilesError
from spark_arrow_ipc.spark.options.read_options import ReadOptions
from spark_arrow_ipc.spark.process import without_collection
from spark_arrow_ipc.spark.read.columns import SelectColumns, select_columns, select_referenced
from spark_arrow_ipc.spark.read.dataset_schema import (
    cast_partition_columns,
    dataset_schema,
    list_dataset,
    partition_files,
)
from spark_arrow_ipc.storage.storage import Kind
from spark_arrow_ipc.table.log import read_state
from spark_arrow_ipc.table.names import TableDirectory

if TYPE_CHECKING:
    from spark_arrow_ipc.spark.read.where import RowSelection
    from spark_arrow_ipc.table.state import State


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """The plan of a read, for its tasks."""

    splits: tuple[tuple[FileRange, ...], ...]  # file ranges of each input partition
    fields: tuple[Field, ...]  # partition columns; their values are in the ranges
    selection: RowSelection | None  # of the rows for Spark; None for all
    # The newest of several files, from which the schema is unless the user gave one; for errors.
    newest: DataFile | None
    states: Mapping[str, State] = field(default_factory=dict)  # of the tables whose directories are read, by path
    # The id of the table and the number of its newest entry, of a read of one directory; empty without a log.
    table: str = ""
    entry: int = 0


@without_collection()
def plan_partitions(columns: s.StructType, options: ReadOptions, decoded: s.StructType | None = None) -> PartitionPlan:
    """Plan a read of `columns`, for which tasks decode these or `decoded`."""
    try:
        tree = list_dataset(options)
        partitioning = partition_files(tree, options, infer=False)
    except NoFilesError:
        if (empty := _plan_without_files(options)) is None:
            raise
        return empty
    inferred = partial(partition_files, tree, options, infer=options.partition_type_inference)
    plan = plan_files(columns, options, partitioning, inferred, decoded)
    state = tree.states.get(tree.roots[0]) if len(tree.roots) == 1 and isinstance(tree.roots[0], str) else None
    return plan if state is None else replace(plan, table=state.table, entry=state.number)


def _plan_without_files(options: ReadOptions) -> PartitionPlan | None:
    """Return the plan of a table to which nothing was written, or None if there are files or directories that readers see."""
    if not options.may_be_empty or len(options.paths) != 1:
        return None
    storage = options.path_storage
    path = storage.resolve(options.paths[0])
    status = storage.status(path)
    # One task, from which statements have the state. It is older than the listing, and what is added later conflicts.
    plan = PartitionPlan(((),), (), None, None)
    if status is None:
        return plan
    if status.kind is not Kind.DIRECTORY:
        return None
    state = read_state(TableDirectory(storage, path))
    listing = list_directory(storage, path)
    if listing.files or listing.directories:
        return None
    return plan if state is None else replace(plan, table=state.table, entry=state.number)


def plan_files(
    columns: s.StructType,
    options: ReadOptions,
    partitioning: Partitioning,
    inferred: Callable[[], Partitioning],
    decoded: s.StructType | None = None,
) -> PartitionPlan:
    """Plan a read of listed files."""
    several = len(partitioning.files) > 1 and not options.merge_schema
    newest = next(newest_first(partitioning.files)) if several else None
    where = selection = None
    extra: Sequence[s.StructField] = ()
    if options.where is not None:
        # Imported late, with pyarrow's kernels: a read without a predicate is planned sooner.
        from spark_arrow_ipc.spark.read.where import Where, prune_files

        where = Where.parse(options.where, columns, metadata=options.metadata_columns)
    missing = () if where is None else where.missing
    cache = MetadataCache(_metadata_options(decoded or columns, missing, partitioning, options))
    if where is not None:
        extra = where.missing_fields(options, lambda missing: dataset_schema(inferred(), cache, missing))
        selection = where.bind(columns, extra, options.time_zone)
    partitioning = cast_partition_columns(partitioning, s.StructType([*columns.fields, *extra]))
    # To skip broken files, tasks decode record batches that cannot match, too.
    by_statistics = not options.error_policy.skips_corrupt
    if selection is not None:
        partitioning = prune_files(selection, partitioning, by_statistics=by_statistics)
    check_no_foreign_files(partitioning.files, cache, options.error_policy)
    splits = split_files(
        partitioning.files,
        _split_options(options),
        cache,
        partial(selection.prune_sizes, fields=partitioning.fields) if selection is not None and by_statistics else None,
        skips_broken=options.error_policy.skips_any,
    )
    return PartitionPlan(splits, partitioning.fields, selection, newest, partitioning.states)


def _split_options(options: ReadOptions) -> SplitOptions:
    return SplitOptions(options.max_partition_bytes, options.open_cost_bytes, options.min_partition_num)


def _metadata_options(
    columns: s.StructType, missing: Sequence[tuple[str, ...]], partitioning: Partitioning, options: ReadOptions
) -> MetadataOptions:
    return MetadataOptions(
        ipc.ReadOptions(
            _select_task_columns(columns, missing, partitioning, options),
            limits=options.limits,
            concatenated_streams=options.concatenated_streams,
        ),
        tensors=options.tensors,
        with_statistics=options.where is not None,
        recover=options.recover,
        cut_above=cut_above(_split_options(options).split_bytes(0)),
        share_above=options.open_cost_bytes,
        storage=options.path_storage,
    )


def _select_task_columns(
    columns: s.StructType, missing: Sequence[tuple[str, ...]], partitioning: Partitioning, options: ReadOptions
) -> SelectColumns:
    """Return a callback that selects the columns of a task by name, as their types are still unknown."""
    requested = select_columns(options.column_paths, columns, partitioning.fields, skips_absent=options.fills_missing)
    others = select_referenced(missing, partitioning.fields, skips_absent=options.fills_missing, asked_by=WHERE)
    return lambda schema: [*requested(schema), *others(schema)]
