"""Partial aggregates of a narrowed scan, which Spark requests and `spark.functions` computes.

Sums, differences and products of decimals are computed by pyarrow, exactly, a column at a time. Spark decides the type of
each result, and pushes only expressions in ANSI mode whose type has all digits behind the point. A result with more digits
than its type ends the task with a sentence that ``java/Overflow.java`` reads to raise Spark's own error for the value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import ROUND_HALF_DOWN, Context, Decimal
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as s

from spark_arrow_ipc.bounded_json import parse_json
from spark_arrow_ipc.errors import OptionError
from spark_arrow_ipc.spark.bridge import PyArrowBatch
from spark_arrow_ipc.spark.convert import expand, pyarrow_schema
from spark_arrow_ipc.spark.functions.block_answers import BlockAnswers
from spark_arrow_ipc.spark.functions.partial_aggregates import Part, PartialAggregates, greatest, relabel
from spark_arrow_ipc.spark.options.read_options import ReadOptions

_ZONE: Final = "UTC"  # of all batches of a source

_DIGITS: Final = 38
_MOST_DIGITS: Final = 76
_EXACT: Final = Context(prec=100)
_SHOWN: Final = {"*": Context(prec=39, rounding=ROUND_HALF_DOWN)}
"""By operation: the digits to which Spark rounds a result in the error about it."""
_BY_VALUE: Final = {"+": Context.add, "-": Context.subtract, "*": Context.multiply}
_SIGNS: Final = {"+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked}


def compile_aggregates(
    request: Mapping[str, Any], requested: s.StructType, output: s.StructType, options: ReadOptions
) -> Callable[[Callable[..., Iterator[PyArrowBatch]]], Iterator[PyArrowBatch]]:
    """Return a function that reads rows of the columns `requested` and yields partial rows in the schema `output`."""
    schema = pyarrow_schema(output)
    keys = tuple(request["keys"])
    computed = [part["expression"] for part in request["parts"] if "expression" in part]
    positions = iter(range(len(requested.fields), len(requested.fields) + len(computed)))
    parts = tuple(
        Part(
            part["function"],
            next(positions) if "expression" in part else part.get("column"),
            schema.field(len(keys) + i).type if part["function"] == "sum" else None,
        )
        for i, part in enumerate(request["parts"])
    )
    partials = PartialAggregates(keys, parts)
    types = [schema.field(len(keys) + i).type for i, part in enumerate(request["parts"]) if "expression" in part]
    zero = {f"a{i}": 0 if part.function.startswith("count") else None for i, part in enumerate(parts)}

    def read(read_rows: Callable[..., Iterator[PyArrowBatch]]) -> Iterator[PyArrowBatch]:
        # Answers aggregates of record batches by their headers and statistics; these batches are not decoded.
        answers = BlockAnswers(partials, requested, options, _ZONE)
        is_empty = not keys
        rows = with_computed(read_rows(answers=answers), computed, types) if computed else read_rows(answers=answers)
        for batch in partials(rows, answers.take):
            is_empty = False
            yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)
        if is_empty:
            # Spark adds up the counts of tasks, and a sum of no rows would be null.
            yield pa.RecordBatch.from_pylist([zero], schema=schema)

    return read


class _Value(NamedTuple):
    """A column, or one number for all rows, with unscaled values of at most `bound`."""

    column: Any
    bound: int


def with_computed(
    batches: Iterator[PyArrowBatch], nodes: Sequence[Mapping[str, Any]], types: Sequence[pa.DataType]
) -> Iterator[PyArrowBatch]:
    """Yield batches with additional columns, one for each expression."""
    for batch in batches:
        added = [_compute(node, batch, type_) for node, type_ in zip(nodes, types, strict=True)]
        columns = [*batch.columns, *added]
        yield pa.RecordBatch.from_arrays(columns, [str(i) for i in range(len(columns))])


def _compute(node: Mapping[str, Any], batch: PyArrowBatch, type_: pa.DataType) -> pa.Array:
    column, bound = _evaluate(node, batch)
    # The bound is cheap, and only a column that it does not rule out is searched.
    if bound >= 10**type_.precision and greatest(column, column.type.scale) >= 10**type_.precision:
        most = Decimal(10**type_.precision).scaleb(-type_.scale, _EXACT)
        value = next(value for value in column.to_pylist() if value is not None and value.copy_abs() >= most)
        shown = _SHOWN.get(node["name"], _EXACT).create_decimal(value)
        raise OptionError(f"an expression overflows: {shown:f} does not fit decimal({type_.precision},{type_.scale})")
    return relabel(column.cast(pa.decimal128(_DIGITS, type_.scale)), type_)


def _evaluate(node: Mapping[str, Any], batch: PyArrowBatch) -> _Value:
    if "column" in node:
        column = expand(batch.column(batch.schema.get_field_index(node["column"][0])))
        return _narrow(column, greatest(column, column.type.scale))
    if "type" in node:
        value = int(node["value"])
        scale = int(parse_json(node["type"]).partition(",")[2].rstrip(")"))
        return _Value(pa.scalar(Decimal(value).scaleb(-scale, _EXACT), _decimal_type(abs(value), scale)), abs(value))
    left, right = (_evaluate(child, batch) for child in node["children"])
    first, second = left.column.type, right.column.type
    scale = max(first.scale, second.scale)
    if node["name"] == "*":
        digits, bound = first.precision + second.precision + 1, left.bound * right.bound
    else:
        digits = max(first.precision - first.scale, second.precision - second.scale) + scale + 1
        bound = left.bound * 10 ** (scale - first.scale) + right.bound * 10 ** (scale - second.scale)
    if digits > _MOST_DIGITS:
        return _evaluate_by_values(node["name"], left.column, right.column, batch.num_rows, scale)
    inputs = [left.column, right.column]
    if digits > _DIGITS:
        inputs = [value.cast(pa.decimal256(value.type.precision, value.type.scale)) for value in inputs]
    return _narrow(_SIGNS[node["name"]](*inputs), bound)


def _narrow(column: Any, bound: int) -> _Value:
    """Return a column in the type with as many digits as its bound."""
    # pyarrow makes results as wide as the types of the inputs could need, and most fit into 128 bits.
    to = _decimal_type(bound, column.type.scale)
    if to.byte_width < column.type.byte_width:
        return _Value(column.cast(to), bound)
    if isinstance(column, pa.Scalar) or to.byte_width > column.type.byte_width:
        return _Value(column, bound)
    return _Value(relabel(column, to), bound)


def _decimal_type(bound: int, scale: int) -> pa.DataType:
    digits = max(len(str(bound)), scale, 1)
    return pa.decimal128(digits, scale) if digits <= _DIGITS else pa.decimal256(min(digits, _MOST_DIGITS), scale)


def _evaluate_by_values(name: str, left: Any, right: Any, rows: int, scale: int) -> _Value:
    """Compute values one by one in Python."""
    # The type of the result would need over 76 digits, though the values may fit.
    sides = [[side.as_py()] * rows if isinstance(side, pa.Scalar) else side.to_pylist() for side in (left, right)]
    of = _BY_VALUE[name]
    values = [None if a is None or b is None else of(_EXACT, a, b) for a, b in zip(*sides, strict=True)]
    scale = left.type.scale + right.type.scale if name == "*" else scale
    column = pa.array(values, pa.decimal256(_MOST_DIGITS, scale))
    return _narrow(column, greatest(column, scale))
