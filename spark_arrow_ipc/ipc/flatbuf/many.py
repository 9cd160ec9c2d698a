"""Views of many tables of one declaration at once, such as the fields of a wide schema.

Strategy
--------
Every check of `reader` is made, for all tables together. Tables share vtables: what a vtable says is checked by `reader`
for one table of each vtable and position modulo 8, and what depends on a table's place by numpy. Most often all tables
have the same slots, so that a slot's place is one addition, and not a choice for each table. Anything that is unusual or
wrong is an `Unusual`, without a word: the caller then reads one table after another, which finds the error.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from itertools import repeat
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.errors import ArrowIpcError
from spark_arrow_ipc.ipc.flatbuf import reader
from spark_arrow_ipc.ipc.flatbuf.compiled import Shape

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_MOST_VTABLES: Final = 64
"""Writers use a handful, each at one or two positions modulo 8."""

_MOST_INLINE_NBYTES: Final = 64
"""Inline bytes that are compared; no type has so many."""

_least: Final = np.minimum.reduce
_greatest: Final = np.maximum.reduce
_bits: Final = np.bitwise_or.reduce


class Unusual(Exception):  # noqa: N818 - no error, but a way out
    """The tables have to be read one by one."""


def demand(condition: Bools | bool) -> None:
    """Raise `Unusual` unless all of a condition holds."""
    # To look for a zero byte is the fastest of all ways to ask numpy for all of a few.
    if 0 in condition.tobytes() if isinstance(condition, np.ndarray) else not condition:
        raise Unusual


def _groups(keys: Int64s, most: int) -> tuple[list[int], Int64s]:
    """Return the first position of each distinct key, and for each key the number of its kind. Few are distinct."""
    firsts: list[int] = []
    kinds = np.zeros(len(keys), np.int64)
    # Fields of even and odd lengths of names take turns at two places modulo 8: one kind, and then the rest, is common.
    differ = keys != keys[:1]
    while True:
        demand(len(firsts) < most)
        first = int(differ.argmax()) if firsts else 0
        firsts.append(first)
        if len(firsts) > 1:
            differ &= keys != keys[first]
        if 1 not in differ.tobytes():
            return firsts, kinds
        kinds += differ


class ManyTables:
    """Views of tables of one declaration.

    Parameters
    ----------
    walk, depth
        Of the views of `reader`.
    shape
        Of the tables.
    positions
        Of the tables, each at most ``walk.last``.

    Raises
    ------
    Unusual
        A table is broken, or there are many vtables.
    """

    def __init__(self, walk: Any, shape: Shape, positions: Int64s, depth: int) -> None:
        self._walk, self._shape, self._positions, self._depth = walk, shape, positions, depth
        self.memory = np.frombuffer(walk.buffer, np.uint8)
        self._words = self.memory[: walk.nbytes & ~3].view("<u4")
        vtables = positions - self._words.view("<i4")[positions >> 2]
        demand(len(positions) <= walk.remaining)
        some, self.layout_of = _groups(vtables * 8 + (positions & 7), _MOST_VTABLES)
        walk.remaining -= len(positions)
        # `reader` checks the vtable, that the table is at a multiple of 4, and where its slots are.
        views = [self.view(position) for position in positions[some].tolist()]
        inline_nbytes = [view._inline_nbytes for view in views]  # noqa: SLF001 - as `to_mapping`
        self.inline_nbytes = np.array(inline_nbytes)
        slots = [(*view._offsets, *repeat(0, shape.slot_count - len(view._offsets))) for view in views]  # noqa: SLF001
        self._same = slots[0] if len({*zip(slots, inline_nbytes, strict=True)}) == 1 else None
        """The slots of all tables, if they are the same."""
        self._slots = np.array(slots, np.int64).reshape(len(slots), shape.slot_count)
        if self._same is not None:
            demand(int(_greatest(positions)) + inline_nbytes[0] <= walk.nbytes)
        else:
            demand(positions + self.inline_nbytes[self.layout_of] <= walk.nbytes)

    @classmethod
    def of(cls, view: reader.TableView, name: str) -> ManyTables:
        """Return the tables of a vector of a table, which is not empty."""
        walk, start, count, shape, depth = view.vector_of_tables(name)
        references = np.frombuffer(walk.buffer, "<u4", count, start)
        return cls(walk, shape, _targets(np.arange(start, start + 4 * count, 4), references, walk.last), depth)

    def __len__(self) -> int:
        return len(self._positions)

    def __getitem__(self, rows: Int64s) -> ManyTables:
        """Return some of the tables, by their numbers."""
        some = copy(self)
        some._positions, some.layout_of = self._positions[rows], self.layout_of[rows]  # noqa: SLF001 - of its own class
        return some

    def each(self) -> Iterator[reader.TableView]:
        """Yield a view of each table."""
        return map(self.view, self._positions.tolist())

    def view(self, position: int) -> reader.TableView:
        """Return the view of one of the tables, by its position."""
        self._walk.remaining += 1  # it was counted with all of them
        try:
            return reader.table_at(self._walk, self._shape, position, self._depth)
        except ArrowIpcError as error:
            raise Unusual from error

    def has(self, name: str) -> Bools:
        """Return whether each table has a slot."""
        number = self._shape.numbers[name]
        if self._same is not None:
            return np.full(len(self), self._same[number] != 0)
        present: Bools = self._slots[self.layout_of, number] != 0
        return present

    def bytes_of(self, name: str) -> npt.NDArray[np.uint8]:
        """Return a scalar of one byte; its default where it is absent."""
        number, _, nbytes, default = self._shape.scalars[name]
        assert nbytes == 1
        at = self._places(number)
        if self._same is not None and self._same[number]:
            return self.memory[at]
        return np.where(at != 0, self.memory[at], default).astype(np.uint8)

    def strings(self, name: str) -> tuple[Int64s, Int64s]:
        """Return start and stop of each string, inside the memory and before a zero byte; 0 and 0 where it is absent."""
        number = self._shape.strings[name][0]
        targets = self._targets(number)
        if self._same is not None and self._same[number]:
            starts = targets + 4
            stops = starts + self._words[targets >> 2]
            demand(int(_greatest(stops)) < len(self.memory))
            demand(not _greatest(self.memory[stops]))
            return starts, stops
        nbytes = np.where(targets != 0, self._words[targets >> 2], 0)
        starts = np.where(targets != 0, targets + 4, 0)
        stops = starts + nbytes
        demand(stops < len(self.memory))
        demand((targets == 0) | (self.memory[np.where(targets != 0, stops, 0)] == 0))
        return starts, stops

    def has_elements(self, name: str) -> Bools:
        """Return whether each table has a vector of tables that is not empty."""
        number = self._shape.table_vectors[name][0]
        if not any(self._slots[:, number].tolist()):
            return np.zeros(len(self), np.bool_)
        targets = self._targets(number)
        some: Bools = (targets != 0) & (self._words[targets >> 2] != 0)
        return some

    def unions(self, name: str) -> Iterator[tuple[int, Int64s, ManyTables]]:
        """Yield each discriminant of a union, the numbers of its tables, and their values. All tables have one."""
        number, members = self._shape.unions[name]
        at = self._places(number)
        demand(at != 0)
        targets = self._targets(number + 1)
        demand(targets != 0)
        discriminants = self.memory[at]
        for discriminant in {*discriminants.tobytes()}:
            shape = members.get(discriminant)
            if shape is None:
                raise Unusual
            (own,) = (discriminants == discriminant).nonzero()
            yield discriminant, own, ManyTables(self._walk, shape, targets[own], self._depth + 1)

    def distinct(self) -> Iterator[tuple[reader.TableView, Int64s]]:
        """Yield a view of each table that differs in its inline bytes, and the numbers of all that are like it.

        Tables with references are all different: what they refer to is elsewhere.
        """
        shape = self._shape
        names = (*shape.strings, *shape.tables, *shape.table_vectors, *shape.struct_vectors, *shape.scalar_vectors)
        numbers = [shape.numbers[name] for name in names]
        # The bytes of tables with the same slots say the same.
        layouts = (self._same,) if self._same is not None else self._slots.tolist()
        for layout, slots in enumerate(layouts):
            own = np.arange(len(self)) if self._same is not None else (self.layout_of == layout).nonzero()[0]
            if any(slots[number] for number in numbers):
                for row in own.tolist():
                    yield self.view(int(self._positions[row])), np.array([row])
                continue
            if not len(own):
                continue
            nbytes = int(self.inline_nbytes[layout])
            if nbytes == 4:
                yield self.view(int(self._positions[own[0]])), own
                continue
            demand(nbytes <= _MOST_INLINE_NBYTES)
            # An item for each start in the memory: numbers of single bytes would take eight times the memory of the bytes.
            width = nbytes - 4
            items = np.ndarray(len(self.memory) - width + 1, f"V{width}", self.memory.data, 0, (1,))
            rows = items[self._positions[own] + 4]
            if rows.tobytes() == rows[:1].tobytes() * len(rows):
                yield self.view(int(self._positions[own[0]])), own
                continue
            _, some, like = np.unique(rows, return_index=True, return_inverse=True)
            for kind, first in enumerate(some.tolist()):
                yield self.view(int(self._positions[own[first]])), own[like == kind]

    def _places(self, number: int) -> Int64s:
        """Return the place of a slot in each table; 0 where it is absent."""
        if self._same is not None:
            return self._positions + self._same[number] if self._same[number] else np.zeros(len(self), np.int64)
        inside = self._slots[self.layout_of, number]
        places: Int64s = np.where(inside != 0, self._positions + inside, 0)
        return places

    def _targets(self, number: int) -> Int64s:
        """Return the target of a reference in each table, at least four bytes; 0 where it is absent."""
        at = self._places(number)
        if self._same is not None:
            return _targets(at, self._words[at >> 2], self._walk.last) if self._same[number] else at
        targets = np.zeros(len(self), np.int64)
        (some,) = at.nonzero()
        if len(some):
            targets[some] = _targets(at[some], self._words[at[some] >> 2], self._walk.last)
        return targets


def _targets(at: Int64s, references: npt.NDArray[np.uint32], last: int) -> Int64s:
    """Return the targets of references that lie at some places, each at least four bytes."""
    targets: Int64s = at + references
    demand(int(_least(references)) > 0 and not int(_bits(references)) & 3 and int(_greatest(targets)) <= last)
    return targets
