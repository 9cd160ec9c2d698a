"""How large a file may be: as asked for where a storage renames, what it copies at once elsewhere."""

import pytest
from memory_storage import MemoryStorage

from spark_arrow_ipc.dataset.commit_log.dataset_directory import DatasetDirectory
from spark_arrow_ipc.dataset.write.publisher import (
    DEFAULT_COPIED_NBYTES,
    MAX_COPIED_NBYTES,
    CopyPublisher,
    RenamePublisher,
    max_file_nbytes,
)
from spark_arrow_ipc.errors import CommitError
from spark_arrow_ipc.storage.storage import Traits

CASES = [
    (True, None, None), (True, 7, 7), (True, MAX_COPIED_NBYTES + 1, MAX_COPIED_NBYTES + 1),
    (False, None, DEFAULT_COPIED_NBYTES), (False, 7, 7), (False, MAX_COPIED_NBYTES, MAX_COPIED_NBYTES),
]  # fmt: skip


@pytest.mark.parametrize(("renames", "asked", "expected"), CASES)
def test_the_limit_of_a_storage(renames, asked, expected):
    assert expected == max_file_nbytes(Traits(directories=False, renames=renames), asked)


def check(root, path, nbytes):
    CopyPublisher(DatasetDirectory(MemoryStorage(renames=False), root)).check([(path, nbytes)])


def test_a_file_that_became_too_large_is_not_committed():
    check("memory:/data", "part-0.arrow", MAX_COPIED_NBYTES)
    with pytest.raises(CommitError, match=r"part-0.arrow has 5,000,000,001 bytes.*nothing is published"):
        check("memory:/data", "part-0.arrow", MAX_COPIED_NBYTES + 1)
    RenamePublisher(DatasetDirectory(MemoryStorage(), "memory:/data")).check([("0.arrow", MAX_COPIED_NBYTES + 1)])


def test_a_name_that_no_object_can_have_is_not_committed(monkeypatch):
    monkeypatch.setattr(MemoryStorage, "resolve", lambda _, path: path)
    root = "s3://bucket/a"
    check(root, "k" * 1022, 1)
    check("/data/a", "k" * 1023, 1)
    for path in ("k" * 1023, "k=\u00e9/" * 205):
        with pytest.raises(CommitError, match=r"is too long here.*1,024 bytes.*nothing is published"):
            check(root, path, 1)
