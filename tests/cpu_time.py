"""Bounds the CPU time of a block, on machines of any speed: `with cpu_time.at_most(2): ...`."""

import contextlib
import time

SECONDS_OF_ADDITIONS = 0.05
"""What a million additions take on the machine on which the bounds were written."""


@contextlib.contextmanager
def at_most(seconds):
    """Fail where the block takes more CPU time than these seconds, of which a slower machine gets more as it is slower."""
    start = time.process_time()
    yield
    took = time.process_time() - start
    if took > seconds:
        allowed = seconds * max(1.0, _seconds_of_additions() / SECONDS_OF_ADDITIONS)
        assert took <= allowed, f"{took:.1f} s of CPU time, of at most {allowed:.1f} here"


def _seconds_of_additions():
    start, total = time.process_time(), 0
    for i in range(1_000_000):
        total += i
    return time.process_time() - start
