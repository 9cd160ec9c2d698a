"""Differences between Sail and Spark, whose clients' programs it takes.

Its schemas are pyarrow's. It asks a source for its schema, keeps it as the Arrow schema that PySpark makes of it, and
hands the reader that. A writer gets the Arrow schema of a plan, with the metadata by which Sail and Spark say what Arrow
types do not: the fields of an interval, the metadata of a column, which structs are variants and geometries.

Its tasks are threads of one process. The thread that takes batches from a reader keeps Python's lock while it waits for
room in a queue; the one that empties the queue waits for the lock as soon as it frees memory that belongs to Python, and
neither goes on (seen in 0.7.2). So batches are copied into memory of pyarrow's, which is freed without the lock.
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
"""Of the pair in which Sail notes the fields of an interval."""

_SRID: Final = "srid"
_AS_TIMES: Final = ReadOptions(times=Times.TIME)


class SailReader(DataSourceReader):  # type: ignore[misc]  # PySpark is not typed for mypy's strict mode here
    """A reader whose batches have the schema that was handed, and are in memory that is freed without Python's lock."""

    def __init__(self, reader: DataSourceReader, schema: PyArrowSchema) -> None:
        self._reader = reader
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """Plan as the reader does."""
        planned: Sequence[InputPartition] = self._reader.partitions()
        return planned

    def read(self, partition: InputPartition | None) -> Iterator[PyArrowBatch]:
        """Yield the batches of one input partition. Costs one copy of each."""
        for batch in map(copy_to_arrow_memory, self._reader.read(partition)):
            # The items of lists have another name where a person gives the schema, and Sail takes no other.
            yield batch if batch.schema.equals(self._schema, check_metadata=True) else batch.cast(self._schema)


def spark_schema_of(schema: PyArrowSchema) -> s.StructType:
    """Return an Arrow schema that an engine handed over as Spark's; UnsupportedError names a column without a type."""
    return s.StructType([_field(field, field.name) for field in schema_from_pyarrow(schema).fields])


def _field(field: t.Field, path: str) -> s.StructField:
    pairs = dict(field.custom_metadata)
    metadata: dict[str, Any] = parse_json(pairs.pop(field_metadata.SPARK_KEY, "{}"))
    pairs.pop(_INTERVAL_KEY, None)
    bare_field = t.Field(field.name, field.type, custom_metadata=tuple(pairs.items()))
    spark_type = _type(field, path)
    if pairs:
        metadata |= field_metadata.to_spark(bare_field, spark_type, field.type)
    return s.StructField(field.name, spark_type, field.nullable, metadata)


def _type(field: t.Field, path: str) -> s.DataType:
    of_class = _TYPES.get(type(field.type))
    return MAPPINGS[type(field.type)].spark_type(field, _AS_TIMES, path) if of_class is None else of_class(field, path)


def _struct(field: t.Field, path: str) -> s.DataType:
    told = {key: value for child in field.type.children for key, value in child.custom_metadata}
    if "variant" in told:
        return s.VariantType()
    for key, spatial in (("geometry", s.GeometryType), ("geography", s.GeographyType)):
        if key in told:
            srid = int(told[_SRID])
            return spatial("ANY" if srid == spatial.MIXED_SRID else srid)
    return s.StructType([_field(child, child_path(field.type, path, child)) for child in field.type.children])


def _list(field: t.Field, path: str) -> s.DataType:
    (value,) = field.type.children
    return s.ArrayType(_type(value, child_path(field.type, path, value)), value.nullable)


def _map(field: t.Field, path: str) -> s.DataType:
    assert isinstance(field.type, t.Map)
    key, item = field.type.key, field.type.item
    return s.MapType(_type(key, f"{path}[].key"), _type(item, f"{path}[].value"), item.nullable)


def _day_time(field: t.Field, _path: str) -> s.DataType:
    return s.DayTimeIntervalType(*_ends(field, ("day", "hour", "minute", "second")))


def _year_month(field: t.Field, _path: str) -> s.DataType:
    return s.YearMonthIntervalType(*_ends(field, ("year", "month")))


def _ends(field: t.Field, units: Sequence[str]) -> list[int]:
    """Return the numbers of the first and last unit of an interval; none where Sail does not say them."""
    annotation = parse_json(dict(field.custom_metadata).get(_INTERVAL_KEY, "{}"))
    ends = [annotation.get(end) for end in ("startField", "endField")]
    return [units.index(end) for end in ends] if set(ends) <= set(units) else []


_TYPES: Final[Mapping[type[t.DataType], Callable[[t.Field, str], s.DataType]]] = {
    t.Struct: _struct,
    t.List: _list,
    t.LargeList: _list,
    t.FixedSizeList: _list,
    t.Map: _map,
    t.Duration: _day_time,
    t.IntervalYearMonth: _year_month,
}
"""By class: types that say more in an engine's schema than in a file's; for all others `MAPPINGS` has them."""
