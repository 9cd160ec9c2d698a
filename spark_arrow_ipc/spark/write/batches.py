"""Convert Spark's record batches to the written schema.

The types of Spark's batches depend on settings: timestamps have the session's time zone, ``useLargeVarTypes`` makes
strings large, TIME is in nanoseconds, list elements have Spark's names. The written schema depends only on the DataFrame's
schema (`spark_to_arrow`), so each array gets its written type here: in the same memory if the layouts agree, otherwise by a
vectorised conversion (`_CONVERSIONS`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
from pyspark.sql import types as s

from spark_arrow_ipc.arrow import array_data
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.kernels.compact import compact, mask_array
from spark_arrow_ipc.arrow.kernels.slice import batch_nbytes
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.errors import LimitError, SchemaMismatchError, error_context
from spark_arrow_ipc.spark import bridge
from spark_arrow_ipc.spark.options.read_options import ReadOptions
from spark_arrow_ipc.spark.types.extension_columns import spatial_of
from spark_arrow_ipc.spark.write.dictionaries import TaskDictionaries
from spark_arrow_ipc.spark.write.restore_values import restore
from spark_arrow_ipc.spark.write.written_columns import SourceColumns, WrittenColumns

_INT32_MAX = 2**31 - 1
_NS_PER_US = 1000


def convert_batches(batches: Iterable[bridge.PyArrowBatch], columns: WrittenColumns) -> Iterator[RecordBatch]:
    """Convert a task's batches to the written batches, in which no column is a dictionary yet (`FileDictionaries`)."""
    if columns.source is not None:
        usual = _convert_growing_batches(batches, columns.source, columns.sent, columns.usual)
    else:
        usual = (convert_batch(batch, columns.usual) for batch in batches)
    return usual if columns.schema is columns.usual else _Columns(columns, columns.plain).convert(usual)


def _convert_growing_batches(
    batches: Iterable[bridge.PyArrowBatch], spark_columns: SourceColumns, spark_schema: Schema, usual: Schema
) -> Iterator[RecordBatch]:
    """Convert batches with fewer columns or narrower types, as a read converts older files."""
    # Imported late: other writes do not need the modules of reads.
    from spark_arrow_ipc.spark.convert.conversion import nulls
    from spark_arrow_ipc.spark.convert.plan import compile_converter

    grown = [
        i
        for i, new in enumerate(spark_columns.written.fields)
        if i >= len(spark_schema) or new.dataType != spark_columns.schema.fields[i].dataType
    ]
    target = s.StructType([spark_columns.written.fields[i] for i in grown])
    converter = compile_converter(spark_schema, target, ReadOptions())
    for batch in batches:
        narrow = convert_batch(batch, spark_schema)
        absent = nulls(narrow.num_rows)
        columns = [*narrow.columns, *[absent] * (len(usual) - len(spark_schema))]
        for i, conversion in zip(grown, converter.conversions, strict=True):
            with error_context(field_path=usual.fields[i].name):
                columns[i] = _convert_array(bridge.from_pyarrow(conversion.convert(columns[i], None)), usual.fields[i])
        yield RecordBatch(usual, tuple(columns), narrow.num_rows)


@dataclass(slots=True)
class _Columns:
    """Converts the columns of one task to types that options request."""

    columns: WrittenColumns
    schema: Schema
    dictionaries: TaskDictionaries = field(default_factory=TaskDictionaries)
    rows: int = 0
    """Rows of the batches so far."""

    def convert(self, batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        return map(self._convert, batches)

    def _convert(self, batch: RecordBatch) -> RecordBatch:
        columns = []
        for i, (array, written) in enumerate(zip(batch.columns, self.schema.fields, strict=True)):
            tensor = self.columns.tensors.get(i)
            with error_context(field_path=written.name):
                if tensor is not None:
                    columns.append(tensor.convert(array, self.rows, self.dictionaries))
                else:
                    columns.append(restore(array, written.type, written.name, self.dictionaries))
        self.rows += batch.num_rows
        return RecordBatch(self.schema, tuple(columns), batch.num_rows)


def first_rows(batches: Iterator[RecordBatch], rows: int, nbytes: int) -> Iterator[RecordBatch]:
    """Yield batches up to a number of rows or of bytes, or more."""
    for batch in batches:
        yield batch
        rows -= batch.num_rows
        nbytes -= batch_nbytes(batch)
        if rows <= 0 or nbytes <= 0:
            return


def session_time_zone(batch: bridge.PyArrowBatch) -> str | None:
    """Return the session's time zone, which timestamps in Spark's batches have."""
    return next((zone for column in batch.schema if (zone := getattr(column.type, "tz", None))), None)


def convert_batch(batch: bridge.PyArrowBatch, schema: Schema) -> RecordBatch:
    """Convert a batch of Spark to `schema`, in the same memory if layouts agree."""
    columns = []
    for array, written in zip(map(bridge.from_pyarrow, batch.columns), schema.fields, strict=True):
        with error_context(field_path=written.name):
            columns.append(_convert_array(array, written))
    return RecordBatch(schema, tuple(columns), batch.num_rows)


def _convert_array(array: Array, written: t.Field) -> Array:
    type_ = written.type
    if array.type == type_:
        return array
    if isinstance(array.type, t.Struct) and isinstance(type_, t.Binary):
        return _well_known_binary(array, written)
    convert = _CONVERSIONS.get((type(array.type), type(type_)))
    if convert is not None:
        return convert(array, type_)
    # Only a nested type of the same class has the same layout: int32 and int64 have not.
    if type(array.type) is not type(type_) or not type_.children or len(array.type.children) != len(type_.children):
        raise SchemaMismatchError(expected=f"a column that can be written as {type_}", found=f"{array.type} from Spark")
    children = tuple(map(_convert_array, array.children, type_.children))
    return replace(array, type=type_, children=children)


def _struct(array: Array, type_: t.DataType) -> Array:
    """Convert a struct by field names, or by positions if names differ."""
    # Spark's variant has its fields in another order than Arrow's.
    by_name = {f.name: child for f, child in zip(array.type.children, array.children, strict=True)}
    names = [f.name for f in type_.children]
    same = len(by_name) == len(array.children) and set(names) == set(by_name)
    children = [by_name[name] for name in names] if same else list(array.children)
    if len(children) != len(names):
        raise SchemaMismatchError(expected=f"a struct that can be written as {type_}", found=f"{array.type} from Spark")
    return replace(array, type=type_, children=tuple(map(_convert_array, children, type_.children)))


def _narrow_offsets(array: Array, type_: t.DataType) -> Array:
    array = compact(array)
    offsets = array_data.value_offsets(array)
    if offsets[-1] > _INT32_MAX:
        raise LimitError(
            f"the values of one batch from Spark take {offsets[-1]:,} bytes, and Arrow's {type_} holds at most "
            f"{_INT32_MAX:,}; set spark.sql.execution.arrow.maxRecordsPerBatch lower"
        )
    return replace(
        array, type=type_, buffers=(array.buffers[0], offsets.astype(np.int32).data.cast("B"), *array.buffers[2:])
    )


def _timestamp(array: Array, type_: t.DataType) -> Array:
    """Return a timestamp with the written time zone and the same instants."""
    assert isinstance(array.type, t.Timestamp)
    assert isinstance(type_, t.Timestamp)
    if array.type.unit != type_.unit or (array.type.timezone is None) != (type_.timezone is None):
        raise SchemaMismatchError(expected=f"a column that can be written as {type_}", found=f"{array.type} from Spark")
    return replace(array, type=type_)


def _time(array: Array, type_: t.DataType) -> Array:
    assert isinstance(array.type, t.Time)
    assert isinstance(type_, t.Time)
    if array.type.unit == type_.unit:
        return replace(array, type=type_)
    if (array.type.unit, type_.unit) != (t.TimeUnit.NANOSECOND, t.TimeUnit.MICROSECOND):
        raise SchemaMismatchError(expected=f"a column that can be written as {type_}", found=f"{array.type} from Spark")
    array = compact(array)
    values = array_data.data_values(array).view(np.int64) // _NS_PER_US
    return replace(array, type=type_, buffers=(array.buffers[0], values.data.cast("B")))


def _well_known_binary(array: Array, written: t.Field) -> Array:
    """Return the bytes of Spark's geometry, a struct of an SRID and bytes."""
    parts = {
        f.name: child.slice(array.offset, array.length)
        for f, child in zip(array.type.children, array.children, strict=True)
    }
    if parts.keys() != {"srid", "wkb"}:
        raise SchemaMismatchError(
            expected=f"a column that can be written as {written.type}", found=f"{array.type} from Spark"
        )
    present = array_data.validity_mask(array)
    _check_srids(array_data.data_values(parts["srid"]), present, written)
    nbytes = compact(_convert_array(parts["wkb"], replace(written, custom_metadata=())))
    return nbytes if present is None else mask_array(nbytes, present)


def _check_srids(srids: npt.NDArray[np.int32], present: npt.NDArray[np.bool_] | None, written: t.Field) -> None:
    """Refuse rows with another SRID than the column's CRS, as a file has one CRS for all rows."""
    column = spatial_of(written, written.name)
    assert column is not None
    others = srids != column.srid
    if present is not None:
        others &= present
    if others.any():
        row = int(others.argmax())
        raise SchemaMismatchError(
            f"the column is written with SRID {column.srid} for all rows, and slot {row} has SRID {srids[row]}; give the "
            f"column one SRID, for example with ST_SetSrid({written.name}, {srids[row]}), or write a column for each"
        )


_Convert = Callable[[Array, t.DataType], Array]

_CONVERSIONS: Mapping[tuple[type[t.DataType], type[t.DataType]], _Convert] = {
    (t.Struct, t.Struct): _struct,
    (t.LargeUtf8, t.Utf8): _narrow_offsets,
    (t.LargeBinary, t.Binary): _narrow_offsets,
    (t.Time, t.Time): _time,
    (t.Timestamp, t.Timestamp): _timestamp,
}
"""By the type classes of Spark's array and the written one: conversions between different layouts or parameters."""
