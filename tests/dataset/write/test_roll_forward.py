"""Applying a record: what it leaves, and what stops it."""

import json
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
    leftovers,
    planned,
    run_tasks,
    save,
)

from spark_arrow_ipc.dataset.write import roll_forward
from spark_arrow_ipc.dataset.write.commit import abort
from spark_arrow_ipc.dataset.write.job_plan import plan_job
from spark_arrow_ipc.errors import CommitError
from spark_arrow_ipc.storage import beneath


def test_only_the_last_two_records_are_kept(tmp_path):
    for text in "abcd":
        save(tmp_path, APPEND, text)
    names = sorted(path.name for path in (tmp_path / "_ipc_commits").iterdir())
    assert [f"{number:020d}.{ending}" for number in (3, 4) for ending in ("done", "json")] == names


def test_success_file_is_json_about_the_last_job(tmp_path):
    save(tmp_path, APPEND, "a")
    summary = save(tmp_path, OVERWRITE, "bcd")
    told = json.loads((tmp_path / "_SUCCESS").read_text())
    expected = {"jobid": summary.jobid, "mode": "overwrite", "files": 1, "rows": 3, "nbytes": 3, "removed": 1}
    assert {"writer": "spark-arrow-ipc", **expected} == told


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


def test_records_that_are_pruned_take_nothing_with_them(tmp_path):
    save(tmp_path, APPEND, "a", commit_token="t")
    for number in range(4):
        save(tmp_path, APPEND, str(number))
    roll_forward.finish(dataset(tmp_path))
    assert not save(tmp_path, APPEND, "a", commit_token="t").published
    plan = plan_job(str(tmp_path), APPEND)
    assert [] == run_tasks(plan)
    assert abort(plan.staging)


def test_a_committed_file_that_somebody_removed_stops_the_removal_of_old_ones(tmp_path):
    save(tmp_path, APPEND, "old")
    with dying("C4.renamed"):
        save(tmp_path, OVERWRITE, "new 1", "new 2")
    for path in (tmp_path / "_ipc_stage").rglob("*.staged"):
        path.unlink()
    with pytest.raises(CommitError, match=r"neither there nor staged.*to give the whole job up, remove .*2\.json"):
        save(tmp_path, APPEND, "next")
    assert "old" in foreign(tmp_path)
    Path(dataset(tmp_path).record(2)).unlink()
    save(tmp_path, APPEND, "next")
    assert "old" in foreign(tmp_path)
