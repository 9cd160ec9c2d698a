"""Wide batches: the same arrays and the same errors as where each column is decoded by itself, and less work."""

import io
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from arrow_from_pyarrow import from_pyarrow

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import equality
from spark_arrow_ipc.arrow.record_batch import LazyColumns
from spark_arrow_ipc.errors import ArrowIpcError, InvalidBodyError, InvalidMetadataError
from spark_arrow_ipc.ipc.columns import leaf_columns, projection

SEED = 20_240_229
WORDS = ["red", "green", "a word of more than twelve bytes", ""]
MUTATIONS = 50


def some(values, rows, type_=None, every=5):
    """Return `rows` of some values again and again, one in `every` a null."""
    return pa.array([None if i % every == 2 else values[i % len(values)] for i in range(rows)], type_)


def columns(rows):
    """Return one column of each type: plain ones, and those that are decoded by themselves."""
    points = [[1, 2], [], [3]]
    return {
        "int64": pa.array(range(rows), pa.int64()),
        "int8 with nulls": some([1, 2, 3], rows, pa.int8()),
        "bool": some([True, False], rows),
        "double": some([0.5, 1.5], rows),
        "decimal": some([Decimal("1.25")], rows, pa.decimal128(5, 2)),
        "timestamp": some([1, 2], rows, pa.timestamp("us", "UTC")),
        "fixed": some([b"abc"], rows, pa.binary(3)),
        "string": pa.array([WORDS[i % 4] for i in range(rows)], pa.string()),
        "string with nulls": some(WORDS, rows),
        "large string": some(WORDS, rows, pa.large_string()),
        "not ASCII": some(["grün", "日本"], rows),
        "binary": some([b"\xff", b"\x80\x80"], rows, pa.binary()),
        "large binary": some([b"\xff"], rows, pa.large_binary()),
        "null": pa.nulls(rows),
        "view": some(WORDS, rows, pa.string_view()),
        "list": some(points, rows, pa.list_(pa.int32())),
        "struct": some([{"a": 1, "b": "x"}], rows),
        "dictionary": some(WORDS, rows).dictionary_encode(),
        "map": some([[("k", 1)]], rows, pa.map_(pa.string(), pa.int32())),
    }


def batch_of(rows, copies):
    made = {name: column.slice(0, rows) for name, column in columns(max(rows, len(WORDS))).items()}
    names = [f"{name} {i}" for i in range(copies) for name in made]
    return pa.RecordBatch.from_arrays(list(made.values()) * copies, names)


def file_of(*batches, compression=None):
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, batches[0].schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue()


@pytest.fixture
def both(monkeypatch):
    """A function that gives what reading makes of bytes: at once, and each column by itself."""

    def outcomes(data, **options):
        monkeypatch.undo()
        at_once = outcome(data, **options)
        monkeypatch.setattr(projection, "compile_leaves", lambda _: None)
        return at_once, outcome(data, **options)

    return outcomes


def outcome(data, **options):
    """Return the arrays of all batches, or all that an error says."""
    try:
        with ipc.open(data, **options) as reader:
            return [column for batch in reader for column in batch.columns]
    except ArrowIpcError as error:
        return type(error), str(error), error.field_path, error.byte_offset, error.block_number


def assert_same(at_once, by_itself):
    if isinstance(at_once, tuple) or isinstance(by_itself, tuple):
        assert at_once == by_itself
        return
    for one, other in zip(at_once, by_itself, strict=True):
        facts = [(a.type, a.length, a.null_count, a.offset, len(a.children)) for a in (one, other)]
        assert facts[0] == facts[1]
        assert one.buffers == other.buffers


SELECTIONS = {
    "all": None,
    "most": lambda schema: [name for i, name in enumerate(schema.names) if i % 9],
    "in another order": lambda schema: schema.names[::-1],
}


@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize(("rows", "codec"), [(0, None), (1, None), (20, "lz4"), (20, "zstd"), (300, None)])
def test_the_arrays_are_pyarrows(rows, codec, selection):
    batch = batch_of(rows, 5)
    with ipc.open(file_of(batch, batch, compression=codec), columns=SELECTIONS[selection]) as reader:
        for read in reader:
            assert isinstance(read.columns, LazyColumns)
            for name, column in zip(reader.schema.names, read.columns, strict=True):
                assert equality.difference(column, from_pyarrow(batch.column(name)), name, types=False) is None
            read.validate()


@pytest.mark.parametrize("codec", [None, "lz4", "zstd"])
@pytest.mark.parametrize("rows", [0, 1, 20, 300])
def test_the_arrays_are_those_of_columns_by_themselves(rows, codec, both):
    batch = batch_of(rows, 4)
    assert_same(*both(file_of(batch, batch.slice(0, rows // 2), compression=codec)))


@pytest.mark.slow
@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.no_cover
@pytest.mark.parametrize("validation", ["full", "structural"])
@pytest.mark.parametrize(("rows", "codec"), [(20, None), (300, None), (300, "lz4"), (20, "zstd")])
def test_damage_is_the_same_error(rows, codec, validation, both):
    """Any byte of the message of a batch or of its body is changed: lengths, sizes, null counts, offsets, text."""
    data = file_of(batch_of(rows, 4), compression=codec)
    (block,) = ipc.open_file(data).blocks
    body = block.metadata_nbytes
    rng = np.random.default_rng(SEED)
    errors = set()
    for _ in range(MUTATIONS):
        changed = bytearray(data)
        metadata = rng.random() < 0.3
        at = block.byte_offset + int(rng.integers(*((0, body) if metadata else (body, block.nbytes))))
        changed[at] ^= int(rng.integers(1, 256))
        at_once, by_itself = both(bytes(changed), validation=validation)
        assert_same(at_once, by_itself)
        if isinstance(at_once, tuple):
            errors.add(at_once[0])
    expected = {InvalidBodyError} if codec else {InvalidMetadataError}
    assert errors >= expected | ({InvalidBodyError} if validation == "full" else set())


@pytest.mark.slow
@pytest.mark.parametrize("has_list", [False, True])
def test_a_batch_that_differs_in_null_counts_alone_is_checked_as_the_first(has_list, both):
    """A number of its message is changed: what is known of the batch before must not hide it."""
    rows = 40
    batches = []
    for every in (3, 4, 5):
        made = {f"c{i}": some([1, 2, 3], rows, pa.int32(), every + i % 2) for i in range(70)}
        made |= {"no nulls": pa.array(range(rows))} | ({"list": pa.array([[1, 2]] * rows)} if has_list else {})
        batches.append(pa.record_batch(made))
    data = file_of(*batches)
    assert_same(*both(data))
    block = ipc.open_file(data).blocks[-1]
    said = set()
    for k, at in enumerate(range(block.byte_offset, block.byte_offset + block.metadata_nbytes, 3 * 8)):
        changed = bytearray(data)
        number = np.frombuffer(changed, "<i8", 1, at)
        number += [-8, -1, 1, 8, 1 << 40][k % 5]
        at_once, by_itself = both(bytes(changed))
        assert_same(at_once, by_itself)
        if isinstance(at_once, tuple):
            said.add(at_once[1].partition("expected ")[2].partition(" ")[0])
    assert said >= {"a", "field"}, said


WRONG_PAIRS = [
    ("view 1", "string 2"),
    ("string 1", "view 2"),
    ("int8 with nulls 0", "dictionary 0"),
    ("list 0", "bool 3"),
]


@pytest.mark.parametrize(("first", "second"), WRONG_PAIRS)
def test_of_two_wrong_columns_the_first_is_named(first, second, both):
    """Whether a column is plain or not makes no difference to the order in which they are checked.

    A batch with the metadata of the one before has values of its own.
    """
    data = bytearray(file_of(*[batch_of(300, 4)] * 2))
    with ipc.open(memoryview(data)) as reader:
        batch = reader.read_batch(1)
        for name in (second, first):
            # All bits of the first buffer that is not empty: null counts, value offsets, views.
            buffer = next(buffer for buffer in batch.column(name).buffers if buffer)
            start = address(buffer) - address(data)
            data[start : start + len(buffer)] = b"\xff" * len(buffer)
            at_once, by_itself = both(bytes(data))
            assert at_once == by_itself
            assert (at_once[2], at_once[4]) == (name, 1)


@pytest.mark.parametrize("selection", SELECTIONS)
def test_checksums_are_compared_as_of_columns_by_themselves(selection, both):
    sink = io.BytesIO()
    with ipc.open(file_of(batch_of(20, 5))) as reader:
        ipc.write(sink, reader, options=ipc.WriteOptions(checksums=True, compression=None))
    data = bytearray(sink.getvalue())
    with ipc.open(memoryview(data)) as reader:
        (batch,) = reader
        values = batch.column("double 1").buffers[1]
        data[address(values) - address(data)] ^= 1  # another number, which is as sound as the first
    at_once, by_itself = both(bytes(data), columns=SELECTIONS[selection])
    assert at_once == by_itself
    assert "checksum" in at_once[1]


LZ4_MAGIC = b"\x04\x22\x4d\x18"


def test_checksums_of_compressed_buffers_are_compared_before_they_are_decompressed(both):
    sink = io.BytesIO()
    with ipc.open(file_of(batch_of(300, 5))) as reader:
        ipc.write(sink, reader, options=ipc.WriteOptions(checksums=True, compression="lz4"))
    data = bytearray(sink.getvalue())
    data[data.rindex(LZ4_MAGIC) + len(LZ4_MAGIC)] ^= 1
    at_once, by_itself = both(bytes(data))
    assert at_once == by_itself
    assert "checksum" in at_once[1]


def test_compressed_columns_share_one_memory():
    batch = pa.RecordBatch.from_pydict({f"c{i}": pa.array([i] * 500) for i in range(100)})
    for codec in ("lz4", "zstd"):
        with ipc.open(file_of(batch, compression=codec)) as reader:
            (read,) = reader
        assert isinstance(read.columns, LazyColumns)
        assert len({id(column.buffers[1].obj) for column in read.columns}) == 1


def address(memory):
    return np.frombuffer(memory, np.uint8).__array_interface__["data"][0]


def test_a_read_makes_no_arrays_and_what_is_asked_for_makes_its_own(monkeypatch):
    """The work of a batch does not grow with its columns in Python."""
    made = []
    array = leaf_columns.Array
    monkeypatch.setattr(leaf_columns, "Array", lambda *of: made.append(of) or array(*of))
    table = pa.RecordBatch.from_pydict({f"c{i}": pa.array([1, None, 3]) for i in range(500)})
    with ipc.open(file_of(table)) as reader:
        (batch,) = reader
        assert made == []
        assert batch.column("c7").to_pylist() == [1, None, 3]
        assert len(made) == 1
        assert [column.null_count for column in batch.columns] == [1] * 500
        assert len(made) == 500
