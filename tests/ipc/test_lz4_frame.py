"""LZ4 frames that we make are byte for byte those of the library, through its C functions or its Python ones."""

import lz4.frame
import numpy as np
import pytest

from spark_arrow_ipc.ipc import lz4_frame
from spark_arrow_ipc.ipc.compression import Compressor
from spark_arrow_ipc.ipc.constants import CompressionType

RANDOM = np.random.default_rng(0)
CONTENTS = {
    "one byte": b"a",
    "text": b"the same text again " * 10_000,
    "noise": RANDOM.bytes(300_000),
    "blocks": bytes(64 << 10) + RANDOM.bytes(64 << 10),
    "a megabyte of zeros": bytes(1 << 20),
}


@pytest.fixture(params=["C functions", "Python functions"])
def way(request, monkeypatch):
    if request.param == "Python functions":
        monkeypatch.setattr(lz4_frame, "_COMPRESSION", None)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("level", [-3, 0, 1, 9])
@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
def test_a_frame_is_that_of_the_library(content, level):
    data = memoryview(content)
    output = np.empty(lz4_frame.most_nbytes(len(data)), np.uint8).data
    frame = lz4_frame.compress_into(data, output, level)
    assert lz4.frame.compress(data, compression_level=level, store_size=False) == bytes(frame)
    assert content == lz4.frame.decompress(bytes(frame))


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("codec", list(CompressionType))
def test_all_buffers_of_a_batch_are_those_of_one(codec):
    compressor = Compressor(codec)
    buffers = [memoryview(content) for content in CONTENTS.values()]
    for _ in range(2):  # memory is used again
        found = [(prefix, bytes(frame)) for prefix, frame in compressor.compress_all(buffers)]
        assert [Compressor(codec).compress(data) for data in buffers] == found


@pytest.mark.parametrize("nbytes", [1, 65_535, 65_536, 65_537, 1_000_000])
def test_the_longest_frame_is_bounded_without_the_library(monkeypatch, nbytes):
    frame = lz4.frame.compress(RANDOM.bytes(nbytes), store_size=False)
    assert len(frame) <= lz4_frame.most_nbytes(nbytes)
    monkeypatch.setattr(lz4_frame, "_COMPRESSION", None)
    assert len(frame) <= lz4_frame.most_nbytes(nbytes)
