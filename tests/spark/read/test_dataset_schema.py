"""The schema that Spark gets, and the one that a user asks for: nullability, widenings, names, metadata."""

import datetime as dt
import decimal
import json

import arrow_files
import pyarrow as pa
import pytest
from frames import check_same
from pyspark.errors import PySparkException
from pyspark.sql import functions as f
from pyspark.sql import types as s

from spark_arrow_ipc import ipc

D = decimal.Decimal


def read(spark, path, schema=None, **options):
    reader = spark.read.format("arrowipc").options(**options)
    return (reader if schema is None else reader.schema(schema)).load(str(path))


def failure(frame_of):
    """Return the message of the error that Spark raises when it collects a frame."""
    with pytest.raises(PySparkException) as caught:
        frame_of().collect()
    return str(caught.value)


def missing(message, words):
    return [word for word in words if word not in message]


def not_null(name, type_, **metadata):
    return pa.field(name, type_, nullable=False, metadata=metadata or None)


STRICT = pa.schema(
    [
        not_null("b", pa.int64()),
        not_null("list", pa.list_(not_null("item", pa.struct([not_null("x", pa.int32())])))),
        not_null("map", pa.map_(pa.string(), not_null("value", pa.int32()))),
    ]
)
BROKEN_PROMISES = [
    pa.array([1, None, 3, None]),
    pa.array([[{"x": 1}, None], None, [{"x": None}], []], pa.list_(pa.struct([("x", pa.int32())]))),
    pa.array([[("k", None)], None, [], [("k", 2)]], pa.map_(pa.string(), pa.int32())),
]


@pytest.fixture
def broken(tmp_path):
    """A file whose fields are not nullable at any depth, with a null at every depth."""
    return write_under(tmp_path / "broken.arrow", BROKEN_PROMISES, STRICT)


def write_under(path, arrays, schema):
    """Write arrays under a schema that pyarrow would not cast them to."""
    with pa.ipc.new_file(str(path), schema) as writer:
        writer.write_batch(relabelled(arrays, schema))
    return str(path)


def relabelled(arrays, schema):
    """Return a batch of the same buffers under other fields."""
    return pa.RecordBatch.from_arrays(
        [relabel(a, field.type) for a, field in zip(arrays, schema, strict=True)], schema=schema
    )


def relabel(array, type_):
    if isinstance(type_, pa.StructType):
        children = [relabel(array.field(i), type_.field(i).type) for i in range(type_.num_fields)]
    elif isinstance(type_, pa.MapType):
        entries = pa.struct([type_.key_field, type_.item_field])
        items = relabel(array.items, type_.item_type)
        children = [pa.StructArray.from_buffers(entries, len(array.keys), [None], children=[array.keys, items])]
    elif isinstance(type_, pa.ListType):
        children = [relabel(array.values, type_.value_type)]
    else:
        return array
    buffers = array.buffers()[: 1 if isinstance(type_, pa.StructType) else 2]
    return pa.Array.from_buffers(type_, len(array), buffers, children=children)


def test_everything_is_nullable_at_every_depth(spark, broken):
    """Arrow writers do not keep the promise of a field that is not nullable."""
    with pa.OSFile(broken) as source:
        assert pa.ipc.open_file(source).schema == STRICT
    element = s.StructType([s.StructField("x", s.IntegerType())])
    expected = s.StructType(
        [
            s.StructField("b", s.LongType()),
            s.StructField("list", s.ArrayType(element, containsNull=True)),
            s.StructField("map", s.MapType(s.StringType(), s.IntegerType(), valueContainsNull=True)),
        ]
    )
    assert read(spark, broken).schema == expected


# (Condition, rows that it keeps.)
NULLS = {
    "b is null": 2,
    "b is not null": 2,
    "list is null": 1,
    "exists(list, e -> e is null)": 1,
    "exists(list, e -> e is not null and e.x is null)": 1,
    "map is null": 1,
    "map['k'] is null and size(map) = 1": 1,
}


def test_nulls_under_fields_that_are_not_nullable_are_counted_right(spark, broken):
    """With NOT NULL in the schema Spark folds `is null` to false and counts none."""
    frame = read(spark, broken)
    assert frame.where("b is null").count() == 2
    counts = frame.agg(*(f.sum(f.expr(f"int({condition})")).alias(condition) for condition in NULLS)).collect()[0]
    assert counts.asDict() == NULLS


# (What a user asks for, where a null is in its way.)
NOT_NULL = {
    "a column": (s.StructType([s.StructField("b", s.LongType(), nullable=False)]), "field b"),
    "an element": (s.StructType([s.StructField("list", s.ArrayType(s.StructType([s.StructField("x", s.IntegerType())]), containsNull=False))]), "field list[]"),
    "a field of an element": (s.StructType([s.StructField("list", s.ArrayType(s.StructType([s.StructField("x", s.IntegerType(), nullable=False)])))]), "field list[].x"),
    "a value of a map": (s.StructType([s.StructField("map", s.MapType(s.StringType(), s.IntegerType(), valueContainsNull=False))]), "field map[].value"),
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_NULL)
def test_a_null_where_the_user_asks_for_none_is_an_error(spark, broken, name):
    """It would be a wrong answer or a crash of the JVM."""
    schema, where = NOT_NULL[name]
    message = failure(lambda: read(spark, broken, schema))
    assert missing(message, ["SchemaMismatchError", f"{broken}: record batch 0", where, "NOT NULL"]) == [], message


def test_not_null_is_given_where_there_is_no_null(spark, tmp_path):
    """Exactly the nullability that was asked for, at every depth."""
    rows = [{"a": 1, "l": [1, 2], "n": None}, {"a": 2, "l": [], "n": 3}]
    path = arrow_files.write(tmp_path / "in.arrow", pa.Table.from_pylist(rows))
    schema = s.StructType(
        [
            s.StructField("l", s.ArrayType(s.LongType(), containsNull=False), nullable=False),
            s.StructField("a", s.LongType(), nullable=False),
            s.StructField("n", s.LongType()),
        ]
    )
    frame = read(spark, path, schema)
    assert frame.schema == schema
    assert [row.asDict() for row in frame.collect()] == rows


WIDE = {
    "i8": (pa.array([-1, None], pa.int8()), "smallint", [-1, None]),
    "t32": (pa.array([1, None], pa.time32("s")), "time(0)", [dt.time(0, 0, 1), None]),
    "i8 ": (pa.array([-1, None], pa.int8()), "bigint", [-1, None]),
    "i32": (pa.array([2**31 - 1, None], pa.int32()), "bigint", [2**31 - 1, None]),
    "u8": (pa.array([255, None], pa.uint8()), "int", [255, None]),
    "u32": (pa.array([2**32 - 1, None], pa.uint32()), "bigint", [2**32 - 1, None]),
    "f16": (pa.array([1.5, None], pa.float16()), "double", [1.5, None]),
    "f32": (pa.array([0.1, None], pa.float32()), "double", [0.10000000149011612, None]),
    "dec": (pa.array([D("1.50"), None], pa.decimal128(3, 2)), "decimal(10,4)", [D("1.5000"), None]),
    "u64": (pa.array([2**64 - 1, None], pa.uint64()), "decimal(22,2)", [D(2**64 - 1), None]),
    "day": (pa.array([dt.date(1969, 12, 31), None], pa.date32()), "timestamp_ntz", [dt.datetime(1969, 12, 31), None]),
    "list": (pa.array([[1, None], None], pa.list_(pa.int16())), "array<bigint>", [[1, None], None]),
    "map": (pa.array([[(1, 2.5)], None], pa.map_(pa.int8(), pa.float32())), "map<int,double>", [[(1, 2.5)], None]),
    "struct": (pa.array([{"a": 1, "b": "x"}, None], pa.struct([("a", pa.int8()), ("b", pa.string())])), "struct<b:string,a:int>", [{"b": "x", "a": 1}, None]),
    "part": (pa.array([{"a": 1, "b": "x"}, None], pa.struct([("a", pa.int8()), ("b", pa.string())])), "struct<b:string>", [{"b": "x"}, None]),
    "words": (pa.array([7, None], pa.int16()).dictionary_encode(), "int", [7, None]),
}  # fmt: skip


def test_a_schema_may_ask_for_wider_types_in_any_order(spark, tmp_path):
    """The user's schema is a projection, into structs too, with the WIDENINGS."""
    path = arrow_files.write(tmp_path / "in.arrow", pa.table({name: array for name, (array, *_) in WIDE.items()}))
    asked = dict(reversed(WIDE.items()))
    frame = read(spark, path, ", ".join(f"`{name}` {type_}" for name, (_, type_, _) in asked.items()))
    assert frame.toArrow().to_pydict() == {name: values for name, (*_, values) in asked.items()}
    assert {field.name: field.dataType.simpleString() for field in frame.schema} == {
        n: t for n, (_, t, _) in asked.items()
    }


# (Column, what is asked for, words of the error.)
NARROW = {
    "long to int": (pa.array([1]), "c int", ["the schema of the read: expected int, found", "bigint", "does not widen"]),
    "double to float": (pa.array([1.0]), "c float", ["the schema of the read: expected float, found", "double"]),
    "int to double": (pa.array([1], pa.int32()), "c double", ["the schema of the read: expected double, found", "int"]),
    "int to decimal": (pa.array([1], pa.int32()), "c decimal(20,0)", ["the schema of the read: expected decimal(20,0), found"]),
    "decimal with fewer digits before the point": (pa.array([D("1.50")], pa.decimal128(3, 2)), "c decimal(4,4)", ["the schema of the read: expected decimal(4,4), found", "decimal(3,2)"]),
    "date to timestamp": (pa.array([dt.date(2020, 1, 1)]), "c timestamp", ["the schema of the read: expected timestamp, found", "date"]),
    "timestamp_ntz to timestamp": (pa.array([0], pa.timestamp("us")), "c timestamp", ["the schema of the read: expected timestamp, found", "timestamp_ntz"]),
    "text to binary": (pa.array(["a"]), "c binary", ["the schema of the read: expected binary, found", "string"]),
    "text to a list": (pa.array(["a"]), "c array<string>", ["the schema of the read: expected array<string>, found", "string"]),
    "an element": (pa.array([[1]]), "c array<int>", ["field c[]", "the schema of the read: expected int, found"]),
    "a field of a struct": (pa.array([{"x": 1}]), "c struct<x:int>", ["field c.x", "the schema of the read: expected int, found"]),
    "a field that is not there": (pa.array([{"x": 1}]), "c struct<y:bigint>", ["ColumnNotFoundError", "'y'"]),
    "nanoseconds as a number": (pa.array([1], pa.timestamp("ns")), "c bigint", ["nanoseconds=long"]),
    "an extension as its storage": (pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1], pa.int8())), "c tinyint", ["extensionTypes=storage"]),
}  # fmt: skip


@pytest.mark.parametrize("name", NARROW)
def test_a_schema_that_does_not_fit_is_refused_before_a_value_is_read(spark, tmp_path, name):
    """The error names file, column, both types, and an option that gives what was asked for."""
    array, schema, words = NARROW[name]
    path = arrow_files.write(tmp_path / "in.arrow", pa.table({"c": array}))
    message = failure(lambda: read(spark, path, schema, missingColumns="error"))
    error = "ColumnNotFoundError" if "ColumnNotFoundError" in words else "SchemaMismatchError"
    assert missing(message, [f"{error}: {path}", *words]) == [], message


HOSTILE = {
    "spark.watermarkDelayMs": "not a number",
    "__CHAR_VARCHAR_TYPE_STRING": "char(1)",
    "CURRENT_DEFAULT": "42",
    "EXISTS_DEFAULT": "no such sql (",
    "__autoGeneratedAlias": "true",
    "__metadata_col": "x",
    "__qualified_access_only": "true",
    "comment": "x",
    "": "an empty key",
    "ключ": "значение",
}


@pytest.fixture
def hostile(tmp_path):
    """A file whose fields carry keys that Spark interprets in its own metadata."""
    nested = pa.struct([pa.field("x", pa.int32(), metadata=HOSTILE)])
    schema = pa.schema(
        [pa.field("a", pa.string(), metadata=HOSTILE), pa.field("s", nested, metadata=HOSTILE)], metadata=HOSTILE
    )
    table = pa.Table.from_arrays([pa.array(["long text", None]), pa.array([{"x": 1}, None], nested)], schema=schema)
    return arrow_files.write(tmp_path / "hostile.arrow", table)


def test_keys_of_a_file_never_become_keys_of_spark(spark, hostile):
    """All pairs lie in order under one key, those of the schema in a text; a view and a computation work."""
    frame = read(spark, hostile)
    pairs = [{"key": key, "value": value} for key, value in HOSTILE.items()]
    of_columns = [dict(field.metadata) for field in frame.schema]
    of_schema = json.loads(of_columns[0].pop("arrow.schema_metadata"))[
        "pairs"
    ]  # as text, which Spark does not look into
    assert of_schema == [list(pair) for pair in HOSTILE.items()]
    assert of_columns == [{"arrow.custom_metadata": pairs}] * 2
    assert frame.schema["s"].dataType["x"].metadata == {"arrow.custom_metadata": pairs}
    frame.createOrReplaceTempView("hostile")
    counted = spark.sql("SELECT a, s.x, count(*) AS n FROM hostile GROUP BY a, s.x ORDER BY a NULLS LAST")
    assert [tuple(row) for row in counted.collect()] == [("long text", 1, 1), (None, None, 1)]
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW hostile USING arrowipc OPTIONS (path '{hostile}')")
    assert spark.sql("SELECT max(a) AS a FROM hostile").collect()[0].a == "long text"
    spark.sql("DROP VIEW hostile")


def test_keys_of_a_file_come_back_on_write(spark, hostile, tmp_path):
    read(spark, hostile).write.format("arrowipc").mode("append").save(str(tmp_path / "out"))
    (path,) = (tmp_path / "out").glob("*.arrow")
    schema = ipc.read_schema(str(path))
    nested = schema.field("s").type.children[0]
    assert [dict(field.custom_metadata) for field in (schema.field("a"), schema.field("s"), nested)] == [HOSTILE] * 3


def test_values_that_are_not_utf8_come_back_on_write(spark, tmp_path):
    """One of them, on any column, used to make the whole file unreadable."""
    metadata = {b"sha": b"\xff\x00\x80", b"ARROW:extension:name": b"my.own", b"ARROW:extension:metadata": b"\x80\x04"}
    schema = pa.schema([pa.field("a", pa.int32()), pa.field("b", pa.string(), metadata=metadata)], metadata=metadata)
    source = arrow_files.write(
        tmp_path / "in.arrow", pa.Table.from_arrays([pa.array([1]), pa.array(["x"])], schema=schema)
    )
    frame = read(spark, source)
    assert [tuple(row) for row in frame.where("b = 'x'").collect()] == [(1, "x")]
    frame.write.format("arrowipc").mode("append").save(str(tmp_path / "out"))
    (path,) = (tmp_path / "out").glob("*.arrow")
    assert pa.ipc.open_file(str(path)).schema.field("b").metadata == metadata


UNKNOWN = pa.opaque(pa.int64(), "made by a test", "tests")
NAME = "ARROW:extension:name"


@pytest.fixture
def extended(tmp_path):
    ids = pa.ExtensionArray.from_storage(UNKNOWN, pa.array([1, 2, 3]))
    nested = pa.StructArray.from_arrays([ids], ["id"])
    return arrow_files.write(tmp_path / "in.arrow", pa.table({"id": ids, "s": nested, "n": pa.array([1, 2, 3])}))


# (What is done with the frame, which gives a column `id`; whether the extension is still named.)
JOURNEYS = {
    "select": (lambda df: df.select("n", "id"), True),
    "filter": (lambda df: df.where("n > 1"), True),
    "alias": (lambda df: df.select(f.col("n").alias("m"), f.col("id").alias("id")), True),
    "order": (lambda df: df.orderBy("n"), True),
    "join": (lambda df: df.select("id", "n").join(df.select(f.col("n")), "n"), True),
    "union": (lambda df: df.select("id").union(df.select("id")), True),
    "group key": (lambda df: df.groupBy("id").count(), True),
    "a field of a struct": (lambda df: df.select(f.struct("id").alias("id")), True),
    "cast": (lambda df: df.select(f.col("id").cast("string").alias("id")), False),
    "function": (lambda df: df.select((f.col("id") + 1).alias("id")), False),
}


def test_the_name_of_an_extension_survives_what_spark_does(spark, extended):
    """A schema says so: no job runs."""
    frame = read(spark, extended)
    names = {}
    for journey, (go, _) in JOURNEYS.items():
        field = go(frame).schema["id"]
        if isinstance(field.dataType, s.StructType):
            field = field.dataType["id"]
        names[journey] = field.metadata.get(NAME)
    assert names == {journey: "arrow.opaque" if kept else None for journey, (_, kept) in JOURNEYS.items()}


def test_the_name_of_an_extension_reaches_the_file_again(spark, extended, tmp_path):
    """pyarrow takes the written column for what it was."""
    frame = read(spark, extended)
    joined = (
        frame.where("n > 1")
        .join(frame.select(f.col("n").alias("m")), f.expr("n = m"))
        .select("id", "s", f.col("id").cast("string").alias("text"))
    )
    joined.coalesce(1).write.format("arrowipc").mode("append").save(str(tmp_path / "out"))
    (path,) = (tmp_path / "out").glob("*.arrow")
    with pa.OSFile(str(path)) as source:
        schema = pa.ipc.open_file(source).schema
    assert (schema.field("id").type, schema.field("s").type.field(0).type) == (UNKNOWN, UNKNOWN)
    assert schema.field("text").type == pa.string()


@pytest.fixture
def twice(tmp_path):
    fields = [
        ("a", pa.int8()),
        ("a", pa.string()),
        ("A", pa.int16()),
        ("s", pa.struct([("x", pa.int8()), ("x", pa.int8())])),
    ]
    inner = pa.StructArray.from_arrays([pa.array([1], pa.int8()), pa.array([2], pa.int8())], names=["x", "x"])
    columns = [pa.array([1], pa.int8()), pa.array(["t"]), pa.array([3], pa.int16()), inner]
    return arrow_files.write(tmp_path / "twice.arrow", pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields)))


# (Options, words of the error.)
SAME_NAMES = {
    "all columns": ({}, ["'a' at #0, #1", "columns=#0,#2,#3"]),
    "the choice has them too": ({"columns": "#1, #0"}, ["'a' at #0, #1"]),
    "in a struct": ({"columns": "#0, s"}, ["field s", "'x' at #0, #1", "leave the column out"]),
}


@pytest.mark.parametrize("name", SAME_NAMES)
def test_exactly_the_same_name_twice_is_an_error_at_planning(spark, twice, name):
    """The JVM would fail on it, late; positions get past it."""
    options, words = SAME_NAMES[name]
    with pytest.raises(PySparkException) as caught:
        read(spark, twice, **options)
    message = str(caught.value)
    assert missing(message, [f"SchemaMismatchError: {twice}", *words]) == [], message


@pytest.mark.parametrize(
    ("name", "words"), [("a", "#0 'a', #1 'a'"), ("A", "#0 'a', #1 'a', #2 'A' without spark.sql.caseSensitive=true")]
)
def test_a_name_that_stands_twice_is_no_reference(spark, twice, name, words):
    message = failure(lambda: read(spark, twice, columns=name).collect())
    assert missing(message, ["ColumnNotFoundError", twice, words, "by position"]) == [], message


# (Options or schema, row.)
CHOICES = {
    "by position": ({"columns": "#1, #2"}, {"a": "t", "A": 3}),
    "by position, the other": ({"columns": "#0, #2"}, {"a": 1, "A": 3}),
    "schema over positions": ({"columns": "#2, #1", "schema": "a string"}, {"a": "t"}),
}


@pytest.mark.parametrize("name", CHOICES)
def test_names_that_differ_by_case_are_columns_of_their_own(spark, twice, name):
    """The planner cannot see spark.sql.caseSensitive, so both columns come."""
    options, row = CHOICES[name]
    assert [r.asDict() for r in read(spark, twice, **options).collect()] == [row]


def test_names_match_in_any_case_where_that_is_clear(spark, tmp_path):
    """A user's schema and `columns` find a column as Spark does; the frame has the names that were asked for."""
    path = arrow_files.write(tmp_path / "in.arrow", pa.table({"Id": [1], "Part": pa.array([{"Key": "x"}])}))
    asked = read(spark, path, "ID bigint, part struct<KEY:string>")
    assert [row.asDict(recursive=True) for row in asked.collect()] == [{"ID": 1, "part": {"KEY": "x"}}]
    check_same(read(spark, path, columns="id"), spark.createDataFrame([(1,)], "Id bigint"))
