"""The visible files of a dataset: sorted, with those of partitions, and nothing else."""

import pickle

import pytest
from commit_jobs import dataset

from spark_arrow_ipc.dataset.write.live_files import LiveFile, live_files, shown
from spark_arrow_ipc.errors import NoFilesError, UnsupportedError


def fill(root, *names):
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(name.encode())


def test_visible_files_are_those_of_the_dataset_and_its_partitions(tmp_path):
    fill(tmp_path, "b", "a", "k=1/j=2/c", "_k=3/d", "sub/hidden", "_SUCCESS", ".x", "e.staged", "k=1/_y")
    files = live_files(dataset(tmp_path))
    assert ["_k=3/d", "a", "b", "k=1/j=2/c"] == [file.path for file in files]
    status = (tmp_path / "k=1/j=2/c").stat()
    assert LiveFile("k=1/j=2/c", status.st_size, status.st_mtime_ns) == files[-1]
    assert files == pickle.loads(pickle.dumps(files))


def test_only_the_given_directories_are_listed(tmp_path):
    fill(tmp_path, "a", "k=1/b", "k=1/j=1/c", "k=2/d")
    assert ["k=1/b"] == [file.path for file in live_files(dataset(tmp_path), {"k=1", "k=9"})]
    assert ["a"] == [file.path for file in live_files(dataset(tmp_path), {""})]


def test_links_that_an_overwrite_would_follow_are_refused(tmp_path):
    fill(tmp_path, "elsewhere/x", "data/a")
    (tmp_path / "data" / "k=1").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnsupportedError, match=r"k=1.*does not follow links"):
        live_files(dataset(tmp_path / "data"))
    (tmp_path / "data" / "k=1").unlink()
    (tmp_path / "data" / "b").symlink_to(tmp_path / "absent")
    with pytest.raises(NoFilesError, match="leads to nothing"):
        live_files(dataset(tmp_path / "data"))


def test_a_dataset_that_does_not_exist_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        live_files(dataset(tmp_path / "absent"))


def test_names_in_a_message_are_limited():
    names = [str(i) for i in range(12)]
    assert ("none", "0, 1") == (shown([]), shown(names[:2]))
    assert "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more" == shown(names)
