"""Decode record batches in threads, for users who ask for them (`ipc.open(..., threads=n)`).

Strategy
--------
A job decodes one batch. As many jobs as threads are under way, and their results are taken in the order of the jobs: an
error comes with its batch, after all batches before it. Decompression and the larger part of the checks work without
Python's global lock. Tasks of Spark never ask for threads: their cores are taken by other tasks.
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


class DecodeAhead(Generic[_Result]):
    """The results of jobs, in their order; later jobs run while earlier results are used.

    Memory: as many results as threads, beside the one that was taken last. The threads begin with the first result that is
    asked for, and end with the last one, with an error, and with `close`.

    Parameters
    ----------
    jobs
        The next one is made in the thread that takes results. An error that making one raises comes in its turn.
    threads
        At least one.
    """

    def __init__(self, jobs: Iterator[Callable[[], _Result]], threads: int) -> None:
        self._jobs = jobs
        self._threads = threads
        self._under_way: deque[Future[_Result]] = deque()
        self._executor: ThreadPoolExecutor | None = None
        self._has_more = True
        self._error: Exception | None = None
        """What ended this: it is raised again, so that no reader takes it for the end."""
        self._pid = os.getpid()
        self._lock = Lock()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> _Result:
        """Return the next result.

        Raises
        ------
        UnsupportedError
            This process was forked from the one that began.
        Exception
            The job's, or what making it raised; from then on always the same.
        """
        if os.getpid() != self._pid:
            raise UnsupportedError("a file is being read by a process of which this one is a fork; open it again")
        if self._error is not None:
            raise self._error
        try:
            self._begin()
            if not self._under_way:
                self.close()
                raise StopIteration
            result = self._under_way.popleft().result()
            self._begin()
        except StopIteration:
            raise
        except BaseException as error:
            self._error = error if isinstance(error, Exception) else None
            self.close()
            raise
        return result

    def close(self) -> None:
        """Begin no more jobs, and wait for those under way."""
        if os.getpid() != self._pid:
            return  # a fork, which has no such threads
        with self._lock:
            executor, self._executor, self._has_more = self._executor, None, False
            self._under_way.clear()
        if executor is not None:
            executor.shutdown(wait=True, cancel_futures=True)

    def _begin(self) -> None:
        """Begin jobs, up to the number of threads."""
        while self._has_more and len(self._under_way) < self._threads:
            try:
                job = next(self._jobs, None)
            except Exception as error:  # noqa: BLE001 - raised in its turn
                self._has_more = False
                failed: Future[_Result] = Future()
                failed.set_exception(error)
                self._under_way.append(failed)
                return
            if job is None:
                self._has_more = False
                return
            with self._lock:
                if self._executor is None:
                    self._executor = ThreadPoolExecutor(self._threads, "arrow-ipc-decode")
                self._under_way.append(self._executor.submit(job))
