"""The nodes and buffers of one batch: its header, checked against the plan and the body; and the column of each buffer.

A few nodes and buffers are checked one after another; many are checked at once by numpy, and stay arrays until their first
use. If the check of many fails, the loop finds the first wrong one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.layout import Role
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.errors import InvalidBodyError, InvalidMetadataError
from spark_arrow_ipc.ipc.columns.plan import Plan, Step, compile_plan
from spark_arrow_ipc.ipc.constants import BODY_ALIGNMENT, Int64s, Limits
from spark_arrow_ipc.ipc.flatbuf.tables import MetadataVersion
from spark_arrow_ipc.ipc.messages.message import RecordBatchHeader
from spark_arrow_ipc.ipc.messages.schema import number_dictionaries

_MANY_BUFFERS: Final = 200  # from this many buffers on, vectorised checks are faster than a Python loop

_NONE_BEFORE: Final = (0,)  # `BatchLayout.variadic_before` without views; compared by identity

# Buffers that share bytes are copied and checked once each, so each counts in full
_ALL_BUFFERS: Final = "the buffers of a batch, which may share bytes,"

_greatest: Final = np.maximum.reduce

_SPEC_BUFFERS = 'Columnar.rst "RecordBatch message"'


class _Rows(Sequence[Sequence[int]]):
    """The rows of an array as lists, made on access."""

    __slots__ = ("_array",)

    def __init__(self, array: Int64s) -> None:
        self._array = array

    def __getitem__(self, row: Any) -> Any:
        return self._array[row].tolist()

    def __len__(self) -> int:
        return len(self._array)


Pairs: TypeAlias = Sequence[Sequence[int]]


class Fitted(NamedTuple):
    """The slots of a batch for each step of a plan, from the last on, for which its buffers are large enough."""

    plan: Plan
    # Length, null count, True if the validity bitmap is left out, and the numbers of the first and after the last buffer.
    slots: list[tuple[int, int, bool, int, int]]


class BatchLayout:
    """The nodes and buffers of one batch, checked against the plan."""

    __slots__ = ("_buffers", "_nodes", "arrays", "fitted", "variadic_before")

    def __init__(self, nodes: Pairs | None, buffers: Pairs | None, variadic_before: tuple[int, ...]) -> None:
        self._nodes, self._buffers = nodes, buffers
        self.variadic_before = variadic_before  # before each view field, and at the end their sum
        # Many nodes and buffers, shape ``(n, 2)`` each: their lists are then made on first use.
        self.arrays: tuple[Int64s, Int64s] | None = None
        # Set by `decode.fit` unless compressed: batches with the same message have the same sizes.
        self.fitted: Fitted | None = None

    @classmethod
    def of_arrays(cls, nodes: Int64s, buffers: Int64s, variadic_before: tuple[int, ...]) -> BatchLayout:
        """Return a layout of arrays."""
        layout = cls(None, None, variadic_before)
        layout.arrays = nodes, buffers
        return layout

    @property
    def nodes(self) -> Pairs:
        """(length, null_count) of each node."""
        if self._nodes is None:
            assert self.arrays is not None
            self._nodes = self.arrays[0].tolist()
        return self._nodes

    @property
    def buffers(self) -> Pairs:
        """(byte offset inside the body, nbytes) of each buffer."""
        if self._buffers is None:
            assert self.arrays is not None
            self._buffers = self.arrays[1].tolist()
        return self._buffers

    def sparse(self) -> BatchLayout:
        """Return the same layout for a few columns, without lists of all numbers."""
        assert self.arrays is not None
        nodes, buffers = self.arrays
        return BatchLayout(_Rows(nodes), _Rows(buffers), self.variadic_before)

    def first_buffer(self, step: Step) -> int:
        """Return the number of the step's first buffer in this batch."""
        return step.first_buffer + self.variadic_before[step.first_variadic]

    def variadic_count(self, step: Step) -> int:
        """Return the number of variadic buffers of the step in this batch."""
        return self.variadic_before[step.first_variadic + 1] - self.variadic_before[step.first_variadic]

    def numbers(self, step: Step) -> range:
        """Return the numbers of all buffers that the step uses."""
        start = self.first_buffer(step) + step.drops_validity
        return range(start, start + len(step.buffers) + (self.variadic_count(step) if step.is_variadic else 0))


def check_header(header: RecordBatchHeader, plan: Plan, body_nbytes: int, limits: Limits) -> BatchLayout:
    """Check a header against plan and body; return the layout. O(nodes + buffers)."""
    limits.check("max_batch_bytes", body_nbytes, "the body of a batch")
    # Counts come first: a list takes ten times the memory of the numbers in the metadata.
    _check_count("field nodes", plan.nodes, len(header.nodes))
    _check_count("variadic buffer counts", plan.variadics, len(header.variadic_counts))
    variadic_before = _variadic_before(header, limits) if plan.variadics else _NONE_BEFORE
    listed = _drop_bitmaps_of_runs(header.buffers, plan, variadic_before)
    _check_count("buffers", plan.buffers + variadic_before[-1], len(listed))
    if not plan.nodes:  # otherwise the lengths of the columns are checked, and compared with this one
        limits.check("max_slots", header.length, "a batch without columns")
    if len(listed) >= _MANY_BUFFERS:
        # Copies: the metadata may be in a mapped file, which can change after the check.
        nodes, buffers = header.nodes.copy(), listed.copy()
        if _are_sound(nodes, buffers, body_nbytes, limits):
            return BatchLayout.of_arrays(nodes, buffers, variadic_before)
    layout = BatchLayout(header.nodes.tolist(), listed.tolist(), variadic_before)
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
                field_path=owner(plan, i, layout),
                spec=_SPEC_BUFFERS,
            )
    if total > limits.max_batch_bytes:
        limits.check("max_batch_bytes", total, _ALL_BUFFERS)
    return layout


def _drop_bitmaps_of_runs(buffers: Int64s, plan: Plan, variadic_before: tuple[int, ...]) -> Int64s:
    """Return the buffers without the absent bitmaps that Arrow C++ writes before run ends in metadata V4."""
    # Other writers leave them out: the number of buffers decides.
    if not plan.runs or len(buffers) != plan.buffers + variadic_before[-1] + len(plan.runs):
        return buffers
    more = [first + variadic_before[variadic] + i for i, (first, variadic) in enumerate(plan.runs)]
    return np.delete(buffers, more, axis=0)


def with_null_counts(header: RecordBatchHeader, previous: BatchLayout) -> BatchLayout | None:
    """Return the checked layout of a header that differs from the previous one only in null counts; otherwise None."""
    # Buffers at the same places were checked before, so that only the nodes are left.
    if previous.arrays is None or previous.variadic_before is not _NONE_BEFORE or len(header.variadic_counts):
        return None
    nodes, (previous_nodes, buffers) = header.nodes, previous.arrays
    if header.compression is not None or nodes.shape != previous_nodes.shape or header.buffers.shape != buffers.shape:
        return None
    if header.buffers.tobytes() != buffers.tobytes():
        return None
    nodes = nodes.copy()  # as in `check_header`
    length, null_count = nodes.view(np.uint64).T
    if 0 in ((nodes[:, 0] == previous_nodes[:, 0]) & (null_count <= length)).tobytes():
        return None
    return BatchLayout.of_arrays(nodes, buffers, _NONE_BEFORE)


def _variadic_before(header: RecordBatchHeader, limits: Limits) -> tuple[int, ...]:
    """Return the number of variadic buffers before each view field, and at the end their sum."""
    counts = header.variadic_counts.tolist()
    # Each count has its own bounds, so that the sum cannot hide a negative one.
    if min(counts) < 0 or max(counts) > len(header.buffers):
        raise InvalidMetadataError(
            expected=f"variadic buffer counts of 0 to {len(header.buffers)}", found=str(counts[:20])
        )
    before = (0, *accumulate(counts))
    limits.check("max_buffers", before[-1], "a batch with views")
    return before


def _are_sound(nodes: Int64s, buffers: Int64s, body_nbytes: int, limits: Limits) -> bool:
    """Check all nodes and buffers at once, by the rules of `check_header`."""
    # As unsigned, a negative number exceeds every bound: one comparison checks both.
    length, null_count = nodes.view(np.uint64).T
    start, nbytes = buffers.view(np.uint64).T
    if not len(nodes) or int(_greatest(length)) > limits.max_slots or 0 in (null_count <= length).tobytes():
        return False
    # The sum cannot overflow after both were compared.
    if int(_greatest(start)) > body_nbytes or int(_greatest(nbytes)) > body_nbytes:
        return False
    if int(_greatest(start + nbytes)) > body_nbytes or int(np.bitwise_or.reduce(start)) % BODY_ALIGNMENT:
        return False
    limits.check("max_batch_bytes", int(nbytes.sum()), _ALL_BUFFERS)
    return True


def buffer_ranges(plan: Plan, layout: BatchLayout) -> list[tuple[int, int]]:
    """Return (byte offset inside the body, nbytes) of every buffer that the plan's steps use."""
    buffers = layout.buffers
    return [(buffers[i][0], buffers[i][1]) for step in plan.steps for i in layout.numbers(step)]


def _check_count(what: str, expected: int, actual: int) -> None:
    if expected != actual:
        raise InvalidMetadataError(expected=f"{expected} {what}, as the schema implies", found=str(actual))


def owner(plan: Plan, buffer_number: int, layout: BatchLayout) -> str | None:
    """Return the path of the step of a buffer, or of the step before it."""
    for step in reversed(plan.steps):
        if layout.first_buffer(step) <= buffer_number:
            return step.path
    return None


ROLES: Final = tuple(Role)
"""All roles, in the order of their numbers."""


class ColumnBuffers:
    """The columns and roles of the buffers in the record batches of a schema and a version of the metadata."""

    # Unions of V4 have one buffer more, and run ends may have one (`Plan.runs`).

    def __init__(self, schema: Schema, version: MetadataVersion = MetadataVersion.V5) -> None:
        self._plan = compile_plan(schema.fields, number_dictionaries(schema).dictionary_ids, version)
        steps = self._plan.steps
        self._columns = np.cumsum([step.is_top for step in steps], dtype=np.int64) - 1
        self._counts = np.array([len(step.buffers) + step.drops_validity for step in steps], np.int64)
        self._variadic = np.flatnonzero([step.is_variadic for step in steps])
        self._roles = np.array(
            [
                ROLES.index(role)
                for step in steps
                for role in ([Role.VALIDITY] * step.drops_validity + [buffer.role for buffer in step.buffers])
            ],
            np.int64,
        )
        has_runs = version is MetadataVersion.V4
        self._runs = np.flatnonzero([has_runs and isinstance(step.type, t.RunEndEncoded) for step in steps])
        self._nodes = np.array([step.node for step in steps if step.is_top], np.int64)

    def columns(self, header: RecordBatchHeader) -> Int64s:
        """Return the position of the top-level column of each buffer: int64, shape ``(buffers,)``."""
        return np.repeat(self._columns, self._counts_of(header))

    def roles(self, header: RecordBatchHeader) -> Int64s:
        """Return the role of each buffer, as its position in `ROLES`: int64, shape ``(buffers,)``."""
        counts = self._counts_of(header)
        ends = np.cumsum(counts)
        roles = np.full(len(header.buffers), ROLES.index(Role.VARIADIC), np.int64)
        # A step's fixed buffers come first, its variadic ones after them.
        numbers = np.repeat(ends - counts, self._counts) + (
            np.arange(len(self._roles)) - np.repeat(np.cumsum(self._counts) - self._counts, self._counts)
        )
        roles[numbers] = self._roles
        roles[(ends - counts)[self._runs[counts[self._runs] > 0]]] = ROLES.index(Role.VALIDITY)
        return roles

    def null_counts(self, header: RecordBatchHeader) -> Int64s:
        """Return the nulls of each top-level column in the header."""
        if len(header.nodes) != self._plan.nodes:
            raise InvalidMetadataError(
                expected=f"{self._plan.nodes} field nodes, as the schema implies", found=str(len(header.nodes))
            )
        counts: Int64s = header.nodes[self._nodes, 1]
        return counts

    def _counts_of(self, header: RecordBatchHeader) -> Int64s:
        variadic, fixed = header.variadic_counts, int(self._counts.sum())
        is_sound = len(variadic) == len(self._variadic) and bool(np.all(variadic >= 0))
        # Each has its own bounds, so that the sum cannot wrap around.
        is_sound = is_sound and bool(np.all(variadic <= len(header.buffers)))
        more = len(header.buffers) - fixed - int(variadic.sum()) if is_sound else 0
        if not is_sound or more not in (0, len(self._runs)):
            raise InvalidMetadataError(
                expected=f"{fixed} buffers and variadic ones, as the schema implies", found=f"{len(header.buffers)}"
            )
        counts = self._counts.copy()
        counts[self._variadic] += variadic
        counts[self._runs] += more > 0
        return counts
