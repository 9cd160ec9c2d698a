"""Some rows of a large record batch, read without the others.

Strategy
--------
The buffers of one column lie behind one another, so rows `first` to `end` are a range of bytes in each of them: fixed
widths say which, and value offsets say which of what they point into. `BatchRows.read` reads those ranges, moves the
offsets and gives the result the form of a batch of so many rows, which is then decoded and checked as any other.
Whoever writes a table in one piece makes record batches of gigabytes; here they cost the memory of a piece, and
several tasks can share them.

Ranges begin at a multiple of eight slots, at every depth, so that bitmaps need not be shifted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from spark_arrow_ipc.arrow import bitmap
from spark_arrow_ipc.arrow.layout import Role
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.errors import InvalidBodyError, error_context
from spark_arrow_ipc.ipc.body import BodyPlace
from spark_arrow_ipc.ipc.coalesce import can_gather
from spark_arrow_ipc.ipc.decode import BatchLayout, FindDictionary, check_header, wanted_ranges
from spark_arrow_ipc.ipc.metadata.message import Message, RecordBatchHeader
from spark_arrow_ipc.ipc.plan import Plan, Step
from spark_arrow_ipc.ipc.projection import SelectedColumns

__all__ = ["ROW_ALIGNMENT", "BatchRows", "can_cut"]

ROW_ALIGNMENT: Final = 8
"""Ranges of rows begin at multiples of this."""

_NOTHING = memoryview(b"")


def can_cut(columns: SelectedColumns, message: Message) -> bool:
    """Return whether rows of a batch can be read without the others.

    Not where it is compressed, of the other byte order, or has a type whose slots point into what they share.
    """
    header = message.header
    assert isinstance(header, RecordBatchHeader)
    return header.compression is None and not columns.swaps and can_gather(columns.plan(message.version))


class BatchRows:
    """A record batch of which `can_cut` is true.

    Parameters
    ----------
    columns
        What is read of it.
    message
        Its header.
    place
        Where its body lies.
    find_dictionary
        Gives the dictionaries.

    Raises
    ------
    InvalidMetadataError, InvalidBodyError, LimitError
        The header does not fit the columns or the body.
    """

    def __init__(
        self, columns: SelectedColumns, message: Message, place: BodyPlace, find_dictionary: FindDictionary
    ) -> None:
        header = message.header
        assert isinstance(header, RecordBatchHeader)
        self._columns, self._message, self._place, self._find_dictionary = columns, message, place, find_dictionary
        self._plan: Plan = columns.plan(message.version)
        self._layout = check_header(header, self._plan, place.nbytes, columns.limits)
        self.num_rows = header.length
        """Rows of the whole batch."""
        self.nbytes = sum(nbytes for _, nbytes in wanted_ranges(self._plan, self._layout))
        """Bytes of the whole batch that reading all rows reads."""
        self.num_buffers = sum(len(step.buffers) for step in self._plan.steps)
        """Reads that a range of rows costs, at most."""
        for step in self._plan.steps:
            length = self._layout.nodes[step.node][0]
            if step.is_top and length != self.num_rows:
                raise InvalidBodyError(
                    expected=f"a column of {self.num_rows:,} rows", found=f"{length:,}", field_path=step.path
                )

    def read(self, first: int, end: int) -> RecordBatch:
        """Return the rows from `first`, a multiple of `ROW_ALIGNMENT`, to `end` (exclusive). One read a buffer.

        Raises
        ------
        InvalidBodyError
            A buffer is too small for its slots, or offsets point outside; the field's path is given.
        InvalidFramingError
            The bytes end before the body does.
        """
        assert 0 <= first <= end <= self.num_rows
        assert first % ROW_ALIGNMENT == 0
        piece = _Piece(self._place, self._layout)
        steps = iter(self._plan.steps)
        for _ in self._plan.fields:
            piece.read_field(steps, first, end)
        layout = BatchLayout(piece.nodes, [[0, len(found)] for found in piece.found], (0,))
        return self._columns.build_batch(self._message, end - first, layout, piece.found, self._find_dictionary)


@dataclass(slots=True)
class _Piece:
    """The nodes and buffers of some rows, by the numbers that those of all rows have."""

    place: BodyPlace
    layout: BatchLayout
    nodes: list[list[int]] = field(init=False)
    found: list[memoryview] = field(init=False)

    def __post_init__(self) -> None:
        self.nodes = [[0, 0] for _ in self.layout.nodes]
        self.found = [_NOTHING] * len(self.layout.buffers)

    def read_field(self, steps: Iterator[Step], first: int, end: int) -> None:
        """Read the slots from `first` to `end` of the next step, and of all below it what those stand for."""
        step = next(steps)
        with error_context(field_path=step.path):
            below = self._read_step(step, first, end)
        for _ in range(step.children):
            self.read_field(steps, *below)

    def _read_step(self, step: Step, first: int, end: int) -> tuple[int, int]:
        """Read the buffers of a step, and return which slots of its children they stand for."""
        length, null_count = self.layout.nodes[step.node]
        if end > length:
            raise InvalidBodyError(expected=f"at least {end:,} slots", found=f"{length:,}")
        nulls = 0
        base, behind = (first * step.child_slots, end * step.child_slots) if step.child_slots is not None else (0, 0)
        for number, buffer in enumerate(step.buffers, step.first_buffer):
            if end == first:
                continue
            if buffer.role is Role.VALIDITY:
                nulls = self._read_validity(number, first, end, null_count)
            elif buffer.role is Role.OFFSETS:
                width = buffer.bit_width // 8
                offsets = np.frombuffer(self._read(number, first * width, (end + 1) * width), f"i{width}")
                base, behind = int(offsets[0]), int(offsets[-1])
                if not 0 <= base <= behind:
                    raise InvalidBodyError(
                        expected="value offsets that rise from 0 on",
                        found=f"{base:,} in slot {first:,} and {behind:,} in slot {end:,}",
                    )
                if step.children:
                    base -= base % ROW_ALIGNMENT
                self.found[number] = (offsets - base).view(np.uint8).data
            elif buffer.role is Role.BYTES:
                self.found[number] = self._read(number, base, behind)
            else:
                width = buffer.bit_width
                self.found[number] = self._read(number, first * width // 8, -(-end * width // 8))
        self.nodes[step.node] = [end - first, nulls]
        return base, behind

    def _read_validity(self, number: int, first: int, end: int, null_count: int) -> int:
        """Read a piece of a bitmap and return how many of its slots are null."""
        if not self.layout.buffers[number][1] and not null_count:
            return 0
        data = self._read(number, first // 8, -(-end // 8))
        nulls = end - first - bitmap.count_set(data, 0, end - first)
        if nulls > null_count:
            raise InvalidBodyError(
                expected=f"at most {null_count:,} nulls, as the field node says",
                found=f"{nulls:,} in slots {first:,} to {end:,}",
            )
        self.found[number] = data if nulls else _NOTHING
        return nulls

    def _read(self, number: int, start: int, end: int) -> memoryview:
        """Return some bytes of a buffer, by their places in it."""
        origin, nbytes = self.layout.buffers[number]
        if end > nbytes:
            raise InvalidBodyError(expected=f"a buffer of at least {end:,} bytes", found=f"{nbytes:,}")
        return (
            self.place.source.read_at(self.place.byte_offset + origin + start, end - start) if end > start else _NOTHING
        )
