"""How large a file may be: as asked for where a storage renames, what it copies at once elsewhere."""

import pytest
from memory_storage import MemoryStorage

from spark_arrow_ipc.dataset.write import commit
from spark_arrow_ipc.dataset.write.staged_file import MAX_COPIED_NBYTES, max_file_nbytes
from spark_arrow_ipc.errors import CommitError, OptionError
from spark_arrow_ipc.storage.storage import Traits
from spark_arrow_ipc.table.files import StagedFile
from spark_arrow_ipc.table.names import TableDirectory

CASES = [
    (True, None, None), (True, 7, 7), (True, MAX_COPIED_NBYTES + 1, MAX_COPIED_NBYTES + 1),
    (False, None, MAX_COPIED_NBYTES), (False, 7, 7), (False, MAX_COPIED_NBYTES, MAX_COPIED_NBYTES),
]  # fmt: skip


@pytest.mark.parametrize(("renames", "asked", "expected"), CASES)
def test_the_limit_of_a_storage(renames, asked, expected):
    assert expected == max_file_nbytes(Traits(directories=False, renames=renames), asked)


def test_a_limit_above_what_can_be_copied_is_refused():
    with pytest.raises(OptionError, match=r"maxFileBytes of at most 5,000,000,000 .* found 5,000,000,001"):
        max_file_nbytes(Traits(directories=False, renames=False), MAX_COPIED_NBYTES + 1)


def check(root, path, nbytes):
    directory, _, name = path.rpartition("/")
    file = StagedFile("0.staged", directory, name, nbytes, 1, 0)
    commit._check_keys(TableDirectory(MemoryStorage(renames=False), root), [file])


def test_a_file_that_became_too_large_is_not_committed():
    check("memory:/data", "part-0.arrow", MAX_COPIED_NBYTES)
    with pytest.raises(CommitError, match=r"part-0.arrow has 5,000,000,001 bytes.*nothing is published"):
        check("memory:/data", "part-0.arrow", MAX_COPIED_NBYTES + 1)


def test_a_name_that_no_object_can_have_is_not_committed(monkeypatch):
    monkeypatch.setattr(MemoryStorage, "resolve", lambda _, path: path)
    root = "s3://bucket/a"
    check(root, "k" * 1022, 1)
    check("/data/a", "k" * 1023, 1)
    for path in ("k" * 1023, "k=\u00e9/" * 204 + "x" * 10):
        with pytest.raises(CommitError, match=r"is too long here.*1,024 bytes.*nothing is published"):
            check(root, path, 1)
