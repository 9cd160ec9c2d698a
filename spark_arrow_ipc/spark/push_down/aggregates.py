"""Partial aggregates of a narrowed scan: what `aggregate` computes in workers, asked for by Spark's optimizer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import types as s

from spark_arrow_ipc.spark.bridge import PyArrowBatch
from spark_arrow_ipc.spark.conform import expected_arrow_schema
from spark_arrow_ipc.spark.functions.block_answers import BlockAnswers
from spark_arrow_ipc.spark.functions.partial_aggregates import Part, PartialAggregates
from spark_arrow_ipc.spark.options.read_options import ReadOptions
from spark_arrow_ipc.spark.push_down.decimals import with_computed

# Batches of a source are in UTC.
_ZONE = "UTC"


def aggregated_reader(
    request: Mapping[str, Any], asked: s.StructType, output: s.StructType, options: ReadOptions
) -> Callable[[Callable[..., Iterator[PyArrowBatch]]], Iterator[PyArrowBatch]]:
    """Return a function that reads rows of the columns `asked` and yields partial rows in the schema `output`.

    Record batches of which headers and statistics say all are not decoded.
    """
    schema = expected_arrow_schema(output)
    keys = tuple(request["keys"])
    computed = [part["expression"] for part in request["parts"] if "expression" in part]
    places = iter(range(len(asked.fields), len(asked.fields) + len(computed)))
    parts = tuple(
        Part(
            part["function"],
            next(places) if "expression" in part else part.get("column"),
            schema.field(len(keys) + i).type if part["function"] == "sum" else None,
        )
        for i, part in enumerate(request["parts"])
    )
    partials = PartialAggregates(keys, parts)
    types = [schema.field(len(keys) + i).type for i, part in enumerate(request["parts"]) if "expression" in part]
    zero = {f"a{i}": 0 if part.function.startswith("count") else None for i, part in enumerate(parts)}

    def read(read_rows: Callable[..., Iterator[PyArrowBatch]]) -> Iterator[PyArrowBatch]:
        answers = BlockAnswers(partials, asked, options, _ZONE)
        is_empty = not keys
        rows = with_computed(read_rows(answers=answers), computed, types) if computed else read_rows(answers=answers)
        for batch in partials(rows, answers.take):
            is_empty = False
            yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)
        if is_empty:
            # Spark adds up the counts of tasks, and the sum of none is null.
            yield pa.RecordBatch.from_pylist([zero], schema=schema)

    return read
