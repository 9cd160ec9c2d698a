"""`MemoryStorage`: files in this process's memory, for tests of what is built on a storage.

It behaves as an object store does where that differs from a disk: directories are prefixes of names. With
``renames=False`` it publishes by a copy and knows versions, too.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import BinaryIO, Final

from spark_arrow_ipc.errors import OptionError, UnsupportedError
from spark_arrow_ipc.storage.base import LearnsByDoing, check_small, missing
from spark_arrow_ipc.storage.byte_source import BufferSource, ByteSource
from spark_arrow_ipc.storage.paths import SEPARATOR, join
from spark_arrow_ipc.storage.storage import Kind, Status, Traits

SCHEME: Final = "memory:"


@dataclass(slots=True)
class _File:
    data: bytes
    mtime_ns: int
    identity: tuple[int, int]


@dataclass(slots=True, eq=False)
class MemoryStorage(LearnsByDoing):
    """Files by path, ``memory:/a/b``. The clock is a counter, so that every write is later than the one before."""

    # If False, `publish` copies the staged file, and every write of a file is a version of its own
    renames: bool = True
    _files: dict[str, _File] = field(default_factory=dict)
    _clock: count[int] = field(default_factory=lambda: count(1))

    @property
    def traits(self) -> Traits:
        """Directories are prefixes."""
        return Traits(directories=False, renames=self.renames)

    def resolve(self, path: str | os.PathLike[str]) -> str:
        """Return a path without repeated or trailing slashes."""
        text = os.fspath(path)
        if not text.startswith(SCHEME + SEPARATOR):
            raise UnsupportedError(f"expected a path that begins with {SCHEME}{SEPARATOR}", path=text)
        parts = [part for part in text[len(SCHEME) :].split(SEPARATOR) if part]
        if {".", ".."} & set(parts):
            raise OptionError(expected="a path without . and ..", found=repr(text))
        return SCHEME + SEPARATOR + SEPARATOR.join(parts)

    def status(self, path: str, *, follow_links: bool = True) -> Status | None:
        """Return the state of a file, or of a prefix that files have."""
        file = self._files.get(path)
        if file is not None:
            return self._state(path, file)._replace(identity=file.identity)
        inside = join(path, "x")[:-1]
        return Status(path, Kind.DIRECTORY) if any(name.startswith(inside) for name in self._files) else None

    def list(self, directory: str) -> Iterator[Status]:
        """Yield the files directly below a prefix, and the prefixes below it."""
        inside = directory.rstrip(SEPARATOR) + SEPARATOR
        directories = set()
        for path, file in list(self._files.items()):
            if path.startswith(inside):
                name, slash, _ = path[len(inside) :].partition(SEPARATOR)
                if not slash:
                    yield self._state(path, file)
                elif name not in directories:
                    directories.add(name)
                    yield Status(inside + name, Kind.DIRECTORY)

    def open(
        self,
        path: str,
        *,
        memory_map: bool = False,
        listed: Status | None = None,
    ) -> ByteSource:
        """Return the bytes of a file."""
        source = BufferSource(memoryview(self._file(path).data))
        source.path = path
        return source

    def read(self, path: str, max_nbytes: int) -> bytes:
        """Return a small file whole."""
        data = self._file(path).data
        check_small(path, len(data), max_nbytes)
        return data

    def create(self, path: str) -> BinaryIO:
        """Create a file, which appears when it is closed."""
        self._check_absent(path)
        return _NewFile(self, path)

    def scratch_file(self, directory: str) -> BinaryIO:
        """Return an unnamed file in memory."""
        return io.BytesIO()

    def put(self, path: str, data: bytes, *, durable: bool = False, scratch: str | None = None) -> None:
        """Write a file in place of what is there."""
        now = next(self._clock)
        self._files[path] = _File(data, now, (0, now))

    def put_if_absent(self, path: str, data: bytes, *, durable: bool = False) -> bool:
        """Write a file unless one is there."""
        if path in self._files:
            return False
        self.put(path, data, durable=durable)
        return True

    def publish(self, staged: str, final: str) -> bool:
        """Move a file, or copy it."""
        data = self._file(staged).data
        if self.renames:
            self._files[final] = self._files.pop(staged)
        else:
            self.put(final, data)
        return False

    def give_back(self, moved: str, path: str) -> bool:
        """Move a file, unless another has the name."""
        moved_file = self._file(moved)
        if path in self._files:
            return False
        self._files[path] = moved_file
        del self._files[moved]
        return True

    def delete(self, path: str) -> None:
        """Delete a file; nothing happens if it is not there."""
        self._files.pop(path, None)

    def delete_tree(self, directory: str) -> None:
        """Delete all files below a prefix."""
        inside = directory + SEPARATOR
        for path in [path for path in self._files if path.startswith(inside)]:
            self.delete(path)

    def _file(self, path: str) -> _File:
        try:
            return self._files[path]
        except KeyError:
            raise missing(path) from None

    def _state(self, path: str, file: _File) -> Status:
        version = "" if self.renames else f"{file.identity[1]:x}"
        return Status(path, Kind.FILE, len(file.data), file.mtime_ns, version=version)

    def _check_absent(self, path: str) -> None:
        if path in self._files:
            raise FileExistsError(17, "File exists", path)


class _NewFile(io.BytesIO):
    """A file that appears under its name when it is closed, and not at all if its ``with`` block fails."""

    def __init__(self, storage: MemoryStorage, path: str) -> None:
        super().__init__()
        self._storage = storage
        self.name = path

    def close(self) -> None:
        try:
            if not self.closed:
                self._storage._check_absent(self.name)
                self._storage.put(self.name, self.getvalue())
        finally:
            super().close()  # else Python closes it again where it is freed, and from 3.14 on reports that error, too
