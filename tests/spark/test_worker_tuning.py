"""In Spark's processes, and nowhere else, modules leave the garbage collector and freed memory is kept."""

import gc
import os
import platform
import resource

import arrow_files
import numpy as np
import pyarrow as pa
import pytest

from spark_arrow_ipc.spark import process
from spark_arrow_ipc.spark.datasource import ArrowIpcDataSource


def frozen_in_tasks(spark, tasks):
    def count(batches):
        from spark_arrow_ipc.spark import process as here

        here.tune_worker()
        before = gc.get_freeze_count()
        here.tune_worker()
        for _ in batches:
            pass
        yield pa.RecordBatch.from_pydict({"frozen": [before], "again": [gc.get_freeze_count() - before]})

    return spark.range(tasks, numPartitions=tasks).mapInArrow(count, "frozen long, again long").collect()


def test_a_worker_is_tuned_once(spark):
    found = frozen_in_tasks(spark, 4)
    assert all(row.frozen > 10_000 for row in found)
    assert all(row.again <= 0 for row in found), "frozen objects may be freed, and none is added"


def test_a_planner_is_tuned(spark, tmp_path):
    note = tmp_path / "note"

    class Noting(ArrowIpcDataSource):  # in here, so that Spark's processes need not import this module
        @classmethod
        def name(cls):
            return "arrowipc_noting"

        def schema(self):
            found = super().schema()
            note.write_text(str(gc.get_freeze_count()))
            return found

    arrow_files.write(tmp_path / "a.arrow", pa.table({"n": [1]}))
    spark.dataSource.register(Noting)
    spark.read.format("arrowipc_noting").load(str(tmp_path / "a.arrow"))
    assert int(note.read_text()) > 10_000


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc's allocator is told what to keep")
def test_freed_memory_is_kept(spark):
    def count(batches):
        from spark_arrow_ipc.spark import process as here

        here.tune_worker()
        faults = []
        for _ in range(3):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            np.ones(2 << 20, np.int8)
            faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
        for _ in batches:
            pass
        yield pa.RecordBatch.from_pydict({"faults": [faults[-1]]})

    row = spark.range(1, numPartitions=1).mapInArrow(count, "faults long").first()
    assert row.faults < (2 << 20) // os.sysconf("SC_PAGE_SIZE") // 4


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc's allocator is told what to keep")
@pytest.mark.parametrize("variable", ["", "mimalloc"])
def test_pyarrow_shares_the_allocator(spark, variable):
    def pool(batches):
        from spark_arrow_ipc.spark import process as here

        pa.set_memory_pool(pa.mimalloc_memory_pool())
        os.environ["ARROW_DEFAULT_MEMORY_POOL"] = variable
        here._retain_memory()
        yield from (pa.RecordBatch.from_pydict({"name": [pa.default_memory_pool().backend_name]}) for _ in batches)
        del os.environ["ARROW_DEFAULT_MEMORY_POOL"]

    assert (variable or "system") == spark.range(1, numPartitions=1).mapInArrow(pool, "name string").first().name


@pytest.fixture
def unsettled():
    before = gc.get_freeze_count()
    yield
    assert gc.get_freeze_count() == before


@pytest.mark.slow
@pytest.mark.usefixtures("unsettled")
def test_a_process_that_runs_no_task_is_left_alone():
    process.tune_worker()
