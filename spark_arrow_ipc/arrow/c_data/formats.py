"""Format strings of the C data interface: what each type is called, in one table for both directions.

The grammar is a head that says the class, and after a colon its parameters: ``u``, ``w:16``, ``tsu:Europe/Paris``, ``+ud:0,5``.
A dictionary-encoded type has the format of its indices.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.errors import InvalidMetadataError, UnsupportedError

ORDERED: Final = 1
"""``ARROW_FLAG_DICTIONARY_ORDERED``."""
NULLABLE: Final = 2
"""``ARROW_FLAG_NULLABLE``."""
KEYS_SORTED: Final = 4
"""``ARROW_FLAG_MAP_KEYS_SORTED``."""

_UNITS: Final = "smun"
"""The letters of `TimeUnit`."""

_PLAIN: Mapping[str, t.DataType] = {
    "n": t.null,
    "b": t.bool_,
    "c": t.int8, "C": t.uint8, "s": t.int16, "S": t.uint16, "i": t.int32, "I": t.uint32, "l": t.int64, "L": t.uint64,
    "e": t.float16, "f": t.float32, "g": t.float64,
    "z": t.binary, "Z": t.large_binary, "vz": t.binary_view,
    "u": t.utf8, "U": t.large_utf8, "vu": t.utf8_view,
    "tdD": t.date32, "tdm": t.date64,
    **{f"tt{_UNITS[unit]}": t.Time(unit, 32 if unit <= t.TimeUnit.MILLISECOND else 64) for unit in t.TimeUnit},
    **{f"tD{_UNITS[unit]}": t.Duration(unit) for unit in t.TimeUnit},
    "tiM": t.IntervalYearMonth(), "tiD": t.IntervalDayTime(), "tin": t.IntervalMonthDayNano(),
}  # fmt: skip
"""The formats of types that have no parameter but those that the format names."""

_PLAIN_FORMATS: Mapping[t.DataType, str] = {type_: format_ for format_, type_ in _PLAIN.items()}

_Make: TypeAlias = Callable[[str, tuple[t.Field, ...], int], t.DataType]
"""Makes a type of the text after the colon, the children, and the flags."""


@dataclass(frozen=True, slots=True)
class _Row:
    """A head, the text after its colon (None: there is no colon), the number of children (None: any), and the way back."""

    head: str
    write: Callable[[Any], str] | None
    children: int | None
    make: _Make


def _integers(text: str, expected: str) -> tuple[int, ...]:
    if not re.fullmatch(r"-?\d{1,9}(,-?\d{1,9})*", text):
        raise InvalidMetadataError(expected=expected, found=repr(text))
    return tuple(map(int, text.split(",")))


def _decimal(text: str, _: tuple[t.Field, ...], __: int) -> t.DataType:
    numbers = _integers(text, "the precision and scale of a decimal")
    if len(numbers) not in (2, 3):
        raise InvalidMetadataError(expected="the precision, scale and bit width of a decimal", found=repr(text))
    return t.Decimal(*numbers)


def _decimal_text(type_: t.Decimal) -> str:
    return f"{type_.precision},{type_.scale}" + (f",{type_.bit_width}" if type_.bit_width != 128 else "")


def _timestamp(unit: t.TimeUnit) -> _Row:
    return _Row(f"ts{_UNITS[unit]}", lambda x: x.timezone or "", 0, lambda text, _, __: t.Timestamp(unit, text or None))


def _one_integer(text: str) -> int:
    numbers = _integers(text, "a number after the colon")
    if len(numbers) != 1:
        raise InvalidMetadataError(expected="one number after the colon", found=repr(text))
    return numbers[0]


def _list(head: str, class_: Callable[[t.Field], t.DataType]) -> _Row:
    return _Row(head, None, 1, lambda _, fields, __: class_(*fields))


def _union(head: str, class_: Callable[[tuple[t.Field, ...], tuple[int, ...]], t.DataType]) -> _Row:
    def make(text: str, fields: tuple[t.Field, ...], _: int) -> t.DataType:
        return class_(fields, _integers(text, "type ids") if text else ())

    return _Row(head, lambda x: ",".join(map(str, x.type_ids)), None, make)


_ROWS: Mapping[type[t.DataType] | tuple[type[t.DataType], int], _Row] = {
    t.Decimal: _Row("d", _decimal_text, 0, _decimal),
    t.FixedSizeBinary: _Row("w", lambda x: str(x.byte_width), 0, lambda x, _, __: t.FixedSizeBinary(_one_integer(x))),
    **{(t.Timestamp, unit): _timestamp(unit) for unit in t.TimeUnit},
    t.List: _list("+l", t.List),
    t.LargeList: _list("+L", t.LargeList),
    t.ListView: _list("+vl", t.ListView),
    t.LargeListView: _list("+vL", t.LargeListView),
    t.FixedSizeList: _Row(
        "+w", lambda x: str(x.list_size), 1, lambda x, fields, _: t.FixedSizeList(fields[0], _one_integer(x))
    ),
    t.Struct: _Row("+s", None, None, lambda _, fields, __: t.Struct(fields)),
    t.Map: _Row("+m", None, 1, lambda _, fields, flags: t.Map(fields[0], bool(flags & KEYS_SORTED))),
    t.SparseUnion: _union("+us", t.SparseUnion),
    t.DenseUnion: _union("+ud", t.DenseUnion),
    t.RunEndEncoded: _Row("+r", None, 2, lambda _, fields, __: t.RunEndEncoded(*fields)),
}
"""Types with parameters or children; timestamps, whose unit is in the head, by class and unit."""

_BY_HEAD: Mapping[str, _Row] = {row.head: row for row in _ROWS.values()}


def format_of(type_: t.DataType) -> str:
    """Return the format string of a type; of a dictionary-encoded one that of its indices."""
    type_ = type_.index if isinstance(type_, t.Dictionary) else type_
    # Hashing a type with children would walk over all types below it.
    plain = None if type_.children else _PLAIN_FORMATS.get(type_)
    if plain is not None:
        return plain
    row = _ROWS[(t.Timestamp, type_.unit) if isinstance(type_, t.Timestamp) else type(type_)]
    return row.head if row.write is None else f"{row.head}:{row.write(type_)}"


def type_of(format_: str, fields: tuple[t.Field, ...], flags: int) -> t.DataType:
    """Return the type of a format string, the child fields, and the flags of its structure.

    Raises
    ------
    UnsupportedError
        The format is not known.
    InvalidMetadataError
        Its parameters or children are not those of the type.
    """
    head, colon, text = format_.partition(":")
    plain = _PLAIN.get(format_)
    row = _BY_HEAD.get(head)
    if plain is None and (row is None or bool(colon) != (row.write is not None)):
        raise UnsupportedError(f"the format {format_!r} of the Arrow C data interface is not known")
    count = 0 if row is None or plain is not None else row.children
    if count is not None and len(fields) != count:
        raise InvalidMetadataError(expected=f"{count} children for the format {format_!r}", found=str(len(fields)))
    if plain is not None:
        return plain
    assert row is not None
    try:
        return row.make(text, fields, flags)
    except InvalidMetadataError:
        raise
    except ValueError as error:
        raise InvalidMetadataError(f"the format {format_!r}: {error}") from None
