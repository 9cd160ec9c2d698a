"""A file whose reads wait is read ahead in threads: the same batches and errors, few requests, bounded memory."""

import gc
import io
import os
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from waiting import Asked, WaitingSource, eventually, no_threads_are_left, outcome

from spark_arrow_ipc import ipc
from spark_arrow_ipc.errors import FileChangedError, InvalidFramingError
from spark_arrow_ipc.ipc.bytes import ahead as ahead_module
from spark_arrow_ipc.ipc.bytes import source as source_module

DATA = sorted((Path(__file__).parents[1] / "data").glob("*.arrow"))
COLUMNS, BATCHES, ROWS = 8, 12, 50_000


def file_of(columns=COLUMNS, batches=BATCHES, rows=ROWS, **options):
    """A file of random numbers; a column of a batch has 8 bytes a row."""
    rng = np.random.default_rng(1)
    arrays = [pa.array(rng.integers(0, 2**60, rows)) for _ in range(columns)]
    batch = pa.record_batch(arrays, [f"c{i}" for i in range(columns)])
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, batch.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        for _ in range(batches):
            writer.write_batch(batch)
    return sink.getvalue()


LARGE = file_of()  # batches of 3.2 MB
SMALL = file_of(columns=2, batches=400, rows=100)
WIDE = file_of(rows=200_000, batches=4)  # batches of 13 MB


@pytest.mark.parametrize("end_nbytes", [8, 64 << 10], ids=["beyond the ends", "inside them"])
@pytest.mark.parametrize("path", DATA, ids=lambda path: path.name)
def test_a_file_has_the_values_or_the_error_that_it_has_on_a_disk(path, end_nbytes, monkeypatch):
    monkeypatch.setattr(source_module, "END_NBYTES", end_nbytes)
    data = path.read_bytes()
    local = outcome(data)
    remote = outcome(WaitingSource(data, Asked(0)))
    assert local == remote


@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize("columns", [None, ["c6", "c1"]], ids=["all columns", "2 of 8"])
@pytest.mark.parametrize("damage", [(5, 0), (5, 20), (0, 0), (11, 100)], ids=str)
def test_an_error_comes_with_its_batch_and_after_all_batches_before_it(damage, columns):
    number, at = damage
    with ipc.open(LARGE) as reader:
        byte_offset = reader.blocks[number].byte_offset + at
    data = bytearray(LARGE)
    data[byte_offset : byte_offset + 8] = b"\xee" * 8
    local = outcome(bytes(data), columns=columns)
    assert number == len(local[0])
    assert local == outcome(WaitingSource(data), columns=columns)


@pytest.mark.parametrize("columns", [None, ["c6", "c1"]], ids=["all columns", "2 of 8"])
@pytest.mark.parametrize("error", [OSError(5, "the network is gone"), FileChangedError("it was replaced")], ids=repr)
def test_an_error_of_the_source_comes_with_its_batch(error, columns):
    with ipc.open(LARGE) as reader:
        bad = reader.blocks[3]

    class Failing(WaitingSource):
        def read_up_to(self, byte_offset, nbytes):
            if bad.byte_offset <= byte_offset < bad.byte_offset + bad.nbytes:
                raise error
            return super().read_up_to(byte_offset, nbytes)

    read = []
    with ipc.open(Failing(LARGE), columns=columns) as reader, pytest.raises(type(error)):
        read.extend(reader)
    assert 3 == len(read)
    assert no_threads_are_left()


def test_bytes_that_end_too_early_are_the_same_error_as_on_a_disk():
    with ipc.open(LARGE) as reader:
        block = reader.blocks[4]

    class Cut(WaitingSource):
        def read_up_to(self, byte_offset, nbytes):
            data = super().read_up_to(byte_offset, nbytes)
            return (
                data[: max(0, block.byte_offset + 1000 - byte_offset)]
                if byte_offset < self.nbytes - (64 << 10)
                else data
            )

    read = []
    with ipc.open(Cut(LARGE)) as reader, pytest.raises(InvalidFramingError, match=r"record batch 4.* the file ends"):
        read.extend(reader)
    assert 4 == len(read)


COUNTS = [
    # all batches: tail, head, a request a batch (of at most 8 MiB)
    ("all columns", LARGE, None, 2 + BATCHES, 1.05),
    # tail, head, and of each batch the header and two ranges; the head has the first header
    ("2 columns of 8", WIDE, ["c1", "c6"], 2 + 3 * 4 - 1, 0.27),
    # neighbouring columns are one range
    ("2 neighbours of 8", WIDE, ["c1", "c2"], 2 + 2 * 4 - 1, 0.27),
    ("gaps below 1 MiB are read", LARGE, ["c1", "c3"], 2 + 2 * BATCHES - 1, 0.5),
    ("small batches are read together", SMALL, None, 3, 1.5),
    ("small batches with a projection, too", SMALL, ["c1"], 3, 1.5),
    ("batches of 13 MB are read in pieces", WIDE, None, 2 + 2 * 4, 1.05),
    ("a file of 64 KiB is one request", file_of(columns=2, batches=3, rows=1000), None, 1, 1.0),
]


@pytest.mark.parametrize(
    ("data", "columns", "requests", "share"), [case[1:] for case in COUNTS], ids=[case[0] for case in COUNTS]
)
def test_requests(data, columns, requests, share):
    expected = outcome(data, columns=columns)
    source = WaitingSource(data)
    assert expected == outcome(source, columns=columns)
    assert requests == source.asked.total
    assert source.asked.nbytes <= share * len(data)


def test_a_hidden_batch_is_found_when_the_first_batch_is_read(monkeypatch):
    monkeypatch.setattr(source_module, "END_NBYTES", 4 << 10)
    with ipc.open(LARGE) as reader:
        footer = reader._footer
        hidden = footer.uncovered, (footer.uncovered[0][0], reader.blocks[1].byte_offset)
    with ipc.open(WaitingSource(LARGE)) as reader:
        object.__setattr__(reader._footer, "uncovered", (hidden[1],))
        with pytest.raises(InvalidFramingError, match="belong to none"):
            next(iter(reader))
    assert no_threads_are_left()


def test_batches_overlap_within_the_bounds(monkeypatch):
    source = WaitingSource(LARGE, Asked(0.02))
    with ipc.open(source) as reader:
        batches = iter(reader)
        next(batches)
        # The batch that was taken, and four ahead of it; tail and head.
        assert eventually(lambda: source.asked.total >= 2 + 5)
        time.sleep(0.05)
        assert 2 + 5 == source.asked.total
        assert 2 <= source.asked.peak <= 6
        list(batches)
    monkeypatch.setattr(ahead_module, "AHEAD_NBYTES", 7 << 20)
    source = WaitingSource(LARGE, Asked(0.02))
    with ipc.open(source) as reader:
        batches = iter(reader)
        next(batches)
        assert eventually(lambda: source.asked.total >= 2 + 3)
        time.sleep(0.05)
        assert 2 + 3 == source.asked.total  # two of 3.2 MB fit into 7 MiB
        monkeypatch.setattr(ahead_module, "AHEAD_NBYTES", 1)
        assert BATCHES - 1 == len(list(batches))  # never fewer than the next one


def test_projected_batches_overlap():
    source = WaitingSource(WIDE, Asked(0.02))
    with ipc.open(source, columns=["c1", "c6"]) as reader:
        list(reader)
    assert source.asked.peak >= 3


@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize("how", ["the iterator is closed", "it is forgotten", "the reader is closed"])
def test_threads_end_with_the_iterator(how):
    source = WaitingSource(LARGE)
    reader = ipc.open(source)
    batches = iter(reader)
    next(batches)
    if how == "the iterator is closed":
        batches.close()
    elif how == "it is forgotten":
        del batches
        gc.collect()
    else:
        reader.close()
    assert no_threads_are_left()
    asked = source.asked.total
    time.sleep(0.02)
    assert asked == source.asked.total
    if how == "the reader is closed":
        with pytest.raises(ValueError, match="closed"):
            next(batches)


def test_two_iterators_of_one_reader_do_not_disturb_each_other():
    with ipc.open(WaitingSource(LARGE)) as reader:
        for one, other in zip(reader, reader, strict=True):
            assert one.columns[0].buffers[1] == other.columns[0].buffers[1]


def test_batches_that_were_not_announced_are_read_all_the_same():
    source = WaitingSource(LARGE)
    with ipc.open(source) as reader:
        ahead = reader.read_ahead([2, 5, 6, 9])
        rows = [
            batch.num_rows
            for start, stop in [(2, 3), (5, 7), (8, 9), (9, 10), (3, 4)]
            for batch, _ in reader.read_joined(start, stop, below_rows=0, ahead=ahead)
        ]
        ahead.close()
    assert [ROWS] * 6 == rows
    assert 2 + 6 == source.asked.total


def test_a_fork_says_that_it_cannot_go_on():
    with ipc.open(WaitingSource(LARGE)) as reader:
        batches = iter(reader)
        next(batches)
        read_end, write_end = os.pipe()
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of a fork with threads, which is the point
            pid = os.fork()
        if not pid:
            try:
                next(batches)
            except Exception as error:  # noqa: BLE001
                os.write(write_end, str(error).encode())
            os._exit(0)
        os.waitpid(pid, 0)
        assert b"fork" in os.read(read_end, 1000)
        os.close(read_end)
        os.close(write_end)


def test_dictionaries_are_read_at_once():
    words = pa.array([f"word {i % 1000}" for i in range(200_000)])
    table = pa.table({f"d{i}": words.dictionary_encode() for i in range(6)})
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=100_000)
    source = WaitingSource(sink.getvalue())
    assert outcome(sink.getvalue()) == outcome(source)
    assert 1 + 1 + 1 + 2 == source.asked.total  # tail, head, all dictionaries, two batches
