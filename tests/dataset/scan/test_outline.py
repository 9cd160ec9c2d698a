"""The outline of a file: one open tells all that a plan needs, and errors wait until somebody minds."""

import math
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from listed_files import list_files
from statistics_cases import write_described

from spark_arrow_ipc import ipc
from spark_arrow_ipc.dataset.listing.tree import DataFile
from spark_arrow_ipc.dataset.scan.outline import Outline, OutlineOptions, read_outline
from spark_arrow_ipc.dataset.scan.outlines import Outlines
from spark_arrow_ipc.errors import FileChangedError, InvalidFramingError, LimitError
from spark_arrow_ipc.storage.byte_source import FileSource

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
    outline = read_outline(file, OutlineOptions())
    with ipc.open(file.path) as reader:
        assert outline == Outline(reader.schema, tuple(block.nbytes for block in reader.blocks))


def test_a_stream_is_walked_only_where_it_may_be_cut(tmp_path):
    file = write(tmp_path / "x", kind="stream")
    with ipc.open(file.path) as reader:
        assert read_outline(file, OutlineOptions()) == Outline(reader.schema)
        assert read_outline(file, OutlineOptions(cut_above=file.nbytes)) == Outline(reader.schema)
        walked = read_outline(file, OutlineOptions(cut_above=file.nbytes - 1))
        assert walked == Outline(reader.schema, stream=reader.index())


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
    assert rows == read_outline(file, OutlineOptions(cut_above=cut_above)).block_rows
    assert ["x"] == opens
    assert {} == read_outline(file, OutlineOptions(cut_above=cut_above, recover=True)).block_rows


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
    outline = read_outline(file, OutlineOptions(ipc.ReadOptions(columns), share_above=file.nbytes - 1))
    assert outline.wanted_share == pytest.approx(share, abs=0.05)
    assert outline.error is None
    assert ["x"] == opens
    assert 1 == read_outline(file, OutlineOptions(ipc.ReadOptions(columns), share_above=file.nbytes)).wanted_share


@pytest.mark.parametrize("asked", [False, True])
def test_statistics_come_where_they_are_asked_for(tmp_path, opens, asked):
    file = write_with_statistics(tmp_path / "x")
    del opens[:]
    outline = read_outline(file, OutlineOptions(with_statistics=asked))
    assert asked == (outline.statistics is not None)
    if outline.statistics is not None:
        assert LENGTHS == outline.statistics.row_counts
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
    outline = read_outline(file, OutlineOptions())
    assert isinstance(outline.error, error)
    assert replace(outline, error=None) == Outline()
    if not isinstance(outline.error, OSError):
        assert file.path == outline.error.path
    assert ["x"] == opens
    recovered = read_outline(file, OutlineOptions(recover=True))
    assert isinstance(recovered.error, error)
    assert names == (None if recovered.schema is None else recovered.schema.names)
    assert ["x", "x"] == opens


def test_a_stream_that_cannot_be_walked_has_a_schema_all_the_same(tmp_path):
    file = write(tmp_path / "x", kind="stream")
    Path(file.path).write_bytes(Path(file.path).read_bytes()[:-100])
    assert read_outline(file, OutlineOptions()).error is None
    outline = read_outline(file, OutlineOptions(cut_above=0))
    assert ("a", "b", "c", "d") == outline.schema.names
    assert isinstance(outline.error, InvalidFramingError)
    assert "truncated" in str(outline.error)
    assert file.path in str(outline.error)


def test_what_is_beyond_a_limit_is_left_to_the_task(tmp_path):
    file = write(tmp_path / "x")
    outline = read_outline(file, OutlineOptions(ipc.ReadOptions(limits=ipc.Limits(max_batch_bytes=1000)), cut_above=0))
    assert ({}, None) == (outline.block_rows, outline.error)
    outline = read_outline(file, OutlineOptions(ipc.ReadOptions(limits=ipc.Limits(max_metadata_bytes=10))))
    assert isinstance(outline.error, LimitError)


def test_a_file_that_is_committed_and_not_renamed_has_an_outline(tmp_path, opens):
    staged = write(tmp_path / "staged")
    file = DataFile(str(tmp_path / "x"), staged.nbytes, staged.mtime_ns, staged=staged.path)
    outline = read_outline(file, OutlineOptions())
    assert outline == read_outline(staged, OutlineOptions())
    Path(staged.path).rename(file.path)
    assert outline == read_outline(file, OutlineOptions())
    assert ["x", "staged", "staged", "x"] == opens


def test_outlines_open_each_file_once_and_share_schemas(tmp_path, opens):
    files = [write(tmp_path / str(i)) for i in range(50)]
    outlines = Outlines(OutlineOptions(cut_above=1000))
    outlines.read_all([*files, *files], cut_above=10_000)
    assert sorted(opens) == sorted(str(i) for i in range(50))
    assert {0: 600, 2: 320} == outlines.read(files[0], cut_above=0).block_rows
    assert 1 == len({id(outline.schema) for outline in outlines.by_path.values()})
    assert 50 == len(outlines.by_path) == len(opens)


def test_no_file_stays_open(tmp_path):
    file = write_with_statistics(tmp_path / "x")
    for options in (
        OutlineOptions(),
        OutlineOptions(ipc.ReadOptions(["a"]), with_statistics=True, cut_above=0, share_above=0),
    ):
        read_outline(file, options)
    here = {os.path.realpath(entry.path) for entry in os.scandir("/proc/self/fd")}
    assert file.path not in here


def test_a_stream_of_too_many_messages_is_not_cut(tmp_path):
    file = write(tmp_path / "x.arrows", kind="stream")
    few = OutlineOptions(ipc.ReadOptions(limits=ipc.Limits(max_blocks=2)), cut_above=0)
    assert (None, None) == (read_outline(file, few).stream, read_outline(file, few).error)
    assert 3 == len(read_outline(file, OutlineOptions(cut_above=0)).stream.batches)
