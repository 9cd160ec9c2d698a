"""The description of the record batches of a file, from headers alone."""

import io

import pytest
from statistics_cases import batch_of, write_described

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.statistics.read import ColumnSummary, file_blocks

BATCHES = [batch_of(t.int32, 5, None, -1), batch_of(t.int32, None)]


def written(ipc_format):
    sink = io.BytesIO()
    ipc.write(sink, BATCHES, BATCHES[0].schema, ipc.WriteOptions(format=ipc_format))
    return sink.getvalue()


@pytest.mark.parametrize("ipc_format", ["file", "stream"])
def test_each_record_batch_has_its_place_and_rows(ipc_format):
    blocks = list(file_blocks(written(ipc_format)))
    assert [(ipc_format, 0, 3, None), (ipc_format, 1, 1, None)] == [
        (b.format, b.block, b.rows, b.statistics) for b in blocks
    ]
    assert blocks[0].location.byte_offset < blocks[1].location.byte_offset


def test_statistics_are_shown_by_column():
    sink = io.BytesIO()
    write_described(sink, BATCHES, BATCHES[0].schema)
    assert [{"a": ColumnSummary(1, "-1", "5")}, {"a": ColumnSummary(1, None, None)}] == [
        block.statistics for block in file_blocks(sink.getvalue())
    ]
