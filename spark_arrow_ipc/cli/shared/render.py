"""Render text for a terminal: tables, counts, and escaped strings.

Every string from a file (names, metadata, error messages) is escaped by `printable` before it is printed, so that no
escape sequence of a hostile file reaches the terminal. There are no colours and no box characters: the output is for
people and for ``grep``.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from spark_arrow_ipc.errors import printable

LEFT = "<"
RIGHT = ">"


def cut(string: str, most: int = 100) -> str:
    """Escape and truncate a string, and append the number of missing characters."""
    shown = printable(string[:most])
    return shown if len(string) <= most else f"{shown}... ({len(string) - most:,} characters more)"


def json_line(value: Any) -> str:
    """Return a value as JSON on one line; characters that do not print are escaped, which JSON reads as the same."""
    line = json.dumps(value, ensure_ascii=False)
    if line.isprintable():
        return line
    return "".join(character if character.isprintable() else _json_escape(character) for character in line)


def _json_escape(character: str) -> str:
    escaped = json.dumps(character)[1:-1]
    return escaped if escaped != character else f"\\u{ord(character):04x}"  # DEL, which is ASCII


def count(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun: ``1 row``, ``2,000 rows``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], align: str = "") -> list[str]:
    """Return the lines of a table in columns, indented by two."""
    cells = [list(head), *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    align = align.ljust(len(widths), LEFT)
    lines = (
        "  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(row, align, widths, strict=True))
        for row in cells
    )
    return [f"  {line}".rstrip() for line in lines]


def fitted(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a table, cut to the width of the terminal if stdout is one; elsewhere as they are."""
    if not sys.stdout.isatty():
        yield from lines
        return
    width = max(shutil.get_terminal_size().columns, _NARROWEST)
    for line in lines:
        yield line if len(line) <= width else f"{line[: width - 1]}>"


_NARROWEST = 20
"""Columns of the narrowest terminal that is believed."""
