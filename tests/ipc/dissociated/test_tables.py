"""What servers offer: parts and columns of it, and when it is another table."""

import io
import os

import pyarrow as pa
import pytest

from spark_arrow_ipc import ipc
from spark_arrow_ipc.errors import UnsupportedError
from spark_arrow_ipc.ipc.dissociated.location import SCHEMA_ALONE, Selection
from spark_arrow_ipc.ipc.dissociated.messages import BatchesTable, FileTable

ROWS = [[1, 2], [3], [], [4, 5, 6]]
SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.int64())])
BATCHES = [pa.record_batch([pa.array(rows, pa.int64())] * 2, schema=SCHEMA) for rows in ROWS]


def written(new):
    sink = io.BytesIO()
    with new(sink, SCHEMA) as writer:
        for batch in BATCHES:
            writer.write_batch(batch)
    return sink.getvalue()


FILE, STREAM = written(pa.ipc.new_file), written(pa.ipc.new_stream)
with ipc.open(FILE) as reader:
    TABLES = {
        "file": FileTable(FILE, ipc.Limits()), "stream": FileTable(STREAM, ipc.Limits()), "batches": BatchesTable(tuple(reader)),
    }  # fmt: skip

SELECTED = [
    (Selection(), ["a", "b"], ROWS), (Selection(0, 2), ["a", "b"], ROWS[:2]), (Selection(2, 3, (1,)), ["b"], ROWS[2:]),
    (Selection(1, 9), ["a", "b"], []), (SCHEMA_ALONE, ["a", "b"], []), (Selection(columns=()), [], ROWS),
]  # fmt: skip


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
@pytest.mark.parametrize(("selection", "names", "rows"), SELECTED)
def test_a_selection_is_these_batches_and_columns(table, selection, names, rows):
    with table.open(selection) as opened:
        assert tuple(names) == opened.schema.names
        assert [[tuple(row.values()) for row in batch.to_pylist()] for batch in opened.batches] == [
            [(value,) * len(names) for value in batch] for batch in rows
        ]


def test_a_stream_that_cannot_seek_has_no_parts():
    class Pipe(io.RawIOBase):
        def __init__(self):
            self.data = io.BytesIO(STREAM)

        def read(self, nbytes=-1):
            return self.data.read(nbytes)

        def readable(self):
            return True

        def seekable(self):
            return False

    with (
        pytest.raises(UnsupportedError, match="can seek"),
        FileTable(Pipe(), ipc.Limits()).open(Selection(0, 2)) as opened,
    ):
        list(opened.batches)


def test_a_version_changes_with_the_file_and_nothing_else_has_one(tmp_path):
    path = tmp_path / "x.arrow"
    path.write_bytes(FILE)
    table = FileTable(path, ipc.Limits())
    versions = [table.version(), table.version()]
    path.write_bytes(STREAM)
    os.utime(path, ns=(versions[0][3], versions[0][3]))  # the time of change cannot be set back
    versions.append(table.version())
    path.unlink()
    assert (True, True, None) == (versions[0] == versions[1], versions[1] != versions[2], table.version())
    unknown = [
        FileTable(given, ipc.Limits()).version() for given in (io.BytesIO(FILE), "s3://bucket/x", bytearray(FILE))
    ]
    assert [None] * 3 == unknown
