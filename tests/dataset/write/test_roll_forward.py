"""Applying a record: what it leaves, and what stops it."""

import shutil
from contextlib import suppress
from pathlib import Path
from unittest import mock

import pytest
from commit_jobs import (
    APPEND,
    OVERWRITE,
    dataset,
    dying,
    finish,
    foreign,
    interrupted,
    last_summary,
    leftovers,
    planned,
    run_tasks,
    save,
)
from job_plans import plan_job

from spark_arrow_ipc.dataset.commit_log import log
from spark_arrow_ipc.dataset.commit_log.stored_record import read_record
from spark_arrow_ipc.dataset.write import old_files, roll_forward
from spark_arrow_ipc.dataset.write.commit import abort
from spark_arrow_ipc.dataset.write.vacuum import give_up
from spark_arrow_ipc.errors import CommitError
from spark_arrow_ipc.storage import beneath
from spark_arrow_ipc.storage.local import LocalStorage

pytestmark = pytest.mark.usefixtures("publishing")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "value", "first"), [("KEPT_RECORDS", 3, 4), ("_KEPT_NS", -1, 5), ("_KEPT_NBYTES", 1, 5), ("_KEPT_NS", 10**15, 1)]
)  # fmt: skip
def test_old_and_large_records_are_not_kept_and_the_last_two_always(tmp_path, monkeypatch, limit, value, first):
    monkeypatch.setattr(log, limit, value)
    for text in "abcdef":
        save(tmp_path, APPEND, text)
    names = sorted(path.name for path in (tmp_path / "_ipc_commits").iterdir())
    assert [f"{number:020d}.{ending}" for number in range(first, 7) for ending in ("done", "json")] == names


def test_success_file_is_empty_and_the_newest_record_tells_the_last_job(tmp_path):
    """Earlier builds wrote a summary into `_SUCCESS`: the next job replaces it."""
    save(tmp_path, APPEND, "a")
    (tmp_path / "_SUCCESS").write_text('{"writer": "spark-arrow-ipc"}')
    summary = save(tmp_path, OVERWRITE, "bcd")
    assert b"" == (tmp_path / "_SUCCESS").read_bytes()
    assert summary == last_summary(tmp_path)
    assert ("overwrite", 1, 3, 3, 1) == (summary.mode, summary.files, summary.rows, summary.nbytes, summary.removed)


def test_staging_that_cannot_be_removed_does_not_fail_the_job(tmp_path, monkeypatch, caplog):
    plan, outputs = planned(tmp_path, APPEND, "a")
    Path(plan.staging.path("late.staged")).write_text("late")
    monkeypatch.setattr(beneath, "delete_tree", mock.Mock(side_effect=OSError(39, "Directory not empty")))
    finish(plan, outputs)
    monkeypatch.undo()
    assert ["a"] == foreign(tmp_path)
    assert "could not be removed" in caplog.text
    save(tmp_path, APPEND, "b")
    assert [] == leftovers(tmp_path)


@pytest.mark.slow
def test_records_that_are_pruned_take_nothing_with_them(tmp_path):
    save(tmp_path, APPEND, "a", commit_token="t")
    for number in range(4):
        save(tmp_path, APPEND, str(number))
    roll_forward.finish(dataset(tmp_path))
    assert not save(tmp_path, APPEND, "a", commit_token="t").published
    plan = plan_job(str(tmp_path), APPEND)
    assert [] == run_tasks(plan)
    assert abort(plan.staging)


@pytest.mark.slow
def test_a_committed_file_that_somebody_removed_stops_the_removal_of_old_ones(tmp_path):
    save(tmp_path, APPEND, "old")
    with dying("C4.renamed"):
        save(tmp_path, OVERWRITE, "new 1", "new 2")
    for path in (tmp_path / "_ipc_stage").rglob("*.staged"):
        path.unlink()
    with pytest.raises(CommitError, match=r"neither there nor staged.*arrowipc vacuum --give-up [0-9a-f]{32} /"):
        save(tmp_path, APPEND, "next")
    assert "old" in foreign(tmp_path)
    give_up(tmp_path, read_record(dataset(tmp_path), 2).jobid)
    save(tmp_path, APPEND, "next")
    assert ["next", "old"] == foreign(tmp_path)


def test_a_file_that_another_process_publishes_at_the_same_moment_is_no_error(tmp_path):
    """A partition's directory is gone at the first rename, and the staged file at the second."""
    plan, outputs = planned(tmp_path, APPEND, "k=1:a")
    real, calls = LocalStorage.publish, iter(range(9))

    def publish(storage, staged, final):
        if final.endswith(".arrow"):
            if not next(calls):
                raise FileNotFoundError(2, "the directory is gone", final)
            real(storage, staged, final)
        real(storage, staged, final)

    with mock.patch.object(LocalStorage, "publish", publish):
        finish(plan, outputs)
    assert ["k=1:a"] == foreign(tmp_path)


POINTS = ("C4.renamed", "C4.synced", "C5.unlinked", "C5.synced", "C6.success", "C6.done", "C6.pruned")


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_a_backup_in_which_the_job_is_pending_may_be_put_back_at_each_step(tmp_path, clock, point):
    """What was published before is staged again: it is not marked as done, and its staged files stay."""
    data, restore = _backed_up(tmp_path, "pending")
    with interrupted(point, restore), suppress(CommitError):
        roll_forward.finish(dataset(data))
    save(data, APPEND, "next")
    assert ["new 1", "new 2", "next"] == foreign(data)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"keep_replaced": 60}], ids=["deleted", "kept"])
def test_old_files_that_are_put_back_between_two_removals_stay(tmp_path, monkeypatch, clock, options):
    monkeypatch.setattr(old_files, "_DELETED_AT_ONCE", 1)
    data, restore = _backed_up(tmp_path, "done")
    with interrupted("C5.unlinked", restore), pytest.raises(CommitError):
        save(data, OVERWRITE, "new", **options)
    assert ["old 1", "old 2", "old 3"] == foreign(data)


@pytest.mark.slow
def test_old_files_of_a_backup_stay_after_later_jobs_too(tmp_path, monkeypatch, clock):
    """Their records have the numbers of the paused job's and of the next: it takes itself for applied."""
    monkeypatch.setattr(old_files, "_DELETED_AT_ONCE", 1)
    data, restore = _backed_up(tmp_path, "done")

    def go_on():
        restore()
        save(data, APPEND, "next 1")
        save(data, APPEND, "next 2")

    with interrupted("C5.unlinked", go_on), suppress(CommitError):
        save(data, OVERWRITE, "new")
    assert ["next 1", "next 2", "old 1", "old 2", "old 3"] == foreign(data)


def _backed_up(tmp_path, state):
    """Return a dataset of three files, with a pending overwrite or without, and a function that puts it back."""
    data, backup = tmp_path / "data", tmp_path / "backup"
    save(data, APPEND, "old 1", "old 2", "old 3")
    if state == "pending":
        with dying("C3.synced"):
            save(data, OVERWRITE, "new 1", "new 2")
    shutil.copytree(data, backup)

    def restore():
        shutil.rmtree(data)
        shutil.copytree(backup, data)

    return data, restore
