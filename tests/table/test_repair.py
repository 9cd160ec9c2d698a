"""Repairs that a person asks for: what is lost is left out, and a table gets another id."""

import pytest
import table_jobs as jobs
from maintained_tables import content, ids, paths_in, save, stage, table

from spark_arrow_ipc.errors import CommitError, ConcurrentWriteError, NoFilesError
from spark_arrow_ipc.table import log, repair, snapshot
from spark_arrow_ipc.table.entry import Batch, Entry, Operation
from spark_arrow_ipc.table.fsck import check_table
from spark_arrow_ipc.table.log import read_state
from spark_arrow_ipc.table.names import data_file_name
from spark_arrow_ipc.table.repair import forget_missing, renew_id
from spark_arrow_ipc.table.restore import restore
from spark_arrow_ipc.table.snapshot import Snapshot, list_missing
from spark_arrow_ipc.table.transaction import Transaction
from spark_arrow_ipc.table.vacuum import vacuum


@pytest.fixture
def lake(directory):
    """A table of four entries of two rows."""
    for number in range(4):
        save(directory, (number, number), at=f"k={number % 2}")
    return directory


def data_path(directory, slot=0):
    return read_state(directory).files.paths[slot]


def test_going_back_to_an_entry_with_the_lost_file_changes_nothing(lake):
    """The fault would stay, and later rows would be gone, too."""
    lake.storage.delete(lake.path(data_path(lake, 1)))
    with pytest.raises(NoFilesError, match="going back cures nothing; nothing is restored"):
        restore(lake, 3)
    assert 4 == len(read_state(lake).files)
    restore(lake, 1)
    assert ([0, 0], True) == (ids(lake), check_table(lake).is_sound)


@pytest.mark.parametrize("how", ["missing", "torn"])
def test_a_file_that_is_lost_is_removed_from_the_log_only_when_asked(lake, how):
    path = data_path(lake)
    lake.storage.delete(lake.path(path))
    if how == "torn":
        lake.storage.put(lake.path(path), b"torn")
    with pytest.raises(CommitError, match="fsck"):
        Snapshot.open(lake)
    lost = forget_missing(lake)
    assert ((path,), [2]) == (lost.paths, lost.rows.tolist())
    assert [1, 1, 2, 2, 3, 3] == ids(lake)
    assert check_table(lake).is_sound
    retained = paths_in(lake, "_ipc_replaced") if how == "torn" else []
    assert [b"torn"] * (how == "torn") == [lake.storage.read(lake.path(path), 99) for path in retained]
    assert 0 == len(forget_missing(lake)), "again: there is nothing to do"


def test_a_lost_reply_of_that_entry_is_answered_by_the_log(lake, monkeypatch):
    lake.storage.delete(lake.path(data_path(lake)))
    real = log.append

    def lossy(*arguments):
        real(*arguments)
        raise OSError(5, "no reply")

    monkeypatch.setattr(repair, "append", lossy)
    assert 1 == len(forget_missing(lake))
    assert 5 == read_state(lake).number


@pytest.mark.parametrize("change", [forget_missing, renew_id])
def test_a_directory_without_a_log_is_not_changed(directory, change):
    directory.storage.make_directory(directory.root)
    with pytest.raises(NoFilesError, match="no log"):
        change(directory)


def test_a_file_that_is_named_while_the_table_is_listed_is_not_missing(lake, monkeypatch):
    """A listing may be older than the entry that added the file."""
    monkeypatch.setattr(snapshot, "list_data_files", lambda _: {})
    assert {} == list_missing(lake, read_state(lake))
    assert 0 == len(forget_missing(lake))


def test_a_job_that_commits_meanwhile_keeps_its_rows(lake, monkeypatch):
    lake.storage.delete(lake.path(data_path(lake)))
    real = log.append

    def be_late(*arguments):
        monkeypatch.setattr(repair, "append", real)
        transaction = Transaction.begin(lake)
        transaction.name_files(stage(transaction, (9,)))
        transaction.commit(lambda _: Entry(0, "", Operation.APPEND))
        return real(*arguments)

    monkeypatch.setattr(repair, "append", be_late)
    assert [2] == forget_missing(lake).rows.tolist()
    assert [1, 1, 2, 2, 3, 3, 9] == ids(lake)


def test_a_table_with_another_id_has_the_same_rows_tokens_and_batches(directory):
    save(directory, (1,), token="t", retention=77)
    save(directory, (2,), overwrites=True, batch=Batch("q", 7))
    directory.storage.put(directory.path("other.arrow"), content(5))
    before = read_state(directory)
    after = renew_id(directory)
    state = read_state(directory)
    assert after.table == state.table != before.table
    assert (before.files.paths, [2, 5]) == (state.files.paths, ids(directory))
    assert (before.schema, 77, {"t": 1}) == (state.schema, state.retention, state.tokens)
    assert {"q": 7} == {query: row.batch for query, row in state.queries.items()}
    assert (before.table,) == state.former
    assert check_table(directory).is_sound
    save(directory, (3,), overwrites=True)
    assert [3] == ids(directory)
    assert before.files.paths[0] not in paths_in(directory), "files with the old id are removed as others"


def test_what_did_not_count_before_does_not_count_with_another_id(directory):
    save(directory, (1,))
    dead = Transaction.begin(directory)
    dead.name_files(stage(dead, (7,)))
    stranger = data_file_name(0, dead.table, "f" * 32)
    directory.storage.put(directory.path(stranger), content(9))
    save(directory, (2,), overwrites=True, collects=False)
    renew_id(directory)
    assert [2] == ids(directory)
    late = data_file_name(0, dead.table, dead.job, 3)  # a copy that the old job asked for
    directory.storage.put(directory.path(late), content(8))
    assert [2] == ids(directory)
    assert {stranger, late} == set(vacuum(directory, older_than=0).unknown)
    with pytest.raises(CommitError, match="the table was removed while this job ran"):
        dead.commit(lambda _: Entry(0, "", Operation.APPEND))


def test_a_job_that_commits_meanwhile_keeps_the_id(directory, monkeypatch):
    save(directory, (1,))
    before, real = read_state(directory).table, repair.append

    def commit_between(*arguments):
        real(*arguments)
        monkeypatch.setattr(repair, "append", real)
        save(directory, (2,))

    monkeypatch.setattr(repair, "append", commit_between)
    with pytest.raises(ConcurrentWriteError, match="a job was committed meanwhile; the table has the id that it had"):
        renew_id(directory)
    assert (before, [1, 2]) == (read_state(directory).table, ids(directory))


def test_an_older_entry_is_restored_under_the_new_id(tmp_path):
    lake = table(tmp_path)
    save(lake, (1,))
    renew_id(lake)
    save(lake, (2,), overwrites=True, retain=True)
    restore(lake, 1)
    assert [1] == ids(lake)


@pytest.mark.parametrize(
    ("mode", "rows"),
    [
        (jobs.OVERWRITE, {"k=a": [9]}),
        (jobs.DYNAMIC, {"k=a": [9], "k=b": [3]}),
        (jobs.REWRITE, {"k=a": [1, 2], "k=b": [3]}),
    ],
)
def test_a_job_replaces_files_with_an_earlier_id(tmp_path, mode, rows):
    lake = table(tmp_path)
    for file in (("k=a", [1, 2]), ("k=b", [3])):
        jobs.write(lake, jobs.APPEND, [file])
    renew_id(lake)
    assert ("committed", None) == jobs.write(lake, mode, [("k=a", [9])])
    assert rows == jobs.see(lake) == jobs.foreign(lake)
