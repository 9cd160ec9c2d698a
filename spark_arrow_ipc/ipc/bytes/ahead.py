"""Jobs that run in threads while the results of earlier ones are used: record batches decoded, files opened.

Results are taken in the order of the jobs, so an error comes with its batch or file, after all before it. Decompression and
the larger part of the checks work without Python's global lock.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Generic, Self, TypeVar

from spark_arrow_ipc.errors import UnsupportedError

_Result = TypeVar("_Result")


class Ahead(Generic[_Result]):
    """The results of jobs, in their order; later jobs run in threads while earlier results are used.

    The threads begin with the first job, and end with the last one, with an error while iterating, and with `close`.

    Parameters
    ----------
    jobs
        The next one is made in the thread that takes results. An error that making one raises comes in its turn.
    threads
        At least one.
    name
        Of the threads.
    waits
        Whether `close` waits for the jobs under way.
    discard
        Is called with each result that nobody takes.
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
        """What ended an iteration: it is raised again, so that no reader takes it for the end."""
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
