"""Batches of one column, and their conversion to Spark, for tests of `spark.convert`."""

import decimal
import inspect

import numpy as np
import pyarrow as pa
from pyspark.sql import types as s
from pyspark.sql.pandas.types import to_arrow_schema

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.spark import bridge
from spark_arrow_ipc.spark.convert import compile_converter
from spark_arrow_ipc.spark.options.read_options import ReadOptions
from spark_arrow_ipc.spark.types import arrow_to_spark

D = decimal.Decimal
DEFAULT = ReadOptions()
S, MS, US, NS = t.TimeUnit
DAY = 86_400
LONG = "a text that no view holds inline"


def raw(type_, values, *, buffers=None, nulls=()):
    """Return an array of ours whose DATA buffer holds `values`, a numpy array; `nulls` are the null slots."""
    bits = np.ones(len(values), bool)
    bits[list(nulls)] = False
    validity = np.packbits(bits, bitorder="little").data if nulls else None
    return Array(
        type_, len(values), len(nulls), (validity, np.ascontiguousarray(values).view(np.uint8).reshape(-1).data)
    )


def ints(type_, *values, nulls=(), dtype=np.int64):
    return raw(type_, np.array(list(values), dtype), nulls=nulls)


def wide(type_, *values, nulls=()):
    """Return decimals of unscaled Python integers."""
    width = type_.bit_width // 8
    octets = b"".join(value.to_bytes(width, "little", signed=True) for value in values)
    return raw(type_, np.frombuffer(octets, np.dtype((np.void, width))), nulls=nulls)


def batch_of(array, metadata=None):
    array = bridge.from_pyarrow(array) if isinstance(array, pa.Array) else array
    field = t.field("c", array.type, custom_metadata=metadata)
    return RecordBatch(Schema.of([field]), (array,), array.length)


def converted(array, options=DEFAULT, *, asked=None, metadata=None):
    """Return the column of one batch, and check that it is what Spark expects of the schema that it was promised."""
    batch = batch_of(array, metadata)
    promised = arrow_to_spark.spark_schema(batch.schema, options) if asked is None else s.StructType([asked])
    (made,) = compile_converter(batch.schema, promised, options).convert(batch)
    made.validate(full=True)
    assert is_expected_by_pyspark(made.schema, promised)
    return made.column(0)


# PySpark 4.1 has no such parameter, gives UTC by default, and leaves the metadata of fields out.
UTC = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
NOTED = s.StructType([s.StructField("c", s.LongType(), metadata={"m": 1})])
HAS_METADATA = to_arrow_schema(NOTED, **UTC).field(0).metadata is not None


def is_expected_by_pyspark(found, spark_schema):
    return to_arrow_schema(spark_schema, **UTC).equals(found, check_metadata=HAS_METADATA)


def asked(type_, *, nullable=True):
    return s.StructField("c", type_, nullable)


MAP = pa.map_(pa.string(), pa.int8())


def option(**given):
    return ReadOptions(**given)


def struct_of(*fields):
    return s.StructType([s.StructField(name, type_) for name, type_ in fields])


NAN = float("nan")


def pieces(array, **given):
    batch = batch_of(array)
    options = option(**given)
    promised = arrow_to_spark.spark_schema(batch.schema, options)
    return list(compile_converter(batch.schema, promised, options).convert(batch))
