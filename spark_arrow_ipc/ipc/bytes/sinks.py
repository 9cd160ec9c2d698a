"""Destinations of a writer: a local file or an object that gets its name at the end, or a file object."""

from __future__ import annotations

import io
import os
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from threading import Lock
from typing import BinaryIO, ClassVar, Final, TypeAlias
from weakref import WeakSet

from spark_arrow_ipc.ipc.bytes.source import storage_options
from spark_arrow_ipc.storage.byte_source import ByteSource, FileSource, open_named
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.storage.open import storage_of
from spark_arrow_ipc.storage.paths import TEMPORARY_SUFFIX, is_remote, join, name_of, parent, plain_path
from spark_arrow_ipc.storage.storage import Storage, discard

_IN_MEMORY_NBYTES: Final = 4 << 20
"""Bytes that wait in the memory of a process, of all files together: a task may write many files at once."""

_COPIED_NBYTES: Final = 1 << 20


class WaitingBytes:
    """Bytes that follow other bytes not written yet: in memory, or if they are many in a temporary file."""

    _all: ClassVar[WeakSet[WaitingBytes]] = WeakSet()
    _lock: ClassVar = Lock()  # threads may write files at once

    def __init__(self) -> None:
        self._file: BinaryIO = io.BytesIO()
        self.is_in_memory = True
        self.nbytes = 0
        with self._lock:
            self._all.add(self)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Append bytes."""
        with _advise_while_writing():
            if self.is_in_memory and not self._has_room(len(data)):
                # A file without a name, so that nothing remains when the process is killed.
                held, self._file = self._file, LOCAL.scratch_file(tempfile.gettempdir())
                self.is_in_memory = False
                held.seek(0)
                self._file.write(held.read())
            self._file.write(data)
        self.nbytes += len(data)

    def _has_room(self, nbytes: int) -> bool:
        with self._lock:
            return sum(each.nbytes for each in self._all if each.is_in_memory) + nbytes <= _IN_MEMORY_NBYTES

    def take(self) -> Iterator[bytes]:
        """Yield and drop all bytes, in pieces."""
        with _advise_while_writing():
            self._file.seek(0)
        while data := self._file.read(_COPIED_NBYTES):
            self.nbytes -= len(data)
            yield data
        self.close()

    def close(self) -> None:
        """Drop the bytes."""
        self.is_in_memory = False
        discard(self._file)  # which ignores errors: closing may fail again on a full device


@contextmanager
def _advise_while_writing() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        advice = (
            "record batches wait here for the dictionaries before them; set TMPDIR to a directory with more room, or write "
            'with dictionaries="delta"'
        )
        raise OSError(error.errno, f"{error.strerror}; {advice}", error.filename) from None


class PathSink:
    """A local file that gets its name at the end."""

    def __init__(self, path: str) -> None:
        self._target = path
        # A pipe or device cannot be replaced by a rename.
        self._direct = os.path.exists(path) and not os.path.isfile(path)
        directory, name = os.path.split(path)
        self._staged = path if self._direct else os.path.join(directory, f".{name}.{uuid.uuid4().hex}.staged")
        new = os.O_TRUNC if self._direct else os.O_CREAT | os.O_EXCL
        # The mode of `open`, in which the umask decides; processes that a task starts must not inherit the file
        self.file: BinaryIO = open_named(os.open(self._staged, os.O_WRONLY | os.O_CLOEXEC | new, 0o666), path)

    def finish(self, prove: Callable[[ByteSource], None]) -> None:
        """Close the file, call `prove` on its bytes, and rename it over any file of its name."""
        self.file.close()
        if not self._direct:
            with closing(FileSource.open(self._staged)) as written:
                prove(written)
            os.replace(self._staged, self._target)

    def discard(self) -> None:
        """Close and remove the file; a file of the target's name stays."""
        discard(self.file)  # which ignores errors: closing may fail again on a full device
        if not self._direct:
            with suppress(FileNotFoundError):
                os.unlink(self._staged)


class StoredSink:
    """A file of an object store that gets its name at the end, by a copy inside the store."""

    def __init__(self, storage: Storage, path: str) -> None:
        self._storage = storage
        self._target = path
        self._staged = join(parent(path), f".{name_of(path)}.{uuid.uuid4().hex}{TEMPORARY_SUFFIX}")
        self.file: BinaryIO = storage.create(self._staged)

    def finish(self, prove: Callable[[ByteSource], None]) -> None:
        """Close the file, call `prove` on its bytes, and publish it in place of any file of its name."""
        self.file.close()
        with closing(self._storage.open(self._staged)) as written:
            prove(written)
        self._storage.publish(self._staged, self._target)
        self._storage.delete(self._staged)

    def discard(self) -> None:
        """Remove the file; a file of the target's name stays."""
        discard(self.file)
        self._storage.delete(self._staged)


def prove_ends(written: ByteSource, *, nbytes: int, head: bytes, tail: bytes = b"") -> None:
    """Compare the length, the first and the last bytes of a file with the written ones."""
    ends = [(0, len(head)), (nbytes - len(tail), len(tail))]
    if written.nbytes != nbytes or written.read_ranges(ends) != [head, tail]:
        raise OSError(f"{written.path}: what was written is not what is there; the disk or its file system is at fault")


class FileSink:
    """A file object that the caller closes."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file

    def finish(self, _: Callable[[ByteSource], None]) -> None:
        """Flush the file object."""
        self.file.flush()

    def discard(self) -> None:
        """Do nothing: without a footer no reader accepts the bytes as a file."""


AnySink: TypeAlias = PathSink | StoredSink | FileSink


def path_sink(path: str, options: Mapping[str, str] | None = None) -> PathSink | StoredSink:
    """Return the sink of a local path, or of the URL of an object store with its options."""
    if not is_remote(path):
        return PathSink(plain_path(path))
    return StoredSink(*storage_of(path, storage_options(options)))
