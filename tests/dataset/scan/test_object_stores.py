"""Listing, planning and scanning in an object store: the library's memory, which is one in all but the network."""

import uuid

import pytest
from listed_files import list_files

from spark_arrow_ipc import ipc
from spark_arrow_ipc.dataset.listing.hive import discover
from spark_arrow_ipc.dataset.listing.tree import list_tree
from spark_arrow_ipc.dataset.scan.error_policy import ErrorPolicy
from spark_arrow_ipc.dataset.scan.file_metadata import MetadataCache, MetadataOptions
from spark_arrow_ipc.dataset.scan.scan import ScanOptions, scan
from spark_arrow_ipc.dataset.scan.splits import SplitOptions, plan_splits
from spark_arrow_ipc.errors import FileChangedError, NoFilesError, UnsupportedError
from spark_arrow_ipc.storage.object_store import ObjectStorage
from spark_arrow_ipc.storage.paths import relative

pa = pytest.importorskip("pyarrow")


def write(storage, path, first, rows=2_000):
    table = pa.table({"id": range(first, first + rows)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=1_000)
    storage.put(path, sink.getvalue().to_pybytes())


@pytest.fixture
def lake():
    storage, root = ObjectStorage(), f"memory://{uuid.uuid4().hex}"
    for i, key in enumerate(["t/k=1/a.arrow", "t/k=1/b.arrow", "t/k=2/a.arrow", "t/_hidden/x.arrow", "u/c d#.arrow"]):
        write(storage, f"{root}/{key}", i * 10_000)
    storage.put(f"{root}/t/_SUCCESS", b"")
    return storage, root


@pytest.mark.parametrize(
    ("paths", "recursive", "found"),
    [
        (["t"], True, ["t/k=1/a.arrow", "t/k=1/b.arrow", "t/k=2/a.arrow"]),
        (["t/"], True, ["t/k=1/a.arrow", "t/k=1/b.arrow", "t/k=2/a.arrow"]),
        (["t/k=2"], False, ["t/k=2/a.arrow"]),
        (["t/k=*/a.arrow"], False, ["t/k=1/a.arrow", "t/k=2/a.arrow"]),
        (["**/[ab].arrow"], False, ["t/k=1/a.arrow", "t/k=1/b.arrow", "t/k=2/a.arrow"]),
        (["{u,t/k=2}/*.arrow"], False, ["u/c d#.arrow", "t/k=2/a.arrow"]),
        (["u/c d#.arrow", "t/k=1/b.arrow"], False, ["u/c d#.arrow", "t/k=1/b.arrow"]),
    ],
)
def test_paths_and_patterns_name_files(lake, paths, recursive, found):
    storage, root = lake
    files = list_files([f"{root}/{path}" for path in paths], recursive=recursive, storage=storage)
    assert sorted(found) == sorted(relative(file.path, root) for file in files)


@pytest.mark.parametrize(
    ("path", "message"),
    [("t/x", "the nearest directory that does is .*/t"), ("x/y", "the nearest directory that does is memory://"), ("t/*.parquet", "no file or directory matches")],
)  # fmt: skip
def test_what_is_not_there_is_said(lake, path, message):
    storage, root = lake
    with pytest.raises(NoFilesError, match=message):
        list_tree([f"{root}/{path}"], storage=storage)


def test_local_paths_and_urls_are_not_mixed(lake, tmp_path):
    for paths in ([lake[1], str(tmp_path)], [str(tmp_path), lake[1]]):
        with pytest.raises(UnsupportedError, match="either local paths or those of object stores"):
            list_tree(paths)


def planned(lake, most=4_000):
    storage, root = lake
    partitioning = discover(list_tree([f"{root}/t"], storage=storage), base_path=None, infer=True, time_zone=None)
    cache = MetadataCache(MetadataOptions(storage=storage))
    cache.read_all(partitioning.files)
    splits = plan_splits(partitioning.files, SplitOptions(most, 0, 8), metadata=cache.by_path, selected={}, share=1.0)
    return partitioning, splits


@pytest.mark.parametrize("recover", [False, True])
def test_every_row_is_read_once_with_its_partition(lake, recover):
    partitioning, splits = planned(lake)
    assert len(splits) > 3
    options = ScanOptions(storage=lake[0], error_policy=ErrorPolicy(recover=recover))
    rows = []
    for ranges in splits:
        for file in scan(ranges, partition_fields=partitioning.fields, options=options):
            for scanned in file.batches:
                rows += zip(*scanned.batch.to_pydict().values(), strict=True)
    expected = [(first + i, key) for first, key in ((0, 1), (10_000, 1), (20_000, 2)) for i in range(2_000)]
    assert expected == sorted(rows)


def test_a_file_that_was_replaced_or_deleted_after_planning_is_an_error(lake):
    storage, root = lake
    _, splits = planned(lake)
    storage.delete(f"{root}/t/k=1/a.arrow")
    storage.delete(f"{root}/t/k=1/b.arrow")
    write(storage, f"{root}/t/k=1/b.arrow", 50_000)
    failed = 0
    for ranges in splits:
        try:
            for file in scan(ranges, options=ScanOptions(storage=storage)):
                list(file.batches)
        except FileChangedError:
            failed += 1
    assert failed == sum(any("k=1" in part.path for part in ranges) for ranges in splits) > 1


def test_ipc_opens_a_url(lake):
    _, root = lake
    with ipc.open(f"{root}/u/c d#.arrow") as reader:
        assert [1_000, 1_000] == [batch.num_rows for batch in reader]
    with pytest.raises(FileNotFoundError):
        ipc.open(f"{root}/u/nothing")
