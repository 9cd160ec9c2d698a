"""Columns of well-known binary as Spark's GEOMETRY and GEOGRAPHY: what geopandas wrote, and back again."""

from pathlib import Path

import arrow_files
import pyarrow as pa
import pyspark
from pyspark.sql import functions as f

HERE = Path(__file__).parents[2]
GEOPANDAS = HERE / "geo_data/geopandas.arrows"
HAS_REGISTRY = tuple(map(int, pyspark.__version__.split(".")[:2])) >= (4, 2)
TYPES = {
    "unknown": ("geometry(0)", 0),
    "lonlat": ("geometry(4326)", 4326),
    "wgs84": ("geometry(4326)", 4326),
    "mercator": ("geometry(3857)", 3857),
    "lambert": ("geometry(any)", 2154),
}
KNOWN = {name: expected for name, expected in TYPES.items() if HAS_REGISTRY or name != "lambert"}
METADATA = b"ARROW:extension:metadata"


def read(spark, path, **options):
    return spark.read.format("arrowipc").options(extensionTypes="geometry", **options).load(str(path))


def test_what_geopandas_wrote_is_read_and_written_again(spark, tmp_path):
    with pa.ipc.open_stream(GEOPANDAS) as reader:
        table = reader.read_all().select(list(KNOWN))
    frame = read(spark, GEOPANDAS, columns=",".join(KNOWN))
    assert {name: ddl for name, (ddl, _) in KNOWN.items()} == dict(frame.dtypes)
    rows = frame.select(
        *(f.struct(f.expr(f"ST_Srid({n})"), f.expr(f"ST_AsBinary({n})")).alias(n) for n in KNOWN)
    ).collect()
    for name, (_, srid) in KNOWN.items():
        expected = [(None, None) if value is None else (srid, value) for value in table[name].to_pylist()]
        assert expected == [tuple(row[name]) for row in rows]
    frame.write.format("arrowipc").mode("append").option("ipcFormat", "stream").save(str(tmp_path / "d"))
    (path,) = (tmp_path / "d").glob("*.arrows")
    with pa.ipc.open_stream(path) as reader:
        again = reader.read_all()
    assert table.to_pydict() == again.to_pydict()
    # A CRS is written with all that geopandas said of it; without one there are no metadata.
    for name in KNOWN:
        wanted = table.schema.field(name).metadata[METADATA]
        assert again.schema.field(name).metadata.get(METADATA, b"{}") == wanted


def test_geometries_inside_of_others_and_predicates(spark, tmp_path):
    plane = {"ARROW:extension:name": "geoarrow.wkb", "ARROW:extension:metadata": '{"crs": "EPSG:3857"}'}
    with pa.ipc.open_stream(GEOPANDAS) as reader:
        point, null, line, _ = reader.read_all()["mercator"].to_pylist()
    field = pa.field("item", pa.binary(), metadata=plane)
    columns = {"l": pa.array([[point, null], [line], None], pa.list_(field)), "g": pa.array([point, null, line])}
    columns["s"] = pa.StructArray.from_arrays(
        [pa.array([null, line, point], pa.binary_view())], fields=[pa.field("x", pa.binary_view(), metadata=plane)]
    )
    columns["d"] = pa.array([point, null, point]).dictionary_encode()
    schema = pa.schema([pa.field(n, c.type, metadata=plane if n in "gd" else None) for n, c in columns.items()])
    path = arrow_files.write(tmp_path / "in.arrow", pa.table(columns, schema=schema))
    frame = read(spark, path, where="g IS NOT NULL")
    assert dict.fromkeys("gd", "geometry(3857)") | {
        "l": "array<geometry(3857)>",
        "s": "struct<x:geometry(3857)>",
    } == dict(frame.dtypes)
    found = frame.selectExpr(
        "ST_AsBinary(g)", "ST_AsBinary(d)", "transform(l, x -> ST_AsBinary(x))", "ST_Srid(s.x)"
    ).collect()
    assert [(point, point, [point, None], None), (line, point, None, 3857)] == [tuple(row) for row in found]
