"""Each buffer of a record batch belongs to the column that pyarrow's buffers say."""

import io

import numpy as np
import pytest

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow.layout import Role
from spark_arrow_ipc.errors import InvalidMetadataError
from spark_arrow_ipc.ipc.columns.batch_layout import ROLES, ColumnBuffers
from spark_arrow_ipc.ipc.flatbuf.tables import MetadataVersion

pa = pytest.importorskip("pyarrow")

V4 = pa.ipc.MetadataVersion.V4
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


def test_run_ends_of_pyarrow_in_metadata_v4_have_a_validity_bitmap():
    """As `Plan.runs` says; it is theirs."""
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array([LONG, "b"], pa.string_view()))
    batch = pa.record_batch([runs, pa.array([1, 2, 3]), runs], names=["a", "b", "c"])
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, batch.schema, options=pa.ipc.IpcWriteOptions(metadata_version=V4)) as writer:
        writer.write_batch(batch)
    reader = ipc.open(sink.getvalue())
    buffers, found = ColumnBuffers(reader.schema, MetadataVersion.V4), reader.read_header(0)
    of_runs = [Role.VALIDITY, Role.VALIDITY, Role.DATA, Role.VALIDITY, Role.VIEWS, Role.VARIADIC]
    assert [*of_runs, Role.VALIDITY, Role.DATA, *of_runs] == [ROLES[role] for role in buffers.roles(found)]
    assert [0] * 6 + [1] * 2 + [2] * 6 == buffers.columns(found).tolist()


@pytest.mark.parametrize("counts", [[1], [1, 2], [-1, 3], [1 << 62, 1 << 62]])
def test_counts_that_are_not_of_the_schema_are_refused(counts):
    schema, found = header()
    found = found._replace(variadic_counts=np.array(counts, np.int64))
    with pytest.raises(InvalidMetadataError):
        ColumnBuffers(schema).columns(found)
