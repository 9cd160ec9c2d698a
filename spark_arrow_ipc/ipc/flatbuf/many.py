"""Views of many tables of one declaration at once, such as the fields of a wide schema.

Strategy
--------
Every check of `reader` is made, for all tables together. Tables share vtables: what a vtable says is checked by `reader`
for one table of each vtable and position modulo 8, and what depends on a table's place by numpy. Anything that is
unusual or wrong is an `Unusual`, without a word: the caller then reads one table after another, which finds the error.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.errors import ArrowIpcError
from spark_arrow_ipc.ipc.flatbuf import reader
from spark_arrow_ipc.ipc.flatbuf.compiled import Shape

__all__ = ["ManyTables", "Unusual"]

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_MOST_VTABLES: Final = 64
"""Writers use a handful, each at one or two positions modulo 8."""

_MOST_INLINE_NBYTES: Final = 64
"""Inline bytes that are compared; no type has so many."""


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
    left = np.ones(len(keys), np.bool_)
    while 1 in left.tobytes():
        demand(len(firsts) < most)
        first = int(left.argmax())
        alike = keys == keys[first]
        kinds[alike] = len(firsts)
        firsts.append(first)
        left &= ~alike
    return firsts, kinds


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
        halves = self.memory[: walk.nbytes & ~1].view("<u2")
        demand(positions & 3 == 0)
        vtables = positions - self._words.view("<i4")[positions >> 2]
        demand((vtables >= 0) & (vtables <= walk.last) & (vtables & 1 == 0))
        demand(positions + halves[(vtables >> 1) + 1] <= walk.nbytes)
        demand(len(positions) <= walk.remaining)
        some, self.layout_of = _groups(vtables * 8 + (positions & 7), _MOST_VTABLES)
        walk.remaining -= len(positions)
        self.inline_nbytes = halves[(vtables[some] >> 1) + 1].astype(np.int64)
        self._slots = np.zeros((len(some), shape.slot_count), np.int64)
        for row, position in enumerate(positions[some].tolist()):
            offsets = self.view(position)._offsets  # noqa: SLF001 - as `to_mapping`
            self._slots[row, : len(offsets)] = offsets

    @classmethod
    def of(cls, view: reader.TableView, name: str) -> ManyTables:
        """Return the tables of a vector of a table."""
        walk, start, count, shape, depth = view.vector_of_tables(name)
        references = np.frombuffer(walk.buffer, "<u4", count, start).astype(np.int64)
        at = start + 4 * np.arange(count)
        demand((references != 0) & (references & 3 == 0) & (at + references <= walk.last))
        return cls(walk, shape, at + references, depth)

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
        present: Bools = self._slots[self.layout_of, number] != 0
        return present

    def has_references(self) -> Bools:
        """Return whether each table has a string, a table or a vector."""
        shape = self._shape
        found = np.zeros(len(self), np.bool_)
        for name in (*shape.strings, *shape.tables, *shape.table_vectors, *shape.struct_vectors, *shape.scalar_vectors):
            found |= self.has(name)
        return found

    def bytes_of(self, name: str) -> npt.NDArray[np.uint8]:
        """Return a scalar of one byte; its default where it is absent."""
        number, _, nbytes, default = self._shape.scalars[name]
        assert nbytes == 1
        at = self._places(number)
        return np.where(at != 0, self.memory[at], default).astype(np.uint8)

    def strings(self, name: str) -> tuple[Int64s, Int64s]:
        """Return start and stop of each string, inside the memory and before a zero byte; 0 and 0 where it is absent."""
        targets = self._targets(self._shape.strings[name][0])
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
        for discriminant in np.unique(discriminants).tolist():
            shape = members.get(discriminant)
            if shape is None:
                raise Unusual
            own = np.flatnonzero(discriminants == discriminant)
            yield discriminant, own, ManyTables(self._walk, shape, targets[own], self._depth + 1)

    def distinct(self) -> Iterator[tuple[reader.TableView, Int64s]]:
        """Yield a view of each table that differs in its inline bytes, and the numbers of all that are like it.

        Tables with references are all different: what they refer to is elsewhere.
        """
        alone = self.has_references()
        for number in np.flatnonzero(alone).tolist():
            yield self.view(int(self._positions[number])), np.array([number])
        for layout, nbytes in enumerate(self.inline_nbytes.tolist()):
            own = np.flatnonzero((self.layout_of == layout) & ~alone)
            if not len(own):
                continue
            if nbytes == 4:
                yield self.view(int(self._positions[own[0]])), own
                continue
            demand(nbytes <= _MOST_INLINE_NBYTES)
            rows = self.memory[self._positions[own, None] + np.arange(4, nbytes)]
            if (rows == rows[0]).all():
                yield self.view(int(self._positions[own[0]])), own
                continue
            _, some, like = np.unique(
                np.ascontiguousarray(rows).view(f"V{nbytes - 4}").ravel(), return_index=True, return_inverse=True
            )
            for kind, first in enumerate(some.tolist()):
                yield self.view(int(self._positions[own[first]])), own[like == kind]

    def _places(self, number: int) -> Int64s:
        """Return the place of a slot in each table; 0 where it is absent."""
        inside = self._slots[self.layout_of, number]
        places: Int64s = np.where(inside != 0, self._positions + inside, 0)
        return places

    def _targets(self, number: int) -> Int64s:
        """Return the target of a reference in each table, at least four bytes; 0 where it is absent."""
        at = self._places(number)
        references = np.where(at != 0, self._words[at >> 2], 0).astype(np.int64)
        demand((at == 0) | ((references != 0) & (references & 3 == 0) & (at + references <= self._walk.last)))
        targets: Int64s = np.where(at != 0, at + references, 0)
        return targets
