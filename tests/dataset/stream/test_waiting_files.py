"""When the directory is listed, and what becomes of files that are not complete yet."""

import pytest

from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.stream.admission import Readiness
from spark_arrow_ipc.dataset.stream.mode import ALL_AVAILABLE, Backlog, Limit
from spark_arrow_ipc.dataset.stream.source_files import Roots
from spark_arrow_ipc.dataset.stream.waiting_files import WaitingFiles


class Source:
    """A source, and its admission, of so many files, whose looks are counted and take a while; a number is the time of a file, too."""

    def __init__(self, count):
        self.count, self.looks, self.seconds, self.slow = count, 0, 0.0, 0.0
        self.states, self.pauses, self.sizes, self.named = {}, [], {}, 0

    def list_files(self):
        self.looks += 1
        self.seconds += self.slow
        return tuple(DataFile(f"/in/{i}", self.sizes.get(i, 10), i) for i in range(self.count)), Roots(["/in"])

    def check(self, files, _roots):
        found = []
        for file in files:
            state = self.states.get(file.path)
            if isinstance(state, list):
                state = state.pop(0) if state else Readiness.READY
            if isinstance(state, Exception):
                raise state
            found.append((state or Readiness.READY, file))
        return found

    settle_seconds = 0.125

    def has_named(self, path):
        return path == "/in/9"

    def sleep(self, seconds):
        self.pauses.append(seconds)


class Reader:
    def __init__(self, count, **options):
        self.source = Source(count)
        self.waiting = WaitingFiles(
            self.source, self.source, seconds=lambda: self.source.seconds, sleep=self.source.sleep, **options
        )
        self.read = set()

    def next(self, limit):
        if self.waiting.is_due:
            self.waiting.refresh(lambda files: [file for file in files if file.path not in self.read])
        taken = self.waiting.take(limit).files
        self.read |= {file.path for file in taken}
        return [file.mtime_ns for file in taken]


def test_one_look_feeds_batches_until_nothing_is_left_or_it_is_old():
    reader = Reader(5)
    assert [[0, 1], [2, 3]] == [reader.next(Limit(2)) for _ in range(2)]
    assert (1, Backlog(1, 10, reader.waiting.oldest_ns())) == (reader.source.looks, reader.waiting.backlog())
    reader.source.seconds = 11
    assert ([4], 2) == (reader.next(Limit(2)), reader.source.looks)
    assert ([], 3) == (reader.next(Limit(2)), reader.source.looks)
    reader.source.slow = 4
    reader.source.count = 9
    assert [[5, 6], [7, 8]] == [reader.next(Limit(2)) for _ in range(2)]
    assert 4 == reader.source.looks


@pytest.mark.parametrize(("passed", "looks"), [(19, 1), (21, 2)])
def test_a_slow_look_is_repeated_after_five_times_its_time(passed, looks):
    reader = Reader(3)
    reader.source.slow = 4
    reader.next(Limit(1))
    reader.source.seconds += passed
    reader.next(Limit(1))
    assert looks == reader.source.looks


def test_with_available_now_there_is_one_look():
    reader = Reader(3)
    reader.waiting.only_now()
    assert [0, 1] == reader.next(Limit(2))
    reader.source.count, reader.source.seconds = 9, 100
    assert [[2], [], []] == [reader.next(Limit(2)) for _ in range(3)]
    assert 1 == reader.source.looks


def test_the_newest_may_come_first():
    assert [3, 2, 1, 0] == Reader(4, latest_first=True).next(ALL_AVAILABLE)


def test_more_files_than_are_checked_at_once():
    assert list(range(2500)) == Reader(2500).next(ALL_AVAILABLE)


def test_incomplete_files_are_left_out_and_young_ones_looked_at_again():
    reader = Reader(5)
    reader.source.states = {
        "/in/0": Readiness.INCOMPLETE,
        "/in/1": Readiness.GONE,
        "/in/2": [Readiness.YOUNG],
        "/in/3": [Readiness.YOUNG, Readiness.YOUNG],
    }
    assert [4, 2] == reader.next(ALL_AVAILABLE)
    assert (3, [0.125]) == (reader.waiting.oldest_ns(), reader.source.pauses)
    assert [3] == reader.next(ALL_AVAILABLE)
    assert (1, 1) == (reader.source.looks, reader.waiting.backlog().incomplete)
    reader.source.states = {}
    assert [0, 1] == reader.next(ALL_AVAILABLE)
    assert 0 == reader.waiting.backlog().incomplete


def test_files_that_a_warning_has_named_are_bad_and_not_incomplete():
    reader = Reader(10)
    reader.source.states = {f"/in/{i}": Readiness.INCOMPLETE for i in (8, 9)}
    reader.source.named = 1
    assert 8 == len(reader.next(ALL_AVAILABLE))
    assert (1, 1) == (reader.waiting.backlog().bad, reader.waiting.backlog().incomplete)


def test_where_nothing_can_be_taken_the_next_call_looks_again():
    reader = Reader(1)
    reader.source.states = {"/in/0": [Readiness.YOUNG] * 2}
    assert [[], [0]] == [reader.next(ALL_AVAILABLE) for _ in range(2)]
    assert 2 == reader.source.looks


@pytest.mark.parametrize("number", [1, 1500])
def test_after_an_error_nothing_is_lost(number):
    reader = Reader(2000)
    reader.source.states = {f"/in/{number}": [OSError("gone for a moment")]}
    with pytest.raises(OSError, match="for a moment"):
        reader.next(ALL_AVAILABLE)
    assert list(range(2000)) == reader.next(ALL_AVAILABLE)


def test_a_file_that_grows_after_it_was_read_is_named_once_and_one_that_waits_is_not(caplog):
    reader = Reader(4)
    reader.source.states = {"/in/3": Readiness.INCOMPLETE}
    reader.next(ALL_AVAILABLE)
    reader.source.sizes = {1: 17, 3: 11}
    for _ in range(2):
        reader.next(ALL_AVAILABLE)
    assert 1 == len(caplog.records)
    assert (
        "/in/1: this file had 10 bytes when it was read and has 17 now; what was written since will not" in caplog.text
    )


def test_the_process_after_a_restart_knows_the_files_that_were_read_last(caplog):
    reader = Reader(1)
    reader.waiting.remember([DataFile("/in/0", 10, 0)])
    reader.read = {"/in/0"}
    reader.source.sizes = {0: 9}
    reader.next(ALL_AVAILABLE)
    assert "had 10 bytes when it was read and has 9 now" in caplog.text


def test_a_file_that_is_read_again_is_not_named(caplog):
    reader = Reader(1)
    reader.next(ALL_AVAILABLE)
    reader.source.sizes, reader.read = {0: 12}, set()
    assert [0] == reader.next(ALL_AVAILABLE)
    assert [] == caplog.records


@pytest.mark.slow
def test_a_bounded_number_of_files_is_remembered(caplog):
    reader = Reader(10_001)
    reader.next(ALL_AVAILABLE)
    reader.source.sizes = {0: 11, 1: 11}
    reader.next(ALL_AVAILABLE)
    assert ["/in/1"] == [record.getMessage().partition(":")[0] for record in caplog.records]
