"""Small neighbours decoded as one batch hold what they hold one by one, and break where those do."""

import datetime as dt
import io
import os
import random
import struct
from decimal import Decimal

import pytest

from spark_arrow_ipc import ipc
from spark_arrow_ipc.errors import ArrowIpcError, InvalidBodyError

pa = pytest.importorskip("pyarrow")

ROWS = 400
STEP = 13

DAMAGED = int(os.environ.get("JOINED_DAMAGED", "50"))
"""Damaged files a case; the variable is for long runs."""

DAMAGE_SEED = int(os.environ.get("JOINED_SEED", "5"))


def with_nulls(values, every):
    return [None if every and i % every == 0 else value for i, value in enumerate(values)]


def columns(every):
    """A column of each type that has a layout of its own; every `every`-th slot is null."""
    i = range(ROWS)
    day = dt.date(2020, 1, 1)
    return {
        "bool": pa.array(with_nulls([n % 3 == 0 for n in i], every)),
        "int8": pa.array(with_nulls([n % 100 for n in i], every), pa.int8()),
        "int64": pa.array(with_nulls([n << 33 for n in i], every), pa.int64()),
        "double": pa.array(with_nulls([n / 7 for n in i], every)),
        "decimal": pa.array(with_nulls([Decimal(n) / 4 for n in i], every), pa.decimal128(20, 2)),
        "wide": pa.array(with_nulls([Decimal(n) for n in i], every), pa.decimal256(50, 2)),
        "date": pa.array(with_nulls([day + dt.timedelta(n) for n in i], every)),
        "text": pa.array(with_nulls(["ä" * (n % 5) for n in i], every)),
        "large": pa.array(with_nulls([b"x" * (n % 7) for n in i], every), pa.large_binary()),
        "fixed": pa.array(with_nulls([n.to_bytes(3, "big") for n in i], every), pa.binary(3)),
        "list": pa.array(with_nulls([[f"{n}"] * (n % 3) for n in i], every)),
        "large list": pa.array(with_nulls([[n] * (n % 4) for n in i], every), pa.large_list(pa.int16())),
        "pairs": pa.array(with_nulls([[n, -n] for n in i], every), pa.list_(pa.int32(), 2)),
        "struct": pa.array(with_nulls([{"a": n, "b": [n] * (n % 2)} for n in i], every)),
        "map": pa.array(with_nulls([[(f"k{n}", n)] * (n % 2) for n in i], every), pa.map_(pa.string(), pa.int64())),
        "dictionary": pa.array(with_nulls([f"word {n % 9}" for n in i], every)).dictionary_encode(),
        "null": pa.nulls(ROWS),
        "view": pa.array(with_nulls([f"a text beyond twelve {n}" for n in i], every), pa.string_view()),
        "runs": pa.RunEndEncodedArray.from_arrays(pa.array([200, ROWS], pa.int32()), pa.array(["a", "b"])),
    }


def written(table, kind="file", step=STEP, **options):
    sink = io.BytesIO()
    make = pa.ipc.new_file if kind == "file" else pa.ipc.new_stream
    with make(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table.combine_chunks(), max_chunksize=step)
    return sink.getvalue()


def joined(data, below_rows=1000, **options):
    with ipc.open(io.BytesIO(data), **options) as reader:
        if isinstance(reader, ipc.FileReader):
            yield from reader.read_joined(0, len(reader), below_rows=below_rows)
        else:
            yield from reader.read_joined(below_rows=below_rows)


def rows_of(found):
    return [row for batch, _ in found for row in batch.to_pylist()]


OPTIONS = [("plain", {}), ("lz4", {"compression": "lz4"}), ("zstd", {"compression": "zstd"})]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("kind", ["file", "stream"])
@pytest.mark.parametrize("every", [0, 3, 150], ids=["no nulls", "nulls", "nulls in few batches"])
@pytest.mark.parametrize("name", list(columns(0)))
@pytest.mark.parametrize("options", [case[1] for case in OPTIONS], ids=[case[0] for case in OPTIONS])
def test_joined_rows_are_the_rows(kind, every, name, options):
    table = pa.table({name: columns(every)[name], "beside": pa.array(range(ROWS))})
    found = list(joined(written(table, kind, **options)))
    assert table.to_pylist() == rows_of(found)
    assert [STEP] * (ROWS // STEP) + [ROWS % STEP] == [rows for _, block_rows in found for rows in block_rows]
    assert all(batch.num_rows == sum(block_rows) for batch, block_rows in found)
    for batch, _ in found:
        batch.validate()


@pytest.mark.parametrize("kind", ["file", "stream"])
@pytest.mark.parametrize("step", [1, 8, 64], ids=lambda step: f"{step} rows")
def test_batches_of_any_size_are_joined(kind, step):
    kept = {name: column for name, column in columns(5).items() if name not in {"view", "runs"}}
    table = pa.table(kept)
    found = list(joined(written(table, kind, step=step)))
    assert table.to_pylist() == rows_of(found)
    # A stream begins with small pieces, as nothing is known of its messages before; they grow.
    assert len(found) <= 8
    assert max(len(block_rows) for _, block_rows in found) > ROWS // step // 4


def test_a_batch_of_enough_rows_comes_alone():
    table = pa.table({"a": range(200)})
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, table.schema) as writer:
        for first, length in [(0, 10), (10, 10), (20, 100), (120, 10), (130, 10), (140, 60)]:
            writer.write_table(table.slice(first, length))
    assert [(10, 10), (100,), (10, 10), (60,)] == [rows for _, rows in joined(sink.getvalue(), below_rows=50)]


@pytest.mark.parametrize("kind", ["file", "stream"])
def test_batches_that_bring_dictionaries_between_them_keep_their_words(kind):
    parts = [pa.array([f"{i}", f"{i + 1}"] * 5).dictionary_encode() for i in range(20)]
    table = pa.table({"d": pa.chunked_array(parts)})
    sink = io.BytesIO()
    make = pa.ipc.new_stream if kind == "stream" else pa.ipc.new_file
    options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True, unify_dictionaries=kind == "file")
    with make(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    assert table.to_pylist() == rows_of(joined(sink.getvalue()))


def messages(data):
    """Byte offset, metadata and body bytes of each record batch of a file."""
    with ipc.open(data) as reader:
        return reader.blocks


FAULTS = [
    # name, which buffer of (validity, offsets, bytes), where in it, what is put there
    ("value offsets that fall", 1, 8, struct.pack("<i", 1 << 20)),
    ("value offsets after the bytes", 1, 4 * STEP, struct.pack("<i", 1 << 20)),
    ("negative value offsets", 1, 4, struct.pack("<i", -7)),
    ("bytes that are not UTF-8", 2, 0, b"\xff\xfe"),
    ("a null count that is wrong", 0, 0, b"\x00"),
]


@pytest.mark.parametrize("kind", ["file", "stream"])
@pytest.mark.parametrize(("buffer", "at", "put"), [case[1:] for case in FAULTS], ids=[case[0] for case in FAULTS])
def test_what_is_broken_is_named_and_what_is_before_comes(kind, buffer, at, put):
    table = pa.table({"a": with_nulls([f"some text {i}" for i in range(ROWS)], 7)})
    data = bytearray(written(table, "file"))
    with ipc.open(bytes(data)) as reader:
        block, header = reader.blocks[9], reader.read_header(9)
    start = block.byte_offset + block.metadata_nbytes + int(header.buffers[buffer][0]) + at
    data[start : start + len(put)] = put
    if kind == "stream":
        del data[:8]  # what follows the magic is a stream
    found = joined(bytes(data))
    seen = 0
    with pytest.raises(InvalidBodyError) as caught:
        for batch, _ in found:
            seen += batch.num_rows
    assert (9, 9 * STEP) == (caught.value.block_number, seen)


def outcome(read):
    """All rows up to the error, and what the error is and where."""
    rows = []
    try:
        for batch in read():
            rows += batch.to_pylist()
    except ArrowIpcError as error:
        return repr(rows), type(error), str(error)
    return repr(rows), None, None


@pytest.mark.slow
@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.no_cover
@pytest.mark.parametrize("kind", ["file", "stream"])
@pytest.mark.parametrize("options", [case[1] for case in OPTIONS], ids=[case[0] for case in OPTIONS])
def test_random_damage_is_judged_as_batch_by_batch(kind, options):
    """Whatever a byte becomes: joined reading gives the same rows before the same error."""
    kept = {name: column.slice(0, 60) for name, column in columns(4).items() if name not in {"view", "runs"}}
    sound = written(pa.table(kept), "file", step=6, **options)
    blocks = messages(sound)
    random_ = random.Random(DAMAGE_SEED)
    for _ in range(DAMAGED):
        data = bytearray(sound)
        for _ in range(random_.choice([1, 1, 2])):
            place = random_.choice(blocks)
            nbytes = random_.choice([place.metadata_nbytes, place.nbytes])
            data[place.byte_offset + random_.randrange(nbytes)] = random_.choice([0, 1, 8, 0x7F, 0xFF])
        if kind == "stream":
            del data[:8]  # what follows the magic is a stream
        damaged = bytes(data)
        with ipc.open(damaged) as reader:
            expected = outcome(lambda reader=reader: reader)
        assert expected == outcome(lambda data=damaged: (batch for batch, _ in joined(data)))


PROJECTIONS = [
    ("one", ["b"], {"b"}),
    ("all in another order", ["s", "b", "a"], {"a", "b", "s"}),
    ("a field of a struct", [("s", "y")], {"s"}),
    ("nothing", [], set()),
]


@pytest.mark.parametrize("kind", ["file", "stream"])
@pytest.mark.parametrize(("chosen", "names"), [case[1:] for case in PROJECTIONS], ids=[case[0] for case in PROJECTIONS])
def test_projections_are_joined_as_well(kind, chosen, names):
    structs = [{"x": i, "y": f"{i}"} for i in range(100)]
    table = pa.table({"a": range(100), "b": [str(i) for i in range(100)], "s": structs})
    found = list(joined(written(table, kind), columns=chosen))
    expected = [{name: row[name] for name in names} for row in table.to_pylist()]
    if chosen == [("s", "y")]:
        expected = [{"s": {"y": row["s"]["y"]}} for row in expected]
    assert expected == rows_of(found)
    assert [13] * 7 + [9] == [rows for _, block_rows in found for rows in block_rows]
    if chosen:
        assert len(found) <= 3
