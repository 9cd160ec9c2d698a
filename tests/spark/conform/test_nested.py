"""Offsets and indices that are out of bounds; converted dictionaries."""

import numpy as np
import pyarrow as pa
import pytest
from conform_batches import batch_of, option, pieces, struct_of
from pyspark.sql import types as s

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.arrow.array import Array
from spark_arrow_ipc.errors import (
    InvalidBodyError,
)
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
