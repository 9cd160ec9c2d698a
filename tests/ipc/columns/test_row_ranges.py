"""Some rows of a record batch are what a slice of the whole batch is, and only their bytes are read."""

import decimal
import io
import random

import pyarrow as pa
import pytest
from waiting import Asked, WaitingSource

from spark_arrow_ipc import ipc
from spark_arrow_ipc.errors import ArrowIpcError, InvalidBodyError

ROWS = 1000


def values(kind, seed=1):
    """Return values with nulls at every depth, empty strings and lists among them."""
    r = random.Random(seed)

    def some(make, nulls=0.2):
        return None if r.random() < nulls else make()

    makers = {
        "int": lambda: r.randrange(-100, 100),
        "bool": lambda: r.random() < 0.5,
        "text": lambda: "é" * r.randrange(5),
        "bytes4": lambda: r.randbytes(4),
        "decimal": lambda: decimal.Decimal(r.randrange(10**9)),
        "list": lambda: [some(makers["int"]) for _ in range(r.randrange(4))],
        "texts": lambda: [some(makers["text"]) for _ in range(r.randrange(4))],
        "bools": lambda: [[some(makers["bool"]) for _ in range(r.randrange(4))] for _ in range(r.randrange(3))],
        "three": lambda: [some(makers["bool"]) for _ in range(3)],
        "struct": lambda: {"a": some(makers["int"]), "b": some(makers["texts"]), "c": some(makers["bool"])},
        "map": lambda: [(f"k{i}", some(makers["int"])) for i in range(r.randrange(3))],
        "null": lambda: None,
    }
    return [some(makers[kind]) for _ in range(ROWS)]


TYPES = [
    ("int8", pa.int8(), "int"), ("int64", pa.int64(), "int"), ("bool", pa.bool_(), "bool"), ("utf8", pa.utf8(), "text"),
    ("large_utf8", pa.large_utf8(), "text"), ("bytes", pa.binary(), "bytes4"), ("fixed", pa.binary(4), "bytes4"),
    ("decimal", pa.decimal128(20, 2), "decimal"), ("list", pa.list_(pa.int32()), "list"),
    ("large_list", pa.large_list(pa.int32()), "list"), ("texts", pa.list_(pa.utf8()), "texts"),
    ("bools", pa.list_(pa.list_(pa.bool_())), "bools"), ("three", pa.list_(pa.bool_(), 3), "three"),
    ("struct", pa.struct([("a", pa.int16()), ("b", pa.list_(pa.utf8())), ("c", pa.bool_())]), "struct"),
    ("map", pa.map_(pa.utf8(), pa.int32()), "map"), ("null", pa.null(), "null"),
    ("dictionary", pa.dictionary(pa.int8(), pa.utf8()), "text"),
]  # fmt: skip

RANGES = [(0, 0), (0, 1), (0, 8), (8, 9), (16, 100), (0, ROWS), (992, ROWS), (ROWS, ROWS), (504, 777)]


def file_of(table, **options):
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return sink.getvalue()


def table_of(*names):
    chosen = [(name, type_, kind) for name, type_, kind in TYPES if not names or name in names]
    return pa.table({name: pa.array(values(kind), type_) for name, type_, kind in chosen})


@pytest.mark.parametrize("name", [name for name, *_ in TYPES])
def test_a_range_of_rows_is_a_slice_of_the_batch(name):
    with ipc.open(file_of(table_of(name))) as reader:
        rows = reader.batch_rows(0)
        whole = reader.read_batch(0)
        assert rows.num_rows == ROWS
        for first, end in RANGES:
            assert rows.read(first, end).to_pylist() == whole.slice(first, end - first).to_pylist()


ROUNDS = [
    # at least the header, the known ranges, and those that value offsets point at, a level after the other
    (["int64", "bool", "fixed", "three"], 1),
    (["int64", "utf8", "list", "struct"], 4),
    (["bools", "map", "texts"], 3),
]


@pytest.mark.parametrize(("columns", "rounds"), ROUNDS, ids=str)
def test_where_reads_wait_ranges_are_read_at_once(columns, rounds, monkeypatch):
    monkeypatch.setattr("spark_arrow_ipc.ipc.bytes.source.END_NBYTES", 64)
    monkeypatch.setattr("spark_arrow_ipc.ipc.columns.row_ranges.WAITING_GAP_NBYTES", 8)
    data = file_of(table_of())

    class Rounds(WaitingSource):
        at_once = 0
        alone = 0

        def read_ranges(self, ranges):
            self.at_once += 1
            return super().read_ranges(ranges)

        def read_at(self, byte_offset, nbytes):
            self.alone += 1
            return super().read_at(byte_offset, nbytes)

    source = Rounds(data, Asked(0))
    with ipc.open(source, columns=columns) as reader, ipc.open(data, columns=columns) as local:
        rows, expected = reader.batch_rows(0), local.batch_rows(0)
        for first, end in RANGES:
            source.at_once, before = 0, source.asked.total
            assert rows.read(first, end).to_pylist() == expected.read(first, end).to_pylist()
            assert source.at_once <= rounds
            assert source.asked.total - before <= rows.num_buffers


def test_where_reads_wait_a_broken_batch_is_the_same_error():
    data = bytearray(file_of(table_of("utf8", "texts")))
    with ipc.open(bytes(data)) as reader:
        block = reader.blocks[0]
        start = block.byte_offset + block.metadata_nbytes
    data[start + 128 : start + 2000] = b"\xee" * 1872  # offsets and validity
    errors = []
    for source in (bytes(data), WaitingSource(data, Asked(0))):
        with ipc.open(source) as reader, pytest.raises(ArrowIpcError) as error:
            reader.batch_rows(0).read(0, 500)
        errors.append(str(error.value))
    assert errors[0] == errors[1]


@pytest.mark.parametrize("columns", [["struct", "int8"], [("struct", "b")], ["map"]])
def test_a_range_of_some_columns(columns):
    data = file_of(table_of())
    with ipc.open(data, columns=columns) as reader:
        rows, whole = reader.batch_rows(0), reader.read_batch(0)
        assert rows.read(8, 500).to_pylist() == whole.slice(8, 492).to_pylist()


def test_nothing_else_is_read():
    table = pa.table({"a": pa.array(range(100_000), pa.int64()), "b": [str(i) for i in range(100_000)]})
    source = Recorder(file_of(table))
    with ipc.open(source) as reader:
        rows = reader.batch_rows(0)
        source.nbytes = 0
        assert rows.read(50_000, 50_100).to_pydict() == table.slice(50_000, 100).to_pydict()
    assert source.nbytes == 100 * 8 + 101 * 4 + 100 * 5
    assert rows.nbytes == 100_000 * 8 + 100_001 * 4 + sum(len(str(i)) for i in range(100_000))


class Recorder(io.BytesIO):
    """A file object that counts the bytes that are read of it."""

    nbytes = 0

    def read(self, nbytes=-1):
        self.nbytes += nbytes
        return super().read(nbytes)


WHOLE_ONLY = [
    ("compressed", lambda: file_of(table_of("int64"), compression="zstd")),
    ("views", lambda: file_of(pa.table({"v": pa.array(["a" * 20] * 10, pa.string_view())}))),
    ("runs", lambda: file_of(pa.table({"v": pa.RunEndEncodedArray.from_arrays([5, 10], [1, 2])}))),
]


@pytest.mark.parametrize("data", [case[1] for case in WHOLE_ONLY], ids=[case[0] for case in WHOLE_ONLY])
def test_what_can_only_be_read_whole(data):
    with ipc.open(data()) as reader:
        assert reader.batch_rows(0) is None


@pytest.mark.slow
@pytest.mark.no_cover
def test_damage_is_found_or_harmless():
    """Whatever a flipped byte of the header or the offsets does, it is an error of ours or other values."""
    data = file_of(table_of("utf8", "texts", "bools", "struct", "map", "dictionary"))
    with ipc.open(data) as reader:
        block = reader.blocks[0]
    r = random.Random(5)
    refused = 0
    for _ in range(500):
        damaged = bytearray(data)
        place = block.byte_offset + r.randrange(8, block.nbytes)
        damaged[place] ^= 1 << r.randrange(8)
        try:
            with ipc.open(bytes(damaged), limits=ipc.Limits(max_slots=1 << 20)) as reader:
                rows = reader.batch_rows(0)
                if rows is not None:
                    rows.read(rows.num_rows // 16 * 8, rows.num_rows).to_pylist()
        except ArrowIpcError:
            refused += 1
    assert refused > 30


def test_more_nulls_than_the_header_says():
    data = bytearray(file_of(pa.table({"a": pa.array([1, None] + [2] * 62, pa.int8())})))
    with ipc.open(bytes(data)) as reader:
        block = reader.blocks[0]
        data[block.byte_offset + block.metadata_nbytes + 1] = 0
    with ipc.open(bytes(data)) as reader, pytest.raises(InvalidBodyError, match="at most 1 nulls"):
        reader.batch_rows(0).read(8, 16)
