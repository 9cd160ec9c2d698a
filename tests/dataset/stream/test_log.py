"""The mode log over a memory storage: exact for files of any time, and after deaths behind its own writes."""

import dataclasses
import json

import pytest
from memory_storage import MemoryStorage

from spark_arrow_ipc.dataset.stream.admission import Readiness
from spark_arrow_ipc.dataset.stream.clean import Cleaner
from spark_arrow_ipc.dataset.stream.log import LogMode, LogOptions
from spark_arrow_ipc.dataset.stream.mode import ALL_AVAILABLE, Limit, make_offset
from spark_arrow_ipc.dataset.stream.source_files import SourceFiles
from spark_arrow_ipc.dataset.stream.source_log import SourceLog
from spark_arrow_ipc.dataset.stream.waiting_files import WaitingFiles
from spark_arrow_ipc.errors import StreamOffsetError

SECOND = 1_000_000_000


class All:
    """Takes all files, whose bytes are no Arrow files."""

    named = 0

    def check(self, files, _roots):
        return [(Readiness.READY, file) for file in files]


class Query:
    def __init__(self, storage=None, *, clean=False, **options):
        self.storage = storage or MemoryStorage(renames=False)
        self.options, self.clean, self.now = LogOptions(**options), clean, 0
        self.restart()
        self.offset = self.mode.initial()

    def restart(self):
        source = SourceFiles(self.storage, ("memory:/in",), recursive=True)
        waiting = WaitingFiles(source, All(), seconds=lambda: self.now)
        log = SourceLog(self.storage, "memory:/log", ("memory:/in",), name_only=self.options.name_only)
        cleaner = Cleaner(self.storage, ("memory:/in",)) if self.clean else None
        self.mode = LogMode(waiting, log, self.options, cleaner)

    def put(self, **times):
        for name, seconds in times.items():
            path = f"memory:/in/{name.replace('__', '/')}"
            self.storage.put(path, name.encode())
            self.storage._files[path].mtime_ns = seconds * SECOND

    def next(self, limit=ALL_AVAILABLE):
        end = json.loads(json.dumps(self.mode.latest(self.offset, limit)))
        start, self.offset = self.offset, end
        self.now += 100
        return [file.path.rpartition("/")[2] for file in self.mode.batch(start, end).files]


def test_each_file_is_read_once_whatever_its_time_and_offsets_are_small():
    query = Query()
    assert [] == query.next()
    query.put(b=1000, a=1000)
    assert ["a", "b"] == query.next()
    query.put(old=1, c=1000)
    assert ["old"] == query.next(Limit(max_files=1))
    query.restart()
    assert [["c"], []] == [query.next(), query.next()]
    owner = query.storage.read("memory:/log/owner", 64).decode()
    assert {"v": 1, "mode": "log", "log": 2, "owner": owner} == query.offset


def test_an_entry_that_spark_does_not_know_is_the_next_batch_without_a_look():
    query = Query()
    query.put(a=1)
    query.mode.latest(query.offset, ALL_AVAILABLE)  # and the process dies before Spark writes the offset down
    query.put(b=2)
    query.restart()
    query.mode._waiting.source = None
    assert ["a"] == query.next(Limit(max_files=5))
    query.restart()
    assert [["b"], []] == [query.next(Limit(max_files=5)) for _ in range(2)]


def test_one_batch_of_all_takes_entries_that_spark_does_not_know_and_what_is_new():
    query = Query()
    query.put(a=1)
    query.mode.latest(query.offset, ALL_AVAILABLE)
    query.put(b=2)
    query.restart()
    assert ["a", "b"] == query.next()


def test_a_large_batch_has_several_entries(monkeypatch):
    monkeypatch.setattr("spark_arrow_ipc.dataset.stream.log.MOST_FILES", 2)
    query = Query(clean=True)
    query.put(a=1, b=2, c=3, d=4, e=5)
    assert (["a", "b", "c", "d", "e"], 2) == (query.next(), query.offset["log"])
    query.mode.committed(query.offset)
    assert [] == [path for path in query.storage._files if path.startswith("memory:/in")]


def test_options_of_names_and_start():
    query = Query(name_only=True)
    query.put(x__n=5, y__n=4, z__m=6)
    assert ["n", "m"] == query.next()
    query = Query(from_latest=True)
    query.put(a=1000, b=1000)
    assert ([], 0) == (query.next(), query.offset["log"])
    query.put(c=5)
    query.restart()
    assert [["c"], []] == [query.next(), query.next()]


def test_after_an_error_of_the_storage_nothing_is_lost_or_doubled(monkeypatch):
    query = Query()
    query.put(a=1, b=2)
    own = query.storage.put_if_absent
    for written in (False, True):

        def failing(path, data, written=written, **options):
            if written:
                own(path, data, **options)
            raise OSError("503")

        with monkeypatch.context() as patched:
            patched.setattr(
                MemoryStorage, "put_if_absent", lambda _, *args, failing=failing, **kw: failing(*args, **kw)
            )
            with pytest.raises(OSError, match="503"):
                query.mode.latest(query.offset, Limit(max_files=1))
    assert [["a"], ["b"], []] == [query.next(Limit(max_files=1)) for _ in range(3)]


NEW = "the checkpoint of this query is new; give a new directory as sourceLog"
OTHER = "this sourceLog is of another query"
WRITTEN = "another query has written the next entry"
TWO = [
    # the queries that take a batch, one after the other, and what the last of them is told
    ("1 1 2", NEW),  # the first goes on before the second begins
    ("1 2 1 2", OTHER),  # Spark had no offset of the first when the second began
    ("1 2 2 1", OTHER),
    ("1 1 1 1 2", NEW),
]


@pytest.mark.parametrize(("turns", "message"), TWO)
@pytest.mark.parametrize("restarts", [False, True])
def test_the_second_of_two_queries_of_one_log_is_refused(turns, message, restarts):
    first = Query()
    queries = {"1": first, "2": Query(first.storage)}
    *before, last = turns.split()
    for i in range(len(before)):
        first.put(**{f"f{i}": i})
        assert queries[before[i]].next(Limit(max_files=1))
        if restarts:
            queries[before[i]].restart()
    first.put(more=1)
    for _ in range(2):
        with pytest.raises(StreamOffsetError, match=message):
            queries[last].next(Limit(max_files=1))
        queries[last].restart()


@pytest.mark.slow
@pytest.mark.parametrize("ahead", [1, 12, 130])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_query_whose_checkpoint_was_copied_reads_each_file_or_ends_with_an_error(ahead, restarts):
    """The copy has the id of the owner, so that nothing tells it from a query that was started again."""
    first = Query()
    first.put(f0=0)
    first.next()
    copy = Query(first.storage)
    copy.offset = first.offset
    copy.next()
    for i in range(1, ahead + 1):
        first.put(**{f"f{i}": i})
        first.next()
        first.mode.committed(first.offset)
    read = []
    if restarts:
        copy.restart()
    if restarts and ahead < 100:
        while batch := copy.next(Limit(max_files=1)):
            read += batch
        assert [f"f{i}" for i in range(1, ahead + 1)] == read
        return
    with pytest.raises(
        StreamOffsetError, match="names entry 1 of its sourceLog, and there is none" if restarts else WRITTEN
    ):
        copy.next(Limit(max_files=1))


@pytest.mark.slow
def test_a_query_prunes_no_log_of_another():
    first = Query()
    first.put(a=1)
    first.next()
    second = Query(first.storage)
    second.next(Limit(max_files=1))
    first.mode.committed(first.offset)
    for i in range(130):
        first.put(**{f"f{i}": i})
        first.next()
    names = set(first.storage._files)
    with pytest.raises(StreamOffsetError, match=OTHER):
        second.mode.committed({**second.offset, "log": 130})
    assert names == set(first.storage._files)


def test_a_new_checkpoint_with_a_log_of_an_earlier_release_is_refused():
    query = Query()
    for name in ("a", "b"):
        query.put(**{name: 1})
        query.next()
    query.storage.delete("memory:/log/owner")
    with pytest.raises(StreamOffsetError, match=NEW):
        Query(query.storage).next()


def test_offsets_and_entries_of_an_earlier_release_go_on_as_they_are():
    query = Query(name_only=True)
    query.offset = make_offset("log", log=-1)
    query.put(a=1)
    query.next()
    (path,) = (path for path in query.storage._files if path.startswith("memory:/log"))
    entry = json.loads(query.storage.read(path, 9999))
    del entry["fileNameOnly"]
    query.storage.put(path, json.dumps(entry).encode())
    query.restart()
    query.put(b=1)
    assert (["b"], make_offset("log", log=1)) == (query.next(), query.offset)


def test_a_checkpoint_and_a_log_that_do_not_fit_are_errors():
    query = Query()
    with pytest.raises(StreamOffsetError, match="names entry 7 of its sourceLog, and there is none"):
        query.mode.latest(make_offset("log", log=7), ALL_AVAILABLE)
    with pytest.raises(StreamOffsetError, match="names entry 0"):
        query.mode.batch(make_offset("log", log=-1), make_offset("log", log=0))
    with pytest.raises(StreamOffsetError, match="an offset from entry 3 on"):
        query.mode.batch(make_offset("log", log=3), make_offset("log", log=0))
    with pytest.raises(StreamOffsetError, match="made in the mode 'window'"):
        query.mode.latest(make_offset("window"), ALL_AVAILABLE)


@pytest.mark.slow
def test_old_entries_go_when_their_batches_are_committed():
    query = Query()
    for i in range(135):
        query.put(**{f"f{i}": i})
        assert [f"f{i}"] == query.next()
        query.mode.committed(query.offset)
    names = sorted(path.rpartition("/")[2] for path in query.storage._files if path.startswith("memory:/log"))
    assert [f"{i:020d}.json" for i in range(30, 135)] == [name for name in names if name.endswith("json")]
    assert ["seen-00000000000000000129.bin"] == [name for name in names if name.endswith("bin")]
    query.restart()
    assert [] == query.next()
    query.put(one_more=0)
    assert ["one_more"] == query.next()


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
