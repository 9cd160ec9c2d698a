"""Who finds a job pending where a storage copies: waits, and helps only if nothing moves."""

import pytest
from job_plans import plan_job
from memory_jobs import ROOT, dying, look, put, save, staged
from memory_storage import MemoryStorage

from spark_arrow_ipc.dataset.commit_log.dataset_directory import DatasetDirectory
from spark_arrow_ipc.dataset.commit_log.log import read_head
from spark_arrow_ipc.dataset.commit_log.stored_record import read_record
from spark_arrow_ipc.dataset.write import WriteMode
from spark_arrow_ipc.dataset.write.commit import abort, commit
from spark_arrow_ipc.dataset.write.publisher import TIMING, help_marks, publisher_of
from spark_arrow_ipc.dataset.write.roll_forward import finish, roll_forward, withdraw
from spark_arrow_ipc.dataset.write.staged_file import Staging


def pending(storage, *names, point="C3.synced"):
    """Leave a job pending that its process began to publish."""
    with dying(point):
        save(storage, *names)
    dataset = DatasetDirectory(storage, ROOT)
    return dataset, read_record(dataset, read_head(dataset).seq)


def test_where_a_storage_renames_everybody_helps_at_once(clock):
    dataset, record = pending(MemoryStorage(), "a")
    assert publisher_of(dataset).may_help(record)
    assert ([], frozenset()) == (clock[0], help_marks(dataset, record.seq))


def test_a_withdrawal_is_applied_at_once(clock):
    """It copies nothing."""
    storage = MemoryStorage(renames=False)
    plan, _ = staged(storage, "a")
    dataset = plan.staging.dataset
    with dying("A.withdrawn"):
        withdraw(dataset, [plan.staging.jobid])
    finish(dataset)
    assert ([], True) == (clock[0], read_head(dataset).done)


def test_after_the_patience_a_helper_leaves_a_mark_before_its_first_copy(clock):
    dataset, record = pending(MemoryStorage(renames=False), "a")
    with dying("H.announced"):
        finish(dataset)
    assert 60 <= sum(clock[0]) <= 62
    assert 1 == len(help_marks(dataset, record.seq))
    assert dataset.storage.status(dataset.path(record.adds[0].final)) is None
    finish(dataset)  # another helper finds the mark of a dead one
    assert ["a"] == look(dataset.storage)


@pytest.mark.parametrize("point", ["C3.synced", "C4.renamed", "C4.proven", "C4.sources"])
def test_an_abort_does_not_wait_for_the_process_that_it_aborts(clock, point):
    """Spark aborts when the commit has ended; copies of its may still be under way."""
    storage = MemoryStorage(renames=False)
    dataset, record = pending(storage, "a", "b", point=point)
    assert not abort(Staging(dataset, record.jobid, durable=True))
    assert ([pytest.approx(30)], 1) == (clock[0], len(help_marks(dataset, record.seq)))
    assert ["a", "b"] == look(storage)


def test_a_job_that_goes_on_is_not_helped(clock):
    """Its process publishes one file in 50 seconds, and is waited for as long as that takes."""
    storage = MemoryStorage(renames=False)
    dataset, record = pending(storage, "a", "b", "c", "d")
    for number, add in enumerate(record.adds):
        clock[1][50 * number + 40] = lambda add=add: put(storage, f"{ROOT}/{add.final}", "x")
    clock[1][230] = lambda: roll_forward(dataset, record, alone=True)
    assert not publisher_of(dataset).may_help(record)
    assert 230 <= sum(clock[0]) <= 232
    assert frozenset() == help_marks(dataset, record.seq)


def test_a_helper_waits_for_copies_of_others_and_longer_for_large_files(clock, monkeypatch):
    monkeypatch.setattr(TIMING, "copied_nbytes", 0.5)
    dataset, _ = pending(MemoryStorage(renames=False), "12345")
    finish(dataset)
    assert 30 + 10 == clock[0][-1]


def test_the_process_of_a_job_waits_only_where_a_helper_left_a_mark(clock):
    storage = MemoryStorage(renames=False)
    save(storage, "a")
    assert [] == clock[0]
    plan, outputs = staged(storage, "b")
    seq = read_head(plan.staging.dataset).seq + 1
    storage.put(plan.staging.dataset.help_mark(seq, "0" * 32), b"")
    commit(plan, outputs, write_empty=None)
    assert [pytest.approx(30)] == clock[0]
    assert ["a", "b"] == look(storage)


@pytest.mark.parametrize("point", ["C4.renamed", "C4.proven", "C4.sources", "C4.waited", "H.announced"])
def test_a_helper_that_dies_is_helped(clock, point):
    storage = MemoryStorage(renames=False)
    dataset, _ = pending(storage, "a", "b")
    with dying(point):
        finish(dataset)
    assert ["a", "b"] == look(storage)
    plan = plan_job(ROOT, WriteMode.OVERWRITE, storage=storage)
    commit(*staged(storage, "c", plan=plan), write_empty=None)
    assert ["c"] == look(storage)
