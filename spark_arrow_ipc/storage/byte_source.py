"""`ByteSource`: read exact byte ranges of one file or stream.

A source returns each range whole, or raises an `InvalidFramingError` that says where the bytes end. No memory is
allocated for a length before the source knows that the bytes exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from spark_arrow_ipc.errors import InvalidFramingError

__all__ = ["BufferSource", "ByteSource", "ExactReads", "truncated"]


class ByteSource(Protocol):
    """Exact byte ranges of one file or stream."""

    @property
    def path(self) -> str | None:
        """Path as the user gave it, for errors; None for bytes in memory."""

    @property
    def nbytes(self) -> int | None:
        """Length in bytes, or None if it is known only after reading to the end."""

    def read_at(self, byte_offset: int, nbytes: int) -> memoryview:
        """Return exactly `nbytes` bytes from `byte_offset` on.

        Raises
        ------
        InvalidFramingError
            The bytes end earlier.
        """

    def read_up_to(self, byte_offset: int, nbytes: int) -> memoryview:
        """Return the bytes from `byte_offset` on, at most `nbytes`; fewer at the end."""

    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        """Return each (byte offset, nbytes). Slow sources may read several at once."""

    def close(self) -> None:
        """Close what the source opened itself."""


class ExactReads:
    """Implement `read_at` and `read_ranges` with `read_up_to`."""

    nbytes: int | None

    def read_up_to(self, byte_offset: int, nbytes: int) -> memoryview:
        """Return the bytes from `byte_offset` on, at most `nbytes`; abstract."""
        raise NotImplementedError

    def read_at(self, byte_offset: int, nbytes: int) -> memoryview:
        """Return exactly `nbytes` bytes from `byte_offset` on.

        Raises
        ------
        InvalidFramingError
            The bytes end earlier.
        """
        data = self.read_up_to(byte_offset, nbytes)
        if len(data) != nbytes:
            end = byte_offset + len(data)
            raise truncated(nbytes, len(data), byte_offset, end if self.nbytes is None else min(end, self.nbytes))
        return data

    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        """Return each (byte offset, nbytes), one read after another."""
        return [self.read_at(byte_offset, nbytes) for byte_offset, nbytes in ranges]


def truncated(nbytes: int, found: int, byte_offset: int, end: int) -> InvalidFramingError:
    """Return the error for a file that ends before the requested bytes."""
    return InvalidFramingError(
        expected=f"{nbytes:,} bytes",
        found=f"{found:,}: the file ends at byte {end:,}, it is truncated; copy or write it again",
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
