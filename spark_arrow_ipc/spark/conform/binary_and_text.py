"""Convert strings and binaries, and the extension types stored as them.

Spark takes strings and binaries with 32-bit value offsets only.
Bytes that are already in order are never copied: only 64-bit offsets are narrowed. Batches are
cut into pieces that fit before anything is converted; a single row that does not fit is an error. Views are
gathered by pyarrow's own kernel.
"""

from __future__ import annotations

from typing import Final, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import types as s

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.arrow.layout import LAYOUTS, Role
from spark_arrow_ipc.errors import InvalidBodyError, UnsupportedError
from spark_arrow_ipc.spark import bridge
from spark_arrow_ipc.spark.conform.conversion import (
    Conversion,
    Mask,
    Numbers,
    Site,
    data,
    even_offsets,
    expected_type,
    first_seen,
    narrowed,
    offsets,
    rebuilt,
    seen,
    share,
    validity,
)
from spark_arrow_ipc.spark.types.extension_columns import SpatialColumn

_HYPHENS = (8, 13, 18, 23)
_UUID_CHARACTERS = 36
_HEX = np.frombuffer(b"".join(f"{byte:02x}".encode() for byte in range(256)), np.uint8).reshape(256, 2)
"""The two hexadecimal digits of every byte."""


def short_offsets(_type: t.DataType, natural: s.DataType, site: Site) -> Conversion:
    """Compile the conversion of Utf8 and Binary, which shares all memory."""
    return share(expected_type(natural, site.path))


def long_offsets(_type: t.DataType, natural: s.DataType, site: Site) -> Conversion:
    """Compile the conversion of LargeUtf8 and LargeBinary: shared bytes, new offsets."""
    to = expected_type(natural, site.path)

    def convert(array: Array, _live: Mask) -> pa.Array:
        wide = offsets(array, np.int64)
        narrow = narrowed(wide - wide[0], site.path)
        octets = array.buffers[2]
        assert octets is not None
        return rebuilt(to, array, narrow, octets[int(wide[0]) : int(wide[-1])])

    return Conversion(convert)


def views(_type: t.DataType, natural: s.DataType, site: Site) -> Conversion:
    """Compile the conversion of Utf8View and BinaryView, which gathers the bytes."""
    to = expected_type(natural, site.path)
    return Conversion(lambda array, _live: bridge.to_pyarrow(array).cast(to))


def fixed_width(type_: t.FixedSizeBinary, natural: s.DataType, site: Site) -> Conversion:
    """Compile the conversion of FixedSizeBinary: shared bytes, new offsets."""
    to = expected_type(natural, site.path)
    width = type_.byte_width

    def convert(array: Array, _live: Mask) -> pa.Array:
        new_offsets = even_offsets(array.length, width, site.path)
        octets = array.buffers[1]
        assert octets is not None
        return rebuilt(to, array, new_offsets, octets[array.offset * width : (array.offset + array.length) * width])

    return Conversion(convert)


def uuid(_type: t.DataType, natural: s.DataType, site: Site) -> Conversion:
    """Compile the conversion of arrow.uuid to strings."""
    to = expected_type(natural, site.path)
    digits = [i for i in range(_UUID_CHARACTERS) if i not in _HYPHENS]

    def convert(array: Array, _live: Mask) -> pa.Array:
        characters = np.full((array.length, _UUID_CHARACTERS), ord("-"), np.uint8)
        characters[:, digits] = _HEX[data(array, np.dtype((np.uint8, 16)))].reshape(array.length, 32)
        new_offsets = even_offsets(array.length, _UUID_CHARACTERS, site.path)
        return rebuilt(to, array, new_offsets, characters.reshape(-1))

    return Conversion(convert)


def bool8(_type: t.DataType, natural: s.DataType, site: Site) -> Conversion:
    """Compile the conversion of arrow.bool8 to bits; 0 is false."""
    to = expected_type(natural, site.path)

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
        return rebuilt(to, array, np.packbits(values != 0, bitorder="little"))

    return Conversion(convert, checks=site.options.is_exact)


def json(type_: t.DataType, natural: s.DataType, site: Site) -> Conversion:
    """Compile the conversion of arrow.json, which is that of its storage."""
    roles = {layout.role: layout.bit_width for layout in LAYOUTS[type(type_)].buffers}
    if Role.VIEWS in roles:
        return views(type_, natural, site)
    return (short_offsets if roles[Role.OFFSETS] == 32 else long_offsets)(type_, natural, site)


def variant(type_: t.Struct, natural: s.DataType, site: Site) -> Conversion:
    """Compile the conversion of an unshredded arrow.parquet.variant, by child name."""
    to = expected_type(natural, site.path)
    names = ("value", "metadata")
    positions = [[child.name for child in type_.fields].index(name) for name in names]
    children = [
        site.compile(type_.fields[i], s.BinaryType(), f"{site.path}.{n}", nullable=True)
        for i, n in zip(positions, names, strict=True)
    ]

    def convert(array: Array, live: Mask) -> pa.Array:
        mask = seen(array, live)
        parts = []
        for i, name, child in zip(positions, names, children, strict=True):
            part = array.children[i].slice(array.offset, array.length)
            part_valid = seen(part, None)
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


# Convert columns of well-known binary to Spark's GEOMETRY and GEOGRAPHY (``extensionTypes=geometry``).
#
# Spark takes a geometry as a struct of its SRID and its well-known binary. The bytes are shared; the SRIDs are one
# number for all rows of a column.
#
# Of each value the header is checked: its byte order, its type and its least length. Spark 4.1 checks no byte,
# and later releases parse the whole value, with errors that name neither file nor column. Well-known binary has
# dialects: Spark reads that of ISO, where a type of 1001 has a Z, and not the extended one (EWKB), where the highest
# bits say so.
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
    to = expected_type(target, site.path)
    binary = site.compile(t.Field(field.name, field.type), s.BinaryType(), site.path, nullable=True)

    def convert(array: Array, live: Mask) -> pa.Array:
        values = binary.convert(array, live)
        offsets, octets = values.buffers()[1:]
        _check_headers(
            np.frombuffer(offsets, np.int32)[values.offset : values.offset + array.length + 1]
            if array.length
            else np.zeros(1, np.int32),
            np.frombuffer(octets, np.uint8) if octets is not None else np.zeros(0, np.uint8),
            seen(array, live),
            site.path,
        )
        srids = bridge.numbers(np.full(array.length, column.srid, np.int32))
        # The fields of the struct cannot be null, so its validity is that of the column.
        wkb = pa.Array.from_buffers(pa.binary(), array.length, [None, offsets, octets], 0, values.offset)
        return pa.Array.from_buffers(to, array.length, [validity(array)], array.null_count, children=[srids, wkb])

    return Conversion(convert, checks=True)


def _check_headers(offsets: Numbers, octets: npt.NDArray[np.uint8], shown: Mask, path: str) -> None:
    """Refuse visible values whose first bytes are not those of well-known binary."""
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
        found = "the extended dialect (EWKB)" if extended else f"{types[at]}"
        _refuse("of the types 1 to 7 of ISO, or those plus 1000, 2000 or 3000", found, rows[at], path)
    least = np.where(kinds == _POINT, _COORDINATE_NBYTES * _DIMENSIONS[layers], _COUNT_NBYTES) + _HEADER_NBYTES
    short = lengths < least
    if short.any():
        at = int(short.argmax())
        _refuse(f"at least {least[at]} bytes for type {types[at]}", f"{lengths[at]}", rows[at], path)


def _refuse(expected: str, found: str, row: int, path: str) -> NoReturn:
    raise InvalidBodyError(
        expected=f"well-known binary {expected}", found=f"{found} in slot {int(row)}", field_path=path, spec=_SPEC
    )
