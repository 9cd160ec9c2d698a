"""Columns are written as tensors, which pyarrow reads; a row of another shape is an error that names row and column."""

import io
import json
import re

import numpy as np
import pyarrow as pa
import pytest
from pyspark.ml.linalg import VectorUDT
from pyspark.sql import types as s
from restored_columns import spark_column, written

from spark_arrow_ipc import ipc, vectors
from spark_arrow_ipc.arrow import types as t
from spark_arrow_ipc.errors import ColumnNotFoundError, OptionError, SchemaMismatchError, UnsupportedError
from spark_arrow_ipc.spark.options.options import parse_write
from spark_arrow_ipc.spark.options.read_options import ReadOptions
from spark_arrow_ipc.spark.options.values import ExtensionTypes
from spark_arrow_ipc.spark.options.write_options import SparkWriteOptions
from spark_arrow_ipc.spark.write.batches import convert_batches
from spark_arrow_ipc.spark.write.plan import plan_write
from spark_arrow_ipc.spark.write.tensors import plan_tensors, without_annotations

FLOATS = s.ArrayType(s.FloatType())
STRUCT = s.StructType([s.StructField("shape", s.ArrayType(s.IntegerType())), s.StructField("data", FLOATS)])
ARROW_STRUCT = pa.struct([("shape", pa.list_(pa.int32())), ("data", pa.list_(pa.float32()))])


def frame(spark_type, rows, type_, metadata=None):
    schema = s.StructType([s.StructField("c", spark_type, metadata=metadata)])
    return schema, [pa.record_batch([pa.array(part, type_)], ["c"]) for part in rows]


def arrays(*rows, metadata=None):
    return frame(FLOATS, [list(rows)], pa.list_(pa.float32()), metadata)


def structs(*rows, metadata=None):
    made = [row and {"shape": row[0], "data": row[1]} for row in rows]
    return frame(STRUCT, [made], ARROW_STRUCT, metadata)


def shaped(text, **options):
    return parse_write({"tensorColumns": text, **options})


def by_pyarrow(batch, name="c"):
    """The one column of a written batch, as pyarrow reads it."""
    sink = io.BytesIO()
    ipc.write(sink, [batch])
    column = pa.ipc.open_file(sink.getvalue()).read_all().column(name).combine_chunks()
    column.validate(full=True)
    return column


def test_an_array_becomes_a_tensor_of_fixed_shape():
    column = by_pyarrow(written(*arrays([1, 2, 3, 4, 5, 6], None, [6, 5, 4, 3, 2, 1]), shaped("c:2x3")))
    assert pa.fixed_shape_tensor(pa.float32(), [2, 3]) == column.type
    assert [[[1, 2, 3], [4, 5, 6]], None, [[6, 5, 4], [3, 2, 1]]] == [
        None if tensor.as_py() is None else tensor.to_numpy().tolist() for tensor in column
    ]


def test_a_struct_becomes_a_tensor_of_fixed_shape():
    column = by_pyarrow(written(*structs(None, ([2, 2], [1, 2, 3, 4])), shaped("c:2x2")))
    assert pa.fixed_shape_tensor(pa.float32(), [2, 2]) == column.type
    assert [None, [1, 2, 3, 4]] == column.to_pylist()


def test_a_struct_becomes_a_tensor_of_variable_shape():
    batch = written(*structs(([2, 2], [1, 2, 3, 4]), None, ([0, 2], []), ([1, 2], [5, 6])), shaped("c:?x2"))
    pairs = dict(batch.schema.fields[0].custom_metadata)
    assert "arrow.variable_shape_tensor" == pairs["ARROW:extension:name"]
    assert {"uniform_shape": [None, 2]} == json.loads(pairs["ARROW:extension:metadata"])
    storage = by_pyarrow(batch)
    storage = getattr(storage, "storage", storage)
    assert pa.struct([("data", pa.list_(pa.float32())), ("shape", pa.list_(pa.int32(), 2))]) == storage.type
    assert [{"data": [1, 2, 3, 4], "shape": [2, 2]}, None, {"data": [], "shape": [0, 2]}, {"data": [5, 6], "shape": [1, 2]}] == storage.to_pylist()  # fmt: skip


METADATA = {"ARROW:extension:name": "arrow.fixed_shape_tensor", "ARROW:extension:metadata": '{"shape":[3,1],"dim_names":["a","b"]}'}  # fmt: skip


@pytest.mark.parametrize("make", [lambda: arrays([1, 2, 3], metadata=METADATA), lambda: structs(([3, 1], [1, 2, 3]), metadata=METADATA)])  # fmt: skip
def test_the_metadata_of_a_column_say_it_as_well(make):
    column = by_pyarrow(written(*make(), SparkWriteOptions()))
    assert pa.fixed_shape_tensor(pa.float32(), [3, 1], dim_names=["a", "b"]) == column.type
    assert [[1, 2, 3]] == column.to_pylist()


def test_the_option_is_stronger_than_metadata():
    assert [1, 3] == by_pyarrow(written(*arrays([1, 2, 3], metadata=METADATA), shaped("c:1x3"))).type.shape


NO_TENSORS = [
    ("a shape that is no JSON", arrays([1], metadata=METADATA | {"ARROW:extension:metadata": "{"})),
    ("another extension", arrays([1], metadata=METADATA | {"ARROW:extension:name": "my.own"})),
    ("another type by now", frame(s.LongType(), [[1]], pa.int64(), METADATA)),
    ("strings", frame(s.ArrayType(s.StringType()), [[["a", "b", "c"]]], pa.list_(pa.string()), METADATA)),
    ("a variable shape without a struct", arrays([1], metadata=METADATA | {"ARROW:extension:name": "arrow.variable_shape_tensor"})),
]  # fmt: skip


@pytest.mark.parametrize("given", [case[1] for case in NO_TENSORS], ids=[case[0] for case in NO_TENSORS])
def test_what_is_no_tensor_any_more_is_written_as_usual(given):
    batch = written(*given, SparkWriteOptions())
    assert batch.schema.fields[0].extension_name is None


CUBES = np.arange(2 * 2 * 3, dtype=np.uint8).reshape(2, 2, 3)
FIXED = t.FixedSizeList(t.Field("item", t.uint8), 6)
VARIABLE = t.struct([("data", t.list_(t.uint8)), ("shape", t.FixedSizeList(t.Field("item", t.int32), 2))])


def columns(permutation):
    """A column of tensors of uint8, of either extension, as files have them."""
    from spark_arrow_ipc.arrow.python_values import from_pylist

    extra = {} if permutation is None else {"permutation": permutation}
    flat = [cube.reshape(-1).tolist() for cube in CUBES]
    fixed = from_pylist.array([*flat, None], FIXED)
    variable = from_pylist.array([*({"data": row, "shape": [2, 3]} for row in flat), None], VARIABLE)
    names = ("ARROW:extension:name", "ARROW:extension:metadata")
    return {
        "fixed": (fixed, dict(zip(names, ("arrow.fixed_shape_tensor", json.dumps({"shape": [2, 3], **extra})), strict=True))),
        "variable": (variable, dict(zip(names, ("arrow.variable_shape_tensor", json.dumps(extra)), strict=True))),
    }  # fmt: skip


def tensors_of(batch):
    """The logical tensors of a written batch, as our reader has them."""
    array, field = batch.columns[0], batch.schema.fields[0]
    _, (made,) = spark_column(array, ReadOptions(extension_types=ExtensionTypes.TENSOR), dict(field.custom_metadata))
    return [row and np.array(row["data"]).reshape(row["shape"]).tolist() for row in made.column(0).to_pylist()]


@pytest.mark.parametrize("restore", [False, True])
@pytest.mark.parametrize("how", [ExtensionTypes.TENSOR, ExtensionTypes.CONVERT])
@pytest.mark.parametrize("permutation", [None, [1, 0]])
@pytest.mark.parametrize("kind", ["fixed", "variable"])
def test_what_was_read_is_written_as_the_same_tensors(kind, permutation, how, restore):
    array, pairs = columns(permutation)[kind]
    schema, batches = spark_column(array, ReadOptions(extension_types=how), pairs)
    if restore and permutation and how is ExtensionTypes.TENSOR:
        with pytest.raises(UnsupportedError, match=r"field c: .*extensionTypes=tensor applies permutations"):
            written(schema, batches, SparkWriteOptions(restore_types=restore))
        return
    batch = written(schema, batches, SparkWriteOptions(restore_types=restore))
    assert pairs["ARROW:extension:name"] == batch.schema.fields[0].extension_name
    expected = [cube.transpose(permutation or [0, 1]).tolist() for cube in CUBES]
    assert [*expected, None] == tensors_of(batch)
    if not (permutation and how is ExtensionTypes.TENSOR):
        assert pairs.items() <= dict(batch.schema.fields[0].custom_metadata).items()
    type_ = batch.schema.fields[0].type
    values = type_.value if isinstance(type_, t.FixedSizeList) else type_.fields[0].type.value
    assert (t.uint8 if restore else t.int16) == values.type


REFUSED = [
    ("too few values", arrays([1, 2], [1]), "c:2", r"field c: expected 2 values in each row that is not null, as the option tensorColumns says, found 1 in row 1 of this task"),
    ("too many values", arrays(None, [1] * 7), "c:2x3", r"expected 6 values \(2x3\) .* found 7 in row 1"),
    ("another shape", structs(([1, 2], [1, 2]), ([2, 1], [1, 2])), "c:1x2", r"field c: expected the shape 1x2 .*, found \[2, 1\] in row 1"),
    ("another uniform size", structs(([2, 1], [1, 2])), "c:?x2", r"expected the shape \?x2 .*, found \[2, 1\] in row 0"),
    ("values of another number", structs(None, ([2, 1], [1])), "c:?x?", r"as many values as the shape \[2, 1\] has .*, found 1 in row 1"),
    ("another number of dimensions", structs(([2], [1, 2])), "c:2x1", "expected 2 dimensions in each row .*, found 1 in row 0"),
    ("a negative size", structs(([-1, -1], [1])), "c:?x?", r"found \[-1, -1\] in row 0"),
    ("a size that is null", structs(([None, 1], [1])), "c:?x?", r"found \[-1, 1\] in row 0"),
    ("no shape", structs(None, (None, [1])), "c:1", "expected a shape in each row that is not null.*, found null in row 1"),
    ("no data", structs(([1], None)), "c:?", "expected a data in each row .*, found null in row 0"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "text", "says"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_rows_of_another_shape_are_refused(given, text, says):
    with pytest.raises(SchemaMismatchError, match=says):
        written(*given, shaped(text))


def test_rows_are_counted_over_batches():
    schema, batches = frame(FLOATS, [[[1, 2]] * 3, [[1, 2], [1]]], pa.list_(pa.float32()))
    with pytest.raises(SchemaMismatchError, match="found 1 in row 4 of this task"):
        list(convert_batches(batches, plan_write(schema, shaped("c:2")).columns))


def test_a_row_of_another_length_names_the_metadata_too():
    with pytest.raises(
        SchemaMismatchError, match=r"as the metadata of the column say \(drop them with df.withMetadata\)"
    ):
        written(*arrays([1], metadata=METADATA), SparkWriteOptions())


WRONG = [
    ("a column that does not exist", FLOATS, "d:2", ColumnNotFoundError, "d"),
    ("a position that does not exist", FLOATS, "#1:2", OptionError, "positions below 1 in the option tensorColumns, found #1"),
    ("a column twice", FLOATS, "c:2, C:2", OptionError, "names the column 'c' twice"),
    ("a number", s.LongType(), "c:2", OptionError, "'c' is bigint, and tensors of the shape 2 are written from array"),
    ("a variable shape of arrays", FLOATS, "c:?", OptionError, r"'c' is array<float>, and tensors of the shape \? are written from struct<shape"),
    ("arrays in arrays", s.ArrayType(FLOATS), "c:2", OptionError, "not numbers"),
    ("strings", s.ArrayType(s.StringType()), "c:2", OptionError, "the values of 'c' are string, not numbers"),
    ("vectors", VectorUDT(), "c:2", OptionError, "vectors of pyspark.ml with vector_to_array"),
    ("too many values", FLOATS, "c:65536x65536", OptionError, "would have 4,294,967,296 values"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("type_", "text", "error", "says"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG]
)
def test_columns_that_are_no_tensors_are_refused_before_any_task(type_, text, error, says):
    with pytest.raises(error, match=says):
        plan_write(s.StructType([s.StructField("c", type_)]), shaped(text))


def test_a_tensor_is_no_dictionary():
    with pytest.raises(OptionError, match=r"found c of the extension arrow.fixed_shape_tensor"):
        plan_write(arrays([1])[0], shaped("c:1", dictionaryColumns="c"))


def sized(**options):
    return parse_write({"fixedSizeLists": "c:3", **options})


KEY = "arrow.fixed-size-list.size"
SIZED = {
    "the option": (None, sized()),
    "the option beside a tensor's metadata": (METADATA, sized()),
    "a number in the metadata": ({KEY: 3}, SparkWriteOptions()),
    "a string in the metadata": ({KEY: "3"}, SparkWriteOptions()),
    "the option is stronger than the metadata": ({KEY: 7}, sized()),
}


@pytest.mark.parametrize("case", SIZED)
def test_an_array_becomes_a_fixed_size_list(case):
    metadata, options = SIZED[case]
    column = by_pyarrow(written(*arrays([1, 2, 3], None, [4, None, 6], metadata=metadata), options))
    assert pa.list_(pa.float32(), 3) == column.type
    assert [[1, 2, 3], None, [4, None, 6]] == column.to_pylist()


def test_vectors_of_float16_are_written_where_the_column_notes_them():
    note = vectors.metadata("float16", 768)
    rows = [[i / 8 for i in range(768)], None]
    options = parse_write({"fixedSizeLists": "c:768", "restoreTypes": "true"})
    column = by_pyarrow(written(*arrays(*rows, metadata=note), options))
    assert pa.list_(pa.float16(), 768) == column.type
    assert rows == column.to_pylist()


def by_polars(path, _):
    polars = pytest.importorskip("polars")
    frame = polars.read_ipc(path)
    assert [(768,), (768,)] == [column.dtype.shape for column in (frame["c"], frame["page"].struct.field("v"))]
    return frame.rows(named=True)


def by_lance(path, directory):
    """The nearest row of a vector, and all rows."""
    lance = pytest.importorskip("lance", reason="pylance is of the extra 'test-ecosystem'")
    lake = lance.write_dataset(pa.ipc.open_file(path).read_all(), directory / "x.lance")
    nearest = {"column": "c", "q": VECTORS[1]["c"], "k": 1}
    assert VECTORS[1:2] == lake.to_table(columns=["c", "page"], nearest=nearest).select(["c", "page"]).to_pylist()
    return lake.to_table().to_pylist()


VECTORS = [
    {"c": [row + i / 8 for i in range(768)], "page": {"v": [row - i / 8 for i in range(768)]}} for row in range(3)
]
READERS = [
    by_polars,
    lambda path, _: pa.ipc.open_file(path).read_all().to_pylist(),
    pytest.param(by_lance, marks=pytest.mark.nightly),
]


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("read", READERS, ids=["polars", "pyarrow", "lance"])
def test_stores_of_vectors_read_fixed_sizes(read, dtype, tmp_path):
    page = s.StructType([s.StructField("v", FLOATS, metadata=vectors.metadata(dtype))])
    schema = s.StructType([s.StructField("c", FLOATS, metadata=vectors.metadata(dtype)), s.StructField("page", page)])
    floats = pa.list_(pa.float32())
    batch = pa.RecordBatch.from_pylist(VECTORS, pa.schema({"c": floats, "page": pa.struct({"v": floats})}))
    options = parse_write({"fixedSizeLists": "c:768, page.v:768", "restoreTypes": "true"})
    ipc.write(tmp_path / "a.arrow", [written(schema, [batch], options)])
    made = pa.ipc.open_file(tmp_path / "a.arrow").schema
    element = pa.float16() if dtype == "float16" else pa.float32()
    assert [pa.list_(element, 768)] * 2 == [made.field("c").type, made.field("page").type.field("v").type]
    assert VECTORS == read(tmp_path / "a.arrow", tmp_path)


@pytest.mark.parametrize(("metadata", "options", "origin"), [(None, sized(), "the option fixedSizeLists says"), ({KEY: 3}, SparkWriteOptions(), f"the metadata {KEY} of the column say")])  # fmt: skip
def test_an_array_of_another_length_is_refused(metadata, options, origin):
    says = f"field c: expected 3 values in each row that is not null, as {origin}, found 2 in row 2 of this task"
    with pytest.raises(SchemaMismatchError, match=says):
        written(*arrays([1, 2, 3], None, [1, 2], metadata=metadata), options)


BELOW = s.StructType().add("v", FLOATS).add("in", s.StructType().add("w", FLOATS).add("n", s.LongType()))
PAGE = s.StructType([s.StructField("page", BELOW)])
ROWS = [
    {"v": [1, 2, 3], "in": {"w": [1, 2], "n": 1}}, None, {"v": None, "in": None}, {"v": [4, None, 6], "in": {"w": None, "n": None}}, {"v": [7, 8, 9], "in": {"w": [3, 4], "n": 5}},
]  # fmt: skip
INNER = pa.struct([("w", pa.list_(pa.float32())), ("n", pa.int64())])
STORED = pa.struct([("v", pa.list_(pa.float32())), ("in", INNER)])


@pytest.mark.parametrize("restore_types", ["false", "true"])
def test_arrays_inside_of_structs_become_fixed_size_lists(restore_types):
    options = parse_write({"fixedSizeLists": "PAGE.v:3, page.in.w:2", "restoreTypes": restore_types})
    given = pa.record_batch([pa.array(ROWS, STORED)], ["page"]).slice(1)
    column = by_pyarrow(written(PAGE, [given], options), "page")
    assert pa.list_(pa.float32(), 3) == column.type.field("v").type
    assert pa.list_(pa.float32(), 2) == column.type.field("in").type.field("w").type
    assert ROWS[1:] == column.to_pylist()


def test_an_array_of_another_length_inside_of_a_struct_is_refused():
    options = parse_write({"fixedSizeLists": "page.in.w:2"})
    given = pa.record_batch([pa.array([*ROWS, {"v": None, "in": {"w": [1], "n": 2}}], STORED)], ["page"])
    says = "field page.in.w: expected 2 values in each row that is not null, as the option fixedSizeLists says, found 1 in row 5 of this task"
    with pytest.raises(SchemaMismatchError, match=says):
        written(PAGE, [given], options)


NOT_BELOW = [
    ("page:3, page.v:3", "'page' is struct<"),
    ("page.v:3, page.V:2", "names page.V, which it or tensorColumns names before"),
    ("page.in:2", "page.in is struct<.*which only arrays of numbers"),
    ("page.in.n:2", "page.in.n is int64"),
    ("page.in:2, page.in.w:2", "page.in is struct<"),
    ("page.x:2", "'x' in 'page'|x.*page"),
    ("page.v.x:2", "page.v to be a struct"),
]


@pytest.mark.parametrize(("lists", "says"), NOT_BELOW, ids=[case[0] for case in NOT_BELOW])
def test_fields_that_are_no_lists_are_refused_before_any_task(lists, says):
    with pytest.raises((OptionError, ColumnNotFoundError), match=says):
        plan_write(PAGE, parse_write({"fixedSizeLists": lists}))


NOT_SIZED = [
    ("a number", s.LongType(), None, {"fixedSizeLists": "c:2"}, "'c' is bigint, and the option fixedSizeLists says that it is written as fixed-size lists"),
    ("a struct", STRUCT, None, {"fixedSizeLists": "c:2"}, "'c' is struct<"),
    ("strings", s.ArrayType(s.StringType()), {KEY: 2}, {}, f"'c' is array<string>, and the metadata {KEY} of the column say"),
    ("twice", FLOATS, None, {"fixedSizeLists": "c:2, C:3"}, "the option fixedSizeLists names the column 'c', which it or tensorColumns names before"),
    ("a tensor as well", FLOATS, None, {"fixedSizeLists": "c:2", "tensorColumns": "c:2"}, "which it or tensorColumns names before"),
    ("no position", FLOATS, None, {"fixedSizeLists": "#1:2"}, "positions below 1 in the option fixedSizeLists, found #1"),
    ("a length of 0", FLOATS, {KEY: 0}, {}, f"the metadata {KEY} of 'c': expected a length from 1 to 2,147,483,647, found 0"),
    ("a length that is none", FLOATS, {KEY: "x" * 1000}, {}, "expected a length from 1 to 2,147,483,647, found 'xxx"),
    ("a length of many digits", FLOATS, {KEY: "9" * 10}, {}, "expected a length from 1 to 2,147,483,647, found '99"),
    ("a length that is true", FLOATS, {KEY: True}, {}, "found True"),
]  # fmt: skip


@pytest.mark.parametrize("case", [case[1:] for case in NOT_SIZED], ids=[case[0] for case in NOT_SIZED])
def test_columns_that_are_no_lists_of_one_length_are_refused_before_any_task(case):
    type_, metadata, given, says = case
    with pytest.raises(OptionError, match=re.escape(says)):
        plan_write(s.StructType([s.StructField("c", type_, metadata=metadata)]), parse_write(given))


def test_a_column_that_is_no_array_any_more_is_written_as_usual():
    schema = s.StructType([s.StructField("c", s.LongType(), metadata={KEY: 3})])
    assert t.int64 == plan_write(schema, SparkWriteOptions()).file_schema.fields[0].type


@pytest.mark.exhaustive
def test_vectors_of_pyspark_ml_are_written_and_read(spark, tmp_path):
    """The recipe of docs/tensors.md."""
    from pyspark.ml.functions import array_to_vector, vector_to_array
    from pyspark.ml.linalg import Vectors

    frame = spark.createDataFrame([(i, Vectors.dense([i, 1.5, 2])) for i in range(5)], ["id", "features"])
    made = frame.select("id", vector_to_array("features", "float32").alias("features"))
    made.write.format("arrowipc").mode("append").option("tensorColumns", "features:3").save(str(tmp_path))
    read = spark.read.format("arrowipc").load(str(tmp_path))
    vectors = read.withColumn("features", array_to_vector("features")).orderBy("id").collect()
    assert [(i, [i, 1.5, 2]) for i in range(5)] == [(row.id, row.features.toArray().tolist()) for row in vectors]
    tensors = spark.read.format("arrowipc").option("extensionTypes", "tensor").load(str(tmp_path))
    assert [[3]] == [row.shape for row in tensors.select("features.shape").distinct().collect()]


def test_a_plan_without_tensors_is_empty():
    schema = s.StructType([s.StructField("c", s.StringType())])
    assert {} == plan_tensors(schema, (), restore_types=False)
    assert schema == without_annotations(schema, {})
