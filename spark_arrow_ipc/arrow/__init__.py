"""The Arrow columnar format in memory: types, schemas, arrays and record batches."""

from spark_arrow_ipc.arrow import types
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.record_batch import RecordBatch, RecordBatchStream
from spark_arrow_ipc.arrow.schema import Endianness, Schema
from spark_arrow_ipc.arrow.types import Field

__all__ = ["Array", "Endianness", "Field", "RecordBatch", "RecordBatchStream", "Schema", "types"]
