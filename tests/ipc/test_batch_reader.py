"""Both readers close their file, show their schema, and leave batches valid."""

import gc
import io
import sys
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from reader_cases import ALL_ROWS, FILE, SCHEMA, STREAM, saved

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import RecordBatch, Schema
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.errors import InvalidMetadataError
from spark_arrow_ipc.ipc.flatbuf.tables import MessageHeader
from spark_arrow_ipc.ipc.messages.message import RecordBatchHeader, decode_message, expect, inside
from spark_arrow_ipc.ipc.messages.schema import SchemaHeader
from spark_arrow_ipc.storage.byte_source import open_mapped


def test_batches_outlive_their_reader(tmp_path):
    with ipc.open(saved(FILE, tmp_path)) as reader:
        batch = reader.read_batch(1)
    (tmp_path / "x.arrow").unlink()
    assert ALL_ROWS[1] == batch.to_pylist()


def test_a_closed_reader_says_so(tmp_path):
    reader = ipc.open(saved(FILE, tmp_path))
    reader.close()
    reader.close()
    with pytest.raises(ValueError, match=r"x\.arrow: the reader is closed"):
        reader.read_batch(0)


def test_representations_are_for_people():
    with ipc.open(FILE) as file, ipc.open(STREAM) as stream:
        assert f"<Arrow IPC file in memory: 3 record batches>\n{SCHEMA}" == repr(file)
        assert f"<Arrow IPC stream in memory>\n{SCHEMA}" == repr(stream)


def test_custom_metadata_is_kept_in_order_everywhere():
    pairs = (("z", "1"), ("a", "2"), ("z", "3"), ("", ""), ("grün", "🏹"))
    field = t.field("l", t.list_(t.field("item", t.int8, custom_metadata=pairs)), custom_metadata=pairs)
    schema = Schema.of([field], pairs)
    array = RecordBatch.from_pydict({"l": [[1]]}, schema).columns
    for kind in ("file", "stream"):
        sink = io.BytesIO()
        with ipc.create(sink, schema, ipc.WriteOptions(format=kind), schema_metadata=pairs) as writer:
            writer.write(RecordBatch(schema, array, 1, pairs))
            writer.write(RecordBatch(schema, array, 1))
            if kind == "file":
                writer.custom_metadata.update(rows="2", end="yes")
        with ipc.open(sink.getvalue()) as reader:
            assert schema == reader.schema
            assert [pairs, ()] == [batch.custom_metadata for batch in reader]
            assert pairs == (reader.read_schema_metadata() if kind == "file" else reader.custom_metadata)
            if kind == "file":
                assert (("rows", "2"), ("end", "yes")) == reader.custom_metadata[:2]


def test_a_header_of_another_kind_is_refused():
    with ipc.open(FILE) as reader:
        flatbuffer = memoryview(FILE)[reader.blocks[0].byte_offset + 8 :]
    message = decode_message(flatbuffer, ipc.Limits())
    assert message.header is expect(message, MessageHeader.RecordBatch, RecordBatchHeader)
    with pytest.raises(InvalidMetadataError, match="expected a schema, found a record batch"):
        expect(message, MessageHeader.Schema, SchemaHeader)


def test_offsets_inside_a_flatbuffer_become_those_of_the_file():
    for inner, outer in ((None, 100), (8, 108)):
        with pytest.raises(InvalidMetadataError) as caught, inside(100):
            raise InvalidMetadataError("broken", byte_offset=inner)
        assert outer == caught.value.byte_offset


# ---- other libraries

TABLE = pa.table({"n": pa.array(range(1000)), "f": pa.array([0.5] * 1000), "d": pa.array(["a", "b"] * 500).dictionary_encode()})  # fmt: skip


def written(tmp_path, name, compression=None):
    path = tmp_path / name
    options = pa.ipc.IpcWriteOptions(compression=compression)
    make = pa.ipc.new_stream if name.endswith("s") else pa.ipc.new_file
    with make(path, TABLE.schema, options=options) as writer:
        writer.write_table(TABLE, max_chunksize=100)
    return path


READERS = [("x.arrow", None), ("x.arrow", "zstd"), ("x.arrows", None), ("x.arrows", "lz4")]


@pytest.mark.parametrize(("name", "compression"), READERS)
def test_pyarrow_reads_through_a_reader(name, compression, tmp_path):
    with ipc.open(written(tmp_path, name, compression)) as reader:
        theirs = reader.to_pyarrow()
        assert TABLE.schema == theirs.schema == pa.schema(reader)
        assert 100 == theirs.read_next_batch().num_rows
        assert TABLE.slice(100).equals(theirs.read_all())


def test_polars_and_duckdb_take_a_reader(tmp_path):
    path = written(tmp_path, "x.arrow")
    assert 1000 == pl.DataFrame(ipc.open(path)).height
    duckdb.register("numbers", ipc.open(path, columns=["n"]))
    assert [(499500,)] == duckdb.sql("SELECT sum(n) FROM numbers").fetchall()


def mapped(path):
    """Return the addresses at which a file is mapped into this process."""
    lines = [line.split() for line in Path("/proc/self/maps").read_text().splitlines() if line.endswith(str(path))]
    return [range(*(int(part, 16) for part in line[0].split("-"))) for line in lines]


def test_buffers_are_those_of_the_mapped_file(tmp_path):
    path = written(tmp_path, "x.arrow")
    with ipc.open(open_mapped(str(path))) as reader:
        columns = reader.to_pyarrow().read_next_batch().columns
    places = mapped(path)
    assert places
    for column in columns:
        buffers = [buffer for buffer in column.buffers() if buffer is not None]
        assert all(any(buffer.address in place for place in places) for buffer in buffers)


@pytest.mark.slow
def test_the_mapping_lives_as_long_as_what_others_hold(tmp_path):
    path = written(tmp_path, "x.arrow")
    reader = ipc.open(open_mapped(str(path)))
    held = reader.to_pyarrow().read_next_batch()
    reader.close()
    del reader
    path.unlink()
    gc.collect()
    assert mapped(f"{path} (deleted)")
    assert list(range(100)) == held["n"].to_pylist()
    del held
    gc.collect()
    assert not mapped(f"{path} (deleted)")


def test_an_error_names_path_block_and_field(tmp_path):
    path = written(tmp_path, "x.arrow")
    with ipc.open(path) as reader:
        block = reader.blocks[3]
    data = bytearray(path.read_bytes())
    # The indices of the dictionary column are the last buffer of the body.
    data[block.byte_offset + block.metadata_nbytes + block.body_nbytes - 64] = 100
    path.write_bytes(data)
    with (
        ipc.open(path) as reader,
        pytest.raises(pa.ArrowInvalid, match=rf"{path}: record batch 3, field d: expected dictionary indices"),
    ):
        reader.to_pyarrow().read_all()


def test_a_closed_reader_says_so_to_others(tmp_path):
    with ipc.open(written(tmp_path, "x.arrow")) as reader:
        theirs = reader.to_pyarrow()
    with pytest.raises(pa.ArrowInvalid, match=r"x\.arrow: the reader is closed"):
        theirs.read_all()


def test_without_pyarrow_one_sentence_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match="to_pyarrow needs pyarrow: pip install pyarrow"):
        ipc.open(FILE).to_pyarrow()
