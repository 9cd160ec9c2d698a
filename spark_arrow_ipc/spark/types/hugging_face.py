"""Features of HuggingFace's `datasets`: what a file's schema says of columns beyond their Arrow types.

Files of `datasets` have them in the schema's pair `METADATA_KEY`, as JSON by the names of columns, ``{"info": {"features": {"label": {"_type": "ClassLabel"}}}}``: the names of a ClassLabel, that a
struct of bytes and a path is an image, which languages a translation has. A Spark schema has metadata for columns alone, so
each feature is noted at its column, and what is written has the pair again, for the columns that still have their note.

What `datasets` infers from the Arrow type itself (`Value`, `List`) is not noted. It believes a feature only where the column
has the feature's own type, and infers another one elsewhere; so a column that is written with another type tells no lie.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import types as s

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.bounded_json import parse_json
from spark_arrow_ipc.dataset.listing.hugging_face import METADATA_KEY
from spark_arrow_ipc.errors import printable
from spark_arrow_ipc.spark.types.field_metadata import OWN_PREFIX

_LOG: Final = logging.getLogger(__name__)

FEATURE_KEY: Final = f"{OWN_PREFIX}huggingface"
"""Key in the metadata of a Spark column: its feature, as JSON in a string, which Spark's metadata cannot hold otherwise."""

_MOST_MEMORY: Final = 64 << 20
"""Bytes that parsed features may take."""

_LISTS: Final = frozenset({"List", "LargeList"})


def noted_features(pairs: t.CustomMetadata) -> Mapping[str, str]:
    """Return the notes of the columns that have a feature which their Arrow types do not say; nothing if two pairs disagree."""
    values = {value for key, value in pairs if key == METADATA_KEY}
    if len(values) != 1:
        return {}
    try:
        value = parse_json(values.pop(), most_memory=_MOST_MEMORY)
    except ValueError as error:
        _LOG.warning(
            "the features in the schema's metadata %s are ignored: %s", METADATA_KEY, printable(str(error)[:200])
        )
        return {}
    info = value.get("info") if isinstance(value, dict) else None
    features = info.get("features") if isinstance(info, dict) else None
    if not isinstance(features, dict):
        return {}
    return {name: _text(feature) for name, feature in features.items() if not _is_inferred(feature)}


def with_features(schema: s.StructType, pairs: t.CustomMetadata) -> s.StructType:
    """Return a Spark schema whose columns note the features that the pairs of a file's schema give them."""
    notes = noted_features(pairs)
    if not notes:
        return schema
    return s.StructType([_noting(field, notes.get(field.name)) for field in schema.fields])


def feature_pairs(schema: s.StructType) -> t.CustomMetadata:
    """Return the pair of a file's schema for the columns that note a feature; nothing without any."""
    noted = {field.name: feature for field in schema.fields if (feature := _feature_of(field)) is not None}
    return ((METADATA_KEY, _text({"info": {"features": noted}})),) if noted else ()


def _noting(field: s.StructField, note: str | None) -> s.StructField:
    if note is None:
        return field
    return s.StructField(field.name, field.dataType, field.nullable, {**field.metadata, FEATURE_KEY: note})


def _feature_of(field: s.StructField) -> object:
    """Return the feature that a column notes; None without one, or where a user has made something else of it."""
    note = (field.metadata or {}).get(FEATURE_KEY)
    if not isinstance(note, str):
        return None
    try:
        feature = parse_json(note, most_memory=_MOST_MEMORY)
    except ValueError:
        return None
    return feature if isinstance(feature, dict | list) else None


def _is_inferred(feature: Any) -> bool:
    """Return whether `datasets` infers a feature from the Arrow type of its column."""
    if not isinstance(feature, dict):
        return False
    kind = feature.get("_type")
    if isinstance(kind, str):
        return kind == "Value" or (kind in _LISTS and _is_inferred(feature.get("feature")))
    return all(map(_is_inferred, feature.values()))


def _text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
