"""The rows of one or several files that commands read, by ``--columns`` and ``--where``, and print.

How it works: files are opened one after the other, and one record batch is in memory at a time. ``--where`` runs the
code of Spark's tasks, which needs pyspark and pyarrow, but neither Java nor a session. Only rows that are printed
become Python values, a few at a time: the first rows of a long table appear at once, and each group of rows has columns as
wide as it needs.
"""

from __future__ import annotations

import argparse
import base64
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.column_path import resolve_exactly
from spark_arrow_ipc.arrow.kernels.slice import MostNbytes, split_rows
from spark_arrow_ipc.arrow.kernels.take import take_rows
from spark_arrow_ipc.arrow.python_values.to_text import to_text
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.cli.shared import files, terminal
from spark_arrow_ipc.cli.shared.differences import Comparison
from spark_arrow_ipc.cli.shared.files import Input
from spark_arrow_ipc.cli.shared.terminal import count_rows
from spark_arrow_ipc.dataset.scan.file_range import CONSTANT_SLOTS, PartitionColumns
from spark_arrow_ipc.dataset.table_pairs import fit_pairs
from spark_arrow_ipc.errors import SchemaMismatchError, UnsupportedError, error_context
from spark_arrow_ipc.ipc.columns.projection import select_known_columns

if TYPE_CHECKING:
    from spark_arrow_ipc.ipc.dissociated.connect import DissociatedReader
    from spark_arrow_ipc.spark.read.matching_rows import MatchingRows

_PRINTED_ROWS: Final = 10

AnyReader: TypeAlias = "ipc.FileReader | ipc.StreamReader | DissociatedReader"

BatchesOf: TypeAlias = Callable[["ipc.FileReader | ipc.StreamReader"], Iterable[RecordBatch]]
"""Gives the record batches to read of an open file."""


# ---- arguments


def add_row_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments for columns and rows."""
    parser.add_argument(
        "--columns", type=columns_argument, metavar="NAMES",
        help="comma-separated names of the columns, in order; #0 is the first column",
    )  # fmt: skip
    parser.add_argument(
        "--where", metavar="PREDICATE",
        help="rows for which a predicate in Spark's SQL is true, such as \"carrier = 'AA' AND delay > 60\"; needs PySpark, "
        "but no Java",
    )  # fmt: skip
    parser.add_argument("--time-zone", default="UTC", metavar="ZONE", help="of timestamps in --where (default: UTC)")


def add_number_argument(parser: argparse.ArgumentParser, *, dest: str = "rows") -> None:
    """Declare ``--rows``, the most rows that a command prints."""
    parser.add_argument(
        "-n", "--rows", dest=dest, type=number_of_rows, default=_PRINTED_ROWS, metavar="ROWS",
        help=f"rows of all files together (default: {_PRINTED_ROWS})",
    )  # fmt: skip


def columns_argument(string: str) -> tuple[int | str, ...]:
    """Parse names and positions of columns, for argparse."""
    return tuple(int(name[1:]) if name[:1] == "#" and name[1:].isdecimal() else name for name in string.split(","))


def number_of_rows(string: str) -> int:
    """Parse a number of rows, for argparse."""
    if not string.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a number of rows, found {string!r}")
    return min(int(string), sys.maxsize)


def positive(string: str) -> int:
    """Parse a positive number, for argparse."""
    if not string.isdecimal() or not int(string):
        raise argparse.ArgumentTypeError(f"expected a positive number, found {string!r}")
    return min(int(string), sys.maxsize)


def needs_spark(option: str, error: ModuleNotFoundError) -> UnsupportedError:
    """Return the error of an option that needs PySpark, which is missing."""
    return UnsupportedError(
        f"{option} needs PySpark and pyarrow ({error}): pip install 'spark-arrow-ipc[spark]'; Java is not needed"
    )


# ---- the rows of one file


class Rows(NamedTuple):
    """The rows of an open file, with the partition columns of its path."""

    reader: AnyReader
    schema: Schema
    batches: Iterable[RecordBatch]


@dataclass(frozen=True, slots=True)
class Chosen:
    """The columns, by names and positions, and the predicate that a command got as arguments; None for all."""

    columns: Sequence[int | str] | None = None
    where: str | None = None
    time_zone: str = "UTC"

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> Chosen:
        """Return the columns and rows that the arguments of `add_row_arguments` name."""
        return cls(arguments.columns, arguments.where, arguments.time_zone)

    def is_whole(self, sources: Sequence[Input]) -> bool:
        """Return True for all rows and columns of one file, without columns of its path."""
        return self.columns is None and self.where is None and len(sources) == 1 and not sources[0].fields

    @contextmanager
    def open_rows(self, source: Input, batches_of: BatchesOf | None = None) -> Iterator[Rows]:
        """Open a file for its rows; a partition column follows the file's columns, or replaces the column with its name."""
        columns = ChosenColumns(source, self)
        if source.is_served:
            columns_to_read = self.columns if self.where is None else None
            with ipc.connect(source.path, columns=columns_to_read, token=files.server_token()) as served:
                if self.where is None:
                    yield Rows(served, served.schema, count_rows(served))
                else:
                    # A predicate may need columns that are not printed, so the server sends all.
                    read = columns.of_file(served.schema)
                    yield Rows(served, columns.schema, columns.batches(b.select(read) for b in count_rows(served)))
        elif self.columns is None and self.where is None and not source.fields:
            # The usual case needs no selection.
            with ipc.open(source.openable()) as reader:
                yield Rows(reader, reader.schema, count_rows((batches_of or iter)(reader)))
        else:
            with ipc.open(source.openable(), columns=columns.of_file) as reader:
                batches = (batches_of or columns.matching_batches)(reader)
                yield Rows(reader, columns.schema, columns.batches(count_rows(batches)))

    def matching(self, schema: Schema) -> MatchingRows | None:
        """Compile the predicate for a schema; None without a predicate."""
        if self.where is None:
            return None
        try:
            from spark_arrow_ipc.spark.read.matching_rows import MatchingRows
        except ModuleNotFoundError as error:
            raise needs_spark("--where", error) from error
        return MatchingRows.compile(self.where, schema, self.time_zone)


class ChosenColumns:
    """Puts the chosen columns and rows of one file together, from the file and from its path."""

    def __init__(self, source: Input, chosen: Chosen) -> None:
        self._source = source
        self._chosen = chosen
        self._matching: MatchingRows | None = None
        self._partition = PartitionColumns(Schema(()), source.fields, source.values)
        self.schema = Schema(())
        # Positions among the columns that are read, followed by the columns of the path
        self._places: list[int] = []

    def of_file(self, schema: Schema) -> list[int]:
        """Return the positions to read, for `ipc.open`, and prepare `batches`."""
        all_columns = PartitionColumns(schema, self._source.fields, self._source.values)
        fields = all_columns.schema.fields
        of_path = {position: i for i, position in enumerate(all_columns.positions)}
        chosen = list(range(len(fields)))
        if self._chosen.columns is not None:
            with error_context(asked_by="--columns"):
                chosen = [position for (position,) in resolve_exactly(fields, self._chosen.columns)]
        self._matching = self._chosen.matching(all_columns.schema)
        # Columns of the predicate come after the printed ones.
        needed = (*chosen, *(() if self._matching is None else self._matching.positions))
        # A column may be printed and compared, or printed twice, and is read once.
        read = list(dict.fromkeys(position for position in needed if position not in of_path))
        places = {position: i for i, position in enumerate(read)}
        self._places = [places[p] if p in places else len(read) + of_path[p] for p in needed]
        self.schema = Schema(tuple(fields[p] for p in chosen), schema.custom_metadata, schema.endianness)
        return read

    def matching_batches(self, reader: ipc.FileReader | ipc.StreamReader) -> Iterable[RecordBatch]:
        """Return the record batches of an open file, without those that statistics exclude."""
        if self._matching is None or not reader.is_numbered:
            return reader
        of_path = {field.name: value for field, value in zip(self._source.fields, self._source.values, strict=True)}
        # Statistics may prove that no row of a batch matches.
        keeps = self._matching.select_blocks(reader, of_path)
        return reader if keeps is None else (reader.read_batch(i) for i in range(len(reader)) if keeps(i))

    def batches(self, batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        """Yield the batches with the columns of the path, in the requested order, and only matching rows."""
        for batch in batches:
            # A constant column of the path is as long as a part of the batch: parts bound its memory.
            for start in range(0, max(batch.num_rows, 1), CONSTANT_SLOTS):
                part = batch.slice(start, min(CONSTANT_SLOTS, batch.num_rows - start))
                of_path = self._partition.add(RecordBatch(Schema(()), (), part.num_rows))
                columns = (*part.columns, *of_path.columns)
                needed = [columns[position] for position in self._places]
                ordered, compared = tuple(needed[: len(self.schema)]), tuple(needed[len(self.schema) :])
                reordered = RecordBatch(self.schema, ordered, part.num_rows, batch.custom_metadata)
                if self._matching is None:
                    yield reordered
                    continue
                # The predicate is bound to positions; names may occur twice.
                unnamed = Schema(tuple(t.Field("", column.type) for column in compared))
                rows = self._matching.find(RecordBatch(unnamed, compared, part.num_rows))
                if len(rows):
                    yield reordered if len(rows) == part.num_rows else take_rows(reordered, rows)


def read_schema(source: Input) -> Schema:
    """Return the schema of a file with the columns of its path, also if types are unknown."""
    if source.is_served:
        with Chosen().open_rows(source) as rows:
            return rows.schema
    with ipc.open(source.openable(), columns=select_known_columns) as reader:
        return PartitionColumns(reader.file_schema, source.fields, source.values).schema


def partition_row(source: Input) -> RecordBatch:
    """Return the partition columns of a file as a batch of one row."""
    return PartitionColumns(Schema(()), source.fields, source.values).add(RecordBatch(Schema(()), (), 1))


# ---- the rows of several files


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of several files of one schema; the batches are read while they are iterated, once.

    `pairs` is the footer metadata of the first file that may be copied.
    """

    schema: Schema
    pairs: t.CustomMetadata
    batches: Iterator[RecordBatch]


@contextmanager
def one_table(sources: Sequence[Input], chosen: Chosen) -> Iterator[Table]:
    """Open all inputs as one table; a file of another schema than the first is an error when it is reached."""
    first, *others = sources
    with error_context(path=first.path), chosen.open_rows(first) as rows:

        def batches() -> Iterator[RecordBatch]:
            with error_context(path=first.path):
                yield from rows.batches
            for other in others:
                with error_context(path=other.path), chosen.open_rows(other) as more:
                    check_same_schema(first.path, rows.schema, other.path, more.schema)
                    # All batches get the first schema, as writers may order metadata differently.
                    yield from of_schema(rows.schema, more.batches)

        yield Table(rows.schema, files.foreign_metadata(rows.reader.custom_metadata), batches())


def fit_columns(table: Table) -> Table:
    """Return a table without the metadata that describes all rows and columns of one file, as pandas writes it."""
    schema = fit_pairs(table.schema)
    return Table(schema, table.pairs, of_schema(schema, table.batches))


def check_same_schema(path: str, schema: Schema, other_path: str, other: Schema) -> None:
    """Raise `SchemaMismatchError` with the first difference of two schemas; pandas' number of rows may differ."""
    difference = Comparison(path, other_path).of_schemas(fit_pairs(schema), fit_pairs(other))
    if difference is not None:
        raise SchemaMismatchError(f"its schema is not that of the first file: {difference}", path=other_path)


def of_schema(schema: Schema, batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
    """Yield batches with another schema, equal to theirs except for the order of metadata and endianness."""
    for batch in batches:
        yield RecordBatch(schema, batch.columns, batch.num_rows, batch.custom_metadata)


# ---- printing

# Rows that are converted to Python values, and aligned, together.
_TOGETHER: Final = 1000

_TOGETHER_NBYTES: Final = 64 << 20
# Most bytes of the values of rows that are converted together: more rows are split, and a larger row is an error.
_ROW_NBYTES: Final = 1 << 30

# Most bytes of the values of a record batch: more would print for hours, and is an error at once.
_ALL_NBYTES: Final = 64 << 30

# About the bytes of a Python value in a list and as text, without its content
_VALUE_NBYTES: Final = 64

# Most characters of a value that a table shows
_CELL: Final = 60

# Types whose values are aligned right.
_NUMBERS: Final = (t.Int, t.FloatingPoint, t.Decimal)


def add_format_argument(parser: argparse.ArgumentParser) -> None:
    """Declare the argument for the form of rows."""
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--format",
        choices=tuple(PRINTERS),
        default="table",
        help="a table for people, which truncates long values, or one JSON object a line, with binary as base64",
    )
    form.add_argument("--json", action="store_const", const="jsonl", dest="format", help="the same as --format jsonl")


def print_rows(form: str, schema: Schema, batches: Iterable[RecordBatch], most: int) -> int:
    """Print at most `most` rows of a table; return the number of rows. Reads no batch after them."""
    return PRINTERS[form](schema, _portions(batches, most))


def print_tables(
    form: str, batches: Iterable[tuple[Schema, RecordBatch]], schema_without_rows: Schema | None = None
) -> None:
    """Print all rows of batches, neighbours of one schema as one table, or only the names if no batch comes."""
    for schema, group in groupby(batches, key=itemgetter(0)):
        schema_without_rows = None
        print_rows(form, schema, (batch for _, batch in group), sys.maxsize)
    if schema_without_rows is not None:
        print_rows(form, schema_without_rows, (), 0)


def _portions(batches: Iterable[RecordBatch], most: int) -> Iterator[RecordBatch]:
    """Yield the first `most` rows of a file, a few at a time; reads no batch after them."""
    for number, batch in enumerate(batches):
        rows = min(batch.num_rows, most)
        if rows:
            with error_context(block_kind="record batch", block_number=number):
                yield from split_rows(
                    batch.slice(0, rows),
                    max_rows=_TOGETHER,
                    max_nbytes=_TOGETHER_NBYTES,
                    most=MostNbytes(_ROW_NBYTES, _ALL_NBYTES),
                    slot_nbytes=[_VALUE_NBYTES] * len(batch.columns),
                )
        most -= rows
        if not most:
            return


def _print_table(schema: Schema, portions: Iterator[RecordBatch]) -> int:
    """Print rows in columns below their names; return the number of rows."""
    head = [terminal.cut(name, _CELL) for name in schema.names]
    align = "".join(terminal.RIGHT if isinstance(f.type, _NUMBERS) else terminal.LEFT for f in schema.fields)
    held: list[tuple[str, ...]] = []
    printed = 0

    def flush() -> None:
        lines = terminal.table(head, held, align) if head else [""] * (1 + len(held))
        print("\n".join(terminal.fit_lines(lines[1:] if printed else lines)))

    try:
        for portion in portions:
            columns = [
                ["" if value is None else terminal.cut(str(value), _CELL) for value in to_text(column)]
                for column in portion.columns
            ]
            held += zip(*columns, strict=True) if head else [()] * portion.num_rows
            # A table begins to appear before its last row is read.
            if len(held) >= _TOGETHER:
                flush()
                printed += len(held)
                held = []
    finally:
        # Rows before a broken batch are printed before the error.
        if held or not printed:
            flush()
    return printed + len(held)


def _print_json(schema: Schema, portions: Iterator[RecordBatch]) -> int:
    """Print a JSON object a row; return the number of rows."""
    printed = 0
    for line in _json_lines(schema, portions):
        print(line)
        printed += 1
    return printed


def json_lines(schema: Schema, batches: Iterable[RecordBatch]) -> Iterator[str]:
    """Yield a JSON object for each row. Takes Python time for each value."""
    return _json_lines(schema, _portions(batches, sys.maxsize))


def _json_lines(schema: Schema, portions: Iterator[RecordBatch]) -> Iterator[str]:
    # Arrow allows equal names, which a JSON object would drop.
    names = _unique(schema.names)
    for portion in portions:
        columns = [[_to_json(value) for value in to_text(column, separator="T")] for column in portion.columns]
        for row in zip(*columns, strict=True) if columns else [()] * portion.num_rows:
            yield terminal.json_line(dict(zip(names, row, strict=True)))


def _unique(names: tuple[str, ...]) -> list[str]:
    """Make names unique, because a JSON object has one value for each name."""
    used_names: dict[str, None] = {}
    for name in names:
        unique, number = name, 1
        while unique in used_names:
            unique, number = f"{name}_{number}", number + 1
        used_names[unique] = None
    return list(used_names)


def _to_json(value: Any) -> Any:
    convert = _JSON.get(type(value))
    return value if convert is None else convert(value)


# By Python type: conversions of values that JSON lacks
_JSON: Final[Mapping[type, Callable[[Any], Any]]] = {
    # JSON has no infinities and no NaN; Spark's JSON reader takes them as strings.
    float: lambda value: value if math.isfinite(value) else str(value).replace("inf", "Infinity").replace("nan", "NaN"),
    Decimal: str,
    bytes: lambda value: base64.b64encode(value).decode(),
    list: lambda value: [_to_json(item) for item in value],
    tuple: lambda value: [_to_json(item) for item in value],
    dict: lambda value: {key: _to_json(item) for key, item in value.items()},
}

PRINTERS: Final[Mapping[str, Callable[[Schema, Iterator[RecordBatch]], int]]] = {
    "table": _print_table,
    "jsonl": _print_json,
}
