"""A file whose footer hides batches is refused, and one that only has padding somewhere is read."""

import io
import struct

import pytest

from spark_arrow_ipc import ipc
from spark_arrow_ipc.errors import InvalidFramingError, LimitError
from spark_arrow_ipc.ipc.flatbuf import builder, reader, tables
from spark_arrow_ipc.ipc.recovery import open_recovered

pa = pytest.importorskip("pyarrow")

MAGIC = b"ARROW1"
HEADER = MAGIC + bytes(2)
EOS = b"\xff\xff\xff\xff" + bytes(4)
ROWS = [[1, 2], [3], [4, 5, 6]]
NOTHING = b""


def messages():
    """Return the encapsulated schema, and each batch with the number of its metadata bytes, by pyarrow."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, pa.schema([("a", pa.int64())])) as writer:
        for rows in ROWS:
            writer.write_batch(pa.record_batch({"a": rows}))
    data = sink.getvalue()
    with ipc.open_stream(data) as stream:
        blocks = [batch.block for batch in stream.index().batches]
    batches = [(data[block.byte_offset :][: block.nbytes], block.metadata_nbytes) for block in blocks]
    return data[: blocks[0].byte_offset], batches


SCHEMA, BATCHES = messages()
LEGACY_SCHEMA = struct.pack("<i", len(SCHEMA) - 4) + SCHEMA[8:] + bytes(4)


def a_file(head=SCHEMA, *, hidden=(), gap=NOTHING, end=EOS):
    """Return a file with `gap` before its last batch, whose footer does not have the blocks of `hidden`."""
    content = bytearray(HEADER + head)
    content += bytes(-len(content) % 8)
    blocks = []
    for number, (batch, metadata_nbytes) in enumerate(BATCHES):
        content += gap if number == len(BATCHES) - 1 else NOTHING
        blocks.append((len(content), metadata_nbytes, len(batch) - metadata_nbytes))
        content += batch
    content += end
    kept = [block for number, block in enumerate(blocks) if number not in hidden]
    schema = reader.to_mapping(reader.root(SCHEMA[8:], tables.MESSAGE))["header"][1]
    footer = builder.build(tables.FOOTER, {"version": 4, "schema": schema, "recordBatches": kept})
    return bytes(content + footer + struct.pack("<i", len(footer)) + MAGIC)


def rows_of(data):
    with ipc.open_file(data) as file:
        return [batch.to_pydict()["a"] for batch in file]


HEADS = [
    ("as Arrow C++, Go and Java", SCHEMA),
    ("after zeros, as arrow-rs", bytes(56) + SCHEMA),
    ("before 0.15", LEGACY_SCHEMA),
    ("at an odd place, as old perspective", b"\0" + LEGACY_SCHEMA),
    ("a flatbuffer without a prefix, as polars", SCHEMA[8:]),
    ("none, as arrow-js", NOTHING),
]
ENDS = [("a marker", EOS), ("an old marker", bytes(4)), ("none", NOTHING), ("padding", EOS + bytes(56))]
BY_NAME = {"argvalues": [case[1] for case in HEADS], "ids": [case[0] for case in HEADS]}


@pytest.mark.parametrize("end", [case[1] for case in ENDS], ids=[case[0] for case in ENDS])
@pytest.mark.parametrize("head", **BY_NAME)
def test_a_sound_file_is_read_whoever_wrote_it(head, end):
    data = a_file(head, end=end)
    assert rows_of(data) == ROWS
    assert pa.ipc.open_file(data).read_all()["a"].to_pylist() == [row for rows in ROWS for row in rows]


@pytest.mark.parametrize("hidden", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2)], ids=str)
@pytest.mark.parametrize("head", **BY_NAME)
def test_a_batch_that_the_footer_hides_is_an_error(head, hidden):
    data = a_file(head, hidden=hidden)
    assert pa.ipc.open_file(data).num_record_batches == len(ROWS) - len(hidden)
    with pytest.raises(InvalidFramingError, match=r"bytes that belong to none: the footer is damaged.*arrowipc repair"):
        ipc.open(data)


@pytest.mark.parametrize("hidden", [(0,), (0, 1, 2)], ids=str)
@pytest.mark.parametrize("head", [SCHEMA, bytes(56) + SCHEMA, SCHEMA[8:]], ids=["C++", "arrow-rs", "polars"])
def test_what_the_footer_hides_can_be_recovered(head, hidden):
    found = open_recovered(lambda: a_file(head, hidden=hidden))
    assert ROWS == [batch.to_pydict()["a"] for batch in found]
    assert "the footer is damaged" in str(found.lost)


GAPS = [
    ("short", b"x" * 40, True),
    ("zeros", bytes(4096), True),
    ("a marker and zeros", EOS + bytes(4096), True),
    ("not zeros", bytes(56) + b"\1" + bytes(7), False),
    ("more zeros than padding has", bytes(70_000), False),
]


@pytest.mark.parametrize(("gap", "sound"), [case[1:] for case in GAPS], ids=[case[0] for case in GAPS])
def test_between_two_batches_lies_padding_only(gap, sound):
    data = a_file(gap=gap)
    if sound:
        assert rows_of(data) == ROWS
        return
    with pytest.raises(InvalidFramingError, match="belong to none") as caught:
        ipc.open(data)
    assert data.index(BATCHES[2][0]) - len(gap) == caught.value.byte_offset


def test_a_file_without_batches_has_a_schema_only():
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, pa.schema([("a", pa.int64())])):
        pass
    assert rows_of(sink.getvalue()) == []


def many_gaps(count):
    """A file whose footer has every second block of `count`, and zeros where the others would be."""
    batch, metadata_nbytes = BATCHES[0]
    content, blocks = bytearray(HEADER + SCHEMA), []
    for _ in range(count):
        blocks.append((len(content), metadata_nbytes, len(batch) - metadata_nbytes))
        content += batch + bytes(64)
    schema = reader.to_mapping(reader.root(SCHEMA[8:], tables.MESSAGE))["header"][1]
    footer = builder.build(tables.FOOTER, {"version": 4, "schema": schema, "recordBatches": blocks})
    return bytes(content + footer + struct.pack("<i", len(footer)) + MAGIC)


def test_the_work_is_bounded():
    assert 999 == len(ipc.open_file(many_gaps(999)))
    with pytest.raises(InvalidFramingError, match="belong to none"):
        ipc.open(many_gaps(1_001))
    many_prefixes = b"\x04\0\0\0" + bytes(4) + (b"\xff\xff\xff\xff" + struct.pack("<i", 16)) * 2_000
    with pytest.raises(InvalidFramingError, match="belong to none"):
        ipc.open(a_file(many_prefixes))
    with pytest.raises(LimitError, match="a schema without a prefix asks for"):
        ipc.open(a_file(b"\x04\0\0\0" + bytes(8_000)), limits=ipc.Limits(max_metadata_bytes=4_000))
