"""Read some rows of a large record batch without the others.

How it works
------------
Rows `start` to `stop` are a range of bytes in each buffer: by the fixed width of a slot, or by the value offsets at
both ends. `BatchRows.read` reads these ranges and subtracts the first value offset from the others. The result has the
layout of a batch, and is decoded and validated like any other. A table written in one piece is one record batch of
gigabytes: reading ranges takes the memory of a range, and several tasks can share the batch.

Ranges begin at a multiple of eight slots at every depth, so that no bitmap is shifted.

Where each read waits for a network, all computable ranges are read at once: first buffers of fixed width and value
offsets, then the ranges that the offsets point at, level by level (`_fetch`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import numpy as np

from spark_arrow_ipc.arrow import array_data
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.errors import InvalidBodyError
from spark_arrow_ipc.ipc.bytes.body import WAITING_GAP_NBYTES, BodyPlace, Fetched, join_ranges
from spark_arrow_ipc.ipc.columns.batch_layout import BatchLayout, buffer_ranges, check_header
from spark_arrow_ipc.ipc.columns.decode import FindDictionary, Regions
from spark_arrow_ipc.ipc.columns.plan import BufferStep, Plan, SlotWalk, Step, can_walk_slots
from spark_arrow_ipc.ipc.columns.projection import SelectedColumns
from spark_arrow_ipc.ipc.constants import NO_BYTES
from spark_arrow_ipc.ipc.messages.checksums import RunningChecksums
from spark_arrow_ipc.ipc.messages.message import Message, RecordBatchHeader

ROW_ALIGNMENT: Final = 8
"""Ranges of rows begin at a multiple of this."""

_MOST_ROUNDS: Final = 16  # levels of nesting that are read ahead, a wait each; deeper ones are read on demand


def can_cut(columns: SelectedColumns, message: Message) -> bool:
    """Return whether some rows of a batch can be read without the others."""
    header = message.header
    assert isinstance(header, RecordBatchHeader)
    return header.compression is None and not columns.swaps and can_walk_slots(columns.plan(message.version))


class BatchRows:
    """A record batch whose rows can be read in ranges; `can_cut` must hold."""

    # A buffer is compared with its checksum, by its number, after it was read from its first byte to its last.

    def __init__(
        self,
        columns: SelectedColumns,
        message: Message,
        body_place: BodyPlace,
        find_dictionary: FindDictionary,
        checksums: Sequence[int] | None = None,
    ) -> None:
        header = message.header
        assert isinstance(header, RecordBatchHeader)
        self._columns, self._message, self._place, self._find_dictionary = columns, message, body_place, find_dictionary
        self._plan: Plan = columns.plan(message.version)
        self._layout = check_header(header, self._plan, body_place.nbytes, columns.limits)
        self._checksums = None if checksums is None else RunningChecksums(checksums)
        self.num_rows = header.length
        """Rows of the complete batch."""
        self.nbytes = sum(nbytes for _, nbytes in buffer_ranges(self._plan, self._layout))
        """Bytes of the selected columns' buffers, for all rows."""
        self.num_buffers = sum(len(step.buffers) for step in self._plan.steps)
        """The most reads for one range of rows."""
        for step in self._plan.steps:
            length = self._layout.nodes[step.node][0]
            if step.is_top and length != self.num_rows:
                raise InvalidBodyError(
                    expected=f"a column of {self.num_rows:,} rows", found=f"{length:,}", field_path=step.path
                )

    def read(self, start: int, stop: int) -> RecordBatch:
        """Read the rows `start` to `stop`; `start` is a multiple of `ROW_ALIGNMENT`. One read a buffer."""
        assert 0 <= start <= stop <= self.num_rows
        assert start % ROW_ALIGNMENT == 0
        fetched_place = _fetch(self._plan, self._layout, self._place, range(start, stop))
        reading = _RangeReading(self._plan, self._layout, fetched_place, self._checksums)
        reading.walk(range(start, stop))
        # After the last range, the buffers that were read without a gap are complete
        if self._checksums is not None and stop == self.num_rows:
            for number, (_, nbytes) in enumerate(self._layout.buffers):
                self._checksums.check(number, nbytes)
        layout = BatchLayout(reading.nodes, [[0, len(data)] for data in reading.buffers], (0,))
        return self._columns.build_batch(
            self._message, stop - start, Regions(layout, reading.buffers), self._find_dictionary
        )


class _RangeReading(SlotWalk[range]):
    """Reads the nodes and buffers of a range of slots, with the numbers of the complete batch."""

    def __init__(
        self, plan: Plan, layout: BatchLayout, body_place: BodyPlace, checksums: RunningChecksums | None
    ) -> None:
        super().__init__(plan)
        self._layout, self._place, self._checksums = layout, body_place, checksums
        self.nodes = [[0, 0] for _ in layout.nodes]

    def enter(self, step: Step, slots: range) -> range:
        length = self._layout.nodes[step.node][0]
        if slots.stop > length:
            raise InvalidBodyError(expected=f"at least {slots.stop:,} slots", found=f"{length:,}")
        self.nodes[step.node][0] = len(slots)
        each = step.child_slots
        return range(0) if each is None else range(slots.start * each, slots.stop * each)

    def validity(self, step: Step, number: int, slots: range) -> memoryview:
        null_count = self._layout.nodes[step.node][1]
        if not slots or (not self._layout.buffers[number][1] and not null_count):
            return NO_BYTES
        bits = self.values(number, step.buffers[0], slots)
        nulls = len(slots) - array_data.count_bits(bits, 0, len(slots))
        if nulls > null_count:  # their exact number is in the header of all rows only
            raise InvalidBodyError(
                expected=f"at most {null_count:,} nulls, as the field node says",
                found=f"{nulls:,} in slots {slots.start:,} to {slots.stop:,}",
            )
        self.nodes[step.node][1] = nulls
        return bits if nulls else NO_BYTES

    def value_offsets(self, step: Step, number: int, buffer: BufferStep, slots: range) -> tuple[memoryview, range]:
        if not slots:
            return NO_BYTES, range(0)
        nbytes = buffer.bit_width // 8
        data = self._read(number, range(slots.start * nbytes, (slots.stop + 1) * nbytes))
        offsets = np.frombuffer(data, f"i{nbytes}")
        start, stop = int(offsets[0]), int(offsets[-1])
        if not 0 <= start <= stop:
            raise InvalidBodyError(
                expected="value offsets that rise from 0 on",
                found=f"{start:,} in slot {slots.start:,} and {stop:,} in slot {slots.stop:,}",
            )
        if step.children:  # elements, whose bitmaps must not be shifted; bytes have none
            start -= start % ROW_ALIGNMENT
        return (offsets - start).view(np.uint8).data, range(start, stop)

    def bytes_of(self, number: int, below: range) -> memoryview:
        return self._read(number, below)

    def values(self, number: int, buffer: BufferStep, slots: range) -> memoryview:
        if not slots:
            return NO_BYTES
        # Slots begin at a multiple of 8, so the first bit is the first of its byte.
        return self._read(number, range(slots.start * buffer.bit_width // 8, buffer.nbytes(slots.stop)))

    def _read(self, number: int, extent: range) -> memoryview:
        """Read a range of bytes of a buffer."""
        byte_offset, nbytes = self._layout.buffers[number]
        if extent.stop > nbytes:
            raise InvalidBodyError(expected=f"a buffer of at least {extent.stop:,} bytes", found=f"{nbytes:,}")
        if not extent:
            return NO_BYTES
        body_place = self._place
        data = body_place.source.read_at(body_place.byte_offset + byte_offset + extent.start, len(extent))
        if self._checksums is not None:
            self._checksums.add(number, extent.start, data)
        return data


class _MissingRanges(_RangeReading):
    """Finds the byte ranges of some slots that are not in memory, down to value offsets that are missing themselves."""

    def __init__(self, plan: Plan, layout: BatchLayout, body_place: BodyPlace, fetched: Fetched) -> None:
        super().__init__(plan, layout, body_place, None)
        self._fetched = fetched
        self.missing: list[tuple[int, int]] = []

    def validity(self, step: Step, number: int, slots: range) -> memoryview:
        if slots and self._layout.buffers[number][1]:
            self.values(number, step.buffers[0], slots)
        return NO_BYTES

    def value_offsets(self, step: Step, number: int, buffer: BufferStep, slots: range) -> tuple[memoryview, range]:
        missing = len(self.missing)
        nbytes = buffer.bit_width // 8
        if slots:
            self._read(number, range(slots.start * nbytes, (slots.stop + 1) * nbytes))
        if missing < len(self.missing):
            return NO_BYTES, range(0)
        return super().value_offsets(step, number, buffer, slots)

    def _read(self, number: int, extent: range) -> memoryview:
        byte_offset, nbytes = self._layout.buffers[number]
        if extent.stop > nbytes:
            raise InvalidBodyError(expected=f"a buffer of at least {extent.stop:,} bytes", found=f"{nbytes:,}")
        if not extent:
            return NO_BYTES
        extent_range = self._place.byte_offset + byte_offset + extent.start, len(extent)
        held = self._fetched.held(*extent_range)
        if held is None:
            self.missing.append(extent_range)
        return NO_BYTES if held is None else held


def _fetch(plan: Plan, layout: BatchLayout, body_place: BodyPlace, slots: range) -> BodyPlace:
    """Return a body's place with all bytes for a range of rows in memory, or unchanged if reads do not wait."""
    if not body_place.source.waits:
        return body_place
    starts: list[int] = []
    parts: list[memoryview] = []
    fetched = Fetched(body_place.source, starts, parts)
    for _ in range(_MOST_ROUNDS):
        reading = _MissingRanges(plan, layout, body_place, fetched)
        with suppress(InvalidBodyError):  # which reading the rows raises again
            reading.walk(slots)
        ranges = join_ranges(reading.missing, WAITING_GAP_NBYTES)
        if not ranges:
            break
        more = body_place.source.read_ranges([(start, stop - start) for start, stop in ranges])
        held = sorted(
            [*zip(starts, parts, strict=True), *((r[0], data) for r, data in zip(ranges, more, strict=True))],
            key=lambda pair: pair[0],
        )
        # In place, because `fetched` has these lists
        starts[:], parts[:] = [start for start, _ in held], [data for _, data in held]
    return BodyPlace(fetched, body_place.byte_offset, body_place.nbytes)
