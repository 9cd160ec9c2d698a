"""``arrowipc diff``: compare the schemas and rows of two tables.

Without a key, row 1 is compared with row 1: both tables are read once, a record batch at a time. With ``--key`` rows of
one key are compared, and both tables are in memory. `arrow.equality` compares values without their encoding: a
dictionary of strings equals the strings.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
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

# A batch, and the numbers of some of its rows
_Rows: TypeAlias = tuple[RecordBatch, npt.NDArray[np.int64]]

# Rows that are shown of each kind, by default.
_SHOWN: Final = 10


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
    not_compared: list[str] = field(default_factory=list)  # columns of both, of types without a common measure
    # The row or key, the column, both values; not more than --limit
    shown: list[tuple[str, str, Any, Any]] = field(default_factory=list)

    @property
    def is_any(self) -> bool:
        return bool(self.schema or self.differing or self.only_a or self.only_b)


# The columns that can be compared: their name, and their positions in A and B
_Common: TypeAlias = list[tuple[str, int, int]]


def run_diff(arguments: argparse.Namespace) -> int:
    """Print what differs; return 1 if anything does."""
    chosen = Chosen.of(arguments)
    sides = [
        list(files.each_input([path], recursive=arguments.recursive, columns=True, storage=arguments.storage))
        for path in (arguments.a, arguments.b)
    ]
    with one_table(sides[0], chosen) as a, one_table(sides[1], chosen) as b:
        common, not_compared, sentences = _compare_schemas(a.schema, b.schema)
        difference = _Difference(sentences, not_compared=not_compared)
        if arguments.key is None:
            _compare_by_position(difference, a, b, common, arguments.limit)
        else:
            _compare_by_key(difference, a, b, common, arguments)
    if arguments.json:
        shown = [
            {"row": row, "column": column, "a": None if x is None else str(x), "b": None if y is None else str(y)}
            for row, column, x, y in difference.shown
        ]
        print(terminal.json_line(asdict(difference) | {"shown": shown}))
    else:
        print("\n".join(terminal.fit_lines(_describe(difference, arguments))))
    return int(difference.is_any)


def _compare_schemas(a: Schema, b: Schema) -> tuple[_Common, list[str], list[str]]:
    """Return the columns of both, the names of those whose values are not compared, and sentences about what differs."""
    of_a, of_b = _positions(a), _positions(b)
    sentences = [f"only A has the column {key[0]}: {a.fields[i].type}" for key, i in of_a.items() if key not in of_b]
    sentences += [f"only B has the column {key[0]}: {b.fields[i].type}" for key, i in of_b.items() if key not in of_a]
    common, not_compared = [], []
    for key in (shared := [key for key in of_a if key in of_b]):
        ours, theirs = a.fields[of_a[key]], b.fields[of_b[key]]
        if ours.type != theirs.type:
            sentences.append(f"{key[0]} is {ours.type} in A, {theirs.type} in B")
        elif ours.nullable != theirs.nullable:
            in_a, in_b = ("" if field.nullable else "not " for field in (ours, theirs))
            sentences.append(f"{key[0]} is {in_a}nullable in A, {in_b}in B")
        # Encodings of one type are equal by value; values of other types have no common measure.
        if alike(ours.type) == alike(theirs.type):
            common.append((key[0], of_a[key], of_b[key]))
        else:
            not_compared.append(key[0])
    if shared != [key for key in of_b if key in of_a]:
        sentences.append("the columns are in another order")
    # Sorted, as writers choose the order of pairs.
    if sorted(a.custom_metadata) != sorted(b.custom_metadata):
        sentences.append("the custom metadata of the schemas differs")
    return common, not_compared, sentences


def _positions(schema: Schema) -> dict[tuple[str, int], int]:
    """Return the position of each column by its name and the number of earlier columns of that name."""
    positions: dict[tuple[str, int], int] = {}
    times: Counter[str] = Counter()
    for i, name in enumerate(schema.names):
        positions[name, times[name]] = i
        times[name] += 1
    return positions


def _compare_by_position(difference: _Difference, a: Table, b: Table, common: _Common, limit: int) -> None:
    """Compare row 1 with row 1: pairs of slices of equally many rows, and the number of rows that remain."""
    # Batches without rows would end the pairs early.
    sources = [(batch for batch in table.batches if batch.num_rows) for table in (a, b)]
    ours, theirs = (next(source, None) for source in sources)

    def name_of(row: int) -> str:
        return f"row {difference.rows_a + row:,}"

    while ours is not None and theirs is not None:
        rows = np.arange(min(ours.num_rows, theirs.num_rows))
        _compare(difference, (ours, rows), (theirs, rows), common, name_of=name_of, limit=limit)
        difference.rows_a += len(rows)
        ours, theirs = (
            batch.slice(len(rows)) if batch.num_rows > len(rows) else next(source, None)
            for batch, source in zip((ours, theirs), sources, strict=True)
        )
    difference.rows_a, difference.rows_b = (
        difference.rows_a + sum(batch.num_rows for batch in (first, *source) if batch is not None)
        for first, source in zip((ours, theirs), sources, strict=True)
    )
    difference.only_a = max(difference.rows_a - difference.rows_b, 0)
    difference.only_b = max(difference.rows_b - difference.rows_a, 0)


def _compare_by_key(
    difference: _Difference, a: Table, b: Table, common: _Common, arguments: argparse.Namespace
) -> None:
    with error_context(asked_by="--key"):
        keys = [[position for (position,) in resolve_exactly(table.schema.fields, arguments.key)] for table in (a, b)]
    for i, j in zip(*keys, strict=True):
        if a.schema.fields[i].type != b.schema.fields[j].type:
            raise SchemaMismatchError(
                f"the key {a.schema.names[i]} is {a.schema.fields[i].type} in A, {b.schema.fields[j].type} in B; keys must "
                "have one type"
            )
    ours, theirs = _read_all(a), _read_all(b)
    # Rows with equal keys are matched in their order: the first with the first.
    matches = match_rows([ours.columns[i] for i in keys[0]], [theirs.columns[j] for j in keys[1]])

    def name_of(batch: RecordBatch, columns: Sequence[int], row: int) -> str:
        values = [to_text(batch.columns[i].slice(row, 1))[0] for i in columns]
        return ", ".join(f"{batch.schema.names[i]} {_text(value)}" for i, value in zip(columns, values, strict=True))

    difference.rows_a, difference.rows_b = ours.num_rows, theirs.num_rows
    difference.only_a, difference.only_b = len(matches.only_a), len(matches.only_b)
    _compare(
        difference, (ours, matches.in_a), (theirs, matches.in_b), common,
        name_of=lambda pair: name_of(ours, keys[0], int(matches.in_a[pair])), limit=arguments.limit,
    )  # fmt: skip
    for batch, rows, columns, side in ((ours, matches.only_a, keys[0], "A"), (theirs, matches.only_b, keys[1], "B")):
        difference.shown += (
            (name_of(batch, columns, int(row)), f"only in {side}", None, None) for row in rows[: arguments.limit]
        )


def _read_all(table: Table) -> RecordBatch:
    batches = list(table.batches)
    try:
        return concat_batches(batches) if batches else RecordBatch.from_pylist([], table.schema)
    # More values than 32-bit offsets or indices can count.
    except ValueError as error:
        raise UnsupportedError(f"the rows cannot be matched together: {error}; choose some by --where") from error


def _compare(
    difference: _Difference, of_a: _Rows, of_b: _Rows, common: _Common, *, name_of: Callable[[int], str], limit: int
) -> None:
    """Compare pairs of rows, column by column."""
    (a, rows_a), (b, rows_b) = of_a, of_b
    any_differs = np.zeros(len(rows_a), np.bool_)
    for name, i, j in common:
        differs = differ(a.columns[i], rows_a, b.columns[j], rows_b)
        if not (count := int(np.count_nonzero(differs))):
            continue
        any_differs |= differs
        difference.columns[name] = difference.columns.get(name, 0) + count
        # Only rows that are shown become Python values.
        pairs = np.flatnonzero(differs)[: max(limit - len(difference.shown), 0)]
        one = to_text(take_rows(a.select([i]), rows_a[pairs]).columns[0])
        other = to_text(take_rows(b.select([j]), rows_b[pairs]).columns[0])
        difference.shown += ((name_of(int(p)), name, x, y) for p, x, y in zip(pairs, one, other, strict=True))
    difference.differing += int(np.count_nonzero(any_differs))


def _describe(difference: _Difference, arguments: argparse.Namespace) -> Iterator[str]:
    yield f"A: {printable(arguments.a)}: {terminal.count(difference.rows_a, 'row')}"
    yield f"B: {printable(arguments.b)}: {terminal.count(difference.rows_b, 'row')}"
    if not difference.is_any:
        yield "no difference"
        return
    yield from (f"schema: {terminal.cut(sentence, 300)}" for sentence in difference.schema)
    parts = [(difference.differing, "differ"), (difference.only_a, "only in A"), (difference.only_b, "only in B")]
    where = " in the columns that are compared" if difference.not_compared else ""
    yield f"rows: {', '.join(f'{count:,} {words}' for count, words in parts if count) or 'no difference'}{where}"
    if difference.not_compared:
        names = terminal.cut(", ".join(difference.not_compared), 300)
        yield f"not compared, as their types differ: {names}"
    if difference.columns:
        columns = ", ".join(f"{terminal.cut(name, 60)} {count:,}" for name, count in difference.columns.items())
        yield f"differing rows by column: {columns}"
    if difference.shown:
        rows = [
            # A row that one side lacks has no values; another pair of nulls is in two children of a union.
            (
                terminal.cut(row, 60),
                terminal.cut(column, 60),
                *(map(_text, (a, b)) if column in difference.columns else ("", "")),
            )
            for row, column, a, b in difference.shown
        ]
        yield from terminal.table(("row", "column", "A", "B"), rows)


def _text(value: Any) -> str:
    return "null" if value is None else terminal.cut(str(value), 60)
