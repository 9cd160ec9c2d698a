"""Streams that were put one after the other: a warning, all of their rows, or an error; never rows lost in silence."""

import io

import pytest

from spark_arrow_ipc import ipc
from spark_arrow_ipc.errors import InvalidFramingError, SchemaMismatchError
from spark_arrow_ipc.ipc.constants import EOS, LEGACY_EOS

pa = pytest.importorskip("pyarrow")

WORDS = ["a", "b", "c"]


def table(first, rows=3, words=WORDS):
    numbers = range(first, first + rows)
    d = pa.DictionaryArray.from_arrays(pa.array([i % len(words) for i in numbers], pa.int8()), words)
    return pa.table(
        {"a": pa.array(numbers, pa.int64()), "d": d, "s": pa.array([f"text {i}" for i in numbers], pa.string())}
    )


def stream(content, *, rows=2, has_end=True, metadata=None, legacy=False, compression=None):
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(use_legacy_format=legacy, compression=compression, emit_dictionary_deltas=False)
    content = content.replace_schema_metadata(metadata)
    with pa.ipc.new_stream(sink, content.schema, options=options) as writer:
        writer.write_table(content, max_chunksize=rows)
    data = sink.getvalue().to_pybytes()
    return data if has_end else data.removesuffix(LEGACY_EOS if legacy else EOS)


TABLES = [table(0), table(100, words=["x", "y"]), table(200, 5)]
JOINED = {
    "two": [stream(TABLES[0]), stream(TABLES[1])],
    "three": [stream(each) for each in TABLES],
    "compressed": [stream(each, compression="zstd") for each in TABLES],
    "legacy framing": [stream(each, legacy=True) for each in TABLES],
    "both framings": [stream(TABLES[0], legacy=True), stream(TABLES[1]), stream(TABLES[2], legacy=True)],
    "an empty one between": [stream(TABLES[0]), stream(table(0, 0)), stream(TABLES[1])],
    "other metadata": [stream(TABLES[0], metadata={"pandas": "3 rows"}), stream(TABLES[1], metadata={"pandas": "2"})],
    "many small batches": [stream(table(0, 500), rows=5), stream(table(500, 500, words=["x"]), rows=5)],
}


def rows_of(parts):
    return [row for part in parts for row in pa.ipc.open_stream(part).read_all().to_pylist()]


def iterate(reader):
    return [row for batch in reader for row in batch.to_pylist()]


def joined(reader):
    return [row for batch, _ in reader.read_joined(below_rows=10_000) for row in batch.to_pylist()]


READS = [iterate, joined]


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("name", JOINED)
def test_all_streams_are_read(name, read):
    parts = JOINED[name]
    with ipc.open(b"".join(parts), concatenated_streams="read") as reader:
        assert rows_of(parts) == read(reader)
        assert len(rows_of(parts)) == sum(batch.rows for batch in reader.read_headers())


@pytest.mark.slow
@pytest.mark.parametrize("name", JOINED)
def test_reading_may_begin_at_every_batch_of_every_stream(name):
    """With the dictionaries of its own stream."""
    data = b"".join(JOINED[name])
    expected = rows_of(JOINED[name])
    with ipc.open(data, concatenated_streams="read") as reader:
        index = reader.index()
    for number in range(0, len(index.batches), max(1, len(index.batches) // 10)):
        start = index.start(number)
        with ipc.open(data, concatenated_streams="read") as reader:
            reader.start_at(start)
            assert expected[start.rows_before :] == iterate(reader)


@pytest.mark.parametrize("read", [*READS, lambda reader: reader.index(), lambda reader: list(reader.read_headers())])
def test_the_first_is_read_with_a_warning(read):
    parts = JOINED["two"]
    words = f"another stream begins at byte {len(parts[0]):,}"
    with ipc.open(b"".join(parts)) as reader, pytest.warns(ipc.ConcatenatedStreamsWarning, match=words):
        found = read(reader)
    if read in READS:
        assert rows_of(parts[:1]) == found


@pytest.mark.parametrize("read", [*READS, lambda reader: reader.index(), lambda reader: list(reader.read_headers())])
def test_another_stream_is_an_error_on_demand(read):
    parts = JOINED["two"]
    reader = ipc.open(b"".join(parts), concatenated_streams="error")
    with pytest.raises(InvalidFramingError, match=r"another stream; .*'arrowipc repair'") as caught:
        read(reader)
    assert len(parts[0]) == caught.value.byte_offset


@pytest.mark.parametrize("mode", list(ipc.ConcatenatedStreams))
@pytest.mark.parametrize("after", [b"", b"\0" * 64, b"hello world, this is text", stream(table(0))[8:40]], ids=repr)
def test_other_bytes_after_the_end_are_ignored(mode, after):
    part = stream(TABLES[0])
    with ipc.open(part + after, concatenated_streams=mode) as reader:
        assert rows_of([part]) == iterate(reader)


def test_streams_without_an_end_are_read_only_on_demand():
    parts = [stream(TABLES[0], has_end=False), stream(TABLES[1])]
    with ipc.open(b"".join(parts), concatenated_streams="read") as reader:
        assert rows_of(parts) == iterate(reader)
        assert 6 == sum(batch.rows for batch in reader.index().batches)
    for mode in ("warn", "error"):
        with pytest.raises(InvalidFramingError, match=r"found another one; .*'arrowipc repair'"):
            iterate(ipc.open(b"".join(parts), concatenated_streams=mode))


OTHER = {
    "another type": (
        table(0).set_column(0, "a", pa.array([1, 2, 3], pa.int32())),
        "column 0 is a: int32, and was a: int64",
    ),
    "another name": (table(0).rename_columns(["a", "d", "t"]), "column 2 is t: utf8, and was s: utf8"),
    "fewer columns": (table(0).select(["a", "d"]), "2 columns, and there were 3"),
}


@pytest.mark.parametrize(("other", "words"), OTHER.values(), ids=OTHER)
def test_streams_of_other_schemas_are_not_read_as_one(other, words):
    first = stream(TABLES[0])
    for read in (iterate, lambda reader: reader.index()):
        with pytest.raises(SchemaMismatchError, match=words) as caught:
            read(ipc.open(first + stream(other), concatenated_streams="read"))
        assert len(first) == caught.value.byte_offset


class Pipe(io.RawIOBase):
    """A pipe that stays open: reading beyond what was sent would wait for ever."""

    def __init__(self, data, *, is_closed):
        self._data = io.BytesIO(data)
        self._is_closed = is_closed

    def readable(self):
        return True

    def readinto(self, buffer):
        count = self._data.readinto(buffer)
        assert count or self._is_closed, "it would wait here"
        return count


def test_a_pipe_is_not_read_beyond_the_end_to_warn():
    with ipc.open(Pipe(stream(TABLES[0]), is_closed=False)) as reader:
        assert rows_of([stream(TABLES[0])]) == iterate(reader)


def test_all_streams_of_a_pipe_are_read_on_demand():
    parts = JOINED["three"]
    with ipc.open(Pipe(b"".join(parts), is_closed=True), concatenated_streams="read") as reader:
        assert rows_of(parts) == iterate(reader)


def test_a_word_that_is_none_is_refused():
    with pytest.raises(ValueError, match="concat"):
        ipc.open(stream(TABLES[0]), concatenated_streams="concat")
