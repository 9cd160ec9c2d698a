"""Adapt readers and writers to Sail, an engine that runs programs of Spark's clients.

Sail passes schemas of pyarrow. A reader gets the schema of the source as the Arrow schema that PySpark makes from it. A
writer gets the Arrow schema of a plan, with metadata for all that Arrow types lack: the fields of an interval, the
metadata of a column, and the marks of variants and geometries on structs.

The tasks of Sail are threads of one process. The thread that takes batches from a reader holds Python's lock while it
waits for room in a queue. The thread that empties the queue waits for the lock when it frees memory of Python objects, and
neither goes on (seen in 0.7.2). So batches are copied into memory that pyarrow frees without the lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from pyspark.sql import types as s
from pyspark.sql.datasource import DataSourceReader, InputPartition

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.column_path import child_path
from spark_arrow_ipc.bounded_json import parse_json
from spark_arrow_ipc.spark.bridge import PyArrowBatch, PyArrowSchema, copy_to_arrow_memory, schema_from_pyarrow
from spark_arrow_ipc.spark.options.read_options import ReadOptions
from spark_arrow_ipc.spark.options.values import Times
from spark_arrow_ipc.spark.types import field_metadata
from spark_arrow_ipc.spark.types.arrow_to_spark import MAPPINGS

_INTERVAL_KEY: Final = "SAIL::spark::interval"
"""Key in the metadata of a field: the first and last unit of an interval, as JSON."""

_SRID: Final = "srid"
_AS_TIMES: Final = ReadOptions(times=Times.TIME)


class SailReader(DataSourceReader):  # type: ignore[misc]  # PySpark is not typed for mypy's strict mode here
    """Reads batches in the schema that Sail expects, in memory that is freed without Python's lock."""

    def __init__(self, reader: DataSourceReader, schema: PyArrowSchema) -> None:
        self._reader = reader
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """Plan the input partitions."""
        planned: Sequence[InputPartition] = self._reader.partitions()
        return planned

    def read(self, partition: InputPartition | None) -> Iterator[PyArrowBatch]:
        """Yield copies of the batches of one input partition."""
        for batch in map(copy_to_arrow_memory, self._reader.read(partition)):
            # With a schema from the user the items of lists have another name, which Sail refuses.
            yield batch if batch.schema.equals(self._schema, check_metadata=True) else batch.cast(self._schema)


def spark_schema_of(schema: PyArrowSchema) -> s.StructType:
    """Convert an Arrow schema from Sail to Spark's; UnsupportedError if a column has a type that Spark lacks."""
    return s.StructType([_field(field, field.name) for field in schema_from_pyarrow(schema).fields])


def _field(field: t.Field, path: str) -> s.StructField:
    pairs = dict(field.custom_metadata)
    metadata: dict[str, Any] = parse_json(pairs.pop(field_metadata.SPARK_KEY, "{}"))
    pairs.pop(_INTERVAL_KEY, None)  # is in the type
    bare_field = t.Field(field.name, field.type, custom_metadata=tuple(pairs.items()))
    spark_type = _type(field, path)
    if pairs:
        metadata |= field_metadata.to_spark(bare_field, spark_type, field.type)
    return s.StructField(field.name, spark_type, field.nullable, metadata)


def _type(field: t.Field, path: str) -> s.DataType:
    of_class = _TYPES.get(type(field.type))
    return MAPPINGS[type(field.type)].spark_type(field, _AS_TIMES, path) if of_class is None else of_class(field, path)


def _struct(field: t.Field, path: str) -> s.DataType:
    marks = {key: value for child in field.type.children for key, value in child.custom_metadata}
    if "variant" in marks:
        return s.VariantType()
    for key, spatial in (("geometry", s.GeometryType), ("geography", s.GeographyType)):
        if key in marks:
            srid = int(marks[_SRID])
            return spatial("ANY" if srid == spatial.MIXED_SRID else srid)
    return s.StructType([_field(child, child_path(field.type, path, child)) for child in field.type.children])


def _list(field: t.Field, path: str) -> s.DataType:
    (value,) = field.type.children
    return s.ArrayType(_type(value, child_path(field.type, path, value)), value.nullable)


def _map(field: t.Field, path: str) -> s.DataType:
    assert isinstance(field.type, t.Map)
    key, item = field.type.key, field.type.item
    return s.MapType(_type(key, f"{path}[].key"), _type(item, f"{path}[].value"), item.nullable)


def _ends(field: t.Field, units: Sequence[str]) -> list[int]:
    """Return the numbers of the first and last unit of an interval; none if the field has no annotation."""
    annotation = parse_json(dict(field.custom_metadata).get(_INTERVAL_KEY, "{}"))
    ends = [annotation.get(end) for end in ("startField", "endField")]
    return [units.index(end) for end in ends] if set(ends) <= set(units) else []


_TYPES: Final[Mapping[type[t.DataType], Callable[[t.Field, str], s.DataType]]] = {
    t.Struct: _struct,
    t.List: _list,
    t.LargeList: _list,
    t.FixedSizeList: _list,
    t.Map: _map,
    t.Duration: lambda field, _: s.DayTimeIntervalType(*_ends(field, ("day", "hour", "minute", "second"))),
    t.IntervalYearMonth: lambda field, _: s.YearMonthIntervalType(*_ends(field, ("year", "month"))),
}
"""By class: types that have more metadata in a schema of Sail than in a file; `MAPPINGS` has all others."""
