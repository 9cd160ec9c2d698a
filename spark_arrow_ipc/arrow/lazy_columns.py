"""Columns of a wide record batch, whose arrays are made when they are first asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import overload

from spark_arrow_ipc.arrow.array import Array


class LazyColumns(Sequence[Array]):
    """A sequence of arrays, each of which is made when it is first asked for, and kept.

    Parameters
    ----------
    columns
        Arrays that exist already, and None for each of the others.
    make
        Returns the arrays of some positions. They must be sound: making one raises no error.
    """

    __slots__ = ("_columns", "_make")

    def __init__(self, columns: Sequence[Array | None], make: Callable[[Sequence[int]], Sequence[Array]]) -> None:
        self._columns = list(columns)
        self._make = make

    def __len__(self) -> int:
        return len(self._columns)

    @overload
    def __getitem__(self, position: int) -> Array: ...

    @overload
    def __getitem__(self, position: slice) -> tuple[Array, ...]: ...

    def __getitem__(self, position: int | slice) -> Array | tuple[Array, ...]:
        if isinstance(position, slice):
            return self.some(range(*position.indices(len(self._columns))))
        column = self._columns[position]
        if column is None:
            position %= len(self._columns)
            (column,) = self._make((position,))
            self._columns[position] = column
        return column

    def __iter__(self) -> Iterator[Array]:
        return iter(self.some(range(len(self._columns))))

    def made(self, position: int) -> Array | None:
        """Return the array at a position, or None if it has not been asked for."""
        return self._columns[position]

    def some(self, positions: Sequence[int]) -> tuple[Array, ...]:
        """Return the arrays at some positions, in that order."""
        missing = [i for i in positions if self._columns[i] is None]
        for i, made in zip(missing, self._make(missing) if missing else (), strict=True):
            self._columns[i] = made
        # None of them is None any more, which a type checker does not see.
        return tuple(column for i in positions if (column := self._columns[i]) is not None)

    def __repr__(self) -> str:
        return f"<{len(self):,} columns>"


def pick(columns: Sequence[Array], positions: Sequence[int]) -> Sequence[Array]:
    """Return the columns at some positions, in that order; of lazy ones, none is made."""
    if not isinstance(columns, LazyColumns):
        return tuple(columns[i] for i in positions)
    made = [columns.made(i) for i in positions]
    return LazyColumns(made, lambda asked: columns.some([positions[i] for i in asked]))
