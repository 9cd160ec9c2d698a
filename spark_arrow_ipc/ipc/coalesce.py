"""Many small record batches decoded as one.

Strategy
--------
What costs time in small batches is not their bytes but the Python work for each. So a run of neighbours whose headers
have one shape (`message_shape`) is never decoded batch by batch: numpy checks the numbers of all headers at once, and
the buffers of one column are put behind one another as they lie. What results has the form of one large batch, is
decoded by the same plan as any other, and checked as any other.

Everything here that does not fit gives None, which costs a moment and loses nothing: the caller then reads batch by
batch, with the errors of that. So nothing is accepted here that would not be accepted there; it is only refused
without a word.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.layout import Role
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.errors import ArrowIpcError
from spark_arrow_ipc.ipc.compression import Decompressor
from spark_arrow_ipc.ipc.constants import BODY_ALIGNMENT, CompressionType
from spark_arrow_ipc.ipc.decode import BatchLayout, FindDictionary
from spark_arrow_ipc.ipc.limits import Limits
from spark_arrow_ipc.ipc.metadata.header_template import Headers, MessageShape, learn
from spark_arrow_ipc.ipc.metadata.message import RecordBatchHeader
from spark_arrow_ipc.ipc.plan import Plan, Step
from spark_arrow_ipc.ipc.projection import SelectedColumns

__all__ = ["Run", "Shapes", "can_gather", "gather"]

Int64s: TypeAlias = npt.NDArray[np.int64]

_NOTHING = memoryview(b"")

_ONE_BY_ONE = (
    t.BinaryView, t.Utf8View, t.ListView, t.LargeListView, t.RunEndEncoded, t.SparseUnion, t.DenseUnion,
)  # fmt: skip
"""Types whose slots point into what is joined; their batches are read one by one."""


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """Neighbouring messages in memory.

    Parameters
    ----------
    data
        Holds them whole.
    starts
        Where each begins in `data`: int64.
    shape
        What their headers have in common.
    body_nbytes
        What the footer says of their bodies, or None for a stream.
    """

    data: memoryview
    starts: Int64s
    shape: MessageShape
    body_nbytes: Int64s | None = None


class Shapes:
    """The shape of the last messages, as the next ones most often have it too."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._last: MessageShape | None = None

    def of(self, metadata: memoryview) -> MessageShape | None:
        """Return the shape of a message, or None where messages like it are read one by one."""
        if self._last is None or not self._last.fits(metadata):
            self._last = learn(metadata, self._limits)
        return self._last


def can_gather(plan: Plan) -> bool:
    """Return whether batches of a plan may be gathered at all."""
    steps = all(not isinstance(step.type, _ONE_BY_ONE) and not step.drops_validity for step in plan.steps)
    return steps and bool(plan.steps) and not plan.variadics


def gather(
    columns: SelectedColumns, run: Run, find_dictionary: FindDictionary, *, below_rows: int
) -> tuple[RecordBatch, tuple[int, ...]] | None:
    """Return the first batches of a run as one batch, and the rows of each; None where they are to be read one by one.

    Parameters
    ----------
    columns
        What is read.
    run
        At least two messages.
    find_dictionary
        Gives the dictionaries, which are in force for the whole run.
    below_rows
        A batch of so many rows or more ends the run.
    """
    message = run.shape.message
    header = message.header
    assert isinstance(header, RecordBatchHeader)
    plan = columns.plan(message.version)
    if columns.swaps or not can_gather(plan):
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
    try:
        gathering = _Gathering(run, headers, header.compression, columns.limits.max_batch_bytes)
        steps = iter(plan.steps)
        for _ in plan.fields:
            gathering.join_field(steps, headers.lengths)
        sums = headers.nodes.sum(axis=0).tolist()
        layout = BatchLayout(sums, [[0, len(found)] for found in gathering.found], (0,))
        batch = columns.build_batch(message, int(headers.lengths.sum()), layout, gathering.found, find_dictionary)
    except (ArrowIpcError, _Unfit):
        return None
    return batch, tuple(headers.lengths.tolist())


def _is_sound(columns: SelectedColumns, run: Run, headers: Headers) -> bool:
    """Return whether the numbers of all headers keep to what `check_header` demands of one."""
    limits, bodies = columns.limits, headers.body_nbytes
    count = len(bodies)
    if run.body_nbytes is not None and not np.array_equal(bodies, run.body_nbytes[:count]):
        return False
    body_starts = run.starts[:count] + len(run.shape.metadata)
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


class _Unfit(Exception):  # noqa: N818 - no error: a word to `gather`, which nobody else hears
    """The run is to be read batch by batch."""


def _demand(condition: bool | np.bool_) -> None:
    if not condition:
        raise _Unfit


class _Gathering:
    """The buffers of a run whose headers are sound, put behind one another."""

    def __init__(self, run: Run, headers: Headers, compression: CompressionType | None, budget_nbytes: int) -> None:
        self._data = run.data
        self._lengths, self._null_counts = headers.nodes[..., 0], headers.nodes[..., 1]
        bodies = run.starts[: len(headers.lengths)] + len(run.shape.metadata)
        self._starts = headers.buffers[..., 0] + bodies[:, None]
        self._nbytes = headers.buffers[..., 1]
        self._decompressor = None if compression is None else Decompressor(compression, budget_nbytes)
        self.found = [memoryview(b"")] * headers.buffers.shape[1]
        """The joined buffers, by their number."""

    def join_field(self, steps: Iterator[Step], expected: Int64s | None) -> None:
        """Join the buffers of the next step and of all below it; `expected` slots for each batch, where that is known."""
        step = next(steps)
        lengths = self._lengths[:, step.node]
        _demand(expected is None or np.array_equal(lengths, expected))
        ends: Int64s | None = None
        for number, buffer in enumerate(step.buffers, step.first_buffer):
            if buffer.role is Role.VALIDITY:
                self.found[number] = self._validity(number, lengths, self._null_counts[:, step.node])
            elif buffer.role is Role.OFFSETS:
                self.found[number], ends = self._offsets(number, lengths, np.dtype(f"i{buffer.bit_width // 8}"))
            elif buffer.role is Role.BYTES:
                assert ends is not None, "value offsets come before the bytes"
                self.found[number] = memoryview(b"".join(self._pieces(number, ends)))
            elif buffer.bit_width == 1:
                pieces = self._pieces(number, (lengths + 7) // 8)
                self.found[number] = _bits(pieces, lengths)[0]
            else:
                nbytes = lengths * (buffer.bit_width // 8)
                self.found[number] = memoryview(b"".join(self._pieces(number, nbytes)))
        slots = ends if step.child_slots is None else lengths * step.child_slots
        for _ in range(step.children):
            self.join_field(steps, slots)

    def _pieces(self, number: int, needed: Int64s) -> list[memoryview]:
        """Return the first bytes of a buffer of each batch, as many as are needed of each."""
        starts = self._starts[:, number]
        if self._decompressor is None:
            _demand((needed <= self._nbytes[:, number]).all())
            ends = starts + needed
            return [self._data[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        ends = starts + self._nbytes[:, number]
        pieces = []
        for start, end, nbytes in zip(starts.tolist(), ends.tolist(), needed.tolist(), strict=True):
            data = self._decompressor.decompress(self._data[start:end]) if start < end else _NOTHING
            _demand(nbytes <= len(data))
            pieces.append(data[:nbytes])
        return pieces

    def _validity(self, number: int, lengths: Int64s, null_counts: Int64s) -> memoryview:
        absent = self._nbytes[:, number] == 0
        if absent.all() and not null_counts.any():
            return _NOTHING
        needed = (lengths + 7) // 8
        _demand(not null_counts[absent].any())
        pieces = self._pieces(number, np.where(absent, 0, needed))
        for i in np.flatnonzero(absent).tolist():
            pieces[i] = memoryview(b"\xff" * int(needed[i]))
        bits, counts = _bits(pieces, lengths)
        _demand(np.array_equal(counts, lengths - null_counts))
        return bits

    def _offsets(self, number: int, lengths: Int64s, dtype: np.dtype[Any]) -> tuple[memoryview, Int64s]:
        """Return joined value offsets, and how far those of each batch reach."""
        ends = np.zeros(len(lengths), np.int64)
        filled = lengths > 0
        own = lengths[filled]
        if not len(own):
            return _NOTHING, ends
        pieces = self._pieces(number, np.where(filled, (lengths + 1) * dtype.itemsize, 0))
        values = np.frombuffer(b"".join(pieces), dtype)
        heads = np.cumsum(own + 1) - own - 1
        ends[filled] = values[heads + own]
        _demand(not values[heads].any() and ends.min() >= 0)
        total = int(ends.sum())
        _demand(total <= np.iinfo(dtype).max)
        before = (np.cumsum(ends[filled]) - ends[filled]).astype(dtype)
        joined = np.zeros(int(own.sum()) + 1, dtype)
        if (own == own[0]).all():
            by_batch = values.reshape(len(own), -1)
            np.add(by_batch[:, 1:], before[:, None], out=joined[1:].reshape(len(own), -1))
        else:
            moved = values + np.repeat(before, own + 1)
            joined[1:] = np.delete(moved, heads)
        return joined.view(np.uint8).data, ends


def _bits(pieces: Sequence[memoryview], lengths: Int64s) -> tuple[memoryview, Int64s]:
    """Return bitmaps, each of whole bytes, as one, and how many bits of each are set."""
    counts = np.zeros(len(lengths), np.int64)
    filled = np.flatnonzero(lengths)
    own = lengths[filled]
    if not len(own):
        return _NOTHING, counts
    data = b"".join(pieces)
    nbytes = (own + 7) // 8
    heads = np.cumsum(nbytes) - nbytes
    if not (own % 8).any():
        counts[filled] = np.add.reduceat(np.bitwise_count(np.frombuffer(data, np.uint8)), heads, dtype=np.int64)
        return memoryview(data), counts
    bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
    inside = np.arange(len(bits)) - np.repeat(heads * 8, nbytes * 8) < np.repeat(own, nbytes * 8)
    bits = bits[inside]
    counts[filled] = np.add.reduceat(bits, np.cumsum(own) - own, dtype=np.int64)
    return np.packbits(bits, bitorder="little").data, counts
