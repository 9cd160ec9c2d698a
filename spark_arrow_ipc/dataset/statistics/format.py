"""The format of statistics in a footer: names, types, bounds, values as arrays, and the columns that have them.

How it works: one pair of the footer's custom metadata holds, as base64, an Arrow IPC stream with one row for each record batch of
the file. Its first column counts rows; each other one is a struct that belongs to one scalar leaf column of the
file, named by the struct field's custom metadata, with the least and greatest value in the type of the data. Names
are from Arrow's statistics vocabulary, except for the count of NaN, which Arrow does not have.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from spark_arrow_ipc.arrow import array_data
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.python_values import from_pylist, scalars
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.dataset.predicate.expressions import Raw, prefix_end
from spark_arrow_ipc.dataset.statistics.min_max import MOST_BYTES, has_bounds

KEY: Final = "spark_arrow_ipc.statistics"
"""Key of the pair in a footer's custom metadata."""

ROW_COUNT: Final = "ARROW:row_count:exact"
NULL_COUNT: Final = "ARROW:null_count:exact"
NAN_COUNT: Final = "spark_arrow_ipc:nan_count:exact"
MIN: Final = ("ARROW:min_value:exact", "ARROW:min_value:approximate")
MAX: Final = ("ARROW:max_value:exact", "ARROW:max_value:approximate")
"""Names of an exact bound and a cut bound."""

PATH_KEY: Final = "spark_arrow_ipc.path"
"""Pair of a struct's field: the JSON array of names that lead to the column."""

DROPPED_KEY: Final = "spark_arrow_ipc.dropped"
"""Pair of the stream's schema: the JSON array of the paths of columns that were left out to bound the size."""

FINGERPRINT_KEY: Final = "spark_arrow_ipc.fingerprint"
"""Pair of the stream's schema: the fingerprint of the described file (`ipc.checksums`)."""

Path: TypeAlias = tuple[str, ...]
"""Names from a top-level column down to a leaf."""

_LAST_CODE_POINT: Final = 0x10FFFF
_SURROGATES: Final = range(0xD800, 0xE000)


@dataclass(frozen=True, slots=True)
class Leaf:
    """A column of scalars, at the top level or in structs."""

    path: Path  # its names
    positions: tuple[int, ...]  # position of the top-level column, then of the field in each struct
    type: t.DataType  # type of its least and greatest value; of a dictionary, the type of its values

    @property
    def is_string(self) -> bool:
        """True if values are strings, which are cut at code points."""
        return type(self.type) in t.UTF8_CLASSES

    @property
    def may_be_cut(self) -> bool:
        """True if bounds may be shorter than the values."""
        return self.is_string or isinstance(self.type, t.Binary | t.LargeBinary | t.BinaryView)

    def field(self) -> t.Field:
        """Return the field of the leaf's statistics."""
        fields = [t.Field(NULL_COUNT, t.int64)]
        if isinstance(self.type, t.FloatingPoint):
            fields.append(t.Field(NAN_COUNT, t.int64))
        for exact, cut in (MIN, MAX):
            fields.append(t.Field(exact, self.type))
            if self.may_be_cut:
                fields.append(t.Field(cut, self.type))
        return t.field(".".join(self.path), t.Struct(tuple(fields)), custom_metadata={PATH_KEY: json.dumps(self.path)})


def leaves(schema: Schema) -> Iterator[Leaf]:
    """Yield the scalar leaf columns of a schema in order, except those that share their path."""
    # Statistics are found by path, so that two columns of one path could take each other's bounds.
    every_leaf = list(_leaves(schema.fields, (), ()))
    times = Counter(leaf.path for leaf in every_leaf)
    yield from (leaf for leaf in every_leaf if times[leaf.path] == 1)


def _leaves(fields: Sequence[t.Field], path: Path, positions: tuple[int, ...]) -> Iterator[Leaf]:
    for i, field in enumerate(fields):
        type_ = field.type
        while isinstance(type_, t.Dictionary | t.RunEndEncoded):
            type_ = type_.value if isinstance(type_, t.Dictionary) else type_.values.type
        if isinstance(field.type, t.Struct) and field.extension_name is None:
            yield from _leaves(field.type.fields, (*path, field.name), (*positions, i))
        elif has_bounds(type_):
            # A bound of a wide type would not fit the type once it is cut: it is stored as variable-length binary.
            wide = isinstance(type_, t.FixedSizeBinary) and type_.byte_width > MOST_BYTES
            yield Leaf((*path, field.name), (*positions, i), t.binary if wide else type_)


def bound_below(value: Raw | None, leaf: Leaf) -> tuple[Raw | None, bool]:
    """Return a lower bound that is short enough, or None; and whether it is the value."""
    if not isinstance(value, bytes):
        return value, True
    prefix = value[:MOST_BYTES]
    if leaf.is_string:
        prefix = _complete_characters(prefix) if len(value) > MOST_BYTES else prefix
        if not _is_utf8(prefix):  # a file of another writer; statistics are stored as UTF-8
            return None, True
    return prefix, len(value) <= MOST_BYTES


def bound_above(value: Raw | None, leaf: Leaf) -> tuple[Raw | None, bool]:
    """Return an upper bound that is short enough, or None; and whether it is the value."""
    if not isinstance(value, bytes) or len(value) <= MOST_BYTES:
        return bound_below(value, leaf)
    prefix = value[:MOST_BYTES]
    if leaf.is_string:
        prefix = _complete_characters(prefix)
        return (_next_string(prefix) if _is_utf8(prefix) else None), False
    return prefix_end(prefix), False


def _complete_characters(cut: bytes) -> bytes:
    """Return cut UTF-8 without the incomplete character at its end."""
    end = len(cut)
    while end and len(cut) - end < 4 and cut[end - 1] & 0xC0 == 0x80:  # continuation bytes
        end -= 1
    if end == 0 or _is_utf8(cut[end - 1 :]):
        return cut
    return cut[: end - 1]


def _is_utf8(octets: bytes) -> bool:
    try:
        octets.decode()
    except UnicodeDecodeError:
        return False
    return True


def _next_string(string: bytes) -> bytes | None:
    """Return the least string above all that start with `string`, as UTF-8, or None."""
    characters = string.decode()
    while characters:
        code = ord(characters[-1]) + 1
        if code in _SURROGATES:
            code = _SURROGATES.stop
        if code <= _LAST_CODE_POINT:
            return (characters[:-1] + chr(code)).encode()
        characters = characters[:-1]
    return None


def array_of(values: Sequence[Raw | None], type_: t.DataType) -> Array:
    """Return an array of values in the unit of its type; None is null."""
    valid = [value is not None for value in values]
    null_count = len(valid) - sum(valid)
    validity = array_data.pack_bits(valid) if null_count else None
    data = _BUFFERS.get(type(type_))
    if data is None:
        is_string = type(type_) in t.UTF8_CLASSES
        decoded = [value.decode() if is_string and isinstance(value, bytes) else value for value in values]
        return from_pylist.array(decoded, type_)
    return Array(type_, len(values), null_count, (validity, data(values, type_)))


def _numbers(values: Sequence[Raw | None], type_: t.DataType) -> memoryview:
    dtype = array_data.dtype_of(type_)
    return memoryview(np.array([0 if value is None else value for value in values], dtype).tobytes())


def _decimals(values: Sequence[Raw | None], type_: t.Decimal) -> memoryview:
    width = type_.bit_width // 8
    return memoryview(b"".join(int(value or 0).to_bytes(width, "little", signed=True) for value in values))


_BUFFERS: Final[Mapping[type[t.DataType], Callable[[Sequence[Raw | None], Any], memoryview]]] = {
    t.Bool: lambda values, _: array_data.pack_bits([bool(value) for value in values]),
    t.Decimal: _decimals,
    **dict.fromkeys((t.Int, t.FloatingPoint, t.Date, t.Time, t.Timestamp, t.Duration, t.IntervalYearMonth), _numbers),
}
"""By type class: a function that makes the DATA buffer. Arrays of other types are built from bytes and strings."""


def raws_of(array: Array) -> list[Raw | None]:
    """Return the slots of an array in the unit of its type, None for null: the inverse of `array_of`."""
    if type(array.type) not in _BUFFERS:
        return [value.encode() if isinstance(value, str) else value for value in array.to_pylist()]
    values = array_data.data_values(array)
    raws: list[Raw | None] = []
    raws += scalars.to_unscaled_ints(values) if isinstance(array.type, t.Decimal) else values.tolist()
    valid = array_data.validity_mask(array)
    if isinstance(array.type, t.Bool):
        raws = [int(bool(raw)) for raw in raws]
    return raws if valid is None else [raw if is_valid else None for raw, is_valid in zip(raws, valid, strict=True)]
