"""Every Spark type comes back as it was written, as from Spark's own Parquet files."""

import datetime as dt
import json

import pyarrow as pa
import pytest
from frames import check_same
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.ml.linalg import DenseMatrix, Vectors, VectorUDT
from pyspark.mllib.linalg import DenseMatrix as OldMatrix
from pyspark.mllib.linalg import Vectors as OldVectors
from pyspark.sql import functions as f
from pyspark.sql import types as s

from spark_arrow_ipc import aggregate, compact, ipc, map_in_arrow, rewrite
from spark_arrow_ipc.spark.types.spark_annotation import KEY, LOCALES, is_collation

SETTINGS = {"spark.sql.timeType.enabled": "true"}

SQL = {
    **{name: f"CAST('1' AS {name})" for name in ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal(38,6)", "binary")},
    "string": "'a'",
    "date": "DATE'2024-02-29'",
    "timestamp": "TIMESTAMP'2024-03-10 07:30:00.123456Z'",
    "timestamp_ntz": "TIMESTAMP_NTZ'2024-03-10 02:30:00'",
    **{f"time({digits})": f"CAST(TIME'01:02:03' AS TIME({digits}))" for digits in range(7)},
    **{f"interval {fields}": f"INTERVAL '{value}' {fields}" for fields, value in {
        "day": "5", "hour": "5", "minute": "5", "second": "5.5", "day to hour": "1 2", "day to minute": "1 2:3",
        "day to second": "1 2:3:4", "hour to minute": "2:3", "hour to second": "2:3:4", "minute to second": "3:4.5"}.items()},
    **{f"string collate {name}": f"'Ab' COLLATE {name}" for name in ("UTF8_LCASE", "UNICODE", "UNICODE_CI_AI", "EN_USA", "UTF8_BINARY_RTRIM")},
    "variant": "parse_json('{\"a\": [1, \"x\"]}')",
    "geometry": "ST_SetSrid(ST_GeomFromWKB(X'0101000000000000000000F03F0000000000000040'), 4326)",
}  # fmt: skip

NESTED = {
    "as it is": lambda sql: sql,
    "in a struct": lambda sql: f"named_struct('x', {sql}, 'N', NULL)",
    "in an array": lambda sql: f"array({sql}, NULL)",
    "in a map": lambda sql: f"map('k', {sql})",
    "in all of them": lambda sql: f"array(map('k', named_struct('a.b', {sql}, 'c', array('Z' COLLATE UNICODE_CI))))",
}


def schema_of(frame):
    """Return the JSON of a schema, all nullable, without the notes of Arrow types."""

    def plain(value):
        if isinstance(value, list):
            return [plain(each) for each in value]
        if not isinstance(value, dict):
            return value
        kept = {k: plain(v) for k, v in value.items() if not k.startswith(("arrow.", "ARROW:"))}
        return {k: True if k in ("nullable", "containsNull", "valueContainsNull") else v for k, v in kept.items()}

    return plain(json.loads(frame.schema.json()))


def save(frame, path, mode="append", **options):
    frame.coalesce(1).write.format("arrowipc").mode(mode).options(**options).save(str(path))


def load(spark, path, **options):
    return spark.read.format("arrowipc").options(**options).load(str(path))


def rows(frame):
    """The rows as text: geometries, variants and intervals have no common equality in Python."""
    return sorted(
        frame.select(f.to_json(f.struct("id")), *[f.col(f"`{c}`").cast("string") for c in frame.columns]).collect()
    )


@pytest.fixture
def with_times(spark):
    before = {key: spark.conf.get(key, None) for key in SETTINGS}
    for key, value in SETTINGS.items():
        spark.conf.set(key, value)
    yield spark
    for key, value in before.items():
        spark.conf.unset(key) if value is None else spark.conf.set(key, value)


def every_type(spark, nest):
    names = {f"c{i}": sql for i, sql in enumerate(SQL.values())}
    columns = ", ".join(f"{nest(sql)} AS {name}" for name, sql in names.items())
    nulls = ", ".join(f"IF(id = 0, {nest(sql)}, NULL) AS {name}" for name, sql in names.items())
    del columns
    return spark.sql(f"SELECT id, {nulls} FROM range(2)")


@pytest.mark.one_in(3, "exhaustive")
@pytest.mark.parametrize("nesting", NESTED)
def test_every_type_comes_back(with_times, tmp_path, nesting):
    spark = with_times
    frame = every_type(spark, NESTED[nesting])
    save(frame, tmp_path)
    back = load(spark, tmp_path)
    assert schema_of(frame)["fields"] == schema_of(back)["fields"]
    plain = [c for c in frame.columns if "geometry" not in frame.schema[c].dataType.simpleString()]
    assert rows(frame.select(*plain)) == rows(back.select(*plain))


@pytest.mark.one_in(3, "exhaustive")
@pytest.mark.parametrize("nesting", NESTED)
def test_types_are_those_of_parquet(with_times, tmp_path, nesting):
    spark = with_times
    frame = every_type(spark, NESTED[nesting])
    frame = frame.select([c for c in frame.columns if "geometry" not in frame.schema[c].dataType.simpleString()])
    save(frame, tmp_path / "ours")
    frame.write.parquet(str(tmp_path / "parquet"))
    ours, parquet = load(spark, tmp_path / "ours"), spark.read.parquet(str(tmp_path / "parquet"))
    assert schema_of(parquet) == schema_of(ours)
    assert rows(parquet) == rows(ours)


VECTORS = {
    "ml": ([Vectors.dense([1.0, 2.0]), Vectors.sparse(3, [1], [5.0]), None], "VectorUDT", "pyspark.ml.linalg"),
    "mllib": (
        [OldVectors.dense([1.0, 2.0]), OldVectors.sparse(3, [1], [5.0]), None],
        "VectorUDT",
        "pyspark.mllib.linalg",
    ),
    "matrices": ([DenseMatrix(1, 2, [1.0, 2.0]), None], "MatrixUDT", "pyspark.ml.linalg"),
    "old matrices": ([OldMatrix(1, 2, [1.0, 2.0]), None], "MatrixUDT", "pyspark.mllib.linalg"),
}


@pytest.mark.parametrize("case", VECTORS)
def test_user_defined_types_of_spark_come_back(spark, tmp_path, case):
    values, class_, module = VECTORS[case]
    frame = spark.createDataFrame([(i, value, [value]) for i, value in enumerate(values)], ["id", "v", "vs"])
    save(frame, tmp_path)
    back = load(spark, tmp_path)
    assert (class_, module) == (type(back.schema["v"].dataType).__name__, type(back.schema["v"].dataType).__module__)
    assert schema_of(frame) == schema_of(back)
    assert sorted(map(str, frame.collect())) == sorted(map(str, back.collect()))


def test_a_type_of_the_user_comes_back_where_it_is_asked_for(spark, tmp_path):
    from pyspark.testing.objects import ExamplePoint, ExamplePointUDT

    schema = s.StructType([s.StructField("p", ExamplePointUDT())])
    frame = spark.createDataFrame([(ExamplePoint(1.0, 2.0),)], schema)
    save(frame, tmp_path)
    assert s.ArrayType(s.DoubleType()) == load(spark, tmp_path).schema["p"].dataType
    asked = spark.read.format("arrowipc").schema(schema).load(str(tmp_path))
    assert [ExamplePoint(1.0, 2.0)] == [row.p for row in asked.collect()]


@pytest.fixture
def collated(spark, tmp_path):
    path = tmp_path / "collated"
    frame = spark.sql(
        "SELECT id, CAST(CASE id WHEN 0 THEN 'ABC' WHEN 1 THEN 'abc' ELSE 'x' END AS STRING COLLATE UTF8_LCASE) AS s FROM range(3)"
    )
    save(frame, path)
    return path


def test_sparks_operators_follow_the_collation(spark, collated):
    frame = load(spark, collated)
    assert 2 == frame.filter("s = 'aBc'").count()
    assert [1, 2] == sorted(row[1] for row in frame.groupBy("s").count().collect())
    assert 2 == frame.select("s").distinct().count()


def test_where_and_aggregates_name_the_collation(spark, collated):
    with pytest.raises(PySparkException, match="string collate UTF8_LCASE"):
        load(spark, collated, where="s = 'abc'").count()
    for arguments in ({"group_by": ["s"], "n": "count(*)"}, {"m": "min(s)"}):
        grouped = arguments.pop("group_by", [])
        with pytest.raises(Exception, match="string collate UTF8_LCASE"):
            aggregate(spark, str(collated), group_by=grouped, aggregates=arguments)
    assert 3 == load(spark, collated, where="s IS NOT NULL").count()


def test_a_collation_is_refused_where_the_answer_would_be_another(spark, tmp_path, collated):
    with pytest.raises(Exception, match="cannot be sorted by s: values of the type string collate UTF8_LCASE"):
        rewrite(spark, str(collated), str(tmp_path / "sorted"), sort_by="s")
    with pytest.raises(AnalysisException, match="string collate UTF8_LCASE, and the name of a directory"):
        save(load(spark, collated), tmp_path / "parts", partitionBy="s")


def test_all_ways_of_writing_note_the_types(spark, tmp_path, collated):
    """`rewrite`, `compact`, `columns`, `map_in_arrow`, streams, a schema of one's own."""
    expected = schema_of(load(spark, collated))["fields"]
    save(load(spark, collated), collated)
    compact(spark, str(collated))
    assert expected == schema_of(load(spark, collated))["fields"]
    rewrite(spark, str(collated), str(tmp_path / "again"))
    assert expected == schema_of(load(spark, tmp_path / "again"))["fields"]
    assert expected[1:] == schema_of(load(spark, collated, columns="s"))["fields"]
    assert expected == schema_of(load(spark, collated, mergeSchema="true"))["fields"]
    mapped = map_in_arrow(spark, str(collated), lambda batches: batches, load(spark, collated).schema)
    assert expected == schema_of(mapped)["fields"]
    assert 4 == mapped.filter("s = 'ABC'").count()
    plain = spark.read.format("arrowipc").schema("s STRING").load(str(collated))
    assert 2 == plain.filter("s = 'ABC'").count()
    if spark.version < "4.2":  # it has no stream that goes on after a restart
        return
    query = (
        spark.readStream.format("arrowipc").load(str(collated)).writeStream.format("arrowipc")
        .option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start(str(tmp_path / "sink"))
    )  # fmt: skip
    query.awaitTermination()
    assert expected == schema_of(load(spark, tmp_path / "sink"))["fields"]


def test_a_file_of_another_collation_is_not_added(spark, collated):
    with pytest.raises(AnalysisException, match="string collate UTF8_LCASE"):
        save(spark.sql("SELECT 1L AS id, 'x' AS s"), collated)


def test_the_collations_that_are_believed_are_sparks(spark):
    """Of this release: each takes the locales of another ICU."""
    tails = [case + accent + trim for case in ("", "_CI") for accent in ("", "_AI") for trim in ("", "_RTRIM")]
    named = {f"{name}{tail}" for name in LOCALES for tail in tails}
    named |= {f"{name}{trim}" for name in ("UTF8_BINARY", "UTF8_LCASE") for trim in ("", "_RTRIM")}
    assert {row.NAME for row in spark.sql("SELECT name AS NAME FROM collations()").collect()} == named
    assert all(is_collation("spark." + name if name.startswith("UTF8") else "icu." + name) for name in named)


VECTOR = json.loads(VectorUDT().json())
HOSTILE = [
    ("a collation that is none", "string", {"__COLLATIONS": {"c": "icu.NOPE_XX"}}, pa.array(["b", "A"]), None),
    ("a collation of another order", "string", {"__COLLATIONS": {"c": "icu.en_USA_AI_CI"}}, pa.array(["b"]), None),
    ("a time of 99 digits", "time(99)", {}, pa.array([1], pa.time64("us")), None),
    ("an interval of reverse order", "interval second to day", {}, pa.array([1], pa.duration("us")), None),
    ("a class that is to be imported", {**VECTOR, "class": None, "pyClass": "antigravity.Evil"}, {}, pa.array(["b"]), None),
    ("a class that nobody has", {**VECTOR, "class": "com.evil.Type"}, {}, pa.array(["b"]), None),
    ("a char of a billion", "string", {"__CHAR_VARCHAR_TYPE_STRING": "char(1000000000)"}, pa.array(["b"]), None),
    ("a vector of size -5", VECTOR, {}, [(0, -5, [7, 1], [1.0])], "its size is -5"),
    ("a vector of kind 9", VECTOR, {}, [(9, 1, [], [])], "its type is 9"),
    ("a vector of nulls", VECTOR, {}, [(None, None, None, None)], "expected no nulls"),
]  # fmt: skip


@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize("case", HOSTILE, ids=[case[0] for case in HOSTILE])
def test_a_note_that_lies_is_read_without_it_or_named(spark, tmp_path, case):
    """It never reaches Java, and nothing that it names is imported."""
    _, type_, metadata, values, reason = case
    if isinstance(values, list):
        parts = [("type", pa.int8()), ("size", pa.int32()), ("indices", pa.list_(pa.int32())), ("values", pa.list_(pa.float64()))]  # fmt: skip
        values = pa.array([dict(zip(VectorUDT.sqlType().names, row, strict=True)) for row in values], pa.struct(parts))
    noted = {"type": "struct", "fields": [{"name": "c", "type": type_, "nullable": True, "metadata": metadata}]}
    table = pa.table({"c": values})
    for path, pairs in ((tmp_path / "noted", {KEY: json.dumps(noted)}), (tmp_path / "plain", None)):
        path.mkdir()
        with pa.ipc.new_file(path / "a.arrow", table.schema.with_metadata(pairs)) as writer:
            writer.write_table(table.replace_schema_metadata(pairs))
    if reason is None:
        check_same(load(spark, tmp_path / "noted"), load(spark, tmp_path / "plain"))
        assert load(spark, tmp_path / "noted").schema == load(spark, tmp_path / "plain").schema
        return
    with pytest.raises(PySparkException, match=reason) as caught:
        load(spark, tmp_path / "noted").collect()
    assert "IllegalArgumentException" not in str(caught.value)
    with pytest.raises((PySparkException, Py4JJavaError), match=reason):
        rewrite(spark, str(tmp_path / "noted"), str(tmp_path / "again"), restoreTypes=True)
    asked = spark.read.format("arrowipc").schema(f"c {VectorUDT.sqlType().simpleString()}")
    assert table.num_rows == len(asked.load(str(tmp_path / "noted")).collect())


def test_metadata_of_columns_is_in_the_note(spark, tmp_path):
    schema = s.StructType([
        s.StructField("a", s.IntegerType(), metadata={"comment": "mine", "spark.x": 1}),
        s.StructField("n", s.StructType([s.StructField("b", s.StringType(), metadata={"k": [1, 2]})])),
    ])  # fmt: skip
    save(spark.createDataFrame([(1, ("x",))], schema), tmp_path)
    (file,) = tmp_path.glob("*.arrow")
    with ipc.open(str(file)) as reader:
        assert [KEY] == [key for key, _ in reader.schema.custom_metadata]
        assert () == reader.schema.fields[0].custom_metadata
    back = load(spark, tmp_path).schema
    assert {"comment": "mine"} == back["a"].metadata
    assert {"k": [1, 2]} == back["n"].dataType["b"].metadata


@pytest.fixture
def chars(spark, tmp_path):
    spark.sql("DROP TABLE IF EXISTS chars")
    spark.sql("CREATE TABLE chars (id INT, c CHAR(5), v VARCHAR(5), n STRUCT<x: CHAR(3)>) USING parquet")
    spark.sql("INSERT INTO chars VALUES (1, 'ab', 'ab', named_struct('x', 'a'))")
    save(spark.table("chars"), tmp_path / "chars")
    yield tmp_path / "chars"
    spark.sql("DROP TABLE chars")


def test_char_and_varchar_come_back(spark, chars):
    assert schema_of(spark.table("chars"))["fields"] == schema_of(load(spark, chars))["fields"]
    check_same(load(spark, chars), spark.table("chars"))


def test_where_and_aggregates_leave_char_to_spark(spark, chars):
    """Spark pads these when it reads and compares, as four settings of the session say."""
    for predicate in ("c = 'ab'", "c IN ('ab')", "c LIKE 'ab%'", "n.x = 'a'", "upper(c) = 'AB'"):
        with pytest.raises(PySparkException, match="char"):
            load(spark, chars, where=predicate).count()
    for call in ("max(c)", "min(c)"):
        with pytest.raises(Exception, match="c is char"):
            aggregate(spark, str(chars), aggregates={"x": call})
    assert 1 == load(spark, chars, where="v = 'ab' AND c IS NOT NULL").count()
    assert ["ab"] == [row.x for row in aggregate(spark, str(chars), aggregates={"x": "max(v)"}).collect()]


def test_char_is_written_where_spark_keeps_the_type(spark, chars, tmp_path):
    key = "spark.sql.preserveCharVarcharTypeInfo"
    if spark.conf.get(key, None) is None:
        return  # Spark 4.1 has no such setting
    spark.conf.set(key, "true")
    try:
        save(spark.table("chars"), tmp_path / "kept")
    finally:
        spark.conf.unset(key)
    assert schema_of(spark.table("chars"))["fields"] == schema_of(load(spark, tmp_path / "kept"))["fields"]


def test_times_and_intervals_with_other_options(with_times, tmp_path):
    spark = with_times
    save(spark.sql("SELECT TIME'01:02:03' AS t, INTERVAL '5' HOUR AS h"), tmp_path)
    kinds = {
        options.get("times"): load(spark, tmp_path, **options).schema["t"].dataType.simpleString()
        for options in ({}, {"times": "interval"}, {"times": "long"})
    }
    assert {None: "time(6)", "interval": "interval day to second", "long": "bigint"} == kinds
    asked = spark.read.format("arrowipc").schema("h INTERVAL DAY TO SECOND").load(str(tmp_path))
    assert [dt.timedelta(hours=5)] == [row.h for row in asked.collect()]
