"""Convert record batches of files to the pyarrow batches that Spark expects."""

from spark_arrow_ipc.spark.convert.conversion import Refusal, pyarrow_schema
from spark_arrow_ipc.spark.convert.dictionaries import expand, expanded_type
from spark_arrow_ipc.spark.convert.plan import BatchConverter, compile_converter, refusal_of

__all__ = [
    "BatchConverter",
    "Refusal",
    "compile_converter",
    "expand",
    "expanded_type",
    "pyarrow_schema",
    "refusal_of",
]
