"""Pairs of a schema that speak of columns: what pandas and GeoPandas say of a table, taken apart and put together.

A pair that is copied to a file of other rows or columns may lie: pandas takes an index of a range of numbers for that of
the rows which a filter left. So it is taken apart by columns, and put together for those that are written, without what is
not known to be true of other rows: an index of a range of numbers, and the bounds and kinds of geometries. `fit_pairs` does
both at once; Spark, which keeps metadata of columns alone, carries the parts in between (``spark/types/schema_pairs.py``).
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
"""Characters of what a pair says of no column, which is noted at each: a file may be made to be many times its size there."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Two functions that take a pair of a schema's metadata apart by columns, and put it together."""

    # Returns what a parsed pair says of the columns, by their names.
    split: Callable[[Mapping[str, Any], Mapping[str, t.DataType]], Mapping[str, Mapping[str, Any]]]
    # Returns the value of the pair for all written fields and what they note, empty for a field without a note; None if
    # nothing is left to say.
    join: Callable[[Sequence[tuple[t.Field, Mapping[str, Any]]]], Mapping[str, Any] | None]


def fit_pairs(schema: Schema) -> Schema:
    """Return a schema with the pairs that fit files of other rows, and of no other columns than those that it has."""
    types = {field.name: field.type for field in schema.fields}
    pairs = [pair for pair in schema.custom_metadata if pair[0] not in PARTS]
    for key, parts in PARTS.items():
        parsed = parse_pair({value for name, value in schema.custom_metadata if name == key}, key)
        notes = {} if parsed is None else parts.split(parsed, types)
        joined = parts.join([(field, notes.get(field.name, {})) for field in schema.fields])
        if joined is not None:
            pairs.append((key, to_text(joined)))
    return Schema(schema.fields, tuple(pairs), schema.endianness)


def parse_pair(values: set[str], key: str | None) -> Mapping[str, Any] | None:
    """Return the one value as a JSON object; None if it is none, or if there are several. `key` is for the warning."""
    value = parse_value(values, key)
    return value if isinstance(value, dict) else None


def parse_value(values: set[str], key: str | None) -> Any:
    """Return the one value as JSON; None if it is none, or if there are several."""
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
    """Return what a pair says of no column, unless it is large."""
    return value if len(to_text(value)) <= _MOST_REST else {}


def _rest_of_annotations(annotations: Sequence[tuple[t.Field, Mapping[str, Any]]]) -> Mapping[str, Any]:
    """Return what the first column with a note notes of no column."""
    rest = next((note.get("rest") for _, note in annotations if note), None)
    return rest if isinstance(rest, dict) else {}


def _objects(value: object) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


# --- pandas: {"index_columns": ["i"], "columns": [{"name": ..., "field_name": ..., "pandas_type": ...}], ...}


def _split_pandas(value: Mapping[str, Any], types: Mapping[str, t.DataType]) -> Mapping[str, Mapping[str, Any]]:
    index = value.get("index_columns")
    levels = {name: i for i, name in enumerate(index if isinstance(index, list) else ()) if isinstance(name, str)}
    rest = _rest({key: value[key] for key in ("column_indexes", "creator", "pandas_version") if key in value})
    notes = {}
    for entry in _objects(value.get("columns")):
        name = entry.get("field_name", entry.get("name"))
        if isinstance(name, str) and name in types:
            notes[name] = {
                "entry": entry,
                "name": name,
                "type": str(types[name]),
                "level": levels.get(name),
                "rest": rest,
            }
    return notes


def _join_pandas(annotations: Sequence[tuple[t.Field, Mapping[str, Any]]]) -> Mapping[str, Any] | None:
    entries, levels, are_old_names = [], [], True
    for field, note in annotations:
        entry = note.get("entry")
        are_old_names = are_old_names and isinstance(entry, dict) and note.get("name") == field.name
        if not isinstance(entry, dict):
            continue
        if note.get("type") != str(field.type):  # what pandas would make of it is that of another type
            entry = {**entry, "pandas_type": "object", "numpy_type": "object", "metadata": None}
        if note.get("name") != field.name:
            entry = {**entry, "name": field.name}
        entries.append({**entry, "field_name": field.name})
        if type(note.get("level")) is int:
            levels.append((note["level"], field.name))
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
        joined["column_indexes"] = []  # pandas would make numbers, times or levels of names that are none
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
    for field, note in annotations:
        entry = note.get("entry")
        if not isinstance(entry, dict):
            continue
        if note.get("type") != str(field.type) and not (
            entry.get("encoding") == "WKB" and isinstance(field.type, _BYTES)
        ):
            continue
        entry = {key: each for key, each in entry.items() if key not in ("bbox", "covering")}
        if "geometry_types" in entry:
            entry["geometry_types"] = []  # which says that they are not known
        columns[field.name] = entry
        if note.get("primary") is True and primary is None:
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
"""By key: the pairs that are known to speak of columns."""
