"""LZ4 frames that we make are byte for byte those of the library, through its C functions or its Python ones."""

import lz4.frame
import numpy as np
import pytest

from spark_arrow_ipc.errors import InvalidBodyError
from spark_arrow_ipc.ipc.columns import lz4_frame
from spark_arrow_ipc.ipc.columns.compression import Compressor
from spark_arrow_ipc.ipc.flatbuf.tables import CompressionType

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


FRAMES = {
    "sound": lambda frame: frame,
    "cut off": lambda frame: frame[:-1],
    "longer": lambda frame: frame + b"\0",
    "another frame": lambda frame: frame + frame,
    "broken": lambda frame: b"\0" + frame[1:],
    "one of nothing": lambda _: lz4.frame.compress(b"", store_size=False),
}


@pytest.mark.parametrize("last", FRAMES)
@pytest.mark.parametrize("has_library", [True, False])
def test_many_frames_are_decompressed_if_all_are_sound(monkeypatch, has_library, last):
    """A frame after one that is not sound is read as if there had been none."""
    if not has_library:
        monkeypatch.setattr(lz4_frame, "_FUNCTIONS", None)
    contents = [*CONTENTS.values()]
    frames = [lz4.frame.compress(data, store_size=False) for data in contents]
    sizes = [len(data) for data in contents]
    for change, is_sound in [(FRAMES[last], last == "sound"), (FRAMES["sound"], True)]:
        changed = [frames[0], change(frames[1]), *frames[2:]]
        places = [np.array([[0, *np.cumsum(own)[:-1]], own], np.int64).T for own in (list(map(len, changed)), sizes)]
        output = np.zeros(sum(sizes), np.uint8)
        assert lz4_frame.decompress_all(memoryview(b"".join(changed)), places[0], output.data, places[1]) is is_sound
        if is_sound:
            assert b"".join(contents) == output.tobytes()


PROMISING = {
    "cut off": lambda frame: frame[:-5],
    "no block": lambda frame: frame[:15],
    "a broken block": lambda frame: frame[:15] + b"\xff\xff\0\0" + frame[19:],
}
"""Frames that say how many bytes they have, and do not have them. The header takes 15 bytes."""


@pytest.mark.parametrize("change", PROMISING.values(), ids=PROMISING)
@pytest.mark.parametrize("has_library", [True, False])
def test_a_broken_frame_that_promised_bytes_leaves_the_next_one_alone(monkeypatch, has_library, change):
    """The library's reset kept what the broken frame had promised (LZ4 1.9.4), and a frame without a promise was refused."""
    if not has_library:
        monkeypatch.setattr(lz4_frame, "_FUNCTIONS", None)
    content = CONTENTS["text"]
    promising, sound = (memoryview(lz4.frame.compress(content, store_size=stores)) for stores in (True, False))
    broken = memoryview(change(bytes(promising)))
    output = np.zeros(len(content), np.uint8)
    to = np.array([[0, len(content)]])
    for _ in range(2):
        with pytest.raises(InvalidBodyError):
            lz4_frame.decompress_into(broken, output.data)
        lz4_frame.decompress_into(sound, output.data)
        assert not lz4_frame.decompress_all(broken, np.array([[0, len(broken)]]), output.data, to)
        assert lz4_frame.decompress_all(sound, np.array([[0, len(sound)]]), output.data, to)
        assert content == output.tobytes()


@pytest.mark.parametrize("nbytes", [1, 65_535, 65_536, 65_537, 1_000_000])
def test_the_longest_frame_is_bounded_without_the_library(monkeypatch, nbytes):
    frame = lz4.frame.compress(RANDOM.bytes(nbytes), store_size=False)
    assert len(frame) <= lz4_frame.most_nbytes(nbytes)
    monkeypatch.setattr(lz4_frame, "_COMPRESSION", None)
    assert len(frame) <= lz4_frame.most_nbytes(nbytes)
