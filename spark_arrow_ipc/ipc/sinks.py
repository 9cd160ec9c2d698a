"""Destinations of a writer: a file that gets its name when finished, or a file object."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, cast

__all__ = ["FileSink", "PathSink"]


class PathSink:
    """A local file that gets its name when it is finished."""

    def __init__(self, path: str) -> None:
        self._target = Path(path)
        self._direct = self._target.exists() and not self._target.is_file()
        name = f".{self._target.name}.{uuid.uuid4().hex}.staged"
        self._staged = self._target if self._direct else self._target.with_name(name)
        self.file: BinaryIO = cast("BinaryIO", self._staged.open("wb" if self._direct else "xb"))

    def finish(self, prove: Callable[[Path], None]) -> None:
        """Close the file, call `prove` on it, and rename it over any file of its name."""
        self.file.close()
        if not self._direct:
            prove(self._staged)
            self._staged.replace(self._target)

    def discard(self) -> None:
        """Close and remove the file; a file of the target's name stays."""
        self.file.close()
        if not self._direct:
            self._staged.unlink(missing_ok=True)


class FileSink:
    """A file object that the caller closes."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file

    def finish(self, _: Callable[[Path], None]) -> None:
        """Flush the file object."""
        self.file.flush()

    def discard(self) -> None:
        """Do nothing: without a footer no reader accepts the bytes as a file."""
