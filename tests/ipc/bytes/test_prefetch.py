"""Jobs are fetched ahead in their order, within a budget, and in several steps."""

import time
from functools import partial

import numpy as np
import pytest
from waiting import Asked, WaitingSource, eventually

from spark_arrow_ipc.errors import InvalidFramingError
from spark_arrow_ipc.ipc.bytes import ahead as ahead_module
from spark_arrow_ipc.ipc.bytes.ahead import PIECE_NBYTES, Prefetch

DATA = np.random.default_rng(1).bytes(40 << 20)
MIB = 1 << 20


def ranges_of(*steps):
    """A job that reads ranges in steps, and returns all bytes."""
    found = []
    for ranges in steps:
        found += yield ranges
    return found


def begun(source, *jobs, ahead=4):
    return Prefetch(source, ((i, partial(ranges_of, *steps)) for i, steps in enumerate(jobs)), ahead=ahead)


JOBS = [
    ("one range", [[(5, 10)]]),
    ("several ranges", [[(5, 10), (2 * MIB, 3)]]),
    ("several steps", [[(0, 4)], [(100, 4), (50, 1)], [(8, 8)]]),
    ("more than a piece", [[(3, 2 * PIECE_NBYTES + 5), (0, PIECE_NBYTES)]]),
]


@pytest.mark.parametrize("steps", [job[1] for job in JOBS], ids=[job[0] for job in JOBS])
def test_a_job_gets_the_bytes_of_its_ranges(steps):
    jobs = begun(WaitingSource(DATA), *[steps] * 3)
    wanted = [DATA[start : start + nbytes] for ranges in steps for start, nbytes in ranges]
    assert [wanted] * 3 == [list(map(bytes, jobs.take(i))) for i in range(3)]
    assert jobs.take(3) is None
    jobs.close()


def test_later_jobs_wait_for_the_budget_and_the_next_one_does_not(monkeypatch):
    monkeypatch.setattr(ahead_module, "AHEAD_NBYTES", 5 * MIB)
    source = WaitingSource(DATA)
    jobs = begun(source, [[(0, 6 * MIB)]], [[(1, 4 * MIB)]], [[(2, 2 * MIB)]], [[(3, 1)]])
    for number, asked in enumerate(
        ([0], [0, 1], [0, 1, 2, 3])
    ):  # the fourth would fit, and must not overtake the third
        assert eventually(lambda asked=asked: len(source.asked.reads) >= len(asked))
        time.sleep(0.05)
        assert asked == sorted(byte_offset for _, byte_offset, _ in source.asked.reads)
        jobs.take(number)
    jobs.close()


def test_jobs_that_are_passed_over_are_dropped():
    source = WaitingSource(DATA)
    jobs = begun(source, *[[[(i, 10)]] for i in range(100)], ahead=2)
    assert [DATA[50:60]] == list(map(bytes, jobs.take(50)))
    assert jobs.take(49) is None
    jobs.close()


def test_a_job_whose_bytes_are_broken_gives_none_and_other_errors_are_raised():
    def broken():
        yield [(0, 1)]
        raise InvalidFramingError("no header")

    def failed():
        yield [(0, 1)]
        raise OSError("no network")

    jobs = Prefetch(WaitingSource(DATA), iter([(0, broken), (1, failed), (2, partial(ranges_of, [(1, 1)]))]), ahead=3)
    assert jobs.take(0) is None
    with pytest.raises(OSError, match="no network"):
        jobs.take(1)
    assert [DATA[1:2]] == list(map(bytes, jobs.take(2)))
    jobs.close()


def test_nothing_is_read_after_the_end():
    source = WaitingSource(DATA, Asked(0.05))
    jobs = begun(source, *[[[(i * MIB, MIB)]] for i in range(30)], ahead=20)
    jobs.close()
    with pytest.raises(ValueError, match="closed"):
        jobs.take(0)
    time.sleep(0.15)
    assert source.asked.total <= ahead_module.THREADS
