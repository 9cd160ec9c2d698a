"""Bytes and files that are read as over a network: each read waits, and what was asked for is counted."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock

from memory_storage import MemoryStorage

from spark_arrow_ipc import ipc
from spark_arrow_ipc.errors import ArrowIpcError, FileChangedError
from spark_arrow_ipc.storage.byte_source import ExactReads
from spark_arrow_ipc.storage.storage import Traits


@dataclass
class Asked:
    """What was asked for: requests by their kind, bytes, and the most requests at one time."""

    seconds: float = 0.002
    requests: Counter[str] = field(default_factory=Counter)
    nbytes: int = 0
    peak: int = 0
    reads: list[tuple[str | None, int, int]] = field(default_factory=list)
    _now: int = 0
    _lock: Lock = field(default_factory=Lock)

    @contextmanager
    def request(self, kind: str):
        with self._lock:
            self.requests[kind] += 1
            self._now += 1
            self.peak = max(self.peak, self._now)
        try:
            time.sleep(self.seconds)
            yield
        finally:
            with self._lock:
                self._now -= 1

    def read(self, path: str | None, byte_offset: int, nbytes: int) -> None:
        with self._lock:
            self.nbytes += nbytes
            self.reads.append((path, byte_offset, nbytes))

    @property
    def total(self) -> int:
        return self.requests.total()


class WaitingSource(ExactReads):
    """Bytes in memory; each read of a range is one request."""

    waits = True

    def __init__(self, data: bytes, asked: Asked | None = None, path: str | None = None) -> None:
        self.data = memoryview(data)
        self.nbytes = len(data)
        self.path = path
        self.asked = Asked() if asked is None else asked
        self.is_closed = False

    def read_up_to(self, byte_offset: int, nbytes: int) -> memoryview:
        with self.asked.request("GET"):
            if self.is_closed:
                raise ValueError("the source is closed")
            data = self.data[byte_offset : byte_offset + nbytes]
            self.asked.read(self.path, byte_offset, len(data))
            return data

    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        return [self.read_at(*each) for each in ranges]

    def close(self) -> None:
        self.is_closed = True


class WaitingStorage(MemoryStorage):
    """Files in memory, with versions; each call waits and is counted as the request that it is."""

    def __init__(self, seconds: float = 0.002) -> None:
        super().__init__(renames=False)
        self.asked = Asked(seconds)

    @property
    def traits(self) -> Traits:
        return Traits(directories=False, renames=False, waits=True)

    def status(self, path, *, follow_links=True):
        with self.asked.request("HEAD"):
            return super().status(path, follow_links=follow_links)

    def list(self, directory):
        with self.asked.request("LIST"):
            return iter(list(super().list(directory)))

    def open(self, path, *, memory_map=False, listed=None):
        if listed is None:
            listed = self.status(path)
            if listed is None:
                raise FileNotFoundError(2, "No such file", path)
        return _VersionedSource(self, path, listed)

    def read(self, path, max_nbytes):
        with self.asked.request("GET"):
            return super().read(path, max_nbytes)

    def data(self, path, version):
        file = self._file(path)
        if version != f"{file.identity[1]:x}":
            raise FileChangedError("another version is there", path=path)
        return file.data


class _VersionedSource(WaitingSource):
    """A file of a `WaitingStorage`; each read asks for the version that was opened."""

    def __init__(self, storage, path, known):
        super().__init__(b"", storage.asked, path)
        self.nbytes = known.nbytes
        self._read = lambda: memoryview(storage.data(path, known.version))

    def read_up_to(self, byte_offset, nbytes):
        with self.asked.request("GET"):
            data = self._read()[byte_offset : byte_offset + nbytes]
            self.asked.read(self.path, byte_offset, len(data))
            return data


def readers_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("arrow-ipc-read")]


def eventually(holds):
    """Whether something holds within minutes, in which a machine may stall."""
    deadline = time.monotonic() + 120
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.005)
    return holds()


def no_threads_are_left():
    return eventually(lambda: not readers_threads())


def contents(array):
    if array is None:
        return None
    return (
        array.length,
        [None if buffer is None else bytes(buffer) for buffer in array.buffers],
        list(map(contents, array.children)),
        contents(array.dictionary),
    )


def outcome(source, **options):
    """All values of a file, or the error, after the batches before it."""
    batches = []
    schema = None
    try:
        with ipc.open(source, **options) as reader:
            schema = reader.schema
            batches.extend(list(map(contents, batch.columns)) for batch in reader)
    except ArrowIpcError as error:
        return batches, schema if batches else None, type(error), str(error)
    return batches, schema
