"""Convert strings and binaries, and the extension types stored as them.

Strategy
--------
Spark takes strings and binaries with 32-bit value offsets only.
Bytes that are already in order are never copied: only 64-bit offsets are narrowed. Batches are
cut into pieces that fit before anything is converted; a single row that does not fit is an error. Views are
gathered by pyarrow's own kernel.
"""

from __future__ import annotations

import numpy as np
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
    Site,
    data,
    first_seen,
    narrowed,
    offsets,
    rebuilt,
    seen,
    share,
    validity,
)
from spark_arrow_ipc.spark.conform.expected import expected_type

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
        made = narrowed(np.arange(array.length + 1, dtype=np.int64) * width, site.path)
        octets = array.buffers[1]
        assert octets is not None
        return rebuilt(to, array, made, octets[array.offset * width : (array.offset + array.length) * width])

    return Conversion(convert)


def uuid(_type: t.DataType, natural: s.DataType, site: Site) -> Conversion:
    """Compile the conversion of arrow.uuid to strings."""
    to = expected_type(natural, site.path)
    digits = [i for i in range(_UUID_CHARACTERS) if i not in _HYPHENS]

    def convert(array: Array, _live: Mask) -> pa.Array:
        characters = np.full((array.length, _UUID_CHARACTERS), ord("-"), np.uint8)
        characters[:, digits] = _HEX[data(array, np.dtype((np.uint8, 16)))].reshape(array.length, 32)
        made = narrowed(np.arange(array.length + 1, dtype=np.int64) * _UUID_CHARACTERS, site.path)
        return rebuilt(to, array, made, characters.reshape(-1))

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
