"""``restoreTypes``: write columns with the Arrow types that they were read from.

Strategy
--------
Reading widens (uint8 to smallint) and notes the type in the field's metadata; without the option a column is then
written with the type that follows from Spark's, with it with the noted type. `restored_schema` refuses a note that the
column cannot be converted to, before any task runs; `restore_values` converts.

What was in the file comes back exactly, or the column is refused: also where the read may have changed values without an
error (`field_metadata.INEXACT_KEY`), and where Spark's values say less than the type (`noted_types`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from pyspark.sql import types as s

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.errors import UnsupportedError
from spark_arrow_ipc.spark.types import field_metadata
from spark_arrow_ipc.spark.types.noted_types import is_storage_of, is_vector_note, noted_type, readable
from spark_arrow_ipc.spark.types.spark_to_arrow import arrow_field, storage_type, written_pairs
from spark_arrow_ipc.spark.write.restore_values import RESTORED


def restored_schema(spark_schema: s.StructType) -> Schema:
    """Return the Arrow schema of a DataFrame's files, with the noted types."""
    return Schema.of(_restored_field(f.name, f.dataType, f.metadata or {}, f.name) for f in spark_schema.fields)


def vector_notes(spark_schema: s.StructType) -> s.StructType:
    """Return a schema without all notes but those of vectors on binary columns, for ``vectors=binary``."""
    return s.StructType([_vector_notes(field) for field in spark_schema.fields])


def _vector_notes(field: s.StructField) -> s.StructField:
    metadata = dict(field.metadata or {})
    metadata.pop(field_metadata.INEXACT_KEY, None)
    note = metadata.get(field_metadata.TYPE_KEY)
    is_vector = isinstance(field.dataType, s.BinaryType) and is_vector_note(note)
    # The note of the type that a column is written as anyway says that an extension fits it.
    if not is_vector and not is_storage_of(arrow_field(field.name, field.dataType, {}, field.name).type, note):
        metadata.pop(field_metadata.TYPE_KEY, None)
    type_ = vector_notes(field.dataType) if isinstance(field.dataType, s.StructType) else field.dataType
    return s.StructField(field.name, type_, field.nullable, metadata)


def _restored_field(
    name: str, spark_type: s.DataType, metadata: Mapping[str, Any], path: str, *, above: t.DataType | None = None
) -> t.Field:
    """Return the field of a column; `above` is its type in the note of its parent."""
    if metadata.get(field_metadata.INEXACT_KEY):
        raise UnsupportedError(
            "the read of this column may have changed values (nanoseconds=floor drops what is finer than Spark's types, "
            "mapKeys=lastWins drops keys, each arrow.bool8 but 0 is true, extensionTypes=tensor applies permutations), and "
            "restoreTypes writes what was in the file; read it "
            "with nanoseconds=error or long, mapKeys=error and extensionTypes=storage, drop the note with "
            "df.withMetadata(column, {}), or leave restoreTypes out",
            field_path=path,
        )
    usual = arrow_field(name, spark_type, metadata, path)
    note = above if above is not None else metadata.get(field_metadata.TYPE_KEY)
    if isinstance(note, str | t.DataType):
        type_ = _with_fields(_restored_type(note, usual.type, path), spark_type, path, is_noted=True)
    else:
        type_ = _with_fields(usual.type, spark_type, path, is_noted=False)
    return t.Field(name, type_, custom_metadata=written_pairs(spark_type, metadata, type_, path))


def _restored_type(note: str | t.DataType, usual: t.DataType, path: str) -> t.DataType:
    try:
        type_ = noted_type(note, usual)
    except ValueError as error:
        raise _no_way_back(note, usual, path) from error
    if not _can_restore(usual, type_):
        raise _no_way_back(note, usual, path)
    return type_


def _with_fields(type_: t.DataType, spark_type: s.DataType, path: str, *, is_noted: bool) -> t.DataType:
    """Add to struct fields their own metadata, and their own notes if the whole has none."""
    spark_type = storage_type(spark_type)
    if isinstance(type_, t.Struct) and isinstance(spark_type, s.StructType):
        by_name = {f.name: f for f in spark_type.fields}
        fields = []
        for field in type_.fields:
            child = by_name[field.name]
            above = field.type if is_noted else None
            below = f"{path}.{field.name}"
            fields.append(_restored_field(field.name, child.dataType, child.metadata or {}, below, above=above))
        return t.Struct(tuple(fields))
    if isinstance(spark_type, s.ArrayType) and isinstance(type_, _LISTS):
        inner = _with_fields(type_.value.type, spark_type.elementType, f"{path}[]", is_noted=is_noted)
        return replace(type_, value=replace(type_.value, type=inner))
    if isinstance(spark_type, s.MapType) and isinstance(type_, t.Map):
        key = _with_fields(type_.key.type, spark_type.keyType, f"{path}[].key", is_noted=is_noted)
        item = _with_fields(type_.item.type, spark_type.valueType, f"{path}[].value", is_noted=is_noted)
        entries = t.Struct((replace(type_.key, type=key), replace(type_.item, type=item)))
        return replace(type_, entries=replace(type_.entries, type=entries))
    return type_


_LISTS: Final = (t.List, t.LargeList, t.ListView, t.LargeListView, t.FixedSizeList)


def _no_way_back(note: str | t.DataType, usual: t.DataType, path: str) -> UnsupportedError:
    return UnsupportedError(
        f"with restoreTypes this column would become {readable(note)} again, as its metadata notes, and what it is now ({usual}) "
        f"cannot be made that; drop the note with df.withMetadata(column, {{}}), or leave restoreTypes out",
        field_path=path,
    )


def _can_restore(usual: t.DataType, noted: t.DataType) -> bool:
    if usual == noted:
        return True
    if isinstance(noted, t.Dictionary):
        return _can_restore(usual, noted.value) and type(usual) in _WITH_KERNEL
    if isinstance(noted, t.RunEndEncoded):
        return _can_restore(usual, noted.values.type) and type(usual) in _WITH_KERNEL
    row = RESTORED.get((type(usual), type(noted)))
    if row is None or not row.fits(usual, noted):
        return False
    if row.is_whole or not noted.children:
        return True
    if isinstance(usual, t.Struct):
        types = {field.name: field.type for field in usual.fields}
        return all(f.name in types and _can_restore(types[f.name], f.type) for f in noted.children)
    if isinstance(usual, t.Map) and isinstance(noted, t.Map):  # a file may call its keys and values otherwise
        return _can_restore(usual.key.type, noted.key.type) and _can_restore(usual.item.type, noted.item.type)
    pairs = zip(usual.children, noted.children, strict=True)
    return all(_can_restore(a.type, b.type) for a, b in pairs)


_WITH_KERNEL: Final = frozenset({
    t.Bool, t.Int, t.FloatingPoint, t.Decimal, t.Date, t.Time, t.Timestamp, t.Duration, t.Binary, t.Utf8,
})  # fmt: skip
"""Type classes of usual columns that pyarrow's kernel can dictionary-encode."""
