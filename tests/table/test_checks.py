"""The begin of a job: a table gets an id once, and the job a mark."""

import pytest
from table_commits import begin, commit
from table_jobs import APPEND, Job

from spark_arrow_ipc.dataset.write.job_plan import make_staging
from spark_arrow_ipc.dataset.write.staged_file import Staging
from spark_arrow_ipc.errors import CommitError
from spark_arrow_ipc.table.log import create_table, read_state, read_table_id
from spark_arrow_ipc.table.names import new_id
from spark_arrow_ipc.table.snapshot import Snapshot
from spark_arrow_ipc.table.transaction import Transaction
from spark_arrow_ipc.table.vacuum import vacuum


@pytest.mark.parametrize("begin_job", [Transaction.begin, lambda directory: make_staging(Staging(directory, new_id()))])
def test_no_job_gives_a_table_another_id_that_has_lost_its_own(directory, begin_job):
    commit(begin(directory, "k=1:a"))
    directory.storage.delete(directory.id_file)
    with pytest.raises(CommitError, match="the id of this table is gone"):
        begin_job(directory)
    assert read_table_id(directory) is None


def test_an_entry_that_comes_after_its_table_was_removed_is_no_loss(directory):
    directory.storage.make_directory(directory.entries("0" * 8))
    directory.storage.put(directory.entry("0" * 8, 7), b"{}")
    commit(begin(directory, "k=1:a"))
    assert 1 == len(Snapshot.open(directory).managed)


def test_a_table_in_which_only_jobs_were_expired_takes_a_first_job(directory):
    create_table(directory)
    job = begin(directory, "k=1:a")
    vacuum(directory, older_than=-1e10)
    assert not read_state(directory).has_jobs
    Job(directory, APPEND, [("k=1", [1])]).commit()
    assert read_state(directory).has_jobs
    assert job.job not in str(read_state(directory).files.paths)


def test_a_mark_that_cannot_be_put_stops_the_job(directory, monkeypatch):
    def refuse(*_, **__):
        raise OSError(28, "full")

    create_table(directory)
    monkeypatch.setattr(type(directory.storage), "put", refuse)
    with pytest.raises(CommitError, match="the mark of the job cannot be put; nothing is written"):
        directory.put_mark(new_id())
