"""Check a DataFrame's columns: names that differ in case, and the files that stay beside new ones.

Strategy
--------
Reads without ``mergeSchema`` take the schema of the newest file. So a job that keeps files must write all their columns,
with their types or wider ones; then the newest file has the columns of all, and every file fits its schema. Schemas are
compared as Spark reads them, by the rules of ``mergeSchema``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from pyspark.sql import types as s

from spark_arrow_ipc.arrow.column_path import find_columns
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.dataset.listing.data_file import DataFile
from spark_arrow_ipc.dataset.scan.outline import OutlineOptions, read_outline
from spark_arrow_ipc.errors import ArrowIpcError, OptionError, SchemaMismatchError
from spark_arrow_ipc.spark.options.enums import SchemaCheck
from spark_arrow_ipc.spark.options.options import ReadOptions
from spark_arrow_ipc.spark.types.arrow_to_spark import spark_schema
from spark_arrow_ipc.spark.types.merge import merged_schema
from spark_arrow_ipc.storage.local import LOCAL
from spark_arrow_ipc.storage.storage import Storage

__all__ = ["check_names", "check_schema", "has_schema", "schema_checker"]

_LOG: Final = logging.getLogger(__name__)

_HERE: Final = "the DataFrame"
_MOST_NAMED: Final = 5


def check_names(schema: s.StructType, *, case_sensitive: bool) -> None:
    """Raise if two columns, or two fields of a struct, have the same name.

    Parameters
    ----------
    schema
        Of the DataFrame.
    case_sensitive
        Whether names that differ only in case are different.

    Raises
    ------
    OptionError
        The message names them.
    """
    _check_type(schema, "", case_sensitive=case_sensitive)


def _check_type(type_: s.DataType, path: str, *, case_sensitive: bool) -> None:
    if isinstance(type_, s.StructType):
        known: dict[str, str] = {}
        for name in type_.names:
            key = name if case_sensitive else name.lower()
            if key in known:
                raise _ambiguous(known[key], name, path)
            known[key] = name
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


def schema_checker(own: Schema, check: SchemaCheck, storage: Storage = LOCAL) -> Callable[[DataFile], None] | None:
    """Return a callback that checks a schema against an existing file, or None to check nothing.

    Parameters
    ----------
    own
        The schema of the new files.
    check
        The option.
    storage
        The storage that holds the existing file.
    """
    if check is SchemaCheck.NONE:
        return None
    return lambda file: _check_file(own, file, check, storage)


def _check_file(own: Schema, file: DataFile, check: SchemaCheck, storage: Storage) -> None:
    """Check against the schema of a file. Opens it once, and reads no body."""
    try:
        there = _schema_of(file, storage)
    except (ArrowIpcError, OSError) as error:
        _LOG.warning("the schema of the newest file is not compared with that of the job: %s", error)
        return
    check_schema(spark_schema(own, ReadOptions()), there, file.path, check)


def _schema_of(file: DataFile, storage: Storage) -> s.StructType:
    """Read the schema of a file as Spark reads it."""
    outline = read_outline(file, OutlineOptions(storage=storage))
    if outline.schema is None:
        assert outline.error is not None
        raise outline.error
    return spark_schema(outline.schema, ReadOptions())


def has_schema(file: DataFile, own: Schema, check: SchemaCheck, storage: Storage = LOCAL) -> bool:
    """Return whether a file has the columns of the new files, or the option checks nothing. Opens it once.

    Parameters
    ----------
    file
        Written by others while the job ran.
    own
        The schema of the new files.
    check
        The option.
    storage
        The storage that holds the file.
    """
    if check is SchemaCheck.NONE:
        return True
    try:
        check_schema(spark_schema(own, ReadOptions()), _schema_of(file, storage), file.path, SchemaCheck.EXACT)
    except (ArrowIpcError, OSError):
        return False
    return True


def check_schema(own: s.StructType, there: s.StructType, path: str, check: SchemaCheck) -> None:
    """Raise if files of one schema must not be written beside a file of another.

    Parameters
    ----------
    own, there
        The schema of the new files, and that of the existing file, both as they are read.
    path
        Of the existing file, for the error.
    check
        The option.

    Raises
    ------
    SchemaMismatchError
        The message names the columns and what to do.
    """
    if check is SchemaCheck.NONE:
        return
    try:
        # Merging keeps the columns and types of the first schema, unless the second one adds to them.
        merged = merged_schema([(_HERE, own), (path, there)])
        grown = merged_schema([(path, there), (_HERE, own)])
    except ArrowIpcError as error:
        raise _refused(
            path, f"{error.field_path}: {(error.message or str(error)).partition(' cannot be merged')[0]}"
        ) from error
    if _differences(merged, own):
        raise _refused(path, "; ".join(_differences(merged, own)))
    if check is SchemaCheck.EXACT and _differences(grown, there):
        lines = [line.replace("is missing in", "is new in") for line in _differences(grown, there)]
        raise _refused(path, "; ".join(lines) + " (schemaCheck=exact)")


def _differences(merged: s.StructType, one: s.StructType) -> list[str]:
    """Describe the columns of a merged schema that one of its parts lacks or has with a narrower type."""
    absent = len(one)
    lines = []
    for position, field in zip(find_columns(one.names, merged.names, absent=absent), merged.fields, strict=True):
        if position == absent:
            lines.append(f"{field.name} is missing in {_HERE}")
        elif (type_ := one.fields[position].dataType).simpleString() != field.dataType.simpleString():
            lines.append(f"{field.name} is {type_.simpleString()} and not {field.dataType.simpleString()}")
    return lines if len(lines) <= _MOST_NAMED else [*lines[:_MOST_NAMED], f"{len(lines) - _MOST_NAMED} more"]


def _refused(path: str, what: str) -> SchemaMismatchError:
    return SchemaMismatchError(
        f"the columns of this job do not fit beside the files that are there: {what}. A job that keeps files must have "
        "all their columns, with their types or wider ones, because reads take the schema of the newest file: cast the "
        "columns, add missing ones as nulls, write to another directory, or set schemaCheck=none and read with "
        "mergeSchema=true. Nothing is written",
        path=path,
    )
