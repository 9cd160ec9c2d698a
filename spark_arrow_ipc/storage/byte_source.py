"""`ByteSource`: read exact byte ranges of one file or stream.

A source returns each range whole, or raises a `TruncatedError` that says where the bytes end. No memory is
allocated for a length before the source knows that the bytes exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np

from spark_arrow_ipc.errors import TruncatedError

_STEP_NBYTES: Final = 4 << 10
"""Buffers are rounded up to a multiple of this, or of a sixteenth of the read if that is larger."""


class ByteSource(Protocol):
    """Exact byte ranges of one file or stream."""

    @property
    def path(self) -> str | None:
        """Path as the user gave it, for errors; None for bytes in memory."""

    @property
    def nbytes(self) -> int | None:
        """Length in bytes, or None if it is known only after reading to the end."""

    @property
    def waits(self) -> bool:
        """True if every read waits for a network: 30 ms, whatever it reads.

        Such a source knows its length, and may be read by several threads at once. Readers then keep what they have,
        and have several reads under way.
        """

    def read_at(self, byte_offset: int, nbytes: int) -> memoryview:
        """Return exactly `nbytes` bytes from `byte_offset` on.

        Raises
        ------
        TruncatedError
            The bytes end earlier.
        """

    def read_up_to(self, byte_offset: int, nbytes: int) -> memoryview:
        """Return the bytes from `byte_offset` on, at most `nbytes`; fewer at the end."""

    def read_into(self, byte_offset: int, into: memoryview) -> None:
        """Fill `into`, which can be written, with the bytes from `byte_offset` on.

        Raises
        ------
        InvalidFramingError
            The bytes end earlier.
        """

    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        """Return each (byte offset, nbytes). Slow sources may read several at once."""

    def close(self) -> None:
        """Close what the source opened itself."""


class ExactReads:
    """Implement the other reads with `read_up_to`, for a source that does not wait."""

    nbytes: int | None
    waits: bool = False

    def read_up_to(self, byte_offset: int, nbytes: int) -> memoryview:
        """Return the bytes from `byte_offset` on, at most `nbytes`; abstract."""
        raise NotImplementedError

    def read_at(self, byte_offset: int, nbytes: int) -> memoryview:
        """Return exactly `nbytes` bytes from `byte_offset` on."""
        data = self.read_up_to(byte_offset, nbytes)
        if len(data) != nbytes:
            end = byte_offset + len(data)
            raise truncated(nbytes, len(data), byte_offset, end if self.nbytes is None else min(end, self.nbytes))
        return data

    def read_into(self, byte_offset: int, into: memoryview) -> None:
        """Fill `into` with the bytes from `byte_offset` on, by a copy."""
        np.copyto(np.frombuffer(into, np.uint8), np.frombuffer(self.read_at(byte_offset, len(into)), np.uint8))

    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        """Return each (byte offset, nbytes), one read after another."""
        return [self.read_at(byte_offset, nbytes) for byte_offset, nbytes in ranges]


def new_buffer(nbytes: int) -> memoryview:
    """Return memory for the bytes of a read, at least one.

    Exact sizes differ a little from batch to batch, and memory that is freed and allocated again costs a page fault for
    every 4 KiB; with a few rounded sizes the allocator reuses the memory of an earlier batch (measured in a scan of 400
    MB: 49,000 faults, and 1,300 with rounded sizes).
    """
    step = max(_STEP_NBYTES, (1 << nbytes.bit_length()) >> 4)
    return np.empty(-(-nbytes // step) * step, np.uint8).data[:nbytes]


def truncated(nbytes: int, read: int, byte_offset: int, end: int) -> TruncatedError:
    """Return the error for a file that ends before the requested bytes."""
    return TruncatedError(
        expected=f"{nbytes:,} bytes",
        found=f"{read:,}: the file ends at byte {end:,}, it is truncated; copy or write it again",
        byte_offset=byte_offset,
    )


class BufferSource(ExactReads):
    """Bytes in memory; ranges are views."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self.path: str | None = None
        self.nbytes: int | None = len(data)

    def read_up_to(self, byte_offset: int, nbytes: int) -> memoryview:
        """Return a view of the bytes from `byte_offset` on, at most `nbytes`."""
        return self._data[byte_offset : byte_offset + nbytes]

    def close(self) -> None:
        """Do nothing: the bytes belong to the caller."""
