"""Offsets and indices that are out of bounds; converted dictionaries."""

import numpy as np
import pyarrow as pa
import pytest
from convert_batches import batch_of, option, pieces, struct_of
from pyspark.sql import types as s

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.errors import InvalidBodyError, LimitError
from spark_arrow_ipc.ipc.constants import Validation
from spark_arrow_ipc.spark import bridge
from spark_arrow_ipc.spark.convert import compile_converter
from spark_arrow_ipc.spark.convert import plan as converter_plan

THREE = bridge.from_pyarrow(pa.array([1, 2, 3]))


def int32(*values):
    return np.array(values, np.int32).view(np.uint8).data


BROKEN = {
    "a dictionary index": Array(t.dictionary(t.int8, t.int64), 1, 0, (None, memoryview(b"\7")), (), THREE),
    "an index of text": Array(t.dictionary(t.int8, t.utf8), 1, 0, (None, memoryview(b"\7")), (), bridge.from_pyarrow(pa.array(["a"]))),
    "a list beyond its elements": Array(t.list_(t.int64), 1, 0, (None, int32(0, 9)), (THREE,)),
    "a list that ends before it begins": Array(t.list_(t.int64), 2, 0, (None, int32(0, 3, -1)), (THREE,)),
    "text beyond its bytes": Array(t.large_utf8, 1, 0, (None, np.array([0, 99]).view(np.uint8).data, memoryview(b"abc"))),
    "a list view beyond its elements": Array(t.ListView(t.Field("i", t.int64)), 1, 0, (None, int32(0), int32(99)), (THREE,)),
    "a union beyond its child": Array(t.DenseUnion((t.Field("a", t.int64),), (0,)), 1, 0, (memoryview(b"\0"), int32(99)), (THREE,)),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_what_points_nowhere_is_a_named_error_if_the_decoder_did_not_check(case):
    """The decoder checks it unless validation=structural; what is met here must not look like a bug of ours."""
    with pytest.raises(
        InvalidBodyError, match=r"broken \(|expected list-views within|expected dictionary indices below [13],"
    ):
        pieces(BROKEN[case], validation=Validation.STRUCTURAL)


@pytest.mark.parametrize("case", ["a dictionary index", "an index of text"])
def test_indices_of_mapped_files_are_not_trusted(case):
    """The file may have changed since the decoder checked them."""
    with pytest.raises(InvalidBodyError, match=r"expected dictionary indices below [13], found"):
        pieces(BROKEN[case], memory_map=True)


def test_a_dictionary_is_converted_once(monkeypatch):
    calls = []
    batch = batch_of(pa.array(["a", "b", "a"]).dictionary_encode())
    made = compile_converter(batch.schema, struct_of(("c", s.StringType())), option())
    monkeypatch.setattr(converter_plan, "MAX_ROWS", 1)
    monkeypatch.setattr(
        bridge, "buffers_of", lambda array, real=bridge.buffers_of: calls.append(array.type) or real(array)
    )
    assert ["a", "b", "a"] == [piece.column(0)[0].as_py() for piece in made.convert(batch)]
    assert 1 == calls.count(t.utf8)


# ---- rows and dictionaries that stand for more than they are

MANY = 2**31 - 1


def runs_of(length):
    ends = Array(t.int32, 1, 0, (None, int32(length)))
    return Array(
        t.run_end_encoded(t.int32, t.int8), length, 0, (), (ends, Array(t.int8, 1, 0, (None, memoryview(b"x"))))
    )


def test_a_row_of_billions_of_values_is_refused_before_any_is_made():
    """930 bytes of a file were a MemoryError of 16 GiB."""
    array = Array(t.list_(runs_of(1).type), 1, 0, (None, int32(0, MANY)), (runs_of(MANY),))
    with pytest.raises(LimitError, match=r"field c: row 0 takes .* bytes once runs, .* maxBatchBytes"):
        pieces(array)
    few = Array(t.list_(runs_of(1).type), 1, 0, (None, int32(0, 1000)), (runs_of(1000),))
    assert [[ord("x")] * 1000] == pieces(few)[0].column(0).to_pylist()


ROWS = 1 << 20
MIB = 1 << 20


def text_of(nbytes):
    return Array(t.utf8, 1, 0, (None, int32(0, nbytes), np.zeros(nbytes, np.uint8).data))


def views(rows, nbytes):
    return Array(t.utf8_view, rows, 0, (None, np.tile(int32(nbytes, 0, 0, 0), rows).data, text_of(nbytes).buffers[2]))


def indices(rows, nbytes):
    return Array(t.dictionary(t.int8, t.utf8), rows, 0, (None, np.zeros(rows, np.uint8).data), (), text_of(nbytes))


def one_run(rows, nbytes):
    ends = Array(t.int32, 1, 0, (None, int32(rows)))
    return Array(t.run_end_encoded(t.int32, t.utf8), rows, 0, (), (ends, text_of(nbytes)))


def list_views(rows, items):
    places, sizes = (np.full(rows, number, np.int32).view(np.uint8).data for number in (0, items.length))
    return Array(t.ListView(t.Field("item", items.type)), rows, 0, (None, places, sizes), (items,))


def list_views_of_bytes(rows, nbytes):
    return list_views(rows, Array(t.int8, nbytes, 0, (None, np.zeros(nbytes, np.uint8).data)))


def list_views_of_nulls(rows, nbytes):
    return list_views(rows, Array(t.null, nbytes // 16, nbytes // 16, ()))


SHARING = [views, indices, one_run, list_views_of_bytes, list_views_of_nulls]
"""Rows that all stand for the same bytes, or values."""


@pytest.mark.parametrize("make", SHARING)
def test_a_million_rows_that_share_much_are_refused_before_the_first(make):
    """They were cut into rows that fit, which took a task for ever."""
    with pytest.raises(
        LimitError, match=r"field c: the 1,048,576 rows take [\d,]{17,} bytes .* is 68,719,476,736 \(in"
    ):
        pieces(make(ROWS, 4 * MIB))


@pytest.mark.parametrize("make", [views, indices, one_run])
def test_rows_that_share_less_are_read(make):
    """Up to thirty-two times `maxBatchBytes`."""
    budget = 3 * MIB
    assert 32 == sum(piece.num_rows for piece in pieces(make(32, budget - 100), max_batch_bytes=budget))
    with pytest.raises(LimitError, match="the 33 rows take"):
        pieces(make(33, budget - 100), max_batch_bytes=budget)


def test_billions_of_rows_are_not_shared_bytes():
    schema = batch_of(Array(t.null, 1, 1, ())).schema
    plan = compile_converter(schema, struct_of(("c", s.StringType())), option(max_batch_bytes=1 << 20))
    assert 1 < next(plan.convert(batch_of(Array(t.null, MANY, MANY, ())))).num_rows


def test_converted_dictionaries_have_one_budget():
    def column(values):
        return Array(t.dictionary(t.int8, t.utf8), 1, 0, (None, memoryview(b"\0")), (), bridge.from_pyarrow(values))

    small, large = pa.array(["x" * 1000]), pa.array(["y" * 3000])
    columns = column(small), column(large)
    both = Array(t.struct([("a", columns[0].type), ("b", columns[1].type)]), 1, 0, (None,), columns)
    assert [{"a": "x" * 1000, "b": "y" * 3000}] == pieces(both, max_batch_bytes=10_000)[0].column(0).to_pylist()
    with pytest.raises(LimitError, match=r"decoded dictionaries of the file take .* maxBatchBytes"):
        pieces(both, max_batch_bytes=4004)
    nulls = Array(t.null, MANY, MANY, ())
    with pytest.raises(LimitError, match="decoded dictionaries of the file take 34,359,738,352 bytes"):
        pieces(Array(t.dictionary(t.int32, t.null), 1, 0, (None, int32(0)), (), nulls))


def test_a_dictionary_that_replaces_another_takes_its_place_in_the_budget():
    schema = batch_of(pa_dictionary("x")).schema
    options = option(max_batch_bytes=5000)
    plan = compile_converter(schema, s.StructType([s.StructField("c", s.StringType())]), options)
    for letter in "abcdefgh":
        (piece,) = plan.convert(batch_of(pa_dictionary(letter)))
        assert [letter * 3000] == piece.column(0).to_pylist()


def pa_dictionary(letter):
    values = bridge.from_pyarrow(pa.array([letter * 3000]))
    return Array(t.dictionary(t.int8, t.utf8), 1, 0, (None, memoryview(b"\0")), (), values)
