"""The annotation of a file's schema with Spark's: the parts of Spark types that Arrow types do not have.

Arrow has no collations, intervals of hours, precision of a time, CHAR, or user-defined types. So a file with such columns,
or with columns that have metadata (a comment, the attributes of ML), has the Spark schema in its schema's metadata, as
the JSON of Spark's Parquet files.

An annotation may be forged, or old, because other programs copy metadata and change columns. It is applied field by field,
and only if the field's type is the annotated one except for the parts that Arrow lacks; otherwise the field is read as if
it had none. It never makes this package or Spark load code: only user-defined types of `_USER_TYPES` are used, and others are
read as their storage. Rules for values (`interval hour` has full hours) are checked when values are converted.
"""

from __future__ import annotations

import importlib
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeGuard

import pyspark
from pyspark.sql import types as s

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.bounded_json import parse_json
from spark_arrow_ipc.errors import cut_repr, printable
from spark_arrow_ipc.spark.types.field_metadata import ARROW_PREFIX, INEXACT_KEY, OWN_PREFIX, harmless

_LOG: Final = logging.getLogger(__name__)

KEY: Final = "spark_arrow_ipc.spark_schema"
"""Key of the schema's pair with the annotation."""

_MOST_MEMORY: Final = 64 << 20
"""Bytes of memory that a parsed annotation may take."""

_PLAIN: Final = s.StringType()
_COLLATIONS_KEY: Final = "__COLLATIONS"
"""Key of collations in a field's metadata in Spark's JSON: ``{"c.element": "spark.UTF8_LCASE"}``."""

_COLLATION: Final = re.compile(
    r"(?:spark\.UTF8_(?:BINARY|LCASE)|icu\.(\w{2,20}?)(?:_CI)?(?:_AI)?)(?:_RTRIM)?", re.ASCII
)
"""Names as Spark writes them; `LOCALES` has the locales."""

_ONLY_NEWER: Final = {"blo", "kk_Arab"} if tuple(map(int, pyspark.__version__.split(".")[:2])) >= (4, 2) else set()

LOCALES: Final = _ONLY_NEWER | frozenset({
    "UNICODE", "af", "am", "ar", "ar_SAU", "as", "az", "be", "bg", "bn", "bo", "br", "bs", "bs_Cyrl", "ca", "ceb",
    "chr", "cs", "cy", "da", "de", "de_AUT", "dsb", "dz", "ee", "el", "en", "en_USA", "eo", "es", "et", "fa",
    "fa_AFG", "ff", "ff_Adlm", "fi", "fil", "fo", "fr", "fr_CAN", "fy", "ga", "gl", "gu", "ha", "haw", "he", "he_ISR",
    "hi", "hr", "hsb", "hu", "hy", "id", "id_IDN", "ig", "is", "it", "ja", "ka", "kk", "kl", "km", "kn", "ko", "kok",
    "ku", "ky", "lb", "lij", "lkt", "ln", "lo", "lt", "lv", "mk", "ml", "mn", "mr", "ms", "mt", "my", "nb", "nb_NOR",
    "ne", "nl", "nn", "no", "nso", "om", "or", "pa", "pa_Guru", "pa_Guru_IND", "pl", "ps", "pt", "ro", "ru", "sa",
    "se", "si", "sk", "sl", "smn", "sq", "sr", "sr_Cyrl", "sr_Cyrl_BIH", "sr_Cyrl_MNE", "sr_Cyrl_SRB", "sr_Latn",
    "sr_Latn_BIH", "sr_Latn_SRB", "st", "sv", "sw", "ta", "te", "th", "tk", "tn", "to", "tr", "ug", "uk", "ur", "uz",
    "vi", "wae", "wo", "xh", "yi", "yo", "zh", "zh_Hans", "zh_Hans_CHN", "zh_Hans_SGP", "zh_Hant", "zh_Hant_HKG",
    "zh_Hant_MAC", "zh_Hant_TWN", "zu",
})  # fmt: skip
"""Of Spark's collations. Spark raises a Java error for others, and tasks have no JVM that could list them."""

_TIME: Final = re.compile(r"time\(([0-9])\)")

_USER_TYPES: Final[Mapping[str, tuple[str, str]]] = {
    f"org.apache.spark.{package}.linalg.{name}": (f"pyspark.{package}.linalg", name)
    for package in ("ml", "mllib")
    for name in ("VectorUDT", "MatrixUDT")
}
"""By the class in Spark's JSON: module and class in PySpark. A file never makes another one load."""

_INTERVALS: Final = {
    s.DayTimeIntervalType(start, end).jsonValue(): s.DayTimeIntervalType(start, end)
    for start in range(4)
    for end in range(start, 4)
}


def annotation_pairs(spark_schema: s.StructType) -> t.CustomMetadata:
    """Return the pair that annotates a schema with a DataFrame's; nothing if the Arrow types suffice."""
    cleaned: s.StructType = _clean(spark_schema)
    return ((KEY, cleaned.json()),) if _says_more(cleaned) else ()


def find_annotation(pairs: t.CustomMetadata) -> str | None:
    """Return the annotation among the pairs of a schema; None without one, or if two disagree."""
    annotations = {value for key, value in pairs if key == KEY}
    return annotations.pop() if len(annotations) == 1 else None


def restore_schema(
    natural: s.StructType, written: s.StructType, text: str, chosen: Callable[[s.DataType], bool]
) -> s.StructType:
    """Return the schema of a file with its annotation applied to fields that still have the annotated types."""
    try:
        annotation = parse_json(text, most_memory=_MOST_MEMORY)
    except ValueError as error:
        _LOG.warning("the note of Spark's schema is ignored: %s", printable(str(error)[:200]))
        return natural
    restored = _struct(natural, written, annotation, _Site({}, "", chosen))
    return restored if isinstance(restored, s.StructType) else natural


@dataclass(frozen=True, slots=True)
class _Site:
    """The annotated collations of a field, the path of a type in it, and whether options choose a type."""

    collations: Mapping[str, object]
    path: str
    chosen: Callable[[s.DataType], bool]

    def below(self, name: str) -> _Site:
        return _Site(self.collations, f"{self.path}.{name}", self.chosen)


def _restore(natural: s.DataType, written: s.DataType, annotation: object, site: _Site) -> s.DataType | None:
    """Return the annotated type of a field, or None if the field does not have it."""
    if isinstance(annotation, dict) and annotation.get("type") == "udt":
        return _user_type(natural, annotation)
    row = _NESTED.get(type(written))
    if row is not None:
        # With vectors=binary a list is binary.
        return row(natural, written, annotation, site) if type(natural) is type(written) else None
    if not isinstance(annotation, str):
        return None
    restored = _leaf(written, annotation, site)
    if restored is None:
        return None
    # The options of a read may ask for another class than was written, as times=interval does.
    return restored if type(restored) is type(natural) or site.chosen(restored) else natural


def _leaf(written: s.DataType, annotation: str, site: _Site) -> s.DataType | None:
    if isinstance(written, s.StringType):
        return _string(annotation, site)
    if isinstance(written, s.DayTimeIntervalType):
        return _INTERVALS.get(annotation)
    if isinstance(written, s.TimeType):
        match = _TIME.fullmatch(annotation)
        return s.TimeType(int(match[1])) if match is not None and int(match[1]) <= written.precision else None
    return written if written.jsonValue() == annotation else None


def _string(annotation: str, site: _Site) -> s.DataType | None:
    if annotation != _PLAIN.jsonValue():
        return None
    collation = site.collations.get(site.path)
    if collation is None:
        return _PLAIN
    if not is_collation(collation):
        _LOG.warning(
            "field %s: the file's note of Spark's schema names the collation %s, which this Spark does not have; the column "
            "is read as a plain string",
            printable(site.path),
            cut_repr(collation),
        )
        return None
    return s.StringType(collation.partition(".")[2])


def is_collation(name: object) -> TypeGuard[str]:
    """Return whether Spark has a collation, named as in its JSON: ``icu.en_USA_CI``."""
    match = _COLLATION.fullmatch(name) if isinstance(name, str) else None
    return match is not None and (match[1] is None or match[1] in LOCALES)


def _user_type(natural: s.DataType, annotation: Mapping[str, object]) -> s.DataType | None:
    name = annotation.get("class")
    class_path = _USER_TYPES.get(name) if isinstance(name, str) else None
    if class_path is None:
        return None
    module, class_ = class_path
    # Both names are from the table. Imported late: few files have vectors, and the modules take a second.
    user_type: s.UserDefinedType = getattr(importlib.import_module(module), class_)()
    return user_type if without_nullability(user_type.sqlType()) == without_nullability(natural) else None


def _struct(natural: Any, written: s.StructType, annotation: object, site: _Site) -> s.DataType | None:
    entries = annotation.get("fields") if isinstance(annotation, dict) and annotation.get("type") == "struct" else None
    if not isinstance(entries, list):
        return None
    by_name: dict[object, Any] = {}
    for entry in entries:
        name = entry.get("name") if isinstance(entry, dict) else None
        if isinstance(name, str):
            by_name[name] = None if name in by_name else entry  # two entries of one name are both ignored
    pairs = zip(natural.fields, written.fields, strict=True)
    return s.StructType([_field(mine, other, by_name.get(mine.name), site) for mine, other in pairs])


def _field(natural: s.StructField, written: s.StructField, entry: Any, site: _Site) -> s.StructField:
    if entry is None:
        return natural
    metadata = entry.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    collations = metadata.get(_COLLATIONS_KEY)
    below = _Site(collations if isinstance(collations, dict) else {}, natural.name, site.chosen)
    type_ = _restore(natural.dataType, written.dataType, entry.get("type"), below)
    if type_ is None:
        return natural
    # Only keys of Arrow and of this package come from the file; Spark's keys come from the annotation, if they are harmless.
    arrows = {k: v for k, v in natural.metadata.items() if k.startswith((ARROW_PREFIX, OWN_PREFIX))}
    if type_ != natural.dataType and INEXACT_KEY not in written.metadata:
        arrows.pop(INEXACT_KEY, None)  # a TIME has the nanoseconds that an interval rounds
    return s.StructField(natural.name, type_, nullable=True, metadata={**arrows, **harmless(metadata, type_)})


def _array(natural: Any, written: s.ArrayType, annotation: object, site: _Site) -> s.DataType | None:
    if not isinstance(annotation, dict) or annotation.get("type") != "array":
        return None
    element = _restore(natural.elementType, written.elementType, annotation.get("elementType"), site.below("element"))
    return None if element is None else s.ArrayType(element)


def _map(natural: Any, written: s.MapType, annotation: object, site: _Site) -> s.DataType | None:
    if not isinstance(annotation, dict) or annotation.get("type") != "map":
        return None
    key = _restore(natural.keyType, written.keyType, annotation.get("keyType"), site.below("key"))
    value = _restore(natural.valueType, written.valueType, annotation.get("valueType"), site.below("value"))
    return None if key is None or value is None else s.MapType(key, value)


_NESTED: Final[Mapping[type[s.DataType], Callable[[Any, Any, object, _Site], s.DataType | None]]] = {
    s.StructType: _struct,
    s.ArrayType: _array,
    s.MapType: _map,
}


def without_nullability(type_: s.DataType) -> s.DataType:
    """Return a type whose parts are all nullable and without metadata."""
    if isinstance(type_, s.StructType):
        return s.StructType([s.StructField(field.name, without_nullability(field.dataType)) for field in type_.fields])
    if isinstance(type_, s.ArrayType):
        return s.ArrayType(without_nullability(type_.elementType))
    if isinstance(type_, s.MapType):
        return s.MapType(without_nullability(type_.keyType), without_nullability(type_.valueType))
    return type_


def _clean(type_: Any) -> Any:
    """Return a Spark type as an annotation has it: harmless metadata, and the storage of other user-defined types."""
    if isinstance(type_, s.UserDefinedType):
        class_path = _USER_TYPES.get(type_.scalaUDT())
        mine = (type(type_).__module__, type(type_).__name__)
        return type_ if class_path == mine else _clean(type_.sqlType())
    if isinstance(type_, s.StructType):
        typed = [(field, _clean(field.dataType)) for field in type_.fields]
        return s.StructType([s.StructField(f.name, x, f.nullable, harmless(f.metadata or {}, x)) for f, x in typed])
    if isinstance(type_, s.ArrayType):
        return s.ArrayType(_clean(type_.elementType), type_.containsNull)
    if isinstance(type_, s.MapType):
        return s.MapType(_clean(type_.keyType), _clean(type_.valueType), type_.valueContainsNull)
    return _PLAIN if isinstance(type_, s.CharType | s.VarcharType) else type_


def _says_more(type_: s.DataType) -> bool:
    """Return whether a type has metadata or a part that Arrow lacks."""
    if isinstance(type_, s.StructType):
        return any(bool(field.metadata) or _says_more(field.dataType) for field in type_.fields)
    if isinstance(type_, s.ArrayType):
        return _says_more(type_.elementType)
    if isinstance(type_, s.MapType):
        return _says_more(type_.keyType) or _says_more(type_.valueType)
    if isinstance(type_, s.StringType):
        return bool(type_ != _PLAIN)
    if isinstance(type_, s.DayTimeIntervalType):
        return bool(type_ != s.DayTimeIntervalType())
    return isinstance(type_, s.TimeType | s.SpatialType | s.UserDefinedType)
