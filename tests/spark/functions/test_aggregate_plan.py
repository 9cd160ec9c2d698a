"""Which aggregates are planned and which are refused, with Spark's own way in the error."""

import pytest
from pyspark.sql import types as s

from spark_arrow_ipc.errors import AggregateError, ColumnNotFoundError, OptionError
from spark_arrow_ipc.spark.functions import aggregate
from spark_arrow_ipc.spark.functions.aggregate import plan_aggregate

SCHEMA = s.StructType([
    s.StructField("id", s.LongType()), s.StructField("score", s.DoubleType()), s.StructField("name", s.StringType()),
    s.StructField("like", s.StringType("UTF8_LCASE")), s.StructField("list", s.ArrayType(s.LongType())),
    s.StructField("v", s.VariantType()), s.StructField("s", s.StructType([s.StructField("x", s.LongType())])),
    s.StructField("span", s.DayTimeIntervalType()), s.StructField("clock", s.TimeType(6)), s.StructField("flag", s.BooleanType()),
])  # fmt: skip

REFUSED = [
    (
        [],
        "sum(score)",
        r"sum\(score\) is not computed here: score is double, and its sum depends on the order of the rows",
    ),
    ([], "min(score)", "the order of its values is not the same everywhere"),
    ([], "max(like)", "like is string collate UTF8_LCASE"),
    ([], "sum(span)", "span is interval day to second"),
    ([], "sum(flag)", "flag is boolean"),
    ([], "max(clock)", r"clock is time\(6\)"),
    ([], "min(v)", "v is variant"),
    (["like"], "count(*)", "grouping by like is not done here"),
    (["list"], "count(*)", "grouping by list is not done here"),
    ([], "avg(id)", "avg is none of count, min, max, sum"),
    ([], "count(DISTINCT id)", "expected the name of one column"),
    ([], "sum(id + 1)", "expected the name of one column"),
    ([], "sum(s.x)", "s.x is a field of a struct"),
    (["s.x"], "count(*)", "s.x is a field of a struct"),
    ([], "id", "expected a function of a column"),
    ([], "sum()", "expected the name of one column"),
]


@pytest.mark.parametrize(("keys", "text", "words"), REFUSED)
def test_what_might_differ_is_refused_with_sparks_own_way(keys, text, words):
    with pytest.raises(AggregateError, match=words) as caught:
        plan_aggregate(SCHEMA, keys, {"a": text}, "/lake")
    grouped = f".groupBy({', '.join(map(repr, keys))})" if keys else ""
    assert str(caught.value).endswith(
        f"""Spark itself computes it: spark.read.format("arrowipc").load('/lake'){grouped}.agg(F.expr({text!r}).alias('a'))"""
    )


def test_names_are_checked():
    with pytest.raises(ColumnNotFoundError, match="nothing"):
        plan_aggregate(SCHEMA, ["nothing"], {"a": "count(*)"}, "p")
    with pytest.raises(OptionError, match="two columns of the result are named ID"):
        plan_aggregate(SCHEMA, ["id"], {"ID": "count(*)"}, "p")
    with pytest.raises(OptionError, match="aggregates is empty"):
        plan_aggregate(SCHEMA, ["id"], {}, "p")


def test_only_the_columns_that_are_named_are_read(monkeypatch, fake_columns):
    plan = plan_aggregate(
        SCHEMA, ["NAME"], {"n": "count(*)", "ids": "sum(id)", "lists": "count(list)", "again": "max(id)"}, "p"
    )
    assert ["id", "name", "list"] == plan.columns.names
    assert (1,) == plan.partials.keys
    assert [("count_all", None), ("sum", 0), ("count", 2), ("max", 0)] == [
        (p.function, p.column) for p in plan.partials.parts
    ]
    types = [field.dataType.simpleString() for field in plan.output.fields]
    assert ["string", "bigint", "decimal(38,0)", "bigint", "bigint"] == types
    assert [] == plan_aggregate(SCHEMA, [], {"n": "count(*)"}, "p").columns.names


@pytest.fixture
def fake_columns(monkeypatch):
    """Spark's functions need a session, and a plan none."""

    class Column:
        def __getattr__(self, _name):
            return lambda *_: self

    class Functions:
        def __getattr__(self, _name):
            return lambda *_: Column()

    monkeypatch.setattr(aggregate, "f", Functions())
