"""A stream that grows is read batch by batch: in order, each once, whatever is torn and whoever dies."""

import io
import json
import os
import random

import cpu_time
import pytest

from spark_arrow_ipc.dataset.scan.scan import scan
from spark_arrow_ipc.dataset.stream import tail
from spark_arrow_ipc.dataset.stream.mode import ALL_AVAILABLE, Limit
from spark_arrow_ipc.dataset.stream.tail import TailMode, TailOptions
from spark_arrow_ipc.errors import FileChangedError, InvalidFramingError, StreamOffsetError, UnsupportedError
from spark_arrow_ipc.storage.byte_source import FileSource
from spark_arrow_ipc.storage.local import LOCAL

pa = pytest.importorskip("pyarrow")

SCHEMA = pa.schema([("n", pa.int64()), ("d", pa.dictionary(pa.int32(), pa.string()))])


def words(i):
    """Deltas, and a new dictionary each 17 batches."""
    return [f"{i // 17}/{word}" for word in range(1 + i % 17 // 3)]


def stream(count, first=0):
    """A stream of batches of two rows, and where each message of them ends."""
    sink = io.BytesIO()
    ends = []
    options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
    with pa.ipc.new_stream(sink, SCHEMA, options=options) as writer:
        for i in range(first, first + count):
            own = words(i)
            array = pa.DictionaryArray.from_arrays(pa.array([len(own) - 1, 0], pa.int32()), pa.array(own))
            writer.write_batch(pa.record_batch([pa.array([2 * i, 2 * i + 1]), array], schema=SCHEMA))
            ends.append(sink.tell())
    return sink.getvalue(), ends


DATA, ENDS = stream(60)
ROWS = pa.ipc.open_stream(DATA).read_all().to_pylist()


class Query:
    """Drives a mode as Spark does."""

    def __init__(self, path, limit=ALL_AVAILABLE, **options):
        self.path, self.limit, self.options = path, limit, TailOptions(**options)
        self.offsets = []
        self.restart()

    def restart(self):
        self.mode = TailMode(LOCAL, str(self.path), self.options)

    @property
    def at(self):
        return self.offsets[-1] if self.offsets else self.mode.initial()

    def look(self):
        """Return the rows of the next batch, or None."""
        start = self.at
        end = self.mode.latest(start, self.limit)
        if end is start:
            return None
        self.offsets.append(json.loads(json.dumps(end)))
        return self.rows(self.mode, start)

    def rows(self, mode, start):
        found = []
        for part in mode.batch(start, self.offsets[-1]).ranges:
            for file in scan([part]):
                for scanned in file.batches:
                    columns = scanned.batch.to_pydict()
                    found += [{"n": n, "d": d} for n, d in zip(columns["n"], columns["d"], strict=True)]
        return found


def grow(path, *cuts):
    """Write the file up to each place, and go on after each."""
    for cut in cuts:
        path.write_bytes(DATA[:cut]) if not path.exists() else append(path, cut)
        yield cut


def append(path, cut):
    with path.open("ab") as file:
        file.write(DATA[path.stat().st_size : cut])


@pytest.mark.slow
@pytest.mark.parametrize("limit", [ALL_AVAILABLE, Limit(max_files=1), Limit(max_bytes=1000)], ids=str)
def test_torn_writes_restarts_and_batches_that_are_run_again(tmp_path, limit):
    luck = random.Random(1)
    query, read = Query(tmp_path / "x.arrows", limit), []
    cuts = sorted({0, 5, 100, len(DATA), *(luck.randrange(len(DATA)) for _ in range(80))})
    for cut in grow(query.path, *cuts):
        while (rows := query.look()) is not None:
            read += rows
            if luck.random() < 0.3:
                query.restart()
                start = query.offsets[-2] if len(query.offsets) > 1 else query.mode.initial()
                assert rows == query.rows(query.mode, start)
            assert query.offsets[-1]["byte"] == ENDS[query.offsets[-1]["batch"] - 1]
        assert ROWS[: 2 * sum(end <= cut for end in ENDS)] == read
    assert ROWS == read
    assert query.look() is None, "the stream has ended"
    query.restart()
    assert query.look() is None


def test_a_large_batch_is_shared_by_tasks(tmp_path):
    path = tmp_path / "x.arrows"
    path.write_bytes(DATA)
    query = Query(path, split_nbytes=2000)
    assert ROWS == query.look()
    batch = query.mode.batch(query.mode.initial(), query.offsets[0])
    ranges = batch.ranges
    assert ENDS[-1] == batch.nbytes
    assert len(ranges) > 5
    assert [part.start for part in ranges[1:]] == [part.stop for part in ranges[:-1]]


def test_the_newest_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(tail, "_MOST_KEPT", 7)
    path = tmp_path / "x.arrows"
    list(grow(path, ENDS[39]))
    query = Query(path, from_latest=True)
    assert [] == query.look()
    list(grow(path, len(DATA)))
    assert ROWS[80:] == [row for rows in iter(query.look, None) for row in rows]


def test_what_is_there_now_alone(tmp_path):
    path = tmp_path / "x.arrows"
    list(grow(path, ENDS[19] + 3))
    query = Query(path, Limit(max_files=15))
    query.mode.only_available_now()
    first = query.look()
    list(grow(path, len(DATA)))
    assert ROWS[:40] == [*first, *query.look()]
    assert query.look() is None


def test_batches_beyond_those_that_are_kept_come_later(tmp_path, monkeypatch):
    monkeypatch.setattr(tail, "_MOST_KEPT", 7)
    path = tmp_path / "x.arrows"
    path.write_bytes(DATA)
    query = Query(path, Limit(max_files=4))
    assert ROWS == [row for rows in iter(query.look, None) for row in rows]
    query = Query(path)
    query.mode.only_available_now()
    assert ROWS == [row for rows in iter(query.look, None) for row in rows]


def test_no_schema_yet_is_nothing_new(tmp_path):
    path = tmp_path / "x.arrows"
    query = Query(path)
    for _ in grow(path, 0, 3, 8, 15, 16, 200):
        assert query.look() is None
    list(grow(path, len(DATA)))
    assert ROWS == query.look()


def truncated(path):
    os.truncate(path, ENDS[9])


def rewritten(path):
    path.write_bytes(stream(60, first=1000)[0])


def one_byte_changed(path):
    data = bytearray(path.read_bytes())
    data[ENDS[19] - 30] ^= 255
    path.write_bytes(data)


def replaced(path):
    other = path.with_name("other")
    other.write_bytes(DATA)
    other.rename(path)


def removed(path):
    path.unlink()


CHANGES = [
    (truncated, "cut to"),
    (rewritten, "no record batch ends at byte|are others|cut to"),
    (one_byte_changed, "are others"),
    (replaced, "another file has its place"),
    (removed, "gone"),
]


@pytest.mark.parametrize("restarts", [False, True], ids=["in one process", "after a restart"])
@pytest.mark.parametrize(("change", "words"), CHANGES, ids=[change.__name__ for change, _ in CHANGES])
def test_a_file_that_is_another_one_is_named(tmp_path, change, words, restarts):
    path = tmp_path / "x.arrows"
    list(grow(path, ENDS[19]))
    query = Query(path)
    query.look()
    list(grow(path, ENDS[20]))
    change(path)
    if restarts:
        query.restart()
        if change is replaced:  # by the same bytes, which is no other file to somebody who has not seen it
            assert query.look() is not None
            return
    with pytest.raises(FileChangedError, match=words) as caught:
        query.look()
    assert str(path) == caught.value.path


def test_a_file_of_other_bytes_of_the_same_length_is_named_while_nothing_grows(tmp_path):
    path = tmp_path / "x.arrows"
    list(grow(path, ENDS[19]))
    query = Query(path)
    query.look()
    one_byte_changed(path)
    query.restart()
    with pytest.raises(FileChangedError, match="are others"):
        query.look()


NO_STREAMS = [
    (b"ARROW1\0\0" + bytes(99), UnsupportedError, "file format"),
    (DATA[: ENDS[3]] + b"\xff" * 64, InvalidFramingError, "metadata length"),
]


@pytest.mark.parametrize(("data", "error", "words"), NO_STREAMS, ids=["a file", "broken bytes"])
def test_what_is_no_stream_is_an_error(tmp_path, data, error, words):
    path = tmp_path / "x.arrows"
    path.write_bytes(data)
    with pytest.raises(error, match=words):
        Query(path).look()


BROKEN = [
    {"v": 1, "mode": "tail", "batch": -1, "byte": 0, "crc": 0},
    {"v": 1, "mode": "tail", "batch": 1, "byte": 0, "crc": 1 << 33},
    {"v": 1, "mode": "table", "seq": 1, "after": "/", "job": ""},
]


@pytest.mark.parametrize("offset", BROKEN)
def test_offsets_are_checked(tmp_path, offset):
    path = tmp_path / "x.arrows"
    path.write_bytes(DATA)
    with pytest.raises(StreamOffsetError):
        Query(path).mode.latest(offset, ALL_AVAILABLE)


def test_a_poll_reads_what_is_new_however_long_the_file_is(tmp_path, monkeypatch):
    path = tmp_path / "x.arrows"
    asked = []
    original = FileSource.read_up_to

    def counted(self, byte_offset, nbytes):
        asked.append((byte_offset, nbytes))
        return original(self, byte_offset, nbytes)

    def poll(query):
        asked.clear()
        return query.mode.latest(query.at, ALL_AVAILABLE)

    monkeypatch.setattr(FileSource, "read_up_to", counted)
    reads = []
    for count in (20, 50):
        list(grow(path, ENDS[count]))
        query = Query(path)
        query.look()
        asked.clear()
        assert query.look() is None
        assert [] == asked
        list(grow(path, ENDS[count + 1]))
        end = cpu_time.at_most(0.5, poll, query)
        assert count + 2 == end["batch"]
        reads.append(len(asked))
        assert [] == [place for place in asked if 1000 < place[0] < ENDS[count] - 64]
    assert reads[0] == reads[1]
