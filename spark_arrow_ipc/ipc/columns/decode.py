"""Decode the header and body of a record batch into arrays, in one loop over a plan.

How it works
------------
A plan (`ipc.columns.plan`) lists the fields of a schema in pre-order, one `Step` for each, and is compiled once.

1. `batch_layout.check_header` has compared the header with the plan and the body: the schema
   implies the numbers of nodes and buffers, and every buffer is inside the body.
2. `read_buffers` makes a view of each buffer, compares it with its checksum, and decompresses it.
3. `fit` runs the steps backwards, so children come before their parents, and checks that the buffers and children of
   each step are large enough for its slots. The result depends on the sizes only and is reused for equal headers.
4. `_build` runs the steps backwards once more: each takes its children from a stack and leaves its `Array` there.

Rule 1: sizes are checked here, values (value offsets, UTF-8, dictionary indices) by `arrow.validate`. Between the two no
code may follow a value into memory.

Rule 2: an uncompressed buffer is never copied. Its view keeps the body alive as long as any array of the batch.

Rule 3: a batch costs a few operations for each step and none for each value, except to decompress and to swap bytes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.layout import Role, Swap
from spark_arrow_ipc.arrow.python_values import from_pylist
from spark_arrow_ipc.arrow.schema import Endianness
from spark_arrow_ipc.arrow.unseen import clear_unseen
from spark_arrow_ipc.errors import (
    ArrowIpcError,
    InvalidArrowError,
    InvalidBodyError,
    InvalidDictionaryError,
    UnsupportedError,
    error_context,
)
from spark_arrow_ipc.ipc.bytes.body import Body
from spark_arrow_ipc.ipc.columns.batch_layout import BatchLayout, Fitted, owner
from spark_arrow_ipc.ipc.columns.compression import Decompressor, output_nbytes
from spark_arrow_ipc.ipc.columns.plan import Plan, Step, walk_arrays
from spark_arrow_ipc.ipc.constants import NO_BYTES, Limits
from spark_arrow_ipc.ipc.flatbuf.tables import CompressionType
from spark_arrow_ipc.ipc.messages.checksums import check_buffer
from spark_arrow_ipc.ipc.messages.message import RecordBatchHeader

NATIVE: Final = Endianness.LITTLE if sys.byteorder == "little" else Endianness.BIG
"""This machine's byte order."""

# The most bytes inside a view itself (Columnar.rst, "Variable-size Binary View Layout")
_INLINE_MOST_NBYTES: Final = 12


def _reverse_units(data: memoryview, *widths: int) -> memoryview:
    """Return `data` with every unit reversed; a slot has units of `widths` bytes."""
    slot_nbytes = sum(widths)
    complete_nbytes = len(data) - len(data) % slot_nbytes
    swapped = np.frombuffer(data, np.uint8).copy()
    # Writers may leave a part of a slot at the end, which no slot uses.
    slots = swapped[:complete_nbytes].reshape(-1, slot_nbytes)
    start = 0
    for width in widths:
        slots[:, start : start + width] = slots[:, start : start + width][:, ::-1].copy()
        start += width
    return swapped.data


def _swap_views(data: memoryview, _: int, *, from_native: bool = False) -> memoryview:
    swapped = np.frombuffer(data, np.uint8).copy()
    slots: npt.NDArray[Any] = swapped[: len(data) - len(data) % 16].reshape(-1, 16)
    before = slots[:, 0:4].copy()
    slots[:, 0:4] = before[:, ::-1]
    # A view starts with its length. Only a long one has a buffer index and an offset behind its prefix; the bytes of a
    # short one are the value and stay in their order.
    native = before if from_native else slots[:, 0:4].copy()
    long = native.view(np.int32)[:, 0] > _INLINE_MOST_NBYTES
    for start in (8, 12):
        slots[long, start : start + 4] = slots[long, start : start + 4][:, ::-1]
    return swapped.data


SWAPS: Final[Mapping[Swap, Callable[[memoryview, int], memoryview]]] = {
    Swap.NONE: lambda data, _: data,
    Swap.UNIT: lambda data, bit_width: _reverse_units(data, bit_width // 8) if bit_width > 8 else data,
    Swap.DAY_TIME: lambda data, _: _reverse_units(data, 4, 4),
    Swap.MONTH_DAY_NANO: lambda data, _: _reverse_units(data, 4, 4, 8),
    Swap.VIEWS: _swap_views,
}
"""By `Swap`: a function from bytes and the bit width of a slot to new bytes."""

SWAPS_FROM_NATIVE: Final[Mapping[Swap, Callable[[memoryview, int], memoryview]]] = {
    **SWAPS,
    Swap.VIEWS: partial(_swap_views, from_native=True),
}
"""The same for bytes in this machine's order, in which the size of a view is read before the swap."""


FindDictionary = Callable[[int, Plan], Array | None]
"""Returns the values of a dictionary id, by their plan; None if no dictionary batch has the id."""

_VALIDITY: Final = Role.VALIDITY


# Named tuples, because a tiny batch would notice the time that a frozen dataclass takes.
class BatchBytes(NamedTuple):
    """One batch: its header, the layout of its body, the part of the body that was read, and checksums by buffer."""

    header: RecordBatchHeader
    layout: BatchLayout
    body: Body
    checksums: Sequence[int] | None = None


class Regions(NamedTuple):
    """The decompressed buffers of one batch by number; errors count byte offsets from `body_offset`."""

    layout: BatchLayout
    buffers: Sequence[memoryview]
    body_offset: int = 0


def read_buffers(
    batch: BatchBytes, plan: Plan, compression: CompressionType | None, limits: Limits
) -> Sequence[memoryview]:
    """Return the decompressed buffers by number, after a comparison with checksums; buffers without a step are empty."""
    layout, body = batch.layout, batch.body
    if compression is None and plan.is_whole:  # one call instead of one for each buffer
        all_buffers = body.buffers(layout.buffers)
        _check_buffers(all_buffers, batch, plan)
        return all_buffers
    planned = [(number, step.path) for step in plan.steps for number in layout.numbers(step)]
    buffers = layout.buffers
    regions = [NO_BYTES] * len(buffers)
    for number, _ in planned:
        regions[number] = body.buffer(number, *buffers[number])
    _check_buffers(regions, batch, plan)  # before decompression, because checksums are of the stored bytes
    if compression is not None:
        decompressor = Decompressor(compression, limits.max_batch_bytes, (regions[number] for number, _ in planned))
        for number, path in planned:
            if regions[number]:
                with error_context(field_path=path, byte_offset=body.byte_offset + buffers[number][0]):
                    regions[number] = decompressor.decompress(regions[number])
    return regions


def held_nbytes(batch: BatchBytes, plan: Plan, *, swaps: bool) -> int:
    """Return the bytes that the decoded columns of a batch will keep in memory, without decompression."""
    layout, body = batch.layout, batch.body
    planned = [(number, *layout.buffers[number]) for step in plan.steps for number in layout.numbers(step)]
    if batch.header.compression is None:
        return body.nbytes + (sum(nbytes for _, _, nbytes in planned) if swaps else 0)
    # A buffer that is stored raw is a view that keeps all of the body.
    return body.nbytes + sum(output_nbytes(body.buffer(*extent)) for extent in planned if extent[2])


def _check_buffers(regions: Sequence[memoryview], batch: BatchBytes, plan: Plan) -> None:
    """Compare the buffers that are not empty with any checksums."""
    if batch.checksums is None:
        return
    for number, (data, expected) in enumerate(zip(regions, batch.checksums, strict=False)):
        try:
            check_buffer(data, expected)
        except InvalidBodyError as error:
            error.field_path = owner(plan, number, batch.layout)
            error.byte_offset = batch.body.byte_offset + batch.layout.buffers[number][0]
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


# The null count by length of types without a validity bitmap, whose nodes may have any
_NULL_COUNTS: Final[Mapping[type[t.DataType], Callable[[int], int]]] = {
    t.Null: lambda length: length,
    t.SparseUnion: lambda _: 0,
    t.DenseUnion: lambda _: 0,
}


def decode_columns(
    batch: BatchBytes, plan: Plan, find_dictionary: FindDictionary, *, limits: Limits, swaps: bool
) -> tuple[Array, ...]:
    """Decode the columns of one batch: views into its body, or new memory if compressed or swapped.

    O(steps) Python, plus decompression. Buffers are compared with any checksums.
    """
    header, layout = batch.header, batch.layout
    buffers = read_buffers(batch, plan, header.compression, limits)
    regions = Regions(layout, buffers, batch.body.byte_offset)
    # Batches with equal headers share a layout. The sizes of decompressed buffers are in the body, and checked each time.
    fitted = layout.fitted
    if fitted is None or fitted.plan is not plan or header.compression is not None:
        fitted = layout.fitted = fit(header.length, plan, regions)
    return _build(fitted, regions, find_dictionary, swaps=swaps)


def build_columns(
    num_rows: int, plan: Plan, regions: Regions, find_dictionary: FindDictionary, *, swaps: bool
) -> tuple[Array, ...]:
    """Build the columns of one batch from its decompressed buffers. O(steps)."""
    return _build(fit(num_rows, plan, regions), regions, find_dictionary, swaps=swaps)


def fit(num_rows: int, plan: Plan, regions: Regions) -> Fitted:
    """Check that the buffers and children of each step are large enough for its slots."""
    layout, by_number = regions.layout, regions.buffers
    nodes, before = layout.nodes, layout.variadic_before
    slots: list[tuple[int, int, bool, int, int]] = []
    lengths: list[int] = []
    for step in reversed(plan.steps):
        length, null_count = nodes[step.node]
        start = stop = step.first_buffer + before[step.first_variadic] + step.drops_validity
        try:
            if step.is_top and length != num_rows:
                raise InvalidBodyError(expected=f"a column of {num_rows:,} rows", found=f"{length:,}")
            if step.children:
                # The last child was pushed first, so children are popped in the order of the schema.
                _check_children(step, length, [lengths.pop() for _ in range(step.children)])
            if null_count and step.drops_validity:
                raise UnsupportedError("a union of metadata V4 with nulls of its own, which V5 cannot express")
            for buffer in step.buffers:
                # Writers may omit the validity bitmap of an array without nulls: its buffer then has 0 bytes.
                nbytes = len(by_number[stop])
                # The bits that `buffer.nbytes` rounds up, without its two calls, which small batches would notice.
                if nbytes << 3 < (length + buffer.extra if length else 0) * buffer.bit_width and (
                    nbytes or null_count or buffer.role is not _VALIDITY
                ):
                    needed = buffer.nbytes(length)
                    raise InvalidBodyError(
                        expected=f"{_NOUNS[buffer.role]} of {needed:,} bytes for {length:,} slots", found=f"{nbytes:,}"
                    )
                stop += 1
        except (InvalidArrowError, UnsupportedError) as error:
            _add_place(error, step, regions)
            raise
        is_absent = not null_count and start < stop and step.buffers[0].role is _VALIDITY and not len(by_number[start])
        if step.is_variadic:
            stop += layout.variadic_count(step)
        if type(step.type) in _NULL_COUNTS:
            null_count = _NULL_COUNTS[type(step.type)](length)
        slots.append((length, null_count, is_absent, start + is_absent, stop))
        lengths.append(length)
    return Fitted(plan, slots)


def _add_place(error: ArrowIpcError, step: Step, regions: Regions) -> None:
    """Add the field and the byte offset to an error without them."""
    error.field_path = error.field_path or step.path
    if error.byte_offset is None and step.buffers:
        layout = regions.layout
        error.byte_offset = regions.body_offset + layout.buffers[layout.first_buffer(step)][0]


def _build(fitted: Fitted, regions: Regions, find_dictionary: FindDictionary, *, swaps: bool) -> tuple[Array, ...]:
    done: list[Array] = []
    absent: dict[int, InvalidDictionaryError] = {}
    plan, by_number = fitted.plan, regions.buffers
    for step, (length, null_count, is_absent, start, stop) in zip(reversed(plan.steps), fitted.slots, strict=True):
        buffers = (None, *by_number[start:stop]) if is_absent else tuple(by_number[start:stop])
        if swaps:
            steps = zip(step.buffers, buffers, strict=False)
            swapped = [data and SWAPS[buffer.swap](data, buffer.bit_width) for buffer, data in steps]
            buffers = (*swapped, *buffers[len(swapped) :])  # variadic ones are bytes, without an order
        children = tuple([done.pop() for _ in range(step.children)]) if step.children else ()
        dictionary = None
        if step.dictionary_id is not None:
            try:
                dictionary = _find_values(step, plan, find_dictionary)
                if dictionary is None:
                    dictionary = _make_empty_values(step, plan, absent, is_used=null_count != length)
            except (InvalidArrowError, UnsupportedError) as error:
                _add_place(error, step, regions)
                raise
        done.append(Array(step.type, length, null_count, buffers, children, dictionary))
    columns = tuple(reversed(done))
    return _clear_absent(columns, plan, regions, absent) if absent else columns


def _clear_absent(
    columns: tuple[Array, ...], plan: Plan, regions: Regions, absent: Mapping[int, InvalidDictionaryError]
) -> tuple[Array, ...]:
    """Return columns without indices into absent dictionaries; raise the error of an index that a row can see."""
    seen = tuple(clear_unseen(column, dictionaries=False) for column in columns)
    for step, array in walk_arrays(plan, seen):
        error = absent.get(id(array.dictionary))
        if error is not None and array.count_nulls() != array.length:
            _add_place(error, step, regions)
            raise error
    return seen


def _find_values(step: Step, plan: Plan, find_dictionary: FindDictionary) -> Array | None:
    assert step.dictionary_id is not None
    assert isinstance(step.type, t.Dictionary)
    values = find_dictionary(step.dictionary_id, plan.dictionaries[step.dictionary_id])
    if values is not None and values.type != step.type.value:
        raise InvalidDictionaryError(
            expected=f"values of {step.type.value} in dictionary {step.dictionary_id}", found=str(values.type)
        )
    return values


def _make_empty_values(step: Step, plan: Plan, absent: dict[int, InvalidDictionaryError], *, is_used: bool) -> Array:
    """Return empty values for an absent dictionary; if slots refer to it, put the error into `absent`, or raise it."""
    assert isinstance(step.type, t.Dictionary)
    # It need not precede a batch in which no row uses its values (Columnar.rst, "Dictionary messages").
    values = plan.no_values.get(step.node)
    if values is None:
        values = plan.no_values[step.node] = from_pylist.array([], step.type.value)
    if is_used:
        error = absent[id(values)] = InvalidDictionaryError(
            expected=f"a dictionary batch of id {step.dictionary_id} before its first use",
            found="none",
            spec='Columnar.rst "Dictionary Messages"',
        )
        if step.is_top:  # rows see all of its slots; a nested one may be below nulls
            raise error
    return values


def _check_children(step: Step, length: int, lengths: Sequence[int]) -> None:
    """Check that children are long enough for their parent."""
    if step.child_slots is None:
        return  # value offsets, which are checked later, give the slots
    needed = length * step.child_slots
    for actual, field in zip(lengths, step.type.children, strict=True):
        if actual < needed:
            raise InvalidBodyError(expected=f"child {field.name!r} of at least {needed:,} slots", found=f"{actual:,}")
