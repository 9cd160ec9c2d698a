"""Unify the dictionaries of record batches, so that a file has one for each field.

Strategy
--------
Each batch of a dictionary-encoded column may have its own dictionary. A file can have only one, which later batches
extend. `UnifiedDictionaries` keeps for each dictionary id the distinct values so far, in the order of their first use.
The indices of a batch are remapped unless its dictionary is a prefix of those values, or they are a prefix of it.
Values are compared as Python values, once for each dictionary; indices are remapped in numpy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.arrow import numpy_views
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.kernels import compare, concat
from spark_arrow_ipc.arrow.kernels import slice as slicing
from spark_arrow_ipc.arrow.python_values import from_pylist
from spark_arrow_ipc.ipc.plan import Plan, Step

Mapping: TypeAlias = npt.NDArray[np.int64] | None
"""The unified index of each index of one dictionary; None if they are the same."""


@dataclass(slots=True)
class _Unified:
    """The values of one dictionary id, and the position of each."""

    values: Array
    positions: dict[object, int] = field(default_factory=dict)
    counted: int = 0
    """The number of `values` that are in `positions`."""
    last: Array | None = None
    last_mapping: Mapping = None

    def mapping(self, brought: Array, most: int) -> Mapping:
        """Add the values of a dictionary, up to `most` in all; return their positions."""
        if brought is not self.last:
            self.last_mapping = self._mapping(brought, most)
            self.last = brought
        return self.last_mapping

    def _mapping(self, brought: Array, most: int) -> Mapping:
        shared = min(brought.length, self.values.length)
        if compare.difference(brought.slice(0, shared), self.values.slice(0, shared)) is None:
            if brought.length > shared:
                self.values = brought
            return None
        self._count()
        mapping = np.empty(brought.length, np.int64)
        fresh: dict[object, int] = {}
        new: list[int] = []
        for i, value in enumerate(brought.to_pylist()):
            key = from_pylist.value_key(value)
            position = self.positions.get(key)
            if position is None:
                position = fresh.setdefault(key, self.values.length + len(new))
                if position == self.values.length + len(new):
                    new.append(i)
            mapping[i] = position
        if self.values.length + len(new) > most:
            raise ValueError(
                f"the batches bring {self.values.length + len(new):,} different values, and its indices count {most:,}; "
                "give the field a wider index type"
            )
        self.values = concat.concat([self.values, *(brought.slice(a, b - a) for a, b in _runs(new))])
        self.positions |= fresh
        self.counted = self.values.length
        return mapping

    def _count(self) -> None:
        fresh = self.values.slice(self.counted)
        for position, value in enumerate(fresh.to_pylist(), self.counted):
            self.positions.setdefault(from_pylist.value_key(value), position)
        self.counted = self.values.length


def _runs(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield (start, stop) of each run of consecutive numbers."""
    start = 0
    for i, number in enumerate(numbers):
        if i + 1 == len(numbers) or numbers[i + 1] != number + 1:
            yield numbers[start], number + 1
            start = i + 1


class UnifiedDictionaries:
    """The dictionaries of one file or stream as they grow."""

    def __init__(self) -> None:
        self._unified: dict[int, _Unified] = {}

    def values(self, dictionary_id: int) -> Array | None:
        """Return the values of an id so far, or None if there are none."""
        unified = self._unified.get(dictionary_id)
        return None if unified is None else unified.values

    def known(self) -> dict[int, Array]:
        """Return the values of all ids so far, for `forget`."""
        return {dictionary_id: unified.values for dictionary_id, unified in self._unified.items()}

    def forget(self, known: dict[int, Array]) -> None:
        """Restore the values of `known`, from before a batch that is not written."""
        self._unified = {dictionary_id: _Unified(values) for dictionary_id, values in known.items()}

    def unify(self, plan: Plan, columns: Sequence[Array]) -> tuple[Array, ...]:
        """Return the columns with indices into the unified dictionaries, at every depth.

        Raises
        ------
        ValueError
            A dictionary has more values than the field's indices can count.
        """
        if not plan.dictionaries:
            return tuple(columns)
        steps = iter(plan.steps)
        return tuple(self._unify(plan, steps, column) for column in columns)

    def _unify(self, plan: Plan, steps: Iterator[Step], array: Array) -> Array:
        step = next(steps)
        children = tuple(self._unify(plan, steps, child) for child in array.children)
        if children != array.children:
            array = replace(array, children=children)
        if step.dictionary_id is None:
            return array
        assert array.dictionary is not None
        (brought,) = self.unify(plan.dictionaries[step.dictionary_id], (array.dictionary,))
        unified = self._unified.get(step.dictionary_id)
        if unified is None:
            unified = self._unified[step.dictionary_id] = _Unified(brought)
        assert isinstance(step.type, t.Dictionary)
        try:
            mapping = unified.mapping(brought, 2 ** (step.type.index.bit_width - step.type.index.signed))
        except ValueError as error:
            raise ValueError(f"{step.path}: {error}") from error
        values = unified.values
        return replace(array, dictionary=values) if mapping is None else _gathered(array, mapping, values)


def _gathered(array: Array, mapping: npt.NDArray[np.int64], values: Array) -> Array:
    array = slicing.compact(array)
    indices: npt.NDArray[Any] = numpy_views.data_values(array)
    dtype = indices.dtype
    valid = numpy_views.validity_mask(array)
    if valid is not None:
        indices = np.where(valid, indices, 0)
    gathered = mapping[indices] if len(mapping) else np.zeros(array.length, np.int64)
    return replace(array, buffers=(array.buffers[0], gathered.astype(dtype).view(np.uint8).data), dictionary=values)
