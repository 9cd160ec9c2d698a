"""Bodies are aligned, padded with zeros, and have no bytes that their slots do not need."""

from dataclasses import replace

import numpy as np
import pytest

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import RecordBatch, Schema
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.ipc.columns.encode import (
    BodyForm,
    EncodedBatch,
    encode_columns,
    encode_footer,
    encode_message,
    encode_schema_once,
)
from spark_arrow_ipc.ipc.columns.plan import compile_plan
from spark_arrow_ipc.ipc.constants import DEFAULT_LIMITS
from spark_arrow_ipc.ipc.flatbuf.tables import CompressionType, MetadataVersion
from spark_arrow_ipc.ipc.messages.footer import Block, decode_footer, decode_schema_once
from spark_arrow_ipc.ipc.messages.message import decode_message

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


@pytest.mark.one_in(4, "exhaustive")
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


@pytest.mark.slow
def test_each_buffer_is_written_once_and_no_longer_than_needed():
    """A slice writes its own bytes, not those of what it was cut from."""
    whole, part = ints(0, 100_000), ints(0, 100_000).slice(50_000, 100)
    assert len(written([part])) < len(written([whole])) / 100


def test_validity_without_nulls_is_left_out():
    column = Array(t.int32, 9, 0, (memoryview(b"\xff\xff"), memoryview(bytes(36))))
    batch = RecordBatch(Schema.of([t.field("a", t.int32)]), (column,), 9)
    with ipc.open_file(written([batch], compression=None)) as reader:
        assert [[0, 0], [0, 36]] == reader.read_header(0).buffers.tolist()


BATCHES = {
    "numbers": EncodedBatch(3, (3, 1), (0, 8, 64, 24), nbytes=128),
    "no rows": EncodedBatch(0, (0, 0), (0, 0, 0, 0)),
    "no columns": EncodedBatch(5),
    "views": EncodedBatch(2, (2, 0, 2, 0), (0, 0, 0, 32, 64, 40, 128, 0), (1, 0), nbytes=192),
    "compressed": EncodedBatch(2**40, (2**40, 0), (0, 0, 0, 77), codec=CompressionType.ZSTD, nbytes=2**41),
}


@pytest.mark.parametrize("name", BATCHES)
def test_a_message_from_the_template_has_the_numbers_of_its_batch(name):
    batch = BATCHES[name]
    for _ in range(2):  # the template is built, and used again
        message = decode_message(memoryview(encode_message(MetadataVersion.V5, batch)), DEFAULT_LIMITS)
        header = message.header
        assert (batch.nbytes, batch.length) == (message.body_nbytes, header.length)
        assert list(batch.nodes) == header.nodes.ravel().tolist()
        assert list(batch.buffers) == header.buffers.ravel().tolist()
        assert list(batch.variadic_counts) == header.variadic_counts.tolist()
        assert batch.codec == header.compression


def test_columns_that_are_written_as_they_are_share_their_memory():
    data = bytes(range(24))
    column = Array(t.int64, 3, 0, (None, memoryview(data)))
    plan = compile_plan((t.field("a", t.int64),), (), MetadataVersion.V5)
    encoded = encode_columns(plan, (column,), 3, None, BodyForm())
    assert [data] == [piece.obj for piece in encoded.pieces if isinstance(piece, memoryview)]
    assert (0, 0, 0, 24) == tuple(encoded.buffers)


def test_value_offsets_that_begin_later_are_moved():
    offsets = memoryview(np.array([1, 2, 4], np.int32).tobytes())
    column = Array(t.utf8, 2, 0, (None, offsets, memoryview(b"xabcy")))
    batch = RecordBatch(Schema((t.field("a", t.utf8),)), (column,), 2)
    assert ["a", "bc"] == read_by_pyarrow(written([batch])).column(0).to_pylist()


@pytest.mark.parametrize("pairs", [(), (("k", "v"),)])
@pytest.mark.parametrize("count", [0, 1, 8, 9])
def test_a_footer_has_the_blocks_that_it_is_given(count, pairs):
    schema = encode_schema_once(Schema((t.field("a", t.int64),)), MetadataVersion.V5)
    blocks = [Block(4096 * (i + 1), 128 + 8 * i, 64 * i) for i in range(count)]
    dictionaries = [Block(512, 8 * (i + 1), 0) for i in range(count % 2)]
    for _ in range(2):  # the template is built, and used again
        footer = encode_footer(MetadataVersion.V5, schema.part, dictionaries, blocks, pairs)
        found = decode_footer(memoryview(footer), 1 << 20, DEFAULT_LIMITS)
        assert (tuple(blocks), tuple(dictionaries), pairs) == (
            found.record_batches, found.dictionaries, found.custom_metadata,
        )  # fmt: skip
        assert schema.plan.fields == decode_schema_once(found.schema.view, DEFAULT_LIMITS).schema.fields


def test_a_schema_that_is_equal_is_encoded_once():
    schemas = [Schema((t.field("a", t.int64), t.field("b", t.list_(t.utf8)))) for _ in range(2)]
    assert schemas[0] is not schemas[1]
    assert encode_schema_once(schemas[0], MetadataVersion.V5) is encode_schema_once(schemas[1], MetadataVersion.V5)
    other = replace(schemas[0], custom_metadata=(("k", "v"),))
    assert encode_schema_once(other, MetadataVersion.V5).part != encode_schema_once(schemas[0], MetadataVersion.V5).part
