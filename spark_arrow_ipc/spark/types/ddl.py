"""A file's schema as Spark DDL."""

from __future__ import annotations

from pyspark.sql import types as s

from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.spark.options.read_options import ReadOptions
from spark_arrow_ipc.spark.types.arrow_to_spark import spark_schema
from spark_arrow_ipc.spark.types.spark_to_arrow import storage_type


def to_ddl(schema: Schema) -> str:
    """Return the columns of a file as Spark reads them: ``"`a` BIGINT, `b` STRING"``. Needs no session."""
    return ", ".join(f"{_quoted(field.name)} {_ddl(field.dataType)}" for field in spark_schema(schema, ReadOptions()))


def _ddl(type_: s.DataType) -> str:
    """Return a type as DDL. `simpleString` leaves out the quotes that names inside of structs need."""
    type_ = storage_type(type_)  # DDL has no user-defined types
    if isinstance(type_, s.StructType):
        return f"STRUCT<{', '.join(f'{_quoted(field.name)}: {_ddl(field.dataType)}' for field in type_)}>"
    if isinstance(type_, s.ArrayType):
        return f"ARRAY<{_ddl(type_.elementType)}>"
    if isinstance(type_, s.MapType):
        return f"MAP<{_ddl(type_.keyType)}, {_ddl(type_.valueType)}>"
    return str(type_.simpleString()).upper()


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
