"""A file that cannot be written says which one it is, and how much there was room for."""

import contextlib
import errno
import os
import pickle
import resource
from pathlib import Path

import numpy as np
import pytest
from job_plans import plan_job

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import RecordBatch, Schema, types
from spark_arrow_ipc.cli.main import main
from spark_arrow_ipc.dataset.write import WriteMode, partitioned_task
from spark_arrow_ipc.dataset.write.commit import abort
from spark_arrow_ipc.dataset.write.partitioned_task import PartitionBy, write_partitioned
from spark_arrow_ipc.dataset.write.task import write_task
from spark_arrow_ipc.storage.byte_source import DEVICE_ERRORS, open_named
from spark_arrow_ipc.storage.local import LOCAL

SCHEMA = Schema.of([types.field("k", types.int32), types.field("n", types.int64)])
NOISE = np.random.default_rng(1)


@contextlib.contextmanager
def files_of_at_most(nbytes):
    """Let the kernel refuse to make any file of this process longer."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def batch(rows):
    numbers = NOISE.integers(-(2**62), 2**62, rows).tolist()
    return RecordBatch.from_pydict({"k": [i % 50 for i in range(rows)], "n": numbers}, SCHEMA)


def by_task(staging):
    write_task(staging, [batch(20_000)], SCHEMA, partition_id=0)


def by_partitions(staging):
    write_partitioned(staging, [batch(40_000)] * 3, SCHEMA, PartitionBy((0,)), partition_id=0)


ERRORS = {
    # what is opened, and the error of a write to it
    "the kernel's device that is always full": ("/dev/full", os.O_WRONLY, errno.ENOSPC, r"No space left on device after 0 bytes of this file, with [\d,]+ bytes free"),
    "a file that is open for reading": ("/dev/null", os.O_RDONLY, errno.EBADF, "Bad file descriptor"),
}  # fmt: skip


@pytest.mark.parametrize(("path", "flags", "number", "words"), ERRORS.values(), ids=ERRORS)
def test_an_error_of_write_has_the_name_of_the_file(path, flags, number, words):
    file = open_named(os.open(path, flags), "/data/x.arrow")
    with pytest.raises(OSError, match=rf"^\[Errno {number}\] {words}: '/data/x.arrow'$") as caught:
        file.write(bytes(100_000))
    error = pickle.loads(pickle.dumps(caught.value))
    assert (number, "/data/x.arrow") == (error.errno, error.filename)
    with contextlib.suppress(OSError):
        file.close()


@pytest.mark.parametrize("write", [by_task, by_partitions])
def test_a_task_without_room_says_that_nothing_is_lost(tmp_path, monkeypatch, write):
    monkeypatch.setattr(partitioned_task, "_BUFFER_NBYTES", 1 << 10)  # each batch is spilled
    plan = plan_job(tmp_path / "t", WriteMode.APPEND)
    staging = plan.staging
    words = (
        r"^\[Errno 27\] File too large after 65,536 bytes of this file, with [\d,]+ bytes free; what this task has written is "
        r"removed, nothing of the job is visible, and no file that was there is changed: write smaller files .*"
        rf", and write again: '{staging.path}.*'$"
    )
    with files_of_at_most(1 << 16), pytest.raises(OSError, match=words):
        write(staging)
    assert [staging.directory.mark(staging.jobid)] == list(map(str, Path(staging.path).iterdir()))
    assert abort(plan)


@pytest.mark.slow
def test_every_error_of_a_device_is_told_by_a_task(tmp_path):
    """Where no such device is at hand, a file that fails as it would."""
    for number in DEVICE_ERRORS:
        staging = plan_job(tmp_path / str(number), WriteMode.APPEND).staging

        def failing(self, path, number=number):
            raise OSError(number, os.strerror(number), path)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(LOCAL), "create", failing)
            with pytest.raises(OSError, match=r"nothing of the job is visible.*and write again") as caught:
                by_task(staging)
        assert number == caught.value.errno


COMMANDS = {
    "concat": ["out.arrow"],
    "rewrite": ["out.arrow"],
    "repair": ["out.arrow"],
    "convert": ["out.arrows"],
    "convert to CSV": ["out.csv"],
    "convert to JSON lines": ["out.jsonl"],
    "convert to Parquet": ["out.parquet"],
    "split": ["--rows", "15000", "out"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_without_room_is_one_line_with_the_name_and_leaves_nothing(tmp_path, capsys, command):
    source, *options, target = "in.arrow", *COMMANDS[command]
    with ipc.create(tmp_path / source, SCHEMA) as writer:
        writer.write(batch(20_000))
    with files_of_at_most(1 << 16):
        status = main([command.split()[0], *options, str(tmp_path / source), str(tmp_path / target)])
    out, err = capsys.readouterr()
    assert (1, "", 1) == (status, out, len(err.splitlines()))
    assert "File too large after 65,536 bytes of this file, with" in err
    assert f"'{tmp_path / target}" in err
    assert [source] == [path.name for path in tmp_path.rglob("*") if path.is_file()]
