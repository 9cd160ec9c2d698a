"""Call a function for many items: in one thread if it is fast, else in many.

On a local disk a rename takes microseconds, and threads only compete for the directory's lock; on network storage each
call waits for milliseconds. The first calls are timed to tell the two apart, unless the storage says that it waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from time import perf_counter
from typing import Final, TypeVar

_THREADS: Final = 32
_THREADS_THAT_WAIT: Final = 64
_SAMPLE: Final = 32
"""Number of calls that are timed before threads are considered."""

_SLOW_SECONDS: Final = 0.0005
"""Above this mean the calls wait: a local rename takes 0.00004 s, one over a network 0.001 s."""

_Item = TypeVar("_Item")


def each(
    call: Callable[[_Item], object],
    items: Sequence[_Item],
    *,
    waits: bool = False,
    slow_seconds: float | None = None,
    most: int | None = None,
) -> None:
    """Call a function for each item; make at most `most` calls at once.

    The first error is raised when all calls have ended that were begun; the function may not be called for later items.
    """
    # Calls that are known to wait are made at once, from the first one on.
    if waits:
        _in_threads(call, items, min(_THREADS_THAT_WAIT if most is None else most, len(items)))
        return
    # The default is for single calls of the file system.
    slow = _SAMPLE * (_SLOW_SECONDS if slow_seconds is None else slow_seconds)
    begun = perf_counter()
    for item in items[:_SAMPLE]:
        call(item)
    rest = islice(items, _SAMPLE, None)
    if perf_counter() - begun < slow:
        for item in rest:
            call(item)
        return
    if len(items) <= _SAMPLE:
        return
    _in_threads(call, rest, _THREADS if most is None else most)


def _in_threads(call: Callable[[_Item], object], items: Iterable[_Item], threads: int) -> None:
    if threads <= 1:
        for item in items:
            call(item)
        return
    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(call, item) for item in items]
        try:
            for future in futures:
                future.result()
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
