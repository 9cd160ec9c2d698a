"""Compile a schema into a flat list of steps, so that each batch is decoded or encoded in one loop.

How it works
------------
`compile_plan` walks the fields in the pre-order of the format and gives each a `Step`: the numbers of its field
node, of its first buffer and of its first variadic count, its buffers, and the number of its children. A selection
leaves out steps without renumbering the others, so a projected plan reads the same batches and only its own buffers.

Because of the pre-order, a walk from parents to children is one loop with a stack for the next steps: `walk_arrays`
pairs each step with its array, `SlotWalk` passes slots down. `decode.build_columns` walks backwards, so that children exist
before parents.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from dataclasses import field as field_of
from typing import Final, Generic, TypeVar

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.column_path import Selection, child_path
from spark_arrow_ipc.arrow.layout import (
    SLOTS,
    Family,
    Lengths,
    Role,
    Swap,
    bit_width_of,
    child_slots,
    layout_of,
    slots_nbytes,
)
from spark_arrow_ipc.errors import InvalidDictionaryError, error_context
from spark_arrow_ipc.ipc.constants import NO_BYTES
from spark_arrow_ipc.ipc.flatbuf.tables import MetadataVersion
from spark_arrow_ipc.ipc.messages.schema import UnknownType

_UNIONS = (t.SparseUnion, t.DenseUnion)


@dataclass(frozen=True, slots=True)
class BufferStep:
    """One buffer of a step: the bits of a slot (0 for bytes), and its `extra` slots."""

    role: Role
    bit_width: int
    extra: int
    swap: Swap

    def nbytes(self, length: Lengths) -> Lengths:
        """Return the least bytes of the buffer for a length, or for each length in an array."""
        return slots_nbytes(length, self.extra, self.bit_width)


@dataclass(frozen=True, slots=True)
class Step:
    """One field of the plan."""

    path: str  # the name of the field in errors
    type: t.DataType  # logical type, with only the selected children
    # Positions in a batch's nodes, in its buffers (variadic ones not counted) and in its variadic counts.
    node: int
    first_buffer: int
    first_variadic: int
    buffers: tuple[BufferStep, ...]  # in order, without the variadic ones
    is_variadic: bool  # True if variadic buffers follow
    children: int  # number of child fields, whose steps (with those below) follow
    dictionary_id: int | None
    drops_validity: bool  # a union of metadata V4, whose first buffer is a validity bitmap that V5 removed
    is_top: bool  # True for a column, which has as many slots as the batch has rows
    child_slots: int | None  # slots of every child for each slot of the field; None if value offsets give them


class NoValues(dict[int, Array]):
    """Empty arrays by node, which are not pickled."""

    def __reduce__(self) -> tuple[type[NoValues], tuple[()]]:
        return NoValues, ()


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps of a schema, and the counts of nodes, buffers and variadic counts of a batch."""

    fields: tuple[t.Field, ...]  # the selected ones
    steps: tuple[Step, ...]
    nodes: int
    buffers: int
    variadics: int
    dictionaries: Mapping[int, Plan]  # the plan of the values for each id
    is_whole: bool
    # The first buffer and variadic count of each run-end encoded field of metadata V4. Arrow C++ writes one more buffer
    # there, an absent validity bitmap, because in V4 all its types except null have one; other writers do not. The number
    # of a batch's buffers decides.
    runs: tuple[tuple[int, int], ...] = ()
    # Empty values of absent dictionaries by node, because the values of a wide struct take long to make.
    no_values: NoValues = field_of(default_factory=NoValues, compare=False, repr=False)


def nested_dictionaries(plan: Plan) -> frozenset[int]:
    """Return the ids of dictionaries whose values have dictionaries, and the ids of these inner dictionaries."""
    return frozenset(
        nested
        for dictionary_id, values in plan.dictionaries.items()
        if values.dictionaries
        for nested in (dictionary_id, *values.dictionaries)
    )


def buffer_steps(type_: t.DataType) -> tuple[BufferStep, ...]:
    """Return the buffers of a type in order, without the variadic ones."""
    layout = layout_of(type_)
    rows = [(buffer, *SLOTS[buffer.role]) for buffer in layout.buffers[: layout.num_fixed_buffers]]
    return tuple(BufferStep(b.role, factor * bit_width_of(type_, b), extra, b.swap) for b, factor, extra in rows)


@dataclass(frozen=True, slots=True)
class _Physical:
    """The parts of a `Step` that depend on the type only."""

    buffers: tuple[BufferStep, ...]
    is_variadic: bool
    is_union: bool
    child_slots: int | None

    @classmethod
    def of(cls, type_: t.DataType) -> _Physical:
        if isinstance(type_, UnknownType):
            type_ = t.int8  # its buffers are counted, and never read
        layout = layout_of(type_)
        return cls(buffer_steps(type_), layout.is_variadic, isinstance(type_, _UNIONS), child_slots(type_))


class _Compiling:
    """Counters and results of one `compile_plan`."""

    def __init__(self, dictionary_ids: Iterable[int], version: MetadataVersion) -> None:
        self.ids = iter(dictionary_ids)
        self.version = version
        self.nodes = self.buffers = self.variadics = 0
        self.steps: list[Step] = []
        self.runs: list[tuple[int, int]] = []
        self.physical: dict[t.DataType, _Physical] = {}
        self.dictionaries: dict[int, Plan] = {}

    def field(self, field: t.Field, path: str, *, keep: bool, selection: Selection | None, top: bool) -> t.Field:
        """Add the step of a selected field, number all fields below, and return the field with its selection."""
        type_ = field.type
        dictionary_id = self._dictionary(type_, path, keep=keep) if isinstance(type_, t.Dictionary) else None
        held = self._physical(type_)
        drops_validity = held.is_union and self.version is MetadataVersion.V4
        node, first_buffer, first_variadic = self.nodes, self.buffers, self.variadics
        if self.version is MetadataVersion.V4 and isinstance(type_, t.RunEndEncoded):
            self.runs.append((first_buffer, first_variadic))
        self.nodes += 1
        self.buffers += len(held.buffers) + drops_validity
        self.variadics += held.is_variadic
        position = len(self.steps)
        if keep:
            self.steps.append(
                Step(
                    path, type_, node, first_buffer, first_variadic, held.buffers, held.is_variadic,
                    len(type_.children), dictionary_id, drops_validity, top, held.child_slots,
                )
            )  # fmt: skip
        children = []
        for i, child in enumerate(type_.children):
            keeps = keep and (selection is None or i in selection)
            below = selection[i] if selection is not None and keeps else None
            selected = self.field(child, child_path(type_, path, child), keep=keeps, selection=below, top=False)
            if keeps:
                children.append(selected)
        if keep and selection is not None:
            field = replace(field, type=t.Struct(tuple(children)))
            self.steps[position] = replace(self.steps[position], type=field.type, children=len(children))
        return field

    def _physical(self, type_: t.DataType) -> _Physical:
        """Return the physical parts of a type, cached for types without children."""
        if type_.children or isinstance(type_, t.Dictionary):
            return _Physical.of(type_)  # hashing such a type would visit all types below
        held = self.physical.get(type_)
        if held is None:
            held = self.physical[type_] = _Physical.of(type_)
        return held

    def _dictionary(self, type_: t.Dictionary, path: str, *, keep: bool) -> int:
        dictionary_id = next(self.ids)
        # The values' own dictionaries are numbered after this one, selected or not.
        inner = _Compiling(self.ids, self.version)
        values = inner.field(
            t.Field(f"{path} (dictionary)", type_.value), f"{path} (dictionary)", keep=True, selection=None, top=True
        )
        if keep:
            # Fields may share a dictionary, but then the types of its values are equal.
            before = self.dictionaries.get(dictionary_id)
            if before is not None and before.fields[0].type != type_.value:
                raise InvalidDictionaryError(
                    expected=f"dictionary {dictionary_id} of type {before.fields[0].type}, as in another field",
                    found=f"type {type_.value}",
                    field_path=path,
                )
            self.dictionaries.update(inner.dictionaries)
            self.dictionaries[dictionary_id] = inner.plan((values,), is_whole=True)
        return dictionary_id

    def plan(self, fields: tuple[t.Field, ...], *, is_whole: bool) -> Plan:
        return Plan(
            fields, tuple(self.steps), self.nodes, self.buffers, self.variadics, self.dictionaries, is_whole,
            runs=tuple(self.runs),
        )  # fmt: skip


def compile_plan(
    fields: tuple[t.Field, ...],
    dictionary_ids: Iterable[int],
    version: MetadataVersion,
    selection: Selection | None = None,
) -> Plan:
    """Compile the plan of the fields of a schema, with steps only for those in `selection`. O(fields)."""
    compiling = _Compiling(dictionary_ids, version)
    chosen = []
    for i, field in enumerate(fields):
        keep = selection is None or i in selection
        below = selection[i] if selection is not None and keep else None
        selected = compiling.field(field, field.name, keep=keep, selection=below, top=True)
        if keep:
            chosen.append(selected)
    return compiling.plan(tuple(chosen), is_whole=selection is None)


_Slots = TypeVar("_Slots")

# Layouts whose neighbouring slots are neighbours in every buffer and child
_CONTIGUOUS: Final = frozenset(Family) - {
    Family.VIEW, Family.LIST_VIEW, Family.RUN_END_ENCODED, Family.SPARSE_UNION, Family.DENSE_UNION,
}  # fmt: skip


def walk_arrays(plan: Plan, columns: Iterable[Array]) -> Iterator[tuple[Step, Array]]:
    """Yield each step of a plan with its array, parents first."""
    pending = list(columns)[::-1]
    for step in plan.steps:
        array = pending.pop()
        pending.extend(reversed(array.children))
        yield step, array


def can_walk_slots(plan: Plan) -> bool:
    """Return True if `SlotWalk` applies: some columns, all with contiguous layouts."""
    contiguous = all(layout_of(step.type).family in _CONTIGUOUS for step in plan.steps)
    return contiguous and bool(plan.steps) and not plan.variadics


class SlotWalk(ABC, Generic[_Slots]):
    """Fills the buffers of a plan from parents to children, by one method of a subclass for each role of a buffer."""

    # The subclass chooses the type of the slots: a range, or the number of slots in each of many batches.

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.buffers = [NO_BYTES] * plan.buffers  # by their number; buffers that no step uses stay empty

    def walk(self, slots: _Slots) -> None:
        """Fill the buffers of all steps, from the slots of the columns."""
        pending = [slots] * len(self.plan.fields)
        for step in self.plan.steps:
            with error_context(field_path=step.path):
                below = self._fill(step, pending.pop())
            pending += [below] * step.children

    def _fill(self, step: Step, slots: _Slots) -> _Slots:
        below = self.enter(step, slots)
        for number, buffer in enumerate(step.buffers, step.first_buffer):
            if buffer.role is Role.VALIDITY:
                self.buffers[number] = self.validity(step, number, slots)
            elif buffer.role is Role.OFFSETS:
                self.buffers[number], below = self.value_offsets(step, number, buffer, slots)
            elif buffer.role is Role.BYTES:
                self.buffers[number] = self.bytes_of(number, below)
            else:
                self.buffers[number] = self.values(number, buffer, slots)
        return below

    @abstractmethod
    def enter(self, step: Step, slots: _Slots) -> _Slots:
        """Check the slots of a step, and return the slots of its children, unless value offsets give them."""

    @abstractmethod
    def validity(self, step: Step, number: int, slots: _Slots) -> memoryview:
        """Return the validity bitmap."""

    @abstractmethod
    def value_offsets(self, step: Step, number: int, buffer: BufferStep, slots: _Slots) -> tuple[memoryview, _Slots]:
        """Return the value offsets, and the slots (or bytes) that they point at."""

    @abstractmethod
    def bytes_of(self, number: int, below: _Slots) -> memoryview:
        """Return the bytes that the value offsets point at."""

    @abstractmethod
    def values(self, number: int, buffer: BufferStep, slots: _Slots) -> memoryview:
        """Return the values of fixed width."""
