"""The staging directory of a job: paths, and pickling to tasks."""

import pickle

from spark_arrow_ipc.dataset.commit_log.dataset_directory import DatasetDirectory
from spark_arrow_ipc.dataset.write.staged_file import Staging, missing_staging
from spark_arrow_ipc.storage.local import LOCAL

STAGING = Staging(DatasetDirectory(LOCAL, "/data/t"), "job1", durable=False)


def test_paths_of_a_job():
    assert (LOCAL.inside("/data/t"), "/data/t", "/data/t/_ipc_stage/job1") == (
        STAGING.storage,
        STAGING.root,
        STAGING.directory,
    )
    assert "/data/t/_ipc_stage/job1/a.staged" == STAGING.path("a.staged")


def test_it_is_pickled_to_tasks():
    assert STAGING == pickle.loads(pickle.dumps(STAGING))


def test_a_missing_directory_is_explained_with_its_path():
    error = missing_staging(STAGING.directory)
    assert STAGING.directory == error.path
    assert "not shared between the driver and the executors" in str(error)
