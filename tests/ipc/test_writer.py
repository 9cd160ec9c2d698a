"""What is written is read by others, is the same every time, and appears whole or not at all."""

import hashlib
import io
import itertools
import os
import struct
from pathlib import Path

import pytest

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import RecordBatch, Schema
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.python_values import from_pylist
from spark_arrow_ipc.arrow.schema import Endianness
from spark_arrow_ipc.errors import OptionError

pa = pytest.importorskip("pyarrow")

import arrow_from_pyarrow as convert  # noqa: E402 - needs pyarrow
from writer_cases import (  # noqa: E402 - needs pyarrow
    ENCODED,
    EVERY_TYPE,
    INTS,
    OPTIONS,
    REPLACED,
    VARIANTS,
    WORDS,
    batch_for,
    encoded,
    every_type,
    ints,
    pyarrow_reader,
    read_by_pyarrow,
    same,
    written,
)

pa = pytest.importorskip("pyarrow")
ROWS = 11


@OPTIONS
def test_pyarrow_reads_every_type(options):
    batch = batch_for(options)
    data = written([convert.batch_from_pyarrow(batch)], **options)
    same(pa.Table.from_batches([batch]), read_by_pyarrow(data))


@OPTIONS
def test_our_reader_reads_them_too(options):
    expected = convert.batch_from_pyarrow(batch_for(options))
    with ipc.open(written([expected, expected.slice(3, 5)], **options)) as reader:
        found = list(reader)
    assert [expected.to_pylist(), expected.to_pylist()[3:8]] == [batch.to_pylist() for batch in found]
    for batch in found:
        batch.validate()


POLARS_LACKS = ("sparse_union", "dense_union", "interval", "run_end", "list_view", "map", "duration", "decimal256", "decimal32", "decimal64", "fixed_size_list_0", "fixed_size_binary_0", "float16", "dictionary_uint8", "month")  # fmt: skip
POLARS_TYPES = {"date64": pa.timestamp("ms")}


@pytest.mark.parametrize("kind", ["file", "stream"])
@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_polars_reads_what_it_has_types_for(kind, compression):
    polars = pytest.importorskip("polars")
    names = [name for name in EVERY_TYPE.schema.names if not any(lack in name for lack in POLARS_LACKS)]
    batch = EVERY_TYPE.select(names)
    data = written([convert.batch_from_pyarrow(b) for b in (batch, batch.slice(2, 7))], format=kind, compression=compression)  # fmt: skip
    read = {"file": polars.read_ipc, "stream": polars.read_ipc_stream}[kind]
    found = read(io.BytesIO(data))
    expected = pa.Table.from_batches([batch, batch.slice(2, 7)])
    assert expected.num_rows == len(found)
    for name in names:
        assert (
            expected[name].cast(POLARS_TYPES.get(name, batch.schema.field(name).type)).to_pylist()
            == found[name].to_list()
        ), name


def test_nanoarrow_reads_a_stream():
    nanoarrow = pytest.importorskip("nanoarrow")
    input_stream = pytest.importorskip("nanoarrow.ipc").InputStream
    names = ["bool", "int32", "double", "utf8", "binary", "list", "struct", "map", "large_utf8", "null", "fixed_size_list", "timestamp[us, tz=UTC]"]  # fmt: skip
    batch = EVERY_TYPE.select(names)
    for options in ({}, {"compression": "zstd"}, {"alignment": 8}):
        data = written([convert.batch_from_pyarrow(batch)], format="stream", **options)
        with input_stream.from_readable(data) as stream:
            same(pa.Table.from_batches([batch]), pa.table(nanoarrow.ArrayStream(stream)))


EMPTY_SHAPES = [
    ("no batch", [], []),
    ("a batch without rows", [0], [0]),
    ("some without rows", [0, 3, 0, 2, 0], [0, 3, 0, 2, 0]),
]


@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize(("lengths", "expected"), [c[1:] for c in EMPTY_SHAPES], ids=[c[0] for c in EMPTY_SHAPES])
@OPTIONS
def test_batches_without_rows_are_kept(options, lengths, expected):
    batch = batch_for(options)
    batches = [convert.batch_from_pyarrow(batch.slice(0, n)) for n in lengths]
    reader = pyarrow_reader(written(batches, convert.schema_from_pyarrow(batch.schema), **options))
    assert batch.schema.equals(reader.schema)
    found = [reader.get_batch(i) for i in range(reader.num_record_batches)] if hasattr(reader, "get_batch") else list(reader)  # fmt: skip
    assert expected == [batch.num_rows for batch in found]
    for batch in found:
        batch.validate(full=True)


@OPTIONS
def test_rows_without_columns_are_counted(options):
    empty = Schema.of([])
    data = written([RecordBatch(empty, (), 5), RecordBatch(empty, (), 0), RecordBatch(empty, (), 7)], **options)
    assert (12, 0) == (read_by_pyarrow(data).num_rows, read_by_pyarrow(data).num_columns)
    with ipc.open(data) as reader:
        assert [5, 0, 7] == [batch.num_rows for batch in reader]


def test_a_schema_alone_has_to_be_given():
    with pytest.raises(ValueError, match="expected a schema, or at least one record batch or table, found neither"):
        written([])


def test_a_file_is_a_stream_between_its_magic_and_its_footer():
    """Columnar.rst: "IPC File Format"."""
    batches = [ints(0, 5), ints(5, 10)]
    file, stream = written(batches), written(batches, format="stream")
    (footer_nbytes,) = struct.unpack("<i", file[-10:-6])
    inside = file[8 : len(file) - 10 - footer_nbytes]
    # The bodies' alignment counts from the start of the file, so paddings differ; the messages do not.
    assert pa.ipc.open_stream(inside).read_all() == pa.ipc.open_stream(stream).read_all()
    assert inside.endswith(b"\xff\xff\xff\xff\0\0\0\0")


@pytest.mark.slow
def test_the_same_batches_give_the_same_bytes():
    again = every_type()
    for _, options in VARIANTS:
        names = batch_for(options).schema.names
        first, second = (
            written([convert.batch_from_pyarrow(batch.select(names))] * 2, **options) for batch in (EVERY_TYPE, again)
        )
        is_same = hashlib.sha256(first).digest() == hashlib.sha256(second).digest()
        # A file with checksums has a random id.
        assert is_same is not options.get("checksums", False), options


@pytest.mark.slow
def test_compression_makes_smaller_and_levels_differ():
    batch = ints(0, 20_000)
    sizes = [len(written([batch], **o)) for o in ({"compression": None}, {"compression": "lz4"}, {"compression": "zstd"}, {"compression": "zstd", "compression_level": 19})]  # fmt: skip
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[1] < sizes[0] / 1.3


def test_custom_metadata_arrives_at_pyarrow():
    schema = Schema.of([t.field("a", t.int8, custom_metadata={"unit": "m"})], {"who": "us"})
    for kind in ("file", "stream"):
        file = io.BytesIO()
        with ipc.create(file, schema, ipc.WriteOptions(format=kind)) as writer:
            writer.custom_metadata.update({"end": "yes"} if kind == "file" else {})
            writer.write(RecordBatch(schema, (from_pylist.array([1], t.int8),), 1, (("batch", "first"),)))
        reader = pyarrow_reader(file.getvalue())
        assert ({b"who": b"us"}, {b"unit": b"m"}) == (reader.schema.metadata, reader.schema.field("a").metadata)
        if kind == "file":
            _, pairs = reader.get_batch_with_custom_metadata(0)
        else:
            _, pairs = reader.read_next_batch_with_custom_metadata()
        assert {"batch": "first"} == pairs
        with ipc.open(file.getvalue()) as ours:
            assert kind == "stream" or (("end", "yes"),) == ours.custom_metadata


GROWING = [
    ("one dictionary", [("ab", (0, 1)), ("ab", (1, 1))], [False]),
    ("a delta", [("ab", (0, 1)), ("abc", (2, 0)), ("abc", (2,)), ("abcde", (4,))], [False, True, True]),
    ("from nothing", [("", (None, None)), ("a", (0,))], [False, True]),
]


@pytest.mark.parametrize(("parts", "deltas"), [c[1:] for c in GROWING], ids=[c[0] for c in GROWING])
@pytest.mark.parametrize("kind", ["file", "stream"])
@pytest.mark.parametrize("compression", [None, "zstd"])
def test_a_dictionary_that_grows_is_written_as_deltas(kind, compression, parts, deltas):
    batches = [encoded(words, *indices) for words, indices in parts]
    data = written(batches, format=kind, compression=compression, dictionaries="delta")
    expected = [None if i is None else words[i] for words, indices in parts for i in indices]
    assert expected == read_by_pyarrow(data)["d"].to_pylist()
    with ipc.open(data) as reader:
        assert expected == [row["d"] for batch in reader for row in batch.to_pylist()]
        if kind == "file":
            headers = [reader.read_dictionary_header(i) for i in range(len(reader.dictionary_blocks))]
            assert [(0, delta) for delta in deltas] == [(header.id, header.is_delta) for header in headers]


def test_a_dictionary_is_replaced_in_a_stream():
    data = written([encoded(words, *indices) for words, indices in REPLACED], format="stream")
    expected = ["a", "b", "b", "a", "a", "c", "a"]
    assert expected == [word for batch in pa.ipc.open_stream(data) for word in batch.column(0).to_pylist()]
    with ipc.open(data) as reader:
        assert expected == [row["d"] for batch in reader for row in batch.to_pylist()]


def test_dictionaries_inside_dictionaries_come_first():
    outer = t.dictionary(t.int16, t.struct([("w", WORDS), ("n", t.int32)]))
    schema = Schema.of([t.field("o", t.list_(outer))])
    rows = [[{"w": "x", "n": 1}, None], [], [{"w": "y", "n": 1}, {"w": "x", "n": 1}]]
    batch = RecordBatch.from_pydict({"o": rows}, schema)
    for kind in ("file", "stream"):
        data = written([batch], format=kind)
        assert rows == read_by_pyarrow(data)["o"].to_pylist()
        with ipc.open(data) as reader:
            assert rows == next(iter(reader)).to_pydict()["o"]


def nested(words, *rows):
    """A batch of a dictionary of structs of a dictionary, and a plain dictionary beside it."""
    outer = t.dictionary(t.int16, t.struct([("w", WORDS), ("n", t.int32)]))
    schema = Schema.of([t.field("o", outer), t.field("d", WORDS)])
    return RecordBatch.from_pylist([{"o": {"w": words[i], "n": i}, "d": words[i]} for i in rows], schema)


@pytest.mark.parametrize("kind", ["file", "stream"])
@pytest.mark.parametrize("compression", [None, "lz4"])
def test_dictionaries_inside_dictionaries_have_no_deltas(kind, compression):
    """pyarrow refuses a delta whose values or whose outer values have a dictionary; others are deltas in a stream.

    A file with such dictionaries waits for all values of each.
    """
    batches = [nested("ab", 0, 1), nested("abc", 2, 0), nested("abc", 2, 2), nested("xaz", 0, 1, 2)]
    data = written(batches, format=kind, compression=compression, dictionaries="delta")
    expected = [row for batch in batches for row in batch.to_pylist()]
    table = pa.ipc.open_file(data).read_all() if kind == "file" else pa.Table.from_batches(pa.ipc.open_stream(data))
    table.validate(full=True)
    assert expected == table.to_pylist()
    with ipc.open(data) as reader:
        assert expected == [row for batch in reader for row in batch.to_pylist()]
        if kind == "file":
            headers = [reader.read_dictionary_header(i) for i in range(len(reader.dictionary_blocks))]
            found = [(header.id, header.is_delta) for header in headers]
        else:
            reader_again = ipc.open_stream(data)
            found = [(entry.id, entry.is_delta) for entry in reader_again.index().dictionaries]
    deltas = {dictionary_id for dictionary_id, delta in found if delta}
    assert ({found[-1][0]} if kind == "stream" else set()) == deltas


PAIRS = {"unit": "m", "digest": b"\xff\x00"}


@pytest.mark.parametrize("kind", ["file", "stream"])
@pytest.mark.parametrize("version", ["V4", "V5"])
def test_the_messages_of_schema_and_dictionaries_have_metadata_of_their_own(kind, version):
    sink = io.BytesIO()
    with ipc.create(
        sink, ENCODED, ipc.WriteOptions(format=kind, metadata_version=version), schema_metadata=PAIRS
    ) as writer:
        writer.dictionary_metadata.update(PAIRS if version == "V5" else {})
        writer.write(encoded("ab", 0, 1))
    assert ["a", "b"] == read_by_pyarrow(sink.getvalue())["d"].to_pylist()
    of_dictionaries = t.pairs(PAIRS) if version == "V5" else ()
    with ipc.open(sink.getvalue()) as reader:
        if kind == "file":
            assert t.pairs(PAIRS) == reader.read_schema_metadata()
            assert of_dictionaries == reader.read_dictionary_header(0).custom_metadata
            assert () == reader.custom_metadata
        else:
            assert t.pairs(PAIRS) == reader.custom_metadata
            assert [of_dictionaries] == [entry.custom_metadata for entry in reader.index().dictionaries]
        assert () == reader.schema.custom_metadata


@pytest.mark.parametrize("is_late", [False, True])
def test_a_stream_does_not_drop_the_pairs_of_a_footer(is_late):
    writer = ipc.create(io.BytesIO(), INTS, ipc.WriteOptions(format="stream"))
    if is_late:
        writer.write(ints(0, 3))
    writer.custom_metadata["k"] = "v"
    with pytest.raises(ValueError, match=r"a stream has no footer .* schema_metadata"):
        writer.close() if is_late else writer.write(ints(0, 3))


PYARROW_SWAPS_NOT = (t.BinaryView, t.Utf8View, t.RunEndEncoded)


@pytest.mark.parametrize("kind", ["file", "stream"])
@pytest.mark.parametrize("compression", [None, "zstd"])
def test_a_big_endian_schema_is_written_big_endian(kind, compression):
    """pyarrow swaps all types that it has in this byte order; ours is compared for the others."""
    ours = convert.batch_from_pyarrow(batch_for({}))
    data = big_endian(ours, format=kind, compression=compression)
    with ipc.open(data) as reader:
        assert reader.schema.endianness is Endianness.BIG
        assert ours.to_pylist() == next(iter(reader)).to_pylist()
    for field, column in zip(ours.schema.fields, ours.columns, strict=True):
        alone = RecordBatch(Schema((field,)), (column,), ours.num_rows)
        try:
            found = read_by_pyarrow(big_endian(alone, format=kind, compression=compression))
        except pa.ArrowNotImplementedError:
            assert type(field.type) in PYARROW_SWAPS_NOT
            continue
        assert convert.batch_from_pyarrow(found.combine_chunks().to_batches()[0]).to_pylist() == alone.to_pylist()


def big_endian(batch, **options):
    schema = Schema(batch.schema.fields, batch.schema.custom_metadata, Endianness.BIG)
    return written([RecordBatch(schema, batch.columns, batch.num_rows)], **options)


def sinks(directory):
    return sorted(path.name for path in directory.iterdir())


def test_a_path_has_its_name_only_when_it_is_finished(tmp_path):
    path = tmp_path / "x.arrow"
    path.write_bytes(b"what stood there")
    writer = ipc.create(path, INTS)
    writer.write(ints(0, 1000))
    assert b"what stood there" == path.read_bytes()
    assert ["x.arrow"] == [name for name in sinks(tmp_path) if not name.startswith(".")]
    writer.close()
    writer.close()
    assert ["x.arrow"] == sinks(tmp_path)
    assert path.stat().st_size == writer.nbytes
    assert 1000 == read_by_pyarrow(path.read_bytes()).num_rows


def _abort(writer):
    writer.abort()
    writer.abort()


def _raise(writer):
    with pytest.raises(ZeroDivisionError), writer:
        writer.write(ints(10, 10))
        raise ZeroDivisionError


def _interrupt(writer):
    with pytest.raises(KeyboardInterrupt), writer:
        raise KeyboardInterrupt


def _mismatch(writer):
    with pytest.raises(ValueError, match="expected a batch of 2 columns"), writer:
        writer.write(RecordBatch(Schema.of([]), (), 1))


ENDINGS = [("abort", _abort), ("an exception", _raise), ("an interrupt", _interrupt), ("a wrong batch", _mismatch)]


@pytest.mark.parametrize("end", [case[1] for case in ENDINGS], ids=[case[0] for case in ENDINGS])
@pytest.mark.parametrize("before", [None, b"what stood there"], ids=["nothing there", "a file there"])
def test_what_is_not_finished_leaves_nothing(tmp_path, end, before):
    path = tmp_path / "x.arrow"
    if before is not None:
        path.write_bytes(before)
    writer = ipc.create(path, INTS)
    writer.write(ints(0, 10))
    end(writer)
    assert ([] if before is None else ["x.arrow"]) == sinks(tmp_path)
    assert before is None or before == path.read_bytes()
    with pytest.raises(ValueError, match="the writer is closed"):
        writer.write(ints(0, 1))
    writer.close()
    assert ([] if before is None else ["x.arrow"]) == sinks(tmp_path)


def test_a_file_object_that_was_given_up_is_no_file():
    file = io.BytesIO()
    writer = ipc.create(file, INTS)
    writer.write(ints(0, 10))
    writer.abort()
    assert not file.closed
    with pytest.raises(pa.ArrowInvalid):
        pa.ipc.open_file(file.getvalue())


class Full(io.BytesIO):
    """A file object that has room for `room` bytes."""

    def __init__(self, room):
        super().__init__()
        self.room = room

    def write(self, data):
        if self.tell() + len(data) > self.room:
            super().write(bytes(data)[: self.room - self.tell()])
            raise OSError(28, "No space left on device")
        return super().write(data)


def test_a_writer_whose_file_failed_never_writes_a_footer():
    """Whoever goes on after the error gets no file that looks whole."""
    file = Full(3000)
    writer = ipc.create(file, INTS)
    writer.write(ints(0, 10))
    with pytest.raises(OSError, match="No space left"):
        writer.write(ints(0, 10_000))
    file.room = 1 << 30
    with pytest.raises(ValueError, match="the writer is closed"):
        writer.write(ints(0, 10))
    writer.close()
    assert not file.getvalue().endswith(b"ARROW1")


def test_a_disk_that_is_full_at_the_end_leaves_nothing(tmp_path, monkeypatch):
    path = tmp_path / "x.arrow"
    path.write_bytes(b"what stood there")
    writer = ipc.create(path, INTS)
    writer.write(ints(0, 10))
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space left"):
        writer.close()
    assert ["x.arrow"] == sinks(tmp_path)
    assert b"what stood there" == path.read_bytes()


def test_a_file_object_that_takes_a_part_gets_the_rest():
    """So do unbuffered files: above 2 GiB, and when a disk is nearly full."""

    class Partial(io.RawIOBase):
        def __init__(self):
            self.taken = bytearray()

        def writable(self):
            return True

        def write(self, data):
            self.taken += bytes(data[:100])
            return min(len(data), 100)

    file = Partial()
    with ipc.create(file, INTS) as writer:
        writer.write(ints(0, 1000))
    assert written([ints(0, 1000)]) == bytes(file.taken)


def test_a_file_object_that_cannot_seek_is_enough():
    class Pipe:
        def __init__(self):
            self.data = b""

        def write(self, data):
            self.data += bytes(data)

        def flush(self):
            pass

    for kind in ("file", "stream"):
        pipe = Pipe()
        ipc.write(pipe, [ints(0, 10)], options=ipc.WriteOptions(format=kind))
        assert 10 == read_by_pyarrow(pipe.data).num_rows


def test_a_device_is_written_directly():
    ipc.write("/dev/null", [ints(0, 10)])
    assert Path("/dev/null").is_char_device()


def test_a_directory_that_is_not_there_stays_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        ipc.create(tmp_path / "no" / "x.arrow", INTS)


@pytest.mark.parametrize("wrong", [None, 3, b"path"], ids=repr)
def test_what_is_no_sink_is_a_type_error(wrong):
    with pytest.raises(TypeError, match="expected a path or a binary file object"):
        ipc.create(wrong, INTS)


MISMATCHES = [
    ("a column less", [("a", t.int32)], "expected a batch of 2 columns, found 1"),
    ("a column more", [("a", t.int32), ("b", t.utf8), ("c", t.int8)], "expected a batch of 2 columns, found 3"),
    ("another name", [("a", t.int32), ("B", t.utf8)], "expected column 1 to be b: utf8, found B: utf8"),
    ("another type", [("a", t.int64), ("b", t.utf8)], "expected column 0 to be a: int32, found a: int64"),
    ("another order", [("b", t.utf8), ("a", t.int32)], "expected column 0 to be a: int32, found b: utf8"),
]


@pytest.mark.parametrize(("fields", "message"), [c[1:] for c in MISMATCHES], ids=[c[0] for c in MISMATCHES])
def test_a_batch_of_another_schema_is_refused_and_the_file_goes_on(fields, message):
    schema = Schema.of([t.field(*field) for field in fields])
    batch = RecordBatch(schema, tuple(from_pylist.array([], field[1]) for field in fields), 0)
    file = io.BytesIO()
    with ipc.create(file, INTS) as writer:
        with pytest.raises(ValueError, match=message):
            writer.write(batch)
        writer.write(ints(0, 3))
    assert 3 == read_by_pyarrow(file.getvalue()).num_rows


def test_blocks_tell_where_batches_lie():
    data = written([ints(0, 5), ints(5, 10)])
    with ipc.open_file(data) as reader:
        blocks = reader.blocks
    assert all(data[block.byte_offset : block.byte_offset + 4] == b"\xff\xff\xff\xff" for block in blocks)
    assert all(a.byte_offset + a.nbytes <= b.byte_offset for a, b in itertools.pairwise(blocks))


@pytest.mark.parametrize("form", ["file", "stream"])
@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:100],
        lambda data: data[:-8],
        lambda data: data + bytes(8),
        lambda data: bytes(8) + data[8:],
        lambda data: data[:-7] + bytes(7),
    ],
    ids=["cut", "without its end", "longer", "another start", "another end"],
)
def test_what_a_disk_lost_is_found_before_the_file_takes_its_name(tmp_path, damage, form):
    """A path's file is opened again and compared before it replaces what stood there."""
    path = tmp_path / "x.arrow"
    path.write_bytes(b"before")
    writer = ipc.create(path, ENCODED, ipc.WriteOptions(format=form))
    writer.write(encoded("ab", 0, 1))
    finish = writer._sink.finish

    def losing(prove):
        writer._sink.file.flush()
        (staged,) = tmp_path.glob(".x.arrow.*")
        whole = staged.read_bytes()
        assert whole != damage(whole)
        staged.write_bytes(damage(whole))
        finish(prove)

    writer._sink.finish = losing
    with pytest.raises(OSError, match="what was written is not what is there"):
        writer.close()
    assert (b"before", ["x.arrow"]) == (path.read_bytes(), [file.name for file in tmp_path.iterdir()])


@pytest.mark.parametrize("options", [{}, {"dictionaries": "delta"}, {"format": "stream"}], ids=repr)
def test_a_batch_beyond_the_size_of_the_file_is_not_written(options):
    file = io.BytesIO()
    with ipc.create(file, ENCODED, ipc.WriteOptions(**options)) as writer:
        assert writer.write(encoded("ab", 0, 1), within=100_000)
        before = writer.nbytes
        assert not writer.write(encoded("cd", 1, 0), within=before)
        assert before == writer.nbytes
        assert writer.write(encoded("ef", 1, 0), within=100_000)
    assert ["a", "b", "f", "e"] == read_by_pyarrow(file.getvalue())["d"].to_pylist()


@pytest.mark.parametrize(
    "write", [ipc.write, lambda *given, **options: ipc.create(given[0], ENCODED, **options)], ids=["write", "create"]
)
def test_options_of_a_store_reach_it(write):
    pytest.importorskip("obstore")
    with pytest.raises(OptionError, match=r"there is no option storage\.regoin for S3; did you mean storage\.region"):
        write("s3://bucket/a.arrow", [encoded("ab", 0, 1)], storage={"regoin": "eu-central-1"})
