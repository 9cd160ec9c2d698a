"""``arrowipc rewrite``, ``concat`` and ``split``: write the rows of files anew, into one file or several.

`rewrite` sorts and cuts rows, and collects statistics; `concat` copies record batches unchanged; `split` opens a new
file when one is full. Each file gets its name when it is complete.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import Final, Self

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.column_path import resolve_exactly
from spark_arrow_ipc.arrow.kernels.order import sort_batches
from spark_arrow_ipc.arrow.kernels.slice import rechunk
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.cli.shared import files, terminal
from spark_arrow_ipc.cli.shared.files import Input
from spark_arrow_ipc.cli.shared.rows import (
    Chosen,
    Table,
    add_row_arguments,
    check_same_schema,
    columns_argument,
    fit_columns,
    of_schema,
    one_table,
    positive,
)
from spark_arrow_ipc.cli.shared.storages import storage_at
from spark_arrow_ipc.dataset.statistics import Statistics
from spark_arrow_ipc.dataset.statistics.collect import create_with_statistics
from spark_arrow_ipc.dataset.table_pairs import fit_pairs
from spark_arrow_ipc.errors import ArrowIpcError, error_context, printable
from spark_arrow_ipc.storage.paths import join
from spark_arrow_ipc.storage.storage import Storage

# Rows of a record batch after sorting, by default
_SORTED_ROWS: Final = 65_536

# `split --bytes` cuts a record batch above this part of a file's size, so that files come near that size
_BATCHES_IN_PART: Final = 4


def rewrite_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``arrowipc rewrite``."""
    files.add_path_arguments(parser)
    parser.add_argument("target", metavar="TARGET", help="the file to write")
    add_row_arguments(parser)
    parser.add_argument(
        "--sort-by", type=columns_argument, metavar="NAMES",
        help="sort all rows by these columns, nulls first as in Spark; they must fit in memory",
    )  # fmt: skip
    parser.add_argument("--descending", action="store_true", help="the greatest values first, and nulls last")
    parser.add_argument(
        "--batch-rows", type=positive, metavar="ROWS",
        help=f"rows of each record batch; by default as they are, and {_SORTED_ROWS:,} if they are sorted",
    )  # fmt: skip
    parser.add_argument(
        "--batch-bytes", type=positive, metavar="BYTES", help="most bytes of each record batch, before compression"
    )
    parser.add_argument(
        "--statistics", choices=[word.value for word in Statistics], default=Statistics.AUTO.value,
        help="columns with statistics in the footer, with which readers skip record batches (default: auto, the first 64)",
    )  # fmt: skip
    files.add_output_arguments(parser)
    files.add_force_argument(parser)


def concat_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``arrowipc concat``."""
    files.add_path_arguments(parser)
    parser.add_argument("target", metavar="TARGET", help="the file to write")
    parser.add_argument(
        "--batch-rows", type=positive, metavar="ROWS",
        help="rows of each record batch, fewer where they take more than 2 GiB; by default record batches are copied as they are",
    )  # fmt: skip
    files.add_output_arguments(parser)
    files.add_force_argument(parser)


def split_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``arrowipc split``."""
    files.add_path_arguments(parser)
    parser.add_argument("target", metavar="TARGET", help="the directory of the files to write; it must not exist")
    add_row_arguments(parser)
    size = parser.add_mutually_exclusive_group(required=True)
    size.add_argument("--rows", type=positive, metavar="ROWS", help="rows of each file; the last one may have fewer")
    size.add_argument(
        "--bytes", type=positive, metavar="BYTES", help="most bytes of each file; a single row may take more"
    )
    files.add_output_arguments(parser)


# ---- rewrite


def run_rewrite(arguments: argparse.Namespace) -> int:
    """Write the rows of all files, which have one schema, as one file."""
    target = arguments.target
    sources = _inputs(arguments)
    chosen, metadata = Chosen.of(arguments), files.MetadataCount()
    with (
        one_table(sources, chosen) as read,
        nullcontext(read if chosen.is_whole(sources) and arguments.sort_by is None else fit_columns(read)) as table,
        create_with_statistics(
            target,
            table.schema,
            files.write_options(arguments, target),
            Statistics(arguments.statistics),
            custom_metadata=table.pairs,
            storage=dict(arguments.storage),
        ) as writer,
    ):
        batches = _arrange(arguments, replace(table, batches=metadata.read(table.batches)))
        written, rows = files.write_all(writer, metadata.count_written(batches))
    metadata.complain(target)
    print(f"{printable(target)}: {_rows_in_batches(rows, written)}")
    return 0


def _inputs(arguments: argparse.Namespace) -> list[Input]:
    """Check the name of the target, list the files to read, and check that the target is another file."""
    files.check_ending(arguments, arguments.target)
    # Before the listing, which may take long.
    files.check_target(arguments, arguments.target, ())
    sources = list(files.list_inputs(arguments, columns=True))
    files.check_target(arguments, arguments.target, sources)
    return sources


def _rows_in_batches(rows: int, batches: int) -> str:
    return f"{terminal.count(rows, 'row')} in {terminal.count(batches, 'record batch', 'record batches')}"


def _arrange(arguments: argparse.Namespace, table: Table) -> Iterator[RecordBatch]:
    """Return the rows in the order and record batches that the arguments name."""
    batches: Iterable[RecordBatch] = table.batches
    rows, nbytes = arguments.batch_rows, arguments.batch_bytes
    if arguments.sort_by is not None:
        batches = _sort_rows(arguments, table, arguments.sort_by, rows or _SORTED_ROWS)
        # Sorted batches have this number of rows already, unless bytes bound them too.
        rows = None if nbytes is None else rows
    return rechunk(batches, rows=rows, nbytes=nbytes, joined_nbytes=ipc.Limits().max_batch_bytes)


def _sort_rows(
    arguments: argparse.Namespace, table: Table, names: Sequence[int | str], rows: int
) -> Iterator[RecordBatch]:
    with error_context(asked_by="--sort-by"):
        columns = [position for (position,) in resolve_exactly(table.schema.fields, names)]
    # Sorting needs all rows at once.
    held = list(table.batches)
    if held:
        yield from sort_batches(held, columns, descending=arguments.descending, rows=rows)


# ---- concat


def run_concat(arguments: argparse.Namespace) -> int:
    """Write the rows of all files in the order of the paths."""
    target = arguments.target
    sources = _inputs(arguments)
    # All schemas are compared before anything is written. This opens files twice, but headers are small.
    schema, pairs = _common_schema(sources)
    metadata = files.MetadataCount()
    with files.create(arguments, target, schema, pairs) as writer:
        # A number of rows says nothing about their bytes, which need a bound of their own.
        most = ipc.Limits().max_batch_bytes
        batches = rechunk(
            metadata.read(_read_batches(sources, schema)), rows=arguments.batch_rows, nbytes=None, joined_nbytes=most
        )
        written, rows = files.write_all(writer, metadata.count_written(batches))
    metadata.complain(target)
    print(f"{printable(target)}: {_rows_in_batches(rows, written)}, of {terminal.count(len(sources), 'file')}")
    return 0


def _common_schema(sources: list[Input]) -> tuple[Schema, t.CustomMetadata]:
    """Return the schema of all files, and the footer metadata that all have in common."""
    first, *others = sources
    with Chosen().open_rows(first) as rows:
        schema, pairs = rows.schema, files.foreign_metadata(rows.reader.custom_metadata)
    for other in others:
        with Chosen().open_rows(other) as rows:
            check_same_schema(first.path, schema, other.path, rows.schema)
            # A pair of one file only may describe just its rows.
            pairs = tuple(pair for pair in pairs if pair in rows.reader.custom_metadata)
    return (fit_pairs(schema) if others or first.fields else schema), pairs


def _read_batches(sources: list[Input], schema: Schema) -> Iterator[RecordBatch]:
    for one in sources:
        with Chosen().open_rows(one) as rows:
            yield from of_schema(schema, rows.batches)


# ---- split


def run_split(arguments: argparse.Namespace) -> int:
    """Write the rows as several files, and print their number."""
    target = arguments.target
    storage = storage_at(target, arguments.storage)
    files.refuse_existing(storage, target)
    sources = list(files.list_inputs(arguments, columns=True))
    with one_table(sources, Chosen.of(arguments)) as read:
        table = fit_columns(read)
        # After the first file could be opened, so that a wrong path leaves nothing.
        storage.make_directory(storage.resolve(target))
        with _Parts(arguments, storage, table) as parts:
            for batch in _cut_batches(arguments, table.batches):
                parts.write(batch)
    print(f"{printable(target)}: {terminal.count(parts.rows, 'row')} in {terminal.count(parts.count, 'file')}")
    return 0


def _cut_batches(arguments: argparse.Namespace, batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
    if arguments.bytes is not None:
        # A file is closed before the batch that would exceed its bytes: smaller batches waste less.
        cut = max(arguments.bytes // _BATCHES_IN_PART, 1)
        for batch in batches:
            yield from rechunk([batch], rows=None, nbytes=cut)
        return
    left = arguments.rows
    for batch in batches:
        start = 0
        while start < batch.num_rows:
            rows = min(left, batch.num_rows - start)
            yield batch.slice(start, rows)
            start += rows
            # A new file begins where one is full, in the middle of a batch too.
            left = left - rows or arguments.rows


class _Parts:
    """Writes record batches into files, one after the other, at least one; an error removes all, and the directory."""

    def __init__(self, arguments: argparse.Namespace, storage: Storage, table: Table) -> None:
        self._arguments, self._storage, self._table = arguments, storage, table
        self._writer: ipc.Writer | None = None
        self._in_file = 0
        self.rows = self.count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is None:
            # A table without rows still has a schema.
            if not self.count:
                self._open()
            self._close()
            return
        if self._writer is not None:
            self._writer.abort()
        target = self._storage.resolve(self._arguments.target)
        # The directory belongs to this run, as it did not exist before; the first error is the one to report.
        with suppress(OSError, ArrowIpcError):
            self._storage.inside(target).delete_all([join(target, self._name(number)) for number in range(self.count)])
            self._storage.delete_directory_if_empty(target)

    def write(self, batch: RecordBatch) -> None:
        """Append rows, to a new file if the open one is full."""
        writer = self._writer or self._open()
        # A file's first batch is written whatever its size: a single row may be larger than a file should be.
        within = self._arguments.bytes if self._in_file else None
        if not writer.write(batch, within=within):
            self._close()
            self._open().write(batch)
        self._in_file += batch.num_rows
        self.rows += batch.num_rows
        if self._in_file == self._arguments.rows:
            self._close()

    def _open(self) -> ipc.Writer:
        path = join(self._arguments.target, self._name(self.count))
        self._writer = files.create(self._arguments, path, self._table.schema, self._table.pairs)
        self.count += 1
        self._in_file = 0
        return self._writer

    def _name(self, number: int) -> str:
        return f"part-{number:05d}{'.arrows' if self._arguments.ipc_format == 'stream' else '.arrow'}"

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._writer = None
