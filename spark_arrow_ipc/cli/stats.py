"""``arrowipc stats``: print nulls, bounds, distinct values and bytes of each column.

Bytes are those of the headers. Nulls and bounds come from the statistics in footers, where they are; else record batches
are read, one at a time, and distinct values are counted on the way, up to a number.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.kernels.order import DistinctValues, has_order
from spark_arrow_ipc.arrow.kernels.take import take
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.cli.schema import shown_value
from spark_arrow_ipc.cli.shared import files, terminal
from spark_arrow_ipc.cli.shared.files import Input
from spark_arrow_ipc.cli.shared.outline import BatchOutline, BufferSizes, read_outline
from spark_arrow_ipc.cli.shared.rows import (
    Chosen,
    Rows,
    add_row_arguments,
    check_same_schema,
    partition_row,
)
from spark_arrow_ipc.cli.shared.storages import storage_at
from spark_arrow_ipc.dataset.statistics import Statistics
from spark_arrow_ipc.dataset.statistics.collect import StatisticsCollector, leaf_array
from spark_arrow_ipc.dataset.statistics.format import Leaf, Path, leaves
from spark_arrow_ipc.dataset.statistics.read import (
    BlockStatistics,
    Bound,
    ColumnTotals,
    Totals,
    file_statistics,
    statistics_batch,
)
from spark_arrow_ipc.errors import error_context
from spark_arrow_ipc.ipc.columns.projection import select_known_columns
from spark_arrow_ipc.ipc.constants import Int64s
from spark_arrow_ipc.ipc.messages.message import RecordBatchHeader
from spark_arrow_ipc.storage.byte_source import ByteSource

_MOST_MEASURED: Final = 100_000
"""Compressed buffers whose uncompressed sizes are read: each is a small read."""


@dataclass(frozen=True, slots=True)
class ColumnSize:
    """The bytes of one column in the buffers of all record batches; dictionaries are not counted."""

    nbytes: int
    # The buffers whose uncompressed sizes were read, in the files and in memory
    measured_nbytes: int
    uncompressed_nbytes: int
    codecs: tuple[str, ...]

    @property
    def ratio(self) -> float | None:
        """Bytes in memory for each byte in the files; None if unknown."""
        return self.uncompressed_nbytes / self.measured_nbytes if self.measured_nbytes else None

    def texts(self) -> tuple[str, str, str]:
        """Return the cells of a table."""
        ratio = "-" if self.ratio is None else f"{self.ratio:.2f}"
        return f"{self.nbytes:,}", ratio, ", ".join(self.codecs) or "-"

    def to_json(self) -> dict[str, Any]:
        """Convert the sizes for `json.dumps`."""
        return {"nbytes": self.nbytes, "compression_ratio": self.ratio, "compression": list(self.codecs)}


class ColumnSizes:
    """The bytes of the columns of several files, by the names of the first."""

    def __init__(self, schema: Schema) -> None:
        self._names = schema.names
        self._sizes = np.zeros((3, len(schema)), np.int64)
        self._codecs: set[str] = set()
        self._measure = BufferSizes(_MOST_MEASURED)
        # Of the last schema: the place of each of its columns among the names, or -1.
        self._places: tuple[Schema, Int64s] | None = None

    def of_column(self, position: int) -> ColumnSize:
        """Return the bytes of a column."""
        nbytes, measured, uncompressed = self._sizes[:, position].tolist()
        return ColumnSize(nbytes, measured, uncompressed, tuple(sorted(self._codecs)))

    def add(self, source: ByteSource, schema: Schema, header: RecordBatchHeader, batch: BatchOutline) -> None:
        """Add a record batch of a file of the given schema; dictionary batches do not count."""
        if batch.dictionary_id is not None:
            return
        if self._places is None or self._places[0] is not schema:
            places = {name: i for i, name in enumerate(self._names)}
            self._places = schema, np.array([places.get(name, -1) for name in schema.names], np.int64)
        columns = self._places[1][self._measure.buffers(schema, batch).columns(header)]
        is_counted = columns >= 0
        self._codecs.add(batch.compression or "none")
        for total, sizes in zip(self._sizes, self._measure.sizes(source, header, batch), strict=True):
            np.add.at(total, columns[is_counted], sizes[is_counted])


_MOST_DISTINCT: Final = 10_000
"""Distinct values that are counted."""


def stats_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``arrowipc stats``."""
    files.add_path_arguments(parser)
    add_row_arguments(parser)
    parser.add_argument(
        "--scan",
        action="store_true",
        help=f"read the values of files with statistics too, which counts distinct values (up to {_MOST_DISTINCT:,})",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a line for each column")
    parser.add_argument(
        "--arrow", metavar="FILE", help="write an Arrow file of Arrow's statistics schema, and print nothing"
    )


@dataclass(slots=True)
class _Column(Totals):
    """A column, with counts and bounds over the files so far."""

    path: Path
    type: str
    leaf: Leaf | None
    top: int
    distinct: DistinctValues = field(default_factory=lambda: DistinctValues(_MOST_DISTINCT))
    counts_distinct: bool = True


def run_stats(arguments: argparse.Namespace) -> int:
    """Print a line for each column, of all files together, or write them as an Arrow file."""
    chosen = Chosen.of(arguments)
    if arguments.arrow is not None:
        files.refuse_existing(storage_at(arguments.arrow, arguments.storage), arguments.arrow)
    columns: list[_Column] = []
    sizes: ColumnSizes | None = None
    reference: tuple[str, Schema] | None = None
    rows = 0
    for source in files.named_by(arguments, columns=True):
        with error_context(path=source.path), chosen.open_rows(source) as opened:
            if reference is None:
                reference = source.path, opened.schema
                columns, sizes = _columns(opened.schema), ColumnSizes(opened.schema)
            check_same_schema(*reference, source.path, opened.schema)
            assert sizes is not None
            rows += _add_file(source, opened, columns, scans=arguments.scan or chosen.where is not None)
        if chosen.where is None and not source.is_served:
            read_outline(source.openable(), see=sizes.add)
    assert sizes is not None, "named_by yields a file, or raises"
    has_sizes = chosen.where is None
    if arguments.arrow is not None:
        assert reference is not None
        batch = statistics_batch(reference[1], rows, [*map(_describe_column, columns)])
        with ipc.create(arguments.arrow, batch.schema, storage=dict(arguments.storage)) as writer:
            writer.write(batch)
    elif arguments.json:
        for column in columns:
            print(terminal.json_line(_to_json(column, rows, sizes if has_sizes else None)))
    else:
        print("\n".join(terminal.fitted(_describe(columns, rows, sizes if has_sizes else None))))
    return 0


def _columns(schema: Schema) -> list[_Column]:
    """Return the scalar columns, at the top or in structs, and all other columns."""
    columns: list[_Column] = []
    of_position: dict[int, list[Leaf]] = {}
    for leaf in leaves(schema):
        of_position.setdefault(leaf.positions[0], []).append(leaf)
    for i, field_ in enumerate(schema.fields):
        leaves_of_column = of_position.get(i, [])
        columns += (_Column(leaf.path, str(leaf.type), leaf, i) for leaf in leaves_of_column)
        if not leaves_of_column:
            columns.append(_Column((field_.name,), str(field_.type), None, i, nans=None, counts_distinct=False))
    return columns


def _add_file(source: Input, opened: Rows, columns: Sequence[_Column], *, scans: bool) -> int:
    """Add the rows of a file, by its statistics or by reading it; return their number."""
    by_path = {column.path: column for column in columns if column.leaf is not None}
    if not scans and opened.reader.is_numbered:
        with ipc.open_file(source.openable(), columns=select_known_columns) as reader:
            stored = file_statistics(reader)
        covered = set() if stored is None else {*stored.columns, *((f.name,) for f in source.fields)}
        if stored is not None and covered.issuperset(by_path):
            return _add_stored(source, opened, columns, by_path, stored)
    collector = StatisticsCollector(opened.schema, Statistics.ALL)
    rows = 0
    for batch in opened.batches:
        collector.add(batch)
        rows += batch.num_rows
        _add_distinct(batch, by_path)
        for column in columns:
            if column.leaf is None and column.nulls is not None:
                column.nulls += batch.columns[column.top].count_nulls()
    _merge(by_path, collector.statistics())
    return rows


def _add_stored(
    source: Input,
    opened: Rows,
    columns: Sequence[_Column],
    by_path: Mapping[Path, _Column],
    stored: BlockStatistics,
) -> int:
    """Add the rows of a file by its statistics; those of its partition columns by one value."""
    rows = sum(stored.row_counts)
    of_path = {(field_.name,) for field_ in source.fields}
    _merge({path: column for path, column in by_path.items() if path not in of_path}, stored)
    for column in columns:
        if column.path not in of_path:
            column.counts_distinct = False
            if column.leaf is None:
                column.nulls = None
    if of_path and rows:
        schema = Schema(tuple(f for f in opened.schema.fields if (f.name,) in of_path))
        collector = StatisticsCollector(schema, Statistics.ALL)
        one = partition_row(source)
        collector.add(one)
        of_path_columns: dict[Path, _Column] = {path: by_path[path] for path in of_path & set(by_path)}
        _add_distinct(one, of_path_columns, one.schema)
        _merge(of_path_columns, collector.statistics())
        for column in of_path_columns.values():
            if column.nulls is not None and one.column(column.path[0]).count_nulls():
                column.nulls += rows - 1
    return rows


def _add_distinct(batch: RecordBatch, by_path: Mapping[Path, _Column], schema: Schema | None = None) -> None:
    above: dict[tuple[int, ...], Any] = {}
    for path, column in by_path.items():
        assert column.leaf is not None
        positions = column.leaf.positions if schema is None else (schema.position(path[0]),)
        if not column.counts_distinct or column.distinct.count is None:
            continue
        array, live = leaf_array(batch, positions, above)
        if not has_order(array.type):
            column.counts_distinct = False
            continue
        column.distinct.add(array if live is None else take(array, np.flatnonzero(live)))


def _merge(by_path: Mapping[Path, _Column], statistics: BlockStatistics) -> None:
    for path, column in by_path.items():
        of_column = statistics.columns.get(path)
        if of_column is not None:
            column.add(of_column, statistics.row_counts)


def _describe_column(column: _Column) -> ColumnTotals:
    positions, type_ = ((column.top,), t.null) if column.leaf is None else (column.leaf.positions, column.leaf.type)
    return ColumnTotals(positions, type_, column, column.distinct.count if column.counts_distinct else None)


def _describe(columns: Sequence[_Column], rows: int, sizes: ColumnSizes | None) -> Iterator[str]:
    yield f"{terminal.count(rows, 'row')}, {terminal.count(len(columns), 'column')}"
    head = ("column", "type", "nulls", "min", "max", "distinct", "bytes", "ratio", "compression")
    lines = []
    shown_tops: set[int] = set()
    for column in columns:
        is_top = column.top not in shown_tops
        shown_tops.add(column.top)
        size = sizes.of_column(column.top) if sizes is not None and is_top else None
        lines.append(
            (
                terminal.cut(".".join(column.path), 60),
                terminal.cut(column.type, 40),
                "-" if column.nulls is None else f"{column.nulls:,}",
                _bound_text(column.least, column),
                _bound_text(column.greatest, column),
                _distinct_text(column),
                *(("-", "-", "-") if size is None else size.texts()),
            )
        )
    yield from terminal.table(head, lines, terminal.LEFT * 2 + terminal.RIGHT * 6)


def _distinct_text(column: _Column) -> str:
    if not column.counts_distinct:
        return "-"
    return f"over {_MOST_DISTINCT:,}" if column.distinct.count is None else f"{column.distinct.count:,}"


def _bound_text(bound: Bound, column: _Column) -> str:
    if bound is None or column.leaf is None:
        return "-"
    return terminal.cut(str(shown_value(bound[0], column.leaf.type)), 30) + ("" if bound[1] else "...")


def _to_json(column: _Column, rows: int, sizes: ColumnSizes | None) -> dict[str, Any]:
    def text(bound: Bound) -> str | None:
        assert column.leaf is not None or bound is None
        return None if bound is None or column.leaf is None else str(shown_value(bound[0], column.leaf.type))

    size = None if sizes is None else sizes.of_column(column.top)
    return {
        "column": list(column.path),
        "type": column.type,
        "rows": rows,
        "nulls": column.nulls,
        "nans": column.nans,
        "min": text(column.least),
        "min_is_exact": column.least is None or column.least[1],
        "max": text(column.greatest),
        "max_is_exact": column.greatest is None or column.greatest[1],
        "distinct": column.distinct.count if column.counts_distinct else None,
        "distinct_is_above": _MOST_DISTINCT if column.counts_distinct and column.distinct.count is None else None,
        **({} if size is None else size.to_json()),
    }
