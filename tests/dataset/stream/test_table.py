"""A table is read commit by commit: each once and complete, and what is gone is said."""

import json
import logging
import shutil
from pathlib import Path

import pytest
from table_commits import APPEND, DYNAMIC, OVERWRITE, REWRITE, begin, prune, save, table, text_of
from table_trials import run

from spark_arrow_ipc.dataset.listing.data_file import FileFilter
from spark_arrow_ipc.dataset.stream import table as table_mode
from spark_arrow_ipc.dataset.stream.mode import ALL_AVAILABLE, Limit, OnOverwrite
from spark_arrow_ipc.dataset.stream.table import TableMode, TableOptions
from spark_arrow_ipc.errors import (
    CommitError,
    FileChangedError,
    SourceOverwrittenError,
    StreamOffsetError,
    UnsupportedError,
)
from spark_arrow_ipc.storage.local import LocalStorage
from spark_arrow_ipc.table.collect import fence
from spark_arrow_ipc.table.entry import Entry, Operation
from spark_arrow_ipc.table.log import append, create_table, follow, read_state, read_table_id
from spark_arrow_ipc.table.repair import renew_id
from spark_arrow_ipc.table.restore import restore

ONE = Limit(max_files=1)


@pytest.fixture
def lake(tmp_path):
    path = tmp_path / "lake"
    path.mkdir()
    save(path, APPEND, "a", "b")
    return path


def entry_id(path, number):
    return read_state(table(path), number).entry[:16]


class Query:
    """Drives a mode as Spark does, and has another process confirm each batch."""

    def __init__(self, path, limit=ALL_AVAILABLE, **options):
        self.path, self.limit, self.options = path, limit, TableOptions(**options)
        self.mode = self.new()
        self.offsets = []

    def new(self):
        return TableMode(table(self.path), self.options)

    @property
    def at(self):
        return self.offsets[-1] if self.offsets else self.mode.initial()

    def look(self, limit=None, mode=None):
        """Return the texts of the next batch; None if there is none."""
        mode = mode or self.mode
        start = self.at
        end = mode.latest(start, limit or self.limit)
        if end is start:
            return None
        end = json.loads(json.dumps(end))
        self.offsets.append(end)
        files = mode.batch(start, end).files
        assert files == self.new().batch(start, end).files, "another process finds the same"
        return [self.text(file) for file in files]

    def text(self, file):
        return text_of(table(self.path), file)

    def rest(self, batches=10):
        """Return the texts of all further batches."""
        found = []
        for _ in range(batches):
            texts = self.look()
            if texts is None:
                break
            found.append(sorted(texts))
        return found


def test_the_snapshot_and_then_each_commit(lake):
    query = Query(lake)
    assert [["a", "b"]] == query.rest()
    save(lake, APPEND, "c")
    save(lake, APPEND, "d", "e")
    assert [["c", "d", "e"]] == query.rest()
    assert query.look() is None
    assert query.at == query.mode.latest(query.at, ALL_AVAILABLE)
    assert {
        "v": 1,
        "mode": "table",
        "table": read_table_id(table(lake)),
        "entry": 3,
        "id": entry_id(lake, 3),
        "after": "/",
    } == query.at


def test_a_batch_takes_parts_of_the_snapshot_and_never_parts_of_a_commit(lake):
    save(lake, APPEND, "c")
    query = Query(lake, ONE)
    found = [query.look() for _ in range(3)]
    assert [["a"], ["b"], ["c"]] == sorted(found)
    save(lake, APPEND, "d", "e", "f")
    save(lake, APPEND, "g")
    assert [["d", "e", "f"], ["g"]] == query.rest()
    for texts in (["h", "i"], ["j"], ["k"]):
        save(lake, APPEND, *texts)
    assert ["h", "i", "j"] == sorted(query.look(Limit(max_files=3)))
    assert (1, 1) == query.mode.backlog()[:2]
    assert query.mode.backlog().oldest_ns == read_state(table(lake)).time * 1_000_000
    assert ["k"] == query.look(Limit(max_bytes=1))


def test_commits_during_the_snapshot_come_after_it(lake):
    query = Query(lake, ONE)
    first = query.look()
    assert (1, 1) == query.mode.backlog()[:2]
    save(lake, APPEND, "0")
    assert [["a", "b"], ["0"]] == [sorted([*first, *query.look(mode=query.new())]), query.look()]


STARTS = [
    ({}, [["a", "b", "c", "d"], ["e"]]),
    ({"from_latest": True}, [[], ["e"]]),
    ({"first_entry": 1}, [["a", "b", "c", "d"], ["e"]]),
    ({"first_entry": 2}, [["c", "d"], ["e"]]),
    ({"first_entry": 3}, [["d"], ["e"]]),
    ({"first_entry": 4}, [["e"]]),
]


@pytest.mark.parametrize(("start", "batches"), STARTS, ids=[str(start) for start, _ in STARTS])
def test_the_start_of_a_query(lake, start, batches):
    save(lake, APPEND, "c")
    save(lake, APPEND, "d")
    query = Query(lake, **start)
    found = query.rest()
    save(lake, APPEND, "e")
    assert batches == [*found, *query.rest()]


def test_a_query_may_begin_before_the_first_commit(tmp_path):
    create_table(table(tmp_path))
    query = Query(tmp_path)
    assert [[]] == query.rest()
    save(tmp_path, APPEND, "a")
    assert [["a"]] == query.rest()


def test_a_directory_without_a_log_is_not_a_table(tmp_path):
    with pytest.raises(StreamOffsetError, match="has no log"):
        Query(tmp_path)


@pytest.mark.parametrize("from_latest", [False, True])
def test_the_first_batch_is_the_same_although_no_offset_has_its_beginning(lake, from_latest):
    query = Query(lake, from_latest=from_latest)
    initial = query.mode.initial()
    end = query.mode.latest(initial, ALL_AVAILABLE)
    before = query.mode.batch(initial, end)
    save(lake, APPEND, "later")
    assert initial == query.new().initial()
    assert before.files == query.new().batch(query.new().initial(), end).files


# Entries without rows


def expire(lake):
    job = begin(table(lake), "x")
    fence(job.directory, job.table, [job.job])


def void(lake):
    """Put an entry of a job that a vacuum has expired: a request that was on its way."""
    directory, job = table(lake), begin(table(lake), "void")
    state = fence(directory, job.table, [job.job])
    assert append(directory, state, follow(state, Entry(0, "", Operation.APPEND, job=job.job, add=job._added)))


def rewrite_all(lake):
    texts = [Path(lake, path).read_text() for path in read_state(table(lake)).files.paths]
    save(lake, REWRITE, "+".join(texts), replaces=lambda _: True, retain=True)


WITHOUT_ROWS = {"expired": (expire, 1), "void": (void, 2), "a rewrite": (rewrite_all, 1)}


@pytest.mark.parametrize("name", WITHOUT_ROWS)
@pytest.mark.parametrize("is_new", [False, True], ids=["one process", "another process"])
def test_entries_without_rows_make_no_batch(lake, monkeypatch, name, is_new):
    act, entries = WITHOUT_ROWS[name]
    query = Query(lake)
    query.look()
    act(lake)
    assert query.look() is None
    save(lake, APPEND, "c")
    assert ["c"] == query.look(mode=query.new() if is_new else None)
    assert 2 + entries == query.at["entry"]
    act(lake)
    monkeypatch.setattr(table_mode, "_EMPTY_ENTRIES", entries)
    assert [[]] == query.rest(), "so that the offset is not older than the entries that are retained"


# Overwrites

OVERWRITES = [(OnOverwrite.SKIP, [["e"]]), (OnOverwrite.APPEND, [["c", "d", "e"]])]


@pytest.mark.parametrize(("what", "batches"), OVERWRITES, ids=[what for what, _ in OVERWRITES])
def test_an_overwrite_is_passed_as_the_option_says(lake, what, batches):
    query = Query(lake, on_overwrite=what)
    query.look()
    save(lake, OVERWRITE, "c", "d")
    save(lake, APPEND, "e")
    assert batches == query.rest()


@pytest.mark.parametrize("mode", [OVERWRITE, DYNAMIC])
def test_an_overwrite_ends_a_query(tmp_path, mode):
    save(tmp_path, APPEND, "k=1:a", "k=2:b")
    query = Query(tmp_path)
    query.look()
    save(tmp_path, mode, "k=2:c")
    with pytest.raises(SourceOverwrittenError, match=r"log entry 2 overwrote the source .*onOverwrite=skip"):
        query.look()


def test_an_overwrite_of_nothing_is_an_append(tmp_path):
    create_table(table(tmp_path))
    query = Query(tmp_path)
    query.look()
    save(tmp_path, OVERWRITE, "a")
    assert ["a"] == query.look()


@pytest.mark.parametrize(("what", "rows"), [(OnOverwrite.SKIP, None), (OnOverwrite.APPEND, ["a", "b"])])
def test_a_restore_that_only_brings_rows_back_is_an_overwrite(lake, what, rows):
    query, strict = Query(lake, on_overwrite=what), Query(lake)
    query.look()
    save(lake, OVERWRITE, retain=True)
    query.look(), strict.look()
    restore(table(lake), 1)
    found = query.look()
    assert rows == (found and sorted(found))
    strict.offsets = [{**query.offsets[0], "entry": 2, "id": entry_id(lake, 2)}]
    with pytest.raises(SourceOverwrittenError, match="log entry 3 overwrote"):
        strict.look()


def test_files_that_an_overwrite_removed_before_they_were_read(lake, caplog):
    query = Query(lake, on_overwrite=OnOverwrite.SKIP)
    query.look()
    save(lake, APPEND, "c")
    save(lake, OVERWRITE, "d")
    with pytest.raises(StreamOffsetError, match=r"log entry 2 has this file, and it was deleted before .*retention"):
        query.look()
    query.offsets.pop()
    loose = Query(lake, on_overwrite=OnOverwrite.SKIP, fails_on_data_loss=False)
    loose.offsets = list(query.offsets)
    with caplog.at_level(logging.WARNING):
        assert [] == loose.look()
    assert "it is left out" in caplog.text
    save(lake, APPEND, "e")
    assert ["e"] == loose.look()


@pytest.mark.parametrize("collects", [True, False], ids=["retained", "at its path"])
def test_removed_files_are_read_where_they_are(lake, collects):
    query = Query(lake, on_overwrite=OnOverwrite.SKIP)
    query.look()
    save(lake, APPEND, "c")
    save(lake, OVERWRITE, "d", retain=True, collects=collects)
    assert ["c"] == query.look()


@pytest.mark.parametrize("retain", [True, False])
def test_a_snapshot_is_the_same_after_its_files_were_removed(tmp_path, retain, caplog):
    save(tmp_path, APPEND, "k=1:a", "k=2:b")
    save(tmp_path, APPEND, "k=2:c")
    query = Query(tmp_path, ONE)
    assert ["k=1:a"] == query.look()
    save(tmp_path, DYNAMIC, "k=2:d", retain=retain)
    later = Query(tmp_path, on_overwrite=OnOverwrite.APPEND, fails_on_data_loss=retain)
    later.offsets = list(query.offsets)
    with caplog.at_level(logging.WARNING):
        assert [["k=2:b", "k=2:c"] if retain else [], ["k=2:d"]] == later.rest()
    assert retain == ("it is left out" not in caplog.text)


# Rewrites: the same rows in other files


def rewrite(path, *texts, **options):
    """Replace the files of some texts by one that has them joined."""
    chosen = {str(file.relative_to(path)) for file in Path(path).glob("*.arrow") if file.read_text() in texts}
    save(path, REWRITE, "+".join(texts), replaces=lambda path: path in chosen, **options)


def test_a_rewrite_has_no_rows_for_a_stream(lake):
    query = Query(lake)
    assert [["a", "b"]] == query.rest()
    save(lake, APPEND, "c")
    rewrite(lake, "a", "b", "c", retain=True)
    rewrite(lake, "a+b+c", retain=True)
    save(lake, APPEND, "d")
    assert [["c", "d"]] == query.rest(), "c is read where it is retained"
    assert [["a+b+c", "d"]] == Query(lake).rest(), "a new query reads each row once, too"


@pytest.mark.parametrize("collects", [True, False])
@pytest.mark.parametrize("is_new", [False, True], ids=["one process", "another process"])
def test_a_snapshot_that_is_rewritten_while_it_is_read_is_read_to_its_end(lake, collects, is_new):
    save(lake, APPEND, "c", "d")
    query = Query(lake, ONE)
    first = query.look()
    rewrite(lake, "a", "b", retain=True, collects=collects)
    rest = [query.look(mode=query.new() if is_new else None) for _ in range(3)]
    assert ["a", "b", "c", "d"] == sorted(text for texts in [first, *rest] for text in texts)
    assert query.look() is None


def test_rows_that_a_rewrite_did_not_retain_are_lost_to_a_stream_that_is_behind(lake):
    query = Query(lake, ONE)
    first = query.look()
    rewrite(lake, *first)
    rest = next(text for text in ("a", "b") if text not in first)
    assert [rest] == query.look(), "only files that are not read yet are needed"
    save(lake, APPEND, "c")
    rewrite(lake, "c")
    with pytest.raises(StreamOffsetError, match="deleted before the stream had read it"):
        query.look()


# Files of other programs


def drop(path, text):
    (path / f"{text}.arrow").write_text(text)


def test_a_table_with_files_of_other_programs_is_refused_or_they_are_left_out(lake, caplog):
    drop(lake, "foreign")
    for _ in range(2):
        with pytest.raises(UnsupportedError, match=r"1 files of other programs, such as foreign.arrow.*ingest"):
            Query(lake).look()
    with caplog.at_level(logging.WARNING):
        assert [["a", "b"]] == Query(lake, fails_on_data_loss=False).rest()
    assert 1 == caplog.text.count("foreign.arrow")
    assert [[]] == Query(lake, from_latest=True).rest()
    assert [["a", "b"]] == Query(lake, first_entry=1).rest()
    assert [["a", "b"]] == Query(lake, file_filter=FileFilter("part-*")).rest()


def test_files_with_an_earlier_id_of_the_table_are_its_own(lake):
    renew_id(table(lake))
    assert [["a", "b"]] == Query(lake).rest()


def test_a_running_query_is_told_that_the_table_has_another_id(lake):
    query = Query(lake)
    for text in "cd":
        query.rest()
        save(lake, APPEND, text)
    query.rest()
    renew_id(table(lake))
    save(lake, APPEND, "e")
    with pytest.raises(StreamOffsetError, match="this is the table"):
        query.look()


def test_files_of_other_programs_that_come_later_are_in_no_batch_until_a_rewrite_takes_them_in(lake):
    query, behind = Query(lake), Query(lake, first_entry=3)
    query.look()
    drop(lake, "foreign")
    save(lake, APPEND, "c")
    assert [["c"]] == query.rest()
    rewrite(lake, "a", "foreign", retain=True)
    assert [["foreign"]] == query.rest()
    assert [["foreign"]] == behind.rest()
    assert [["a+foreign", "b", "c"]] == Query(lake).rest()


def test_files_of_other_programs_that_an_overwrite_removes_were_never_rows_of_the_stream(tmp_path):
    create_table(table(tmp_path))
    query = Query(tmp_path)
    query.look()
    drop(tmp_path, "foreign")
    save(tmp_path, OVERWRITE, "a")
    assert [["a"]] == query.rest()


# Data loss


def written_anew(path):
    shutil.rmtree(path)
    path.mkdir()
    for text in "xyz":
        save(path, APPEND, text)


def put_back(path):
    shutil.rmtree(path)
    shutil.copytree(path.with_name("backup"), path)


def put_back_and_written(path):
    put_back(path)
    for text in "xyz":
        save(path, APPEND, text)


LOSSES = [
    # what happens to five commits of which a query has read two; what is said; what a query reads that puts up with it
    ("entries pruned", lambda path: prune(path, 1, 2, 3), r"is at log entry 2, .* no longer retained.*retention of the writes", "abcdef"),
    ("all pruned but the last", lambda path: prune(path, 1, 2, 3, 4), r"is at log entry 2, .*retention", "abcdef"),
    ("deleted and written anew", written_anew, "deleted and written anew", "xyz"),
    ("an older copy is put back", put_back, "has read log entry 2, and the newest entry .* is 1: an older copy", "ab"),
    ("an older copy is put back, and written to", put_back_and_written, "log entry 2 is not the one|at log entry 2, .*does not follow", "abxyz"),
]  # fmt: skip


@pytest.mark.parametrize("is_new", [False, True], ids=["one process", "another process"])
@pytest.mark.parametrize(("loss", "words", "after"), [case[1:] for case in LOSSES], ids=[case[0] for case in LOSSES])
def test_lost_entries_are_an_error_or_a_new_beginning(lake, caplog, loss, words, after, is_new):
    shutil.copytree(lake, lake.with_name("backup"))
    strict, loose = Query(lake), Query(lake, fails_on_data_loss=False)
    for query in (strict, loose):
        query.look()
    save(lake, APPEND, "c")
    assert ["c"] == strict.look() == loose.look()
    for text in "def":
        save(lake, APPEND, text)
    loss(lake)
    if is_new:
        strict.mode, loose.mode = strict.new(), loose.new()
    with pytest.raises(StreamOffsetError, match=words):
        strict.look()
    with caplog.at_level(logging.WARNING):
        assert [[], sorted(after)] == loose.rest()
    assert "all rows of the table are read" in caplog.text
    save(lake, APPEND, "later")
    assert [["later"]] == loose.rest()


@pytest.mark.parametrize("fails", [True, False])
def test_a_table_that_is_gone_ends_a_query(lake, fails):
    query = Query(lake, fails_on_data_loss=fails)
    query.look()
    shutil.rmtree(lake)
    with pytest.raises(StreamOffsetError, match="the log of this table is gone" if fails else "has no log"):
        query.look()


def test_a_damaged_entry_ends_a_query(lake):
    query = Query(lake)
    query.look()
    save(lake, APPEND, "c")
    Path(table(lake).entry(read_table_id(table(lake)), 2)).write_bytes(b"{}")
    with pytest.raises(CommitError, match="CRC-32"):
        query.look()


def test_a_file_that_was_written_over_or_deleted_by_hand_is_an_error(lake):
    query, loose = Query(lake), Query(lake, fails_on_data_loss=False)
    query.look(), loose.look()
    save(lake, APPEND, "c")
    (name,) = (path for path in lake.glob("*.arrow") if path.read_text() == "c")
    name.write_text("longer")
    with pytest.raises(FileChangedError, match="1 bytes, found 6"):
        query.look()
    name.unlink()
    with pytest.raises(CommitError, match=r"entry 2 of the log added this file.*it is missing.*fsck"):
        loose.look()


AT = {"v": 1, "mode": "table", "table": "01234567", "entry": 1, "id": "", "after": "/"}
BROKEN = {
    "a later release": ({"v": 2, "mode": "table"}, "version 2"),
    "another mode": (
        {"v": 1, "mode": "window", "log": 3},
        "mode 'window', and its source is a table by now.*startingFrom=latest",
    ),
    "a negative number": (AT | {"entry": -1}, "integer"),
    "no table": ({name: value for name, value in AT.items() if name != "table"}, "names"),
    "an id that is none": (AT | {"table": "../../.."}, "id of a table"),
    "another table": (AT, "has read the table 01234567"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_offsets_are_checked(lake, name):
    offset, words = BROKEN[name]
    mode = Query(lake).mode
    with pytest.raises(StreamOffsetError, match=words):
        mode.latest(offset, ALL_AVAILABLE)
    with pytest.raises(StreamOffsetError, match=words):
        mode.batch(mode.initial(), offset)


def test_offsets_must_follow_each_other(lake):
    query = Query(lake)
    query.look()
    save(lake, APPEND, "c")
    query.look()
    with pytest.raises(StreamOffsetError, match="does not follow"):
        query.mode.batch(query.offsets[1], query.offsets[0])


# Limits, and requests


def test_available_now_ends_with_the_newest_entry(lake):
    query = Query(lake, ONE)
    query.mode.only_available_now()
    found = [*query.look(), *query.look()]
    save(lake, APPEND, "c")
    assert query.look() is None
    assert ["a", "b"] == sorted(found)


def test_the_filter_leaves_files_out(lake):
    save(lake, APPEND, "c")
    query = Query(lake, file_filter=FileFilter(path_glob_filter="*.none"))
    assert [[]] == query.rest()
    save(lake, APPEND, "d")
    assert [[]] == query.rest()


def test_a_look_at_an_unchanged_table_takes_two_requests_and_never_lists_data(lake, monkeypatch):
    query = Query(lake)
    query.look()
    query.look()
    asked = []

    def counted(name, call):
        def wrapper(self, path, *choose, **options):
            asked.append((name, Path(path).name if name == "_list" else Path(path).suffix))
            return call(self, path, *choose, **options)

        return wrapper

    for name in ("_list", "status"):
        monkeypatch.setattr(LocalStorage, name, counted(name, getattr(LocalStorage, name)))
    assert query.look() is None
    assert [("status", ".json")] * 2 == asked
    save(lake, APPEND, "c", "d")
    start = query.at
    asked.clear()
    query.mode.batch(start, query.mode.latest(start, ALL_AVAILABLE))
    assert [("_list", read_table_id(table(lake)))] == [request for request in asked if request[0] == "_list"]
    assert 2 == asked.count(("status", ".arrow"))


def test_a_backlog_is_read_some_entries_ahead(lake, monkeypatch):
    monkeypatch.setattr(table_mode, "_MOST_AHEAD", 2)
    query = Query(lake, ONE)
    query.look()
    query.look()
    for text in "cdef":
        save(lake, APPEND, text)
    assert [["c"], ["d"], ["e"]] == [query.look() for _ in range(3)]
    assert (1, 1) == query.mode.backlog()[:2]
    save(lake, APPEND, "g")
    assert [["f"], ["g"]] == query.rest()
    for text in "hijk":
        save(lake, APPEND, text)
    assert ["h", "i", "j", "k"] == sorted(query.look(ALL_AVAILABLE))
    query.mode.committed(query.at)
    save(lake, APPEND, "l")
    assert ["l"] == query.look()


TIMES = [(0, [["a"], ["b"], ["c"], ["d"]]), (20, [["c"], ["d"]]), (21, [["d"]]), (30, [["d"]]), (31, [])]
"""Seconds of `startingFrom`, and the commits that are read: `a` and `b` are of the time 10, `c` of 20, `d` of 30."""


@pytest.fixture
def dated(tmp_path, monkeypatch):
    now = [10]
    monkeypatch.setattr("spark_arrow_ipc.table.log.time.time_ns", lambda: now[0] * 10**9)
    for text in "abcd":
        now[0] = {"a": 10, "b": 10, "c": 20, "d": 30}[text]
        save(tmp_path, APPEND, text)
    now[0] = 40
    return tmp_path


@pytest.mark.parametrize(("seconds", "batches"), TIMES)
def test_a_new_query_begins_with_the_first_entry_of_a_time(dated, seconds, batches):
    query = Query(dated, ONE, from_ns=seconds * 10**9)
    assert batches == query.rest()
    save(dated, APPEND, "e")
    assert [["e"]] == query.rest()


@pytest.mark.parametrize(("seconds", "batches"), [(5, None), (10, None), (11, [["c", "d"]]), (20, [["c", "d"]])])
def test_a_time_before_the_oldest_retained_entry_is_an_error(dated, seconds, batches):
    prune(dated, 1, 2)
    if batches is None:
        with pytest.raises(StreamOffsetError, match="startingFrom is before the oldest log entry that is retained, 3"):
            Query(dated, from_ns=seconds * 10**9).look()
    else:
        assert batches == Query(dated, from_ns=seconds * 10**9).rest()
    assert [["c", "d"]] == Query(dated, from_ns=seconds * 10**9, fails_on_data_loss=False).rest()


@pytest.mark.slow
@pytest.mark.parametrize("publishing", ["copies", pytest.param("renames", marks=pytest.mark.nightly)])
def test_nothing_is_lost_or_doubled_whatever_dies(publishing):
    """`python tests/faults/table_simulation.py --trials 1000` tries longer."""
    found = run(15, publishing=publishing)
    assert (0, 0) == (found["lost"], found["doubled"])
    assert found["files"] > 300
    assert found["largest offset"] < 200
