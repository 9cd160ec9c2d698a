"""Pass pairs of a file's schema through Spark: metadata of HuggingFace, pandas, GeoPandas, R and users about a table.

A Spark schema has metadata only for columns. So the part of a pair that describes one column annotates that column, and a
write joins the parts of the columns that still have one: `PARTS` has the keys that can be split. Which columns other keys
describe is unknown. They annotate the first column together, with the names and types of all columns, and are written
again if those are the same.

A pair that is written must be true of its rows, which may be others, in another order. So pandas' index of a range of
numbers, the bounds and kinds of geometries, and pandas' description of a column that is written as another type are left
out.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pyspark.sql import types as s

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.dataset.listing.hugging_face import METADATA_KEY
from spark_arrow_ipc.dataset.table_pairs import PARTS, parse_pair, parse_value, to_text
from spark_arrow_ipc.spark.types import spark_annotation
from spark_arrow_ipc.spark.types.field_metadata import OWN_PREFIX

_LOG: Final = logging.getLogger(__name__)

_MOST_TEXT: Final = 1 << 20
"""Characters of the pairs that are passed together: Spark sends its schemas to every task."""

OTHERS_KEY: Final = f"{OWN_PREFIX}schema_metadata"
"""Key in the metadata of the first column: the pairs that cannot be split, with the columns of their file."""


def with_pairs(spark_schema: s.StructType, arrow_schema: Schema) -> s.StructType:
    """Return a Spark schema whose columns are annotated with the pairs of a file's schema."""
    pairs = arrow_schema.custom_metadata
    if not pairs:
        return spark_schema
    types = {field.name: field.type for field in arrow_schema.fields}
    annotations = {column: {FEATURE_KEY: feature} for column, feature in split_features(pairs).items()}
    for key, parts in PARTS.items():
        parsed = parse_pair({value for name, value in pairs if name == key}, key)
        for column, part in (parts.split(parsed, types) if parsed is not None else {}).items():
            annotations.setdefault(column, {})[annotation_key(key)] = to_text(part)
    others = [pair for pair in pairs if pair[0] not in PARTS and pair[0] not in _NOT_KEPT]
    if others and spark_schema.fields:
        text = to_text({"pairs": others, "columns": _columns(spark_schema)})
        if len(text) <= _MOST_TEXT:
            annotations.setdefault(spark_schema.names[0], {})[OTHERS_KEY] = text
        else:
            _LOG.warning("the schema's metadata have %s characters, and are not kept beyond %s", len(text), _MOST_TEXT)
    return s.StructType([
        s.StructField(f.name, f.dataType, f.nullable, {**f.metadata, **annotations.get(f.name, {})}) for f in spark_schema.fields
    ])  # fmt: skip


def pairs_of_annotations(spark_schema: s.StructType, fields: Sequence[t.Field]) -> t.CustomMetadata:
    """Return the pairs for a file's schema from the annotations of columns, which are written as `fields`."""
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
    """Return the key in the metadata of a Spark column for its part of a pair."""
    return f"{OWN_PREFIX}{key}"


def _other_pairs(spark_schema: s.StructType) -> Iterable[tuple[str, str]]:
    others = (_find_annotation(spark_schema.fields[0], OTHERS_KEY) if spark_schema.fields else None) or {}
    pairs = others.get("pairs") if others.get("columns") == _columns(spark_schema) else None
    # Users may have edited the metadata, so every part is checked.
    for pair in pairs if isinstance(pairs, list) else ():
        if isinstance(pair, list) and len(pair) == 2 and all(isinstance(each, str) for each in pair):
            yield pair[0], pair[1]


def _columns(spark_schema: s.StructType) -> list[list[str]]:
    return [[field.name, field.dataType.simpleString()] for field in spark_schema.fields]


def _find_annotation(field: s.StructField, key: str) -> Mapping[str, Any] | None:
    """Return an annotation of a column; None without it, or if a user has replaced it by another value."""
    value = _value_in(field, key)
    return value if isinstance(value, dict) else None


def _value_in(field: s.StructField, key: str) -> Any:
    text = (field.metadata or {}).get(key)
    return parse_value({text}, None) if isinstance(text, str) else None


# --- huggingface: {"info": {"features": {"label": {"_type": "ClassLabel", "names": [...]}}}}
#
# Features are the names of a ClassLabel, a struct of bytes and a path that is an image, the languages of a translation.
# Those that `datasets` infers from the Arrow type (`Value`, `List`) are left out. It ignores a feature whose type the column
# does not have, so a column may be written as another type. A feature may be a list in older releases, so it is not in
# `PARTS`, whose values are objects.

FEATURE_KEY: Final = f"{OWN_PREFIX}huggingface"
"""Key in the metadata of a Spark column: its feature, as JSON in a string, because Spark's metadata cannot nest lists."""

_LISTS: Final = frozenset({"List", "LargeList"})


def split_features(pairs: t.CustomMetadata) -> Mapping[str, str]:
    """Return the features of columns that their Arrow types do not imply; nothing if two pairs disagree."""
    value = parse_pair({value for key, value in pairs if key == METADATA_KEY}, METADATA_KEY)
    info = None if value is None else value.get("info")
    features = info.get("features") if isinstance(info, dict) else None
    if not isinstance(features, dict):
        return {}
    return {name: to_text(feature) for name, feature in features.items() if not _is_inferred(feature)}


def feature_pairs(schema: s.StructType) -> t.CustomMetadata:
    """Return the pair of a file's schema for the columns that have a feature; nothing without any."""
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
"""Keys that are passed in another way: by features, and by `spark_annotation`."""

KEYS: Final = frozenset(PARTS)
"""Keys of the pairs that are split by columns."""

ANNOTATION_KEYS: Final = (FEATURE_KEY, OTHERS_KEY, *map(annotation_key, PARTS))
"""Keys in the metadata of a Spark column; files whose values differ are merged without them."""
