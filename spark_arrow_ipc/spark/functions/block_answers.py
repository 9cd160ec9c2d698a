"""`BlockAnswers`: counts, least and greatest values of record batches without reading their bodies.

How it works
------------
Before a file is read, `BlockAnswers.answer` gets the record batches whose rows are all part of the result. It answers
those for which headers and statistics suffice: rows and nulls from headers, extremes from the file's statistics if these
are exact, keys from partition directories. The others are decoded.

Statistics are in the types of the file. So the extremes of all answered batches of one schema and partition become one
batch of two rows, the least and the greatest values, which is converted and aggregated as batches of the file are: types,
time zones and errors are the same. This needs conversions that keep the order of values (`keeps_order`).

Decoding may refuse a value or turn it into a null (a timestamp with an offset that has no instant, a variant without a
value), so the `Refusal` of each conversion decides: headers count a column if its conversion accepts every value, and
statistics do so also if it accepts the extremes. With ``nanoseconds=error`` a value between the extremes could be an
error, so such columns are decoded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark.sql import types as s

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.column_path import find_columns
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.dataset.predicate.expressions import Raw
from spark_arrow_ipc.dataset.scan.file_range import FileRange, PartitionColumns
from spark_arrow_ipc.dataset.statistics.format import array_of
from spark_arrow_ipc.dataset.statistics.prune_blocks import keeps_order
from spark_arrow_ipc.dataset.statistics.read import BlockStatistics, ColumnStatistics
from spark_arrow_ipc.errors import error_context
from spark_arrow_ipc.spark.convert import Refusal, compile_converter, refusal_of
from spark_arrow_ipc.spark.functions.partial_aggregates import PartialAggregates, PartialRows
from spark_arrow_ipc.spark.functions.user_function import in_zone
from spark_arrow_ipc.spark.options.read_options import ReadOptions
from spark_arrow_ipc.spark.options.values import MissingColumns
from spark_arrow_ipc.spark.read.columns import METADATA_COLUMNS
from spark_arrow_ipc.spark.read.row_filter import predicate_fields

_EXTREMES = ("min", "max")
_COUNTS = ("count_all", "count")


class BlockAnswers:
    """Answers an aggregate for record batches that need not be decoded."""

    def __init__(self, partials: PartialAggregates, schema: s.StructType, options: ReadOptions, zone: str) -> None:
        self._partials = partials
        self._schema = schema
        self._options = options
        self._zone = zone  # the session's
        added = METADATA_COLUMNS if options.metadata_columns else {}
        self._is_possible = all(part.function in (*_COUNTS, *_EXTREMES) for part in partials.parts) and not any(
            name.lower() in added for name in schema.names
        )
        self._counts = any(part.function in _COUNTS for part in partials.parts)
        self._groups: dict[tuple[object, ...], _Group] = {}
        self._refusals: dict[tuple[t.Field, int], Refusal] = {}

    @property
    def need_statistics(self) -> bool:
        """True if the aggregates need more than numbers of rows."""
        return self._is_possible and any(part.column is not None for part in self._partials.parts)

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The names of the columns that the aggregates need; None if only decoding gives them."""
        return tuple(self._schema.names) if self._is_possible else None

    def answer(
        self,
        reader: ipc.FileReader,
        part: FileRange,
        fields: Sequence[t.Field],
        statistics: BlockStatistics | None,
        numbers: Sequence[int],
    ) -> frozenset[int]:
        """Return the record batches that need no decoding, and store their answers."""
        if not self._is_possible or not numbers:
            return frozenset()
        checksums = None if statistics is not None else reader.checksums
        if checksums is not None and not reader.headers_fit(range(numbers[0], numbers[-1] + 1)):
            return frozenset()  # decoding the batches gives the error
        return self._answer(reader.schema, part, fields, statistics, numbers, headers=_Headers(reader, {}))

    def answer_files(
        self,
        schema: Schema,
        rows: Sequence[int],
        part: FileRange,
        fields: Sequence[t.Field],
        statistics: BlockStatistics | None,
    ) -> frozenset[int]:
        """Return the numbers of the files that need no decoding; all are of one partition, and `part` is the first."""
        numbers = range(len(rows))
        return self._answer(schema, part, fields, statistics, numbers, headers=_Headers(None, dict(enumerate(rows))))

    def _answer(
        self,
        schema: Schema,
        part: FileRange,
        fields: Sequence[t.Field],
        statistics: BlockStatistics | None,
        numbers: Sequence[int],
        *,
        headers: _Headers,
    ) -> frozenset[int]:
        columns = self._columns(schema, part, fields, statistics)
        if columns is None:
            return frozenset()
        answered = [i for i in numbers if self._is_answered(columns, i, headers)]
        if answered and (part.rows is None or part.rows[0] == 0):
            # A batch may be cut between tasks; the task with its first row counts it.
            self._store(columns, answered, headers, part, fields)
        return frozenset(answered)

    def _columns(
        self, schema: Schema, part: FileRange, fields: Sequence[t.Field], statistics: BlockStatistics | None
    ) -> Mapping[int, _Column] | None:
        """Return the source of each column's values; None if this file must be decoded."""
        constants = PartitionColumns(schema, fields, part.partition)
        places = find_columns(constants.schema.names, self._schema.names, absent=-1)
        columns = {}
        for i, (position, requested) in enumerate(zip(places, self._schema.fields, strict=True)):
            if position in constants.positions:
                columns[i] = _Column(is_constant=True, value=part.partition[constants.positions.index(position)])
            elif i in self._partials.keys or (position < 0 and not self._options.fills_missing):
                return None
            elif position < 0:
                columns[i] = _Column(is_constant=True)
            else:
                file_field = constants.schema.fields[position]
                of_column = None if statistics is None else statistics.columns.get((file_field.name,))
                refusal = self._refusals.get((file_field, i))
                if refusal is None:
                    refusal = refusal_of(file_field, self._schema.fields[i], self._options)
                    self._refusals[file_field, i] = refusal
                fits = of_column is not None and _keeps_order(file_field, of_column.type, requested)
                fits = fits and refusal is not Refusal.UNKNOWN
                row_counts = () if statistics is None else statistics.row_counts
                columns[i] = _Column(file_field, position, of_column, row_counts, has_extremes=fits, refusal=refusal)
        return columns

    def _is_answered(self, columns: Mapping[int, _Column], i: int, headers: _Headers) -> bool:
        for part in self._partials.parts:
            if part.column is None:
                continue
            column = columns[part.column]
            if part.function in _EXTREMES:
                if not column.has_extreme(i, is_least=part.function == "min"):
                    return False
            elif not column.has_nulls(i, headers):
                return False
        return True

    def _store(
        self,
        columns: Mapping[int, _Column],
        answered: Sequence[int],
        headers: _Headers,
        part: FileRange,
        fields: Sequence[t.Field],
    ) -> None:
        """Add the answers of a file's record batches to the group of its schema and partition."""
        # The extremes of a column that is only counted are converted too, so that a value that is refused is an error.
        of_extremes = {
            part.column
            for part in self._partials.parts
            if part.column is not None
            and (part.function in _EXTREMES or columns[part.column].refusal is Refusal.OUTSIDE)
        }
        # Extremes from statistics need no header.
        is_constant = any(column.is_constant for i, column in columns.items() if i in of_extremes)
        needs_rows = self._partials.keys or self._counts or is_constant
        rows = headers.rows(answered) if needs_rows else 0
        if needs_rows and not rows:
            return  # a partition's value without rows is neither a group nor an extreme
        extremes = {i: column for i, column in columns.items() if i in of_extremes and not column.is_constant}
        key_fields = tuple((i, column.extremes_field()) for i, column in extremes.items())
        group = self._groups.setdefault(
            (tuple(fields), part.partition, key_fields), _Group(part.path, tuple(fields), part)
        )
        for number, each in enumerate(self._partials.parts):
            if each.function in _EXTREMES:
                continue
            nulls = 0
            if each.column is not None:
                nulls = sum(columns[each.column].nulls(i, headers) or 0 for i in answered)
            group.counts[number] = group.counts.get(number, 0) + rows - nulls
        for i, column in extremes.items():
            group.add(i, column, answered)

    def take(self) -> Iterator[PartialRows]:
        """Yield the answers as partial rows, one for each schema and partition, and clear them."""
        for group in self._groups.values():
            with error_context(path=group.path):
                batch = next(in_zone(self._convert(group), self._zone))
            yield self._partials.of_extremes(batch, group.counts)
        self._groups = {}

    def _convert(self, group: _Group) -> Iterator[pa.RecordBatch]:
        """Convert the least and greatest values as batches of the file are."""
        key_fields = [group.columns[i] for i in sorted(group.columns)]
        arrays = tuple(array_of([low, high], of.type) for of, low, high in key_fields)
        schema = Schema(tuple(of for of, *_ in key_fields))
        constants = PartitionColumns(schema, group.fields, group.range.partition)
        # Columns that are only counted have no extremes here: they are null, also where the table says NOT NULL.
        options = replace(self._options, missing_columns=MissingColumns.NULL)
        nullable = s.StructType(
            [s.StructField(each.name, each.dataType, metadata=each.metadata) for each in self._schema]
        )
        plan = compile_converter(constants.schema, nullable, options)
        return plan.convert(constants.add(RecordBatch(schema, arrays, 2)))


def _keeps_order(file_field: t.Field, type_: t.DataType, requested: s.StructField) -> bool:
    """Return whether the conversion of a column keeps the order of its values."""
    if file_field.extension_name is not None and type_ != file_field.type:
        return False
    (converted,) = predicate_fields(s.StructType([requested]))
    return keeps_order(type_, converted.type)


@dataclass(frozen=True, slots=True)
class _Column:
    """The source of a column's values in one file."""

    field: t.Field | None = None  # in the schema of the file, as the position
    position: int = -1
    statistics: ColumnStatistics | None = None
    row_counts: tuple[int, ...] = ()  # of each record batch, by the statistics
    has_extremes: bool = False  # whether the extremes in statistics are also the extremes in Spark
    refusal: Refusal = Refusal.NONE
    is_constant: bool = False  # whether all rows have `value`
    value: object = None

    def nulls(self, i: int, headers: _Headers) -> int | None:
        """Return the nulls of a record batch, None if headers and statistics do not have them."""
        if self.is_constant:
            return headers.rows([i]) if self.value is None else 0
        if self.statistics is not None:
            return self.statistics.null_counts[i]
        return headers.null_counts(i)[self.position]

    def has_nulls(self, i: int, headers: _Headers) -> bool:
        """Return whether the nulls of a record batch are available, and decoding would refuse no value."""
        if self.refusal is Refusal.UNKNOWN or self.nulls(i, headers) is None:
            return False
        is_free = self.refusal is Refusal.NONE
        return is_free or all(self.has_extreme(i, is_least=is_least) for is_least in (True, False))

    def has_extreme(self, i: int, *, is_least: bool) -> bool:
        """Return whether a least or greatest value is available exactly."""
        if self.is_constant:
            return True
        of = self.statistics
        if of is None or not self.has_extremes:
            return False
        value, is_exact = (of.least[i], of.least_exact[i]) if is_least else (of.greatest[i], of.greatest_exact[i])
        # Without a value all rows have to be null: statistics may also lack it for its length.
        return is_exact if value is not None else of.null_counts[i] == self.row_counts[i]

    def extremes_field(self) -> t.Field:
        """Return the file's field with the type of its statistics, without dictionary or run ends."""
        assert self.field is not None
        assert self.statistics is not None
        return replace(self.field, type=self.statistics.type)


@dataclass(slots=True)
class _Group:
    """The answers of record batches of one schema and one partition."""

    path: str  # of the first file
    fields: tuple[t.Field, ...]  # partition columns
    range: FileRange  # of the first file, with the values of partition columns
    counts: dict[int, int] = field(default_factory=dict)  # by part
    # By column: its field, the least and the greatest value; None without any.
    columns: dict[int, tuple[t.Field, Raw | None, Raw | None]] = field(default_factory=dict)

    def add(self, i: int, column: _Column, blocks: Sequence[int]) -> None:
        """Add the extremes of record batches of a file."""
        assert column.statistics is not None
        of, before = column.statistics, self.columns.get(i)
        low = [of.least[block] for block in blocks] + ([] if before is None else [before[1]])
        high = [of.greatest[block] for block in blocks] + ([] if before is None else [before[2]])
        least = min((value for value in low if value is not None), default=None)
        greatest = max((value for value in high if value is not None), default=None)
        self.columns[i] = (column.extremes_field(), least, greatest)


class _Headers:
    """Caches the headers of a file's record batches. Without a reader, `rows` must be complete, and null counts cannot be read."""

    def __init__(self, reader: ipc.FileReader | None, rows: dict[int, int]) -> None:
        self._reader = reader
        self._null_counts: dict[int, list[int | None]] = {}
        self._rows = rows

    def null_counts(self, i: int) -> list[int | None]:
        """Return the nulls of each column of a record batch."""
        if i not in self._null_counts:
            assert self._reader is not None
            header = self._reader.read_header(i)
            self._null_counts[i] = self._reader.null_counts(header)
            self._rows[i] = header.length
        return self._null_counts[i]

    def rows(self, numbers: Sequence[int]) -> int:
        """Return the rows of record batches."""
        unread = [i for i in numbers if i not in self._rows]
        if unread:
            assert self._reader is not None
            self._rows.update(zip(unread, self._reader.row_counts(unread), strict=True))
        return sum(self._rows[i] for i in numbers)
