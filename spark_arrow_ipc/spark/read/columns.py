"""Choose the columns of a file from the option `columns` and Spark's schema, and make metadata columns.

Files of one directory may differ in the order of their columns, so paths are resolved against the schema of each file,
by the rules of `arrow.column_path`. A user's ``.schema(subset)`` is a projection, also of the fields of structs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from pyspark.sql import types as s

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.column_path import ColumnPath, IsCaseSensitive, find_columns, resolve_all
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.dataset.scan.file_range import Origin
from spark_arrow_ipc.dataset.scan.read_blocks import ScannedBatch
from spark_arrow_ipc.dataset.stream.mode import CHANGE_COLUMNS
from spark_arrow_ipc.errors import ColumnNotFoundError, OptionError, cut_repr, error_context, join_texts, printable

if TYPE_CHECKING:
    import pyarrow as pa

_LOG: Final = logging.getLogger(__name__)

SelectColumns = Callable[[Schema], Sequence[ColumnPath]]
"""Callback from a file's schema to the columns to read, for `ipc.open`."""

COLUMNS = "the option columns"
SCHEMA = "the schema of the read"
"""Origins of a request for columns, in errors (`ArrowIpcError.asked_by`)."""


def partition_position(partition_fields: Sequence[t.Field], path: ColumnPath) -> int | None:
    """Return the position of a path among the partition columns; None for columns of files."""
    if isinstance(path, tuple) and len(path) == 1:
        (path,) = path
    if not isinstance(path, str) or not partition_fields:
        return None
    (position,) = find_columns([field.name for field in partition_fields], [path], absent=-1)
    return position if position >= 0 else None


def in_order(type_: s.DataType, paths: Sequence[tuple[str, ...]], above: str) -> s.DataType:
    """Return the type of a column with the fields of its structs in the order of their paths."""
    if () in paths:
        if len(paths) > 1:
            raise OptionError(
                f"{above} is named more than once, or together with one of its fields; name each column once"
            )
        return type_
    if not isinstance(type_, s.StructType):
        raise ColumnNotFoundError(
            expected=f"{above} to be a struct, so that {paths[0][0]!r} can be one of its fields",
            found=type_.simpleString(),
        )
    below: dict[int, list[tuple[str, ...]]] = {}
    for name, *rest in paths:
        (position,) = find_columns(type_.names, [name], above)
        below.setdefault(position, []).append(tuple(rest))
    fields = [(type_.fields[position], of_field) for position, of_field in below.items()]
    return s.StructType([
        s.StructField(f.name, in_order(f.dataType, of_field, f"{above}.{f.name}"), f.nullable, f.metadata)
        for f, of_field in fields
    ])  # fmt: skip


def select_referenced(
    paths: Sequence[ColumnPath],
    partition_fields: Sequence[t.Field] = (),
    *,
    skips_absent: bool = False,
    asked_by: str = COLUMNS,
    is_case_sensitive: IsCaseSensitive | None = None,
) -> SelectColumns:
    """Return a callback that resolves the option `columns`, or the columns of `where`, in the schema of a file."""
    file_paths = [path for path in paths if partition_position(partition_fields, path) is None]
    names = [field.name for field in partition_fields]

    def select(schema: Schema) -> list[ColumnPath]:
        with error_context(asked_by=asked_by):
            return list(
                resolve_all(
                    schema.fields,
                    file_paths,
                    skips_absent=skips_absent,
                    is_case_sensitive=is_case_sensitive,
                    others=names,
                )
            )

    return select


def select_columns(
    paths: Sequence[ColumnPath] | None,
    requested: s.StructType,
    partition_fields: Sequence[t.Field] = (),
    *,
    skips_absent: bool = False,
    asked_by: str | None = None,
    is_case_sensitive: IsCaseSensitive | None = None,
) -> SelectColumns:
    """Return a callback that resolves the columns of Spark's schema."""
    if paths is not None and (not skips_absent or any(isinstance(path, int) for path in paths)):
        return select_referenced(
            paths, partition_fields, skips_absent=skips_absent, is_case_sensitive=is_case_sensitive
        )
    file_fields = [field for field in requested.fields if partition_position(partition_fields, field.name) is None]
    find = partial(
        find_columns,
        absent=-1 if skips_absent else None,
        is_case_sensitive=is_case_sensitive,
        others=[field.name for field in partition_fields],
    )

    @lru_cache(maxsize=1)  # most files of a task have one schema
    def select(schema: Schema) -> Sequence[ColumnPath]:
        with error_context(asked_by=asked_by or (SCHEMA if paths is None else COLUMNS)):
            return list(_walk_requested(t.Struct(schema.fields), s.StructType(file_fields), None, find))

    return select


def select_needed(
    paths: Sequence[ColumnPath] | None,
    requested: s.StructType,
    extra: Sequence[s.StructField],
    partition_fields: Sequence[t.Field] = (),
    *,
    skips_absent: bool = False,
    is_case_sensitive: IsCaseSensitive | None = None,
) -> SelectColumns:
    """Return a callback that resolves the columns of `select_columns`, then `extra`."""
    select_requested = select_columns(
        paths, requested, partition_fields, skips_absent=skips_absent, is_case_sensitive=is_case_sensitive
    )
    if not extra:
        return select_requested
    from spark_arrow_ipc.dataset.predicate.expressions import WHERE  # plain reads start faster without it

    others = select_columns(
        None,
        s.StructType(list(extra)),
        partition_fields,
        skips_absent=skips_absent,
        asked_by=WHERE,
        is_case_sensitive=is_case_sensitive,
    )
    return lambda schema: [*select_requested(schema), *others(schema)]


def warn_of_others(select: SelectColumns, names: Sequence[str]) -> SelectColumns:
    """Return a callback that returns what `select` does, and warns once of columns that the read leaves out."""
    read = {name.casefold() for name in names}
    pending = True

    def select_and_warn(schema: Schema) -> Sequence[ColumnPath]:
        nonlocal pending
        others = [name for name in schema.names if name.casefold() not in read] if pending else []
        if others:
            pending = False
            _LOG.warning(
                "files have columns that this read leaves out (%s), because it takes those of the newest file: set "
                "mergeSchema=true to read the columns of all files, or name the columns to read with the option columns",
                printable(join_texts([cut_repr(name) for name in others])),
            )
        return select(schema)

    return select_and_warn


def _walk_requested(
    type_: t.DataType, requested: s.DataType, path: str | None, find: Callable[..., list[int]]
) -> Iterator[tuple[int, ...]]:
    """Yield the paths to the requested fields of a struct, or to a complete column."""
    # A column whose fields exist only in Spark, such as a union, is read completely.
    if not isinstance(type_, t.Struct) or not isinstance(requested, s.StructType) or (path and not requested.fields):
        yield ()
        return
    names = [field.name for field in type_.fields]
    positions = find(names, requested.names, path)
    present = [(position, field) for position, field in zip(positions, requested.fields, strict=True) if position >= 0]
    if path and not present:  # the file has none of the fields, and the validity of the struct is needed
        yield ()
    for position, field in present:
        here = field.name if path is None else f"{path}.{field.name}"
        inside = type_.fields[position].type
        for below in _walk_requested(inside, field.dataType, here, find):
            yield (position, *below)


# The columns of ``metadataColumns=true``. Spark has no ``_metadata`` column for a Python source, so these are ordinary
# columns whose names begin with an underscore. Values are one constant for a file, or a few numpy calls for a batch.
@dataclass(frozen=True, slots=True)
class RowsOf:
    """The origin of the rows of a batch: their file and positions."""

    range: Origin  # a part of a file, or of a table on a server
    rows_before: int  # rows of the file before the range
    scanned: ScannedBatch  # the batch as the scan yields it
    # Position of the first row in `scanned`, and number of rows: Spark gets large batches in parts.
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class MetadataColumn:
    """A row of `METADATA_COLUMNS`."""

    type: s.DataType  # in Spark
    meaning: str  # for the documentation
    # Returns the value of each row; None if all rows of a file have the same value.
    of_rows: Callable[[RowsOf], np.ndarray[Any, Any]] | None = None
    of_file: Callable[[Origin], str | int | None] | None = None  # returns the value that all rows of a file have

    def value_of(self, file: Origin) -> str | int | None:
        """Return the value of all rows of a file; a time is in microseconds since 1970."""
        assert self.of_file is not None
        return self.of_file(file)

    def array(self, rows: RowsOf, name: str) -> pa.Array:
        """Return the values for a batch, in the type that Spark expects."""
        # Imported late: Spark infers a schema without pyarrow.
        from pyarrow import repeat

        from spark_arrow_ipc.spark import bridge
        from spark_arrow_ipc.spark.convert.conversion import pyarrow_type

        to = pyarrow_type(self.type, name)
        if self.of_rows is not None:
            return bridge.numbers(self.of_rows(rows)).cast(to)
        return repeat(bridge.scalar(self.value_of(rows.range), to), rows.count)


def _blocks(rows: RowsOf) -> np.ndarray[Any, Any]:
    first_block, block_rows = rows.scanned.first_block, rows.scanned.block_rows
    if len(block_rows) == 1:  # perhaps a part of a block
        return np.full(rows.count, first_block, np.int32)
    blocks = np.repeat(np.arange(first_block, first_block + len(block_rows), dtype=np.int32), block_rows)
    return blocks[rows.first : rows.first + rows.count]


def _row_indices(rows: RowsOf) -> np.ndarray[Any, Any]:
    index = rows.rows_before + rows.scanned.first_row + rows.first
    return np.arange(index, index + rows.count, dtype=np.int64)


METADATA_COLUMNS: Mapping[str, MetadataColumn] = {
    "_file_path": MetadataColumn(s.StringType(), "absolute path of the file", of_file=lambda file: file.path),
    "_file_size": MetadataColumn(s.LongType(), "its bytes", of_file=lambda file: file.nbytes),
    "_file_modification_time": MetadataColumn(
        s.TimestampType(),
        "when it was last modified",
        of_file=lambda file: None if file.mtime_ns is None else file.mtime_ns // 1000,
    ),
    "_block": MetadataColumn(s.IntegerType(), "number of the record batch in the file, from 0", of_rows=_blocks),
    "_row_index": MetadataColumn(s.LongType(), "number of the row in the file, from 0", of_rows=_row_indices),
}
"""By name, in the order in which they follow all other columns."""


CHANGE_FIELDS = tuple(map(t.Field, CHANGE_COLUMNS, (t.utf8, t.int64)))
"""The columns of ``readChangeFeed=true``, which have one value in each file, like partition columns."""


def with_change_columns(schema: s.StructType) -> s.StructType:
    """Return the schema of the changes of rows."""
    clash = next((name for name in schema.names if name.lower() in CHANGE_COLUMNS), None)
    if clash is not None:
        raise OptionError(
            f"readChangeFeed=true adds a column {clash!r}, and the data has one; choose others with the option columns"
        )
    types = (s.StringType(), s.LongType())
    return s.StructType([*schema.fields, *map(s.StructField, CHANGE_COLUMNS, types)])


def metadata_schema(names: Iterable[str] = METADATA_COLUMNS) -> s.StructType:
    """Return the Spark schema of all or some metadata columns."""
    return s.StructType([s.StructField(name, METADATA_COLUMNS[name].type) for name in names])


def list_hidden_columns(names: Sequence[str], added: Sequence[str]) -> list[str]:
    """Return the columns `names` of `where` that Spark did not request, whatever the case of letters."""
    return [name for name in names if name not in set(map(str.lower, added))]


def check_clash(names: Sequence[str]) -> None:
    """Raise if the data has a column with the name of a metadata column, whatever the case of letters."""
    metadata_names = {name.lower() for name in METADATA_COLUMNS}
    clashes = [name for name in names if name.lower() in metadata_names]
    if clashes:
        raise OptionError(
            f"metadataColumns=true adds a column {clashes[0]!r}, and the data has one; choose others with the option "
            "columns, or do without metadataColumns"
        )
