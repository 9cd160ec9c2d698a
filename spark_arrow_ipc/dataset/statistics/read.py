"""Read the statistics of a file from its footer, and describe its record batches by their headers.

How it works: statistics are not trusted. If they are malformed in any way, or belong to other record batches, they are all
ignored, with a warning, and no record batch is skipped.

Other writers copy a footer's metadata into files with other batches. So statistics name the fingerprint of their file, which
must equal the fingerprint of the file's checksums (`ipc.messages.checksums`), and the headers of the batches must have these
checksums. Bodies are verified when they are read.

`statistics` returns them in Arrow's statistics schema (StatisticsSchema.rst), for other programs: one row for the table and
one for each column, with its index in the order of field nodes, and a map from the names of statistics to values, which are
a dense union with a child for each type in use. Names are Arrow's, except the count of NaN, which bounds leave out.
"""

from __future__ import annotations

import base64
import binascii
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, compress, islice
from typing import Any, Final, TypeAlias

import numpy as np

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.measure import measure
from spark_arrow_ipc.arrow.python_values.to_text import to_text
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.bounded_json import parse_json
from spark_arrow_ipc.dataset.predicate.coercion import order_key
from spark_arrow_ipc.dataset.predicate.expressions import Raw
from spark_arrow_ipc.dataset.statistics.format import (
    DROPPED_KEY,
    FINGERPRINT_KEY,
    KEY,
    MAX,
    MIN,
    NAN_COUNT,
    NULL_COUNT,
    PATH_KEY,
    ROW_COUNT,
    Path,
    array_of,
    leaves,
    raws_of,
)
from spark_arrow_ipc.errors import ArrowIpcError, error_context, printable
from spark_arrow_ipc.ipc.bytes.source import Openable
from spark_arrow_ipc.ipc.columns.projection import select_known_columns
from spark_arrow_ipc.ipc.concatenated_streams import ConcatenatedStreams
from spark_arrow_ipc.ipc.constants import DEFAULT_LIMITS
from spark_arrow_ipc.ipc.messages.footer import Block

_MOST_NBYTES: Final = 64 << 20
"""Characters of a value that is read; our writer makes far shorter ones."""

_VALUE_NBYTES: Final = 64
"""Approximate bytes of a Python value without its content."""

_MOST_VALUE_NBYTES: Final = 512 << 20
"""Bytes of all statistics of a file as Python values: eight million numbers."""

_LIMITS: Final = ipc.Limits(
    max_batch_bytes=_MOST_NBYTES,
    max_dictionary_bytes=_MOST_NBYTES,
    max_metadata_bytes=_MOST_NBYTES,
    max_slots=1 << 24,
)


class StatisticsWarning(UserWarning):
    """The statistics of a file are not used: they are malformed or belong to other record batches."""


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """Statistics of one leaf column, one value a block."""

    type: t.DataType  # type of the values; of a dictionary, the type of its values
    null_counts: tuple[int, ...]
    nan_counts: tuple[int | None, ...]  # None if unknown, and for types without NaN
    # Bounds in the unit of `type`; None if unknown. NaN is outside them.
    least: tuple[Raw | None, ...]
    greatest: tuple[Raw | None, ...]
    # whether a bound is a value of the block, not one that was cut
    least_exact: tuple[bool, ...]
    greatest_exact: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class BlockStatistics:
    """Statistics of the record batches of a file."""

    row_counts: tuple[int, ...]  # rows of each block
    columns: Mapping[Path, ColumnStatistics]  # by path, in the order of the file
    dropped: tuple[Path, ...] = ()  # paths of columns that were left out to bound the size
    fingerprint: str | None = None  # of the file that they describe; None in files of early builds


def file_statistics(reader: ipc.FileReader, numbers: range | None = None) -> BlockStatistics | None:
    """Return the statistics of an open file, or None; reads headers of the record batches, and no body."""
    statistics = read_statistics(reader.custom_metadata, reader.schema, len(reader), path=reader.path)
    if statistics is None:
        return None
    checksums = reader.checksums
    if checksums is None or statistics.fingerprint != checksums.fingerprint:
        _warn(
            reader.path,
            "nothing proves that they are of its record batches; another writer copied them, or an early build of this "
            "one wrote the file: write it again",
        )
        return None
    if not reader.headers_fit(range(len(reader)) if numbers is None else numbers):
        _warn(reader.path, "its record batches are others than those that were written; write it again")
        return None
    return statistics


def _warn(path: str | None, why: str) -> None:
    # Python shows a text once for each line that warns: this line, so that a process warns of a file once.
    words = f"the statistics of a file are not used: {why}"
    warnings.warn(printable(words if path is None else f"{path}: {words}"), StatisticsWarning, stacklevel=1)


def read_statistics(
    custom_metadata: t.CustomMetadata, schema: Schema, blocks: int, *, path: str | None = None
) -> BlockStatistics | None:
    """Return the statistics in a footer's custom metadata, or None; only `file_statistics` checks their record batches."""
    values = [value for key, value in custom_metadata if key == KEY]
    if not values:
        return None
    try:
        if len(values) > 1 or len(values[0]) > _MOST_NBYTES:
            raise ValueError("they are there twice, or too large")
        return _read(values[0], schema, blocks)
    except (ArrowIpcError, binascii.Error, ValueError, TypeError, KeyError) as error:
        _warn(path, str(error))
        return None


def _read(encoded: str, schema: Schema, blocks: int) -> BlockStatistics:
    stream = base64.b64decode(encoded, validate=True)
    with ipc.open_stream(stream, limits=_LIMITS) as reader:
        stored = reader.schema
        batches = list(islice(reader, 2))  # each may take the whole budget
    if len(batches) != 1 or batches[0].num_rows != blocks:
        rows = sum(batch.num_rows for batch in batches)
        raise ValueError(f"they are of {rows:,} record batches, and the file has {blocks:,}")
    (batch,) = batches
    if not stored.fields or stored.fields[0] != t.Field(ROW_COUNT, t.int64):
        raise ValueError("they do not begin with the number of rows")
    row_counts = _counts(batch.columns[0])
    by_path = {leaf.path: leaf for leaf in leaves(schema)}
    columns: dict[Path, ColumnStatistics] = {}
    nbytes = 0
    for field_, column in zip(stored.fields[1:], batch.columns[1:], strict=True):
        path = path_of(field_)
        leaf = by_path.get(path)
        if leaf is None:
            continue
        # Before the Python values exist: views may share their bytes in the file.
        measured = measure(column, decoded=True, slot_nbytes=_VALUE_NBYTES)(np.array([0]), np.array([column.length]))
        nbytes += int(measured[0])
        if nbytes > _MOST_VALUE_NBYTES:
            raise ValueError("their values take too much memory")
        if path in columns or field_.type != leaf.field().type or column.count_nulls():
            raise ValueError(f"those of the column {'.'.join(path)} are not of its type")
        columns[path] = column_statistics(column, path, leaf.type, row_counts)
    pairs = dict(stored.custom_metadata)
    dropped = tuple(map(_path, parse_json(pairs.get(DROPPED_KEY, "[]"))))
    return BlockStatistics(row_counts, columns, dropped, pairs.get(FINGERPRINT_KEY))


def path_of(field_: t.Field) -> Path:
    """Return the path of the column that a struct of statistics belongs to.

    Raises
    ------
    ValueError, KeyError
        The field has none.
    """
    return _path(parse_json(dict(field_.custom_metadata)[PATH_KEY]))


def _path(value: object) -> Path:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise ValueError("the name of a column is none")
    return tuple(value)


def _counts(array: Array) -> tuple[int, ...]:
    counts = [count for count in raws_of(array) if isinstance(count, int) and count >= 0]
    if len(counts) != array.length:
        raise ValueError("a count is null or below 0")
    return tuple(counts)


def column_statistics(column: Array, path: Path, type_: t.DataType, row_counts: Sequence[int]) -> ColumnStatistics:
    """Decode the structs of a column, which has no null slots.

    Raises
    ------
    ValueError
        They contradict each other, or the numbers of rows.
    """
    children = dict(zip((child.name for child in column.type.children), column.children, strict=True))
    null_counts = _counts(children[NULL_COUNT])
    nan_counts: tuple[int | None, ...] = (None,) * len(null_counts)
    if NAN_COUNT in children:
        nan_counts = tuple(int(count) if count is not None else None for count in raws_of(children[NAN_COUNT]))
    for rows, nulls, nans in zip(row_counts, null_counts, nan_counts, strict=True):
        if not 0 <= nulls + (nans or 0) <= rows or (nans or 0) < 0:
            raise ValueError(f"there are more nulls than rows in {'.'.join(path)}")
    least, least_exact = _bounds(children, MIN)
    greatest, greatest_exact = _bounds(children, MAX)
    for low, high in zip(least, greatest, strict=True):
        if low is not None and high is not None and order_key(low) > order_key(high):
            raise ValueError(f"the least value of {'.'.join(path)} is above the greatest")
    return ColumnStatistics(type_, null_counts, nan_counts, least, greatest, least_exact, greatest_exact)


def _bounds(children: Mapping[str, Array], names: tuple[str, str]) -> tuple[tuple[Raw | None, ...], tuple[bool, ...]]:
    exact = raws_of(children[names[0]])
    cut = raws_of(children[names[1]]) if names[1] in children else [None] * len(exact)
    values = [cut[i] if value is None else value for i, value in enumerate(exact)]
    # NaN bounds no number.
    values = [None if isinstance(value, float) and math.isnan(value) else value for value in values]
    return tuple(values), tuple(value is not None for value in exact)


@dataclass(frozen=True, slots=True)
class ColumnSummary:
    """Statistics of a column in one block, the bounds as strings."""

    nulls: int
    least: str | None
    greatest: str | None


@dataclass(frozen=True, slots=True)
class FileBlock:
    """One record batch of a file."""

    format: str  # ``file`` or ``stream``
    block: int  # its number, from 0
    location: Block  # the range of its message in the file
    rows: int
    compression: str  # ``lz4``, ``zstd`` or ``none``
    # by column path (names with dots between); None if the file has none
    statistics: Mapping[str, ColumnSummary] | None


def file_blocks(
    source: Openable,
    *,
    limits: ipc.Limits = DEFAULT_LIMITS,
    concatenated_streams: ConcatenatedStreams = ConcatenatedStreams.WARN,
) -> Iterator[FileBlock]:
    """Yield the record batches of a file or stream, in order."""
    reader = ipc.open(source, columns=select_known_columns, limits=limits, concatenated_streams=concatenated_streams)
    with reader, error_context(path=reader.path):
        statistics = file_statistics(reader) if reader.is_numbered else None
        summaries = None if statistics is None else _summaries(statistics)
        for i, batch in enumerate(reader.read_headers()):
            of_columns = None if summaries is None else {path: column[i] for path, column in summaries.items()}
            compression = "none" if batch.compression is None else batch.compression.word
            yield FileBlock(reader.format, i, batch.block, batch.rows, compression, of_columns)


def _summaries(statistics: BlockStatistics) -> dict[str, list[ColumnSummary]]:
    """Return the summaries of all blocks, by column path."""
    return {
        ".".join(path): list(map(ColumnSummary, c.null_counts, _strings(c.least, c.type), _strings(c.greatest, c.type)))
        for path, c in statistics.columns.items()
    }


def _strings(values: Sequence[Raw | None], type_: t.DataType) -> list[str | None]:
    return [None if value is None else str(value) for value in to_text(array_of(values, type_))]


DISTINCT_COUNT: Final = "ARROW:distinct_count:exact"

Bound: TypeAlias = tuple[Raw, bool] | None
"""A bound, and whether it is a value of the column, not a cut one."""

_Value: TypeAlias = tuple[str, t.DataType, Raw]
"""The name of a statistic, its type and its value."""


@dataclass(slots=True, kw_only=True)
class Totals:
    """Counts and bounds of one column over record batches; None if unknown."""

    nulls: int | None = 0
    nans: int | None = 0
    least: Bound = None
    greatest: Bound = None
    unbounded: bool = False  # above: a record batch has values without a bound, such as bytes of 0xff
    unbounded_below: bool = False

    def add(self, column: ColumnStatistics, rows: Sequence[int]) -> None:
        """Add the statistics of further record batches of so many rows."""
        if self.nulls is not None:
            self.nulls += sum(column.null_counts)
        is_known = self.nans is not None and None not in column.nan_counts
        self.nans = (self.nans or 0) + sum(map(int, filter(None, column.nan_counts))) if is_known else None
        counts = zip(rows, column.null_counts, column.nan_counts, strict=True)
        have = [n > nulls + int(nans or 0) for n, nulls, nans in counts]
        self.unbounded |= None in compress(column.greatest, have)
        self.unbounded_below |= None in compress(column.least, have)
        self.least = None if self.unbounded_below else _best(min, self.least, column.least, column.least_exact)
        self.greatest = None if self.unbounded else _best(max, self.greatest, column.greatest, column.greatest_exact)


def _best(best: Any, so_far: Bound, values: Sequence[Raw | None], exact: Sequence[bool]) -> Bound:
    bounds = [(value, is_exact) for value, is_exact in zip(values, exact, strict=True) if value is not None]
    candidates = [*bounds, *([] if so_far is None else [so_far])]
    bound: Bound = best(candidates, key=lambda bound: order_key(bound[0]), default=None)
    return bound


@dataclass(frozen=True, slots=True)
class ColumnTotals:
    """The statistics of a column of a table."""

    positions: tuple[int, ...]  # of the top-level column, then of the field in each struct
    type: t.DataType
    totals: Totals
    distinct: int | None = None


def statistics_batch(schema: Schema, rows: int, columns: Sequence[ColumnTotals]) -> RecordBatch:
    """Return the statistics of a table's columns as a record batch of Arrow's statistics schema."""
    # Arrow's schema identifies columns by the index of their field node, in this order.
    nodes = dict(_nodes(schema.fields))
    columns = sorted(columns, key=lambda column: nodes[column.positions])
    index = array_of([None, *(nodes[column.positions] for column in columns)], t.int32)
    stored = _map([[(ROW_COUNT, t.int64, rows)], *(list(_values(column)) for column in columns)])
    fields = (t.Field("column", t.int32), t.Field("statistics", stored.type, nullable=False))
    return RecordBatch(Schema(fields), (index, stored), index.length)


def statistics(source: Openable, *, storage: Mapping[str, str] | None = None) -> RecordBatch | None:
    """Return the statistics in the footer of a file, in Arrow's statistics schema.

    The record batch has a row for the table, with the number of its rows, and one for each column with statistics: nulls,
    NaN, and bounds, which are ``approximate`` if they are long and were cut. Other libraries import it without a copy
    (``pyarrow.record_batch(statistics(path))``). Reads the footer and headers, and no body.

    Parameters
    ----------
    source
        As `spark_arrow_ipc.ipc.open` takes it.
    storage
        Options of an object store, as `spark_arrow_ipc.ipc.open` takes them.

    Returns
    -------
    RecordBatch or None
        None if the file has no statistics, or, with a warning, if they belong to other record batches.

    Raises
    ------
    ArrowIpcError
        The file is broken, or not an Arrow file.
    """
    with ipc.open(source, columns=select_known_columns, storage=storage) as reader:
        stored = file_statistics(reader) if reader.is_numbered else None
        schema = reader.file_schema
    return None if stored is None else _of_file(schema, stored)


def _of_file(schema: Schema, stored: BlockStatistics) -> RecordBatch:
    described = []
    positions: dict[Path, tuple[int, ...]] = {leaf.path: leaf.positions for leaf in leaves(schema)}
    for path, column in stored.columns.items():
        totals = Totals()
        totals.add(column, stored.row_counts)
        described.append(ColumnTotals(positions[path], column.type, totals))
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
            # Fields inside of lists and maps have nodes, but no positions.
            yield from walk(field.type.children, positions if isinstance(field.type, t.Struct) else None)

    return walk(fields, ())


def _values(column: ColumnTotals) -> Iterator[_Value]:
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
    values = [[value for id_, (_, _, value) in zip(ids, entries, strict=True) if id_ == i] for i in range(len(types))]
    counts = [0] * len(types)
    offsets = []  # the position of each value in the child of its type
    for id_ in ids:
        offsets.append(counts[id_])
        counts[id_] += 1
    union = t.DenseUnion(tuple(t.Field(str(type_), type_) for type_ in types), tuple(range(len(types))))
    children = tuple(map(array_of, values, types))
    items = Array(union, len(entries), 0, (_buffer(ids, np.int8), _buffer(offsets, np.int32)), children)
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
