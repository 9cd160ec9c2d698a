"""Record batches of file ranges, and files that are not those that were planned."""

import os
import pickle
from pathlib import Path

import pytest
from listed_files import list_files
from split_files import split_files

from spark_arrow_ipc import ipc
from spark_arrow_ipc.dataset.scan.file_range import FileRange
from spark_arrow_ipc.dataset.scan.scan import ScanOptions, scan
from spark_arrow_ipc.errors import ColumnNotFoundError, FileChangedError, InvalidArrowError

pa = pytest.importorskip("pyarrow")

FORMATS = {"file": pa.ipc.new_file, "stream": pa.ipc.new_stream}


def write(path, first, rows, batch_rows=10, kind="file"):
    table = pa.table({"a": range(first, first + rows), "b": [f"text {i}" for i in range(first, first + rows)]})
    with pa.OSFile(str(path), "wb") as sink, FORMATS[kind](sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=batch_rows)
    return str(path)


def whole(path):
    (file,) = list_files([path])
    return FileRange(file.path, file.nbytes, file.mtime_ns)


ALONE = ScanOptions(joined_rows=0)


def values(ranges, options=ALONE, **how):
    found = scan(ranges, options=options, **how)
    return [scanned.batch.to_pydict()["a"] for file in found for scanned in file.batches]


def open_files():
    links = Path("/proc/self/fd").iterdir()
    return {str(link.readlink()) for link in links if link.exists()}


@pytest.mark.parametrize("kind", ["file", "stream"])
def test_whole_file_gives_all_batches_in_order(tmp_path, kind):
    path = write(tmp_path / "x", 0, 25, kind=kind)
    assert [[*range(10)], [*range(10, 20)], [*range(20, 25)]] == values([whole(path)])


def test_ranges_of_a_plan_give_every_row_once(tmp_path):
    for i in range(3):
        write(tmp_path / f"{i}.arrow", 1000 * i, 1000, batch_rows=7)
    partitions = split_files([tmp_path], 4000)
    assert len(partitions) > 12
    partitions = pickle.loads(pickle.dumps(partitions))
    assert [*range(3000)] == sorted(value for part in partitions for batch in values(part) for value in batch)


def test_range_gives_its_blocks_only(tmp_path):
    path = write(tmp_path / "x", 0, 50)
    found = whole(path)
    part = FileRange(found.path, found.nbytes, found.mtime_ns, 1, 3)
    assert [[*range(10, 20)], [*range(20, 30)]] == values([part])
    assert [] == values([FileRange(found.path, found.nbytes, found.mtime_ns, 2, 2)])


def test_columns_are_projected_and_the_schema_says_so(tmp_path):
    path = write(tmp_path / "x", 0, 3)
    (scanned,) = scan([whole(path)], options=ScanOptions(ipc.ReadOptions(["b"])))
    assert ("b",) == scanned.schema.names
    with pytest.raises(ColumnNotFoundError, match=r"x.*'c'"):
        list(scan([whole(path)], options=ScanOptions(ipc.ReadOptions(["c"]))))


def test_each_file_is_open_only_while_it_is_scanned(tmp_path):
    first, second = write(tmp_path / "1", 0, 30), write(tmp_path / "2", 30, 30)
    scanning = scan([whole(first), whole(second)], options=ALONE)
    assert not {first, second} & open_files()
    batches = next(scanning).batches
    next(batches)
    assert {first} == {first, second} & open_files()
    next(scanning)
    assert {second} == {first, second} & open_files()
    scanning.close()
    assert not {first, second} & open_files()


def rewrite(path):
    write(path, 7, 25)


def lengthen(path):
    with Path(path).open("ab") as file:
        file.write(b"more")


def touch(path):
    found = Path(path).stat()
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns + 1))


def rewrite_in_place_at_the_same_time(path):
    """Other values of the same size, and the old modification time: only the time of the last change tells."""
    found = Path(path).stat()
    content = Path(path).read_bytes()
    with Path(path).open("r+b") as file:
        file.write(content.replace(b"text", b"next"))
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))


CHANGES = [
    ("removed", lambda path: Path(path).unlink(), "it is gone"),
    ("longer", lengthen, "it has .* bytes, it had"),
    ("touched", touch, "modification time differs"),
]


@pytest.mark.parametrize(("change", "message"), [case[1:] for case in CHANGES], ids=[case[0] for case in CHANGES])
def test_file_that_changed_since_the_plan_is_not_read(tmp_path, change, message):
    path = write(tmp_path / "x.arrow", 0, 25)
    part = whole(path)
    change(path)
    with pytest.raises(FileChangedError, match=message) as caught:
        values([part])
    assert path == caught.value.path
    assert "read the path again" in str(caught.value)
    assert str(caught.value) == str(pickle.loads(pickle.dumps(caught.value)))


@pytest.mark.parametrize(
    "change", [rewrite, lengthen, touch, rewrite_in_place_at_the_same_time], ids=lambda change: change.__name__
)
def test_file_that_changes_while_it_is_read_is_noticed(tmp_path, change):
    path = write(tmp_path / "x.arrow", 0, 25)
    scanning = scan([whole(path)], options=ALONE)
    scanned = next(scanning)
    next(scanned.batches)
    change(path)
    with pytest.raises((FileChangedError, InvalidArrowError)):
        list(scanned.batches)


def test_file_that_is_removed_while_it_is_read_is_read_to_its_end(tmp_path):
    """An overwrite removes files; who holds one open has the whole of what was planned."""
    path = write(tmp_path / "x.arrow", 0, 25)
    scanning = scan([whole(path)], options=ALONE)
    scanned = next(scanning)
    first = next(scanned.batches).batch.to_pydict()["a"]
    Path(path).unlink()
    assert [*range(25)] == first + [value for found in scanned.batches for value in found.batch.to_pydict()["a"]]


def test_blocks_that_are_not_there_are_a_changed_file(tmp_path):
    found = whole(write(tmp_path / "x.arrow", 0, 25))
    stream = whole(write(tmp_path / "x.arrows", 0, 25, kind="stream"))
    for file in (found, stream):
        with pytest.raises(FileChangedError, match="record batches 2 to 9 are not there"):
            values([FileRange(file.path, file.nbytes, file.mtime_ns, 2, 9)])


def test_broken_and_empty_files_are_named(tmp_path):
    empty = tmp_path / "empty.arrow"
    empty.touch()
    cut = tmp_path / "cut.arrow"
    cut.write_bytes(Path(write(tmp_path / "x", 0, 25)).read_bytes()[:-20])
    with pytest.raises(InvalidArrowError, match=r"empty\.arrow.*an empty file"):
        values([whole(str(empty))])
    with pytest.raises(InvalidArrowError, match=r"cut\.arrow"):
        values([whole(str(cut))])
