"""Split the metadata pairs of pandas and GeoPandas, which describe columns of a table, and join them for other columns.

A pair that is copied to a file of other rows or columns may be wrong: pandas would take an index of a range of numbers for
the index of the rows that a filter left. So a pair is split by columns, and joined for the columns that are written, without
the parts that may be untrue of other rows: an index of a range of numbers, and the bounds and kinds of geometries.
`fit_pairs` does both at once; Spark, which has metadata only of columns, carries the parts in between
(``spark/types/schema_pairs.py``).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.bounded_json import parse_json
from spark_arrow_ipc.errors import printable

_LOG: Final = logging.getLogger(__name__)

_MOST_MEMORY: Final = 64 << 20
"""Bytes that a parsed pair may take."""

_MOST_REST: Final = 4096
"""Characters of the part of a pair that belongs to no column. It is repeated at each column, so a file must not choose its size."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Two functions that split a pair of a schema's metadata by columns, and join it again."""

    # returns the annotation of each column from a parsed pair
    split: Callable[[Mapping[str, Any], Mapping[str, t.DataType]], Mapping[str, Mapping[str, Any]]]
    # returns the value of the pair for all written fields and their annotations, empty for a field without one; None if no
    # field has one
    join: Callable[[Sequence[tuple[t.Field, Mapping[str, Any]]]], Mapping[str, Any] | None]


def fit_pairs(schema: Schema) -> Schema:
    """Return a schema with the pairs that fit files of its columns and any rows."""
    types = {field.name: field.type for field in schema.fields}
    pairs = [pair for pair in schema.custom_metadata if pair[0] not in PARTS]
    for key, parts in PARTS.items():
        parsed = parse_pair({value for name, value in schema.custom_metadata if name == key}, key)
        annotations = {} if parsed is None else parts.split(parsed, types)
        joined = parts.join([(field, annotations.get(field.name, {})) for field in schema.fields])
        if joined is not None:
            pairs.append((key, to_text(joined)))
    return Schema(schema.fields, tuple(pairs), schema.endianness)


def parse_pair(values: set[str], key: str | None) -> Mapping[str, Any] | None:
    """Return the only value as a JSON object, or None for several values and other JSON; warn of broken JSON under `key`."""
    value = parse_value(values, key)
    return value if isinstance(value, dict) else None


def parse_value(values: set[str], key: str | None) -> Any:
    """Return the only value as parsed JSON, or None for several values and broken JSON."""
    if len(values) != 1:
        return None
    try:
        return parse_json(values.pop(), most_memory=_MOST_MEMORY)
    except ValueError as error:
        if key is not None:
            _LOG.warning("the schema's metadata %s are ignored: %s", key, printable(str(error)[:200]))
        return None


def to_text(value: object) -> str:
    """Return a value as short JSON."""
    return json.dumps(value, separators=(",", ":"))


def _rest(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the part of a pair that belongs to no column, or nothing if it is large."""
    return value if len(to_text(value)) <= _MOST_REST else {}


def _rest_of_annotations(annotations: Sequence[tuple[t.Field, Mapping[str, Any]]]) -> Mapping[str, Any]:
    """Return the part of a pair that belongs to no column, from the first column with an annotation."""
    rest = next((annotation.get("rest") for _, annotation in annotations if annotation), None)
    return rest if isinstance(rest, dict) else {}


def _objects(value: object) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


# --- pandas: {"index_columns": ["i"], "columns": [{"name": ..., "field_name": ..., "pandas_type": ...}], ...}


def _split_pandas(value: Mapping[str, Any], types: Mapping[str, t.DataType]) -> Mapping[str, Mapping[str, Any]]:
    index = value.get("index_columns")
    levels = {name: i for i, name in enumerate(index if isinstance(index, list) else ()) if isinstance(name, str)}
    rest = _rest({key: value[key] for key in ("column_indexes", "creator", "pandas_version") if key in value})
    annotations = {}
    for entry in _objects(value.get("columns")):
        name = entry.get("field_name", entry.get("name"))
        if isinstance(name, str) and name in types:
            annotations[name] = {
                "entry": entry,
                "name": name,
                "type": str(types[name]),
                "level": levels.get(name),
                "rest": rest,
            }
    return annotations


def _join_pandas(annotations: Sequence[tuple[t.Field, Mapping[str, Any]]]) -> Mapping[str, Any] | None:
    entries, levels, are_old_names = [], [], True
    for field, annotation in annotations:
        entry = annotation.get("entry")
        are_old_names = are_old_names and isinstance(entry, dict) and annotation.get("name") == field.name
        if not isinstance(entry, dict):
            continue
        if annotation.get("type") != str(field.type):  # pandas would convert the column to its former type
            entry = {**entry, "pandas_type": "object", "numpy_type": "object", "metadata": None}
        if annotation.get("name") != field.name:
            entry = {**entry, "name": field.name}
        entries.append({**entry, "field_name": field.name})
        if type(annotation.get("level")) is int:
            levels.append((annotation["level"], field.name))
    if not entries:
        return None
    levels.sort()
    joined = {
        "column_indexes": [],
        **_rest_of_annotations(annotations),
        "index_columns": [name for _, name in levels],
        "columns": entries,
    }
    names = _objects(joined["column_indexes"])
    if not are_old_names and (len(names) != 1 or names[0].get("pandas_type") != "unicode"):
        joined["column_indexes"] = []  # pandas would parse the new names as numbers, times or levels
    return joined


# --- geo: {"primary_column": "g", "columns": {"g": {"encoding": "WKB", "crs": ..., "bbox": ...}}, "version": ...}

_BYTES: Final = (t.Binary, t.LargeBinary, t.BinaryView)


def _split_geo(value: Mapping[str, Any], types: Mapping[str, t.DataType]) -> Mapping[str, Mapping[str, Any]]:
    columns = value.get("columns")
    rest = _rest({key: each for key, each in value.items() if key not in ("columns", "primary_column")})
    return {
        name: {
            "entry": entry,
            "type": str(types[name]),
            "primary": value.get("primary_column") == name,
            "rest": rest,
        }
        for name, entry in (columns if isinstance(columns, dict) else {}).items()
        if isinstance(entry, dict) and name in types
    }  # fmt: skip


def _join_geo(annotations: Sequence[tuple[t.Field, Mapping[str, Any]]]) -> Mapping[str, Any] | None:
    columns, primary = {}, None
    for field, annotation in annotations:
        entry = annotation.get("entry")
        if not isinstance(entry, dict):
            continue
        is_wkb = entry.get("encoding") == "WKB" and isinstance(field.type, _BYTES)
        if annotation.get("type") != str(field.type) and not is_wkb:  # WKB is the same bytes in each binary type
            continue
        # The bounds are of the old rows.
        entry = {key: each for key, each in entry.items() if key not in ("bbox", "covering")}
        if "geometry_types" in entry:
            entry["geometry_types"] = []  # unknown, by the GeoParquet specification
        columns[field.name] = entry
        if annotation.get("primary") is True and primary is None:
            primary = field.name
    if not columns:
        return None
    return {
        **_rest_of_annotations(annotations),
        "primary_column": primary if primary is not None else next(iter(columns)),
        "columns": columns,
    }


PARTS: Final[Mapping[str, Parts]] = {
    "pandas": Parts(_split_pandas, _join_pandas),
    "geo": Parts(_split_geo, _join_geo),
}
"""By key: the pairs that describe columns."""
