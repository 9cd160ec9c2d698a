"""Read type notes from before release 0.1.0, which are names of types.

Strategy
--------
Release 0.1 reads these notes, 0.2 will not: remove this module then. A note is ambiguous: a struct's field may be named
``a: int8, b``, and the order of dictionaries is missing. So it is read along the type that the column has now. Names of
fields, which may contain commas and brackets, come from the column, and so do the parts that a note leaves out: names of
list elements and nullability. A union is restored as the struct that it is read as.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from spark_arrow_ipc.arrow import types as t

__all__ = ["noted_type", "storage_text"]

_UNITS: Final = {unit.abbreviation: unit for unit in t.TimeUnit}
_UNIT: Final = r"\[(s|ms|us|ns)\]"


def _constant(type_: t.DataType) -> Callable[[re.Match[str]], t.DataType]:
    return lambda _: type_


def _timestamp(match: re.Match[str]) -> t.DataType:
    return t.Timestamp(_UNITS[match[1]], match[2])


_CONSTANTS: Final = (
    t.null, t.bool_, *(t.Int(bits, signed=signed) for bits in (8, 16, 32, 64) for signed in (True, False)),
    t.float16, t.float32, t.float64, t.date32, t.date64, t.binary, t.large_binary, t.binary_view, t.utf8, t.large_utf8,
    t.utf8_view, t.IntervalYearMonth(), t.IntervalDayTime(), t.IntervalMonthDayNano(),
)  # fmt: skip

_LEAVES: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], t.DataType]], ...]] = (
    *((re.compile(re.escape(str(type_)) + r"(?![\w\[(<])"), _constant(type_)) for type_ in _CONSTANTS),
    (
        re.compile(r"decimal(32|64|128|256)\((\d+), (-?\d+)\)"),
        lambda match: t.Decimal(int(match[2]), int(match[3]), int(match[1])),
    ),
    (re.compile(r"time(32|64)" + _UNIT), lambda match: t.Time(_UNITS[match[2]], int(match[1]))),
    (re.compile(r"timestamp\[(s|ms|us|ns)(?:, tz=([^\]]+))?\]"), _timestamp),
    (re.compile("duration" + _UNIT), lambda match: t.Duration(_UNITS[match[1]])),
    (re.compile(r"fixed_size_binary\[(\d+)\]"), lambda match: t.FixedSizeBinary(int(match[1]))),
)
"""Types without children, by their notes."""


def noted_type(note: str, usual: t.DataType) -> t.DataType:
    """Parse a note into a type.

    Parameters
    ----------
    note
        The note, which a user may have edited.
    usual
        The type that the column has in the file without the note.

    Raises
    ------
    ValueError
        The note names no type, or the column has other fields.
    """
    reading = _Reading(note)
    type_ = reading.type(usual)
    if reading.at != len(note):
        raise ValueError(note)
    return type_


@dataclass(slots=True)
class _Reading:
    note: str
    at: int = 0

    def type(self, usual: t.DataType) -> t.DataType:
        for pattern, make in _LEAVES:
            if match := pattern.match(self.note, self.at):
                self.at = match.end()
                return make(match)
        match = _NESTED.match(self.note, self.at)
        if match is None:
            raise ValueError(self.note)
        self.at = match.end()
        return _READ[match[1]](self, usual)

    def expect(self, part: str) -> None:
        if not self.note.startswith(part, self.at):
            raise ValueError(self.note)
        self.at += len(part)


def _list(make: Callable[[t.Field], t.DataType]) -> Callable[[_Reading, t.DataType], t.DataType]:
    def read(reading: _Reading, usual: t.DataType) -> t.DataType:
        value = _element(reading, usual)
        return make(value)

    return read


def _element(reading: _Reading, usual: t.DataType) -> t.Field:
    if not isinstance(usual, t.List):
        raise ValueError(reading.note)  # noqa: TRY004 - the note is at fault
    value = replace(usual.value, type=reading.type(usual.value.type))
    reading.expect(">")
    return value


def _fixed_size_list(reading: _Reading, usual: t.DataType) -> t.DataType:
    value = _element(reading, usual)
    match = re.compile(r"\[(\d+)\]").match(reading.note, reading.at)
    if match is None:
        raise ValueError(reading.note)
    reading.at = match.end()
    return t.FixedSizeList(value, int(match[1]))


def _struct(reading: _Reading, usual: t.DataType) -> t.DataType:
    if not isinstance(usual, t.Struct):
        raise ValueError(reading.note)  # noqa: TRY004 - the note is at fault
    # The longest name first: it may begin with another name and a colon.
    left = sorted(usual.fields, key=lambda field: -len(field.name))
    fields: list[t.Field] = []
    while left:
        if fields:
            reading.expect(", ")
        named = next((f for f in left if reading.note.startswith(f"{f.name}: ", reading.at)), None)
        if named is None:
            raise ValueError(reading.note)
        left.remove(named)
        reading.expect(f"{named.name}: ")
        fields.append(replace(named, type=reading.type(named.type)))
    reading.expect(">")
    return t.Struct(tuple(fields))


def _map(reading: _Reading, usual: t.DataType) -> t.DataType:
    if not isinstance(usual, t.Map):
        raise ValueError(reading.note)  # noqa: TRY004 - the note is at fault
    key = replace(usual.key, type=reading.type(usual.key.type))
    reading.expect(", ")
    value = replace(usual.item, type=reading.type(usual.item.type))
    reading.expect(">")
    return t.Map(replace(usual.entries, type=t.Struct((key, value))))


def _number(reading: _Reading) -> t.Int:
    number = reading.type(t.int64)
    if not isinstance(number, t.Int):
        raise ValueError(reading.note)  # noqa: TRY004 - the note is at fault
    reading.expect(", ")
    return number


def _run_end_encoded(reading: _Reading, usual: t.DataType) -> t.DataType:
    type_ = t.run_end_encoded(_number(reading), reading.type(usual))
    reading.expect(">")
    return type_


def _dictionary(reading: _Reading, usual: t.DataType) -> t.DataType:
    type_ = t.dictionary(_number(reading), reading.type(usual))
    reading.expect(">")
    return type_


def _union(reading: _Reading, usual: t.DataType) -> t.DataType:
    """Skip the note of a union to its closing bracket; return the struct of the column."""
    depth = 1
    while depth:
        if reading.at >= len(reading.note):
            raise ValueError(reading.note)
        depth += {"<": 1, ">": -1}.get(reading.note[reading.at], 0)
        reading.at += 1
    return usual


_READ: Final[Mapping[str, Callable[[_Reading, t.DataType], t.DataType]]] = {
    "list": _list(t.List),
    "large_list": _list(t.LargeList),
    "list_view": _list(t.ListView),
    "large_list_view": _list(t.LargeListView),
    "fixed_size_list": _fixed_size_list,
    "struct": _struct,
    "map": _map,
    "run_end_encoded": _run_end_encoded,
    "dictionary": _dictionary,
    "sparse_union": _union,
    "dense_union": _union,
}
"""Types with children, by the word before the bracket."""

_NESTED: Final = re.compile(f"({'|'.join(_READ)})<")


def storage_text(type_: t.DataType) -> str:
    """Return the note of a type: without nullability and the names of list elements."""
    describe = _NOTES.get(type(type_))
    return describe(type_) if describe is not None else str(type_)


def _fields_text(fields: tuple[t.Field, ...]) -> str:
    return ", ".join(f"{field.name}: {storage_text(field.type)}" for field in fields)


def _list_text(name: str) -> Callable[[Any], str]:
    return lambda type_: f"{name}<{storage_text(type_.value.type)}>"


_NOTES: Mapping[type[t.DataType], Callable[[Any], str]] = {
    t.List: _list_text("list"),
    t.LargeList: _list_text("large_list"),
    t.ListView: _list_text("list_view"),
    t.LargeListView: _list_text("large_list_view"),
    t.FixedSizeList: lambda type_: f"fixed_size_list<{storage_text(type_.value.type)}>[{type_.list_size}]",
    t.Struct: lambda type_: f"struct<{_fields_text(type_.fields)}>",
    t.Map: lambda type_: f"map<{storage_text(type_.key.type)}, {storage_text(type_.item.type)}>",
    t.RunEndEncoded: lambda type_: (
        f"run_end_encoded<{storage_text(type_.run_ends.type)}, {storage_text(type_.values.type)}>"
    ),
    t.Dictionary: lambda type_: f"dictionary<{type_.index}, {storage_text(type_.value)}>",
}
