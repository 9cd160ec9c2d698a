"""Where a writer's bytes go: a file that takes its name when it is finished, or a file object of the caller's."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, cast

__all__ = ["FileSink", "PathSink"]


class PathSink:
    """A local file that takes its name when it is finished."""

    def __init__(self, path: str) -> None:
        self._target = Path(path)
        self._direct = self._target.exists() and not self._target.is_file()
        name = f".{self._target.name}.{uuid.uuid4().hex}.staged"
        self._staged = self._target if self._direct else self._target.with_name(name)
        self.file: BinaryIO = cast("BinaryIO", self._staged.open("wb" if self._direct else "xb"))

    def finish(self, prove: Callable[[Path], None]) -> None:
        """Close the file, have it proven, and give it its name in place of what was there."""
        self.file.close()
        if not self._direct:
            prove(self._staged)
            self._staged.replace(self._target)

    def discard(self) -> None:
        """Close and remove the file; what was there before stays."""
        self.file.close()
        if not self._direct:
            self._staged.unlink(missing_ok=True)


class FileSink:
    """A file object of the caller's."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file

    def finish(self, _: Callable[[Path], None]) -> None:
        """Hand over what is buffered; the caller closes."""
        self.file.flush()

    def discard(self) -> None:
        """Leave what was written: without a footer no reader takes it for a file."""
