"""Walks over the steps of a plan, from parents to children.

Strategy
--------
A plan's steps are its fields in pre-order, so each walk is one loop with a stack for the steps to come. `walk_arrays`
pairs each step with its array. `SlotWalk` passes the slots of each step down to its children, and calls a method of its
subclass for each buffer, by the buffer's role; the subclass chooses the type of the slots: a range, or the number of
slots in each of many batches. `decode.build_columns` walks from children to parents, and builds arrays.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Generic, TypeVar

from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.layout import Family, Role, layout_of
from spark_arrow_ipc.errors import error_context
from spark_arrow_ipc.ipc.columns.plan import BufferStep, Plan, Step
from spark_arrow_ipc.ipc.constants import NO_BYTES

_Slots = TypeVar("_Slots")

_CONTIGUOUS: Final = frozenset(Family) - {
    Family.VIEW, Family.LIST_VIEW, Family.RUN_END_ENCODED, Family.SPARSE_UNION, Family.DENSE_UNION,
}  # fmt: skip
"""Layouts whose neighbouring slots lie next to each other in every buffer and child."""


def walk_arrays(
    plan: Plan, columns: Iterable[Array], prepare: Callable[[Array], Array] = lambda array: array
) -> Iterator[tuple[Step, Array]]:
    """Yield each step of a plan with its array, parents first."""
    pending = list(columns)[::-1]
    for step in plan.steps:
        array = prepare(pending.pop())
        pending.extend(reversed(array.children))
        yield step, array


def can_walk_slots(plan: Plan) -> bool:
    """Return whether `SlotWalk` applies: there are columns, all of contiguous layouts."""
    contiguous = all(layout_of(step.type).family in _CONTIGUOUS for step in plan.steps)
    return contiguous and bool(plan.steps) and not plan.variadics


class SlotWalk(ABC, Generic[_Slots]):
    """Fills the buffers of a plan from parents to children, given the slots of each step.

    Attributes
    ----------
    buffers
        The bytes of every buffer by its number; buffers that no step uses stay empty.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.buffers = [NO_BYTES] * plan.buffers

    def walk(self, slots: _Slots) -> None:
        """Fill the buffers of all steps, given the slots of the columns. Errors name the field."""
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
        """Check the slots of a step; return those of its children, unless value offsets give them."""

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
