"""Convert custom metadata of Arrow fields to metadata of Spark fields and back.

Spark interprets some metadata keys (``spark.watermarkDelayMs`` breaks a view, ``CURRENT_DEFAULT`` changes rows), so a
file's keys never become Spark keys: only ``ARROW:*`` stays, because those names are Arrow's, and all other pairs are in
one array, in order. Values that are not UTF-8 are in it in base64, because Spark's metadata are JSON. `TYPE_KEY` has the
Arrow type of a column if a write would give another one, and for every extension type, whose name is restored only on
the same storage type.

Spark's metadata (a comment, the length of a VARCHAR, attributes of ML, keys of users) are written into the annotation of
the schema (``spark_annotation.py``). Where Spark makes Arrow data itself it writes them into the pair `SPARK_KEY` of a
field, which is read too. Of both, only keys that Spark does not act on become Spark keys (`harmless`); a pair with other
keys also stays a pair.
"""

from __future__ import annotations

import json
import math
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

import pyspark
from pyspark.sql import types as s

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow_json.document import load
from spark_arrow_ipc.arrow_json.types import type_from_json, type_to_json
from spark_arrow_ipc.bounded_json import parse_json
from spark_arrow_ipc.errors import ArrowIpcError
from spark_arrow_ipc.spark.options.read_options import ReadOptions
from spark_arrow_ipc.spark.options.values import Nanoseconds, Times, TimestampsWithOffset
from spark_arrow_ipc.spark.types.extension_columns import (
    EXTENSION_METADATA,
    EXTENSION_NAME,
    extension_of,
    is_extension,
)

PAIRS_KEY = "arrow.custom_metadata"
"""Array of {key, value}, or of {key, base64}, for all pairs whose keys are not Arrow's, in file order."""

TYPE_KEY = "arrow.type"
"""The Arrow type of a column, as `annotation_of` returns it."""

SPARK_KEY: Final = "SPARK::metadata::json"
"""Key of the pair in which Spark's Arrow data have the metadata of a field as a JSON object."""

OWN_PREFIX: Final = "arrow."
"""Beginning of `PAIRS_KEY`, `TYPE_KEY` and `INEXACT_KEY`."""

INEXACT_KEY: Final = "arrow.inexact"
"""True if the read may have changed values, so that a write cannot restore the values of the file."""

ARROW_PREFIX = "ARROW:"


# Annotations of types have the parts that a Spark type lacks (widths, signs, units, layouts, dictionaries and their order),
# and the names, extensions and metadata of fields that Spark does not have (items of lists, keys and values of maps, run
# ends). The rest comes from the column when it is written, because a DataFrame may have changed it.
#
# Types with information that Spark's values lack are not restored: a union (the child of a null is unknown), a dictionary
# whose order has a meaning, a map whose keys are sorted.
def vector_element(type_: t.DataType) -> t.Int | t.FloatingPoint | None:
    """Return the type of the numbers of a list that may be binary in Spark; None for other types."""
    if not isinstance(type_, t.List | t.LargeList | t.FixedSizeList):
        return None
    element = type_.value.type
    return element if isinstance(element, t.Int | t.FloatingPoint) else None


@lru_cache(maxsize=256)  # a wide schema has many columns of few types
def annotation_of(type_: t.DataType) -> str:
    """Return the annotation of a type."""
    return json.dumps(type_to_json(simplify(type_)), separators=(",", ":"))


def type_of_annotation(annotation: str | t.DataType, usual: t.DataType) -> t.DataType:
    """Return the type that an annotation gives a column; raises ValueError for one that does not fit."""
    return _along(annotation if isinstance(annotation, t.DataType) else _parse(annotation), usual)


# Users may edit annotations, so they may be of any type and text.
def is_storage_of(type_: t.DataType, annotation: object) -> bool:
    """Return True if an annotation has the storage of a type."""
    annotated = _parse_or_none(annotation)
    return annotated is not None and storage(annotated) == storage(type_)


def is_vector_annotation(annotation: object) -> bool:
    """Return True if an annotation is of a list of numbers."""
    annotated = _parse_or_none(annotation)
    return annotated is not None and vector_element(annotated) is not None


def readable(annotation: str | t.DataType) -> str:
    """Return the type of an annotation for an error, or its text if it has none."""
    return str(_parse_or_none(annotation) or annotation)


def _parse_or_none(annotation: object) -> t.DataType | None:
    with suppress(ValueError):
        return _parse(annotation) if isinstance(annotation, str) else None
    return None


def _parse(annotation: str) -> t.DataType:
    try:
        return type_from_json(load(annotation.encode()))
    except ArrowIpcError as error:
        raise ValueError(annotation) from error


def simplify(type_: t.DataType) -> t.DataType:
    """Return a type without the parts that annotations leave out."""
    row = _SIMPLIFY.get(type(type_))
    return type_ if row is None else row(type_, lambda f, _name: replace(f, type=simplify(f.type), nullable=True))


def storage(type_: t.DataType) -> t.DataType:
    """Return a type as `simplify` does, and without names and metadata of items, keys and values."""
    row = _SIMPLIFY.get(type(type_))
    return type_ if row is None else row(type_, lambda field, name: t.Field(name, storage(field.type)))


_Item = Callable[[t.Field, str], t.Field]
"""Returns the annotated form of a field that Spark does not have; takes its usual name."""


def _fields(type_: Any, item: _Item) -> tuple[t.Field, ...]:
    return tuple(t.Field(field.name, item(field, "").type) for field in type_.fields)


_LISTS: Final = (t.List, t.LargeList, t.ListView, t.LargeListView, t.FixedSizeList)
_UNIONS: Final = (t.SparseUnion, t.DenseUnion)


def _simplify_map(type_: t.Map, item: _Item) -> t.DataType:
    # Columnar.rst, "Map": entries and keys are not nullable.
    key, value = replace(item(type_.key, "key"), nullable=False), item(type_.item, "value")
    entries = replace(type_.entries, type=t.Struct((key, value)), nullable=False)
    return t.Map(replace(item(entries, "entries"), type=entries.type, nullable=False), type_.keys_sorted)


_SIMPLIFY: Final[Mapping[type[t.DataType], Callable[[Any, _Item], t.DataType]]] = {
    **dict.fromkeys(_LISTS, lambda type_, item: replace(type_, value=item(type_.value, "item"))),
    **dict.fromkeys(_UNIONS, lambda type_, item: replace(type_, fields=_fields(type_, item))),
    t.Struct: lambda type_, item: t.Struct(_fields(type_, item)),
    t.Map: _simplify_map,
    t.RunEndEncoded: lambda type_, item: t.RunEndEncoded(
        replace(item(type_.run_ends, "run_ends"), nullable=False), item(type_.values, "values")
    ),
    t.Dictionary: lambda type_, item: replace(type_, value=item(t.Field("", type_.value), "").type),
}
"""By type class: returns the annotated form of a type with children or values. Other types have all parts."""


def _along(annotated: t.DataType, usual: t.DataType) -> t.DataType:
    row = _ALONG.get(type(annotated))
    return annotated if row is None else row(annotated, usual)


def _list_along(annotated: Any, usual: t.DataType) -> t.DataType:
    if usual == t.binary and vector_element(annotated) is not None:
        # It was read with vectors=binary.
        return annotated  # type: ignore[no-any-return]
    if not isinstance(usual, t.List):
        raise ValueError(str(annotated))  # noqa: TRY004 - the annotation is at fault
    return replace(annotated, value=_item_along(annotated.value, usual.value))  # type: ignore[no-any-return]


def _struct_along(annotated: Any, usual: t.DataType) -> t.DataType:
    by_name = {field.name: field for field in usual.children} if isinstance(usual, t.Struct) else {}
    if sorted(field.name for field in annotated.fields) != sorted(by_name):
        raise ValueError(str(annotated))
    fields = ((field, by_name[field.name]) for field in annotated.fields)
    return t.Struct(tuple(replace(usual, type=_along(field.type, usual.type)) for field, usual in fields))


def _map_along(annotated: Any, usual: t.DataType) -> t.DataType:
    if not isinstance(usual, t.Map) or annotated.keys_sorted:
        raise ValueError(str(annotated))
    entries = t.Struct((_item_along(annotated.key, usual.key), _item_along(annotated.item, usual.item)))
    return t.Map(replace(annotated.entries, type=entries, nullable=usual.entries.nullable))


def _encoding_along(annotated: Any, usual: t.DataType) -> t.DataType:
    if isinstance(annotated, t.RunEndEncoded):
        return t.RunEndEncoded(annotated.run_ends, replace(annotated.values, type=_along(annotated.values.type, usual)))
    # An order of values has a meaning that Spark's values lack, and so has the child of a union.
    if not isinstance(annotated, t.Dictionary) or annotated.ordered:
        raise ValueError(str(annotated))
    return replace(annotated, value=_along(annotated.value, usual))


def _item_along(annotated: t.Field, usual: t.Field) -> t.Field:
    """Return the annotated field, with the extension that the type of the column has, such as a variant's."""
    pairs = annotated.custom_metadata
    if usual.extension_name is not None:
        pairs = (*(pair for pair in pairs if not pair[0].startswith("ARROW:extension:")), *usual.custom_metadata)
    return t.Field(annotated.name, _along(annotated.type, usual.type), usual.nullable, pairs)


_ALONG: Final[Mapping[type[t.DataType], Callable[[Any, t.DataType], t.DataType]]] = {
    **dict.fromkeys(_LISTS, _list_along),
    **dict.fromkeys((*_UNIONS, t.RunEndEncoded, t.Dictionary), _encoding_along),
    t.Struct: _struct_along,
    t.Map: _map_along,
}
"""By the classes of `_SIMPLIFY`: completes an annotated type with the parts of the column's usual type."""


def to_spark(field: t.Field, spark_type: s.DataType, written: t.DataType, *, inexact: bool = False) -> dict[str, Any]:
    """Return the metadata of a Spark field for an Arrow field."""
    metadata, is_whole = _harmless(dict(field.custom_metadata).get(SPARK_KEY), spark_type)
    others = []
    for key, value in field.custom_metadata:
        if not _is_utf8(value):
            others.append({"key": key, "base64": b64encode(t.value_bytes(value)).decode()})
        elif key.startswith(ARROW_PREFIX):
            metadata[key] = value
        elif key != SPARK_KEY or not is_whole:
            others.append({"key": key, "value": value})
    if others:
        metadata[PAIRS_KEY] = others
    if field.extension_name is not None or simplify(field.type) != simplify(written):
        metadata[TYPE_KEY] = annotation_of(field.type)
    if inexact:
        metadata[INEXACT_KEY] = True
    return metadata


def from_spark(metadata: Mapping[str, Any], written: t.DataType) -> t.CustomMetadata:
    """Return the custom metadata of an Arrow field for a Spark field, without Spark's keys."""
    pairs = [(k, v) for k, v in metadata.items() if k.startswith(ARROW_PREFIX) and isinstance(v, str)]
    pairs += _list_pairs(metadata.get(PAIRS_KEY))
    fits = is_storage_of(written, metadata.get(TYPE_KEY)) or is_extension(metadata.get(EXTENSION_NAME), written)
    if not fits:
        # An extension on a storage type that it cannot have would be a broken file.
        pairs = [pair for pair in pairs if pair[0] not in (EXTENSION_NAME, EXTENSION_METADATA)]
    return tuple(pairs)


def harmless(metadata: Mapping[str, Any], spark_type: s.DataType) -> dict[str, Any]:
    """Return the metadata of a Spark field of a type that may pass between a file and Spark."""
    return {key: value for key, value in metadata.items() if _is_harmless(key, value, spark_type)}


def declares_char(field: s.StructField) -> bool:
    """Return whether a column, or a string inside, is declared as CHAR, which Spark pads."""
    declared = (field.metadata or {}).get(_CHAR_KEY)
    return isinstance(declared, str) and any(match[1] is None for match in _DECLARED.finditer(declared))


def _harmless(string: str | None, spark_type: s.DataType) -> tuple[dict[str, Any], bool]:
    """Return the metadata in a file's pair that may become Spark's, and whether they are all."""
    if string is None:
        return {}, True
    try:
        values = parse_json(string)
    except ValueError:
        values = None
    if not isinstance(values, dict):
        return {}, False
    entries = harmless(values, spark_type)
    return entries, len(entries) == len(values)


_ACTED_ON: Final = re.compile(
    r"__|spark[.:]|SPARK[.:]|ARROW:|arrow\.|CURRENT_DEFAULT|EXISTS_DEFAULT|GENERATION_EXPRESSION|IDENTITY|identity\.|"
    r"delta\.|autoGenerated|metric_view"
)
"""Beginnings of keys that Spark acts on (watermarks, default values, generated and hidden columns), and of ours."""

_COMMENT_KEY: Final = "comment"

_CHAR_KEY: Final = "__CHAR_VARCHAR_TYPE_STRING"
"""The declared type of a CHAR or VARCHAR column, which is otherwise a string; Spark pads comparisons by it."""

_DECLARED: Final = re.compile(r"\b(var)?char\(([1-9][0-9]{0,8})\)", re.IGNORECASE)

_UNQUOTED: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
"""Names that Spark's parser takes without quotes."""

_MOST_PADDED: Final = 65_535
"""Characters of the longest CHAR that a file may declare: Spark pads each value to its length."""

_MOST_NESTED: Final = 20
"""Levels of objects and lists in the metadata of Spark."""


def _is_harmless(key: str, value: object, spark_type: s.DataType) -> bool:
    """Return whether Spark neither acts on a pair of metadata in a way that could change rows, nor fails at it."""
    if key == _CHAR_KEY:
        return isinstance(value, str) and _declares(value, spark_type)
    if key == _COMMENT_KEY and not isinstance(value, str):  # Java casts it to a string
        return False
    return _ACTED_ON.match(key) is None and _is_plain({key: value}, _MOST_NESTED)


def _declares(declared: str, spark_type: s.DataType) -> bool:
    """Return whether a declaration of CHAR or VARCHAR, which Spark parses, fits a type."""
    # Inside of a struct, list or map one string has the structure of the type, without quotes: Spark's parser fails on
    # names that need them.
    lengths = [int(match[2]) for match in _DECLARED.finditer(declared)]
    if not lengths or max(lengths) > _MOST_PADDED:
        return False
    is_alike = _DECLARED.sub("string", declared).lower() == spark_type.simpleString().lower()
    return is_alike and all(map(_UNQUOTED.fullmatch, _names_in(spark_type)))


def _names_in(type_: s.DataType) -> Iterator[str]:
    """Yield the names of fields inside of a type, at any depth."""
    if isinstance(type_, s.StructType):
        yield from type_.names
    for part in _parts(type_):
        yield from _names_in(part)


def _parts(type_: s.DataType) -> Iterable[s.DataType]:
    if isinstance(type_, s.StructType):
        return [field.dataType for field in type_.fields]
    if isinstance(type_, s.MapType):
        return (type_.keyType, type_.valueType)
    return (type_.elementType,) if isinstance(type_, s.ArrayType) else ()


def _is_plain(value: object, depth: int) -> bool:
    """Return whether Spark's metadata can hold a value."""
    # They are JSON with numbers below 2^63 and lists of one type, which is not a list.
    if isinstance(value, dict):
        return depth > 0 and all(_is_utf8(key) and _is_plain(item, depth - 1) for key, item in value.items())
    if isinstance(value, list):
        types = {type(item) for item in value}
        is_uniform = len(types) <= 1 and not types & {list, type(None)}
        return depth > 0 and is_uniform and all(_is_plain(item, depth - 1) for item in value)
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or (isinstance(value, str) and _is_utf8(value))


def _is_utf8(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _list_pairs(value: object) -> Iterator[tuple[str, str]]:
    """Yield the pairs of `PAIRS_KEY` except malformed ones, as users may edit them."""
    for pair in value if isinstance(value, list) else ():
        if not isinstance(pair, dict) or not isinstance(pair.get("key"), str):
            continue
        text, encoded = pair.get("value"), pair.get("base64")
        if isinstance(text, str):
            yield pair["key"], text
        elif isinstance(encoded, str):
            with suppress(ValueError):
                yield from t.pairs([(pair["key"], b64decode(encoded, validate=True))])


# `may_change`: the types whose values a read may change without an error, by its options.
#
# All other conversions return every value, or an error that names one (``docs/types.md``). Values that may have
# changed are marked in the metadata of their column, so that ``restoreTypes`` does not write them as the original ones.
NANOSECOND_TIME_PRECISION: Final = 9 if tuple(map(int, pyspark.__version__.split(".")[:2])) >= (4, 3) else 6
"""Digits of a second that Spark's TIME has in this release: `TimeType` accepts any number, the JVM does not."""

_MICROSECOND_DIGITS: Final = 6


def may_change(field: t.Field, options: ReadOptions) -> bool:
    """Return whether a read may change values of a field, or below it, without an error."""
    type_ = field.type
    row = MAY_CHANGE.get(type(type_))
    if row is not None and row(type_, options):
        return True
    if isinstance(type_, t.Dictionary):  # the extension of the field belongs to its values
        return may_change(replace(field, type=type_.value), options)
    if isinstance(type_, t.RunEndEncoded):
        return may_change(replace(field, type=type_.values.type), options) or may_change(type_.values, options)
    changes = EXTENSIONS_THAT_MAY_CHANGE.get(field.extension_name or "")
    if changes is not None and extension_of(field, options) is not None and not options.is_exact:
        return changes(options)
    return any(may_change(each, options) for each in type_.children)


def _rounds(type_: t.Time | t.Timestamp | t.Duration, options: ReadOptions) -> bool:
    return type_.unit is t.TimeUnit.NANOSECOND and options.nanoseconds is Nanoseconds.FLOOR


def _rounds_time(type_: t.Time, options: ReadOptions) -> bool:
    exact = options.times is Times.LONG or (
        options.times is Times.TIME and NANOSECOND_TIME_PRECISION > _MICROSECOND_DIGITS
    )
    return not exact and _rounds(type_, options)


MAY_CHANGE: Final[Mapping[type[t.DataType], Callable[[Any, ReadOptions], bool]]] = {
    # Milliseconds may have a time of day.
    t.Date: lambda type_, options: type_.unit is t.DateUnit.MILLISECOND and options.nanoseconds is Nanoseconds.FLOOR,
    t.Time: _rounds_time,
    t.Timestamp: _rounds,
    t.Duration: _rounds,
}
"""By type class: whether a read with these options may change values. Other classes are always read exactly."""

EXTENSIONS_THAT_MAY_CHANGE: Final[Mapping[str, Callable[[ReadOptions], bool]]] = {
    "arrow.bool8": lambda _options: True,
    "arrow.timestamp_with_offset": lambda options: options.timestamps_with_offset is TimestampsWithOffset.TIMESTAMP,
}
"""By name: all numbers but 0 are the same boolean, which is written as 1; an instant has no offset."""
