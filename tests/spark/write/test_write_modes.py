"""Writing through Spark: modes, options, and every type as pyarrow and polars read it."""

import contextlib
import datetime as dt
import decimal
import json
import uuid
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from commit_jobs import newest_entry
from frames import check_same
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as f
from pyspark.sql import types as s

from spark_arrow_ipc import ipc
from spark_arrow_ipc.cli.shared.file_metadata import read_file_metadata
from spark_arrow_ipc.ipc.flatbuf.tables import CompressionType
from spark_arrow_ipc.spark.types import arrow_to_spark

D = decimal.Decimal


def save(frame, path, mode="append", **options):
    frame.write.format("arrowipc").mode(mode).options(**options).save(str(path))


def load(spark, path, **options):
    return spark.read.format("arrowipc").options(**options).load(str(path))


def data_files(path):
    """Return the published files; nothing else may be there but the sign of success."""
    found = sorted(path.iterdir())
    assert {"_SUCCESS", "_ipc_log"} >= {p.name for p in found if not p.name.startswith("part-")}
    return [p for p in found if p.name.startswith("part-")]


def table(path):
    """Return all rows as pyarrow reads them, after polars and our own codec read the same."""
    tables = []
    for file in data_files(path):
        opener = pa.ipc.open_file if file.suffix == ".arrow" else pa.ipc.open_stream
        with file.open("rb") as source:
            tables.append(opener(source).read_all())
        tables[-1].validate(full=True)
        with ipc.open(file) as reader:
            assert tables[-1].to_pylist() == [row for batch in reader for row in batch.to_pylist()]
        read = pl.read_ipc if file.suffix == ".arrow" else pl.read_ipc_stream
        assert tables[-1].num_rows == len(read(file))
    return pa.concat_tables(tables)


@contextlib.contextmanager
def conf(spark, **settings):
    names = {key.replace("__", "."): value for key, value in settings.items()}
    before = {name: spark.conf.get(name, None) for name in names}
    for name, value in names.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.unset(name) if value is None else spark.conf.set(name, value)


# Modes


@pytest.mark.smoke("append")
def test_append_adds_and_append_again_adds_more(spark, tmp_path):
    path = tmp_path / "new" / "flights"
    save(spark.range(0, 5, 1, 2), path)
    first = data_files(path)
    assert 2 == len(first)
    save(spark.range(5, 9, 1, 1), path)
    assert 3 == len(data_files(path))
    assert set(first) < set(data_files(path))
    assert [*range(9)] == sorted(table(path)["id"].to_pylist())
    check_same(load(spark, path), spark.range(9))
    entry = newest_entry(path)
    assert ("append", [4], ()) == (entry.operation, entry.add.rows.tolist(), entry.remove)
    assert b"" == (path / "_SUCCESS").read_bytes()


@pytest.mark.smoke("overwrite")
def test_overwrite_removes_the_old_only_when_the_new_is_there(spark, tmp_path):
    save(spark.range(0, 100, 1, 3), tmp_path)
    old = data_files(tmp_path)

    @f.udf("string")
    def seen(_):
        return ",".join(sorted(p.name for p in tmp_path.iterdir()))

    save(spark.range(7, 9, 1, 2).withColumn("seen", seen("id")), tmp_path, "overwrite")
    new = data_files(tmp_path)
    assert set() == set(old) & set(new)
    found = table(tmp_path)
    assert [7, 8] == sorted(found["id"].to_pylist())
    for names in found["seen"].to_pylist():
        assert {"_SUCCESS", "_ipc_log", "_ipc_stage", *(p.name for p in old)} == set(names.split(","))
    assert [7, 8] == sorted(row.id for row in load(spark, tmp_path).collect())


@pytest.mark.smoke("overwrite")
def test_the_path_that_is_read_can_be_overwritten(spark, tmp_path):
    save(spark.range(10), tmp_path)
    save(load(spark, tmp_path).selectExpr("id + 1 AS id"), tmp_path, "overwrite")
    assert [*range(1, 11)] == sorted(table(tmp_path)["id"].to_pylist())


def test_append_to_the_path_that_is_read_doubles_it_once(spark, tmp_path):
    save(spark.range(10), tmp_path)
    save(load(spark, tmp_path), tmp_path)
    assert sorted([*range(10)] * 2) == sorted(table(tmp_path)["id"].to_pylist())


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_an_empty_dataframe_keeps_its_schema(spark, tmp_path, mode):
    save(spark.createDataFrame([], "a int, b struct<c: array<string>>"), tmp_path, mode)
    (file,) = data_files(tmp_path)
    assert 0 == table(tmp_path).num_rows
    expected = pa.schema([("a", pa.int32()), ("b", pa.struct([("c", pa.list_(pa.string()))]))])
    with file.open("rb") as source:
        assert expected == pa.ipc.open_file(source).schema
    assert "struct<a:int,b:struct<c:array<string>>>" == load(spark, tmp_path).schema.simpleString()
    assert [] == load(spark, tmp_path).collect()


def test_overwrite_with_nothing_leaves_nothing_but_the_schema(spark, tmp_path):
    save(spark.range(10), tmp_path)
    save(spark.range(10).where("id < 0"), tmp_path, "overwrite")
    assert 0 == table(tmp_path).num_rows
    assert 1 == len(data_files(tmp_path))


def test_an_empty_partition_writes_no_file(spark, tmp_path):
    save(spark.range(0, 100, 1, 10).where("id >= 30 AND id < 50"), tmp_path)
    files = data_files(tmp_path)
    assert ["part-00003", "part-00004"] == [file.name[:10] for file in files]
    assert [*range(30, 50)] == table(tmp_path)["id"].to_pylist()


def test_insert_into_a_view(spark, tmp_path):
    save(spark.range(3), tmp_path)
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW written USING arrowipc OPTIONS (path '{tmp_path}')")
    spark.sql("INSERT INTO written SELECT id + 3 FROM range(2)")
    assert [0, 1, 2, 3, 4] == sorted(table(tmp_path)["id"].to_pylist())
    spark.sql("INSERT OVERWRITE written SELECT id + 7 FROM range(2)")
    assert [7, 8] == sorted(table(tmp_path)["id"].to_pylist())


# Options

OPTIONS = [
    # options, suffix, codec, rows of each record batch of 150,000
    ("defaults", {}, ".arrow", CompressionType.ZSTD, [65_536, 65_536, 18_928]),
    ("lz4", {"compression": "lz4"}, ".arrow", CompressionType.LZ4_FRAME, [65_536, 65_536, 18_928]),
    ("none", {"compression": "NONE"}, ".arrow", None, [65_536, 65_536, 18_928]),
    (
        "level",
        {"compression": "zstd", "compressionLevel": "19"},
        ".arrow",
        CompressionType.ZSTD,
        [65_536, 65_536, 18_928],
    ),
    ("rows", {"recordBatchRows": "49999"}, ".arrow", CompressionType.ZSTD, [49_999, 49_999, 49_999, 3]),
    ("more rows than there are", {"recordBatchRows": "1000000"}, ".arrow", CompressionType.ZSTD, [150_000]),
    ("stream", {"ipcFormat": "stream"}, ".arrows", CompressionType.LZ4_FRAME, [65_536, 65_536, 18_928]),
    (
        "any case",
        {"IPCFORMAT": "File", "COMPRESSION": "Zstd"},
        ".arrow",
        CompressionType.ZSTD,
        [65_536, 65_536, 18_928],
    ),
]


@pytest.fixture(scope="module")
def numbers(spark):
    frame = spark.range(0, 150_000, 1, 1).selectExpr("id", "id % 100 AS small", "concat('text ', id) AS text").cache()
    frame.count()
    yield frame
    frame.unpersist()


@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize(
    ("options", "suffix", "codec", "rows"), [case[1:] for case in OPTIONS], ids=[case[0] for case in OPTIONS]
)
def test_options_are_seen_in_the_file(numbers, tmp_path, options, suffix, codec, rows):
    save(numbers, tmp_path, **options)
    (file,) = data_files(tmp_path)
    assert suffix == file.suffix
    with ipc.open(file) as reader:
        assert options.get("ipcFormat", "file") == reader.format
        assert rows == [batch.num_rows for batch in reader]
    assert ("none" if codec is None else codec.word,) == read_file_metadata(str(file)).compressions
    assert [*range(150_000)] == table(tmp_path)["id"].to_pylist()


def test_levels_differ(numbers, tmp_path):
    sizes = []
    for level in ("1", "19"):
        save(numbers, tmp_path / level, compression="zstd", compressionLevel=level)
        sizes.append(data_files(tmp_path / level)[0].stat().st_size)
    assert sizes[1] < sizes[0]


def test_the_size_of_sparks_batches_does_not_show(spark, numbers, tmp_path):
    with conf(spark, spark__sql__execution__arrow__maxRecordsPerBatch="777"):
        save(numbers.limit(2000), tmp_path, recordBatchRows="1500")
    (file,) = data_files(tmp_path)
    with ipc.open(file) as reader:
        assert [1500, 500] == [batch.num_rows for batch in reader]


def test_ten_wide_rows(spark, tmp_path):
    names = [f"c{i}" for i in range(1000)]
    save(spark.range(0, 10, 1, 2).select(*(f.expr(f"id * {i} AS {name}") for i, name in enumerate(names))), tmp_path)
    found = table(tmp_path)
    assert names == found.column_names
    assert [999 * i for i in range(10)] == sorted(found["c999"].to_pylist())
    assert 999 * 45 == load(spark, tmp_path, columns="c999").agg(f.sum("c999")).first()[0]


WRONG = [
    ("unknown", {"compresion": "zstd"}, "there is no option compresion; did you mean compression?"),
    ("of reading", {"maxPartitionBytes": "1m"}, "the option maxPartitionBytes is for reading"),
    ("no such codec", {"compression": "snappy"}, "the option compression must be one of lz4, zstd, none, and is 'snappy'"),
    ("no number", {"compressionLevel": "high"}, "the option compressionLevel must be a whole number, and is 'high'"),
    ("no such level", {"compression": "zstd", "compressionLevel": "40"}, "a zstd level of -7 to 22, found 40"),
    ("a level of nothing", {"compression": "none", "compressionLevel": "3"}, "compressionLevel has no meaning with compression=none"),
    ("no rows", {"recordBatchRows": "0"}, "the option recordBatchRows must be a whole number of at least 1, and is '0'"),
    ("no such format", {"ipcFormat": "feather"}, "the option ipcFormat must be one of file, stream, and is 'feather'"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "text"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_a_wrong_option_is_named_and_nothing_is_made(spark, tmp_path, options, text):
    with pytest.raises(AnalysisException) as caught:
        save(spark.range(1), tmp_path / "new", **options)
    assert "OptionError" in str(caught.value)
    assert text in str(caught.value)
    assert not (tmp_path / "new").exists()


def test_a_path_that_is_a_file_is_refused(spark, tmp_path):
    (tmp_path / "x.arrow").write_bytes(b"precious")
    for mode in ("append", "overwrite"):
        with pytest.raises(AnalysisException, match="a table is a directory, and this is a file"):
            save(spark.range(1), tmp_path / "x.arrow", mode)
    assert b"precious" == (tmp_path / "x.arrow").read_bytes()


def test_a_scheme_that_cannot_be_written_is_refused(spark):
    with pytest.raises(AnalysisException, match=r"UnsupportedError.*nosuch"):
        save(spark.range(1), "nosuch://bucket/x")


def test_a_file_uri_is_a_path(spark, tmp_path):
    save(spark.range(3), f"file://{tmp_path}/with%20blank")
    assert [0, 1, 2] == sorted(table(tmp_path / "with blank")["id"].to_pylist())


def test_save_as_table_says_why_not(spark):
    with pytest.raises(PySparkException, match="there is no path"):
        spark.range(1).write.format("arrowipc").mode("append").saveAsTable("no_such_table_here")
    spark.sql("DROP TABLE IF EXISTS no_such_table_here")


# Types

UTC = dt.UTC
MOMENT = dt.datetime(2024, 3, 10, 7, 30, 0, 123456)
ITEM = "item"

TYPES = [
    # name, SQL, Arrow type, value
    ("void", "NULL", pa.null(), None),
    ("boolean", "true", pa.bool_(), True),
    ("tinyint", "-128Y", pa.int8(), -128),
    ("smallint", "32767S", pa.int16(), 32_767),
    ("int", "-2147483648", pa.int32(), -(1 << 31)),
    ("bigint", "9223372036854775807L", pa.int64(), (1 << 63) - 1),
    ("float", "float(1.5)", pa.float32(), 1.5),
    ("double", "double('-Infinity')", pa.float64(), float("-inf")),
    ("decimal5", "cast('-123.45' AS decimal(5,2))", pa.decimal128(5, 2), D("-123.45")),
    ("decimal38", "cast('99999999999999999999999999999999.999999' AS decimal(38,6))", pa.decimal128(38, 6), D("9" * 32 + "." + "9" * 6)),
    ("string", "'Grüße, 世界 🌍'", pa.string(), "Grüße, 世界 🌍"),
    ("empty_string", "''", pa.string(), ""),
    ("collated", "'Abc' COLLATE UTF8_LCASE", pa.string(), "Abc"),
    ("binary", "X'00ff41'", pa.binary(), b"\x00\xffA"),
    ("date", "DATE'1582-10-15'", pa.date32(), dt.date(1582, 10, 15)),
    ("timestamp", "TIMESTAMP'2024-03-10 07:30:00.123456Z'", pa.timestamp("us", "UTC"), MOMENT.replace(tzinfo=UTC)),
    ("old_timestamp", "TIMESTAMP'1883-11-18 12:00:00Z'", pa.timestamp("us", "UTC"), dt.datetime(1883, 11, 18, 12, tzinfo=UTC)),
    ("timestamp_ntz", "TIMESTAMP_NTZ'2024-03-10 02:30:00'", pa.timestamp("us"), dt.datetime(2024, 3, 10, 2, 30)),
    ("day_time", "INTERVAL '-1 02:03:04.000005' DAY TO SECOND", pa.duration("us"), -dt.timedelta(1, 7384, 5)),
    ("hours", "INTERVAL '5' HOUR", pa.duration("us"), dt.timedelta(hours=5)),
    ("array", "array(1, NULL, 3)", pa.list_(pa.field(ITEM, pa.int32())), [1, None, 3]),
    ("empty_array", "cast(array() AS array<string>)", pa.list_(pa.string()), []),
    ("map", "map('a', 1L, 'b', NULL)", pa.map_(pa.string(), pa.int64()), [("a", 1), ("b", None)]),
    ("struct", "named_struct('x', 1, 'y', array(named_struct('z', 'w')))",
     pa.struct([("x", pa.int32()), ("y", pa.list_(pa.struct([("z", pa.string())])))]), {"x": 1, "y": [{"z": "w"}]}),
    ("times_in_nested", "map(1, array(TIMESTAMP'2024-03-10 07:30:00.123456Z'))",
     pa.map_(pa.int32(), pa.list_(pa.timestamp("us", "UTC"))), [(1, [MOMENT.replace(tzinfo=UTC)])]),
    ("texts_in_nested", "array(named_struct('t', 'a', 'b', X'01'), NULL)",
     pa.list_(pa.struct([("t", pa.string()), ("b", pa.binary())])), [{"t": "a", "b": b"\x01"}, None]),
]  # fmt: skip


def typed(spark, cases):
    """Return a value, a null and a value of each type, one row each, in one partition."""
    columns = [f"IF(id = 1, NULL, {sql}) AS {name}" for name, sql, *_ in cases]
    return spark.range(0, 3, 1, 1).selectExpr(*columns)


def assert_types(path, cases):
    found = table(path)
    for name, _, type_, value in cases:
        assert type_ == found.schema.field(name).type, name
        assert found.schema.field(name).nullable, name
        assert [value, None, value] == found[name].to_pylist(), name
    return found


SETTINGS = [
    ("as the tests are", {}),
    ("large variable types", {"spark__sql__execution__arrow__useLargeVarTypes": "true"}),
    ("a far time zone", {"spark__sql__session__timeZone": "Asia/Kathmandu"}),
    ("UTC", {"spark__sql__session__timeZone": "UTC"}),
]


@pytest.mark.parametrize("settings", [case[1] for case in SETTINGS], ids=[case[0] for case in SETTINGS])
def test_every_type_is_written_the_same_whatever_the_session(spark, tmp_path, settings):
    with conf(spark, **settings):
        frame = typed(spark, TYPES)
        save(frame, tmp_path, recordBatchRows="2")
        found = assert_types(tmp_path, TYPES)
        assert b"spark.UTF8_LCASE" in found.schema.metadata[b"spark_arrow_ipc.spark_schema"]
        back = load(spark, tmp_path)
        assert_same_rows(frame, back)


def assert_same_rows(frame, back):
    expected = [row.asDict(recursive=True) for row in frame.collect()]
    assert expected == [row.asDict(recursive=True) for row in back.collect()]


def test_polars_reads_the_same_values(spark, tmp_path):
    names = [name for name, _, type_, _ in TYPES if not pa.types.is_map(type_)]
    save(typed(spark, TYPES).select(*names), tmp_path, compression="zstd")
    (file,) = data_files(tmp_path)
    found = pl.read_ipc(file)
    for name, _, _, value in TYPES:
        if name in names:
            assert [value, None, value] == found[name].to_list(), name


TIMES = [
    ("t0", "cast(TIME'12:34:56' AS time(0))", pa.time64("us"), dt.time(12, 34, 56)),
    ("t6", "TIME'23:59:59.999999'", pa.time64("us"), dt.time(23, 59, 59, 999999)),
    ("in_array", "array(TIME'00:00:00.000001', NULL)", pa.list_(pa.time64("us")), [dt.time(0, 0, 0, 1), None]),
]


def test_times_are_written(spark, tmp_path):
    with conf(spark, spark__sql__timeType__enabled="true"):
        save(typed(spark, TIMES), tmp_path)
    assert_types(tmp_path, TIMES)


@pytest.mark.skipif(arrow_to_spark.NANOSECOND_TIME_PRECISION < 9, reason="this Spark has no time(9)")
def test_times_of_nanoseconds_are_written(spark, tmp_path):
    with conf(spark, spark__sql__timeType__enabled="true"):
        save(spark.range(0, 1, 1, 1).selectExpr("cast('12:34:56.123456789' AS time(9)) AS t"), tmp_path)
    (file,) = data_files(tmp_path)
    with file.open("rb") as source:
        found = pa.ipc.open_file(source).read_all()
    assert pa.time64("ns") == found.schema.field("t").type
    assert [45_296_123_456_789] == found["t"].cast(pa.int64()).to_pylist()


def test_a_variant_is_arrows_extension(spark, tmp_path):
    frame = spark.range(0, 2, 1, 1).selectExpr('IF(id = 1, NULL, parse_json(\'{"a": [1, "x"]}\')) AS v')
    save(frame, tmp_path)
    found = table(tmp_path)
    field = found.schema.field("v")
    assert ["metadata", "value"] == [child.name for child in field.type]
    assert b"arrow.parquet.variant" == field.metadata[b"ARROW:extension:name"]
    assert found["v"][0].as_py().keys() == {"metadata", "value"}
    assert found["v"][1].as_py() is None
    back = load(spark, tmp_path)
    assert "struct<v:variant>" == back.schema.simpleString()
    assert ['{"a":[1,"x"]}', None] == [row[0] for row in back.selectExpr("to_json(v)").collect()]


POINT = bytes.fromhex("0101000000000000000000f03f0000000000000040")


def test_a_geometry_is_well_known_binary(spark, tmp_path):
    frame = spark.range(0, 2, 1, 1).selectExpr(
        f"IF(id = 1, NULL, ST_GeomFromWKB(X'{POINT.hex()}')) AS g",
        f"IF(id = 1, NULL, ST_GeogFromWKB(X'{POINT.hex()}')) AS h",
    )
    save(frame, tmp_path)
    found = table(tmp_path)
    sphere = {"crs": "OGC:CRS84", "crs_type": "authority_code", "edges": "spherical"}
    for name, described in (("g", {}), ("h", sphere)):
        field = found.schema.field(name)
        assert pa.binary() == field.type
        assert b"geoarrow.wkb" == field.metadata[b"ARROW:extension:name"]
        assert described == json.loads(field.metadata.get(b"ARROW:extension:metadata", "{}"))
        assert [POINT, None] == found[name].to_pylist()


REFUSED = [
    ("year to month", "INTERVAL '1-2' YEAR TO MONTH AS bad", "bad", "interval year to month"),
    ("nested", "named_struct('list', array(INTERVAL '3' MONTH)) AS s", "s.list[]", "interval month"),
    ("value of a map", "map(1, INTERVAL '3' YEAR) AS m", "m[].value", "interval year"),
]


@pytest.mark.parametrize(("sql", "path", "type_"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_type_that_cannot_be_written_is_named_before_any_task(spark, tmp_path, mode, sql, path, type_):
    target = tmp_path / "new"
    with pytest.raises(PySparkException) as caught:
        save(spark.range(1).selectExpr("id", sql), target, mode)
    assert "UnsupportedError" in str(caught.value)
    assert f"field {path}: a column of type {type_} cannot be written" in str(caught.value)
    assert "or leave the column out" in str(caught.value)
    assert not target.exists()


def test_a_calendar_interval_is_refused_by_spark_itself(spark, tmp_path):
    with pytest.raises(AnalysisException, match="INTERVAL"):
        save(spark.range(1).selectExpr("make_interval(1, 2, 3) AS bad"), tmp_path / "new")
    assert not (tmp_path / "new").exists()


# What a file carried


def test_metadata_and_extension_names_come_back(spark, tmp_path):
    pairs = {"unit": "m", "unicode": "grün"}
    extension = {"ARROW:extension:name": "my.type", "ARROW:extension:metadata": "v1"}
    schema = pa.schema(
        [
            pa.field("plain", pa.int64(), metadata=pairs),
            pa.field("own", pa.string(), metadata=extension),
            pa.field("both", pa.list_(pa.field("item", pa.int32())), metadata={**extension, **pairs}),
            pa.field("json", pa.json_()),
            pa.field("widened", pa.uint8(), metadata=extension),
            pa.field("uuid", pa.uuid()),
            pa.field("struct", pa.struct([pa.field("inner", pa.binary(), metadata=extension)])),
        ]
    )
    rows = [
        pa.array([1, 2]), pa.array(["a", "b"]), pa.array([[1], []]), pa.array(['{"a": 1}', None]).cast(pa.json_()),
        pa.array([1, 2], pa.uint8()), pa.array([uuid.UUID(int=7).bytes] * 2, pa.binary(16)).cast(pa.uuid()),
        pa.array([{"inner": b"x"}, None], schema.field("struct").type),
    ]  # fmt: skip
    source = tmp_path / "in.arrow"
    with pa.ipc.new_file(str(source), schema) as writer:
        writer.write_batch(pa.record_batch(rows, schema=schema))
    frame = load(spark, source)
    save(frame.where("plain > 0").select("*"), tmp_path / "out")
    (file,) = data_files(tmp_path / "out")
    with ipc.open(file) as reader:
        found = {field.name: dict(field.custom_metadata) for field in reader.schema.fields}
        inner = reader.schema.field("struct").type.children[0]
    assert pairs == found["plain"]
    assert extension == found["own"]
    assert {**extension, **pairs} == found["both"]
    assert "arrow.json" == found["json"]["ARROW:extension:name"]
    assert extension == dict(inner.custom_metadata)
    # Of another type than the one that the name stands for.
    assert {} == found["widened"]
    assert {} == found["uuid"]
    assert [str(uuid.UUID(int=7))] * 2 == table(tmp_path / "out")["uuid"].to_pylist()


def test_a_column_that_is_not_null_is_written_nullable(spark, tmp_path):
    frame = spark.createDataFrame([(1, [2])], s.StructType([
        s.StructField("a", s.IntegerType(), nullable=False),
        s.StructField("l", s.ArrayType(s.IntegerType(), containsNull=False), nullable=False),
    ]))  # fmt: skip
    save(frame, tmp_path)
    schema = table(tmp_path).schema
    assert schema.field("a").nullable
    assert schema.field("l").type.value_field.nullable


def test_a_user_defined_type_is_written_as_its_storage(spark, tmp_path):
    from pyspark.testing.objects import ExamplePoint, ExamplePointUDT

    frame = spark.createDataFrame([(ExamplePoint(1.0, 2.0),)], s.StructType([s.StructField("p", ExamplePointUDT())]))
    save(frame, tmp_path)
    assert [{"p": [1.0, 2.0]}] == table(tmp_path).to_pylist()


def test_dataframes_of_a_folder_with_strange_names(spark, tmp_path):
    path = tmp_path / "Grüße, 世界" / "a b=c"
    save(spark.range(3), path)
    assert 3 == load(spark, path).count()
    assert isinstance(path, Path)
