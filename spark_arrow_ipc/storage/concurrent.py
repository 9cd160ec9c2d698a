"""Many file system calls of one kind: one after the other where they are quick, many at once where each waits.

Strategy
--------
On a local disk a rename costs microseconds and threads only fight over the directory's lock; on network storage each
call is milliseconds of waiting. Which of the two it is shows after a few calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from time import perf_counter
from typing import Final, TypeVar

__all__ = ["each"]

_THREADS: Final = 32
_SAMPLE: Final = 32
"""Calls that are timed before threads are thought of."""

_SLOW_SECONDS: Final = 0.0005
"""A mean above this is waiting: a local rename takes 0.00004 s, one over a network 0.001 s."""

_Item = TypeVar("_Item")


def each(call: Callable[[_Item], None], items: Sequence[_Item]) -> None:
    """Call for each item; the first error is raised, later items may be left."""
    begun = perf_counter()
    for item in items[:_SAMPLE]:
        call(item)
    rest = islice(items, _SAMPLE, None)
    if perf_counter() - begun < _SAMPLE * _SLOW_SECONDS:
        for item in rest:
            call(item)
        return
    if len(items) <= _SAMPLE:
        return
    with ThreadPoolExecutor(_THREADS) as pool:
        futures = [pool.submit(call, item) for item in rest]
        try:
            for future in futures:
                future.result()
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
