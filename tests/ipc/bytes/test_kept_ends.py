"""The first and the last 64 KiB of a file are read once."""

import io

import numpy as np
import pyarrow as pa
import pytest
from waiting import WaitingSource

from spark_arrow_ipc import ipc
from spark_arrow_ipc.errors import InvalidFramingError, NotArrowError
from spark_arrow_ipc.ipc.bytes.source import END_NBYTES, KeptEnds, keep_ends, open_source

DATA = np.random.default_rng(1).bytes(10 * END_NBYTES)
END = len(DATA)

READS = [
    ("the first bytes", [(0, 8), (8, 100), (0, END_NBYTES)], 1),
    ("the last bytes", [(END - 6, 6), (END - 10, 10), (END - END_NBYTES, END_NBYTES)], 1),
    ("more than there is", [(END - 6, 100), (END, 5), (END + 5, 5)], 1),
    ("bytes in the middle, each time", [(END_NBYTES, 8), (END_NBYTES, 8)], 2),
    ("more than an end", [(0, END_NBYTES + 1), (END - END_NBYTES - 1, END_NBYTES + 1)], 2),
]


@pytest.mark.parametrize(("reads", "requests"), [case[1:] for case in READS], ids=[case[0] for case in READS])
def test_bytes_are_right_and_ends_are_read_once(reads, requests):
    source = WaitingSource(DATA)
    kept = KeptEnds(source)
    assert [DATA[start : start + nbytes] for start, nbytes in reads] == [
        bytes(kept.read_up_to(*each)) for each in reads
    ]
    assert requests == source.asked.total


def test_ranges_are_asked_of_the_source_unless_they_lie_in_an_end():
    source = WaitingSource(DATA)
    ranges = [(0, 8), (END_NBYTES, 100), (END - 8, 8), (3 * END_NBYTES, 10)]
    assert [DATA[start : start + n] for start, n in ranges] == list(map(bytes, KeptEnds(source).read_ranges(ranges)))
    assert 4 == source.asked.total


@pytest.mark.parametrize("nbytes", [0, 1, END_NBYTES])
def test_a_small_file_is_one_read(nbytes):
    source = WaitingSource(DATA[:nbytes])
    kept = KeptEnds(source)
    assert kept.is_small
    assert [DATA[:nbytes], DATA[: min(nbytes, 8)]] == [bytes(kept.read_up_to(0, n)) for n in (nbytes, 8)]
    assert 1 == source.asked.total


def test_only_a_source_that_waits_is_kept():
    assert isinstance(keep_ends(WaitingSource(DATA)), KeptEnds)
    buffer = open_source(DATA)
    assert buffer is keep_ends(buffer)


class Bare:
    """A caller's source that has no `read_ranges` and says nothing of waiting."""

    path = None
    nbytes = 3

    def read_up_to(self, byte_offset, nbytes):
        return memoryview(b"abc")[byte_offset : byte_offset + nbytes]

    read_at = read_up_to

    def close(self):
        pass


def test_a_source_that_does_not_say_so_does_not_wait():
    source = open_source(Bare())
    assert not source.waits
    assert [b"a", b"c"] == list(map(bytes, source.read_ranges([(0, 1), (2, 1)])))


def arrow(create, rows):
    sink = io.BytesIO()
    table = pa.table({"a": np.arange(rows)})
    with create(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


FILE, STREAM = arrow(pa.ipc.new_file, 20_000), arrow(pa.ipc.new_stream, 20_000)

OPENED = [
    ("a file", FILE, "file", 1),
    ("a small file", arrow(pa.ipc.new_file, 10), "file", 1),
    ("a stream", STREAM, "stream", 2),
    ("a small stream", arrow(pa.ipc.new_stream, 10), "stream", 1),
]


@pytest.mark.parametrize(
    ("data", "format_", "requests"), [case[1:] for case in OPENED], ids=[case[0] for case in OPENED]
)
def test_opening_costs_one_request_of_a_file_and_two_of_a_stream(data, format_, requests):
    source = WaitingSource(data)
    with ipc.open(source) as reader:
        assert format_ == reader.format
        assert requests == source.asked.total
        reader.schema  # noqa: B018 - it costs no request either
    assert requests == source.asked.total


@pytest.mark.parametrize(
    ("data", "error"),
    [(b"PAR1" * 50_000, NotArrowError), (FILE[:-8], InvalidFramingError), (b"", InvalidFramingError)],
    ids=["Parquet", "a file that was cut", "nothing"],
)
def test_what_is_no_file_is_the_same_error_as_on_a_disk(data, error):
    with pytest.raises(error) as local:
        ipc.open(data)
    with pytest.raises(error) as remote:
        ipc.open(WaitingSource(data))
    assert str(local.value) == str(remote.value)


def test_other_bytes_before_a_footer_are_found_when_the_first_batch_is_read():
    with (
        ipc.open(WaitingSource(b"\0" * 8 + FILE[8:])) as reader,
        pytest.raises(InvalidFramingError, match="end-of-stream"),
    ):
        reader.read_batch(0)
