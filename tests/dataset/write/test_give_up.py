"""Taking a committed job back: what it published goes, what it would have replaced stays."""

import shutil
from pathlib import Path

import pytest
from commit_jobs import APPEND, DYNAMIC, OVERWRITE, dataset, dying, finish, foreign, leftovers, ours, planned, save

from spark_arrow_ipc.dataset.commit_log.log import newest_record
from spark_arrow_ipc.dataset.write.commit import abort
from spark_arrow_ipc.dataset.write.roll_forward import withdraw
from spark_arrow_ipc.dataset.write.vacuum import give_up, vacuum
from spark_arrow_ipc.errors import CommitError, NoFilesError

pytestmark = pytest.mark.usefixtures("publishing")

OLD = ["k=1:a", "k=2:b"]
MODES = pytest.mark.parametrize("mode", [APPEND, OVERWRITE, DYNAMIC], ids=lambda mode: mode.value)
REACHED = ["C3.linked", "C3.synced", "C4.directories", "C4.renamed", "C4.synced"]


def stuck(path, mode, point="C4.renamed", *, lost=True, token=None):
    """Leave a job that is committed and, where its staged files are lost, can never be finished; return it."""
    plan, outputs = planned(path, mode, "k=2:x", "k=3:y", "k=4:z", commit_token=token)
    with dying(point):
        finish(plan, outputs)
    if lost:
        shutil.rmtree(path / "_ipc_stage", ignore_errors=True)  # a copy that is proven leaves none
    return plan.staging.jobid


@pytest.mark.slow
@pytest.mark.one_in(4)
@MODES
@pytest.mark.parametrize("point", REACHED)
@pytest.mark.parametrize("lost", [False, True], ids=["staged files are there", "staged files are lost"])
def test_the_job_is_taken_back_whole(tmp_path, mode, point, lost):
    save(tmp_path, APPEND, *OLD)
    jobid = stuck(tmp_path, mode, point, lost=lost)
    named = {"C4.renamed": 1, "C4.synced": 3}.get(point, 0)
    job = give_up(tmp_path, jobid)
    assert (jobid, named, 0 if mode is APPEND else len(OLD) if mode is OVERWRITE else 1) == (
        job.jobid, len(job.files), job.kept
    )  # fmt: skip
    assert OLD == foreign(tmp_path) == ours(tmp_path)
    assert [] == leftovers(tmp_path)
    assert ["k=1", "k=2"] == sorted(path.name for path in tmp_path.glob("k=*"))
    assert jobid == give_up(tmp_path, jobid).jobid
    save(tmp_path, APPEND, "next")
    assert [*OLD, "next"] == foreign(tmp_path)


@pytest.mark.slow
@MODES
@pytest.mark.parametrize("point", ["G.claimed", "C3.linked", "G.recorded", "C4.synced", "C5.unlinked", "C6.done"])
def test_giving_up_may_stop_anywhere_and_is_taken_up_again(tmp_path, mode, point):
    save(tmp_path, APPEND, *OLD)
    jobid = stuck(tmp_path, mode)
    with dying(point, nth=2 if point == "C3.linked" and mode is not APPEND else 1):
        give_up(tmp_path, jobid)
    if point != "G.claimed":  # before its record nothing counts
        assert OLD == ours(tmp_path)
    give_up(tmp_path, jobid)
    assert OLD == ours(tmp_path) == foreign(tmp_path)
    vacuum(tmp_path, older_than_seconds=0)
    assert [] == leftovers(tmp_path)


@pytest.mark.slow
def test_readers_see_the_old_files_from_the_record_on(tmp_path):
    save(tmp_path, APPEND, *OLD)
    jobid = stuck(tmp_path, OVERWRITE, "C4.synced")
    with dying("G.recorded"):
        give_up(tmp_path, jobid)
    assert OLD == ours(tmp_path)
    assert sorted([*OLD, "k=2:x", "k=3:y", "k=4:z"]) == foreign(tmp_path)
    save(tmp_path, APPEND, "next")
    assert [*OLD, "next"] == ours(tmp_path) == foreign(tmp_path)


def test_a_dry_run_changes_nothing(tmp_path):
    save(tmp_path, APPEND, *OLD)
    jobid = stuck(tmp_path, OVERWRITE)
    before = sorted(tmp_path.rglob("*"))
    assert (1, 2) == (len((job := give_up(tmp_path, jobid, dry_run=True)).files), job.kept)
    assert before == sorted(tmp_path.rglob("*"))


@pytest.mark.slow
def test_the_job_can_be_run_again_with_its_token(tmp_path):
    save(tmp_path, APPEND, *OLD, commit_token="before")
    jobid = stuck(tmp_path, APPEND, token="load")
    assert ("before", "load") == newest_record(dataset(tmp_path))[1].tokens
    give_up(tmp_path, jobid)
    assert not save(tmp_path, APPEND, "twice", commit_token="before").published
    assert save(tmp_path, APPEND, "again", commit_token="load").published


@pytest.mark.slow
def test_the_job_cannot_commit_any_more(tmp_path):
    save(tmp_path, APPEND, *OLD)
    plan, outputs = planned(tmp_path, APPEND, "x", "y")
    with dying("C4.renamed"):
        finish(plan, outputs)
    give_up(tmp_path, plan.staging.jobid)
    assert abort(plan.staging)
    with pytest.raises(CommitError, match="nothing is published"):
        finish(plan, outputs)
    assert OLD == foreign(tmp_path)


REFUSED = [
    ("no job", lambda _: "f" * 32, "it has staged nothing.*to its end; no job waits"),
    (
        "a job that is done",
        lambda root: newest_record(dataset(root))[1].jobid,
        "it is committed, and all of it is in place",
    ),
    (
        "another one waits",
        lambda root: stuck(root, APPEND) and "f" * 32,
        "it has staged nothing.*; the job that waits is [0-9a-f]{32}",
    ),
]


@pytest.mark.parametrize(("jobid", "text"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_only_a_job_that_is_not_in_place_can_be_given_up(tmp_path, jobid, text):
    save(tmp_path, APPEND, *OLD)
    jobid = jobid(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(CommitError, match=rf"cannot be given up: {text}"):
        give_up(tmp_path, jobid)
    assert before == sorted(tmp_path.rglob("*"))


def test_a_withdrawal_that_waits_is_no_job(tmp_path):
    save(tmp_path, APPEND, *OLD)
    plan, _ = planned(tmp_path, APPEND, "dead")
    with dying("A.withdrawn"):
        withdraw(dataset(tmp_path), [plan.staging.jobid])
    with pytest.raises(CommitError, match="cannot be given up"):
        give_up(tmp_path, newest_record(dataset(tmp_path))[1].jobid)


def test_when_an_old_file_is_gone_it_says_which_half_is_there(tmp_path):
    save(tmp_path, APPEND, *OLD, "k=2:c")
    jobid = stuck(tmp_path, OVERWRITE)
    next(tmp_path.glob("k=1/*")).unlink()
    replaced = next(tmp_path.glob("k=2/part-00001-*"))
    replaced.write_text("another file under an old name")
    before = foreign(tmp_path)
    with pytest.raises(CommitError, match=r"2 of 3 old files are gone.*k=1/part-.*and 1 of 3 new files have their nam"):
        give_up(tmp_path, jobid)
    assert before == foreign(tmp_path)


def test_only_a_directory_has_jobs(tmp_path):
    with pytest.raises(NoFilesError, match="this is none"):
        give_up(Path(tmp_path) / "nowhere", "f" * 32)
