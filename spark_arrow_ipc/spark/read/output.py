"""The final step of a read: filter rows, add metadata columns, reorder columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import types as s

from spark_arrow_ipc.spark.bridge import PyArrowBatch
from spark_arrow_ipc.spark.conform import expected_arrow_schema
from spark_arrow_ipc.spark.read.metadata_columns import METADATA_COLUMNS, RowsOf, hidden_columns, metadata_schema

if TYPE_CHECKING:
    from spark_arrow_ipc.spark.read.where import RowSelection

Output = Callable[[PyArrowBatch, RowsOf], PyArrowBatch | None]
"""Turns a conformed batch and the origin of its rows into the batch for Spark; None if no row is left."""


def compile_output(
    schema: s.StructType,
    own: s.StructType,
    added: Sequence[str],
    conformed: pa.Schema,
    selection: RowSelection | None,
) -> Output:
    """Compile the final step: filter rows, add metadata columns, reorder columns.

    Parameters
    ----------
    schema
        Of the batches that Spark expects.
    own
        Its columns from files and paths: the first columns of each conformed batch.
    added
        Names of its metadata columns, in Spark's spelling.
    conformed
        Schema of the conformed batches: `own`, then the columns that only the predicate needs.
    selection
        Selects the rows; None for all.
    """
    if not added and selection is None:
        return lambda batch, _rows: batch
    expected = expected_arrow_schema(schema)
    names = [*own.names, *added]
    order = [names.index(name) for name in schema.names]
    makers = [(METADATA_COLUMNS[name.lower()], name) for name in added]
    wide = pa.schema([*list(conformed)[: len(own)], *[expected.field(name) for name in added]])
    row_filter = None
    if selection is not None:
        # Columns that only the predicate needs follow all columns for Spark.
        hidden = hidden_columns(selection.metadata, added)
        makers += [(METADATA_COLUMNS[name], name) for name in hidden]
        wide = pa.schema([*wide, *list(conformed)[len(own) :], *expected_arrow_schema(metadata_schema(hidden))])
        row_filter = selection.row_filter(wide, len(own), added)
    in_order = order == list(range(len(order)))

    def finish(batch: PyArrowBatch, rows: RowsOf) -> PyArrowBatch | None:
        if makers:
            made = [maker.array(rows, name) for maker, name in makers]
            columns = [*batch.columns[: len(own)], *made[: len(added)], *batch.columns[len(own) :], *made[len(added) :]]
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
