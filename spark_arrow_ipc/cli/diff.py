"""``arrowipc diff``: compare the schemas and rows of two tables.

Without a key, row 1 is compared with row 1: both tables are read once, a record batch at a time. With ``--key`` rows
that have the same key are compared, wherever they are, and both tables are in memory. Values are compared without their
encoding: a dictionary of strings equals the strings.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from spark_arrow_ipc.arrow.column_path import resolve_exactly
from spark_arrow_ipc.arrow.equality import alike, differ
from spark_arrow_ipc.arrow.kernels.concat import concat_batches
from spark_arrow_ipc.arrow.kernels.order import match_rows
from spark_arrow_ipc.arrow.kernels.take import take_rows
from spark_arrow_ipc.arrow.python_values.to_text import to_text
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.cli.shared import files, terminal
from spark_arrow_ipc.cli.shared.rows import (
    Chosen,
    Table,
    add_row_arguments,
    columns_argument,
    number_of_rows,
    one_table,
)
from spark_arrow_ipc.cli.shared.storages import add_storage_argument
from spark_arrow_ipc.errors import SchemaMismatchError, UnsupportedError, error_context, printable

_Rows: TypeAlias = tuple[RecordBatch, npt.NDArray[np.int64]]
"""A batch, and the numbers of some of its rows."""

_SHOWN: Final = 10
"""Rows that are shown of each kind, by default."""


def diff_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``arrowipc diff``."""
    for name in ("a", "b"):
        parser.add_argument(name, metavar=name.upper(), help="a file, a directory, a pattern, a URI, or - for stdin")
    parser.add_argument("-r", "--recursive", action="store_true", help="also the files below other subdirectories")
    add_storage_argument(parser)
    add_row_arguments(parser)
    parser.add_argument(
        "--key", type=columns_argument, metavar="NAMES",
        help="columns by which rows are matched, in any order; both tables must fit in memory. By default row 1 is "
        "compared with row 1",
    )  # fmt: skip
    parser.add_argument(
        "--limit", type=number_of_rows, default=_SHOWN, metavar="ROWS", help=f"rows to show (default: {_SHOWN})"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object")


@dataclass(slots=True)
class _Difference:
    """The differences of two tables."""

    schema: list[str]
    rows_a: int = 0
    rows_b: int = 0
    differing: int = 0
    only_a: int = 0
    only_b: int = 0
    columns: dict[str, int] = field(default_factory=dict)
    # The row or key, the column, both values; not more than --limit
    shown: list[tuple[str, str, Any, Any]] = field(default_factory=list)

    @property
    def is_any(self) -> bool:
        return bool(self.schema or self.differing or self.only_a or self.only_b)


@dataclass(frozen=True, slots=True)
class _Common:
    """The columns that can be compared: their names, and their positions in each table."""

    names: tuple[str, ...]
    in_a: tuple[int, ...]
    in_b: tuple[int, ...]


def run_diff(arguments: argparse.Namespace) -> int:
    """Print what differs; return 1 if anything does."""
    chosen = Chosen.of(arguments)
    sides = [
        list(files.each_input([path], recursive=arguments.recursive, columns=True, storage=arguments.storage))
        for path in (arguments.a, arguments.b)
    ]
    with one_table(sides[0], chosen) as a, one_table(sides[1], chosen) as b:
        common, sentences = _common(a.schema, b.schema)
        difference = _Difference(sentences)
        if arguments.key is None:
            _by_position(difference, a, b, common, arguments.limit)
        else:
            _by_key(difference, a, b, common, arguments)
    print(
        terminal.json_line(_to_json(difference))
        if arguments.json
        else "\n".join(terminal.fit_lines(_describe(difference, arguments)))
    )
    return int(difference.is_any)


def _common(a: Schema, b: Schema) -> tuple[_Common, list[str]]:
    """Return the columns of both, and sentences about what differs."""
    of_a, of_b = _places(a), _places(b)
    sentences = [f"only A has the column {name}: {a.fields[i].type}" for (name, _), i in _beside(of_a, of_b)]
    sentences += [f"only B has the column {name}: {b.fields[i].type}" for (name, _), i in _beside(of_b, of_a)]
    names, in_a, in_b = [], [], []
    for key, i in of_a.items():
        j = of_b.get(key)
        if j is None:
            continue
        ours, theirs = a.fields[i], b.fields[j]
        if ours.type != theirs.type:
            sentences.append(f"{key[0]} is {ours.type} in A, {theirs.type} in B")
        elif ours.nullable != theirs.nullable:
            sentences.append(
                f"{key[0]} is {'' if ours.nullable else 'not '}nullable in A, {'' if theirs.nullable else 'not '}in B"
            )
        if alike(ours.type) == alike(theirs.type):
            names.append(key[0])
            in_a.append(i)
            in_b.append(j)
    shared = [key for key in of_a if key in of_b]
    if shared != [key for key in of_b if key in of_a]:
        sentences.append("the columns are in another order")
    if sorted(a.custom_metadata) != sorted(b.custom_metadata):
        sentences.append("the custom metadata of the schemas differs")
    return _Common(tuple(names), tuple(in_a), tuple(in_b)), sentences


def _places(schema: Schema) -> dict[tuple[str, int], int]:
    """Return the position of each column by its name, and how many of that name come before it."""
    places: dict[tuple[str, int], int] = {}
    times: dict[str, int] = {}
    for i, name in enumerate(schema.names):
        places[name, times.get(name, 0)] = i
        times[name] = times.get(name, 0) + 1
    return places


def _beside(
    places: dict[tuple[str, int], int], other: dict[tuple[str, int], int]
) -> Iterator[tuple[tuple[str, int], int]]:
    return ((key, i) for key, i in places.items() if key not in other)


def _by_position(difference: _Difference, a: Table, b: Table, common: _Common, most: int) -> None:
    for ours, theirs in _align(difference, a, b):
        rows = np.arange(ours.num_rows)
        names = partial(_row_name, difference.rows_a - ours.num_rows)
        _compare(difference, (ours, rows), (theirs, rows), common, name_of=names, most=most)
    difference.only_a = max(difference.rows_a - difference.rows_b, 0)
    difference.only_b = max(difference.rows_b - difference.rows_a, 0)


def _row_name(start: int, row: int) -> str:
    return f"row {start + int(row):,}"


def _align(difference: _Difference, a: Table, b: Table) -> Iterator[tuple[RecordBatch, RecordBatch]]:
    """Yield pairs of equally many rows; count the rows of both, and the rest of the longer one."""
    sources = (batch for batch in a.batches if batch.num_rows), (batch for batch in b.batches if batch.num_rows)
    held = [next(source, None) for source in sources]
    while held[0] is not None and held[1] is not None:
        rows = min(held[0].num_rows, held[1].num_rows)
        difference.rows_a += rows
        difference.rows_b += rows
        yield held[0].slice(0, rows), held[1].slice(0, rows)
        for i, batch in enumerate(held):
            assert batch is not None
            held[i] = batch.slice(rows) if batch.num_rows > rows else next(sources[i], None)
    difference.rows_a += sum(batch.num_rows for batch in (held[0], *sources[0]) if batch is not None)
    difference.rows_b += sum(batch.num_rows for batch in (held[1], *sources[1]) if batch is not None)


def _by_key(difference: _Difference, a: Table, b: Table, common: _Common, arguments: argparse.Namespace) -> None:
    with error_context(asked_by="--key"):
        keys = [[position for (position,) in resolve_exactly(table.schema.fields, arguments.key)] for table in (a, b)]
    for i, j in zip(*keys, strict=True):
        if a.schema.fields[i].type != b.schema.fields[j].type:
            raise SchemaMismatchError(
                f"the key {a.schema.names[i]} is {a.schema.fields[i].type} in A, {b.schema.fields[j].type} in B; keys must "
                "have one type"
            )
    ours, theirs = _whole(a), _whole(b)
    matches = match_rows([ours.columns[i] for i in keys[0]], [theirs.columns[j] for j in keys[1]])

    def name_of(batch: RecordBatch, columns: Sequence[int], row: int) -> str:
        values = [to_text(batch.columns[i].slice(row, 1))[0] for i in columns]
        return ", ".join(f"{batch.schema.names[i]} {_text(value)}" for i, value in zip(columns, values, strict=True))

    difference.rows_a, difference.rows_b = ours.num_rows, theirs.num_rows
    difference.only_a, difference.only_b = len(matches.only_a), len(matches.only_b)
    _compare(
        difference, (ours, matches.in_a), (theirs, matches.in_b), common,
        name_of=lambda pair: name_of(ours, keys[0], int(matches.in_a[pair])), most=arguments.limit,
    )  # fmt: skip
    for batch, rows, columns, side in ((ours, matches.only_a, keys[0], "A"), (theirs, matches.only_b, keys[1], "B")):
        difference.shown += (
            (name_of(batch, columns, int(row)), f"only in {side}", None, None) for row in rows[: arguments.limit]
        )


def _whole(table: Table) -> RecordBatch:
    batches = list(table.batches)
    if not batches:
        return RecordBatch.from_pylist([], table.schema)
    try:
        return concat_batches(batches)
    except ValueError as error:
        raise UnsupportedError(f"the rows cannot be matched together: {error}; choose some by --where") from error


def _compare(
    difference: _Difference, of_a: _Rows, of_b: _Rows, common: _Common, *, name_of: Callable[[int], str], most: int
) -> None:
    """Compare pairs of rows, column by column."""
    (a, rows_a), (b, rows_b) = of_a, of_b
    any_differs = np.zeros(len(rows_a), np.bool_)
    for name, i, j in zip(common.names, common.in_a, common.in_b, strict=True):
        differs = differ(a.columns[i], rows_a, b.columns[j], rows_b)
        any_differs |= differs
        count = int(np.count_nonzero(differs))
        if not count:
            continue
        difference.columns[name] = difference.columns.get(name, 0) + count
        pairs = np.flatnonzero(differs)[: max(most - len(difference.shown), 0)]
        one = take_rows(a.select([i]), rows_a[pairs]).columns[0]
        other = take_rows(b.select([j]), rows_b[pairs]).columns[0]
        difference.shown += (
            (name_of(pair), name, ours, theirs)
            for pair, ours, theirs in zip(pairs, to_text(one), to_text(other), strict=True)
        )
    difference.differing += int(np.count_nonzero(any_differs))


def _describe(difference: _Difference, arguments: argparse.Namespace) -> Iterator[str]:
    yield f"A: {printable(arguments.a)}: {terminal.count(difference.rows_a, 'row')}"
    yield f"B: {printable(arguments.b)}: {terminal.count(difference.rows_b, 'row')}"
    if not difference.is_any:
        yield "no difference"
        return
    yield from (f"schema: {terminal.cut(sentence, 300)}" for sentence in difference.schema)
    parts = [(difference.differing, "differ"), (difference.only_a, "only in A"), (difference.only_b, "only in B")]
    counted = ", ".join(f"{count:,} {words}" for count, words in parts if count)
    yield f"rows: {counted or 'no difference'}"
    if difference.columns:
        columns = ", ".join(f"{terminal.cut(name, 60)} {count:,}" for name, count in difference.columns.items())
        yield f"differing rows by column: {columns}"
    if difference.shown:
        rows = [
            (terminal.cut(name, 60), terminal.cut(column, 60), *_texts(column, a, b))
            for name, column, a, b in difference.shown
        ]
        yield from terminal.table(("row", "column", "A", "B"), rows)


def _texts(column: str, a: Any, b: Any) -> tuple[str, str]:
    return ("", "") if column.startswith("only in ") and a is b is None else (_text(a), _text(b))


def _text(value: Any) -> str:
    return "null" if value is None else terminal.cut(str(value), 60)


def _to_json(difference: _Difference) -> dict[str, Any]:
    return {
        "schema": difference.schema,
        "rows_a": difference.rows_a,
        "rows_b": difference.rows_b,
        "differing": difference.differing,
        "only_a": difference.only_a,
        "only_b": difference.only_b,
        "columns": difference.columns,
        "shown": [
            {"row": row, "column": column, "a": None if a is None else str(a), "b": None if b is None else str(b)}
            for row, column, a, b in difference.shown
        ],
    }
