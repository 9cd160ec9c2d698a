"""Bind a predicate to columns: the result can be evaluated without SQL's type rules.

All of Spark's type rules are applied here: the types that compare (`coercion.common_type`), the cast of a literal
(`literals.cast`), and its position among the column's own values (`coercion.cut`). Comments name Spark's analyzer or optimizer
where its answer is not SQL's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import tzinfo
from typing import Any, Final, TypeAlias

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.column_path import fields_along, resolve
from spark_arrow_ipc.dataset.predicate import ANSI, CASE, instants, shorten
from spark_arrow_ipc.dataset.predicate import expressions as p
from spark_arrow_ipc.dataset.predicate.bound import (
    ARGUMENTS,
    COMPARE,
    COMPARISONS,
    DOUBTS,
    EMPTY,
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
    merge_alternatives,
    points_of,
)
from spark_arrow_ipc.dataset.predicate.coercion import (
    LOCAL_TIMESTAMP,
    UTC_TIMESTAMP,
    common_type,
    cut,
    find_widening,
    is_comparable,
    order_key,
    spark_name,
)
from spark_arrow_ipc.dataset.predicate.expressions import Operator, Raw
from spark_arrow_ipc.dataset.predicate.instants import Doubt
from spark_arrow_ipc.dataset.predicate.literals import cast, narrowest_type, timestamp
from spark_arrow_ipc.dataset.predicate.settings import (
    as_legacy,
    is_list_of_strings_and_others,
    legacy_list_type,
    legacy_type,
    settings_of,
)
from spark_arrow_ipc.errors import ColumnNotFoundError, OptionError


def bind(
    predicate: p.Predicate,
    fields: Sequence[t.Field],
    zone: tzinfo | None = None,
    dependencies: dict[str, str] | None = None,
) -> BoundPredicate:
    """Return a predicate over resolved columns; add the settings on which it depends to `dependencies`."""
    return _Binder(fields, zone, {} if dependencies is None else dependencies).predicate(predicate)


_Side: TypeAlias = BoundColumn | p.Literal


class _Binder:
    def __init__(self, fields: Sequence[t.Field], zone: tzinfo | None, dependencies: dict[str, str]) -> None:
        self._fields = fields
        self._zone = zone
        self._dependencies = dependencies
        self._columns: dict[p.Column, BoundColumn] = {}

    def predicate(self, predicate: p.Predicate) -> BoundPredicate:
        try:
            return _BIND[type(predicate)](self, predicate)
        except (OptionError, ColumnNotFoundError) as error:
            # The innermost condition has the position; AND, OR and NOT have none.
            if error.asked_by is None and isinstance(predicate, p.Condition):
                error.asked_by = f"{p.WHERE}, {predicate.at}" if predicate.at else p.WHERE
            raise

    def all_of(self, predicate: p.And) -> BoundPredicate:
        # a <> 1 AND a <> 2 is NOT (a = 1 OR a = 2), for nulls too.
        unequal: list[BoundPredicate] = []
        parts: list[BoundPredicate] = []
        for part in map(self.predicate, predicate.parts):
            if isinstance(part, Negated) and isinstance(part.part, Range | OneOf):
                unequal.append(part.part)
            else:
                parts.append(part)
        parts += map(Negated, merge_alternatives(unequal))
        return parts[0] if len(parts) == 1 else All(tuple(parts))

    def any_of(self, predicate: p.Or) -> BoundPredicate:
        parts = merge_alternatives(map(self.predicate, predicate.parts))
        return parts[0] if len(parts) == 1 else Any_(tuple(parts))

    def bare(self, predicate: p.Bare) -> BoundPredicate:
        operand = self._operand(predicate.operand)
        if isinstance(operand, p.Literal):
            return Constant(None if operand.value is None else bool(operand.value))
        if isinstance(operand.type, t.Null):
            return Constant(None)
        if not isinstance(operand.type, t.Bool):
            raise OptionError(f"expected a condition, found the column {operand} of type {spark_name(operand.type)}")
        return Range(operand, 1, None)  # true is 1

    def is_null(self, predicate: p.IsNull) -> BoundPredicate:
        operand = self._operand(predicate.operand)
        return Constant(operand.value is None) if isinstance(operand, p.Literal) else IsNull(operand)

    def like(self, predicate: p.Like) -> BoundPredicate:
        column = self._operand(predicate.operand)
        assert isinstance(column, BoundColumn)
        if isinstance(column.type, t.Null) or predicate.parts is None:
            return Constant(None)
        if not isinstance(column.type, t.Utf8):
            raise OptionError(f"expected a string column before LIKE, found {column} of type {spark_name(column.type)}")
        parts = predicate.parts
        if len(parts) == 1:
            return Range(column, parts[0], parts[0] + b"\0", is_point=True)
        if not any(parts):  # only ``%``: every string that is not null
            return Range(column, None, None)
        return Like(column, parts[0], parts[-1], parts[1] if len(parts) == 3 else b"")

    def comparison(self, predicate: p.Comparison) -> BoundPredicate:
        left, right = self._operand(predicate.left), self._operand(predicate.right)
        if isinstance(left, p.Literal) and isinstance(right, BoundColumn):
            return self._compare(p.MIRRORED[predicate.operator], right, left, predicate)
        return self._compare(predicate.operator, left, right, predicate)

    def _compare(self, operator: Operator, left: _Side, right: _Side, predicate: p.Comparison) -> BoundPredicate:
        bound = self._as_common(operator, left, right, common_type(_narrowest(left, right), _narrowest(right, left)))
        common, legacy = common_type(left.type, right.type), legacy_type(left.type, right.type)
        self._depend_on(settings_of((predicate.left, predicate.right), (left, right), common), predicate)
        if legacy is not None and legacy != common:
            self._depend_on_ansi(
                predicate,
                lambda: self._as_common(operator, as_legacy(left, legacy), as_legacy(right, legacy), legacy),
                bound,
            )
        return bound

    def _depend_on(self, names: Iterable[str], predicate: p.Predicate) -> None:
        for name in names:
            self._dependencies.setdefault(name, str(predicate))

    def _depend_on_ansi(
        self, predicate: p.Predicate, bind_legacy: Callable[[], BoundPredicate], bound: BoundPredicate
    ) -> None:
        """Depend on ANSI mode unless the predicate is the same without it."""
        try:
            is_same = bind_legacy() == bound
        except OptionError:  # Spark may answer what this package refuses
            is_same = False
        if not is_same:
            self._depend_on((ANSI,), predicate)

    def _as_common(self, operator: Operator, left: _Side, right: _Side, common: t.DataType | None) -> BoundPredicate:
        if common is None or not is_comparable(common):
            raise _incomparable(left, right)
        if isinstance(left, p.Literal):
            assert isinstance(right, p.Literal)
            return self._of_literals(operator, left, right, common)
        if isinstance(right, p.Literal):
            if _is_ordered_exactly(operator, left, right):
                return _beyond_long(operator, right) or self._with_constant(operator, left, right, _EXACT)
            return self._with_constant(operator, left, right, common)
        return self._pair(operator, left, right, common)

    def _of_literals(self, operator: Operator, left: p.Literal, right: p.Literal, common: t.DataType) -> BoundPredicate:
        values: list[Raw | None] = []
        for literal in (left, right):
            value = cast(literal, common, self._zone)
            if isinstance(value, Doubt):
                return Unsure(value.why)
            values.append(value)
        left_value, right_value = values
        if left_value is None or right_value is None:
            is_safe = operator is Operator.NULL_SAFE_EQ
            return Constant((left_value is None and right_value is None) if is_safe else None)
        return Constant(COMPARE[operator](order_key(left_value), order_key(right_value)))

    def _pair(self, operator: Operator, left: BoundColumn, right: BoundColumn, common: t.DataType) -> BoundPredicate:
        if isinstance(common, t.Null):
            return Constant(True if operator is Operator.NULL_SAFE_EQ else None)
        # Of two columns, a cast that loses digits or depends on the zone of each row has no interval to compare with.
        is_rounded = isinstance(common, t.Decimal) and any(
            isinstance(side.type, t.Decimal) and side.type.scale > common.scale for side in (left, right)
        )
        are_times = all(isinstance(side.type, t.Date | t.Timestamp) for side in (left, right))
        is_by_zone = are_times and common == UTC_TIMESTAMP and left.type != right.type
        if is_rounded or is_by_zone:
            raise OptionError(
                f"where does not compare the columns {left} ({spark_name(left.type)}) and {right} "
                f"({spark_name(right.type)}): filter the DataFrame for that"
            )
        for column in (left, right):
            self._check_castable(column, common)
        return Pair(operator, left, right, common)

    def _check_castable(self, column: BoundColumn, common: t.DataType) -> None:
        if isinstance(column.type, t.Null) or find_widening(column.type, common, self._zone) is not None:
            return
        if self._zone is not None and isinstance(column.type, t.Timestamp) and common == UTC_TIMESTAMP:
            return  # the literal becomes a local time instead
        if isinstance(column.type, t.Utf8):
            raise OptionError(
                f"where does not cast the string column {column} to {spark_name(common)}: write the "
                "constant as a string, or filter the DataFrame"
            )
        raise OptionError(
            f"where does not cast the {spark_name(column.type)} column {column} to {spark_name(common)}: "
            f"write the constant as {_LITERALS.get(type(column.type), 'a literal of its type')}, or filter the DataFrame"
        )

    def _with_constant(
        self, operator: Operator, column: BoundColumn, literal: p.Literal, common: t.DataType
    ) -> BoundPredicate:
        if literal.value is None:
            return IsNull(column) if operator is Operator.NULL_SAFE_EQ else Constant(None)
        if isinstance(column.type, t.Null):
            cast(literal, common, self._zone)  # for its error, which Spark raises too
            return Constant(False if operator is Operator.NULL_SAFE_EQ else None)
        bound = self._by_position(operator, column, literal, common)
        return NullSafe(bound) if operator is Operator.NULL_SAFE_EQ else bound

    def _by_position(
        self, operator: Operator, column: BoundColumn, literal: p.Literal, common: t.DataType
    ) -> BoundPredicate:
        self._check_castable(column, common)
        value = cast(literal, common, self._zone)
        assert value is not None
        if common == UTC_TIMESTAMP and isinstance(column.type, t.Timestamp | t.Date) and column.type != common:
            assert isinstance(value, int | Doubt)
            assert self._zone is not None
            if isinstance(column.type, t.Date):
                value = instants.dates_in_doubt(value, self._zone, str(literal)) or value
            else:
                common, value = column.type, instants.local_time_of(value, self._zone, str(literal))
        if isinstance(value, Doubt):
            return Doubtful(column, value.earliest, value.latest + 1, *DOUBTS[operator], value.why)
        position = cut(column.type, common, value, self._zone)
        if position is None:
            near = f"{literal} is too near the ends of the years 1 to 9999 to be compared with the date column {column}"
            raise OptionError(f"{near}: write the literal as DATE '...'")
        if (
            isinstance(column.type, t.Date)
            and position.lower is not None
            and position.upper is not None
            and int(position.upper) - int(position.lower) > 1
        ):
            raise instants.days_of_one_midnight(str(literal))
        return COMPARISONS[operator](column, position)

    def in_list(self, predicate: p.In) -> BoundPredicate:
        operand = self._operand(predicate.operand)
        options = list(map(self._literal, predicate.options))
        common = _common_of_list(list(dict.fromkeys([operand.type, *(option.type for option in options)])))
        if common is None or not is_comparable(common):
            raise _incomparable(operand, *options)
        self._depend_on(settings_of((predicate.operand, *predicate.options), (operand, *options), common), predicate)
        if is_list_of_strings_and_others(operand, options):
            self._depend_on((ANSI,), predicate)
        bound = self._in_common(operand, options, common)
        legacy = legacy_list_type([operand.type, *(option.type for option in options)])
        if legacy is not None and legacy != common:
            self._depend_on_ansi(predicate, lambda: self._in_common(operand, options, legacy), bound)
        return bound

    def keys(self, predicate: p.Keys) -> BoundPredicate:
        operand = self._operand(predicate.operand)
        if not isinstance(operand, BoundColumn) or operand.type != predicate.type:
            raise OptionError(
                f"expected keys of the type {spark_name(operand.type)} for {operand}, found {spark_name(predicate.type)}"
            )
        part = OneOf(operand, predicate.values)
        return Any_((Constant(None), part)) if predicate.has_null else part

    def _in_common(self, operand: _Side, options: Sequence[p.Literal], common: t.DataType) -> BoundPredicate:
        if isinstance(operand, p.Literal) or isinstance(operand.type, t.Null):
            return self._literal_in(operand, options, common)
        parts: list[BoundPredicate] = []
        values: set[Raw] = set()
        is_cast = operand.type != common
        for option in options:
            if option.value is None:  # rows without a match are unknown, not false
                parts.append(Constant(None))
                continue
            # Lists have hundreds of thousands of keys of the column's type, which need no search for their position.
            value = None if is_cast else cast(option, common, self._zone)
            if value is not None and not isinstance(value, Doubt) and value == value:  # noqa: PLR0124 - NaN
                values.add(value)
                continue
            equal = self._by_position(Operator.EQ, operand, option, common)
            if points := points_of(equal):
                values.update(points)
            elif not (isinstance(equal, Range) and is_empty(equal)):
                parts.append(equal)
        parts += [OneOf(operand, tuple(sorted(values)))] if values else []
        parts = merge_alternatives(parts) or [Range(operand, *EMPTY)]
        return parts[0] if len(parts) == 1 else Any_(tuple(parts))

    def _literal_in(self, operand: _Side, options: Sequence[p.Literal], common: t.DataType) -> BoundPredicate:
        for option in options:
            cast(option, common, self._zone)  # for its error, which Spark raises too
        if not isinstance(operand, p.Literal) or operand.value is None:
            return Constant(None)
        return Any_(tuple(self._of_literals(Operator.EQ, operand, option, common) for option in options))

    def _operand(self, operand: p.Operand) -> _Side:
        if isinstance(operand, p.Column):
            return self._column(operand)
        return self._call(operand) if isinstance(operand, p.ColumnCall) else self._literal(operand)

    def _literal(self, literal: p.Literal | p.TimestampLiteral) -> p.Literal:
        return literal if isinstance(literal, p.Literal) else timestamp(literal, self._zone)

    def _call(self, call: p.ColumnCall) -> BoundColumn:
        column = self._column(call.column)
        argument, result = ARGUMENTS[call.function]
        if column.type != argument:
            raise OptionError(
                f"expected a {spark_name(argument)} column in {call}, found one of type "
                f"{spark_name(column.type)}: compare the column itself with literals, or filter the DataFrame"
            )
        return replace(column, type=result, function=call.function)

    def _column(self, column: p.Column) -> BoundColumn:
        bound = self._columns.get(column)
        if bound is None:
            fields = fields_along(self._fields, resolve(self._fields, column.path, spark_name))
            bound = self._columns[column] = BoundColumn(tuple(field.name for field in fields), fields[-1].type)
        if bound.path != column.path:
            self._dependencies.setdefault(CASE, str(column))
        return bound


_BIND: Final[Mapping[type[Any], Callable[[_Binder, Any], BoundPredicate]]] = {
    p.And: _Binder.all_of,
    p.Or: _Binder.any_of,
    p.Not: lambda binder, predicate: Negated(binder.predicate(predicate.part)),
    p.Bare: _Binder.bare,
    p.IsNull: _Binder.is_null,
    p.Like: _Binder.like,
    p.Comparison: _Binder.comparison,
    p.In: _Binder.in_list,
    p.Keys: _Binder.keys,
}
"""One row for each class of `Predicate`."""

_LITERALS: Final[Mapping[type[t.DataType], str]] = {
    t.Date: "DATE '...' (or set the option timeZone)",
    t.Timestamp: "TIMESTAMP_NTZ '...' (or set the option timeZone)",
}


def _narrowest(operand: _Side, other: _Side) -> t.DataType:
    """Return the type of an operand; for a literal that is compared with a decimal, `narrowest_type`."""
    if isinstance(operand, p.Literal) and isinstance(other.type, t.Decimal):
        return narrowest_type(operand)
    return operand.type


def _is_ordered_exactly(operator: Operator, column: BoundColumn, literal: p.Literal) -> bool:
    """Return whether Spark orders integers by the exact decimal, and not by its value in the common type."""
    is_decimal = isinstance(literal.type, t.Decimal) and literal.value is not None and not literal.is_cast
    return operator in _ORDERS and isinstance(column.type, t.Int) and is_decimal


def _beyond_long(operator: Operator, literal: p.Literal) -> Constant | None:
    """Return the constant that ``DecimalPrecisionTypeCoercion`` makes of an order by a decimal beyond bigint, for nulls too."""
    assert isinstance(literal.type, t.Decimal)
    assert isinstance(literal.value, int)
    power = 10**literal.type.scale
    if literal.value > _LONG_MAX * power:
        return Constant(operator in (Operator.LT, Operator.LE))
    if literal.value < (-_LONG_MAX - 1) * power:
        return Constant(operator in (Operator.GT, Operator.GE))
    return None


_EXACT: Final = t.Decimal(76, 38, 256)
"""A type for every bigint and every decimal of Spark without a loss."""

_LONG_MAX: Final = 2**63 - 1
_ORDERS: Final = (Operator.LT, Operator.LE, Operator.GT, Operator.GE)


def _common_of_list(types: Sequence[t.DataType]) -> t.DataType | None:
    """Return the common type of an operand and a list, as ``AnsiTypeCoercion.findWiderCommonType``, or None."""
    classes = set(map(type, types))
    if {t.Utf8, t.Int, t.Decimal} <= classes and t.FloatingPoint not in classes:
        # bigint with decimals is decimal, strings with decimals are double: Spark's choice depends on the order of a hash.
        return None
    # Strings first, as Spark sorts them.
    common: t.DataType | None = t.null
    for type_ in sorted(types, key=lambda type_: not isinstance(type_, t.Utf8)):
        common = common_type(common, type_) if common is not None else None
    return common


_EXAMPLES: Final[Mapping[type[t.DataType], str]] = {
    t.Bool: "TRUE",
    t.Int: "5",
    t.FloatingPoint: "0.5D",
    t.Decimal: "0.5",
    t.Utf8: "'text'",
    t.Binary: "X'1F'",
    t.Date: "DATE '2026-01-05'",
    t.Timestamp: "TIMESTAMP '2026-01-05 12:00:00Z'",
}
"""A literal that is compared with columns of a type."""

_LOCAL_EXAMPLE: Final = "TIMESTAMP_NTZ '2026-01-05 12:00:00'"


def _incomparable(first: _Side, *others: _Side) -> OptionError:
    """Return the error of sides without a common type; it names one side of each type."""
    other_types = {other.type: other for other in reversed(others) if other.type != first.type}
    shown = [_with_type(side) for side in reversed(other_types.values())] or [_with_type(others[0])]
    example = _LOCAL_EXAMPLE if first.type == LOCAL_TIMESTAMP else _EXAMPLES.get(type(first.type))
    is_column = isinstance(first, BoundColumn)
    if not is_column or example is None or any(isinstance(other, BoundColumn) for other in others):
        advice = "filter the DataFrame for that"
    else:
        advice = f"write a literal of the column's type, such as {example}"
    return OptionError(f"cannot compare {_with_type(first)} with {' and '.join(shown)}; {advice}")


def _with_type(side: _Side) -> str:
    text = shorten(str(side), 80)
    return f"{f'`{text}`' if isinstance(side, BoundColumn) else text} ({spark_name(side.type)})"
