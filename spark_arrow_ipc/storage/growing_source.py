"""A local file that another process appends to, read up to the length that is known.

The length is that of the last look (`GrowingSource.grow`). Bytes before it do not change; if they do, if the file is
shorter than what was read of it, or another file has its path, that is a typed error.
"""

from __future__ import annotations

import os
import zlib
from typing import Final

from spark_arrow_ipc.errors import FileChangedError
from spark_arrow_ipc.storage.byte_source import ByteSource
from spark_arrow_ipc.storage.local_source import FileSource

MARK_NBYTES: Final = 64
"""Bytes before a position whose checksum tells the file from another one of the same length."""


class GrowingSource(FileSource):
    """A local file that grows."""

    _mark: tuple[int, int] | None = None

    def grow(self, position: int) -> bool:
        """Look for the length of the file again, and return whether there is more. Two system calls, six if it grew.

        Parameters
        ----------
        position
            Byte offset up to which the file was read; it does not become less.

        Raises
        ------
        FileChangedError
            The file is gone, is another one, or is not what it was before `position`.
        """
        known = self.nbytes
        assert known is not None
        assert self.path is not None
        state = os.fstat(self._descriptor)
        try:
            named = os.stat(self.path)
        except FileNotFoundError:
            raise _changed("the file was removed while it was read", self.path) from None
        if (named.st_dev, named.st_ino) != (state.st_dev, state.st_ino):
            raise _changed("another file has taken the place of the one that is read", self.path)
        if state.st_size < max(position, known):
            words = f"it was cut to {state.st_size:,} bytes, after {max(position, known):,} had been read"
            raise _changed(words, self.path)
        if self._mark is None or self._mark[0] != position:
            self._mark = position, mark_before(self, position)
        if state.st_size == known:
            return False
        if mark_before(self, position) != self._mark[1]:
            raise _changed(f"the bytes before byte {position:,}, which were read, are others now", self.path)
        self.nbytes = state.st_size
        return True


def mark_before(source: ByteSource, position: int) -> int:
    """Return the CRC-32 of the bytes before a position, at most `MARK_NBYTES`. One read."""
    start = max(0, position - MARK_NBYTES)
    return zlib.crc32(source.read_up_to(start, position - start))


def _changed(words: str, path: str) -> FileChangedError:
    return FileChangedError(f"{words}; a file that is followed is only appended to. Open it again", path=path)
