"""``arrowipc rewrite``: write files anew, with another compression, other record batches, statistics, or sorted."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Final

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow.column_path import resolve_exactly
from spark_arrow_ipc.arrow.kernels.order import sort_batches
from spark_arrow_ipc.arrow.kernels.slice import rechunk
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.cli.shared import files, inputs, render
from spark_arrow_ipc.cli.shared.rows import (
    Chosen,
    Table,
    add_row_arguments,
    columns_argument,
    each_given,
    one_table,
    positive,
)
from spark_arrow_ipc.dataset.statistics.which import Statistics
from spark_arrow_ipc.dataset.statistics.writer import StatisticsWriter, create_with_statistics
from spark_arrow_ipc.errors import error_context, printable

_SORTED_ROWS: Final = 65_536
"""Rows of a record batch after sorting, by default."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``arrowipc rewrite``."""
    inputs.add_path_arguments(parser)
    parser.add_argument("target", metavar="TARGET", help="the file to write")
    add_row_arguments(parser)
    parser.add_argument(
        "--sort-by",
        type=columns_argument,
        metavar="NAMES",
        help="sort all rows by these columns, nulls first as in Spark; they must fit in memory",
    )
    parser.add_argument("--descending", action="store_true", help="the greatest values first, and nulls last")
    parser.add_argument(
        "--batch-rows",
        type=positive,
        metavar="ROWS",
        help=f"rows of each record batch; by default as they are, and {_SORTED_ROWS:,} if they are sorted",
    )
    parser.add_argument(
        "--batch-bytes", type=positive, metavar="BYTES", help="most bytes of each record batch, before compression"
    )
    parser.add_argument(
        "--statistics",
        choices=[word.value for word in Statistics],
        default=Statistics.AUTO.value,
        help="columns with statistics in the footer, with which readers skip record batches (default: auto, the first 64)",
    )
    files.add_output_arguments(parser)
    files.add_force_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write the rows of all files, which have one schema, as one file."""
    target = arguments.target
    files.check_ending(arguments, target)
    files.check_target(arguments, target, ())
    given = list(each_given(arguments))
    files.check_target(arguments, target, given)
    count = rows = 0
    with one_table(given, Chosen.of(arguments)) as table, _create(arguments, target, table) as writer:
        for batch in _arranged(arguments, table):
            writer.write(batch)
            count, rows = count + 1, rows + batch.num_rows
    print(
        f"{printable(target)}: {render.count(rows, 'row')} in {render.count(count, 'record batch', 'record batches')}"
    )
    return 0


def _create(arguments: argparse.Namespace, path: str, table: Table) -> AbstractContextManager[StatisticsWriter]:
    return create_with_statistics(
        path,
        table.schema,
        files.write_options(arguments, path),
        Statistics(arguments.statistics),
        custom_metadata=table.pairs,
        storage=dict(arguments.storage),
    )


def _arranged(arguments: argparse.Namespace, table: Table) -> Iterator[RecordBatch]:
    """Return the rows in the order and the record batches that were asked for."""
    batches: Iterable[RecordBatch] = table.batches
    rows, nbytes = arguments.batch_rows, arguments.batch_bytes
    if arguments.sort_by is not None:
        batches = _sorted(arguments, table, arguments.sort_by, rows or _SORTED_ROWS)
        rows = None if nbytes is None else rows
    return rechunk(batches, rows=rows, nbytes=nbytes, joined_nbytes=ipc.Limits().max_batch_bytes)


def _sorted(
    arguments: argparse.Namespace, table: Table, names: Sequence[int | str], rows: int
) -> Iterator[RecordBatch]:
    with error_context(asked_by="--sort-by"):
        columns = [position for (position,) in resolve_exactly(table.schema.fields, names)]
    held = list(table.batches)
    if held:
        yield from sort_batches(held, columns, descending=arguments.descending, rows=rows)
