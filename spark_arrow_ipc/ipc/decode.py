"""From the header and body of a record batch to arrays: one loop over a plan.

Strategy
--------
First the header is checked against the plan and the body, for all nodes and buffers at once in numpy. Then the
plan's steps run backwards; each takes its buffers as views into the body (or decompresses them), proves that
they are large enough for its slots, takes its finished children from a stack, and leaves an `Array` there.
What buffers *hold* is not looked at here: `arrow.validate` does that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from spark_arrow_ipc.arrow import build
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.layout import Role
from spark_arrow_ipc.errors import (
    InvalidArrowError,
    InvalidBodyError,
    InvalidDictionaryError,
    InvalidMetadataError,
    LimitError,
    UnsupportedError,
)
from spark_arrow_ipc.ipc.body import Body
from spark_arrow_ipc.ipc.compression import Decompressor
from spark_arrow_ipc.ipc.constants import BODY_ALIGNMENT
from spark_arrow_ipc.ipc.limits import Limits
from spark_arrow_ipc.ipc.metadata import RecordBatchHeader
from spark_arrow_ipc.ipc.plan import BufferStep, Plan, Step
from spark_arrow_ipc.ipc.swap import SWAPS

FindDictionary = Callable[[int, Plan], Array | None]
"""The values of a dictionary id, given the plan of its values; None where no batch has brought it."""

_SPEC_BUFFERS = 'Columnar.rst "RecordBatch message"'


@dataclass(frozen=True, slots=True)
class BatchLayout:
    """Where the buffers of one batch lie, after the header was checked against the plan.

    Parameters
    ----------
    lengths, null_counts
        Of each node.
    buffers
        (byte offset inside the body, nbytes) of each buffer.
    variadic_before
        How many variadic buffers lie before each view field, and at the end their sum.
    """

    lengths: list[int]
    null_counts: list[int]
    buffers: list[list[int]]
    variadic_before: tuple[int, ...]

    def first_buffer(self, step: Step) -> int:
        """Return the number of the step's first buffer in this batch."""
        return step.first_buffer + self.variadic_before[step.first_variadic]

    def variadic_count(self, step: Step) -> int:
        """Return how many variadic buffers the step has in this batch."""
        return self.variadic_before[step.first_variadic + 1] - self.variadic_before[step.first_variadic]


def check_header(header: RecordBatchHeader, plan: Plan, body_nbytes: int, limits: Limits) -> BatchLayout:
    """Return where the buffers lie, once nodes, buffers and variadic counts are proven to fit plan and body.

    O(nodes + buffers), in numpy.

    Raises
    ------
    InvalidMetadataError
        A wrong number of nodes, buffers or variadic counts.
    InvalidBodyError
        A buffer that does not lie inside the body, or begins where none may.
    LimitError
        The body is larger than the limits allow.
    """
    limits.check("max_batch_bytes", body_nbytes, "the body of a batch")
    counts = header.variadic_counts
    _check_count("field nodes", plan.nodes, len(header.nodes))
    _check_count("variadic buffer counts", plan.variadics, len(counts))
    # Each count is bounded on its own, so that a negative one cannot hide in the sum.
    if counts and (min(counts) < 0 or max(counts) > len(header.buffers)):
        raise InvalidMetadataError(
            expected=f"variadic buffer counts of 0 to {len(header.buffers)}", found=str(list(counts)[:20])
        )
    variadic_before = (0, *accumulate(counts))
    _check_count("buffers", plan.buffers + variadic_before[-1], len(header.buffers))
    if len(header.buffers):
        starts, nbytes = header.buffers[:, 0], header.buffers[:, 1]
        # `body_nbytes - nbytes` cannot overflow once nbytes lies in [0, body_nbytes].
        bad = (starts < 0) | (nbytes < 0) | (nbytes > body_nbytes) | (starts % BODY_ALIGNMENT != 0)
        bad |= starts > body_nbytes - nbytes.clip(0, body_nbytes)
        if bad.any():
            i = int(bad.argmax())
            raise InvalidBodyError(
                expected=f"a buffer at a multiple of 8 inside the body of {body_nbytes:,} bytes",
                found=f"buffer {i} of {nbytes[i]:,} bytes at {starts[i]:,}",
                field_path=_owner(plan, i, variadic_before),
                spec=_SPEC_BUFFERS,
            )
    lengths, null_counts = header.nodes[:, 0].tolist(), header.nodes[:, 1].tolist()
    return BatchLayout(lengths, null_counts, header.buffers.tolist(), variadic_before)


def wanted_ranges(plan: Plan, layout: BatchLayout) -> list[tuple[int, int]]:
    """Return (byte offset inside the body, nbytes) of every buffer that the plan's steps use."""
    ranges: list[tuple[int, int]] = []
    for step in plan.steps:
        first = layout.first_buffer(step)
        count = step.drops_validity + len(step.buffers) + (layout.variadic_count(step) if step.is_variadic else 0)
        ranges.extend((start, nbytes) for start, nbytes in layout.buffers[first : first + count])
    return ranges


class _Decoder:
    """One batch being decoded."""

    def __init__(self, body: Body, layout: BatchLayout, decompressor: Decompressor | None, *, swaps: bool) -> None:
        self.body = body
        self.layout = layout
        self.decompressor = decompressor
        self.swaps = swaps
        self.byte_offset: int | None = None
        """Where the buffer lies that is being decoded, for errors."""

    def bytes_of(self, buffer_number: int) -> memoryview:
        """Return the (decompressed) bytes of a buffer."""
        start, nbytes = self.layout.buffers[buffer_number]
        self.byte_offset = self.body.byte_offset + start
        data = self.body.slice(start, nbytes)
        return data if self.decompressor is None or not nbytes else self.decompressor.decompress(data)

    def buffer(self, number: int, buffer: BufferStep, length: int, null_count: int) -> memoryview | None:
        """Return one buffer of a step, proven to hold `length` slots; None for a validity that is not needed."""
        data = self.bytes_of(number)
        needed = ((length + buffer.extra) * buffer.bit_width + 7) >> 3 if length else 0
        if len(data) < needed:
            if buffer.role is Role.VALIDITY and null_count == 0 and not len(data):
                return None
            raise InvalidBodyError(
                expected=f"{_NOUNS[buffer.role]} of {needed:,} bytes for {length:,} slots", found=f"{len(data):,}"
            )
        if buffer.role is Role.VALIDITY and not len(data):
            return None
        return SWAPS[buffer.swap](data, buffer.unit_bit_width) if self.swaps else data


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


def decode_columns(
    header: RecordBatchHeader,
    plan: Plan,
    layout: BatchLayout,
    body: Body,
    find_dictionary: FindDictionary,
    *,
    limits: Limits,
    swaps: bool,
) -> tuple[Array, ...]:
    """Return the plan's columns of one batch: views into `body`, or new memory where it is compressed or swapped.

    O(steps) Python, plus decompression.

    Raises
    ------
    InvalidBodyError
        A buffer is too small for its slots, or a length contradicts its parent's; the field's path is given.
    InvalidDictionaryError
        A dictionary was never brought, though there are indices into it.
    LimitError
        The batch decompressed is larger than the limits allow.
    """
    decompressor = None
    if header.compression is not None:
        buffers_of_plan = (body.slice(start, nbytes) for start, nbytes in wanted_ranges(plan, layout))
        decompressor = Decompressor(header.compression, limits.max_batch_bytes, buffers_of_plan)
    decoder = _Decoder(body, layout, decompressor, swaps=swaps)
    done: list[Array] = []
    for step in reversed(plan.steps):
        try:
            length, null_count = layout.lengths[step.node], layout.null_counts[step.node]
            if step.is_top and length != header.length:
                raise InvalidBodyError(expected=f"a column of {header.length:,} rows", found=f"{length:,}")
            children = tuple(done.pop() for _ in range(step.children))
            _check_children(step.type, length, children)
            buffers = _decode_buffers(decoder, step, length, null_count)
            dictionary = None
            if step.dictionary_id is not None:
                dictionary = _dictionary_of(step, plan, length, null_count, find_dictionary)
        except (InvalidArrowError, LimitError, UnsupportedError) as error:
            error.field_path = error.field_path or step.path
            if error.byte_offset is None:
                error.byte_offset = decoder.byte_offset
            raise
        done.append(Array(step.type, length, null_count, buffers, children, dictionary))
    return tuple(reversed(done))


def _decode_buffers(decoder: _Decoder, step: Step, length: int, null_count: int) -> tuple[memoryview | None, ...]:
    number = decoder.layout.first_buffer(step)
    if step.drops_validity:
        if null_count:
            raise UnsupportedError("a union of metadata V4 with nulls of its own, which V5 cannot express")
        number += 1
    buffers = [decoder.buffer(number + i, buffer, length, null_count) for i, buffer in enumerate(step.buffers)]
    if step.is_variadic:
        first = number + len(step.buffers)
        buffers += [decoder.bytes_of(i) for i in range(first, first + decoder.layout.variadic_count(step))]
    return tuple(buffers)


def _dictionary_of(step: Step, plan: Plan, length: int, null_count: int, find_dictionary: FindDictionary) -> Array:
    assert step.dictionary_id is not None
    assert isinstance(step.type, t.Dictionary)
    found = find_dictionary(step.dictionary_id, plan.dictionaries[step.dictionary_id])
    if found is not None:
        return found
    if null_count == length:
        # A dictionary need not precede a batch whose slots are all null (Columnar.rst, "Dictionary messages").
        return build.array([], step.type.value)
    raise InvalidDictionaryError(
        expected=f"a dictionary batch of id {step.dictionary_id} before its first use",
        found="none",
        spec='Columnar.rst "Dictionary Messages"',
    )


_SAME_LENGTH = (t.Struct, t.SparseUnion)


def _check_children(type_: t.DataType, length: int, children: Sequence[Array]) -> None:
    """Prove that children have the slots that the parent's length implies; value offsets are checked later."""
    if isinstance(type_, _SAME_LENGTH):
        needed = length
    elif isinstance(type_, t.FixedSizeList):
        needed = length * type_.list_size
    else:
        return
    for child, field in zip(children, type_.children, strict=True):
        if child.length < needed:
            raise InvalidBodyError(
                expected=f"child {field.name!r} of at least {needed:,} slots", found=f"{child.length:,}"
            )


def _check_count(what: str, expected: int, found: int) -> None:
    if expected != found:
        raise InvalidMetadataError(expected=f"{expected} {what}, as the schema implies", found=str(found))


def _owner(plan: Plan, buffer_number: int, variadic_before: tuple[int, ...]) -> str | None:
    for step in reversed(plan.steps):
        if step.first_buffer + variadic_before[step.first_variadic] <= buffer_number:
            return step.path
    return None
