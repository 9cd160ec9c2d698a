"""Files that others add while an overwrite runs."""

import itertools

import pytest
from commit_jobs import APPEND, DYNAMIC, OVERWRITE, foreign, ours, planned, run_tasks, save, table
from job_plans import plan_job

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.write import commit, conflicts, existing_files
from spark_arrow_ipc.dataset.write.commit import abort
from spark_arrow_ipc.dataset.write.conflicts import may_stay
from spark_arrow_ipc.errors import ConcurrentWriteError
from spark_arrow_ipc.storage import failpoint
from spark_arrow_ipc.table.log import read_state

BY_K = (t.Field("k", t.int32),)


def finish(plan, outputs, fits=lambda _: True):
    return commit.commit(plan, outputs, write_empty=None, fits=fits)


# (What others do meanwhile, whether the new schema fits, what is there then; None where the overwrite gives way.)
MEANWHILE = {
    "an append": (lambda path: save(path, APPEND, "k=1:x"), True, ["k=1:new", "k=1:x"]),
    "two appends": (lambda path: [save(path, APPEND, f"k={i}:x") for i in (1, 2)], True, ["k=1:new", "k=1:x", "k=2:x"]),
    "a new partition that is overwritten": (lambda path: save(path, DYNAMIC, "k=9:x"), True, ["k=1:new", "k=9:x"]),
    "an append of another schema": (lambda path: save(path, APPEND, "k=1:x"), False, None),
    "an append of other partition columns": (lambda path: save(path, APPEND, "j=1:x"), True, None),
    "an overwrite of what is there": (lambda path: save(path, DYNAMIC, "k=1:x"), True, None),
    "an overwrite of everything": (lambda path: save(path, OVERWRITE, "k=1:x"), True, None),
    "a removal by hand": (lambda path: next(path.glob("k=1/*")).unlink(), True, ["k=1:new"]),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", MEANWHILE)
def test_an_overwrite_lets_stay_what_was_only_added(tmp_path, case):
    meanwhile, fits, expected = MEANWHILE[case]
    save(tmp_path, APPEND, "k=1:a", "k=2:b")
    job = planned(tmp_path, OVERWRITE, "k=1:new", partition_by=BY_K)
    meanwhile(tmp_path)
    if expected is None:
        before = ours(tmp_path)
        with pytest.raises(ConcurrentWriteError, match="nothing is published"):
            finish(*job, fits=lambda _: fits)
        assert before == ours(tmp_path)
        assert abort(job[0])
        assert before == foreign(tmp_path)
    else:
        assert finish(*job, fits=lambda _: fits).published
        assert expected == foreign(tmp_path)


@pytest.mark.slow
def test_a_dynamic_overwrite_gives_way_to_an_append_to_its_partition(tmp_path):
    save(tmp_path, APPEND, "k=1:a")
    job = planned(tmp_path, DYNAMIC, "k=1:new", partition_by=BY_K)
    save(tmp_path, APPEND, "k=1:x")
    with pytest.raises(ConcurrentWriteError):
        finish(*job)


@pytest.mark.slow
def test_an_overwrite_does_not_starve_beside_appends(tmp_path, monkeypatch):
    """An append comes each time between the check and the entry; the table is not listed again."""
    save(tmp_path, APPEND, "old")
    plan = plan_job(str(tmp_path), OVERWRITE, partition_by=())
    outputs = run_tasks(plan, "new")
    passages, lists = itertools.count(), []

    def hit(name):
        if name == "committed.asked" and next(passages) < 12 and not nested:
            nested.append(1)
            save(tmp_path, APPEND, "x")
            nested.clear()

    nested = []
    monkeypatch.setattr(failpoint, "hit", hit)
    monkeypatch.setattr(conflicts, "live_files", lists.append)
    monkeypatch.setattr(existing_files, "list_tree", lists.append)
    finish(plan, outputs)
    assert {"new", "x"} == set(foreign(tmp_path))
    assert foreign(tmp_path).count("x") > 3
    assert [] == lists


def test_without_a_comparison_of_schemas_or_with_too_many_files_nothing_stays(tmp_path, monkeypatch):
    save(tmp_path, APPEND, "a", "b")
    directory, state = table(tmp_path), read_state(table(tmp_path))
    added = state.files.paths
    assert may_stay(directory, state, added, (), lambda _: True)
    assert not may_stay(directory, state, added, (), None)
    assert not may_stay(directory, state, added, None, lambda _: True)
    monkeypatch.setattr(conflicts, "_MOST_OPENED", 1)
    assert not may_stay(directory, state, added, (), lambda _: True)
