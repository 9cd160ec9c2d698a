"""Arrow's data types and fields as frozen values.

One class for each *layout* of the columnar format (`SparseUnion` and `DenseUnion` are two, `Int` is one), with
the parameters and names of ``Schema.fbs``. A nested type has fields, so `Field` is here too. Types compare by value,
are independent of bytes, and are checked by their constructors: an invalid one is a ValueError.

User code uses the ready values (`int32`, `utf8`, ...) and the small functions (`list_`, `struct`, ...) at the end;
tables are keyed by the classes.

To add a type:

1. Its class, here, and its row in `LAYOUTS` (``arrow/layout.py``); if its slots are of a fixed width, in `BIT_WIDTHS` as
   well. A new layout gets a `Family`, and a row in each of the tables that ``tests/arrow/test_layout.py`` names.
2. Its Flatbuffers table in ``ipc/flatbuf/tables.py``, and its row in ``ipc/messages/schema.py``; print ``format/*.fbs`` again.
3. Values: the rows in ``arrow/python_values/to_pylist.py`` and ``from_pylist_leaves.py`` (two), in ``arrow_json/types.py``, in
   ``tests/integration_json/values.py`` and in ``arrow/pyarrow_bridge.py``, if pyarrow has the type.
4. Its row in `MAPPINGS` (``spark/types/arrow_to_spark.py``), and in ``spark/convert/plan.py``, how its values get there.

Each table has a test that names what is missing. The type has no statistics, and no meaning in `where`, until
``dataset/statistics/`` and ``dataset/predicate/coercion.py`` get rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from spark_arrow_ipc.errors import printable

CustomMetadata: TypeAlias = tuple[tuple[str, str], ...]
"""Key-value pairs in file order. A key may occur twice, as in ``Schema.fbs``.

A value may hold any bytes: bytes that are not UTF-8 are surrogates, as from ``bytes.decode(errors="surrogateescape")``,
and are written back unchanged. `value_bytes` returns the bytes.
"""

AnyPairs: TypeAlias = Mapping[str, str] | Mapping[str, str | bytes] | Iterable[tuple[str, str | bytes]]
"""Key-value pairs from users; values are strings or bytes."""


class Precision(IntEnum):
    """Width of a floating point number."""

    HALF = 0
    SINGLE = 1
    DOUBLE = 2


class DateUnit(IntEnum):
    """Unit of `Date`."""

    DAY = 0
    MILLISECOND = 1


class TimeUnit(IntEnum):
    """Unit of `Time`, `Timestamp` and `Duration`."""

    SECOND = 0
    MILLISECOND = 1
    MICROSECOND = 2
    NANOSECOND = 3

    @property
    def abbreviation(self) -> str:
        """The unit as types write it: s, ms, us or ns."""
        return ("s", "ms", "us", "ns")[self]

    @property
    def per_second(self) -> int:
        """The number of these units in a second."""
        return (1, 1_000, 1_000_000, 1_000_000_000)[self]


def _require(condition: bool, expected: str, actual: object) -> None:
    if not condition:
        raise ValueError(f"expected {expected}, found {actual}")


@dataclass(frozen=True, slots=True)
class DataType:
    """Base of all types. `children` are the fields of a nested type."""

    # Types without parameters inherit the methods of this dataclass, and are not decorated again: that takes a third of a
    # millisecond a class when a worker starts.

    @property
    def children(self) -> tuple[Field, ...]:
        """The child fields in the order of the format; empty for a type without children."""
        return ()


@dataclass(frozen=True, slots=True)
class Field:
    """A named, possibly nullable slot of a schema or of a nested type.

    Parameters
    ----------
    name
        May be empty, and two fields may share one name.
    type
        The logical type; a dictionary-encoded field has a `Dictionary`.
    nullable
        False is a promise that Arrow does not enforce.
    custom_metadata
        Pairs in order; `field` takes a mapping as well.
    """

    name: str
    type: DataType
    nullable: bool = True
    custom_metadata: CustomMetadata = ()

    def __str__(self) -> str:
        return f"{printable(self.name)}: {self.type}{'' if self.nullable else ' not null'}"

    @property
    def extension_name(self) -> str | None:
        """The name of the extension type that this field carries on its storage type, or None."""
        return dict(self.custom_metadata).get("ARROW:extension:name")


class Null(DataType):
    """Only nulls; no buffers."""

    __slots__ = ()

    def __str__(self) -> str:
        return "null"


class Bool(DataType):
    """One bit for each slot."""

    __slots__ = ()

    def __str__(self) -> str:
        return "bool"


@dataclass(frozen=True, slots=True)
class Int(DataType):
    """Whole number of 8, 16, 32 or 64 bits."""

    bit_width: int
    signed: bool

    def __post_init__(self) -> None:
        _require(self.bit_width in (8, 16, 32, 64), "an integer bit width of 8, 16, 32 or 64", self.bit_width)

    def __str__(self) -> str:
        return f"{'' if self.signed else 'u'}int{self.bit_width}"


@dataclass(frozen=True, slots=True)
class FloatingPoint(DataType):
    """IEEE 754 number of half, single or double precision."""

    precision: Precision

    def __str__(self) -> str:
        return ("float16", "float32", "float64")[self.precision]

    @property
    def bit_width(self) -> int:
        """Bits of a slot: 16, 32 or 64."""
        return (16, 32, 64)[self.precision]


MAX_DECIMAL_PRECISION: Mapping[int, int] = {32: 9, 64: 18, 128: 38, 256: 76}
"""Decimal digits that fit each bit width."""


@dataclass(frozen=True, slots=True)
class Decimal(DataType):
    """Unscaled two's complement integer of 32, 64, 128 or 256 bits; the value is unscaled * 10**-scale."""

    precision: int
    scale: int
    bit_width: int = 128

    def __post_init__(self) -> None:
        _require(self.bit_width in MAX_DECIMAL_PRECISION, "a decimal bit width of 32, 64, 128 or 256", self.bit_width)
        most = MAX_DECIMAL_PRECISION[self.bit_width]
        _require(1 <= self.precision <= most, f"a decimal precision of 1 to {most}", self.precision)

    def __str__(self) -> str:
        return f"decimal{self.bit_width}({self.precision}, {self.scale})"


@dataclass(frozen=True, slots=True)
class Date(DataType):
    """Days (int32) or milliseconds (int64) since 1970-01-01."""

    unit: DateUnit

    def __str__(self) -> str:
        return ("date32[day]", "date64[ms]")[self.unit]

    @property
    def bit_width(self) -> int:
        """Bits of a slot: 32 for days, 64 for milliseconds."""
        return (32, 64)[self.unit]


@dataclass(frozen=True, slots=True)
class Time(DataType):
    """Time since midnight: 32 bits for s and ms, 64 bits for us and ns."""

    unit: TimeUnit
    bit_width: int

    def __post_init__(self) -> None:
        bit_width = 32 if self.unit <= TimeUnit.MILLISECOND else 64
        _require(
            self.bit_width == bit_width, f"a time[{self.unit.abbreviation}] bit width of {bit_width}", self.bit_width
        )

    def __str__(self) -> str:
        return f"time{self.bit_width}[{self.unit.abbreviation}]"


@dataclass(frozen=True, slots=True)
class Timestamp(DataType):
    """Units since 1970-01-01: in UTC with a time zone, otherwise local time of an unknown zone."""

    unit: TimeUnit
    timezone: str | None = None

    def __post_init__(self) -> None:
        _require(self.timezone != "", "a time zone's name or None", "an empty name")

    def __str__(self) -> str:
        zone = f", tz={printable(self.timezone)}" if self.timezone is not None else ""
        return f"timestamp[{self.unit.abbreviation}{zone}]"


@dataclass(frozen=True, slots=True)
class Duration(DataType):
    """Elapsed time, 64 bits."""

    unit: TimeUnit

    def __str__(self) -> str:
        return f"duration[{self.unit.abbreviation}]"


class IntervalYearMonth(DataType):
    """Months, int32."""

    __slots__ = ()

    def __str__(self) -> str:
        return "interval[year_month]"


class IntervalDayTime(DataType):
    """Days int32, then milliseconds int32."""

    __slots__ = ()

    def __str__(self) -> str:
        return "interval[day_time]"


class IntervalMonthDayNano(DataType):
    """Months int32, days int32, nanoseconds int64."""

    __slots__ = ()

    def __str__(self) -> str:
        return "interval[month_day_nano]"


@dataclass(frozen=True, slots=True)
class FixedSizeBinary(DataType):
    """`byte_width` bytes for each slot; may be 0."""

    byte_width: int

    def __post_init__(self) -> None:
        _require(self.byte_width >= 0, "a byte width of at least 0", self.byte_width)

    def __str__(self) -> str:
        return f"fixed_size_binary[{self.byte_width}]"


class Binary(DataType):
    """Bytes, 32-bit value offsets."""

    __slots__ = ()

    def __str__(self) -> str:
        return "binary"


class LargeBinary(DataType):
    """Bytes, 64-bit value offsets."""

    __slots__ = ()

    def __str__(self) -> str:
        return "large_binary"


class BinaryView(DataType):
    """Bytes, in views of 16 bytes and any number of variadic buffers."""

    __slots__ = ()

    def __str__(self) -> str:
        return "binary_view"


class Utf8(DataType):
    """UTF-8 text, 32-bit value offsets."""

    __slots__ = ()

    def __str__(self) -> str:
        return "utf8"


class LargeUtf8(DataType):
    """UTF-8 text, 64-bit value offsets."""

    __slots__ = ()

    def __str__(self) -> str:
        return "large_utf8"


class Utf8View(DataType):
    """UTF-8 text, in views of 16 bytes and any number of variadic buffers."""

    __slots__ = ()

    def __str__(self) -> str:
        return "utf8_view"


UTF8_CLASSES = frozenset({Utf8, LargeUtf8, Utf8View})
"""Type classes whose values are UTF-8."""


@dataclass(frozen=True, slots=True)
class _ListLike(DataType):
    value: Field

    @property
    def children(self) -> tuple[Field, ...]:
        """The one field of the elements."""
        return (self.value,)


class List(_ListLike):
    """Elements between two 32-bit value offsets."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"list<{self.value}>"


class LargeList(_ListLike):
    """Elements between two 64-bit value offsets."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"large_list<{self.value}>"


class ListView(_ListLike):
    """Elements at a 32-bit value offset with a size, in any order."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"list_view<{self.value}>"


class LargeListView(_ListLike):
    """Elements at a 64-bit value offset with a size, in any order."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"large_list_view<{self.value}>"


@dataclass(frozen=True, slots=True)
class FixedSizeList(DataType):
    """`list_size` elements for each slot; may be 0."""

    value: Field
    list_size: int

    def __post_init__(self) -> None:
        _require(self.list_size >= 0, "a list size of at least 0", self.list_size)

    def __str__(self) -> str:
        return f"fixed_size_list<{self.value}>[{self.list_size}]"

    @property
    def children(self) -> tuple[Field, ...]:
        """The one field of the elements."""
        return (self.value,)


@dataclass(frozen=True, slots=True)
class Struct(DataType):
    """One slot of each field."""

    fields: tuple[Field, ...]

    def __str__(self) -> str:
        return f"struct<{', '.join(map(str, self.fields))}>"

    @property
    def children(self) -> tuple[Field, ...]:
        """The struct's fields."""
        return self.fields


@dataclass(frozen=True, slots=True)
class Map(DataType):
    """Entries (a struct of key and value, under any names) between two 32-bit value offsets."""

    entries: Field
    keys_sorted: bool = False

    def __post_init__(self) -> None:
        pair = isinstance(self.entries.type, Struct) and len(self.entries.type.fields) == 2
        _require(pair, "map entries of a struct with two fields", self.entries.type)

    def __str__(self) -> str:
        return f"map<{self.key}, {self.item}{', sorted' if self.keys_sorted else ''}>"

    @property
    def children(self) -> tuple[Field, ...]:
        """The one field of the entries."""
        return (self.entries,)

    @property
    def key(self) -> Field:
        """The field of the keys."""
        return self.entries.type.children[0]

    @property
    def item(self) -> Field:
        """The field of the values."""
        return self.entries.type.children[1]


@dataclass(frozen=True, slots=True)
class _Union(DataType):
    fields: tuple[Field, ...]
    type_ids: tuple[int, ...]

    def __post_init__(self) -> None:
        _require(len(self.type_ids) == len(self.fields), f"{len(self.fields)} union type ids", list(self.type_ids))
        sound = len(set(self.type_ids)) == len(self.type_ids) and all(0 <= i <= 127 for i in self.type_ids)
        _require(sound, "distinct union type ids of 0 to 127", list(self.type_ids))

    def _string(self, mode: str) -> str:
        fields = ", ".join(f"{field}={i}" for field, i in zip(self.fields, self.type_ids, strict=True))
        return f"{mode}_union<{fields}>"

    @property
    def children(self) -> tuple[Field, ...]:
        """The union's fields, one for each type id."""
        return self.fields


class SparseUnion(_Union):
    """Each slot is one of the fields; every child has all slots."""

    __slots__ = ()

    def __str__(self) -> str:
        return self._string("sparse")


class DenseUnion(_Union):
    """Each slot is one of the fields; a child has only its own slots."""

    __slots__ = ()

    def __str__(self) -> str:
        return self._string("dense")


@dataclass(frozen=True, slots=True)
class RunEndEncoded(DataType):
    """Runs of equal values: the end of each (int16, int32 or int64), and its value."""

    run_ends: Field
    values: Field

    def __post_init__(self) -> None:
        ends = self.run_ends.type
        sound = isinstance(ends, Int) and ends.signed and ends.bit_width > 8
        _require(sound, "run ends of int16, int32 or int64", ends)

    def __str__(self) -> str:
        return f"run_end_encoded<{self.run_ends}, {self.values}>"

    @property
    def children(self) -> tuple[Field, ...]:
        """Run ends, then values."""
        return (self.run_ends, self.values)


@dataclass(frozen=True, slots=True)
class Dictionary(DataType):
    """Indices into a dictionary of values.

    The dictionary's id belongs to the file and is not part of the type. A batch holds only the indices, so
    `children` is empty; the children of the values are ``value.children``.
    """

    index: Int
    value: DataType
    ordered: bool = False

    def __post_init__(self) -> None:
        _require(isinstance(self.index, Int), "a dictionary index of an integer type", self.index)
        _require(not isinstance(self.value, Dictionary), "a dictionary value type that is not a dictionary", self.value)

    def __str__(self) -> str:
        return f"dictionary<{self.index}, {self.value}{', ordered' if self.ordered else ''}>"


null = Null()
bool_ = Bool()
int8, int16, int32, int64 = (Int(width, signed=True) for width in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (Int(width, signed=False) for width in (8, 16, 32, 64))
float16, float32, float64 = map(FloatingPoint, Precision)
date32, date64 = map(Date, DateUnit)
binary = Binary()
large_binary = LargeBinary()
binary_view = BinaryView()
utf8 = Utf8()
large_utf8 = LargeUtf8()
utf8_view = Utf8View()


def pairs(custom_metadata: AnyPairs | None) -> CustomMetadata:
    """Return key-value pairs in order, from a mapping, pairs or None. A value may be bytes."""
    if custom_metadata is None:
        return ()
    items = custom_metadata.items() if isinstance(custom_metadata, Mapping) else custom_metadata
    return tuple(
        (str(key), value.decode(errors="surrogateescape") if isinstance(value, bytes) else str(value))
        for key, value in items
    )


def value_bytes(value: str) -> bytes:
    """Return the bytes of a value of custom metadata."""
    return value.encode(errors="surrogateescape")


def field(
    name: str,
    type: DataType,  # noqa: A002 - the name that Schema.fbs gives it
    *,
    nullable: bool = True,
    custom_metadata: AnyPairs | None = None,
) -> Field:
    """Return a field; `custom_metadata` may be a mapping."""
    return Field(name, type, nullable, pairs(custom_metadata))


def list_(value: DataType | Field) -> List:
    """Return a list type; a bare type becomes a nullable field named ``item``, as in Arrow C++."""
    return List(value if isinstance(value, Field) else Field("item", value))


def struct(fields: Iterable[Field | tuple[str, DataType]]) -> Struct:
    """Return a struct type of fields or of (name, type) pairs."""
    return Struct(tuple(f if isinstance(f, Field) else Field(*f) for f in fields))


def map_(key: DataType, value: DataType, *, keys_sorted: bool = False) -> Map:
    """Return a map type with the usual names: entries of key and value."""
    entries = Struct((Field("key", key, nullable=False), Field("value", value)))
    return Map(Field("entries", entries, nullable=False), keys_sorted)


def dictionary(index: Int, value: DataType, *, ordered: bool = False) -> Dictionary:
    """Return a dictionary type: integer indices into values."""
    return Dictionary(index, value, ordered)


def run_end_encoded(run_ends: Int, values: DataType) -> RunEndEncoded:
    """Return a run-end encoded type with the usual names: run_ends and values."""
    return RunEndEncoded(Field("run_ends", run_ends, nullable=False), Field("values", values))
