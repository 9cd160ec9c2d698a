"""Print rows as a table for people, or as JSON lines.

Only rows that are printed become Python values, a few at a time. The widths of a table's columns fit the rows that are
printed together, so that a table of any length begins at once.
"""

from __future__ import annotations

import argparse
import base64
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.kernels.slice import split_rows
from spark_arrow_ipc.arrow.python_values.to_text import to_text
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.cli.shared import render
from spark_arrow_ipc.errors import error_context

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
    """Print all rows of batches, neighbours of one schema as one table; the names alone if there is no batch."""
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
        print("\n".join(render.fitted(lines[1:] if printed else lines)))

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
    printed = 0
    for line in _json_lines(schema, portions):
        print(line)
        printed += 1
    return printed


def json_lines(schema: Schema, batches: Iterable[RecordBatch]) -> Iterator[str]:
    """Yield a JSON object for each row. Costs Python time a value."""
    return _json_lines(schema, _portions(batches, sys.maxsize))


def _json_lines(schema: Schema, portions: Iterator[RecordBatch]) -> Iterator[str]:
    names = _unique(schema.names)
    for portion in portions:
        columns = [[_to_json(value) for value in to_text(column, separator="T")] for column in portion.columns]
        for row in zip(*columns, strict=True) if columns else [()] * portion.num_rows:
            yield render.json_line(dict(zip(names, row, strict=True)))


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

PRINTERS: Final[Mapping[str, Callable[[Schema, Iterator[RecordBatch]], int]]] = {
    "table": _print_table,
    "jsonl": _print_json,
}
