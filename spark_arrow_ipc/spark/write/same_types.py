"""Compare the schema of rewritten files with the files that they replace: types and metadata stay."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.errors import UnsupportedError
from spark_arrow_ipc.spark.options.write_options import SparkWriteOptions
from spark_arrow_ipc.spark.types import schema_pairs
from spark_arrow_ipc.spark.types.field_metadata import SPARK_KEY


def with_metadata(writing: SparkWriteOptions, newest: Schema | None) -> SparkWriteOptions:
    """Return the options of a write with the metadata of the newest file's schema, except for keys that are in use."""
    reserved = {*dict(writing.metadata), *schema_pairs.KEYS}
    pairs = () if newest is None else (pair for pair in newest.custom_metadata if pair[0] not in reserved)
    return replace(writing, metadata=(*pairs, *writing.metadata))


def check_types(written: Schema, schemas: Iterable[Schema]) -> None:
    """Raise if a column with one type in all files would get another type; nullability may change."""
    types: dict[str, list[t.DataType]] = {}
    for schema in set(schemas):
        for field in schema.fields:
            types.setdefault(field.name.lower(), []).append(field.type)
    for field in written.fields:
        first, *others = types.get(field.name.lower(), [field.type])
        # A column with several types in the files gets their merged type.
        if all(_is_same(first, other) for other in others) and not _is_same(first, field.type):
            change = f"the type of this column would change from {first} to {field.type}"
            if str(first) == str(field.type):  # the text of a type lacks metadata
                change = f"metadata inside of this column of {first} would change"
            raise UnsupportedError(
                f"{change}, because Spark has no other for it; nothing is changed", field_path=field.name
            )


def _is_same(one: Any, other: Any) -> bool:
    """Compare types and their fields, except for nullability and Spark's metadata."""
    if type(one) is not type(other):
        return False
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(_is_same, one, other))
    if isinstance(one, t.Field):
        pairs = ([pair for pair in field.custom_metadata if pair[0] != SPARK_KEY] for field in (one, other))
        return one.name == other.name and _is_same(one.type, other.type) and next(pairs) == next(pairs)
    if isinstance(one, t.DataType):
        return all(_is_same(getattr(one, part.name), getattr(other, part.name)) for part in fields(one))
    return bool(one == other)
