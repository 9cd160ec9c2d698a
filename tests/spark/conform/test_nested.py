"""Offsets and indices that are out of bounds; converted dictionaries."""

import numpy as np
import pyarrow as pa
import pytest
from conform_batches import batch_of, option, pieces, struct_of
from pyspark.sql import types as s

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.errors import InvalidBodyError, LimitError
from spark_arrow_ipc.ipc.constants import Validation
from spark_arrow_ipc.spark import bridge
from spark_arrow_ipc.spark.conform import compile_conform

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
    with pytest.raises(InvalidBodyError, match=r"broken \(|expected dictionary indices below [13],"):
        pieces(BROKEN[case], validation=Validation.STRUCTURAL)


@pytest.mark.parametrize("case", ["a dictionary index", "an index of text"])
def test_indices_of_mapped_files_are_not_trusted(case):
    """The file may have changed since the decoder checked them."""
    with pytest.raises(InvalidBodyError, match=r"expected dictionary indices below [13], found"):
        pieces(BROKEN[case], memory_map=True)


def test_a_dictionary_is_converted_once(monkeypatch):
    calls = []
    batch = batch_of(pa.array(["a", "b", "a"]).dictionary_encode())
    made = compile_conform(batch.schema, struct_of(("c", s.StringType())), option(output_batch_rows=1))
    monkeypatch.setattr(
        bridge, "buffers_of", lambda array, real=bridge.buffers_of: calls.append(array.type) or real(array)
    )
    assert ["a", "b", "a"] == [piece.column(0)[0].as_py() for piece in made.conform(batch)]
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
    plan = compile_conform(schema, s.StructType([s.StructField("c", s.StringType())]), options)
    for letter in "abcdefgh":
        (piece,) = plan.conform(batch_of(pa_dictionary(letter)))
        assert [letter * 3000] == piece.column(0).to_pylist()


def pa_dictionary(letter):
    values = bridge.from_pyarrow(pa.array([letter * 3000]))
    return Array(t.dictionary(t.int8, t.utf8), 1, 0, (None, memoryview(b"\0")), (), values)
