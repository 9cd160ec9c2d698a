"""HTML of schemas and record batches for notebooks: small whatever they hold, and escaped whatever they are called.

Names, types and values come from files, so nothing of them is believed: all is escaped, characters that change the
direction of text or do not print are shown as escapes, and what is long or large is cut before it is turned into text.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from spark_arrow_ipc.arrow.array_data import ArrayData
from spark_arrow_ipc.arrow.measure import measure
from spark_arrow_ipc.arrow.python_values.to_text import to_text
from spark_arrow_ipc.arrow.types import CustomMetadata, DataType, Dictionary, Field
from spark_arrow_ipc.errors import ArrowIpcError, printable

_ROWS: Final = 10
_COLUMNS: Final = 20
"""Columns of a batch that are shown, from the first on."""
_FIELDS: Final = 100
"""Fields of a schema that are shown, nested ones counted."""
_PAIRS: Final = 10
_DEPTH: Final = 6
_CHARACTERS: Final = 60
_TITLE_CHARACTERS: Final = 500
_VALUE_NBYTES: Final = 10_000
"""A value that takes more memory, counted with 8 bytes for each slot, is not turned into text."""


_UNSOUND: Final = (ArrowIpcError, ValueError, IndexError, OverflowError)
"""The errors of values that were not checked."""


def schema_html(fields: Sequence[Field], custom_metadata: CustomMetadata = ()) -> str:
    """Return the fields of a schema as a table, nested ones below their parents."""
    rows: list[str] = []
    for number, field in enumerate(fields):
        if len(rows) >= _FIELDS:
            rows.append(_left_out(len(fields) - number, "column", 4))
            break
        _add_field(field, str(number), 0, rows)
    return _table(("#", "name", "type", "nullable"), rows) + _pairs(custom_metadata)


def reader_html(title: str, fields: Sequence[Field], custom_metadata: CustomMetadata) -> str:
    """Return the title of a reader, and its schema as a table."""
    return f"<p>{_cut(title, _TITLE_CHARACTERS)}</p>{schema_html(fields, custom_metadata)}"


def batch_html(fields: Sequence[Field], columns: Sequence[ArrayData], num_rows: int) -> str:
    """Return the first rows of a record batch as a table. Decodes no other columns than it shows."""
    shown = min(len(fields), _COLUMNS)
    rows = min(num_rows, _ROWS)
    cells = [_cells(columns[i].slice(0, rows)) for i in range(shown)]
    heads = [f"{_cut(field.name)}<br><small>{_cut(_brief(field.type))}</small>" for field in fields[:shown]]
    more = [f"and {len(fields) - shown:,} more"] if len(fields) > shown else []
    body = ["<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in zip(*cells, strict=True)]
    if num_rows > rows:
        body.append(_left_out(num_rows - rows, "row", shown + len(more)))
    return f"<p>{_count(num_rows, 'row')} of {_count(len(fields), 'column')}</p>{_table((*heads, *more), body)}"


def _add_field(field: Field, number: str, depth: int, rows: list[str]) -> None:
    note = f" ({_cut(field.extension_name)})" if field.extension_name else ""
    indent = f' style="padding-left: {2 * depth + 1}em; text-align: left"'
    nullable = "yes" if field.nullable else "no"
    rows.append(
        f"<tr><td>{number}</td><td{indent}>{_cut(field.name)}</td>"
        f'<td style="text-align: left">{_cut(_brief(field.type))}{note}</td><td>{nullable}</td></tr>'
    )
    type_ = field.type.value if isinstance(field.type, Dictionary) else field.type
    if depth == _DEPTH and type_.children:
        rows.append(_left_out(len(type_.children), "field", 4))
        return
    for i, child in enumerate(type_.children):
        if len(rows) >= _FIELDS:
            rows.append(_left_out(len(type_.children) - i, "field", 4))
            return
        _add_field(child, "", depth + 1, rows)


def _brief(type_: DataType) -> str:
    """Return a type as text, without its children: these have rows of their own, and there may be thousands."""
    if isinstance(type_, Dictionary):
        return f"dictionary<{type_.index}, {_brief(type_.value)}>"
    if not type_.children:
        return str(type_)
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in type(type_).__name__).lstrip("_")


def _cells(column: ArrayData) -> list[str]:
    """Return the values of a column as cells; what is large, or cannot be shown, is said in words."""
    if not column.length:
        return []
    starts = np.arange(column.length)
    try:
        sizes = measure(column, decoded=True, slot_nbytes=8)(starts, starts + 1).tolist()
    except _UNSOUND as error:
        return [f"<i>{_cut(str(error))}</i>"] * column.length
    return [_cell(column.slice(i, 1), size) for i, size in enumerate(sizes)]


def _cell(slot: ArrayData, nbytes: int) -> str:
    if nbytes > _VALUE_NBYTES:
        return f"<i>about {nbytes:,} bytes</i>"
    try:
        (value,) = to_text(slot)
    except _UNSOUND as error:
        return f"<i>{_cut(str(error))}</i>"
    return "<i>null</i>" if value is None else _cut(value if isinstance(value, str) else repr(value))


def _pairs(custom_metadata: CustomMetadata) -> str:
    if not custom_metadata:
        return ""
    rows = [f"<tr><td>{_cut(key)}</td><td>{_cut(value)}</td></tr>" for key, value in custom_metadata[:_PAIRS]]
    if len(custom_metadata) > _PAIRS:
        rows.append(_left_out(len(custom_metadata) - _PAIRS, "pair", 2))
    return _table(("metadata", "value"), rows)


def _table(heads: Iterable[str], rows: Iterable[str]) -> str:
    return f"<table><tr>{''.join(f'<th>{head}</th>' for head in heads)}</tr>{''.join(rows)}</table>"


def _left_out(count: int, what: str, width: int) -> str:
    return f'<tr><td colspan="{max(width, 1)}"><i>and {_count(count, what, "more ")}</i></td></tr>'


def _count(count: int, what: str, more: str = "") -> str:
    return f"{count:,} {more}{what}{'' if count == 1 else 's'}"


def _cut(text: Any, characters: int = _CHARACTERS) -> str:
    """Return text on one line, cut where it is long, and escaped."""
    text = str(text)
    cut = text if len(text) <= characters else f"{text[: characters - 1]}…"
    return html.escape(printable(cut))
