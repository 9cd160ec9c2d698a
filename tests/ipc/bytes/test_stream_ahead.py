"""A stream whose reads wait is read ahead in pieces: the same batches and errors, and threads that end."""

import io
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from waiting import Asked, WaitingSource, no_threads_are_left, outcome

from spark_arrow_ipc import ipc
from spark_arrow_ipc.errors import FileChangedError
from spark_arrow_ipc.ipc.bytes import ahead as ahead_module
from spark_arrow_ipc.ipc.bytes import source as source_module
from spark_arrow_ipc.ipc.bytes.ahead import StreamAhead

DATA = sorted((Path(__file__).parents[2] / "data").glob("*.arrows"))
BYTES = np.random.default_rng(1).bytes(1 << 20)
PIECE = 64 << 10


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Pieces so small that small streams have many."""
    monkeypatch.setattr(ahead_module, "PIECE_NBYTES", PIECE)
    monkeypatch.setattr(source_module, "SMALL_NBYTES", 8 << 10)
    monkeypatch.setattr(source_module, "MOST_NBYTES", 32 << 10)


def stream_of(rows, batches):
    table = pa.table({f"c{i}": np.arange(rows) + i for i in range(4)})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        for _ in range(batches):
            writer.write_table(table)
    return sink.getvalue()


STREAM = stream_of(5_000, 20)  # batches of 160 KB


@pytest.mark.parametrize("piece", [64, PIECE])
@pytest.mark.parametrize("path", DATA, ids=lambda path: path.name)
def test_a_stream_has_the_values_or_the_error_that_it_has_on_a_disk(path, piece, monkeypatch):
    monkeypatch.setattr(source_module, "END_NBYTES", 64)
    monkeypatch.setattr(ahead_module, "PIECE_NBYTES", piece)
    data = path.read_bytes()
    assert outcome(data) == outcome(WaitingSource(data, Asked(0)))


READS = [
    ("one after the other", [(100, 8), (108, 1_000), (1_108, 3 * PIECE), (200_000, 5)]),
    ("the same again", [(100, 50), (100, 50), (120, 10)]),
    ("far ahead", [(100, 8), (900_000, 8)]),
    ("back", [(100, 8), (900_000, 8), (50, 80), (120, 2 * PIECE), (900_010, 8)]),
    ("to the end and after it", [(1 << 19, 1 << 20), ((1 << 20) - 4, 10), (1 << 20, 5)]),
]


@pytest.mark.parametrize("reads", [case[1] for case in READS], ids=[case[0] for case in READS])
def test_any_read_gives_the_bytes_that_are_there(reads):
    source = StreamAhead(WaitingSource(BYTES), 100)
    assert [BYTES[start : start + n] for start, n in reads] == [bytes(source.read_up_to(*read)) for read in reads]
    source.end()
    assert [BYTES[start : start + n] for start, n in reads] == [bytes(source.read_up_to(*read)) for read in reads]
    source.close()
    assert no_threads_are_left()


@pytest.mark.parametrize("columns", [None, ["c1"]], ids=["all columns", "1 of 4"])
def test_pieces_overlap_and_are_read_once(columns):
    source = WaitingSource(STREAM, Asked(0.01))
    assert outcome(STREAM, columns=columns) == outcome(source, columns=columns)
    pieces = -(-len(STREAM) // PIECE)
    assert pieces <= source.asked.total <= pieces + 3  # the tail, which tells no file, and the first bytes
    assert 3 <= source.asked.peak <= 8
    assert no_threads_are_left()


def test_small_batches_are_joined():
    data = stream_of(10, 2_000)
    source = WaitingSource(data)
    with ipc.open(source) as reader:
        joined = [len(rows) for _, rows in reader.read_joined(below_rows=1_000)]
    assert 2_000 == sum(joined)
    assert len(joined) < 100
    assert source.asked.total <= -(-len(data) // PIECE) + 3


def test_an_index_reads_headers_alone_and_a_part_from_its_start():
    source = WaitingSource(STREAM)
    with ipc.open(source) as reader:
        index = reader.index()
        assert 20 == len(index.batches)
        asked = source.asked.total
        reader.start_at(index.start(15))
        assert 2 == sum(len(rows) for _, rows in reader.read_joined(below_rows=0, most=2))
    assert source.asked.total - asked <= 2 * 3 + 4
    assert no_threads_are_left()


def test_an_error_of_the_source_comes_with_its_batch():
    class Failing(WaitingSource):
        def read_up_to(self, byte_offset, nbytes):
            if byte_offset <= 1_000_000 < byte_offset + nbytes:
                raise FileChangedError("it was replaced")
            return super().read_up_to(byte_offset, nbytes)

    read = []
    with ipc.open(Failing(STREAM)) as reader, pytest.raises(FileChangedError):
        read.extend(reader)
    assert 5 <= len(read) <= 6
    assert no_threads_are_left()


def test_a_reader_that_is_closed_early_reads_no_more():
    source = WaitingSource(STREAM)
    with ipc.open(source) as reader:
        next(reader)
    assert no_threads_are_left()
    asked = source.asked.total
    time.sleep(0.02)
    assert asked == source.asked.total <= 2 + 3 + 7
