"""Arrow types noted in the metadata of Spark fields: written as integration JSON, read along the column.

Strategy
--------
A note says what the Spark type lost: widths, signs, units, layouts, dictionaries and whether they are ordered. All else
comes from the column as it is when it is written, because a DataFrame may have changed it: nullability, names of list
elements, metadata of nested fields. Nor is a map noted as sorted: Spark keeps no order of its keys. A union has become
a struct and stays one. `storage` is a type without all that, so that two types of the same storage have equal notes.

Before release 0.1.0, notes were strings for people: ``text_notes.py`` reads these.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow_json.document import load
from spark_arrow_ipc.arrow_json.types import type_from_json, type_to_json
from spark_arrow_ipc.errors import ArrowIpcError
from spark_arrow_ipc.spark.types import text_notes

__all__ = ["is_storage_of", "note_of", "noted_type", "readable", "storage"]


@lru_cache(maxsize=256)  # a wide schema has many columns of few types
def note_of(type_: t.DataType) -> str:
    """Return the note of a type."""
    return json.dumps(type_to_json(storage(type_)), separators=(",", ":"))


def noted_type(note: str | t.DataType, usual: t.DataType) -> t.DataType:
    """Return the type that a column goes back to.

    Parameters
    ----------
    note
        The note, which a user may have edited; or the part of a noted type that stands for this column.
    usual
        The type that the column is written as without the note.

    Raises
    ------
    ValueError
        The note is not one of a type, or the column has other fields than it.
    """
    if isinstance(note, t.DataType):
        return _along(note, usual)
    return _along(_parsed(note), usual) if _is_json(note) else text_notes.noted_type(note, usual)


def is_storage_of(type_: t.DataType, note: object) -> bool:
    """Whether a note, which a user may have edited, is one of the storage of a type."""
    if not isinstance(note, str):
        return False
    if not _is_json(note):
        return note == text_notes.storage_text(type_)
    try:
        return storage(_parsed(note)) == storage(type_)
    except ValueError:
        return False


def readable(note: str | t.DataType) -> str:
    """Return a note as errors show it: its type, or the string as it is where that is none."""
    try:
        return str(_parsed(note)) if isinstance(note, str) and _is_json(note) else str(note)
    except ValueError:
        return str(note)


def _is_json(note: str) -> bool:
    return note.startswith("{")


def _parsed(note: str) -> t.DataType:
    try:
        return type_from_json(load(note.encode()))
    except ArrowIpcError as error:
        raise ValueError(note) from error


def storage(type_: t.DataType) -> t.DataType:
    """Return a type without what the note of its storage leaves out: see the module."""
    row = _STORAGE.get(type(type_))
    return type_ if row is None else row(type_)


def _fields(type_: Any) -> tuple[t.Field, ...]:
    return tuple(t.Field(field.name, storage(field.type)) for field in type_.fields)


def _list_storage(type_: Any) -> t.DataType:
    made: t.DataType = replace(type_, value=t.Field("item", storage(type_.value.type)))
    return made


def _union_storage(type_: Any) -> t.DataType:
    made: t.DataType = replace(type_, fields=_fields(type_))
    return made


_STORAGE: Final[Mapping[type[t.DataType], Callable[[Any], t.DataType]]] = {
    t.List: _list_storage,
    t.LargeList: _list_storage,
    t.ListView: _list_storage,
    t.LargeListView: _list_storage,
    t.FixedSizeList: _list_storage,
    t.Struct: lambda type_: t.Struct(_fields(type_)),
    t.Map: lambda type_: t.map_(storage(type_.key.type), storage(type_.item.type)),
    t.SparseUnion: _union_storage,
    t.DenseUnion: _union_storage,
    t.RunEndEncoded: lambda type_: t.run_end_encoded(type_.run_ends.type, storage(type_.values.type)),
    t.Dictionary: lambda type_: replace(type_, value=storage(type_.value)),
}
"""One row for each type class that has children or a value; all others are their own storage."""


def _along(noted: t.DataType, usual: t.DataType) -> t.DataType:
    row = _ALONG.get(type(noted))
    return noted if row is None else row(noted, usual)


def _list_along(noted: Any, usual: t.DataType) -> t.DataType:
    if not isinstance(usual, t.List):
        raise ValueError(str(noted))  # noqa: TRY004 - the note is at fault
    made: t.DataType = replace(noted, value=_field_along(noted.value, usual.value))
    return made


def _struct_along(noted: Any, usual: t.DataType) -> t.DataType:
    by_name = {field.name: field for field in usual.children} if isinstance(usual, t.Struct) else {}
    if sorted(field.name for field in noted.fields) != sorted(by_name):
        raise ValueError(str(noted))
    return t.Struct(tuple(_field_along(field, by_name[field.name]) for field in noted.fields))


def _map_along(noted: Any, usual: t.DataType) -> t.DataType:
    if not isinstance(usual, t.Map):
        raise ValueError(str(noted))  # noqa: TRY004 - the note is at fault
    entries = t.Struct((_field_along(noted.key, usual.key), _field_along(noted.item, usual.item)))
    return t.Map(replace(usual.entries, type=entries))


def _field_along(noted: t.Field, usual: t.Field) -> t.Field:
    return replace(usual, type=_along(noted.type, usual.type))


_ALONG: Final[Mapping[type[t.DataType], Callable[[Any, t.DataType], t.DataType]]] = {
    t.List: _list_along,
    t.LargeList: _list_along,
    t.ListView: _list_along,
    t.LargeListView: _list_along,
    t.FixedSizeList: _list_along,
    t.Struct: _struct_along,
    t.Map: _map_along,
    t.SparseUnion: lambda _, usual: usual,
    t.DenseUnion: lambda _, usual: usual,
    t.RunEndEncoded: lambda noted, usual: t.run_end_encoded(noted.run_ends.type, _along(noted.values.type, usual)),
    t.Dictionary: lambda noted, usual: replace(noted, value=_along(noted.value, usual)),
}
"""The rows of `_STORAGE`: a noted type with all else that the column, of the usual type, has now."""
