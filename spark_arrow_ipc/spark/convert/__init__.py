"""Convert record batches of files to the pyarrow batches that Spark expects."""

from spark_arrow_ipc.spark.convert.conversion import Refusal, pyarrow_schema
from spark_arrow_ipc.spark.convert.plan import BatchConverter, compile_converter, refusal_of

__all__ = ["BatchConverter", "Refusal", "compile_converter", "pyarrow_schema", "refusal_of"]
