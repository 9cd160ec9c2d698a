"""Python functions of every kind over a read by columns: each ends, and answers as over rows of Spark's own."""

import sys
import threading
from collections.abc import Iterator

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pushed import COLUMNAR_INPUT, SETTING
from pyspark import cloudpickle
from pyspark.sql import functions as f

# Workers cannot import a test: its functions go by value.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

ROWS = 1000
SECONDS = 60

SETTINGS = {
    "as push_down leaves the session": {},
    "columns for functions": {COLUMNAR_INPUT: "true"},
    "rows for functions": {COLUMNAR_INPUT: "false"},
    "without push-down": {SETTING: "false", COLUMNAR_INPUT: "true"},
}


def plus_one(x):
    return x + 1


def text_of(x):
    return f"<{x}>"


def pandas_plus(x: pd.Series) -> pd.Series:
    return x + 1


def pandas_plus_each(parts: Iterator[pd.Series]) -> Iterator[pd.Series]:
    return (part + 1 for part in parts)


def pandas_sum(x: pd.Series) -> int:
    return int(x.sum())


def arrow_plus(x: pa.Array) -> pa.Array:
    return pc.add(x, 1)


def arrow_plus_each(parts: Iterator[pa.Array]) -> Iterator[pa.Array]:
    return (pc.add(part, 1) for part in parts)


def arrow_sum(x: pa.Array) -> int:
    return pc.sum(x).as_py()


def map_parts(parts):
    return iter(parts)


def map_group(group):
    return group


def pandas_pair(left, _right):
    return left


class Twice:
    def eval(self, x: int):
        yield (x,)
        yield (x + 1,)


def scalar(function, *, make=f.udf, returns="long", **how):
    return lambda frame: frame.select("k", make(function, returnType=returns, **how)("id").alias("y"))


def grouped(function, make):
    return lambda frame: frame.groupBy("k").agg(make(function, "long")("id").alias("y"))


def chained(frame):
    by_arrow, by_pandas = f.udf(plus_one, "long", useArrow=True), f.pandas_udf(pandas_plus, "long")
    return frame.select("k", by_arrow(by_pandas(by_arrow("id"))).alias("y"))


def filtered(frame):
    return frame.filter(f.udf(plus_one, "long", useArrow=True)("id") > ROWS // 2)


def tabulated(*, by_arrow):
    def run(frame):
        return frame.lateralJoin(f.udtf(Twice, returnType="y: long", useArrow=by_arrow)(f.col("id").outer()))

    return run


KINDS = {
    "udf": scalar(plus_one),
    "udf without Arrow": scalar(plus_one, useArrow=False),
    "udf by Arrow": scalar(plus_one, useArrow=True),
    "udf by Arrow of text": scalar(text_of, returns="string", useArrow=True),
    "udf by Arrow in a filter": filtered,
    "pandas_udf": scalar(pandas_plus, make=f.pandas_udf),
    "pandas_udf of an iterator": scalar(pandas_plus_each, make=f.pandas_udf),
    "pandas_udf of groups": grouped(pandas_sum, f.pandas_udf),
    "arrow_udf": scalar(arrow_plus, make=f.arrow_udf),
    "arrow_udf of an iterator": scalar(arrow_plus_each, make=f.arrow_udf),
    "arrow_udf of groups": grouped(arrow_sum, f.arrow_udf),
    "udf of pandas_udf of udf": chained,
    "mapInPandas": lambda frame: frame.mapInPandas(map_parts, "id long, k long"),
    "mapInArrow": lambda frame: frame.mapInArrow(map_parts, "id long, k long"),
    "applyInPandas": lambda frame: frame.groupBy("k").applyInPandas(map_group, "id long, k long"),
    "applyInArrow": lambda frame: frame.groupBy("k").applyInArrow(map_group, "id long, k long"),
    "cogroup": lambda frame: (
        frame.groupBy("k").cogroup(frame.groupBy("k")).applyInPandas(pandas_pair, "id long, k long")
    ),
    "udtf": tabulated(by_arrow=False),
    "udtf by Arrow": tabulated(by_arrow=True),
}


@pytest.fixture(scope="module")
def path(pushed, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("functions") / "rows")
    numbers(pushed).write.format("arrowipc").mode("append").save(path)
    return path


def numbers(spark):
    return spark.range(ROWS).selectExpr("id", "id % 3 AS k")


def within(seconds, run):
    """Return what `run` returns; fails where it takes longer."""
    answers = []
    thread = threading.Thread(target=lambda: answers.append(run()), daemon=True)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), f"no answer in {seconds} s"
    return answers[0]


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_function_of_each_kind_ends_with_its_answer(pushed, path, kind, settings):
    before = {name: pushed.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        pushed.conf.set(name, value)
    pushed.sparkContext.setLogLevel("OFF")
    read = kind(pushed.read.format("arrowipc").load(path))
    try:
        rows = within(SECONDS, read.collect)
        assert sorted(rows) == sorted(kind(numbers(pushed)).collect())
    finally:
        pushed.sparkContext.cancelAllJobs()
        for name, value in before.items():
            pushed.conf.unset(name) if value is None else pushed.conf.set(name, value)
