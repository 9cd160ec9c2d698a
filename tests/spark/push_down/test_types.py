"""Every type of docs/types.md by columns and by rows: the same values, as Python and as Spark's own functions see them."""

import sys

import arrow_cases
import pyarrow as pa
import pytest
from frames import EVERYTHING
from pushed import COLUMNAR_INPUT, SETTING
from pyspark import cloudpickle
from pyspark.sql import functions as f

from spark_arrow_ipc import aggregate, map_in_arrow

# Workers cannot import a test: its functions go by value.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

OPTIONS = {
    "as they are": {},
    "counts": {"times": "long", "nanoseconds": "long"},
}
SETTINGS = [
    {},
    {"spark.sql.adaptive.enabled": "false"},
    {"spark.sql.codegen.wholeStage": "false"},
    {"spark.sql.codegen.factoryMode": "NO_CODEGEN", "spark.sql.codegen.wholeStage": "false"},
]


@pytest.fixture(scope="module")
def folder(pushed, tmp_path_factory):
    """Two streams of two record batches with a column of each type that pyarrow makes."""
    path = tmp_path_factory.mktemp("types")
    once = [None if each is None else list(dict(each).items()) for each in arrow_cases.MAPS]
    arrays = arrow_cases.ARRAYS | {"map": pa.array(once, arrow_cases.ARRAYS["map"].type)}
    batch = pa.record_batch(list(arrays.values()), names=[f"c{i}" for i in range(len(arrays))])
    for name, batches in {"a": [batch, batch.slice(3, 5)], "b": [batch.slice(6), batch.slice(0, 0)]}.items():
        with pa.OSFile(str(path / f"{name}.arrow"), "wb") as file, pa.ipc.new_stream(file, batch.schema) as writer:
            for each in batches:
                writer.write_batch(each)
    return path


def looked_at(frame):
    """Return the rows of a frame as Python has them, and a hash of each column that Spark computes."""
    hashed = [f.sum(f.crc32(f.to_json(f.struct(f.col(f"`{name}`"))))) for name in frame.columns]
    return sorted(map(repr, frame.collect())), frame.agg(*hashed).collect()


def both(pushed, make, *, is_narrow):
    """Return what is seen of a frame without push-down and with it."""
    seen = []
    for is_on in ["false", "true"]:
        pushed.conf.set(SETTING, is_on)
        frame = make()
        # All columns but one: what is read is another scan than that of the whole read.
        seen.append(looked_at(frame.drop(frame.columns[0]) if is_narrow else frame))
    return seen


@pytest.mark.one_in(2, "exhaustive")
@pytest.mark.parametrize("is_narrow", [False, True])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_arrow_types(pushed, folder, options, is_narrow):
    by_rows, by_columns = both(
        pushed,
        lambda: pushed.read.format("arrowipc").options(**options).load(str(folder)),
        is_narrow=is_narrow,
    )
    assert len(by_rows[0]) == 11 + 5 + 5
    assert by_rows == by_columns


@pytest.mark.one_in(2, "exhaustive")
@pytest.mark.parametrize("name", ["interval", "struct", "list_struct", "sparse_union", "dense_union"])
def test_each_field_of_a_struct_is_read_alone(pushed, folder, name):
    """Some columns are structs in Spark alone."""
    column = f"c{list(arrow_cases.ARRAYS).index(name)}"
    read = pushed.read.format("arrowipc")
    type_ = read.load(str(folder)).schema[column].dataType
    for field in getattr(type_, "elementType", type_).names:
        by_rows, by_columns = both(
            pushed, lambda path=f"{column}.{field}": read.load(str(folder)).select(path), is_narrow=False
        )
        assert by_rows == by_columns


@pytest.mark.one_in(2, "exhaustive")
@pytest.mark.parametrize("settings", SETTINGS, ids=lambda settings: ", ".join(settings) or "as they are")
def test_spark_types(pushed, tmp_path, settings):
    pushed.sql(EVERYTHING).write.format("arrowipc").mode("append").option("recordBatchRows", 7).save(
        str(tmp_path / "t")
    )
    for name, value in settings.items():
        pushed.conf.set(name, value)
    try:
        by_rows, by_columns = both(
            pushed, lambda: pushed.read.format("arrowipc").load(str(tmp_path / "t")).drop("nothing"), is_narrow=True
        )
        by_spark = looked_at(pushed.sql(EVERYTHING).drop("id", "nothing"))
    finally:
        for name in settings:
            pushed.conf.unset(name)
    assert by_rows == by_columns == by_spark


def test_types_are_read_by_columns(pushed, folder):
    """What is compared above are columns: rows would have no step that turns columns into them."""
    frame = pushed.read.format("arrowipc").load(str(folder)).drop("c0")
    assert "ColumnarToRow" in frame._jdf.queryExecution().executedPlan().toString()


def test_python_functions_keep_the_columns_of_batches_that_they_wait_for(pushed, tmp_path):
    """Spark 4.2 sends columns to Python, and reads the others once answers come: the batches are gone by then."""
    # Rows of many lengths, so that a string of another batch is another string.
    made = pushed.range(60_000, numPartitions=1).selectExpr("id", "repeat(cast(id AS string), id % 13) AS s")
    made.write.format("arrowipc").mode("append").option("recordBatchRows", 1000).save(str(tmp_path / "t"))
    of_text = f.pandas_udf(lambda text: text.str.len(), "long")
    answers = {}
    before = pushed.conf.get(COLUMNAR_INPUT, None)
    for is_on in ["false", "true"]:
        pushed.conf.set(COLUMNAR_INPUT, is_on)
        try:
            frame = pushed.read.format("arrowipc").load(str(tmp_path / "t")).withColumn("n", of_text("s"))
            answers[is_on] = frame.agg(f.expr("bit_xor(xxhash64(*))"), f.expr("count_if(n != length(s))")).collect()
        finally:
            pushed.conf.unset(COLUMNAR_INPUT)
    if before is not None:  # of Spark 4.2.0
        pushed.conf.set(COLUMNAR_INPUT, before)
    assert answers["true"] == answers["false"]
    assert answers["true"][0][1] == 0


def without_the_first(batches):
    """Its type is void, which crosses as rows."""
    return (batch.select(batch.schema.names[1:]) for batch in batches)


def test_what_functions_make_crosses_as_columns(pushed, folder):
    schema = pushed.read.format("arrowipc").load(str(folder)).drop("c0").schema
    made = map_in_arrow(pushed, str(folder), without_the_first, schema)
    by_rows, by_columns = both(pushed, lambda: made.select("*"), is_narrow=False)
    assert by_rows == by_columns
    counted = aggregate(pushed, str(folder), aggregates={"rows": "count(*)"})
    assert counted.collect() == [(made.count(),)]
    for frame in made.select("c1"), counted:
        frame.collect()  # a plan that adapts itself shows how it is read when it has run
        assert "ColumnarToRow" in frame._jdf.queryExecution().executedPlan().toString()


def test_a_pandas_function_beside_every_type_of_spark(pushed, tmp_path):
    """Spark makes columns again of the rows that it keeps, and not of every type."""
    pushed.sql(EVERYTHING).selectExpr("*", "'Ab' COLLATE UTF8_LCASE AS collated").write.format("arrowipc").mode(
        "append"
    ).save(str(tmp_path / "t"))
    doubled = f.pandas_udf(lambda numbers: numbers * 2, "long")
    read = pushed.read.format("arrowipc").load(str(tmp_path / "t"))
    for columns in [read.columns, ["id", "collated"], ["id", "nothing"]]:
        chosen = read.select(*columns)
        by_rows, by_columns = both(
            pushed, lambda chosen=chosen: chosen.withColumn("twice", doubled("id")), is_narrow=False
        )
        assert by_rows == by_columns
