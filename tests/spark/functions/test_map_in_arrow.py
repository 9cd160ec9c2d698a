"""`map_in_arrow` beside ``load().mapInArrow``: the same rows and types from the same function, and the errors of each."""

import datetime as dt
import decimal
import re
import subprocess
import sys

import arrow_files
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark import cloudpickle
from pyspark.errors import PySparkException

from spark_arrow_ipc import map_in_arrow
from spark_arrow_ipc.errors import FunctionError, OptionError, UnsupportedError
from spark_arrow_ipc.spark.functions.map_in_arrow import MappedSource

# Workers cannot import a test: its functions go by value, as those of a notebook do.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

ROWS = 300


def table(first):
    numbers = np.arange(first, first + ROWS)
    return pa.table(
        {
            "id": pa.array(numbers),
            "name": pa.array([f"n{i % 7}" if i % 5 else None for i in numbers]).dictionary_encode(),
            "at": pa.array(numbers * 3_600_000_000, pa.timestamp("us", "UTC")),
            "amount": pa.array([decimal.Decimal(int(i)) / 100 for i in numbers], pa.decimal128(9, 2)),
            "seen": pa.array([[dt.datetime(2024, 1, 1, int(i) % 24)] for i in numbers], pa.list_(pa.timestamp("us", "UTC"))),
            "vector": pa.array([[float(i), 1.0, -1.0] for i in numbers], pa.list_(pa.float32(), 3)),
        }
    )  # fmt: skip


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    root = tmp_path_factory.mktemp("map") / "t"
    arrow_files.write(root / "k=1" / "a.arrow", table(0), rows=100)
    arrow_files.write(root / "k=1" / "b.arrow", table(ROWS), rows=100, compression="zstd")
    arrow_files.write(root / "k=2" / "c.arrows", table(2 * ROWS), rows=50, stream=True)
    return root


def late(batches):
    for batch in batches:
        yield batch.filter(pc.greater(batch["id"], 700)).select(["id", "name"])


def hours(batches):
    """The hour depends on the time zone in the type, inside lists too."""
    for batch in batches:
        seen = batch["seen"].flatten()
        yield pa.record_batch({"id": batch["id"], "hour": pc.hour(batch["at"]), "seen": pc.hour(seen)})


def counts(batches):
    """One row for each task, also for one without rows."""
    yield pa.record_batch({"rows": pa.array([sum(batch.num_rows for batch in batches)], pa.int64())})


def first_of(batches):
    """Return a list, and read no more than one batch."""
    return [next(iter(batches)).slice(0, 1).select(["id"])]


def every_type(batches):
    yield from batches


WEIGHTS = np.array([0.5, 2.0, 1.0], np.float32)


def dots(batches):
    for batch in batches:
        vectors = batch["vector"].flatten().to_numpy().reshape(-1, 3)
        yield pa.record_batch({"id": batch["id"], "dot": pa.array((vectors @ WEIGHTS).astype(np.float64))})


SAME = [
    ("filter and projection", late, "id bigint, name string", {}),
    ("the session's zone", hours, "id bigint, hour bigint, seen bigint", {}),
    ("where", counts, "rows bigint", {"where": "k = 2 AND id < 650", "min_partitions": None}),
    ("a global of the module", dots, "id bigint, dot double", {}),
    ("a partition column", lambda batches: (b.select(["k"]) for b in batches), "k int", {}),
    ("metadata columns", lambda batches: (b.select(["_block", "id"]) for b in batches), "_block int, id bigint", {"metadataColumns": True}),
    ("columns as a list", every_type, "id bigint, amount decimal(9,2)", {"columns": ["id", "amount"]}),
    ("small splits", every_type, "id bigint", {"columns": "id", "maxPartitionBytes": 1000}),
]  # fmt: skip


@pytest.mark.one_in(4, "exhaustive")
@pytest.mark.parametrize(("function", "schema", "options"), [c[1:] for c in SAME], ids=[c[0] for c in SAME])
def test_the_rows_and_types_are_those_of_mapinarrow(spark, lake, function, schema, options):
    options = {name: value for name, value in options.items() if value is not None}
    ours = map_in_arrow(spark, lake, function, schema, **options)
    texts = {
        name: str(value).replace("'", '"') if isinstance(value, list) else value for name, value in options.items()
    }
    theirs = spark.read.format("arrowipc").options(**texts).load(str(lake)).mapInArrow(function, schema)
    assert ours.schema == theirs.schema
    got = sorted(map(tuple, ours.collect()), key=str)
    assert got
    assert sorted(map(tuple, theirs.collect()), key=str) == got


@pytest.mark.smoke("map_in_arrow")
def test_every_column_passes_through_unchanged(spark, lake):
    frame = spark.read.format("arrowipc").load(str(lake))
    ours = map_in_arrow(spark, str(lake), every_type, frame.schema)
    assert frame.schema == ours.schema
    assert sorted(map(str, frame.collect())) == sorted(map(str, ours.collect()))


def test_several_paths_are_one_read(spark, lake):
    ours = map_in_arrow(spark, [lake / "k=1" / "a.arrow", str(lake / "k=1" / "b.arrow")], counts, "rows long")
    assert 2 * ROWS == sum(row.rows for row in ours.collect())


def test_without_rows_the_function_is_called_once_as_mapinarrow_calls_it(spark, lake):
    ours = map_in_arrow(spark, lake, counts, "rows long", where="k = 77")
    assert [(0,)] == [tuple(row) for row in ours.collect()]


def test_no_more_is_read_than_the_function_asks_for(spark, lake):
    ours = map_in_arrow(spark, lake / "k=1" / "a.arrow", first_of, "id long")
    assert [(0,)] == [tuple(row) for row in ours.collect()]


def test_the_plan_shows_no_function_and_a_view_works(spark, lake):
    secret = "hunter2"
    frame = map_in_arrow(spark, lake, lambda batches: (b for b in batches if secret), "id bigint", columns="id")
    plan = frame._jdf.queryExecution().toString()
    assert "arrowipc_map_" in plan
    assert secret not in plan
    frame.createOrReplaceTempView("mapped")
    assert 3 * ROWS == spark.sql("SELECT count(*) FROM mapped WHERE id >= 0").first()[0]


def test_the_same_function_is_registered_once(spark, lake, monkeypatch):
    from pyspark.sql.datasource import DataSourceRegistration

    registered = []
    register = DataSourceRegistration.register
    monkeypatch.setattr(
        DataSourceRegistration, "register", lambda self, cls: registered.append(cls.name()) or register(self, cls)
    )

    def shifted(by):
        return lambda batches: (pa.record_batch({"id": pc.add(b["id"], by)}) for b in batches)

    for by in (1, 2, 1, 1):
        frame = map_in_arrow(spark, lake, shifted(by), "id bigint", columns="id")
        assert by == frame.agg({"id": "min"}).first()[0]
    assert 2 == len(registered) == len(set(registered))


# ---- what converts, and what is refused


CONVERTED = [
    ("narrow integers", pa.array([1, -2], pa.int8()), "bigint", [1, -2]),
    ("unsigned integers", pa.array([2**63], pa.uint64()), "decimal(20,0)", [decimal.Decimal(2**63)]),
    ("large strings", pa.array(["é", None], pa.large_string()), "string", ["é", None]),
    ("string views", pa.array(["é", "a string of more than twelve bytes"], pa.string_view()), "string", ["é", "a string of more than twelve bytes"]),
    ("dictionaries", pa.array(["a", "b", "a"]).dictionary_encode(), "string", ["a", "b", "a"]),
    ("a slice", pa.array([1, 2, 3, 4])[2:], "bigint", [3, 4]),
    ("another zone", pa.array([0], pa.timestamp("us", "Asia/Tokyo")), "timestamp", [dt.datetime.fromtimestamp(0)]),
    ("nanoseconds", pa.array([1999], pa.timestamp("ns")), "timestamp_ntz", [dt.datetime(1970, 1, 1, 0, 0, 0, 1)]),
    ("fixed-size lists", pa.array([[1.5, 2.5]], pa.list_(pa.float32(), 2)), "array<float>", [[1.5, 2.5]]),
    ("large lists", pa.array([["x"]], pa.large_list(pa.large_string())), "array<string>", [["x"]]),
    ("another case", pa.array([5]), "bigint", [5]),
]  # fmt: skip


def test_types_that_hold_fewer_values_convert(spark, lake):
    """All cases in one job, as a struct of arrays."""
    arrays = {f"c{i}": pa.ListArray.from_arrays([0, len(case[1])], case[1]) for i, case in enumerate(CONVERTED)}
    arrays["C0"] = arrays.pop("c0")
    kept = pa.record_batch(arrays)
    schema = ", ".join(f"c{i} array<{case[2]}>" for i, case in enumerate(CONVERTED))
    made = map_in_arrow(spark, lake / "k=1" / "a.arrow", lambda _: [kept], schema).first()
    assert [case[3] for case in CONVERTED] == list(made)


def yielding(*values):
    return lambda _batches: iter(values)


def two(first, second):
    return yielding(pa.record_batch({"a": first}), pa.record_batch({"a": second}))


REFUSED = [
    ("a later batch of another type", two(pa.array([1]), pa.array(["x"])), "a bigint",
     "SchemaMismatchError: field a: batch 1 of the function yielding.<locals>.<lambda>: expected bigint, found utf8, which is string in Spark"),
    ("nothing", lambda _: None, "a bigint", "must return an iterator of pyarrow.RecordBatch, and returned NoneType"),
]  # fmt: skip


@pytest.mark.parametrize(("function", "schema", "words"), [c[1:] for c in REFUSED], ids=[c[0] for c in REFUSED])
def test_output_that_does_not_fit_is_an_error_that_names_the_column(spark, lake, function, schema, words):
    with pytest.raises(PySparkException) as caught:
        map_in_arrow(spark, lake / "k=1" / "a.arrow", function, schema).collect()
    assert words in str(caught.value)
    assert "Traceback" not in str(caught.value)


def finer(batches):
    for batch in batches:
        at = pc.add(batch["at"].cast(pa.timestamp("ns", "UTC")), pa.scalar(7, pa.duration("ns")))
        yield pa.record_batch({"id": batch["id"], "at": at})


def test_nanoseconds_that_a_function_makes_are_treated_as_the_option_says(spark, lake):
    made = map_in_arrow(spark, str(lake), finer, "id bigint, at timestamp", where="id < 3")
    assert [0, 3600, 7200] == sorted(int(row["at"].timestamp()) for row in made.collect())
    with pytest.raises(PySparkException, match=r"field at: batch 0 of the function finer: expected whole microseconds"):
        map_in_arrow(spark, str(lake), finer, "id bigint, at timestamp", nanoseconds="error").collect()
    counts = map_in_arrow(spark, str(lake), finer, "id bigint, at bigint", nanoseconds="long", where="id = 1")
    assert [(1, 3_600_000_000_007)] == counts.collect()


@pytest.mark.smoke("map_in_arrow")
def test_a_users_error_keeps_its_line_and_text(spark, lake):
    def divides(batches):
        for batch in batches:
            yield batch.num_rows // 0  # the line that fails

    with pytest.raises(PySparkException) as caught:
        map_in_arrow(spark, lake, divides, "a int").collect()
    text = str(caught.value)
    assert "ZeroDivisionError" in text
    assert "yield batch.num_rows // 0  # the line that fails" in text
    assert f"line {divides.__code__.co_firstlineno + 2}, in divides" in text


def test_an_error_of_the_file_is_as_that_of_load(spark, tmp_path):
    whole = (arrow_files.write(tmp_path / "a.arrow", table(0)), tmp_path / "a.arrow")[1].read_bytes()
    (tmp_path / "b.arrow").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(PySparkException, match=r"InvalidFramingError.*b.arrow"):
        map_in_arrow(spark, tmp_path / "b.arrow", every_type, "id long", columns="id").collect()
    with pytest.raises(PySparkException, match="NoFilesError"):
        map_in_arrow(spark, tmp_path / "nowhere", every_type, "id long").collect()
    with pytest.raises(PySparkException, match="there is no option colums; did you mean columns"):
        map_in_arrow(spark, tmp_path / "a.arrow", every_type, "id long", colums="id").collect()


def test_a_function_is_not_written_to(spark, lake, tmp_path):
    plan = map_in_arrow(spark, lake, counts, "rows long")._jdf.queryExecution().toString()
    (name,) = set(re.findall(r"arrowipc_map_\w{32}", plan))
    with pytest.raises(PySparkException, match="a function is for reading"):
        spark.range(1).write.format(name).mode("append").save(str(tmp_path / "out"))
    with pytest.raises(OptionError, match="map_in_arrow does not read streams"):
        MappedSource({}).streamReader(None)
    with pytest.raises(PySparkException, match="map_in_arrow sets the schema"):
        spark.read.format(name).schema("other int").load(str(lake)).collect()


def test_what_cannot_go_to_workers_is_refused_before_anything_runs(spark, lake):
    looked_up = spark.sparkContext.broadcast({1: "a"})
    with pytest.raises(FunctionError, match="uses looked_up, a broadcast of the SparkContext"):
        map_in_arrow(spark, lake, lambda batches: (b for b in batches if looked_up.value), "id long")
    with pytest.raises(UnsupportedError, match="field y: Spark takes no columns of type interval year to month"):
        map_in_arrow(spark, lake, every_type, "id long, y interval year to month")


def test_importing_the_package_does_not_import_pyspark():
    script = (
        "import sys, spark_arrow_ipc; assert 'map_in_arrow' in dir(spark_arrow_ipc); print('pyspark' in sys.modules)"
    )
    assert "False\n" == subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout
