"""``arrowipc split``: write the rows of files as several files of at most so many rows or bytes.

Strategy
--------
Each file appears when it is whole. An error removes those before it, and the directory, which is of this run alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final, Self

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow.kernels.slice import rechunk
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.cli.shared import files, inputs, render
from spark_arrow_ipc.cli.shared.rows import Chosen, Table, add_row_arguments, each_given, one_table, positive
from spark_arrow_ipc.cli.shared.storages import storage_at
from spark_arrow_ipc.errors import ArrowIpcError, printable
from spark_arrow_ipc.storage.paths import join
from spark_arrow_ipc.storage.storage import Storage

_BATCH_SHARE: Final = 4
"""Record batches that are larger than one of so many parts of a file are cut, so that files come near their size."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``arrowipc split``."""
    inputs.add_path_arguments(parser)
    parser.add_argument("target", metavar="TARGET", help="the directory of the files to write; it must not exist")
    add_row_arguments(parser)
    size = parser.add_mutually_exclusive_group(required=True)
    size.add_argument("--rows", type=positive, metavar="ROWS", help="rows of each file; the last one may have fewer")
    size.add_argument(
        "--bytes", type=positive, metavar="BYTES", help="most bytes of each file; a single row may take more"
    )
    files.add_output_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write the files, and print their number."""
    target = arguments.target
    storage = storage_at(target, arguments.storage)
    files.refuse_existing(storage, target)
    given = list(each_given(arguments))
    with one_table(given, Chosen.of(arguments)) as table:
        storage.make_directory(storage.resolve(target))
        parts = _Parts(arguments, storage, target, table)
        with parts:
            for batch in _cut(arguments, table.batches):
                parts.write(batch)
    print(f"{printable(target)}: {render.count(parts.rows, 'row')} in {render.count(parts.count, 'file')}")
    return 0


def _cut(arguments: argparse.Namespace, batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
    if arguments.bytes is not None:
        cut = max(arguments.bytes // _BATCH_SHARE, 1)
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
            left = left - rows or arguments.rows


class _Parts:
    """Writes record batches into files, one after the other; at least one file."""

    def __init__(self, arguments: argparse.Namespace, storage: Storage, target: str, table: Table) -> None:
        self._arguments, self._storage, self._target, self._table = arguments, storage, target, table
        self._writer: ipc.Writer | None = None
        self._in_file = 0
        self.rows = self.count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is None and self._writer is None and not self.count:
            self._open()
        if kind is None:
            self._close()
            return
        if self._writer is not None:
            self._writer.abort()
        target = self._storage.resolve(self._target)
        with suppress(OSError, ArrowIpcError):  # the first error is the one to tell
            self._storage.inside(target).delete_all([join(target, self._name(number)) for number in range(self.count)])
            self._storage.delete_directory_if_empty(target)

    def write(self, batch: RecordBatch) -> None:
        """Append rows, to a new file if the open one is full."""
        writer = self._writer or self._open()
        within = self._arguments.bytes if self._in_file else None
        if not writer.write(batch, within=within):
            self._close()
            self._open().write(batch)
        self._in_file += batch.num_rows
        self.rows += batch.num_rows
        if self._in_file == self._arguments.rows:
            self._close()

    def _open(self) -> ipc.Writer:
        path = join(self._target, self._name(self.count))
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
