"""LZ4 frames are decompressed through the C functions of the library as through its Python ones."""

import lz4.frame
import numpy as np
import pytest

from spark_arrow_ipc.errors import InvalidBodyError
from spark_arrow_ipc.ipc.columns import lz4_frame

RANDOM = np.random.default_rng(0)
CONTENTS = {
    "one byte": b"a",
    "text": b"the same text again " * 10_000,
    "noise": RANDOM.bytes(300_000),
    "blocks": bytes(64 << 10) + RANDOM.bytes(64 << 10),
    "a megabyte of zeros": bytes(1 << 20),
}


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
