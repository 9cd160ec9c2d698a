"""`BatchConverter`: converts a file's batches to Spark's schema.

How it works
------------
1. `compile_converter` reads a file's schema once. It finds columns by name and picks a conversion for each field from the
   tables at the end of this module. The natural Spark type of a field (``spark/types/arrow_to_spark.py``) must be the
   requested type or widen to it (``spark/types/merge.py``); nested types compare their children. A mismatch is an error
   before any value is read: it names the column, both types, and an option that resolves it, if one does.
2. `BatchConverter.convert` adds a column of nulls for columns that the file lacks, and cuts the batch if its decoded size may
   exceed 64 MiB: first by a cheap upper bound, and only if that fails by the exact size of each row.
3. It calls one `Conversion` for each column. They share the memory of the file's batch where Spark's layout is the same.

Rule 1: every batch has exactly the schema that Spark expects, because Spark compares only the first batch of a task, and a
later one of another type breaks the JVM.

Rule 2: sizes come before values. Dictionary values, runs and views let a few bytes stand for billions of slots, so a
batch is measured and cut before anything is decoded.

Rule 3: checks see visible values only (`conversion` describes live slots).

A batch costs one call for each field and no Python for each value, except decimals of more than 38 digits and map keys of
nested types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import types as s

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.column_path import find_columns
from spark_arrow_ipc.arrow.kernels.slice import MostNbytes, split_rows
from spark_arrow_ipc.arrow.record_batch import RecordBatch, pick
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.arrow.unseen import clear_unseen, tolerate_unseen
from spark_arrow_ipc.errors import ArrowIpcError, InvalidBodyError, SchemaMismatchError
from spark_arrow_ipc.ipc.constants import Validation
from spark_arrow_ipc.spark import bridge
from spark_arrow_ipc.spark.convert import binary_and_text, dictionaries, nested, primitive, tensors, variants
from spark_arrow_ipc.spark.convert.conversion import (
    ABSENT_FIELD,
    Bound,
    Conversion,
    DictionaryBudget,
    Mask,
    Refusal,
    Site,
    compile_bound,
    nulls,
    pyarrow_schema,
    pyarrow_type,
    share,
    slot_prices,
)
from spark_arrow_ipc.spark.options.read_options import ReadOptions
from spark_arrow_ipc.spark.options.values import ExtensionTypes, Nanoseconds, Times, TimestampsWithOffset, Vectors
from spark_arrow_ipc.spark.types import arrow_to_spark, extension_columns
from spark_arrow_ipc.spark.types.field_metadata import vector_element
from spark_arrow_ipc.spark.types.merge import widens
from spark_arrow_ipc.spark.types.spark_to_arrow import storage_type

MAX_ROWS = 1_000_000
"""The most rows of a batch for the JVM."""

PIECE_NBYTES = 64 << 20
"""Bytes of one batch for the JVM; larger ones cost it memory and are not faster (measured)."""

_EXPANSION: Final = 32
"""All rows of a batch may be decoded to this many times `maxBatchBytes`: 64 GiB by default, a minute or two of a task.
Writers that put a complete table into one batch, with dictionaries, stay below."""


@dataclass(frozen=True, slots=True)
class BatchConverter:
    """A compiled plan for the batches of one file schema."""

    schema: pa.Schema  # of every batch that `convert` yields
    # Positions in a file's batch, in the order of `schema`; the one after its last column stands for absent columns.
    positions: tuple[int, ...]
    conversions: tuple[Conversion, ...]  # one for each column of `schema`
    max_row_nbytes: int  # of a decoded row; all rows of a batch may have `_EXPANSION` times as many
    slot_prices: tuple[int, ...]  # for each column the bytes to count for a decoded slot in addition to its value
    checked: bool  # whether the decoder has checked the values of the batches (``validation=full``)
    bound: Bound | None  # upper bound of the decoded bytes, where one is cheaper than the exact size

    def convert(self, batch: RecordBatch) -> Iterator[pa.RecordBatch]:
        """Convert a batch in pieces of at most `MAX_ROWS` rows and about 64 MiB, sharing memory if layouts agree."""
        if len(batch.columns) in self.positions:
            fields = (*batch.schema.fields, ABSENT_FIELD)
            batch = RecordBatch(Schema(fields), (*batch.columns, nulls(batch.num_rows)), batch.num_rows)
        columns, done = tuple(pick(batch.columns, self.positions)), 0
        try:
            for piece in self._pieces(batch, columns):
                done += piece.num_rows
                yield piece
        except ArrowIpcError:
            if self.checked:
                raise
        else:
            return
        # Values that no row can see may have made a batch fail that was not validated, so it is tried without them, in all
        # its rows: errors count slots from the first.
        stop = 0
        for piece in self._pieces(batch, tuple(map(clear_unseen, columns))):
            start, stop = stop, stop + piece.num_rows
            if stop > done or not stop:
                yield piece.slice(max(done - start, 0))

    def _pieces(self, batch: RecordBatch, columns: tuple[Array, ...]) -> Iterator[pa.RecordBatch]:
        try:
            # Almost every batch fits, and the bound reads buffer sizes only; the exact size would read dictionary indices.
            if batch.num_rows <= MAX_ROWS and self.bound is not None and self.bound(columns) <= PIECE_NBYTES:
                yield self._piece(columns, batch.num_rows)
                return
            schema = Schema(tuple(batch.schema.fields[i] for i in self.positions))
            for piece in self._split(RecordBatch(schema, columns, batch.num_rows)):
                yield self._piece(piece.columns, piece.num_rows)
        except ArrowIpcError:
            raise
        except (IndexError, ValueError) as error:
            # numpy and pyarrow raise these for offsets and indices that are out of bounds.
            if self.checked:
                raise
            raise InvalidBodyError(
                f"offsets, sizes or indices are broken ({error}); validation=full names the first"
            ) from error

    def _split(self, batch: RecordBatch) -> Iterator[RecordBatch]:
        return split_rows(
            batch,
            max_rows=MAX_ROWS,
            max_nbytes=PIECE_NBYTES,
            most=MostNbytes(self.max_row_nbytes, _EXPANSION * self.max_row_nbytes),
            slot_nbytes=self.slot_prices,
        )

    def _piece(self, columns: Sequence[Array], rows: int) -> pa.RecordBatch:
        if not columns:
            # Without columns pyarrow's RecordBatch would have no row count; a struct array has one.
            return pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), rows, [None]))
        arrays = [_convert_column(column, each) for each, column in zip(self.conversions, columns, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


@tolerate_unseen
def _convert_column(column: Array, conversion: Conversion) -> pa.Array:
    return conversion.convert(column, None)


def compile_converter(
    arrow_schema: Schema, spark_schema: s.StructType, options: ReadOptions, *, expands: bool = True
) -> BatchConverter:
    """Compile the plan that converts batches of `arrow_schema` to `spark_schema`, whose dictionaries the caller may expand."""
    expected = pyarrow_schema(spark_schema)
    absent = len(arrow_schema) if options.fills_missing else None
    positions = find_columns(arrow_schema.names, spark_schema.names, absent=absent)
    fields = (*arrow_schema.fields, ABSENT_FIELD)
    budget = DictionaryBudget(options.max_batch_bytes)
    conversions = tuple(
        _compile(options, budget, fields[i], requested.dataType, requested.name, nullable=requested.nullable)
        for i, requested in zip(positions, spark_schema.fields, strict=True)
    )
    types = [fields[i].type for i in positions]
    if not expands:
        conversions = tuple(map(_encoding, conversions))
        for i, (type_, conversion) in enumerate(zip(types, conversions, strict=True)):
            if conversion.encode is not None:
                assert isinstance(type_, t.Dictionary)
                column = expected.field(i)
                encoded = pa.dictionary(bridge.type_to_pyarrow(type_.index), column.type)
                expected = expected.set(i, column.with_type(encoded))
    return BatchConverter(
        expected,
        tuple(positions),
        conversions,
        options.max_batch_bytes,
        slot_prices(types),
        options.validation is Validation.FULL,
        compile_bound(types),
    )


def _encoding(conversion: Conversion) -> Conversion:
    encode = conversion.encode
    return conversion if encode is None else replace(conversion, convert=lambda array, _live: encode(array))


def refusal_of(field: t.Field, requested: s.StructField, options: ReadOptions) -> Refusal:
    """Return the values of a file's field that the conversion to a Spark column refuses."""
    try:
        budget = DictionaryBudget(options.max_batch_bytes)
        compiled = _compile(options, budget, field, requested.dataType, requested.name, nullable=requested.nullable)
    except ArrowIpcError:
        return Refusal.UNKNOWN  # without a conversion only the read itself can give the error
    return compiled.refusal


def _compile(
    options: ReadOptions,
    budget: DictionaryBudget,
    field: t.Field,
    target: s.DataType,
    path: str,
    *,
    nullable: bool,
) -> Conversion:
    """Compile the conversion of one field to the requested type."""
    if isinstance(target, s.UserDefinedType):
        stored = _compile(options, budget, field, storage_type(target), path, nullable=nullable)
        return tensors.check_user_type(stored, target, path)
    options = arrow_to_spark.options_for(target, options)
    site = Site(path, options, partial(_compile, options, budget), budget)
    extension = extension_columns.extension_of(field, options)
    row = NESTED.get(type(field.type)) if extension is None or isinstance(field.type, t.Dictionary) else None
    tensor = arrow_to_spark.tensor_column_of(field, options, path)
    if tensor is not None:
        conversion = tensors.tensor(field, tensor, target, site)
    elif (column := arrow_to_spark.spatial_column_of(field, options, path)) is not None:
        if target != column.spark_type and not widens(column.spark_type, target):
            raise _mismatch(field, target, site)
        conversion = binary_and_text.spatial(field, column, target, site)
    elif isinstance(target, s.BinaryType) and options.vectors is Vectors.BINARY and vector_element(field.type):
        conversion = tensors.vector(field, target, site)
    elif isinstance(field.type, t.Null):
        # Nulls convert to every type.
        conversion = LEAVES[t.Null](field.type, target, site)
    elif row is None:
        leaf = EXTENDED[field.extension_name or ""] if extension is not None else LEAVES[type(field.type)]
        conversion = _leaf(leaf, field, target, site)
    elif row.target is not None and not isinstance(target, row.target):
        raise _mismatch(field, target, site)
    else:
        conversion = row.build(field, target, site)
    return conversion if nullable else _not_null(conversion, path)


def _leaf(leaf: Leaf, field: t.Field, target: s.DataType, site: Site) -> Conversion:
    natural = arrow_to_spark.spark_type(field, site.options, site.path)
    if _is_same(natural, target):
        return leaf(field.type, target, site)
    if primitive.is_finer_or_coarser(natural, target):
        return primitive.check_steps(leaf(field.type, natural, site), target, site.path)
    if not widens(natural, target):
        raise _mismatch(field, target, site)
    narrow = leaf(field.type, natural, site)
    to = pyarrow_type(target, site.path)
    # Not pyarrow's cast, whose error for a date beyond the range of microseconds would not name the column.
    if isinstance(target, s.TimestampNTZType):
        return Conversion(
            lambda array, live: primitive.days_to_microseconds(narrow.convert(array, live), to, site.path),
            narrow.checks,
            max(narrow.refusal, Refusal.OUTSIDE),
        )
    return Conversion(lambda array, live: narrow.convert(array, live).cast(to), narrow.checks, narrow.refusal)


def _is_same(natural: s.DataType, target: s.DataType) -> bool:
    """Compare two leaf types, ignoring collations and NOT NULL inside; a struct may lack fields of the natural one."""
    if isinstance(natural, s.StructType) and isinstance(target, s.StructType):
        return bool(target.fields) and all(
            field.name in natural.names and field.dataType == natural[field.name].dataType for field in target.fields
        )
    return natural == target or type(natural) is type(target) is s.StringType


def _not_null(conversion: Conversion, path: str) -> Conversion:
    def convert(array: Array, live: Mask) -> pa.Array:
        converted = conversion.convert(array, live)
        if converted.null_count:
            nulls = converted.is_null().to_numpy(zero_copy_only=False)
            shown = nulls if live is None else nulls & live
            if shown.any():
                raise SchemaMismatchError(
                    f"expected no nulls (the schema says NOT NULL), found {int(np.count_nonzero(shown)):,} "
                    f"in {len(shown):,} slots",
                    field_path=path,
                )
        return converted

    return Conversion(convert, checks=True)


def _mismatch(field: t.Field, target: s.DataType, site: Site) -> SchemaMismatchError:
    try:
        natural = arrow_to_spark.spark_type(field, site.options, site.path).simpleString()
    except ArrowIpcError as error:
        natural = f"not readable ({error})"
    return SchemaMismatchError(
        expected=target.simpleString(),
        found=f"{field.type}, which is {natural} in Spark and does not widen to it{_hint(field, target, site)}",
        field_path=site.path,
    )


def _hint(field: t.Field, target: s.DataType, site: Site) -> str:
    """Return a hint at the option that gives the requested type, or an empty string."""
    for name, options in _alternatives(site.options):
        try:
            natural = arrow_to_spark.spark_type(field, options, site.path)
        except ArrowIpcError:
            continue
        if natural == target or widens(natural, target):
            return f"; read it with {name}"
    return ""


def _alternatives(options: ReadOptions) -> Iterator[tuple[str, ReadOptions]]:
    for times in Times:
        yield f"times={times.value}", replace(options, times=times)
    for nanoseconds in Nanoseconds:
        yield f"nanoseconds={nanoseconds.value}", replace(options, nanoseconds=nanoseconds)
    yield f"vectors={Vectors.BINARY.value}", replace(options, vectors=Vectors.BINARY)
    for with_offset in TimestampsWithOffset:
        yield f"timestampsWithOffset={with_offset.value}", replace(options, timestamps_with_offset=with_offset)
    for extension_types in ExtensionTypes:
        yield f"extensionTypes={extension_types.value}", replace(options, extension_types=extension_types)


def nulls_of(_type: t.Null, target: s.DataType, site: Site) -> Conversion:
    """Compile the conversion of nulls to any type."""
    to = pyarrow_type(target, site.path)
    return Conversion(lambda array, _live: pa.nulls(array.length, to))


Leaf = Callable[[Any, s.DataType, Site], Conversion]
"""Compiles the conversion of an Arrow type to its natural Spark type."""


@dataclass(frozen=True, slots=True)
class Nested:
    """The compiler for a type with children or values, and the Spark type that it needs."""

    target: type[s.DataType] | None  # None for encodings, whose values have the type
    build: Callable[[t.Field, Any, Site], Conversion]


LEAVES: Mapping[type[t.DataType], Leaf] = {
    t.Null: nulls_of,
    t.Bool: lambda _type, natural, site: share(pyarrow_type(natural, site.path)),
    t.Int: primitive.integer,
    t.FloatingPoint: primitive.floating_point,
    t.Decimal: primitive.decimal,
    t.Date: primitive.date,
    t.Time: primitive.time,
    t.Timestamp: primitive.timestamp,
    t.Duration: primitive.duration,
    t.IntervalYearMonth: primitive.year_month,
    t.IntervalDayTime: primitive.day_time,
    t.IntervalMonthDayNano: primitive.month_day_nano,
    t.FixedSizeBinary: binary_and_text.binary_of_one_width,
    t.Binary: binary_and_text.short_offsets,
    t.LargeBinary: binary_and_text.long_offsets,
    t.BinaryView: binary_and_text.views,
    t.Utf8: binary_and_text.short_offsets,
    t.LargeUtf8: binary_and_text.long_offsets,
    t.Utf8View: binary_and_text.views,
}
"""By Arrow type class: types without children."""

NESTED: Mapping[type[t.DataType], Nested] = {
    t.List: Nested(s.ArrayType, nested.list_of),
    t.LargeList: Nested(s.ArrayType, nested.list_of),
    t.FixedSizeList: Nested(s.ArrayType, nested.list_of_one_size),
    t.ListView: Nested(s.ArrayType, nested.list_view),
    t.LargeListView: Nested(s.ArrayType, nested.list_view),
    t.Struct: Nested(s.StructType, nested.struct),
    t.Map: Nested(s.MapType, nested.map_of),
    t.SparseUnion: Nested(s.StructType, nested.union),
    t.DenseUnion: Nested(s.StructType, nested.union),
    t.Dictionary: Nested(None, dictionaries.dictionary),
    t.RunEndEncoded: Nested(None, nested.run_ends),
}
"""By Arrow type class: types that compare and widen by their children. A test proves both tables total."""

EXTENDED: Mapping[str, Leaf] = {
    "arrow.uuid": binary_and_text.uuid,
    "arrow.bool8": binary_and_text.bool8,
    "arrow.json": binary_and_text.json,
    "arrow.timestamp_with_offset": binary_and_text.with_offset,
    "arrow.parquet.variant": variants.variant,
    "parquet.variant": variants.variant,
}
"""By name: the rows of ``extension_columns.EXTENSIONS``."""
