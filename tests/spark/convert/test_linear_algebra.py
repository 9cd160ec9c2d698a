"""Conversion to Spark's vectors and matrices: their storage can hold more than they are."""

import importlib
import re

import pyarrow as pa
import pytest
from convert_batches import converted
from pyspark.sql import types as s

from spark_arrow_ipc.errors import SchemaMismatchError, UnsupportedError
from spark_arrow_ipc.spark import bridge
from spark_arrow_ipc.spark.types import spark_to_arrow


def field(type_, name="c"):
    return s.StructField(name, type_)


NOT_NULL = "expected no nulls"

VECTOR_VALUES = [
    ("dense", (1, None, None, [1.0, 2.0]), None),
    ("dense without numbers", (1, None, None, []), None),
    ("sparse", (0, 5, [0, 4], [1.0, 2.0]), None),
    ("sparse without numbers", (0, 0, [], []), None),
    ("null", None, None),
    ("another kind", (9, 1, [], []), "its type is 9"),
    ("no kind", (None, None, None, None), NOT_NULL),
    ("no values", (1, None, None, None), "its values are null"),
    ("a null among the values", (1, None, None, [1.0, None]), NOT_NULL),
    ("a negative size", (0, -5, [], []), "its size is -5"),
    ("no size", (0, None, [], []), "its size is null"),
    ("no indices", (0, 5, None, []), "its indices are null"),
    ("a null among the indices", (0, 5, [None], [1.0]), NOT_NULL),
    ("more indices than values", (0, 5, [1, 2], [1.0]), "it has 2 indices and 1 values"),
    ("an index beyond the size", (0, 5, [1, 5], [1.0, 2.0]), "the index 5 is not below its size, 5"),
    ("a negative index", (0, 5, [-1, 2], [1.0, 2.0]), "the index -1 is negative"),
    ("indices that fall", (0, 5, [2, 1], [1.0, 2.0]), "its indices do not rise"),
    ("an index twice", (0, 5, [2, 2], [1.0, 2.0]), "its indices do not rise"),
]  # fmt: skip

MATRIX_VALUES = [
    ("dense", (1, 2, 2, None, None, [1.0] * 4, False), None),
    ("dense without rows", (1, 0, 3, None, None, [], True), None),
    ("sparse", (0, 3, 2, [0, 1, 3], [2, 0, 1], [1.0] * 3, False), None),
    ("sparse by rows", (0, 3, 2, [0, 1, 1, 2], [1, 0], [1.0] * 2, True), None),
    ("null", None, None),
    ("another kind", (2, 1, 1, None, None, [1.0], False), "its type is 2"),
    ("too few values", (1, 2, 2, None, None, [1.0], False), "it has 2 rows and 2 columns, and 1 values"),
    ("values of an overflow", (1, 65536, 65536, None, None, [], False), "it has 65,536 rows and 65,536 columns, and 0 values"),
    ("negative rows", (1, -2, -2, None, None, [1.0] * 4, False), "its numRows is -2"),
    ("no rows", (1, None, 2, None, None, [1.0] * 4, False), NOT_NULL),
    ("no word of order", (1, 2, 2, None, None, [1.0] * 4, None), NOT_NULL),
    ("no pointers", (0, 3, 2, None, [], [], False), "its colPtrs are null"),
    ("too few pointers", (0, 3, 2, [0, 1], [0], [1.0], False), "it has 2 colPtrs"),
    ("pointers by the other side", (0, 3, 2, [0, 1, 1], [0], [1.0], True), "it has 3 colPtrs"),
    ("pointers that fall", (0, 3, 2, [0, 2, 1], [0], [1.0], False), "its colPtrs do not lead from 0 to 1"),
    ("pointers beyond the values", (0, 3, 2, [0, 1, 2], [0], [1.0], False), "its colPtrs do not lead from 0 to 1"),
    ("pointers from 1", (0, 3, 2, [1, 1, 1], [0], [1.0], False), "its colPtrs do not lead from 0 to 1"),
    ("another number of rows", (0, 3, 2, [0, 1, 1], [0, 1], [1.0], False), "it has 2 rowIndices and 1 values"),
    ("a row beyond", (0, 3, 2, [0, 1, 1], [3], [1.0], False), "the index 3 is not below its number of rows, 3"),
    ("a column beyond", (0, 3, 2, [0, 1, 1, 1], [2], [1.0], True), "the index 2 is not below its number of columns, 2"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "case"),
    [(name, case) for name, cases in (("VectorUDT", VECTOR_VALUES), ("MatrixUDT", MATRIX_VALUES)) for case in cases],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
@pytest.mark.parametrize("package", ["ml", "mllib"])
def test_values_that_are_not_those_of_a_vector_or_matrix_are_an_error(package, name, case):
    """Spark's Java would fail on them in the middle of a job, or make another vector of them."""
    _, row, reason = case
    class_ = getattr(importlib.import_module(f"pyspark.{package}.linalg"), name)
    type_ = class_()
    names = type_.sqlType().names
    good = [v for v in (VECTOR_VALUES if name == "VectorUDT" else MATRIX_VALUES) if v[2] is None]
    storage = bridge.type_to_pyarrow(spark_to_arrow.arrow_field("c", type_, {}, "c").type)
    slots = [None if slot is None else dict(zip(names, slot, strict=True)) for slot in (*(v[1] for v in good), row)]
    array = pa.array(slots, storage)
    if reason is None:
        assert slots == converted(array, asked=field(type_)).to_pylist()
        for slot in slots:  # Spark's own class takes it
            assert slot is None or type_.deserialize(tuple(slot.values())) is not None
    else:
        said = f"slot {len(slots) - 1} is not a {name[:-3].lower()} of Spark's: {reason}"
        with pytest.raises(
            (UnsupportedError, SchemaMismatchError), match=re.escape(reason if reason is NOT_NULL else said)
        ):
            converted(array, asked=field(type_))
        with pytest.raises((UnsupportedError, SchemaMismatchError), match=r"field c\[\].*(slot 0|found 1)"):
            converted(pa.array([[slots[-1]]], pa.list_(storage)), asked=field(s.ArrayType(type_)))
        hidden = pa.StructArray.from_arrays([array], names=["v"], mask=pa.array([False] * len(good) + [True]))
        below = s.StructType([field(type_, name="v")])
        assert len(slots) == len(converted(hidden, asked=field(below)))  # under a null nothing is read
        assert reason is NOT_NULL or slots == converted(array, asked=field(type_.sqlType())).to_pylist()
