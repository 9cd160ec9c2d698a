"""Text for a terminal: tables, counts, escaped strings, and a line of progress.

`printable` escapes every string from a file (names, metadata, error messages), so that no escape sequence of a hostile
file reaches the terminal. The output is for people and for ``grep``, without colours and boxes.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Protocol, TextIO, TypeVar, cast

from spark_arrow_ipc.errors import printable

LEFT = "<"
RIGHT = ">"

# Fewest columns of a terminal: pseudo-terminals may report 0
_NARROWEST = 20


def cut(string: str, most: int = 100) -> str:
    """Escape and truncate a string, and append the number of missing characters."""
    # Cut first: a name of a hostile file may have a gigabyte.
    shown = printable(string[:most])
    return shown if len(string) <= most else f"{shown}... ({len(string) - most:,} characters more)"


def json_line(value: Any) -> str:
    """Return a value as JSON on one line, with escapes for characters that do not print."""
    line = json.dumps(value, ensure_ascii=False)
    if line.isprintable():
        return line
    # DEL is ASCII, so that `json.dumps` leaves it.
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1].replace("\x7f", "\\u007f") for c in line)


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


def fit_lines(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a table, cut to the width of the terminal if stdout is one."""
    if not sys.stdout.isatty():
        yield from lines
        return
    # Asked for each table, as a window may change meanwhile.
    width = max(shutil.get_terminal_size().columns, _NARROWEST)
    for line in lines:
        yield line if len(line) <= width else f"{line[: width - 1]}>"


# ---- progress
#
# From the third second on, the line is drawn on stderr if that is a terminal, at most five times a second, and erased
# before anything else is printed.

_AFTER_SECONDS: Final = 2.0
_EVERY_SECONDS: Final = 0.2
_ERASE: Final = "\r\x1b[K"

_T = TypeVar("_T")


class _HasRows(Protocol):
    @property
    def num_rows(self) -> int: ...


_B = TypeVar("_B", bound=_HasRows)


class Progress:
    """Counts files and rows, and draws them on a terminal."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._start = clock()
        # Most commands end before the first line is due, and draw none.
        self._drawn_at = self._start + _AFTER_SECONDS - _EVERY_SECONDS
        self._is_drawn = False
        self.files = self.rows = 0

    def add(self, *, files: int = 0, rows: int = 0) -> None:
        """Count files and rows, and draw the line if it is time."""
        self.files += files
        self.rows += rows
        now = self._clock()
        if now - self._drawn_at < _EVERY_SECONDS:
            return
        self._drawn_at = now
        parts = [f"{self.files:,} {'file' if self.files == 1 else 'files'}"] if self.files else []
        parts += [f"{self.rows:,} {'row' if self.rows == 1 else 'rows'}"] if self.rows else []
        # A line longer than the terminal would wrap, and erase only its last part.
        line = ", ".join([*parts, f"{now - self._start:,.0f} s"])
        width = shutil.get_terminal_size().columns
        self._stream.write(_ERASE + line[: max(width - 1, 1)])
        self._stream.flush()
        self._is_drawn = True

    def erase(self) -> None:
        """Erase the line, before something else is printed."""
        if self._is_drawn:
            self._is_drawn = False
            self._stream.write(_ERASE)
            self._stream.flush()


class _ErasesFirst:
    """A text stream before whose output the line is erased."""

    def __init__(self, stream: TextIO, progress: Progress) -> None:
        self._stream = stream
        self._progress = progress

    def write(self, text: str) -> int:
        self._progress.erase()
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


# The progress that is shown: one or none.
_current: list[Progress] = []


@contextmanager
def show_progress() -> Iterator[None]:
    """Show the progress of what runs inside, if stderr is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    out, err = sys.stdout, sys.stderr
    progress = Progress(err)
    # A list, as functions deep inside count without an argument for it.
    _current.append(progress)
    sys.stderr = cast("TextIO", _ErasesFirst(err, progress))
    # A file or pipe does not mix with the line.
    if out.isatty():
        sys.stdout = cast("TextIO", _ErasesFirst(out, progress))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = out, err
        _current.remove(progress)
        progress.erase()


def count_files(files: Iterable[_T]) -> Iterator[_T]:
    """Yield files, and count each."""
    for file in files:
        for progress in _current:
            progress.add(files=1)
        yield file


def advance(rows: int = 0, *, files: int = 0) -> None:
    """Count rows, and files."""
    for progress in _current:
        progress.add(files=files, rows=rows)


def count_rows(batches: Iterable[_B]) -> Iterator[_B]:
    """Yield record batches, and count their rows."""
    for batch in batches:
        advance(batch.num_rows)
        yield batch
