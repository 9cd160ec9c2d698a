"""Batches to write, and pyarrow to read them, for the tests of writers."""

import io

import pytest

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import RecordBatch, Schema
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.python_values import from_pylist

pa = pytest.importorskip("pyarrow")

import arrow_cases  # noqa: E402 - needs pyarrow


def written(batches, schema=None, **options):
    file = io.BytesIO()
    ipc.write(file, batches, schema, ipc.WriteOptions(**options))
    return file.getvalue()


def pyarrow_reader(data):
    return pa.ipc.open_file(data) if data[:6] == b"ARROW1" else pa.ipc.open_stream(data)


def read_by_pyarrow(data):
    table = pyarrow_reader(data).read_all()
    table.validate(full=True)
    return table


def every_type():
    arrays = dict(arrow_cases.ARRAYS)
    schema = pa.schema([pa.field(name, array.type) for name, array in arrays.items()])
    return pa.RecordBatch.from_arrays(list(arrays.values()), schema=schema)


EVERY_TYPE = every_type()
VARIANTS = [
    ("file", {}),
    ("stream", {"format": "stream"}),
    ("lz4", {"compression": "lz4"}),
    ("lz4 9", {"compression": "lz4", "compression_level": 9}),
    ("zstd", {"compression": "zstd"}),
    ("zstd 19", {"compression": "zstd", "compression_level": 19}),
    ("zstd stream", {"format": "stream", "compression": "zstd"}),
    ("alignment 8", {"alignment": 8}),
    ("alignment 16", {"alignment": 16, "compression": "lz4"}),
    ("alignment 32", {"alignment": 32, "format": "stream"}),
    ("legacy framing", {"legacy_framing": True}),
    ("legacy framing, stream", {"legacy_framing": True, "format": "stream", "alignment": 8}),
    ("checksums", {"checksums": True}),
    ("checksums, zstd", {"checksums": True, "compression": "zstd", "alignment": 8}),
    ("V4", {"metadata_version": "V4"}),
    ("V4, legacy framing", {"metadata_version": "V4", "legacy_framing": True, "format": "stream"}),
]
OPTIONS = pytest.mark.parametrize("options", [case[1] for case in VARIANTS], ids=[case[0] for case in VARIANTS])


def batch_for(options):
    if options.get("metadata_version") != "V4":
        return EVERY_TYPE
    return EVERY_TYPE.select([name for name in EVERY_TYPE.schema.names if not name.startswith("run_end")])


def same(expected, found):
    """Compare values; a dictionary-encoded column by what it stands for, a dictionary may be written longer."""
    assert expected.schema.equals(found.schema, check_metadata=True)
    assert expected.num_rows == found.num_rows
    for name, left, right in zip(expected.schema.names, expected.columns, found.columns, strict=True):
        assert left.to_pylist() == right.to_pylist(), name


INTS = Schema.of([t.field("a", t.int32), t.field("b", t.utf8)])


def ints(first, count):
    values = range(first, first + count)
    return RecordBatch.from_pydict({"a": values, "b": [f"text {i}" for i in values]}, INTS)


WORDS = t.dictionary(t.int8, t.utf8)
ENCODED = Schema.of([t.field("d", WORDS)])


def encoded(dictionary, *indices):
    values = from_pylist.array(indices, t.int8)
    column = Array(
        WORDS, len(indices), values.null_count, values.buffers, (), from_pylist.array(list(dictionary), t.utf8)
    )
    return RecordBatch(ENCODED, (column,), len(indices))


REPLACED = [("ab", (0, 1)), ("ba", (0, 1)), ("ba", (1,)), ("ac", (1,)), ("a", (0,))]
