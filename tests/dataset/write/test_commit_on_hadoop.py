"""The commit on HDFS, as far as a stand-in for pyarrow's client shows it (`hadoop_stub`)."""

import threading
import uuid

import pytest
from hadoop_stub import HadoopStub
from job_plans import plan_job
from listed_files import list_files

from spark_arrow_ipc.dataset.commit_log.dataset_directory import DatasetDirectory, StagedFile
from spark_arrow_ipc.dataset.commit_log.log import newest_record
from spark_arrow_ipc.dataset.write import WriteMode
from spark_arrow_ipc.dataset.write.commit import abort, commit
from spark_arrow_ipc.dataset.write.task import TaskOutput
from spark_arrow_ipc.dataset.write.vacuum import vacuum
from spark_arrow_ipc.storage.hadoop import HadoopStorage
from spark_arrow_ipc.storage.paths import join

ROOT = "hdfs://nn:8020/lake/t"


@pytest.fixture
def stub(tmp_path):
    return HadoopStub(tmp_path)


@pytest.fixture
def storage(stub):
    return HadoopStorage(connection=lambda root, options: stub)


def stage(plan, content, directory=""):
    attempt = uuid.uuid4().hex
    with plan.staging.storage.create(plan.staging.path(f"{attempt}.staged")) as file:
        file.write(content)
    final = join(directory, f"part-{attempt}.arrow")
    return StagedFile(f"{attempt}.staged", final, len(content), len(content), 0)


def staged(storage, mode, *contents):
    plan = plan_job(ROOT, mode, storage=storage)
    files = tuple(stage(plan, text.encode(), directory) for directory, _, text in (c.rpartition(":") for c in contents))
    return plan, [TaskOutput(plan.staging.jobid, files)]


def save(storage, mode, *contents):
    plan, outputs = staged(storage, mode, *contents)
    return commit(plan, outputs, write_empty=lambda: stage(plan, b"empty"))


def rows(storage):
    files = list_files([ROOT], recursive=True, storage=storage)
    return sorted(storage.read(file.place(storage), 100).decode() for file in files)


def names(storage, directory):
    return sorted(status.path for status in storage.list(f"{ROOT}/{directory}"))


def test_appends_and_overwrites_are_read_as_they_were_written(storage):
    save(storage, WriteMode.APPEND, "k=1:a", "k=2:b")
    save(storage, WriteMode.APPEND, "k=1:c")
    assert ["a", "b", "c"] == rows(storage)
    save(storage, WriteMode.DYNAMIC, "k=1:d")
    assert ["b", "d"] == rows(storage)
    save(storage, WriteMode.OVERWRITE, "e")
    assert ["e"] == rows(storage)
    assert [] == names(storage, "_ipc_stage")
    assert not [path for path in names(storage, "_ipc_commits") if path.endswith(".staged")]


def test_a_job_that_is_given_up_leaves_nothing(storage):
    save(storage, WriteMode.APPEND, "a")
    plan, _ = staged(storage, WriteMode.APPEND, "b")
    assert abort(plan.staging)
    assert ["a"] == rows(storage)
    assert [] == names(storage, "_ipc_stage")


def test_of_jobs_at_once_none_is_lost(storage):
    """Four writers, whose records need numbers of one chain; pyarrow's rename alone would replace one by the other."""
    save(storage, WriteMode.APPEND, "first")
    start, failed = threading.Barrier(4), []

    def write(me):
        start.wait()
        try:
            for i in range(3):
                save(storage, WriteMode.APPEND, f"{me}-{i}")
        except BaseException as error:  # noqa: BLE001 - told below
            failed.append(str(error))

    threads = [threading.Thread(target=write, args=(me,)) for me in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [] == failed
    assert sorted(["first", *(f"{me}-{i}" for me in range(4) for i in range(3))]) == rows(storage)
    assert 13 == newest_record(DatasetDirectory(storage, ROOT))[0].seq


def test_a_job_whose_renames_fail_is_finished_by_the_next(stub, storage):
    save(storage, WriteMode.APPEND, "a")
    plan, outputs = staged(storage, WriteMode.APPEND, "b")

    def refuse(source, target):
        if target.endswith(".arrow"):
            raise OSError(255, "no datanode")

    stub.before_move = refuse
    commit(plan, outputs, write_empty=None)
    assert ["a", "b"] == rows(storage), "the record counts, wherever its files are"
    stub.before_move = lambda *_: None
    save(storage, WriteMode.APPEND, "c")
    assert ["a", "b", "c"] == rows(storage)


def test_vacuum_removes_what_a_record_that_was_never_moved_left(storage):
    save(storage, WriteMode.APPEND, "a")
    left = f"{ROOT}/_ipc_commits/{uuid.uuid4().hex}.staged"
    storage.make_directory(left)
    storage.put(f"{left}/00000000000000000002.json", b"{}")
    assert () == vacuum(ROOT, storage=storage).files, "it is young"
    assert (left,) == vacuum(ROOT, storage=storage, older_than_seconds=0).files
    assert storage.status(left) is None
    assert ["a"] == rows(storage)
