"""A table whose id or entries were deleted by hand is refused: no reader has other rows, and no job makes it anew."""

import re

import pytest
from job_plans import plan_job
from table_commits import OVERWRITE, begin, commit
from table_jobs import APPEND as APPENDS
from table_jobs import OVERWRITE as OVERWRITES
from table_jobs import Job

from spark_arrow_ipc.dataset.listing.globs import escape
from spark_arrow_ipc.dataset.listing.tree import list_tree
from spark_arrow_ipc.dataset.write.job_plan import make_staging
from spark_arrow_ipc.dataset.write.staged_file import Staging
from spark_arrow_ipc.errors import CommitError
from spark_arrow_ipc.table.fsck import check_table
from spark_arrow_ipc.table.log import create_table, read_table_id
from spark_arrow_ipc.table.names import data_file_name, new_id
from spark_arrow_ipc.table.snapshot import Snapshot
from spark_arrow_ipc.table.transaction import Transaction
from spark_arrow_ipc.table.vacuum import vacuum


def read(directory, below=""):
    tree = list_tree([escape(directory.path(below))], storage=directory.storage.inside(None))
    return sorted(directory.storage.read(file.path, 100).decode() for file in tree.all_files())


def delete_id(directory):
    directory.storage.delete(directory.id_file)


def delete_entries(directory):
    directory.storage.delete_tree(directory.entries(read_table_id(directory)))


LOSSES = {"the id": (delete_id, "the id of this table is gone"), "the entries": (delete_entries, "entries .*deleted")}
USES = {
    "a snapshot": Snapshot.open,
    "a read": read,
    "a read of a partition": lambda directory: read(directory, "k=1"),
    "an append": lambda directory: Job(directory, APPENDS, [("k=1", [1])]),
    "an append that compares no columns": lambda directory: plan_job(
        directory.root, APPENDS, storage=directory.storage.inside(None)
    ),
    "an overwrite": lambda directory: Job(directory, OVERWRITES, [("k=1", [1])]),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize(("lose", "words"), LOSSES.values(), ids=LOSSES)
def test_a_log_that_was_deleted_in_part_is_an_error_that_names_fsck(directory, lose, words, use):
    commit(begin(directory, "k=1:a"))
    commit(begin(directory, "k=1:b"), OVERWRITE, collects=False)
    begin(directory, "k=1:dead")
    lose(directory)
    with pytest.raises(CommitError, match=f"(?s){words}.*'arrowipc fsck {re.escape(directory.root)}'"):
        use(directory)
    assert not check_table(directory).is_sound


def test_after_the_id_is_put_back_as_fsck_says_the_table_is_the_same(directory):
    commit(begin(directory, "k=1:a"))
    begin(directory, "k=1:dead")
    delete_id(directory)
    (fault,) = [finding for finding in check_table(directory).findings if not finding.is_note]
    directory.storage.put(directory.id_file, re.search(r"\{.*\}", fault.fix)[0].encode())
    assert ["a"] == read(directory)


def test_a_job_that_runs_meanwhile_is_told_that_entries_were_deleted(directory):
    commit(begin(directory, "k=1:a"))
    job = begin(directory, "k=1:b")
    delete_entries(directory)
    directory.storage.make_directory(directory.entries(job.table))
    with pytest.raises(CommitError, match="log ends with entry 0, and this job was planned on entry 1"):
        job.commit(lambda _: None)


@pytest.mark.parametrize("begin_job", [Transaction.begin, lambda directory: make_staging(Staging(directory, new_id()))])
def test_no_job_gives_a_table_another_id_that_has_lost_its_own(directory, begin_job):
    commit(begin(directory, "k=1:a"))
    delete_id(directory)
    with pytest.raises(CommitError, match="the id of this table is gone"):
        begin_job(directory)
    assert read_table_id(directory) is None


def test_a_mark_that_cannot_be_put_stops_the_job(directory, monkeypatch):
    def refuse(*_, **__):
        raise OSError(28, "full")

    create_table(directory)
    monkeypatch.setattr(type(directory.storage), "put", refuse)
    with pytest.raises(CommitError, match="the mark of the job cannot be put; nothing is written"):
        directory.put_mark(new_id())


# What is no loss


FIRST_JOBS = {
    "runs": lambda directory, job: None,
    "is expired": lambda directory, job: vacuum(directory, older_than=-1e10),
    "is aborted": lambda directory, job: job.abort(),
}


@pytest.mark.parametrize("end", FIRST_JOBS.values(), ids=FIRST_JOBS)
def test_files_of_a_first_job_that_is_not_committed_are_no_loss(directory, end):
    end(directory, begin(directory, "k=1:a"))
    assert {} == Snapshot.open(directory).unmanaged
    Job(directory, APPENDS, [("k=1", [1])]).commit()
    assert ({}, 1) == (Snapshot.open(directory).unmanaged, len(Snapshot.open(directory).managed))


def test_a_first_job_that_ends_while_a_reader_looks_is_no_loss(directory, monkeypatch):
    """The reader has seen its file, and looks for its mark when that is gone."""
    job = begin(directory, "k=1:a")
    real = type(directory.storage).status

    def status(storage, path, **options):
        if path == directory.mark(job.job):
            monkeypatch.undo()
            commit(job)
        return real(storage, path, **options)

    monkeypatch.setattr(type(directory.storage), "status", status)
    assert {} == Snapshot.open(directory).unmanaged
    assert ["a"] == read(directory)


def test_files_of_another_table_count_in_a_directory_without_a_log(directory):
    directory.storage.make_directory(directory.path("k=1"))
    directory.storage.put(directory.path("k=1/" + data_file_name(0, "0" * 8, "1" * 32)), b"copied")
    assert ["copied"] == read(directory) == read(directory, "k=1")
    commit(begin(directory, "k=1:a"))
    assert ["a", "copied"] == read(directory)


def test_the_files_of_a_table_whose_log_is_gone_completely_count(directory):
    commit(begin(directory, "k=1:a"))
    directory.storage.delete_tree(directory.log)
    assert ["a"] == read(directory)


def test_an_entry_that_comes_after_its_table_was_removed_is_no_loss(directory):
    directory.storage.make_directory(directory.entries("0" * 8))
    directory.storage.put(directory.entry("0" * 8, 7), b"{}")
    commit(begin(directory, "k=1:a"))
    assert 1 == len(Snapshot.open(directory).managed)
