"""The dictionaries that a writer writes: unified, so that a file has one for each field, or replaced, in a stream.

Strategy
--------
Each batch of a dictionary-encoded column may have its own dictionary. A file can have only one, which later batches
extend. `UnifiedDictionaries` keeps for each dictionary id the distinct values so far (`GrowingDictionary`), inner
dictionaries before those that hold them. The indices of a batch are remapped unless its dictionary is a prefix of
those values, or they are a prefix of it. In a stream a dictionary may also be replaced (`ReplacedDictionaries`).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.equality import as_bits
from spark_arrow_ipc.arrow.kernels import compare
from spark_arrow_ipc.arrow.kernels.concat import concat
from spark_arrow_ipc.arrow.kernels.growing_dictionary import GrowingDictionary, most_values, moved_indices
from spark_arrow_ipc.errors import UnsupportedError
from spark_arrow_ipc.ipc.columns.plan import Plan, Step, nested_dictionaries
from spark_arrow_ipc.ipc.columns.walker import walk_arrays


class DueDictionary(NamedTuple):
    """A dictionary batch that is to be written next."""

    id: int
    plan: Plan
    values: Array
    is_delta: bool = False


class UnifiedDictionaries:
    """The dictionaries of one file or stream as they grow."""

    def __init__(self) -> None:
        self._growing: dict[int, GrowingDictionary] = {}
        self._written: dict[int, int] = {}
        """The number of values of each id that `due` has given."""

    def due(self, plan: Plan) -> Iterator[DueDictionary]:
        """Yield the dictionaries that have grown, inner ones before outer ones: whole at first, then as deltas.

        What holds a dictionary, or is in one, has no deltas, which pyarrow refuses.
        """
        whole = nested_dictionaries(plan)
        for dictionary_id, growing in ((i, self._growing[i]) for i in plan.dictionaries if i in self._growing):
            written = self._written.get(dictionary_id)
            if written == growing.length:
                continue
            is_delta = written is not None and dictionary_id not in whole
            values = growing.since(written or 0) if is_delta else growing.values
            self._written[dictionary_id] = growing.length
            yield DueDictionary(dictionary_id, plan.dictionaries[dictionary_id], values, is_delta)

    def nbytes_due(self) -> tuple[int, int]:
        """Return the number of dictionaries that have grown, and the approximate bytes of their new values."""
        written = ((growing, self._written.get(i, 0)) for i, growing in self._growing.items())
        nbytes = [growing.nbytes_since(length) for growing, length in written if growing.length > length]
        return len(nbytes), sum(nbytes)

    def lengths(self) -> dict[int, int]:
        """Return the number of values of all ids so far, for `forget`."""
        return {dictionary_id: growing.length for dictionary_id, growing in self._growing.items()}

    def forget(self, lengths: dict[int, int]) -> None:
        """Restore the values that `lengths` counted, before a batch that is not written."""
        self._growing = {
            dictionary_id: GrowingDictionary(self._growing[dictionary_id].values.slice(0, length), _joined)
            for dictionary_id, length in lengths.items()
        }

    def unify(self, plan: Plan, columns: Sequence[Array]) -> tuple[Array, ...]:
        """Return the columns with indices into the unified dictionaries, at every depth.

        The arrays keep the dictionaries that they brought; the unified ones are those of `due`.
        """
        if not plan.dictionaries:
            return tuple(columns)
        steps = iter(plan.steps)
        return tuple(self._unify(plan, steps, column, is_inner=False) for column in columns)

    def _unify(self, plan: Plan, steps: Iterator[Step], array: Array, *, is_inner: bool) -> Array:
        step = next(steps)
        children = tuple(self._unify(plan, steps, child, is_inner=is_inner) for child in array.children)
        if children != array.children:
            array = replace(array, children=children)
        if step.dictionary_id is None:
            return array
        assert array.dictionary is not None
        assert isinstance(step.type, t.Dictionary)
        values = plan.dictionaries[step.dictionary_id]
        brought = array.dictionary
        if values.dictionaries:
            brought = self._unify(values, iter(values.steps), brought, is_inner=True)
        growing = self._growing.get(step.dictionary_id)
        if growing is None:
            growing = self._growing[step.dictionary_id] = GrowingDictionary(brought, _joined)
        try:
            positions = growing.add(brought, most_values(step.type), keeps_order=step.type.ordered)
        except ValueError as error:
            raise UnsupportedError(str(error), field_path=step.path) from None
        if positions is not None:
            array = moved_indices(array, positions)
        # The values of an outer dictionary are compared by what their indices stand for.
        return replace(array, dictionary=growing.values) if is_inner else array


class ReplacedDictionaries:
    """The dictionaries of a stream as last written: each stays until another one comes."""

    def __init__(self) -> None:
        self._written: dict[int, Array] = {}

    def due(self, plan: Plan, columns: Iterable[Array]) -> Generator[DueDictionary, None, bool]:
        """Yield the dictionaries of some columns that are new or others than before, inner ones before outer ones."""
        replaces = False
        for step, array in walk_arrays(plan, columns):
            if step.dictionary_id is not None:
                assert array.dictionary is not None
                values = plan.dictionaries[step.dictionary_id]
                replaces |= yield from self._due(step.dictionary_id, values, array.dictionary)
        return replaces

    def _due(self, dictionary_id: int, plan: Plan, values: Array) -> Generator[DueDictionary, None, bool]:
        before = self._written.get(dictionary_id)
        if before is values:
            return False
        # Equal values have other indices once an inner dictionary is replaced.
        replaces = yield from self.due(plan, (values,))
        if before is not None:
            shared = min(before.length, values.length)
            ours, theirs = (as_bits(side.slice(0, shared)) for side in (before, values))
            if not replaces and values.length <= before.length and compare.difference(ours, theirs) is None:
                return False
            replaces = True
        self._written[dictionary_id] = values
        yield DueDictionary(dictionary_id, plan, values)
        return replaces


def _joined(parts: Sequence[Array]) -> Array:
    """Return parts of a dictionary as one array; the inner dictionaries of the last one begin with those before."""
    return concat([*(_with_dictionaries_of(parts[-1], part) for part in parts[:-1]), parts[-1]])


def _with_dictionaries_of(last: Array, part: Array) -> Array:
    children = tuple(map(_with_dictionaries_of, last.children, part.children))
    return replace(part, children=children, dictionary=last.dictionary)
