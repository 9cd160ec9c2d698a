"""Listing, planning and scanning through Hadoop's file system and through fsspec's."""

import uuid

import pytest
from fsspec_stub import SCHEME, FilledStorage, StubFileSystem
from hadoop_stub import filled
from job_plans import plan_job
from listed_files import list_files

from spark_arrow_ipc import ipc
from spark_arrow_ipc.dataset.listing.hive import discover
from spark_arrow_ipc.dataset.listing.tree import list_tree
from spark_arrow_ipc.dataset.scan.file_metadata import MetadataCache, MetadataOptions
from spark_arrow_ipc.dataset.scan.scan import ScanOptions, scan
from spark_arrow_ipc.dataset.scan.splits import SplitOptions, plan_splits
from spark_arrow_ipc.dataset.write import WriteMode
from spark_arrow_ipc.errors import FileChangedError, NoFilesError, UnsupportedError
from spark_arrow_ipc.storage.hadoop import HadoopStorage
from spark_arrow_ipc.storage.paths import parent, relative

pa = pytest.importorskip("pyarrow")

KEYS = ("t/k=1/a.arrow", "t/k=1/b.arrow", "t/k=2/a.arrow", "t/_hidden/x.arrow", "u/c d#.arrow")


def write(storage, path, first, rows=2_000):
    table = pa.table({"id": range(first, first + rows)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=1_000)
    storage.make_directory(parent(path))
    storage.put(path, sink.getvalue().to_pybytes())


@pytest.fixture(params=["hadoop", "fsspec"])
def lake(request, tmp_path):
    if request.param == "hadoop":
        (storage, _), root = filled(tmp_path), "hdfs://nn:8020/lake"
    else:
        storage, root = FilledStorage(), f"{SCHEME}://{uuid.uuid4().hex}"
    for i, key in enumerate(KEYS):
        write(storage, f"{root}/{key}", i * 10_000)
    storage.put(f"{root}/t/_SUCCESS", b"")
    return storage, root


@pytest.mark.parametrize(
    ("paths", "recursive", "found"),
    [
        (["t"], True, KEYS[:3]),
        (["t/k=2/"], False, KEYS[2:3]),
        (["t/k=*/a.arrow"], False, [KEYS[0], KEYS[2]]),
        (["**/[ab].arrow"], False, KEYS[:3]),
        (["{u,t/k=2}/*.arrow"], False, [KEYS[4], KEYS[2]]),
        (["u/c d#.arrow", "t/k=1/b.arrow"], False, [KEYS[4], KEYS[1]]),
    ],
)
def test_paths_and_patterns_name_files(lake, paths, recursive, found):
    storage, root = lake
    files = list_files([f"{root}/{path}" for path in paths], recursive=recursive, storage=storage)
    assert sorted(found) == sorted(relative(file.path, root) for file in files)


@pytest.mark.parametrize("path", ["t/x", "x/y", "t/*.parquet"])
def test_what_is_not_there_is_said(lake, path):
    storage, root = lake
    with pytest.raises(NoFilesError, match=r"the nearest directory that does is|no file or directory matches"):
        list_tree([f"{root}/{path}"], storage=storage)


def planned(lake):
    storage, root = lake
    partitioning = discover(list_tree([f"{root}/t"], storage=storage), base_path=None, infer=True, time_zone=None)
    cache = MetadataCache(MetadataOptions(storage=storage))
    cache.read_all(partitioning.files)
    options = SplitOptions(4_000, 0, 8)
    return partitioning, plan_splits(partitioning.files, options, metadata=cache.by_path, selected={}, share=1.0)


def test_every_row_is_read_once_with_its_partition(lake):
    partitioning, splits = planned(lake)
    assert len(splits) > 3
    rows = []
    for ranges in splits:
        for file in scan(ranges, partition_fields=partitioning.fields, options=ScanOptions(storage=lake[0])):
            for scanned in file.batches:
                rows += zip(*scanned.batch.to_pydict().values(), strict=True)
    expected = [(first + i, key) for first, key in ((0, 1), (10_000, 1), (20_000, 2)) for i in range(2_000)]
    assert expected == sorted(rows)


def test_a_file_that_was_replaced_or_deleted_after_planning_is_an_error(lake):
    storage, root = lake
    _, splits = planned(lake)
    if isinstance(storage, HadoopStorage):
        storage.delete(f"{root}/{KEYS[0]}")
    else:
        del StubFileSystem.store[f"{root}/{KEYS[0]}".removeprefix(f"{SCHEME}:/")]
    write(storage, f"{root}/{KEYS[1]}", 50_000, rows=1_000)
    failed = 0
    for ranges in splits:
        try:
            for file in scan(ranges, options=ScanOptions(storage=storage)):
                list(file.batches)
        except FileChangedError:
            failed += 1
    assert failed == sum(any("k=1" in part.path for part in ranges) for ranges in splits) > 1


def test_paths_of_several_storages_are_not_mixed(tmp_path):
    here, there = str(tmp_path), f"{SCHEME}://h/a"
    for paths in ([here, there], [there, here], [there, "hdfs://nn/a"], ["hdfs://nn/a", "s3://b/a"]):
        with pytest.raises(UnsupportedError, match="either local paths or those of object stores"):
            list_tree(paths)


def test_ipc_opens_a_url_with_options():
    storage, root = FilledStorage(), f"{SCHEME}://{uuid.uuid4().hex}"
    write(storage, f"{root}/a.arrow", 0)
    with ipc.open(f"{root}/a.arrow", storage={"retries": "3"}) as reader:
        assert [1_000, 1_000] == [batch.num_rows for batch in reader]
    with pytest.raises(FileNotFoundError):
        ipc.open(f"{root}/nothing")


@pytest.mark.parametrize("mode", [WriteMode.APPEND, WriteMode.OVERWRITE, WriteMode.DYNAMIC])
def test_a_write_through_fsspec_is_refused_before_any_task(mode):
    with pytest.raises(UnsupportedError, match="read through fsspec, and are read only"):
        plan_job(f"{SCHEME}://{uuid.uuid4().hex}/t", mode)
