"""The columns that the source of the JVM makes of a task's rows, beside those of Spark's own conversion to Arrow."""

import contextlib
import decimal
import re
import struct
import subprocess
import sys
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pushed import SETTING, failing, sql_session

from spark_arrow_ipc.errors import InvalidBodyError
from spark_arrow_ipc.spark import bridge
from spark_arrow_ipc.spark.write.columnar_rows import COLUMN, read_columnar

JAVA = Path(bridge.__file__).parent / "push_down" / "java"

NUMBERS = "id % 200 - 100"
VALUES = {
    "boolean": "id % 3 = 0",
    "tinyint": NUMBERS,
    "smallint": f"({NUMBERS}) * 327",
    "int": f"({NUMBERS}) * 21474836",
    "bigint": f"({NUMBERS}) * 92233720368547758L",
    "float": f"if(id % 5 = 0, float('NaN'), ({NUMBERS}) / 3)",
    "double": f"if(id % 5 = 0, double('-Infinity'), if(id % 11 = 0, -0.0D, ({NUMBERS}) / 3D))",
    "date": f"date_add(date'1970-01-01', int({NUMBERS}) * 20000)",
    "timestamp": f"timestamp_micros(({NUMBERS}) * 31536000123456L)",
    "timestamp_ntz": f"timestamp_micros(({NUMBERS}) * 31536000123456L)",
    "decimal(1,0)": "id % 19 - 9",
    "decimal(18,5)": f"({NUMBERS}) * 9999999999.99999BD",
    "decimal(19,5)": f"({NUMBERS}) * 99999999999.99999BD",
    "decimal(38,0)": f"({NUMBERS}) * 999999999999999999999999999999999999BD",
    "interval day to second": f"make_dt_interval(0, 0, 0, id / 7) * ({NUMBERS})",
    "string": "repeat(char(97 + id % 26), int(id % 40))",
    "string collate UNICODE_CI": "concat('ß', id)",
    "binary": "unhex(repeat(hex(id % 256), int(id % 20)))",
}
"""By type: an expression of `id` with negative, extreme and empty values."""


def null_in(expression, nulls):
    return {
        "none": expression,
        "some": f"if(id % 7 = 3, NULL, {expression})",
        "all": f"if(id < 0, {expression}, NULL)",
    }[nulls]


FRAMES = {
    **{
        f"all types, {nulls} null": "SELECT {} FROM range(0, 20000, 1, 2)".format(
            ", ".join(f"CAST({null_in(value, nulls)} AS {type_}) AS `{type_}`" for type_, value in VALUES.items())
        )
        for nulls in ("none", "some", "all")
    },
    "nulls that come late": "SELECT IF(id > 1500, NULL, id) AS a, IF(id = 5000, NULL, string(id)) AS b, IF(id % 1023 = 1022, NULL, id > 9) AS c FROM range(0, 9000, 1, 1)",
    "no rows": "SELECT id, string(id) s FROM range(100) WHERE id < 0",
    "100 columns": "SELECT {} FROM range(0, 3000, 1, 1)".format(
        ", ".join(f"IF(id % {i + 2} = 0, NULL, id * {i}) AS c{i}" for i in range(100))
    ),
    "more rows than a batch": "SELECT id, id % 2 = 0 AS b FROM range(0, 150000, 1, 1)",
    "texts that fill a batch": "SELECT id, repeat('x', int(id)) AS s, repeat('é', int(id % 70)) AS t FROM range(0, 5000, 1, 1)",
    "a row that is larger than a batch": "SELECT id, repeat('x', if(id = 3, 9000000, 2)) AS s FROM range(0, 9, 1, 1)",
    "rows that are no UnsafeRow": "VALUES (1, 'a', 2.5BD), (NULL, 'b', NULL), (3, NULL, 99999999999999999999.5BD) AS t(i, s, d)",
}

COLUMNS = ", ".join(f"CAST({null_in(value, 'some')} AS {type_}) AS `{type_}`" for type_, value in VALUES.items())
ELEMENTS = "transform(sequence(0, int(n % 9)), i -> n * 31 + i)"
"""None of them is null; the last of a batch and the first of the next are not alike."""


def array_of(type_, nulls):
    """Return an expression of `n`: arrays of up to nine elements."""
    value = null_in(VALUES[type_], nulls).replace("id", "i")
    return f"transform({ELEMENTS}, i -> CAST({value} AS {type_}))"


def some_null(expression):
    return f"if(n % 7 = 3, NULL, {expression})"


NESTED = {
    **{
        f"arrays, {nulls} null": "SELECT {} FROM (SELECT id n FROM range(0, 9000, 1, 2))".format(
            ", ".join(f"{some_null(array_of(type_, nulls))} AS `{type_}`" for type_ in VALUES)
        )
        for nulls in ("none", "some", "all")
    },
    "structs": f"SELECT {some_null('s')} s, struct(n, {some_null('s')} s, n + 1 m) t FROM (SELECT id n, struct({COLUMNS}) s FROM range(0, 9000, 1, 2))",
    "arrays of structs": f"SELECT {some_null(f'transform({ELEMENTS}, id -> if(id % 4 = 1, NULL, struct({COLUMNS})))')} a FROM (SELECT id n FROM range(0, 5000, 1, 2))",
    "maps": "SELECT {} FROM (SELECT id n FROM range(0, 5000, 1, 2))".format(
        ", ".join(
            some_null(f"map_from_arrays({ELEMENTS}, {array_of(type_, 'some')})") + f" AS `{type_}`" for type_ in VALUES
        )
    ),
    "maps of texts to arrays of maps": f"SELECT {some_null(f'map(string(n), {ELEMENTS}, repeat(chr(65), int(n % 300)), array())')} m, {some_null('array(map(n, map(string(n), n)), NULL, map())')} k FROM (SELECT id n FROM range(0, 5000, 1, 2))",
    "arrays of arrays": f"SELECT {some_null(f'array({ELEMENTS}, array(), NULL, {ELEMENTS})')} a, array(array(array(n))) b FROM (SELECT id n FROM range(0, 5000, 1, 2))",
    "long arrays": "SELECT id, transform(sequence(1, 100000), i -> float(i * id)) a, transform(sequence(1, 1000), i -> string(i * id)) s FROM range(0, 40, 1, 1)",
    "nulls in a late element": "SELECT transform(sequence(0, 99), i -> if(id = 700 AND i = 64, NULL, id * i)) a FROM range(0, 1000, 1, 1)",
    "many null structs": "SELECT id, array_repeat(IF(id = 2, struct(1D, 'x', array(2)), NULL), int(20000 * id)) a FROM range(0, 5, 1, 1)",
    "rows that are no UnsafeRow": "VALUES (array(1, NULL), map('a', struct(2.5BD)), struct(array('x')))",
    "empty arrays only": "SELECT CAST(array() AS array<string>) a, array(CAST(array() AS array<int>)) b, CAST(map() AS map<string, int>) m FROM range(9)",
}

OTHERS = {
    "variant": "SELECT id, parse_json(string(id)) AS v FROM range(9)",
    "variant in an array": "SELECT id, array(parse_json(string(id))) AS v FROM range(9)",
    "a column of this name": f"SELECT CAST(string(id) AS BINARY) AS `{COLUMN}` FROM range(9)",
}


@pytest.fixture(scope="module")
def pushed(spark):
    with sql_session(spark):
        yield spark


@contextlib.contextmanager
def setting(spark, name, value):
    before = spark.conf.get(name, None)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.unset(name) if before is None else spark.conf.set(name, before)


def damaged_decimals(path, type_, *values):
    """Write a file of Parquet whose column x has `values`, of which some have more digits than its type."""
    precision, scale = map(int, type_[len("decimal(") : -1].split(","))
    wide = pa.array(list(map(decimal.Decimal, values)), pa.decimal128(38, scale))
    narrow = pa.Array.from_buffers(pa.decimal128(precision, scale), len(wide), wide.buffers())
    pq.write_table(pa.table({"x": narrow}), path, write_statistics=False, store_decimal_as_integer=precision < 19)


TOO_MANY_DIGITS = "x: the value -1234.56 has more digits than DECIMAL(5,2)"
"""Only the source of the JVM says this."""


def write(frame, path, **options):
    frame.write.format("arrowipc").mode("append").options(**options).save(str(path))


def rows_of(path):
    tables = [pa.ipc.open_file(pa.memory_map(str(file))).read_all() for file in sorted(Path(path).rglob("part-*"))]
    return pa.concat_tables(tables)


def differences(one, other):
    """Return the columns that differ; NaN equals itself, and timestamps are instants, whatever their zones."""
    one, other = map(pl.from_arrow, (one, other))
    zones = [
        pl.col(name).dt.convert_time_zone("UTC")
        for name, kind in one.schema.items()
        if getattr(kind, "time_zone", None)
    ]
    one = one.with_columns(zones)
    assert one.schema == other.schema
    return [name for name in one.columns if not one[name].equals(other[name])]


@pytest.mark.parametrize("sql", FRAMES.values(), ids=FRAMES)
def test_rows_are_those_of_sparks_own_conversion(pushed, tmp_path, sql):
    frame = pushed.sql(sql)
    write(frame, tmp_path / "d")
    assert [] == differences(frame.toArrow(), rows_of(tmp_path / "d"))


@pytest.mark.parametrize(
    ("sql", "is_columnar"),
    [
        *[pytest.param(FRAMES[name], True, id=name) for name in ("all types, some null", "100 columns")],
        *[pytest.param(sql, True, id=name) for name, sql in NESTED.items()],
        *[pytest.param(sql, False, id=name) for name, sql in OTHERS.items()],
    ],
)
def test_which_rows_become_columns_in_the_jvm(pushed, tmp_path, sql, is_columnar):
    frame = pushed.sql(sql)
    for is_on in ("true", "false"):
        with setting(pushed, SETTING, is_on):
            write(frame, tmp_path / is_on)
    assert [] == differences(rows_of(tmp_path / "true"), rows_of(tmp_path / "false"))
    damaged_decimals(tmp_path / "x.parquet", "decimal(5,2)", "-1234.56")
    with pytest.raises(Exception) as error_info:
        write(frame.crossJoin(pushed.read.parquet(str(tmp_path / "x.parquet"))), tmp_path / "x")
    assert is_columnar == (TOO_MANY_DIGITS in str(error_info.value)), error_info.value


@pytest.mark.parametrize("name", ["all types, some null", "no rows"])
def test_rows_of_a_stream_are_those_of_its_source(pushed, tmp_path, name):
    frame = pushed.sql(FRAMES[name])
    frame.coalesce(1).write.parquet(str(tmp_path / "source"))
    for is_on in ("true", "false"):
        with setting(pushed, SETTING, is_on):
            write_stream(pushed, frame.schema, tmp_path / "source", tmp_path / is_on)
    assert [] == differences(pushed.read.parquet(str(tmp_path / "source")).toArrow(), rows_of(tmp_path / "true"))
    assert [] == differences(rows_of(tmp_path / "true"), rows_of(tmp_path / "false"))


STATEMENTS = [
    "CREATE TABLE {t} AS SELECT id, struct(id n, array(string(id), NULL) a) s, map(id, array(struct(id x))) m FROM range(0, 3000, 1, 2)",
    "INSERT INTO {t} SELECT id + 3000, NULL, map(id, NULL) FROM range(500)",
    "INSERT INTO {t} (id) VALUES (-1)",
    "UPDATE {t} SET s.a = array(repeat('x', int(id % 50))) WHERE id % 3 = 0",
    "MERGE INTO {t} t USING (SELECT id * 2 id, map(id, array()) m FROM range(2000)) n ON t.id = n.id WHEN MATCHED AND n.id % 10 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET m = n.m WHEN NOT MATCHED THEN INSERT (id, m) VALUES (n.id, n.m)",
    "DELETE FROM {t} WHERE s.n % 7 = 1",
]


def test_statements_over_nested_columns(pushed, tmp_path):
    for name, way in (("with", contextlib.nullcontext()), ("without", failing(pushed, "writer"))):
        with way:
            for statement in STATEMENTS:
                pushed.sql(statement.format(t=f"arrowipc.`{tmp_path / name}`"))
    tables = [pushed.read.format("arrowipc").load(str(tmp_path / name)).orderBy("id") for name in ("with", "without")]
    assert [] == differences(*[table.toArrow() for table in tables])
    assert tables[0].count() > 3000


def write_stream(spark, schema, source, path):
    stream = spark.readStream.schema(schema).parquet(str(source)).writeStream.format("arrowipc")
    stream = stream.option("checkpointLocation", f"{path} checkpoint").trigger(availableNow=True)
    stream.start(str(path)).awaitTermination()


def test_rows_of_a_stream_become_columns_in_the_jvm(pushed, tmp_path):
    (tmp_path / "source").mkdir()
    damaged_decimals(tmp_path / "source" / "x.parquet", "decimal(5,2)", "-1234.56")
    with pytest.raises(Exception, match=re.escape(TOO_MANY_DIGITS)):
        write_stream(pushed, "x decimal(5,2)", tmp_path / "source", tmp_path / "d")


def test_functions_below_a_write_get_batches_of_their_own_settings(pushed, tmp_path):
    """Tasks of a local session share the properties of their job."""

    def count_rows(batches):
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"n": pa.array([batch.num_rows], pa.int64())})

    for i in range(3):
        rows = pushed.range(0, 60_000, 1, 12).mapInArrow(count_rows, "n bigint")
        write(rows, tmp_path / f"{i}")
        assert rows_of(tmp_path / f"{i}").to_pydict() == {"n": [5_000] * 12}


DECIMALS = [
    ("decimal(5,2)", "-1234.56", "999.99", TOO_MANY_DIGITS),
    (
        "decimal(20,0)",
        "100000000000000000000",
        "-99999999999999999999",
        "[NUMERIC_VALUE_OUT_OF_RANGE",
    ),
    ("decimal(38,1)", "-" + "9" * 37 + ".9", "9" * 37 + ".9", None),
]


@pytest.mark.parametrize(("type_", "value", "other", "words"), DECIMALS)
def test_a_decimal_of_too_many_digits_is_an_error(pushed, tmp_path, type_, value, other, words):
    """A damaged or careless file has one, and Spark's reader of Parquet does not look."""
    damaged_decimals(tmp_path / "source.parquet", type_, value, other)
    frame = pushed.read.parquet(str(tmp_path / "source.parquet"))
    if words is None:
        write(frame, tmp_path / "d")
        assert rows_of(tmp_path / "d")["x"].to_pylist() == [decimal.Decimal(value), decimal.Decimal(other)]
        return
    with pytest.raises(Exception, match=re.escape(words)):
        write(frame, tmp_path / "d")
    assert not list((tmp_path / "d").rglob("part-*"))


def test_a_fault_of_the_jvm_changes_no_row(pushed, tmp_path):
    frame = pushed.sql(FRAMES["all types, some null"])
    write(frame, tmp_path / "with")
    with failing(pushed, "writer"):
        write(frame, tmp_path / "without")
    assert [] == differences(rows_of(tmp_path / "with"), rows_of(tmp_path / "without"))


@pytest.mark.parametrize("zone", ["Europe/Paris", "+05:30"])
def test_names_of_partitions_are_times_of_the_session(pushed, tmp_path, zone):
    with setting(pushed, "spark.sql.session.timeZone", zone):
        frame = pushed.sql("SELECT timestamp_micros(1000000 * id) AS t, id FROM range(3)")
        write(frame, tmp_path / "d", partitionBy="t")
        with setting(pushed, SETTING, "false"):
            write(frame, tmp_path / "e", partitionBy="t")
    names = [sorted(path.name for path in (tmp_path / d).glob("t=*")) for d in "de"]
    assert names[0] == names[1]
    assert len(names[0]) == 3


def test_rows_of_a_wide_table_are_those_of_spark(pushed, tmp_path):
    frame = pushed.range(0, 3_000, 1, 1).selectExpr(*[f"id + {i} AS c{i}" for i in range(1_000)])
    write(frame, tmp_path / "d")
    assert [] == differences(frame.toArrow(), rows_of(tmp_path / "d"))


HEAP = """
import sys
from pyspark.sql import SparkSession
import spark_arrow_ipc

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.driver.memory", "1g")
spark = spark.config("spark.sql.shuffle.partitions", "2").getOrCreate()
spark_arrow_ipc.register(spark)
spark.sql(sys.argv[2]).write.format("arrowipc").save(sys.argv[1])
print("rows", spark.read.format("arrowipc").load(sys.argv[1]).count())
"""

LARGE = {
    "rows of a megabyte": "SELECT id, array(repeat('x', 500000), repeat('y', 500000)) a, struct(repeat('z', 50000)) s FROM range(0, 1500, 1, 4)",
    "null structs of 100 fields": f"SELECT array_repeat(CAST(NULL AS struct<{', '.join(f'f{i}: double' for i in range(100))}>), 270000) a FROM range(0, 1, 1, 1)",
}


@pytest.mark.slow
@pytest.mark.parametrize("sql", LARGE.values(), ids=LARGE)
def test_large_nested_rows_fit_a_heap_of_a_gigabyte(tmp_path, sql):
    """Spark's own conversion of the first fills the memory, as its batch has rows without a limit of bytes."""
    run = subprocess.run(
        [sys.executable, "-c", HEAP, str(tmp_path / "d"), sql], capture_output=True, text=True, timeout=300, check=False
    )
    assert "rows 1" in run.stdout, run.stderr[-2000:]


def test_the_layout_is_told_where_it_is_made():
    """The name of the column is in both languages."""
    assert re.search(r'COLUMN = "(.*)"', (JAVA / "ColumnarRows.java").read_text())[1] == COLUMN


INTS = bridge.schema_from_pyarrow(pa.schema([pa.field("x", pa.int32())]))


def test_batches_of_spark_stay_as_they_are():
    batch = pa.RecordBatch.from_pydict({"x": pa.array([1, 2], pa.int32())})
    assert [batch] == list(read_columnar([batch], INTS))
    assert [] == list(read_columnar([], INTS))


def test_a_table_with_a_column_of_this_name_is_not_taken_for_columns():
    schema = pa.schema([pa.field(COLUMN, pa.binary())])
    batch = pa.RecordBatch.from_pydict({COLUMN: [b"x"]}, schema)
    assert [batch] == list(read_columnar([batch], bridge.schema_from_pyarrow(schema)))


@pytest.mark.parametrize("type_", [pa.binary(), pa.large_binary()])
def test_several_batches_in_one_of_spark(type_):
    """As with a release of Spark that reads its setting at another time."""
    values = [struct.pack("<qqqqii", 2, 0, 0, 0, i, i + 1) for i in range(3)]
    sent = pa.RecordBatch.from_arrays([pa.array([b"before", *values], type_)[1:]], [COLUMN])
    batches = list(read_columnar([sent], INTS))
    assert [[0, 1], [1, 2], [2, 3]] == [batch["x"].to_pylist() for batch in batches]


def test_a_batch_of_another_length_is_refused():
    value = struct.pack("<qqqq", 2, 0, 0, 0) + bytes(16)
    with pytest.raises(InvalidBodyError, match="expected 40 bytes of 2 rows from the JVM, found 48"):
        list(read_columnar([pa.RecordBatch.from_pydict({COLUMN: [value]})], INTS))
