"""Render text for a terminal: tables, counts, and escaped strings.

Strategy
--------
Every string from a file (names, metadata, error messages) is escaped by `printable` before it is printed, so that no
escape sequence of a hostile file reaches the terminal. There are no colours and no box characters: the output is for
people and for ``grep``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["LEFT", "RIGHT", "count", "cut", "printable", "table"]

LEFT = "<"
RIGHT = ">"


def printable(string: str) -> str:
    """Return a string on one line, with characters that do not print as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in string)


def cut(string: str, most: int = 100) -> str:
    """Escape and truncate a string, and append the number of missing characters."""
    shown = printable(string[:most])
    return shown if len(string) <= most else f"{shown}... ({len(string) - most:,} characters more)"


def count(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun: ``1 row``, ``2,000 rows``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], align: str = "") -> list[str]:
    """Return the lines of a table in columns, indented by two.

    Parameters
    ----------
    head
        Names of the columns.
    rows
        Cells; every row is as long as `head`.
    align
        `LEFT` or `RIGHT` for each column; columns after its end are aligned left.
    """
    cells = [list(head), *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    align = align.ljust(len(widths), LEFT)
    lines = (
        "  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(row, align, widths, strict=True))
        for row in cells
    )
    return [f"  {line}".rstrip() for line in lines]
