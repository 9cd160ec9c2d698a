"""Plain text for a terminal: tables, sizes, and names that cannot harm it.

Strategy
--------
Everything that a file says (names, metadata, error texts) passes through `printable` before it is printed, so
that no escape sequence of a hostile file reaches the terminal. No colours and no box characters: the output is
read by people and by ``grep``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["LEFT", "RIGHT", "count", "cut", "printable", "table"]

LEFT = "<"
RIGHT = ">"


def printable(text: str) -> str:
    """Return `text` on one line, with every character that does not print written as its escape."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def cut(text: str, most: int = 100) -> str:
    """Return `printable` text of at most about `most` characters, saying how many were left out."""
    shown = printable(text[:most])
    return shown if len(text) <= most else f"{shown}... ({len(text) - most:,} characters more)"


def count(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun: ``1 row``, ``2,000 rows``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], align: str = "") -> list[str]:
    """Return the lines of a table in columns, indented by two.

    Parameters
    ----------
    head
        The columns' names.
    rows
        Cells as text; every row as long as `head`.
    align
        One of `LEFT` and `RIGHT` a column; columns beyond its end stand left.
    """
    cells = [list(head), *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    align = align.ljust(len(widths), LEFT)
    lines = (
        "  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(row, align, widths, strict=True))
        for row in cells
    )
    return [f"  {line}".rstrip() for line in lines]
