"""Files of HDFS that are open: one that is written, and one that is read in ranges."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from spark_arrow_ipc.storage.object_source import ObjectSource


class NewFile(io.RawIOBase):
    """A file that is being written, whose errors have its path.

    Parameters
    ----------
    file
        Of pyarrow.
    path
        For errors.
    errors
        Returns a context that adds the path.
    """

    def __init__(self, file: Any, path: str, errors: Callable[[str], AbstractContextManager[None]]) -> None:
        super().__init__()
        self.name = path
        self._file = file
        self._errors = errors

    def writable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return how many bytes were written."""
        return int(self._file.tell())

    def write(self, data: Any) -> int:
        """Write bytes, all of them."""
        if self.closed:
            raise ValueError(f"{self.name}: the file is closed")
        view = memoryview(data).cast("B")
        with self._errors(self.name):
            self._file.write(view)
        return len(view)

    def flush(self) -> None:
        """Hand to the datanodes what was written."""
        if not self.closed:
            with self._errors(self.name):
                self._file.flush()

    def close(self) -> None:
        """End the file; closing twice does nothing."""
        if not self.closed:
            try:
                super().close()  # flushes
            finally:
                with self._errors(self.name):
                    self._file.close()


class HadoopSource(ObjectSource):
    """A file of HDFS. It is closed when the last read of it has ended: closing it below a read is not safe."""

    def close(self) -> None:
        """Let go of the file; reading afterwards is an error."""
        super().close()
        self._fetch = _closed


def _closed(_start: int, _into: memoryview) -> None:
    raise ValueError("the file is closed")
