"""Batches of a function become those of the promised schema: plans for runs of batches, pieces, places of errors."""

import pyarrow as pa
import pytest
from pyspark.sql import types as s

from spark_arrow_ipc.errors import ColumnNotFoundError, FunctionError, SchemaMismatchError, UnsupportedError
from spark_arrow_ipc.spark.convert import pyarrow_schema
from spark_arrow_ipc.spark.functions import user_function
from spark_arrow_ipc.spark.functions.user_function import OutputCheck
from spark_arrow_ipc.spark.options.values import Nanoseconds

SCHEMA = s.StructType([s.StructField("id", s.LongType()), s.StructField("text", s.StringType())])


def batch(ids, texts, id_type=None, text_type=None):
    return pa.record_batch(
        {"text": pa.array(texts, text_type or pa.string()), "id": pa.array(ids, id_type or pa.int64())}
    )


def test_columns_go_by_name_and_a_plan_serves_a_run_of_batches(monkeypatch):
    compiled = []
    compile_converter = user_function.compile_converter
    monkeypatch.setattr(user_function, "compile_converter", lambda *a: compiled.append(a) or compile_converter(*a))
    check = OutputCheck(SCHEMA, "f")
    narrow = [batch([1], ["a"], pa.int16(), pa.large_string())] * 3
    made = [piece for each in [*narrow, batch([2], ["b"]), *narrow] for piece in check.convert(each)]
    assert {pyarrow_schema(SCHEMA)} == {piece.schema for piece in made}
    assert [1, 1, 1, 2, 1, 1, 1] == [piece["id"][0].as_py() for piece in made]
    assert 3 == len(compiled)


def test_what_agrees_is_not_copied():
    given = batch([1, 2], ["a", "b"])
    (made,) = OutputCheck(SCHEMA, "f").convert(given)
    assert given["id"].buffers()[1].address == made["id"].buffers()[1].address


@pytest.mark.slow
def test_large_batches_are_cut():
    text = "x" * (1 << 20)
    pieces = list(OutputCheck(SCHEMA, "f").convert(batch(range(150), [text] * 150)))
    assert 150 == sum(piece.num_rows for piece in pieces)
    assert max(piece.nbytes for piece in pieces) < 70 << 20


REFUSED = [
    (batch([1], ["a"], pa.float64()), SchemaMismatchError, "field id: batch 1 of the function f: expected bigint, found float64, which is double in Spark"),
    (batch([1], ["a"]).select(["id"]), ColumnNotFoundError, "batch 1 of the function f: there is no column 'text'; the columns are 'id'$"),
    (batch([1], ["a"]).append_column("more", pa.array([1])), SchemaMismatchError, "field more: .*it has id, text"),
    (pa.table({"a": [1]}), FunctionError, "yielded pyarrow.Table; yield each of its to_batches()"),
    ({"a": [1]}, FunctionError, "the function f must yield pyarrow.RecordBatch, and yielded dict"),
    (pa.array([1]), FunctionError, "the function f must yield pyarrow.RecordBatch, and yielded pyarrow.Int64Array"),
]  # fmt: skip


@pytest.mark.parametrize(("made", "error", "words"), REFUSED)
def test_what_does_not_fit_is_named(made, error, words):
    check = OutputCheck(SCHEMA, "f")
    list(check.convert(batch([1], ["a"])))
    with pytest.raises(error, match=words):
        list(check.convert(made))


AT = s.StructType([s.StructField("at", s.TimestampType()), s.StructField("took", s.ArrayType(s.DayTimeIntervalType()))])
COUNTS = s.StructType([s.StructField("at", s.LongType()), s.StructField("took", s.ArrayType(s.LongType()))])


def finer(at, took):
    at, took = pa.array(at, pa.timestamp("ns", "UTC")), pa.array(took, pa.duration("ns"))
    return pa.record_batch({"at": at, "took": pa.ListArray.from_arrays([0, 1, 2], took)})


WHAT_NANOSECONDS_SAYS = [
    ("floor", AT, finer([1001, -1], [1999, 0]), [[1, -1], [[1], [0]]]),
    ("error", AT, finer([1000, -1000], [2000, 0]), [[1, -1], [[2], [0]]]),
    ("error", AT, finer([1000, 1001], [1, 1]), "field at: batch 0 of the function f: .*nanoseconds=error.*found 1001 ns; "),
    ("error", AT, finer([1000, 1000], [1000, 1]), r"field took\[\]: .*found 1 ns"),
    ("long", COUNTS, finer([1001, -1], [1999, 0]), [[1001, -1], [[1999], [0]]]),
    ("long", AT, finer([1001, -1], [1999, 0]), r"field at: batch 0 of the function f: expected timestamp, found timestamp\[ns, tz=UTC\], which is bigint in Spark"),
]  # fmt: skip


@pytest.mark.parametrize(("option", "schema", "made", "expected"), WHAT_NANOSECONDS_SAYS)
def test_nanoseconds_that_a_function_makes_are_treated_as_those_that_are_read(option, schema, made, expected):
    check = OutputCheck(schema, "f", Nanoseconds(option))
    if isinstance(expected, str):
        with pytest.raises((SchemaMismatchError, UnsupportedError), match=expected):
            list(check.convert(made))
    else:
        (found,) = check.convert(made)
        numbers = found["took"].flatten().view(pa.int64()).to_pylist()
        assert expected == [found["at"].view(pa.int64()).to_pylist(), [[number] for number in numbers]]


def test_a_null_under_not_null_is_named():
    check = OutputCheck(s.StructType([s.StructField("a", s.LongType(), nullable=False)]), "f")
    list(check.convert(pa.record_batch({"a": [1]})))
    with pytest.raises(SchemaMismatchError, match="field a: batch 1 of the function f: expected no nulls"):
        list(check.convert(pa.record_batch({"a": pa.array([None], pa.int64())})))
