"""Modules leave the garbage collector once a worker, and nowhere else."""

import gc

import pyarrow as pa
import pytest

from spark_arrow_ipc.spark import worker_process


def frozen_in_tasks(spark, tasks):
    def count(batches):
        from spark_arrow_ipc.spark import worker_process as here

        here.settle()
        before = gc.get_freeze_count()
        here.settle()
        for _ in batches:
            pass
        yield pa.RecordBatch.from_pydict({"frozen": [before], "again": [gc.get_freeze_count() - before]})

    return spark.range(tasks, numPartitions=tasks).mapInArrow(count, "frozen long, again long").collect()


def test_a_worker_is_settled_once(spark):
    found = frozen_in_tasks(spark, 4)
    assert all(row.frozen > 10_000 for row in found)
    assert all(row.again <= 0 for row in found), "frozen objects may be freed, and none is added"


@pytest.fixture
def unsettled():
    before = gc.get_freeze_count()
    yield
    assert gc.get_freeze_count() == before


@pytest.mark.usefixtures("unsettled")
def test_a_process_that_runs_no_task_is_left_alone():
    worker_process.settle()
