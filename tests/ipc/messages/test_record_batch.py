"""The header of a record batch: its numbers, and the codec of its buffers."""

import numpy as np
import pytest

from spark_arrow_ipc.errors import InvalidMetadataError, UnsupportedError
from spark_arrow_ipc.ipc.constants import EXPERIMENTAL_COMPRESSION_KEY
from spark_arrow_ipc.ipc.flatbuf import builder, reader, tables
from spark_arrow_ipc.ipc.flatbuf.tables import CompressionType
from spark_arrow_ipc.ipc.messages.message import decode_record_batch

ROWS = np.array([[3, 1], [2, 0]], np.int64)
LZ4, ZSTD = CompressionType.LZ4_FRAME, CompressionType.ZSTD


def decoded(pairs=(), **values):
    flatbuffer = memoryview(builder.build(tables.RECORD_BATCH, {"length": 3, **values}))
    return decode_record_batch(reader.root(flatbuffer, tables.RECORD_BATCH), pairs)


def test_numbers_come_as_they_are_written():
    header = decoded(nodes=ROWS, buffers=ROWS[:1], variadicBufferCounts=[2, 0])
    assert (3, ROWS.tolist(), ROWS[:1].tolist(), (2, 0), None) == (
        header.length, header.nodes.tolist(), header.buffers.tolist(), tuple(header.variadic_counts), header.compression,
    )  # fmt: skip


def test_what_is_not_written_is_empty():
    header = decoded()
    assert ((0, 2), (0, 2), (0,)) == (header.nodes.shape, header.buffers.shape, header.variadic_counts.shape)


def of_0_17(word):
    return ((EXPERIMENTAL_COMPRESSION_KEY, word),)


CODECS = [
    ("lz4", (), {"compression": {"codec": 0}}, LZ4),
    ("zstd", (), {"compression": {"codec": 1}}, ZSTD),
    ("Arrow 0.17", of_0_17("ZSTD"), {}, ZSTD),
    ("the table before the word", of_0_17("zstd"), {"compression": {"codec": 0}}, LZ4),
    ("other pairs", (("k", "zstd"),), {}, None),
]


@pytest.mark.parametrize(
    ("pairs", "values", "expected"), [case[1:] for case in CODECS], ids=[case[0] for case in CODECS]
)
def test_the_codec_is_found(pairs, values, expected):
    assert expected is decoded(pairs, **values).compression


REFUSED = [
    ("a negative length", (), {"length": -1}, InvalidMetadataError, "found -1"),
    ("a later codec", (), {"compression": {"codec": 9}}, UnsupportedError, "compression codec 9: this release reads 0"),
    ("a later method", (), {"compression": {"codec": 1, "method": 1}}, UnsupportedError, "body compression method 1: this release reads method 0"),
    ("a codec of 0.17 that is gone", of_0_17("snappy"), {}, UnsupportedError, "'snappy' of Arrow 0.17"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("pairs", "values", "error", "says"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_what_is_not_known_is_refused(pairs, values, error, says):
    with pytest.raises(error, match=says):
        decoded(pairs, **values)
