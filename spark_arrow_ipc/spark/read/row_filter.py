"""Compile a bound predicate into a filter of pyarrow batches.

How it works
------------
1. A predicate that is bound to Spark's types becomes a function over batches in these types, by `_COMPILE`. It is composed
   of pyarrow's kernels: a few calls for a batch, and no Python for a value.
2. A mask is three-valued as in SQL (null is unknown), and rows stay if their mask is true.
3. In Spark NaN is greater than all other numbers, and pyarrow follows IEEE: a range without an upper bound includes NaN.
4. A dictionary column's predicate is evaluated once for each value, and its rows get their truth by index.
5. A hint is a predicate by which Spark filters again. It is evaluated only while it drops many rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import reduce
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as s

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.predicate.bound import (
    All,
    Any_,
    BoundColumn,
    BoundPredicate,
    Constant,
    Doubtful,
    IsNull,
    Like,
    Negated,
    NullSafe,
    OneOf,
    Pair,
    Range,
    Unsure,
    is_empty,
)
from spark_arrow_ipc.dataset.predicate.coercion import NotCompared
from spark_arrow_ipc.dataset.predicate.expressions import WHERE, Operator, Raw
from spark_arrow_ipc.errors import OptionError, error_context
from spark_arrow_ipc.spark import bridge
from spark_arrow_ipc.spark.convert import expand, expanded_type
from spark_arrow_ipc.spark.convert.dictionaries import by_values
from spark_arrow_ipc.spark.read.column_functions import COLUMN_FUNCTIONS, cast_column
from spark_arrow_ipc.spark.read.key_map import key_map
from spark_arrow_ipc.spark.types.field_metadata import declares_char
from spark_arrow_ipc.spark.types.spark_to_arrow import arrow_field, storage_type

Mask = Callable[[pa.RecordBatch], Any]
"""Evaluates a predicate on a batch: a boolean array, or one scalar for all rows."""

_EXACT: Final = Context(prec=100)
_PLAIN_COLLATION: Final = "UTF8_BINARY"

_WORDS: Final = np.dtype((np.int64, 2))
_WORD_DIGITS: Final = t.MAX_DECIMAL_PRECISION[64]
"""A decimal of so many digits is the lower of its two words."""
_WORD_END: Final = 10**_WORD_DIGITS

_WASTED: Final = 4
"""After so many successive batches of which a hint retained most rows, it is tried on few batches."""

_TRY_AGAIN: Final = 8
"""One batch in so many is then tried."""


@dataclass(slots=True)
class RowFilter:
    """A compiled predicate, and the state of its hint."""

    mask: Mask  # evaluates the predicate on a batch
    output: int | None  # number of the first columns to retain; None for all
    schema: pa.Schema  # of the filtered batches
    # Evaluates the part by which Spark does not filter again, if `mask` has a hint; None without a hint.
    required: Mask | None = None
    _batches: int = 0
    _wasted: int = 0

    def _try_hint(self, batch: pa.RecordBatch, required: Mask) -> Any:
        self._batches += 1
        if self._wasted >= _WASTED and self._batches % _TRY_AGAIN:
            return required(batch)
        try:
            mask = self.mask(batch)
        except OptionError:
            # Such as upper() of letters beyond ASCII: Spark computes it.
            return required(batch)
        if not isinstance(mask, pa.Array) or mask.true_count * 2 <= batch.num_rows:
            self._wasted = 0
            return mask
        # A copy of the many matching rows costs more than it saves Spark.
        self._wasted += 1
        return required(batch)

    def filter(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """Return the matching rows, or None without any; does not copy if all match."""
        mask = self.mask(batch) if self.required is None else self._try_hint(batch, self.required)
        output_batch = batch if self.output is None else batch.select(range(self.output))
        if isinstance(mask, pa.Scalar):
            return output_batch if mask.as_py() and batch.num_rows else None
        matching = mask.true_count
        if matching == 0:
            return None
        if matching == batch.num_rows:
            return output_batch
        if not output_batch.num_columns:
            # A struct array has a length without children, and becomes a batch without columns.
            return pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), matching, [None]))
        return output_batch.filter(mask)


def compile_filter(
    bound: BoundPredicate,
    schema: pa.Schema,
    *,
    output: int | None = None,
    positions: Mapping[str, int] | None = None,
    required: BoundPredicate | None = None,
) -> RowFilter:
    """Compile the filter of batches of a schema, of which only the first `output` columns are for Spark."""
    output_schema = schema if output is None else pa.schema([schema.field(i) for i in range(output)], schema.metadata)
    # A struct may appear twice, for the output and for the predicate: without `positions` the first one is used.
    places = {name: i for i, name in reversed(list(enumerate(schema.names)))} if positions is None else positions

    def compile_mask(predicate: BoundPredicate) -> Mask:
        with error_context(asked_by=WHERE):
            mask = _compile(predicate, Source(schema, places))

        def column_of(batch: pa.RecordBatch) -> Any:
            with error_context(asked_by=WHERE):
                return mask(batch)

        return column_of

    return RowFilter(compile_mask(bound), output, output_schema, None if required is None else compile_mask(required))


def predicate_fields(spark_schema: s.StructType) -> tuple[t.Field, ...]:
    """Return the columns of a Spark schema as Arrow fields, for `bind`."""
    return tuple(
        _predicate_field(field.name, field.dataType, padded=declares_char(field)) for field in spark_schema.fields
    )


def _predicate_field(name: str, spark_type: s.DataType, *, padded: bool) -> t.Field:
    # Predicates compare neither collated strings nor CHAR, which Spark pads by settings of the session, nor variants and
    # geometries, and can only test them for null.
    spark_type = storage_type(spark_type)
    if isinstance(spark_type, s.StructType):
        fields = [
            _predicate_field(field.name, field.dataType, padded=padded or declares_char(field)) for field in spark_type
        ]
        return t.Field(name, t.Struct(tuple(fields)))
    if isinstance(spark_type, s.StringType) and (padded or spark_type.collation != _PLAIN_COLLATION):
        return t.Field(name, NotCompared("char" if padded else spark_type.simpleString()))
    if isinstance(spark_type, s.VariantType | s.SpatialType):
        return t.Field(name, NotCompared(spark_type.simpleString()))
    return t.Field(name, arrow_field(name, spark_type, {}, name).type)


@dataclass(frozen=True, slots=True)
class Source:
    """A schema, and the positions in it of a predicate's columns by their first names."""

    schema: pa.Schema
    positions: Mapping[str, int]


def _compile(bound: BoundPredicate, source: Source) -> Mask:
    mask = _COMPILE[type(bound)](bound, source)
    if isinstance(bound, IsNull | Range | OneOf | Like) and len(bound.column.path) == 1:
        position = source.positions[bound.column.path[0]]
        if pa.types.is_dictionary(source.schema.field(position).type):
            return by_values(mask, position)
    return mask


def _compile_column(column: BoundColumn, source: Source) -> tuple[Callable[[pa.RecordBatch], pa.Array], pa.DataType]:
    """Return a callback that gets a column of a batch, and the type of the column."""
    position = source.positions[column.path[0]]
    type_ = expanded_type(source.schema.field(position).type)
    below: list[int] = []
    for name in column.path[1:]:
        below.append([field.name for field in type_].index(name))
        type_ = type_[below[-1]].type

    def get(batch: pa.RecordBatch) -> pa.Array:
        array = expand(batch.column(position))
        return pc.struct_field(array, below) if below else array

    if column.function is None:
        return get, type_
    compute = COLUMN_FUNCTIONS[column.function]
    return lambda batch: compute(get(batch)), bridge.type_to_pyarrow(column.type)


def _to_scalar(raw: Raw, type_: pa.DataType) -> pa.Scalar:
    """Return a value, in the unit of its type, as a pyarrow scalar."""
    if pa.types.is_decimal(type_):
        return bridge.scalar(Decimal(int(raw)).scaleb(-type_.scale, _EXACT), type_)  # raises for too many digits
    return _to_array((raw,), type_)[0]


def _to_array(raws: tuple[Raw, ...], type_: pa.DataType) -> pa.Array:
    """Return values, in the unit of their type, as an array; digits of decimals are not checked."""
    if pa.types.is_decimal(type_):
        unscaled = b"".join(int(raw).to_bytes(16, "little", signed=True) for raw in raws)
        return pa.Array.from_buffers(type_, len(raws), [None, pa.py_buffer(unscaled)])
    if pa.types.is_temporal(type_):
        return bridge.array(raws, pa.int32() if type_.bit_width == 32 else pa.int64()).view(type_)
    return bridge.array([bool(raw) for raw in raws] if pa.types.is_boolean(type_) else raws, type_)


_UNKNOWN: Final = bridge.scalar(None, pa.bool_())
_TRUE: Final = bridge.scalar(value=True, type_=pa.bool_())
_FALSE: Final = bridge.scalar(value=False, type_=pa.bool_())


def _for_values(array: pa.Array, truth: pa.Scalar | pa.Array) -> Any:
    """Return the truth, or unknown for null slots."""
    return pc.if_else(array.is_valid(), truth, _UNKNOWN) if array.null_count else truth


def _compile_values(column: BoundColumn, source: Source) -> tuple[Callable[[pa.RecordBatch], pa.Array], pa.DataType]:
    """Return a callback that gets a column of a batch, strings as bytes, and the type."""
    get, type_ = _compile_column(column, source)
    # Bytes have the order of strings, and a literal X'FF', which is not UTF-8, fits no string array.
    if not pa.types.is_string(type_):
        return get, type_
    return lambda batch: get(batch).cast(pa.binary()), pa.binary()


def _range(bound: Range, source: Source) -> Mask:
    get, type_ = _compile_values(bound.column, source)
    if is_empty(bound):
        return lambda batch: _for_values(get(batch), _FALSE)
    if bound.lower is None and bound.upper is None:
        return lambda batch: _for_values(get(batch), _TRUE)
    if pa.types.is_floating(type_):
        return _float_range(bound, get, type_)
    if pa.types.is_decimal(type_) and type_.precision <= _WORD_DIGITS and bound.column.function is None:
        return _short_decimal_range(bound, get)
    if bound.is_point:
        assert bound.lower is not None
        point = _to_scalar(bound.lower, type_)
        return lambda batch: pc.equal(get(batch), point)
    lower = None if bound.lower is None else _to_scalar(bound.lower, type_)
    upper = None if bound.upper is None else _to_scalar(bound.upper, type_)
    if upper is None:
        return lambda batch: pc.greater_equal(get(batch), lower)
    if lower is None:
        return lambda batch: pc.less(get(batch), upper)

    def between(batch: pa.RecordBatch) -> Any:
        array = get(batch)
        return pc.and_(pc.greater_equal(array, lower), pc.less(array, upper))

    return between


def _short_decimal_range(bound: Range, get: Callable[[pa.RecordBatch], pa.Array]) -> Mask:
    # Digits have been checked, so that the lower of two words is the value: 0.6 ns a row where pyarrow's kernels take 2 to 5.
    lower, upper = (
        None if end is None else min(max(int(end), -_WORD_END), _WORD_END) for end in (bound.lower, bound.upper)
    )

    def mask(batch: pa.RecordBatch) -> Any:
        array = get(batch)
        values = bridge.view_values(array, _WORDS)[:, 0]
        if bound.is_point:
            truths = values == lower
        elif lower is None or upper is None:
            truths = values < upper if lower is None else values >= lower
        else:  # differences wrap, so that a value below the lower end is beyond the upper one
            truths = (values - lower).view(np.uint64) < np.uint64(upper - lower)
        return _for_values(array, bridge.numbers(truths))

    return mask


def _float_range(bound: Range, get: Callable[[pa.RecordBatch], pa.Array], type_: pa.DataType) -> Mask:
    lower, upper = bound.lower, bound.upper
    if isinstance(lower, float) and math.isnan(lower):
        return lambda batch: pc.is_nan(get(batch))
    if bound.is_point:
        point = bridge.scalar(lower, type_)
        return lambda batch: pc.equal(get(batch), point)
    parts: list[Callable[[pa.Array], Any]] = []
    if lower is not None:
        least = bridge.scalar(lower, type_)
        if upper is None:  # includes NaN, the greatest value
            parts.append(lambda array: pc.or_(pc.greater_equal(array, least), pc.is_nan(array)))
        else:
            parts.append(lambda array: pc.greater_equal(array, least))
    if isinstance(upper, float) and math.isnan(upper):
        parts.append(lambda array: pc.invert(pc.is_nan(array)))
    elif upper is not None:
        bound_ = bridge.scalar(upper, type_)
        parts.append(lambda array: pc.less(array, bound_))

    return _all_of(get, parts)


def _all_of(get: Callable[[pa.RecordBatch], pa.Array], parts: Sequence[Callable[[pa.Array], Any]]) -> Mask:
    def mask(batch: pa.RecordBatch) -> Any:
        array = get(batch)
        return reduce(pc.and_, (part(array) for part in parts))

    return mask


def _one_of(bound: OneOf, source: Source) -> Mask:
    get, type_ = _compile_values(bound.column, source)
    values = bound.values
    look_up = key_map(values, type_)
    if look_up is None:
        look_up = _hashed(values, type_)

    def mask(batch: pa.RecordBatch) -> Any:
        array = get(batch)
        return _for_values(array, look_up(array))

    return mask


def _hashed(values: tuple[Raw, ...], type_: pa.DataType) -> Callable[[pa.Array], pa.Array]:
    """Return a function that finds values in a list."""
    if pa.types.is_floating(type_) and 0.0 in values:
        # The kernel hashes bits, which differ between the two zeros.
        values = (*(value for value in values if value != 0), 0.0, -0.0)
    options = pc.SetLookupOptions(value_set=_to_array(values, type_))
    return lambda array: pc.is_in(array, options=options)


def _like(bound: Like, source: Source) -> Mask:
    get, _ = _compile_column(bound.column, source)
    prefix, suffix, infix = (part.decode() for part in (bound.prefix, bound.suffix, bound.infix))
    parts: list[Callable[[pa.Array], Any]] = []
    if prefix:
        parts.append(lambda array: pc.starts_with(array, prefix))
    if suffix:
        parts.append(lambda array: pc.ends_with(array, suffix))
    if prefix and suffix:
        # Prefix and suffix may not overlap.
        both = bridge.scalar(len(bound.prefix) + len(bound.suffix), pa.int32())
        parts.append(lambda array: pc.greater_equal(pc.binary_length(array), both))
    if infix:
        parts.append(lambda array: pc.match_substring(array, infix))

    return _all_of(get, parts)


def _refuse_doubt(bound: Doubtful | Unsure, _source: Source) -> Mask:
    raise OptionError(bound.why)


_COMPARE: Final[Mapping[Operator, Callable[[pa.Array, pa.Array], pa.Array]]] = {
    Operator.EQ: pc.equal,
    Operator.NULL_SAFE_EQ: pc.equal,
    Operator.NE: pc.not_equal,
    Operator.LT: pc.less,
    Operator.LE: pc.less_equal,
    Operator.GT: pc.greater,
    Operator.GE: pc.greater_equal,
}
_NAN_COMPARE: Final[Mapping[Operator, Callable[[pa.Array, pa.Array], pa.Array]]] = {
    Operator.EQ: pc.and_,
    Operator.NULL_SAFE_EQ: pc.and_,
    Operator.NE: pc.xor,
    Operator.LT: lambda left, right: pc.and_(pc.invert(left), right),
    Operator.LE: lambda _left, right: right,
    Operator.GT: lambda left, right: pc.and_(left, pc.invert(right)),
    Operator.GE: lambda left, _right: left,
}
"""The results of comparisons if at least one side is NaN, from the masks of NaN of both sides."""


def _pair(bound: Pair, source: Source) -> Mask:
    get_left, _ = _compile_column(bound.left, source)
    get_right, _ = _compile_column(bound.right, source)
    common = bridge.type_to_pyarrow(bound.common)
    compare = _COMPARE[bound.operator]
    is_null_safe = bound.operator is Operator.NULL_SAFE_EQ

    def mask(batch: pa.RecordBatch) -> Any:
        left, right = (cast_column(get(batch), common) for get in (get_left, get_right))
        truth = compare(left, right)
        if pa.types.is_floating(common):
            nans = pc.is_nan(left), pc.is_nan(right)
            truth = pc.if_else(pc.or_(*nans), _NAN_COMPARE[bound.operator](*nans), truth)
        if not is_null_safe:
            return truth
        return pc.or_(pc.fill_null(truth, _FALSE), pc.and_(left.is_null(), right.is_null()))

    return mask


def _constant(bound: Constant, _source: Source) -> Mask:
    truth = bridge.scalar(bound.truth, pa.bool_())
    return lambda _: truth


def _is_null(bound: IsNull, source: Source) -> Mask:
    get, _ = _compile_column(bound.column, source)
    return lambda batch: get(batch).is_null()


def _of_part(kernel: Callable[[Any], Any]) -> Callable[[Any, Source], Mask]:
    def build(bound: Negated | NullSafe, source: Source) -> Mask:
        part = _compile(bound.part, source)
        return lambda batch: kernel(part(batch))

    return build


def _connect(connect: Callable[[Any, Any], Any], start: pa.Scalar) -> Callable[[Any, Source], Mask]:
    def build(bound: All | Any_, source: Source) -> Mask:
        parts = [_compile(part, source) for part in bound.parts]

        def mask(batch: pa.RecordBatch) -> Any:
            return reduce(connect, (part(batch) for part in parts)) if parts else start

        return mask

    return build


_COMPILE: Final[Mapping[type[Any], Callable[[Any, Source], Mask]]] = {
    All: _connect(pc.and_kleene, _TRUE),
    Any_: _connect(pc.or_kleene, _FALSE),
    Negated: _of_part(pc.invert),
    NullSafe: _of_part(lambda truth: pc.fill_null(truth, _FALSE)),
    Constant: _constant,
    IsNull: _is_null,
    Range: _range,
    OneOf: _one_of,
    Like: _like,
    Pair: _pair,
    Doubtful: _refuse_doubt,
    Unsure: _refuse_doubt,
}
"""One row for each class of `BoundPredicate`."""
