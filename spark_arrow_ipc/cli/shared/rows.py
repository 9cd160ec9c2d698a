"""The options ``--columns`` and ``--where`` of commands, and the rows that they choose from all inputs.

Strategy
--------
Inputs are opened one after the other, and one record batch is in memory at a time. A command that writes one table
takes `one_table`: the first file gives the schema, and a file whose schema differs is an error when its turn comes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.cli.shared import files, inputs
from spark_arrow_ipc.cli.shared.differences import Comparison
from spark_arrow_ipc.cli.shared.inputs import Input
from spark_arrow_ipc.cli.shared.where import RowPredicate
from spark_arrow_ipc.errors import SchemaMismatchError, error_context

_MOST_ROWS: Final = sys.maxsize
_PRINTED_ROWS: Final = 10


@dataclass(frozen=True, slots=True)
class Chosen:
    """The columns and rows that a command was asked for; None for all."""

    columns: tuple[int | str, ...] | None = None
    where: RowPredicate | None = None

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> Chosen:
        """Return the columns and rows that the arguments of `add_row_arguments` name."""
        where = None if arguments.where is None else RowPredicate(arguments.where, arguments.time_zone)
        return cls(arguments.columns, where)


def add_row_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments for columns and rows."""
    parser.add_argument(
        "--columns",
        type=columns_argument,
        metavar="NAMES",
        help="comma-separated names of the columns, in order; #0 is the first column",
    )
    parser.add_argument(
        "--where",
        metavar="PREDICATE",
        help="rows for which a predicate in Spark's SQL is true, such as \"carrier = 'AA' AND delay > 60\"; needs PySpark, "
        "but no Java",
    )
    parser.add_argument("--time-zone", default="UTC", metavar="ZONE", help="of timestamps in --where (default: UTC)")


def columns_argument(string: str) -> tuple[int | str, ...]:
    """Parse names and positions of columns, for argparse."""
    return tuple(int(name[1:]) if name[:1] == "#" and name[1:].isdecimal() else name for name in string.split(","))


def add_number_argument(parser: argparse.ArgumentParser, *, dest: str = "rows") -> None:
    """Declare ``--rows``, the most rows that a command prints.

    Parameters
    ----------
    parser
        Of the command.
    dest
        The attribute of the parsed arguments.
    """
    parser.add_argument(
        "-n", "--rows", dest=dest, type=number_of_rows, default=_PRINTED_ROWS, metavar="ROWS",
        help=f"rows of all files together (default: {_PRINTED_ROWS})",
    )  # fmt: skip


def number_of_rows(string: str) -> int:
    """Parse a number of rows, for argparse."""
    if not string.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a number of rows, found {string!r}")
    return min(int(string), _MOST_ROWS)


def positive(string: str) -> int:
    """Parse a positive number, for argparse."""
    if not string.isdecimal() or not int(string):
        raise argparse.ArgumentTypeError(f"expected a positive number, found {string!r}")
    return min(int(string), _MOST_ROWS)


def each_given(arguments: argparse.Namespace) -> Iterator[Input]:
    """Yield the inputs of a command whose rows have the columns of their paths."""
    return inputs.each_input(arguments.paths, recursive=arguments.recursive, columns=True, storage=arguments.storage)


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of several files of one schema.

    Parameters
    ----------
    schema
        Of all of them.
    pairs
        Footer metadata of the first file that may be copied.
    batches
        Read while they are iterated, once.
    """

    schema: Schema
    pairs: t.CustomMetadata
    batches: Iterator[RecordBatch]


@contextmanager
def one_table(given: Sequence[Input], chosen: Chosen) -> Iterator[Table]:
    """Open all inputs as one table; close what is open at the end.

    Raises
    ------
    SchemaMismatchError
        While the batches are iterated: the schema of a file is not that of the first; the message names the difference.
    ArrowIpcError, OSError
        A file cannot be read.
    """
    first, *others = given
    with error_context(path=first.path), inputs.open_rows(first, chosen.columns, where=chosen.where) as rows:
        schema = rows.schema

        def batches() -> Iterator[RecordBatch]:
            with error_context(path=first.path):
                yield from rows.batches
            for other in others:
                with (
                    error_context(path=other.path),
                    inputs.open_rows(other, chosen.columns, where=chosen.where) as more,
                ):
                    difference = Comparison(first.path, other.path).of_schemas(schema, more.schema)
                    if difference is not None:
                        raise SchemaMismatchError(f"its schema is not that of the first file: {difference}")
                    for batch in more.batches:
                        # The schemas are equal except for the order of metadata and endianness.
                        yield RecordBatch(schema, batch.columns, batch.num_rows, batch.custom_metadata)

        yield Table(schema, files.foreign_metadata(rows.reader.custom_metadata), batches())
