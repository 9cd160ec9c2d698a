"""Pairs of a file's schema through Spark: what HuggingFace, pandas, GeoPandas, R and users say of a whole table.

A Spark schema has metadata for columns alone. So what a pair says of one column is noted at that column, and what is written
has the pair again, of the columns that still have their note: `_PARTS` has the keys whose parts are known. Of all other
keys nobody here knows which columns they speak of. They are noted together at the first column, with the names and types of
all columns, and come back where those are the same: a pair that no longer fits is left out.

Nothing that is kept says more than is true of the rows that are written, which may be others, in another order: pandas'
index of a range of numbers and the bounds and kinds of geometries are left out, and what pandas' note says of a type that is
written as another one.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import types as s

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.bounded_json import parse_json
from spark_arrow_ipc.dataset.listing.hugging_face import METADATA_KEY
from spark_arrow_ipc.errors import printable
from spark_arrow_ipc.spark.types import spark_note
from spark_arrow_ipc.spark.types.field_metadata import OWN_PREFIX

_LOG: Final = logging.getLogger(__name__)

_MOST_MEMORY: Final = 64 << 20
"""Bytes that a parsed pair may take."""

_MOST_TEXT: Final = 1 << 20
"""Characters of the pairs that are noted whole: Spark sends its schemas to every task."""

_MOST_REST: Final = 4096
"""Characters of what a pair says of no column, which is noted at each: a file may be made to be many times its size there."""

OTHERS_KEY: Final = f"{OWN_PREFIX}schema_metadata"
"""Key in the metadata of the first column: the pairs of no known parts, with the columns that they were read with."""


@dataclass(frozen=True, slots=True)
class Parts:
    """How a pair is taken apart by columns, and put together.

    Parameters
    ----------
    split
        Returns what a parsed pair says of the columns, by their names.
    join
        Returns the value of the pair for the written fields and what they note; None if nothing is left to say.
    """

    split: Callable[[Mapping[str, Any], Mapping[str, t.DataType]], Mapping[str, Mapping[str, Any]]]
    join: Callable[[Sequence[tuple[t.Field, Mapping[str, Any]]]], Mapping[str, Any] | None]


def with_pairs(spark_schema: s.StructType, arrow_schema: Schema) -> s.StructType:
    """Return a Spark schema whose columns note what the pairs of a file's schema say."""
    pairs = arrow_schema.custom_metadata
    if not pairs:
        return spark_schema
    types = {field.name: field.type for field in arrow_schema.fields}
    notes = {column: {FEATURE_KEY: note} for column, note in noted_features(pairs).items()}
    for key, parts in _PARTS.items():
        parsed = _parsed({value for name, value in pairs if name == key}, key)
        for column, part in (parts.split(parsed, types) if parsed is not None else {}).items():
            notes.setdefault(column, {})[note_key(key)] = _text(part)
    others = [pair for pair in pairs if pair[0] not in _PARTS and pair[0] not in _NOT_KEPT]
    if others and spark_schema.fields:
        text = _text({"pairs": others, "columns": _columns(spark_schema)})
        if len(text) <= _MOST_TEXT:
            notes.setdefault(spark_schema.names[0], {})[OTHERS_KEY] = text
        else:
            _LOG.warning("the schema's metadata have %s characters, and are not kept beyond %s", len(text), _MOST_TEXT)
    if not notes:
        return spark_schema
    return s.StructType([_with(field, notes.get(field.name)) for field in spark_schema.fields])


def noted_pairs(spark_schema: s.StructType, fields: Sequence[t.Field]) -> t.CustomMetadata:
    """Return the pairs for the schema of the files of these columns, by what they note; `fields` are the written ones."""
    made: list[tuple[str, str]] = list(_other_pairs(spark_schema))
    for key, parts in _PARTS.items():
        noted = [
            (field, note)
            for column, field in zip(spark_schema.fields, fields, strict=True)
            if (note := _note_in(column, note_key(key))) is not None
        ]
        value = parts.join(noted) if noted else None
        if value is not None:
            made.append((key, _text(value)))
    return (*made, *feature_pairs(spark_schema))


def note_key(key: str) -> str:
    """Return the key in the metadata of a Spark column under which its part of a pair is noted."""
    return f"{OWN_PREFIX}{key}"


def _other_pairs(spark_schema: s.StructType) -> Iterable[tuple[str, str]]:
    note = _note_in(spark_schema.fields[0], OTHERS_KEY) if spark_schema.fields else None
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


def _note_in(field: s.StructField, key: str) -> Mapping[str, Any] | None:
    """Return what a column notes; None without it, or where a user has made something else of it."""
    value = _value_in(field, key)
    return value if isinstance(value, dict) else None


def _value_in(field: s.StructField, key: str) -> Any:
    note = (field.metadata or {}).get(key)
    return _value({note}, None) if isinstance(note, str) else None


def _parsed(values: set[str], key: str | None) -> Mapping[str, Any] | None:
    """Return the one value as a JSON object; None if it is none, or if there are several. `key` is for the warning."""
    value = _value(values, key)
    return value if isinstance(value, dict) else None


def _value(values: set[str], key: str | None) -> Any:
    if len(values) != 1:
        return None
    try:
        return parse_json(values.pop(), most_memory=_MOST_MEMORY)
    except ValueError as error:
        if key is not None:
            _LOG.warning("the schema's metadata %s are ignored: %s", key, printable(str(error)[:200]))
        return None


def _text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _rest(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a pair says of no column, unless it is large."""
    return value if len(_text(value)) <= _MOST_REST else {}


def _objects(value: object) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


# --- huggingface: {"info": {"features": {"label": {"_type": "ClassLabel", "names": [...]}}}}
#
# The names of a ClassLabel, that a struct of bytes and a path is an image, which languages a translation has. What `datasets`
# infers from the Arrow type itself (`Value`, `List`) is not noted. It believes a feature only where the column has the
# feature's own type, and infers another one elsewhere; so a column that is written with another type tells no lie. A feature
# is a list in older releases, and so not among `_PARTS`.

FEATURE_KEY: Final = f"{OWN_PREFIX}huggingface"
"""Key in the metadata of a Spark column: its feature, as JSON in a string, which Spark's metadata cannot hold otherwise."""

_LISTS: Final = frozenset({"List", "LargeList"})


def noted_features(pairs: t.CustomMetadata) -> Mapping[str, str]:
    """Return the notes of the columns that have a feature which their Arrow types do not say; nothing if two pairs disagree."""
    value = _parsed({value for key, value in pairs if key == METADATA_KEY}, METADATA_KEY)
    info = None if value is None else value.get("info")
    features = info.get("features") if isinstance(info, dict) else None
    if not isinstance(features, dict):
        return {}
    return {name: _text(feature) for name, feature in features.items() if not _is_inferred(feature)}


def feature_pairs(schema: s.StructType) -> t.CustomMetadata:
    """Return the pair of a file's schema for the columns that note a feature; nothing without any."""
    values = {field.name: _value_in(field, FEATURE_KEY) for field in schema.fields}
    noted = {name: feature for name, feature in values.items() if isinstance(feature, dict | list)}
    return ((METADATA_KEY, _text({"info": {"features": noted}})),) if noted else ()


def _is_inferred(feature: Any) -> bool:
    """Return whether `datasets` infers a feature from the Arrow type of its column."""
    if not isinstance(feature, dict):
        return False
    kind = feature.get("_type")
    if isinstance(kind, str):
        return kind == "Value" or (kind in _LISTS and _is_inferred(feature.get("feature")))
    return all(map(_is_inferred, feature.values()))


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


def _join_pandas(noted: Sequence[tuple[t.Field, Mapping[str, Any]]]) -> Mapping[str, Any] | None:
    entries, levels = [], []
    for field, note in noted:
        entry = note.get("entry")
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
    rest = noted[0][1].get("rest")
    levels.sort()
    return {
        "column_indexes": [],
        **(rest if isinstance(rest, dict) else {}),
        "index_columns": [name for _, name in levels],
        "columns": entries,
    }


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


def _join_geo(noted: Sequence[tuple[t.Field, Mapping[str, Any]]]) -> Mapping[str, Any] | None:
    columns, primary = {}, None
    for field, note in noted:
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
    rest = noted[0][1].get("rest")
    return {
        **(rest if isinstance(rest, dict) else {}),
        "primary_column": primary if primary is not None else next(iter(columns)),
        "columns": columns,
    }


_PARTS: Final[Mapping[str, Parts]] = {
    "pandas": Parts(_split_pandas, _join_pandas),
    "geo": Parts(_split_geo, _join_geo),
}
"""By key: the pairs that are kept by columns, beside HuggingFace's features."""

_NOT_KEPT: Final = frozenset({METADATA_KEY, spark_note.KEY})
"""Keys that are kept otherwise: by features, and by `spark_note`."""

KEYS: Final = frozenset(_PARTS)
"""Keys of the pairs that are kept by columns."""

NOTE_KEYS: Final = (FEATURE_KEY, OTHERS_KEY, *map(note_key, _PARTS))
"""Keys in the metadata of a Spark column; files that disagree about one merge without it."""
