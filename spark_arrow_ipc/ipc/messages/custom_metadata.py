"""Custom metadata: pairs of a string and a value of any bytes in ``KeyValue`` tables."""

from __future__ import annotations

from spark_arrow_ipc.arrow.types import CustomMetadata
from spark_arrow_ipc.ipc.flatbuf import reader


def decode_custom_metadata(view: reader.TableView) -> CustomMetadata:
    """Return the ``custom_metadata`` of a table in order; a missing key or value is an empty string."""
    if not view.has("custom_metadata"):
        return ()
    return tuple((pair.string("key") or "", pair.string("value") or "") for pair in view.tables("custom_metadata"))


def encode_custom_metadata(pairs: CustomMetadata) -> list[dict[str, str]] | None:
    """Return pairs as values of ``KeyValue`` tables, or None if there are none."""
    return [{"key": key, "value": value} for key, value in pairs] or None
