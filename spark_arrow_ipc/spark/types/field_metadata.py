"""Convert custom metadata of Arrow fields to metadata of Spark fields and back.

Strategy
--------
Spark interprets some metadata keys (``spark.watermarkDelayMs`` breaks a view, ``CURRENT_DEFAULT`` changes rows), so
a file's keys never become Spark keys: only ``ARROW:*`` stays flat, because its names are Arrow's own, and all other
pairs are in one array, in order. A value of bytes that are not UTF-8 cannot be in Spark's metadata, which is JSON: its
pair is in the array as well, in base64. `TYPE_KEY` notes the Arrow type of a column if writing the Spark column would give
another one, and of every extension type: its name is restored only on the same storage type.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.spark.types.noted_types import is_storage_of, note_of, storage

PAIRS_KEY = "arrow.custom_metadata"
"""Array of {key, value}: all pairs that are not Arrow's own, in file order; {key, base64} for values that are not UTF-8."""

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
    metadata: dict[str, Any] = {}
    others = []
    for key, value in field.custom_metadata:
        if not _is_utf8(value):
            others.append({"key": key, "base64": b64encode(t.value_bytes(value)).decode()})
        elif key.startswith(ARROW_PREFIX):
            metadata[key] = value
        else:
            others.append({"key": key, "value": value})
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
    pairs += _listed_pairs(metadata.get(PAIRS_KEY))
    if not is_storage_of(written, metadata.get(TYPE_KEY)):
        pairs = [pair for pair in pairs if pair[0] not in (EXTENSION_NAME, EXTENSION_METADATA)]
    return tuple(pairs)


def _is_utf8(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _listed_pairs(value: object) -> Iterator[tuple[str, str]]:
    """Yield the pairs of `PAIRS_KEY`; malformed ones, which a user may have edited, are skipped."""
    for pair in value if isinstance(value, list) else ():
        if not isinstance(pair, dict) or not isinstance(pair.get("key"), str):
            continue
        text, encoded = pair.get("value"), pair.get("base64")
        if isinstance(text, str):
            yield pair["key"], text
        elif isinstance(encoded, str):
            with suppress(ValueError):
                yield from t.pairs([(pair["key"], b64decode(encoded, validate=True))])
