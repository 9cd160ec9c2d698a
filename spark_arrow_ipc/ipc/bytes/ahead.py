"""Ordered work ahead: jobs run in threads while the results of earlier ones are used.

Results are taken in the order of the jobs, so an error comes with its batch or file, after all before it. `Ahead` runs
functions, such as decoding a record batch: decompression and the larger part of the checks work without Python's global lock.

`Prefetch` reads bytes where each read waits for a network. Its jobs are generators: each yields the byte ranges that it
needs, gets their bytes, and may yield more of them, as a header says which columns to read. Ranges are read in pieces by a
few threads; a job goes on in the thread that brings its last piece. `StreamAhead` reads a stream so.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from threading import Condition, Lock
from typing import Final, Generic, Self, TypeAlias, TypeVar

import numpy as np

from spark_arrow_ipc.errors import InvalidArrowError, UnsupportedError
from spark_arrow_ipc.ipc.constants import NO_BYTES
from spark_arrow_ipc.storage.byte_source import ByteSource, ExactReads, new_buffer

_Result = TypeVar("_Result")


class Ahead(Generic[_Result]):
    """The results of jobs, in their order; later jobs run in threads while earlier results are used.

    The threads begin with the first job, and end with the last one, with an error while iterating, and with `close`.
    The next job is made in the thread that takes results; an error that making one raises comes in its turn.
    If `waits` is True, `close` returns when the jobs under way have ended. `discard` takes the results that are left.
    """

    def __init__(
        self,
        jobs: Iterator[Callable[[], _Result]],
        threads: int,
        name: str,
        *,
        waits: bool = False,
        discard: Callable[[_Result], object] | None = None,
    ) -> None:
        self._jobs, self._threads, self._name = jobs, threads, name
        self._waits, self._discard = waits, discard
        self._under_way: deque[Future[_Result]] = deque()
        self._executor: ThreadPoolExecutor | None = None
        self._has_more = True
        self._error: Exception | None = None
        """The error that ended an iteration: it is raised again, so that no reader takes it for the end."""
        self._pid = os.getpid()
        self._lock = Lock()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> _Result:
        """Return the next result; raise the job's error, or that of making it, and from then on always the same."""
        if self._error is not None:
            raise self._error
        try:
            result = self.take()
            if result is not None:
                return result()
        except BaseException as error:
            self._error = error if isinstance(error, Exception) else None
            if self._pid == os.getpid():
                self.close()
            raise
        self.close()
        raise StopIteration

    def take(self) -> Callable[[], _Result] | None:
        """Return a function that waits for the next result and returns it, or raises its error; None after the last."""
        if os.getpid() != self._pid:
            raise UnsupportedError("a file is being read by a process of which this one is a fork; open it again")
        self._begin()
        with self._lock:
            future = self._under_way.popleft() if self._under_way else None
        self._begin()
        return None if future is None else future.result

    def _begin(self) -> None:
        """Begin jobs, up to the number of threads."""
        while self._has_more and len(self._under_way) < self._threads:
            try:
                job = next(self._jobs, None)
            except Exception as error:  # noqa: BLE001 - raised in its turn
                failed: Future[_Result] = Future()
                failed.set_exception(error)
                self._under_way.append(failed)
                job = None
            if job is None:
                self._has_more = False
                return
            with self._lock:
                if self._executor is None:
                    self._executor = ThreadPoolExecutor(self._threads, self._name)
                self._under_way.append(self._executor.submit(job))

    def close(self) -> None:
        """Begin no more jobs. Those under way end by themselves, and their threads with them."""
        if os.getpid() != self._pid:
            return  # a fork, which has no such threads, and whose lock may be held by one of them for ever
        with self._lock:
            executor, self._executor, self._has_more = self._executor, None, False
            left = list(self._under_way)
            self._under_way.clear()
        if executor is not None:
            executor.shutdown(wait=self._waits, cancel_futures=True)
        if self._discard is not None:
            for future in left:
                future.add_done_callback(self._discard_result)

    def _discard_result(self, future: Future[_Result]) -> None:
        if self._discard is not None and not future.cancelled() and future.exception() is None:
            self._discard(future.result())


PIECE_NBYTES: Final = 8 << 20
"""Most bytes of one read. One connection of an object store gives 90 MB/s, so that several are needed."""

AHEAD_NBYTES: Final = 64 << 20
"""Most bytes of all jobs under way, unless the next one alone has more."""

THREADS: Final = 8

Ranges: TypeAlias = Sequence[tuple[int, int]]
"""Byte offset and number of bytes of each range."""

Fetch: TypeAlias = Generator[Ranges, Sequence[memoryview], _Result]
"""Yields ranges, is sent the bytes of each, and returns the result."""


@dataclass(slots=True, eq=False)
class _Job(Generic[_Result]):
    """A job under way. All fields are read and written under the lock of its `Prefetch`."""

    number: int
    fetch: Fetch[_Result]
    ranges: Ranges | None = None
    """Ranges that are not admitted yet."""
    parts: list[memoryview] = field(default_factory=list)
    pieces_left: int = 0
    nbytes: int = 0
    is_done: bool = False
    is_dropped: bool = False
    result: _Result | None = None
    error: BaseException | None = None


class Prefetch(Generic[_Result]):
    """The results of jobs with rising numbers, in their order; later ones are fetched while earlier ones are used.

    At most `ahead` jobs are under way: `source` may be read by several threads at once.
    """

    def __init__(
        self, source: ByteSource, jobs: Iterator[tuple[int, Callable[[], Fetch[_Result]]]], *, ahead: int
    ) -> None:
        self._source = source
        self._waiting = jobs
        self._ahead = ahead
        self._jobs: deque[_Job[_Result]] = deque()
        self._nbytes = 0
        self._changed = Condition()
        self._executor: ThreadPoolExecutor | None = None
        self._is_closed = False
        self._pid = os.getpid()
        with self._changed:
            self._begin()

    def take(self, number: int) -> _Result | None:
        """Return the result of a job, and drop the jobs before it.

        None if there is no such job any more, and if its bytes are broken: a read without this object then raises the
        error that names their place.
        """
        if os.getpid() != self._pid:
            raise UnsupportedError("a file is being read by a process of which this one is a fork; open it again")
        with self._changed:
            while self._jobs and self._jobs[0].number < number:
                self._drop(self._jobs.popleft())
                self._begin()
            if self._is_closed:
                raise ValueError(f"{self._source.path}: the reader is closed")
            if not self._jobs or self._jobs[0].number != number:
                return None
            job = self._jobs[0]
            self._admit()
            while not job.is_done:
                self._changed.wait()
                if self._is_closed:
                    raise ValueError(f"{self._source.path}: the reader is closed")
            self._drop(self._jobs.popleft())
            self._begin()
        if job.error is not None and not isinstance(job.error, InvalidArrowError):
            raise job.error
        return job.result

    def close(self) -> None:
        """Begin no more reads. Those under way end by themselves, and their threads with them."""
        if os.getpid() != self._pid:
            return  # a fork, which has no such threads, and whose lock may be held by one of them for ever
        with self._changed:
            self._is_closed = True
            self._jobs.clear()
            executor, self._executor = self._executor, None
            self._changed.notify_all()
        if executor is not None:
            executor.shutdown(wait=False, cancel_futures=True)

    def _begin(self) -> None:
        """Begin jobs, up to the most; the lock is held."""
        while len(self._jobs) < self._ahead and not self._is_closed:
            entry = next(self._waiting, None)
            if entry is None:
                break
            job = _Job(entry[0], entry[1]())
            self._jobs.append(job)
            self._resume(job, None)
        self._admit()

    def _drop(self, job: _Job[_Result]) -> None:
        job.is_dropped = True
        self._nbytes -= job.nbytes

    def _admit(self) -> None:
        """Read the ranges that fit into the budget, in the order of the jobs; the lock is held."""
        # In order, so that the next job is never kept waiting by a later one; it alone may exceed the budget. A job that
        # waits holds no thread: a reader that nobody closes must not keep the interpreter from ending.
        for i, job in enumerate(self._jobs):
            if job.ranges is None:
                continue
            nbytes = sum(size for _, size in job.ranges)
            if i and self._nbytes + nbytes > AHEAD_NBYTES:
                return
            job.nbytes += nbytes
            self._nbytes += nbytes
            self._read(job, job.ranges)

    def _read(self, job: _Job[_Result], ranges: Ranges) -> None:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(THREADS, "arrow-ipc-read")
        job.ranges = None
        job.parts = [NO_BYTES if nbytes <= PIECE_NBYTES else new_buffer(nbytes) for _, nbytes in ranges]
        pieces = [(i, start, stop - start) for i, (_, nbytes) in enumerate(ranges) for start, stop in _cut(nbytes)]
        assert pieces, "a job wants bytes"
        job.pieces_left = len(pieces)
        for i, start, nbytes in pieces:
            into = job.parts[i][start : start + nbytes]
            self._executor.submit(self._read_piece, job, i, ranges[i][0] + start, nbytes, into)

    def _read_piece(self, job: _Job[_Result], part: int, byte_offset: int, nbytes: int, into: memoryview) -> None:
        """Read one piece, in a thread; the last one of a job lets it go on.

        `into` is the piece's place in the bytes of its range; empty if the piece is all of them.
        """
        if job.is_dropped or self._is_closed or job.error is not None:
            return
        try:
            if into:
                self._source.read_into(byte_offset, into)
            else:
                data = self._source.read_at(byte_offset, nbytes)
        except BaseException as error:  # noqa: BLE001 - `take` raises it
            self._finish(job, error=error)
            return
        with self._changed:
            if job.is_done:
                return
            if not into:
                job.parts[part] = data
            job.pieces_left -= 1
            if job.pieces_left:
                return
        # Without the lock: a header is decoded meanwhile.
        self._resume(job, [data.toreadonly() for data in job.parts])
        with self._changed:
            if not self._is_closed:
                self._admit()

    def _resume(self, job: _Job[_Result], parts: Sequence[memoryview] | None) -> None:
        """Let a job go on until it wants other ranges, or has ended."""
        try:
            ranges = next(job.fetch) if parts is None else job.fetch.send(parts)
        except StopIteration as end:
            self._finish(job, result=end.value)
        except BaseException as error:  # noqa: BLE001 - `take` raises it
            self._finish(job, error=error)
        else:
            with self._changed:
                job.parts = []
                if not job.is_dropped:
                    job.ranges = ranges

    def _finish(self, job: _Job[_Result], *, result: _Result | None = None, error: BaseException | None = None) -> None:
        with self._changed:
            if job.is_done:  # another piece failed first
                return
            job.result, job.error, job.is_done, job.parts = result, error, True, []
            self._changed.notify_all()


def _cut(nbytes: int) -> Iterator[tuple[int, int]]:
    """Yield start and stop of pieces of about the same size: a short last one would leave its thread idle sooner."""
    count = -(-nbytes // PIECE_NBYTES)
    return pairwise(i * nbytes // count for i in range(count + 1))


PIECES_AHEAD: Final = 6
"""With the one that is waited for 56 MiB."""

PIECES_AHEAD_OF_PART: Final = 2
"""The same for a part of a stream: after its end they are read in vain."""


class StreamAhead(ExactReads):
    """A `ByteSource` over another one that waits, read forward from an offset on; earlier bytes are read as they come.

    Only the messages of a stream tell where the next one is, so it is fetched in pieces of one size, some ahead of the
    message that is decoded. With a projection, too: to skip the other columns would be two waits a message, one after
    the other.

    Memory: at most `pieces_ahead` pieces after the one that is read, and two that were read. The one before the last is
    kept because small messages are read together, and one that was cut is read again from its start. `source` is closed
    with this one.
    """

    def __init__(self, source: ByteSource, start: int, pieces_ahead: int = PIECES_AHEAD) -> None:
        assert source.nbytes is not None, "a source that waits knows its length"
        self.path = source.path
        self.nbytes: int | None = source.nbytes
        self._source, self._start, self._stop = source, start, source.nbytes
        pieces = ((i, partial(self._fetch, i)) for i in range(-(-(self._stop - start) // PIECE_NBYTES)))
        self._prefetch = Prefetch(source, pieces, ahead=1 + pieces_ahead)
        self._is_ended = False
        self._kept: dict[int, memoryview] = {}
        """The last piece that was read, and the one before it."""
        self._last = 0

    def _fetch(self, i: int) -> Fetch[memoryview]:
        start = self._start + i * PIECE_NBYTES
        (data,) = yield [(start, min(PIECE_NBYTES, self._stop - start))]
        return data

    def read_up_to(self, byte_offset: int, nbytes: int) -> memoryview:
        """Return the bytes from `byte_offset` on, at most `nbytes`: a view of a piece, or a copy from several."""
        nbytes = min(nbytes, self._stop - byte_offset)
        if nbytes <= 0:
            return NO_BYTES
        number, at = divmod(byte_offset - self._start, PIECE_NBYTES)
        if number < self._last and number not in self._kept:
            return self._source.read_up_to(byte_offset, nbytes)
        head = self._take(number)[at : at + nbytes]
        if len(head) == nbytes:
            return head
        data = new_buffer(nbytes)
        into = np.frombuffer(data, np.uint8)
        done = 0
        part = head
        while part:
            into[done : done + len(part)] = np.frombuffer(part, np.uint8)
            done += len(part)
            number += 1
            part = self._take(number)[: nbytes - done] if done < nbytes else NO_BYTES
        return data[:done].toreadonly()

    def _take(self, number: int) -> memoryview:
        """Return a piece that is kept, or a later one."""
        piece = self._kept.get(number)
        if piece is None:
            piece = None if self._is_ended else self._prefetch.take(number)
            if piece is None:  # it is read again where the error tells its place
                start = self._start + number * PIECE_NBYTES
                piece = self._source.read_up_to(start, min(PIECE_NBYTES, self._stop - start))
            before = self._kept.get(number - 1)
            self._kept = {number: piece} if before is None else {number - 1: before, number: piece}
            self._last = number
        return piece

    def end(self) -> None:
        """Fetch no more; what is read after this is read as it comes."""
        self._is_ended = True
        self._prefetch.close()

    def close(self) -> None:
        """Fetch no more, and close the source."""
        self.end()
        self._source.close()
