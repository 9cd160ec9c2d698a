"""Read the selected columns of each batch: decode them by a plan, and validate them.

The readers of both formats use it: they differ only in how they find messages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array, DoubtfulValues
from spark_arrow_ipc.arrow.column_path import ColumnPath, Selection, project, resolve_exactly
from spark_arrow_ipc.arrow.layout import layout_of
from spark_arrow_ipc.arrow.record_batch import RecordBatch, pick
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.arrow.validate import arrays as validate
from spark_arrow_ipc.errors import ArrowIpcError, InvalidBodyError, error_context
from spark_arrow_ipc.ipc.bytes.body import AnyPlace, BodyRanges, ranges_to_read
from spark_arrow_ipc.ipc.columns.batch_layout import BatchLayout, buffer_ranges, check_header, with_null_counts
from spark_arrow_ipc.ipc.columns.compression import Decompressor
from spark_arrow_ipc.ipc.columns.decode import (
    NATIVE,
    BatchBytes,
    FindDictionary,
    Regions,
    build_columns,
    decode_columns,
    held_nbytes,
    read_buffers,
)
from spark_arrow_ipc.ipc.columns.leaf_columns import LeafBatch, LeafColumns, compile_leaves, decode_leaves
from spark_arrow_ipc.ipc.columns.plan import Plan, Step, compile_plan
from spark_arrow_ipc.ipc.constants import Limits, Validation
from spark_arrow_ipc.ipc.flatbuf.tables import MetadataVersion
from spark_arrow_ipc.ipc.messages.message import Message, RecordBatchHeader
from spark_arrow_ipc.ipc.messages.schema import SchemaMessage, unknown_below

Columns: TypeAlias = Sequence[ColumnPath] | Callable[[Schema], Sequence[ColumnPath]]
"""Names, positions or struct paths; or a function that selects them from the file's schema."""


def select_known_columns(schema: Schema) -> list[int]:
    """Select all columns without an `UnknownType`, for readers of headers only."""
    return [i for i, field in enumerate(schema.fields) if next(unknown_below((field,)), None) is None]


class _Checked(NamedTuple):
    """The results of checking a message: the layout of its batch, and its plain columns if it is wide."""

    # A compressed batch has no sizes in its message: it has `compressed` instead of `leaves`.

    message: Message
    header: RecordBatchHeader
    plan: Plan
    body_nbytes: int
    layout: BatchLayout
    leaves: LeafBatch | None = None
    compressed: LeafColumns | None = None


_MOST_PROJECTIONS: Final = 4  # the selections of a schema whose plans are cached


class _Plans:
    """The plan of messages of one metadata version, and its plain columns, which only wide batches need."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    @cached_property
    def leaves(self) -> LeafColumns | None:
        return compile_leaves(self.plan)


class SelectedColumns:
    """The selected columns of a file or stream, with one plan for each metadata version."""

    def __init__(self, message: SchemaMessage, columns: Columns | None, validation: Validation, limits: Limits) -> None:
        self.message = message
        """The schema of the file or stream."""
        self._selection: Selection | None = None
        positions: tuple[int, ...] = ()
        if columns is not None:
            chosen = columns(message.schema) if callable(columns) else columns
            self._selection = project(resolve_exactly(message.schema.fields, chosen))
            positions = tuple(self._selection)
            if len(positions) == len(message.schema.fields) and not any(self._selection.values()):
                self._selection = None  # every column, in any order
        # The last batch; `MessageDecoder` returns the same message for the same bytes
        self._checked: _Checked | None = None
        self._plans = _plans_by_version(message, self._selection)
        self._validates = validation == Validation.FULL
        self.swaps = message.schema.endianness != NATIVE
        """True if the batches have the other byte order."""
        self.limits = limits
        self.is_whole = self._selection is None
        """True if every column is read, which one read of the block does."""
        # Steps keep the order of the schema; `_order` restores the order of the selection.
        sorted_positions = sorted(positions)
        self._order = (
            None
            if list(positions) == sorted_positions
            else tuple(sorted_positions.index(position) for position in positions)
        )
        self.schema = full_schema = message.schema
        if not self.is_whole or self._order is not None:
            fields = self.plan(MetadataVersion.V5).fields
            if self._order is not None:
                fields = tuple(fields[i] for i in self._order)
            self.schema = Schema(fields, full_schema.custom_metadata, full_schema.endianness)
        if message.has_unknown:
            for path, unknown in unknown_below(self.schema.fields):
                raise unknown.error(path)

    def plan(self, version: MetadataVersion) -> Plan:
        """Return the plan for messages of a metadata version."""
        return self._plans_of(version).plan

    def _plans_of(self, version: MetadataVersion) -> _Plans:
        plans = self._plans.get(version)
        if plans is None:
            message = self.message
            plan = compile_plan(message.schema.fields, message.dictionary_ids, version, self._selection)
            plans = self._plans[version] = _Plans(plan)
        return plans

    def read_batch(
        self, message: Message, body_place: AnyPlace, find: FindDictionary, checksums: Sequence[int] | None = None
    ) -> RecordBatch:
        """Read the selected columns of the batch whose body is at `body_place`; compare buffers with `checksums`."""
        checked = self._checked
        if checked is None or checked.message is not message or checked.body_nbytes != body_place.nbytes:
            checked = self._checked = self._check_header(message, body_place.nbytes)
        header, plan, layout = checked.header, checked.plan, checked.layout
        body = body_place.read(None if plan.is_whole else buffer_ranges(plan, layout))
        batch = BatchBytes(header, layout, body, checksums)
        columns: Sequence[Array] | None = None
        if checked.leaves is not None:
            columns = self._decode_leaves(batch, checked.leaves, find)
        elif checked.compressed is not None:
            columns = self._decode_compressed(batch, checked.compressed, find)
        if columns is None:
            columns = decode_columns(batch, plan, find, limits=self.limits, swaps=self.swaps)
            columns = self._validate(columns, plan)
        return self._batch(columns, header.length, message)

    def _check_header(self, message: Message, nbytes: int) -> _Checked:
        header, plans, last = message.header, self._plans_of(message.version), self._checked
        assert isinstance(header, RecordBatchHeader)
        plan = plans.plan
        if last is not None and last.leaves is not None and last.plan is plan:
            # Batches with equal numbers of rows most often differ only in null counts, unless they have strings.
            alike = last.layout if last.body_nbytes == nbytes and last.leaves.num_rows == header.length else None
            layout = None if alike is None else with_null_counts(header, alike)
            leaves = None if layout is None else last.leaves.leaves.with_nulls(last.leaves, layout)
            if layout is not None and leaves is not None:
                return _Checked(message, header, plan, nbytes, layout, leaves)
        layout = check_header(header, plan, nbytes, self.limits)
        columns = None if layout.arrays is None or self.swaps else plans.leaves
        if columns is None or header.compression is not None:
            return _Checked(message, header, plan, nbytes, layout, compressed=columns)
        return _Checked(message, header, plan, nbytes, layout, columns.fit(header.length, layout))

    def build_batch(self, message: Message, num_rows: int, regions: Regions, find: FindDictionary) -> RecordBatch:
        """Build a batch from buffers in memory, with the custom metadata of `message`."""
        plan = self.plan(message.version)
        columns = self._validate(build_columns(num_rows, plan, regions, find, swaps=self.swaps), plan)
        return self._batch(columns, num_rows, message)

    def _batch(self, columns: Sequence[Array], num_rows: int, message: Message) -> RecordBatch:
        if self._order is not None:
            columns = pick(columns, self._order)
        return RecordBatch(self.schema, columns, num_rows, message.custom_metadata)

    def body_ranges(self, message: Message, gap: int) -> list[tuple[int, int]]:
        """Return the (start, stop) ranges of a batch's body that `read_batch` reads, joined across gaps."""
        header = message.header
        assert isinstance(header, RecordBatchHeader)
        plan = self.plan(message.version)
        if plan.is_whole:
            return [(0, message.body_nbytes)]
        layout = check_header(header, plan, message.body_nbytes, self.limits)
        return ranges_to_read(buffer_ranges(plan, layout), message.body_nbytes, gap)

    def null_counts(self, header: RecordBatchHeader) -> list[int | None]:
        """Return the nulls of each selected column in the header of a batch; None for a column without a count."""
        # Dictionaries and run ends have none, because their values may be null, nor have unions. A wrong count is an error
        # when the column is decoded with full validation.
        plan = self.plan(MetadataVersion.V5)
        tops = [step for step in plan.steps if step.is_top]
        if len(header.nodes) != plan.nodes:
            return [None] * len(tops)
        counts = [_null_count(step, header) for step in tops]
        return counts if self._order is None else [counts[i] for i in self._order]

    def read_dictionary(
        self,
        header: RecordBatchHeader,
        plan: Plan,
        body_place: AnyPlace,
        find: FindDictionary,
        *,
        held: int,
        at: error_context,
        checksums: Sequence[int] | None = None,
    ) -> tuple[Array, int]:
        """Read the values of the dictionary batch whose body is at `body_place`; return them and their bytes in memory.

        Rows that use an unsound value raise its error, with the fields of `at`.
        """
        what = "the sum of all dictionaries"
        layout = check_header(header, plan, body_place.nbytes, self.limits)
        # Before the body is read, and again with the decompressed bytes, before they are made.
        self.limits.check("max_dictionary_bytes", held + body_place.nbytes, what)
        batch = BatchBytes(header, layout, body_place.read(), checksums)
        nbytes = held_nbytes(batch, plan, swaps=self.swaps)
        self.limits.check("max_dictionary_bytes", held + nbytes, what)
        columns = decode_columns(batch, plan, find, limits=self.limits, swaps=self.swaps)
        try:
            (values,) = self._validate(columns, plan)
        except InvalidBodyError as error:
            at.add_to(error)
            values = DoubtfulValues.of(columns[0], error)
        return values, nbytes

    def _decode_leaves(self, batch: BatchBytes, leaves: LeafBatch, find: FindDictionary) -> Sequence[Array] | None:
        """Decode the plain columns of a wide batch at once; None if it has to be decoded step by step."""
        header, layout, body, checksums = batch
        if checksums is not None:
            read_buffers(batch, leaves.leaves.plan, None, self.limits)

        def decode_others(others: Plan, part: BatchLayout) -> Sequence[Array]:
            return decode_columns(BatchBytes(header, part, body), others, find, limits=self.limits, swaps=False)

        return decode_leaves(leaves, layout, body, decode_others, validates=self._validates)

    def _decode_compressed(
        self, batch: BatchBytes, columns: LeafColumns, find: FindDictionary
    ) -> Sequence[Array] | None:
        """Decompress a wide batch into one memory, and decode it as uncompressed; None to decode it step by step."""
        # None for every error, because errors have to name byte offsets in the file.
        header, layout, body, checksums = batch
        if not isinstance(body, BodyRanges) or len(body.ranges) != 1:
            return None
        if checksums is not None:
            read_buffers(batch, columns.plan, None, self.limits)
        assert header.compression is not None
        assert layout.arrays is not None
        nodes, buffers = layout.arrays
        places = np.where(columns.buffers_in_use(layout)[:, None], buffers - (body.starts[0], 0), 0)
        decompressor = Decompressor(header.compression, self.limits.max_batch_bytes)
        decompressed = decompressor.decompress_many(body.ranges[0], places)
        if decompressed is None:
            return None
        memory, places = decompressed
        layout = BatchLayout.of_arrays(nodes, places, layout.variadic_before)
        leaves = columns.fit(header.length, layout)
        if leaves is None:
            return None
        plain = header._replace(buffers=places, compression=None)
        try:
            return self._decode_leaves(BatchBytes(plain, layout, BodyRanges.whole(memory, 0)), leaves, find)
        except ArrowIpcError:
            return None

    def _validate(self, columns: Sequence[Array], plan: Plan) -> Sequence[Array]:
        return validate.sound_columns(columns, plan.fields, dictionaries=False) if self._validates else columns


def _plans_by_version(message: SchemaMessage, selection: Selection | None) -> dict[MetadataVersion, _Plans]:
    """Return the compiled plans of a selection, which are cached with the schema."""
    # The files of a table share a schema, and most often a selection. Compiling a plan visits all columns, because buffers
    # are numbered: 2 of the 3 ms in which 5 of 1,000 columns are read.
    if selection is None:
        return message.plans
    key = _key(selection)
    plans = message.projected_plans.get(key)
    if plans is None:
        if len(message.projected_plans) >= _MOST_PROJECTIONS:  # a session may use any number of selections
            message.projected_plans.clear()
        plans = message.projected_plans[key] = {}
    return plans


def _key(selection: Selection) -> tuple[object, ...]:
    return tuple((position, None if below is None else _key(below)) for position, below in selection.items())


def _null_count(step: Step, header: RecordBatchHeader) -> int | None:
    length, nulls = header.nodes[step.node].tolist()
    if isinstance(step.type, t.Null):
        return int(length)
    is_said = step.dictionary_id is None and layout_of(step.type).has_validity
    return int(nulls) if is_said and length == header.length and 0 <= nulls <= length else None
