"""One attempt of a task: its rows, its report, and nothing of it if it fails."""

import sys

import arrow_files
import pyarrow as pa
import pytest
from pyspark import cloudpickle
from rewrite_jobs import Tasks

from spark_arrow_ipc import rewrite
from spark_arrow_ipc.spark.rewrite.job import RewriteTask
from spark_arrow_ipc.table.names import STAGED_SUFFIX

cloudpickle.register_pickle_by_value(sys.modules[__name__])


class StoppedError(Exception):
    """Ends a job with its task in hand."""


@pytest.fixture
def job(tmp_path, monkeypatch):
    """The tasks of a job that has not run any."""
    path = arrow_files.write(tmp_path / "a.arrow", pa.table({"id": range(100)}), rows=10)
    tasks = Tasks()

    def make(function=None, **options):
        monkeypatch.setattr("spark_arrow_ipc.dataset.write.commit.abort", lambda _: None)

        def stop(*_):
            raise StoppedError

        tasks.before = stop
        with pytest.raises(StoppedError):
            rewrite(tasks, path, tmp_path / "t", function, **options)
        run = cloudpickle.loads(tasks.run)
        return run._task, tasks.parts

    return make


def staged(task):
    files = task.staging.storage.list(task.staging.path)
    return [file for file in files if file.path.endswith(STAGED_SUFFIX)]


def test_two_attempts_make_files_of_their_own_and_report_them(job):
    task, (part,) = job()
    first, second = task.run(part), task.run(part)
    assert isinstance(task, RewriteTask)
    assert (0, 100, 100) == (first.number, first.rows_read, first.output.files[0].rows)
    assert first.output.files[0].staged != second.output.files[0].staged
    assert 2 == len(staged(task))


def dies(batches):
    for batch in batches:
        yield batch.slice(0, 1)
        raise ValueError("half of it")


def test_an_attempt_that_fails_leaves_nothing_and_closes_its_file(job):
    task, (part,) = job(dies, recordBatchRows=1)
    with pytest.raises(ValueError, match="half of it"):
        task.run(part)
    assert [] == staged(task)
