"""The complete batches of truncated and damaged files; `tests/cli/test_repair_reports.py` has what follows them."""

import io
import random

import pytest

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import RecordBatch, Schema
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.errors import ArrowIpcError, InvalidArrowError, InvalidDictionaryError, UnsupportedError
from spark_arrow_ipc.ipc.recovery import open_recovered

pa = pytest.importorskip("pyarrow")

FILES = 200


def a_file(random_):
    """Bytes of a random file or stream, and for each batch where it ends and its rows."""
    kind = random_.choice(["file", "stream"])
    words = [random_.choice(["red", "green", "blue", "ultraviolet" * 5]) for _ in range(400)]
    columns = {
        "a": pa.array(range(400)),
        "s": pa.array([None if i % 5 == 0 else "ä" * (i % 9) for i in range(400)]),
        "d": pa.array(words).dictionary_encode(),
        "v": pa.array(words, pa.string_view()),
        "l": pa.array([[i] * (i % 3) for i in range(400)]),
    }
    kept = random_.sample(sorted(columns), random_.randint(1, 5))
    table = pa.table({name: columns[name] for name in kept})
    codec = random_.choice([None, "lz4", "zstd"])
    sink = io.BytesIO()
    make = pa.ipc.new_file if kind == "file" else pa.ipc.new_stream
    ends = []
    with make(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        for batch in table.to_batches(max_chunksize=random_.choice([20, 70, 150])):
            writer.write_batch(batch)
            ends.append((sink.tell(), batch.to_pylist()))
    return kind, sink.getvalue(), ends


def recovered(data, **options):
    found = open_recovered(lambda: data, ipc.ReadOptions(**options))
    return [batch.to_pylist() for batch in found], found.lost


@pytest.mark.slow
@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.no_cover
@pytest.mark.parametrize("seed", range(4))
def test_exactly_the_whole_batches_survive_a_cut(seed):
    random_ = random.Random(seed)
    for _ in range(FILES // 4):
        kind, data, ends = a_file(random_)
        cut = random_.choice([random_.randrange(len(data)), len(data) - random_.randrange(1, 30)])
        rows, lost = recovered(data[:cut])
        assert [rows for end, rows in ends if end <= cut] == rows, (kind, cut)
        # A stream may end between two messages, which nothing shows.
        assert (lost is not None) or kind == "stream"


@pytest.mark.parametrize("seed", [1, 2])
def test_what_is_sound_is_read_as_ever(seed):
    random_ = random.Random(seed)
    for _ in range(10):
        _, data, ends = a_file(random_)
        assert ([rows for _, rows in ends], None) == recovered(data)


def test_the_reason_says_where_the_rest_was_lost():
    table = pa.table({"a": range(100)})
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=10)
    data = sink.getvalue()
    with ipc.open(data) as reader:
        block = reader.blocks[7]
    _, lost = recovered(data[: block.byte_offset + block.nbytes - 1])
    assert "record batch 7: expected a body of 80 bytes, found 79" in str(lost)
    rows, lost = recovered(data[:-1])
    assert 10 == len(rows)
    assert "expected the magic ARROW1 at the end" in str(lost)


NOTHING = [
    ("empty", b"", True),
    ("part of the magic", b"ARR", True),
    ("magic only", b"ARROW1\0\0", True),
    ("part of a stream's first bytes", b"\xff\xff", True),
    ("cut in the schema of a stream", b"\xff\xff\xff\xff\x50\0\0\0\x10\0\0\0", True),
    ("text", b"a,b\n1,2\n3,4\n5,6\n7,8\n", False),
    ("Parquet", b"PAR1" + bytes(20), False),
]


@pytest.mark.parametrize(("data", "nothing"), [case[1:] for case in NOTHING], ids=[case[0] for case in NOTHING])
def test_what_has_no_schema_gives_nothing_and_what_is_no_arrow_is_an_error(data, nothing):
    if not nothing:
        with pytest.raises(InvalidArrowError, match="what looks like"):
            open_recovered(lambda: data)
        return
    found = open_recovered(lambda: data)
    assert ([], None) == (list(found), found.reader)
    assert isinstance(found.lost, InvalidArrowError)


def test_a_batch_whose_dictionary_is_lost_says_so():
    """A file may have its dictionaries after the batches."""
    schema = Schema.of([t.field("d", t.dictionary(t.int8, t.utf8)), t.field("a", t.int64)])
    batches = [RecordBatch.from_pylist([{"d": "red", "a": i}], schema) for i in range(3)]
    sink = io.BytesIO()
    ipc.write(sink, batches)
    data = sink.getvalue()
    with ipc.open(data) as reader:
        dictionary, first = reader.dictionary_blocks[0], reader.blocks[0]
    without = data[: dictionary.byte_offset] + data[first.byte_offset :]
    found = open_recovered(lambda: without[:-200])
    assert 2 <= len(found.reader)
    with pytest.raises(InvalidDictionaryError):
        found.reader.read_batch(0)
    found = open_recovered(lambda: without[:-200], ipc.ReadOptions(columns=["a"]))
    assert [[{"a": i}] for i in range(len(found.reader))] == [batch.to_pylist() for batch in found]


@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize("dictionaries", ["unify", "delta"])
@pytest.mark.parametrize("tenth", range(1, 11))
def test_a_torn_file_with_dictionaries_has_its_rows(tenth, dictionaries):
    """As one without them: the values of each batch stand before it."""
    schema = Schema.of([t.field("d", t.dictionary(t.int32, t.utf8)), t.field("a", t.int64)])
    rows = [[{"d": f"word {(batch + 1) * (i % 40)}", "a": i} for i in range(1000)] for batch in range(20)]
    sink = io.BytesIO()
    batches = [RecordBatch.from_pylist(part, schema) for part in rows]
    ipc.write(sink, batches, options=ipc.WriteOptions(dictionaries=dictionaries))
    data = sink.getvalue()
    with ipc.open(data) as reader:
        assert (len(reader.dictionary_blocks) > 1) == (dictionaries == "delta")
        ends = [block.byte_offset + block.nbytes for block in reader.blocks]
    torn = data[: len(data) * tenth // 10 - 1]
    whole = sum(end <= len(torn) for end in ends)
    assert whole >= 2 * tenth - 2
    found = open_recovered(lambda: torn)
    assert rows[:whole] == [batch.to_pylist() for batch in found]


def test_what_is_recovered_is_checked_in_full():
    table = pa.table({"s": ["text"] * 10})
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    data = bytearray(sink.getvalue()[:-3])
    at = data.index(b"texttext")
    data[at] = 0xFF
    found = open_recovered(lambda: bytes(data), ipc.ReadOptions(validation="structural"))
    with pytest.raises(ArrowIpcError, match="UTF-8"):
        list(found)


def test_columns_and_files_are_handled_as_by_open(tmp_path):
    table = pa.table({"a": range(30), "b": [str(i) for i in range(30)]})
    path = tmp_path / "x.arrow"
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=10)
    path.write_bytes(sink.getvalue()[:-5])
    found = open_recovered(lambda: str(path), ipc.ReadOptions(columns=["b"]))
    assert ("b",) == found.reader.schema.names
    assert [str(i) for i in range(30)] == [value for batch in found for value in batch.to_pydict()["b"]]
    assert str(path) in str(found.lost)
    found.close()


def two_batches():
    sink = io.BytesIO()
    table = pa.table({"s": ["first", "second"]})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        for batch in table.to_batches(max_chunksize=1):
            writer.write_batch(batch)
    return sink.getvalue()


def test_a_cut_stream_is_checked_in_full():
    """The caller asks for structural validation, which a sound stream gets."""
    data = two_batches()[:-30]
    rows, lost = recovered(data, validation="structural")
    assert [[{"s": "first"}]] == rows
    assert isinstance(lost, InvalidArrowError)
    damaged = data.replace(b"first", b"\xffirst")
    opened = open_recovered(lambda: damaged, ipc.ReadOptions(validation="structural"))
    with pytest.raises(InvalidArrowError, match="UTF-8"):
        list(opened)


def test_a_stream_that_cannot_seek_is_closed_and_refused():
    class Pipe:
        def __init__(self):
            self.read = io.BytesIO(two_batches()).read

    with pytest.raises(UnsupportedError, match="needs a source that can seek"):
        open_recovered(Pipe)


def test_bytes_without_a_whole_schema_are_closed_as_well():
    opened = open_recovered(lambda: two_batches()[:20])
    opened.close()
    assert (None, None) == (opened.reader, opened.batches)
