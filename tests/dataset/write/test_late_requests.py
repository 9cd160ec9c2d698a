"""Requests that a proxy carries out late, or twice: a job that is told of as not published stays so."""

import math
from dataclasses import replace

import pytest
from fault_server import FAULTS, LATE, SLOW, TWICE, Request, fault_server
from job_plans import plan_job
from store_jobs import APPEND, NEW, OLD, OVERWRITE, RECORD, Place

from spark_arrow_ipc.dataset.commit_log import log
from spark_arrow_ipc.dataset.write.commit import abort, commit
from spark_arrow_ipc.dataset.write.vacuum import give_up, vacuum
from spark_arrow_ipc.errors import CommitError

MODES = pytest.mark.parametrize("mode", [APPEND, OVERWRITE], ids=["append", "overwrite"])
REFUSED, MADE = 412, 200


@pytest.fixture
def place(clock):
    with fault_server() as server:
        yield Place(server, max_retries="0")


def lose_records(place):
    place.server.inject(Request.PUT, LATE, key=RECORD, times=math.inf)


def unconfirmed(place, mode):
    """Run a job whose record nobody confirms; return its staging."""
    plan = plan_job(place.root, mode, storage=place.storage)
    outputs = place.tasks(plan, NEW)
    lose_records(place)
    with pytest.raises(CommitError, match=rf"is unknown.*vacuum --give-up {plan.staging.jobid} s3://") as caught:
        commit(plan, outputs, write_empty=None)
    assert "nothing is published" not in str(caught.value)
    place.server.heal()
    return plan.staging


def given_up(staging):
    """Give the job up, and return whether nothing of it is published."""
    return give_up(staging.root, staging.jobid, storage=staging.storage).jobid == staging.jobid


def deliver(place):
    return {status for _, status in place.server.deliver()}


def after(mode):
    return sorted(OLD + NEW if mode is APPEND else NEW)


def is_tidy(place, expected):
    """Two more jobs and a vacuum change nothing of what is there."""
    for text in ("y", "z"):
        place.save(APPEND, [text])
    vacuum(place.root, storage=place.storage, older_than_seconds=0)
    assert not [key for key in place.server.objects.data() if "_ipc_stage" in key]
    return sorted([*expected, "y", "z"]) == place.ours() == place.plain()


@pytest.mark.slow
@MODES
@pytest.mark.one_in(3)
@pytest.mark.parametrize("settle", [abort, given_up])
@pytest.mark.parametrize("jobs", range(4))
@pytest.mark.parametrize("kept", [log.KEPT_RECORDS, 0], ids=["records stay", "records go"])
def test_a_record_that_comes_after_its_job_is_withdrawn_does_not_count(place, monkeypatch, mode, settle, jobs, kept):
    monkeypatch.setattr(log, "KEPT_RECORDS", kept)
    staging = unconfirmed(place, mode)
    assert settle(staging)
    seen = OLD
    for number in range(jobs):
        place.save(APPEND, [f"x{number}"])
        seen = sorted([*seen, f"x{number}"])
    # Its number is taken, by the withdrawal; or it is free again, and far behind the head.
    assert ({MADE, REFUSED} if jobs > 1 and not kept else {REFUSED}) == deliver(place)
    assert seen == place.ours() == place.plain()
    assert is_tidy(place, seen)


@pytest.mark.slow
@pytest.mark.parametrize("comes", ["before", "after", "never"])
def test_a_job_with_a_token_is_run_again_and_committed_once(place, comes):
    plan = plan_job(place.root, APPEND, storage=place.storage, commit_token="load")
    lose_records(place)
    with pytest.raises(CommitError, match=r"is unknown.*Run it again: by its commitToken.*committed once"):
        commit(plan, place.tasks(plan, NEW), write_empty=None)
    place.server.heal()
    if comes == "before":
        deliver(place)
    again = plan_job(place.root, APPEND, storage=place.storage, commit_token="load")
    assert again.skip is (comes == "before")
    if not again.skip:
        commit(again, place.tasks(again, NEW), write_empty=None)
    if comes == "after":
        assert {REFUSED} == deliver(place)
    assert after(APPEND) == place.ours() == place.plain()
    assert is_tidy(place, after(APPEND))


@pytest.mark.slow
@MODES
def test_a_record_that_comes_before_its_job_is_aborted_counts(place, mode):
    staging = unconfirmed(place, mode)
    assert {MADE, REFUSED} == deliver(place)
    assert after(mode) == place.ours()
    assert not abort(staging)
    assert after(mode) == place.ours() == place.plain()
    assert is_tidy(place, after(mode))


@pytest.mark.slow
@MODES
def test_a_record_that_comes_before_its_job_is_given_up_is_taken_back(place, mode):
    staging = unconfirmed(place, mode)
    deliver(place)
    assert after(mode) == place.ours()
    assert given_up(staging)
    assert OLD == place.ours() == place.plain()
    assert is_tidy(place, OLD)


@pytest.mark.slow
@MODES
def test_a_job_that_is_in_place_is_not_given_up(place, mode):
    staging = unconfirmed(place, mode)
    deliver(place)
    vacuum(place.root, storage=place.storage)
    with pytest.raises(
        CommitError, match=f"{staging.jobid} cannot be given up: it is committed, and all of it is in place"
    ):
        given_up(staging)
    assert after(mode) == place.ours() == place.plain()


@pytest.mark.slow
@MODES
def test_an_abort_that_the_store_does_not_confirm_either_says_so(place, caplog, mode):
    staging = unconfirmed(place, mode)
    lose_records(place)
    assert not abort(staging)
    assert f"whether the job {staging.jobid} is committed is unknown, and nothing of it is removed" in caplog.text
    place.server.heal()
    deliver(place)
    assert after(mode) == place.ours()
    assert is_tidy(place, after(mode))


@pytest.mark.slow
def test_a_withdrawal_that_comes_late_withdraws(place):
    plan = plan_job(place.root, APPEND, storage=place.storage)
    place.stage(plan, "new")
    lose_records(place)
    with pytest.raises(CommitError, match=r"that withdraws jobs.*try again"):
        vacuum(place.root, storage=place.storage, older_than_seconds=0)
    place.server.heal()
    deliver(place)
    with pytest.raises(CommitError, match="was withdrawn"):
        commit(plan, place.tasks(plan, ["new"]), write_empty=None)
    assert is_tidy(place, OLD)


ANSWERS = {
    "no answer": (SLOW, 30),
    "a gateway's answer": (replace(SLOW, drops=False, status=504, code="GatewayTimeout"), 30),
    "the store's answer": (FAULTS["503"], 0),
    "an error behind its status": (FAULTS["200 with an error inside"], 0),
}
"""What a client is told of a copy that it then asks for again, and how long a copy of before may be under way."""


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "seconds"), ANSWERS.values(), ids=ANSWERS)
def test_a_copy_that_was_asked_for_again_is_waited_for_if_the_first_may_be_under_way(place, clock, fault, seconds):
    """It ends after the whole job: were it not waited for, an overwrite would be undone."""
    waited, events = clock
    events[29] = place.server.deliver
    place.server.inject(Request.COPY, fault)
    place.save(APPEND, NEW)
    assert seconds == pytest.approx(sum(waited))
    place.save(OVERWRITE, ["after"])
    place.server.deliver()
    assert ["after"] == place.ours() == place.plain()


LATER = {
    "at once": ([], NEW),
    "after an overwrite": ([OVERWRITE], ["0"]),
    "after more jobs": ([APPEND, OVERWRITE, APPEND], ["1", "2"]),
}
"""Jobs before the proxy repeats what the first one asked for, and what is there then; their texts are their numbers."""


def repeat_all(place, later):
    """Run a job whose uploads and copies the proxy keeps, and then others."""
    for kind in (Request.PUT, Request.COPY):
        place.server.inject(kind, TWICE, times=math.inf)
    place.save(OVERWRITE, NEW)
    place.server.heal()
    for number, mode in enumerate(later):
        place.save(mode, [str(number)])


@pytest.mark.slow
@pytest.mark.parametrize(("later", "expected"), LATER.values(), ids=LATER)
def test_requests_that_are_repeated_after_later_jobs_bring_nothing_back(place, later, expected):
    repeat_all(place, later)
    copies = place.server.deliver(of=lambda kind: kind is Request.COPY)
    assert {404} == {status for _, status in copies}, "what is staged is deleted before the record is done"
    assert expected == place.ours() == place.plain()
    place.server.deliver()
    assert expected == place.ours() == place.plain()
    assert is_tidy(place, expected)


@pytest.mark.slow
def test_what_remains_an_upload_that_is_repeated_and_then_its_copy(place):
    """ADR 22 says so: the proxy makes the staged file anew, and then the one that was replaced."""
    repeat_all(place, [OVERWRITE])
    place.server.deliver()
    assert sorted([*NEW, "0"]) == place.ours()
