"""The visible files of a table: sorted, with those of partitions, and nothing else."""

import pickle

import pytest
from commit_jobs import table

from spark_arrow_ipc.dataset.listing.hive import discover
from spark_arrow_ipc.dataset.listing.tree import list_tree
from spark_arrow_ipc.dataset.write.existing_files import LiveFile, live_files
from spark_arrow_ipc.errors import NoFilesError, UnsupportedError
from spark_arrow_ipc.table.names import STAGED_SUFFIX
from spark_arrow_ipc.table.snapshot import Snapshot


def live(path):
    return live_files(Snapshot.open(table(path)))


def fill(root, *names):
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(name.encode())


def test_visible_files_are_those_of_the_table_and_its_partitions(tmp_path):
    fill(tmp_path, "b", "a", "k=1/j=2/c", "_k=3/d", "sub/hidden", "_SUCCESS", ".x", f"e{STAGED_SUFFIX}", "k=1/_y")
    files = live(tmp_path)
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
    assert read == [file.path for file in live(tmp_path)]


def test_links_that_an_overwrite_would_follow_are_refused(tmp_path):
    fill(tmp_path, "elsewhere/x", "data/a")
    (tmp_path / "data" / "k=1").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnsupportedError, match=r"k=1.*does not follow links"):
        live(tmp_path / "data")
    (tmp_path / "data" / "k=1").unlink()
    (tmp_path / "data" / "b").symlink_to(tmp_path / "absent")
    with pytest.raises(NoFilesError, match="leads to nothing"):
        live(tmp_path / "data")


def test_links_in_a_partition_are_refused_and_others_are_not_entered(tmp_path):
    fill(tmp_path, "elsewhere/k=1/x", "data/k=1/a")
    (tmp_path / "data" / "other").symlink_to(tmp_path / "elsewhere")
    assert ["k=1/a"] == [file.path for file in live(tmp_path / "data")]
    (tmp_path / "data" / "k=1" / "sub").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnsupportedError, match=r"k=1/sub.*does not follow links"):
        live(tmp_path / "data")


def test_a_table_that_does_not_exist_has_no_files(tmp_path):
    assert () == live(tmp_path / "absent")
