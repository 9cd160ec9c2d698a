"""A dataset is read commit by commit: each once, whole, and what is gone is said."""

import json
import logging
import os
import shutil
import time
from contextlib import nullcontext
from pathlib import Path

import pytest
from commit_jobs import APPEND, DYNAMIC, OVERWRITE, REWRITE, dataset, dying, finish, planned, save
from table_trials import run

from spark_arrow_ipc.dataset.commit_log.stored_record import record_path
from spark_arrow_ipc.dataset.listing.data_file import FileFilter, open_at_current_path
from spark_arrow_ipc.dataset.stream import table
from spark_arrow_ipc.dataset.stream.mode import ALL_AVAILABLE, Limit, OnOverwrite
from spark_arrow_ipc.dataset.stream.table import TableMode, TableOptions
from spark_arrow_ipc.dataset.write.commit import abort
from spark_arrow_ipc.dataset.write.vacuum import give_up
from spark_arrow_ipc.errors import CommitError, FileChangedError, SourceOverwrittenError, StreamOffsetError

ONE = Limit(max_files=1)


@pytest.fixture
def lake(tmp_path):
    path = tmp_path / "lake"
    commit(path, "a", "b")
    return path


def commit(path, *texts, mode=APPEND, **options):
    save(path, mode, *texts, commit_retention=3600, durable=False, **options)


class Query:
    """Drives a mode as Spark does; each look may be another process."""

    def __init__(self, path, limit=ALL_AVAILABLE, **options):
        self.path, self.limit, self.options = path, limit, TableOptions(**options)
        self.mode = self.new()
        self.offsets = []

    def new(self):
        return TableMode(dataset(self.path), self.options)

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
        directory = str(Path(file.path).relative_to(self.path).parent)
        text = open_at_current_path(file, lambda place: Path(place).read_text())
        return (f"{directory}:" if directory != "." else "") + text

    def rest(self, batches=10):
        """Return what all further batches have."""
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
    commit(lake, "c")
    commit(lake, "d", "e")
    assert [["c", "d", "e"]] == query.rest()
    assert query.look() is None
    assert query.at == query.mode.latest(query.at, ALL_AVAILABLE)


def test_a_batch_takes_parts_of_the_snapshot_and_never_parts_of_a_commit(lake):
    commit(lake, "c")
    query = Query(lake, ONE)
    found = [query.look() for _ in range(3)]
    assert [["a"], ["b"], ["c"]] == sorted(found)
    commit(lake, "d", "e", "f")
    commit(lake, "g")
    assert [["d", "e", "f"], ["g"]] == query.rest()
    commit(lake, "h", "i")
    commit(lake, "j")
    commit(lake, "k")
    assert ["h", "i", "j"] == sorted(query.look(Limit(max_files=3)))
    assert (1, 1) == query.mode.backlog()[:2]
    assert ["k"] == query.look(Limit(max_bytes=1))


def test_what_is_committed_while_the_snapshot_is_read_comes_after_it(lake):
    query = Query(lake, ONE)
    first = query.look()
    assert (1, 1) == query.mode.backlog()[:2]
    commit(lake, "0")
    assert [["a", "b"], ["0"]] == [sorted([*first, *query.look(mode=query.new())]), query.look()]


STARTS = [
    ({}, [["a", "b", "c", "d"], ["e"]]),
    ({"from_latest": True}, [[], ["e"]]),
    ({"first_record": 1}, [["a", "b", "c", "d"], ["e"]]),
    ({"first_record": 2}, [["c", "d"], ["e"]]),
    ({"first_record": 3}, [["d"], ["e"]]),
    ({"first_record": 4}, [["e"]]),
]


@pytest.mark.parametrize(("start", "batches"), STARTS, ids=[str(start) for start, _ in STARTS])
def test_where_a_query_begins(lake, start, batches):
    commit(lake, "c")
    commit(lake, "d")
    query = Query(lake, **start)
    found = query.rest()
    commit(lake, "e")
    assert batches == [*found, *query.rest()]


def test_a_query_may_begin_before_there_is_anything(tmp_path):
    query = Query(tmp_path)
    assert [[]] == query.rest()
    commit(tmp_path, "a")
    assert [["a"]] == query.rest()


def test_the_first_batch_is_the_same_although_its_beginning_is_not_written_down(lake):
    for from_latest in (False, True):
        query = Query(lake, from_latest=from_latest)
        initial = query.mode.initial()
        end = query.mode.latest(initial, ALL_AVAILABLE)
        before = query.mode.batch(initial, end)
        commit(lake, "later")
        assert initial == query.new().initial()
        assert before.files == query.new().batch(query.new().initial(), end).files


# Records that have no files, or not all


@pytest.mark.slow
def test_jobs_that_are_withdrawn_make_no_batch(lake):
    query = Query(lake)
    query.look()
    for _ in range(3):
        abort(planned(lake, APPEND, "x")[0].staging)
    assert query.look() is None
    commit(lake, "c")
    assert ["c"] == query.look()
    for _ in range(64):
        abort(planned(lake, APPEND, "x")[0].staging)
    assert [[]] == query.rest(), "so that the offset is not older than the records that are kept"


@pytest.mark.parametrize("point", ["C3.linked", "C4.renamed", "C6.success", "C6.kept"])
def test_a_pending_commit_counts(lake, point):
    query = Query(lake)
    query.look()
    with dying(point):
        commit(lake, "c", "d")
    assert ["c", "d"] == sorted(query.look())
    (start, end), expected = query.offsets, ["c", "d"]
    commit(lake, "e")  # finishes it
    assert expected == sorted(query.text(file) for file in query.new().batch(start, end).files)
    assert ["e"] == query.look()


def test_a_commit_that_was_taken_back_counts_for_nothing(lake):
    query = Query(lake)
    query.look()
    plan, outputs = planned(lake, APPEND, "c", commit_retention=3600)
    with dying("C4.renamed"):
        finish(plan, outputs)
    give_up(str(lake), plan.staging.jobid)
    commit(lake, "d")
    assert ["d"] == query.look()


def test_a_commit_that_is_taken_back_after_it_was_read_is_said(lake, caplog):
    query = Query(lake)
    query.look()
    plan, outputs = planned(lake, APPEND, "c", commit_retention=3600)
    with dying("C4.renamed"):
        finish(plan, outputs)
    assert ["c"] == query.look()
    give_up(str(lake), plan.staging.jobid)
    commit(lake, "d")
    with caplog.at_level(logging.WARNING):
        assert ["d"] == query.look()
    assert "record 2, which this stream has read, was taken back" in caplog.text


# Overwrites


OVERWRITES = [
    (OnOverwrite.SKIP, [["e"]]),
    (OnOverwrite.APPEND, [["c", "d", "e"]]),
]


@pytest.mark.parametrize(("what", "batches"), OVERWRITES, ids=[what for what, _ in OVERWRITES])
def test_an_overwrite_is_passed_as_the_option_says(lake, what, batches):
    query = Query(lake, on_overwrite=what)
    query.look()
    commit(lake, "c", "d", mode=OVERWRITE)
    commit(lake, "e")
    assert batches == query.rest()


@pytest.mark.parametrize("mode", [OVERWRITE, DYNAMIC])
def test_an_overwrite_ends_a_query(tmp_path, mode):
    commit(tmp_path, "k=1:a", "k=2:b")
    query = Query(tmp_path, ONE)
    query.look()
    commit(tmp_path, "k=2:c", mode=mode)
    with pytest.raises(SourceOverwrittenError, match=r"record 2 .* overwrote the source .*onOverwrite=skip"):
        query.look()


def test_an_overwrite_of_nothing_is_an_append(tmp_path):
    query = Query(tmp_path)
    query.look()
    commit(tmp_path, "a", mode=OVERWRITE)
    assert ["a"] == query.look()


def test_files_that_an_overwrite_removed_before_they_were_read(lake, caplog):
    query = Query(lake, on_overwrite=OnOverwrite.SKIP)
    query.look()
    commit(lake, "c")
    commit(lake, "d", mode=OVERWRITE)
    with pytest.raises(StreamOffsetError, match="record 2 added this file, and it was removed before"):
        query.look()
    query.offsets.pop()
    loose = Query(lake, on_overwrite=OnOverwrite.SKIP, fails_on_data_loss=False)
    loose.offsets = list(query.offsets)
    with caplog.at_level(logging.WARNING):
        assert [] == loose.look()
    assert "it is left out" in caplog.text
    commit(lake, "e")
    assert ["e"] == loose.look()


def test_files_that_live_on_are_read(lake):
    query = Query(lake, on_overwrite=OnOverwrite.SKIP)
    query.look()
    commit(lake, "c")
    commit(lake, "d", mode=OVERWRITE, keep_replaced=3600)
    start = query.at
    (file,) = query.mode.batch(start, query.mode.latest(start, ALL_AVAILABLE)).files
    source = file.open()
    assert b"c" == bytes(source.read_at(0, 1))
    source.close()


def test_a_snapshot_whose_files_are_removed_is_not_whole(tmp_path):
    commit(tmp_path, "k=1:a", "k=2:b")
    commit(tmp_path, "k=2:c")
    offsets = Query(tmp_path, ONE)
    offsets.look()
    commit(tmp_path, "k=2:d", mode=DYNAMIC)
    strict = Query(tmp_path, ONE, on_overwrite=OnOverwrite.APPEND)
    strict.offsets = list(offsets.offsets)
    with pytest.raises(StreamOffsetError, match="removed 2 files such as k=2/"):
        strict.look()
    loose = Query(tmp_path, on_overwrite=OnOverwrite.APPEND, fails_on_data_loss=False)
    loose.offsets = list(offsets.offsets)
    assert [["k=2:d"]] == loose.rest()


# Data loss


def prune(path, *numbers):
    """Let kept records, and those of the chain, be gone."""
    for number in numbers:
        Path(record_path(dataset(path), number)).unlink()
        Path(dataset(path).record(number)).unlink(missing_ok=True)


def deleted(path):
    shutil.rmtree(path)


def written_anew(path):
    shutil.rmtree(path)
    for text in "xyz":
        commit(path, text)


LOSSES = [
    # what happens to five commits of which a query has read two; what is said; what a query reads that puts up with it
    ("records pruned", lambda path: prune(path, 3), r"record 3 .* not kept any more; the oldest .* 1, .* record 5", "abcdef"),
    ("all pruned but the last", lambda path: prune(path, 1, 2, 3, 4), r"record 3 .* oldest that is kept is 5", "abcdef"),
    ("deleted", deleted, "has read record 2, and the newest record of the dataset is 0", ""),
    ("deleted and written anew", written_anew, "record 2 .* is of the job .* deleted and written anew", "xyz"),
]  # fmt: skip


@pytest.mark.parametrize(("loss", "words", "after"), [case[1:] for case in LOSSES], ids=[case[0] for case in LOSSES])
def test_lost_records_are_an_error_or_a_new_beginning(lake, caplog, loss, words, after):
    query = Query(lake)
    query.look()
    commit(lake, "c")
    assert ["c"] == query.look()
    for text in "def":
        commit(lake, text)
    loss(lake)
    strict, loose = Query(lake), Query(lake, fails_on_data_loss=False)
    strict.offsets, loose.offsets = list(query.offsets), list(query.offsets)
    with pytest.raises(StreamOffsetError, match=words):
        strict.look()
    with caplog.at_level(logging.WARNING):
        assert ([[], sorted(after)] if after else [[], []]) == loose.rest()
    assert "all files that are there are read" in caplog.text
    commit(lake, "later")
    assert [["later"]] == loose.rest()


def test_a_record_of_a_build_that_keeps_none_is_read_while_it_is_in_the_chain(lake):
    query = Query(lake)
    query.look()
    commit(lake, "c")
    commit(lake, "d")
    Path(record_path(dataset(lake), 2)).unlink()
    assert ["c", "d"] == sorted(query.look())


def test_a_damaged_record_ends_a_query(lake):
    query = Query(lake)
    query.look()
    commit(lake, "c")
    Path(record_path(dataset(lake), 2)).write_bytes(b"{}")
    with pytest.raises(CommitError, match="CRC-32"):
        query.look()


def test_a_file_that_was_written_over_is_an_error(lake):
    query = Query(lake)
    query.look()
    commit(lake, "c")
    newest = max(lake.glob("*.arrow"), key=lambda path: path.stat().st_mtime_ns)
    newest.write_text("longer")
    with pytest.raises(FileChangedError, match="1 bytes, found 6"):
        query.look()


BROKEN = [
    ("a later release", {"v": 2, "mode": "table"}, "version 2"),
    ("another mode", {"v": 1, "mode": "log", "log": 3}, "mode 'log'"),
    ("a negative number", {"v": 1, "mode": "table", "seq": -1, "after": "/", "job": ""}, "integer"),
    ("no job", {"v": 1, "mode": "table", "seq": 1, "after": "/"}, "names"),
    ("a job that is none", {"v": 1, "mode": "table", "seq": 1, "after": "/", "job": "f" * 33}, "32 characters"),
]


@pytest.mark.parametrize(("offset", "words"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_offsets_are_checked(lake, offset, words):
    mode = Query(lake).mode
    with pytest.raises(StreamOffsetError, match=words):
        mode.latest(offset, ALL_AVAILABLE)
    with pytest.raises(StreamOffsetError, match=words):
        mode.batch(mode.initial(), offset)


def test_offsets_must_follow_each_other(lake):
    query = Query(lake)
    query.look()
    commit(lake, "c")
    query.look()
    with pytest.raises(StreamOffsetError, match="does not follow"):
        query.mode.batch(query.offsets[1], query.offsets[0])


# What is asked of the storage


def test_available_now_ends_with_what_is_there(lake):
    query = Query(lake, ONE)
    query.mode.only_available_now()
    found = [*query.look(), *query.look()]
    commit(lake, "c")
    assert query.look() is None
    assert ["a", "b"] == sorted(found)


def test_the_filter_leaves_files_out(lake):
    commit(lake, "c")
    query = Query(lake, file_filter=FileFilter(path_glob_filter="*.none"))
    assert [[]] == query.rest()
    commit(lake, "d")
    assert [[]] == query.rest()


def test_once_the_snapshot_is_read_no_data_are_listed(lake, monkeypatch):
    query = Query(lake)
    query.look()
    query.mode.latest(query.at, ALL_AVAILABLE)
    storage = query.mode._dataset.storage
    asked = []
    for name in ("list", "read", "status"):
        monkeypatch.setattr(type(storage), name, counted(name, getattr(type(storage), name), asked))
    query.mode.latest(query.at, ALL_AVAILABLE)
    assert [("list", "_ipc_commits")] == asked
    commit(lake, "c", "d")
    asked.clear()
    start = query.at
    end = query.mode.latest(start, ALL_AVAILABLE)
    query.mode.batch(start, end)
    assert {("list", "_ipc_commits"), ("read", "_ipc_commits")} == {each for each in asked if each[0] != "status"}
    assert [2, 1] == [len([each for each in asked if each[0] == kind]) for kind in ("list", "read")]
    assert [("status", "lake")] * 2 == [each for each in asked if each[0] == "status"]


def counted(name, call, asked):
    def wrapper(self, path, *args, **options):
        place = Path(path)
        asked.append((name, place.name if name == "list" else place.parent.name))
        return call(self, path, *args, **options)

    return wrapper


@pytest.mark.slow
def test_a_poll_of_a_long_chain_takes_no_longer(lake):
    """Ten thousand records are not looked at."""
    query = Query(lake)
    query.look()
    taken = []
    for number in (1, 10_000):
        log = Path(record_path(dataset(lake), 1)).parent
        for seq in range(10, number):
            (log / f"{seq:020d}.old").touch()
        begun = time.process_time()
        for _ in range(20):
            assert query.look() is None
        taken.append(time.process_time() - begun)
    assert taken[1] < 5 * taken[0] + 0.01


def test_a_backlog_is_read_some_records_ahead(lake, monkeypatch):
    monkeypatch.setattr(table, "_MOST_AHEAD", 2)
    query = Query(lake, ONE)
    query.look()
    query.look()
    for text in "cdef":
        commit(lake, text)
    assert [["c"], ["d"], ["e"]] == [query.look() for _ in range(3)]
    assert (1, 1) == query.mode.backlog()[:2]
    commit(lake, "g")
    assert [["f"], ["g"]] == query.rest()
    for text in "hijk":
        commit(lake, text)
    assert ["h", "i", "j", "k"] == sorted(query.look(ALL_AVAILABLE))


@pytest.mark.slow
@pytest.mark.parametrize("publishing", ["renames", "copies"])
def test_nothing_is_lost_or_doubled_whoever_dies(publishing):
    """`python tests/faults/table_simulation.py --trials 1000` tries longer."""
    found = run(10, publishing=publishing)
    assert (0, 0) == (found["lost"], found["doubled"])
    assert found["files"] > 300
    assert found["largest offset"] < 200


# Rewrites: the same rows in other files


def rewrite(path, *texts, keep=3600, point=None):
    """Replace the files of some texts by one that has them joined."""
    names = {file.read_text(): file.name for file in Path(path).glob("part-*.arrow")}
    chosen = {names[text] for text in texts}
    options = {"keep_replaced": keep, "choose": lambda files: [file for file in files if file.path in chosen]}
    with nullcontext() if point is None else dying(point):
        commit(path, "+".join(texts), mode=REWRITE, **options)


def test_a_rewrite_has_no_rows_for_a_stream(lake):
    query = Query(lake)
    assert [["a", "b"]] == query.rest()
    commit(lake, "c")
    rewrite(lake, "a", "b", "c")
    rewrite(lake, "a+b+c")
    commit(lake, "d")
    assert [["c", "d"]] == query.rest(), "c is read where it lives on"
    assert [["a+b+c", "d"]] == Query(lake).rest(), "a new query reads each row once, too"


@pytest.mark.parametrize("point", [None, "C3.linked", "C4.renamed", "C5.unlinked", "C6.kept"])
@pytest.mark.parametrize("is_new", [False, True], ids=["one process", "another process"])
def test_a_snapshot_that_is_rewritten_while_it_is_read_is_read_to_its_end(lake, point, is_new):
    commit(lake, "c", "d")
    query = Query(lake, ONE)
    first = query.look()
    rewrite(lake, "a", "b", point=point)
    if point is None:
        rewrite(lake, "a+b", "c")
        commit(lake, "e")
    rest = [query.look(mode=query.new() if is_new else None) for _ in range(3)]
    assert ["a", "b", "c", "d"] == sorted(text for texts in [first, *rest] for text in texts)
    assert (["e"] if point is None else None) == query.look()


def test_what_a_rewrite_did_not_keep_is_lost_to_a_stream_that_is_behind(lake):
    query = Query(lake, ONE)
    first = query.look()
    rewrite(lake, *first, keep=0)
    rest = next(text for text in ("a", "b") if text not in first)
    assert [rest] == query.look(), "only what is not read yet is needed"
    commit(lake, "c")
    rewrite(lake, "c", keep=0)
    with pytest.raises(StreamOffsetError, match="removed before the stream had read it"):
        query.look()
    late = Query(lake, ONE)
    late.look()
    rewrite(lake, rest, "c", keep=0)
    with pytest.raises(StreamOffsetError, match=r"removed \d files such as .* before .*keepReplaced of the job"):
        [late.look() for _ in range(3)]


TIMES = [(0, [["a", "b"], ["c"], ["d"]]), (20, [["c"], ["d"]]), (21, [["d"]]), (30, [["d"]]), (31, [])]
"""Seconds of `startingFrom`, and the commits that are read: `a` and `b` are of the time 10, `c` of 20, `d` of 30."""


@pytest.mark.parametrize(("seconds", "batches"), TIMES)
def test_a_new_query_begins_with_the_first_record_of_a_time(lake, seconds, batches):
    commit(lake, "c")
    commit(lake, "d")
    for seq in (1, 2, 3):
        os.utime(record_path(dataset(lake), seq), (10 * seq, 10 * seq))
    query = Query(lake, ONE, from_ns=seconds * 10**9)
    assert batches == query.rest()
    commit(lake, "e")
    assert [["e"]] == query.rest()


def test_a_time_before_the_oldest_record_that_is_kept_is_an_error(lake):
    commit(lake, "c")
    Path(record_path(dataset(lake), 1)).unlink()
    with pytest.raises(StreamOffsetError, match="startingFrom is before the oldest record that is kept, 2 of"):
        Query(lake, from_ns=1).look()
    assert ["c"] == Query(lake, from_ns=1, fails_on_data_loss=False).look()
