"""Notes of Arrow types in the metadata of Spark fields, as integration JSON.

A note has what the Spark type lost: widths, signs, units, layouts, dictionaries and their order. It also has the names,
extensions and metadata of the fields that Spark has no fields for: items of lists, keys and values of maps, run ends. The
rest (nullability, metadata of a struct's fields) comes from the column when it is written, because a DataFrame may have
changed it. `noted` removes from a type what its note leaves out; `storage` removes the fields' names and metadata as well.

From Spark's values no column goes back to a type that says more than they do: a union (the child of a null is not known
any more), a dictionary whose order has a meaning, a map whose keys are sorted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final, NoReturn

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow_json.document import load
from spark_arrow_ipc.arrow_json.types import type_from_json, type_to_json
from spark_arrow_ipc.errors import ArrowIpcError


def vector_element(type_: t.DataType) -> t.Int | t.FloatingPoint | None:
    """Return the type of the numbers of a list that may be one binary value in Spark; None for other types.

    Such lists are List, LargeList and FixedSizeList of whole numbers or floats.
    """
    if not isinstance(type_, t.List | t.LargeList | t.FixedSizeList):
        return None
    element = type_.value.type
    return element if isinstance(element, t.Int | t.FloatingPoint) else None


@lru_cache(maxsize=256)  # a wide schema has many columns of few types
def note_of(type_: t.DataType) -> str:
    """Return the note of a type."""
    return json.dumps(type_to_json(noted(type_)), separators=(",", ":"))


def noted_type(note: str | t.DataType, usual: t.DataType) -> t.DataType:
    """Return the type that a column goes back to by a note, which a user may have edited: it may raise ValueError."""
    if isinstance(note, t.DataType):
        return _along(note, usual)
    return _along(_parsed(note), usual)


def is_storage_of(type_: t.DataType, note: object) -> bool:
    """Return True if a note, which a user may have edited, is that of a type's storage."""
    if not isinstance(note, str):
        return False
    try:
        return storage(_parsed(note)) == storage(type_)
    except ValueError:
        return False


def is_vector_note(note: object) -> bool:
    """Return True if a note, which a user may have edited, is that of a list of numbers."""
    if not isinstance(note, str):
        return False
    try:
        return vector_element(_parsed(note)) is not None
    except ValueError:
        return False


def readable(note: str | t.DataType) -> str:
    """Return the type of a note for an error, or the note itself if it names none."""
    try:
        return str(_parsed(note)) if isinstance(note, str) else str(note)
    except ValueError:
        return str(note)


def _parsed(note: str) -> t.DataType:
    try:
        return type_from_json(load(note.encode()))
    except ArrowIpcError as error:
        raise ValueError(note) from error


def noted(type_: t.DataType) -> t.DataType:
    """Return a type without the parts that notes leave out; see the module."""
    row = _NOTED.get(type(type_))
    return type_ if row is None else row(type_, _noted_item)


def storage(type_: t.DataType) -> t.DataType:
    """Return a type without what its note leaves out, and without names and metadata of items, keys and values."""
    row = _NOTED.get(type(type_))
    return type_ if row is None else row(type_, _bare_item)


_Item = Callable[[t.Field, str], t.Field]
"""Returns what is noted of a field that Spark has no field for; takes its usual name."""


def _noted_item(field: t.Field, _name: str) -> t.Field:
    return replace(field, type=noted(field.type), nullable=True)


def _bare_item(field: t.Field, name: str) -> t.Field:
    return t.Field(name, storage(field.type))


def _fields(type_: Any, item: _Item) -> tuple[t.Field, ...]:
    return tuple(t.Field(field.name, item(field, "").type) for field in type_.fields)


def _noted_list(type_: Any, item: _Item) -> t.DataType:
    made: t.DataType = replace(type_, value=item(type_.value, "item"))
    return made


def _noted_union(type_: Any, item: _Item) -> t.DataType:
    made: t.DataType = replace(type_, fields=_fields(type_, item))
    return made


def _noted_map(type_: t.Map, item: _Item) -> t.DataType:
    key, value = replace(item(type_.key, "key"), nullable=False), item(type_.item, "value")
    entries = replace(type_.entries, type=t.Struct((key, value)), nullable=False)
    return t.Map(replace(item(entries, "entries"), type=entries.type, nullable=False), type_.keys_sorted)


def _noted_runs(type_: t.RunEndEncoded, item: _Item) -> t.DataType:
    run_ends = replace(item(type_.run_ends, "run_ends"), nullable=False)
    return t.RunEndEncoded(run_ends, item(type_.values, "values"))


_NOTED: Final[Mapping[type[t.DataType], Callable[[Any, _Item], t.DataType]]] = {
    t.List: _noted_list,
    t.LargeList: _noted_list,
    t.ListView: _noted_list,
    t.LargeListView: _noted_list,
    t.FixedSizeList: _noted_list,
    t.Struct: lambda type_, item: t.Struct(_fields(type_, item)),
    t.Map: _noted_map,
    t.SparseUnion: _noted_union,
    t.DenseUnion: _noted_union,
    t.RunEndEncoded: _noted_runs,
    t.Dictionary: lambda type_, item: replace(type_, value=item(t.Field("", type_.value), "").type),
}
"""By type class: what is noted of types with children or values. All others are noted whole."""


def _along(noted: t.DataType, usual: t.DataType) -> t.DataType:
    row = _ALONG.get(type(noted))
    return noted if row is None else row(noted, usual)


def _list_along(noted: Any, usual: t.DataType) -> t.DataType:
    if usual == t.binary and vector_element(noted) is not None:
        return noted  # type: ignore[no-any-return]  # a list that was read with vectors=binary
    if not isinstance(usual, t.List):
        raise ValueError(str(noted))  # noqa: TRY004 - the note is at fault
    made: t.DataType = replace(noted, value=_item_along(noted.value, usual.value))
    return made


def _struct_along(noted: Any, usual: t.DataType) -> t.DataType:
    by_name = {field.name: field for field in usual.children} if isinstance(usual, t.Struct) else {}
    if sorted(field.name for field in noted.fields) != sorted(by_name):
        raise ValueError(str(noted))
    return t.Struct(tuple(_field_along(field, by_name[field.name]) for field in noted.fields))


def _map_along(noted: Any, usual: t.DataType) -> t.DataType:
    if not isinstance(usual, t.Map) or noted.keys_sorted:
        raise ValueError(str(noted))
    entries = t.Struct((_item_along(noted.key, usual.key), _item_along(noted.item, usual.item)))
    return t.Map(replace(noted.entries, type=entries, nullable=usual.entries.nullable))


def _runs_along(noted: t.RunEndEncoded, usual: t.DataType) -> t.DataType:
    return t.RunEndEncoded(noted.run_ends, replace(noted.values, type=_along(noted.values.type, usual)))


def _dictionary_along(noted: Any, usual: t.DataType) -> t.DataType:
    if noted.ordered:
        raise ValueError(str(noted))
    made: t.DataType = replace(noted, value=_along(noted.value, usual))
    return made


def _no_way(noted: t.DataType, _usual: t.DataType) -> NoReturn:
    raise ValueError(str(noted))


def _field_along(noted: t.Field, usual: t.Field) -> t.Field:
    return replace(usual, type=_along(noted.type, usual.type))


def _item_along(noted: t.Field, usual: t.Field) -> t.Field:
    """Return the noted field, with the extension of the column where that has one of its own, such as a variant's."""
    pairs = noted.custom_metadata
    if usual.extension_name is not None:
        pairs = (*(pair for pair in pairs if not pair[0].startswith("ARROW:extension:")), *usual.custom_metadata)
    return t.Field(noted.name, _along(noted.type, usual.type), usual.nullable, pairs)


_ALONG: Final[Mapping[type[t.DataType], Callable[[Any, t.DataType], t.DataType]]] = {
    t.List: _list_along,
    t.LargeList: _list_along,
    t.ListView: _list_along,
    t.LargeListView: _list_along,
    t.FixedSizeList: _list_along,
    t.Struct: _struct_along,
    t.Map: _map_along,
    t.SparseUnion: _no_way,
    t.DenseUnion: _no_way,
    t.RunEndEncoded: _runs_along,
    t.Dictionary: _dictionary_along,
}
"""The classes of `_NOTED`: completes a noted type with the parts that the column's usual type has."""
