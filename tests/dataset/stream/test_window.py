"""The mode window over a memory storage: what it reads, what it remembers, what it warns of."""

import dataclasses
import json
import logging
import re
from hashlib import sha256

import pytest
from memory_storage import MemoryStorage

from spark_arrow_ipc.dataset.stream.admission import Readiness
from spark_arrow_ipc.dataset.stream.clean import Cleaner
from spark_arrow_ipc.dataset.stream.mode import ALL_AVAILABLE, Limit, make_offset
from spark_arrow_ipc.dataset.stream.source_files import SourceFiles
from spark_arrow_ipc.dataset.stream.waiting_files import WaitingFiles
from spark_arrow_ipc.dataset.stream.window import WindowMode, WindowOptions
from spark_arrow_ipc.errors import LimitError, StreamOffsetError

SECOND = 1_000_000_000


class All:
    """Takes all files, whose bytes are no Arrow files."""

    named = 0

    def check(self, files, _roots):
        return [(Readiness.READY, file) for file in files]


class Query:
    """A query over one directory of a memory storage, at a time that stands still."""

    def __init__(self, *, latest_first=False, clean=False, **options):
        self.storage = MemoryStorage(renames=False)
        self.latest_first, self.options = latest_first, WindowOptions(**{"late_seconds": 60} | options)
        self.cleaner = Cleaner(self.storage, ("memory:/in",)) if clean else None
        self.now = 0
        self.restart()
        self.offset = self.mode.initial()

    def restart(self):
        source = SourceFiles(self.storage, ("memory:/in",), recursive=True)
        waiting = WaitingFiles(source, All(), self.latest_first, seconds=lambda: self.now)
        self.mode = WindowMode(waiting, self.options, self.cleaner, clock=lambda: 10_000 * SECOND)

    def put(self, **times):
        for name, seconds in times.items():
            path = f"memory:/in/{name.replace('__', '/')}"
            self.storage.put(path, name.encode())
            self.storage._files[path].mtime_ns = seconds * SECOND

    def next(self, limit=ALL_AVAILABLE):
        """Return the names of the next batch, read back from the offset's text."""
        end = json.loads(json.dumps(self.mode.latest(self.offset, limit)))
        start, self.offset = self.offset, end
        self.now += 100  # each look is a new one
        return [file.path.rpartition("/")[2] for file in self.mode.batch(start, end).files]


def test_each_file_is_read_once_oldest_first_and_an_idle_look_returns_its_start():
    query = Query()
    assert [] == query.next()
    query.put(b=1000, a=1000, c=900)
    assert ["c", "a", "b"] == query.next()
    assert query.offset is query.mode.latest(query.offset, ALL_AVAILABLE)
    query.put(d=1000, e=941)  # the same second as the newest, and a minute before
    assert ["e", "d"] == query.next()
    query.restart()
    assert [] == query.next()


@pytest.mark.parametrize(
    ("limit", "batches"),
    [
        (Limit(max_files=2), [["a", "bb"], ["ccc"], []]),
        (Limit(max_bytes=3), [["a", "bb"], ["ccc"], []]),
        (Limit(max_bytes=2), [["a"], ["bb"], ["ccc"], []]),
        (Limit(max_files=1, max_bytes=100), [["a"], ["bb"], ["ccc"], []]),
        (ALL_AVAILABLE, [["a", "bb", "ccc"], []]),
    ],
)
@pytest.mark.parametrize("restarts", [False, True])
def test_limits_and_restarts_between_batches(limit, batches, restarts):
    query = Query()
    query.put(a=1, bb=2, ccc=3)
    for batch in batches:
        assert batch == query.next(limit)
        if restarts:
            query.restart()


def test_with_the_newest_first_nothing_is_late_that_was_listed():
    query = Query(latest_first=True)
    query.put(old=10, older=5, new=5000)
    assert [["new"], ["old"], ["older"], []] == [query.next(Limit(max_files=1)) for _ in range(4)]


def test_late_files_are_named_in_a_warning_once(caplog):
    query = Query()
    query.put(a=1000)
    query.next()
    query.put(late=939, inside=940)
    with caplog.at_level(logging.WARNING):
        assert ["inside"] == query.next()
        query.put(b=1100)
        assert [["b"], []] == [query.next(), query.next()]
    (record,) = caplog.records
    assert "1 file has come too late and will not be read" in record.getMessage()
    assert record.getMessage().endswith(": memory:/in/late")


def test_files_of_a_batch_that_are_old_at_once_are_not_late_after_a_restart(caplog):
    query = Query()
    query.put(a=10, b=5000)
    assert ["a", "b"] == query.next()
    query.restart()
    assert [] == query.next()
    assert [] == caplog.records


def test_names_and_the_present():
    query = Query(name_only=True)
    query.put(x__n=5, y__n=4)
    assert ["n"] == query.next()
    query.put(z__n=6, z__m=6)
    assert ["m"] == query.next()
    query = Query(from_latest=True)
    assert [] == query.next()
    query = Query()
    query.put(a=9_000_000, b=10_000)  # a time of the future
    assert ["b", "a"] == query.next()
    query.put(c=10_000)
    assert ["c"] == query.next()


def test_a_query_from_the_latest_files_on_reads_what_comes_after_its_start():
    query = Query(from_latest=True)
    query.put(a=1000, b=1000)
    query.restart()
    query.offset = query.mode.initial()
    assert query.mode.initial() is query.offset
    query.put(c=1000, d=999)
    assert ["d", "c"] == query.next()


def test_a_larger_window_after_a_restart_reads_nothing_twice():
    query = Query()
    query.put(a=10, b=5000)
    query.next()
    query.options = WindowOptions(late_seconds=100_000)
    query.restart()
    query.put(c=5001)
    assert ["c"] == query.next()


def test_cleaning_comes_with_the_commit_is_idempotent_and_spares_what_has_changed(caplog):
    query = Query(clean=True)
    query.put(a=1, b=1)
    query.next()
    assert 2 == len(query.storage._files)
    for _ in range(2):
        query.mode.committed(query.offset)
        assert not query.storage._files
    assert [] == query.next()
    query.put(c=1)
    query.next()
    query.put(c=2)
    query.mode.committed(query.offset)
    assert ["memory:/in/c"] == list(query.storage._files)
    assert "has changed since it was read" in caplog.text


@pytest.mark.slow
def test_offsets_that_grow_are_named_once_with_what_keeps_them_small(caplog):
    query = Query()
    for i in range(16_000):
        query.storage.put(f"memory:/in/{sha256(str(i).encode()).hexdigest()}", b"")
    sizes = []
    while query.next(Limit(max_files=2_000)):
        sizes.append((len(json.dumps(query.offset)) > 2**18, caplog.text.count("and sourceLog=<directory>")))
    assert {(False, 0), (True, 1)} == set(sizes)
    (warning,) = caplog.messages
    expected = r"memory:/in: the checkpoint of this query names each file that it read of the last 60 seconds \(lateWindow\), [\d,]+ by now, in [\d,]+ of the 1,048,576 characters with which the query fails; before that, start it with a smaller lateWindow, or with a new checkpoint and sourceLog=<directory>, which holds any number of files"
    assert re.fullmatch(expected, warning)


def test_a_first_batch_of_some_files_is_nothing_to_warn_of(caplog):
    query = Query()
    for i in range(90):
        query.storage.put(f"memory:/in/{sha256(str(i).encode()).hexdigest()}", b"")
    assert 90 == len(query.next())
    assert len(json.dumps(query.offset)) > 4096
    assert [] == caplog.messages


@pytest.mark.slow
def test_an_offset_above_a_mebibyte_is_refused_with_what_to_do():
    query = Query()
    for i in range(20_000):
        query.storage.put(f"memory:/in/{sha256(str(i).encode()).hexdigest()}", b"")
    with pytest.raises(LimitError, match=r"20,000 files .* set sourceLog=<directory>.*smaller lateWindow"):
        query.next()
    assert 1000 == len(query.next(Limit(max_files=1000)))


@pytest.mark.parametrize("name", ["hwm", "low", "at", "seen", "files"])
@pytest.mark.parametrize("wrong", ["!", 2**70, None])
def test_a_changed_offset_is_refused(name, wrong):
    query = Query()
    good = make_offset("window", hwm=5, low=5, at=1, seen="", files="")
    assert good == query.mode.latest(good, ALL_AVAILABLE)
    with pytest.raises(StreamOffsetError):
        query.mode.latest(good | {name: wrong}, ALL_AVAILABLE)
    with pytest.raises(StreamOffsetError):
        query.mode.batch(make_offset("log", log=1), good)


def test_a_new_query_reads_files_from_a_time_on_and_never_older_ones():
    query = Query(from_ns=1000 * SECOND)
    query.put(a=999, b=1000, c=1001)
    assert ["b", "c"] == query.next()
    query.put(late=999, d=1000)
    query.restart()
    assert [["d"], []] == [query.next(), query.next()]
    query.options = dataclasses.replace(query.options, from_ns=1)  # counts for a new query alone
    query.restart()
    assert [] == query.next()
