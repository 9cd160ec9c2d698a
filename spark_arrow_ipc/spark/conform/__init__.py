"""Record batches of a file as exactly the pyarrow batches that Spark's worker expects."""

from spark_arrow_ipc.spark.conform.expected import expected_arrow_schema
from spark_arrow_ipc.spark.conform.plan import Conform, compile_conform

__all__ = ["Conform", "compile_conform", "expected_arrow_schema"]
