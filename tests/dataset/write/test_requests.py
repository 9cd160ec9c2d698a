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
        abort(job.staging)
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
    # Is the directory there, its records, and those of the directory above: the bucket.
    assert {"LIST": 3} == plan
    assert TASKS == tasks
    # The record, the mark that it is applied, and _SUCCESS are put; the record before and its mark are read, and both
    # records once more, to see that the chain is still the same; the files are listed and the mark is read before the
    # staged files go.
    assert {"PUT": 3, "GET": 5, "COPY": FILES, "DELETE_MANY": 1, "LIST": 16} == end
    assert 2 * FILES == files(server)


@pytest.mark.slow
def test_a_process_asks_once_whether_the_store_keeps_what_is_there(server, batch):
    first, _, _ = run(server, WriteMode.APPEND, batch)
    assert 2 == first["PUT"], "what is asked for is made"
    _proven.clear()
    another_process, _, _ = run(server, WriteMode.APPEND, batch)
    assert {"LIST": 3, "PUT": 1} == another_process


@pytest.mark.slow
def test_records_that_are_kept_cost_one_request_and_no_longer_listings(server, batch):
    run(server, WriteMode.APPEND, batch, commit_retention=60)
    _, _, end = run(server, WriteMode.APPEND, batch)
    assert {"PUT": 4, "GET": 5, "COPY": FILES, "DELETE_MANY": 1, "LIST": 16} == end
    _, _, end = run(server, WriteMode.APPEND, batch, commit_retention=60)
    assert {"PUT": 4, "GET": 6, "COPY": FILES, "DELETE_MANY": 1, "LIST": 16} == end, "the setting is read"


@pytest.mark.slow
def test_an_overwrite_of_as_many_files(server, batch):
    run(server, WriteMode.APPEND, batch)
    plan, tasks, end = run(server, WriteMode.OVERWRITE, batch)
    assert {"LIST": 6, "GET": 2} == plan
    assert TASKS == tasks
    assert {"PUT": 4, "GET": 7, "COPY": FILES, "DELETE_MANY": 3, "LIST": 19} == end
    assert FILES == files(server)


@pytest.mark.slow
def test_an_abort(server, batch):
    run(server, WriteMode.APPEND, batch)
    plan, tasks, end = run(server, WriteMode.APPEND, batch, ends=abort)
    assert {"LIST": 3} == plan
    assert TASKS == tasks
    assert 2 == end["PUT"], "a record that withdraws the job, and its mark"
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
            abort(job.staging)
    assert asked[1] + 3 == asked[3]


@pytest.mark.slow
def test_the_first_job_looks_once_more_for_other_data_sets_before_its_record(server, batch):
    with mock.patch.object(commit_module, "check_alone"):
        _, _, without = run(server, WriteMode.APPEND, batch)
    ObjectStorage(tuple(server.options.items())).delete_tree(ROOT)
    _, _, first = run(server, WriteMode.APPEND, batch)
    # The records of the bucket, what is staged there, and the directory itself.
    assert {**without, "LIST": without["LIST"] + 3} == first
