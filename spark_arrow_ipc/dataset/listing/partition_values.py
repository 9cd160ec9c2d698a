"""Values of partition columns as text: which type a text has, which value it is, and how a value is written.

Strategy
--------
Spark's rules (``PartitioningUtils`` and ``ExternalCatalogUtils``), down to Java's grammars of numbers: a text is the
first of int, long, decimal without a fraction, double, timestamp, date that it can be, else a string. Types of one
column that differ are widened only where no digit is lost, else the column is text.

Three things differ from Spark, and are meant to: years outside 1 to 9999, which Python's dates cannot hold, and
times of day, which only some versions of Spark infer, stay text; and a timestamp has no zone unless one is given,
because the planner does not know the session's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal, localcontext
from itertools import product
from typing import Any, Final, TypeAlias

import numpy as np

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.dataset.spark_datetime_text import parse_date, parse_timestamp, zone
from spark_arrow_ipc.errors import OptionError, UnsupportedError

__all__ = [
    "CASTS",
    "DEFAULT_PARTITION",
    "PartitionValue",
    "cast",
    "escape_path_name",
    "infer_type",
    "partition_directory",
    "unescape_path_name",
    "widest",
]

PartitionValue: TypeAlias = bool | int | float | Decimal | str | bytes | date | datetime | time | None
"""Value of a partition column."""

DEFAULT_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"
"""What stands for null in the name of a directory."""

_MAX_PRECISION: Final = 38
"""Digits of Spark's widest decimal."""

_ESCAPED: Final = re.compile(r"%([0-9A-Fa-f]{2})")
# NUL, which Spark leaves as it is, cannot stand in a path.
_TO_ESCAPE: Final = re.compile(r"""[\x00-\x1f\x7f"#%'*/:=?\\{\[\]^]""")

_UNDECIMAL: Final = re.compile(r"[^\x00-\uffff]")
"""Java reads the digits of all scripts, but not those that need two of its characters."""

_INTEGER: Final = re.compile(r"[+-]?\d+")
_DECIMAL: Final = re.compile(r"[+-]?(?:(\d+)\.?(\d*)|\.(\d+))(?:[eE]([+-]?\d{1,10}))?")
_DOUBLE: Final = re.compile(r"[+-]?(?:NaN|Infinity|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fFdD]?)", re.ASCII)
_HEX_DOUBLE: Final = re.compile(
    r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?\d+[fFdD]?", re.ASCII
)
_JAVA_WHITESPACE: Final = "".join(map(chr, range(33)))
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIMESTAMP: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d)?", re.ASCII)
"""At most one digit of a fraction: Spark's pattern is ``yyyy-MM-dd HH:mm:ss[.S]``."""
_TIME: Final = re.compile(r"(\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?", re.ASCII)


def escape_path_name(text: str) -> str:
    """Return a column's name or value as it stands in a path: ``a:b`` is ``a%3Ab`` (Hive's ``escapePathName``)."""
    return _TO_ESCAPE.sub(lambda found: f"%{ord(found[0]):02X}", text)


def unescape_path_name(text: str) -> str:
    """Return what an escaped text means; a percent sign without two hexadecimal digits is itself."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text) if "%" in text else text


def infer_type(raw: str, time_zone: str | None = None) -> t.DataType:
    """Return the type that Spark infers for the raw (escaped) text of one directory; `types.null` for null.

    Parameters
    ----------
    raw
        What stands behind the equals sign.
    time_zone
        Of the timestamps; without one they are local times of an unknown zone.
    """
    if raw == DEFAULT_PARTITION:
        return t.null
    return _number_type(raw) or _time_type(raw, time_zone) or t.utf8


def _number_type(raw: str) -> t.DataType | None:
    if not _UNDECIMAL.search(raw):
        if _INTEGER.fullmatch(raw):
            value = int(raw)
            if -(2**31) <= value < 2**31:
                return t.int32
            if -(2**63) <= value < 2**63:
                return t.int64
        if precision := _decimal_precision(raw):
            return t.Decimal(precision, 0)
    return None if _double(raw) is None else t.float64


def _decimal_precision(raw: str) -> int | None:
    """Return the digits of a decimal number that has no fraction, or None; ``1e3`` has four."""
    found = _DECIMAL.fullmatch(raw)
    if not found:
        return None
    whole, fraction, bare_fraction, exponent = found.groups("")
    fraction += bare_fraction
    scale = len(fraction) - int(exponent or 0)
    precision = max(1, len(str(int(whole + fraction))) - scale)
    return precision if scale <= 0 and precision <= _MAX_PRECISION else None


def _double(raw: str) -> float | None:
    """Return what Java's ``Double.parseDouble`` gives, or None where it throws."""
    text = raw.strip(_JAVA_WHITESPACE)
    if _DOUBLE.fullmatch(text):
        return float(text if text[-1] in "Ny" else text.rstrip("fFdD"))
    if _HEX_DOUBLE.fullmatch(text):
        try:
            return float.fromhex(text.rstrip("fFdD"))
        except OverflowError:
            return float(f"{text[0] if text[0] in '+-' else ''}inf")
    return None


def _time_type(raw: str, time_zone: str | None) -> t.DataType | None:
    text = unescape_path_name(raw)
    if _TIMESTAMP.fullmatch(text) and parse_timestamp(text) is not None:
        return t.Timestamp(t.TimeUnit.MICROSECOND, time_zone)
    if _DATE.fullmatch(raw) and parse_date(raw) is not None:
        return t.date32
    return None


_DIGITS: Final[Mapping[t.DataType, int]] = {t.int32: 10, t.int64: 20}
"""Precision of the decimals that Spark takes integers for."""


def widest(types: Iterable[t.DataType]) -> t.DataType:
    """Return the type of a column whose directories have these types (``findWiderTypeForPartitionColumn``)."""
    kinds = set(types) - {t.null}
    if len(kinds) <= 1:
        return kinds.pop() if kinds else t.null
    if kinds == {t.int32, t.int64}:
        return t.int64
    if kinds == {t.int32, t.float64}:
        return t.float64
    if all(kind in _DIGITS or isinstance(kind, t.Decimal) for kind in kinds):
        return t.Decimal(max(kind.precision if isinstance(kind, t.Decimal) else _DIGITS[kind] for kind in kinds), 0)
    stamps = [kind for kind in kinds if isinstance(kind, t.Timestamp)]
    return stamps[0] if len(stamps) == 1 and kinds == {stamps[0], t.date32} else t.utf8


def cast(raw: str, type_: t.DataType, time_zone: str | None = None) -> PartitionValue:
    """Return the value that the raw (escaped) text of a directory has in a type.

    Parameters
    ----------
    raw
        What stands behind the equals sign.
    type_
        One that `infer_type` gives, or that a user asks for.
    time_zone
        In which a timestamp without a zone is meant, where `type_` has a zone. The value is in UTC.

    Raises
    ------
    ValueError
        The text is no value of the type, or does not fit it.
    OptionError
        A timestamp without a zone is to be an instant, and no time zone is given.
    UnsupportedError
        No partition column can have the type.
    """
    function = CASTS.get(type(type_))
    if function is None:
        raise UnsupportedError(f"a partition column cannot have the type {type_}; read it as a string and convert it")
    return None if raw == DEFAULT_PARTITION else function(raw, type_, time_zone)


def _bool(raw: str, *_: object) -> bool:
    value = {"true": True, "false": False}.get(raw.lower())
    if value is None:
        raise ValueError
    return value


def _int(raw: str, type_: Any, _: object) -> int:
    value = int(raw) if _INTEGER.fullmatch(raw) and not _UNDECIMAL.search(raw) else None
    low = -(1 << type_.bit_width - 1) if type_.signed else 0
    if value is None or not low <= value < low + (1 << type_.bit_width):
        raise ValueError
    return value


def _float(raw: str, type_: Any, _: object) -> float:
    value = _double(raw)
    if value is None:
        raise ValueError
    with np.errstate(over="ignore"):
        return float((np.float16, np.float32, np.float64)[type_.precision](value))


def _decimal(raw: str, type_: Any, _: object) -> Decimal:
    if not _DECIMAL.fullmatch(raw) or _UNDECIMAL.search(raw):
        raise ValueError
    value = Decimal(raw)
    # Compared before it is expanded: the exponent of a text may be anything.
    if value and value.adjusted() >= type_.precision - type_.scale:
        raise ValueError
    with localcontext(prec=type_.precision + 1):
        scaled = value.quantize(Decimal((0, (1,), -type_.scale))) if value else Decimal((0, (0,), -type_.scale))
    if scaled != value:
        raise ValueError
    return scaled


def _date(raw: str, *_: object) -> date:
    value = parse_date(raw)
    if value is None:
        raise ValueError
    return value


def _timestamp(raw: str, type_: Any, time_zone: str | None) -> datetime:
    value = parse_timestamp(unescape_path_name(raw))
    if value is None:
        raise ValueError
    if type_.timezone is None:
        # As Spark casts to TIMESTAMP_NTZ: the zone in a text is passed over.
        return value.replace(tzinfo=None)
    if value.tzinfo is None:
        if time_zone is None:
            raise OptionError(
                expected="the option timeZone, because the text of a timestamp names no zone and the planner does not "
                "know that of the session (or ask for timestamp_ntz)",
                found=repr(raw),
            )
        value = value.replace(tzinfo=zone(time_zone))
    return value.astimezone(UTC)


def _time(raw: str, *_: object) -> time:
    found = _TIME.fullmatch(unescape_path_name(raw))
    if not found:
        raise ValueError
    hour, minute, second, fraction = found.groups("0")
    return time(int(hour), int(minute), int(second), int(f"{fraction:0<6}"))


def _text(raw: str, *_: object) -> str:
    text = unescape_path_name(raw)
    if not text.isascii():
        text.encode()  # a name that is no UTF-8 comes with surrogates
    return text


def _bytes(raw: str, *_: object) -> bytes:
    return unescape_path_name(raw).encode()


def _null(*_: object) -> None:
    return None


CASTS: Final[Mapping[type[t.DataType], Callable[[str, Any, str | None], PartitionValue]]] = {
    t.Null: _null,
    t.Bool: _bool,
    t.Int: _int,
    t.FloatingPoint: _float,
    t.Decimal: _decimal,
    t.Date: _date,
    t.Timestamp: _timestamp,
    t.Time: _time,
    **dict.fromkeys((t.Utf8, t.LargeUtf8, t.Utf8View), _text),
    **dict.fromkeys((t.Binary, t.LargeBinary, t.BinaryView), _bytes),
}
"""What a raw text is in each type that a partition column can have."""


def partition_directory(names: Sequence[str], values: Sequence[PartitionValue | np.generic]) -> str:
    """Return the relative directory of a partition as Spark writes it: ``year=2024/city=a%3Ab``.

    A null and an empty text are both `DEFAULT_PARTITION`. Timestamps are written as they stand, in their own zone:
    give aware ones in the zone in which they will be read.

    Parameters
    ----------
    names
        Of the partition columns.
    values
        One for each; a `numpy.float32` is written with the digits of a float, a Python float with those of a double.

    Raises
    ------
    OptionError
        A name is empty: such a directory could not be read back.
    UnsupportedError
        A value's type cannot be a directory's name.
    """
    return "/".join(_segment(name, value) for name, value in zip(names, values, strict=True))


def _segment(name: str, value: PartitionValue | np.generic) -> str:
    if not name:
        raise OptionError(expected="partition columns with names", found="one with an empty name")
    text = "" if value is None else _TEXTS.get(type(value), _no_text)(value)
    segment = f"{escape_path_name(name)}={escape_path_name(text) or DEFAULT_PARTITION}"
    # Readers take names that begin or end so for hidden ones, so that the rows would be lost.
    if segment[0] == ".":
        segment = f"%2E{segment[1:]}"
    return f"{segment[:-1]}%5F" if segment.endswith("._COPYING_") else segment


def _no_text(value: object) -> str:
    raise UnsupportedError(f"a value of the type {type(value).__name__} cannot name a partition's directory")


def _double_text(value: float | np.floating[Any]) -> str:
    """Return what Java's ``Double.toString`` or ``Float.toString`` gives."""
    if value != value:  # noqa: PLR0124 - only NaN differs from itself
        return "NaN"
    if abs(value) == np.inf:
        return "Infinity" if value > 0 else "-Infinity"
    sign, digits, exponent = Decimal(str(value)).as_tuple()
    if len(digits) == 1 and digits != (0,):
        # Java takes the nearest number of at least two digits: its smallest double is 4.9E-324 and not 5E-324.
        sign, digits, exponent = Decimal(f"{value:.1e}").as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).rstrip("0") or "0"
    point = len(digits) + exponent  # digits before the decimal point
    if not any(digits):
        text = "0.0"
    elif -3 < point <= 7:
        whole = text[: max(point, 0)].ljust(max(point, 0), "0") or "0"
        text = f"{whole}.{'0' * -point}{text[max(point, 0) :] or '0'}"
    else:
        text = f"{text[0]}.{text[1:] or '0'}E{point - 1}"
    return f"-{text}" if sign else text


def _datetime_text(value: datetime) -> str:
    text = value.replace(tzinfo=None).isoformat(" ")
    return text.rstrip("0") if value.microsecond else text


def _time_text(value: time) -> str:
    text = value.replace(tzinfo=None).isoformat()
    return text.rstrip("0") if value.microsecond else text


_WHOLE: Final = [np.dtype(f"{sign}int{bits}").type for sign, bits in product(("", "u"), (8, 16, 32, 64))]

_TEXTS: Final[Mapping[type, Callable[[Any], str]]] = {
    bool: lambda value: "true" if value else "false",
    np.bool_: lambda value: "true" if value else "false",
    int: str,
    **dict.fromkeys(_WHOLE, str),
    float: _double_text,
    **dict.fromkeys((np.float16, np.float32, np.float64), _double_text),
    Decimal: lambda value: format(value, "f"),
    str: str,
    np.str_: str,
    bytes: lambda value: value.decode(errors="replace"),
    date: date.isoformat,
    datetime: _datetime_text,
    time: _time_text,
}
"""Spark's cast to a string of each type of value."""
