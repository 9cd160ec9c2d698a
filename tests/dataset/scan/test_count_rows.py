"""Rows are counted by headers that a read would accept, of files as they were listed, and of no more than tasks would be faster for."""

import os
import uuid
from pathlib import Path

import arrow_files
import commit_jobs as jobs
import corpus
import pyarrow as pa
import pytest
from listed_files import list_files
from statistics_cases import write_described

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.listing.tree import list_tree
from spark_arrow_ipc.dataset.scan import file_metadata as counting
from spark_arrow_ipc.dataset.scan.file_metadata import count_rows
from spark_arrow_ipc.errors import InvalidFramingError, InvalidMetadataError, LimitError, NotArrowError
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.storage.object_store import ObjectStorage
from spark_arrow_ipc.table.log import create_table
from spark_arrow_ipc.table.names import TableDirectory, data_file_name, new_id

TABLE = pa.table({"id": range(1000), "name": ["é"] * 1000})


def count(path, **options):
    return count_rows(list_files([str(path)], recursive=True), LOCAL, limits=ipc.Limits(), **options)


def described(path, lengths=(30, 30, 7)):
    """Write a file of ours, with checksums of its headers."""
    schema = Schema.of([t.field("a", t.int64)])
    batches = [RecordBatch.from_pylist([{"a": i} for i in range(rows)], schema) for rows in lengths]
    write_described(str(path), batches, schema)
    return path


def test_files_of_all_writers_are_counted(tmp_path):
    for i, rows in enumerate([1000, 300, 1, 77]):
        arrow_files.write(tmp_path / f"{i}.arrow", TABLE.slice(0, 900 + i), rows=rows, compression=[None, "lz4"][i % 2])
    arrow_files.write(tmp_path / "none.arrow", TABLE.slice(0, 0))
    described(tmp_path / "ours.arrow")
    assert 4 * 900 + 6 + 67 == count(tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(corpus.root() is None, reason="needs the corpus of other people's files")
def test_other_peoples_files_have_the_rows_that_are_read():
    sound = [entry for entry in corpus.entries(corpus.root()) if (entry.format, entry.expect) == ("file", "ok")]
    assert len(sound) > 100
    for entry in sound:
        with ipc.open(entry.path, columns=[]) as reader:
            rows = sum(batch.num_rows for batch in reader)
        assert rows == count(entry.path), entry.path


def test_streams_are_left_to_tasks(tmp_path):
    arrow_files.write(tmp_path / "a.arrow", TABLE)
    arrow_files.write(tmp_path / "b.arrows", TABLE, stream=True)
    assert count(tmp_path) is None


BROKEN = [
    ("cut", lambda data: data[: len(data) // 2], InvalidFramingError, "magic"),
    ("no Arrow", lambda _: b"PAR1" * 50, NotArrowError, "Parquet"),
    (
        "a footer of nothing",
        lambda data: data[:-14] + b"ABCD" + data[-10:],
        InvalidMetadataError,
        "field id: expected an integer",
    ),
]


@pytest.mark.parametrize(("change", "error", "says"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_broken_files_are_the_errors_of_a_read(tmp_path, change, error, says):
    path = tmp_path / "a.arrow"
    arrow_files.write(path, TABLE)
    path.write_bytes(change(path.read_bytes()))
    for read in (lambda: count(path), lambda: list(ipc.open(str(path)))):
        with pytest.raises(error, match=says):
            read()


def test_a_changed_header_is_an_error_unless_checksums_are_not_verified(tmp_path):
    path = described(tmp_path / "a.arrow")
    with ipc.open(str(path)) as reader:
        block = reader.blocks[1]
    data = bytearray(path.read_bytes())
    header = data[block.byte_offset : block.byte_offset + block.metadata_nbytes]
    data[block.byte_offset : block.byte_offset + block.metadata_nbytes] = header.replace(
        b"\x1e\0\0\0\0\0\0\0", b"\x1d\0\0\0\0\0\0\0"
    )
    path.write_bytes(data)
    with pytest.raises(InvalidMetadataError, match=r"record batch 1\b.*checksum"):
        count(path)
    assert 66 == count(path, verify_checksums=False)


def test_limits_hold(tmp_path):
    path = arrow_files.write(tmp_path / "a.arrow", TABLE)
    with pytest.raises(LimitError, match="max_metadata_bytes"):
        count_rows(list_files([path]), LOCAL, limits=ipc.Limits(max_metadata_bytes=16))


def test_what_is_too_much_is_left_to_tasks(tmp_path, monkeypatch):
    for i in range(3):
        arrow_files.write(tmp_path / f"{i}.arrow", TABLE, rows=100)
    assert 3000 == count(tmp_path)
    monkeypatch.setattr(counting, "_MOST_HEADERS", 29)
    assert count(tmp_path) is None
    monkeypatch.setattr(counting, "_MOST_HEADERS", 30)
    assert 3000 == count(tmp_path)
    with ipc.open(str(tmp_path / "0.arrow")) as reader:
        nbytes = 3 * sum(block.metadata_nbytes for block in reader.blocks)
    monkeypatch.setattr(counting, "_MOST_HEADER_NBYTES", nbytes - 1)
    assert count(tmp_path) is None
    monkeypatch.setattr(counting, "_MOST_HEADER_NBYTES", nbytes)
    assert 3000 == count(tmp_path)
    monkeypatch.setattr(counting, "_MOST_FILES", 2)
    assert count(tmp_path) is None


@pytest.mark.parametrize("nbytes", [0, 1])
def test_a_file_that_is_another_one_by_now_is_left_to_tasks(tmp_path, nbytes):
    path = arrow_files.write(tmp_path / "a.arrow", TABLE)
    (file,) = list_files([path])
    assert count_rows([file], LOCAL, limits=ipc.Limits()) == 1000
    os.utime(path, ns=(0, file.mtime_ns + 1))
    assert count_rows([file], LOCAL, limits=ipc.Limits()) is None
    with pytest.raises(FileNotFoundError):
        count_rows([DataFile(f"{path}x", file.nbytes + nbytes, file.mtime_ns)], LOCAL, limits=ipc.Limits())


def test_a_file_that_is_gone_by_now_is_left_to_tasks(tmp_path):
    """What is read instead may be a removed file of the same name that is retained."""
    directory = TableDirectory(LOCAL, str(tmp_path))
    name = data_file_name(0, create_table(directory), new_id())
    (file,) = list_files([arrow_files.write(tmp_path / name, TABLE)])
    Path(file.path).unlink()
    arrow_files.write(Path(directory.replaced(1, name)), TABLE.slice(0, 7))
    assert count_rows([file], LOCAL, limits=ipc.Limits()) is None


def test_files_of_a_table_are_counted_by_its_log(tmp_path):
    """None is opened: these are no Arrow files."""
    jobs.save(tmp_path, jobs.APPEND, "12345", "123")
    arrow_files.write(tmp_path / "foreign.arrow", TABLE)
    tree = list_tree([str(tmp_path)])
    assert 8 + 1000 == count_rows(tree.all_files(), LOCAL, limits=ipc.Limits(), states=tree.states)


def test_objects_are_counted_by_threads():
    storage, root = ObjectStorage(), f"memory://{uuid.uuid4().hex}"
    for i in range(30):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, TABLE.schema) as writer:
            writer.write_table(TABLE.slice(0, 100 * i), max_chunksize=50)
        storage.put(f"{root}/t/k={i % 3}/{i}.arrow", sink.getvalue().to_pybytes())
    files = list_files([f"{root}/t"], recursive=True, storage=storage)
    assert sum(min(100 * i, 1000) for i in range(30)) == count_rows(files, storage, limits=ipc.Limits())
