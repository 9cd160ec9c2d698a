"""Vacuum: what is committed is finished, what died is removed, what may run is left alone."""

import os
import shutil
import time
from pathlib import Path
from unittest import mock

import pytest
from commit_jobs import APPEND, OVERWRITE, dying, finish, foreign, interrupted, leftovers, ours, planned, save

from spark_arrow_ipc.arrow import RecordBatch, Schema, types
from spark_arrow_ipc.arrow.types import field
from spark_arrow_ipc.dataset.commit_log import log
from spark_arrow_ipc.dataset.write import vacuum as vacuum_module
from spark_arrow_ipc.dataset.write.commit import abort
from spark_arrow_ipc.dataset.write.task import write_task
from spark_arrow_ipc.dataset.write.vacuum import vacuum
from spark_arrow_ipc.errors import CommitError, NoFilesError
from spark_arrow_ipc.storage.local import LocalStorage

pytestmark = pytest.mark.usefixtures("publishing")

DAY = 24 * 3600
BATCH = RecordBatch.from_pydict({"a": [1]}, Schema.of([field("a", types.int64)]))


def aged(path, days):
    """Make everything below a directory older."""
    then = time.time() - days * DAY
    for found in [path, *path.rglob("*")]:
        os.utime(found, (then, then))


def test_nothing_to_do(tmp_path):
    save(tmp_path, APPEND, "a")
    state = sorted(tmp_path.rglob("*"))
    report = vacuum(tmp_path)
    assert (str(tmp_path), None, (), (), 0, ()) == tuple(getattr(report, name) for name in report.__slots__)
    assert state == sorted(tmp_path.rglob("*"))


def test_a_job_that_may_run_is_kept_and_works(tmp_path):
    plan, outputs = planned(tmp_path, APPEND, "running")
    aged(tmp_path / "_ipc_stage" / plan.staging.jobid, 6.9)
    report = vacuum(tmp_path)
    assert [(plan.staging.jobid, 7)] == [(job.jobid, job.nbytes) for job in report.kept]
    assert () == report.withdrawn
    finish(plan, outputs)
    assert ["running"] == foreign(tmp_path)


def test_a_job_that_is_old_is_withdrawn(tmp_path):
    plan, outputs = planned(tmp_path, APPEND, "dead")
    aged(tmp_path / "_ipc_stage", 7.1)
    report = vacuum(tmp_path)
    assert ((plan.staging.jobid,), 4) == (report.withdrawn, report.nbytes)
    assert [] == leftovers(tmp_path)
    with pytest.raises(CommitError, match="nothing is published"):
        finish(plan, outputs)
    assert abort(plan.staging)


def test_the_newest_file_tells_the_age(tmp_path):
    plan, _ = planned(tmp_path, APPEND, "a", "b")
    aged(tmp_path / "_ipc_stage", 30)
    os.utime(next((tmp_path / "_ipc_stage" / plan.staging.jobid).iterdir()))
    assert 1 == len(vacuum(tmp_path).kept)


@pytest.mark.parametrize(("days", "withdrawn"), [(-0.5, 0), (-2, 1), (-5_000, 1)])
def test_a_time_in_the_future_says_nothing(tmp_path, days, withdrawn):
    """Of a clock that is wrong, or of a copied file; clocks that differ by less than a day are usual."""
    planned(tmp_path, APPEND, "dead")
    aged(tmp_path / "_ipc_stage", days)
    assert withdrawn == len(vacuum(tmp_path).withdrawn)
    assert 1 - withdrawn == len(vacuum(tmp_path, older_than_seconds=0).withdrawn)


@pytest.mark.disk
def test_a_job_that_was_withdrawn_is_told_so(tmp_path):
    plan, outputs = planned(tmp_path, APPEND, "running")
    vacuum(tmp_path, older_than_seconds=0)
    with pytest.raises(CommitError, match=r"the job was withdrawn, by an abort or by 'arrowipc vacuum'.*run it again"):
        finish(plan, outputs)
    with pytest.raises(CommitError, match=r"committed, aborted, or withdrawn by 'arrowipc vacuum'"):
        write_task(plan.staging, [BATCH], BATCH.schema, partition_id=0)


@pytest.mark.parametrize("path", ["the staged file", "its directory"])
def test_what_ends_while_vacuum_looks_is_no_error(tmp_path, path, monkeypatch):
    """A job ends between the listing of its name and the look at it."""
    save(tmp_path, APPEND, "a")
    plan, _ = planned(tmp_path, APPEND, "running")
    real = LocalStorage.status

    def status(storage, asked, **options):
        if asked == plan.staging.directory:
            shutil.rmtree(plan.staging.directory, ignore_errors=True)
        return real(storage, asked, **options)

    real_list = LocalStorage.list

    def list_(storage, asked):
        if asked == plan.staging.directory:
            shutil.rmtree(plan.staging.directory, ignore_errors=True)
        return real_list(storage, asked)

    monkeypatch.setattr(LocalStorage, *(("status", status) if path == "its directory" else ("list", list_)))
    vacuum(tmp_path, older_than_seconds=0)
    assert ["a"] == foreign(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("dry_run", [False, True], ids=["", "dry run"])
def test_all_kinds_of_leftovers(tmp_path, monkeypatch, dry_run):
    monkeypatch.setattr(log, "_KEPT_NBYTES", 0)  # old records are left over at once
    for text in "abc":
        save(tmp_path, APPEND, text)
    (tmp_path / "_ipc_commits" / f"{1:020d}.json").write_text("a link into the past")
    (tmp_path / "_ipc_commits" / "x.staged").write_text("a summary whose writer died")
    dead, _ = planned(tmp_path, APPEND, "dead")
    with dying("A.withdrawn"):
        abort(dead.staging)
    died, _ = planned(tmp_path, OVERWRITE, "died")
    with dying("C4.renamed"):
        save(tmp_path, OVERWRITE, "new", "er")
    before = sorted(tmp_path.rglob("*"))
    report = vacuum(tmp_path, older_than_seconds=0, dry_run=dry_run)
    assert report.finished is not None
    # The job that was withdrawn went when the overwrite was planned.
    assert {died.staging.jobid} == set(report.withdrawn) - {report.finished}
    names = sorted(Path(name).name for name in report.files)
    assert names[-1] == "x.staged"
    assert ["er", "new"] == ours(tmp_path)
    if dry_run:
        assert before == sorted(tmp_path.rglob("*"))
    else:
        assert ["er", "new"] == foreign(tmp_path)
        assert [] == leftovers(tmp_path)
        assert 4 == len(list((tmp_path / "_ipc_commits").iterdir()))
        again = vacuum(tmp_path, older_than_seconds=0)
        assert (None, (), (), 0) == (again.finished, again.withdrawn, again.files, again.nbytes)


@pytest.mark.disk
def test_a_committed_job_is_cleared_whatever_its_age(tmp_path):
    with dying("C6.done"):
        save(tmp_path, APPEND, "a")
    assert 1 == len(vacuum(tmp_path).withdrawn)
    assert [] == leftovers(tmp_path)
    assert ["a"] == foreign(tmp_path)


@pytest.mark.slow
@pytest.mark.disk
def test_a_job_that_is_withdrawn_while_it_commits_fails_and_loses_nothing(tmp_path):
    save(tmp_path, APPEND, "old")
    plan, outputs = planned(tmp_path, OVERWRITE, "new")
    real = os.link

    def link(*paths, **options):
        with mock.patch.object(os, "link", real):
            vacuum(tmp_path, older_than_seconds=0)
        real(*paths, **options)

    with mock.patch.object(os, "link", link), pytest.raises(CommitError, match="withdrawn while it committed"):
        finish(plan, outputs)
    assert ["old"] == foreign(tmp_path) == ours(tmp_path)


def test_names_of_others_are_left_alone(tmp_path):
    save(tmp_path, APPEND, "a")
    (tmp_path / "_ipc_stage" / "notes").mkdir(parents=True)
    (tmp_path / "_ipc_commits" / "notes").write_text("mine")
    vacuum(tmp_path, older_than_seconds=0)
    assert (tmp_path / "_ipc_stage" / "notes").exists()
    assert (tmp_path / "_ipc_commits" / "notes").exists()


def test_only_a_directory_is_cleared(tmp_path):
    (tmp_path / "x.arrow").touch()
    for path in (tmp_path / "x.arrow", tmp_path / "nowhere"):
        with pytest.raises(NoFilesError, match="this is none"):
            vacuum(path)


def test_a_task_whose_job_is_withdrawn_while_it_writes_is_told_so(tmp_path):
    plan, _ = planned(tmp_path, APPEND)
    withdrawn = interrupted("T2.finished", lambda: vacuum(tmp_path, older_than_seconds=0))
    with withdrawn, pytest.raises(CommitError, match=r"committed, aborted, or withdrawn by 'arrowipc vacuum'"):
        write_task(plan.staging, [BATCH], BATCH.schema, partition_id=0)


@pytest.mark.slow
def test_a_job_that_is_committed_while_vacuum_looks_is_put_in_place(tmp_path, monkeypatch):
    """It is among the jobs of the newest record then, and what it staged is all that there is of it."""
    save(tmp_path, APPEND, "old")
    planned(tmp_path, APPEND, "dead")
    real = vacuum_module.newest_record

    def after_a_commit(dataset):
        with dying("C3.synced"):
            save(tmp_path, APPEND, "new")
        return real(dataset)

    monkeypatch.setattr(vacuum_module, "newest_record", after_a_commit)
    vacuum(tmp_path, older_than_seconds=0)
    assert ["new", "old"] == foreign(tmp_path) == ours(tmp_path)
    assert [] == leftovers(tmp_path)
