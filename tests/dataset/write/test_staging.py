"""The staging directory of a job: paths, and pickling to tasks."""

import pickle

from spark_arrow_ipc.dataset.write.staged_file import Staging, missing_staging
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.table.names import TableDirectory

STAGING = Staging(TableDirectory(LOCAL, "/data/t"), "job1")


def test_paths_of_a_job():
    assert (LOCAL.inside("/data/t"), "/data/t", "/data/t/_ipc_stage/job1") == (
        STAGING.storage,
        STAGING.root,
        STAGING.path,
    )
    assert "/data/t/_ipc_stage/job1/a.staged" == STAGING.file("a.staged")


def test_it_is_pickled_to_tasks():
    assert STAGING == pickle.loads(pickle.dumps(STAGING))


def test_a_missing_directory_is_explained_with_its_path():
    error = missing_staging(STAGING.path)
    assert STAGING.path == error.path
    assert "not shared between the driver and the executors" in str(error)
