"""`OutputCheck`: bring the batches of a user's function to the promised schema, or name the column that differs.

Strategy
--------
Spark compares the first batch of a task only, and a later one of another type breaks the JVM. So each batch goes
through ``spark/conform``, as the batches of files do: columns are found by name, types that widen without loss are
converted (`large_string`, views, dictionaries, smaller integers), and all others are errors that name the column. The
option `nanoseconds` of the read holds for what the function makes, too.
The plan is compiled once for a run of batches of one schema.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import pyarrow as pa
from pyspark.sql import types as s

from spark_arrow_ipc.errors import ArrowIpcError, FunctionError, SchemaMismatchError
from spark_arrow_ipc.spark import bridge
from spark_arrow_ipc.spark.conform import Conform, compile_conform
from spark_arrow_ipc.spark.options.enums import MissingColumns, Nanoseconds
from spark_arrow_ipc.spark.options.options import ReadOptions

_OPTIONS: Final = ReadOptions(missing_columns=MissingColumns.ERROR)


class OutputCheck:
    """Converts the batches that a function yields.

    Parameters
    ----------
    schema
        That was promised to Spark.
    name
        Of the function, for errors.
    nanoseconds
        The option of the read.
    """

    def __init__(self, schema: s.StructType, name: str, nanoseconds: Nanoseconds = Nanoseconds.FLOOR) -> None:
        self._options = replace(_OPTIONS, nanoseconds=nanoseconds)
        self._schema = schema
        self._name = name
        self._of: pa.Schema | None = None
        self._plan: Conform | None = None
        self._number = -1

    def not_iterable(self, made: object) -> FunctionError:
        """Return the error for what a function returned instead of an iterator."""
        return FunctionError(
            f"the function {self._name} must return an iterator of pyarrow.RecordBatch, and returned {_described(made)}"
        )

    def convert(self, made: object) -> Iterator[pa.RecordBatch]:
        """Yield a batch of the function in the promised schema, in pieces of about 64 MiB.

        Raises
        ------
        FunctionError
            It is no record batch.
        SchemaMismatchError
            A column is missing, is not promised, or has a type or nulls that do not fit.
        """
        self._number += 1
        if not isinstance(made, pa.RecordBatch):
            raise FunctionError(
                f"the function {self._name} must yield pyarrow.RecordBatch, and yielded {_described(made)}"
            )
        try:
            plan = self._plan_for(made.schema)
            yield from plan.conform(bridge.batch_from_pyarrow(made))
        except ArrowIpcError as error:
            error.asked_by = f"batch {self._number} of the function {self._name}"
            raise

    def _plan_for(self, schema: pa.Schema) -> Conform:
        if self._plan is None or not schema.equals(self._of):
            promised = {name.casefold() for name in self._schema.names}
            others = [name for name in schema.names if name.casefold() not in promised]
            if others:
                raise SchemaMismatchError(
                    f"the schema that was given has no such column; it has {', '.join(self._schema.names)}",
                    field_path=others[0],
                )
            self._plan = compile_conform(bridge.schema_from_pyarrow(schema), self._schema, self._options)
            self._of = schema
        return self._plan


def _described(made: object) -> str:
    kind = type(made)
    name = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.").replace("pyarrow.lib.", "pyarrow.")
    return f"{name}; yield each of its to_batches()" if isinstance(made, pa.Table) else name
