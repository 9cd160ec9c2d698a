"""Notes of Arrow types in the metadata of Spark fields, as integration JSON.

Strategy
--------
A note has what the Spark type lost: widths, signs, units, layouts, dictionaries and their order. The rest (nullability,
names of list elements, metadata of nested fields) comes from the column when it is written, because a DataFrame may
have changed it. A map is never noted as sorted, because Spark keeps no order of keys. A union is noted as the struct
that it is read as. `storage` removes all this from a type, so that two types of the same storage have equal notes.

Notes from before release 0.1.0 are type names: ``text_notes.py`` reads them.
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
from spark_arrow_ipc.spark.types.vector_types import vector_element

__all__ = ["is_storage_of", "is_vector_note", "note_of", "noted_type", "readable", "storage"]


@lru_cache(maxsize=256)  # a wide schema has many columns of few types
def note_of(type_: t.DataType) -> str:
    """Return the note of a type."""
    return json.dumps(type_to_json(storage(type_)), separators=(",", ":"))


def noted_type(note: str | t.DataType, usual: t.DataType) -> t.DataType:
    """Return the type that a column goes back to.

    Parameters
    ----------
    note
        The note, which a user may have edited; or, for a nested column, the child of the noted type.
    usual
        The type that the column has in the file without the note.

    Raises
    ------
    ValueError
        The note names no type, or the column has other fields.
    """
    if isinstance(note, t.DataType):
        return _along(note, usual)
    return _along(_parsed(note), usual) if _is_json(note) else text_notes.noted_type(note, usual)


def is_storage_of(type_: t.DataType, note: object) -> bool:
    """Return True if a note, which a user may have edited, is that of a type's storage."""
    if not isinstance(note, str):
        return False
    if not _is_json(note):
        return note == text_notes.storage_text(type_)
    try:
        return storage(_parsed(note)) == storage(type_)
    except ValueError:
        return False


def is_vector_note(note: object) -> bool:
    """Return True if a note, which a user may have edited, is that of a list of numbers."""
    if not isinstance(note, str) or not _is_json(note):
        return False
    try:
        return vector_element(_parsed(note)) is not None
    except ValueError:
        return False


def readable(note: str | t.DataType) -> str:
    """Return the type of a note for an error, or the note itself if it names none."""
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
    """Return a type without the parts that notes leave out; see the module."""
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
"""By type class: the storage of types with children or values. All others are their own storage."""


def _along(noted: t.DataType, usual: t.DataType) -> t.DataType:
    row = _ALONG.get(type(noted))
    return noted if row is None else row(noted, usual)


def _list_along(noted: Any, usual: t.DataType) -> t.DataType:
    if usual == t.binary and vector_element(noted) is not None:
        return noted  # type: ignore[no-any-return]  # a list that was read with vectors=binary
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
"""The classes of `_STORAGE`: completes a noted type with the parts that the column's usual type has."""
