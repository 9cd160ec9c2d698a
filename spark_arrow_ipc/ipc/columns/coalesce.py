"""Decode many small record batches as one.

How it works
------------
The cost of small batches is the Python work for each batch, not their bytes. So a run of neighbours whose headers have
one shape (`MessageShape`) is decoded as one batch: numpy checks the numbers of all headers at once, and the buffers of
one column are concatenated. The result has the layout of one large batch, and is decoded and validated like any other.

If this fails, the result is None, and the caller reads batch by batch, which raises any errors. Batches that are accepted
here are also accepted by that path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.errors import ArrowIpcError
from spark_arrow_ipc.ipc.columns.batch_layout import BatchLayout
from spark_arrow_ipc.ipc.columns.compression import Decompressor
from spark_arrow_ipc.ipc.columns.decode import FindDictionary, Regions
from spark_arrow_ipc.ipc.columns.plan import BufferStep, Plan, SlotWalk, Step, can_walk_slots
from spark_arrow_ipc.ipc.columns.projection import SelectedColumns
from spark_arrow_ipc.ipc.constants import BODY_ALIGNMENT, NO_BYTES, Int64s
from spark_arrow_ipc.ipc.messages.checksums import ManyChecksums
from spark_arrow_ipc.ipc.messages.message import RecordBatchHeader
from spark_arrow_ipc.ipc.messages.shape import Headers, MessageShape

# Most bytes of a joined batch; the messages that it is made of are in memory, and have at most a megabyte together.
_MOST_NBYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """Neighbouring messages in memory."""

    data: memoryview  # all bytes
    starts: Int64s  # int64: the position of each message in `data`
    shape: MessageShape  # of their headers
    body_nbytes: Int64s | None = None  # by the footer; None for a stream
    checksums: ManyChecksums | None = None  # None if they are not verified


def coalesce(
    columns: SelectedColumns, run: Run, find_dictionary: FindDictionary, *, below_rows: int
) -> tuple[RecordBatch, tuple[int, ...]] | None:
    """Decode the first batches of a run as one; return it and the rows of each, or None to read them one by one."""
    message = run.shape.message
    header = message.header
    assert isinstance(header, RecordBatchHeader)
    plan = columns.plan(message.version)
    if columns.swaps or not can_walk_slots(plan):
        return None
    if (len(header.nodes), len(header.buffers)) != (plan.nodes, plan.buffers):
        return None
    headers = run.shape.read(np.frombuffer(run.data, np.uint8), run.starts)
    small = headers.lengths < below_rows
    if not small.all():
        headers = headers[: int(small.argmin())]
    count = len(headers.lengths)
    if count < 2 or not _is_sound(columns, run, headers):
        return None
    if run.checksums is not None:
        metadata_nbytes = run.shape.nbytes
        if not run.checksums.fit(run.data, run.starts[:count], metadata_nbytes, headers.buffers):
            return None
    try:
        codec = header.compression
        decompressor = None if codec is None else Decompressor(codec, min(columns.limits.max_batch_bytes, _MOST_NBYTES))
        joining = _Joining(plan, run, headers, decompressor)
        joining.walk(headers.lengths)
        sums = headers.nodes.sum(axis=0).tolist()
        layout = BatchLayout(sums, [[0, len(data)] for data in joining.buffers], (0,))
        regions = Regions(layout, joining.buffers)
        batch = columns.build_batch(message, int(headers.lengths.sum()), regions, find_dictionary)
    except (ArrowIpcError, _Unfit):
        return None
    return batch, tuple(headers.lengths.tolist())


def _is_sound(columns: SelectedColumns, run: Run, headers: Headers) -> bool:
    """Check the numbers of all headers at once, by the rules of `check_header`."""
    limits, bodies = columns.limits, headers.body_nbytes
    count = len(bodies)
    if run.body_nbytes is not None and not np.array_equal(bodies, run.body_nbytes[:count]):
        return False
    body_starts = run.starts[:count] + run.shape.nbytes
    if bodies.min() < 0 or (bodies > len(run.data) - body_starts).any() or bodies.max() > limits.max_batch_bytes:
        return False
    lengths, null_counts = headers.nodes[..., 0], headers.nodes[..., 1]
    if (null_counts < 0).any() or (null_counts > lengths).any() or headers.lengths.min() < 0:
        return False
    if lengths.max() > limits.max_slots or lengths.max() * count > limits.max_slots:
        return False
    starts, nbytes = headers.buffers[..., 0], headers.buffers[..., 1]
    within = (starts >= 0) & (nbytes >= 0) & (nbytes <= bodies[:, None]) & (starts <= bodies[:, None] - nbytes)
    return bool(within.all()) and not (starts % BODY_ALIGNMENT).any()


class _Unfit(Exception):  # noqa: N818 - no error: `coalesce` catches it
    """The run has to be read batch by batch."""


def _demand(condition: bool | np.bool_) -> None:
    if not condition:
        raise _Unfit


class _Joining(SlotWalk[Int64s]):
    """Joins the buffers of a run whose headers are sound; `slots` has a number of slots for each batch."""

    def __init__(self, plan: Plan, run: Run, headers: Headers, decompressor: Decompressor | None) -> None:
        super().__init__(plan)
        self._data = run.data
        self._lengths, self._null_counts = headers.nodes[..., 0], headers.nodes[..., 1]
        bodies = run.starts[: len(headers.lengths)] + run.shape.nbytes
        self._starts = headers.buffers[..., 0] + bodies[:, None]
        self._nbytes = headers.buffers[..., 1]
        self._decompressor = decompressor
        self._left = _MOST_NBYTES

    def enter(self, step: Step, slots: Int64s) -> Int64s:
        _demand(np.array_equal(self._lengths[:, step.node], slots))
        return np.zeros_like(slots) if step.child_slots is None else slots * step.child_slots

    def validity(self, step: Step, number: int, slots: Int64s) -> memoryview:
        null_counts = self._null_counts[:, step.node]
        absent = self._nbytes[:, number] == 0
        if absent.all() and not null_counts.any():
            return NO_BYTES
        _demand(not null_counts[absent].any())
        needed = step.buffers[0].nbytes(slots)
        _demand(int(needed.sum()) <= self._left)
        pieces = self._pieces(number, np.where(absent, 0, needed))
        # Other batches have nulls, so a batch without a bitmap gets one of ones.
        for i in np.flatnonzero(absent).tolist():
            pieces[i] = memoryview(b"\xff" * int(needed[i]))
        bits, counts = _join_bits(pieces, slots)
        _demand(np.array_equal(counts, slots - null_counts))
        return bits

    def value_offsets(self, _: Step, number: int, buffer: BufferStep, slots: Int64s) -> tuple[memoryview, Int64s]:
        dtype: np.dtype[Any] = np.dtype(f"i{buffer.bit_width // 8}")
        ends = np.zeros(len(slots), np.int64)
        filled = slots > 0
        lengths = slots[filled]
        if not len(lengths):
            return NO_BYTES, ends
        pieces = self._pieces(number, buffer.nbytes(slots))
        offsets = np.frombuffer(b"".join(pieces), dtype)
        firsts = np.cumsum(lengths + 1) - lengths - 1
        ends[filled] = offsets[firsts + lengths]
        # Offsets that do not begin at 0 are left to the caller: their bytes begin elsewhere.
        _demand(not offsets[firsts].any() and ends.min() >= 0)
        total = int(ends.sum())
        _demand(total <= np.iinfo(dtype).max)
        before = (np.cumsum(ends[filled]) - ends[filled]).astype(dtype)
        joined = np.zeros(int(lengths.sum()) + 1, dtype)
        if (lengths == lengths[0]).all():  # as one matrix, without positions for each slot
            by_batch = offsets.reshape(len(lengths), -1)
            np.add(by_batch[:, 1:], before[:, None], out=joined[1:].reshape(len(lengths), -1))
        else:
            moved = offsets + np.repeat(before, lengths + 1)
            joined[1:] = np.delete(moved, firsts)
        return joined.view(np.uint8).data, ends

    def bytes_of(self, number: int, below: Int64s) -> memoryview:
        return memoryview(b"".join(self._pieces(number, below)))

    def values(self, number: int, buffer: BufferStep, slots: Int64s) -> memoryview:
        pieces = self._pieces(number, buffer.nbytes(slots))
        return _join_bits(pieces, slots)[0] if buffer.bit_width == 1 else memoryview(b"".join(pieces))

    def _pieces(self, number: int, needed: Int64s) -> list[memoryview]:
        """Return the first `needed` bytes of a buffer for each batch."""
        self._left -= int(needed.sum())
        _demand(self._left >= 0)
        starts = self._starts[:, number]
        if self._decompressor is None:
            _demand((needed <= self._nbytes[:, number]).all())
            stops = starts + needed
            return [self._data[start:stop] for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)]
        stops = starts + self._nbytes[:, number]
        pieces = []
        for start, stop, nbytes in zip(starts.tolist(), stops.tolist(), needed.tolist(), strict=True):
            data = self._decompressor.decompress(self._data[start:stop]) if start < stop else NO_BYTES
            _demand(nbytes <= len(data))
            pieces.append(data[:nbytes])
        return pieces


def _join_bits(pieces: Sequence[memoryview], lengths: Int64s) -> tuple[memoryview, Int64s]:
    """Join bitmaps, each of complete bytes; return the result and the set bits of each."""
    counts = np.zeros(len(lengths), np.int64)
    filled = np.flatnonzero(lengths)
    slots = lengths[filled]
    if not len(slots):
        return NO_BYTES, counts
    data = b"".join(pieces)
    nbytes = (slots + 7) // 8
    heads = np.cumsum(nbytes) - nbytes
    if not (slots % 8).any():  # no bitmap begins inside a byte of the result
        counts[filled] = np.add.reduceat(np.bitwise_count(np.frombuffer(data, np.uint8)), heads, dtype=np.int64)
        return memoryview(data), counts
    bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
    inside = np.arange(len(bits)) - np.repeat(heads * 8, nbytes * 8) < np.repeat(slots, nbytes * 8)
    bits = bits[inside]
    counts[filled] = np.add.reduceat(bits, np.cumsum(slots) - slots, dtype=np.int64)
    return np.packbits(bits, bitorder="little").data, counts
