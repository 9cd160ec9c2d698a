"""Check a DataFrame's columns: their names, and their types compared with the files that stay next to the new ones.

How it works
------------
1. Reads without ``mergeSchema`` take the schema of the newest log entry. So a job that retains files must have all their
   columns, with their types or wider ones; then each file fits the schema of its log entry. Schemas are compared as Spark
   reads them, by the rules of ``mergeSchema``.
2. A job with fewer columns or narrower types writes the missing columns as nulls, and the wider types.
3. A job that lacks columns and has new ones is refused, because a new column may have a misspelt name.
4. With ``restoreTypes`` columns get the Arrow types from which they were read. Reading widens (uint8 to smallint) and adds
   an annotation with the type to the field's metadata. `restore_schema` refuses an annotation to which the column cannot be
   converted, before any task runs, and `restore_values` converts. A column is also refused if the read may have changed
   its values without an error (`field_metadata.INEXACT_KEY`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from pyspark.sql import types as s

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.column_path import find_columns, walk_fields
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.scan.file_metadata import MetadataOptions, read_metadata
from spark_arrow_ipc.errors import ArrowIpcError, OptionError, SchemaMismatchError, UnsupportedError, join_texts
from spark_arrow_ipc.spark.options.read_options import ReadOptions
from spark_arrow_ipc.spark.options.values import SchemaCheck
from spark_arrow_ipc.spark.types import field_metadata, spark_annotation
from spark_arrow_ipc.spark.types.arrow_to_spark import spark_schema
from spark_arrow_ipc.spark.types.field_metadata import is_storage_of, is_vector_annotation, readable, type_of_annotation
from spark_arrow_ipc.spark.types.merge import merge_schemas
from spark_arrow_ipc.spark.types.spark_to_arrow import arrow_field, field_pairs, storage_type
from spark_arrow_ipc.spark.write.restore_values import RESTORED
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.storage.storage import Storage

_LOG: Final = logging.getLogger(__name__)

_HERE: Final = "the DataFrame"
_MOST_NAMED: Final = 5
_RULE: Final = (
    "Reads take the schema of the newest job, so that a job may lack columns of the files or bring new ones, and not both, "
    "with types that widen to one another: rename or cast the columns, add missing ones as nulls, write to another "
    "directory, or set schemaCheck=none and read with mergeSchema=true"
)
"""The next step if columns are not only renamed."""


def check_names(schema: s.StructType, *, case_sensitive: bool) -> None:
    """Raise without columns, or if two columns or two fields of a struct have the same name."""
    if not schema.fields:
        raise OptionError(
            "the DataFrame has no columns, so that its rows would be lost, and nothing is written; select at least one "
            "(Spark's own file formats call this EMPTY_SCHEMA_NOT_SUPPORTED_FOR_DATASOURCE)"
        )
    _check_type(schema, "", case_sensitive=case_sensitive)


def _check_type(type_: s.DataType, path: str, *, case_sensitive: bool) -> None:
    if isinstance(type_, s.StructType):
        by_name: dict[str, str] = {}
        for name in type_.names:
            key = name if case_sensitive else name.lower()
            if key in by_name:
                raise _ambiguous(by_name[key], name, path)
            by_name[key] = name
        for field in type_.fields:
            _check_type(field.dataType, f"{path}.{field.name}" if path else field.name, case_sensitive=case_sensitive)
    elif isinstance(type_, s.ArrayType):
        _check_type(type_.elementType, path, case_sensitive=case_sensitive)
    elif isinstance(type_, s.MapType):
        _check_type(type_.keyType, path, case_sensitive=case_sensitive)
        _check_type(type_.valueType, path, case_sensitive=case_sensitive)


def _ambiguous(name: str, other: str, path: str) -> OptionError:
    what = "the struct has fields" if path else "the DataFrame has columns"
    if name == other:
        return OptionError(
            f"{what} of one name, {name!r} twice, and Spark could not read them; rename one", field_path=path or None
        )
    return OptionError(
        f"{what} whose names differ only in case, {name!r} and {other!r}, and Spark reads them only with "
        "spark.sql.caseSensitive=true; rename one, or set the option caseSensitive=true",
        field_path=path or None,
    )


def widen_schema(
    schema: s.StructType,
    in_files: Schema,
    existing: Schema,
    path: str,
    check: SchemaCheck,
    *,
    keeps_types: bool = False,
    case_sensitive: bool = False,
) -> s.StructType | None:
    """Return the schema with which a job can be added to files; None if its schema can stay."""
    wider, added = _grow(in_files, existing, path, check, schema.names, keeps_types=keeps_types) or ({}, [])
    fields = [wider.get(field.name, field) for field in schema.fields]
    if check is not SchemaCheck.NONE and not case_sensitive:
        # Other tools match names exactly: to them, a column of another spelling is another column.
        absent = len(existing.names)
        positions = find_columns(existing.names, schema.names, absent=absent)
        fields = [
            field if i == absent else s.StructField(existing.names[i], field.dataType, field.nullable, field.metadata)
            for field, i in zip(fields, positions, strict=True)
        ]
    grown = s.StructType([*fields, *added])
    return None if grown == schema else grown


def merge_with_existing(
    schema: Schema,
    existing: Schema,
    path: str,
    check: SchemaCheck,
    *,
    partition_names: Sequence[str] = (),
    keeps_types: bool = False,
) -> Schema:
    """Return the schema of a read of new files and existing ones, to which others may have added columns."""
    grown = _grow(schema, existing, path, check, partition_names, keeps_types=keeps_types)
    return schema if grown is None else unite_schemas((schema, _HERE), (existing, path))


def _grow(
    schema: Schema, existing: Schema, path: str, check: SchemaCheck, reserved: Sequence[str], *, keeps_types: bool
) -> tuple[dict[str, s.StructField], list[s.StructField]] | None:
    """Return the wider types and the additional columns of existing files; None if new files can do without."""
    if check is SchemaCheck.NONE:
        return None
    in_files = spark_schema(schema, ReadOptions())
    try:
        in_existing = spark_schema(existing, ReadOptions())
    except ArrowIpcError as error:
        # Files with types that Spark lacks do not prevent a write.
        _LOG.warning("%s: the schema is not compared with that of the job: %s", path, error)
        return None
    merged = check_schema(in_files, in_existing, path, check)
    if merged is None:
        return None
    added = merged.fields[len(in_files) :]
    names = {field.name.lower() for field in added}
    required = {field.name.lower() for field in existing.fields if not field.nullable}
    for name in names & (required | {name.lower() for name in reserved}):  # partition columns are reserved
        raise _refusal(path, f"{name} is missing in the files of {_HERE}, and null cannot stand for it")
    wider = {
        field.name: new
        for field, new in zip(in_files.fields, merged.fields[: len(in_files)], strict=True)
        if not _is_same(field.dataType, new.dataType)
    }
    # restoreTypes requires the types of the annotations.
    if wider and keeps_types:
        raise _refusal(path, "; ".join(_differences(merged, in_files)) + " (restoreTypes)")
    return wider, added


def unite_schemas(first: tuple[Schema, str], second: tuple[Schema, str]) -> Schema:
    """Return a schema with the nullable columns of two, each of which has a name for errors."""
    sides = [(schema, name, spark_schema(schema, ReadOptions())) for schema, name in (first, second)]
    merged = merge_schemas([(name, struct) for _, name, struct in sides])
    sources = [(schema, struct) for schema, _, struct in sides]
    fields = tuple(replace(_arrow_field(field, sources), nullable=True) for field in merged.fields)
    # Spark's annotation is replaced by one for the merged columns.
    pairs = (pair for pair in first[0].custom_metadata if pair[0] != spark_annotation.KEY)
    return Schema(fields, (*pairs, *spark_annotation.annotation_pairs(merged)))


def _arrow_field(field: s.StructField, sources: Sequence[tuple[Schema, s.StructType]]) -> t.Field:
    """Return the field from the first schema that has a column with this type, or a new field."""
    for schema, struct in sources:
        (i,) = find_columns(struct.names, [field.name], absent=len(struct))
        if i < len(struct) and _is_same(struct.fields[i].dataType, field.dataType):
            return schema.fields[i]
    return arrow_field(field.name, field.dataType, field.metadata or {}, field.name)


def has_schema(
    file: DataFile,
    schema: Schema,
    check: SchemaCheck,
    storage: Storage = LOCAL,
    has_encodings: Callable[[Schema, str], bool] | None = None,
) -> bool:
    """Return True if a file has the columns of the new files, or the option checks nothing, and their encodings."""
    try:
        outline = read_metadata(file, MetadataOptions(storage=storage))
        if outline.schema is None:
            return False
        if has_encodings is not None and not has_encodings(outline.schema, file.path):
            return False
        if check is SchemaCheck.NONE:
            return True
        existing = spark_schema(outline.schema, ReadOptions())
        check_schema(spark_schema(schema, ReadOptions()), existing, file.path, SchemaCheck.EXACT)
    except (ArrowIpcError, OSError):
        return False
    return True


def check_schema(schema: s.StructType, existing: s.StructType, path: str, check: SchemaCheck) -> s.StructType | None:
    """Return the schema that new files need next to an existing file; None if they have all its columns."""
    if check is SchemaCheck.NONE:
        return None
    try:
        # A merge retains the columns and types of the first schema, unless the second one adds to them.
        merged = merge_schemas([(_HERE, schema), (path, existing)])
        grown = merge_schemas([(path, existing), (_HERE, schema)])
    except ArrowIpcError as error:
        what = f"{error.field_path}: {(error.message or str(error)).partition(' cannot be merged')[0]}"
        raise _refusal(path, what) from error
    if stray := next(_strays(schema, existing), None):
        raise stray.error(path)
    lacks = _differences(merged, schema)
    if check is SchemaCheck.EXACT and (lacks or _differences(grown, existing)):
        # In the other direction the files lack columns, which are new in the DataFrame.
        lines = lacks or [line.replace("is missing in", "is new in") for line in _differences(grown, existing)]
        raise _refusal(path, "; ".join(lines), "schemaCheck=exact takes the same columns and types only: leave it out")
    return merged if lacks else None


@dataclass(frozen=True, slots=True)
class _Stray:
    """Fields that a struct of the DataFrame lacks, and fields that only the DataFrame has."""

    missing: list[s.StructField]
    new: list[s.StructField]
    at: str  # path of the struct, with a final dot

    def error(self, path: str) -> SchemaMismatchError:
        """Return the error, with advice for a rename if one field stands for another of its type."""
        missing, new = ([f"{self.at}{field.name}" for field in fields] for fields in (self.missing, self.new))
        # One field that stands for another of its type is most likely a rename.
        if len(missing) > 1 or len(new) > 1 or not _is_same(self.missing[0].dataType, self.new[0].dataType):
            are = "are" if len(missing) > 1 else "is"
            return _refusal(
                path, f"{join_texts(missing)} {are} missing in {_HERE}, which has {join_texts(new)} instead"
            )
        rename = "rename the field of the struct" if self.at else f'call withColumnRenamed("{new[0]}", "{missing[0]}")'
        return _refusal(
            path,
            f"{missing[0]} is missing in {_HERE}, which has {new[0]} instead",
            f"This looks like a rename, `{missing[0]}` to `{new[0]}`: to add rows under "
            f"the old name {rename}; for the new name in all files read them, rename it, and write with mode overwrite; to "
            "keep both names set schemaCheck=none, and read with mergeSchema=true",
        )


def _strays(schema: s.DataType, existing: s.DataType, at: str = "") -> Iterator[_Stray]:
    """Yield the structs that lack fields of the other schema and have fields that it lacks."""
    if isinstance(schema, s.StructType) and isinstance(existing, s.StructType):
        absent = len(schema)
        positions = find_columns(schema.names, existing.names, absent=absent)
        missing = [field for field, i in zip(existing.fields, positions, strict=True) if i == absent]
        new = [field for i, field in enumerate(schema.fields) if i not in positions]
        if missing and new:
            yield _Stray(missing, new, at)
        pairs = [(schema.fields[i], field) for i, field in zip(positions, existing.fields, strict=True) if i != absent]
        for a, b in pairs:
            if a != b:
                yield from _strays(a.dataType, b.dataType, f"{at}{a.name}.")
    if isinstance(schema, s.ArrayType) and isinstance(existing, s.ArrayType):
        yield from _strays(schema.elementType, existing.elementType, f"{at}element.")
    if isinstance(schema, s.MapType) and isinstance(existing, s.MapType):
        yield from _strays(schema.keyType, existing.keyType, f"{at}key.")
        yield from _strays(schema.valueType, existing.valueType, f"{at}value.")


def _differences(merged: s.StructType, one: s.StructType) -> list[str]:
    """Describe the columns of a merged schema that one of its parts lacks or has in a narrower type."""
    absent = len(one)
    lines = []
    for position, field in zip(find_columns(one.names, merged.names, absent=absent), merged.fields, strict=True):
        if position == absent:
            lines.append(f"{field.name} is missing in {_HERE}")
        elif not _is_same(type_ := one.fields[position].dataType, field.dataType):
            lines.append(f"{field.name} is {type_.simpleString()} and not {field.dataType.simpleString()}")
    return lines if len(lines) <= _MOST_NAMED else [*lines[:_MOST_NAMED], f"{len(lines) - _MOST_NAMED} more"]


def _is_same(one: s.DataType, other: s.DataType) -> bool:
    # These texts lack nullability and metadata, which may differ.
    return bool(one.simpleString() == other.simpleString())


def _refusal(path: str, what: str, way_out: str = _RULE) -> SchemaMismatchError:
    return SchemaMismatchError(
        f"the columns of this job do not fit beside the files that are there: {what}. {way_out}. Nothing is written",
        path=path,
    )


def restore_schema(spark_schema: s.StructType) -> Schema:
    """Return the Arrow schema of a DataFrame's files, with the types of annotations."""
    return Schema.of(_restore_field(f.name, f.dataType, f.metadata or {}, f.name) for f in spark_schema.fields)


def restrict_to_vectors(spark_schema: s.StructType) -> s.StructType:
    """Return a schema with only the annotations of vectors on binary columns, for ``vectors=binary``."""
    return s.StructType([_restrict_to_vectors(field) for field in spark_schema.fields])


def _restrict_to_vectors(field: s.StructField) -> s.StructField:
    metadata = dict(field.metadata or {})
    metadata.pop(field_metadata.INEXACT_KEY, None)  # only restoreTypes refuses inexact columns
    note = metadata.get(field_metadata.TYPE_KEY)
    is_vector = isinstance(field.dataType, s.BinaryType) and is_vector_annotation(note)
    # An annotation of the type that the column gets anyway stays, as it confirms that an extension fits.
    if not is_vector and not is_storage_of(arrow_field(field.name, field.dataType, {}, field.name).type, note):
        metadata.pop(field_metadata.TYPE_KEY, None)
    type_ = restrict_to_vectors(field.dataType) if isinstance(field.dataType, s.StructType) else field.dataType
    return s.StructField(field.name, type_, field.nullable, metadata)


def _restore_field(
    name: str, spark_type: s.DataType, metadata: Mapping[str, Any], path: str, *, above: t.DataType | None = None
) -> t.Field:
    """Return the field of a column; `above` is its type in the annotation of its parent."""
    if metadata.get(field_metadata.INEXACT_KEY):
        raise UnsupportedError(
            "the read of this column may have changed values (nanoseconds=floor drops what is finer than Spark's types, "
            "each arrow.bool8 but 0 is true, extensionTypes=tensor applies permutations, timestamps are read without offsets), and "
            "restoreTypes writes what was in the file; read it "
            "with nanoseconds=error or long and extensionTypes=storage, drop the note with "
            "df.withMetadata(column, {}), or leave restoreTypes out",
            field_path=path,
        )
    usual = arrow_field(name, spark_type, metadata, path)
    # The annotation of a column has the types of all its parts.
    note = above if above is not None else metadata.get(field_metadata.TYPE_KEY)
    if isinstance(note, str | t.DataType):
        type_ = _with_fields(_restore_type(note, usual.type, path), spark_type, path, is_noted=True)
    else:
        type_ = _with_fields(usual.type, spark_type, path, is_noted=False)
    return t.Field(name, type_, custom_metadata=field_pairs(spark_type, metadata, type_, path))


def _restore_type(note: str | t.DataType, usual: t.DataType, path: str) -> t.DataType:
    try:
        type_ = type_of_annotation(note, usual)
    except ValueError as error:
        raise _no_way_back(note, usual, path) from error
    if not _can_restore(usual, type_):
        raise _no_way_back(note, usual, path)
    return type_


def _with_fields(type_: t.DataType, spark_type: s.DataType, path: str, *, is_noted: bool) -> t.DataType:
    """Add to struct fields their metadata, and without an annotation of the column their annotated types."""
    spark_type = storage_type(spark_type)
    if isinstance(type_, t.Struct) and isinstance(spark_type, s.StructType):
        by_name = {f.name: f for f in spark_type.fields}
        fields = []
        for field in type_.fields:
            child = by_name[field.name]
            above = field.type if is_noted else None
            below = f"{path}.{field.name}"
            fields.append(_restore_field(field.name, child.dataType, child.metadata or {}, below, above=above))
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


def _can_restore(usual: t.DataType, annotated: t.DataType) -> bool:
    if usual == annotated:
        return True
    if isinstance(annotated, t.Dictionary):
        return _can_restore(usual, annotated.value) and type(usual) in _WITH_KERNEL
    if isinstance(annotated, t.RunEndEncoded):
        return _can_restore(usual, annotated.values.type) and type(usual) in _WITH_KERNEL
    row = RESTORED.get((type(usual), type(annotated)))
    if row is None or not row.fits(usual, annotated):
        return False
    if row.is_complete or not annotated.children:
        return True
    if isinstance(usual, t.Struct):
        types = {field.name: field.type for field in usual.fields}
        return all(f.name in types and _can_restore(types[f.name], f.type) for f in annotated.children)
    if isinstance(usual, t.Map) and isinstance(annotated, t.Map):  # a file may have other names for keys and values
        return _can_restore(usual.key.type, annotated.key.type) and _can_restore(usual.item.type, annotated.item.type)
    pairs = zip(usual.children, annotated.children, strict=True)
    return all(_can_restore(a.type, b.type) for a, b in pairs)


_WITH_KERNEL: Final = frozenset({
    t.Bool, t.Int, t.FloatingPoint, t.Decimal, t.Date, t.Time, t.Timestamp, t.Duration, t.Binary, t.Utf8,
})  # fmt: skip
"""Classes of usual types that pyarrow's kernel can dictionary-encode."""


# HuggingFace's `datasets` makes a feature of each Arrow type when it opens a dataset. It fails for maps, unions, intervals
# of months, dictionaries and runs, and for extension types that pyarrow itself has.
FEATURES: Final = frozenset({
    t.Null, t.Bool, t.Int, t.FloatingPoint, t.Decimal, t.Utf8, t.LargeUtf8, t.Utf8View, t.Binary, t.LargeBinary,
    t.BinaryView, t.FixedSizeBinary, t.Date, t.Time, t.Timestamp, t.Duration, t.Struct, t.List, t.LargeList, t.FixedSizeList,
})  # fmt: skip
"""Type classes that have a feature."""

_DECIMALS: Final = frozenset({128, 256})

_JSON: Final = "arrow.json"


def check_features(schema: Schema) -> None:
    """Raise if ``layout=huggingface`` cannot describe the type of a column or of a part."""
    for path, field in walk_fields(schema.fields):
        name = field.extension_name or ""
        what = None if type(field.type) in FEATURES else str(field.type)
        if isinstance(field.type, t.Decimal) and field.type.bit_width not in _DECIMALS:
            what = str(field.type)
        if name.startswith("arrow.") and name != _JSON:
            what = f"the extension {name}"
        if what is not None:
            raise UnsupportedError(
                f"HuggingFace's datasets has no feature for {what}; cast the column (a map with map_entries, a variant with "
                "to_json), leave it out, or set restoreTypes=false if that is only the type that it was read from. Nothing is written",
                field_path=path,
            )
