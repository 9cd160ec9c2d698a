"""``arrowipc tail``: print the last rows of files.

Strategy
--------
Files are opened from the last one back, and the record batches of a file are read from its end, until there are enough
rows. A stream has no index and is read from its start, with the batches of the last rows in memory.
"""

from __future__ import annotations

import argparse
from collections import deque
from collections.abc import Iterable, Iterator

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.cli.shared import inputs
from spark_arrow_ipc.cli.shared.inputs import Input
from spark_arrow_ipc.cli.shared.print_rows import add_format_argument, print_rows, print_tables
from spark_arrow_ipc.cli.shared.rows import Chosen, add_number_argument, add_row_arguments, each_given
from spark_arrow_ipc.errors import error_context


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``arrowipc tail``."""
    inputs.add_path_arguments(parser)
    add_format_argument(parser)
    add_row_arguments(parser)
    add_number_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the last rows, in the order of the files."""
    left = arguments.rows
    chosen = Chosen.of(arguments)
    found: list[tuple[Schema, RecordBatch]] = []
    schema = None
    for given in reversed(list(each_given(arguments))):
        with error_context(path=given.path):
            schema, batches = _last(given, chosen, left)
        found += ((schema, batch) for batch in batches)
        left -= sum(batch.num_rows for batch in batches)
        if not left:
            break
    if found:
        print_tables(arguments.format, reversed(found))
    elif schema is not None:
        print_rows(arguments.format, schema, (), 0)
    return 0


def _last(given: Input, chosen: Chosen, most: int) -> tuple[Schema, list[RecordBatch]]:
    """Return the schema of a file, and the batches of its last rows, the last one first."""
    with inputs.open_rows(given, chosen.columns, _backward, chosen.where) as rows:
        if isinstance(rows.reader, ipc.FileReader):
            return rows.schema, list(_first(rows.batches, most))
        held: deque[RecordBatch] = deque()
        count = 0
        for batch in rows.batches:
            held.append(batch)
            count += batch.num_rows
            while held and count - held[0].num_rows >= most:
                count -= held.popleft().num_rows
        return rows.schema, list(_first(reversed(held), most))


def _backward(reader: ipc.FileReader | ipc.StreamReader) -> Iterable[RecordBatch]:
    if not isinstance(reader, ipc.FileReader):
        return reader
    return (reader.read_batch(i) for i in reversed(range(len(reader))))


def _first(batches: Iterable[RecordBatch], most: int) -> Iterator[RecordBatch]:
    """Yield batches from the last one back until there are enough rows; reads no batch after them."""
    for batch in batches:
        if not most:
            return
        rows = min(batch.num_rows, most)
        yield batch.slice(batch.num_rows - rows, rows)
        most -= rows
        if not most:
            return
