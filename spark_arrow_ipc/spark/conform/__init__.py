"""Convert record batches of files to the pyarrow batches that Spark expects."""

from spark_arrow_ipc.spark.conform.conversion import Refusal, expected_arrow_schema
from spark_arrow_ipc.spark.conform.plan import Conform, compile_conform, refusal_of

__all__ = ["Conform", "Refusal", "compile_conform", "expected_arrow_schema", "refusal_of"]
