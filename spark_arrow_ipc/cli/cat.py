"""``arrowipc cat``: the rows of files, as a table or as JSON lines.

Strategy
--------
One record batch is in memory at a time, and no more of it is turned into Python values than is printed. The columns
of a table are as wide as the rows printed together need, so that a table of any length begins at once.
"""

from __future__ import annotations

import argparse
import base64
import datetime as dt
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.cli.shared import files, render

__all__ = ["add_arguments", "run"]

_TOGETHER: Final = 1000
"""Rows that are turned into values, and aligned, together."""

_CELL: Final = 60
"""Characters of a value that a table shows."""

_NUMBERS: Final = (t.Int, t.FloatingPoint, t.Decimal)
"""Types whose values stand right."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``arrowipc cat``."""
    files.add_path_arguments(parser)
    parser.add_argument(
        "--format",
        choices=tuple(_PRINTERS),
        default="table",
        help="a table for people, which cuts long values, or one JSON object a line, with binary as base64",
    )
    parser.add_argument(
        "--columns",
        type=_columns,
        metavar="NAMES",
        help="comma-separated names of columns in the order in which they are printed; #0 is the first column",
    )
    parser.add_argument("--limit", type=_rows, default=sys.maxsize, metavar="ROWS", help="print at most so many rows")


def run(arguments: argparse.Namespace) -> int:
    """Print the rows of all files, one after the other; an error ends it."""
    left = arguments.limit
    for path in files.each_file(arguments):
        if not left:
            break
        with ipc.open(path, columns=arguments.columns) as reader:
            left -= _PRINTERS[arguments.format](reader.schema, _portions(reader, left))
    return 0


def _columns(text: str) -> list[int | str]:
    return [int(name[1:]) if name[:1] == "#" and name[1:].isdecimal() else name for name in text.split(",")]


def _rows(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a number of rows, found {text!r}")
    return int(text)


def _portions(reader: ipc.FileReader | ipc.StreamReader, most: int) -> Iterator[RecordBatch]:
    """Yield the first rows of a file, `most` at most, a few at a time; reads no batch beyond them."""
    for batch in reader:
        rows = min(batch.num_rows, most)
        for first in range(0, rows, _TOGETHER):
            yield batch.slice(first, min(_TOGETHER, rows - first))
        most -= rows
        if not most:
            return


def _print_table(schema: Schema, portions: Iterator[RecordBatch]) -> int:
    """Print rows in columns below their names; return how many."""
    head = [render.cut(name, _CELL) for name in schema.names]
    align = "".join(render.RIGHT if isinstance(f.type, _NUMBERS) else render.LEFT for f in schema.fields)
    held: list[tuple[str, ...]] = []
    printed = 0

    def flush() -> None:
        lines = render.table(head, held, align) if head else [""] * (1 + len(held))
        print("\n".join(lines[1:] if printed else lines))

    try:
        for portion in portions:
            columns = [list(map(_cell, column.to_pylist())) for column in portion.columns]
            held += zip(*columns, strict=True) if head else [()] * portion.num_rows
            if len(held) >= _TOGETHER:
                flush()
                printed += len(held)
                held = []
    finally:
        # What comes before a broken batch is shown before the error is.
        if held or not printed:
            flush()
    return printed + len(held)


def _cell(value: Any) -> str:
    return "" if value is None else render.cut(value if isinstance(value, str) else str(value), _CELL)


def _print_json(schema: Schema, portions: Iterator[RecordBatch]) -> int:
    """Print a JSON object a row; return how many."""
    names = _unique(schema.names)
    printed = 0
    for portion in portions:
        columns = [[_to_json(value) for value in column.to_pylist()] for column in portion.columns]
        for row in zip(*columns, strict=True) if columns else [()] * portion.num_rows:
            print(json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False))
        printed += portion.num_rows
    return printed


def _unique(names: tuple[str, ...]) -> list[str]:
    """Return names, of which the second of a kind is numbered: an object keeps one value a name."""
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
    # JSON has no word for these; quoted ones are what Spark's reader of JSON takes.
    float: lambda value: value if math.isfinite(value) else str(value).replace("inf", "Infinity").replace("nan", "NaN"),
    Decimal: str,
    bytes: lambda value: base64.b64encode(value).decode(),
    dt.date: dt.date.isoformat,
    dt.time: dt.time.isoformat,
    dt.datetime: dt.datetime.isoformat,
    dt.timedelta: str,
    list: lambda value: [_to_json(item) for item in value],
    tuple: lambda value: [_to_json(item) for item in value],
    dict: lambda value: {key: _to_json(item) for key, item in value.items()},
}
"""What JSON does not know, by the type of the Python value; all others are written as they are."""

_PRINTERS: Final[Mapping[str, Callable[[Schema, Iterator[RecordBatch]], int]]] = {
    "table": _print_table,
    "jsonl": _print_json,
}
