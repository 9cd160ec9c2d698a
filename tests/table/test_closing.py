"""When removals are closed, and what happens to new files under removed names until then."""

import os
from dataclasses import replace

import pytest
from memory_storage import MemoryStorage
from table_commits import APPEND, OVERWRITE, REWRITE, begin, commit, table

from spark_arrow_ipc.errors import CommitError, ConcurrentWriteError
from spark_arrow_ipc.table.collect import close_removed, collect, fence, list_collected
from spark_arrow_ipc.table.entry import Entry
from spark_arrow_ipc.table.fsck import check_table
from spark_arrow_ipc.table.log import follow, read_state
from spark_arrow_ipc.table.snapshot import Match, Snapshot, compare, list_data_files, removal_of
from spark_arrow_ipc.table.vacuum import vacuum

SMALL, OLD = b"old", bytes(100_000)
LIKE_OLD = OLD[:20_000] + b"new" + OLD[20_003:]
"""Other bytes, at none of the places that are sampled."""


def contents(directory):
    snapshot = Snapshot.open(directory)
    return {directory.storage.read(directory.path(path), 1 << 20) for path in (*snapshot.managed, *snapshot.unmanaged)}


def tombstones(directory):
    return len(read_state(directory).tombstones)


@pytest.mark.parametrize(
    ("old", "new"), [(SMALL, SMALL), (OLD, OLD), (OLD, LIKE_OLD)], ids=["small", "the same bytes", "the same samples"]
)
@pytest.mark.parametrize("operation", [OVERWRITE, REWRITE])
def test_a_new_file_of_another_program_under_a_removed_name_counts_and_stays(directory, operation, old, new):
    path = directory.path("other.arrow")
    directory.storage.put(path, old)
    commit(begin(directory, "a"), operation, replaces=lambda _: True, retain=operation is REWRITE)
    assert 0 == tombstones(directory)
    directory.storage.put(path, new)
    assert {b"a", new} == contents(directory)
    commit(begin(directory, "b"))
    vacuum(directory, older_than=-1e10)
    assert {b"a", b"b", new} == contents(directory)


def test_a_file_that_may_be_the_removed_one_or_a_new_one_is_refused_and_stays(tmp_path):
    """The job died before it deleted the file, and the file is a copy now, or another program has written a new one."""
    directory, path = table(tmp_path), tmp_path / "other.arrow"
    path.write_bytes(OLD)
    commit(begin(directory, "a"), OVERWRITE, collects=False)
    assert {b"a"} == contents(directory)
    path.write_bytes(LIKE_OLD)
    os.utime(path, ns=(1, 1))
    for _ in range(2):
        with pytest.raises(
            CommitError, match=r"entry 1 .*removed a file of this name.* give it another name to read it"
        ):
            Snapshot.open(directory)
        (fault,) = [finding for finding in check_table(directory).findings if finding.path == str(path)]
        assert not fault.is_note
        vacuum(directory, older_than=-1e10)
        commit_again = begin(directory, "b")
        assert commit_again.abort()
    assert LIKE_OLD == path.read_bytes()
    path.rename(tmp_path / "another.arrow")
    assert {b"a", LIKE_OLD} == contents(directory)


def test_a_file_that_only_looks_like_the_one_a_job_has_seen_is_not_removed(tmp_path):
    directory, path = table(tmp_path), tmp_path / "other.arrow"
    path.write_bytes(OLD)
    job = begin(directory, "a")
    snapshot = Snapshot.open(directory)
    removed = removal_of(directory, "other.arrow", snapshot.unmanaged["other.arrow"])
    path.write_bytes(LIKE_OLD)
    os.utime(path, ns=(1, 1))
    with pytest.raises(ConcurrentWriteError, match=r"\(other\.arrow\)"):
        job.commit(lambda _: Entry(0, "", OVERWRITE, remove=(removed,)))
    assert job.abort()
    assert {LIKE_OLD} == contents(directory)


MATCHES = {
    "the same file": (SMALL, SMALL, 0, Match.SAME),
    "a small one with another time": (SMALL, SMALL, 1, Match.SAME),
    "a small one with other bytes": (SMALL, b"new", 1, Match.OTHER),
    "a large one with the same time": (OLD, OLD, 0, Match.SAME),
    "a large one with another time": (OLD, OLD, 1, Match.UNSURE),
    "a large one with the same samples": (OLD, LIKE_OLD, 1, Match.UNSURE),
    "a large one with other samples": (OLD, b"new" + OLD[3:], 1, Match.OTHER),
    "one of another size": (OLD, SMALL, 0, Match.OTHER),
}


@pytest.mark.parametrize(("old", "new", "later_ns", "match"), MATCHES.values(), ids=MATCHES)
def test_a_file_is_the_removed_one_if_its_time_or_all_of_its_bytes_say_so(tmp_path, old, new, later_ns, match):
    directory, path = table(tmp_path), tmp_path / "other.arrow"
    path.write_bytes(old)
    removed = removal_of(directory, "other.arrow", directory.storage.status(str(path)))
    path.write_bytes(new)
    os.utime(path, ns=(1, int(removed.version) + later_ns))
    assert match is compare(directory, removed, directory.storage.status(str(path)))


def test_removals_of_managed_files_are_closed_by_the_entry_of_the_next_job(directory):
    for number, text in enumerate("abc", 1):
        commit(begin(directory, f"k=1:{text}"), OVERWRITE)
        assert (number, min(number - 1, 1)) == (read_state(directory).number, tombstones(directory))
    commit(begin(directory, "d"))
    assert (4, 0) == (read_state(directory).number, tombstones(directory))


@pytest.mark.parametrize("operation", [APPEND, OVERWRITE])
def test_removals_of_a_job_that_died_stay_open_until_another_has_deleted_the_files(directory, operation):
    commit(begin(directory, "k=1:a"))
    commit(begin(directory, "k=1:b"), OVERWRITE, collects=False)
    third = begin(directory, "k=2:c")
    commit(third, operation, collects=False)
    assert (3, 3) == (len(list_data_files(directory)), read_state(directory).number)
    assert {APPEND: 1, OVERWRITE: 2}[operation] == tombstones(directory)
    third.collect()
    assert len(read_state(directory).files) == len(list_data_files(directory))
    commit(begin(directory, "d"))
    assert 0 == tombstones(directory)


def test_a_job_whose_entry_is_void_closes_nothing(directory):
    commit(begin(directory, "k=1:a"))
    commit(begin(directory, "k=1:b"), OVERWRITE)
    state = read_state(directory)
    (removed,) = list_collected(directory, state)
    job = begin(directory, "c")
    state = fence(directory, job.table, [job.job])
    entry = follow(state, Entry(0, "", APPEND, job=job.job, close=(removed,)))
    assert {removed} == {*state.after(entry).tombstones}
    assert set() == {*state.after(replace(entry, job="f" * 32)).tombstones}


def test_a_later_removal_of_the_same_bytes_is_not_closed_by_an_earlier_collector():
    """A store has one version for the same bytes, so that two removals of them are equal."""
    directory = table("memory:/t", MemoryStorage())
    directory.storage.put(directory.path("other.arrow"), SMALL)
    commit(begin(directory, "a"), OVERWRITE, collects=False)
    gone = collect(directory, read_state(directory))
    close_removed(directory, read_state(directory).table, gone)
    assert 0 == tombstones(directory)
    directory.storage.put(directory.path("other.arrow"), SMALL)
    commit(begin(directory, "b"), OVERWRITE, collects=False)
    (removed,) = [removed for removed in read_state(directory).tombstones if not removed.is_managed]
    (earlier,) = gone.items()
    close_removed(directory, read_state(directory).table, {removed: earlier[1]})
    assert removed in read_state(directory).tombstones
