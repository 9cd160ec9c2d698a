"""Decode the columns of a wide batch at once, as far as they have no children.

How it works
------------
`compile_leaves` finds the plain columns of a plan once: numbers, booleans, bytes and strings with value offsets, without
children and dictionary. `decode_leaves` compares their nodes and buffers in a batch with the plan, and proves their values
(null counts, value offsets, UTF-8) by the kernels below. The arrays are made on first use.

This proves only *that* a column is sound. If sizes are wrong, `decode.build_columns` decodes all of the batch, and
`arrow.validate.arrays` checks each column without a proof: these two decide, so that errors are the same for wide and
narrow tables. Columns that are not plain always go that way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.layout import Family, Role, layout_of
from spark_arrow_ipc.arrow.record_batch import LazyColumns
from spark_arrow_ipc.arrow.validate import arrays as validate
from spark_arrow_ipc.arrow.validate.text import Bools, Bytes
from spark_arrow_ipc.ipc.bytes.body import Body, BodyRanges
from spark_arrow_ipc.ipc.columns.batch_layout import BatchLayout
from spark_arrow_ipc.ipc.columns.plan import BufferStep, Plan, Step, buffer_steps
from spark_arrow_ipc.ipc.constants import Int64s

_LEAST_COLUMNS: Final = 32  # below this many plain columns the loop over the steps is faster (measured)

_FEW: Final = 4  # if one column in this many is not plain, or more, the numbers of all buffers become lists at once

_PLAIN: Final = frozenset({Family.BITS, Family.FIXED_WIDTH, Family.BINARY})

_MOST_NBYTES: Final = 2**62  # more than any buffer has, and less than what overflows


@dataclass(frozen=True, slots=True, eq=False)
class LeafColumns:
    """The plain columns of a plan, as arrays with a row a column, and the plan of all others."""

    positions: Int64s  # of the columns, among all columns of the plan
    leaf_of: Int64s  # the row of each column of the plan; -1 for one that is not plain
    # The distinct types, and the number of each column's type.
    types: tuple[t.DataType, ...]
    type_of: Int64s
    # As in `Step`.
    nodes: Int64s
    first_buffers: Int64s
    first_variadics: Int64s
    # For each type: the second buffer, and the number of buffers.
    kinds: tuple[BufferStep, ...]
    buffer_counts: tuple[int, ...]
    with_offsets: Mapping[int, Int64s]  # columns with value offsets, by the bytes of an offset
    is_text: Bools  # whether the bytes of a column are strings
    # The other columns.
    others: Plan
    other_positions: tuple[int, ...]
    other_names: Mapping[int, str]
    plan: Plan  # of all columns

    def buffers_in_use(self, layout: BatchLayout) -> Bools:
        """Return True for each buffer of a batch that a column of the plan uses."""
        assert layout.arrays is not None
        used = np.zeros(len(layout.arrays[1]), np.bool_)
        first_buffers = self._first(layout)
        used[first_buffers] = used[first_buffers + 1] = True
        for leaves in self.with_offsets.values():
            used[first_buffers[leaves] + 2] = True
        for step in self.others.steps:
            numbers = layout.numbers(step)
            used[numbers.start : numbers.stop] = True
        return used

    def _first(self, layout: BatchLayout) -> Int64s:
        """Return the number of each column's first buffer in a batch."""
        if not layout.variadic_before[-1]:
            return self.first_buffers
        numbers: Int64s = self.first_buffers + np.array(layout.variadic_before)[self.first_variadics]
        return numbers

    def fit(self, num_rows: int, layout: BatchLayout) -> LeafBatch | None:
        """Return the plain columns of a batch, or None if a length or size does not fit the plan."""
        if layout.arrays is None:
            return None
        nodes, buffers = layout.arrays
        if len(self.nodes) < len(nodes):
            nodes = nodes[self.nodes]
        lengths, null_counts = nodes.T
        first_buffers = self._first(layout)
        starts, nbytes = buffers.T
        validity_nbytes = nbytes[first_buffers]
        # Python's integers: a claimed number of rows may be too large for a product of int64.
        sizes = [min(kind.nbytes(num_rows), _MOST_NBYTES) for kind in self.kinds]
        needed = np.array(sizes, np.int64)[self.type_of] if len(sizes) > 1 else sizes[0]
        sound = (lengths == num_rows) & (nbytes[first_buffers + 1] >= needed)
        sound &= (validity_nbytes >= num_rows + 7 >> 3) | (validity_nbytes | null_counts == 0)
        if 0 in sound.tobytes():  # faster than `all`
            return None
        (with_validity,) = validity_nbytes.nonzero()
        return LeafBatch(self, num_rows, first_buffers, null_counts, starts, nbytes, with_validity)

    def with_nulls(self, like: LeafBatch, layout: BatchLayout) -> LeafBatch | None:
        """Return the result of `fit` for a batch that differs from an earlier one only in null counts."""
        assert layout.arrays is not None
        null_counts = layout.arrays[0][:, 1]
        if len(self.nodes) < len(null_counts):
            null_counts = null_counts[self.nodes]
        if len(like.with_validity) < len(null_counts):
            # A column without a bitmap may have no nulls.
            left = null_counts.copy()
            left[like.with_validity] = 0
            if left.any():
                return None
        return LeafBatch(self, like.num_rows, like.first, null_counts, like.starts, like.nbytes, like.with_validity)


@dataclass(frozen=True, slots=True, eq=False)
class LeafBatch:
    """The plain columns of one batch, whose lengths and sizes are sound."""

    leaves: LeafColumns
    num_rows: int
    first: Int64s  # number of each column's first buffer
    null_counts: Int64s  # of each column, by the metadata
    # Of all buffers: byte offset inside the body, and length.
    starts: Int64s
    nbytes: Int64s
    with_validity: Int64s  # rows of the columns that have a validity bitmap

    def unproven(self, data: memoryview, base: int) -> list[int]:
        """Return the rising positions of columns without a proof of their values."""
        leaves, length = self.leaves, self.num_rows
        if not length:
            return []  # a null count of at most 0, and nothing to check
        some = self.with_validity
        if not (len(some) or leaves.with_offsets):
            return []  # all bits of numbers are values
        memory = np.frombuffer(data, np.uint8)
        starts, nbytes = self.starts - base if base else self.starts, self.nbytes
        sound = np.ones(len(self.first), np.bool_)
        if len(some):
            nulls = length - count_set(memory, starts[self.first[some]], length)
            sound[some] = nulls == self.null_counts[some]
            if not leaves.with_offsets and 0 not in sound.tobytes():
                return []
        for width, columns in leaves.with_offsets.items():
            number = self.first[columns]
            offsets, begin, end = starts[number + 1], starts[number + 2], nbytes[number + 2]
            rising = are_sound_offsets(memory, offsets, length, end, f"i{width}")
            sound[columns] &= rising
            is_text = leaves.is_text[columns] & rising
            text, begin = columns[is_text], begin[is_text]
            values = memory[: len(memory) // width * width].view(f"i{width}")
            firsts = offsets[is_text] // width
            sound[text] &= are_ascii(memory, begin + values[firsts], begin + values[firsts + length])
        positions: list[int] = leaves.positions[~sound].tolist()
        return positions

    def columns(self, others: Sequence[Array], data: memoryview, base: int) -> LazyColumns:
        """Return all columns of the batch, of which `others` are not plain."""
        arrays: list[Array | None] = [None] * len(self.leaves.leaf_of)
        for position, array in zip(self.leaves.other_positions, others, strict=True):
            arrays[position] = array
        return LazyColumns(arrays, lambda positions: self._arrays(positions, data, base))

    def _arrays(self, positions: Sequence[int], data: memoryview, base: int) -> list[Array]:
        leaves = self.leaves
        rows = leaves.leaf_of[list(positions)]
        numbers = self.first[rows]
        # Lists of only the part that these columns use.
        begin, stop = (int(numbers.min()), int(numbers.max()) + 3) if len(rows) else (0, 0)
        starts, sizes = (self.starts[begin:stop] - base).tolist(), self.nbytes[begin:stop].tolist()
        arrays = []
        columns = (leaves.type_of[rows], numbers - begin, self.null_counts[rows])
        for type_, number, null_count in zip(*(column.tolist() for column in columns), strict=True):
            buffers: list[memoryview | None] = [
                data[starts[i] : starts[i] + sizes[i]] for i in range(number, number + leaves.buffer_counts[type_])
            ]
            if not sizes[number]:
                buffers[0] = None
            arrays.append(Array(leaves.types[type_], self.num_rows, null_count, tuple(buffers)))
        return arrays


def decode_leaves(
    batch: LeafBatch,
    layout: BatchLayout,
    body: Body,
    decode_others: Callable[[Plan, BatchLayout], Sequence[Array]],
    *,
    validates: bool,
) -> Sequence[Array] | None:
    """Return the columns of an uncompressed batch, or None if `decode_columns` has to decode it.

    O(columns) in numpy, and in Python for columns that are not plain or hold more than ASCII.
    """
    if not isinstance(body, BodyRanges) or len(body.ranges) != 1:
        return None
    leaves = batch.leaves
    data, base = body.ranges[0], body.starts[0]
    others: Sequence[Array] = ()
    if leaves.other_positions:
        few = len(leaves.others.steps) < len(leaves.positions) // _FEW
        others = decode_others(leaves.others, layout.sparse() if few else layout)
    columns = batch.columns(others, data, base)
    if validates:
        names = leaves.other_names
        for position in sorted([*leaves.other_positions, *batch.unproven(data, base)]):
            name = names[position] if position in names else leaves.plan.fields[position].name
            columns.replace(position, validate.with_sound_values(columns[position], name, dictionaries=False))
    return columns


def compile_leaves(plan: Plan) -> LeafColumns | None:
    """Return the plain columns of a plan, or None for too few. O(steps)."""
    tops = [i for i, step in enumerate(plan.steps) if step.is_top]
    if len(tops) < _LEAST_COLUMNS:
        return None
    types: dict[t.DataType, int] = {}
    type_of: list[int] = []
    plain: list[tuple[int, Step]] = []
    others: list[tuple[int, tuple[Step, ...]]] = []
    for position, (start, stop) in enumerate(zip(tops, [*tops[1:], len(plan.steps)], strict=True)):
        step = plan.steps[start]
        if layout_of(step.type).family in _PLAIN:
            plain.append((position, step))
            type_of.append(types.setdefault(step.type, len(types)))
        else:
            others.append((position, plan.steps[start:stop]))
    if len(plain) < _LEAST_COLUMNS:
        return None
    positions, steps = np.array([position for position, _ in plain], np.int64), [step for _, step in plain]
    leaf_of = np.full(len(positions) + len(others), -1)
    leaf_of[positions] = np.arange(len(positions))
    kinds = [buffer_steps(type_)[1] for type_ in types]
    widths = [kind.bit_width // 8 if kind.role is Role.OFFSETS else 0 for kind in kinds]
    of_width = np.array(widths)[type_of]
    other_positions = tuple(position for position, _ in others)
    other_fields = tuple(plan.fields[i] for i in other_positions)
    other_steps = tuple(step for _, steps_below in others for step in steps_below)
    return LeafColumns(
        positions=positions,
        leaf_of=leaf_of,
        types=tuple(types),
        type_of=np.array(type_of, np.int64),
        nodes=np.array([step.node for step in steps], np.int64),
        first_buffers=np.array([step.first_buffer for step in steps], np.int64),
        first_variadics=np.array([step.first_variadic for step in steps], np.int64),
        kinds=tuple(kinds),
        buffer_counts=tuple(3 if width else 2 for width in widths),
        with_offsets={width: np.flatnonzero(of_width == width) for width in set(widths) - {0}},
        is_text=np.array([type(type_) in t.UTF8_CLASSES for type_ in types])[type_of],
        others=Plan(
            other_fields, other_steps, plan.nodes, plan.buffers, plan.variadics, plan.dictionaries, is_whole=False
        ),
        other_positions=other_positions,
        other_names={i: field.name for i, field in zip(other_positions, other_fields, strict=True)},
        plan=plan,
    )


_AT_ONCE: Final = 1 << 15  # items of a table: with their positions they stay in the cache of the processor

# Up to this many slots a gather of value offsets is faster than a call for each column (measured)
_FEW_SLOTS: Final = 256


def count_set(memory: Bytes, starts: Int64s, length: int) -> Int64s:
    """Return the number of set bits among the first `length` bits of each of many bitmaps. O(bits / 64).

    `memory` holds all bitmaps, from bytes `starts` on: multiples of 8.
    """
    # As words of 64 bits; the last word of each bitmap is masked, because bits after the first `length` may be anything.
    counts = np.zeros(len(starts), np.int64)
    words, rest = divmod(length, 64)
    all_words = memory[: len(memory) & ~7].view("<u8")
    firsts = starts >> 3
    if words:
        for rows, bits in _tables(all_words, firsts, words):
            counts[rows] = np.add.reduce(np.bitwise_count(bits), axis=1, dtype=np.uint32)
    if rest:
        last = firsts + words
        tails = all_words.take(last, mode="clip") if len(all_words) else np.zeros(len(last), "<u8")
        if len(memory) & 7:
            # The memory ends inside a word, which may be the last one of a bitmap.
            end = memory[len(all_words) * 8 :].tobytes().ljust(8, b"\0")
            tails[last == len(all_words)] = int.from_bytes(end, "little")
        counts += np.bitwise_count(tails & np.uint64((1 << rest) - 1))
    return counts


def are_sound_offsets(memory: Bytes, starts: Int64s, length: int, ends: Int64s, dtype: npt.DTypeLike) -> Bools:
    """Return True for each of many columns whose value offsets begin at 0 or more, never fall, and stay within its end.

    `memory` holds the value offsets of all columns, of `dtype`, from bytes `starts` on: multiples of 8. Each column has
    `length` slots, at least one, and a number of bytes in `ends` for the offsets to point into.
    """
    dtype = np.dtype(dtype)
    offsets = memory[: len(memory) // dtype.itemsize * dtype.itemsize].view(dtype)
    firsts = starts // dtype.itemsize
    sound: Bools = (offsets[firsts] >= 0) & (offsets[firsts + length] <= ends)
    if length <= _FEW_SLOTS:
        for rows, table in _tables(offsets, firsts, length + 1):
            sound[rows] &= ~np.logical_or.reduce(table[:, 1:] < table[:, :-1], axis=1)
        return sound
    falls = np.empty(length, np.bool_)
    for i, first in enumerate(firsts.tolist()):
        np.less(offsets[first + 1 : first + length + 1], offsets[first : first + length], out=falls)
        if 1 in falls.tobytes():  # the fastest way to find one
            sound[i] = False
    return sound


def are_ascii(memory: Bytes, starts: Int64s, stops: Int64s) -> Bools:
    """Return True for each of many half-open ranges of bytes that has only bytes below 128. O(bytes), at memory speed."""
    ascii_only = np.ones(len(starts), np.bool_)
    # The last byte of the memory is its own segment: `reduceat` has no segment that ends with it.
    for i in (stops == len(memory)).nonzero()[0].tolist():
        ascii_only[i] = starts[i] == stops[i] or np.maximum.reduce(memory[starts[i] :]) < 0x80
    (some,) = ((starts < stops) & (stops < len(memory))).nonzero()
    if len(some):
        # From the last range to the first: the segment from the end of one to the start of the next is then
        # one byte, and not all bytes between them.
        some = some[(-starts[some]).argsort()]
        edges = np.empty((len(some), 2), np.int64)
        edges[:, 0], edges[:, 1] = starts[some], stops[some]
        ascii_only[some] = np.maximum.reduceat(memory, edges.ravel())[::2] < 0x80
    return ascii_only


def _tables(items: npt.NDArray[Any], firsts: Int64s, width: int) -> Iterator[tuple[slice, npt.NDArray[Any]]]:
    """Yield the `width` items from each position on, one row a position, for some positions at a time."""
    # With one distance between all positions, as in most bodies, the table is a view, and nothing is gathered.
    stride = int(firsts[1] - firsts[0]) if len(firsts) > 1 else width
    is_regular = len(firsts) > 0 and stride >= 0 and bool((firsts[1:] - firsts[:-1] == stride).all())
    columns = np.arange(0 if is_regular else width)
    some = max(1, _AT_ONCE // width)
    for start in range(0, len(firsts), some):
        rows = slice(start, start + some)
        if is_regular:
            shape, strides = (min(some, len(firsts) - start), width), (stride * items.itemsize, items.itemsize)
            offset = int(firsts[start]) * items.itemsize
            yield rows, np.ndarray(shape, items.dtype, items.data, offset, strides)
        elif items.flags.aligned:
            yield rows, items.take(firsts[rows, None] + columns)
        else:
            yield rows, items[firsts[rows, None] + columns]  # `take` would first copy all items to aligned memory
