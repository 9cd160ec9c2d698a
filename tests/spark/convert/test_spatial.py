"""Well-known binary becomes what Spark expects of a geometry; broken headers are errors that name the slot."""

import struct

import pyarrow as pa
import pytest
from convert_batches import converted, option
from pyspark.sql import types as s

from spark_arrow_ipc.errors import InvalidBodyError, SchemaMismatchError
from spark_arrow_ipc.spark.options.values import ExtensionTypes

GEOMETRY = option(extension_types=ExtensionTypes.GEOMETRY)
PLANE = {"ARROW:extension:name": "geoarrow.wkb", "ARROW:extension:metadata": '{"crs": "OGC:CRS84"}'}
SPHERE = {"ARROW:extension:name": "ogc.wkb", "ARROW:extension:metadata": '{"edges": "spherical"}'}


def wkb(type_, *numbers, order="<", count=None):
    head = struct.pack(f"{order}BI", order == "<", type_)
    return (
        head
        + (b"" if count is None else struct.pack(f"{order}I", count))
        + struct.pack(f"{order}{len(numbers)}d", *numbers)
    )


POINT = wkb(1, 1, 2)
VALUES = [POINT, None, wkb(2, 0, 0, 1, 1, count=2), wkb(3001, 1, 2, 3, 4, order=">"), wkb(7, count=0)]
STORAGES = {
    "binary": pa.array(VALUES),
    "large binary": pa.array(VALUES, pa.large_binary()),
    "binary view": pa.array(VALUES, pa.binary_view()),
    "sliced": pa.array([POINT, b"", *VALUES, b""]).slice(2, len(VALUES)),
    "dictionary": pa.array(VALUES).dictionary_encode(),
    "fixed-size binary": pa.array([POINT, None], pa.binary(21)),
    "no rows": pa.array([], pa.binary()),
    "only nulls": pa.array([None, None], pa.binary()),
}


@pytest.mark.parametrize("metadata", [PLANE, SPHERE], ids=["geometry", "geography"])
@pytest.mark.parametrize("case", STORAGES)
def test_values(case, metadata):
    storage = STORAGES[case]
    expected = [None if value is None else {"srid": 4326, "wkb": value} for value in storage.to_pylist()]
    assert expected == converted(storage, GEOMETRY, metadata=metadata).to_pylist()


def test_binary_stays_binary_by_default():
    assert VALUES == converted(pa.array(VALUES), metadata=PLANE).to_pylist()


def test_a_schema_may_ask_for_mixed_srids_and_for_nothing_else():
    mixed = s.StructField("c", s.GeometryType("ANY"))
    found = converted(pa.array(VALUES[:1]), GEOMETRY, asked=mixed, metadata=PLANE)
    assert [{"srid": 4326, "wkb": POINT}] == found.to_pylist()
    for other in (s.GeometryType(3857), s.GeographyType("ANY"), s.BinaryType()):
        with pytest.raises(SchemaMismatchError, match=r"field c: .*is geometry\(4326\) in Spark"):
            converted(pa.array(VALUES[:1]), GEOMETRY, asked=s.StructField("c", other), metadata=PLANE)


def test_a_schema_with_a_geometry_needs_no_option_but_one_that_is_given_decides():
    asked = s.StructField("c", s.GeometryType(4326))
    assert len(VALUES) == len(converted(pa.array(VALUES), asked=asked, metadata=PLANE))
    with pytest.raises(SchemaMismatchError, match="read it with extensionTypes=geometry"):
        converted(pa.array(VALUES), option(extension_types=ExtensionTypes.STORAGE), asked=asked, metadata=PLANE)


BROKEN = [
    ("empty", b"", "at least 5 bytes, found 0 in slot 2"),
    ("no whole header", b"\1\1\0\0", "at least 5 bytes, found 4 in slot 2"),
    ("a byte order", b"\2" + POINT[1:], "begins with its byte order, 0 or 1, found 2 in slot 2"),
    ("type 0", wkb(0, 1, 2), "of the types 1 to 7 .*, found 0 in slot 2"),
    ("type 8", wkb(8, 1, 2), "found 8 in slot 2"),
    ("a curve", wkb(1008, 1, 2), "found 1008 in slot 2"),
    ("a layer", wkb(4001, 1, 2), "found 4001 in slot 2"),
    ("the other byte order", b"\0" + POINT[1:], f"found {1 << 24} in slot 2"),
    ("EWKB with an SRID", wkb(0x20000001, 1, 2), r"the extended dialect \(EWKB\) in slot 2"),
    ("EWKB with a Z", wkb(0x80000001, 1, 2, 3), r"the extended dialect \(EWKB\) in slot 2"),
    ("half a point", POINT[:-1], "at least 21 bytes for type 1, found 20 in slot 2"),
    ("half a point with a Z", wkb(1001, 1, 2), "at least 29 bytes for type 1001, found 21 in slot 2"),
    ("a line without a count", wkb(2), "at least 9 bytes for type 2, found 5 in slot 2"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "match"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_a_broken_header_is_an_error(value, match):
    with pytest.raises(InvalidBodyError, match=f"field c: expected well-known binary .*{match}"):
        converted(pa.array([POINT, None, value, POINT]), GEOMETRY, metadata=PLANE)


def test_what_no_row_shows_is_not_looked_at():
    below_null = pa.Array.from_buffers(
        pa.binary(),
        2,
        [pa.py_buffer(b"\1"), pa.array([0, 21, 23], pa.int32()).buffers()[1], pa.py_buffer(POINT + b"xx")],
    )
    assert [POINT, None] == [row and row["wkb"] for row in converted(below_null, GEOMETRY, metadata=PLANE).to_pylist()]
