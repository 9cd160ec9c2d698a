"""Fields of a schema as a table for people and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.cli.shared import render


def describe_fields(fields: Sequence[t.Field]) -> Iterator[str]:
    """Yield the lines of a table of fields."""
    rows = [
        (str(i), render.cut(f.name), render.cut(str(f.type), 200), "yes" if f.nullable else "no")
        for i, f in enumerate(fields)
    ]
    yield from render.table(("#", "name", "type", "nullable"), rows, render.RIGHT)


def field_json(field: t.Field) -> dict[str, Any]:
    """Convert a field and its children for `json.dumps`."""
    # The children of a dictionary-encoded field are those of its values.
    type_ = field.type.value if isinstance(field.type, t.Dictionary) else field.type
    return {
        "name": field.name,
        "type": str(field.type),
        "nullable": field.nullable,
        "custom_metadata": pairs_json(field.custom_metadata),
        "children": [field_json(child) for child in type_.children],
    }


def pairs_json(pairs: t.CustomMetadata) -> list[dict[str, str]]:
    """Convert custom metadata for `json.dumps`."""
    # A list and not an object: a key may occur twice, and the order is the file's.
    return [{"key": key, "value": value} for key, value in pairs]
