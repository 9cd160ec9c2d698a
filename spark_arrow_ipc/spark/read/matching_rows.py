"""Find the rows of record batches that match a predicate, outside of Spark.

The predicate has the meaning of the option `where`: its columns are converted to Spark's types, and the same filter is
evaluated (`row_filter`). The result are numbers of rows, so a caller can select from arrays of any type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow.column_path import resolve_all
from spark_arrow_ipc.arrow.record_batch import RecordBatch
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.dataset.predicate import expressions as p
from spark_arrow_ipc.dataset.predicate.bound import BoundPredicate
from spark_arrow_ipc.dataset.predicate.parser import parse
from spark_arrow_ipc.dataset.predicate.tokens import explain_refusal
from spark_arrow_ipc.dataset.statistics.prune_blocks import BlockFilter, block_filter
from spark_arrow_ipc.dataset.statistics.read import file_statistics
from spark_arrow_ipc.errors import ColumnNotFoundError, OptionError, error_context
from spark_arrow_ipc.spark import bridge
from spark_arrow_ipc.spark.convert import BatchConverter, compile_converter
from spark_arrow_ipc.spark.options.read_options import ReadOptions
from spark_arrow_ipc.spark.read.row_filter import RowFilter, compile_filter
from spark_arrow_ipc.spark.read.where import Where, name_origin
from spark_arrow_ipc.spark.types.arrow_to_spark import spark_schema


@dataclass(frozen=True, slots=True)
class MatchingRows:
    """A predicate that is compiled for the columns of one schema."""

    positions: tuple[int, ...]  # of the predicate's columns in the schema
    bound: BoundPredicate  # the predicate, bound to them
    _converter: BatchConverter
    _filter: RowFilter

    @classmethod
    def compile(cls, sql: str, schema: Schema, time_zone: str = "UTC") -> MatchingRows:
        """Compile a predicate in Spark's SQL for the columns of a schema."""
        try:
            predicate = parse(sql)
        except OptionError as error:
            raise explain_refusal(error, sql, parse) from error.__cause__
        with error_context(asked_by=p.WHERE):
            named = [column.path for column in p.columns(predicate)]
            try:
                paths = resolve_all(schema.fields, named, is_case_sensitive=lambda: False)
            except ColumnNotFoundError as error:
                raise name_origin(error, named) from None
        positions = tuple(dict.fromkeys(path[0] for path in paths))
        read = Schema(tuple(schema.fields[i] for i in positions), schema.custom_metadata)
        options = ReadOptions()
        requested = spark_schema(read, options)
        selection = Where.parse(sql, requested).bind(requested, (), time_zone)
        converter = compile_converter(read, requested, options)
        return cls(positions, selection.bound, converter, compile_filter(selection.bound, converter.schema))

    def find(self, batch: RecordBatch) -> npt.NDArray[np.int64]:
        """Return the numbers of the matching rows in ascending order."""
        if not self.positions:  # the predicate has only constants
            empty = pa.RecordBatch.from_arrays([], schema=self._converter.schema)
            return np.arange(batch.num_rows if self._filter.mask(empty).as_py() else 0)
        matching, rows_before = [np.zeros(0, np.int64)], 0
        for piece in self._converter.convert(batch):
            mask = self._filter.mask(piece)
            if isinstance(mask, pa.Scalar):
                rows = np.arange(piece.num_rows if mask.as_py() else 0)
            else:
                rows = np.flatnonzero(
                    mask.fill_null(bridge.scalar(value=False, type_=pa.bool_())).to_numpy(zero_copy_only=False)
                )
            matching.append(rows + rows_before)
            rows_before += piece.num_rows
        return np.concatenate(matching)

    def select_blocks(self, reader: ipc.FileReader, partition: Mapping[str, object]) -> BlockFilter | None:
        """Return a filter of the record batches of a file by their statistics; None without statistics."""
        statistics = file_statistics(reader)
        return None if statistics is None else block_filter(self.bound, reader.schema, statistics, partition)
