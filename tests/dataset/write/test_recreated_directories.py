"""A process stands still, and meanwhile its directory is removed and made anew: the new chain loses nothing by what it does."""

import shutil
from pathlib import Path

import pytest
from commit_jobs import APPEND, OVERWRITE, dataset, dying, finish, foreign, interrupted, ours, planned, save

from spark_arrow_ipc.dataset.commit_log import log
from spark_arrow_ipc.dataset.commit_log.log import newest_record, read_changes, read_state
from spark_arrow_ipc.dataset.commit_log.record import WITHDRAWN, Record
from spark_arrow_ipc.dataset.write.commit import abort
from spark_arrow_ipc.errors import ArrowIpcError

POINTS = [
    "C1.checked", "C2.synced", "C3.checked", "C3.written", "C3.linked", "C3.synced", "C4.directories", "C4.renamed", "C4.synced",
    "C6.success", "C6.done", "C6.pruned", "C6.cleaned",
]  # fmt: skip
PAUSES = [(mode, point) for mode in (APPEND, OVERWRITE) for point in POINTS]
PAUSES += [(OVERWRITE, point) for point in ("C5.unlinked", "C5.synced")]


def made_anew(data, jobs, pending):
    """Remove a directory; write jobs into it, and leave the last one without its last steps."""

    def act():
        shutil.rmtree(data)
        for i in range(jobs):
            save(data, APPEND, f"new {i}")
        with dying(pending):
            save(data, APPEND, "pending")

    return act


@pytest.mark.slow
@pytest.mark.one_in(6)
@pytest.mark.disk
@pytest.mark.parametrize("pending", ["C3.linked", "C4.renamed", "C6.success"])
@pytest.mark.parametrize("jobs", [0, 1, 2, 5])
@pytest.mark.parametrize(("mode", "point"), PAUSES)
def test_a_process_that_goes_on_in_another_chain(tmp_path, point, mode, jobs, pending):
    """Its rows are gone with the directory, or it says so; what was committed since is there, for every reader, for good."""
    data = tmp_path / "data"
    save(data, APPEND, "old 1")
    save(data, APPEND, "old 2")
    plan, outputs = planned(data, mode, "mine")
    expected = {*(f"new {i}" for i in range(jobs)), "pending"}
    with interrupted(point, made_anew(data, jobs, pending)):
        try:
            finish(plan, outputs)
        except ArrowIpcError:
            abort(plan.staging)
    assert expected <= set(ours(data))
    save(data, APPEND, "next")
    assert {*expected, "next"} <= set(ours(data))
    assert ours(data) == foreign(data)
    assert not {"old 1", "old 2"} & set(ours(data))
    save(data, OVERWRITE, "last")
    assert ["last"] == ours(data) == foreign(data)


@pytest.mark.slow
@pytest.mark.parametrize("keeps", [None, 3600], ids=["", "kept records"])
@pytest.mark.parametrize("pending", ["C3.linked", "C4.renamed", "C6.success", "C6.cleaned"])
def test_a_process_that_prunes_leaves_the_records_of_another_chain(tmp_path, monkeypatch, pending, keeps):
    """Its own number is larger than all of the new ones, which are not old."""
    monkeypatch.setattr(log, "KEPT_RECORDS", 2)
    data = tmp_path / "data"
    for i in range(4):
        save(data, APPEND, f"old {i}", commit_retention=keeps)
    plan, outputs = planned(data, APPEND, "mine")
    with interrupted("C6.done", made_anew(data, 1, pending)):
        finish(plan, outputs)
    head, record = newest_record(dataset(data))
    assert (2, "append") == (head.seq, record.mode)
    assert ["new 0", "pending"] == ours(data)
    save(data, APPEND, "next")
    assert ["new 0", "next", "pending"] == ours(data) == foreign(data)


@pytest.mark.slow
def test_a_mark_of_another_job_counts_for_nothing(tmp_path):
    save(tmp_path, APPEND, "old")
    with dying("C3.synced"):
        save(tmp_path, APPEND, "new")
    Path(dataset(tmp_path).done_mark(2)).write_text("f" * 32)
    assert not newest_record(dataset(tmp_path))[0].done
    assert read_state(dataset(tmp_path)).pending is not None
    assert ["new", "old"] == ours(tmp_path)
    save(tmp_path, APPEND, "next")
    assert ["new", "next", "old"] == ours(tmp_path) == foreign(tmp_path)


@pytest.mark.slow
def test_a_record_that_is_made_late_among_pruned_ones_is_no_change(tmp_path):
    """Not even a withdrawal, whose job no other record remembers."""
    for i in range(4):
        save(tmp_path, APPEND, str(i))
    there = dataset(tmp_path)
    assert 3 == len(read_changes(there, 1))
    first = newest_record(there)[1]
    late = Record(3, "e" * 32, WITHDRAWN, withdraws=("d" * 32,)).after(first)
    Path(there.record(3)).write_bytes(late.to_bytes())
    assert read_changes(there, 1) is None
    assert 1 == len(read_changes(there, 3))
