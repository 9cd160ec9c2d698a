"""`ByteSource`: exact ranges of the bytes of one file or stream.

A source gives exact ranges and nothing else: what is asked for comes whole, or an `InvalidFramingError` says where
the bytes end. Nothing is allocated for a length before the source knows that the bytes exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from spark_arrow_ipc.errors import InvalidFramingError

__all__ = ["BufferSource", "ByteSource", "ExactReads", "truncated"]


class ByteSource(Protocol):
    """Exact ranges of the bytes of one file or stream."""

    @property
    def path(self) -> str | None:
        """What the user called it, for errors; None for bytes in memory."""

    @property
    def nbytes(self) -> int | None:
        """Length in bytes, or None where only reading to the end can tell."""

    def read_at(self, byte_offset: int, nbytes: int) -> memoryview:
        """Return exactly `nbytes` bytes from `byte_offset` on.

        Raises
        ------
        InvalidFramingError
            The bytes end before.
        """

    def read_up_to(self, byte_offset: int, nbytes: int) -> memoryview:
        """Return the bytes from `byte_offset` on, at most `nbytes`; fewer only where they end."""

    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        """Return each range of (byte offset, bytes), exactly. A source that waits for its bytes may overlap them."""

    def close(self) -> None:
        """Give back what the source opened itself."""


class ExactReads:
    """`read_at` and `read_ranges` from `read_up_to`."""

    nbytes: int | None

    def read_up_to(self, byte_offset: int, nbytes: int) -> memoryview:
        """Return the bytes from `byte_offset` on, at most `nbytes`; each source has its own way."""
        raise NotImplementedError

    def read_at(self, byte_offset: int, nbytes: int) -> memoryview:
        """Return exactly `nbytes` bytes from `byte_offset` on.

        Raises
        ------
        InvalidFramingError
            The bytes end before.
        """
        data = self.read_up_to(byte_offset, nbytes)
        if len(data) != nbytes:
            end = byte_offset + len(data)
            raise truncated(nbytes, len(data), byte_offset, end if self.nbytes is None else min(end, self.nbytes))
        return data

    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        """Return each range of (byte offset, bytes), one read after another."""
        return [self.read_at(byte_offset, nbytes) for byte_offset, nbytes in ranges]


def truncated(nbytes: int, found: int, byte_offset: int, end: int) -> InvalidFramingError:
    """Return the error of a file that ends before the bytes that were asked for."""
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
