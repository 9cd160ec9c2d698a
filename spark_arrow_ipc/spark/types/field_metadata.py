"""How Arrow's key-value pairs travel in the metadata of a Spark field, and come back.

Strategy
--------
Spark interprets some metadata keys (``spark.watermarkDelayMs`` breaks a view, ``CURRENT_DEFAULT`` changes rows), so
a file's keys never become Spark keys: only ``ARROW:*`` stays flat, because its names are Arrow's own, and all other
pairs stand in order in one array. `TYPE_KEY` notes the Arrow type of a column where writing the Spark column would
give another one, and of every extension type: its name may come back only on the storage that it names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.spark.types.noted_types import is_storage_of, note_of, storage

PAIRS_KEY = "arrow.custom_metadata"
"""Array of {key, value}: all pairs that are not Arrow's own, in file order."""

TYPE_KEY = "arrow.type"
"""Note of the Arrow type that was read: `noted_types.note_of`."""

ARROW_PREFIX = "ARROW:"
EXTENSION_NAME = "ARROW:extension:name"
EXTENSION_METADATA = "ARROW:extension:metadata"


def to_spark(field: t.Field, written: t.DataType) -> dict[str, Any]:
    """Return the metadata of a Spark field for an Arrow field.

    Parameters
    ----------
    field
        The field as it stands in the file.
    written
        The Arrow type that writing the Spark column would give.
    """
    metadata: dict[str, Any] = {key: value for key, value in field.custom_metadata if key.startswith(ARROW_PREFIX)}
    others = [{"key": k, "value": v} for k, v in field.custom_metadata if not k.startswith(ARROW_PREFIX)]
    if others:
        metadata[PAIRS_KEY] = others
    if field.extension_name is not None or storage(field.type) != storage(written):
        metadata[TYPE_KEY] = note_of(field.type)
    return metadata


def from_spark(metadata: Mapping[str, Any], written: t.DataType) -> t.CustomMetadata:
    """Return the pairs of an Arrow field for the metadata of a Spark field; Spark's own keys stay behind.

    An extension's name and metadata come back only where `written` is the storage that they name.
    """
    pairs = [(k, v) for k, v in metadata.items() if k.startswith(ARROW_PREFIX) and isinstance(v, str)]
    if not is_storage_of(written, metadata.get(TYPE_KEY)):
        pairs = [pair for pair in pairs if pair[0] not in (EXTENSION_NAME, EXTENSION_METADATA)]
    return (*pairs, *_listed_pairs(metadata.get(PAIRS_KEY)))


def _listed_pairs(value: object) -> t.CustomMetadata:
    """Return the pairs of `PAIRS_KEY`; a user may have edited them, so all of another shape is left out."""
    if not isinstance(value, list):
        return ()
    pairs = [(pair.get("key"), pair.get("value")) for pair in value if isinstance(pair, dict)]
    return tuple((k, v) for k, v in pairs if isinstance(k, str) and isinstance(v, str))
