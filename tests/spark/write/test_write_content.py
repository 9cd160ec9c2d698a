"""What is in the files that Spark writes: every type, dictionaries, metadata, restored types."""

import datetime as dt
import decimal
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.ipc
import pytest
from frames import EVERYTHING
from pyspark.sql import functions as f
from pyspark.sql import types as s

from spark_arrow_ipc import ipc
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.spark.types.field_metadata import annotation_of

D = decimal.Decimal
UTC = dt.UTC


def files_of(path):
    return sorted(str(file) for file in Path(path).rglob("part-*"))


def table_of(path):
    """Return all rows as pyarrow reads them."""
    tables = []
    for file in files_of(path):
        source = pa.memory_map(file)
        reader = pa.ipc.open_file(source) if file.endswith(".arrow") else pa.ipc.open_stream(source)
        tables.append(reader.read_all())
    return pa.concat_tables(tables)


def write(frame, path, **options):
    frame.write.format("arrowipc").mode("append").options(**options).save(str(path))
    return str(path)


def read(spark, path, **options):
    return spark.read.format("arrowipc").options(**options).load(str(path))


@pytest.mark.parametrize("ipc_format", ["file", "stream"])
def test_every_type_comes_back(spark, tmp_path, ipc_format):
    frame = spark.sql(EVERYTHING)
    write(frame, tmp_path / "d", ipcFormat=ipc_format, maxRecordsPerFile="20", recordBatchRows="7")
    again = read(spark, tmp_path / "d")
    assert {".arrow" if ipc_format == "file" else ".arrows"} == {Path(name).suffix for name in files_of(tmp_path / "d")}
    simple = [f.col(c).cast("string").alias(c) if c == "v" else f.col(c) for c in frame.columns]
    assert sorted(map(str, frame.select(simple).collect())) == sorted(map(str, again.select(simple).collect()))
    types = {field.name: field.dataType.simpleString() for field in again.schema.fields}
    expected = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    assert expected == types


def test_times_come_back(spark, tmp_path):
    spark.conf.set("spark.sql.timeType.enabled", "true")
    try:
        frame = spark.sql("SELECT cast(time'12:34:56.123456' AS time(6)) AS t")
        write(frame, tmp_path / "d")
        assert pa.time64("us") == table_of(tmp_path / "d").schema.field("t").type
        assert frame.collect() == read(spark, tmp_path / "d", times="time").collect()
    finally:
        spark.conf.unset("spark.sql.timeType.enabled")


def test_geometries_are_well_known_binary(spark, tmp_path):
    point = "X'0101000000000000000000F03F0000000000000040'"
    frame = spark.sql(f"SELECT ST_GeomFromWKB({point}) AS g")
    write(frame, tmp_path / "d")
    with ipc.open(files_of(tmp_path / "d")[0]) as reader:
        (batch,) = reader
        assert "geoarrow.wkb" == batch.schema.fields[0].extension_name
        assert [bytes.fromhex(point[2:-1])] == batch.column(0).to_pylist()


NOT_WRITTEN = {
    "interval year to month": "SELECT id, make_ym_interval(1, 2) AS c FROM range(1)",
    "calendar interval": "SELECT id, make_interval(1, 2) AS c FROM range(1)",
    "in a list": "SELECT id, array(make_ym_interval(1, 2)) AS c FROM range(1)",
}


@pytest.mark.parametrize("query", NOT_WRITTEN.values(), ids=NOT_WRITTEN)
def test_a_type_that_spark_does_not_give_is_an_error_before_any_task(spark, tmp_path, query):
    with pytest.raises(Exception, match=r'field c.*cannot be written|Cannot use "INTERVAL"'):
        write(spark.sql(query), tmp_path / "d")
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize("ipc_format", ["file", "stream"])
def test_pairs_of_the_user_stand_in_every_file(spark, tmp_path, ipc_format):
    options = {"metadata.owner": "me", "metadata.A.b": "ü", "ipcFormat": ipc_format}
    if ipc_format == "file":
        options["statistics"] = "none"
    write(spark.range(10).repartition(2), tmp_path / "d", **options)
    assert 2 == len(files_of(tmp_path / "d"))
    for name in files_of(tmp_path / "d"):
        with ipc.open(name) as reader:
            assert {"a.b": "ü", "owner": "me"} == dict(reader.schema.custom_metadata)
            if ipc_format == "file":
                assert {"a.b": "ü", "owner": "me"} == dict(reader.custom_metadata)


WORDS = "SELECT id, if(id % 7 = 0, NULL, concat('word ', id % 10)) AS w, concat('k', id) AS k, id % 5 AS n FROM range(0, 20000, 1, 2)"


@pytest.mark.one_in(3, "exhaustive")
@pytest.mark.parametrize("columns", ["auto", "w, n", "none"])
@pytest.mark.parametrize("ipc_format", ["file", "stream"])
def test_dictionary_columns_are_the_same_rows_for_every_reader(spark, tmp_path, columns, ipc_format):
    frame = spark.sql(WORDS)
    path = write(frame, tmp_path / "d", dictionaryColumns=columns, ipcFormat=ipc_format, recordBatchRows="1500")
    expected = sorted((row.asDict() for row in frame.collect()), key=lambda row: row["id"])
    assert expected == sorted((row.asDict() for row in read(spark, path).collect()), key=lambda row: row["id"])
    table = table_of(path)
    assert expected == table.sort_by("id").to_pylist()
    encoded = {"auto": {"w"}, "w, n": {"w", "n"}, "none": set()}[columns]
    assert encoded == {field.name for field in table.schema if pa.types.is_dictionary(field.type)}
    index = pa.int16() if columns == "auto" else pa.int32()
    assert {index} >= {field.type.index_type for field in table.schema if pa.types.is_dictionary(field.type)}
    open_ = pl.read_ipc if ipc_format == "file" else pl.read_ipc_stream
    polars = pl.concat(
        [open_(name).with_columns(pl.col("w").cast(pl.String), pl.col("n").cast(pl.Int64)) for name in files_of(path)]
    )
    assert expected == polars.sort("id").to_dicts()


def test_a_file_has_one_dictionary_a_column(spark, tmp_path):
    write(spark.sql(WORDS), tmp_path / "d", dictionaryColumns="w", recordBatchRows="1500")
    for name in files_of(tmp_path / "d"):
        with ipc.open_file(name) as reader:
            assert 1 == len(reader.dictionary_blocks)
            assert 7 == len(reader)


TABLE = pa.table({
    "u8": pa.array([1, None, 255], pa.uint8()),
    "u64": pa.array([2**64 - 1, None, 0], pa.uint64()),
    "f16": pa.array([0.5, None, 1.0], pa.float16()),
    "d64": pa.array([dt.date(2024, 1, 1), None, dt.date(1969, 1, 1)], pa.date64()),
    "t32": pa.array([dt.time(1, 2, 3), None, dt.time(0)], pa.time32("s")),
    "ns": pa.array([1_000, None, -1_000], pa.timestamp("ns", "Europe/Berlin")),
    "dec": pa.array([D("1.5"), None, D("-1.0")], pa.decimal256(40, 1)),
    "view": pa.array(["a", None, "a text that no view holds inline"], pa.string_view()),
    "large": pa.array([b"a", None, b""], pa.large_binary()),
    "fixed": pa.array([b"ab", None, b"cd"], pa.binary(2)),
    "fsl": pa.array([[1, None], None, [3, 4]], pa.list_(pa.uint16(), 2)),
    "dict": pa.array(["a", None, "a"]).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string())),
    "ree": pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["x", None])),
    "struct": pa.array([{"u": 1, "v": "x"}, None, {"u": None, "v": None}], pa.struct([("u", pa.uint32()), ("v", pa.large_string())])),
    "mdn": pa.array([(1, 2, 3), None, (0, 0, 0)], pa.month_day_nano_interval()),
})  # fmt: skip


def without_metadata(type_):
    """Return a type without what Spark has no place for: names of elements, nullability."""
    if pa.types.is_struct(type_):
        return pa.struct([(field.name, without_metadata(field.type)) for field in type_])
    return (
        pa.list_(without_metadata(type_.value_type), type_.list_size) if pa.types.is_fixed_size_list(type_) else type_
    )


@pytest.mark.parametrize("through", ["as it is", "a shuffle", "a view and SQL"])
def test_restored_types_are_those_that_were_read(spark, tmp_path, through):
    (tmp_path / "in").mkdir()
    with pa.ipc.new_file(str(tmp_path / "in" / "a.arrow"), TABLE.schema) as writer:
        writer.write_table(TABLE)
    frame = read(spark, tmp_path / "in", nanoseconds="error")
    if through == "a shuffle":
        frame = frame.repartition(2, "u8").coalesce(1).orderBy(f.desc_nulls_last("u64"))
    if through == "a view and SQL":
        frame.createOrReplaceTempView("restored")
        frame = spark.sql("SELECT * FROM restored WHERE u8 IS NULL OR u8 >= 0")
    write(frame, tmp_path / "out", restoreTypes="true", compression="zstd")
    made = table_of(tmp_path / "out")
    assert [(field.name, without_metadata(field.type)) for field in TABLE.schema] == [
        (field.name, without_metadata(field.type)) for field in made.schema
    ]
    key = str
    assert sorted(TABLE.to_pylist(), key=key) == sorted(made.to_pylist(), key=key)


def test_a_note_is_dropped_as_the_error_says(spark, tmp_path):
    (tmp_path / "in").mkdir()
    table = pa.table({"c": pa.array([1, 2], pa.uint8())})
    with pa.ipc.new_file(str(tmp_path / "in" / "a.arrow"), table.schema) as writer:
        writer.write_table(table)
    noted = read(spark, tmp_path / "in").schema["c"].metadata
    frame = spark.sql("SELECT 'x' AS c").withMetadata("c", noted)
    with pytest.raises(Exception, match=r"field c: .*uint8.*withMetadata"):
        write(frame, tmp_path / "out", restoreTypes="true")
    assert not (tmp_path / "out").exists()
    write(frame.withMetadata("c", {}), tmp_path / "out", restoreTypes="true")
    assert ["x"] == table_of(tmp_path / "out")["c"].to_pylist()


def test_a_value_beyond_its_restored_type_is_an_error_that_names_the_column(spark, tmp_path):
    frame = spark.sql("SELECT cast(300 AS smallint) AS c").withMetadata("c", {"arrow.type": annotation_of(t.uint8)})
    with pytest.raises(Exception, match=r"field c: .*uint8.*found 300"):
        write(frame, tmp_path / "out", restoreTypes="true")
    assert [] == files_of(tmp_path / "out")
    write(frame, tmp_path / "out")
    assert [300] == table_of(tmp_path / "out")["c"].to_pylist()


def test_comments_and_metadata_of_columns_come_back(spark, tmp_path):
    """Parquet keeps them, and so a table of CHAR and VARCHAR keeps its lengths."""
    inner = s.StructType([s.StructField("x", s.IntegerType(), metadata={"comment": "inside"})])
    schema = s.StructType([
        s.StructField("n", s.LongType(), metadata={"comment": "a number", "own": {"list": [1, 2], "flag": True, "none": None}}),
        s.StructField("c", s.StringType(), metadata={"__CHAR_VARCHAR_TYPE_STRING": "varchar(5)"}),
        s.StructField("s", inner, metadata={"ml_attr": {"vals": ["a", "b"]}}),
    ])  # fmt: skip
    frame = spark.createDataFrame([(1, "a", (1,))], schema)
    frame.write.parquet(str(tmp_path / "parquet"))
    frame.write.format("arrowipc").mode("append").save(str(tmp_path / "ours"))
    ours = spark.read.format("arrowipc").load(str(tmp_path / "ours"))
    assert spark.read.parquet(str(tmp_path / "parquet")).schema == ours.schema == schema
    ours.createOrReplaceTempView("described")
    assert ("n", "bigint", "a number") in [tuple(row) for row in spark.sql("DESCRIBE described").collect()]
    assert 1 == spark.sql("SELECT * FROM described WHERE c = 'a' AND n = 1").count()
