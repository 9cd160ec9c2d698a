"""Decode the columns of a wide batch at once, as far as they have no children.

Strategy
--------
`compile_leaves` notes once for a plan which columns are plain: numbers, booleans, bytes and strings with value offsets, without
children and dictionary. `decode_leaves` compares all their nodes and buffers of a batch with what the plan expects,
and proves their values (null counts, value offsets, UTF-8) by the kernels of `arrow.validate.many`. The arrays are made
when they are asked for.

This only finds out *that* a column is sound. Where sizes are wrong, the whole batch is decoded by `decode.build_columns`,
and a column whose values are not proven is checked by `arrow.validate.arrays`: these two decide, and their errors are the
same for wide and for narrow tables. Columns that are not plain always go that way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.layout import Family, Role, layout_of
from spark_arrow_ipc.arrow.lazy_columns import LazyColumns
from spark_arrow_ipc.arrow.validate import arrays as validate
from spark_arrow_ipc.arrow.validate import many
from spark_arrow_ipc.ipc.batch_layout import BatchLayout
from spark_arrow_ipc.ipc.body import Body, BodyRanges
from spark_arrow_ipc.ipc.metadata.record_batch import Int64s
from spark_arrow_ipc.ipc.plan import BufferStep, Plan, Step

__all__ = ["LeafColumns", "compile_leaves", "decode_leaves"]

_LEAST_COLUMNS: Final = 32
"""Below this many plain columns the loop over the steps is faster (measured)."""

_FEW: Final = 4
"""Where one column in this many is not plain, or more, the numbers of all buffers are made lists at once."""

_PLAIN: Final = frozenset({Family.BITS, Family.FIXED_WIDTH, Family.BINARY})

_MOST_NBYTES: Final = 2**62
"""More than any buffer has, and less than what overflows."""

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class LeafColumns:
    """The plain columns of a plan, as arrays with a row a column, and the plan of all others.

    Parameters
    ----------
    positions
        Of the columns, among those of the plan.
    leaf_of
        The row of each column of the plan; -1 for one that is not plain.
    nodes, first_buffers, first_variadics
        As in `Step`.
    kinds, kind_of
        The distinct second buffers, and which of them a column has.
    buffer_counts
        The number of buffers of each column: three with value offsets, else two.
    offset_widths, is_text
        Of columns with value offsets: bytes of an offset (else 0), and whether the bytes are strings.
    names
        Of all columns.
    others, other_positions
        The plan of the other columns, and their positions.
    """

    positions: Int64s
    leaf_of: tuple[int, ...]
    types: tuple[t.DataType, ...]
    nodes: Int64s
    first_buffers: Int64s
    first_variadics: Int64s
    kinds: tuple[BufferStep, ...]
    kind_of: Int64s
    buffer_counts: tuple[int, ...]
    offset_widths: Int64s
    is_text: Bools
    names: tuple[str, ...]
    others: Plan
    other_positions: tuple[int, ...]

    def fit(self, num_rows: int, layout: BatchLayout) -> LeafBatch | None:
        """Return the plain columns of a batch, or None if a length or size is not what the plan expects."""
        if layout.arrays is None:
            return None
        nodes, buffers = layout.arrays
        lengths, null_counts = nodes[self.nodes].T
        first = self.first_buffers + np.array(layout.variadic_before)[self.first_variadics]
        nbytes = buffers[:, 1]
        validity_nbytes = nbytes[first]
        needed = np.array([min(kind.nbytes(num_rows), _MOST_NBYTES) for kind in self.kinds], np.int64)
        sound = (lengths == num_rows) & (nbytes[first + 1] >= needed[self.kind_of])
        sound &= (validity_nbytes >= num_rows + 7 >> 3) | ((validity_nbytes == 0) & (null_counts == 0))
        return LeafBatch(self, num_rows, first, null_counts, buffers) if sound.all() else None


@dataclass(frozen=True, slots=True, eq=False)
class LeafBatch:
    """The plain columns of one batch, whose lengths and sizes are sound.

    Parameters
    ----------
    first
        The number of each column's first buffer.
    null_counts
        Of each column, as the metadata says.
    buffers
        (byte offset inside the body, nbytes) of all buffers.
    """

    leaves: LeafColumns
    num_rows: int
    first: Int64s
    null_counts: Int64s
    buffers: Int64s

    def unproven(self, data: memoryview, base: int) -> list[int]:
        """Return the positions of the columns whose values are not proven to be sound, rising.

        Parameters
        ----------
        data, base
            The bytes that hold all buffers of the columns, and where in the body they begin.
        """
        leaves, length = self.leaves, self.num_rows
        if not length:
            return []  # a null count of at most 0, and nothing to check
        memory = np.frombuffer(data, np.uint8)
        starts, nbytes = self.buffers[:, 0] - base, self.buffers[:, 1]
        sound = np.ones(len(self.first), np.bool_)
        some = np.flatnonzero(nbytes[self.first])
        if len(some):
            nulls = length - many.count_set(memory, starts[self.first[some]], length)
            sound[some] = nulls == self.null_counts[some]
        for width in (4, 8):
            own = np.flatnonzero(leaves.offset_widths == width)
            if not len(own):
                continue
            number = self.first[own]
            offsets, begin, end = starts[number + 1], starts[number + 2], nbytes[number + 2]
            rising = many.are_sound_offsets(memory, offsets, length, end, f"i{width}")
            sound[own] &= rising
            is_text = leaves.is_text[own] & rising
            text, begin = own[is_text], begin[is_text]
            values = memory[: len(memory) // width * width].view(f"i{width}")
            firsts = offsets[is_text] // width
            sound[text] &= many.are_ascii(memory, begin + values[firsts], begin + values[firsts + length])
        positions: list[int] = leaves.positions[~sound].tolist()
        return positions

    def columns(self, others: Sequence[Array], data: memoryview, base: int) -> LazyColumns:
        """Return all columns of the batch, given those that are not plain."""
        made: list[Array | None] = [None] * len(self.leaves.leaf_of)
        for position, array in zip(self.leaves.other_positions, others, strict=True):
            made[position] = array
        return LazyColumns(made, lambda positions: self._arrays(positions, data, base))

    def _arrays(self, positions: Sequence[int], data: memoryview, base: int) -> list[Array]:
        leaves = self.leaves
        rows = [leaves.leaf_of[position] for position in positions]
        arrays = []
        for row, number, null_count in zip(
            rows, self.first[rows].tolist(), self.null_counts[rows].tolist(), strict=True
        ):
            places = self.buffers[number : number + leaves.buffer_counts[row]].tolist()
            buffers: list[memoryview | None] = [data[start - base : start - base + nbytes] for start, nbytes in places]
            if not places[0][1]:
                buffers[0] = None
            arrays.append(Array(leaves.types[row], self.num_rows, null_count, tuple(buffers)))
        return arrays


def decode_leaves(
    leaves: LeafColumns,
    num_rows: int,
    layout: BatchLayout,
    body: Body,
    decode_others: Callable[[Plan, BatchLayout], Sequence[Array]],
    *,
    validates: bool,
) -> Sequence[Array] | None:
    """Return the columns of a batch that is not compressed, or None where `decode_columns` has to decode it.

    O(columns) in numpy, and Python for the columns that are not plain and for those that hold more than ASCII.

    Parameters
    ----------
    decode_others
        Decodes the columns of a plan, those that are not plain, given it and the layout.
    validates
        Whether the values are checked.

    Raises
    ------
    InvalidBodyError, InvalidDictionaryError
        As `decode_columns` and `check_values`.
    """
    if not isinstance(body, BodyRanges) or len(body.ranges) != 1:
        return None
    batch = leaves.fit(num_rows, layout)
    if batch is None:
        return None
    data, base = body.ranges[0], body.starts[0]
    others: Sequence[Array] = ()
    if leaves.other_positions:
        few = len(leaves.others.steps) < len(leaves.types) // _FEW
        others = decode_others(leaves.others, layout.sparse() if few else layout)
    columns = batch.columns(others, data, base)
    if validates:
        for position in sorted([*leaves.other_positions, *batch.unproven(data, base)]):
            validate.check_values(columns[position], leaves.names[position], dictionaries=False)
    return columns


def compile_leaves(plan: Plan) -> LeafColumns | None:
    """Return the plain columns of a plan, or None if they are few. O(steps)."""
    tops = [i for i, step in enumerate(plan.steps) if step.is_top]
    if len(tops) < _LEAST_COLUMNS:
        return None
    ends = [*tops[1:], len(plan.steps)]
    plain: list[tuple[int, Step]] = []
    others: list[tuple[int, tuple[Step, ...]]] = []
    for position, (start, stop) in enumerate(zip(tops, ends, strict=True)):
        step = plan.steps[start]
        if _is_plain(step):
            plain.append((position, step))
        else:
            others.append((position, plan.steps[start:stop]))
    if len(plain) < _LEAST_COLUMNS:
        return None
    steps = [step for _, step in plain]
    leaf_of = [-1] * len(tops)
    for row, (position, _) in enumerate(plain):
        leaf_of[position] = row
    kinds: dict[BufferStep, int] = {}
    kind_of = [kinds.setdefault(step.buffers[1], len(kinds)) for step in steps]
    has_offsets = [step.buffers[1].role is Role.OFFSETS for step in steps]
    return LeafColumns(
        positions=np.array([position for position, _ in plain]),
        leaf_of=tuple(leaf_of),
        types=tuple(step.type for step in steps),
        nodes=np.array([step.node for step in steps]),
        first_buffers=np.array([step.first_buffer for step in steps]),
        first_variadics=np.array([step.first_variadic for step in steps]),
        kinds=tuple(kinds),
        kind_of=np.array(kind_of),
        buffer_counts=tuple(len(step.buffers) for step in steps),
        offset_widths=np.where(has_offsets, [step.buffers[1].bit_width // 8 for step in steps], 0),
        is_text=np.array([type(step.type) in t.UTF8_CLASSES for step in steps]),
        names=tuple(field.name for field in plan.fields),
        others=replace(
            plan,
            fields=tuple(plan.fields[position] for position, _ in others),
            steps=tuple(step for _, own in others for step in own),
            is_whole=False,
        ),
        other_positions=tuple(position for position, _ in others),
    )


def _is_plain(step: Step) -> bool:
    return layout_of(step.type).family in _PLAIN
