"""Reading: only what is asked for, in the order that is asked for, and errors that say where."""

import io
import itertools
import os
import pickle
import struct
import threading
from pathlib import Path

import pytest

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import RecordBatch, Schema
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.errors import (
    ArrowIpcError,
    ColumnNotFoundError,
    InvalidBodyError,
    InvalidDictionaryError,
    InvalidFramingError,
    InvalidMetadataError,
    LimitError,
    UnsupportedError,
)
from spark_arrow_ipc.ipc.metadata.message import decode_message

DATA = Path(__file__).parents[1] / "data"
ROWS = 300
SCHEMA = Schema.of(
    [
        t.field("a", t.int64),
        t.field("s", t.utf8),
        t.field("p", t.struct([("x", t.int32), ("y", t.utf8), ("z", t.list_(t.int16))])),
        t.field("d", t.dictionary(t.int8, t.utf8)),
    ]
)
WORDS = ["red", "green", "blue"]


def rows(batch_number):
    return [
        {
            "a": i,
            "s": f"text {i}",
            "p": None if i % 7 == 0 else {"x": -i, "y": f"inner {i}", "z": [i % 100] * (i % 3)},
            "d": WORDS[i % 3],
        }
        for i in range(batch_number * ROWS, (batch_number + 1) * ROWS)
    ]


ALL_ROWS = [rows(i) for i in range(3)]
BATCHES = [RecordBatch.from_pylist(rows_, SCHEMA) for rows_ in ALL_ROWS]


def written(**options):
    file = io.BytesIO()
    ipc.write(file, BATCHES, options=ipc.WriteOptions(**options))
    return file.getvalue()


FILE, STREAM = written(), written(format="stream")
CONTENTS = {"file": FILE, "stream": STREAM}


class Pipe:
    """A file object that cannot seek and whose reads are short."""

    def __init__(self, data):
        self._file = io.BytesIO(data)

    def read(self, nbytes=-1):
        return self._file.read(min(nbytes, 1000))


def read(source, **how):
    with ipc.open(source, **how) as reader:
        return [batch.to_pylist() for batch in reader]


# Sources


def _path(data, tmp_path):
    path = tmp_path / "x.arrow"
    path.write_bytes(data)
    return path


SOURCES = [
    ("path", _path),
    ("text of a path", lambda data, tmp_path: str(_path(data, tmp_path))),
    ("bytes", lambda data, _: data),
    ("memoryview", lambda data, _: memoryview(data)),
    ("bytearray", lambda data, _: bytearray(data)),
    ("BytesIO", lambda data, _: io.BytesIO(data)),
    ("a file object", lambda data, tmp_path: io.FileIO(_path(data, tmp_path))),
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


# A file's reader


def test_a_file_is_read_in_any_order_and_again():
    with ipc.open_file(FILE) as reader:
        assert 3 == len(reader) == len(reader.blocks)
        assert ALL_ROWS[2] == reader.read_batch(2).to_pylist()
        assert ALL_ROWS[0] == reader.read_batch(0).to_pylist()
        assert 2 * ALL_ROWS == [batch.to_pylist() for batch in itertools.chain(reader, reader)]


@pytest.mark.parametrize("number", [-1, 3])
def test_a_batch_that_does_not_exist_is_an_index_error(number):
    with ipc.open_file(FILE) as reader:
        for method in (reader.read_batch, reader.read_header):
            with pytest.raises(IndexError, match=f"0 to 2, found {number}"):
                method(number)


def test_a_header_is_read_without_its_body():
    file = Recorder(FILE)
    with ipc.open_file(file) as reader:
        opened = len(file.reads)
        headers = [reader.read_header(i) for i in range(len(reader))]
        assert [ROWS] * 3 == [header.length for header in headers]
        assert 8 == len(headers[0].nodes)
        assert [(block.byte_offset, block.metadata_nbytes) for block in reader.blocks] == file.reads[opened:]
        dictionary = reader.read_dictionary_header(0)
        assert (0, 3, False) == (dictionary.id, dictionary.data.length, dictionary.is_delta)


def test_batches_outlive_their_reader(tmp_path):
    with ipc.open(_path(FILE, tmp_path)) as reader:
        batch = reader.read_batch(1)
    (tmp_path / "x.arrow").unlink()
    assert ALL_ROWS[1] == batch.to_pylist()


def test_a_closed_reader_says_so(tmp_path):
    reader = ipc.open(_path(FILE, tmp_path))
    reader.close()
    reader.close()
    with pytest.raises(ValueError, match=r"x\.arrow: the reader is closed"):
        reader.read_batch(0)


def test_representations_are_for_people():
    with ipc.open(FILE) as file, ipc.open(STREAM) as stream:
        assert f"<Arrow IPC file in memory: 3 record batches>\n{SCHEMA}" == repr(file)
        assert f"<Arrow IPC stream in memory>\n{SCHEMA}" == repr(stream)


# A stream's reader


@pytest.mark.parametrize("source", [lambda: STREAM, lambda: Pipe(STREAM)], ids=["bytes", "pipe"])
@pytest.mark.parametrize("columns", [None, ["a"]], ids=["whole", "some"])
def test_a_stream_that_ended_stays_ended(source, columns):
    reader = ipc.open_stream(source(), columns=columns)
    assert 3 == len(list(reader))
    assert [] == list(reader)
    with pytest.raises(StopIteration):
        next(reader)


def test_what_lies_behind_the_end_of_a_stream_is_nobodys():
    assert ALL_ROWS == read(STREAM + b"what else is in this socket")


def test_a_batch_comes_before_the_next_one_was_written():
    """A reader of a pipe may not wait for bytes that it does not need yet."""
    reading, writing = os.pipe()
    said = threading.Event()

    def write():
        with os.fdopen(writing, "wb", buffering=0) as sink:
            writer = ipc.create(sink, SCHEMA, ipc.WriteOptions(format="stream"))
            writer.write(BATCHES[0])
            said.wait(30)
            writer.write(BATCHES[1])
            writer.close()

    thread = threading.Thread(target=write)
    thread.start()
    with os.fdopen(reading, "rb", buffering=0) as source, ipc.open_stream(source) as reader:
        assert ALL_ROWS[0] == next(reader).to_pylist()
        assert not said.is_set()
        said.set()
        assert [ALL_ROWS[1]] == [batch.to_pylist() for batch in reader]
    thread.join()


# Columns


class Recorder(io.BytesIO):
    """A file object that notes what is read of it."""

    def __init__(self, data):
        super().__init__(data)
        self.reads = []

    def read(self, nbytes=-1):
        self.reads.append((self.tell(), nbytes))
        return super().read(nbytes)


def project(row, columns):
    found = {}
    for column in columns:
        path = column if isinstance(column, tuple) else (column,)
        name = SCHEMA.names[path[0]] if isinstance(path[0], int) else path[0]
        value = row[name]
        if len(path) > 1:
            value = None if value is None else {**(found.get(name) or {}), path[1]: value[path[1]]}
            if value is not None:
                value = {key: value[key] for key in "xyz" if key in value}  # the fields of a struct keep their order
        found[name] = value
    return found


COLUMNS = [
    ("a name", ["s"]),
    ("a position", [2]),
    ("another order", ["d", "a"]),
    ("another order with a struct between", ["d", "p", "s"]),
    ("a path", [("p", "y")]),
    ("two paths of one struct", [("p", "z"), "a", ("p", "x")]),
    ("nothing", []),
]


@pytest.mark.parametrize("columns", [case[1] for case in COLUMNS], ids=[case[0] for case in COLUMNS])
@pytest.mark.parametrize("source", [lambda: FILE, lambda: STREAM, lambda: Pipe(STREAM), lambda: written(compression="zstd")], ids=["file", "stream", "pipe", "compressed"])  # fmt: skip
def test_columns_come_in_the_order_that_was_asked_for(source, columns):
    expected = [[project(row, columns) for row in rows_] for rows_ in ALL_ROWS]
    with ipc.open(source(), columns=columns) as reader:
        batches = list(reader)
        names = [list(row) for row in (batch.to_pylist()[0] for batch in batches)]
        assert [list(reader.schema.names)] * 3 == names == [list(expected[0][0])] * 3
        assert expected == [batch.to_pylist() for batch in batches]
        assert [ROWS] * 3 == [batch.num_rows for batch in batches]


def test_columns_may_depend_on_the_schema():
    """So a caller need not open the file twice."""
    found = read(FILE, columns=lambda schema: [f.name for f in schema.fields if isinstance(f.type, t.Utf8)])
    assert [[{"s": row["s"]} for row in rows_] for rows_ in ALL_ROWS] == found


def test_a_column_that_does_not_exist_names_the_file(tmp_path):
    path = _path(FILE, tmp_path)
    with pytest.raises(ColumnNotFoundError, match="there is no column 'b'") as caught:
        ipc.open(path, columns=["b"])
    assert str(path) == caught.value.path


WIDE = Schema.of([t.field(name, t.int64) for name in ("a", "b", "c")] + [t.field("s", t.struct([("x", t.int64), ("y", t.int64)]))])  # fmt: skip
WIDE_ROWS = 20_000
WIDE_BATCH = RecordBatch.from_pydict({**{name: range(WIDE_ROWS) for name in "abc"}, "s": [(i, i) for i in range(WIDE_ROWS)]}, WIDE)  # fmt: skip

UNREAD = [
    ("first", ["a"], 1),
    ("last and first", ["c", "a"], 2),
    ("field of a struct", [("s", "x")], 1),
    ("nothing", [], 0),
]


def wide(kind):
    file = io.BytesIO()
    ipc.write(file, [WIDE_BATCH, WIDE_BATCH], options=ipc.WriteOptions(format=kind))
    return file.getvalue()


@pytest.mark.parametrize(("columns", "count"), [case[1:] for case in UNREAD], ids=[case[0] for case in UNREAD])
@pytest.mark.parametrize("kind", ["file", "stream"])
def test_buffers_of_other_columns_are_not_read(kind, columns, count):
    file = Recorder(wide(kind))
    with ipc.open(file, columns=columns) as reader:
        assert [WIDE_ROWS] * 2 == [batch.num_rows for batch in reader]
    column_nbytes = 8 * WIDE_ROWS
    read_nbytes = sum(nbytes for _, nbytes in file.reads)
    assert 2 * count * column_nbytes <= read_nbytes < 2 * count * column_nbytes + 10_000
    large = [nbytes for _, nbytes in file.reads if nbytes >= column_nbytes]
    assert [column_nbytes] * (2 * count) == large


@pytest.mark.parametrize("columns", [None, ["a"], ["c", "a"], ["a", "b", "c", ("s", "x")], []])
def test_wanted_bytes_are_what_is_read(columns):
    file = Recorder(wide("file"))
    with ipc.open(file, columns=columns) as reader:
        known = reader.wanted_nbytes(1)
        file.reads.clear()
        reader.read_batch(1)
    assert known == sum(nbytes for _, nbytes in file.reads)


def test_dictionaries_of_other_columns_are_not_read():
    words = [f"a text that takes {i} bytes" for i in range(20_000)]
    schema = Schema.of([t.field("a", t.int64), t.field("d", t.dictionary(t.int32, t.utf8))])
    batch = RecordBatch.from_pydict({"a": range(20_000), "d": words}, schema)
    for kind in ("file", "stream"):
        sink = io.BytesIO()
        ipc.write(sink, [batch], options=ipc.WriteOptions(format=kind))
        file = Recorder(sink.getvalue())
        assert [20_000] == [len(batch_) for batch_ in read(file, columns=["a"])]
        assert sum(nbytes for _, nbytes in file.reads) < 170_000, kind


def test_a_body_that_is_not_read_still_has_to_be_there():
    """The columns asked for are whole, and the rows behind the cut would be lost without a word."""
    whole = wide("stream")
    second = len(whole) - 100_000
    for source in (io.BytesIO, Pipe, bytes):
        with (
            pytest.raises(InvalidFramingError, match="truncated") as caught,
            ipc.open(source(whole[:second]), columns=["a"]) as reader,
        ):
            list(reader)
        assert ("record batch", 1) == (caught.value.block_kind, caught.value.block_number)


# Custom metadata


def test_custom_metadata_is_kept_in_order_everywhere():
    pairs = (("z", "1"), ("a", "2"), ("z", "3"), ("", ""), ("grün", "🏹"))
    field = t.field("l", t.list_(t.field("item", t.int8, custom_metadata=pairs)), custom_metadata=pairs)
    schema = Schema.of([field], pairs)
    array = RecordBatch.from_pydict({"l": [[1]]}, schema).columns
    for kind in ("file", "stream"):
        sink = io.BytesIO()
        with ipc.create(sink, schema, ipc.WriteOptions(format=kind)) as writer:
            writer.custom_metadata["rows"] = "2"
            writer.write(RecordBatch(schema, array, 1, pairs))
            writer.write(RecordBatch(schema, array, 1))
            writer.custom_metadata["end"] = "yes"
        with ipc.open(sink.getvalue()) as reader:
            assert schema == reader.schema
            assert [pairs, ()] == [batch.custom_metadata for batch in reader]
            if kind == "file":
                assert (("rows", "2"), ("end", "yes")) == reader.custom_metadata


# Errors


def block_of(number, *, dictionary=False):
    with ipc.open_file(FILE) as reader:
        return (reader.dictionary_blocks if dictionary else reader.blocks)[number]


def header_of(number):
    with ipc.open_file(FILE) as reader:
        return reader.read_header(number)


def buffer_at(number, buffer_number):
    """Return where a buffer of a record batch lies in FILE, and where its (offset, length) does."""
    block, (start, nbytes) = block_of(number), header_of(number).buffers[buffer_number].tolist()
    place = FILE.index(struct.pack("<qq", start, nbytes), block.byte_offset)
    assert place < block.byte_offset + block.metadata_nbytes
    return block.byte_offset + block.metadata_nbytes + start, place


def damaged(place, format_, *numbers):
    data = bytearray(FILE)
    struct.pack_into(format_, data, place, *numbers)
    return bytes(data)


# Buffers of SCHEMA in order: a 0-1, s 2-4, p 5, p.x 6-7, p.y 8-10, p.z 11-12, p.z[] 13-14, d 15-16.
def damages():
    s_offsets, s_offsets_entry = buffer_at(1, 3)
    y_bytes, y_bytes_entry = buffer_at(2, 10)
    z_offsets, _ = buffer_at(0, 12)
    d_indices, _ = buffer_at(2, 16)
    p_validity, p_validity_entry = buffer_at(1, 5)
    start, _ = header_of(2).buffers[10].tolist()
    first, words = block_of(1), block_of(0, dictionary=True)
    node = FILE.index(struct.pack("<qq", ROWS, 0), first.byte_offset)
    flatbuffer = first.byte_offset + 8
    body_nbytes = FILE.index(struct.pack("<q", first.body_nbytes), first.byte_offset)
    assert body_nbytes < flatbuffer + first.metadata_nbytes
    return [
        # name, bytes, error, block kind, block number, field, byte offset (None: only inside the block)
        ("values too short", damaged(s_offsets_entry + 8, "<q", 8), InvalidBodyError, "record batch", 1, "s", s_offsets),
        ("validity too short", damaged(p_validity_entry + 8, "<q", 8), InvalidBodyError, "record batch", 1, "p", p_validity),
        ("no validity though nulls", damaged(p_validity_entry + 8, "<q", 0), InvalidBodyError, "record batch", 1, "p", p_validity),
        ("a buffer behind the body", damaged(y_bytes_entry, "<q", 1 << 40), InvalidBodyError, "record batch", 2, "p.y", None),
        ("a buffer before the body", damaged(y_bytes_entry, "<q", -8), InvalidBodyError, "record batch", 2, "p.y", None),
        ("a buffer at an odd place", damaged(y_bytes_entry, "<q", start + 4), InvalidBodyError, "record batch", 2, "p.y", None),
        ("a buffer of negative length", damaged(y_bytes_entry + 8, "<q", -1), InvalidBodyError, "record batch", 2, "p.y", None),
        ("a buffer whose end overflows", damaged(y_bytes_entry, "<qq", 1 << 62, (1 << 63) - 1), InvalidBodyError, "record batch", 2, "p.y", None),
        ("offsets that decrease", damaged(s_offsets + 40, "<i", 3), InvalidBodyError, "record batch", 1, "s", None),
        ("offsets below zero", damaged(z_offsets, "<i", -1), InvalidBodyError, "record batch", 0, "p.z", None),
        ("offsets behind the bytes", damaged(s_offsets + 4 * ROWS, "<i", 1 << 30), InvalidBodyError, "record batch", 1, "s", None),
        ("text that is no UTF-8", damaged(y_bytes + 10, "<B", 0xFF), InvalidBodyError, "record batch", 2, "p.y", None),
        ("an index behind the dictionary", damaged(d_indices + 5, "<b", 3), InvalidBodyError, "record batch", 2, "d", None),
        ("a negative index", damaged(d_indices + 5, "<b", -1), InvalidBodyError, "record batch", 2, "d", None),
        ("a column of another length", damaged(node, "<q", ROWS + 1), InvalidBodyError, "record batch", 1, "a", None),
        ("more nulls than slots", damaged(node + 8, "<q", ROWS + 1), InvalidMetadataError, "record batch", 1, None, None),
        ("a negative length", damaged(node, "<q", -1), InvalidMetadataError, "record batch", 1, None, None),
        ("a prefix that contradicts the footer", damaged(first.byte_offset + 4, "<i", 16), InvalidFramingError, "record batch", 1, None, first.byte_offset),
        ("a negative prefix", damaged(first.byte_offset + 4, "<i", -8), InvalidFramingError, "record batch", 1, None, first.byte_offset + 4),
        ("a table outside the message", damaged(flatbuffer, "<I", 1 << 30), InvalidMetadataError, "record batch", 1, None, flatbuffer),
        ("a body length that contradicts the footer", damaged(body_nbytes, "<q", first.body_nbytes - 8), InvalidFramingError, "record batch", 1, None, first.byte_offset),
        ("a broken dictionary", damaged(words.byte_offset + 8, "<I", 1 << 30), InvalidMetadataError, "dictionary batch", 0, "d", words.byte_offset + 8),
    ]  # fmt: skip


DAMAGES = damages()


@pytest.mark.parametrize("case", DAMAGES, ids=[case[0] for case in DAMAGES])
def test_a_damaged_file_is_located(tmp_path, case):
    _, data, error, kind, number, field, byte_offset = case
    path = _path(data, tmp_path)
    with pytest.raises(error) as caught:
        read(path)
    found = caught.value
    assert (str(path), kind, number, field) == (found.path, found.block_kind, found.block_number, found.field_path)
    block = block_of(number, dictionary=kind == "dictionary batch")
    if byte_offset is None:
        assert block.byte_offset <= found.byte_offset <= block.byte_offset + block.nbytes
    else:
        assert byte_offset == found.byte_offset
    for part in filter(None, (str(path), f"{kind} {number}", field, f"(byte offset {found.byte_offset:,}")):
        assert part in str(found)
    arrived = pickle.loads(pickle.dumps(found))
    assert (type(found), str(found)) == (type(arrived), str(arrived))


@pytest.mark.parametrize("case", DAMAGES, ids=[case[0] for case in DAMAGES])
def test_other_blocks_of_a_damaged_file_are_read(case):
    _, data, _, kind, number, _, _ = case
    if kind == "dictionary batch":
        assert [[{"a": row["a"]} for row in rows_] for rows_ in ALL_ROWS] == read(data, columns=["a"])
        return
    with ipc.open_file(data) as reader:
        for i in {0, 1, 2} - {number}:
            assert ALL_ROWS[i] == reader.read_batch(i).to_pylist()


def test_structural_validation_leaves_out_the_values_only():
    """With `structural`, what could harm memory is still refused."""
    by_name = {case[0]: case[1] for case in DAMAGES}
    assert 3 == len(read(by_name["text that is no UTF-8"], validation="structural", columns=["a"]))
    with ipc.open(by_name["text that is no UTF-8"], validation="structural") as reader:
        assert [ROWS] * 3 == [batch.num_rows for batch in reader]
    for name in ("values too short", "a buffer behind the body", "a column of another length"):
        with pytest.raises(ArrowIpcError):
            read(by_name[name], validation="structural")
    with pytest.raises(ValueError, match="expected validation 'full' or 'structural', found 'none'"):
        ipc.open(FILE, validation="none")


def stream_places():
    """Return where each message of STREAM begins and its body does."""
    places, at = [], 0
    while True:
        (length,) = struct.unpack_from("<i", STREAM, at + 4)
        if not length:
            return places
        body = at + 8 + length
        nbytes = next(block.body_nbytes for block in BODIES[len(places)])
        places.append((at, body))
        at = body + nbytes


with ipc.open_file(FILE) as _reader:
    _EMPTY = ipc.Block(0, 0, 0)
    BODIES = [(_EMPTY,), *((block,) for block in (*_reader.dictionary_blocks, *_reader.blocks))]

PLACES = stream_places()

CUTS = [
    # where it is cut, block kind and number, byte offset
    ("inside a prefix", PLACES[2][0] + 6, None, None, PLACES[2][0] + 4),
    ("inside the first bytes", PLACES[2][0] + 3, None, None, PLACES[2][0]),
    ("inside metadata", PLACES[3][0] + 50, None, None, PLACES[3][0] + 8),
    ("inside a body", PLACES[4][1] + 1000, "record batch", 2, PLACES[4][1]),
    ("inside a dictionary", PLACES[1][1] + 3, "dictionary batch", 0, PLACES[1][1]),
    ("inside the schema", 100, None, None, 8),
]


@pytest.mark.parametrize("case", CUTS, ids=[case[0] for case in CUTS])
def test_a_cut_stream_says_where(tmp_path, case):
    _, nbytes, kind, number, byte_offset = case
    path = _path(STREAM[:nbytes], tmp_path)
    with pytest.raises(InvalidFramingError) as caught:
        read(path)
    found = caught.value
    assert (str(path), kind, number) == (found.path, found.block_kind, found.block_number)
    assert byte_offset == found.byte_offset
    with pytest.raises(InvalidFramingError) as of_pipe:
        read(Pipe(STREAM[:nbytes]))
    assert byte_offset == of_pipe.value.byte_offset


@pytest.mark.parametrize("source", [bytes, Pipe], ids=["bytes", "pipe"])
def test_a_stream_without_end_marker_is_whole_where_a_message_ends(source):
    """Columnar.rst: the writer may close the stream instead."""
    assert ALL_ROWS == read(source(STREAM[:-8]))
    assert ALL_ROWS[:2] == read(source(STREAM[: PLACES[4][0]]))


def test_a_file_cut_behind_an_open_reader_is_an_error(tmp_path):
    path = _path(written(dictionaries="delta"), tmp_path)  # the dictionary lies before the batches
    with ipc.open_file(path) as reader:
        block = reader.blocks[1]
        os.truncate(path, block.byte_offset + 500)
        assert ALL_ROWS[0] == reader.read_batch(0).to_pylist()
        with pytest.raises(InvalidFramingError, match="truncated") as caught:
            reader.read_batch(1)
    assert (str(path), 1, block.byte_offset) == (caught.value.path, caught.value.block_number, caught.value.byte_offset)


def test_an_os_error_stays_one():
    class Failing(io.BytesIO):
        def read(self, nbytes=-1):
            if self.tell() > 8 and nbytes > 1000:
                raise OSError(5, "Input/output error")
            return super().read(nbytes)

    with ipc.open_file(Failing(FILE)) as reader, pytest.raises(OSError, match="Input/output error"):
        reader.read_batch(0)


def test_a_second_schema_in_a_stream_is_an_error():
    start, end = PLACES[0][0], PLACES[0][1]
    with pytest.raises(InvalidFramingError, match=r"one schema.*found another one") as caught:
        read(STREAM[: PLACES[2][0]] + STREAM[start:end] + STREAM[PLACES[2][0] :])
    assert PLACES[2][0] == caught.value.byte_offset


def test_indices_before_their_dictionary_are_an_error():
    without = STREAM[: PLACES[1][0]] + STREAM[PLACES[2][0] :]
    with pytest.raises(InvalidDictionaryError, match="a dictionary batch of id 0 before its first use") as caught:
        read(without)
    assert ("record batch", 0, "d") == (caught.value.block_kind, caught.value.block_number, caught.value.field_path)
    assert [[{"a": row["a"]} for row in rows_] for rows_ in ALL_ROWS] == read(without, columns=["a"])


# Limits

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


def test_a_batch_beyond_the_budget_is_refused_before_it_is_read():
    file = Recorder(wide("file"))
    with ipc.open_file(file, limits=ipc.Limits(max_batch_bytes=100_000)) as reader, pytest.raises(LimitError):
        reader.read_batch(0)
    assert sum(nbytes for _, nbytes in file.reads) < 10_000


# Old shapes


@pytest.mark.parametrize("name", ["integers.v4.legacy.arrows", "integers.legacy.arrow", "integers.v4.arrows", "integers.lz4.arrows"])  # fmt: skip
def test_old_framing_and_versions_read_as_the_new(name):
    assert read(DATA / "integers.arrow") == read(DATA / name)


def test_a_legacy_stream_of_a_pipe_is_read_to_its_4_byte_end():
    data = (DATA / "integers.v4.legacy.arrows").read_bytes()
    assert data.endswith(bytes(4))
    assert read(DATA / "integers.arrow") == read(Pipe(data))
    assert read(DATA / "integers.arrow") == read(Pipe(data[:-4]))


def test_an_outer_dictionary_may_come_before_the_inner_one():
    """arrow-java writes them in this order; a pipe and bytes give the same."""
    inner = t.dictionary(t.int8, t.utf8)
    schema = Schema.of([t.field("a", t.dictionary(t.int8, t.struct([("w", inner)])))])
    expected = [{"a": {"w": "x"}}, {"a": {"w": "y"}}, {"a": None}]
    sink = io.BytesIO()
    ipc.write(sink, [RecordBatch.from_pylist(expected, schema)], options=ipc.WriteOptions(format="stream"))
    content = sink.getvalue()
    starts, offset = [], 0
    while (length := int.from_bytes(content[offset + 4 : offset + 8], "little")) != 0:
        starts.append(offset)
        message = decode_message(memoryview(content)[offset + 8 : offset + 8 + length], ipc.Limits())
        offset += 8 + length + message.body_nbytes
    schema_message, first, second, batch = (content[a:b] for a, b in zip(starts, [*starts[1:], offset], strict=True))
    swapped = schema_message + second + first + batch + content[offset:]
    assert [expected, expected] == [next(iter(ipc.open(source))).to_pylist() for source in (swapped, Pipe(swapped))]
