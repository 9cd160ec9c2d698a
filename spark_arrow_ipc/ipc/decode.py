"""Decode the header and body of a record batch into arrays, in one loop over a plan.

Strategy
--------
First the header is checked against the plan and the body. Then each buffer becomes a view into the body, or is
decompressed. Then the plan's steps run backwards, children before parents: each checks that its buffers are large
enough for its slots, takes its children from a stack, and puts its `Array` there. The values in the buffers are
checked by `arrow.validate`, not here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.layout import Role, slots_nbytes
from spark_arrow_ipc.arrow.python_values import from_pylist
from spark_arrow_ipc.errors import (
    InvalidArrowError,
    InvalidBodyError,
    InvalidDictionaryError,
    InvalidMetadataError,
    UnsupportedError,
    error_context,
)
from spark_arrow_ipc.ipc.body import Body
from spark_arrow_ipc.ipc.checksums import check_buffer
from spark_arrow_ipc.ipc.compression import Decompressor, uncompressed_nbytes
from spark_arrow_ipc.ipc.constants import BODY_ALIGNMENT, NO_BYTES, CompressionType
from spark_arrow_ipc.ipc.limits import Limits
from spark_arrow_ipc.ipc.metadata.record_batch import RecordBatchHeader
from spark_arrow_ipc.ipc.plan import Plan, Step
from spark_arrow_ipc.ipc.swap import SWAPS

FindDictionary = Callable[[int, Plan], Array | None]
"""Returns the values of a dictionary id, given their plan; None if no dictionary batch has the id."""

_VALIDITY: Final = Role.VALIDITY

_MANY_BUFFERS: Final = 200
"""From this many buffers on, vectorised checks are faster than a Python loop."""

_NONE_BEFORE: Final = (0,)
"""`BatchLayout.variadic_before` where there are no views."""

_ALL_BUFFERS: Final = "the buffers of a batch, which may share bytes,"
"""Buffers that share bytes are copied and checked once each: together they count as if they did not."""

_SPEC_BUFFERS = 'Columnar.rst "RecordBatch message"'


@dataclass(frozen=True, slots=True)
class BatchLayout:
    """The nodes and buffers of one batch, checked against the plan.

    Parameters
    ----------
    nodes
        (length, null_count) of each node.
    buffers
        (byte offset inside the body, nbytes) of each buffer.
    variadic_before
        The number of variadic buffers before each view field, and at the end their sum.
    """

    nodes: list[list[int]]
    buffers: list[list[int]]
    variadic_before: tuple[int, ...]

    def first_buffer(self, step: Step) -> int:
        """Return the number of the step's first buffer in this batch."""
        return step.first_buffer + self.variadic_before[step.first_variadic]

    def variadic_count(self, step: Step) -> int:
        """Return the number of variadic buffers of the step in this batch."""
        return self.variadic_before[step.first_variadic + 1] - self.variadic_before[step.first_variadic]

    def numbers(self, step: Step) -> range:
        """Return the numbers of all buffers that the step uses."""
        first = self.first_buffer(step) + step.drops_validity
        return range(first, first + len(step.buffers) + (self.variadic_count(step) if step.is_variadic else 0))


def check_header(header: RecordBatchHeader, plan: Plan, body_nbytes: int, limits: Limits) -> BatchLayout:
    """Check a header against plan and body; return the layout. O(nodes + buffers).

    Raises
    ------
    InvalidMetadataError
        The number of nodes, buffers or variadic counts is wrong, or one of the numbers impossible.
    InvalidBodyError
        A buffer is not inside the body, or does not begin at a multiple of 8.
    LimitError
        The body is larger than the limits allow.
    """
    limits.check("max_batch_bytes", body_nbytes, "the body of a batch")
    # Counts come first: a list takes ten times the memory of the numbers in the metadata.
    _check_count("field nodes", plan.nodes, len(header.nodes))
    _check_count("variadic buffer counts", plan.variadics, len(header.variadic_counts))
    variadic_before = _variadic_before(header, limits) if plan.variadics else _NONE_BEFORE
    _check_count("buffers", plan.buffers + variadic_before[-1], len(header.buffers))
    layout = BatchLayout(header.nodes.tolist(), header.buffers.tolist(), variadic_before)
    if not layout.nodes:  # else the lengths of the columns are checked, and compared with this one
        limits.check("max_slots", header.length, "a batch without columns")
    if len(layout.buffers) >= _MANY_BUFFERS and _are_sound(header, body_nbytes, limits):
        return layout
    # Python's integers: they cannot overflow, and for a few columns they are faster than calls of numpy.
    for i, (length, null_count) in enumerate(layout.nodes):
        if length > limits.max_slots:
            limits.check("max_slots", length, "an array of a batch")
        if not 0 <= null_count <= length:
            raise InvalidMetadataError(
                expected="field nodes with 0 <= null_count <= length",
                found=f"length {length:,}, null_count {null_count:,} in node {i}",
                spec="Message.fbs, FieldNode",
            )
    total = 0
    for i, (start, nbytes) in enumerate(layout.buffers):
        total += nbytes
        if not (0 <= nbytes <= body_nbytes and 0 <= start <= body_nbytes - nbytes) or start % BODY_ALIGNMENT:
            raise InvalidBodyError(
                expected=f"a buffer at a multiple of 8 inside the body of {body_nbytes:,} bytes",
                found=f"buffer {i} of {nbytes:,} bytes at {start:,}",
                field_path=_owner(plan, i, layout),
                spec=_SPEC_BUFFERS,
            )
    if total > limits.max_batch_bytes:
        limits.check("max_batch_bytes", total, _ALL_BUFFERS)
    return layout


def _variadic_before(header: RecordBatchHeader, limits: Limits) -> tuple[int, ...]:
    """Return the number of variadic buffers before each view field, and at the end their sum."""
    counts = header.variadic_counts.tolist()
    # Each count is bounded by itself, so that the sum cannot hide a negative one.
    if min(counts) < 0 or max(counts) > len(header.buffers):
        raise InvalidMetadataError(
            expected=f"variadic buffer counts of 0 to {len(header.buffers)}", found=str(counts[:20])
        )
    before = (0, *accumulate(counts))
    limits.check("max_buffers", before[-1], "a batch with views")
    return before


def _are_sound(header: RecordBatchHeader, body_nbytes: int, limits: Limits) -> bool:
    """Check all nodes and buffers at once, by the rules of `check_header`."""
    length, null_count = header.nodes[:, 0], header.nodes[:, 1]
    start, nbytes = header.buffers[:, 0], header.buffers[:, 1]
    nodes = (null_count >= 0) & (null_count <= length) & (length <= limits.max_slots)
    # The difference overflows only for a negative number of bytes, which its own term refuses.
    buffers = (nbytes >= 0) & (start >= 0) & (start <= body_nbytes - nbytes) & (start % BODY_ALIGNMENT == 0)
    if not (nodes.all() and buffers.all()):
        return False
    limits.check("max_batch_bytes", int(nbytes.sum()), _ALL_BUFFERS)
    return True


def wanted_ranges(plan: Plan, layout: BatchLayout) -> list[tuple[int, int]]:
    """Return (byte offset inside the body, nbytes) of every buffer that the plan's steps use."""
    return [(layout.buffers[i][0], layout.buffers[i][1]) for step in plan.steps for i in layout.numbers(step)]


def _read_buffers(
    plan: Plan,
    layout: BatchLayout,
    body: Body,
    compression: CompressionType | None,
    *,
    limits: Limits,
    checksums: Sequence[int] | None,
) -> Sequence[memoryview]:
    """Return the decompressed buffers by number; those that no step uses are empty."""
    if compression is None and plan.is_whole:
        whole = body.buffers(layout.buffers)
        _check_buffers(whole, checksums, plan, layout, body)
        return whole
    wanted = [(number, step.path) for step in plan.steps for number in layout.numbers(step)]
    regions = [NO_BYTES] * len(layout.buffers)
    for number, _ in wanted:
        regions[number] = body.buffer(number, *layout.buffers[number])
    _check_buffers(regions, checksums, plan, layout, body)
    if compression is not None:
        decompressor = Decompressor(compression, limits.max_batch_bytes, (regions[number] for number, _ in wanted))
        for number, path in wanted:
            if regions[number]:
                with error_context(field_path=path, byte_offset=body.byte_offset + layout.buffers[number][0]):
                    regions[number] = decompressor.decompress(regions[number])
    return regions


def held_nbytes(header: RecordBatchHeader, plan: Plan, layout: BatchLayout, body: Body, *, swaps: bool) -> int:
    """Return the bytes that the columns of a batch keep in memory once they are decoded. Decompresses nothing.

    Raises
    ------
    InvalidBodyError
        The declared length of a compressed buffer is impossible.
    """
    wanted = [(number, *layout.buffers[number]) for step in plan.steps for number in layout.numbers(step)]
    if header.compression is None:
        return body.nbytes + (sum(nbytes for _, _, nbytes in wanted) if swaps else 0)
    # A buffer that is stored raw is a view that keeps the whole body.
    return body.nbytes + sum(uncompressed_nbytes(body.buffer(*place)) for place in wanted if place[2])


def _check_buffers(
    regions: Sequence[memoryview], checksums: Sequence[int] | None, plan: Plan, layout: BatchLayout, body: Body
) -> None:
    """Compare the buffers that are not empty with their checksums, if there are any."""
    for number, (data, expected) in enumerate(zip(regions, checksums or (), strict=False)):
        try:
            check_buffer(data, expected)
        except InvalidBodyError as error:
            error.field_path = _owner(plan, number, layout)
            error.byte_offset = body.byte_offset + layout.buffers[number][0]
            raise


_NOUNS = {
    Role.VALIDITY: "a validity bitmap",
    Role.DATA: "values",
    Role.OFFSETS: "value offsets",
    Role.POSITIONS: "value offsets",
    Role.SIZES: "sizes",
    Role.TYPE_IDS: "type ids",
    Role.VIEWS: "views",
    Role.BYTES: "bytes",
    Role.VARIADIC: "bytes",
}


_NULL_COUNTS: Final[Mapping[type[t.DataType], Callable[[int], int]]] = {
    t.Null: lambda length: length,
    t.SparseUnion: lambda _: 0,
    t.DenseUnion: lambda _: 0,
}
"""The null count by length of types without a validity bitmap, whose nodes may have any."""


def decode_columns(
    header: RecordBatchHeader,
    plan: Plan,
    layout: BatchLayout,
    body: Body,
    find_dictionary: FindDictionary,
    *,
    limits: Limits,
    swaps: bool,
    checksums: Sequence[int] | None = None,
) -> tuple[Array, ...]:
    """Decode the columns of one batch: views into `body`, new memory if compressed or swapped.

    O(steps) Python, plus decompression. The buffers are compared with `checksums`, by number, if there are any.

    Raises
    ------
    InvalidBodyError
        A buffer is too small for its slots or has another checksum, or a length contradicts its parent's; the field's
        path is given.
    InvalidDictionaryError
        There are indices into a dictionary that has not been read.
    LimitError
        The decompressed batch is larger than the limits allow.
    """
    regions = _read_buffers(plan, layout, body, header.compression, limits=limits, checksums=checksums)
    return build_columns(
        header.length, plan, layout, regions, find_dictionary, body_offset=body.byte_offset, swaps=swaps
    )


def build_columns(
    num_rows: int,
    plan: Plan,
    layout: BatchLayout,
    regions: Sequence[memoryview],
    find_dictionary: FindDictionary,
    *,
    body_offset: int,
    swaps: bool,
) -> tuple[Array, ...]:
    """Build the columns of one batch from `regions`, its decompressed buffers by number.

    O(steps). Raises what `decode_columns` raises, except for decompression.
    """
    done: list[Array] = []
    for step in reversed(plan.steps):
        length, null_count = layout.nodes[step.node]
        try:
            if step.is_top and length != num_rows:
                raise InvalidBodyError(expected=f"a column of {num_rows:,} rows", found=f"{length:,}")
            children: tuple[Array, ...] = ()
            if step.children:
                children = tuple(done.pop() for _ in range(step.children))
                _check_children(step, length, children)
            buffers = _buffers_of(step, layout, regions, length, null_count)
            if swaps:
                buffers = _swapped(step, buffers)
            dictionary = None
            if step.dictionary_id is not None:
                dictionary = _dictionary_of(step, plan, length, null_count, find_dictionary)
        except (InvalidArrowError, UnsupportedError) as error:
            error.field_path = error.field_path or step.path
            if error.byte_offset is None and step.buffers:
                error.byte_offset = body_offset + layout.buffers[layout.first_buffer(step)][0]
            raise
        if type(step.type) in _NULL_COUNTS:
            null_count = _NULL_COUNTS[type(step.type)](length)
        done.append(Array(step.type, length, null_count, buffers, children, dictionary))
    return tuple(reversed(done))


def _buffers_of(
    step: Step, layout: BatchLayout, regions: Sequence[memoryview], length: int, null_count: int
) -> tuple[memoryview | None, ...]:
    """Return the buffers of one step, each large enough for `length` slots; None for an absent validity."""
    number = step.first_buffer + layout.variadic_before[step.first_variadic]
    if step.drops_validity:
        if null_count:
            raise UnsupportedError("a union of metadata V4 with nulls of its own, which V5 cannot express")
        number += 1
    buffers: list[memoryview | None] = []
    for buffer in step.buffers:
        data = regions[number]
        number += 1
        nbytes = len(data)
        if not nbytes and not null_count and buffer.role is _VALIDITY:
            buffers.append(None)
            continue
        # `buffer.nbytes` without its second call, which small batches would notice.
        needed = slots_nbytes(length, buffer.extra, buffer.bit_width)
        if nbytes < needed:
            raise InvalidBodyError(
                expected=f"{_NOUNS[buffer.role]} of {needed:,} bytes for {length:,} slots", found=f"{nbytes:,}"
            )
        buffers.append(data)
    if step.is_variadic:
        buffers += regions[number : number + layout.variadic_count(step)]
    return tuple(buffers)


def _swapped(step: Step, buffers: tuple[memoryview | None, ...]) -> tuple[memoryview | None, ...]:
    """Return the buffers in this machine's byte order; variadic ones are bytes and stay."""
    steps = zip(step.buffers, buffers, strict=False)
    swapped = [data and SWAPS[buffer.swap](data, buffer.bit_width) for buffer, data in steps]
    return (*swapped, *buffers[len(swapped) :])


def _dictionary_of(step: Step, plan: Plan, length: int, null_count: int, find_dictionary: FindDictionary) -> Array:
    assert step.dictionary_id is not None
    assert isinstance(step.type, t.Dictionary)
    values = find_dictionary(step.dictionary_id, plan.dictionaries[step.dictionary_id])
    if values is not None:
        if values.type != step.type.value:
            raise InvalidDictionaryError(
                expected=f"values of {step.type.value} in dictionary {step.dictionary_id}", found=str(values.type)
            )
        return values
    if null_count == length:
        # A dictionary need not precede a batch whose slots are all null (Columnar.rst, "Dictionary messages").
        return from_pylist.array([], step.type.value)
    raise InvalidDictionaryError(
        expected=f"a dictionary batch of id {step.dictionary_id} before its first use",
        found="none",
        spec='Columnar.rst "Dictionary Messages"',
    )


def _check_children(step: Step, length: int, children: Sequence[Array]) -> None:
    """Check that children are long enough for the parent; value offsets are checked later."""
    if step.child_slots is None:
        return
    needed = length * step.child_slots
    for child, field in zip(children, step.type.children, strict=True):
        if child.length < needed:
            raise InvalidBodyError(
                expected=f"child {field.name!r} of at least {needed:,} slots", found=f"{child.length:,}"
            )


def _check_count(what: str, expected: int, actual: int) -> None:
    if expected != actual:
        raise InvalidMetadataError(expected=f"{expected} {what}, as the schema implies", found=str(actual))


def _owner(plan: Plan, buffer_number: int, layout: BatchLayout) -> str | None:
    """Return the path of the step that a buffer belongs to, or of the one before it."""
    for step in reversed(plan.steps):
        if layout.first_buffer(step) <= buffer_number:
            return step.path
    return None
