"""Bounds CPU time on machines of any speed: of a call, `cpu_time.at_most(2, function, argument)`, and of processes."""

import ast
import contextlib
import time

SECONDS = {"additions": 0.05, "objects": 0.05}
"""What a million additions, and making and dropping many objects, take on the machine on which the bounds were written.

Programs on the same cores slow down the second more: they share its caches.
"""


TRIES = 3
"""Calls before one is too slow: a machine that is shared can stop for a second, and CPU time goes on meanwhile."""


def at_most(seconds, function, *args):
    """Return what the call returns, or raise its error; fail where each of three calls takes more CPU time than these seconds.

    A slower machine gets more seconds as it is slower.
    """
    for _ in range(TRIES):
        result = error = None
        start = time.process_time()
        try:
            result = function(*args)
        except Exception as caught:  # noqa: BLE001 -- whatever it is, it is raised below
            error = caught
        excess = excess_over(seconds, time.process_time() - start)
        if excess is None and error is not None:
            raise error
        if excess is None:
            return result
    raise AssertionError(excess)


def excess_over(seconds, took, slow=None):
    """Return None where `took` is at most these seconds, or more on a slower machine; otherwise a sentence.

    `slow` is how many times slower the machine was meanwhile, by default how slow it is now.
    """
    if took <= seconds:
        return None
    allowed = seconds * (slowness() if slow is None else slow)
    return None if took <= allowed else f"{took:.1f} s of CPU time, of at most {allowed:.1f} here"


def slowness():
    """Return how many times slower than the one of the bounds this machine is now, at least 1: the median of five."""
    ratios = [max(add() / SECONDS["additions"], make_objects() / SECONDS["objects"]) for _ in range(5)]
    return max(1.0, sorted(ratios)[2])


def of_processes():
    """Return the CPU seconds of this process and its descendants, with those that ended and were waited for."""
    import psutil

    this, seconds = psutil.Process(), 0.0
    for process in [this, *this.children(recursive=True)]:
        with contextlib.suppress(psutil.Error):  # it has just ended
            times = process.cpu_times()
            seconds += times.user + times.system + times.children_user + times.children_system
    return seconds


def add():
    """Return the CPU seconds of a million additions."""
    start, total = time.process_time(), 0
    for i in range(1_000_000):
        total += i
    return time.process_time() - start


def make_objects():
    """Return the CPU seconds of parsing a program of 1,500 lines, and of a dict of 30,000 tuples that is sorted."""
    start = time.process_time()
    ast.parse("x = [f(i, y) for i in range(3)]\n" * 1_500)
    texts = {str(i): (i,) for i in range(30_000)}
    sorted(texts, key=texts.get)
    return time.process_time() - start
