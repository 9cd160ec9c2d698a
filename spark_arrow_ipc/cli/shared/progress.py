"""One line on a terminal that says how far a command is, from its third second on.

What reads counts files and rows here. The line is drawn on stderr when something is counted, at most five times a
second, and erased before anything else is printed. Where stderr is not a terminal, nothing is drawn.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol, TextIO, TypeVar, cast

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


_current: list[Progress] = []
"""The progress that is shown, if there is one."""


@contextmanager
def shown() -> Iterator[None]:
    """Show the progress of what runs inside, if stderr is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    out, err = sys.stdout, sys.stderr
    progress = Progress(err)
    _current.append(progress)
    sys.stderr = cast("TextIO", _ErasesFirst(err, progress))
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
