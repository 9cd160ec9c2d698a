"""Claims: of the process that applies a record and a person who takes it back, one gives way, whenever they stop."""

from pathlib import Path

import pytest
from commit_jobs import APPEND, OVERWRITE, dataset, dying, finish, foreign, interrupted, leftovers, ours, planned, save

from spark_arrow_ipc.dataset.commit_log.log import newest_record, read_pending
from spark_arrow_ipc.dataset.write.record_chain import Claim, claim
from spark_arrow_ipc.dataset.write.vacuum import give_up, vacuum
from spark_arrow_ipc.errors import CommitError

pytestmark = pytest.mark.usefixtures("publishing")


def test_the_first_claim_stays(tmp_path):
    save(tmp_path, APPEND, "a")
    assert [Claim.APPLY, Claim.APPLY] == [claim(dataset(tmp_path), 7, purpose) for purpose in Claim]
    assert [Claim.TAKE_BACK, Claim.TAKE_BACK] == [claim(dataset(tmp_path), 8, purpose) for purpose in reversed(Claim)]


@pytest.mark.parametrize("content", ["", "something else\n", "x" * 1_000])
def test_a_claim_of_others_is_refused_by_name(tmp_path, content):
    save(tmp_path, APPEND, "a")
    Path(dataset(tmp_path).claim(7)).write_text(content)
    with pytest.raises(CommitError, match=r"7\.claim: this is not a claim that a commit made; remove it"):
        claim(dataset(tmp_path), 7, Claim.APPLY)


@pytest.mark.slow
def test_no_claim_stays_after_a_job(tmp_path):
    save(tmp_path, APPEND, "a")
    save(tmp_path, OVERWRITE, "b")
    assert [] == list((tmp_path / "_ipc_commits").glob("*.claim"))
    Path(dataset(tmp_path).claim(2)).write_bytes(Claim.APPLY.value)  # a process that came late
    vacuum(tmp_path)
    assert [] == list((tmp_path / "_ipc_commits").glob("*.claim"))


@pytest.mark.slow
def test_a_process_that_goes_on_when_its_job_was_given_up_removes_nothing(tmp_path):
    """It stopped before it claimed the old files; meanwhile the job is taken back, and others commit and prune."""
    save(tmp_path, APPEND, "old")
    plan, outputs = planned(tmp_path, OVERWRITE, "new")

    def others():
        give_up(tmp_path, plan.staging.jobid)
        for text in "123":
            save(tmp_path, APPEND, text)

    for point in ("C4.renamed", "C4.synced"):
        with interrupted(point, others), pytest.raises(CommitError, match=r"was given up.*nothing is published"):
            finish(plan, outputs)
        assert "old" in foreign(tmp_path)
        assert "new" not in foreign(tmp_path)
        assert [] == leftovers(tmp_path)
        plan, outputs = planned(tmp_path, OVERWRITE, "new")


@pytest.mark.disk
def test_a_person_cannot_give_up_what_a_process_began_to_replace(tmp_path):
    save(tmp_path, APPEND, "old 1", "old 2")
    plan, outputs = planned(tmp_path, OVERWRITE, "new")

    def others():
        with pytest.raises(CommitError, match=r"cannot be taken back: 1 of 2 old files are gone.*1 of 1 new files"):
            give_up(tmp_path, plan.staging.jobid, older_than_seconds=0)

    with interrupted("C5.unlinked", others):
        finish(plan, outputs)
    assert ["new"] == foreign(tmp_path) == ours(tmp_path)


def test_a_claim_that_a_process_left_is_only_overruled_when_it_is_old(tmp_path):
    """It died, or may go on at any moment, between its claim and the first file."""
    save(tmp_path, APPEND, "old")
    plan, outputs = planned(tmp_path, OVERWRITE, "new")
    with dying("C4.synced"):
        finish(plan, outputs)
    claim(dataset(tmp_path), 2, Claim.APPLY)
    with pytest.raises(CommitError, match=r"began \d+ s ago to remove the old files.*add --older-than 0"):
        give_up(tmp_path, plan.staging.jobid)
    assert ["new"] == ours(tmp_path)
    give_up(tmp_path, plan.staging.jobid, older_than_seconds=0)
    assert ["old"] == ours(tmp_path) == foreign(tmp_path)


@pytest.mark.parametrize("recovery", ["vacuum", "the next writer"])
def test_what_a_person_began_to_take_back_is_taken_back_by_the_next_writer(tmp_path, recovery):
    save(tmp_path, APPEND, "old")
    plan, outputs = planned(tmp_path, OVERWRITE, "new")
    with dying("C4.renamed"):
        finish(plan, outputs)
    with dying("G.claimed"):
        give_up(tmp_path, plan.staging.jobid)
    assert read_pending(dataset(tmp_path)).record.jobid == plan.staging.jobid
    expected = ["old"]
    if recovery == "vacuum":
        vacuum(tmp_path, older_than_seconds=0)
    else:
        save(tmp_path, APPEND, "next")
        expected = ["next", "old"]
    assert expected == ours(tmp_path) == foreign(tmp_path)
    assert plan.staging.jobid in newest_record(dataset(tmp_path))[1].withdrawn
    assert [] == leftovers(tmp_path)
