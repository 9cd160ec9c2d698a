"""Statistics in the format's own schema (StatisticsSchema.rst), for programs that know it and not our footer.

One row for the table and one for each column: its index in the order of field nodes, and a map from the names of
statistics to values, which are a dense union with a child for each type that is needed. Names are Arrow's, and one in our
own namespace for NaN, which bounds leave out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final, TypeAlias

import numpy as np

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.dataset.predicate.coercion import order_key
from spark_arrow_ipc.dataset.predicate.expressions import Raw
from spark_arrow_ipc.dataset.statistics.format import MAX, MIN, NAN_COUNT, NULL_COUNT, ROW_COUNT, Path, array_of, leaves
from spark_arrow_ipc.dataset.statistics.read import BlockStatistics, ColumnStatistics, file_statistics
from spark_arrow_ipc.ipc.bytes.source import Openable
from spark_arrow_ipc.ipc.columns.projection import known_columns

DISTINCT_COUNT: Final = "ARROW:distinct_count:exact"

Bound: TypeAlias = tuple[Raw, bool] | None
"""A bound, and whether it is a value of the column, not one that was cut."""

_Value: TypeAlias = tuple[str, t.DataType, Raw]
"""The name of a statistic, its type and its value."""


@dataclass(slots=True, kw_only=True)
class Totals:
    """Counts and bounds of one column over record batches; None where they are not known."""

    nulls: int | None = 0
    nans: int | None = 0
    least: Bound = None
    greatest: Bound = None

    def add(self, column: ColumnStatistics) -> None:
        """Add the statistics of further record batches."""
        if self.nulls is not None:
            self.nulls += sum(column.null_counts)
        is_known = self.nans is not None and None not in column.nan_counts
        self.nans = (self.nans or 0) + sum(map(int, filter(None, column.nan_counts))) if is_known else None
        self.least = _best(min, self.least, column.least, column.least_exact)
        self.greatest = _best(max, self.greatest, column.greatest, column.greatest_exact)


def _best(best: Any, so_far: Bound, values: Sequence[Raw | None], exact: Sequence[bool]) -> Bound:
    bounds = [(value, is_exact) for value, is_exact in zip(values, exact, strict=True) if value is not None]
    candidates = [*bounds, *([] if so_far is None else [so_far])]
    bound: Bound = best(candidates, key=lambda bound: order_key(bound[0]), default=None)
    return bound


@dataclass(frozen=True, slots=True)
class Described:
    """The statistics of a column: where it is, the type of its bounds, and what is known of it."""

    positions: tuple[int, ...]  # of the top-level column, then of the field in each struct
    type: t.DataType
    totals: Totals
    distinct: int | None = None


def statistics_batch(schema: Schema, rows: int, columns: Sequence[Described]) -> RecordBatch:
    """Return the statistics of a table's columns as a record batch of Arrow's statistics schema."""
    nodes = dict(_nodes(schema.fields))
    columns = sorted(columns, key=lambda column: nodes[column.positions])
    index = array_of([None, *(nodes[column.positions] for column in columns)], t.int32)
    stored = _map([[(ROW_COUNT, t.int64, rows)], *(list(_values(column)) for column in columns)])
    fields = (t.Field("column", t.int32), t.Field("statistics", stored.type, nullable=False))
    return RecordBatch(Schema(fields), (index, stored), index.length)


def statistics(source: Openable, *, storage: Mapping[str, str] | None = None) -> RecordBatch | None:
    """Return what the footer of a file knows of its columns, in Arrow's statistics schema.

    The record batch has a row for the table, with the number of its rows, and one for each column that has statistics: nulls,
    NaN, and bounds, which are ``approximate`` where they were cut, because they are long. It is lent to other libraries
    without a copy (``pyarrow.record_batch(statistics(path))``). Reads the footer and headers, and no body.

    Parameters
    ----------
    source
        As `spark_arrow_ipc.ipc.open` takes it.
    storage
        Options of an object store, as `spark_arrow_ipc.ipc.open` takes them.

    Returns
    -------
    RecordBatch or None
        None if the file has no statistics, or they are not those of its record batches; a warning says the latter.

    Raises
    ------
    ArrowIpcError
        The file is broken, or no Arrow file.
    """
    with ipc.open(source, columns=known_columns, storage=storage) as reader:
        stored = file_statistics(reader) if reader.is_numbered else None
        schema = reader.file_schema
    return None if stored is None else _of_file(schema, stored)


def _of_file(schema: Schema, stored: BlockStatistics) -> RecordBatch:
    described = []
    positions: dict[Path, tuple[int, ...]] = {leaf.path: leaf.positions for leaf in leaves(schema)}
    for path, column in stored.columns.items():
        totals = Totals()
        totals.add(column)
        described.append(Described(positions[path], column.type, totals))
    return statistics_batch(schema, sum(stored.row_counts), described)


def _nodes(fields: Sequence[t.Field]) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield the positions of each field of structs, and its index in the order of field nodes."""
    node = 0

    def walk(fields: Sequence[t.Field], above: tuple[int, ...] | None) -> Iterator[tuple[tuple[int, ...], int]]:
        nonlocal node
        for i, field in enumerate(fields):
            positions = None if above is None else (*above, i)
            if positions is not None:
                yield positions, node
            node += 1
            # What lies inside of lists and maps has nodes, and no positions.
            yield from walk(field.type.children, positions if isinstance(field.type, t.Struct) else None)

    return walk(fields, ())


def _values(column: Described) -> Iterator[_Value]:
    totals = column.totals
    if totals.nulls is not None:
        yield NULL_COUNT, t.int64, totals.nulls
    if totals.nans is not None and isinstance(column.type, t.FloatingPoint):
        yield NAN_COUNT, t.int64, totals.nans
    if column.distinct is not None:
        yield DISTINCT_COUNT, t.int64, column.distinct
    for bound, (exact, cut) in ((totals.greatest, MAX), (totals.least, MIN)):
        if bound is not None:
            yield exact if bound[1] else cut, column.type, bound[0]


def _map(rows: Sequence[Sequence[_Value]]) -> Array:
    """Return a map for each row, from names to a dense union of values."""
    entries = [value for row in rows for value in row]
    names = list(dict.fromkeys(name for name, _, _ in entries))
    types = list(dict.fromkeys(type_ for _, type_, _ in entries))
    ids = [types.index(type_) for _, type_, _ in entries]
    of_type = [[value for _, type_, value in entries if type_ == wanted] for wanted in types]
    seen = [0] * len(types)
    places = []
    for id_ in ids:
        places.append(seen[id_])
        seen[id_] += 1
    union = t.DenseUnion(tuple(t.Field(str(type_), type_) for type_ in types), tuple(range(len(types))))
    children = tuple(array_of(values, type_) for values, type_ in zip(of_type, types, strict=True))
    items = Array(union, len(entries), 0, (_buffer(ids, np.int8), _buffer(places, np.int32)), children)
    key_type = t.dictionary(t.int32, t.utf8)
    indices = _buffer([names.index(name) for name, _, _ in entries], np.int32)
    keys = Array(key_type, len(entries), 0, (None, indices), (), array_of([name.encode() for name in names], t.utf8))
    pair = t.Struct((t.Field("key", key_type, nullable=False), t.Field("items", union, nullable=False)))
    struct = Array(pair, len(entries), 0, (None,), (keys, items))
    ends = _buffer([0, *accumulate(map(len, rows))], np.int32)
    type_ = t.Map(t.Field("entries", pair, nullable=False))
    return Array(type_, len(rows), 0, (None, ends), (struct,))


def _buffer(values: Sequence[int], dtype: type[np.signedinteger[Any]]) -> memoryview:
    return memoryview(np.array(values, dtype).tobytes())
