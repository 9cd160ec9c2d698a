"""Pairs of a file's schema through Spark: what HuggingFace, pandas, GeoPandas, R and users say of a whole table.

A Spark schema has metadata for columns alone. So what a pair says of one column is noted at that column, and what is written
has the pair again, of the columns that still have their note: `PARTS` has the keys whose parts are known. Of all other
keys nobody here knows which columns they speak of. They are noted together at the first column, with the names and types of
all columns, and come back where those are the same: a pair that no longer fits is left out.

Nothing that is kept says more than is true of the rows that are written, which may be others, in another order: pandas'
index of a range of numbers and the bounds and kinds of geometries are left out, and what pandas' note says of a type that is
written as another one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pyspark.sql import types as s

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.dataset.listing.hugging_face import METADATA_KEY
from spark_arrow_ipc.dataset.table_pairs import PARTS, parsed_pair, parsed_value, to_text
from spark_arrow_ipc.spark.types import spark_annotation
from spark_arrow_ipc.spark.types.field_metadata import OWN_PREFIX

_LOG: Final = logging.getLogger(__name__)

_MOST_TEXT: Final = 1 << 20
"""Characters of the pairs that are noted whole: Spark sends its schemas to every task."""

OTHERS_KEY: Final = f"{OWN_PREFIX}schema_metadata"
"""Key in the metadata of the first column: the pairs of no known parts, with the columns that they were read with."""


def with_pairs(spark_schema: s.StructType, arrow_schema: Schema) -> s.StructType:
    """Return a Spark schema whose columns note what the pairs of a file's schema say."""
    pairs = arrow_schema.custom_metadata
    if not pairs:
        return spark_schema
    types = {field.name: field.type for field in arrow_schema.fields}
    notes = {column: {FEATURE_KEY: note} for column, note in split_features(pairs).items()}
    for key, parts in PARTS.items():
        parsed = parsed_pair({value for name, value in pairs if name == key}, key)
        for column, part in (parts.split(parsed, types) if parsed is not None else {}).items():
            notes.setdefault(column, {})[annotation_key(key)] = to_text(part)
    others = [pair for pair in pairs if pair[0] not in PARTS and pair[0] not in _NOT_KEPT]
    if others and spark_schema.fields:
        text = to_text({"pairs": others, "columns": _columns(spark_schema)})
        if len(text) <= _MOST_TEXT:
            notes.setdefault(spark_schema.names[0], {})[OTHERS_KEY] = text
        else:
            _LOG.warning("the schema's metadata have %s characters, and are not kept beyond %s", len(text), _MOST_TEXT)
    if not notes:
        return spark_schema
    return s.StructType([_with(field, notes.get(field.name)) for field in spark_schema.fields])


def pairs_of_annotations(spark_schema: s.StructType, fields: Sequence[t.Field]) -> t.CustomMetadata:
    """Return the pairs for the schema of the files of these columns, by what they note; `fields` are the written ones."""
    pairs: list[tuple[str, str]] = list(_other_pairs(spark_schema))
    for key, parts in PARTS.items():
        value = parts.join([
            (field, _find_annotation(column, annotation_key(key)) or {})
            for column, field in zip(spark_schema.fields, fields, strict=True)
        ])  # fmt: skip
        if value is not None:
            pairs.append((key, to_text(value)))
    return (*pairs, *feature_pairs(spark_schema))


def annotation_key(key: str) -> str:
    """Return the key in the metadata of a Spark column under which its part of a pair is noted."""
    return f"{OWN_PREFIX}{key}"


def _other_pairs(spark_schema: s.StructType) -> Iterable[tuple[str, str]]:
    note = _find_annotation(spark_schema.fields[0], OTHERS_KEY) if spark_schema.fields else None
    pairs = note.get("pairs") if note is not None and note.get("columns") == _columns(spark_schema) else None
    for pair in pairs if isinstance(pairs, list) else ():
        if isinstance(pair, list) and len(pair) == 2 and all(isinstance(each, str) for each in pair):
            yield pair[0], pair[1]


def _columns(spark_schema: s.StructType) -> list[list[str]]:
    return [[field.name, field.dataType.simpleString()] for field in spark_schema.fields]


def _with(field: s.StructField, notes: Mapping[str, str] | None) -> s.StructField:
    if notes is None:
        return field
    return s.StructField(field.name, field.dataType, field.nullable, {**field.metadata, **notes})


def _find_annotation(field: s.StructField, key: str) -> Mapping[str, Any] | None:
    """Return what a column notes; None without it, or where a user has made something else of it."""
    value = _value_in(field, key)
    return value if isinstance(value, dict) else None


def _value_in(field: s.StructField, key: str) -> Any:
    note = (field.metadata or {}).get(key)
    return parsed_value({note}, None) if isinstance(note, str) else None


# --- huggingface: {"info": {"features": {"label": {"_type": "ClassLabel", "names": [...]}}}}
#
# The names of a ClassLabel, that a struct of bytes and a path is an image, which languages a translation has. What `datasets`
# infers from the Arrow type itself (`Value`, `List`) is not noted. It believes a feature only where the column has the
# feature's own type, and infers another one elsewhere; so a column that is written with another type tells no lie. A feature
# is a list in older releases, and so not among `PARTS`.

FEATURE_KEY: Final = f"{OWN_PREFIX}huggingface"
"""Key in the metadata of a Spark column: its feature, as JSON in a string, which Spark's metadata cannot hold otherwise."""

_LISTS: Final = frozenset({"List", "LargeList"})


def split_features(pairs: t.CustomMetadata) -> Mapping[str, str]:
    """Return the notes of the columns that have a feature which their Arrow types do not say; nothing if two pairs disagree."""
    value = parsed_pair({value for key, value in pairs if key == METADATA_KEY}, METADATA_KEY)
    info = None if value is None else value.get("info")
    features = info.get("features") if isinstance(info, dict) else None
    if not isinstance(features, dict):
        return {}
    return {name: to_text(feature) for name, feature in features.items() if not _is_inferred(feature)}


def feature_pairs(schema: s.StructType) -> t.CustomMetadata:
    """Return the pair of a file's schema for the columns that note a feature; nothing without any."""
    values = {field.name: _value_in(field, FEATURE_KEY) for field in schema.fields}
    features = {name: feature for name, feature in values.items() if isinstance(feature, dict | list)}
    return ((METADATA_KEY, to_text({"info": {"features": features}})),) if features else ()


def _is_inferred(feature: Any) -> bool:
    """Return whether `datasets` infers a feature from the Arrow type of its column."""
    if not isinstance(feature, dict):
        return False
    kind = feature.get("_type")
    if isinstance(kind, str):
        return kind == "Value" or (kind in _LISTS and _is_inferred(feature.get("feature")))
    return all(map(_is_inferred, feature.values()))


_NOT_KEPT: Final = frozenset({METADATA_KEY, spark_annotation.KEY})
"""Keys that are kept otherwise: by features, and by `spark_annotation`."""

KEYS: Final = frozenset(PARTS)
"""Keys of the pairs that are kept by columns."""

ANNOTATION_KEYS: Final = (FEATURE_KEY, OTHERS_KEY, *map(annotation_key, PARTS))
"""Keys in the metadata of a Spark column; files that disagree about one merge without it."""
