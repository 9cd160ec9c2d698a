"""Columns as the reader gives them to Spark, written with ``restoreTypes``; without a session."""

import decimal
import json

import pyarrow as pa
from pyspark.sql import types as s

from spark_arrow_ipc.arrow import RecordBatch, Schema
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.spark.convert import compile_converter
from spark_arrow_ipc.spark.options.read_options import ReadOptions
from spark_arrow_ipc.spark.options.write_options import SparkWriteOptions
from spark_arrow_ipc.spark.types import arrow_to_spark, field_metadata
from spark_arrow_ipc.spark.types.field_metadata import annotation_of
from spark_arrow_ipc.spark.write.batches import convert_batches
from spark_arrow_ipc.spark.write.file_dictionaries import FileDictionaries
from spark_arrow_ipc.spark.write.plan import plan_write

D = decimal.Decimal
RESTORE = SparkWriteOptions(restore_types=True)
UUIDS = [bytes(range(16)), None, bytes(16)]
EXTENSION = "ARROW:extension:name"


def spark_column(array, read=None, metadata=None):
    """Return Spark's schema and batches of one column that was read."""
    batch = RecordBatch(Schema.of([t.field("c", array.type, custom_metadata=metadata)]), (array,), array.length)
    read = read or ReadOptions()
    schema = arrow_to_spark.spark_schema(batch.schema, read)
    schema = s.StructType.fromJson(json.loads(schema.json()))  # as it comes back from the JVM
    return schema, list(compile_converter(batch.schema, schema, read).convert(batch))


def written_batches(schema, batches, options=RESTORE):
    """Return the record batches of files; a new one begins where the encoder asks for it."""
    plan = plan_write(schema, options)
    encoder = FileDictionaries(plan.columns.dictionaries)(1 << 30)
    encoder.begin()
    made = []
    for batch in convert_batches(batches, plan.columns):
        encoded = encoder.encode(batch)
        if encoded is None:
            encoder.begin()
            encoded = encoder.encode(batch)
        encoded.validate()
        made.append(encoded)
    return made


def written(schema, batches, options=RESTORE):
    (batch,) = written_batches(schema, batches, options)
    return batch


def noted(spark_type, note, values, type_):
    note = note if isinstance(note, str) else annotation_of(note)
    schema = s.StructType([s.StructField("c", spark_type, metadata={field_metadata.TYPE_KEY: note})])
    return schema, [pa.record_batch([pa.array(values, type_)], ["c"])]
