"""Convert record batches of files to the pyarrow batches that Spark expects."""

from spark_arrow_ipc.spark.conform.conversion import expected_arrow_schema
from spark_arrow_ipc.spark.conform.plan import Conform, compile_conform

__all__ = ["Conform", "compile_conform", "expected_arrow_schema"]
