"""The storage of arrow.parquet.variant, whole or shredded.

Strategy
--------
A variant is a struct of ``metadata``, its dictionary of keys, and ``value``, its bytes. Where values are of one type
they may be shredded: ``typed_value`` has them as an Arrow array. The elements of a shredded list, and the fields of a
shredded object, are structs of ``value`` and ``typed_value`` again (VariantShredding.md). This module says which types
are such storage; ``conform/variants.py`` puts the values together.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import types as s

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.errors import UnsupportedError

METADATA: Final = "metadata"
VALUE: Final = "value"
TYPED: Final = "typed_value"

LISTS: Final = (t.List, t.LargeList, t.ListView, t.LargeListView)
_BYTES: Final = (t.Binary, t.LargeBinary, t.BinaryView, t.FixedSizeBinary)
_TEXT: Final = (t.Utf8, t.LargeUtf8, t.Utf8View)
_MOST_DIGITS: Final = 38
_UUID: Final = t.FixedSizeBinary(16)
_MICROSECOND: Final = t.TimeUnit.MICROSECOND


def is_variant(type_: t.DataType) -> bool:
    """Return whether a type is the storage of variants, shredded or not."""
    parts = part_types(type_)
    # VariantShredding.md: the metadata may be encoded, because all rows often have the same.
    if METADATA not in parts or not isinstance(_decoded(parts.pop(METADATA)), _BYTES):
        return False
    return _is_node(parts)


def is_shredded(type_: t.DataType) -> bool:
    """Return whether the values of a variant's storage are partly in columns of their own."""
    return TYPED in part_types(type_)


def part_types(type_: t.DataType) -> dict[str, t.DataType]:
    """Return the types of a struct's fields by name; nothing if it is no struct or names are there twice."""
    fields = type_.fields if isinstance(type_, t.Struct) else ()
    parts = {field.name: field.type for field in fields}
    return parts if len(parts) == len(fields) else {}


def check_variant(type_: t.DataType, path: str) -> None:
    """Check that Spark's variants hold all types of a variant's storage; `path` of the column is for errors.

    Raises
    ------
    UnsupportedError
        A shredded type is one of Arrow's variants and not of Spark's.
    """
    typed = part_types(type_).get(TYPED)
    if typed is None:
        return
    if isinstance(typed, LISTS):
        check_variant(typed.children[0].type, f"{path}[]")
    elif isinstance(typed, t.Struct):
        for field in typed.fields:
            check_variant(field.type, f"{path}.{field.name}")
    elif _is_missing_in_spark(typed):
        raise UnsupportedError(
            f"values of the variant are {typed}, and Spark's variant has no such type; read the parts of the column with "
            "extensionTypes=storage, or leave it out with the option columns",
            field_path=path,
        )


def shredded_primitive(type_: t.DataType) -> s.DataType | None:
    """Return the Spark type of the values of a ``typed_value``; None if it is no primitive of Spark's variants."""
    found: s.DataType | None = None
    if isinstance(type_, t.Int) and type_.signed:
        found = {8: s.ByteType, 16: s.ShortType, 32: s.IntegerType, 64: s.LongType}[type_.bit_width]()
    elif isinstance(type_, t.Decimal) and 0 <= type_.scale <= type_.precision <= _MOST_DIGITS:
        found = s.DecimalType(type_.precision, type_.scale)
    elif isinstance(type_, t.Timestamp) and type_.unit is _MICROSECOND:
        found = s.TimestampNTZType() if type_.timezone is None else s.TimestampType()
    elif isinstance(type_, _TEXT):
        found = s.StringType()
    elif isinstance(type_, (t.Binary, t.LargeBinary, t.BinaryView)) or type_ == _UUID:
        found = s.BinaryType()
    else:
        same = {t.bool_: s.BooleanType(), t.float32: s.FloatType(), t.float64: s.DoubleType(), t.date32: s.DateType()}
        found = same.get(type_)
    return found


def _is_node(parts: dict[str, t.DataType]) -> bool:
    """Return whether parts are those of a value: bytes, a shredded type, or both."""
    if not parts or not parts.keys() <= {VALUE, TYPED}:
        return False
    if VALUE in parts and not isinstance(parts[VALUE], _BYTES):
        return False
    return TYPED not in parts or _is_typed(parts[TYPED])


def _is_typed(type_: t.DataType) -> bool:
    if isinstance(type_, LISTS):
        return _is_node(part_types(type_.children[0].type))
    if isinstance(type_, t.Struct):
        fields = part_types(type_)
        return len(fields) == len(type_.fields) and all(_is_node(part_types(field)) for field in fields.values())
    return shredded_primitive(type_) is not None or _is_missing_in_spark(type_)


def _is_missing_in_spark(type_: t.DataType) -> bool:
    """Return whether a type is one of the variants of Parquet, and not of Spark."""
    if isinstance(type_, t.Timestamp):
        return type_.unit is t.TimeUnit.NANOSECOND
    return type_ == t.Time(_MICROSECOND, 64)


def _decoded(type_: t.DataType) -> t.DataType:
    if isinstance(type_, t.Dictionary):
        return type_.value
    return type_.values.type if isinstance(type_, t.RunEndEncoded) else type_
