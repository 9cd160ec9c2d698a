"""The one rule by which `rewrite` and `compact` keep Arrow's types: how files are read, and which types may be written.

Strategy
--------
A rewrite with ``restoreTypes`` writes what was in the files, or raises an error before anything is replaced. Where nobody
looks at the values they are read as they are stored: nanoseconds as counts, and extension types as their storage, unless
a file notes Spark's types, which are then written again.
Where a function, ``where`` or ``partitionBy`` sees them in Spark's types, a value that such a type does not hold is an
error that names the column. Types to which there is no way back from Spark's are refused by `restored_schema`;
`check_types` compares what it made with the files, so that nothing depends on notes alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import fields, replace
from typing import Any

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.dataset.predicate.expressions import columns
from spark_arrow_ipc.dataset.predicate.parser import parse
from spark_arrow_ipc.errors import OptionError, UnsupportedError
from spark_arrow_ipc.ipc.concatenated_streams import ConcatenatedStreams
from spark_arrow_ipc.spark.datasource import schema_of
from spark_arrow_ipc.spark.options.read_options import ReadOptions
from spark_arrow_ipc.spark.options.values import ExtensionTypes, MapKeys, Nanoseconds
from spark_arrow_ipc.spark.options.write_options import SparkWriteOptions
from spark_arrow_ipc.spark.types.field_metadata import SPARK_KEY
from spark_arrow_ipc.spark.types.spark_note import note_in


def exact(
    reading: ReadOptions,
    given: Collection[str],
    schemas: Iterable[Schema],
    partition_by: Sequence[object],
    *,
    has_function: bool,
) -> ReadOptions:
    """Return the options of a read that changes no value, or raises an error that names it."""
    if "nanoseconds" in given and reading.nanoseconds is Nanoseconds.FLOOR:
        raise _contradiction("nanoseconds=floor drops what is finer than Spark's types", "nanoseconds=error or long")
    if reading.map_keys is MapKeys.LAST_WINS:
        raise _contradiction("mapKeys=lastWins drops keys of maps", "mapKeys=error")
    reading = replace(reading, is_exact=True)
    checked = unrounded(reading, given)
    if has_function:
        return checked
    stored = as_stored(reading, schemas, given)
    predicate = () if reading.where is None else columns(parse(reading.where))
    seen = [*(column.path[0] for column in predicate), *partition_by]
    return stored if not seen or _are_the_same(seen, checked, stored) else checked


def as_stored(reading: ReadOptions, schemas: Iterable[Schema], given: Collection[str] = ()) -> ReadOptions:
    """Return the options that read the values of files as they are stored, but for those that were given."""
    reading = replace(reading, is_exact=True)
    if "nanoseconds" not in given:
        reading = replace(reading, nanoseconds=Nanoseconds.LONG)
    if "extensiontypes" in given or any(note_in(schema.custom_metadata) is not None for schema in schemas):
        return reading
    return replace(reading, extension_types=ExtensionTypes.STORAGE)


def unrounded(reading: ReadOptions, given: Collection[str]) -> ReadOptions:
    """Return the options with which a value finer than Spark's types is an error: a rewrite would round it for good."""
    return reading if "nanoseconds" in given else replace(reading, nanoseconds=Nanoseconds.ERROR)


def unskipped(reading: ReadOptions, given: Collection[str]) -> ReadOptions:
    """Return the options with which nothing is passed over that is replaced: reads warn of a second stream in a file."""
    if "concatenatedstreams" in given:
        return reading
    return replace(reading, concatenated_streams=ConcatenatedStreams.ERROR)


def with_metadata(writing: SparkWriteOptions, newest: Schema | None) -> SparkWriteOptions:
    """Return the options of a write with the metadata of the newest file's schema, but for keys that they have."""
    own = dict(writing.metadata)
    kept = () if newest is None else (pair for pair in newest.custom_metadata if pair[0] not in own)
    return replace(writing, metadata=(*kept, *writing.metadata))


def check_types(written: Schema, schemas: Iterable[Schema]) -> None:
    """Raise if a column that has one type in all files would get another one; whether its parts may be null may change."""
    types: dict[str, list[t.DataType]] = {}
    for schema in set(schemas):
        for field in schema.fields:
            types.setdefault(field.name.lower(), []).append(field.type)
    for field in written.fields:
        first, *others = types.get(field.name.lower(), [field.type])
        if all(_is_same(first, other) for other in others) and not _is_same(first, field.type):
            change = f"the type of this column would change from {first} to {field.type}"
            if str(first) == str(field.type):  # which leaves out metadata
                change = f"metadata inside of this column of {first} would change"
            raise UnsupportedError(
                f"{change}, because Spark has no other for it; nothing is changed", field_path=field.name
            )


def _is_same(one: Any, other: Any) -> bool:
    """Compare types, and the fields in them but for whether they may be null, and for what the note of Spark's schema has."""
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


def _are_the_same(seen: Iterable[object], checked: ReadOptions, stored: ReadOptions) -> bool:
    """Return whether columns have the same Spark types in two reads."""
    ours, theirs = (
        {key: field.dataType for i, field in enumerate(found) for key in (i, field.name.casefold())}
        # The predicate is of the types of `checked`, to which it may be bound and not to the others.
        for found in (schema_of(replace(each, where=None)).fields for each in (checked, stored))
    )
    keys = [name.casefold() if isinstance(name, str) else name for name in seen]
    return all(key in ours and ours[key] == theirs[key] for key in keys)


def _contradiction(what: str, remedy: str) -> OptionError:
    return OptionError(
        f"{what}, and restoreTypes=true writes what was in the files: give {remedy}, or leave restoreTypes out"
    )
