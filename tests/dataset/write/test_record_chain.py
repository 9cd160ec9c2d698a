"""Appending a record: one of two writers gets a number."""

from pathlib import Path

import pytest
from commit_jobs import APPEND, OVERWRITE, dataset, finish, ours, planned, save

from spark_arrow_ipc.dataset.commit_log.log import Head, newest_record
from spark_arrow_ipc.dataset.commit_log.record import Record
from spark_arrow_ipc.dataset.write import record_chain as append_module
from spark_arrow_ipc.dataset.write.commit import abort
from spark_arrow_ipc.dataset.write.record_chain import append_record
from spark_arrow_ipc.errors import CommitError

pytestmark = pytest.mark.usefixtures("publishing")


def test_a_record_too_large_to_be_read_is_not_made(tmp_path, monkeypatch):
    save(tmp_path, APPEND, "old")
    plan, outputs = planned(tmp_path, OVERWRITE, "new")
    with monkeypatch.context() as patch:
        patch.setattr(append_module, "MAX_RECORD_NBYTES", 100)
        with pytest.raises(CommitError, match=r"1 new and 1 old files makes a record.*nothing is published"):
            finish(plan, outputs)
    assert ["old"] == ours(tmp_path)
    assert abort(plan.staging)


def record(seq, jobid, before=None):
    return Record(seq, jobid, "append", durable=False).after(before)


def test_the_first_of_two_records_of_a_number_is_in_the_chain(tmp_path):
    first, second = record(1, "a" * 32), record(1, "b" * 32)
    assert append_record(dataset(tmp_path), first)
    assert not append_record(dataset(tmp_path), second)
    assert (Head(1, done=False), first) == newest_record(dataset(tmp_path))


def test_a_record_that_is_there_already_is_ours(tmp_path):
    """A request that was sent twice: the second one says that the name exists."""
    first = record(1, "a" * 32)
    assert append_record(dataset(tmp_path), first)
    assert append_record(dataset(tmp_path), first)


def test_a_record_among_pruned_ones_is_deleted(tmp_path):
    before = record(4, "a" * 32)
    Path(dataset(tmp_path).commits).mkdir()
    Path(dataset(tmp_path).record(4)).write_bytes(before.to_bytes())
    assert not append_record(dataset(tmp_path), record(2, "b" * 32))
    assert [dataset(tmp_path).record(4)] == [str(path) for path in Path(dataset(tmp_path).commits).iterdir()]
