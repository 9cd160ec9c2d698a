"""Large record batches come in pieces, with the rows, the numbers and the errors of the whole."""

import random
from itertools import pairwise

import pytest
from listed_files import list_files

from spark_arrow_ipc.dataset.scan import read_blocks
from spark_arrow_ipc.dataset.scan.file_range import FileRange
from spark_arrow_ipc.dataset.scan.scan import ScanOptions, scan
from spark_arrow_ipc.errors import InvalidBodyError

pa = pytest.importorskip("pyarrow")

LENGTHS = (5000, 7, 0, 4000, 10)
TABLE = pa.table({
    "a": pa.array(range(sum(LENGTHS)), pa.int64()),
    "b": [None if i % 7 == 0 else "é" * (i % 5) for i in range(sum(LENGTHS))],
})  # fmt: skip


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(read_blocks, "LARGE_NBYTES", 1000)
    monkeypatch.setattr(read_blocks, "PIECE_NBYTES", 20_000)
    monkeypatch.setattr(read_blocks, "GAP_NBYTES", 1)


def write(path, table=TABLE, lengths=LENGTHS, **options):
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:  # fmt: skip
        (batch,) = table.combine_chunks().to_batches()
        first = 0
        for length in lengths:
            writer.write_batch(batch.slice(first, length))
            first += length
    (file,) = list_files([str(path)])
    return file


def part(file, *place, rows=None):
    return FileRange(file.path, file.nbytes, file.mtime_ns, *place, rows=rows)


def scanned(*ranges, **options):
    return [found for file in scan(ranges, options=ScanOptions(joined_rows=0, **options)) for found in file.batches]


@pytest.mark.parametrize("memory_map", [False, True])
def test_pieces_are_the_rows_of_the_file(tmp_path, memory_map):
    found = scanned(part(write(tmp_path / "a.arrow")), memory_map=memory_map)
    assert [row for piece in found for row in piece.batch.to_pylist()] == TABLE.to_pylist()
    assert len(found) > 8
    starts = dict(zip(range(5), (0, 5000, 5007, 5007, 9007), strict=True))
    for piece in found:
        assert piece.batch.columns[0].to_pylist()[:1] == [piece.first_row][: piece.batch.num_rows]
        assert piece.block_rows == (piece.batch.num_rows,)
        assert max(i for i, start in starts.items() if start <= piece.first_row and LENGTHS[i]) == piece.first_block or not piece.batch.num_rows  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"compression": "lz4"}], ids=["apart", "whole"])
def test_ranges_of_rows_are_together_the_batch(tmp_path, options):
    file = write(tmp_path / "a.arrow", **options)
    r = random.Random(2)
    for _ in range(20):
        edges = sorted({0, 4000, *(8 * r.randrange(500) for _ in range(r.randrange(4)))})
        ranges = [part(file, 3, 4, rows=(a, b)) for a, b in pairwise(edges)]
        rows = [row for piece in scanned(*ranges) for row in piece.batch.to_pylist()]
        assert rows == TABLE.slice(5007, 4000).to_pylist()
        for own in ranges:
            (opened,) = [(f.rows_before(), [p.first_row for p in f.batches]) for f in scan([own])]
            assert opened[0] == 5007 + own.rows[0]
            assert opened[1][0] == 0


def test_rows_of_skipped_blocks_count(tmp_path):
    file = write(tmp_path / "a.arrow")
    found = scanned(part(file), select_blocks=lambda *_: lambda i: i in {3, 4})
    assert {(piece.first_block, piece.batch.num_rows > 0) for piece in found} == {(3, True), (4, True)}
    assert found[0].first_row == 5007


def test_a_broken_piece_is_an_error_of_its_block(tmp_path):
    table = pa.table({"s": ["abc"] * 5000})
    file = write(tmp_path / "a.arrow", table, (5000,))
    data = bytearray((tmp_path / "a.arrow").read_bytes())
    place = data.index(b"abc" * 4000) + 12_000
    data[place] = 0xFF
    (tmp_path / "a.arrow").write_bytes(data)
    (file,) = list_files([str(tmp_path / "a.arrow")])
    rows = 0
    with pytest.raises(InvalidBodyError, match="UTF-8") as caught:
        for opened in scan([part(file)]):
            for piece in opened.batches:
                rows += piece.batch.num_rows
    assert (caught.value.block_number, caught.value.path) == (0, file.path)
    assert 0 < rows <= 4000
