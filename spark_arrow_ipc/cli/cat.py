"""``arrowipc cat``: print the rows of files, as a table or as JSON lines. One record batch is in memory at a time."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Generator, Iterable
from contextlib import closing
from itertools import chain

from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.cli.shared import inputs, tensors
from spark_arrow_ipc.cli.shared.inputs import Input
from spark_arrow_ipc.cli.shared.print_rows import add_format_argument, print_rows
from spark_arrow_ipc.cli.shared.rows import Chosen, add_row_arguments, each_given, number_of_rows
from spark_arrow_ipc.errors import NoTableError, error_context


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``arrowipc cat``."""
    inputs.add_path_arguments(parser)
    add_format_argument(parser)
    add_row_arguments(parser)
    parser.add_argument(
        "--limit", type=number_of_rows, default=sys.maxsize, metavar="ROWS", help="print at most this number of rows"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the rows of all files, one after the other, up to the first error."""
    left = arguments.limit
    chosen = Chosen.of(arguments)
    without_rows: Schema | None = None
    is_printed = False
    for given in each_given(arguments):
        if not left:
            break
        with error_context(path=given.path), closing(_tables(given, chosen)) as tables:
            for schema, batches in tables:
                if chosen.where is not None:
                    # Names of columns without a row, once for each file, would bury the rows.
                    source = iter(batches)
                    first = next(source, None)
                    if first is None:
                        without_rows = schema
                        continue
                    batches = chain([first], source)  # noqa: PLW2901 - the same rows
                is_printed = True
                left -= print_rows(arguments.format, schema, batches, left)
                if not left:
                    break
    if not is_printed and without_rows is not None:
        print_rows(arguments.format, without_rows, (), 0)
    return 0


def _tables(given: Input, chosen: Chosen) -> Generator[tuple[Schema, Iterable[RecordBatch]], None, None]:
    """Yield the table of a file, or one of cells for each tensor."""
    try:
        with inputs.open_rows(given, chosen.columns, where=chosen.where) as rows:
            yield rows.schema, rows.batches
    except NoTableError:
        if not tensors.holds_tensors(given) or chosen.where is not None:
            raise
        yield from tensors.each_table_of_cells(given, chosen.columns)
