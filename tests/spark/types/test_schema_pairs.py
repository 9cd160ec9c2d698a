"""The pairs of a file's schema through Spark: what pandas and GeoPandas say of tables, and keys of users."""

import io
import json

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import types as s
from restored_columns import written_batches

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.schema import Schema
from spark_arrow_ipc.spark.options.options import parse_read, parse_write
from spark_arrow_ipc.spark.types.arrow_to_spark import spark_schema
from spark_arrow_ipc.spark.types.merge import merge_schemas
from spark_arrow_ipc.spark.types.schema_pairs import OTHERS_KEY, annotation_key
from spark_arrow_ipc.spark.write.plan import plan_write

FIELDS = (t.field("a", t.int64), t.field("b", t.utf8), t.field("g", t.binary))
CRS = {"type": "GeographicCRS", "name": "WGS 84"}


def seen(*pairs, fields=FIELDS):
    """Return the columns of a file with these pairs as Spark sees them."""
    return spark_schema(Schema(fields, tuple(pairs)), parse_read({"path": "/x"}))


def kept(schema, **options):
    """Return the pairs that a write of the columns gives the schema of files."""
    return dict(plan_write(schema, parse_write(options)).file_schema.custom_metadata)


def changed(schema, *, names=None, renamed=None, types=None):
    """Return the columns as Spark has them after a projection, or with other names or types."""
    made = []
    for name in names or schema.names:
        field = schema[name]
        type_ = (types or {}).get(name, field.dataType)
        made.append(s.StructField((renamed or {}).get(name, name), type_, nullable=True, metadata=field.metadata))
    return s.StructType(made)


USERS = [("owner", "me"), ("r", "A\n3\n262147"), ("notes", "{"), ("owner", "you"), ("bytes", "\udcff")]


def test_pairs_of_users_are_kept_with_the_same_columns():
    assert dict(USERS) == kept(seen(*USERS))
    assert tuple(USERS) == plan_write(seen(*USERS), parse_write({})).file_schema.custom_metadata


@pytest.mark.parametrize(
    "how",
    [{"names": ["a", "b"]}, {"names": ["b", "g"]}, {"names": ["a", "g", "b"]}, {"renamed": {"b": "c"}}, {"types": {"b": s.LongType()}}],
    ids=str,
)  # fmt: skip
def test_pairs_of_users_are_left_out_with_other_columns(how):
    assert {} == kept(changed(seen(*USERS), **how))


def test_an_option_is_stronger_than_what_was_read():
    assert {"owner": "them", "day": "1"} == kept(seen(("owner", "me"), ("day", "1")), **{"metadata.owner": "them"})


def test_pairs_of_users_that_are_large_are_left_out_with_a_warning(caplog):
    assert {} == kept(seen(("owner", "x" * (1 << 20))))
    assert "are not kept beyond 1048576" in caplog.text


def test_columns_that_become_directories_are_not_spoken_of():
    assert {} == kept(seen(("owner", "me")), partitionBy="b")


@pytest.mark.parametrize("note", [7, "{", "7", "{}", '{"pairs":7}', '{"pairs":[["a"]],"columns":[]}', '{"entry":7}'])
@pytest.mark.parametrize("key", [OTHERS_KEY, annotation_key("pandas"), annotation_key("geo")])
def test_what_a_user_makes_of_a_note_says_nothing(key, note):
    assert {} == kept(s.StructType([s.StructField("a", s.LongType(), metadata={key: note})]))


def test_files_that_disagree_merge_without_what_they_say():
    one, other = seen(("owner", "me")), seen(("owner", "you"))
    assert {"owner": "me"} == kept(merge_schemas([("x", one), ("y", one)]))
    assert {} == kept(merge_schemas([("x", one), ("y", other)]))


# --- pandas


FRAME = pd.DataFrame(
    {
        "n": pd.array([1, None, 3], dtype="Int64"),
        "c": pd.Categorical(["x", "y", "x"], categories=["y", "x", "z"]),
        "at": pd.to_datetime(["2026-01-01", "2026-01-02", None]).tz_localize("Europe/Paris"),
    },
    index=pd.Index(["p", "q", "r"], name="key"),
)


def through(frame, change=lambda table: table, **options):
    """Return a frame of pandas after it was a file, columns of Spark, and a file again."""
    table = pa.Table.from_pandas(frame)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    schema = spark_schema(
        ipc.open(sink.getvalue().to_pybytes()).schema, parse_read({"path": "/x", "nanoseconds": "error"})
    )
    arrow = {s.TimestampType: pa.timestamp("us", "UTC"), s.StringType: pa.string(), s.LongType: pa.int64()}
    given = pa.table({f.name: table[f.name].cast(arrow[type(f.dataType)]) for f in schema.fields})
    given = change(given)
    schema = s.StructType([schema[name] for name in given.column_names])
    written = io.BytesIO()
    ipc.write(written, written_batches(schema, given.to_batches(), parse_write(options)))
    return pa.ipc.open_file(written.getvalue()).read_all()


def test_pandas_reads_back_its_index_and_its_categories():
    made = through(FRAME, restoreTypes="true")
    pd.testing.assert_frame_equal(FRAME, made.to_pandas(), check_categorical=False)
    assert "category" == made.to_pandas()["c"].dtype.name


def test_pandas_reads_back_its_index_where_types_are_those_of_spark():
    made = through(FRAME)
    entries = {entry["name"]: entry for entry in made.schema.pandas_metadata["columns"]}
    assert {"n": "Int64", "c": "object", "at": "object", "key": "object"} == {
        n: e["numpy_type"] for n, e in entries.items()
    }
    assert None is entries["c"]["metadata"]
    assert FRAME.index.equals(made.to_pandas().index)
    assert ["x", "y", "x"] == made.to_pandas()["c"].tolist()


def test_an_index_that_was_dropped_is_not_spoken_of():
    made = through(FRAME, lambda table: table.drop_columns(["key", "c"]))
    assert [] == made.schema.pandas_metadata["index_columns"]
    assert ["n", "at"] == [entry["name"] for entry in made.schema.pandas_metadata["columns"]]
    assert [0, 1, 2] == made.to_pandas().index.tolist()


def test_a_range_of_numbers_is_no_index_of_other_rows():
    frame = pd.DataFrame({"n": [5, 6, 7]}, index=pd.RangeIndex(10, 13))
    assert [0, 1] == through(frame, lambda table: table.slice(0, 2)).to_pandas().index.tolist()


def test_levels_of_an_index_stay_in_their_order():
    frame = pd.DataFrame({"n": [1, 2], "y": ["a", "b"], "x": [3, 4]}).set_index(["x", "y"])
    back = through(frame, lambda table: table.select(["y", "n", "x"])).to_pandas()
    pd.testing.assert_frame_equal(frame, back)


def test_a_column_with_another_name_is_spoken_of_by_it():
    pair = ("pandas", pa.Table.from_pandas(pd.DataFrame({"a": [1], "b": ["x"]})).schema.metadata[b"pandas"].decode())
    made = json.loads(kept(changed(seen(pair), renamed={"a": "z"}))["pandas"])
    assert [("z", "z"), ("b", "b")] == [(entry["name"], entry["field_name"]) for entry in made["columns"]]


# --- GeoPandas

GEOMETRY = {"encoding": "WKB", "crs": CRS, "geometry_types": ["Point"], "bbox": [0, 0, 1, 1], "edges": "planar"}
GEO = {"primary_column": "g", "columns": {"g": GEOMETRY, "absent": GEOMETRY}, "version": "1.0.0"}
KEPT = {"encoding": "WKB", "crs": CRS, "geometry_types": [], "edges": "planar"}


def geo(schema, **options):
    return json.loads(kept(schema, **options).get("geo", "null"))


def test_the_crs_of_a_geometry_stays_and_its_bounds_do_not():
    schema = seen(("geo", json.dumps(GEO)))
    assert {"version": "1.0.0", "primary_column": "g", "columns": {"g": KEPT}} == geo(schema)
    assert {"h": KEPT} == geo(changed(schema, renamed={"g": "h"}))["columns"]
    assert None is geo(changed(schema, names=["a", "b"]))
    assert None is geo(changed(schema, types={"g": s.StringType()}))


def test_another_column_is_the_primary_one_where_that_was_dropped():
    fields = (*FIELDS, t.field("h", t.large_binary))
    value = {**GEO, "columns": {"g": GEOMETRY, "h": GEOMETRY}}
    schema = seen(("geo", json.dumps(value)), fields=fields)
    assert {"version": "1.0.0", "primary_column": "h", "columns": {"h": KEPT}} == geo(changed(schema, names=["a", "h"]))


@pytest.mark.parametrize("value", ["{", "[]", "7", '{"columns":7}', '{"columns":{"g":7}}', "[" * 1000 + "]" * 1000])
@pytest.mark.parametrize("key", ["pandas", "geo"])
def test_pairs_that_are_not_as_they_should_be_are_left_out(key, value):
    assert {} == kept(seen((key, value)))


@pytest.mark.parametrize("key", ["pandas", "geo"])
def test_what_is_said_of_no_column_is_not_copied_to_each_where_it_is_large(key):
    fields = tuple(t.field(f"c{i}", t.binary) for i in range(100))
    columns = (
        [{"name": f.name, "field_name": f.name} for f in fields] if key == "pandas" else {f.name: {} for f in fields}
    )
    schema = seen((key, json.dumps({"columns": columns, "creator": "x" * 100_000})), fields=fields)
    assert len(schema.json()) < 100_000
    assert "creator" not in json.loads(kept(schema)[key])


def test_spark_keeps_them_from_read_to_write(spark, tmp_path):
    table = pa.Table.from_pandas(FRAME)
    (tmp_path / "from").mkdir()
    with pa.ipc.new_file(str(tmp_path / "from" / "a.arrow"), table.schema) as writer:
        writer.write_table(table)
    read = spark.read.format("arrowipc").option("nanoseconds", "error").load(str(tmp_path / "from"))
    read.createOrReplaceTempView("frame")
    made = spark.sql("SELECT c, key FROM frame WHERE n IS NOT NULL").coalesce(1)
    made.write.format("arrowipc").option("restoreTypes", "true").mode("append").save(str(tmp_path / "to"))
    (path,) = (tmp_path / "to").glob("*.arrow")
    back = pa.ipc.open_file(str(path)).read_all().to_pandas()
    assert [("p", "x"), ("r", "x")] == list(back["c"].astype(str).items())
    assert ("key", "category") == (back.index.name, back["c"].dtype.name)
