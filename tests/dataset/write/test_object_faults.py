"""Jobs on a store that fails at any of their requests: a job is told of its commit, or readers see none of it."""

import contextlib
import math
from dataclasses import replace

import pytest
from fault_server import FAULTS, Request, fault_server
from job_plans import plan_job
from store_jobs import APPEND, LOG, NEW, OVERWRITE, Place

from spark_arrow_ipc.dataset.write import WriteMode
from spark_arrow_ipc.dataset.write.commit import abort
from spark_arrow_ipc.dataset.write.job_plan import CommitIntent, make_staging, plan_batch
from spark_arrow_ipc.dataset.write.staged_file import Staging
from spark_arrow_ipc.errors import ArrowIpcError, UnsupportedError
from spark_arrow_ipc.storage.object_store import _proven
from spark_arrow_ipc.table.entry import Batch
from spark_arrow_ipc.table.names import TableDirectory
from spark_arrow_ipc.table.vacuum import vacuum


@pytest.fixture
def place():
    with fault_server() as server:
        yield Place(server)


def attempt(place, mode):
    try:
        place.save(mode, NEW)
    except (ArrowIpcError, OSError) as error:
        return error
    finally:
        place.server.heal()
    return None


DONE = True

SAMPLE = [
    ("an entry whose reply is lost", Request.PUT, "stores, drops the connection", LOG, 0, DONE),
    ("an entry with an error instead of a reply", Request.PUT, "stores, 500", LOG, 0, DONE),
    ("an entry that meets another request", Request.PUT, "409", LOG, 0, DONE),
    ("an entry that is refused once", Request.PUT, "403", LOG, 0, DONE),
    ("a copy whose reply is lost", Request.COPY, "stores, drops the connection", "", 1, DONE),
    ("a copy that fails behind its status", Request.COPY, "200 with an error inside", "", 0, DONE),
    ("a copy that is refused", Request.COPY, "403", "", 1, DONE),
    ("a torn listing", Request.LIST, "torn body", "", 2, DONE),
    ("deletions that are refused", Request.DELETE_MANY, "403", "", 0, None),
]  # fmt: skip
"""What happens, to which request of which key, after how many that go well; and whether the job must
succeed."""


@pytest.mark.slow
@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize("mode", [APPEND, OVERWRITE], ids=["append", "overwrite"])
@pytest.mark.parametrize(
    ("request_", "fault", "key", "skip", "told"), [row[1:] for row in SAMPLE], ids=[row[0] for row in SAMPLE]
)
def test_a_fault_at_one_request(place, mode, request_, fault, key, skip, told):
    place.server.inject(request_, fault, key=key, skip=skip)
    error = attempt(place, mode)
    assert error is None or not told
    # Old files that the store keeps are deleted with the next job.
    place.check(mode, error, in_place=request_ is not Request.DELETE_MANY)


def requests_of(mode):
    """How many requests of each kind a job makes that nothing happens to."""
    with fault_server() as server:
        place = Place(server)
        place.save(mode, NEW)
        return dict(server.requests)


AT_EACH = ["stores, drops the connection", "403", "409", "torn body", "404"]


@pytest.mark.nightly
@pytest.mark.parametrize("mode", [APPEND, OVERWRITE], ids=["append", "overwrite"])
@pytest.mark.parametrize("times", [1, math.inf], ids=["once", "from then on"])
@pytest.mark.parametrize("fault", AT_EACH)
def test_a_fault_at_each_request(mode, times, fault):
    tried = 0
    for request, count in requests_of(mode).items():
        if (request, fault) == (Request.DELETE_MANY, "404"):
            continue  # what is not there need not be deleted: a store that lies about that keeps old files
        for skip in range(count):
            with fault_server() as server:
                place = Place(server)
                server.inject(request, fault, skip=skip, times=times)
                try:
                    place.check(mode, attempt(place, mode), in_place=False)
                except Exception as error:
                    error.add_note(f"{fault} at request {skip + 1} of kind {request.name}")
                    raise
                tried += 1
    assert tried > 10


def test_the_faults_are_those_of_the_server():
    assert {*AT_EACH, *(row[2] for row in SAMPLE)} <= set(FAULTS)


@contextlib.contextmanager
def moved(place):
    """The table on a store that writes an object although one is there, where the request says that it must not."""
    _proven.clear()  # an earlier server may have had the same port
    with fault_server() as server:
        server.objects.conditional = False
        yield Place(server, moved_from=place)


def plan_a_batch(place, jobid):
    make_staging(Staging(TableDirectory(place.storage, place.root), jobid))
    staging = Staging(TableDirectory(place.storage, place.root), jobid)
    plan_batch(staging, CommitIntent(APPEND, query=Batch("query", 0)))


def expire_running(place, _):
    vacuum(TableDirectory(place.storage, place.root), older_than=0)


def plan_of(mode):
    return lambda place, _: plan_job(place.root, mode, storage=place.storage)


DECISIONS = {mode.value: plan_of(mode) for mode in WriteMode} | {
    "a batch of a stream": plan_a_batch,
    "vacuum": expire_running,
}
"""All that puts an entry at the end of the log."""


@pytest.mark.slow
@pytest.mark.parametrize("decide", DECISIONS.values(), ids=DECISIONS)
def test_a_table_that_was_moved_to_a_store_that_replaces_is_not_written_to(place, decide):
    """Two writers would both be told of their commit: of two compactions each row is there twice."""
    plan = plan_job(place.root, APPEND, storage=place.storage)
    place.stage(plan, "new")
    with moved(place) as elsewhere:
        before = elsewhere.plain(), elsewhere.entries()
        with pytest.raises(
            UnsupportedError, match=r"does not refuse to write an object that is there already.*copy them"
        ):
            decide(elsewhere, plan.staging.jobid)
        assert before == (elsewhere.plain(), elsewhere.entries())
    decide(place, plan.staging.jobid)


@pytest.mark.slow
def test_an_abort_on_a_store_that_replaces_keeps_what_is_staged(place, caplog):
    plan = plan_job(place.root, APPEND, storage=place.storage)
    place.stage(plan, "new")
    with moved(place) as elsewhere:
        abort(replace(plan, staging=Staging(TableDirectory(elsewhere.storage, place.root), plan.staging.jobid)))
        assert "does not refuse to write" in caplog.text
        assert 2 == len([key for key in elsewhere.server.objects.data() if "_ipc_stage" in key]), "and the mark"


@pytest.mark.slow
def test_a_process_asks_a_bucket_once(place):
    _proven.clear()
    counts = []
    for _ in range(2):
        place.server.reset_counts()
        plan_job(place.root, APPEND, storage=place.storage)
        counts.append(place.server.requests[Request.PUT])
    assert [2, 1] == counts, "the mark, and what the store is asked by"
