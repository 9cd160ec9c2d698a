"""Convert custom metadata of Arrow fields to metadata of Spark fields and back.

Strategy
--------
Spark interprets some metadata keys (``spark.watermarkDelayMs`` breaks a view, ``CURRENT_DEFAULT`` changes rows), so
a file's keys never become Spark keys: only ``ARROW:*`` stays flat, because its names are Arrow's own, and all other
pairs are in one array, in order. `TYPE_KEY` notes the Arrow type of a column if writing the Spark column would give
another one, and of every extension type: its name is restored only on the same storage type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.spark.types.noted_types import is_storage_of, note_of, storage

PAIRS_KEY = "arrow.custom_metadata"
"""Array of {key, value}: all pairs that are not Arrow's own, in file order."""

TYPE_KEY = "arrow.type"
"""The noted Arrow type of a column, as `noted_types.note_of` makes it."""

ARROW_PREFIX = "ARROW:"
EXTENSION_NAME = "ARROW:extension:name"
EXTENSION_METADATA = "ARROW:extension:metadata"


def to_spark(field: t.Field, written: t.DataType) -> dict[str, Any]:
    """Return the metadata of a Spark field for an Arrow field.

    Parameters
    ----------
    field
        The field in the file.
    written
        The Arrow type that writing the Spark column gives.
    """
    metadata: dict[str, Any] = {key: value for key, value in field.custom_metadata if key.startswith(ARROW_PREFIX)}
    others = [{"key": k, "value": v} for k, v in field.custom_metadata if not k.startswith(ARROW_PREFIX)]
    if others:
        metadata[PAIRS_KEY] = others
    if field.extension_name is not None or storage(field.type) != storage(written):
        metadata[TYPE_KEY] = note_of(field.type)
    return metadata


def from_spark(metadata: Mapping[str, Any], written: t.DataType) -> t.CustomMetadata:
    """Return the custom metadata of an Arrow field for a Spark field, without Spark's keys.

    An extension's name and metadata are restored only if `written` is the noted storage type.
    """
    pairs = [(k, v) for k, v in metadata.items() if k.startswith(ARROW_PREFIX) and isinstance(v, str)]
    if not is_storage_of(written, metadata.get(TYPE_KEY)):
        pairs = [pair for pair in pairs if pair[0] not in (EXTENSION_NAME, EXTENSION_METADATA)]
    return (*pairs, *_listed_pairs(metadata.get(PAIRS_KEY)))


def _listed_pairs(value: object) -> t.CustomMetadata:
    """Return the pairs of `PAIRS_KEY`; malformed ones, which a user may have edited, are skipped."""
    if not isinstance(value, list):
        return ()
    pairs = [(pair.get("key"), pair.get("value")) for pair in value if isinstance(pair, dict)]
    return tuple((k, v) for k, v in pairs if isinstance(k, str) and isinstance(v, str))
