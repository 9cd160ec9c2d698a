"""The option ``--where`` of commands: a predicate as in Spark's reads.

It is evaluated by the code that Spark's tasks run, and so needs pyspark and pyarrow, but neither Java nor a session.
They are imported when the option is given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.errors import UnsupportedError

if TYPE_CHECKING:
    from spark_arrow_ipc.spark.read.matching_rows import MatchingRows


@dataclass(frozen=True, slots=True)
class RowPredicate:
    """A predicate in Spark's SQL, and the time zone of its timestamps."""

    sql: str
    time_zone: str = "UTC"

    def compile(self, schema: Schema) -> MatchingRows:
        """Compile the predicate for a schema.

        Raises
        ------
        UnsupportedError
            pyspark or pyarrow is missing, or Spark has no type for a column that it names.
        OptionError, ColumnNotFoundError
            It is no predicate of this schema.
        """
        try:
            from spark_arrow_ipc.spark.read.matching_rows import MatchingRows
        except ModuleNotFoundError as error:
            raise needs_spark("--where", error) from error
        return MatchingRows.compile(self.sql, schema, self.time_zone)


def needs_spark(option: str, error: ModuleNotFoundError) -> UnsupportedError:
    """Return the error of an option that needs PySpark, which is missing."""
    return UnsupportedError(
        f"{option} needs PySpark and pyarrow ({error}): pip install 'spark-arrow-ipc[spark]'; Java is not needed"
    )
