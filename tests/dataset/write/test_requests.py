"""What a job asks of an object store, in requests: docs/object_stores.md sums them up.

The store is the tests' own server, so that what the library asks for is counted and not what is asked of it.
"""

from unittest import mock

import pytest
from fault_server import BUCKET, fault_server
from job_plans import plan_job

from spark_arrow_ipc import ipc
from spark_arrow_ipc.dataset.write import WriteMode
from spark_arrow_ipc.dataset.write import commit as commit_module
from spark_arrow_ipc.dataset.write.commit import abort, commit
from spark_arrow_ipc.dataset.write.staged_file import SinkOptions
from spark_arrow_ipc.dataset.write.task import write_task
from spark_arrow_ipc.storage.object_store import ObjectStorage, _proven

pa = pytest.importorskip("pyarrow")

FILES = 10
ROOT = f"s3://{BUCKET}/lake"


@pytest.fixture
def server():
    with fault_server() as started:
        yield started


@pytest.fixture
def batch():
    table = pa.table({"a": range(1_000)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    with ipc.open(sink.getvalue().to_pybytes()) as reader:
        return next(iter(reader))


def requests(server):
    return {kind.name: count for kind, count in server.requests.items() if count}


def run(server, mode, batch, *, ends=commit, **options):
    """Run a job of `FILES` tasks; return what the plan, the tasks and the end asked for."""
    storage = ObjectStorage(tuple(server.options.items()))
    asked = []
    server.reset_counts()
    job = plan_job(ROOT, mode, storage=storage, **options)
    asked.append(requests(server))
    server.reset_counts()
    outputs = [
        write_task(job.staging, iter([batch]), batch.schema, partition_id=i, options=SinkOptions())
        for i in range(FILES)
    ]
    asked.append(requests(server))
    server.reset_counts()
    if ends is commit:
        commit(job, outputs, write_empty=None, fits=lambda _: True)
    else:
        abort(job)
    return [*asked, requests(server)]


def files(server):
    return len(
        [status for status in ObjectStorage(tuple(server.options.items())).list(ROOT) if status.path.endswith(".arrow")]
    )


TASKS = {"PUT": FILES, "GET": FILES}
"""A task writes a file by one request, and reads its end by another."""


@pytest.mark.slow
def test_an_append(server, batch):
    run(server, WriteMode.APPEND, batch)
    plan, tasks, end = run(server, WriteMode.APPEND, batch)
    # Is the directory there, the log, and that of the directory above: the bucket. The id is read twice, and the entry; the
    # mark is put, and looked at.
    assert {"LIST": 3, "GET": 3, "PUT": 1, "HEAD": 1} == plan
    assert TASKS == tasks
    # The entry and _SUCCESS are put. The log is read four times: the id, a listing, and the entries that were not read yet, or
    # the newest one.
    assert {"PUT": 2, "GET": 8, "COPY": FILES, "DELETE_MANY": 2, "LIST": 9} == end
    assert 2 * FILES == files(server)


@pytest.mark.slow
def test_each_entry_since_the_checkpoint_costs_a_request_of_the_plan_and_of_the_commit(server, batch):
    run(server, WriteMode.APPEND, batch)
    (plan, _, end), (next_plan, _, next_end) = (run(server, WriteMode.APPEND, batch) for _ in range(2))
    assert {**plan, "GET": plan["GET"] + 1} == next_plan
    assert {**end, "GET": end["GET"] + 1} == next_end


@pytest.mark.slow
def test_a_process_asks_once_whether_the_store_keeps_what_is_there(server, batch):
    first, _, _ = run(server, WriteMode.APPEND, batch)
    assert 4 == first["PUT"], "what is asked for is made, by two requests; the id and the mark"
    _proven.clear()
    another_process, _, _ = run(server, WriteMode.APPEND, batch)
    assert {"LIST": 3, "GET": 3, "PUT": 2, "HEAD": 1} == another_process


@pytest.mark.slow
def test_a_retention_costs_no_requests_of_an_append(server, batch):
    run(server, WriteMode.APPEND, batch)
    plan, tasks, end = run(server, WriteMode.APPEND, batch, retention=60)
    assert {"LIST": 3, "GET": 3, "PUT": 1, "HEAD": 1} == plan
    assert TASKS == tasks
    assert {"PUT": 2, "GET": 8, "COPY": FILES, "DELETE_MANY": 2, "LIST": 9} == end


@pytest.mark.slow
def test_an_overwrite_of_as_many_files(server, batch):
    run(server, WriteMode.APPEND, batch)
    plan, tasks, end = run(server, WriteMode.OVERWRITE, batch)
    assert {"LIST": 7, "GET": 6, "PUT": 1, "HEAD": 1} == plan
    assert TASKS == tasks
    assert {"PUT": 2, "GET": 10, "COPY": FILES, "DELETE_MANY": 3, "LIST": 9} == end
    assert FILES == files(server)


@pytest.mark.slow
def test_an_abort(server, batch):
    run(server, WriteMode.APPEND, batch)
    plan, tasks, end = run(server, WriteMode.APPEND, batch, ends=abort)
    assert {"LIST": 3, "GET": 3, "PUT": 1, "HEAD": 1} == plan
    assert TASKS == tasks
    assert 1 == end["PUT"], "an entry that expires the job"
    assert "COPY" not in end
    assert sum(end.values()) <= 20
    assert FILES == files(server)


@pytest.mark.slow
def test_each_directory_above_costs_one_request_that_does_not_wait_for_the_others(server, batch):
    storage = ObjectStorage(tuple(server.options.items()))
    asked = []
    for root in (ROOT, f"s3://{BUCKET}/a/b/c/lake"):
        for _ in range(2):
            server.reset_counts()
            job = plan_job(root, WriteMode.APPEND, storage=storage)
            asked.append(requests(server)["LIST"])
            abort(job)
    assert asked[1] + 3 == asked[3]


@pytest.mark.slow
def test_the_first_job_looks_once_more_for_other_tables_before_its_entry(server, batch):
    with mock.patch.object(commit_module, "check_alone"):
        _, _, without = run(server, WriteMode.APPEND, batch)
    ObjectStorage(tuple(server.options.items())).delete_tree(ROOT)
    _, _, first = run(server, WriteMode.APPEND, batch)
    # The records of the bucket, what is staged there, and the directory itself.
    assert {**without, "LIST": without["LIST"] + 3} == first
