"""One staged file: verified before it is reported, and deleted on any error."""

import os
import zlib
from pathlib import Path

import pytest

from spark_arrow_ipc.arrow import RecordBatch, Schema, types
from spark_arrow_ipc.arrow.types import field
from spark_arrow_ipc.dataset.write import staged_file
from spark_arrow_ipc.dataset.write.staged_file import Staging
from spark_arrow_ipc.dataset.write.task import write_task
from spark_arrow_ipc.errors import CommitError
from spark_arrow_ipc.storage.local import LOCAL, LocalStorage
from spark_arrow_ipc.table.names import TableDirectory

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


@pytest.mark.slow
def test_checksum_covers_the_end_of_the_file(staging):
    (staged,) = write_task(staging, [batch(0, 20_000)], SCHEMA, partition_id=0).files
    assert zlib.crc32(Path(staging.file(staged.staged)).read_bytes()[-65536:]) == staged.crc32


def test_two_attempts_of_one_task_have_names_of_their_own(staging):
    outputs = [write_task(staging, [batch(0, 5)], SCHEMA, partition_id=3) for _ in range(2)]
    assert 2 == len({output.files[0].staged for output in outputs}) == len(left_in(staging))


FAULTS = [(LocalStorage, "sync_file"), (staged_file, "_verify"), (staged_file, "tail_crc32")]


@pytest.mark.parametrize(("place", "call"), FAULTS, ids=[call for _, call in FAULTS])
def test_error_of_the_file_system_removes_the_file(staging, monkeypatch, place, call):
    def refuse(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(place, call, refuse)
    with pytest.raises(OSError, match="No space left"):
        write_task(staging, [batch(0, 5)], SCHEMA, partition_id=0)
    assert [] == left_in(staging)


def test_file_that_is_not_what_was_written_is_not_reported(staging, monkeypatch):
    real = os.fsync

    def cut(descriptor):
        real(descriptor)
        os.truncate(descriptor, 100)

    monkeypatch.setattr(os, "fsync", cut)
    with pytest.raises(CommitError, match=r"expected a finished file of .* bytes, found 100 bytes"):
        write_task(staging, [batch(0, 5)], SCHEMA, partition_id=0)
    assert [] == left_in(staging)
