"""Opening takes every kind of source, tells the formats apart, and keeps to its limits."""

import io
import random
from pathlib import Path

import pytest
from reader_cases import ALL_ROWS, BODIES, CONTENTS, FILE, SCHEMA, Pipe, Recorder, read, saved

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import RecordBatch, Schema
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.errors import (
    ArrowIpcError,
    InvalidArrowError,
    InvalidDictionaryError,
    InvalidFramingError,
    LimitError,
    UnsupportedError,
)
from spark_arrow_ipc.ipc.reader import open_recovered

DATA = Path(__file__).parents[1] / "data"
SOURCES = [
    ("path", saved),
    ("a path as a string", lambda data, tmp_path: str(saved(data, tmp_path))),
    ("bytes", lambda data, _: data),
    ("memoryview", lambda data, _: memoryview(data)),
    ("bytearray", lambda data, _: bytearray(data)),
    ("BytesIO", lambda data, _: io.BytesIO(data)),
    ("a file object", lambda data, tmp_path: io.FileIO(saved(data, tmp_path))),
    ("a pipe", lambda data, _: Pipe(data)),
]


@pytest.mark.parametrize("make", [case[1] for case in SOURCES], ids=[case[0] for case in SOURCES])
@pytest.mark.parametrize("kind", CONTENTS)
def test_every_source_gives_the_same_rows(tmp_path, kind, make):
    source = make(CONTENTS[kind], tmp_path)
    if kind == "file" and isinstance(source, Pipe):
        with pytest.raises(UnsupportedError, match="needs a source that can seek"):
            ipc.open(source)
        return
    with ipc.open(source) as reader:
        assert kind == reader.format
        assert SCHEMA == reader.schema
        assert ALL_ROWS == [batch.to_pylist() for batch in reader]
    if isinstance(source, io.IOBase):
        assert not source.closed  # the caller's
        source.close()


@pytest.mark.parametrize(("opener", "other"), [(ipc.open_file, "stream"), (ipc.open_stream, "file")], ids=["file", "stream"])  # fmt: skip
def test_a_demanded_format_is_demanded(opener, other):
    with pytest.raises(InvalidFramingError, match=f"found the {other} format"):
        opener(CONTENTS[other])
    ((mine, data),) = CONTENTS.items() - {(other, CONTENTS[other])}
    assert mine == opener(data).format


def test_a_schema_is_read_from_the_footer_or_the_first_message_alone():
    for kind, data in CONTENTS.items():
        file = Recorder(data)
        assert SCHEMA == ipc.read_schema(file)
        assert sum(nbytes for _, nbytes in file.reads) < 2000, kind


def test_an_os_error_stays_one():
    class Failing(io.BytesIO):
        def read(self, nbytes=-1):
            if self.tell() > 8 and nbytes > 1000:
                raise OSError(5, "Input/output error")
            return super().read(nbytes)

    with ipc.open_file(Failing(FILE)) as reader, pytest.raises(OSError, match="Input/output error"):
        reader.read_batch(0)


LIMITS = [
    ("a batch", {"max_batch_bytes": 10_000}, "max_batch_bytes"),
    ("metadata", {"max_metadata_bytes": 100}, "max_metadata_bytes"),
    ("columns", {"max_columns": 7}, "max_columns"),
    ("depth", {"max_depth": 1}, "max_depth"),
]


@pytest.mark.parametrize(("limits", "name"), [case[1:] for case in LIMITS], ids=[case[0] for case in LIMITS])
@pytest.mark.parametrize("kind", CONTENTS)
def test_a_budget_is_named_where_it_is_exceeded(kind, limits, name):
    with pytest.raises(LimitError, match=name):
        read(CONTENTS[kind], limits=ipc.Limits(**limits))


@pytest.mark.parametrize("kind", CONTENTS)
def test_budgets_that_are_just_enough_are_enough(kind):
    most = max(block.body_nbytes for (block,) in BODIES)
    assert ALL_ROWS == read(CONTENTS[kind], limits=ipc.Limits(max_batch_bytes=most, max_columns=8, max_depth=4))
    with pytest.raises(LimitError):
        read(CONTENTS[kind], limits=ipc.Limits(max_batch_bytes=most - 1))


def test_decompressed_bytes_count_too():
    zeros = RecordBatch.from_pydict({"a": [0] * 50_000}, Schema.of([t.field("a", t.int64)]))
    for codec in ("lz4", "zstd"):
        sink = io.BytesIO()
        ipc.write(sink, [zeros], options=ipc.WriteOptions(compression=codec))
        assert len(sink.getvalue()) < 10_000
        assert 50_000 == len(read(sink.getvalue(), limits=ipc.Limits(max_batch_bytes=400_000))[0])
        with pytest.raises(LimitError, match=r"field a.*max_batch_bytes"):
            read(sink.getvalue(), limits=ipc.Limits(max_batch_bytes=399_999))


@pytest.mark.parametrize("codec", [None, "lz4", "zstd"])
@pytest.mark.parametrize("kind", ["file", "stream"])
def test_all_dictionaries_have_one_budget(kind, codec):
    """70 KB of them took 1.7 GB with a limit of 64 MiB: each was within the budget of a batch."""
    columns = [[f"{i}" + "x" * 9_999] for i in range(10)]
    schema = Schema.of([t.field(f"f{i}", t.dictionary(t.int8, t.utf8)) for i in range(10)])
    sink = io.BytesIO()
    batch = RecordBatch.from_pydict({f"f{i}": values for i, values in enumerate(columns)}, schema)
    ipc.write(sink, [batch], options=ipc.WriteOptions(format=kind, compression=codec))
    enough = ipc.Limits(max_batch_bytes=30_000, max_dictionary_bytes=110_000)
    assert batch.to_pylist() == read(sink.getvalue(), limits=enough)[0]
    few = ipc.Limits(max_batch_bytes=30_000, max_dictionary_bytes=50_000)
    with pytest.raises(
        LimitError, match=r"dictionary batch [45]: the sum of all dictionaries .* max_dictionary_bytes is 50,000"
    ):
        read(sink.getvalue(), limits=few)
    with ipc.open(sink.getvalue(), limits=few, columns=[0, 1]) as reader:
        assert 1 == len(list(reader))


@pytest.mark.parametrize("name", ["integers.v4.legacy.arrows", "integers.legacy.arrow", "integers.v4.arrows", "integers.lz4.arrows"])  # fmt: skip
def test_old_framing_and_versions_read_as_the_new(name):
    assert read(DATA / "integers.arrow") == read(DATA / name)


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
