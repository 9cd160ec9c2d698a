"""Convert custom metadata of Arrow fields to metadata of Spark fields and back.

Spark interprets some metadata keys (``spark.watermarkDelayMs`` breaks a view, ``CURRENT_DEFAULT`` changes rows), so
a file's keys never become Spark keys: only ``ARROW:*`` stays flat, because its names are Arrow's own, and all other
pairs are in one array, in order. A value of bytes that are not UTF-8 cannot be in Spark's metadata, which is JSON: its
pair is in the array as well, in base64. `TYPE_KEY` notes the Arrow type of a column if writing the Spark column would give
another one, and of every extension type: its name is restored only on the same storage type.

Spark's own metadata (a comment, the length of a VARCHAR, attributes of ML, keys of users) is written into the note of the
schema (``spark_annotation.py``). Spark writes it into the pair `SPARK_KEY` of a field where it makes Arrow data itself, so that
is read. Of either only the keys that Spark does not act on become Spark keys (`harmless`); where a pair has others, it is
kept as a pair too.
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
from typing import Any, Final, NoReturn

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
"""Array of {key, value}: all pairs that are not Arrow's own, in file order; {key, base64} for values that are not UTF-8."""

TYPE_KEY = "arrow.type"
"""The noted Arrow type of a column, as `annotation_of` makes it."""

SPARK_KEY: Final = "SPARK::metadata::json"
"""Key of the pair in which Spark's own Arrow data hold the metadata of a field as a JSON object."""

OWN_PREFIX: Final = "arrow."
"""Beginning of `PAIRS_KEY`, `TYPE_KEY` and `INEXACT_KEY`."""

INEXACT_KEY: Final = "arrow.inexact"
"""True where the read may have changed values, so that the noted type cannot hold again what the file held."""

ARROW_PREFIX = "ARROW:"


# Notes of types: what the Spark type lost (widths, signs, units, layouts, dictionaries and their order), and the names,
# extensions and metadata of fields that Spark has no fields for (items of lists, keys and values of maps, run ends). The
# rest comes from the column when it is written, because a DataFrame may have changed it.
#
# From Spark's values no column goes back to a type that says more than they do: a union (the child of a null is not known
# any more), a dictionary whose order has a meaning, a map whose keys are sorted.
def vector_element(type_: t.DataType) -> t.Int | t.FloatingPoint | None:
    """Return the type of the numbers of a list that may be one binary value in Spark; None for other types.

    Such lists are List, LargeList and FixedSizeList of whole numbers or floats.
    """
    if not isinstance(type_, t.List | t.LargeList | t.FixedSizeList):
        return None
    element = type_.value.type
    return element if isinstance(element, t.Int | t.FloatingPoint) else None


@lru_cache(maxsize=256)  # a wide schema has many columns of few types
def annotation_of(type_: t.DataType) -> str:
    """Return the note of a type."""
    return json.dumps(type_to_json(simplify(type_)), separators=(",", ":"))


def type_of_annotation(note: str | t.DataType, usual: t.DataType) -> t.DataType:
    """Return the type that a column goes back to by a note, which a user may have edited: it may raise ValueError."""
    if isinstance(note, t.DataType):
        return _along(note, usual)
    return _along(_parse(note), usual)


def is_storage_of(type_: t.DataType, note: object) -> bool:
    """Return True if a note, which a user may have edited, is that of a type's storage."""
    in_note = _type_in(note)
    return in_note is not None and storage(in_note) == storage(type_)


def is_vector_annotation(note: object) -> bool:
    """Return True if a note, which a user may have edited, is that of a list of numbers."""
    in_note = _type_in(note)
    return in_note is not None and vector_element(in_note) is not None


def readable(note: str | t.DataType) -> str:
    """Return the type of a note for an error, or the note itself if it names none."""
    return str(_type_in(note) or note)


def _type_in(note: object) -> t.DataType | None:
    """Return the type that a note says; None if it says none."""
    try:
        return _parse(note) if isinstance(note, str) else None
    except ValueError:
        return None


def _parse(note: str) -> t.DataType:
    try:
        return type_from_json(load(note.encode()))
    except ArrowIpcError as error:
        raise ValueError(note) from error


def simplify(type_: t.DataType) -> t.DataType:
    """Return a type without the parts that notes leave out; see the module."""
    row = _NOTED.get(type(type_))
    return type_ if row is None else row(type_, _annotate_item)


def storage(type_: t.DataType) -> t.DataType:
    """Return a type without what its note leaves out, and without names and metadata of items, keys and values."""
    row = _NOTED.get(type(type_))
    return type_ if row is None else row(type_, _bare_item)


_Item = Callable[[t.Field, str], t.Field]
"""Returns what is noted of a field that Spark has no field for; takes its usual name."""


def _annotate_item(field: t.Field, _name: str) -> t.Field:
    return replace(field, type=simplify(field.type), nullable=True)


def _bare_item(field: t.Field, name: str) -> t.Field:
    return t.Field(name, storage(field.type))


def _fields(type_: Any, item: _Item) -> tuple[t.Field, ...]:
    return tuple(t.Field(field.name, item(field, "").type) for field in type_.fields)


_LISTS: Final = (t.List, t.LargeList, t.ListView, t.LargeListView, t.FixedSizeList)
_UNIONS: Final = (t.SparseUnion, t.DenseUnion)


def _annotate_map(type_: t.Map, item: _Item) -> t.DataType:
    key, value = replace(item(type_.key, "key"), nullable=False), item(type_.item, "value")
    entries = replace(type_.entries, type=t.Struct((key, value)), nullable=False)
    return t.Map(replace(item(entries, "entries"), type=entries.type, nullable=False), type_.keys_sorted)


def _annotate_runs(type_: t.RunEndEncoded, item: _Item) -> t.DataType:
    run_ends = replace(item(type_.run_ends, "run_ends"), nullable=False)
    return t.RunEndEncoded(run_ends, item(type_.values, "values"))


_NOTED: Final[Mapping[type[t.DataType], Callable[[Any, _Item], t.DataType]]] = {
    **dict.fromkeys(_LISTS, lambda type_, item: replace(type_, value=item(type_.value, "item"))),
    **dict.fromkeys(_UNIONS, lambda type_, item: replace(type_, fields=_fields(type_, item))),
    t.Struct: lambda type_, item: t.Struct(_fields(type_, item)),
    t.Map: _annotate_map,
    t.RunEndEncoded: _annotate_runs,
    t.Dictionary: lambda type_, item: replace(type_, value=item(t.Field("", type_.value), "").type),
}
"""By type class: what is noted of types with children or values. All others are noted whole."""


def _along(annotated: t.DataType, usual: t.DataType) -> t.DataType:
    row = _ALONG.get(type(annotated))
    return annotated if row is None else row(annotated, usual)


def _list_along(annotated: Any, usual: t.DataType) -> t.DataType:
    if usual == t.binary and vector_element(annotated) is not None:
        return annotated  # type: ignore[no-any-return]  # a list that was read with vectors=binary
    if not isinstance(usual, t.List):
        raise ValueError(str(annotated))  # noqa: TRY004 - the note is at fault
    return replace(annotated, value=_item_along(annotated.value, usual.value))  # type: ignore[no-any-return]


def _struct_along(annotated: Any, usual: t.DataType) -> t.DataType:
    by_name = {field.name: field for field in usual.children} if isinstance(usual, t.Struct) else {}
    if sorted(field.name for field in annotated.fields) != sorted(by_name):
        raise ValueError(str(annotated))
    return t.Struct(tuple(_field_along(field, by_name[field.name]) for field in annotated.fields))


def _map_along(annotated: Any, usual: t.DataType) -> t.DataType:
    if not isinstance(usual, t.Map) or annotated.keys_sorted:
        raise ValueError(str(annotated))
    entries = t.Struct((_item_along(annotated.key, usual.key), _item_along(annotated.item, usual.item)))
    return t.Map(replace(annotated.entries, type=entries, nullable=usual.entries.nullable))


def _runs_along(annotated: t.RunEndEncoded, usual: t.DataType) -> t.DataType:
    return t.RunEndEncoded(annotated.run_ends, replace(annotated.values, type=_along(annotated.values.type, usual)))


def _dictionary_along(annotated: Any, usual: t.DataType) -> t.DataType:
    if annotated.ordered:
        raise ValueError(str(annotated))
    return replace(annotated, value=_along(annotated.value, usual))  # type: ignore[no-any-return]


def _no_way(annotated: t.DataType, _usual: t.DataType) -> NoReturn:
    raise ValueError(str(annotated))


def _field_along(annotated: t.Field, usual: t.Field) -> t.Field:
    return replace(usual, type=_along(annotated.type, usual.type))


def _item_along(annotated: t.Field, usual: t.Field) -> t.Field:
    """Return the noted field, with the extension of the column where that has one of its own, such as a variant's."""
    pairs = annotated.custom_metadata
    if usual.extension_name is not None:
        pairs = (*(pair for pair in pairs if not pair[0].startswith("ARROW:extension:")), *usual.custom_metadata)
    return t.Field(annotated.name, _along(annotated.type, usual.type), usual.nullable, pairs)


_ALONG: Final[Mapping[type[t.DataType], Callable[[Any, t.DataType], t.DataType]]] = {
    **dict.fromkeys(_LISTS, _list_along),
    **dict.fromkeys(_UNIONS, _no_way),
    t.Struct: _struct_along,
    t.Map: _map_along,
    t.RunEndEncoded: _runs_along,
    t.Dictionary: _dictionary_along,
}
"""The classes of `_NOTED`: completes a noted type with the parts that the column's usual type has."""


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
    """Return the custom metadata of an Arrow field for a Spark field, without Spark's own keys.

    An extension's name and metadata are restored only if `written` is the noted storage type, or one that it may have.
    """
    pairs = [(k, v) for k, v in metadata.items() if k.startswith(ARROW_PREFIX) and isinstance(v, str)]
    pairs += _list_pairs(metadata.get(PAIRS_KEY))
    fits = is_storage_of(written, metadata.get(TYPE_KEY)) or is_extension(metadata.get(EXTENSION_NAME), written)
    if not fits:
        pairs = [pair for pair in pairs if pair[0] not in (EXTENSION_NAME, EXTENSION_METADATA)]
    return tuple(pairs)


def harmless(metadata: Mapping[str, Any], spark_type: s.DataType) -> dict[str, Any]:
    """Return the entries of the metadata of a Spark field, of a type, that may pass between a file and Spark."""
    return {key: value for key, value in metadata.items() if _is_harmless(key, value, spark_type)}


def declares_char(field: s.StructField) -> bool:
    """Return whether a column, or a string inside of it, is declared as CHAR: Spark pads it."""
    declared = (field.metadata or {}).get(_CHAR_KEY)
    return isinstance(declared, str) and any(match[1] is None for match in _DECLARED.finditer(declared))


def _harmless(string: str | None, spark_type: s.DataType) -> tuple[dict[str, Any], bool]:
    """Return the metadata of a file's pair that may become Spark's, and whether that is all of it."""
    if string is None:
        return {}, True
    try:
        values = parse_json(string)
    except ValueError:
        return {}, False
    if not isinstance(values, dict):
        return {}, False
    values_kept = harmless(values, spark_type)
    return values_kept, len(values_kept) == len(values)


_ACTED_ON: Final = re.compile(
    r"__|spark[.:]|SPARK[.:]|ARROW:|arrow\.|CURRENT_DEFAULT|EXISTS_DEFAULT|GENERATION_EXPRESSION|IDENTITY|identity\.|"
    r"delta\.|autoGenerated|metric_view"
)
"""Beginnings of keys that Spark acts on (watermarks, default values, generated and hidden columns), and of ours."""

_COMMENT_KEY: Final = "comment"

_CHAR_KEY: Final = "__CHAR_VARCHAR_TYPE_STRING"
"""The declared type of a column of CHAR or VARCHAR, which is a string otherwise; Spark pads comparisons by it."""

_DECLARED: Final = re.compile(r"\b(var)?char\(([1-9][0-9]{0,8})\)", re.IGNORECASE)

_UNQUOTED: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
"""Names that Spark's parser takes without quotes."""

_MOST_PADDED: Final = 65_535
"""Characters of the longest CHAR that is taken from a file: Spark pads each value to its length."""

_MOST_NESTED: Final = 20
"""Levels of objects and lists in the metadata of Spark."""


def _is_harmless(key: str, value: object, spark_type: s.DataType) -> bool:
    if key == _CHAR_KEY:
        return isinstance(value, str) and _declares(value, spark_type)
    if key == _COMMENT_KEY and not isinstance(value, str):  # Java casts it to a string
        return False
    return _ACTED_ON.match(key) is None and _is_plain({key: value}, _MOST_NESTED)


def _declares(declared: str, spark_type: s.DataType) -> bool:
    """Return whether a declared CHAR or VARCHAR, which Spark parses, is one that a type may have.

    Spark declares those inside of a struct, list or map in one string, which has the type's structure, without quotes: it
    raises an error of its parser where a name needs them.
    """
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
    """Return whether Spark's metadata can hold a value: JSON with numbers below 2^63, and lists of one type, not of lists."""
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
    """Yield the pairs of `PAIRS_KEY`; malformed ones, which a user may have edited, are skipped."""
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
# All other conversions of a read give every value, or an error that names one (``docs/types.md``). What may be
# changed is noted in the metadata of the column, so that ``restoreTypes`` does not write it as what was in the file.
NANOSECOND_TIME_PRECISION: Final = 9 if tuple(map(int, pyspark.__version__.split(".")[:2])) >= (4, 3) else 6
"""Digits of a second that Spark's TIME holds, by version: `TimeType` accepts any number, the JVM does not."""

_MICROSECOND_DIGITS: Final = 6


def may_change(field: t.Field, options: ReadOptions) -> bool:
    """Return whether a read may change values of a field, or of a part of it, without an error."""
    type_ = field.type
    row = MAY_CHANGE.get(type(type_))
    if row is not None and row(type_, options):
        return True
    if isinstance(type_, t.Dictionary):  # the extension of the field is that of its values
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


def _drops_time(type_: t.Date, options: ReadOptions) -> bool:
    return type_.unit is t.DateUnit.MILLISECOND and options.nanoseconds is Nanoseconds.FLOOR


MAY_CHANGE: Final[Mapping[type[t.DataType], Callable[[Any, ReadOptions], bool]]] = {
    t.Date: _drops_time,
    t.Time: _rounds_time,
    t.Timestamp: _rounds,
    t.Duration: _rounds,
}
"""By type class: the options under which a read changes values. Classes that are absent are always read exactly."""

EXTENSIONS_THAT_MAY_CHANGE: Final[Mapping[str, Callable[[ReadOptions], bool]]] = {
    "arrow.bool8": lambda _options: True,
    "arrow.timestamp_with_offset": lambda options: options.timestamps_with_offset is TimestampsWithOffset.TIMESTAMP,
}
"""By name: 5 and 1 are the same boolean, and 1 is what is written again; an instant has no offset."""
