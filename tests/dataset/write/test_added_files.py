"""Files that others add while an overwrite runs."""

import itertools

import pytest
from commit_jobs import APPEND, DYNAMIC, OVERWRITE, dataset, foreign, planned, run_tasks, save
from job_plans import plan_job

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.commit_log.log import read_head
from spark_arrow_ipc.dataset.write import commit, conflicts
from spark_arrow_ipc.dataset.write.conflicts import added_since, may_stay
from spark_arrow_ipc.dataset.write.existing_files import LiveFile, live_files
from spark_arrow_ipc.errors import ConcurrentWriteError
from spark_arrow_ipc.storage import failpoint

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
    "a removal": (lambda path: next(path.glob("k=1/*")).unlink(), True, None),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", MEANWHILE)
def test_an_overwrite_lets_stay_what_was_only_added(tmp_path, case):
    meanwhile, fits, expected = MEANWHILE[case]
    save(tmp_path, APPEND, "k=1:a", "k=2:b")
    job = planned(tmp_path, OVERWRITE, "k=1:new", partition_by=BY_K)
    meanwhile(tmp_path)
    before = foreign(tmp_path)
    if expected is None:
        with pytest.raises(ConcurrentWriteError, match="nothing is published"):
            finish(*job, fits=lambda _: fits)
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
    """An append comes each time between the check and the record; the directory is listed once all the same."""
    save(tmp_path, APPEND, "old")
    plan = plan_job(str(tmp_path), OVERWRITE, partition_by=())
    outputs = run_tasks(plan, "new")
    passages, lists = itertools.count(), []

    def hit(name):
        if name == "C3.checked" and next(passages) < 12 and not nested:
            nested.append(1)
            save(tmp_path, APPEND, "x")
            nested.clear()

    def listing(*arguments):
        lists.append(arguments)
        return live_files(*arguments)

    nested = []
    monkeypatch.setattr(failpoint, "hit", hit)
    monkeypatch.setattr(conflicts, "live_files", listing)
    finish(plan, outputs)
    assert {"new", "x"} == set(foreign(tmp_path))
    assert foreign(tmp_path).count("x") > 3
    assert 1 == len(lists)


@pytest.mark.slow
def test_what_jobs_added_is_read_from_their_records(tmp_path):
    save(tmp_path, APPEND, "a")
    seq = read_head(dataset(tmp_path)).seq
    save(tmp_path, APPEND, "k=1:b", "c")
    assert {"k=1", "part-"} == {
        file.path[: 3 if "/" in file.path else 5] for file in added_since(dataset(tmp_path), seq)
    }
    assert added_since(dataset(tmp_path), seq + 1) is None
    save(tmp_path, OVERWRITE, "d")
    assert added_since(dataset(tmp_path), seq) is None


def test_without_a_comparison_of_schemas_or_with_too_many_files_nothing_stays(tmp_path, monkeypatch):
    added = [LiveFile("a", 1, 1), LiveFile("b", 1, 1)]
    assert may_stay(dataset(tmp_path), added, (), lambda _: True)
    assert not may_stay(dataset(tmp_path), added, (), None)
    assert not may_stay(dataset(tmp_path), added, None, lambda _: True)
    monkeypatch.setattr(conflicts, "_MOST_OPENED", 1)
    assert not may_stay(dataset(tmp_path), added, (), lambda _: True)
