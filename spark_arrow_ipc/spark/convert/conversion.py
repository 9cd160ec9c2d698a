"""`Conversion`: from arrays of one field to the pyarrow arrays of Spark.

How it works
------------
Conversions are compiled once for each file schema (`plan`) and called once for each batch, on complete buffers.

Slots that are not visible (null slots, slots below a null struct or outside any list) may hold any value, so checks
(overflow, the digits of a decimal, NOT NULL) must ignore them. A conversion that `checks` gets a mask of *live* slots,
those whose parents are all valid; a live slot may be null by its own validity bitmap. Parents compute the mask only
for children that check, since most conversions do not.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import types as s

from spark_arrow_ipc.arrow import array_data
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.layout import Family, by_type
from spark_arrow_ipc.arrow.measure import MOST, measure
from spark_arrow_ipc.errors import LimitError, UnsupportedError
from spark_arrow_ipc.spark import bridge
from spark_arrow_ipc.spark.options.read_options import ReadOptions
from spark_arrow_ipc.spark.types.spark_to_arrow import storage_type

# Upper bounds of the decoded size of a batch, from its buffers only.
#
# `arrow.measure` gives the exact size, but costs a few numpy calls for each column and reads every dictionary index.
# Almost no batch has to be cut, so a cheap upper bound comes first: the sizes of the buffers, and for dictionaries the
# longest value, which is measured once for each dictionary. Types whose slots share bytes, or have none, have no bound.
Bound: TypeAlias = Callable[[Sequence[Array]], int]
"""Takes the columns of a batch; returns an upper bound of their decoded bytes."""

_MOST_VALUES: Final = 1 << 22
"""Most values of a dictionary that is measured: measuring takes dozens of bytes for each value."""

_OfArray: TypeAlias = Callable[[Array], int]


def compile_bound(types: Sequence[t.DataType]) -> Bound | None:
    """Compile the bound for columns of these types, or None if a type has none."""
    free = [i for i, type_ in enumerate(types) if _is_leaf(type_) and _hides_slots(type_)]
    beyond = [(i, _compile_nested_bound(type_)) for i, type_ in enumerate(types) if not _is_leaf(type_)]
    bounds = [(i, of_array) for i, of_array in beyond if of_array is not None]
    if len(bounds) < len(beyond):
        return None

    def bound(columns: Sequence[Array]) -> int:
        # One loop over all buffers: most columns of wide tables are leaves, and a call for each would cost more.
        nbytes = sum([len(buffer) for column in columns for buffer in column.buffers if buffer])
        if free:
            nbytes += _SLOT_NBYTES * sum(columns[i].length for i in free)
        return nbytes + sum(of_array(columns[i]) for i, of_array in bounds)

    return bound


_WITH_BYTES_ELSEWHERE: Final = (t.Dictionary, t.Utf8View, t.BinaryView)
"""Types without children whose values are outside the slots, where several slots may share them."""


def _is_leaf(type_: t.DataType) -> bool:
    """Return True if arrays of a type have neither children nor a dictionary."""
    return not type_.children and not isinstance(type_, _WITH_BYTES_ELSEWHERE)


def _compile_nested_bound(type_: t.DataType) -> _OfArray | None:
    """Compile the bound of an array's children or dictionary, or None if it has no bound."""
    if _hides_slots(type_):
        return None
    if isinstance(type_, t.Dictionary):
        return _LongestValue().bound
    below = compile_bound([field.type for field in type_.children])
    return None if below is None else lambda array: below(array.children)


_SLOT_NBYTES: Final = 16
"""About the bytes that a conversion spends on a slot: a position to gather it from, and an offset."""


def slot_prices(types: Sequence[t.DataType]) -> tuple[int, ...]:
    """Return for each column the bytes to count for a decoded slot in addition to its value."""
    # Slots that have bytes of their own are shared or copied once, so they cost nothing more.
    return tuple(_SLOT_NBYTES if _hides_slots(type_) else 0 for type_ in types)


def _hides_slots(type_: t.DataType) -> bool:
    """Return whether a few bytes may stand for billions of slots, at any depth."""
    return _HIDES_SLOTS[type(type_)](type_)


def _any_child(type_: t.DataType) -> bool:
    return any(_hides_slots(field.type) for field in type_.children)


def _always(_: t.DataType) -> bool:
    return True


def _never(_: t.DataType) -> bool:
    return False


_HIDES_SLOTS: Final[Mapping[type[t.DataType], Callable[[Any], bool]]] = {
    **by_type(
        {
            Family.NULL: _always,
            Family.BITS: _never,
            Family.FIXED_WIDTH: _never,
            Family.BINARY: _never,
            Family.VIEW: _always,
            Family.LIST: _any_child,
            Family.LIST_VIEW: _always,
            Family.FIXED_SIZE_LIST: lambda type_: not type_.list_size or _any_child(type_),
            Family.STRUCT: lambda type_: not type_.children or _any_child(type_),
            Family.SPARSE_UNION: _any_child,
            Family.DENSE_UNION: _always,
            Family.RUN_END_ENCODED: _always,
            Family.DICTIONARY: lambda type_: _hides_slots(type_.value),
        }
    ),
    t.FixedSizeBinary: lambda type_: not type_.byte_width,
}


class _LongestValue:
    """Caches the size of the longest value of one dictionary, which most files have for all batches."""

    def __init__(self) -> None:
        self._last: tuple[Array, int] | None = None

    def bound(self, array: Array) -> int:
        """Return the decoded bytes if every slot had the longest value."""
        dictionary = array.dictionary
        assert dictionary is not None
        if dictionary.length > _MOST_VALUES:
            return MOST
        if self._last is None or self._last[0] is not dictionary:
            values = np.arange(dictionary.length)
            nbytes = measure(dictionary, decoded=True)(values, values + 1)
            self._last = (dictionary, int(nbytes.max(initial=0)))
        return array.length * self._last[1]


Mask: TypeAlias = npt.NDArray[np.bool_] | None
"""One boolean for each slot; None if all are true."""

Numbers: TypeAlias = npt.NDArray[Any]

_MAX_OFFSET = 2**31 - 1


class Refusal(IntEnum):
    """The valid values that a conversion refuses. They decide whether headers and statistics may answer for a column."""

    NONE = (
        0  # none; a slot is null exactly if it is null in the file, so that headers count the nulls of Spark's column
    )
    OUTSIDE = 1  # those outside of a range, nulls as above: if the least and the greatest value are accepted, all are
    UNKNOWN = 2  # others, or values become nulls: only decoding tells

    @classmethod
    def of_parts(cls, parts: Iterable[Conversion]) -> Refusal:
        """Return the refusal of a type with children, whose values have no order."""
        return cls.NONE if all(part.refusal is cls.NONE for part in parts) else cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class Conversion:
    """The conversion of one Arrow field's arrays to pyarrow arrays."""

    # Takes an array and the mask of its live slots; returns as many slots of the expected type.
    convert: Callable[[Array, Mask], pa.Array]
    checks: bool = False  # whether `convert` uses `live`; if not, parents need not compute it
    refusal: Refusal = Refusal.UNKNOWN
    # Returns a dictionary array of the expected type's values; None for other columns.
    encode: Callable[[Array], pa.Array] | None = None


ABSENT_FIELD: Final = t.Field("", t.null)
"""Stands for a column or struct field that this file lacks, with ``mergeSchema``."""


def nulls(length: int) -> Array:
    """Return the array of `ABSENT_FIELD`."""
    return Array(t.null, length, length, ())


class DictionaryBudget:
    """The limit of the bytes of a file's converted dictionaries, which stay in memory between batches."""

    def __init__(self, nbytes: int) -> None:
        self._nbytes = nbytes
        self._held: dict[int, int] = {}

    def hold(self, owner: object, values: Array, path: str) -> None:
        """Count the values that `owner` is about to convert, and no longer those that it held; raise beyond the limit."""
        price = slot_prices([values.type])[0]
        (nbytes,) = measure(values, decoded=True, slot_nbytes=price)(np.array([0]), np.array([values.length])).tolist()
        total = nbytes + sum(held for holder, held in self._held.items() if holder != id(owner))
        if total > self._nbytes:
            raise LimitError(
                f"the decoded dictionaries of the file take {total:,} bytes, the budget is {self._nbytes:,}; "
                "raise the option maxBatchBytes where this file is trusted",
                field_path=path,
            )
        self._held[id(owner)] = nbytes


class Compile(Protocol):
    """Compiles the conversion of a child."""

    def __call__(self, field: t.Field, target: s.DataType, path: str, *, nullable: bool) -> Conversion:
        """Return the conversion of `field` to the Spark type `target`."""


@dataclass(frozen=True, slots=True)
class Site:
    """The path and the options for which a conversion is compiled."""

    path: str  # of the field, for errors
    options: ReadOptions
    compile: Compile  # compiles a child
    dictionaries: DictionaryBudget  # of all converted dictionaries


def data(array: Array, dtype: npt.DTypeLike) -> Numbers:
    """Return the slots of the DATA buffer as numbers: a view of shape ``(length,)``."""
    return buffer_values(array, 1, dtype, array.length)


def buffer_values(array: Array, buffer_number: int, dtype: npt.DTypeLike, count: int) -> Numbers:
    """Return a view of `count` elements of one buffer, from the array's offset on."""
    return array_data.view_as(array.buffers[buffer_number], dtype, array.offset, count)


def offsets(array: Array, dtype: npt.DTypeLike) -> Numbers:
    """Return a view of the ``length + 1`` value offsets, or one zero if the array is empty."""
    # An empty array may lack the buffer (Columnar.rst).
    return buffer_values(array, 1, dtype, array.length + 1) if array.length else np.zeros(1, dtype)


def validity(array: Array) -> pa.Buffer | None:
    """Return the validity bitmap from slot 0 on, shared if the array's offset is a multiple of 8."""
    bits = array.validity
    if bits is None or array.null_count == 0:
        return None
    return pa.py_buffer(array_data.slice_bits(bits, array.offset, array.length) if array.offset else bits)


def valid(array: Array) -> Mask:
    """Return the mask of the slots that are not null, by the validity bitmap."""
    if array.validity is None or array.count_nulls() == 0:
        return None
    return array_data.validity_mask(array)


def both(one: Mask, other: Mask) -> Mask:
    """Return the mask of the slots where both masks are true."""
    return other if one is None else one if other is None else one & other


def visible_slots(array: Array, live: Mask) -> Mask:
    """Return the mask of the slots that are live and not null."""
    return both(valid(array), live)


def retype(type_: pa.DataType, array: Array) -> pa.Array:
    """Return the array as another pyarrow type of the same layout, without copying."""
    return pa.Array.from_buffers(type_, array.length, bridge.buffers_of(array), array.null_count, array.offset)


def rebuild(type_: pa.DataType, array: Array, *buffers: Any) -> pa.Array:
    """Return an array of new buffers, with the validity of `array`."""
    buffers_of_array = [validity(array), *(pa.py_buffer(buffer) for buffer in buffers)]
    return pa.Array.from_buffers(type_, array.length, buffers_of_array, array.null_count)


def narrow_offsets(values: Numbers, path: str) -> npt.NDArray[np.int32]:
    """Return value offsets that begin at 0 in 32 bits, as Spark has them."""
    # Batches are cut before this (`plan`), so only one row can be too long.
    if values[-1] > _MAX_OFFSET:
        raise LimitError(
            f"a row has {int(values[-1]):,} bytes or elements, and Spark's value offsets end at {_MAX_OFFSET:,}",
            field_path=path,
        )
    return values.astype(np.int32)


def even_offsets(count: int, size: int, path: str) -> npt.NDArray[np.int32]:
    """Return the value offsets of rows of one size."""
    return narrow_offsets(np.arange(count + 1, dtype=np.int64) * size, path)


def offsets_of_sizes(sizes: Numbers) -> npt.NDArray[np.int64]:
    """Return the value offsets of consecutive rows of these sizes."""
    ends = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=ends[1:])
    return ends


def convert_picked(element: Conversion, child: Array, picked: npt.NDArray[np.int64]) -> pa.Array:
    """Convert a list's child, and gather the elements at the given positions."""
    live: Mask = None
    if element.checks:
        # Elements that belong to no row may break the rules of their type.
        live = np.zeros(child.length, np.bool_)
        live[picked] = True
    converted = element.convert(child, live)
    if len(picked) == child.length and np.array_equal(picked, np.arange(child.length)):
        return converted  # as in most files, where the elements are in order
    return converted.take(bridge.numbers(picked))


def first_seen(bad: npt.NDArray[np.bool_], array: Array, live: Mask) -> int | None:
    """Return the first visible slot that is bad, or None."""
    if not bad.any():
        return None
    mask = visible_slots(array, live)
    if mask is not None:
        bad = bad & mask
    return int(bad.argmax()) if bad.any() else None


def share(type_: pa.DataType) -> Conversion:
    """Return the conversion of a type whose layout is the one that Spark expects. O(1)."""
    return Conversion(lambda array, _live: retype(type_, array), refusal=Refusal.NONE)


# `EXPECTED`: the pyarrow type that Spark expects for each Spark type.
#
# Spark checks only the first batch of a task against ``to_arrow_schema(schema, timezone="UTC")``, so every batch must
# be right. PySpark's function differs between releases (4.1 has no ``timezone``), so this is a table of our own, which
# a test compares with the installed release.
_METADATA_KEY = b"SPARK::metadata::json"
"""The key by which Spark's ``ArrowUtils`` finds a field's metadata."""


def pyarrow_schema(spark_schema: s.StructType) -> pa.Schema:
    """Return the pyarrow schema of all batches of a read of this Spark schema."""
    return pa.schema([_struct_field(field, field.name) for field in spark_schema.fields])


def pyarrow_type(spark_type: s.DataType, path: str) -> pa.DataType:
    """Return the pyarrow type that Spark expects for a Spark type; `path` is for errors."""
    spark_type = storage_type(spark_type)
    expected = EXPECTED.get(type(spark_type))
    if expected is None:
        raise UnsupportedError(
            f"Spark takes no columns of type {spark_type.simpleString()} from a Python data source; "
            "ask for another type in the schema",
            field_path=path,
        )
    return expected(spark_type, path)


def _struct_field(field: s.StructField, path: str) -> pa.Field:
    expected = _field(field.name, field.dataType, path, nullable=field.nullable)
    return expected.with_metadata({_METADATA_KEY: json.dumps(field.metadata).encode()}) if field.metadata else expected


def _field(name: str, spark_type: s.DataType, path: str, *, nullable: bool) -> pa.Field:
    if isinstance(spark_type, s.NullType) and not nullable:
        raise UnsupportedError("void holds nothing but nulls, so it cannot be NOT NULL", field_path=path)
    return pa.field(name, pyarrow_type(spark_type, path), nullable)


def _just(type_: pa.DataType) -> Callable[[Any, str], pa.DataType]:
    return lambda _spark_type, _path: type_


_VARIANT: Final = pa.struct([
    pa.field("value", pa.binary(), nullable=False),
    pa.field("metadata", pa.binary(), nullable=False, metadata={b"variant": b"true"}),
])  # fmt: skip


def _spatial(kind: bytes) -> Callable[[Any, str], pa.DataType]:
    def build(spark_type: s.SpatialType, _path: str) -> pa.DataType:
        metadata = {kind: b"true", b"srid": str(spark_type.srid).encode()}
        wkb = pa.field("wkb", pa.binary(), nullable=False, metadata=metadata)
        return pa.struct([pa.field("srid", pa.int32(), nullable=False), wkb])

    return build


EXPECTED: Mapping[type[s.DataType], Callable[[Any, str], pa.DataType]] = {
    s.NullType: _just(pa.null()),
    s.BooleanType: _just(pa.bool_()),
    s.ByteType: _just(pa.int8()),
    s.ShortType: _just(pa.int16()),
    s.IntegerType: _just(pa.int32()),
    s.LongType: _just(pa.int64()),
    s.FloatType: _just(pa.float32()),
    s.DoubleType: _just(pa.float64()),
    s.DecimalType: lambda type_, _path: pa.decimal128(type_.precision, type_.scale),
    s.StringType: _just(pa.string()),
    s.BinaryType: _just(pa.binary()),
    s.DateType: _just(pa.date32()),
    s.TimeType: _just(pa.time64("ns")),
    s.TimestampType: _just(pa.timestamp("us", "UTC")),
    s.TimestampNTZType: _just(pa.timestamp("us")),
    s.DayTimeIntervalType: _just(pa.duration("us")),
    s.ArrayType: lambda type_, path: pa.list_(
        _field("element", type_.elementType, f"{path}[]", nullable=type_.containsNull)
    ),
    s.MapType: lambda type_, path: pa.map_(
        _field("key", type_.keyType, f"{path}[].key", nullable=False),
        _field("value", type_.valueType, f"{path}[].value", nullable=type_.valueContainsNull),
    ),
    s.StructType: lambda type_, path: pa.struct([_struct_field(each, f"{path}.{each.name}") for each in type_.fields]),
    s.VariantType: _just(_VARIANT),
    s.GeometryType: _spatial(b"geometry"),
    s.GeographyType: _spatial(b"geography"),
}
"""By Spark type class. Others (year-month interval, char) are refused."""
