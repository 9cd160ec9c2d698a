"""Each buffer of a record batch belongs to the column that pyarrow's buffers say."""

import io

import numpy as np
import pytest

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow.layout import Role
from spark_arrow_ipc.errors import InvalidMetadataError
from spark_arrow_ipc.ipc.column_buffers import ROLES, ColumnBuffers

pa = pytest.importorskip("pyarrow")

LONG = "a string that is longer than a view"
BATCH = pa.record_batch(
    {
        "n": pa.nulls(3),
        "a": pa.array([1, None, 3]),
        "views": pa.array([LONG, None, LONG], pa.string_view()),
        "nested": pa.array([{"x": [LONG], "y": True}, None, None], pa.struct([("x", pa.list_(pa.string_view())), ("y", pa.bool_())])),
        "plain": pa.array(["a", "b", None]),
        "encoded": pa.array(["a", "b", None]).dictionary_encode(),
    }
)  # fmt: skip


def header():
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, BATCH.schema) as writer:
        writer.write_batch(BATCH)
    reader = ipc.open(sink.getvalue())
    return reader.schema, reader.read_header(0)


def test_the_owners_are_pyarrows():
    schema, found = header()
    # pyarrow lists the values of a dictionary too, which lie in another message.
    counts = [
        len(column.indices.buffers() if name == "encoded" else column.buffers())
        for name, column in zip(schema.names, BATCH.columns, strict=True)
    ]
    counts[0] = 0  # nulls have none in a file
    buffers = ColumnBuffers(schema)
    assert np.repeat(np.arange(len(counts)), counts).tolist() == buffers.columns(found).tolist()
    assert [column.null_count for column in BATCH.columns] == buffers.null_counts(found).tolist()
    roles = [ROLES[role] for role in buffers.roles(found)]
    assert [Role.VALIDITY, Role.DATA, Role.VALIDITY, Role.VIEWS, Role.VARIADIC] == roles[:5]
    assert [Role.VALIDITY, Role.OFFSETS, Role.BYTES, Role.VALIDITY, Role.DATA] == roles[-5:]
    assert len(found.buffers) == len(roles)


@pytest.mark.parametrize("counts", [[1], [1, 2], [-1, 3], [1 << 62, 1 << 62]])
def test_counts_that_are_not_of_the_schema_are_refused(counts):
    schema, found = header()
    object.__setattr__(found, "variadic_counts", np.array(counts, np.int64))
    with pytest.raises(InvalidMetadataError):
        ColumnBuffers(schema).columns(found)
