"""Compressed buffers: what is declared is what comes out, within the budget, or it is an error."""

import struct
import subprocess
import sys
from pathlib import Path

import lz4.block
import lz4.frame
import numpy as np
import pytest
import zstandard

from spark_arrow_ipc.errors import InvalidBodyError, LimitError
from spark_arrow_ipc.ipc.columns import compression, lz4_frame
from spark_arrow_ipc.ipc.columns.compression import Compressor, Decompressor, check_level, output_nbytes
from spark_arrow_ipc.ipc.flatbuf.tables import CompressionType

LZ4, ZSTD = CompressionType.LZ4_FRAME, CompressionType.ZSTD
TEXT = b"what is said twice is said twice. " * 100
BUDGET = 1 << 20
SMALL = compression._SMALL_NBYTES
FRAMES = {LZ4: lz4.frame.compress, ZSTD: lambda data: zstandard.ZstdCompressor().compress(data)}


@pytest.fixture(params=["in place", "in pieces"], autouse=True)
def way(request, monkeypatch):
    """Both ways of reading a frame: LZ4 by usual builds of the library and by all others, a small zstd frame at once and as a stream."""
    if request.param == "in pieces":
        monkeypatch.setattr(lz4_frame, "_FUNCTIONS", None)
        monkeypatch.setattr(compression, "_SMALL_NBYTES", 0)
    return request.param


def test_this_build_of_the_library_reads_in_place(way):
    assert (lz4_frame._FUNCTIONS is None) == (way == "in pieces")


def decompress(codec, data, budget):
    return Decompressor(codec, budget).decompress(data)


def prefixed(nbytes, frame):
    return memoryview(struct.pack("<q", nbytes) + frame)


def unsized_zstd(data):
    return zstandard.ZstdCompressor(write_content_size=False).compress(data)


def checked_zstd(data):
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


def two_zstd_frames(data, first=FRAMES[ZSTD], second=FRAMES[ZSTD]):
    half = len(data) // 2
    return first(data[:half]) + second(data[half:])


def skippable(nbytes, magic=0x184D2A50):
    return struct.pack("<II", magic, nbytes) + bytes(nbytes)


NO_BYTES = FRAMES[ZSTD](b"")
MANY_FRAMES = b"".join(FRAMES[ZSTD](TEXT[i : i + 10]) for i in range(0, len(TEXT), 10))
FRAMES_OF_ZSTD = [
    ("two frames", two_zstd_frames(TEXT), TEXT),
    ("two frames with checksums", two_zstd_frames(TEXT, checked_zstd, checked_zstd), TEXT),
    ("two frames that do not tell their sizes", two_zstd_frames(TEXT, unsized_zstd, unsized_zstd), TEXT),
    ("the second does not tell its size", two_zstd_frames(TEXT, FRAMES[ZSTD], unsized_zstd), TEXT),
    ("a frame for every ten bytes", MANY_FRAMES, TEXT),
    ("an empty frame before and after", NO_BYTES + FRAMES[ZSTD](TEXT) + NO_BYTES, TEXT),
    ("a skippable frame before", skippable(5) + FRAMES[ZSTD](TEXT), TEXT),
    ("a skippable frame after", FRAMES[ZSTD](TEXT) + skippable(0, 0x184D2A5F), TEXT),
    ("skippable frames between", two_zstd_frames(TEXT, lambda data: FRAMES[ZSTD](data) + skippable(300) * 2), TEXT),
    ("empty frames only", NO_BYTES * 3, b""),
    ("a skippable frame only", skippable(9), b""),
]
"""Bytes after the length, and what they stand for (RFC 8878, 3: frames are concatenated)."""


@pytest.mark.parametrize(("frames", "expected"), [c[1:] for c in FRAMES_OF_ZSTD], ids=[c[0] for c in FRAMES_OF_ZSTD])
def test_frames_of_zstd_are_joined_as_pyarrow_joins_them(frames, expected):
    pa = pytest.importorskip("pyarrow")
    assert expected == pa.Codec("zstd").decompress(frames, len(expected), asbytes=True)
    data = prefixed(len(expected), frames)
    assert expected == bytes(decompress(ZSTD, data, BUDGET))
    body = memoryview(bytes(data).ljust(-(-len(data) // 8) * 8, b"\0"))
    memory, places = Decompressor(ZSTD, BUDGET).decompress_many(body, np.array([[0, len(data)]], np.int64))
    assert expected == bytes(memory[places[0, 0] :][: places[0, 1]])


SOUND = [
    ("an lz4 frame", LZ4, prefixed(len(TEXT), FRAMES[LZ4](TEXT)), TEXT),
    ("an lz4 frame that tells its size", LZ4, prefixed(len(TEXT), lz4.frame.compress(TEXT, store_size=True)), TEXT),
    ("an lz4 frame of linked blocks", LZ4, prefixed(len(TEXT), lz4.frame.compress(TEXT, block_linked=True)), TEXT),
    ("an lz4 frame with checksums", LZ4, prefixed(len(TEXT), lz4.frame.compress(TEXT, content_checksum=True)), TEXT),
    ("a zstd frame", ZSTD, prefixed(len(TEXT), FRAMES[ZSTD](TEXT)), TEXT),
    ("a zstd frame that does not tell its size", ZSTD, prefixed(len(TEXT), unsized_zstd(TEXT)), TEXT),
    ("stored, lz4", LZ4, prefixed(-1, TEXT), TEXT),
    ("stored, zstd", ZSTD, prefixed(-1, TEXT), TEXT),
    ("stored, nothing", ZSTD, prefixed(-1, b""), b""),
    ("no bytes and no frame", LZ4, prefixed(0, b""), b""),
    ("no bytes in an lz4 frame", LZ4, prefixed(0, FRAMES[LZ4](b"")), b""),
    ("no bytes in a zstd frame", ZSTD, prefixed(0, FRAMES[ZSTD](b"")), b""),
    ("no bytes in a zstd frame without size", ZSTD, prefixed(0, unsized_zstd(b"")), b""),
]


@pytest.mark.parametrize(("codec", "data", "expected"), [c[1:] for c in SOUND], ids=[c[0] for c in SOUND])
def test_sound_buffer_is_decompressed(codec, data, expected):
    assert expected == bytes(decompress(codec, data, BUDGET))
    assert len(expected) == output_nbytes(data)


@pytest.mark.parametrize("nbytes", [1, 125, 8000, SMALL - 1, SMALL, SMALL + 1, 4 * SMALL])
def test_a_frame_of_any_size_is_that_of_pyarrow(nbytes):
    pa = pytest.importorskip("pyarrow")
    noise = np.random.default_rng(nbytes).integers(0, 256, nbytes, np.uint8)
    for data in (noise.tobytes(), (noise % 4).tobytes()):
        frame = pa.Codec("zstd", compression_level=1).compress(data, asbytes=True)
        assert data == bytes(decompress(ZSTD, prefixed(nbytes, frame), BUDGET))


def outcome(frame, nbytes):
    try:
        return bytes(decompress(ZSTD, prefixed(nbytes, frame), BUDGET))
    except InvalidBodyError as error:
        return str(error)


def test_a_damaged_small_frame_is_what_it_is_as_a_stream(monkeypatch):
    """At every byte: the way in which a frame is read decides nothing."""
    frames = [FRAMES[ZSTD](TEXT), checked_zstd(TEXT[:150]), unsized_zstd(TEXT[:150])]
    damaged = [
        (frame[:i] + bytes([frame[i] ^ bits]) + frame[i + 1 :], nbytes)
        for frame, nbytes in zip(frames, (len(TEXT), 150, 150), strict=True)
        for i in range(len(frame))
        for bits in (1, 16, 255)
    ]
    by_default = [outcome(*each) for each in damaged]
    monkeypatch.setattr(compression, "_SMALL_NBYTES", 0)
    assert by_default == [outcome(*each) for each in damaged]
    assert {bytes, str} == set(map(type, by_default))


N = len(TEXT)
BROKEN = [
    ("no room for the length", LZ4, memoryview(b"1234567"), "a length of 8 bytes"),
    ("a length below -1", LZ4, prefixed(-2, FRAMES[LZ4](TEXT)), "at least -1, found -2"),
    ("a length far below", ZSTD, prefixed(-(1 << 63), FRAMES[ZSTD](TEXT)), "at least -1"),
    ("lz4: one byte more declared", LZ4, prefixed(N + 1, FRAMES[LZ4](TEXT)), f"{N + 1:,} uncompressed bytes, found {N:,}"),
    ("lz4: one byte less declared", LZ4, prefixed(N - 1, FRAMES[LZ4](TEXT)), f"{N - 1:,} uncompressed bytes, found {N - 1:,}, and the frame goes on"),
    ("lz4: nothing declared", LZ4, prefixed(0, FRAMES[LZ4](TEXT)), "0 uncompressed bytes"),
    ("lz4: no frame", LZ4, prefixed(N, b""), f"a frame of {N:,} uncompressed bytes, found no bytes"),
    ("lz4: a cut frame", LZ4, prefixed(N, FRAMES[LZ4](TEXT)[:-20]), "and the frame goes on"),
    ("lz4: no end mark", LZ4, prefixed(N, FRAMES[LZ4](TEXT)[:-4]), "and the frame goes on"),
    ("lz4: bytes after", LZ4, prefixed(N, FRAMES[LZ4](TEXT) + b"more"), "one LZ4 frame, found 4 bytes after it"),
    ("lz4: two frames", LZ4, prefixed(2 * N, FRAMES[LZ4](TEXT) * 2), "uncompressed bytes"),
    ("lz4: a raw block", LZ4, prefixed(N, lz4.block.compress(TEXT, store_size=False)), "the LZ4 frame is broken"),
    ("lz4: zstd inside", LZ4, prefixed(N, FRAMES[ZSTD](TEXT)), "the LZ4 frame is broken"),
    ("lz4: noise", LZ4, prefixed(N, bytes(range(256)) * 4), "the LZ4 frame is broken"),
    ("zstd: one byte more declared", ZSTD, prefixed(N + 1, FRAMES[ZSTD](TEXT)), f"{N + 1:,} bytes, found {N:,}"),
    ("zstd: one byte less declared", ZSTD, prefixed(N - 1, FRAMES[ZSTD](TEXT)), f"{N - 1:,} bytes, found {N:,}"),
    ("zstd: more declared, no size inside", ZSTD, prefixed(N + 1, unsized_zstd(TEXT)), f"{N + 1:,} uncompressed bytes, found {N:,}"),
    ("zstd: less declared, no size inside", ZSTD, prefixed(N - 1, unsized_zstd(TEXT)), "and the frame goes on"),
    ("zstd: nothing declared", ZSTD, prefixed(0, FRAMES[ZSTD](TEXT)), "zstd frames of 0 bytes"),
    ("zstd: nothing declared, no size inside", ZSTD, prefixed(0, unsized_zstd(TEXT)), "0 uncompressed bytes"),
    ("zstd: no frame", ZSTD, prefixed(N, b""), "found no bytes"),
    ("zstd: a cut frame", ZSTD, prefixed(N, FRAMES[ZSTD](TEXT)[:-5]), "zstd"),
    ("zstd: bytes after", ZSTD, prefixed(N, FRAMES[ZSTD](TEXT) + b"more"), "zstd"),
    ("zstd: two frames, the size of the first", ZSTD, prefixed(N // 2, two_zstd_frames(TEXT)), f"{N // 2:,} bytes, found {N:,}"),
    ("zstd: two frames, one byte more declared", ZSTD, prefixed(N + 1, two_zstd_frames(TEXT)), f"{N + 1:,} bytes, found {N:,}"),
    ("zstd: two frames without sizes, one byte less declared", ZSTD, prefixed(N - 1, two_zstd_frames(TEXT, unsized_zstd, unsized_zstd)), "and the frame goes on"),
    ("zstd: two frames, the second cut", ZSTD, prefixed(N, two_zstd_frames(TEXT)[:-1]), "a complete zstd frame, found"),
    ("zstd: two frames, the second cut in its header", ZSTD, prefixed(N // 2, two_zstd_frames(TEXT)[: len(FRAMES[ZSTD](TEXT[: N // 2])) + 5]), "the zstd frame is broken"),
    ("zstd: the second has a wrong checksum", ZSTD, prefixed(N, two_zstd_frames(TEXT, checked_zstd, checked_zstd)[:-4] + b"1234"), "the zstd frame is broken"),
    ("zstd: a skippable frame that is cut", ZSTD, prefixed(N, FRAMES[ZSTD](TEXT) + skippable(20)[:-1]), "a complete zstd frame, found 27 bytes"),
    ("zstd: a skippable frame of 4 GiB", ZSTD, prefixed(N, FRAMES[ZSTD](TEXT) + struct.pack("<II", 0x184D2A50, (1 << 32) - 1)), "a complete zstd frame, found 8 bytes"),
    ("zstd: a skippable frame without its length", ZSTD, prefixed(N, FRAMES[ZSTD](TEXT) + skippable(0)[:6]), "zstd frame"),
    ("zstd: only skippable frames", ZSTD, prefixed(N, skippable(20)), f"{N:,} bytes, found 0"),
    ("zstd: lz4 inside", ZSTD, prefixed(N, FRAMES[LZ4](TEXT)), "the zstd frame is broken"),
    ("zstd: a wrong checksum", ZSTD, prefixed(N, checked_zstd(TEXT)[:-4] + b"1234"), "the zstd frame is broken"),
    ("lz4: a wrong checksum", LZ4, prefixed(N, lz4.frame.compress(TEXT, content_checksum=True)[:-4] + b"1234"), "the LZ4 frame is broken"),
]  # fmt: skip


@pytest.mark.parametrize(("codec", "data", "says"), [c[1:] for c in BROKEN], ids=[c[0] for c in BROKEN])
def test_broken_buffer_is_named(codec, data, says):
    with pytest.raises(InvalidBodyError) as caught:
        decompress(codec, data, BUDGET)
    assert says in str(caught.value)


BOMBS = [
    ("zstd", ZSTD, prefixed(1 << 40, FRAMES[ZSTD](TEXT)), LimitError, "more than the budget max_batch_bytes leaves"),
    ("lz4", LZ4, prefixed(1 << 40, FRAMES[LZ4](TEXT)), LimitError, "more than the budget max_batch_bytes leaves"),
    ("the largest number", LZ4, prefixed((1 << 63) - 1, FRAMES[LZ4](TEXT)), LimitError, "the budget"),
    ("one byte above the budget", ZSTD, prefixed(BUDGET + 1, FRAMES[ZSTD](bytes(BUDGET + 1))), LimitError, "the budget"),
    ("stored above the budget", ZSTD, prefixed(-1, bytes(BUDGET + 1)), LimitError, "the budget"),
    ("lz4 beyond what its format can", LZ4, prefixed(BUDGET, FRAMES[LZ4](b"x")), InvalidBodyError, "from an LZ4 frame of"),
]  # fmt: skip


@pytest.mark.parametrize(("codec", "data", "error", "says"), [c[1:] for c in BOMBS], ids=[c[0] for c in BOMBS])
def test_bomb_is_refused_before_it_bursts(codec, data, error, says):
    with pytest.raises(error, match=says):
        decompress(codec, data, BUDGET)


ONE_MORE = {
    "empty frames": NO_BYTES * (compression.MOST_ZSTD_PARTS // 2 + 1),
    "skippable frames": skippable(0) * (compression.MOST_ZSTD_PARTS + 1),
    "empty blocks": FRAMES[ZSTD](TEXT)[:7] + b"\0\0\0" * (compression.MOST_ZSTD_PARTS + 1) + b"\1\0\0",
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ONE_MORE)
def test_frames_and_blocks_without_number_are_refused(kind):
    """Each costs time, and none makes a byte."""
    nbytes = zstandard.frame_content_size(ONE_MORE[kind])
    with pytest.raises(LimitError, match="more than 262,144 zstd frames and blocks"):
        decompress(ZSTD, prefixed(nbytes, ONE_MORE[kind]), BUDGET)


@pytest.mark.parametrize("codec", list(CompressionType), ids=lambda codec: codec.word)
def test_the_budget_itself_is_allowed(codec):
    data = bytes(BUDGET)
    assert data == bytes(decompress(codec, prefixed(BUDGET, FRAMES[codec](data)), BUDGET))


BURST = """
import struct, sys
import lz4.frame, zstandard
from spark_arrow_ipc.errors import InvalidBodyError
from spark_arrow_ipc.ipc.columns.compression import Decompressor
from spark_arrow_ipc.ipc.flatbuf.tables import CompressionType
codec = CompressionType(int(sys.argv[1]))
zeros = bytes(256 << 20)
if codec is CompressionType.ZSTD:
    frame = zstandard.ZstdCompressor(write_content_size=False).compress(zeros)
else:
    frame = lz4.frame.compress(zeros, store_size=False)
del zeros
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # the peak counts anew from here
try:
    Decompressor(codec, 2 << 30).decompress(memoryview(struct.pack("<q", 1 << 20) + frame))
except InvalidBodyError as error:
    lines = dict(line.split(":") for line in open("/proc/self/status"))
    print((int(lines["VmHWM"].split()[0]) - int(lines["VmRSS"].split()[0])) >> 10)
"""


@pytest.mark.slow
@pytest.mark.one_in(4)
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peak memory is read from /proc")
@pytest.mark.parametrize("codec", list(CompressionType), ids=lambda codec: codec.word)
def test_a_frame_of_256_mib_that_declares_one_takes_little_memory(codec):
    done = subprocess.run(
        [sys.executable, "-c", BURST, str(int(codec))], capture_output=True, text=True, timeout=60, check=True
    )
    assert int(done.stdout) < 16, done.stdout


LEVELS = [
    (LZ4, None, True), (LZ4, -9, True), (LZ4, 0, True), (LZ4, 12, True), (LZ4, -10, False), (LZ4, 13, False),
    (ZSTD, None, True), (ZSTD, -7, True), (ZSTD, 1, True), (ZSTD, 22, True), (ZSTD, -8, False), (ZSTD, 23, False),
]  # fmt: skip


@pytest.mark.parametrize(("codec", "level", "exists"), LEVELS, ids=[f"{c.word} {level}" for c, level, _ in LEVELS])
def test_levels(codec, level, exists):
    if not exists:
        with pytest.raises(ValueError, match=f"expected a {codec.word} level of -. to .., found {level}"):
            check_level(codec, level)
        return
    prefix, frame = Compressor(codec, level).compress(memoryview(TEXT))
    assert TEXT == bytes(decompress(codec, memoryview(prefix + bytes(frame)), BUDGET))
    assert len(frame) < len(TEXT) // 5


@pytest.mark.parametrize("codec", list(CompressionType), ids=lambda codec: codec.word)
def test_what_does_not_shrink_is_stored(codec):
    noise = memoryview(bytes(range(200)))
    prefix, frame = Compressor(codec).compress(noise)
    assert (struct.pack("<q", -1), noise) == (prefix, frame)


CONTENTS = [b"", b"a" * 3000, bytes(range(256)) * 4, b"abc"]


@pytest.mark.parametrize("codec", list(CompressionType))
def test_many_buffers_are_decompressed_into_one_memory(codec):
    """As one by one, in every kind: stored raw, empty, a length of 0 without a frame."""
    buffers = [b"", bytes(8), (-1).to_bytes(8, "little", signed=True) + b"raw"]
    buffers += [b"".join(Compressor(codec).compress(memoryview(data))) for data in CONTENTS if data]
    starts = np.cumsum([0, *(-(-len(data) // 8) * 8 for data in buffers)])[:-1]
    body = b"".join(data.ljust(-(-len(data) // 8) * 8, b"\0") for data in buffers)
    places = np.column_stack((starts, [len(data) for data in buffers])).astype(np.int64)
    memory, there = Decompressor(codec, 10_000).decompress_many(memoryview(body), places)
    found = [bytes(memory[start : start + nbytes]) for start, nbytes in there.tolist()]
    assert found == [b"", b"", b"raw", *CONTENTS[1:]]
    assert (there[:, 0] % 64 == 0).all()
    one_by_one = Decompressor(codec, 10_000)
    assert found == [bytes(one_by_one.decompress(memoryview(data))) if data else b"" for data in buffers]


WRONG = {
    "a prefix cut off": lambda data: data[:7],
    "a length below -1": lambda data: (-2).to_bytes(8, "little", signed=True) + data[8:],
    "a length of terabytes": lambda data: (1 << 60).to_bytes(8, "little") + data[8:],
    "another length": lambda data: (2999).to_bytes(8, "little") + data[8:],
    "no frame": lambda data: data[:8],
    "half of a frame": lambda data: data[: len(data) // 2],
    "a byte after the frame": lambda data: data + b"\0",
    "stored raw": lambda _: (-1).to_bytes(8, "little", signed=True) + b"a" * 3000,
    "more than the budget": lambda _: (-1).to_bytes(8, "little", signed=True) + b"a" * 20_000,
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("codec", list(CompressionType))
def test_many_buffers_of_which_one_is_unusual_are_left_to_be_decompressed_one_by_one(codec, wrong):
    sound = b"".join(Compressor(codec).compress(memoryview(b"a" * 3000)))
    data = WRONG[wrong](sound)
    places = np.array([[0, len(data)], [0, 0]], np.int64)
    body = memoryview(data.ljust(-(-len(data) // 8) * 8, b"\0"))
    assert Decompressor(codec, 10_000).decompress_many(body, places) is None


@pytest.mark.parametrize("codec", list(CompressionType), ids=lambda codec: codec.word)
@pytest.mark.parametrize("level", [None, -3, 1, 9])
def test_a_frame_is_that_of_the_library(codec, level):
    compressor = Compressor(codec, level)
    for data in (b"a", b"the same text again " * 10_000, bytes(1 << 20)):
        prefix, frame = compressor.compress(memoryview(data))
        if codec is CompressionType.ZSTD:
            expected = zstandard.ZstdCompressor(level=1 if level is None else level).compress(data)
        else:
            expected = lz4.frame.compress(data, compression_level=level or 0, store_size=False)
        is_raw = len(expected) >= len(data)
        assert (is_raw, data if is_raw else expected) == (prefix == b"\xff" * 8, bytes(frame))
