"""Ordered work ahead: jobs run in threads while the results of earlier ones are used.

How it works
------------
Results come in the order of the jobs, so an error comes with its batch or file, after all earlier ones. `Ahead` runs
functions, such as decoding a record batch: decompression and most of the checks work without Python's global lock.

`Prefetch` reads bytes where each read waits for a network. Its jobs are generators: each yields byte ranges, is sent their
bytes, and may yield more ranges, for example after it has decoded a header. Ranges are read in pieces by a few threads; a
job goes on in the thread that reads its last piece. `StreamAhead` reads a stream in this way.
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

    The threads start with the first job, and end with the last one, with an error while iterating, and with `close`.
    If `waits` is True, `close` returns when all running jobs have ended. `discard` is called with unused results.
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
        # The error that ended an iteration is raised again, so that no reader takes it for the end
        self._error: Exception | None = None
        self._pid = os.getpid()
        self._lock = Lock()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> _Result:
        """Return the next result, or raise the error of the job or of making it, and then at each call the same."""
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
        """Start jobs, up to the number of threads."""
        while self._has_more and len(self._under_way) < self._threads:
            # In the thread of the reader: the iterator of jobs need not be safe for threads.
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
        """Start no more jobs; running ones end by themselves, and their threads with them."""
        if os.getpid() != self._pid:
            return  # a fork has no threads, and its copy of the lock may be locked for ever
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
"""Most bytes of one read. One connection of an object store gives 90 MB/s, so that several have to read."""

AHEAD_NBYTES: Final = 64 << 20
"""Most bytes of all running jobs, unless the next one has more."""

THREADS: Final = 8

Ranges: TypeAlias = Sequence[tuple[int, int]]
"""Byte offset and number of bytes of each range."""

Fetch: TypeAlias = Generator[Ranges, Sequence[memoryview], _Result]
"""Yields ranges, is sent the bytes of each, and returns the result."""


@dataclass(slots=True, eq=False)
class _Job(Generic[_Result]):
    """A running job."""

    # All fields are read and written under the lock of its `Prefetch`.
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

    At most `ahead` jobs run, whose threads read `source` at the same time.
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
        """Return the result of a job, and drop the jobs before it; None if it has no result any more."""
        # None also for broken bytes: a read without this object then raises the error with their byte offset.
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
            self._admit()  # the first job may exceed the budget
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
        """Start no more reads; running ones end by themselves, and their threads with them."""
        if os.getpid() != self._pid:
            return  # a fork has no threads, and its copy of the lock may be locked for ever
        with self._changed:
            self._is_closed = True
            self._jobs.clear()
            executor, self._executor = self._executor, None
            self._changed.notify_all()
        if executor is not None:
            executor.shutdown(wait=False, cancel_futures=True)

    def _begin(self) -> None:
        """Start jobs, up to the maximum; the caller holds the lock."""
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
        """Read the ranges that fit into the budget, in the order of the jobs; the caller holds the lock."""
        # In order, so that no later job delays the first one, which may exceed the budget. A waiting job holds no thread: a
        # reader that is never closed must not keep the interpreter from ending.
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
        # A range of one piece gets the bytes of its read, without a copy.
        pieces = [(i, start, stop - start) for i, (_, nbytes) in enumerate(ranges) for start, stop in _cut(nbytes)]
        assert pieces, "a job wants bytes"
        job.pieces_left = len(pieces)
        for i, start, nbytes in pieces:
            into = job.parts[i][start : start + nbytes]
            self._executor.submit(self._read_piece, job, i, ranges[i][0] + start, nbytes, into)

    def _read_piece(self, job: _Job[_Result], part: int, byte_offset: int, nbytes: int, into: memoryview) -> None:
        """Read one piece into its part of the range, or the complete range if `into` is empty."""
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
        # The last piece of the job: it goes on without the lock, because it may decode a header.
        self._resume(job, [data.toreadonly() for data in job.parts])
        with self._changed:
            if not self._is_closed:
                self._admit()

    def _resume(self, job: _Job[_Result], parts: Sequence[memoryview] | None) -> None:
        """Continue a job until it yields ranges, or ends."""
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
    """Yield start and stop of pieces of about equal size."""
    # A short last piece would leave its thread idle before the others.
    count = -(-nbytes // PIECE_NBYTES)
    return pairwise(i * nbytes // count for i in range(count + 1))


PIECES_AHEAD: Final = 6
"""56 MiB, with the piece that is read."""

PIECES_AHEAD_OF_PART: Final = 2
"""The same for a part of a stream: pieces after its end are read in vain."""


class StreamAhead(ExactReads):
    """A `ByteSource` over another one that waits, read forward from an offset on; earlier bytes are read on demand.

    Memory: at most `pieces_ahead` pieces after the one in use, and two that were read. `close` closes `source` too.
    """

    # Each message of a stream gives the position of the next one, so the stream is fetched in pieces of one size, some ahead
    # of the decoded message. Also with a projection: to skip other columns would take two waits a message.

    def __init__(self, source: ByteSource, start: int, pieces_ahead: int = PIECES_AHEAD) -> None:
        assert source.nbytes is not None, "a source that waits knows its length"
        self.path = source.path
        self.nbytes: int | None = source.nbytes
        self._source, self._start, self._stop = source, start, source.nbytes
        pieces = ((i, partial(self._fetch, i)) for i in range(-(-(self._stop - start) // PIECE_NBYTES)))
        self._prefetch = Prefetch(source, pieces, ahead=1 + pieces_ahead)
        self._is_ended = False
        self._kept: dict[int, memoryview] = {}  # the last piece, and the one before: a message may be read again
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
        """Return one of the last two pieces, or a later one."""
        piece = self._kept.get(number)
        if piece is None:
            piece = None if self._is_ended else self._prefetch.take(number)
            if piece is None:  # this read raises any error with its byte offset
                start = self._start + number * PIECE_NBYTES
                piece = self._source.read_up_to(start, min(PIECE_NBYTES, self._stop - start))
            before = self._kept.get(number - 1)
            self._kept = {number: piece} if before is None else {number - 1: before, number: piece}
            self._last = number
        return piece

    def end(self) -> None:
        """Fetch no more pieces; later reads are on demand."""
        self._is_ended = True
        self._prefetch.close()

    def close(self) -> None:
        """Fetch no more pieces, and close the source."""
        self.end()
        self._source.close()
