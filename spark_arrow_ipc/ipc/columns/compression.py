"""Compressed buffers: an int64 uncompressed length, then one LZ4 frame or zstd frames (Message.fbs).

A length of -1 means that the bytes after it are not compressed. The length bounds the output; the budget of the batch and,
for LZ4, the best ratio of its format bound the length. Frames of zstd are concatenated, and some are skippable (RFC 8878,
3): together they are the content. Another output, or other bytes after it, is an error.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Final

import lz4.frame
import numpy as np
import zstandard

from spark_arrow_ipc.errors import InvalidBodyError, LimitError
from spark_arrow_ipc.ipc.columns import lz4_frame
from spark_arrow_ipc.ipc.constants import RAW_BUFFER, Int64s
from spark_arrow_ipc.ipc.flatbuf.tables import CompressionType

PREFIX_NBYTES: Final = 8
"""The int64 before the frame."""

LZ4_MOST_RATIO: Final = 255
"""The most output bytes for each byte of an LZ4 sequence (LZ4 block format, "match length")."""

_ARENA_NBYTES: Final = 256 << 20  # the largest single allocation for all buffers of a batch

_ARENA_ALIGNMENT: Final = 64

# Memory is allocated in advance only for lengths up to this multiple of the compressed ones
_BELIEVABLE_RATIO: Final = 255

_ZSTD_BLOCK_HEADER_NBYTES: Final = 3
_ZSTD_CHECKSUM_NBYTES: Final = 4
# Type of a block of one repeated byte, whose header has the size of its output (RFC 8878, 3.1.1.2.2)
_ZSTD_RLE_BLOCK: Final = 1

# The magic of a skippable frame without its last 4 bits (RFC 8878, 3.1.2); the length of its content follows
_ZSTD_SKIPPABLE: Final = 0x184D2A50
_ZSTD_SKIPPABLE_HEADER: Final = struct.Struct("<II")

MOST_ZSTD_PARTS: Final = 1 << 18
"""The most frames and blocks of a buffer, each of which may be empty: 8 KiB of output each in the largest buffer."""


# Up to this many bytes, a call that returns new memory is cheaper than a stream (3 us of 7 for 1,000 bytes). A frame that is
# no longer has fewer blocks than `MOST_ZSTD_PARTS`, of 3 bytes or more each.
_SMALL_NBYTES: Final = 64 << 10


_SPEC: Final = "Message.fbs, BodyCompressionMethod.BUFFER"
_INT64: Final = struct.Struct("<q")


def output_nbytes(data: memoryview) -> int:
    """Return the bytes of output that the length prefix of a compressed buffer declares."""
    if len(data) < PREFIX_NBYTES:
        raise InvalidBodyError(
            expected="a length of 8 bytes before compressed data", found=f"{len(data)} bytes", spec=_SPEC
        )
    declared: int = _INT64.unpack_from(data)[0]
    if declared < RAW_BUFFER:
        raise InvalidBodyError(expected="an uncompressed length of at least -1", found=f"{declared:,}", spec=_SPEC)
    return len(data) - PREFIX_NBYTES if declared == RAW_BUFFER else declared


class Decompressor:
    """Decompresses the buffers of one batch, with one allocation for the output of `buffers`.

    `budget_nbytes` bounds the output of all buffers together.
    """

    # The C library's allocator reuses one allocation a batch for the next batch; five large ones go back to the system
    # and cost more in page faults than LZ4 costs in work (measured: 0.8 against 0.3 ms for 2.5 MB).

    def __init__(self, compression: CompressionType, budget_nbytes: int, buffers: Iterable[memoryview] = ()) -> None:
        self._into = _INTO[compression]
        self._zstd = zstandard.ZstdDecompressor() if compression is CompressionType.ZSTD else None
        self._budget_nbytes = budget_nbytes
        self._arena = memoryview(b"")
        nbytes = sum(_pad(_believable_nbytes(data)) for data in buffers)
        if nbytes <= min(budget_nbytes, _ARENA_NBYTES):
            self._arena = np.empty(nbytes, np.uint8).data

    def decompress(self, data: memoryview) -> memoryview:
        """Return the bytes of one compressed buffer: a view if they are stored raw, otherwise new memory."""
        nbytes = output_nbytes(data)
        frame = data[PREFIX_NBYTES:]
        if nbytes > self._budget_nbytes:
            raise LimitError(
                f"a buffer of {len(data):,} compressed bytes declares {nbytes:,}, which is more than the budget "
                f"max_batch_bytes leaves ({self._budget_nbytes:,}); raise it where this file is trusted"
            )
        self._budget_nbytes -= nbytes
        if _INT64.unpack_from(data)[0] == RAW_BUFFER:
            return frame
        if not len(frame):
            # arrow-java writes an empty buffer as a length of 0 without a frame.
            if nbytes == 0:
                return frame
            raise InvalidBodyError(expected=f"a frame of {nbytes:,} uncompressed bytes", found="no bytes", spec=_SPEC)
        if self._zstd is None and nbytes > LZ4_MOST_RATIO * len(frame):
            raise InvalidBodyError(
                expected=f"at most {LZ4_MOST_RATIO * len(frame):,} bytes from an LZ4 frame of {len(frame):,}",
                found=f"{nbytes:,} declared",
                spec=_SPEC,
            )
        try:
            output = self._room(nbytes)
            self._into(frame, output, self._zstd)
        except MemoryError as error:
            raise LimitError(f"there is no memory for a buffer of {nbytes:,} uncompressed bytes") from error
        return output

    def decompress_many(self, body: memoryview, places: Int64s) -> tuple[memoryview, Int64s] | None:
        """Decompress many buffers into one memory; return it with their extents, or None to decompress them one by one."""
        # None for a broken buffer, whose error that finds, for too many bytes, and if most are stored raw, which that does
        # not copy. The budget does not change.
        starts, nbytes = places.T
        (some,) = nbytes.nonzero()
        starts, frames = starts[some], nbytes[some] - PREFIX_NBYTES
        if len(frames) and int(frames.min()) < 0:
            return None
        # Buffers begin at multiples of 8, by `check_header`, so that their lengths are words of the body.
        declared = np.frombuffer(body[: len(body) & ~7], "<i8")[starts >> 3]
        is_raw = declared == RAW_BUFFER
        sizes = np.where(is_raw, frames, declared)
        if self._zstd is None and (sizes > LZ4_MOST_RATIO * frames).any():
            return None
        # arrow-java writes empty buffers as a length of 0 without a frame.
        if not ((sizes >= 0) & (sizes <= _ARENA_NBYTES) & ((frames > 0) | (sizes == 0))).all():
            return None
        room = sizes + -sizes % _ARENA_ALIGNMENT
        total = int(room.sum())
        if total > min(self._budget_nbytes, _ARENA_NBYTES) or 2 * int(sizes[is_raw].sum()) > total:
            return None
        new_places = np.zeros_like(places)
        new_places[some, 0], new_places[some, 1] = np.cumsum(room) - room, sizes
        try:
            memory = np.empty(total, np.uint8).data
            sources, outputs = np.column_stack((starts + PREFIX_NBYTES, frames)), new_places[some]
            for (start, _), (to, size) in zip(sources[is_raw].tolist(), outputs[is_raw].tolist(), strict=True):
                memory[to : to + size] = body[start : start + size]
            has_frame = ~is_raw & (frames > 0)
            is_sound = self._all_into(body, sources[has_frame], memory, outputs[has_frame])
        except MemoryError:
            return None
        return (memory, new_places) if is_sound else None

    def _all_into(self, body: memoryview, frames: Int64s, memory: memoryview, outputs: Int64s) -> bool:
        """Decompress frames of `body` to their places in `memory`; return True if all are sound."""
        if self._zstd is None:
            return lz4_frame.decompress_all(body, frames, memory, outputs)
        try:
            for (start, nbytes), (to, size) in zip(frames.tolist(), outputs.tolist(), strict=True):
                _decompress_zstd(body[start : start + nbytes], memory[to : to + size], self._zstd)
        except InvalidBodyError:
            return False
        return True

    def _room(self, nbytes: int) -> memoryview:
        if nbytes > len(self._arena):
            return np.empty(nbytes, np.uint8).data
        room = self._arena[:nbytes]
        self._arena = self._arena[_pad(nbytes) :]
        return room


def _pad(nbytes: int) -> int:
    return nbytes + -nbytes % _ARENA_ALIGNMENT


def _believable_nbytes(data: memoryview) -> int:
    """Return the declared bytes of a buffer, or 0 if it needs no memory or is certainly broken."""
    if len(data) <= PREFIX_NBYTES:
        return 0
    declared: int = _INT64.unpack_from(data)[0]
    return declared if 0 < declared <= _BELIEVABLE_RATIO * len(data) else 0


def _decompress_zstd(frames: memoryview, output: memoryview, decompressor: zstandard.ZstdDecompressor | None) -> None:
    assert decompressor is not None
    if _decompress_small(frames, output, decompressor):
        return
    try:
        _check_zstd_frames(frames, len(output))
        with decompressor.stream_reader(frames, read_across_frames=True, closefd=False) as stream:
            produced = 0
            while produced < len(output):
                read = stream.readinto(output[produced:])
                if not read:
                    break
                produced += read
            goes_on = bool(stream.read(1))
    except zstandard.ZstdError as error:
        raise InvalidBodyError(f"the zstd frame is broken: {error}", spec=_SPEC) from error
    if produced != len(output) or goes_on:
        actual = f"{produced:,}, and the frame goes on" if goes_on else f"{produced:,}"
        raise InvalidBodyError(expected=f"{len(output):,} uncompressed bytes", found=actual, spec=_SPEC)


def _decompress_small(frames: memoryview, output: memoryview, decompressor: zstandard.ZstdDecompressor) -> bool:
    """Decompress one frame of few bytes that says its size; return False for any other input, sound or broken."""
    if not 0 < len(output) <= _SMALL_NBYTES or len(frames) > _SMALL_NBYTES:
        return False
    try:
        if zstandard.frame_content_size(frames) != len(output):
            return False
        output[:] = decompressor.decompress(frames, allow_extra_data=False)
    except zstandard.ZstdError:
        return False
    return True


def _check_zstd_frames(frames: memoryview, nbytes: int) -> None:
    """Refuse bytes that are not complete frames of zstd, or frames whose declared sizes do not add up to `nbytes`."""
    content_nbytes = parts = 0
    tells_size, frame = True, frames  # a size is optional: -1 without one
    while len(frame):
        size = zstandard.frame_content_size(frame)
        frame_nbytes, parts = _zstd_frame_nbytes(frame, parts) if size else _empty_frame_nbytes(frame, parts)
        if parts > MOST_ZSTD_PARTS:
            raise LimitError(
                f"a buffer of {len(frames):,} bytes has more than {MOST_ZSTD_PARTS:,} zstd frames and blocks"
            )
        if frame_nbytes > len(frame):
            raise InvalidBodyError(expected="a complete zstd frame", found=f"{len(frame):,} bytes of it", spec=_SPEC)
        tells_size = tells_size and size >= 0
        content_nbytes += size
        frame = frame[frame_nbytes:]
    if tells_size and content_nbytes != nbytes:
        raise InvalidBodyError(expected=f"zstd frames of {nbytes:,} bytes", found=f"{content_nbytes:,}", spec=_SPEC)


def _empty_frame_nbytes(frame: memoryview, parts: int) -> tuple[int, int]:
    """Return the result of `_zstd_frame_nbytes` for a frame without content, which may be skippable."""
    if len(frame) >= _ZSTD_SKIPPABLE_HEADER.size:
        magic, nbytes = _ZSTD_SKIPPABLE_HEADER.unpack_from(frame)
        if magic & ~15 == _ZSTD_SKIPPABLE:
            return _ZSTD_SKIPPABLE_HEADER.size + nbytes, parts + 1
    return _zstd_frame_nbytes(frame, parts)


def _zstd_frame_nbytes(frame: memoryview, parts: int) -> tuple[int, int]:
    """Return the bytes of the first frame, by its headers, and `parts` plus the number of the frame and its blocks."""
    end, stop = zstandard.frame_header_size(frame), len(frame)
    parts += 1
    is_last = False
    while not is_last and end < stop and parts <= MOST_ZSTD_PARTS:
        header = int.from_bytes(frame[end : end + _ZSTD_BLOCK_HEADER_NBYTES], "little")
        is_last, kind, nbytes = bool(header & 1), header >> 1 & 3, header >> 3
        end += _ZSTD_BLOCK_HEADER_NBYTES + (1 if kind == _ZSTD_RLE_BLOCK else nbytes)
        parts += 1
    if not is_last:
        return max(end, stop + 1), parts  # more bytes than exist, which the caller refuses
    has_checksum = zstandard.get_frame_parameters(frame).has_checksum
    return end + (_ZSTD_CHECKSUM_NBYTES if has_checksum else 0), parts


_INTO: Final[dict[CompressionType, Callable[[memoryview, memoryview, zstandard.ZstdDecompressor | None], None]]] = {
    CompressionType.LZ4_FRAME: lambda frame, output, _: lz4_frame.decompress_into(frame, output),
    CompressionType.ZSTD: _decompress_zstd,
}

LZ4_LEVELS: Final = range(-9, 13)
ZSTD_LEVELS: Final = range(-7, 23)


def check_level(compression: CompressionType, level: int | None) -> None:
    """Raise if a codec does not have this level; None is its default."""
    levels = LZ4_LEVELS if compression is CompressionType.LZ4_FRAME else ZSTD_LEVELS
    if level is not None and level not in levels:
        raise ValueError(f"expected a {compression.word} level of {levels.start} to {levels.stop - 1}, found {level}")


class Compressor:
    """Compresses buffers of one file with one codec and level; ValueError if the codec lacks the level."""

    def __init__(self, compression: CompressionType, level: int | None = None) -> None:
        check_level(compression, level)
        self.compression = compression
        self._level = level
        # The default levels are 0 for lz4, its fast mode, and 1 for zstd, as in pyarrow.
        self._zstd = zstandard.ZstdCompressor(level=1 if level is None else level)

    def compress(self, data: memoryview) -> tuple[bytes, bytes | memoryview]:
        """Return the length prefix and the frame of one buffer, raw if it does not shrink."""
        frame: bytes
        if self.compression is CompressionType.ZSTD:
            frame = self._zstd.compress(data)
        else:
            frame = lz4.frame.compress(data, compression_level=self._level or 0, store_size=False)
        if len(frame) >= len(data):  # raw bytes are smaller, and need no work to read
            return _INT64.pack(RAW_BUFFER), data
        return _INT64.pack(len(data)), frame
