"""Pushed conditions: bind those with an exact meaning, and weaken or leave out the others (rules 1 and 2 of `push_down`).

How it works
------------
1. A leaf is bound only if its literal has the type of the column. Spark writes comparisons of different types as casts,
   which are left out, so the meaning of a bound condition depends on no setting of the session.
2. An AND may lose parts, because each part is true where the AND is; an OR may not, because a row may match the lost part.
3. Below NOT everything is exact: the negation of a weaker condition is a stronger one and would drop rows.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np
from pyspark.sql import types as s

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.bounded_json import parse_json
from spark_arrow_ipc.dataset.predicate import expressions as p
from spark_arrow_ipc.dataset.predicate.bind import bind
from spark_arrow_ipc.dataset.predicate.bound import All, BoundPredicate, Constant, has_doubt
from spark_arrow_ipc.dataset.time_zones import UNKNOWN_ZONE
from spark_arrow_ipc.errors import ArrowIpcError
from spark_arrow_ipc.spark.read.columns import METADATA_COLUMNS
from spark_arrow_ipc.spark.read.row_filter import predicate_fields
from spark_arrow_ipc.spark.read.where import RowSelection

Node: TypeAlias = Mapping[str, Any]
"""A condition as the JVM writes it: ``{"name", "children"}``, ``{"column"}``, or ``{"type", "value"}``; IN of whole numbers and
days has the column as its child, and ``{"type", "hasNull", "distances"}`` as its ``"keys"``."""


def narrow_selection(
    selection: RowSelection | None,
    frame: s.StructType,
    data_columns: s.StructType,
    added: Sequence[str],
    conjuncts: Sequence[Node],
) -> RowSelection | None:
    """Return the selection by conjuncts and the option `where` for a task that reads `data_columns` of a `frame`."""
    columns = _Columns(data_columns)
    required: list[BoundPredicate] = []
    hints: list[BoundPredicate] = []
    metadata: list[str] = []
    if selection is not None:
        # Bound in the session of this task, so the result needs no other binding.
        selection = selection.in_session()
        required.append(selection.bound)
        metadata += selection.metadata
        frame_columns = [*frame.fields, *selection.extra]
        for position in selection.positions.values():
            columns.add(frame_columns[position])
    # Below an aggregate that tasks compute, Spark does not request the columns of the filter: they come from the frame.
    fields = {field.name: field for field in [*frame.fields, *data_columns.fields, *columns.extra]}
    fields |= {name: s.StructField(name, METADATA_COLUMNS[name].type) for name in added}
    bindable = predicate_fields(s.StructType(list(fields.values())))
    for node in conjuncts:
        predicate = _parse_conjunct(node, bindable)
        if predicate is None:
            continue
        (required if "exact" in node else hints).append(bind(predicate, bindable, UNKNOWN_ZONE))
        names = [column.path[0] for column in p.columns(predicate)]
        metadata += [name for name in names if name in added]
        for name in names:
            if name not in added:
                columns.add(fields[name])
    if not required and not hints:
        return None
    return RowSelection(
        _join([*required, *hints]),
        tuple(columns.extra),
        columns.positions,
        tuple(dict.fromkeys(metadata)),
        required=_join(required) if hints else None,
    )


class _Columns:
    """The positions of the columns of predicates: among the requested columns, or behind them."""

    def __init__(self, data_columns: s.StructType) -> None:
        self._data_columns = data_columns.fields
        self.extra: list[s.StructField] = []
        self.positions: dict[str, int] = {}

    def add(self, field: s.StructField) -> None:
        if field.name in self.positions:
            return
        if field in self._data_columns:
            self.positions[field.name] = self._data_columns.index(field)
        else:
            # So a struct is read twice if Spark requests fewer of its fields.
            self.positions[field.name] = len(self._data_columns) + len(self.extra)
            self.extra.append(field)


def _join(parts: Sequence[BoundPredicate]) -> BoundPredicate:
    if not parts:
        return Constant(truth=True)
    return parts[0] if len(parts) == 1 else All(tuple(parts))


def _parse_conjunct(node: Node, fields: Sequence[t.Field]) -> p.Predicate | None:
    """Return the part of a conjunct that tasks can evaluate, or None."""
    predicate = _weaken(node, fields, is_exact="exact" in node)
    if predicate is None and "exact" in node:  # Spark has dropped its filter
        raise RuntimeError(
            f"a task cannot hold the condition {json.dumps(node)}; report this, and read with "
            "spark.arrowipc.pushDown=false"
        )
    return predicate


def _weaken(node: Node, fields: Sequence[t.Field], *, is_exact: bool) -> p.Predicate | None:
    """Return a predicate that is true where a node is, and if `is_exact` only there; None without such a predicate."""
    name = node.get("name")
    parts = node.get("children", ())
    if name in _CHAINS:
        remaining = [weak for part in parts if (weak := _weaken(part, fields, is_exact=is_exact)) is not None]
        # Each part of an AND is true where the AND is.
        if not remaining or (len(remaining) < len(parts) and (is_exact or name == "OR")):
            return None
        return remaining[0] if len(remaining) == 1 else _CHAINS[name](tuple(remaining))
    if name == "NOT":  # a weakened condition under NOT would drop rows that match
        exact = _weaken(parts[0], fields, is_exact=True)
        return None if exact is None else p.Not(exact)
    condition = _parse_condition(node)
    return condition if condition is not None and _is_exact(condition, fields) else None


def _is_exact(predicate: p.Predicate, fields: Sequence[t.Field]) -> bool:
    settings: dict[str, str] = {}
    try:
        # `bind` adds the settings on which the meaning depends. A doubt is a local time, whose zone is unknown here.
        bound = bind(predicate, fields, UNKNOWN_ZONE, settings)
    except ArrowIpcError:
        return False
    return not settings and not has_doubt(bound)


def _parse_condition(node: Node) -> p.Predicate | None:
    make = _CONDITIONS.get(node.get("name", ""))
    if make is None:
        return None
    operands = [_parse_operand(child) for child in node["children"]]
    if not operands or any(operand is None for operand in operands):
        return None
    if "keys" in node:
        return _parse_keys(operands[0], node["keys"])
    # Spark compares literals of several types by casts, which are left out.
    types = {child["type"] for child in node["children"] if child.get("value") is not None}
    return make(operands) if len(types) <= 1 else None


def _parse_operand(node: Node) -> p.Operand | None:
    if "column" in node:
        return p.Column(tuple(node["column"]))
    if "type" in node:
        return _parse_literal(node)
    (child,) = node["children"] if len(node["children"]) == 1 else ({},)
    if node["name"] in _CALLS and "column" in child:
        return p.ColumnCall(node["name"], p.Column(tuple(child["column"])))
    return None


_CHAINS: Final[Mapping[Any, Callable[[tuple[p.Predicate, ...]], p.Predicate]]] = {"AND": p.And, "OR": p.Or}
_CALLS: Final = frozenset({"YEAR", "MONTH", "DAY", "UPPER", "LOWER"})


def _compare(operator: p.Operator) -> Callable[[list[Any]], p.Predicate | None]:
    return lambda operands: p.Comparison(operator, *operands)


def _like(before: bytes | None, after: bytes | None) -> Callable[[list[Any]], p.Predicate | None]:
    """Return a function that makes LIKE from a column and a text, with parts before and after it."""

    def make(operands: list[Any]) -> p.Predicate | None:
        column, part = operands
        if not isinstance(column, p.Column) or not isinstance(part, p.Literal) or not isinstance(part.value, bytes):
            return None
        return p.Like(column, tuple(one for one in (before, part.value, after) if one is not None))

    return make


def _in(operands: list[Any]) -> p.Predicate | None:
    operand, *options = operands
    return p.In(operand, tuple(options)) if options and all(isinstance(one, p.Literal) for one in options) else None


def _parse_keys(operand: Any, keys: Node) -> p.Keys | None:
    type_ = _literal_type(keys["type"])
    if type_ is None or isinstance(operand, p.Literal):
        return None
    distances = np.frombuffer(zlib.decompress(base64.b64decode(keys["distances"])), "<i8")
    # A distance of more than 63 bits has wrapped; the sum wraps back.
    return p.Keys(operand, type_, tuple(np.cumsum(distances).tolist()), keys["hasNull"])


_CONDITIONS: Final[Mapping[str, Callable[[list[Any]], p.Predicate | None]]] = {
    **{operator.value: _compare(operator) for operator in p.Operator},
    "IS_NULL": lambda operands: p.IsNull(operands[0]),
    "IS_NOT_NULL": lambda operands: p.Not(p.IsNull(operands[0])),
    "IN": _in,
    "STARTS_WITH": _like(None, b""),
    "ENDS_WITH": _like(b"", None),
    "CONTAINS": _like(b"", b""),
}
"""By Spark's names of the conditions that it hands to sources."""


def _parse_literal(node: Node) -> p.Literal | None:
    # Without an equal type here the meaning would not be exact.
    type_, value = _literal_type(node["type"]), node["value"]
    if type_ is None:
        return None
    shown = str(value)
    if value is None:
        return p.Literal(t.Null(), None, "NULL")
    if isinstance(type_, t.Utf8 | t.Binary):
        value = base64.b64decode(value)  # JSON has no bytes
    elif isinstance(type_, t.FloatingPoint):
        value = float(value)
    elif isinstance(type_, t.Decimal):
        value = int(value)
    return p.Literal(type_, value, shown)


@lru_cache(maxsize=32)
def _literal_type(text: str) -> t.DataType | None:
    """Return the Arrow type for a Spark type in JSON; None if predicates lack it."""
    field = {"name": "literal", "type": parse_json(text), "nullable": True, "metadata": {}}
    try:
        (arrow,) = predicate_fields(s.StructType.fromJson({"type": "struct", "fields": [field]}))
    except ArrowIpcError:
        return None
    return arrow.type
