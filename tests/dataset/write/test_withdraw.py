"""Withdrawn jobs: they cannot commit, and their staged files are deleted."""

from unittest import mock

import pytest
from commit_jobs import APPEND, dataset, dying, finish, foreign, leftovers, ours, planned, save

from spark_arrow_ipc.dataset.commit_log.log import newest_record, read_head
from spark_arrow_ipc.dataset.commit_log.record import WITHDRAWN
from spark_arrow_ipc.dataset.write import roll_forward as withdraw_module
from spark_arrow_ipc.dataset.write.commit import abort
from spark_arrow_ipc.dataset.write.roll_forward import was_taken_back, withdraw
from spark_arrow_ipc.dataset.write.vacuum import give_up
from spark_arrow_ipc.errors import CommitError

pytestmark = pytest.mark.usefixtures("publishing")


def test_an_abort_that_cannot_know_removes_nothing(tmp_path, caplog):
    save(tmp_path, APPEND, "old")
    plan, outputs = planned(tmp_path, APPEND, "new")
    with mock.patch.object(withdraw_module, "latest", side_effect=OSError(5, "Input/output error")):
        assert not abort(plan.staging)
    assert "is unknown, and nothing of it is removed" in caplog.text
    finish(plan, outputs)
    assert ["new", "old"] == foreign(tmp_path)


def test_an_abort_that_dies_after_its_record_has_withdrawn_the_job(tmp_path):
    plan, outputs = planned(tmp_path, APPEND, "new")
    with dying("A.withdrawn"):
        abort(plan.staging)
    with pytest.raises(CommitError, match="withdrawn while it committed; nothing is published"):
        finish(plan, outputs)
    save(tmp_path, APPEND, "next")
    assert ["next"] == foreign(tmp_path) == ours(tmp_path)
    assert [] == leftovers(tmp_path)


def test_only_uncommitted_jobs_are_withdrawn(tmp_path):
    committed, outputs = planned(tmp_path, APPEND, "committed")
    running, _ = planned(tmp_path, APPEND, "running")
    finish(committed, outputs)
    jobs = [committed.staging.jobid, running.staging.jobid]
    assert (running.staging.jobid,) == withdraw(dataset(tmp_path), jobs)
    record = newest_record(dataset(tmp_path))[1]
    assert (WITHDRAWN, (running.staging.jobid,), jobs[:1]) == (record.mode, record.withdrawn, [*record.jobs])
    assert ["committed"] == foreign(tmp_path)
    assert [] == leftovers(tmp_path)


@pytest.mark.disk
def test_a_second_withdrawal_and_one_of_an_unknown_job_write_no_record(tmp_path):
    plan, _ = planned(tmp_path, APPEND, "dead")
    withdraw(dataset(tmp_path), [plan.staging.jobid])
    head = read_head(dataset(tmp_path))
    jobs = sorted([plan.staging.jobid, "f" * 32])
    assert jobs == sorted(withdraw(dataset(tmp_path), jobs))
    assert () == withdraw(dataset(tmp_path), [])
    assert head == read_head(dataset(tmp_path))


def test_a_pending_job_is_finished_and_not_withdrawn(tmp_path):
    plan, outputs = planned(tmp_path, APPEND, "new")
    with dying("C3.linked"):
        finish(plan, outputs)
    assert () == withdraw(dataset(tmp_path), [plan.staging.jobid])
    assert ["new"] == foreign(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("failures", "told"), [(0, True), (1, True), (2, True), (9, False)], ids=["0", "1", "2", "all looks fail"]
)
def test_one_failed_look_does_not_hide_that_a_job_was_taken_back(tmp_path, failures, told):
    save(tmp_path, APPEND, "old")
    plan, outputs = planned(tmp_path, APPEND, "new")
    with dying("C3.linked"):
        finish(plan, outputs)
    record = newest_record(dataset(tmp_path))[1]
    assert not was_taken_back(dataset(tmp_path), record)
    give_up(tmp_path, plan.staging.jobid, older_than_seconds=0)
    looks = [OSError(5, "Input/output error")] * failures
    with mock.patch.object(withdraw_module, "read_head", side_effect=[*looks, *[read_head(dataset(tmp_path))] * 9]):
        assert told == was_taken_back(dataset(tmp_path), record)
