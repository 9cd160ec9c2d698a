"""Convert arrays to Python values for people, with temporal values as text, and batches to HTML.

How it works
------------
`to_pylist` returns `datetime` objects, and raw counts for values that they cannot hold: right for programs that write them
back, and unreadable in one column. Here every value of a column has one form. Nanoseconds always have nine digits; other
units have six or none, as in Python. Years outside 1 to 9999 and times outside a day follow the same rules, with more
digits or a sign. Outside these years zones have no offsets, and an instant is written in UTC.

HTML of schemas and record batches for notebooks has a bounded size. Names, types and values come from files and are not
trusted: all text is escaped, characters that change the direction of text or do not print become escapes, and long or large
values are cut before they become text.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final

import numpy as np

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array_data import ArrayData, NDArray
from spark_arrow_ipc.arrow.measure import check_expansion, measure
from spark_arrow_ipc.arrow.python_values import scalars
from spark_arrow_ipc.arrow.python_values.to_pylist import TO_PYLIST, Converters, leaves, to_pylist
from spark_arrow_ipc.arrow.types import CustomMetadata, DataType, Dictionary, Field
from spark_arrow_ipc.arrow.unseen import tolerate_unseen
from spark_arrow_ipc.errors import ArrowIpcError, printable

_DAY_SECONDS: Final = 86_400
# Digits after the second
_DIGITS: Final[Mapping[t.TimeUnit, int]] = {
    t.TimeUnit.SECOND: 0,
    t.TimeUnit.MILLISECOND: 6,
    t.TimeUnit.MICROSECOND: 6,
    t.TimeUnit.NANOSECOND: 9,
}


@tolerate_unseen
def to_text(array: ArrayData, *, separator: str = " ") -> list[Any]:
    """Return the values of `to_pylist` with text for dates, times, timestamps and durations, at every depth.

    The separator is between the date and the time of a timestamp: a blank for people, ``T`` for ISO 8601.
    """
    check_expansion(array)
    return to_pylist(array, _converters(separator))


@cache
def _converters(separator: str) -> Converters:
    return {
        **TO_PYLIST,
        t.Date: leaves(_dates),
        t.Time: leaves(
            lambda values, type_: [("-" if n < 0 else "") + _clock(abs(n), type_.unit) for n in values.tolist()]
        ),
        t.Timestamp: leaves(lambda values, type_: _timestamps(values, type_, separator)),
        t.Duration: leaves(_durations),
    }


def _dates(values: NDArray, type_: t.Date) -> list[str]:
    per_day = 1 if type_.unit is t.DateUnit.DAY else _DAY_SECONDS * 1000
    return _days(values // per_day)


def _days(days: NDArray) -> list[str]:
    dates: list[str] = np.datetime_as_string(days.astype("M8[D]")).tolist()
    return dates


def _clock(units: int, unit: t.TimeUnit, hour_digits: int = 2) -> str:
    """Return a count of at least 0 as ``HH:MM:SS`` and a fraction."""
    seconds, fraction = divmod(units, unit.per_second)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    digits = _DIGITS[unit]
    shown = (
        f".{fraction * 10**digits // unit.per_second:0{digits}d}" if fraction or unit is t.TimeUnit.NANOSECOND else ""
    )
    return f"{hour:0{hour_digits}d}:{minute:02d}:{second:02d}{shown}"


def _timestamps(values: NDArray, type_: t.Timestamp, separator: str) -> list[str]:
    per_day = _DAY_SECONDS * type_.unit.per_second
    if type_.timezone is None:
        offsets, zones = np.zeros(len(values), np.int64), [""] * len(values)
    else:
        offsets, zones = _zone_offsets(values, type_, type_.timezone)
    # In two steps: a sum of the count and the offset could leave 64 bits.
    days, rests = np.divmod(values.astype(np.int64), per_day)
    more, rests = np.divmod(rests + offsets * type_.unit.per_second, per_day)
    clocks = (_clock(rest, type_.unit) for rest in rests.tolist())
    return [
        f"{day}{separator}{clock}{zone}" for day, clock, zone in zip(_days(days + more), clocks, zones, strict=True)
    ]


def _zone_offsets(values: NDArray, type_: t.Timestamp, name: str) -> tuple[NDArray, list[str]]:
    """Return the offset of each instant in its zone, in seconds and as text."""
    seconds = t.Timestamp(t.TimeUnit.SECOND, name)
    moments = scalars.timestamps(values // type_.unit.per_second, seconds)
    # An int is an instant outside the years of `datetime`.
    deltas = [None if isinstance(moment, int) else moment.utcoffset() for moment in moments]
    offsets = [0 if delta is None else int(delta.total_seconds()) for delta in deltas]
    texts = {offset: _offset(offset) for offset in set(offsets)}  # a column has few offsets
    return np.array(offsets, np.int64), [texts[offset] for offset in offsets]


def _offset(seconds: int) -> str:
    sign = "-" if seconds < 0 else "+"
    minutes, second = divmod(abs(seconds), 60)
    return f"{sign}{minutes // 60:02d}:{minutes % 60:02d}" + (f":{second:02d}" if second else "")


def _durations(values: NDArray, type_: t.Duration) -> list[str]:
    per_day = _DAY_SECONDS * type_.unit.per_second
    texts = []
    for units in values.tolist():
        days, rest = divmod(units, per_day)
        shown = f"{days} day{'' if abs(days) == 1 else 's'}, " if days else ""
        texts.append(shown + _clock(rest, type_.unit, hour_digits=1))
    return texts


_ROWS: Final = 10
_COLUMNS: Final = 20  # columns of a batch that are shown, from the first on
_FIELDS: Final = 100  # fields of a schema that are shown, nested ones counted
_PAIRS: Final = 10
_DEPTH: Final = 6
_CHARACTERS: Final = 60
_TITLE_CHARACTERS: Final = 500
# A value that takes more memory, counted with 8 bytes for each slot, does not become text
_VALUE_NBYTES: Final = 10_000


_UNSOUND: Final = (ArrowIpcError, ValueError, IndexError, OverflowError)  # the errors of unvalidated values


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
    """Return the first rows of a record batch as a table, decoding only the visible columns."""
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
    """Return a type as text, without its children."""
    # Children have rows of their own, and a type may have thousands.
    if isinstance(type_, Dictionary):
        return f"dictionary<{type_.index}, {_brief(type_.value)}>"
    if not type_.children:
        return str(type_)
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in type(type_).__name__).lstrip("_")


def _cells(column: ArrayData) -> list[str]:
    """Return the values of a column as cells, with words for large or broken values."""
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
    """Return text on one line, escaped, and cut if it is long."""
    text = str(text)
    cut = text if len(text) <= characters else f"{text[: characters - 1]}…"
    return html.escape(printable(cut))
