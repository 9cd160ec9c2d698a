"""The newest file of a table, and the partition columns that an append must have."""

import os
import uuid
from unittest import mock

import pytest
from commit_jobs import APPEND, DYNAMIC, OVERWRITE, finish, foreign, ours, planned, save, table
from job_plans import plan_job
from listed_files import list_files

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.write import existing_files
from spark_arrow_ipc.dataset.write.commit import abort
from spark_arrow_ipc.dataset.write.existing_files import existing_file, partition_columns
from spark_arrow_ipc.errors import ConcurrentWriteError, OptionError
from spark_arrow_ipc.storage.object_store import ObjectStorage
from spark_arrow_ipc.table.log import read_state
from spark_arrow_ipc.table.names import TableDirectory

FLAT = ()
BY_K = (t.Field("k", t.int32),)
BY_J_K = (t.Field("j", t.int32), *BY_K)


def newest(path):
    return existing_file(table(path), read_state(table(path)))


def test_an_empty_directory_has_no_newest_file(tmp_path):
    assert newest(tmp_path) is None


def test_a_directory_that_is_a_prefix_is_not_there_before_its_first_file():
    storage, root = ObjectStorage(), f"memory://{uuid.uuid4().hex}/new"
    assert existing_file(TableDirectory(storage, root), None) is None
    plan = plan_job(root, APPEND, storage=storage)
    assert finish(plan, []) is not None
    assert b"empty" == storage.read(next(file.path for file in list_files([root], storage=storage)), 9)


def test_the_newest_file_of_our_own_table_is_found_without_a_listing(tmp_path):
    save(tmp_path, APPEND, "j=1/k=2:a")
    save(tmp_path, APPEND, "j=1/k=3:b")
    with mock.patch.object(existing_files, "list_tree", side_effect=AssertionError("listed")):
        found = newest(tmp_path)
    assert (("j", "k"), 1) == (found.columns, found.rows)
    assert found.path.startswith("j=1/k=3/part-")


def test_a_table_of_others_is_listed(tmp_path):
    for name, age in (("k=1/old", 10), ("k=2/new", 20), ("beside", 30), ("sub/hidden", 40)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
        os.utime(tmp_path / name, (age, age))
    found = newest(tmp_path)
    assert ("k=2/new", ("k",), False) == (found.path, found.columns, found.is_alone)


def test_of_a_table_of_others_files_that_are_named_as_arrow_files_come_first(tmp_path):
    """A newer `manifest.csv` says nothing of the columns."""
    for name, age in (("a.ARROW", 10), ("b.feather", 20), ("manifest.csv", 30)):
        (tmp_path / name).write_bytes(b"x")
        os.utime(tmp_path / name, (age, age))
    assert "b.feather" == newest(tmp_path).path


# (What is there, partition columns of the job, the error or None.)
LAYOUTS = {
    "flat to flat": ("a", FLAT, None),
    "partitioned as before": ("k=1:a", BY_K, None),
    "another case": ("K=1:a", BY_K, r"partitioned by K .*this job by k: .*two for pyarrow and polars.*Rename"),
    "another case of one of two": ("j=1/K=1:a", BY_J_K, "partitioned by j, K .*this job by j, k: "),
    "partitioned to flat": ("a", BY_K, "is not partitioned .*this job has partitionBy=k.*leave partitionBy out"),
    "flat to partitioned": ("k=1:a", FLAT, "is partitioned by k .*no partitionBy.*write with partitionBy=k"),
    "coarser": ("j=1/k=1:a", BY_K, "is partitioned by j, k .*write with partitionBy=j,k"),
    "finer": ("k=1:a", BY_J_K, "is partitioned by k .*this job has partitionBy=j,k"),
    "another order": ("k=1/j=1:a", BY_J_K, "is partitioned by k, j "),
}


@pytest.mark.parametrize("case", LAYOUTS)
@pytest.mark.parametrize("mode", [APPEND, DYNAMIC], ids=lambda mode: mode.value)
def test_partition_columns_must_be_those_of_the_files_that_are_kept(tmp_path, mode, case):
    there, partition_by, message = LAYOUTS[case]
    save(tmp_path, APPEND, there)
    before = sorted(tmp_path.rglob("*"))
    if message is None:
        planned(tmp_path, mode, partition_by=partition_by)
        return
    with pytest.raises(OptionError, match=f"{message}.*Nothing is written"):
        planned(tmp_path, mode, partition_by=partition_by)
    assert before == sorted(tmp_path.rglob("*"))


@pytest.mark.slow
@pytest.mark.parametrize("case", LAYOUTS)
def test_an_overwrite_may_change_the_partition_columns(tmp_path, case):
    there, partition_by, _ = LAYOUTS[case]
    save(tmp_path, APPEND, there)
    content = "/".join(f"{field.name}=1" for field in partition_by) + ":new"
    save(tmp_path, OVERWRITE, content, partition_by=partition_by)
    assert [content.lstrip(":")] == foreign(tmp_path)


def test_a_job_of_other_partition_columns_that_was_faster_is_found_at_the_commit(tmp_path):
    flat = planned(tmp_path, APPEND, "a", partition_by=FLAT)
    save(tmp_path, APPEND, "k=1:b", partition_by=BY_K)
    with pytest.raises(ConcurrentWriteError, match=r"another writer was faster.*is partitioned by k"):
        finish(*flat)
    assert ["k=1:b"] == ours(tmp_path)
    assert abort(flat[0])
    assert ["k=1:b"] == foreign(tmp_path)


@pytest.mark.slow
def test_a_partitioned_job_replaces_a_placeholder(tmp_path):
    for mode in (APPEND, DYNAMIC):
        path = tmp_path / mode.value
        save(path, OVERWRITE, "", partition_by=BY_K)  # a file of no bytes has no rows here
        assert [""] == foreign(path)
        save(path, mode, "k=1:a", partition_by=BY_K)
        assert ["k=1:a"] == foreign(path)


@pytest.mark.slow
def test_two_jobs_may_replace_one_placeholder(tmp_path):
    save(tmp_path, OVERWRITE, "", partition_by=BY_K)
    jobs = [planned(tmp_path, APPEND, f"k={i}:a", partition_by=BY_K) for i in range(2)]
    for job in jobs:
        finish(*job)
    assert ["k=0:a", "k=1:a"] == foreign(tmp_path)


def test_dynamic_replaces_a_partition_by_its_value(tmp_path):
    """Another writer spells the value `a b` as `a%20b`."""
    (tmp_path / "k=a%20b").mkdir()
    (tmp_path / "k=a%20b" / "part-0.arrow").write_text("old")
    save(tmp_path, DYNAMIC, "k=a b:new", "k=c:other", partition_by=(t.Field("k", t.utf8),))
    assert ["k=a b:new", "k=c:other"] == foreign(tmp_path)


@pytest.mark.slow
def test_a_job_without_rows_adds_nothing_to_what_is_there(tmp_path):
    for mode in (APPEND, DYNAMIC):
        path = tmp_path / mode.value
        save(path, mode)
        assert ["empty"] == foreign(path)
        save(path, APPEND, "a")
        assert 0 == save(path, mode).files
        assert ["a", "empty"] == foreign(path)


@pytest.mark.parametrize("mode", [APPEND, DYNAMIC], ids=lambda mode: mode.value)
@pytest.mark.parametrize("case", ["a foreign file", "two first jobs at once"])
def test_a_file_without_rows_is_a_placeholder_only_where_no_other_file_lies_beside_it(tmp_path, mode, case):
    """Rows beside directories of partitions are not read: a log names only managed files."""
    if case == "a foreign file":
        save(tmp_path, OVERWRITE, "", partition_by=FLAT)
        (tmp_path / "foreign.arrow").write_text("rows")
    else:
        empty = planned(tmp_path, APPEND, "", partition_by=FLAT)
        save(tmp_path, APPEND, "rows", partition_by=FLAT)
        finish(*empty)
    assert ["", "rows"] == foreign(tmp_path)
    with pytest.raises(OptionError, match=r"is not partitioned .*partitionBy=k.*Nothing is written"):
        planned(tmp_path, mode, "k=1:a", partition_by=BY_K)
    assert ["", "rows"] == foreign(tmp_path)


@pytest.mark.parametrize(
    ("directory", "columns"),
    [
        ("", ()),
        ("k=1", ("k",)),
        ("k=1/j=2", ("k", "j")),
        ("k=1/sub", ("k",)),
        ("sub", ()),
        ("sub/k=1", ()),
        ("k=1/sub/j=2", ()),
    ],
)
def test_a_directory_in_a_partition_has_its_columns(directory, columns):
    assert columns == partition_columns(directory)


def test_rows_deeper_in_a_partition_are_not_hidden_by_a_job_without_partitions(tmp_path):
    (tmp_path / "k=1/sub").mkdir(parents=True)
    (tmp_path / "k=1/sub/part.arrow").write_bytes(b"ARROW1")
    with pytest.raises(OptionError, match=r"is partitioned by k .*this job has no partitionBy"):
        plan_job(str(tmp_path), APPEND, partition_by=FLAT)
