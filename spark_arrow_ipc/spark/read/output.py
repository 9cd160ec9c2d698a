"""The last step of a read: rows that match, and columns that say where they are from, in the order of Spark's schema."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import types as s

from spark_arrow_ipc.spark.bridge import PyArrowBatch
from spark_arrow_ipc.spark.conform import expected_arrow_schema
from spark_arrow_ipc.spark.read.metadata_columns import METADATA_COLUMNS, RowsOf

if TYPE_CHECKING:
    from spark_arrow_ipc.spark.read.where import RowSelection

__all__ = ["compile_output"]

Output = Callable[[PyArrowBatch, RowsOf], PyArrowBatch | None]
"""From a conformed batch and where its rows are from to what Spark gets; None where no row is left."""


def compile_output(
    schema: s.StructType,
    own: s.StructType,
    added: Sequence[str],
    conformed: pa.Schema,
    selection: RowSelection | None,
) -> Output:
    """Return what makes batches of Spark's schema of conformed ones.

    Parameters
    ----------
    schema
        What Spark expects.
    own
        Its columns that are in files and paths: the first of each conformed batch.
    added
        Its columns of `METADATA_COLUMNS`, by the names that Spark uses.
    conformed
        Schema of the conformed batches: `own`, and what is read for the predicate alone.
    selection
        Which rows are kept; all where it is None.
    """
    if not added and selection is None:
        return lambda batch, _rows: batch
    expected = expected_arrow_schema(schema)
    names = [*own.names, *added]
    order = [names.index(name) for name in schema.names]
    fields = [expected.field(name) for name in added]
    # What is read for the predicate alone stands behind all that is given to Spark.
    wide = pa.schema([*list(conformed)[: len(own)], *fields, *list(conformed)[len(own) :]])
    row_filter = None
    if selection is not None:
        row_filter = selection.row_filter(wide, len(own), len(added))
    makers = [(METADATA_COLUMNS[name.lower()], name) for name in added]
    in_order = order == list(range(len(order)))

    def finish(batch: PyArrowBatch, rows: RowsOf) -> PyArrowBatch | None:
        if makers:
            made = [maker.array(rows, name) for maker, name in makers]
            columns = [*batch.columns[: len(own)], *made, *batch.columns[len(own) :]]
            batch = pa.RecordBatch.from_arrays(columns, schema=wide)
        if row_filter is not None:
            kept = row_filter.filter(batch)
            if kept is None:
                return None
            batch = kept
        if in_order:
            return batch
        return pa.RecordBatch.from_arrays([batch.column(i) for i in order], schema=expected)

    return finish
