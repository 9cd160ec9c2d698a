"""Answer aggregates of files by the logs of their tables, so that a task opens none of them.

A log has the rows of each managed file, and the statistics of its columns in the form that a footer has for each record batch.
So the files of a task that are of one partition are answered as the record batches of one file are. A managed file never
changes: what any state of the table says of it is true. Files that the log does not have, or not with what is needed, are opened.

A process reads a state once, and from then on only newer entries. Where Spark starts a process for each task, that would take
longer than to open its files, so that it opens them.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from spark_arrow_ipc.arrow import array_data
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.kernels.take import take
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.dataset.scan.error_policy import STRICT
from spark_arrow_ipc.dataset.scan.file_range import FileRange
from spark_arrow_ipc.dataset.statistics.format import Leaf, Path
from spark_arrow_ipc.dataset.statistics.read import BlockStatistics, ColumnStatistics, column_statistics
from spark_arrow_ipc.errors import ArrowIpcError
from spark_arrow_ipc.spark.options.read_options import ReadOptions
from spark_arrow_ipc.storage.paths import join
from spark_arrow_ipc.table.encoded_schema import decode_schema
from spark_arrow_ipc.table.log import read_newer, read_state
from spark_arrow_ipc.table.names import TableDirectory
from spark_arrow_ipc.table.state import State

AnswerFiles = Callable[[Schema, Sequence[int], FileRange, Sequence[t.Field], "BlockStatistics | None"], frozenset[int]]
"""`Answers.answer_files` of the reader."""

_TYPES: Final = (t.Int, t.Bool, t.Decimal, t.Date, t.Timestamp, t.FloatingPoint, t.Utf8, t.Binary)
"""Types of columns that are answered. An 8-bit integer is not: in some file it may be stored for a boolean (``arrow.bool8``)."""


@dataclass(frozen=True, slots=True)
class _Table:
    """A state, the columns of its files that are answered with their statistics, and the position of each file in it."""

    root: str
    state: State
    columns: Mapping[str, tuple[t.Field, Array]]
    positions: Mapping[str, int]


_READ: Final[dict[str, _Table]] = {}
"""The table that this process has read, by its path: one at most."""


def answer_by_logs(
    answer: AnswerFiles,
    names: Collection[str],
    options: ReadOptions,
    *,
    roots: Sequence[str],
    ranges: Sequence[FileRange],
    fields: Sequence[t.Field],
) -> tuple[FileRange, ...]:
    """Answer what the logs of tables can of some columns, and return the ranges that must be read."""
    left = tuple(ranges)
    # Only a process that lives for several tasks reads a log.
    if reads_all(options) and os.environ.get("SPARK_REUSE_WORKER"):
        for table in _tables(options, roots):
            left = _answer(answer, names, table, left, fields)
    return left


def reads_all(options: ReadOptions) -> bool:
    """Return True if no option skips, adds or changes rows: a read then gives all rows of the files, as they are."""
    return options.tensors is None and options.column_paths is None and options.error_policy == STRICT


def _tables(options: ReadOptions, roots: Sequence[str]) -> Iterator[_Table]:
    for root in roots:
        try:
            table = _read(TableDirectory(options.path_storage, root))
        except (ArrowIpcError, OSError):  # the files were planned all the same, and are there
            continue
        if table is not None:
            yield table


def _read(directory: TableDirectory) -> _Table | None:
    before = _READ.get(directory.root)
    state = read_state(directory) if before is None else read_newer(directory, before.state)
    if before is not None and state is not None and state.entry == before.state.entry:
        return before
    _READ.clear()
    schema = None if state is None else decode_schema(state.schema, directory.root)
    if state is None or schema is None:
        return None
    positions = {join(directory.root, path): i for i, path in enumerate(state.files.paths)}
    _READ[directory.root] = _Table(directory.root, state, _columns(state, schema), positions)
    return _READ[directory.root]


def answered_columns(state: State, root: str) -> set[str]:
    """Return the names of a table's columns of which its log answers aggregates, as the table has them."""
    schema = decode_schema(state.schema, root)
    return set() if schema is None else {field.name for field, _ in _columns(state, schema).values()}


def _columns(state: State, schema: Schema) -> dict[str, tuple[t.Field, Array]]:
    """Return the columns that are answered, by name, with their statistics of all files."""
    statistics = state.files.statistics
    of_fields = {} if statistics is None else dict(zip(statistics.schema.fields, statistics.columns, strict=True))
    n_fields = Counter(field.name.casefold() for field in schema.fields)
    return {
        field.name.casefold(): (field, of_fields[leaf])
        for field in schema.fields
        if isinstance(field.type, _TYPES) and field.type != t.int8 and field.extension_name is None
        if n_fields[field.name.casefold()] == 1 and (leaf := Leaf((field.name,), (), field.type).field()) in of_fields
    }


def _answer(
    answer: AnswerFiles,
    names: Collection[str],
    table: _Table,
    ranges: Sequence[FileRange],
    fields: Sequence[t.Field],
) -> tuple[FileRange, ...]:
    """Answer what one table's log can, and return the ranges that must be read."""
    required = {name.casefold() for name in names} - {field.name.casefold() for field in fields}
    if not required <= table.columns.keys():
        return tuple(ranges)
    columns = [table.columns[name] for name in sorted(required)]
    answered: set[int] = set()
    for group in _groups(table, ranges, [statistics for _, statistics in columns]):
        slots = np.array([slot for _, slot in group])
        rows = table.state.files.rows[slots].tolist()
        try:
            of_columns: dict[Path, ColumnStatistics] = {
                (field.name,): column_statistics(take(statistics, slots), (field.name,), field.type, rows)
                for field, statistics in columns
            }
        except (ValueError, KeyError):  # they contradict each other
            continue
        schema = Schema.of([field for field, _ in columns])
        of_files = BlockStatistics(tuple(rows), of_columns) if columns else None
        numbers = answer(schema, tuple(rows), ranges[group[0][0]], fields, of_files)
        answered.update(group[number][0] for number in numbers)
    return tuple(part for i, part in enumerate(ranges) if i not in answered)


def _groups(table: _Table, ranges: Sequence[FileRange], columns: Sequence[Array]) -> list[list[tuple[int, int]]]:
    """Return the ranges that the log answers, by their partitions: the position of each, and of its file in the state."""
    files, has_all = table.state.files, np.ones(len(table.state.files), np.bool_)
    for valid in map(array_data.validity_mask, columns):
        has_all &= True if valid is None else valid
    groups: dict[tuple[object, ...], list[tuple[int, int]]] = {}
    for i, part in enumerate(ranges):
        slot = table.positions.get(part.path, -1)
        # A part of a file is answered by its headers.
        is_complete = part.start is None and part.rows is None and part.grows is None
        if slot >= 0 and is_complete and has_all[slot] and files.nbytes[slot] == part.nbytes:
            groups.setdefault(part.partition, []).append((i, slot))
    return list(groups.values())
