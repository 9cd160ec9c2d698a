"""The CRS of a column of well-known binary becomes Spark's SRID, and is written so that it is read again."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import types as s

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.errors import InvalidMetadataError, UnsupportedError
from spark_arrow_ipc.spark.types import extension_columns
from spark_arrow_ipc.spark.types.extension_columns import SpatialColumn, parse_spatial, spatial_of, spatial_pairs

GEOPANDAS = Path(__file__).parents[2] / "geo_data/geopandas.arrows"
NAME, METADATA = "ARROW:extension:name", "ARROW:extension:metadata"


def projjson(**id_):
    base = {"type": "GeographicCRS", "id": {"authority": "EPSG", "code": 4258}}
    return {"type": "ProjectedCRS", "name": "a projection", "base_crs": base, **id_}


WKT2 = 'PROJCRS["x",BASEGEOGCRS["y",ID["EPSG",4326]],CONVERSION["z",ID["EPSG",3856]],ID["EPSG",3857]]'
WKT1 = 'PROJCS["x",GEOGCS["y",AUTHORITY["EPSG","4326"]],AUTHORITY["EPSG","2154"]]'

CRS = [
    ("PROJJSON", projjson(id={"authority": "EPSG", "code": 3857}), 3857),
    ("PROJJSON of OGC", projjson(id={"authority": "OGC", "code": "CRS84"}), 4326),
    ("PROJJSON, a code that is a string", projjson(id={"authority": "EPSG", "code": "3857"}), 3857),
    ("PROJJSON of several identifiers", projjson(ids=[{"authority": "EPSG", "code": 2154}]), 2154),
    ("PROJJSON in a string", json.dumps(projjson(id={"authority": "EPSG", "code": 3857})), 3857),
    ("an identifier", "EPSG:4326", 4326),
    ("an identifier in small letters", "ogc:crs84", 4326),
    ("NAD83 of OGC", "OGC:CRS83", 4269),
    ("of ESRI", "ESRI:102001", 102001),
    ("a number", "3857", 3857),
    ("a number as Parquet has it", "srid:3857", 3857),
    ("a number that is no string", 3857, 3857),
    ("SRID 0, which earlier releases wrote", "SRID:0", 0),
    ("a URN", "urn:ogc:def:crs:OGC:1.3:CRS84", 4326),
    ("a URN without version", "urn:ogc:def:crs:EPSG::3857", 3857),
    ("WKT2", WKT2, 3857),
    ("WKT1", WKT1, 2154),
    ("null", None, 0),
]


@pytest.mark.parametrize(("crs", "srid"), [case[1:] for case in CRS], ids=[case[0] for case in CRS])
def test_the_identifier_of_a_crs_is_an_srid(crs, srid, monkeypatch):
    monkeypatch.setattr(extension_columns, "_HAS_REGISTRY", True)
    assert SpatialColumn(srid, is_geography=False) == parse_spatial(json.dumps({"crs": crs}), "c")


TYPES = [
    ("no metadata", "", s.GeometryType(0)),
    ("an empty object", "{}", s.GeometryType(0)),
    ("planar", '{"edges": "planar", "crs": "OGC:CRS84"}', s.GeometryType(4326)),
    ("spherical", '{"edges": "spherical", "crs": "EPSG:4326"}', s.GeographyType(4326)),
    ("spherical, without a CRS", '{"edges": "spherical"}', s.GeographyType(4326)),
    ("a CRS that PySpark does not name", '{"crs": "EPSG:2154"}', s.GeometryType("ANY")),
    ("the same, spherical", '{"edges": "spherical", "crs": "EPSG:4269"}', s.GeographyType("ANY")),
]


@pytest.mark.parametrize(("text", "type_"), [case[1:] for case in TYPES], ids=[case[0] for case in TYPES])
def test_the_type_of_a_column(text, type_, monkeypatch):
    monkeypatch.setattr(extension_columns, "_HAS_REGISTRY", True)
    assert type_ == parse_spatial(text, "c").spark_type


REFUSED = [
    ("no JSON", "crs", InvalidMetadataError, "metadata of geoarrow.wkb that are a JSON object, found 'crs'"),
    ("no object", "[1]", InvalidMetadataError, "JSON object"),
    ("nested without end", "[" * 100_000, InvalidMetadataError, "JSON object"),
    ("too long", json.dumps({"crs": "x" * (1 << 20)}), InvalidMetadataError, "JSON object"),
    ("edges that Spark lacks", '{"edges": "vincenty"}', UnsupportedError, "no edges that are 'vincenty'"),
    ("edges that are no string", '{"edges": {"a": 1}}', UnsupportedError, "no edges that are"),
    ("no identifier", json.dumps({"crs": projjson()}), UnsupportedError, "without an identifier: 'a projection'"),
    ("an identifier of something else", '{"crs": "IAU:49900"}', UnsupportedError, "SRID for the CRS IAU:49900"),
    ("WKT without an identifier", json.dumps({"crs": WKT2[:-17] + "]"}), UnsupportedError, "without an identifier"),
    ("a number beyond 32 bits", '{"crs": "EPSG:99999999999"}', UnsupportedError, "SRID for the CRS EPSG:99999999999"),
    ("a negative number", '{"crs": "SRID:-1"}', UnsupportedError, "without an identifier"),
    ("a truth value", '{"crs": true}', UnsupportedError, "without an identifier: 'True'"),
    ("identifiers that are no list", '{"crs": {"ids": {"0": 1}}}', UnsupportedError, "without an identifier"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "error", "match"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_what_spark_has_no_type_for_is_an_error_that_names_the_column(text, error, match):
    with pytest.raises(error, match=f"field a.b: .*{match}"):
        parse_spatial(text, "a.b")


def test_a_release_without_the_srid_is_named(monkeypatch):
    monkeypatch.setattr(extension_columns, "_HAS_REGISTRY", False)
    monkeypatch.setattr(extension_columns.pyspark, "__version__", "4.1.4")
    assert 3857 == parse_spatial('{"crs": "EPSG:3857"}', "c").srid
    with pytest.raises(
        UnsupportedError, match=r"field c: .*no SRID 2154 in release 4\.1\.4; Spark 4\.2 and later have it"
    ):
        parse_spatial('{"crs": "EPSG:2154"}', "c")


FIELDS = [
    ("geoarrow.wkb", t.binary, True),
    ("ogc.wkb", t.LargeBinary(), True),
    ("geoarrow.wkb", t.binary_view, True),
    ("geoarrow.wkb", t.utf8, False),
    ("geoarrow.wkt", t.binary, False),
    ("geoarrow.wkb", t.dictionary(t.int8, t.binary), False),
]


@pytest.mark.parametrize(
    ("name", "storage", "is_spatial"), FIELDS, ids=[f"{name} on {type_}" for name, type_, _ in FIELDS]
)
def test_which_fields_are_geometries(name, storage, is_spatial):
    assert is_spatial == (spatial_of(t.field("c", storage, custom_metadata={NAME: name}), "c") is not None)


def test_what_geopandas_writes(monkeypatch):
    monkeypatch.setattr(extension_columns, "_HAS_REGISTRY", True)
    with pa.ipc.open_stream(GEOPANDAS) as reader:
        texts = {field.name: field.metadata[METADATA.encode()].decode() for field in reader.schema}
    found = {name: parse_spatial(text, name).srid for name, text in texts.items()}
    assert {"unknown": 0, "lonlat": 4326, "wgs84": 4326, "mercator": 3857, "lambert": 2154} == found


CRS84 = '{"crs": "OGC:CRS84", "crs_type": "authority_code"}'
SPHERE = '{"crs": "OGC:CRS84", "crs_type": "authority_code", "edges": "spherical"}'
WRITTEN = [
    ("no CRS", s.GeometryType(0), None, ""),
    ("a CRS", s.GeometryType(4326), None, CRS84),
    ("another CRS", s.GeometryType(3857), None, '{"crs": "EPSG:3857", "crs_type": "authority_code"}'),
    ("a geography", s.GeographyType(4326), None, SPHERE),
    ("mixed SRIDs", s.GeometryType("ANY"), None, ""),
    ("a geography of mixed SRIDs", s.GeographyType("ANY"), None, SPHERE),
    ("as it was read", s.GeometryType(4326), '{"crs": {"id": {"authority": "EPSG", "code": 4326}}}', None),
    ("mixed SRIDs as they were read", s.GeometryType("ANY"), '{"crs": "EPSG:2154"}', None),
    ("notes of another SRID", s.GeometryType(4326), '{"crs": "EPSG:3857"}', CRS84),
    ("notes of a geography", s.GeometryType(4326), SPHERE, CRS84),
    ("notes without a CRS", s.GeometryType(4326), "{}", CRS84),
    ("broken notes", s.GeometryType(4326), "{", CRS84),
]


@pytest.mark.parametrize(
    ("type_", "noted", "expected"), [case[1:] for case in WRITTEN], ids=[case[0] for case in WRITTEN]
)
def test_what_is_written(type_, noted, expected, monkeypatch):
    monkeypatch.setattr(extension_columns, "_HAS_REGISTRY", True)
    metadata = {} if noted is None else {NAME: "geoarrow.wkb", METADATA: noted}
    pairs = dict(spatial_pairs(type_, metadata, "c"))
    assert "geoarrow.wkb" == pairs.pop(NAME)
    wanted = noted if expected is None else expected
    assert ({METADATA: wanted} if wanted else {}) == pairs
