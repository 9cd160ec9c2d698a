"""How often a query that waits looks, and what becomes of a storage that fails for a while."""

import pytest

from spark_arrow_ipc.dataset.stream.mode import ALL_AVAILABLE, Backlog, Limit
from spark_arrow_ipc.dataset.stream.polls import Polls
from spark_arrow_ipc.errors import ConcurrentWriteError, OptionError

LIMIT = Limit(max_files=1)


class Clock:
    def __init__(self):
        self.now, self.slept = 100.0, []

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds


class Mode:
    """A mode whose looks are counted and take a while; it has so many files, one a batch, and errors before them."""

    name = "window"

    def __init__(self, clock, files=0, seconds=0.0, errors=()):
        self.clock, self.files, self.seconds, self.errors, self.looks = clock, files, seconds, list(errors), 0

    def latest(self, start, limit):
        self.looks += 1
        self.clock.now += self.seconds
        if self.errors:
            raise self.errors.pop(0)
        if not self.files:
            return start
        self.files -= 1
        return {"n": start["n"] + 1}

    def backlog(self):
        return Backlog(self.files, self.files)

    def only_available_now(self):
        pass


def polled(mode, clock, interval, seconds, spark_seconds=0.013):
    """Ask as Spark does while nothing is new; return the number of calls."""
    polls = Polls(mode, interval, seconds=lambda: clock.now, sleep=clock.sleep)
    calls, end = 0, clock.now + seconds
    while clock.now < end:
        assert {"n": 0} == polls.latest({"n": 0}, LIMIT)
        clock.now += spark_seconds
        calls += 1
    return calls


@pytest.mark.parametrize(
    ("interval", "seconds", "looks"),
    [(0.2, 0.001, 300), (0.2, 0.225, 120), (0.2, 0.3, 60), (10.0, 0.03, 6), (1.0, 1.4, 10), (0.0, 0.0, 4600)],
    ids=["local", "a listing", "a longer listing", "remote", "a slow listing", "without a pause"],
)
def test_looks_of_an_idle_query_in_a_minute(interval, seconds, looks):
    clock = Clock()
    mode = Mode(clock, seconds=seconds)
    calls = polled(mode, clock, interval, 60)
    assert looks == pytest.approx(mode.looks, rel=0.05, abs=1)
    assert 0.5 >= max(clock.slept, default=0)
    assert interval == 0 or calls <= 60 / 0.5 + 2 * looks + 2


def test_while_files_wait_there_is_no_pause():
    clock = Clock()
    polls = Polls(Mode(clock, files=3, seconds=0.5), 10, seconds=lambda: clock.now, sleep=clock.sleep)
    offset = {"n": 0}
    for n in (1, 2, 3):
        offset = polls.latest(offset, LIMIT)
        assert ({"n": n}, 3 - n) == (offset, polls.backlog.files)
    assert [] == clock.slept
    assert offset is polls.latest(offset, LIMIT)
    assert [0.5] == clock.slept


@pytest.mark.parametrize("error", [OSError("503"), ConcurrentWriteError("again")])
def test_errors_that_pass_are_warnings_and_pauses(caplog, error):
    clock = Clock()
    mode = Mode(clock, files=1, errors=[error] * 5)
    polls = Polls(mode, 1, seconds=lambda: clock.now, sleep=clock.sleep)
    begun, offset = clock.now, {"n": 0}
    while offset == {"n": 0}:
        offset = polls.latest(offset, LIMIT)
    assert (6, 5) == (mode.looks, len(caplog.records))
    assert 1 + 2 + 4 + 8 + 16 == pytest.approx(clock.now - begun)
    assert "attempt 5 of 6" in caplog.text


def test_errors_that_stay_end_the_query():
    clock = Clock()
    polls = Polls(Mode(clock, errors=[OSError("503")] * 9), 1, seconds=lambda: clock.now, sleep=clock.sleep)
    with pytest.raises(OSError, match="503"):
        for _ in range(1000):
            polls.latest({"n": 0}, LIMIT)
    assert 31 == pytest.approx(clock.now - 100)


@pytest.mark.parametrize("how", ["once", "available now"])
def test_where_nothing_new_would_end_the_query_the_pause_is_in_the_call(how):
    clock = Clock()
    polls = Polls(Mode(clock, files=1, errors=[OSError("503")] * 2), 1, seconds=lambda: clock.now, sleep=clock.sleep)
    if how == "available now":
        polls.only_available_now()
    limit = ALL_AVAILABLE if how == "once" else LIMIT
    assert {"n": 1} == polls.latest({"n": 0}, limit)
    assert [1, 2] == clock.slept
    assert {"n": 1} == polls.latest({"n": 1}, limit)


def test_other_errors_end_the_query_at_once():
    clock = Clock()
    polls = Polls(Mode(clock, errors=[OptionError("no")]), 1, seconds=lambda: clock.now, sleep=clock.sleep)
    with pytest.raises(OptionError):
        polls.latest({"n": 0}, LIMIT)
