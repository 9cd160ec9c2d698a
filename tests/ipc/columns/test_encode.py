"""Bodies are aligned, padded with zeros, and have no bytes that their slots do not need."""

import pytest

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import RecordBatch, Schema
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array

pa = pytest.importorskip("pyarrow")

import arrow_cases  # noqa: E402 - needs pyarrow
import arrow_from_pyarrow as convert  # noqa: E402 - needs pyarrow
from writer_cases import (  # noqa: E402 - needs pyarrow
    EVERY_TYPE,
    ints,
    read_by_pyarrow,
    same,
    written,
)


@pytest.mark.one_in(4, "slow")
@pytest.mark.parametrize("name", EVERY_TYPE.schema.names)
def test_slices_are_written_as_what_they_show(name):
    column = EVERY_TYPE.select([name])
    slices = [column.slice(*place) for place in arrow_cases.SLICES]
    for options in ({}, {"compression": "zstd"}):
        for one in slices:
            data = written([convert.batch_from_pyarrow(one)], **options)
            same(pa.Table.from_batches([one]), read_by_pyarrow(data))


@pytest.mark.parametrize("alignment", [8, 16, 32, 64])
@pytest.mark.parametrize("compression", [None, "lz4"])
@pytest.mark.parametrize("legacy_framing", [False, True])
def test_every_buffer_is_aligned_and_every_padding_is_zero(alignment, compression, legacy_framing):
    data = written(
        [ints(0, 5), ints(5, 200)], alignment=alignment, compression=compression, legacy_framing=legacy_framing
    )
    with ipc.open_file(data) as reader:
        for i, block in enumerate(reader.blocks):
            body = block.byte_offset + block.metadata_nbytes
            assert (0, 0) == (body % alignment, block.body_nbytes % alignment)
            end = 0
            for start, nbytes in reader.read_header(i).buffers.tolist():
                assert 0 == start % alignment
                assert not any(data[body + end : body + start]), "padding"
                end = start + nbytes
            assert not any(data[body + end : body + block.body_nbytes]), "padding"
    read_by_pyarrow(data)


def test_each_buffer_is_written_once_and_no_longer_than_needed():
    """A slice writes its own bytes, not those of what it was cut from."""
    whole, part = ints(0, 100_000), ints(0, 100_000).slice(50_000, 100)
    assert len(written([part])) < len(written([whole])) / 100


def test_validity_without_nulls_is_left_out():
    column = Array(t.int32, 9, 0, (memoryview(b"\xff\xff"), memoryview(bytes(36))))
    with ipc.open_file(written([RecordBatch(Schema.of([t.field("a", t.int32)]), (column,), 9)])) as reader:
        assert [[0, 0], [0, 36]] == reader.read_header(0).buffers.tolist()
