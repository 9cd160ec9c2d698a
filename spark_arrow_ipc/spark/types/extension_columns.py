"""Extension types: those that become a Spark type of their own (`EXTENSIONS`), and columns of well-known binary.

GeoArrow has the coordinate reference system (CRS) of a column in the metadata of its extension type: as PROJJSON, as an
identifier such as ``EPSG:4326``, or as other text. Spark has a number for each CRS, its SRID. Only the identifier of a
CRS is read here, never its parameters; a CRS without one is an error that names it.

PySpark's `GeometryType` and `GeographyType` have fewer SRIDs than Spark's JVM. For the others the column has the type of
mixed SRIDs, ``GEOMETRY(ANY)``, and the SRID is in each row. The axes are longitude, latitude (or easting, northing) in
GeoArrow and in Spark for every CRS, so EPSG:4326 and OGC:CRS84 are the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import types as s

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.bounded_json import parse_json
from spark_arrow_ipc.errors import ArrowIpcError, InvalidMetadataError, UnsupportedError, cut_repr
from spark_arrow_ipc.spark.options.read_options import ReadOptions
from spark_arrow_ipc.spark.options.values import ExtensionTypes, Nanoseconds, TimestampsWithOffset

EXTENSION_NAME: Final = "ARROW:extension:name"
EXTENSION_METADATA: Final = "ARROW:extension:metadata"

WKB: Final = "geoarrow.wkb"
NAMES: Final = (WKB, "ogc.wkb")
"""Extension types whose values are well-known binary; the second is an older name of the first."""

UNKNOWN_SRID: Final = 0
"""Spark's SRID of geometries without a CRS."""

_SPEC: Final = "GeoArrow, extension-types.md"
_STORAGE: Final = (t.Binary, t.LargeBinary, t.BinaryView, t.FixedSizeBinary)
_MOST_TEXT: Final = 1 << 20
"""Characters of an extension's metadata that are read; PROJJSON of a compound CRS has about ten thousand."""

_NAMED_SRIDS: Final = {("OGC", "CRS84"): 4326, ("OGC", "CRS83"): 4269, ("OGC", "CRS27"): 4267}
_NUMBERED: Final = ("EPSG", "ESRI", "SRID")
"""Authorities whose codes are Spark's SRIDs; the last is what Parquet writes for a number without an authority."""

_IDENTIFIER: Final = re.compile(r"([A-Za-z]{2,16}):([A-Za-z0-9]{1,16})")
_URN: Final = re.compile(r"urn:ogc:def:crs:([A-Za-z]{2,16}):[0-9.]{0,16}:([A-Za-z0-9]{1,16})")
_END_OF_WKT: Final = re.compile(
    r"\b(?:ID|AUTHORITY)\[\s*\"([A-Za-z]{2,16})\"\s*,\s*\"?([A-Za-z0-9]{1,16})\"?\s*\]\s*\]\s*$"
)
"""The identifier of a CRS is the last part of its WKT; identifiers of its parts are inside of other brackets."""

_HAS_REGISTRY: Final = tuple(map(int, pyspark.__version__.split(".")[:2])) >= (4, 2)
"""True if Spark's JVM has more SRIDs than PySpark's types."""


@dataclass(frozen=True, slots=True)
class SpatialColumn:
    """The type of a column of well-known binary, by its metadata."""

    srid: int  # Spark's number of the CRS; `UNKNOWN_SRID` without one
    is_geography: bool  # whether edges follow the sphere

    @property
    def spark_type(self) -> s.DataType:
        """The Spark type, of mixed SRIDs if PySpark has none with this SRID."""
        kind = s.GeographyType if self.is_geography else s.GeometryType
        try:
            return kind(self.srid)
        except PySparkException:
            return kind("ANY")


def spatial_of(field: t.Field, path: str) -> SpatialColumn | None:
    """Return the geometries that the metadata of a field describe; None if it has none."""
    if field.extension_name not in NAMES or not isinstance(field.type, _STORAGE):
        return None
    return parse_spatial(dict(field.custom_metadata).get(EXTENSION_METADATA, ""), path)


def parse_spatial(text: str, path: str) -> SpatialColumn:
    """Parse the metadata of the extension; `path` of the column is for errors."""
    values = _json_object(text, path) if text else {}
    edges = values.get("edges") or "planar"
    if edges not in ("planar", "spherical"):
        _refuse(f"edges that are {_show(edges)}; it has planar ones (GEOMETRY) and spherical ones (GEOGRAPHY)", path)
    crs = values.get("crs")
    if crs is None:
        # Without a CRS a geography has the default one of Spark, Parquet and Iceberg: OGC:CRS84.
        return SpatialColumn(
            s.GeographyType.DEFAULT_SRID if edges == "spherical" else UNKNOWN_SRID, edges == "spherical"
        )
    column = SpatialColumn(_srid(crs, path), edges == "spherical")
    if column.spark_type.srid == s.GeometryType.MIXED_SRID and not _HAS_REGISTRY:
        _refuse(f"SRID {column.srid} in release {pyspark.__version__}; Spark 4.2 and later have it", path)
    return column


def _json_object(text: str, path: str) -> Mapping[str, Any]:
    try:
        values = parse_json(text) if len(text) <= _MOST_TEXT else None
    except ValueError:
        values = None
    if not isinstance(values, dict):
        raise InvalidMetadataError(
            expected=f"metadata of {WKB} that are a JSON object", found=_show(text), field_path=path, spec=_SPEC
        )
    return values


def _srid(crs: object, path: str) -> int:
    """Return Spark's SRID of a CRS, by its identifier."""
    if isinstance(crs, str) and crs.lstrip().startswith("{"):
        crs = _json_object(crs, path)
    identifier = _identifier(crs)
    if identifier is None:
        _refuse(f"SRID for a CRS without an identifier: {_show(crs)}", path)
    authority, code = identifier
    named = _NAMED_SRIDS.get((authority.upper(), code.upper()))
    if named is not None:
        return named
    # A number has at most nine digits here: SRIDs are 32-bit integers.
    if authority.upper() not in _NUMBERED or not re.fullmatch(r"[0-9]{1,9}", code):
        _refuse(f"SRID for the CRS {cut_repr(f'{authority}:{code}')[1:-1]}", path)
    return int(code)


def _identifier(crs: object) -> tuple[str, str] | None:
    """Return the authority and the code of a CRS, or None if it has none."""
    if isinstance(crs, int) and not isinstance(crs, bool):
        return "SRID", str(crs)
    if isinstance(crs, str):
        string = crs.strip()
        if string.isdecimal():
            return "SRID", string
        match = _IDENTIFIER.fullmatch(string) or _URN.fullmatch(string) or _END_OF_WKT.search(string[-100:])
        return (match[1], match[2]) if match is not None else None
    if not isinstance(crs, dict):
        return None
    # PROJJSON has `id`, or a list `ids`.
    several = crs.get("ids")
    first = several[0] if isinstance(several, list) and several else None
    id_ = crs.get("id", first)
    if not isinstance(id_, dict) or not isinstance(id_.get("authority"), str):
        return None
    code = id_.get("code")
    return (id_["authority"], str(code)) if isinstance(code, str | int) else None


def _show(value: object) -> str:
    named = value.get("name") if isinstance(value, dict) else None
    text = str(named if isinstance(named, str) else value)
    return repr(text if len(text) <= 100 else f"{text[:100]}...")


def _refuse(what: str, path: str) -> NoReturn:
    raise UnsupportedError(
        f"Spark has no {what}; read the column as binary with extensionTypes=convert or leave it out with the option columns",
        field_path=path,
    )


def spatial_pairs(spark_type: s.SpatialType, metadata: Mapping[str, Any], path: str) -> t.CustomMetadata:
    """Return the extension of a column that is written."""
    text = metadata.get(EXTENSION_METADATA, "")
    if metadata.get(EXTENSION_NAME) in NAMES and isinstance(text, str):
        # The metadata that it was read with may have the complete CRS, so they are written again if the type is the same.
        # A user may have edited them; the type suffices then.
        with suppress(ArrowIpcError):
            if parse_spatial(text, path).spark_type == spark_type:
                return tuple((key, metadata[key]) for key in (EXTENSION_NAME, EXTENSION_METADATA) if key in metadata)
    described = _describe(spark_type)
    # extension-types.md: without a key, the metadata are left out.
    return ((EXTENSION_NAME, WKB), (EXTENSION_METADATA, described)) if described else ((EXTENSION_NAME, WKB),)


def _describe(spark_type: s.SpatialType) -> str:
    """Return the metadata of the extension for a type; empty without a CRS."""
    is_geography = isinstance(spark_type, s.GeographyType)
    if spark_type.srid == spark_type.MIXED_SRID:
        crs = s.GeographyType.DEFAULT_CRS if is_geography else None
    else:
        crs = None if spark_type.srid == UNKNOWN_SRID else str(spark_type._crs)  # noqa: SLF001 - PySpark has no public name for it
    described: dict[str, str] = {} if crs is None else {"crs": crs, "crs_type": "authority_code"}
    if is_geography:
        described["edges"] = "spherical"
    return json.dumps(described) if described else ""


# The storage of arrow.parquet.variant, shredded or not.
#
# A variant is a struct of ``metadata``, its dictionary of keys, and ``value``, its bytes. Values of one type may be
# shredded into an Arrow array, ``typed_value``. The elements of a shredded list and the fields of a shredded object are
# structs of ``value`` and ``typed_value`` again (VariantShredding.md). These functions recognize such storage;
# ``convert/variants.py`` assembles the values.
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
    if METADATA not in parts or not isinstance(_value_type(parts.pop(METADATA)), _BYTES):
        return False
    return _is_node(parts)


def is_shredded(type_: t.DataType) -> bool:
    """Return whether a variant's storage has values in Arrow columns."""
    return TYPED in part_types(type_)


def part_types(type_: t.DataType) -> dict[str, t.DataType]:
    """Return the types of a struct's fields by name; nothing for other types, or if a name occurs twice."""
    fields = type_.fields if isinstance(type_, t.Struct) else ()
    parts = {field.name: field.type for field in fields}
    return parts if len(parts) == len(fields) else {}


def check_variant(type_: t.DataType, path: str) -> None:
    """Refuse a variant's storage with types that Spark's variants lack; `path` is for errors."""
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


def primitive_of_typed_value(type_: t.DataType) -> s.DataType | None:
    """Return the Spark type of a primitive ``typed_value``; None if Spark's variants do not have it."""
    if isinstance(type_, t.Int) and type_.signed:
        return {8: s.ByteType, 16: s.ShortType, 32: s.IntegerType, 64: s.LongType}[type_.bit_width]()
    if isinstance(type_, t.Decimal) and 0 <= type_.scale <= type_.precision <= _MOST_DIGITS:
        return s.DecimalType(type_.precision, type_.scale)
    if isinstance(type_, t.Timestamp) and type_.unit is _MICROSECOND:
        return s.TimestampNTZType() if type_.timezone is None else s.TimestampType()
    if isinstance(type_, _TEXT):
        return s.StringType()
    if isinstance(type_, (t.Binary, t.LargeBinary, t.BinaryView)) or type_ == _UUID:
        return s.BinaryType()
    same = {t.bool_: s.BooleanType(), t.float32: s.FloatType(), t.float64: s.DoubleType(), t.date32: s.DateType()}
    return same.get(type_)


def _is_node(parts: dict[str, t.DataType]) -> bool:
    """Return whether a struct of these parts is a value: bytes, a shredded type, or both."""
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
    return primitive_of_typed_value(type_) is not None or _is_missing_in_spark(type_)


def _is_missing_in_spark(type_: t.DataType) -> bool:
    """Return whether Parquet's variants have a type that Spark's lack."""
    if isinstance(type_, t.Timestamp):
        return type_.unit is t.TimeUnit.NANOSECOND
    return type_ == t.Time(_MICROSECOND, 64)


def _value_type(type_: t.DataType) -> t.DataType:
    if isinstance(type_, t.Dictionary):
        return type_.value
    return type_.values.type if isinstance(type_, t.RunEndEncoded) else type_


# Timestamps with an offset: a struct of the instant in UTC and the minutes by which the writer's clock differed from UTC.
# A value without an instant is null, and its offset may be missing (CanonicalExtensions.rst).
_MINUTES: Final = t.Int(16, signed=True)
_NAMES_WITH_OFFSET: Final = ("timestamp", "offset_minutes")


def is_with_offset(type_: t.DataType) -> bool:
    """Return whether a type is the storage of timestamps with an offset; offsets may be encoded."""
    if not isinstance(type_, t.Struct) or tuple(field.name for field in type_.fields) != _NAMES_WITH_OFFSET:
        return False
    instant, minutes = (field.type for field in type_.fields)
    return isinstance(instant, t.Timestamp) and instant.timezone == "UTC" and _value_type(minutes) == _MINUTES


def _of_timestamp_with_offset(type_: t.DataType, options: ReadOptions) -> s.DataType:
    if options.timestamps_with_offset is TimestampsWithOffset.STRING:
        return s.StringType()
    instant = type_.children[0].type
    assert isinstance(instant, t.Timestamp)
    is_count = instant.unit is t.TimeUnit.NANOSECOND and options.nanoseconds is Nanoseconds.LONG
    return s.LongType() if is_count else s.TimestampType()


@dataclass(frozen=True, slots=True)
class DocLine:
    """A line of ``docs/types.md``."""

    arrow: str
    spark: str
    meaning: str = ""
    lossless: bool = True  # whether default options change no value


@dataclass(frozen=True, slots=True)
class Extension:
    """A row of `EXTENSIONS`: the valid storage of an extension type, and its Spark type."""

    spark_type: Callable[[t.DataType, ReadOptions], s.DataType]
    is_storage: Callable[[t.DataType], bool]
    lines: tuple[DocLine, ...]
    # Refuses storage that Spark's type does not hold; takes the storage and the path of the column.
    check: Callable[[t.DataType, str], None] | None = None


def _just(type_: s.DataType) -> Callable[[t.DataType, ReadOptions], s.DataType]:
    return lambda _type, _options: type_


EXTENSIONS: Final[Mapping[str, Extension]] = {
    "arrow.uuid": Extension(
        _just(s.StringType()),
        lambda type_: type_ == _UUID,
        (DocLine("arrow.uuid", "string", "As in 01234567-89ab-cdef-0123-456789abcdef."),),
    ),
    "arrow.bool8": Extension(
        _just(s.BooleanType()),
        lambda type_: type_ == t.int8,
        (DocLine("arrow.bool8", "boolean", "False is 0, true every other number.", lossless=False),),
    ),
    "arrow.json": Extension(
        _just(s.StringType()),
        lambda type_: isinstance(type_, _TEXT),
        (DocLine("arrow.json", "string", "The document."),),
    ),
    "arrow.timestamp_with_offset": Extension(
        _of_timestamp_with_offset,
        is_with_offset,
        (
            DocLine("arrow.timestamp_with_offset", "timestamp", "The same instant, without the offset.", lossless=False),
            DocLine("the same with timestampsWithOffset=string", "string", "As in 2026-03-01T09:30:00.000000+02:00; a year beyond 9999, or an offset of a day, is an error."),
            DocLine("the same with timestampsWithOffset=struct", "struct<timestamp: timestamp, offset_minutes: smallint>", "The parts."),
        ),
    ),
    "arrow.parquet.variant": Extension(
        _just(s.VariantType()),
        is_variant,
        (DocLine("arrow.parquet.variant", "variant", "Shredded or not."),),
        check_variant,
    ),
    "parquet.variant": Extension(
        _just(s.VariantType()),
        is_variant,
        (DocLine("parquet.variant", "variant", "The older name of the same."),),
        check_variant,
    ),
}  # fmt: skip
"""By name: extension types that are converted. Others are read as their storage, as all with ``extensionTypes=storage``."""


def extension_of(field: t.Field, options: ReadOptions) -> Extension | None:
    """Return the row of a field in `EXTENSIONS`, or None if it is read as its storage."""
    if options.extension_types is ExtensionTypes.STORAGE or not is_extension(field.extension_name, field.type):
        return None
    if is_with_offset(field.type) and options.timestamps_with_offset is TimestampsWithOffset.STRUCT:
        return None
    return EXTENSIONS[str(field.extension_name)]


def is_extension(name: object, type_: t.DataType) -> bool:
    """Return whether a type is the storage of an extension type of `EXTENSIONS`."""
    extension = EXTENSIONS.get(name) if isinstance(name, str) else None
    return extension is not None and extension.is_storage(type_)
