"""``arrowipc cat``: print the rows of files, as a table or as JSON lines.

Strategy
--------
One record batch is in memory at a time, and only rows that are printed become Python values. The widths of a table's
columns fit the rows that are printed together, so that a table of any length begins at once.
"""

from __future__ import annotations

import argparse
import base64
import math
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from decimal import Decimal
from typing import Any, Final

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.kernels.slice import split_rows
from spark_arrow_ipc.arrow.python_values.to_text import to_text
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.cli.shared import inputs, render, tensors
from spark_arrow_ipc.cli.shared.inputs import Input
from spark_arrow_ipc.errors import NoTableError, error_context

__all__ = ["add_arguments", "run"]

_TOGETHER: Final = 1000
"""Rows that are converted to Python values, and aligned, together."""

_TOGETHER_NBYTES: Final = 64 << 20
_ROW_NBYTES: Final = 1 << 30
"""Bytes of the values of rows that are converted together, and of one row: fewer rows, and an error."""

_ALL_NBYTES: Final = 64 << 30
"""Bytes of the values of all rows of a record batch: a command that would print for hours is an error at once."""

_VALUE_NBYTES: Final = 64
"""About the bytes of a Python value, in a list and as text, beside its content."""

_CELL: Final = 60
"""Most characters of a value that a table shows."""

_NUMBERS: Final = (t.Int, t.FloatingPoint, t.Decimal)
"""Types whose values are aligned right."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``arrowipc cat``."""
    inputs.add_path_arguments(parser)
    parser.add_argument(
        "--format",
        choices=tuple(_PRINTERS),
        default="table",
        help="a table for people, which truncates long values, or one JSON object a line, with binary as base64",
    )
    parser.add_argument(
        "--columns",
        type=_columns,
        metavar="NAMES",
        help="comma-separated names of the columns to print, in order; #0 is the first column",
    )
    parser.add_argument(
        "--limit", type=_rows, default=sys.maxsize, metavar="ROWS", help="print at most this number of rows"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the rows of all files, one after the other, up to the first error."""
    left = arguments.limit
    for given in inputs.each_input(
        arguments.paths, recursive=arguments.recursive, columns=True, storage=arguments.storage
    ):
        if not left:
            break
        with error_context(path=given.path), closing(_tables(given, arguments.columns)) as tables:
            for schema, batches in tables:
                left -= _PRINTERS[arguments.format](schema, _portions(batches, left))
                if not left:
                    break
    return 0


def _tables(
    given: Input, columns: Sequence[int | str] | None
) -> Generator[tuple[Schema, Iterable[RecordBatch]], None, None]:
    """Yield the table of a file, or one of cells for each tensor."""
    try:
        with inputs.open_rows(given, columns) as rows:
            yield rows.schema, rows.batches
    except NoTableError:
        if not tensors.holds_tensors(given):
            raise
        yield from tensors.each_table_of_cells(given, columns)


def _columns(string: str) -> list[int | str]:
    return [int(name[1:]) if name[:1] == "#" and name[1:].isdecimal() else name for name in string.split(",")]


def _rows(string: str) -> int:
    if not string.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a number of rows, found {string!r}")
    return int(string)


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
                    max_row_nbytes=_ROW_NBYTES,
                    max_all_nbytes=_ALL_NBYTES,
                    slot_nbytes=[_VALUE_NBYTES] * len(batch.columns),
                )
        most -= rows
        if not most:
            return


def _print_table(schema: Schema, portions: Iterator[RecordBatch]) -> int:
    """Print rows in columns below their names; return the number of rows."""
    head = [render.cut(name, _CELL) for name in schema.names]
    align = "".join(render.RIGHT if isinstance(f.type, _NUMBERS) else render.LEFT for f in schema.fields)
    held: list[tuple[str, ...]] = []
    printed = 0

    def flush() -> None:
        lines = render.table(head, held, align) if head else [""] * (1 + len(held))
        print("\n".join(lines[1:] if printed else lines))

    try:
        for portion in portions:
            columns = [list(map(_cell, to_text(column))) for column in portion.columns]
            held += zip(*columns, strict=True) if head else [()] * portion.num_rows
            if len(held) >= _TOGETHER:
                flush()
                printed += len(held)
                held = []
    finally:
        # Rows before a broken batch are printed before the error.
        if held or not printed:
            flush()
    return printed + len(held)


def _cell(value: Any) -> str:
    return "" if value is None else render.cut(value if isinstance(value, str) else str(value), _CELL)


def _print_json(schema: Schema, portions: Iterator[RecordBatch]) -> int:
    """Print a JSON object a row; return the number of rows."""
    names = _unique(schema.names)
    printed = 0
    for portion in portions:
        columns = [[_to_json(value) for value in to_text(column, separator="T")] for column in portion.columns]
        for row in zip(*columns, strict=True) if columns else [()] * portion.num_rows:
            print(render.json_line(dict(zip(names, row, strict=True))))
        printed += portion.num_rows
    return printed


def _unique(names: tuple[str, ...]) -> list[str]:
    """Make names unique, because a JSON object has one value for each name."""
    taken: dict[str, None] = {}
    for name in names:
        unique, number = name, 1
        while unique in taken:
            unique, number = f"{name}_{number}", number + 1
        taken[unique] = None
    return list(taken)


def _to_json(value: Any) -> Any:
    convert = _JSON.get(type(value))
    return value if convert is None else convert(value)


_JSON: Final[Mapping[type, Callable[[Any], Any]]] = {
    # JSON has no infinities and no NaN; Spark's JSON reader takes them as strings.
    float: lambda value: value if math.isfinite(value) else str(value).replace("inf", "Infinity").replace("nan", "NaN"),
    Decimal: str,
    bytes: lambda value: base64.b64encode(value).decode(),
    list: lambda value: [_to_json(item) for item in value],
    tuple: lambda value: [_to_json(item) for item in value],
    dict: lambda value: {key: _to_json(item) for key, item in value.items()},
}
"""By Python type: conversions of values that JSON lacks; all others are written as they are."""

_PRINTERS: Final[Mapping[str, Callable[[Schema, Iterator[RecordBatch]], int]]] = {
    "table": _print_table,
    "jsonl": _print_json,
}
