"""Convert strings and binaries, the extension types stored as them, and timestamps with an offset.

Spark takes strings and binaries with 32-bit value offsets only. Bytes that are already in order are not copied: only
64-bit offsets are narrowed. Batches are cut before this into pieces that fit (`plan`); a single row that does not fit
is an error. Views are gathered by pyarrow's own kernel.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import types as s

from spark_arrow_ipc.arrow import array_data
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.array_data import as_buffer
from spark_arrow_ipc.arrow.layout import LAYOUTS, Role
from spark_arrow_ipc.arrow.validate.views import check_views
from spark_arrow_ipc.errors import InvalidBodyError, UnsupportedError
from spark_arrow_ipc.ipc.constants import Validation
from spark_arrow_ipc.spark import bridge
from spark_arrow_ipc.spark.convert.conversion import (
    Conversion,
    Mask,
    Numbers,
    Refusal,
    Site,
    both,
    data,
    even_offsets,
    first_seen,
    narrow_offsets,
    offsets,
    pyarrow_type,
    rebuild,
    share,
    valid,
    validity,
    visible_slots,
)
from spark_arrow_ipc.spark.types.extension_columns import SpatialColumn

_HYPHENS = (8, 13, 18, 23)
_UUID_CHARACTERS = 36
_HEX = np.frombuffer(b"".join(f"{byte:02x}".encode() for byte in range(256)), np.uint8).reshape(256, 2)
"""The two hexadecimal digits of every byte."""


def short_offsets(_type: t.DataType, natural: s.DataType, site: Site) -> Conversion:
    """Compile the conversion of Utf8 and Binary, which copies nothing."""
    return share(pyarrow_type(natural, site.path))


def long_offsets(_type: t.DataType, natural: s.DataType, site: Site) -> Conversion:
    """Compile the conversion of LargeUtf8 and LargeBinary, which copies only offsets."""
    to = pyarrow_type(natural, site.path)

    def convert(array: Array, _live: Mask) -> pa.Array:
        wide = offsets(array, np.int64)
        narrow = narrow_offsets(wide - wide[0], site.path)
        octets = array.buffers[2]
        assert octets is not None
        return rebuild(to, array, narrow, octets[int(wide[0]) : int(wide[-1])])

    return Conversion(convert, refusal=Refusal.NONE)


def views(_type: t.DataType, natural: s.DataType, site: Site) -> Conversion:
    """Compile the conversion of Utf8View and BinaryView, which gathers the bytes."""
    to, is_checked = pyarrow_type(natural, site.path), site.options.validation is Validation.FULL

    def convert(array: Array, _live: Mask) -> pa.Array:
        if not is_checked:
            check_views(array, site.path, contents=False)  # pyarrow would read outside of the memory
        return bridge.to_pyarrow(_without_null_views(array)).cast(to)

    return Conversion(convert, refusal=Refusal.NONE)


def _without_null_views(array: Array) -> Array:
    """Return views whose null slots are empty."""
    # pyarrow allocates memory for the sizes of null slots too, and crashes if one is negative.
    mask = valid(array)
    slots = array_data.views(array)
    if mask is None or not slots["size"][~mask].any():
        return array
    emptied = np.where(mask, slots.view("V16"), np.zeros((), "V16"))
    bits = array_data.pack_bits(mask)
    return replace(array, offset=0, buffers=(bits, as_buffer(emptied), *array.buffers[2:]))


def binary_of_one_width(type_: t.FixedSizeBinary, natural: s.DataType, site: Site) -> Conversion:
    """Compile the conversion of FixedSizeBinary, which copies no values."""
    to = pyarrow_type(natural, site.path)
    width = type_.byte_width

    def convert(array: Array, _live: Mask) -> pa.Array:
        new_offsets = even_offsets(array.length, width, site.path)
        octets = array.buffers[1]
        assert octets is not None
        return rebuild(to, array, new_offsets, octets[array.offset * width : (array.offset + array.length) * width])

    return Conversion(convert, refusal=Refusal.NONE)


def uuid(_type: t.DataType, natural: s.DataType, site: Site) -> Conversion:
    """Compile the conversion of arrow.uuid to strings."""
    to = pyarrow_type(natural, site.path)
    digits = [i for i in range(_UUID_CHARACTERS) if i not in _HYPHENS]

    def convert(array: Array, _live: Mask) -> pa.Array:
        characters = np.full((array.length, _UUID_CHARACTERS), ord("-"), np.uint8)
        characters[:, digits] = _HEX[data(array, np.dtype((np.uint8, 16)))].reshape(array.length, 32)
        new_offsets = even_offsets(array.length, _UUID_CHARACTERS, site.path)
        return rebuild(to, array, new_offsets, characters.reshape(-1))

    return Conversion(convert, refusal=Refusal.NONE)


def bool8(_type: t.DataType, natural: s.DataType, site: Site) -> Conversion:
    """Compile the conversion of arrow.bool8 to bits; 0 is false."""
    to = pyarrow_type(natural, site.path)

    def convert(array: Array, live: Mask) -> pa.Array:
        values = data(array, np.int8)
        if site.options.is_exact:
            i = first_seen((values != 0) & (values != 1), array, live)
            if i is not None:
                raise UnsupportedError(
                    f"expected 0 or 1 in an arrow.bool8, found {values[i]}, which a boolean does not keep; rewrite it with "
                    "extensionTypes=storage",
                    field_path=site.path,
                )
        return rebuild(to, array, np.packbits(values != 0, bitorder="little"))

    is_exact = site.options.is_exact
    return Conversion(convert, checks=is_exact, refusal=Refusal.UNKNOWN if is_exact else Refusal.NONE)


def json(type_: t.DataType, natural: s.DataType, site: Site) -> Conversion:
    """Compile the conversion of arrow.json as its storage."""
    roles = {layout.role: layout.bit_width for layout in LAYOUTS[type(type_)].buffers}
    if Role.VIEWS in roles:
        return views(type_, natural, site)
    return (short_offsets if roles[Role.OFFSETS] == 32 else long_offsets)(type_, natural, site)


def variant(type_: t.Struct, natural: s.DataType, site: Site) -> Conversion:
    """Compile the conversion of an unshredded arrow.parquet.variant, by child name."""
    to = pyarrow_type(natural, site.path)
    names = ("value", "metadata")
    positions = [[child.name for child in type_.fields].index(name) for name in names]
    children = [
        site.compile(type_.fields[i], s.BinaryType(), f"{site.path}.{n}", nullable=True)
        for i, n in zip(positions, names, strict=True)
    ]

    def convert(array: Array, live: Mask) -> pa.Array:
        mask = visible_slots(array, live)
        parts = []
        for i, name, child in zip(positions, names, children, strict=True):
            part = array.children[i].slice(array.offset, array.length)
            part_valid = valid(part)
            missing = None if part_valid is None else ~part_valid if mask is None else ~part_valid & mask
            if missing is not None and missing.any():
                raise InvalidBodyError(
                    expected=f"a {name} in every variant that is not null",
                    found=f"none in slot {int(missing.argmax())}",
                    field_path=site.path,
                )
            parts.append(child.convert(part, mask))
        return pa.Array.from_buffers(to, array.length, [validity(array)], array.null_count, children=parts)

    return Conversion(convert, checks=True)


# Timestamps with an offset, as instants or as strings.
_MINUTE: Final = 60
_DAY_MINUTES: Final = 24 * _MINUTE
_YEARS_OF_FOUR_DIGITS: Final = (-62_135_596_800, 253_402_300_799)
"""The first and the last second of the years 1 to 9999."""


def with_offset(type_: t.Struct, natural: s.DataType, site: Site) -> Conversion:
    """Compile the conversion of arrow.timestamp_with_offset to the instants, or to strings."""
    moments, minutes = type_.fields
    if isinstance(natural, s.StringType):
        offsets_of = site.compile(minutes, s.ShortType(), site.path, nullable=True)
        return Conversion(
            lambda array, live: _rfc3339(array, offsets_of, visible_slots(array, live), site), checks=True
        )
    instants = site.compile(moments, natural, site.path, nullable=True)

    def convert(array: Array, live: Mask) -> pa.Array:
        mask = visible_slots(array, live)
        instants_array = instants.convert(array.children[0].slice(array.offset, array.length), mask)
        present = valid(array)
        if present is None:
            return instants_array
        # A null struct may have an instant below it, and its column in Spark is a plain timestamp.
        if instants_array.null_count:
            present = present & instants_array.is_valid().to_numpy(zero_copy_only=False)
        bits = pa.py_buffer(np.packbits(np.pad(present, (instants_array.offset, 0)), bitorder="little"))
        return pa.Array.from_buffers(
            instants_array.type, len(instants_array), [bits, instants_array.buffers()[1]], offset=instants_array.offset
        )

    return Conversion(convert, checks=True)


def _rfc3339(array: Array, offsets_of: Conversion, mask: Mask, site: Site) -> pa.Array:
    """Return the local times in ISO 8601, with all digits of their unit and the offset."""
    if not array.length:  # `datetime_as_string` takes no empty array
        return pa.array([], pa.string())
    moments, encoded = (child.slice(array.offset, array.length) for child in array.children)
    assert isinstance(moments.type, t.Timestamp)
    per_second = moments.type.unit.per_second
    seconds, parts = np.divmod(data(moments, np.int64), per_second)
    offsets_array = offsets_of.convert(encoded, mask)
    minutes = bridge.view_values(offsets_array, np.dtype(np.int16)).astype(np.int64)
    if offsets_array.null_count:  # a missing offset counts as UTC
        minutes = np.where(offsets_array.is_valid().to_numpy(zero_copy_only=False), minutes, 0)
    first, last = _YEARS_OF_FOUR_DIGITS
    mask = both(mask, valid(moments))
    shown = np.ones(array.length, np.bool_) if mask is None else mask
    # Only sums that cannot overflow are compared with the bounds.
    fits = (seconds >= first - 86_400) & (seconds <= last + 86_400) & (np.abs(minutes) < _DAY_MINUTES)
    clock = np.where(fits, seconds, 0) + np.where(fits, minutes, 0) * _MINUTE
    wrong = shown & ~(fits & (clock >= first) & (clock <= last))
    if wrong.any():
        row = int(wrong.argmax())
        raise UnsupportedError(
            f"expected a year of four digits and an offset of less than a day, found {seconds[row]} s and {minutes[row]} "
            f"minutes in slot {row}; read it with timestampsWithOffset=struct",
            field_path=site.path,
        )
    text = np.datetime_as_string(np.where(shown, clock, 0).astype("M8[s]"))
    if per_second > 1:
        digits = len(str(per_second)) - 1
        text = np.char.add(np.char.add(text, "."), np.char.zfill(parts.astype(np.str_), digits))
    each, places = np.unique(np.where(shown, minutes, 0), return_inverse=True)
    labels = np.array(
        [f"{'-' if m < 0 else '+'}{abs(m) // 60:02}:{abs(m) % 60:02}" if m else "Z" for m in each.tolist()]
    )
    return pa.array(np.char.add(text, labels[places]), pa.string(), mask=~shown)


# Convert columns of well-known binary to Spark's GEOMETRY and GEOGRAPHY (``extensionTypes=geometry``).
#
# Spark takes a geometry as a struct of its SRID and its well-known binary. The bytes are shared; all rows of a column
# have the same SRID.
#
# The header of each value is checked: byte order, type and least length. Spark 4.1 checks nothing, and later releases
# parse the value, with errors that name neither file nor column. Spark reads the ISO dialect, in which type 1001 has a
# Z, and not the extended one (EWKB), which marks it in the highest bits.
_SPEC: Final = "GeoArrow, format.md"
_HEADER_NBYTES: Final = 5
"""A byte order, and a type of 32 bits."""

_COUNT_NBYTES: Final = 4
_COORDINATE_NBYTES: Final = 8
_POINT: Final = 1
_LAST_TYPE: Final = 7
_ISO_STEP: Final = 1000
"""Types are 1 (point) to 7 (collection), plus 1000 with a Z, 2000 with an M, 3000 with both."""

_DIMENSIONS: Final = np.array([2, 3, 3, 4])
_EXTENDED: Final = np.uint32(0xE0000000)
"""The bits of EWKB: with a Z, with an M, with an SRID."""


def spatial(field: t.Field, column: SpatialColumn, target: s.DataType, site: Site) -> Conversion:
    """Compile the conversion of a column of well-known binary."""
    to = pyarrow_type(target, site.path)
    binary = site.compile(t.Field(field.name, field.type), s.BinaryType(), site.path, nullable=True)

    def convert(array: Array, live: Mask) -> pa.Array:
        values = binary.convert(array, live)
        offsets, octets = values.buffers()[1:]
        _check_headers(
            np.frombuffer(offsets, np.int32)[values.offset : values.offset + array.length + 1]
            if array.length
            else np.zeros(1, np.int32),
            np.frombuffer(octets, np.uint8) if octets is not None else np.zeros(0, np.uint8),
            visible_slots(array, live),
            site.path,
        )
        srids = bridge.numbers(np.full(array.length, column.srid, np.int32))
        # The fields of the struct cannot be null, so only the struct gets the column's validity.
        wkb = pa.Array.from_buffers(pa.binary(), array.length, [None, offsets, octets], 0, values.offset)
        return pa.Array.from_buffers(to, array.length, [validity(array)], array.null_count, children=[srids, wkb])

    return Conversion(convert, checks=True)


def _check_headers(offsets: Numbers, octets: npt.NDArray[np.uint8], shown: Mask, path: str) -> None:
    """Refuse visible values that do not begin as well-known binary does."""
    rows = np.arange(len(offsets) - 1) if shown is None else np.flatnonzero(shown)
    starts, lengths = offsets[rows].astype(np.int64), np.diff(offsets)[rows]
    if not len(rows):
        return
    short = lengths < _HEADER_NBYTES
    if short.any():
        at = int(short.argmax())
        _refuse(f"at least {_HEADER_NBYTES} bytes", f"{lengths[at]}", rows[at], path)
    orders = octets[starts]
    wrong = orders > 1
    if wrong.any():
        at = int(wrong.argmax())
        _refuse("that begins with its byte order, 0 or 1", f"{orders[at]}", rows[at], path)
    raw = np.ascontiguousarray(octets[starts[:, None] + np.arange(1, _HEADER_NBYTES)])
    types = np.where(orders == 1, raw.view("<u4")[:, 0], raw.view(">u4")[:, 0]).astype(np.uint32)
    kinds, layers = types % _ISO_STEP, types // _ISO_STEP
    wrong = (kinds < _POINT) | (kinds > _LAST_TYPE) | (layers >= len(_DIMENSIONS))
    if wrong.any():
        at = int(wrong.argmax())
        extended = bool(types[at] & _EXTENDED) and _POINT <= types[at] & ~_EXTENDED <= _LAST_TYPE
        actual = "the extended dialect (EWKB)" if extended else f"{types[at]}"
        _refuse("of the types 1 to 7 of ISO, or those plus 1000, 2000 or 3000", actual, rows[at], path)
    # A point has its coordinates, every other type a count.
    least = np.where(kinds == _POINT, _COORDINATE_NBYTES * _DIMENSIONS[layers], _COUNT_NBYTES) + _HEADER_NBYTES
    short = lengths < least
    if short.any():
        at = int(short.argmax())
        _refuse(f"at least {least[at]} bytes for type {types[at]}", f"{lengths[at]}", rows[at], path)


def _refuse(expected: str, actual: str, row: int, path: str) -> NoReturn:
    raise InvalidBodyError(
        expected=f"well-known binary {expected}", found=f"{actual} in slot {int(row)}", field_path=path, spec=_SPEC
    )
