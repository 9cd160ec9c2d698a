"""Tensor columns become structs of the logical shape and of the values in its order; numpy and pyarrow are the oracles."""

import json

import numpy as np
import pyarrow as pa
import pytest
from convert_batches import batch_of, converted, option
from pyspark.sql import types as s

from spark_arrow_ipc import ipc
from spark_arrow_ipc.errors import InvalidBodyError, InvalidMetadataError, SchemaMismatchError
from spark_arrow_ipc.spark.options.read_options import ReadOptions
from spark_arrow_ipc.spark.options.values import ExtensionTypes
from spark_arrow_ipc.spark.types import arrow_to_spark

TENSOR = option(extension_types=ExtensionTypes.TENSOR)


def metadata(name, **values):
    return {"ARROW:extension:name": f"arrow.{name}_shape_tensor", "ARROW:extension:metadata": json.dumps(values)}


def of_extension(array):
    """The storage and the metadata of an array of pyarrow's own extension type, as it writes them."""
    sink = pa.BufferOutputStream()
    batch = pa.record_batch([array], ["c"])
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    with ipc.open(sink.getvalue().to_pybytes()) as reader:
        (batch,) = reader
    return batch.columns[0], dict(batch.schema.fields[0].custom_metadata)


CUBES = np.arange(3 * 2 * 3 * 4, dtype=np.int16).reshape(3, 2, 3, 4)
FIXED = [
    ("by rows", CUBES),
    ("rows and columns changed", CUBES.transpose(0, 2, 1, 3)),
    ("by columns", CUBES.transpose(0, 3, 2, 1)),
    ("one dimension", np.arange(6.0).reshape(2, 3)),
    ("no row", CUBES[:0]),
    ("unsigned", np.array([[[200, 1]]], np.uint8)),
    ("half precision", np.array([[0.5, 2]], np.float16)),
]


def dense_of(row):
    return np.array(row["data"]).reshape(row["shape"]).tolist()


@pytest.mark.parametrize("cubes", [case[1] for case in FIXED], ids=[case[0] for case in FIXED])
def test_fixed_shapes_as_pyarrow_writes_them(cubes):
    """`from_numpy_ndarray` keeps the memory and notes its order as a permutation."""
    if cubes.dtype == np.float16 or not len(cubes):
        flat = pa.FixedSizeListArray.from_arrays(pa.array(cubes.reshape(-1)), int(np.prod(cubes.shape[1:])))
        storage, pairs = flat, metadata("fixed", shape=cubes.shape[1:])
    else:
        storage, pairs = of_extension(pa.FixedShapeTensorArray.from_numpy_ndarray(cubes))
    made = converted(storage, TENSOR, metadata=pairs)
    assert [cube.tolist() for cube in cubes] == [dense_of(row) for row in made.to_pylist()]


PERMUTATIONS = [[0, 1, 2], [2, 0, 1], [1, 2, 0], [2, 1, 0]]


@pytest.mark.parametrize("permutation", PERMUTATIONS, ids=str)
def test_a_permutation_is_that_of_the_text(permutation):
    """Dimension i of the logical tensor is dimension permutation[i] of the physical one, as numpy's transpose has it.

    pyarrow 26 writes the inverse, and reads its own to another shape, where that is another permutation.
    """
    storage = pa.FixedSizeListArray.from_arrays(pa.array(CUBES.reshape(-1)), 24)
    made = converted(storage, TENSOR, metadata=metadata("fixed", shape=[2, 3, 4], permutation=permutation))
    assert [cube.transpose(permutation).tolist() for cube in CUBES] == [dense_of(row) for row in made.to_pylist()]


def test_slices_and_nulls():
    storage = pa.array([None, [1, 2, 3, 4], None, [5, None, 7, 8]], pa.list_(pa.int32(), 4)).slice(1)
    made = converted(storage, TENSOR, metadata=metadata("fixed", shape=[2, 2], permutation=[1, 0]))
    assert [[2, 2], None, [2, 2]] == [row and row["shape"] for row in made.to_pylist()]
    assert [[1, 3, 2, 4], None, [5, 7, None, 8]] == [row and row["data"] for row in made.to_pylist()]


VARIABLE = pa.struct([("data", pa.list_(pa.float32())), ("shape", pa.list_(pa.int32(), 2))])
ROWS = [
    {"data": [1, 2, 3, 4, 5, 6], "shape": [2, 3]},
    None,
    {"data": [7, 8], "shape": [1, 2]},
    {"data": [], "shape": [0, 5]},
    {"data": [6, 5, 4, 3, 2, 1], "shape": [2, 3]},
]


@pytest.mark.parametrize("permutation", [None, [0, 1], [1, 0]])
@pytest.mark.parametrize("large", [False, True])
def test_variable_shapes(permutation, large):
    storage = pa.array([{"data": [99], "shape": [1, 1]}, *ROWS], VARIABLE)
    if large:
        storage = storage.cast(pa.struct([("data", pa.large_list(pa.float32())), ("shape", pa.list_(pa.int32(), 2))]))
    extra = {} if permutation is None else {"permutation": permutation}
    made = converted(storage.slice(1), TENSOR, metadata=metadata("variable", **extra)).to_pylist()
    for row, found in zip(ROWS, made, strict=True):
        if row is None:
            assert found is None
            continue
        expected = np.array(row["data"]).reshape(row["shape"]).transpose(permutation or [0, 1])
        assert list(expected.shape) == found["shape"]
        assert expected.reshape(-1).tolist() == found["data"]


def test_the_metadata_of_the_column_are_those_of_the_logical_tensor():
    pairs = metadata("fixed", shape=[2, 3], permutation=[1, 0], dim_names=["row", "col"])
    batch = batch_of(pa.array([[1, 2, 3, 4, 5, 6]], pa.list_(pa.int8(), 6)), pairs)
    field = arrow_to_spark.spark_schema(batch.schema, TENSOR)["c"]
    assert "struct<shape:array<int>,data:array<tinyint>>" == field.dataType.simpleString()
    assert {"shape": [3, 2], "dim_names": ["col", "row"]} == json.loads(field.metadata["ARROW:extension:metadata"])
    as_array = arrow_to_spark.spark_schema(batch.schema, ReadOptions())["c"]
    assert "array<tinyint>" == as_array.dataType.simpleString()
    assert pairs["ARROW:extension:metadata"] == as_array.metadata["ARROW:extension:metadata"]


def struct_of(**types):
    return s.StructType([s.StructField(name, s.ArrayType(type_)) for name, type_ in types.items()])


def test_a_schema_of_ones_own_widens_and_leaves_out():
    storage, pairs = pa.array([[1, 2]], pa.list_(pa.int8(), 2)), metadata("fixed", shape=[2])
    wider = s.StructField("c", struct_of(data=s.LongType(), shape=s.LongType()))
    assert [{"data": [1, 2], "shape": [2]}] == converted(storage, TENSOR, asked=wider, metadata=pairs).to_pylist()
    less = s.StructField("c", struct_of(data=s.ByteType()))
    assert [{"data": [1, 2]}] == converted(storage, TENSOR, asked=less, metadata=pairs).to_pylist()


OTHER_TARGETS = [
    ("an array", s.ArrayType(s.ByteType()), r"field c: expected struct<shape:array<int>,data:array<...>> for a tensor.*found array<tinyint>"),
    ("other fields", struct_of(shape=s.IntegerType(), values=s.ByteType()), "for a tensor"),
    ("a shape of strings", struct_of(shape=s.StringType(), data=s.ByteType()), "field c.shape: expected an array<int>"),
    ("values that are no array", s.StructType([s.StructField("data", s.LongType())]), "field c.data: .* found bigint"),
    ("narrower values", struct_of(data=s.BooleanType()), r"field c.data\[\]: expected boolean, found"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("target", "says"), [case[1:] for case in OTHER_TARGETS], ids=[case[0] for case in OTHER_TARGETS]
)
def test_other_types_are_refused(target, says):
    storage, pairs = pa.array([[1, 2]], pa.list_(pa.int8(), 2)), metadata("fixed", shape=[2])
    with pytest.raises(SchemaMismatchError, match=says):
        converted(storage, TENSOR, asked=s.StructField("c", target), metadata=pairs)


BROKEN = [
    ("values of another number", [{"data": [1.0], "shape": [1, 2]}], {}, r"field c: expected a shape of the 1 values, found \[1, 2\] in slot 0"),
    ("a negative size", [None, {"data": [1.0], "shape": [-1, -1]}], {}, r"found \[-1, -1\] in slot 1"),
    ("a size that is null", [{"data": [1.0], "shape": [1, None]}], {}, r"found \[1, -1\] in slot 0"),
    ("sizes beyond all numbers", [{"data": [1.0], "shape": [2**31 - 1, 2**31 - 1]}], {}, "expected a shape of the 1 values"),
    ("another size than the uniform one", [{"data": [1.0, 2.0], "shape": [1, 2]}], {"uniform_shape": [None, 3]}, r"and the uniform shape \?x3, found \[1, 2\]"),
    ("no shape", [{"data": [1.0], "shape": None}], {}, r"field c.shape: expected no null in a tensor that is not null, found one in slot 0"),
    ("no values", [{"data": None, "shape": [0, 0]}], {}, r"field c.data: expected no null"),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "values", "says"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_rows_that_contradict_themselves_are_refused(rows, values, says):
    with pytest.raises(InvalidBodyError, match=says):
        converted(pa.array(rows, VARIABLE), TENSOR, metadata=metadata("variable", **values))


def test_broken_metadata_are_refused_with_the_column():
    with pytest.raises(InvalidMetadataError, match="field c: expected a fixed-size list of 6 elements"):
        converted(pa.array([[1, 2]], pa.list_(pa.int8(), 2)), TENSOR, metadata=metadata("fixed", shape=[2, 3]))


def test_tensors_inside_of_structs_and_lists():
    cubes = CUBES.transpose(0, 3, 2, 1)
    inner = pa.StructArray.from_arrays([pa.FixedShapeTensorArray.from_numpy_ndarray(cubes)], ["t"])
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 3], pa.int32()), inner)
    found = converted(of_extension(lists)[0], TENSOR).to_pylist()
    assert [cubes[:1].tolist(), cubes[1:].tolist()] == [[dense_of(item["t"]) for item in row] for row in found]
