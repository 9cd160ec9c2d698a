"""The reader of ``metadataOnly=true`` without Spark: a row for each record batch, from headers alone."""

import logging
import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from arrow_files import write
from pyspark.sql import types as s

from spark_arrow_ipc import ipc
from spark_arrow_ipc.errors import ColumnNotFoundError, FileChangedError, InvalidArrowError, SchemaMismatchError
from spark_arrow_ipc.ipc import ConcatenatedStreamsWarning
from spark_arrow_ipc.spark.convert import pyarrow_schema
from spark_arrow_ipc.spark.options.options import parse_read
from spark_arrow_ipc.spark.read import metadata_only
from spark_arrow_ipc.spark.read.metadata_only import BLOCK_SCHEMA, ArrowIpcBlockReader

TABLE = pa.table({"id": range(250)})


@pytest.fixture
def lake(tmp_path):
    write(tmp_path / "a.arrow", TABLE, rows=100)
    write(tmp_path / "b.arrow", TABLE, rows=200, compression="zstd")
    write(tmp_path / "c.arrows", TABLE, rows=250, stream=True)
    return tmp_path


def reader_of(path, schema=BLOCK_SCHEMA, **options):
    return ArrowIpcBlockReader(schema, parse_read({"path": str(path), **options}))


def read(reader):
    sent = pickle.loads(pickle.dumps((reader, reader.partitions())))
    return [batch for partition in sent[1] for batch in sent[0].read(partition)]


def rows(reader):
    return sorted((row for batch in read(reader) for row in batch.to_pylist()), key=lambda row: str(row.get("path")))


def only(*names):
    return s.StructType([BLOCK_SCHEMA[name] for name in names])


def test_each_record_batch_is_a_row(lake):
    found = rows(reader_of(lake, only("rows", "path", "block", "format", "compression")))
    expected = [
        (100, "a.arrow", 0, "file", "none"),
        (100, "a.arrow", 1, "file", "none"),
        (50, "a.arrow", 2, "file", "none"),
        (200, "b.arrow", 0, "file", "zstd"),
        (50, "b.arrow", 1, "file", "zstd"),
        (250, "c.arrows", 0, "stream", "none"),
    ]
    assert expected == [
        (row["rows"], row["path"].removeprefix(f"{lake}/"), row["block"], row["format"], row["compression"])
        for row in found
    ]


def test_byte_offsets_are_those_that_pyarrow_reads_at(lake):
    data = (lake / "a.arrow").read_bytes()
    for row in rows(reader_of(lake / "a.arrow")):
        message = pa.ipc.read_message(pa.py_buffer(data[row["byte_offset"] :]))
        assert row["body_bytes"] == message.body.size
        assert row["rows"] == pa.ipc.read_record_batch(message, TABLE.schema).num_rows


def test_batches_have_the_schema_that_spark_asked_for(lake):
    for schema in (BLOCK_SCHEMA, only("rows"), only("statistics", "path")):
        assert {pyarrow_schema(schema)} == {batch.schema for batch in read(reader_of(lake, schema))}


def test_files_are_shared_by_tasks(lake, monkeypatch):
    assert [3] == [len(partition.files) for partition in reader_of(lake).partitions()]
    assert [2, 1] == [len(partition.files) for partition in reader_of(lake, minPartitionNum="2").partitions()]
    monkeypatch.setattr(metadata_only, "_FILES_A_TASK", 1)
    assert [1, 1, 1] == [len(partition.files) for partition in reader_of(lake).partitions()]
    assert [] == list(reader_of(lake).read(None))


def test_many_rows_come_in_several_batches(lake, monkeypatch):
    monkeypatch.setattr(metadata_only, "_ROWS_A_BATCH", 3)
    assert [3, 3, 0] == [batch.num_rows for batch in read(reader_of(lake))]


REFUSED = {
    "another column": (s.StructType([s.StructField("size", s.LongType())]), ColumnNotFoundError, "size"),
    "another type": (s.StructType([s.StructField("rows", s.StringType())]), SchemaMismatchError, "expected bigint"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_another_schema_is_refused(lake, name):
    schema, error, match = REFUSED[name]
    with pytest.raises(error, match=match):
        reader_of(lake, schema)


def test_broken_files_are_errors_or_skipped_with_a_warning(lake, caplog):
    (lake / "a.arrow").write_bytes(b"no Arrow at all")
    with pytest.raises(InvalidArrowError, match=r"a\.arrow"):
        read(reader_of(lake))
    with caplog.at_level(logging.WARNING):
        assert 3 == len(rows(reader_of(lake, ignoreCorruptFiles="true")))
    (warning,) = caplog.messages
    assert f"{lake}/a.arrow: skipped from its start, as ignoreCorruptFiles asks" in warning


@pytest.mark.parametrize("kind", ["file", "stream"])
def test_record_batches_before_a_broken_header_stay(tmp_path, caplog, kind):
    path = tmp_path / "b.arrow"
    write(path, pa.table({"a": range(40)}), rows=10, stream=kind == "stream")
    with ipc.open(str(path)) as reader:
        header = [batch.block.byte_offset for batch in reader.read_headers()][2]
    data = bytearray(path.read_bytes())
    data[header + 8 : header + 40] = b"\xee" * 32
    path.write_bytes(data)
    with caplog.at_level(logging.WARNING):
        assert [0, 1] == [row["block"] for row in rows(reader_of(path, ignoreCorruptFiles="true"))]
    (warning,) = caplog.messages
    assert f"{path}: skipped record batch 2 (an unknown number of rows), as ignoreCorruptFiles asks" in warning


def test_missing_files_are_errors_or_skipped_with_a_warning(lake, caplog):
    for options in ({}, {"ignoreMissingFiles": "true"}):
        write(lake / "a.arrow", TABLE, rows=100)
        reader = reader_of(lake, **options)
        (partition,) = reader.partitions()
        (lake / "a.arrow").unlink()
        if not options:
            with pytest.raises(FileChangedError, match=r"a\.arrow.*gone since this read was planned"):
                list(reader.read(partition))
    with caplog.at_level(logging.WARNING):
        assert 3 == sum(batch.num_rows for batch in reader.read(partition))
    (warning,) = caplog.messages
    assert f"{lake}/a.arrow: the file is gone" in warning


def test_the_first_of_streams_one_after_the_other_is_listed_with_a_warning(tmp_path):
    stream = Path(write(tmp_path / "a.part", TABLE, rows=100, stream=True)).read_bytes()
    (tmp_path / "c.arrows").write_bytes(stream * 2)
    path = tmp_path / "c.arrows"
    with pytest.warns(ConcatenatedStreamsWarning):
        assert [100, 100, 50] == [row["rows"] for row in rows(reader_of(path))]
