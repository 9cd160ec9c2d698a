"""The visible files of a dataset: sorted, with those of partitions, and nothing else."""

import pickle

import pytest
from commit_jobs import dataset

from spark_arrow_ipc.dataset.listing.hive import discover
from spark_arrow_ipc.dataset.listing.tree import list_tree
from spark_arrow_ipc.dataset.write.existing_files import LiveFile, live_files
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


LAYOUTS = [
    # the files of a directory that a reader reads, and those that it does not
    (["k=1/a", "k=1/sub/b", "k=1/sub/more/c", "k=2/d"], ["k=1/_hidden/e", "k=1/sub/.x", "_f/k=1/g", "_SUCCESS"]),
    (["a/k=1/b"], ["a/c"]),
    (["a"], ["sub/b", "sub/more/c"]),
]


@pytest.mark.parametrize(("read", "others"), LAYOUTS, ids=["deep", "a table below", "no partitions"])
def test_what_a_reader_reads_is_visible_however_deep(tmp_path, read, others):
    fill(tmp_path, *read, *others)
    expected = sorted(str(tmp_path / name) for name in read)
    assert expected == sorted(file.path for file in discover(list_tree([str(tmp_path)])).files)
    assert read == [file.path for file in live_files(dataset(tmp_path))]


def test_all_that_lies_below_a_partition_is_listed_with_it(tmp_path):
    fill(tmp_path, "a", "k=1/b", "k=1/j=1/c", "k=1/sub/d", "k=2/e")
    assert ["k=1/b", "k=1/j=1/c", "k=1/sub/d"] == [
        file.path for file in live_files(dataset(tmp_path), {"k=1", "k=1/j=1"}, deep=True)
    ]
    assert ["a"] == [file.path for file in live_files(dataset(tmp_path), {""}, deep=True)]


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


def test_links_in_a_partition_are_refused_and_others_are_not_entered(tmp_path):
    fill(tmp_path, "elsewhere/k=1/x", "data/k=1/a")
    (tmp_path / "data" / "other").symlink_to(tmp_path / "elsewhere")
    assert ["k=1/a"] == [file.path for file in live_files(dataset(tmp_path / "data"))]
    (tmp_path / "data" / "k=1" / "sub").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnsupportedError, match=r"k=1/sub.*does not follow links"):
        live_files(dataset(tmp_path / "data"))


def test_a_dataset_that_does_not_exist_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        live_files(dataset(tmp_path / "absent"))
