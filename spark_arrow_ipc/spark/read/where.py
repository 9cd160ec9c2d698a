"""The option `where`: parse and bind it, skip files and blocks, filter rows.

How it works
------------
1. The driver binds the predicate to Spark's types: requested columns to the types of Spark's schema, and columns that only
   the predicate names to the types of the files (`Where`).
2. It skips files by their partition values and the statistics in the logs of tables (`prune_files`), and record batches by the statistics in the metadata of files (`prune_sizes`).
3. A task skips record batches by the file's statistics (`block_truths`), and rows of converted batches (`row_filter`).
   Columns that only the predicate needs follow the requested columns and never reach Spark.
4. With ``metadataColumns`` the predicate may name metadata columns, whose values are known before a file is opened or a
   record batch is decoded.

Planners do not know the session's time zone. Without the option `timeZone` they skip only rows that every zone excludes,
and tasks bind the predicate again in the zone of the job's properties (`RowSelection.in_session`). Tasks also check the
other settings on which a predicate depends, because planners use Spark's defaults; at least one task runs for that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from functools import partial
from itertools import accumulate

from pyspark.sql import types as s

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow.column_path import find_columns, with_dotted
from spark_arrow_ipc.arrow.types import Field
from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.listing.hive import Partitioning
from spark_arrow_ipc.dataset.predicate import check_settings
from spark_arrow_ipc.dataset.predicate import expressions as p
from spark_arrow_ipc.dataset.predicate.bind import bind
from spark_arrow_ipc.dataset.predicate.bound import BoundPredicate, has_doubt
from spark_arrow_ipc.dataset.predicate.parser import parse
from spark_arrow_ipc.dataset.predicate.prune import TRUE, UNKNOWN, Summary, keeps_partition
from spark_arrow_ipc.dataset.predicate.tokens import explain_refusal
from spark_arrow_ipc.dataset.scan.file_metadata import FileMetadata
from spark_arrow_ipc.dataset.scan.file_range import FileRange
from spark_arrow_ipc.dataset.scan.prune_files import file_filter
from spark_arrow_ipc.dataset.statistics.prune_blocks import BlockTruths, block_truths
from spark_arrow_ipc.dataset.statistics.read import BlockStatistics
from spark_arrow_ipc.dataset.time_zones import UNKNOWN_ZONE, zone
from spark_arrow_ipc.errors import ArrowIpcError, ColumnNotFoundError, OptionError, cut_repr, error_context, join_texts
from spark_arrow_ipc.spark.bridge import PyArrowSchema
from spark_arrow_ipc.spark.options.read_options import ReadOptions
from spark_arrow_ipc.spark.read.columns import METADATA_COLUMNS, list_hidden_columns
from spark_arrow_ipc.spark.read.row_filter import RowFilter, compile_filter, predicate_fields
from spark_arrow_ipc.spark.session_settings import (
    SESSION_ZONE,
    is_case_sensitive,
    planner_defaults,
    read_setting,
    value_of,
)


@dataclass(frozen=True, slots=True)
class RowSelection:
    """A predicate that is bound to its columns."""

    bound: BoundPredicate
    # Columns of the files that only the predicate needs; they follow the requested columns.
    extra: tuple[s.StructField, ...]
    positions: dict[str, int]  # of the predicate's columns among both, by name
    metadata: tuple[str, ...] = ()  # names of metadata columns in the predicate
    # Text about a column whose name equals several of Spark's names except for case, or None.
    alike: str | None = None
    # The predicate and its columns, if it depends on the session's time zone, otherwise None.
    unbound: tuple[p.Predicate, tuple[Field, ...]] | None = None
    # The other settings on which the predicate depends, and the part that does; binding again adds more.
    settings: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)  # of settings, where they differ from Spark's
    # The part of the predicate by which Spark does not filter again, if it has a hint (`RowFilter`), otherwise None.
    required: BoundPredicate | None = None

    @property
    def depends_on_session(self) -> bool:
        """True if tasks must check settings of the session, even without rows."""
        return bool(self.settings) or self.unbound is not None or self.alike is not None

    def in_session(self) -> RowSelection:
        """Return the selection bound in the session's time zone, or raise if other settings change its meaning."""
        name = read_setting(SESSION_ZONE)
        bound = self._bound_in(None if name is None else zone(name))
        return RowSelection(bound, self.extra, self.positions, self.metadata, required=self.required)

    def check_session(self) -> None:
        """Raise as `in_session` does."""
        # Without rows the time zone does not matter.
        self._bound_in(UNKNOWN_ZONE)

    def _bound_in(self, in_zone: tzinfo | None) -> BoundPredicate:
        settings, bound = dict(self.settings), self.bound
        if self.unbound is not None:
            predicate, fields = self.unbound
            bound = bind(predicate, fields, in_zone, settings)
        with error_context(asked_by=p.WHERE):
            if self.alike is not None and not is_case_sensitive():
                raise ColumnNotFoundError(
                    f"{self.alike} without spark.sql.caseSensitive=true; leave one out with the option columns"
                )
            check_settings(settings, partial(value_of, defaults=self.defaults))
        return bound

    @classmethod
    def of(
        cls, requested: s.StructType, options: ReadOptions, read_missing: Callable[[ReadOptions], s.StructType]
    ) -> RowSelection:
        """Return the selection of the option `where`; `read_missing` infers the schema of columns that only it names."""
        assert options.where is not None
        where = Where.parse(options.where, requested, metadata=options.metadata_columns)
        return where.bind(requested, where.missing_fields(options, read_missing), options.time_zone)

    def row_filter(self, schema: PyArrowSchema, n_columns: int, added: Sequence[str]) -> RowFilter:
        """Compile the filter of rows."""
        output = n_columns + len(added)
        positions = {name: i if i < n_columns else i + len(added) for name, i in self.positions.items()}
        hidden = list_hidden_columns(self.metadata, added)
        added_positions = [
            *zip(map(str.lower, added), range(n_columns, output), strict=True),
            *zip(hidden, range(len(schema) - len(hidden), len(schema)), strict=True),
        ]
        return compile_filter(
            self.bound, schema, output=output, positions=positions | dict(added_positions), required=self.required
        )

    def block_truths(
        self,
        reader: ipc.FileReader,
        statistics: BlockStatistics | None,
        part: FileRange,
        fields: Sequence[Field],
    ) -> BlockTruths:
        """Return a callback that returns the possible truths of the predicate in a record batch."""
        blocks = range(len(reader) if part.stop is None else part.stop)
        summaries = self._summaries(lambda: reader.row_counts(blocks))
        return block_truths(self.bound, reader.schema, statistics, self.constants(fields, part), summaries)

    def prune_sizes(self, metadata: FileMetadata, file: DataFile, fields: Sequence[Field]) -> tuple[int, ...] | None:
        """Return the bytes of each record batch, 0 if no row can match; None without statistics."""
        if metadata.schema is None or metadata.statistics is None or metadata.block_nbytes is None:
            return None
        try:
            constants = self.constants(fields, file)
            statistics = metadata.statistics
            summaries = self._summaries(lambda: statistics.row_counts)
            may_be = block_truths(self.bound, metadata.schema, statistics, constants, summaries)
            return tuple(nbytes * bool(may_be(i) & TRUE) for i, nbytes in enumerate(metadata.block_nbytes))
        except ArrowIpcError:  # the task that reads the file raises it
            return None

    def keeps_file(self, fields: Sequence[Field], file: DataFile | FileRange) -> bool:
        """Return False if no row of a file can match by its partition values, path, size and time."""
        return keeps_partition(self.bound, self.constants(fields, file))

    @property
    def of_files(self) -> tuple[str, ...]:
        """The metadata columns with one value in all rows of a file."""
        return tuple(name for name in self.metadata if METADATA_COLUMNS[name].of_file is not None)

    @property
    def of_blocks(self) -> tuple[str, ...]:
        """The metadata columns that depend on the record batch."""
        return tuple(name for name in self.metadata if METADATA_COLUMNS[name].of_file is None)

    def constants(self, fields: Sequence[Field], file: DataFile | FileRange) -> dict[str, object]:
        """Return the values of columns that are equal in all rows of a file."""
        names = [field.name for field in fields]
        of_paths = {name: value for name, value in zip(names, file.partition, strict=True) if name not in self.metadata}
        return of_paths | {name: METADATA_COLUMNS[name].value_of(file) for name in self.of_files}

    def _summaries(self, row_counts: Callable[[], Sequence[int]]) -> dict[str, Callable[[int], Summary]]:
        """Return the functions from the number of a record batch to the summaries of `of_blocks`."""
        summaries: dict[str, Callable[[int], Summary]] = dict.fromkeys(self.of_blocks, lambda _: UNKNOWN)
        if "_block" in summaries:
            summaries["_block"] = lambda i: Summary(i, i, may_be_null=False)
        if "_row_index" in summaries:
            with suppress(ArrowIpcError, OSError):  # the reader of the record batch raises it
                counts = row_counts()
                ends = list(accumulate(counts))
                summaries["_row_index"] = lambda i: Summary(ends[i] - counts[i], ends[i], may_be_null=False)
        return summaries


@dataclass(frozen=True, slots=True)
class Where:
    """The option `where`, parsed and not yet bound to the types of its columns."""

    predicate: p.Predicate
    missing: tuple[tuple[str, ...], ...]  # paths of columns that Spark did not request, without metadata columns
    sql: str  # for errors
    # The settings of the session on which literals depend, and the part that does.
    settings: Mapping[str, str] = field(default_factory=dict)
    metadata: tuple[str, ...] = ()  # names of its metadata columns

    @classmethod
    def parse(cls, sql: str, requested: s.StructType, *, metadata: bool = False) -> Where:
        """Parse the option `where` of a read of the columns `requested`, and of metadata columns if `metadata` is True."""
        settings: dict[str, str] = {}
        try:
            predicate = parse(sql, settings)
        except OptionError as error:
            raise explain_refusal(error, sql, parse) from error.__cause__
        paths = [column.path for column in p.columns(predicate)]
        names = tuple(name for name in METADATA_COLUMNS if metadata and name in {path[0].lower() for path in paths})
        positions = {path: _find_position(requested, path) for path in paths if path[0].lower() not in names}
        # A struct with only some requested fields is read again for the others.
        absent = {path[0].casefold() for path, position in positions.items() if position is None}
        return cls(predicate, tuple(path for path in positions if path[0].casefold() in absent), sql, settings, names)

    def missing_fields(
        self, options: ReadOptions, read_missing: Callable[[ReadOptions], s.StructType]
    ) -> Sequence[s.StructField]:
        """Return the columns of `missing` in the types of the files."""
        if not self.missing:
            return ()
        try:
            # The option columns refuses a field next to its column, which contains it.
            widest = [path for path in self.missing if not any(path[:i] in self.missing for i in range(1, len(path)))]
            schema = read_missing(replace(options, columns=tuple(widest), metadata_columns=False))
        except ColumnNotFoundError as error:
            error.asked_by = p.WHERE  # and not by the option columns
            raise name_origin(error, self.missing) from None
        return tuple(schema.fields)

    def bind(self, requested: s.StructType, extra: Sequence[s.StructField], time_zone: str | None) -> RowSelection:
        """Bind the predicate to the types of its columns."""
        positions: dict[str, int] = {}
        fields = {name: s.StructField(name, METADATA_COLUMNS[name].type) for name in self.metadata}
        for column in p.columns(self.predicate):
            if column.path[0].lower() in self.metadata:
                continue
            position = _find_position(requested, column.path)
            if position is not None and column.path not in self.missing:
                fields[requested.fields[position].name] = requested.fields[position]
                positions[requested.fields[position].name] = position
        alike = _describe_alike(
            requested, [column.path for column in p.columns(self.predicate) if column.path not in self.missing]
        )
        for i, one in enumerate(extra):
            fields[one.name] = one
            positions[one.name] = len(requested.fields) + i
        columns = predicate_fields(s.StructType(list(fields.values())))
        in_zone = UNKNOWN_ZONE if time_zone is None else zone(time_zone)
        settings = dict(self.settings)
        try:
            bound = bind(self.predicate, columns, in_zone, settings)
        except OptionError as error:
            raise explain_refusal(error, self.sql, lambda sql: bind(parse(sql), columns, in_zone)) from error.__cause__
        except ColumnNotFoundError as error:
            for column in p.columns(self.predicate):
                with_dotted(error, requested.names, column.path)
            raise
        defaults = planner_defaults()
        if time_zone is None and has_doubt(bound):
            unbound = self.predicate, columns
            return RowSelection(bound, tuple(extra), positions, self.metadata, alike, unbound, self.settings, defaults)
        return RowSelection(bound, tuple(extra), positions, self.metadata, alike, None, settings, defaults)


def name_origin(error: ColumnNotFoundError, paths: Sequence[Sequence[str]]) -> ColumnNotFoundError:
    """Return an error about missing columns, with the option that adds metadata columns if it names one."""
    if any(path[0].lower() in METADATA_COLUMNS for path in paths):
        error.message = f"{error.message}; reads in Spark have the columns of a row's origin with metadataColumns=true"
    return error


def prune_files(selection: RowSelection, partitioning: Partitioning, *, by_statistics: bool) -> Partitioning:
    """Skip the files of which no row can match by their partition values, path, size and time, and the logs' statistics."""
    partitioning = _prune_by_constants(selection, partitioning)
    states = {root: state for root, state in partitioning.states.items() if state.files.statistics is not None}
    if not states or not by_statistics:
        return partitioning
    may_match = file_filter(
        selection.bound, states, partial(selection.constants, partitioning.fields), selection.of_blocks
    )
    return replace(partitioning, files=tuple(filter(may_match, partitioning.files)), strings=())


def _prune_by_constants(selection: RowSelection, partitioning: Partitioning) -> Partitioning:
    if not partitioning.fields and not selection.of_files:
        return partitioning
    may_match: dict[object, bool] = {}
    files = []
    for file in partitioning.files:
        # One evaluation for each partition, or for each file if the predicate names its path, size or time.
        key = file if selection.of_files else file.partition
        if key not in may_match:
            may_match[key] = selection.keeps_file(partitioning.fields, file)
        if may_match[key]:
            files.append(file)
    return replace(partitioning, files=tuple(files), strings=())


def _describe_alike(requested: s.StructType, paths: Sequence[Sequence[str]]) -> str | None:
    """Return a text about the first name that equals several columns except for case, or None."""
    for path in paths:
        type_: s.DataType = requested
        for name in path:
            names = type_.names if isinstance(type_, s.StructType) else []
            likely = [other for other in names if other.casefold() == name.casefold()]
            if len(likely) > 1:
                return f"the name {cut_repr('.'.join(path))} may stand for {join_texts(list(map(cut_repr, likely)))}"
            type_ = type_[likely[0]].dataType if isinstance(type_, s.StructType) and likely else s.NullType()
    return None


def _find_position(requested: s.StructType, path: Sequence[str]) -> int | None:
    """Return the position of a path's first column; None if the path does not exist."""
    first = None
    type_: s.DataType = requested
    for name in path:
        if not isinstance(type_, s.StructType):
            break  # `bind` raises the error
        (position,) = find_columns(type_.names, [name], absent=-1)
        if position < 0:
            return None
        first = position if first is None else first
        type_ = type_.fields[position].dataType
    return first
