"""Tiny batches are joined, large ones pass; a scan reads no more than it is asked for."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from listed_files import list_files

from spark_arrow_ipc.arrow import RecordBatch, Schema
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.scan.file_range import FileRange
from spark_arrow_ipc.dataset.scan.read_blocks import ENOUGH_NBYTES, ScannedBatch, join_small
from spark_arrow_ipc.dataset.scan.scan import ScanOptions, scan
from spark_arrow_ipc.errors import InvalidBodyError
from spark_arrow_ipc.ipc.bytes import source as source_module

pa = pytest.importorskip("pyarrow")

MAKERS = {"file": pa.ipc.new_file, "stream": pa.ipc.new_stream}
NUMBERS = Schema.of([t.field("a", t.int64)])


def write(path, table, lengths, kind="file"):
    """Write the rows in batches of the given lengths, the last ones repeated to the end."""
    with pa.OSFile(str(path), "wb") as sink, MAKERS[kind](sink, table.schema) as writer:
        (batch,) = table.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], table.schema)]
        first = 0
        for length in lengths:
            writer.write_batch(batch.slice(first, length))
            first += length
    return str(path)


def whole(path):
    (file,) = list_files([path])
    return FileRange(file.path, file.nbytes, file.mtime_ns)


def batches(path, **options):
    return [found for file in scan([whole(path)], options=ScanOptions(**options)) for found in file.batches]


def shapes(found):
    return [(scanned.first_block, scanned.first_row, scanned.block_rows) for scanned in found]


LENGTHS = [
    # name, rows of the batches, rows that are aimed at, the blocks' rows that come together
    ("joined to the least", [3] * 10, 9, [(3, 3, 3), (3, 3, 3), (3, 3, 3), (3,)]),
    ("large ones pass alone", [2, 2, 20, 2, 30, 2], 10, [(2, 2), (20,), (2,), (30,), (2,)]),
    ("exactly enough passes alone", [10, 9, 10], 10, [(10,), (9,), (10,)]),
    ("switched off", [1, 2, 3], 0, [(1,), (2,), (3,)]),
    ("empty ones vanish into others", [0, 3, 0, 0, 3], 100, [(0, 3, 0, 0, 3)]),
    ("only empty ones", [0, 0], 10, [(0, 0)]),
]


@pytest.mark.parametrize("kind", ["file", "stream"])
@pytest.mark.parametrize(("lengths", "rows", "expected"), [c[1:] for c in LENGTHS], ids=[c[0] for c in LENGTHS])
def test_batches_below_the_rows_are_joined(tmp_path, kind, lengths, rows, expected):
    # Views cannot be gathered, so that joining one by one is what is seen.
    words = pa.array([f"a text beyond twelve bytes {i}" for i in range(sum(lengths))], pa.string_view())
    table = pa.table({"a": pa.array(range(sum(lengths)), pa.int64()), "v": words})
    found = batches(write(tmp_path / "x", table, lengths, kind), joined_rows=rows)
    assert expected == [scanned.block_rows for scanned in found]
    assert table.to_pylist() == [row for scanned in found for row in scanned.batch.to_pylist()]
    starts = [(block, row) for block, row, _ in shapes(found)]
    done = [(sum(map(len, expected[:i])), sum(map(sum, expected[:i]))) for i in range(len(expected))]
    assert done == starts


def test_batches_around_a_skipped_block_stay_apart(tmp_path):
    """Their rows are numbered from the first block of a batch on."""
    path = write(tmp_path / "x", pa.table({"a": range(12)}), [3, 3, 3, 3])
    found = batches(path, select_blocks=lambda *_: lambda i: i != 1)
    assert [(0, 0, (3,)), (2, 6, (3, 3))] == shapes(found)


@pytest.mark.parametrize("kind", ["file", "stream"])
def test_gathered_and_joined_batches_say_what_they_are_made_of(tmp_path, kind):
    table = pa.table({"a": range(5000), "s": [str(i) for i in range(5000)]})
    found = batches(write(tmp_path / "x", table, [7] * 714 + [2], kind), joined_rows=1000)
    assert table.to_pylist() == [row for scanned in found for row in scanned.batch.to_pylist()]
    assert [7] * 714 + [2] == [rows for scanned in found for rows in scanned.block_rows]
    assert len(found) <= 5
    blocks = rows = 0
    for scanned in found:
        assert (blocks, rows) == (scanned.first_block, scanned.first_row)
        blocks += len(scanned.block_rows)
        rows += scanned.batch.num_rows


def scanned(number, values, schema=NUMBERS):
    (name,) = schema.names
    batch = RecordBatch.from_pydict({name: values}, schema)
    return ScannedBatch(batch, number, 0, (len(values),))


def test_bytes_bound_what_is_joined():
    strings = Schema.of([t.field("s", t.utf8)])
    found = join_small((scanned(i, ["x" * 1000] * 10, strings) for i in range(10)), 1_000_000, 35_000)
    assert [30, 30, 30, 10] == [one.batch.num_rows for one in found]


def test_few_rows_of_many_bytes_come_alone():
    strings = Schema.of([t.field("s", t.utf8)])
    values = [["x"], ["y"], ["z" * ENOUGH_NBYTES], ["x"], ["y"]]
    found = join_small((scanned(i, own, strings) for i, own in enumerate(values)), 100)
    assert [2, 1, 2] == [one.batch.num_rows for one in found]


def test_what_cannot_be_joined_comes_as_few_batches_as_can_be():
    words = Schema.of([t.field("d", t.dictionary(t.int8, t.utf8))])
    parts = [scanned(i, [f"{i} {j}" for j in range(50)], words) for i in range(8)]
    found = list(join_small(iter(parts), 1000))
    assert 2 <= len(found) < 8
    expected = [value for part in parts for value in part.batch.to_pydict()["d"]]
    assert expected == [value for one in found for value in one.batch.to_pydict()["d"]]


def test_what_is_read_comes_before_the_error():
    def breaking():
        yield scanned(0, [1])
        yield scanned(1, [2])
        raise InvalidBodyError("broken", block_number=2)

    found = join_small(breaking(), 100)
    assert [1, 2] == next(found).batch.to_pydict()["a"]
    with pytest.raises(InvalidBodyError) as caught:
        next(found)
    assert 2 == caught.value.block_number


def counted(monkeypatch):
    """Count the bytes that are read of files."""
    taken = []
    read = source_module.FileSource.read_up_to

    def counting(self, byte_offset, nbytes):
        data = read(self, byte_offset, nbytes)
        taken.append(len(data))
        return data

    monkeypatch.setattr(source_module.FileSource, "read_up_to", counting)
    return taken


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["file", "stream"])
def test_who_stops_early_reads_fewer_than_three_batches(tmp_path, monkeypatch, kind):
    """As ``take(5)`` does: one batch is pulled, and the iterator closed."""
    rows, count = 20_000, 30
    table = pa.table({"a": range(rows * count), "b": [float(i) for i in range(rows * count)]})
    path = write(tmp_path / "x", table, [rows] * count, kind)
    taken = counted(monkeypatch)
    scanning = scan([whole(path)])
    next(next(scanning).batches)
    scanning.close()
    assert sum(taken) < 3 * rows * 16
    assert path not in {str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.exists()}


@pytest.mark.parametrize("kind", ["file", "stream"])
def test_neighbours_are_read_together(tmp_path, monkeypatch, kind):
    table = pa.table({"a": range(100_000)})
    path = write(tmp_path / "x", table, [100] * 1000, kind)
    taken = counted(monkeypatch)
    assert 100_000 == sum(found.batch.num_rows for found in batches(path))
    assert len(taken) < 20


@pytest.mark.parametrize("kind", ["file", "stream"])
def test_mapped_files_hold_what_read_ones_do(tmp_path, monkeypatch, kind):
    table = pa.table({"a": range(1000), "s": [str(i) for i in range(1000)]})
    path = write(tmp_path / "x", table, [100] * 10, kind)
    taken = counted(monkeypatch)
    found = batches(path, memory_map=True)
    assert table.to_pylist() == [row for scanned in found for row in scanned.batch.to_pylist()]
    assert [] == taken


BIG_NBYTES = 192 << 20
SLICE_NBYTES = 8 << 20

READS_ONE_BIG_BATCH = """
import os, resource, sys
from spark_arrow_ipc.arrow.kernels.slice import split_rows
from spark_arrow_ipc.dataset.scan.file_range import FileRange
from spark_arrow_ipc.dataset.scan.scan import scan

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10

status = os.stat(sys.argv[1])
ranges = [FileRange(sys.argv[1], status.st_size, status.st_mtime_ns)]
before, rows = peak(), 0
for file in scan(ranges):
    for scanned in file.batches:
        for part in split_rows(scanned.batch, max_rows=1 << 20, max_nbytes=int(sys.argv[2])):
            rows += part.num_rows
print(rows, peak() - before)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["file", "stream"])
def test_a_big_batch_takes_its_own_memory_and_little_more(tmp_path, kind):
    """In a process of its own, whose peak memory no other test has raised."""
    rows = BIG_NBYTES // 16
    strings = pa.StringArray.from_buffers(
        rows, pa.py_buffer(np.arange(rows + 1, dtype=np.int32) * 4), pa.py_buffer(b"text" * rows)
    )
    table = pa.table({"a": np.arange(rows), "s": strings})
    path = write(tmp_path / "x", table, [rows], kind)
    command = [sys.executable, "-c", READS_ONE_BIG_BATCH, path, str(SLICE_NBYTES)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    found, taken = map(int, answer.stdout.split())
    assert rows == found
    assert taken < BIG_NBYTES + 3 * SLICE_NBYTES
