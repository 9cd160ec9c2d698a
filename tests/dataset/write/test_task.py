"""A task's rows become one staged file, or none."""

import pickle
from pathlib import Path

import pytest

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import RecordBatch, Schema, types
from spark_arrow_ipc.arrow.types import field
from spark_arrow_ipc.dataset.write.staged_file import SinkOptions, Staging
from spark_arrow_ipc.dataset.write.task import write_empty, write_task
from spark_arrow_ipc.errors import CommitError
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.table.names import TableDirectory

pa = pytest.importorskip("pyarrow")

SCHEMA = Schema.of([field("a", types.int64), field("b", types.utf8)])


def batch(first, rows):
    values = range(first, first + rows)
    return RecordBatch.from_pydict({"a": list(values), "b": [f"text {i}" for i in values]}, SCHEMA)


def left_in(staging):
    return [path.name for path in Path(staging.path).iterdir()]


@pytest.fixture
def staging(tmp_path):
    made = Staging(TableDirectory(LOCAL, str(tmp_path)), "job1")
    Path(made.path).mkdir(parents=True)
    return made


@pytest.mark.parametrize(("kind", "extension"), [("file", ".arrow"), ("stream", ".arrows")])
@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_rows_arrive_in_one_staged_file(staging, kind, extension, compression):
    options = SinkOptions(ipc.WriteOptions(format=kind, compression=compression), record_batch_rows=40)
    output = write_task(
        staging, iter([batch(0, 50), batch(50, 0), batch(50, 25)]), SCHEMA, partition_id=7, options=options
    )
    (staged,) = output.files
    path = staging.file(staged.staged)
    assert ("job1", 75, Path(path).stat().st_size) == (output.jobid, staged.rows, staged.nbytes)
    assert [staged.staged] == left_in(staging)
    assert ("", 7, extension) == (staged.directory, staged.task, staged.suffix)
    opened = pa.ipc.open_file(path) if kind == "file" else pa.ipc.open_stream(path)
    read = opened.read_all()
    assert [*range(75)] == read.column("a").to_pylist()
    assert [f"text {i}" for i in range(75)] == read.column("b").to_pylist()
    if kind == "file":
        assert [40, 35] == [opened.get_batch(i).num_rows for i in range(opened.num_record_batches)]


@pytest.mark.parametrize("batches", [[], [batch(0, 0), batch(0, 0)]], ids=["no batch", "empty batches"])
def test_task_without_rows_writes_no_file(staging, batches):
    assert () == write_task(staging, batches, SCHEMA, partition_id=0).files
    assert [] == left_in(staging)


def test_empty_file_carries_the_schema(staging):
    staged = write_empty(staging, SCHEMA)
    assert 0 == staged.rows
    assert SCHEMA.names == tuple(pa.ipc.open_file(staging.file(staged.staged)).schema.names)


def test_message_to_the_driver_is_small(staging):
    output = write_task(staging, [batch(0, 5)], SCHEMA, partition_id=3)
    assert len(pickle.dumps(output)) < 450
    assert output == pickle.loads(pickle.dumps(output))


class Stop(BaseException):
    """As a killed task raises."""


@pytest.mark.parametrize("error", [RuntimeError, Stop, KeyboardInterrupt])
def test_error_in_the_task_removes_its_file(staging, error):
    def batches():
        yield batch(0, 100)
        yield batch(100, 100)
        raise error

    with pytest.raises(error):
        write_task(staging, batches(), SCHEMA, partition_id=0, options=SinkOptions(record_batch_rows=10))
    assert [] == left_in(staging)


def test_task_left_over_from_an_ended_job_does_not_bring_its_directory_back(staging):
    Path(staging.path).rmdir()
    with pytest.raises(CommitError, match=r"not shared between the driver and the\s+executors.*or the job ended"):
        write_task(staging, [batch(0, 5)], SCHEMA, partition_id=0)
    assert not Path(staging.path).exists()
