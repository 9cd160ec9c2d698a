"""The metadata of a file is its metadata, and costs no body."""

from pathlib import Path

import pytest

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.python_values import from_pylist
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.cli.shared.file_metadata import read_file_metadata
from spark_arrow_ipc.errors import ArrowIpcError

ROWS = 1000


def batches():
    numbers = from_pylist.array([7] * ROWS, t.int64)
    words = from_pylist.array(["a", "b"] * (ROWS // 2), t.dictionary(t.int8, t.utf8))
    schema = Schema.of([t.field("n", numbers.type), t.field("w", words.type)])
    return [RecordBatch(schema, (numbers, words), ROWS)] * 2


@pytest.fixture(params=["file", "stream"])
def path(request, tmp_path):
    target = tmp_path / "x"
    ipc.write(target, batches(), options=ipc.WriteOptions(format=request.param, compression="zstd"))
    return str(target)


def test_an_outline_has_what_the_headers_say(path):
    metadata = read_file_metadata(path)
    assert 2 * ROWS == metadata.num_rows
    assert [ROWS, ROWS] == [batch.length for batch in metadata.record_batches]
    assert [2] == [batch.length for batch in metadata.dictionaries]
    assert [("w",)] == list(metadata.dictionary_fields.values())
    assert ("n", "w") == metadata.schema.names
    assert "zstd" in metadata.compressions


def test_only_a_stream_has_an_end(path):
    metadata = read_file_metadata(path)
    assert (metadata.format == "stream") is (metadata.end_offset is not None)


@pytest.mark.parametrize(("measure", "number"), [(0, 0), (1, 1), (None, 2)])
def test_as_many_bodies_are_measured_as_asked_for(path, measure, number):
    metadata = read_file_metadata(path, measure=measure)
    sizes = [batch.uncompressed_nbytes for batch in metadata.record_batches]
    assert number == sum(size is not None for size in sizes)
    assert all(9 * ROWS <= size < 10 * ROWS for size in sizes if size is not None)


def test_a_truncated_file_is_an_error_with_its_path(path):
    with Path(path).open("r+b") as file:
        file.truncate(300)
    with pytest.raises(ArrowIpcError) as caught:
        read_file_metadata(path)
    assert path in str(caught.value)
