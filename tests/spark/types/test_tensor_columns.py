"""The metadata of tensor columns are parsed, and refused with the column where they contradict themselves."""

import json

import pytest

from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.errors import InvalidMetadataError
from spark_arrow_ipc.spark.types.tensor_columns import FIXED, VARIABLE, TensorColumn, parse_tensor, tensor_of

VARIABLE_STORAGE = t.struct([("data", t.list_(t.float32)), ("shape", t.FixedSizeList(t.Field("item", t.int32), 2))])


def field(name, storage, values):
    text = values if isinstance(values, str) else json.dumps(values)
    return t.field("c", storage, custom_metadata={"ARROW:extension:name": name, "ARROW:extension:metadata": text})


def fixed(size, values):
    return field(FIXED, t.FixedSizeList(t.Field("item", t.int8), size), values)


def variable(values, storage=VARIABLE_STORAGE):
    return field(VARIABLE, storage, values)


SOUND = [
    ("a shape", fixed(6, {"shape": [2, 3]}), TensorColumn((2, 3))),
    ("a permutation that changes nothing", fixed(6, {"shape": [2, 3], "permutation": [0, 1]}), TensorColumn((2, 3))),
    ("a permutation", fixed(6, {"shape": [2, 3], "permutation": [1, 0]}), TensorColumn((2, 3), (1, 0))),
    ("names", fixed(6, {"shape": [2, 3], "dim_names": ["a", "b"]}), TensorColumn((2, 3), None, ("a", "b"))),
    ("no dimension", fixed(1, {"shape": []}), TensorColumn(())),
    ("no value", fixed(0, {"shape": [0, 3]}), TensorColumn((0, 3))),
    ("parts that are not known", fixed(2, {"shape": [2], "more": {}}), TensorColumn((2,))),
    ("variable, without metadata", variable(""), TensorColumn((None, None))),
    ("variable, an empty object", variable({}), TensorColumn((None, None))),
    ("variable, partly uniform", variable({"uniform_shape": [None, 3]}), TensorColumn((None, 3))),
    ("variable, null", variable({"uniform_shape": None, "permutation": [1, 0]}), TensorColumn((None, None), (1, 0))),
]


@pytest.mark.parametrize(("given", "expected"), [case[1:] for case in SOUND], ids=[case[0] for case in SOUND])
def test_metadata(given, expected):
    assert expected == tensor_of(given, "c")


@pytest.mark.parametrize(("given", "expected"), [case[1:] for case in SOUND], ids=[case[0] for case in SOUND])
def test_metadata_are_written_as_they_are_read(given, expected):
    pairs = expected.pairs(given.extension_name)
    assert expected == parse_tensor(given.extension_name, pairs["ARROW:extension:metadata"], len(expected.shape), "c")


def test_the_logical_tensor():
    tensor = TensorColumn((2, 3, 4), (2, 0, 1), ("a", "b", "c"))
    assert TensorColumn((4, 2, 3), None, ("c", "a", "b")) == tensor.logical()
    assert (24, True, "2x3x4") == (tensor.size, tensor.is_fixed, tensor.text())


DEEP = "[" * 100_000
BROKEN = [
    ("no JSON", fixed(6, "{"), "expected metadata of arrow.fixed_shape_tensor that are a JSON object, found {"),
    ("nothing", fixed(6, ""), "expected shape, a list of sizes, found nothing"),
    ("a list", fixed(6, [2, 3]), "that are a JSON object"),
    ("brackets in brackets", fixed(6, DEEP), "that are a JSON object"),
    ("no end of brackets", fixed(6, DEEP[:60_000]), "that are a JSON object"),
    ("no shape", fixed(6, {}), "expected shape, a list of sizes"),
    ("a negative size", fixed(6, {"shape": [-2, -3]}), "expected shape, a list of sizes"),
    ("a size that is true", fixed(1, {"shape": [True]}), "expected shape, a list of sizes"),
    ("a size that is null", fixed(6, {"shape": [None, 6]}), "expected shape, a list of sizes"),
    ("a huge size", fixed(6, {"shape": [2**31]}), "expected shape, a list of sizes"),
    ("65 dimensions", fixed(1, {"shape": [1] * 65}), "shape of at most 64 dimensions, found 65"),
    ("another number of values", fixed(5, {"shape": [2, 3]}), r"a fixed-size list of 6 elements, for the shape \[2, 3\], found"),
    ("another storage", field(FIXED, t.list_(t.int8), {"shape": [2]}), "a fixed-size list of 2 elements"),
    ("a permutation of others", fixed(6, {"shape": [2, 3], "permutation": [1, 2]}), "each of the dimensions 0 to 1 once"),
    ("a permutation of strings", fixed(6, {"shape": [2, 3], "permutation": ["a", 1]}), "each of the dimensions"),
    ("too few names", fixed(6, {"shape": [2, 3], "dim_names": ["a"]}), "dim_names, a list of 2 strings"),
    ("variable, another storage", variable("", t.struct([("data", t.list_(t.int8))])), "a struct of data, a list, and shape"),
    ("variable, a shape of int64", variable("", t.struct([("data", t.list_(t.int8)), ("shape", t.FixedSizeList(t.Field("item", t.int64), 2))])), "fixed-size list of int32"),
    ("variable, another number of dimensions", variable({"uniform_shape": [3]}), "uniform_shape of 2 dimensions, found 1"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "says"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_broken_metadata_are_refused(given, says):
    with pytest.raises(InvalidMetadataError, match=f"field a.c: .*{says}"):
        tensor_of(given, "a.c")


@pytest.mark.parametrize("other", [t.field("c", t.int8), field("arrow.uuid", t.int8, ""), field("my.own", t.int8, "")])
def test_other_columns_have_no_tensors(other):
    assert tensor_of(other, "c") is None
