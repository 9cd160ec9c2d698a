"""`PartialAggregates`: counts, least and greatest values and sums of batches, by pyarrow in a worker.

How it works
------------
Neighbours with equal keys become one row (`key_runs`), and pyarrow groups batches, small ones together, into rows of partial
values. A task keeps these rows, groups them again when their number has doubled, and yields them before they exceed about
64 MiB. Groups need not be complete, because Spark groups the partial rows: two payloads of NaN may be two groups here.

Sums never wrap. `aggregate` sums integers in 64 bits if the extremes of a batch allow it, and otherwise as decimals
of 38 digits. For decimals, and for all sums of push-down, a bound of the sums is tracked; before it could exceed what a sum
can be, the held rows are yielded. If one batch could exceed it, its rows are passed to Spark without grouping, and Spark's
rules for overflow apply. Sums of decimals of push-down may be larger than the partial column, which has their type: a row
becomes several then (`split_sums`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Context
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from spark_arrow_ipc.spark import bridge
from spark_arrow_ipc.spark.convert import expand, expanded_type
from spark_arrow_ipc.spark.convert.dictionaries import is_same
from spark_arrow_ipc.spark.functions.key_runs import merge_runs
from spark_arrow_ipc.spark.functions.split_sums import MOST_DIGITS, longest_nbytes, split_sums

_MOST_TOGETHER_ROWS: Final = 1 << 19
"""The most rows that are grouped at once, unless one batch has more.

Measured: eight batches of 65,536 rows with 100,000 random strings have 48,000 groups each and 99,500 together, so that
grouping them at once takes 0.6 of the CPU and leaves a quarter of the rows to merge.
"""
_MOST_TOGETHER_NBYTES: Final = 32 << 20
"""The most bytes of batches that are grouped at once, or of their partial values if those are larger."""
_MOST_TOGETHER: Final = 1024
"""The most batches that are grouped at once."""
_VALUE_NBYTES: Final = 16
"""Bytes of the largest partial value."""
_MOST_HELD_ROWS: Final = 1 << 18
_MOST_HELD_NBYTES: Final = 32 << 20
_LEAST_MERGED_ROWS: Final = 1 << 14
_FEW_ROWS: Final = 8
_MOST_ADDED: Final = 0.7
"""A task continues to group while a smaller share than this of a batch's groups is new.

Random keys reach it with about as many groups as three batches have rows.
"""
_LOOK_AGAIN: Final = 32
"""Inputs after which a task that stopped grouping tries again, as keys may repeat later."""
_DIGITS: Final = 38
_ONES: Final = (1 << 63) - 1
_EXACT: Final = Context(prec=100)


@dataclass(frozen=True, slots=True)
class Part:
    """One partial aggregate."""

    function: str  # ``count_all``, ``count``, ``min``, ``max`` or ``sum``
    column: int | None  # position; None for ``count_all``
    # For push-down the type in which Spark merges partial sums: 64 bits, or a decimal; None for the widest of `aggregate`.
    sum_type: pa.DataType | None = None


@dataclass(frozen=True, slots=True)
class PartialRows:
    """Partial rows before they are merged: a table, and the final types of its columns."""

    table: pa.Table
    types: tuple[pa.DataType, ...]


@dataclass(frozen=True, slots=True)
class PartialAggregates:
    """A function from batches to partial rows: keys ``k0...``, then aggregates ``a0...``."""

    keys: tuple[int, ...]  # positions of the columns to group by
    parts: tuple[Part, ...]

    def __call__(
        self, batches: Iterable[pa.RecordBatch], answered: Callable[[], Iterable[PartialRows]] = tuple
    ) -> Iterator[pa.RecordBatch]:
        """Yield the partial rows of batches, then of `answered`, in memory for two batches and about 128 MiB."""
        held: list[pa.Table] = []
        types: tuple[pa.DataType, ...] = ()
        held_rows = held_nbytes = merged_rows = to_pass = 0
        bounds = [0] * len(self.parts)
        repeats = pays = False

        def grouping_pays() -> bool:
            return pays

        for inputs in self._together(batches, grouping_pays):
            types, rows = inputs.types, inputs.table.num_rows
            to_pass -= 1
            # Without grouping: keys repeat only in neighbours, or the sums of these rows could overflow.
            if to_pass > 0 or inputs.exceeds(inputs.bounds):
                yield from self._rows(inputs.merge_runs(), types)
                continue
            sums = _add_bounds(bounds, inputs.bounds)
            if inputs.exceeds(sums):
                yield from self._rows(self._merge(held), types)
                held, held_rows, held_nbytes, merged_rows, sums = [], 0, 0, 0, inputs.bounds
            bounds = sums
            held.append(inputs.reduce())
            # Groups of few rows save little of the transfer to Spark, which groups them anyway. But ten thousand groups have
            # few rows each in one batch and many in a task, so two batches decide.
            is_doubted = not repeats and held[-1].num_rows * _FEW_ROWS > rows >= _LEAST_MERGED_ROWS // 2
            held_rows, held_nbytes = held_rows + held[-1].num_rows, held_nbytes + held[-1].nbytes
            if (
                (is_doubted and len(held) > 1)
                or held_rows > max(_LEAST_MERGED_ROWS, 2 * merged_rows)
                or held_nbytes > 2 * _MOST_HELD_NBYTES
            ):
                merged = self._merge(held)
                if is_doubted and len(held) > 1:
                    added = merged.num_rows - (held_rows - held[-1].num_rows)
                    repeats = added <= _MOST_ADDED * held[-1].num_rows
                    to_pass = 0 if repeats else _LOOK_AGAIN
                    is_doubted = not repeats
                held, held_rows, held_nbytes, merged_rows = [merged], merged.num_rows, merged.nbytes, merged.num_rows
                if merged_rows > _MOST_HELD_ROWS or merged.nbytes > _MOST_HELD_NBYTES:
                    yield from self._rows(merged, types)
                    held, held_rows, held_nbytes, merged_rows, bounds = [], 0, 0, 0, [0] * len(self.parts)
                    repeats = False
            pays = bool(self.keys) and not is_doubted
        for answer in answered():
            held.append(answer.table)
            types = answer.types
        if held:
            yield from self._rows(self._merge(held), types)

    def _together(self, batches: Iterable[pa.RecordBatch], pays: Callable[[], bool]) -> Iterator[_Inputs]:
        """Yield the inputs of batches, several at once while `pays` returns True."""
        waiting: list[_Inputs] = []
        rows = nbytes = 0
        bounds = [0] * len(self.parts)
        for batch in batches:
            if not batch.num_rows:
                continue
            inputs = _Inputs.of(self, batch)
            # A key may keep the memory of all columns, because the columns of a batch may share it.
            size = (
                max(batch.nbytes, _VALUE_NBYTES * batch.num_rows * inputs.table.num_columns)
                + inputs.most_added_nbytes()
            )
            sums = _add_bounds(bounds, inputs.bounds)
            # Asked for each batch: the answer changes as inputs are grouped.
            most_rows = _MOST_TOGETHER_ROWS if pays() else _LEAST_MERGED_ROWS
            if waiting and (
                rows + batch.num_rows > most_rows
                or nbytes + size > _MOST_TOGETHER_NBYTES
                or len(waiting) == _MOST_TOGETHER
                or not inputs.can_join(waiting[0])
                or inputs.exceeds(sums)
            ):
                yield _Inputs.join(waiting, bounds)
                waiting, rows, nbytes, sums = [], 0, 0, inputs.bounds
            waiting.append(inputs)
            rows, nbytes, bounds = rows + batch.num_rows, nbytes + size, sums
            if rows >= most_rows or nbytes >= _MOST_TOGETHER_NBYTES:
                yield _Inputs.join(waiting, bounds)
                waiting, rows, nbytes, bounds = [], 0, 0, [0] * len(self.parts)
        if waiting:
            yield _Inputs.join(waiting, bounds)

    def of_extremes(self, batch: pa.RecordBatch, counts: Mapping[int, int]) -> PartialRows:
        """Return the partial row of one group, from a batch with its extremes and from its counts by part."""
        inputs = _Inputs.of(self, batch)
        table = inputs.reduce()
        for number, row_count in counts.items():
            # The batch has two rows, so its own counts are replaced.
            name = f"a{number}"
            table = table.set_column(table.column_names.index(name), name, bridge.array([row_count], pa.int64()))
        return PartialRows(table, inputs.types)

    def _rows(self, table: pa.Table, types: tuple[pa.DataType, ...]) -> Iterator[pa.RecordBatch]:
        """Yield partial rows in the types of the result."""
        places = {len(self.keys) + i: part for i, part in enumerate(self.parts)}
        limits = {i: 10 ** types[i].precision - 1 for i, part in places.items() if _is_split(part.sum_type)}
        exceeds = any(greatest(table.column(i), types[i].scale) > limit for i, limit in limits.items())
        counts = [i for i, part in places.items() if part.function in ("count", "count_all")]
        for rows in split_sums(table, len(self.keys), limits, counts) if exceeds else (table,):
            yield from _cast_table(rows, types)

    def _merge(self, held: list[pa.Table]) -> pa.Table:
        """Group partial rows again."""
        if len(held) == 1:
            return held[0]
        table = pa.concat_tables(held)
        return _reduce(table, len(self.keys), [_MERGES[part.function] for part in self.parts])


_MERGES: Final = {"count_all": "sum", "count": "sum", "min": "min", "max": "max", "sum": "sum"}
"""By function: pyarrow's function that merges partial values."""


@dataclass(frozen=True, slots=True)
class _Input:
    """The input of one aggregate."""

    values: pa.Array  # one for each row, of a type that pyarrow can sum or compare
    function: str
    type: pa.DataType  # of the partial value
    # For sums: the greatest possible sum of these rows, and the greatest value of the type.
    bound: int = 0
    limit: int = 0


@dataclass(frozen=True, slots=True)
class _Inputs:
    """The columns of one or more batches in the form in which they are aggregated."""

    table: pa.Table  # keys ``k0...``, then inputs ``a0...``
    num_keys: int
    functions: tuple[str, ...]  # for each input
    types: tuple[pa.DataType, ...]  # of the columns of the result
    # For each input, as in `_Input`.
    bounds: list[int]
    limits: list[int]
    # For each key: the values whose indices are in `table`, or None.
    dictionaries: tuple[pa.Array | None, ...]

    @classmethod
    def of(cls, plan: PartialAggregates, batch: pa.RecordBatch) -> _Inputs:
        keys = [batch.column(i) for i in plan.keys]
        indices = [key.indices if pa.types.is_dictionary(key.type) else key for key in keys]
        arrays = [_INPUTS[part.function](batch, part) for part in plan.parts]
        return cls(
            pa.Table.from_arrays(
                [*map(_comparable, indices), *(each.values for each in arrays)],
                [*(f"k{i}" for i in range(len(keys))), *(f"a{i}" for i in range(len(arrays)))],
            ),
            len(keys),
            tuple(each.function for each in arrays),
            (*(expanded_type(key.type) for key in keys), *(each.type for each in arrays)),
            [each.bound for each in arrays],
            [each.limit for each in arrays],
            tuple(_comparable(key.dictionary) if pa.types.is_dictionary(key.type) else None for key in keys),
        )

    @classmethod
    def join(cls, many: list[_Inputs], bounds: list[int]) -> _Inputs:
        """Concatenate inputs without copying; `bounds` are for their sum."""
        return replace(many[0], table=pa.concat_tables([inputs.table for inputs in many]), bounds=bounds)

    def can_join(self, other: _Inputs) -> bool:
        """Return True if equal keys of both have equal values in `table`."""
        pairs = zip(self.dictionaries, other.dictionaries, strict=True)
        return self.table.schema == other.table.schema and all(
            one is other or (one is not None and other is not None and is_same(one, other)) for one, other in pairs
        )

    def most_added_nbytes(self) -> int:
        """Return the most bytes by which `_expand` makes the table larger."""
        longest: int = sum(longest_nbytes(values) for values in self.dictionaries if values is not None)
        return longest * int(self.table.num_rows)

    def _expand(self, table: pa.Table) -> pa.Table:
        """Return rows with the values of their keys."""
        for i, values in enumerate(self.dictionaries):
            if values is not None:
                table = table.set_column(i, table.column_names[i], pc.take(values, table.column(i), boundscheck=False))
        return table

    def exceeds(self, bounds: list[int]) -> bool:
        """Return True if a sum may be more than its type holds."""
        return any(bound > limit for bound, limit in zip(bounds, self.limits, strict=True))

    def merge_runs(self) -> pa.Table:
        """Return one row for neighbours with equal keys, unless a sum may be more than its type holds."""
        return self._expand(self._merge_runs())

    def _merge_runs(self) -> pa.Table:
        return self.table if self.exceeds(self.bounds) else merge_runs(self.table, self.num_keys, self.functions)

    def reduce(self) -> pa.Table:
        """Return one row for each group."""
        table = self._expand(_reduce(self._merge_runs(), self.num_keys, list(self.functions)))
        # Sums of 64 bits are exact for the rows of one call, but may overflow when they are merged.
        columns = [
            column.cast(_wide(type_)) if pa.types.is_decimal(type_) and not pa.types.is_decimal(column.type) else column
            for column, type_ in zip(table.columns, self.types, strict=True)
        ]
        return pa.Table.from_arrays(columns, table.column_names)


def _add_bounds(bounds: list[int], more: list[int]) -> list[int]:
    return [a + b for a, b in zip(bounds, more, strict=True)]


def _cast_table(table: pa.Table, types: tuple[pa.DataType, ...]) -> list[pa.RecordBatch]:
    """Return partial rows as batches, in the types of the result."""
    columns = [_as(column, type_) for column, type_ in zip(table.columns, types, strict=True)]
    batches: list[pa.RecordBatch] = pa.Table.from_arrays(columns, table.column_names).to_batches()
    return batches


def _reduce(table: pa.Table, num_keys: int, functions: list[str]) -> pa.Table:
    """Return one row for each group, in the columns of `table`."""
    keys, inputs = table.column_names[:num_keys], table.column_names[num_keys:]
    if not keys:
        columns = [pa.repeat(pc.call_function(name, [table.column(i)]), 1) for i, name in enumerate(functions)]
        return pa.Table.from_arrays(columns, inputs)
    grouped = table.group_by(keys, use_threads=False).aggregate(list(zip(inputs, functions, strict=True)))
    # The order of these columns differs between releases of pyarrow.
    return pa.Table.from_arrays(
        [
            *(grouped[key] for key in keys),
            *(grouped[f"{name}_{each}"] for name, each in zip(inputs, functions, strict=True)),
        ],
        table.column_names,
    )


def _is_split(type_: pa.DataType | None) -> bool:
    """Return whether sums may be larger than the values of the column that takes them."""
    return type_ is not None and pa.types.is_decimal(type_) and type_.precision <= MOST_DIGITS


def _column(batch: pa.RecordBatch, part: Part) -> pa.Array:
    return expand(batch.column(part.column))


def _extreme(batch: pa.RecordBatch, part: Part) -> _Input:
    column = _column(batch, part)
    return _Input(_comparable(column), part.function, column.type)


def _sum(batch: pa.RecordBatch, part: Part) -> _Input:
    column = _column(batch, part)
    to = part.sum_type
    if pa.types.is_decimal(column.type):
        precision = min(column.type.precision + 10, _DIGITS) if to is None else to.precision
        most = 10**column.type.precision
        limit = _ONES if _is_split(to) else 10**precision - 1  # `split_sums` takes sums of 64 bits
        if most * batch.num_rows > limit:
            most = greatest(column, column.type.scale)
        return _Input(
            relabel(column, _wide(column.type)),
            "sum",
            pa.decimal128(precision, column.type.scale),
            most * batch.num_rows,
            limit,
        )
    if to is not None:
        return _Input(column, "sum", to, greatest(column, 0) * batch.num_rows, _ONES)
    to = pa.decimal128(_DIGITS, 0)
    # At most `_MOST_TOGETHER_ROWS` rows are grouped at once, so a sum overflows only if a value is larger than this.
    if pa.types.is_int64(column.type) and greatest(column, 0) * max(batch.num_rows, _MOST_TOGETHER_ROWS) > _ONES:
        column = column.cast(to)
    return _Input(column, "sum", to)


_INPUTS: Final[Mapping[str, Callable[[pa.RecordBatch, Part], _Input]]] = {
    # Counts are sums of ones, so that they are merged as sums are.
    "count_all": lambda batch, _part: _Input(
        pa.repeat(bridge.scalar(1, pa.int64()), batch.num_rows), "sum", pa.int64()
    ),
    "count": lambda batch, part: _Input(_column(batch, part).is_valid().cast(pa.int8()), "sum", pa.int64()),
    "min": _extreme,
    "max": _extreme,
    "sum": _sum,
}
"""By function: makes its input from a batch."""


def greatest(column: pa.Array, scale: int) -> int:
    """Return the greatest absolute value of a column, unscaled for decimals; 0 without values."""
    extremes = pc.min_max(column).as_py().values()
    return max(
        (abs(int(value.scaleb(scale, _EXACT)) if scale else int(value)) for value in extremes if value is not None),
        default=0,
    )


def _comparable(column: pa.Array) -> pa.Array:
    """Return a column that pyarrow can group and compare."""
    # pyarrow can do neither with durations, so they become numbers.
    return column.view(pa.int64()) if pa.types.is_duration(column.type) else column


def _wide(type_: pa.DataType) -> pa.DataType:
    return pa.decimal128(_DIGITS, type_.scale)


def _as(column: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    """Return a result in its final type: numbers become durations again, decimals get their precision."""
    if column.type == type_:
        return column
    if pa.types.is_duration(type_):
        return pa.chunked_array([chunk.view(type_) for chunk in column.chunks], type_)
    if pa.types.is_decimal(type_) and pa.types.is_decimal(column.type):
        return pa.chunked_array([relabel(chunk, type_) for chunk in column.chunks], type_)
    return column.cast(type_)


def relabel(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return decimals with another precision, without copying."""
    # The bytes do not depend on the precision; a cast would check every value.
    return pa.Array.from_buffers(type_, len(array), array.buffers(), array.null_count, array.offset)
