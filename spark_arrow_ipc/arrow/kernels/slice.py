"""Split, join and compact record batches, within budgets of rows and bytes.

How it works
------------
Splitting never copies: a part is a slice, with its offsets. Joining copies once, and only the rows that have to be
joined. For a budget of bytes `measure` gives the bytes of any range of rows, and the longest part that fits is
searched with a few dozen candidates at a time, so a part of any size costs a few numpy calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, NamedTuple

import numpy as np

from spark_arrow_ipc.arrow.kernels.concat import concat_batches
from spark_arrow_ipc.arrow.measure import MOST, Measure, buffers_nbytes, measure, nbytes
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.errors import LimitError

_CANDIDATES = 64  # stops of a part that one round of the search tries


def batch_nbytes(batch: RecordBatch) -> int:
    """Return the approximate bytes of a compact copy of the columns, without dictionaries."""
    return sum(nbytes(column) for column in batch.columns)


class MostNbytes(NamedTuple):
    """The most decoded bytes that rows may take; more are a LimitError."""

    row: int | None = None  # a single row
    # All rows together, without the price of one slot for each row: rows that share memory may stand for any number of
    # bytes, and a reader of the slices would never reach the end.
    all: int | None = None


_ANY: Final = MostNbytes()


def split_rows(
    batch: RecordBatch,
    *,
    max_rows: int,
    max_nbytes: int,
    decoded: bool = True,
    most: MostNbytes = _ANY,
    slot_nbytes: Sequence[int] | None = None,
) -> Iterator[RecordBatch]:
    """Yield the rows in slices within both budgets; a single row may exceed `max_nbytes`.

    By default dictionaries and runs count as the values that they stand for, so that strings and binary values of a
    slice, converted in any way, fit 32-bit value offsets if `max_nbytes` does. Memory that slots share counts for each,
    so slices of views and list-views may be smaller than the budget allows, never larger. A batch within the budgets is
    yielded unchanged. If not `decoded`, bytes are counted as in `batch_nbytes`, where a slot of a dictionary is its index.

    `slot_nbytes` are for each column the bytes that a decoded slot costs, at every depth, in addition to its value.
    LimitError if rows take more than `most`; the rows before a single one are yielded first. ValueError if a budget is
    not positive.
    """
    if max_rows < 1 or max_nbytes < 1:
        raise ValueError(f"expected positive budgets, found {max_rows} rows and {max_nbytes} bytes")
    prices = [0] * len(batch.columns) if slot_nbytes is None else slot_nbytes
    measures = [
        measure(column, decoded=decoded, slot_nbytes=price) for column, price in zip(batch.columns, prices, strict=True)
    ]
    if most.all is not None and batch.num_rows > 1:
        _check_all(batch, measures, prices, most.all)
    start = 0
    while start < batch.num_rows:
        stop = _longest(measures, start, min(start + max_rows, batch.num_rows), max_nbytes)
        if most.row is not None and stop == start + 1:  # a longer part is within `max_nbytes`, and so are its rows
            row_nbytes = [_nbytes_of([of_column], start, stop) for of_column in measures]
            _check(batch, row_nbytes, most.row, f"row {start:,} takes", "a row")
        yield _rows(batch, start, stop - start)
        start = stop
    if batch.num_rows == 0:
        yield batch


def _check_all(batch: RecordBatch, measures: list[Measure], prices: Sequence[int], most: int) -> None:
    """Raise LimitError if all rows, decoded, take more than `most` bytes."""
    # Without the price of a slot for each row: many rows are not refused for their number.
    rows = batch.num_rows
    excess_nbytes = [
        _nbytes_of([of_column], 0, rows) - rows * price for of_column, price in zip(measures, prices, strict=True)
    ]
    _check(batch, excess_nbytes, most, f"the {rows:,} rows take", "all rows of a batch")


def _check(batch: RecordBatch, column_nbytes: list[int], most: int, subject: str, whose: str) -> None:
    total = sum(column_nbytes)
    if total > most:
        shown = f"{total:,} bytes" if total < MOST // 2 else "more bytes than can be counted"
        raise LimitError(
            f"{subject} {shown} once runs, dictionaries and shared elements are decoded, the budget of {whose} is "
            f"{most:,} (in Spark the option maxBatchBytes sets it); leave the column out, or raise it where this file is "
            "trusted",
            field_path=batch.schema.names[column_nbytes.index(max(column_nbytes))],  # the one to leave out
        )


def _rows(batch: RecordBatch, start: int, length: int) -> RecordBatch:
    """Return a slice, or the batch itself for all of its rows."""
    return batch if length == batch.num_rows else batch.slice(start, length)


def _longest(measures: list[Measure], start: int, most: int, max_nbytes: int) -> int:
    """Return the stop of the longest part from `start` on that is within `max_nbytes`; at most `most`."""
    # All rows first, which most often fit; then the gap between what fits and what does not shrinks to a 64th each time.
    fits, candidates = start + 1, np.array([most])
    while True:
        starts = np.full(len(candidates), start)
        total_nbytes = np.zeros(len(candidates), np.int64)
        for of_column in measures:
            total_nbytes = np.minimum(total_nbytes + of_column(starts, candidates), MOST)
        within = candidates[total_nbytes <= max_nbytes]
        fits = max(fits, int(within[-1])) if len(within) else fits
        beyond = candidates[total_nbytes > max_nbytes]
        too_long = int(beyond[0]) if len(beyond) else fits + 1
        if too_long <= fits + 1:
            return fits
        candidates = np.unique(np.linspace(fits + 1, too_long - 1, _CANDIDATES).astype(np.int64))


def rechunk(
    batches: Iterable[RecordBatch], *, rows: int | None, nbytes: int | None, joined_nbytes: int | None = None
) -> Iterator[RecordBatch]:
    """Yield the rows of all batches, in order, in batches of a size.

    With only `rows`, every batch has exactly this number of rows, except for the last; batches that have more bytes
    than `joined_nbytes` together, used or not, are not joined to reach it. With `nbytes`, no batch has more decoded
    bytes (a single row may), nor more than `rows` rows, if given, which it has wherever the bytes allow. With neither,
    batches are yielded unchanged. A batch of the right size is not copied. Empty batches are dropped, unless all are
    empty: then the first is yielded.

    ValueError if a size is not positive, or batches cannot be joined (see `concat_batches`).
    """
    if (rows is not None and rows < 1) or (nbytes is not None and nbytes < 1):
        raise ValueError(f"expected positive sizes, found {rows} rows and {nbytes} bytes")
    source = iter(batches)
    head = next(source, None)
    if head is None:
        return
    # A list in `chain` would keep the batch in memory until the last one.
    filled = (batch for batch in chain(iter([head]), source) if batch.num_rows)
    if head.num_rows:
        head = None
    groups = _by_rows(filled, rows, joined_nbytes) if nbytes is None else _by_nbytes(filled, rows, nbytes)
    empty = True
    for group in groups:
        empty = False
        yield concat_batches(group)
    if empty and head is not None:
        yield head


def _by_rows(
    batches: Iterable[RecordBatch], rows: int | None, joined_nbytes: int | None
) -> Iterator[list[RecordBatch]]:
    """Yield lists of slices with `rows` rows together; the last list, and one with too many bytes, may have fewer."""
    if rows is None:
        yield from ([batch] for batch in batches)
        return
    parts: list[RecordBatch] = []
    held_rows = held = 0
    for batch in batches:
        # The bytes of its buffers, used or not: they stay in memory until the parts are joined.
        size = 0 if joined_nbytes is None else sum(map(buffers_nbytes, batch.columns))
        if parts and joined_nbytes is not None and held + size > joined_nbytes:
            yield parts
            parts, held_rows, held = [], 0, 0
        held += size
        start = 0
        while start < batch.num_rows:
            rows_to_take = min(rows - held_rows, batch.num_rows - start)
            parts.append(_rows(batch, start, rows_to_take))
            held_rows += rows_to_take
            start += rows_to_take
            if held_rows == rows:
                yield parts
                parts, held_rows, held = [], 0, size  # the rest of this batch still has all of its buffers
    if parts:
        yield parts


def _by_nbytes(batches: Iterable[RecordBatch], rows: int | None, max_nbytes: int) -> Iterator[list[RecordBatch]]:
    """Yield lists of slices that are within both budgets together; a batch is split to reach `rows`, not bytes."""
    held: list[RecordBatch] = []
    held_rows = held_nbytes = 0
    for batch in batches:
        measures = [measure(column, decoded=True) for column in batch.columns]
        start = 0
        while start < batch.num_rows:
            stop = batch.num_rows if rows is None else min(start + rows - held_rows, batch.num_rows)
            nbytes = _nbytes_of(measures, start, stop)
            if held and held_nbytes + nbytes > max_nbytes:
                yield held
                held, held_rows, held_nbytes = [], 0, 0
                continue
            if nbytes > max_nbytes:
                stop = _longest(measures, start, stop, max_nbytes)
                nbytes = _nbytes_of(measures, start, stop)
            held.append(_rows(batch, start, stop - start))
            held_rows += stop - start
            held_nbytes += nbytes
            start = stop
            if held_rows == rows:
                yield held
                held, held_rows, held_nbytes = [], 0, 0
    if held:
        yield held


def _nbytes_of(measures: list[Measure], start: int, stop: int) -> int:
    starts, ends = np.array([start]), np.array([stop])
    return sum(int(of_column(starts, ends)[0]) for of_column in measures)
