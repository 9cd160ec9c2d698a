"""The metadata of a file: one open tells all that a plan needs, and errors wait until somebody minds."""

import math
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from listed_files import list_files
from statistics_cases import write_described

from spark_arrow_ipc import ipc
from spark_arrow_ipc.dataset.scan.file_metadata import FileMetadata, MetadataCache, MetadataOptions, read_metadata
from spark_arrow_ipc.errors import FileChangedError, InvalidFramingError, LimitError
from spark_arrow_ipc.storage.byte_source import FileSource
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.table.log import create_table
from spark_arrow_ipc.table.names import TableDirectory, data_file_name, new_id

pa = pytest.importorskip("pyarrow")

MAKERS = {"file": pa.ipc.new_file, "stream": pa.ipc.new_stream}
TABLE = pa.table({"a": np.arange(1000), "b": np.arange(1000.0), "c": np.arange(1000), "d": np.arange(1000)})
LENGTHS = (600, 80, 320)


def write(path, table=TABLE, kind="file", lengths=LENGTHS, **options):
    options = pa.ipc.IpcWriteOptions(**options)
    with pa.OSFile(str(path), "wb") as sink, MAKERS[kind](sink, table.schema, options=options) as writer:
        first = 0
        for length in lengths:
            writer.write_table(table.slice(first, length))
            first += length
    (file,) = list_files([str(path)])
    return file


def write_with_statistics(path):
    with ipc.open(write(path).path) as reader:
        write_described(str(path) + ".2", reader, reader.schema)
    (file,) = list_files([str(path) + ".2"])
    return file


@pytest.fixture
def opens(monkeypatch):
    """The paths that were opened, in order."""
    opened = []
    real = FileSource.open

    def counting(path, *rest):
        opened.append(Path(path).name)
        return real(path, *rest)

    monkeypatch.setattr(FileSource, "open", staticmethod(counting))
    return opened


def test_a_file_tells_its_schema_and_the_bytes_of_its_batches(tmp_path):
    file = write(tmp_path / "x")
    metadata = read_metadata(file, MetadataOptions())
    with ipc.open(file.path) as reader:
        assert metadata == FileMetadata(reader.schema, tuple(block.nbytes for block in reader.blocks))


def test_a_stream_is_walked_only_where_it_may_be_cut(tmp_path):
    file = write(tmp_path / "x", kind="stream")
    with ipc.open(file.path) as reader:
        assert read_metadata(file, MetadataOptions()) == FileMetadata(reader.schema)
        assert read_metadata(file, MetadataOptions(cut_above=file.nbytes)) == FileMetadata(reader.schema)
        walked = read_metadata(file, MetadataOptions(cut_above=file.nbytes - 1))
        assert walked == FileMetadata(reader.schema, stream=reader.index())


ROWS = [
    # name, bytes above which batches may be cut, how the file is written, rows of batches that can be
    ("none is large", math.inf, {}, {}),
    ("two are large", 10_000, {}, {0: 600, 2: 320}),
    ("all are", 0, {}, {0: 600, 1: 80, 2: 320}),
    ("compressed ones cannot be cut", 0, {"compression": "lz4"}, {}),
]


@pytest.mark.parametrize(("cut_above", "options", "rows"), [c[1:] for c in ROWS], ids=[c[0] for c in ROWS])
def test_rows_of_large_batches_are_known_where_they_can_be_cut(tmp_path, opens, cut_above, options, rows):
    file = write(tmp_path / "x", **options)
    assert rows == read_metadata(file, MetadataOptions(cut_above=cut_above)).block_rows
    assert ["x"] == opens
    assert {} == read_metadata(file, MetadataOptions(cut_above=cut_above, recover=True)).block_rows


SHARES = [
    # columns, the part of the first batch's bytes, about
    (None, 1),
    (["b"], 1 / 4),
    (["b", "d"], 1 / 2),
    (["z"], 1),
]


@pytest.mark.parametrize(("columns", "share"), SHARES, ids=str)
def test_the_share_of_the_wanted_columns(tmp_path, monkeypatch, opens, columns, share):
    monkeypatch.setattr("spark_arrow_ipc.ipc.bytes.body.GAP_NBYTES", 1)
    file = write(tmp_path / "x")
    metadata = read_metadata(file, MetadataOptions(ipc.ReadOptions(columns), share_above=file.nbytes - 1))
    assert metadata.projected_share == pytest.approx(share, abs=0.05)
    assert metadata.error is None
    assert ["x"] == opens
    assert 1 == read_metadata(file, MetadataOptions(ipc.ReadOptions(columns), share_above=file.nbytes)).projected_share


@pytest.mark.parametrize("asked", [False, True])
def test_statistics_come_where_they_are_asked_for(tmp_path, opens, asked):
    file = write_with_statistics(tmp_path / "x")
    del opens[:]
    metadata = read_metadata(file, MetadataOptions(with_statistics=asked))
    assert asked == (metadata.statistics is not None)
    if metadata.statistics is not None:
        assert LENGTHS == metadata.statistics.row_counts
    assert ["x.2"] == opens


def gone(path):
    path.unlink()
    return FileChangedError, None


def empty(path):
    path.write_bytes(b"")
    return InvalidFramingError, None


def cut(path):
    path.write_bytes(path.read_bytes()[:-7])
    return InvalidFramingError, ("a", "b", "c", "d")


def locked(path):
    path.unlink()
    path.mkdir()
    return OSError, None


@pytest.mark.parametrize("breaks", [gone, empty, cut, locked], ids=lambda breaks: breaks.__name__)
def test_an_outline_says_why_a_file_cannot_be_opened(tmp_path, opens, breaks):
    file = write(tmp_path / "x")
    error, names = breaks(tmp_path / "x")
    metadata = read_metadata(file, MetadataOptions())
    assert isinstance(metadata.error, error)
    assert replace(metadata, error=None) == FileMetadata()
    if not isinstance(metadata.error, OSError):
        assert file.path == metadata.error.path
    assert ["x"] == opens
    recovered = read_metadata(file, MetadataOptions(recover=True))
    assert isinstance(recovered.error, error)
    assert names == (None if recovered.schema is None else recovered.schema.names)
    assert ["x", "x"] == opens


def test_a_stream_that_cannot_be_walked_has_a_schema_all_the_same(tmp_path):
    file = write(tmp_path / "x", kind="stream")
    Path(file.path).write_bytes(Path(file.path).read_bytes()[:-100])
    assert read_metadata(file, MetadataOptions()).error is None
    metadata = read_metadata(file, MetadataOptions(cut_above=0))
    assert ("a", "b", "c", "d") == metadata.schema.names
    assert isinstance(metadata.error, InvalidFramingError)
    assert "truncated" in str(metadata.error)
    assert file.path in str(metadata.error)


def test_what_is_beyond_a_limit_is_left_to_the_task(tmp_path):
    file = write(tmp_path / "x")
    metadata = read_metadata(
        file, MetadataOptions(ipc.ReadOptions(limits=ipc.Limits(max_batch_bytes=1000)), cut_above=0)
    )
    assert ({}, None) == (metadata.block_rows, metadata.error)
    metadata = read_metadata(file, MetadataOptions(ipc.ReadOptions(limits=ipc.Limits(max_metadata_bytes=10))))
    assert isinstance(metadata.error, LimitError)


def test_metadata_of_a_removed_file_are_read_where_its_table_retains_it(tmp_path, opens):
    directory = TableDirectory(LOCAL, str(tmp_path))
    name = data_file_name(0, create_table(directory), new_id())
    file = write(tmp_path / name)
    metadata = read_metadata(file, MetadataOptions())
    retained = Path(directory.replaced(7, name))
    retained.parent.mkdir(parents=True)
    Path(file.path).rename(retained)
    assert metadata == read_metadata(file, MetadataOptions())
    assert [name, name, retained.name] == opens


@pytest.mark.slow
def test_outlines_open_each_file_once_and_share_schemas(tmp_path, opens):
    files = [write(tmp_path / str(i)) for i in range(50)]
    cache = MetadataCache(MetadataOptions(cut_above=1000))
    cache.read_all([*files, *files], cut_above=10_000)
    assert sorted(opens) == sorted(str(i) for i in range(50))
    assert {0: 600, 2: 320} == cache.read(files[0], cut_above=0).block_rows
    assert 1 == len({id(metadata.schema) for metadata in cache.by_path.values()})
    assert 50 == len(cache.by_path) == len(opens)


def test_no_file_stays_open(tmp_path):
    file = write_with_statistics(tmp_path / "x")
    for options in (
        MetadataOptions(),
        MetadataOptions(ipc.ReadOptions(["a"]), with_statistics=True, cut_above=0, share_above=0),
    ):
        read_metadata(file, options)
    here = {os.path.realpath(entry.path) for entry in os.scandir("/proc/self/fd")}
    assert file.path not in here


def test_a_stream_of_too_many_messages_is_not_cut(tmp_path):
    file = write(tmp_path / "x.arrows", kind="stream")
    few = MetadataOptions(ipc.ReadOptions(limits=ipc.Limits(max_blocks=2)), cut_above=0)
    assert (None, None) == (read_metadata(file, few).stream, read_metadata(file, few).error)
    assert 3 == len(read_metadata(file, MetadataOptions(cut_above=0)).stream.batches)
