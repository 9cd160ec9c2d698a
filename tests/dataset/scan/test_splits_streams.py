"""Large streams are cut as files are, and the ranges give every row once."""

import io
import pickle
import struct

import cpu_time
import numpy as np
import pytest
from split_files import split_files

from spark_arrow_ipc import ipc
from spark_arrow_ipc.dataset.scan.scan import ScanOptions, scan
from spark_arrow_ipc.errors import InvalidFramingError
from spark_arrow_ipc.ipc.constants import EOS, MAGIC
from spark_arrow_ipc.ipc.flatbuf import builder, tables
from spark_arrow_ipc.ipc.messages.schema import encode_schema, number_dictionaries

pa = pytest.importorskip("pyarrow")

ALONE = ScanOptions(joined_rows=0)


def write(path, batches, schema=None, *, deltas=False):
    options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=deltas)
    with (
        pa.OSFile(str(path), "wb") as sink,
        pa.ipc.new_stream(sink, schema or batches[0].schema, options=options) as out,
    ):
        for batch in batches:
            out.write_batch(batch)
    return str(path)


def rows(ranges, name="a", options=ALONE):
    return [
        value
        for file in scan(ranges, options=options)
        for found in file.batches
        for value in found.batch.to_pydict()[name]
    ]


def planned(path, nbytes, open_cost_bytes=10, **options):
    return pickle.loads(pickle.dumps(split_files([path], nbytes, open_cost_bytes, **options)))


@pytest.mark.parametrize("options", [ALONE, ScanOptions()], ids=["alone", "joined"])
def test_ranges_of_a_stream_give_every_row_once_and_evenly(tmp_path, options):
    table = pa.table({"a": range(10_000)})
    path = write(tmp_path / "x.arrows", table.to_batches(max_chunksize=100))
    partitions = planned(path, 10_000)
    found = [rows(part, options=options) for part in partitions]
    assert [*range(10_000)] == [value for part in found for value in part]
    counts = [len(part) for part in found]
    assert len(counts) >= 8
    assert max(counts) - min(counts) <= 100


WORDS = [["a", "b"], ["a", "b", "c"], ["a", "b", "c", "d"], ["x"], ["x", "y"], ["x", "y"], ["z", "a"], ["z", "a", "b"]]


@pytest.mark.parametrize("deltas", [False, True])
def test_dictionaries_in_force_are_replayed_in_each_range(tmp_path, deltas):
    batches = [
        pa.record_batch(
            [pa.DictionaryArray.from_arrays(pa.array([*range(len(own))] * 50, pa.int8()), pa.array(own))], ["a"]
        )
        for own in WORDS
    ]
    path = write(tmp_path / "x.arrows", batches, deltas=deltas)
    partitions = planned(path, 500, 0)
    assert len(partitions) > 4
    assert [word for own in WORDS for word in own * 50] == [word for part in partitions for word in rows(part)]


def test_a_small_stream_is_not_walked(tmp_path):
    path = write(tmp_path / "x.arrows", pa.table({"a": range(100)}).to_batches())
    ((part,),) = planned(path, 128 << 20, 4 << 20)
    assert (None, None) == (part.start, part.stream_start)
    assert [*range(100)] == rows([part])


def test_a_stream_without_batches_is_one_range(tmp_path):
    schema = pa.schema([pa.field("a", pa.int64(), metadata={"long": "x" * 5000})])
    path = write(tmp_path / "x.arrows", [], schema)
    ((part,),) = planned(path, 1000, 0)
    assert [] == rows([part])


def test_errors_of_a_range_name_the_block_of_the_stream(tmp_path):
    path = tmp_path / "x.arrows"
    write(path, pa.table({"a": ["some text"] * 1000}).to_batches(max_chunksize=100))
    data = bytearray(path.read_bytes())
    with ipc.open_stream(str(path)) as reader:
        block = reader.index().batches[7].block
    at = data.index(b"some text", block.byte_offset)
    data[at] = 0xFF
    path.write_bytes(data)
    partitions = planned(str(path), 3000)
    with pytest.raises(ValueError, match="record batch 7, field a: expected UTF-8"):
        [rows(part) for part in partitions]


def test_a_cut_stream_stops_planning_unless_broken_files_are_skipped(tmp_path):
    path = tmp_path / "x.arrows"
    write(path, pa.table({"a": range(10_000)}).to_batches(max_chunksize=1000))
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InvalidFramingError, match=r"record batch 9.*truncated"):
        planned(str(path), 10_000)
    ((part,),) = planned(str(path), 10_000, skips_broken=True)
    assert part.start is None


def _sparse(path, nbytes, kind):
    """Make a file of `nbytes` whose headers are real and whose bodies are holes."""
    batch_nbytes = 64 << 20
    table = pa.table({"a": pa.array([0] * 1000)})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    small = sink.getvalue()
    with ipc.open(small) as reader:
        (batch,) = reader.index().batches
    schema_message, header = (
        small[: batch.block.byte_offset],
        small[batch.block.byte_offset :][: batch.block.metadata_nbytes],
    )
    # One column of int64: the body's length and the buffer's differ, and so do the rows.
    big = header.replace(struct.pack("<q", 8000), struct.pack("<q", batch_nbytes)).replace(
        struct.pack("<q", 1000), struct.pack("<q", batch_nbytes // 8)
    )
    blocks = []
    with path.open("wb") as file:
        file.write(MAGIC + b"\0\0" if kind == "file" else b"")
        file.write(schema_message)
        while file.tell() < nbytes:
            blocks.append((file.tell(), len(big), batch_nbytes))
            file.write(big)
            file.seek(batch_nbytes, 1)
        file.write(EOS)
        if kind == "file":
            _write_footer(file, small, blocks)
    return len(blocks)


def _write_footer(file, small, blocks):
    with ipc.open(small) as reader:
        schema = encode_schema(number_dictionaries(reader.schema))
    values = {"version": 4, "schema": schema, "recordBatches": np.array(blocks, np.int64)}
    footer = builder.build(tables.FOOTER, values)
    file.write(footer + struct.pack("<i", len(footer)) + MAGIC)


@pytest.mark.parametrize("kind", ["file", "stream"])
def test_ten_gigabytes_are_planned_in_a_second(tmp_path, kind):
    path = tmp_path / "large"
    count = _sparse(path, 10 << 30, kind)
    partitions = cpu_time.at_most(1, planned, str(path), 128 << 20, 4 << 20)
    assert count == sum(part.stop - part.start for ranges in partitions for part in ranges)
    assert 2 == max(part.stop - part.start for ranges in partitions for part in ranges)
