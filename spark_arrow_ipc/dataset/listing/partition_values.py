"""Infer, parse and format the values of partition columns, as Spark does.

How it works: by Spark's rules (``PartitioningUtils`` and ``ExternalCatalogUtils``), down to Java's grammars of numbers, the
type of a value is the first of int, long, decimal without a fraction, double, timestamp and date that parses it, otherwise
string. Different types of one column are widened if no digit is lost, otherwise the column is a string.

Four differences from Spark are intended: years outside 1 to 9999, which Python's dates cannot hold, and times of day,
which only some versions of Spark infer, stay strings; a timestamp has a time zone only with the option timeZone, because the
planner does not know the session's; and escapes that are UTF-8, as polars and pyarrow write them, are read as text.
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
from spark_arrow_ipc.dataset.time_zones import is_certain, parse_date, parse_timestamp, zone
from spark_arrow_ipc.errors import OptionError, UnsupportedError

PartitionValue: TypeAlias = bool | int | float | Decimal | str | bytes | date | datetime | time | None
"""Value of a partition column."""

DEFAULT_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"
"""The string for null in the name of a directory."""

_MAX_PRECISION: Final = 38
"""Digits of Spark's widest decimal."""

_ESCAPED: Final = re.compile(r"(?:%[89A-Fa-f][0-9A-Fa-f])+|%[0-7][0-9A-Fa-f]")
"""One escape of ASCII, or a run of escapes of other bytes."""
# Unlike Spark, escape NUL: a path cannot contain it.
_TO_ESCAPE: Final = re.compile(r"""[\x00-\x1f\x7f"#%'*/:=?\\{\[\]^]""")

_UNDECIMAL: Final = re.compile(r"[^\x00-\uffff]")
"""Java parses digits of all scripts, except those that need a surrogate pair."""

_INTEGER: Final = re.compile(r"[+-]?\d+")
_DECIMAL: Final = re.compile(r"[+-]?(?:(\d+)\.?(\d*)|\.(\d+))(?:[eE]([+-]?\d{1,10}))?")
_DOUBLE: Final = re.compile(r"[+-]?(?:NaN|Infinity|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fFdD]?)", re.ASCII)
_HEX_DOUBLE: Final = re.compile(
    r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?\d+[fFdD]?", re.ASCII
)
_JAVA_WHITESPACE: Final = "".join(map(chr, range(33)))
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIMESTAMP: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d)?", re.ASCII)
"""At most one fractional digit: Spark's pattern is ``yyyy-MM-dd HH:mm:ss[.S]``."""
_TIME: Final = re.compile(r"(\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?", re.ASCII)


def escape_path_name(string: str) -> str:
    """Escape a name or value for a path, as Hive: ``a:b`` becomes ``a%3Ab``."""
    return _TO_ESCAPE.sub(lambda match: f"%{ord(match[0]):02X}", string)


def unescape_path_name(string: str) -> str:
    """Unescape a name or value; a percent sign without two hexadecimal digits stays."""
    return _ESCAPED.sub(_unescape, string) if "%" in string else string


def _unescape(match: re.Match[str]) -> str:
    data = bytes.fromhex(match[0].replace("%", ""))
    try:
        return data.decode()  # as polars and pyarrow escape text
    except UnicodeDecodeError:
        return data.decode("latin-1")  # as Spark reads: each escape is one character; it writes only escapes of ASCII


def infer_type(raw: str, time_zone: str | None = None) -> t.DataType:
    """Infer the type of a raw (escaped) value as Spark does; `types.null` for null."""
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
    """Return the precision of a decimal without fraction (4 for ``1e3``), or None."""
    match = _DECIMAL.fullmatch(raw)
    if not match:
        return None
    integral, fraction, bare_fraction, exponent = match.groups("")
    fraction += bare_fraction
    scale = len(fraction) - int(exponent or 0)
    precision = max(1, len(str(int(integral + fraction))) - scale)
    return precision if scale <= 0 and precision <= _MAX_PRECISION else None


def _double(raw: str) -> float | None:
    """Parse a number like Java's ``Double.parseDouble``; None where that throws."""
    string = raw.strip(_JAVA_WHITESPACE)
    if _DOUBLE.fullmatch(string):
        return float(string if string[-1] in "Ny" else string.rstrip("fFdD"))
    if _HEX_DOUBLE.fullmatch(string):
        try:
            return float.fromhex(string.rstrip("fFdD"))
        except OverflowError:
            return float(f"{string[0] if string[0] in '+-' else ''}inf")
    return None


def _time_type(raw: str, time_zone: str | None) -> t.DataType | None:
    string = unescape_path_name(raw)
    if _TIMESTAMP.fullmatch(string) and parse_timestamp(string) is not None:
        return t.Timestamp(t.TimeUnit.MICROSECOND, time_zone)
    if _DATE.fullmatch(raw) and parse_date(raw) is not None:
        return t.date32
    return None


_DIGITS: Final[Mapping[t.DataType, int]] = {t.int32: 10, t.int64: 20}
"""Precision of the decimals to which Spark widens integers."""


def widest(types: Iterable[t.DataType]) -> t.DataType:
    """Return the common type of a column (``findWiderTypeForPartitionColumn``)."""
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
    """Cast a raw (escaped) value to a type."""
    function = CASTS.get(type(type_))
    if function is None:
        raise UnsupportedError(f"a partition column cannot have the type {type_}; read it as a string and convert it")
    return None if raw == DEFAULT_PARTITION else function(raw, type_, time_zone)


def exact_number(raw: str) -> Decimal | None:
    """Return the finite decimal number that a raw value spells, regardless of its inferred type, or None."""
    string = raw.strip(_JAVA_WHITESPACE).rstrip("fFdD")
    return Decimal(string) if _DECIMAL.fullmatch(string) and not _UNDECIMAL.search(string) else None


def _bool(raw: str, *_: object) -> bool:
    value = {"true": True, "false": False}.get(raw.lower())
    if value is None:
        raise ValueError
    return value


def _int(raw: str, type_: Any, _: object) -> int:
    value = int(raw) if _INTEGER.fullmatch(raw) and not _UNDECIMAL.search(raw) else None
    low = -(1 << type_.bit_width - 1) if type_.signed else 0  # unsigned types are never inferred, but may be requested
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
    # Compared before it is expanded: the exponent may be arbitrarily large.
    if value and value.adjusted() >= type_.precision - type_.scale:
        raise ValueError
    with localcontext(prec=type_.precision + 1):
        scaled = value.quantize(Decimal((0, (1,), -type_.scale))) if value else Decimal((0, (0,), -type_.scale))
    if scaled != value:  # rounding would merge partitions
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
        # As in Spark's cast to TIMESTAMP_NTZ, the zone is ignored.
        return value.replace(tzinfo=None)
    if value.tzinfo is None:
        if time_zone is None:
            raise OptionError(
                expected="the option timeZone, because this timestamp has no time zone and the planner does not know "
                "that of the session (or ask for timestamp_ntz)",
                found=repr(raw),
            )
        value = value.replace(tzinfo=zone(time_zone))
    assert value.tzinfo is not None
    if not is_certain(value, value.tzinfo):
        raise OptionError(
            expected="a timestamp with an offset, because which instant this is in the time zone is not certain: the "
            "tables of Python and of Spark's JVM may differ before 1970 (or ask for timestamp_ntz or string, or set "
            "timeZone to an offset)",
            found=repr(raw),
        )
    return value.astimezone(UTC)


def _time(raw: str, *_: object) -> time:
    match = _TIME.fullmatch(unescape_path_name(raw))
    if not match:
        raise ValueError
    hour, minute, second, fraction = match.groups("0")
    return time(int(hour), int(minute), int(second), int(f"{fraction:0<6}"))


def _string(raw: str, *_: object) -> str:
    string = unescape_path_name(raw)
    if not string.isascii():
        string.encode()  # a name that is not UTF-8 contains surrogates, which do not encode
    return string


CASTS: Final[Mapping[type[t.DataType], Callable[[str, Any, str | None], PartitionValue]]] = {
    t.Null: lambda *_: None,
    t.Bool: _bool,
    t.Int: _int,
    t.FloatingPoint: _float,
    t.Decimal: _decimal,
    t.Date: _date,
    t.Timestamp: _timestamp,
    t.Time: _time,
    **dict.fromkeys((t.Utf8, t.LargeUtf8, t.Utf8View), _string),
    **dict.fromkeys((t.Binary, t.LargeBinary, t.BinaryView), lambda raw, *_: unescape_path_name(raw).encode()),
}
"""The function that parses a raw value, for each type that a partition column can have."""


def partition_directory(names: Sequence[str], values: Sequence[PartitionValue | np.generic]) -> str:
    """Return a partition's relative directory as Spark names it: ``year=2024/city=a%3Ab``; timestamps in their own zone."""
    return "/".join(_segment(name, value) for name, value in zip(names, values, strict=True))


def _segment(name: str, value: PartitionValue | np.generic) -> str:
    if not name:
        raise OptionError(expected="partition columns with names", found="one with an empty name")
    if value is not None and type(value) not in _FORMATS:
        raise UnsupportedError(f"a value of the type {type(value).__name__} cannot name a partition's directory")
    string = "" if value is None else _FORMATS[type(value)](value)
    # Null and the empty string have one name, as in Spark.
    segment = f"{escape_path_name(name)}={escape_path_name(string) or DEFAULT_PARTITION}"
    # Readers skip names that begin or end like this, and the rows would be lost.
    if segment[0] == ".":
        segment = f"%2E{segment[1:]}"
    return f"{segment[:-1]}%5F" if segment.endswith("._COPYING_") else segment


def _format_double(value: float | np.floating[Any]) -> str:
    """Format a number like Java's ``Double.toString`` or ``Float.toString``."""
    if value != value:  # noqa: PLR0124 - only NaN differs from itself
        return "NaN"
    if abs(value) == np.inf:
        return "Infinity" if value > 0 else "-Infinity"
    sign, digits, exponent = Decimal(str(value)).as_tuple()
    if len(digits) == 1 and digits != (0,):
        # Java uses at least two digits: its smallest double is 4.9E-324, not 5E-324.
        sign, digits, exponent = Decimal(f"{value:.1e}").as_tuple()
    assert isinstance(exponent, int)
    string = "".join(map(str, digits)).rstrip("0") or "0"
    point = len(digits) + exponent  # digits before the decimal point
    if not any(digits):
        string = "0.0"
    elif -3 < point <= 7:
        integral = string[: max(point, 0)].ljust(max(point, 0), "0") or "0"
        string = f"{integral}.{'0' * -point}{string[max(point, 0) :] or '0'}"
    else:
        string = f"{string[0]}.{string[1:] or '0'}E{point - 1}"
    return f"-{string}" if sign else string


def _format_time(value: datetime | time) -> str:
    string = value.replace(tzinfo=None).isoformat().replace("T", " ")
    return string.rstrip("0") if value.microsecond else string  # as Spark, without the zeros of a fraction


_INTEGERS: Final = [np.dtype(f"{sign}int{bits}").type for sign, bits in product(("", "u"), (8, 16, 32, 64))]

_FORMATS: Final[Mapping[type, Callable[[Any], str]]] = {
    bool: lambda value: "true" if value else "false",
    np.bool_: lambda value: "true" if value else "false",
    int: str,
    **dict.fromkeys(_INTEGERS, str),
    float: _format_double,
    **dict.fromkeys((np.float16, np.float32, np.float64), _format_double),
    Decimal: lambda value: format(value, "f"),
    str: str,
    np.str_: str,
    bytes: lambda value: value.decode(errors="replace"),
    date: date.isoformat,
    datetime: _format_time,
    time: _format_time,
}
"""The function that formats a value like Spark's cast to string, by Python type."""
